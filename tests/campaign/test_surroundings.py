"""The shell where nothing is as usual: homes, caches, encodings, folders, names, outputs that are closed or full."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from processes import environment

if os.name != "posix":
    pytest.skip("names and devices of POSIX", allow_module_level=True)

RUN = ("simulate", "pendulum", "--until", "1")
FILE = """import heavytop as ht
system = ht.System(name="p")
system.body("rod", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=(0, 0, -1)))
"""
LONG = "/".join(["d" * 200] * 25)
VARIABLES = [
    *({"HOME": home} for home in (None, "", "/proc", "/dev/null", "rel")),
    *({"HEAVYTOP_CACHE": place} for place in ("/proc/x", "/dev/null", "~nobody known/x", "a" * 300, "a/" * 3000, "file.py", "\udcff", " ")),
    *({"HEAVYTOP_NATIVE": value} for value in ("", "yes", "0", "\udcff")),
    *({"LC_ALL": value} for value in ("C", "de_DE.UTF-8", "xx_YY")),
    {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
    {"TMPDIR": "/no/where"},
    {"COLUMNS": "1"},
    {"COLUMNS": "x"},
    {"TERM": "dumb"},
    {"TZ": "no/zone"},
    {"OMP_NUM_THREADS": "-3"},
    {"PATH": ""},
]  # fmt: skip
COMMANDS: list[tuple[str | bytes, ...]] = [
    ("simulate", b"m\xff\xfe.py", "--until", "1"),
    ("derive", b"m\xff\xfe.py"),
    (*RUN, "--out", b"o\xff.nc", "--page", b"o\xff.html"),
    ("export", "pendulum", b"o\xff"),
    *((command, b"no/\xff\xfe.toml") for command in ("simulate", "sweep", "plan", "fly")),
    (*RUN, "--out", LONG + "/x.nc"),
    (*RUN, "--page", LONG + "/x.html"),
    ("export", "pendulum", LONG),
    *((command, LONG + ".toml") for command in ("simulate", "sweep", "plan")),
    ("fly", "quadcopter", "x" * 100_000),
]
OUTPUTS = [">/dev/full", ">&-", ">&- 2>&- <&-", "| head -c 1", "| true"]


def ended(command: list[str | bytes] | str, folder: Path, variables: dict[str, str | None]) -> str:
    """What is wrong with the end of a command; nothing where it is a result or a message."""
    found = {name: value for name, value in {**environment(), **variables}.items() if value is not None}
    done = subprocess.run(command, env=found, cwd=folder, capture_output=True, shell=isinstance(command, str))
    text = (done.stdout + done.stderr).decode(errors="replace")
    fine = done.returncode in (0, 1, 2) and "Traceback" not in text and "Exception ignored" not in text
    return "" if fine else f"{variables} {command!r:.200}: exit {done.returncode}: {text[-300:]}"


def test_surroundings(tmp_path: Path, record, size) -> None:
    (tmp_path / "file.py").write_text(FILE)
    try:
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/m\xff\xfe.py")).write_text(FILE)
    except OSError:
        pytest.skip("this disk takes names in UTF-8 only")
    start: list[str | bytes] = [sys.executable, "-m", "heavytop"]
    tried: list[tuple[list[str | bytes] | str, dict[str, str | None]]] = []
    tried += [
        ([*start, *(("derive", "furuta") if "ENCODING" in str(v) or "LC" in str(v) else RUN)], dict(v))
        for v in VARIABLES
    ]
    tried += [([*start, *command], {}) for command in COMMANDS]
    for arguments in ("--help", "derive furuta", "simulate --list", "sweep --help", " ".join(RUN)):
        tried += [(f"{sys.executable} -m heavytop {arguments} {output}", {}) for output in OUTPUTS]
    tried += [
        (f"mkdir gone; cd gone; rmdir ../gone; {sys.executable} -m heavytop {' '.join(RUN)}{more}", {})
        for more in ("", " --out x.nc")
    ]
    chosen = tried if size(1, 0) else tried[::9]
    record(
        "commands in odd surroundings",
        len(chosen),
        [wrong for what, variables in chosen if (wrong := ended(what, tmp_path, variables))],
    )
