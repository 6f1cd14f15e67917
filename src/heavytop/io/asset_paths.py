"""Paths of files that a robot file names; nothing outside its root and packages is opened."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from urllib.parse import unquote

from heavytop.errors import FileFormatError

LEVELS_UP = 6
"""Folders above the file that are searched for a package or a repository."""
MARKS = ("package.xml", ".git")
"""Contents of the folder of a package or repository."""
LONGEST_PATH, LONGEST_PACKAGE = 4000, 200
"""Characters."""


@dataclass(frozen=True)
class AssetPaths:
    """Finds the files that a robot file names.

    Parameters
    ----------
    file : the robot file.
    packages : package name -> folder.
    given_root : the folder inside which files are read. None: the nearest folder above with a ``package.xml`` or ``.git``; without one, the
        highest folder above, at most six levels, that is the user's own (:func:`is_own`).
    """

    file: Path
    packages: Mapping[str, str | Path] = field(default_factory=dict)
    given_root: str | Path | None = None

    def __post_init__(self) -> None:
        if self.given_root is not None and not self.folder.is_relative_to(self.root):
            raise FileFormatError(f"root must be a folder above {str(self.file)!r}, got {str(self.given_root)!r}.")

    @cached_property
    def folder(self) -> Path:
        """The folder of the file."""
        return self.file.resolve().parent

    @cached_property
    def above(self) -> tuple[Path, ...]:
        """The folder and those above it."""
        return (self.folder, *list(self.folder.parents)[:LEVELS_UP])

    @cached_property
    def root(self) -> Path:
        """The folder inside which files are read."""
        if self.given_root is not None:
            return Path(self.given_root).resolve()
        for path in self.above:
            if any((path / mark).exists() for mark in MARKS):
                return path
        own = list(takewhile(is_own, self.above))
        return own[-1] if own else self.folder

    def find(self, name: str, near: Path | None = None) -> tuple[Path | None, str]:
        """The existing file that a mesh or include names, or None and the reason.

        ``package://NAME/path`` is searched in ``packages``, then in the folders above the file. Other names are relative to the folder of the
        file or, if there is no such file, to the folder ``near``.
        """
        if len(name) > LONGEST_PATH:
            return None, f"a path of {len(name)} characters; at most {LONGEST_PATH} are read"
        if name.startswith("package://"):
            package, _, rest = name.removeprefix("package://").lstrip("/").partition("/")
            found = self._package(unquote(package))
            if found is None:
                return None, f"the package {package!r} is not found; give its folder: packages={{{package!r}: folder}}"
            return _inside(found, found / unquote(rest), name)
        plain = unquote(name.removeprefix("file://")) if name.startswith("file://") else name
        if "://" in plain:
            return None, f"{name!r} is not a file"
        found = _inside(self.root, self.folder / plain, name)
        return _inside(self.root, near / plain, name) if found[0] is None and near not in (None, self.folder) else found

    def _package(self, package: str) -> Path | None:
        if not package or package in (".", "..") or "\\" in package or len(package) > LONGEST_PACKAGE:
            return None
        if package in self.packages:
            return Path(self.packages[package]).resolve()
        for folder in self.above:
            if folder.name == package:
                return folder
            if (folder / package).is_dir():
                return (folder / package).resolve()
        return None


def is_own(folder: Path) -> bool:
    """Whether a folder belongs to the user's own tree of files: owned by the user, not writable by everyone, below the home folder if it is
    inside, and neither the root of the file system nor a folder in it."""
    try:
        state, home = folder.stat(), Path.home()
    except (OSError, RuntimeError):
        return False
    if len(folder.parts) < 3 or home.is_relative_to(folder):
        return False
    if os.name == "posix":
        return state.st_uid == os.getuid() and not state.st_mode & 0o002
    return True


def _inside(root: Path, path: Path, name: str) -> tuple[Path | None, str]:
    try:
        found = path.resolve()
        if not found.is_relative_to(root.resolve()):
            return (
                None,
                f"{name!r} is outside the folder {str(root)!r}; a folder that holds both is given by ht.load(path, root=folder)",
            )
        if not found.is_file():
            return None, f"there is no file {str(found)!r}"
    except (OSError, ValueError, RuntimeError) as error:
        return None, f"{name!r} is not a path: {error}"
    return found, ""
