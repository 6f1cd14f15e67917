"""Write a model, or a model with its law, as a functional mock-up unit: description, C sources, binary of this platform."""

from __future__ import annotations

import hashlib
import io
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import zipfile
from importlib.resources import files
from math import isfinite
from pathlib import Path
from typing import Any

from heavytop._files import check_ending, write_whole
from heavytop._format import safe_name
from heavytop.control import BaseController
from heavytop.errors import ModelError, unknown_name
from heavytop.fmi.description import FmuDescription, build_description
from heavytop.fmi.law_source import law_source
from heavytop.fmi.model_source import ModelSource, model_source
from heavytop.simulate import as_dynamics
from heavytop.system import Model

VERSIONS = ("2.0", "3.0")
FLAGS = ("-std=c99", "-Og", "-fPIC", "-shared", "-fvisibility=hidden", "-ffp-contract=off", "-fno-math-errno")
"""Straight code has little to optimise: ``-Og`` compiles it in three quarters of the time of ``-O1``, for steps that take 13 % longer."""
EPOCH = (2000, 1, 1, 0, 0, 0)
"""Time of all files in an FMU, so that equal models give equal FMUs."""


def export_fmu(
    model: Any,
    path: str | Path,
    *,
    version: str = "2.0",
    start: tuple[Any, Any] | None = None,
    step: float = 1e-3,
    control: Any = None,
    reference: Any = None,
    integrator: Any = "rkmk4",
    until: float = 10.0,
    binary: bool = True,
) -> Path:
    """Write an FMU for model exchange and co-simulation.

    States are the coordinates q, which may be redundant, and the velocities v. A co-simulation step makes steps of ``step`` with the integrator, on
    the manifold, and equals :func:`heavytop.simulate.simulate`. In model exchange the importer integrates ``q' = A(q) v``; when q is off its manifold
    by 1e-6, the FMU requests an event, in which it returns. Joint limits are event indicators and Boolean outputs. Directional derivatives are exact.

    Parameters
    ----------
    model : a derived model or a vehicle; or a law, whose FMU (for co-simulation) takes the state and the reference and makes one sample per ``step``.
    path : file name ending in ``.fmu``. version : FMI version, "2.0" or "3.0".
    start : (q, v) of the start values; default: neutral, at rest. step : s, of the integrator in co-simulation.
    control, reference : a law, and a set point that it follows; without one the reference (q_R, v_R, a_R) is the input of the FMU. A law with memory
        gives an FMU for co-simulation only.
    until : s, end of the default experiment.
    binary : whether to compile for this platform with the C compiler ``$CC`` or ``cc``; without, importers must compile the sources.

    Returns
    -------
    Path
        The file.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from zipfile import ZipFile
    >>> import heavytop as ht
    >>> with TemporaryDirectory() as folder:
    ...     fmu = ht.library.pendulum().derive().export_fmu(f"{folder}/pendulum.fmu", binary=False)
    ...     print(ZipFile(fmu).namelist())
    ...
    ['modelDescription.xml', 'sources/core.c', 'sources/fmi2.c', 'sources/model.c', 'sources/model.h']
    """
    check_ending(path, (".fmu",), "an FMU")
    if version not in VERSIONS:
        raise unknown_name("version of FMI", str(version), VERSIONS)
    for what, value in (("step", step), ("until", until)):
        if not isinstance(value, int | float) or not isfinite(value) or value <= 0:
            raise ModelError(f"{what} of an FMU must be a positive number of seconds, got {value!r}.")
    if isinstance(model, BaseController):
        source = law_source(model, float(step))
    else:
        subject = getattr(as_dynamics(model), "model", None)
        if not isinstance(subject, Model):
            raise ModelError(f"an FMU needs a derived model, a vehicle or a law, got {type(model).__name__}.")
        source = model_source(subject, start, float(step), control, reference, integrator)
    token = "{" + hashlib.sha256((source.header + source.source).encode()).hexdigest()[:32] + "}"
    identifier = safe_name(safe_name(source.name, "c"), "file")
    texts = _sources(source, version, token)
    content = {"modelDescription.xml": FmuDescription(source, version, identifier, token, float(until)).text()}
    content |= {f"sources/{name}": text for name, text in sorted(texts.items())}
    if version == "3.0":
        content["sources/buildDescription.xml"] = build_description(identifier)
    data: dict[str, bytes] = {name: text.encode() for name, text in content.items()}
    if binary:
        data[f"binaries/{_platform(version)}/{identifier}{_suffix()}"] = _compiled(texts, version)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, raw in data.items():
            archive.writestr(zipfile.ZipInfo(name, EPOCH), raw, zipfile.ZIP_DEFLATED)
    write_whole(path, buffer.getvalue(), "model.fmu")
    return Path(path)


def _sources(source: ModelSource, version: str, token: str) -> dict[str, str]:
    folder = files("heavytop.fmi") / "c"
    fixed = ("core.c", f"fmi{version[0]}.c")
    header = f'{source.header}#define MODEL_TOKEN "{token}"\n'
    texts = {name: (folder / name).read_text(encoding="utf-8") for name in fixed}
    return texts | {"model.h": header, "model.c": source.source}


def _compiled(texts: dict[str, str], version: str) -> bytes:
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise ModelError(
            "the binary of an FMU needs a C compiler (cc, or the one that $CC names), and none was found. binary=False writes an FMU with "
            "sources only."
        )
    with tempfile.TemporaryDirectory() as folder:
        for name, text in texts.items():
            Path(folder, name).write_text(text, encoding="utf-8")
        target = Path(folder, "model.bin")
        command = [*compiler.split(), *FLAGS, str(Path(folder, f"fmi{version[0]}.c")), "-o", str(target), "-lm"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise ModelError(f"{compiler} cannot compile the sources of the FMU: {done.stderr.strip()[-500:]}")
        strip = shutil.which("strip")
        if strip is not None and sys.platform != "win32":
            subprocess.run(
                [strip, "-x" if sys.platform == "darwin" else "--strip-unneeded", str(target)], capture_output=True
            )
        return target.read_bytes()


def _platform(version: str) -> str:
    """Name of the folder of the binary."""
    system = {"linux": "linux", "darwin": "darwin", "win32": "win"}.get(sys.platform, sys.platform)
    if version == "2.0":
        return f"{system}{64 if sys.maxsize > 2**32 else 32}"
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine().lower(), platform.machine().lower())
    return f"{machine}-{ {'win': 'windows'}.get(system, system) }"


def _suffix() -> str:
    return {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")
