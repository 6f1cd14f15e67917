"""A study as a TOML file: system, options, variables, measures. Errors name file and line.

::

    vehicle = "quadcopter"          # or: system = "double-pendulum"
    draws = 100
    seed = 0

    [options]                       # of the flight, or of the simulation
    maneuver = "hover"
    until = 3.0
    step = 0.005

    [over]
    law = ["energy", "body"]
    delay = { from = 0.0, to = 0.1, count = 11 }
    tilt = { uniform = [0.0, 3.0] }

    [measure]
    error = "position_error"        # at the end
    worst = { of = "position_error", take = "max" }
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from heavytop import library
from heavytop._toml_lines import TomlText, read_text
from heavytop.copters import catalogue
from heavytop.errors import FileFormatError, HeavytopError
from heavytop.sweep.api import make_study
from heavytop.sweep.distributions import attitude, choice, normal, uniform
from heavytop.sweep.flight_cases import SETTINGS
from heavytop.sweep.measure import _HOW, take
from heavytop.sweep.model_cases import STRUCTURE
from heavytop.sweep.study import Study

TOP = ("vehicle", "system", "draws", "seed", "chunk", "options", "over", "measure", "title")
SYSTEM_OPTIONS = ("until", "step", "integrator", "parameters", "start", "record_every", "hold")
FLIGHT_OPTIONS = tuple(name for name in SETTINGS if name != "seed")
LONGEST = 10**8
"""Values of one range."""
RANDOM = {"normal": normal, "uniform": uniform}


@dataclass(frozen=True)
class StudyFile:
    """A study with the title of its file."""

    title: str
    study: Study
    _located: Callable[[str], FileFormatError] = field(repr=False)

    def check(self) -> None:
        """Try the first points, so that invalid values are reported with file and line before the long work begins."""
        try:
            self.study.layout  # noqa: B018
        except HeavytopError as error:
            raise self._located(str(error)) from None


class _Reader(TomlText):
    def located(self, message: str) -> FileFormatError:
        """The error of a message, at the line of the key or text that it names first."""
        places: dict[tuple[str, ...], int] = {}
        for section in ("over", "options", "measure"):
            for key, value in self.table(section).items():
                texts = [key, *(value if isinstance(value, list) else [value])]
                found = [message.find(repr(text)) for text in texts if isinstance(text, str)]
                if any(at >= 0 for at in found):
                    places[section, key] = min(at for at in found if at >= 0)
        return self.wrong(min(places, key=lambda path: places[path]) if places else (), message)

    def table(self, name: str) -> dict[str, Any]:
        value = self.content.get(name, {})
        if not isinstance(value, dict):
            raise self.wrong((name,), f"{name!r} must be a table [{name}], got {value!r}.")
        return value

    def number(self, name: str, least: int) -> int | None:
        value = self.content.get(name)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < least):
            raise self.wrong((name,), f"{name!r} must be a whole number from {least} on, got {value!r}.")
        return value

    def over(self, name: str, value: Any) -> Any:
        """Values, range or distribution of a variable."""
        path = ("over", name)
        if isinstance(value, list):
            return value
        if not isinstance(value, dict):
            raise self.wrong(
                path,
                f"{name!r} must be a list, a range {{ from = 0, to = 1, count = 11 }} or a distribution, got {value!r}.",
            )
        if set(value) <= {"from", "to", "count", "log"} and "from" in value:
            return self._range(path, value)
        kind = next((name for name in ("normal", "uniform", "choice", "attitude") if name in value), None)
        if kind is not None and set(value) <= ({"choice", "weights"} if kind == "choice" else {kind}):
            try:
                if kind == "attitude":
                    return attitude()
                if kind == "choice":
                    return choice(value["choice"], value.get("weights"))
                return RANDOM[kind](*value[kind])
            except (HeavytopError, TypeError) as error:
                raise self.wrong(path, f"{name!r}: {error}") from None
        raise self.wrong(
            path,
            f"{name!r} is neither a range {{ from, to, count }} nor one of {{ normal = [mean, deviation] }}, {{ uniform = [low, high] }}, "
            "{ choice = [...], weights = [...] }, { attitude = true }.",
        )

    def _range(self, path: tuple[str, ...], value: Mapping[str, Any]) -> np.ndarray:
        try:
            low, high, count = float(value["from"]), float(value["to"]), int(value["count"])
            if count != value["count"] or count > LONGEST or not np.isfinite([low, high]).all():
                raise ValueError
        except (KeyError, TypeError, ValueError, OverflowError):
            raise self.wrong(
                path,
                f"a range needs finite numbers from and to and a whole number count of at most {LONGEST}, got {dict(value)!r}.",
            ) from None
        if count < 1 or (value.get("log") and not 0 < low < high):
            raise self.wrong(path, "a range needs at least one value, and positive bounds in order with log = true.")
        return np.geomspace(low, high, count) if value.get("log") else np.linspace(low, high, count)

    def measure(self, name: str, value: Any) -> Any:
        path = ("measure", name)
        if isinstance(value, str):
            return take(value)
        if isinstance(value, dict) and isinstance(value.get("of"), str) and set(value) <= {"of", "take"}:
            how = value.get("take", "end")
            if not isinstance(how, str) or how not in _HOW:
                raise self.wrong(path, f"take must be one of {', '.join(_HOW)}, got {how!r}.")
            return take(value["of"], how)
        raise self.wrong(path, f"{name!r} must be a name, or {{ of = NAME, take = 'max' }}, got {value!r}.")


def read_study(text: str, name: str = "study.toml", chunk: int | None = None) -> StudyFile:
    """The study of a TOML text.

    Raises
    ------
    FileFormatError
        The text is not TOML or breaks the schema; the message names file, line and the expected value.

    Examples
    --------
    >>> made = read_study('system = "pendulum"\\n[options]\\nuntil = 1.0\\nstep = 0.01\\n[over]\\ng = [1.6, 9.81]\\n')
    >>> made.study.grid.shape
    (2,)
    """
    reader = _Reader(text, name)
    content = reader.content
    reader.check_keys(content, TOP)
    if ("vehicle" in content) == ("system" in content):
        raise reader.wrong((), "a study needs either vehicle = NAME or system = NAME.")
    kind = "vehicle" if "vehicle" in content else "system"
    if not isinstance(content[kind], str):
        raise reader.wrong((kind,), f"{kind} must be a name, got {content[kind]!r}.")
    options = dict(reader.table("options"))
    if "seed" in options:
        raise reader.wrong(("options", "seed"), "the seed belongs to the top of a study, before [options]: seed = 3.")
    reader.check_keys(options, FLIGHT_OPTIONS if kind == "vehicle" else SYSTEM_OPTIONS, ("options",))
    over = {n: reader.over(n, value) for n, value in reader.table("over").items()}
    measure = {n: reader.measure(n, value) for n, value in reader.table("measure").items()} or None
    draws, seed, own = reader.number("draws", 1), reader.number("seed", 0), reader.number("chunk", 1)
    try:
        if kind == "vehicle":
            make: Any = catalogue.load(content["vehicle"])
            options.setdefault("maneuver", "hover")
        else:
            make = library.load(content["system"]).derive()
            if isinstance(options.get("start"), list):
                options["start"] = tuple(options["start"])
    except HeavytopError as error:
        raise reader.wrong((kind,), str(error)) from None
    try:
        study = make_study(make, over, draws, seed or 0, measure, chunk=chunk or own, **options)
    except HeavytopError as error:
        raise reader.located(str(error)) from None
    return StudyFile(str(content.get("title", Path(name).stem)), study, reader.located)


def load_study(path: str | Path, chunk: int | None = None) -> StudyFile:
    """The study of a TOML file.

    Examples
    --------
    >>> load_study("missing.toml")
    Traceback (most recent call last):
    heavytop.errors.FileFormatError: cannot read the study 'missing.toml'...
    """
    return read_study(read_text(path, "study"), str(path), chunk)


def listed() -> dict[str, tuple[str, ...]]:
    """Names that a study file can use."""
    return {
        "vehicles": catalogue.names(),
        "systems": tuple(library.names()),
        "options of flights (may vary too)": tuple(SETTINGS),
        "start of flights (may vary)": ("attitude", "tilt", "heading", "coordinates such as hull.x"),
        "gains of flights (may vary)": ("position_frequency", "position_damping", "tilt_frequency", "..."),
        "options of systems": SYSTEM_OPTIONS,
        "variables of systems": ("parameters", "coordinates and velocities at the start", *STRUCTURE[:1]),
        "values": (
            "[1, 2, 3]",
            "{ from, to, count, log }",
            "{ normal = [mean, deviation] }",
            "{ uniform = [low, high] }",
            "{ choice = [...] }",
            "{ attitude = true }",
        ),
        "measures of flights": ("position_error", "attitude_error", "any coordinate, velocity, input, channel"),
        "take": tuple(_HOW),
    }
