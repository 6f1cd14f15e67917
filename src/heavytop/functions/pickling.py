"""Pickling of objects that hold CasADi symbols: as a recipe, for another process or machine.

A recipe is a pickle of what an object was made of, without native code and without what can be computed again. Symbols cannot be
pickled one by one (two expressions of one parameter would no longer share it), so every expression below the outermost object becomes an
output of one CasADi function of all their symbols, which is written next to the pickle.
"""

from __future__ import annotations

import io
import json
import pickle
import platform
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from functools import cached_property
from types import BuiltinFunctionType, FunctionType, MappingProxyType, ModuleType
from typing import Any, Self, TypeVar

from heavytop._arrays import from_sx, is_symbolic, to_sx
from heavytop._checksum import seal, unsealed
from heavytop._version import __version__
from heavytop.errors import RecipeError

MAGIC = b"heavytop recipe 2\n"
DEEPEST = 8
"""Levels below an object that are searched for the part that cannot be pickled."""

Maker = TypeVar("Maker", bound=Callable[..., Any])


class Portable:
    """Base of objects that are pickled as a recipe. A subclass that cannot be remade from its attributes overrides :meth:`recipe`."""

    def recipe(self) -> tuple[Any, ...]:
        """How to make an equal object: a function, its arguments and, if any, the attributes to set, as ``__reduce__`` gives them."""
        return _blank, (type(self),), kept_attributes(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return unpack, (pack(self),)

    def __copy__(self) -> Self:
        made = _blank(type(self))
        vars(made).update(vars(self))
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        made = memo[id(self)] = _blank(type(self))
        vars(made).update({name: deepcopy(part, memo) for name, part in kept_attributes(self).items()})
        return made


class BoundHere:
    """Base of what holds native code or addresses of this process: its error says why it cannot be pickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        raise RecipeError(
            f"a {type(self).__name__} cannot be pickled: it is native code in the memory of this one. Send what it was made "
            "of (a traced function, a model, a study); the code is made there again, or found in the cache."
        )


def _blank(cls: type) -> Any:
    return object.__new__(cls)


def kept_attributes(value: Any) -> dict[str, Any]:
    """Attributes of an object without cached properties."""
    cls = type(value)
    return {k: v for k, v in vars(value).items() if not isinstance(getattr(cls, k, None), cached_property)}


# --- writing ----------------------------------------------------------------------------------------------------------------------


def pack(value: Any) -> bytes:
    """The recipe of an object as bytes: a line that names the format, a line of JSON, the symbols, the pickle, a checksum.

    Raises a RecipeError that names the part that cannot be pickled.
    """
    buffer = io.BytesIO()
    pickler = _pickler(buffer)
    try:
        pickler.dump(value)
    except RecipeError:
        raise
    except (pickle.PicklingError, TypeError, AttributeError, NotImplementedError, ValueError, RecursionError) as error:
        where, part = _culprit(value, "it", DEEPEST)
        raise RecipeError(
            f"{_short_repr(value)} cannot be pickled: {where} is {_short_repr(part)}. {_reason(part, error)}"
        ) from error
    table = _expressions(pickler.found)
    header = {
        "heavytop": __version__,
        "python": platform.python_version(),
        "code": pickler.code,
        "symbols": len(table),
        "what": type(value).__name__,
    }
    content = MAGIC + json.dumps(header).encode() + b"\n" + table + buffer.getvalue()
    return content + seal(content)


def _pickler(buffer: io.BytesIO) -> Any:
    try:
        from cloudpickle import Pickler as Base
    except ImportError:
        Base = pickle.Pickler

    class Writer(Base):  # pyright: ignore
        def __init__(self) -> None:
            super().__init__(buffer, protocol=5)
            self.found: list[Any] = []
            self.places: dict[int, int] = {}
            self.code = False

        def persistent_id(self, value: Any) -> Any:
            if (
                type(value) in (str, int, float, tuple, dict, list)
                or not is_symbolic(value)
                or not _is_expression(value)
            ):
                return None
            if id(value) not in self.places:
                self.places[id(value)] = len(self.found)
                self.found.append(value)
            return self.places[id(value)]

        def reducer_override(self, value: Any) -> Any:
            if isinstance(value, Portable):
                return value.recipe()
            if isinstance(value, MappingProxyType):
                return MappingProxyType, (dict(value),)
            inherited = getattr(super(), "reducer_override", None)
            how = NotImplemented if inherited is None else inherited(value)
            self.code = self.code or (isinstance(value, FunctionType) and how is not NotImplemented)
            return how

    return Writer()


def _is_expression(value: Any) -> bool:
    """Whether a value of CasADi is made of symbols; numbers and functions are pickled by CasADi."""
    import casadi

    return isinstance(value, casadi.SX) or hasattr(value, "to_casadi")


def _sx(value: Any) -> Any:
    import casadi

    if hasattr(value, "to_casadi") and len(value.shape) != 2:
        return to_sx(value)
    return casadi.SX(value.to_casadi() if hasattr(value, "to_casadi") else value)  # a matrix keeps its structural zeros


def _expressions(found: list[Any]) -> bytes:
    """All expressions as one serialised function of their symbols, with the names of these."""
    if not found:
        return b""
    import casadi

    values = [_sx(value) for value in found]
    symbols = casadi.symvar(casadi.veccat(*values))
    function = casadi.Function("recipe", symbols, values)
    shapes = [tuple(value.shape) if hasattr(value, "to_casadi") else None for value in found]
    return pickle.dumps((function.serialize(), [s.name() for s in symbols], shapes), protocol=5)


# --- reading ----------------------------------------------------------------------------------------------------------------------


def unpack(content: bytes) -> Any:
    """The object from its recipe. This runs code that the recipe names: unpack only what you trust."""
    _check_version(header_of(content)[0])
    whole = unsealed(content)
    if whole is None:  # readers of pickles and of symbols do not survive every damage
        raise RecipeError(
            "the recipe is damaged: its checksum does not match. Copy the file again, or make the object again."
        )
    header, rest = header_of(whole)
    size = header["symbols"]

    class Reader(pickle.Unpickler):
        def persistent_load(self, pid: Any) -> Any:
            return values[pid]

    values = _read_expressions(rest[:size])
    try:
        return Reader(io.BytesIO(rest[size:])).load()
    except (ImportError, AttributeError) as error:
        raise RecipeError(
            f"the recipe of a {header.get('what', 'thing')} names code that is not here: {error}. Install the module on this machine "
            "(with Dask: client.upload_file), or send it along: cloudpickle.register_pickle_by_value(module) where the recipe is made."
        ) from error
    except (pickle.UnpicklingError, EOFError) as error:
        raise RecipeError(f"the recipe is damaged: {error}.") from error


def header_of(content: bytes) -> tuple[dict[str, Any], bytes]:
    """Header of a recipe, and the rest; nothing is run."""
    if not content.startswith(MAGIC):
        raise RecipeError(f"these {len(content)} bytes are not a heavytop recipe: they must begin with {MAGIC!r}.")
    line, _, rest = content[len(MAGIC) :].partition(b"\n")
    try:
        header = json.loads(line)
        if not {"heavytop", "python", "code", "symbols"} <= header.keys():
            raise ValueError
    except (ValueError, AttributeError):
        raise RecipeError("the recipe is damaged: its header cannot be read.") from None
    return header, rest


def _read_expressions(table: bytes) -> list[Any]:
    if not table:
        return []
    import casadi

    text, names, shapes = pickle.loads(table)
    function = casadi.Function.deserialize(text)
    values = function.call([casadi.SX.sym(name) for name in names])
    return [
        sx if shape is None else casadi.ArrayInterface(sx, 2) if len(shape) == 2 else from_sx(sx, shape)
        for sx, shape in zip(values, shapes, strict=True)
    ]


def _check_version(header: Mapping[str, Any]) -> None:
    written, here = str(header["heavytop"]), __version__
    if _series(written) != _series(here):
        raise RecipeError(
            f"the recipe was written by heavytop {written}, this is heavytop {here}: recipes are only read within one series "
            f"({'.'.join(_series(here))}.x). Install the other version, or make the object again."
        )
    python = platform.python_version()
    if header["code"] and _series(str(header["python"])) != _series(python):
        raise RecipeError(
            f"the recipe carries functions as bytecode of Python {header['python']}, this is Python {python}. Use one version on "
            "all machines, or move the functions into a module that both can import."
        )


def _series(version: str) -> tuple[str, ...]:
    return tuple(version.split(".")[:2])


# --- parts that cannot be pickled -----------------------------------------------------------------------------------------------------------


def _culprit(value: Any, where: str, levels: int) -> tuple[str, Any]:
    """The smallest part of a value that cannot be packed, and the way to it."""
    if levels:
        for name, part in _parts(value):
            try:
                _pickler(io.BytesIO()).dump(part)
            except Exception:
                return _culprit(part, f"{where}{name}", levels - 1)
    return where, value


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        yield from ((f"[{key!r}]", item) for key, item in value.items())
    elif isinstance(value, list | tuple):
        yield from ((f"[{k}]", item) for k, item in enumerate(value))
    elif isinstance(value, Portable) and "_call" in vars(value):
        _, arguments, options = vars(value)["_call"]
        yield from ((f" (argument {k + 1})", item) for k, item in enumerate(arguments))
        yield from ((f" (argument {name})", item) for name, item in options.items())
    elif isinstance(value, FunctionType):
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=False):
            yield f" (its variable {name})", cell.cell_contents
    elif hasattr(value, "__dict__") and not isinstance(value, type | ModuleType):
        yield from ((f".{name}", item) for name, item in kept_attributes(value).items())


def _reason(part: Any, error: Exception) -> str:
    if isinstance(part, FunctionType | BuiltinFunctionType) and not _has_cloudpickle():
        return (
            "A function that is not at the top level of an importable module needs cloudpickle: pip install 'heavytop[cluster]', or "
            "move it into a module."
        )
    return f"{type(error).__name__}: {str(error).rstrip('.')}."


def _has_cloudpickle() -> bool:
    from importlib.util import find_spec

    return find_spec("cloudpickle") is not None


def _short_repr(value: Any) -> str:
    text = f"{type(value).__name__} {value!r}" if not isinstance(value, Portable) else repr(value)
    return text if len(text) < 90 else text[:87] + "..."
