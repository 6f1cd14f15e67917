"""Where the files that a robot file names lie; nothing outside of its folder and packages is touched."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote

LEVELS_UP = 6
"""Folders above the file that are searched for a package."""
LONGEST_PATH = 4000
"""Characters of a path."""
LONGEST_FOLDER = 200
"""Characters of the name of a package."""


def find_file(name: str, robot_file: Path, packages: Mapping[str, Path]) -> tuple[Path | None, str]:
    """The existing file that a mesh or include names, or None and the reason.

    ``package://NAME/path`` is searched in ``packages``, then in the folders above the file. Other names are relative to the folder of the
    file, and may climb only as far as the package (the nearest folder above with a ``package.xml``) that it belongs to.
    """
    if len(name) > LONGEST_PATH:
        return None, f"a path of {len(name)} characters; at most {LONGEST_PATH} are read"
    folder = robot_file.resolve().parent
    if name.startswith("package://"):
        package, _, rest = name.removeprefix("package://").lstrip("/").partition("/")
        root = _package(unquote(package), folder, packages)
        if root is None:
            return None, f"the package {package!r} is not found; say where it is: packages={{{package!r}: folder}}"
        return _inside(root, root / unquote(rest), name)
    plain = unquote(name.removeprefix("file://")) if name.startswith("file://") else name
    if "://" in plain:
        return None, f"{name!r} is no file"
    root = next((f for f in (folder, *list(folder.parents)[:LEVELS_UP]) if (f / "package.xml").is_file()), folder)
    return _inside(root, folder / plain, name)


def _package(package: str, folder: Path, packages: Mapping[str, Path]) -> Path | None:
    if not package or package in (".", "..") or "\\" in package or len(package) > LONGEST_FOLDER:
        return None
    if package in packages:
        return Path(packages[package]).resolve()
    for above in (folder, *list(folder.parents)[:LEVELS_UP]):
        if above.name == package:
            return above
        if (above / package).is_dir():
            return (above / package).resolve()
    return None


def _inside(root: Path, path: Path, name: str) -> tuple[Path | None, str]:
    try:
        found = path.resolve()
        if not found.is_relative_to(root.resolve()):
            return None, f"{name!r} is outside the folder {str(root)!r}"
        if not found.is_file():
            return None, f"there is no file {str(found)!r}"
    except (OSError, ValueError, RuntimeError) as error:
        return None, f"{name!r} is not a path: {error}"
    return found, ""
