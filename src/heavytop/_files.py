"""Files and sets of files that appear under their names only when they are complete.

Everything is written next to its place under a temporary name and then renamed. The temporary name holds the machine and the process that writes,
so that leftovers of killed processes are recognised and removed.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import re
import shutil
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from zlib import crc32

from heavytop.errors import FileFormatError

CSV = ".csv"
NETCDF = (".nc", ".nc4", ".h5", ".hdf5")
"""Suffixes of netCDF files, which are HDF5 files."""
_MACHINE = f"{crc32(platform.node().encode()):08x}"
_TEMPORARY = re.compile(rf"\..*\.{_MACHINE}-(\d+)-[0-9a-f]{{12}}\.part(\..*)?")
_EXCHANGE = {"linux": ("renameat2", -100), "darwin": ("renameatx_np", -2)}
"""System call that exchanges two folders, and its number for the current directory."""


@contextmanager
def whole_file(path: str | Path, example: str, *, mode: int = 0o666, durable: bool = True) -> Iterator[Path]:
    """Yield a temporary path to write to; on success it replaces ``path``, otherwise nothing is left behind.

    Parameters
    ----------
    example : file name suggested in the error if a folder is given.
    mode : permissions of a new file, before the user's mask.
    durable : wait until the content is on the disk before the old file is replaced.
    """
    with typed_errors(path):
        target = _target(path, example)
        _sweep_once(target.parent)
        temporary = _temporary(target.parent, target.name, target.suffix)
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL, mode))
        try:
            yield temporary
            if target.exists():
                temporary.chmod(stat.S_IMODE(target.stat().st_mode))
            if durable:
                with open(temporary, "rb+") as file:
                    os.fsync(file.fileno())
            temporary.replace(target)
        finally:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)


def write_whole(path: str | Path, content: str | bytes, example: str) -> None:
    """Write text (UTF-8) or bytes like :func:`whole_file`."""
    data = content.encode() if isinstance(content, str) else content
    with whole_file(path, example) as temporary:
        temporary.write_bytes(data)


def write_set(folder: str | Path, files: Mapping[str, str], last: str) -> list[Path]:
    """Write texts to files of one folder, which then holds the whole new set or the whole old one.

    If the folder holds no other files, a new folder replaces it in one step. Otherwise the files are replaced one by one:
    ``last`` is removed first and written at the end, so that a killed process leaves a set without that file
    and never a mixed one; an error restores the old files.

    Parameters
    ----------
    folder : created if it does not exist, with its parents.
    files : name -> text.
    last : name of the file without which the others are useless.
    """
    with typed_errors(folder):
        target = Path(folder).resolve()
        target.parent.mkdir(parents=True, exist_ok=True)
        _sweep_once(target.parent)
        alone = not target.exists() or all(entry.name in files for entry in target.iterdir())
        if not (alone and _replace_folder(target, files)):
            _replace_files(target, files, last)
    return [Path(folder) / name for name in files]


@contextmanager
def work_folder(parent: Path, label: str) -> Iterator[Path]:
    """A temporary folder in ``parent``."""
    work = _temporary(parent, label)
    work.mkdir()
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def sweep_leftovers(folder: Path) -> int:
    """Remove the temporary files and folders of processes that ended; return their number."""
    from psutil import pid_exists

    removed = 0
    with contextlib.suppress(OSError):
        for entry in folder.iterdir():
            found = _TEMPORARY.fullmatch(entry.name)
            if found and not pid_exists(int(found[1])):
                if entry.is_dir() and not entry.is_symlink():
                    shutil.rmtree(entry, ignore_errors=True)
                else:
                    entry.unlink(missing_ok=True)
                removed += 1
    return removed


@lru_cache(64)
def _sweep_once(folder: Path) -> None:
    """Once per process and folder, as a folder may hold very many files."""
    sweep_leftovers(folder)


def _temporary(folder: Path, name: str, suffix: str = "") -> Path:
    """A new path; ``name`` and ``suffix`` are cut, since the length of names is limited."""
    return folder / f".{name[:16]}.{_MACHINE}-{os.getpid()}-{os.urandom(6).hex()}.part{suffix[:16]}"


@contextmanager
def typed_errors(path: str | Path) -> Iterator[None]:
    """Turn errors of the operating system into FileFormatErrors."""
    try:
        yield
    except OSError as error:
        raise FileFormatError(f"cannot write {str(path)!r}: {error.strerror or error}.") from error
    except ValueError as error:
        if "\0" not in str(path):
            raise
        raise FileFormatError(f"{str(path)!r} is not a valid file path: {error}.") from None


def check_ending(path: str | Path, endings: tuple[str, ...], what: str, instead: str = "") -> None:
    """Raise a FileFormatError if a file name has none of the endings; :func:`whole_file` rejects folders and devices."""
    with typed_errors(path):
        target = Path(path)
        other = target.exists() and not target.is_file()
    if target.suffix.lower() not in endings and not other:
        raise FileFormatError(f"the name of {what} must end with {' or '.join(endings)}, got {str(path)!r}.{instead}")


def _target(path: str | Path, example: str) -> Path:
    """The file to write, behind links."""
    target = Path(path).resolve()
    if not target.parent.is_dir():
        parent = str(target.parent)
        missing = f"the folder {parent!r} does not exist. Create it first."
        reason = f"{parent!r} is not a folder." if target.parent.exists() else missing
        raise FileFormatError(f"cannot write {str(path)!r}: {reason}")
    if target.is_dir():
        raise FileFormatError(
            f"{str(target)!r} is a folder; give the name of a file such as {str(target / example)!r}."
        )
    if target.exists() and not target.is_file():
        raise FileFormatError(f"cannot write {str(path)!r}: it is a device or a pipe, not a file.")
    return target


def _fill(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        with open(folder / name, "wb") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())


def _replace_folder(target: Path, files: Mapping[str, str]) -> bool:
    """Replace the target by a new folder in one step; False if the operating system cannot."""
    with work_folder(target.parent, target.name) as work:
        _fill(work, files)
        if not target.exists():
            work.rename(target)
            return True
        work.chmod(stat.S_IMODE(target.stat().st_mode))
        # os.rename does not replace folders with content
        name, here = _EXCHANGE.get(sys.platform, ("", 0))
        exchange = getattr(ctypes.CDLL(None), name, None) if name else None
        return exchange is not None and exchange(here, os.fsencode(work), here, os.fsencode(target), 2) == 0


def _replace_files(target: Path, files: Mapping[str, str], last: str) -> None:
    """Replace the files one by one; an error restores the old ones."""
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
