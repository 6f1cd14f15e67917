"""The map from columns of a log to named signals: TOML text, checked key by key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from heavytop._toml_lines import TomlText, read_text
from heavytop.errors import FileFormatError, unknown_name

UNITS: dict[str, tuple[float, str]] = {
    "": (1.0, ""),
    "1": (1.0, "1"),
    "%": (0.01, "1"),
    "m": (1.0, "m"),
    "cm": (1e-2, "m"),
    "mm": (1e-3, "m"),
    "m/s": (1.0, "m/s"),
    "cm/s": (1e-2, "m/s"),
    "km/h": (1 / 3.6, "m/s"),
    "m/s^2": (1.0, "m/s^2"),
    "g": (9.80665, "m/s^2"),
    "rad": (1.0, "rad"),
    "deg": (np.pi / 180, "rad"),
    "rad/s": (1.0, "rad/s"),
    "deg/s": (np.pi / 180, "rad/s"),
    "rpm": (2 * np.pi / 60, "rad/s"),
    "N": (1.0, "N"),
    "N m": (1.0, "N m"),
    "V": (1.0, "V"),
    "mV": (1e-3, "V"),
    "A": (1.0, "A"),
    "mA": (1e-3, "A"),
    "Pa": (1.0, "Pa"),
    "kg": (1.0, "kg"),
}
"""Unit in a map -> factor and SI unit of the dataset."""
TIME_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
FRAMES = ("ENU", "NED", "FLU", "FRD", "world")
ORDERS = ("wxyz", "xyzw")
CHOICES = {"nan": ("raise", "drop", "keep"), "jumps": ("raise", "drop")}
ATTITUDE = "attitude"
"""Signals with this in their names are quaternions."""


@dataclass(frozen=True)
class SignalMap:
    """One signal of a log.

    Attributes
    ----------
    columns : columns of one topic. topic, type : the topic by its name, or the first one with messages of a type.
    unit, scale, offset : value = offset + scale * unit * column.
    order : order of the entries of a quaternion.
    frame : ENU and FLU as in the dataset; NED and FRD are converted, "world" (of an angular velocity) is rotated to the body by the attitude.
    late : s by which the clock of the signal is late; its times are that much earlier.
    optional : whether it may be missing.

    Examples
    --------
    >>> SignalMap(("gyro_x", "gyro_y", "gyro_z"), unit="deg/s").unit
    'deg/s'
    """

    columns: tuple[str, ...]
    topic: str = ""
    type: str = ""
    unit: str = ""
    scale: float = 1.0
    offset: float = 0.0
    order: str = "wxyz"
    frame: str = ""
    late: float = 0.0
    optional: bool = False


@dataclass(frozen=True)
class LogMap:
    """A map from columns to signals; :meth:`read` reads it from TOML.

    Attributes
    ----------
    signals : name -> columns. time, time_unit : column of the time of each topic; default: that of the file.
    gap : s between samples that count as a gap; None: five times the median.
    nan : "raise", "drop" the samples, or "keep". jumps : "raise" if the time does not increase, or "drop" these samples.

    Examples
    --------
    >>> text = '[time]\\ncolumn = "t"\\nunit = "ms"\\n[signals]\\nposition = { columns = ["x", "y", "z"], unit = "mm" }'
    >>> LogMap.parse(text, "my.toml").signals["position"].unit
    'mm'
    """

    signals: Mapping[str, SignalMap]
    time: str = ""
    time_unit: str = "s"
    gap: float | None = None
    nan: str = "raise"
    jumps: str = "raise"
    name: str = field(default="", compare=False)

    @classmethod
    def read(cls, path: str | Path) -> LogMap:
        """From a TOML file."""
        return cls.parse(read_text(path, "map of a log"), str(path))

    @classmethod
    def built_in(cls, name: str) -> LogMap:
        """One of heavytop's maps: "ulog", "betaflight", "ros"."""
        return cls.parse((files("heavytop.log") / "maps" / f"{name}.toml").read_text(encoding="utf-8"), f"{name}.toml")

    @classmethod
    def parse(cls, text: str, name: str) -> LogMap:
        """From TOML text; ``name`` is that of its file in messages."""
        toml = TomlText(text, name)
        content = toml.content
        toml.check_keys(content, ("time", "signals"))
        time = content.get("time", {})
        if not isinstance(time, dict):
            raise toml.wrong(("time",), "time must be a table with column, unit, gap, nan or jumps.")
        toml.check_keys(time, ("column", "unit", "gap", "nan", "jumps"), ("time",))
        unit = time.get("unit", "s")
        if unit not in TIME_UNITS:
            raise toml.wrong(("time", "unit"), unknown_name("unit of time", str(unit), TIME_UNITS))
        for key, known in CHOICES.items():
            if time.get(key, known[0]) not in known:
                raise toml.wrong(("time", key), unknown_name(key, str(time[key]), known))
        gap = time.get("gap")
        if gap is not None and not (isinstance(gap, int | float) and gap > 0):
            raise toml.wrong(("time", "gap"), f"gap must be a positive number of seconds, got {gap!r}.")
        signals = content.get("signals", {})
        if not isinstance(signals, dict) or not signals:
            raise FileFormatError(
                f'{name}: the table [signals] is missing; for example position = {{ columns = ["x", "y", "z"] }}.'
            )
        made = {key: _signal(toml, key, value) for key, value in signals.items()}
        return cls(made, time.get("column", ""), unit, gap, time.get("nan", "raise"), time.get("jumps", "raise"), name)


def _signal(toml: TomlText, name: str, given: Any) -> SignalMap:
    at = ("signals", name)
    if not isinstance(given, dict):
        raise toml.wrong(
            at, f'{name} must be a table such as {{ columns = ["x", "y", "z"], unit = "m" }}, got {given!r}.'
        )
    toml.check_keys(given, SignalMap.__dataclass_fields__, at)
    columns = given.get("columns")
    columns = [columns] if isinstance(columns, str) else columns
    if not isinstance(columns, list) or not columns or not all(isinstance(c, str) for c in columns):
        raise toml.wrong(at, f"columns of {name} must be a list of column names, got {given.get('columns')!r}.")
    for key, known in (("unit", UNITS), ("frame", ("", *FRAMES)), ("order", ORDERS)):
        if key in given and given[key] not in known:
            raise toml.wrong((*at, key), unknown_name(f"{key} of {name}", str(given[key]), list(known)))
    for key in ("scale", "offset", "late"):
        value = given.get(key, 1.0)
        if not isinstance(value, int | float) or isinstance(value, bool) or not np.isfinite(value):
            raise toml.wrong((*at, key), f"{key} of {name} must be a finite number, got {value!r}.")
    if ATTITUDE in name and len(columns) != 4:
        raise toml.wrong(at, f"{name} is a quaternion of 4 columns, got {len(columns)}.")
    if given.get("frame") and len(columns) != (4 if ATTITUDE in name else 3):
        raise toml.wrong(at, f"{name} with a frame must have 3 columns, got {len(columns)}.")
    arguments: dict[str, Any] = given | {"columns": tuple(columns)}
    return SignalMap(**arguments)
