"""Recipes: files of pickled objects, readable by the same series of heavytop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from heavytop._files import whole_file
from heavytop.errors import FileFormatError, RecipeError
from heavytop.functions import header_of, pack, unpack


def save_recipe(value: Any, path: str | Path) -> None:
    """Write the recipe of a system, model, law, reference, vehicle or a collection of them; the file appears when it is complete.

    Examples
    --------
    >>> import heavytop as ht, tempfile, os
    >>> folder = tempfile.TemporaryDirectory()
    >>> file = os.path.join(folder.name, "top.recipe")
    >>> save_recipe(ht.library.load("heavy-top"), file)
    >>> load_recipe(file, trust=True).name
    'heavy top'
    """
    content = pack(value)
    with whole_file(path, "system.recipe") as temporary:
        temporary.write_bytes(content)


def load_recipe(path: str | Path, *, trust: bool = False) -> Any:
    """Read an object from its recipe.

    Parameters
    ----------
    path : a file of :func:`save_recipe`.
    trust : True if you know the origin of the file: reading a recipe, like every pickle, runs code that the file names.

    Raises
    ------
    RecipeError
        ``trust`` is False, or the recipe belongs to another series of heavytop (or, if it carries functions, of Python).

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import heavytop as ht
    >>> with TemporaryDirectory() as folder:
    ...     save_recipe(ht.library.heavy_top(), f"{folder}/top.recipe")
    ...     print(load_recipe(f"{folder}/top.recipe", trust=True).name)
    ...
    heavy top
    """
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise FileFormatError(f"cannot read {str(path)!r}: {error.strerror or error}.") from error
    header, _ = header_of(content)
    if trust is not True:
        raise RecipeError(
            f"{str(path)!r} is the recipe of a {header.get('what', 'thing')}, and reading it runs code that the file names. If you trust "
            "its origin: load_recipe(path, trust=True)."
        )
    return unpack(content)
