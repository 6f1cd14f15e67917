"""Paths of files that a robot file names; nothing outside its folder and packages is opened."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote

LEVELS_UP = 6
"""Folders above the file that are searched for a package."""
LONGEST_PATH, LONGEST_PACKAGE = 4000, 200
"""Characters."""


def find_file(name: str, robot_file: Path, packages: Mapping[str, Path]) -> tuple[Path | None, str]:
    """The existing file that a mesh or include names, or None and the reason.

    ``package://NAME/path`` is searched in ``packages``, then in the folders above the file. Other names are relative to the folder of the
    file, and may climb only as far as its package (the nearest folder above with a ``package.xml``).
    """
    if len(name) > LONGEST_PATH:
        return None, f"a path of {len(name)} characters; at most {LONGEST_PATH} are read"
    folder = robot_file.resolve().parent
    above = (folder, *list(folder.parents)[:LEVELS_UP])
    if name.startswith("package://"):
        package, _, rest = name.removeprefix("package://").lstrip("/").partition("/")
        root = _package(unquote(package), above, packages)
        if root is None:
            return None, f"the package {package!r} is not found; give its folder: packages={{{package!r}: folder}}"
        return _inside(root, root / unquote(rest), name)
    plain = unquote(name.removeprefix("file://")) if name.startswith("file://") else name
    if "://" in plain:
        return None, f"{name!r} is not a file"
    root = next((path for path in above if (path / "package.xml").is_file()), folder)
    return _inside(root, folder / plain, name)


def _package(package: str, above: tuple[Path, ...], packages: Mapping[str, Path]) -> Path | None:
    if not package or package in (".", "..") or "\\" in package or len(package) > LONGEST_PACKAGE:
        return None
    if package in packages:
        return Path(packages[package]).resolve()
    for folder in above:
        if folder.name == package:
            return folder
        if (folder / package).is_dir():
            return (folder / package).resolve()
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
