"""Files that appear under their name only when they are complete."""

from __future__ import annotations

import os
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
    target = Path(path)
    if not target.parent.is_dir():
        raise FileFormatError(
            f"cannot write {str(target)!r}: the folder {str(target.parent)!r} does not exist. Create it first."
        )
    if target.is_dir():
        raise FileFormatError(
            f"{str(target)!r} is a folder; give the name of a file such as {str(target / example)!r}."
        )
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=f".part{target.suffix}", dir=target.parent)
    except OSError as error:
        raise FileFormatError(f"cannot write {str(target)!r}: {error.strerror or error}.") from error
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o644)
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
