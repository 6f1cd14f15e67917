"""Vehicles by name, and airframes from TOML files.

A file describes a hull with fixed rotors; the keys are those of the files in this folder, checked with line numbers in the messages.

>>> load("hummingbird").mass
0.5
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import resources
from pathlib import Path

from heavytop._toml_lines import read_text
from heavytop.copters.catalogue.toml_airframe import read_airframe
from heavytop.copters.loads import quadcopter_with_load, tricopter_with_load
from heavytop.copters.tricopter_detailed import tricopter_with_load_full
from heavytop.copters.vehicle import Vehicle
from heavytop.copters.vehicles import bicopter, hexacopter, octocopter, quadcopter, tricopter
from heavytop.errors import unknown_name

BUILDERS: dict[str, Callable[[], Vehicle]] = {
    builder.__name__.replace("_", "-"): builder
    for builder in (
        quadcopter, hexacopter, octocopter, tricopter, bicopter, quadcopter_with_load, tricopter_with_load, tricopter_with_load_full,
    )
}  # fmt: skip


FOLDER = resources.files("heavytop.copters.catalogue")


def airframes() -> tuple[str, ...]:
    """Names of the airframes in the catalogue of published parameters."""
    return tuple(sorted(item.name[:-5] for item in FOLDER.iterdir() if item.name.endswith(".toml")))


def names() -> tuple[str, ...]:
    """Names of all vehicles for :func:`load`."""
    return (*BUILDERS, *airframes())


def load(name: str | Path) -> Vehicle:
    """A vehicle by name, or from a TOML file.

    Parameters
    ----------
    name : one of :func:`names`, or the path of a file that ends in ".toml".

    Raises
    ------
    UnknownNameError
        No such vehicle; the message lists the names.
    FileFormatError
        The file is not readable or breaks the schema; the message names file, line and the expected value.

    Examples
    --------
    >>> load("hummingbird").name
    'hummingbird'
    """
    text = str(name)
    if text.lower().endswith(".toml"):
        return read_airframe(read_text(text, "airframe"), text)
    key = text.strip().lower().replace("_", "-")
    if key in BUILDERS:
        return BUILDERS[key]()
    if key in airframes():
        return read_airframe(FOLDER.joinpath(f"{key}.toml").read_text(encoding="utf-8"), f"{key}.toml")
    raise unknown_name("vehicle", text, names())
