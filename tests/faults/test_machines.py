"""Machines that native code, cache and files are not made for are refused when the package is imported."""

import pytest
from processes import finish


@pytest.mark.parametrize(
    ("machine", "word"), [("sys.byteorder = 'big'", "big-endian"), ("sys.maxsize = 2**31 - 1", "32-bit")]
)
def test_other_machines_are_refused(machine: str, word: str) -> None:
    done = finish(f"import sys; {machine}; import heavytop")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("ImportError: heavytop needs a 64-bit little-endian machine")
    assert word in done.stderr
