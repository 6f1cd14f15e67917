"""Machines that heavytop does not run on are told so at once, not by wrong numbers later."""

from __future__ import annotations

import sys


def refuse_unsupported(byteorder: str = sys.byteorder, largest: int = sys.maxsize) -> None:
    """Raise an ImportError on 32-bit and on big-endian machines.

    Native code, its cache and the checksums of files are written for 64-bit little-endian machines and tested there only.

    >>> refuse_unsupported("little", 2**63 - 1)
    >>> refuse_unsupported("big", 2**63 - 1)
    Traceback (most recent call last):
    ImportError: heavytop needs a 64-bit little-endian machine with a 64-bit Python; this one is big-endian.
    """
    what = [] if byteorder == "little" else ["big-endian"]
    if largest < 2**32:
        what.append("32-bit")
    if what:
        raise ImportError(
            f"heavytop needs a 64-bit little-endian machine with a 64-bit Python; this one is {' and '.join(what)}."
        )
