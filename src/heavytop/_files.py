"""Files and sets of files that appear under their names only when they are complete.

Everything is written beside its place under a temporary name and then renamed. A temporary file is locked as long as
its process lives, so that what a killed process left behind is told from what is being written, and removed.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from heavytop.errors import FileFormatError

NETCDF = (".nc", ".nc4", ".h5", ".hdf5")
"""Endings of netCDF files, which are HDF5 files."""
_PART = ".part"
_MARK = 16
"""Characters of a file's name that its temporary name repeats: a long name stays within the limits of the disk."""


@contextmanager
def whole_file(path: str | Path, example: str, *, mode: int = 0o666, durable: bool = True) -> Iterator[Path]:
    """Write to the path it yields; on success that file takes the place of ``path``, otherwise nothing is left behind.

    Parameters
    ----------
    example : name of a file that the message proposes to whoever gives a folder.
    mode : permissions of a new file, before the user's mask.
    durable : wait until the content is on the disk before the old file is replaced.
    """
    with typed_errors(path):
        target = _target(path, example)
        _sweep_once(target.parent)
        handle, temporary = _locked_temporary(target, mode)
    try:
        with typed_errors(path):
            yield temporary
            if target.exists():
                temporary.chmod(stat.S_IMODE(target.stat().st_mode))
            if durable:
                with open(temporary, "rb+") as file:
                    os.fsync(file.fileno())
            if sys.platform == "win32":  # an open file cannot be renamed there
                os.close(handle)
                handle = -1
            temporary.replace(target)
    finally:
        if handle >= 0:
            os.close(handle)
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_whole(path: str | Path, content: str | bytes, example: str) -> None:
    """Write a text (UTF-8) or bytes as :func:`whole_file` does."""
    data = content.encode() if isinstance(content, str) else content
    with whole_file(path, example) as temporary:
        temporary.write_bytes(data)


def write_set(folder: str | Path, files: Mapping[str, str], last: str) -> list[Path]:
    """Write texts to files of one folder, which then holds the whole new set or the whole old one.

    Where the folder holds nothing else, a new folder takes its place at once. Otherwise file after file is replaced:
    ``last`` goes away first and comes back at the end, so that a process killed in between leaves a set without that file
    and never a mixed one; an error puts the old files back.

    Parameters
    ----------
    folder : made if it does not exist, with its parents.
    files : name -> text.
    last : name of the file that the others are useless without.
    """
    with typed_errors(folder):
        target = Path(folder).resolve()
        target.parent.mkdir(parents=True, exist_ok=True)
        _sweep_once(target.parent)
        alone = not target.exists() or all(entry.name in files for entry in target.iterdir())
        if not (alone and _replace_folder(target, files)):
            _replace_files(target, files, last)
    return [Path(folder) / name for name in files]


def sweep_leftovers(folder: Path) -> int:
    """Remove the temporary files and folders in ``folder`` that no living process writes; return how many."""
    removed = 0
    with contextlib.suppress(OSError):
        for entry in folder.iterdir():
            if entry.name.startswith(".") and _PART in entry.suffixes[-2:] and _abandoned(entry):
                if entry.is_dir() and not entry.is_symlink():
                    shutil.rmtree(entry, ignore_errors=True)
                else:
                    entry.unlink(missing_ok=True)
                removed += 1
    return removed


@lru_cache(64)
def _sweep_once(folder: Path) -> None:
    """Once per process and folder: a folder may hold very many files."""
    sweep_leftovers(folder)


def _hidden(name: str, suffix: str = "") -> str:
    """A new temporary name for a file or folder."""
    return f".{name[:_MARK]}.{os.urandom(6).hex()}{_PART}{suffix[:_MARK]}"


@contextmanager
def typed_errors(path: object) -> Iterator[None]:
    """Errors of the operating system as ours."""
    try:
        yield
    except OSError as error:
        raise FileFormatError(f"cannot write {str(path)!r}: {error.strerror or error}.") from error
    except (TypeError, ValueError) as error:
        if isinstance(error, FileFormatError) or (isinstance(path, str | Path) and "\0" not in str(path)):
            raise
        raise FileFormatError(f"{path!r} is not a valid file path: {error}.") from None


def check_ending(path: str | Path, endings: tuple[str, ...], what: str, instead: str = "") -> None:
    """Refuse a name that is not that of ``what``; folders and devices are refused where files are written."""
    with typed_errors(path):
        target = Path(path)
        other = target.exists() and not target.is_file()
    if target.suffix.lower() not in endings and not other:
        raise FileFormatError(f"the name of {what} must end with {' or '.join(endings)}, got {str(path)!r}.{instead}")


def _target(path: str | Path, example: str) -> Path:
    """The file that is meant; a link stays a link."""
    target = Path(path).resolve()
    if not target.parent.is_dir():
        parent = str(target.parent)
        missing = f"the folder {parent!r} does not exist. Create it first."
        raise FileFormatError(
            f"cannot write {str(path)!r}: {f'{parent!r} is not a folder.' if target.parent.exists() else missing}"
        )
    if target.is_dir():
        raise FileFormatError(
            f"{str(target)!r} is a folder; give the name of a file such as {str(target / example)!r}."
        )
    if target.exists() and not target.is_file():
        raise FileFormatError(f"cannot write {str(path)!r}: it is a device or a pipe, not a file.")
    return target


def _locked_temporary(target: Path, mode: int) -> tuple[int, Path]:
    """A new file beside the target, open and locked."""
    while True:
        temporary = target.parent / _hidden(target.name, target.suffix)
        handle = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode)
        _lock(handle)
        if os.fstat(handle).st_nlink:
            return handle, temporary
        os.close(handle)  # removed by another process before the lock was there


def _lock(handle: int) -> bool:
    """Lock an open file; False where another process has done so. Windows keeps open files from being removed."""
    if sys.platform == "win32":
        return True
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _abandoned(entry: Path) -> bool:
    """Whether the process that made a temporary file or folder is gone."""
    if sys.platform == "win32":
        return not entry.is_dir()
    handle = os.open(entry, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        return stat.S_ISREG(os.fstat(handle).st_mode) | entry.is_dir() and _lock(handle)
    finally:
        os.close(handle)


@contextmanager
def work_folder(beside: Path, label: str) -> Iterator[Path]:
    """A locked temporary folder in ``beside``."""
    work = beside / _hidden(label)
    work.mkdir()
    handle = -1
    try:
        if sys.platform != "win32":
            handle = os.open(work, os.O_RDONLY)
            _lock(handle)
        yield work
    finally:
        if handle >= 0:
            os.close(handle)
        shutil.rmtree(work, ignore_errors=True)


def _fill(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        with open(folder / name, "wb") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())


def _replace_folder(target: Path, files: Mapping[str, str]) -> bool:
    """Put a new folder in the place of the target, in one step; False where the operating system has no such step."""
    with work_folder(target.parent, target.name) as work:
        _fill(work, files)
        if target.exists():
            work.chmod(stat.S_IMODE(target.stat().st_mode))
            exchange = _exchange()
            return exchange is not None and exchange(work, target)  # the old folder is removed under its new name
        work.rename(target)
        return True


def _exchange() -> Callable[[Path, Path], bool] | None:
    """The system call that exchanges two folders, where there is one."""
    name, flag, start = {"linux": ("renameat2", 2, -100), "darwin": ("renameatx_np", 2, -2)}.get(
        sys.platform, ("", 0, 0)
    )
    call = getattr(ctypes.CDLL(None), name, None) if name else None
    if call is None:
        return None
    return lambda one, other: call(start, os.fsencode(one), start, os.fsencode(other), flag) == 0


def _replace_files(target: Path, files: Mapping[str, str], last: str) -> None:
    """Replace file after file; an error puts the old ones back."""
    target.mkdir(exist_ok=True)
    _sweep_once(target)
    with work_folder(target, "set") as work:
        _fill(work, files)
        old = work / "old"
        old.mkdir()
        order = [last, *(name for name in files if name != last)]
        kept: list[str] = []
        try:
            for name in order:
                if (target / name).exists():
                    (target / name).rename(old / name)
                    kept.append(name)
            for name in reversed(order):
                (work / name).rename(target / name)
        except OSError:
            for name in reversed(order):
                (target / name).unlink(missing_ok=True)
                if name in kept:
                    (old / name).rename(target / name)
            raise
