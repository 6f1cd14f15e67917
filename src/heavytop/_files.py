"""Files that appear under their name only when they are complete."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from heavytop.errors import FileFormatError


@contextmanager
def whole_file(path: str | Path, example: str) -> Iterator[Path]:
    """Write to the path it yields; on success that file takes the place of ``path``, otherwise nothing is left behind.

    ``example`` is the name of a file that the message proposes to whoever gives a folder.
    """
    try:
        target = Path(path).resolve()  # a link stays a link
    except (TypeError, ValueError, OSError) as error:
        raise FileFormatError(f"{path!r} is no path of a file: {error}.") from None
    if not target.parent.is_dir():
        parent = str(target.parent)
        missing = f"the folder {parent!r} does not exist. Create it first."
        raise FileFormatError(
            f"cannot write {str(path)!r}: {f'{parent!r} is no folder.' if target.parent.exists() else missing}"
        )
    if target.exists() and not target.is_file() and not target.is_dir():
        raise FileFormatError(f"cannot write {str(path)!r}: it is a device or a pipe, not a file.")
    if target.is_dir():
        raise FileFormatError(
            f"{str(target)!r} is a folder; give the name of a file such as {str(target / example)!r}."
        )
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=f".part{target.suffix}", dir=target.parent)
    except OSError as error:
        raise FileFormatError(f"cannot write {str(path)!r}: {error.strerror or error}.") from error
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(_mode(target))
        temporary.replace(target)
    except OSError as error:
        raise FileFormatError(f"cannot write {str(path)!r}: {error.strerror or error}.") from error
    finally:
        temporary.unlink(missing_ok=True)


def _mode(target: Path) -> int:
    """Permissions of the file that is replaced, or those of a new one."""
    if target.exists():
        return stat.S_IMODE(target.stat().st_mode)
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
