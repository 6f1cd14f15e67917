"""``modelDescription.xml`` of both versions of FMI."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from xml.sax.saxutils import quoteattr

import numpy as np

from heavytop._version import __version__
from heavytop.fmi.model_source import ModelSource, Variables

BASE: Mapping[str, Mapping[str, int]] = {
    "m": {"m": 1},
    "s": {"s": 1},
    "kg": {"kg": 1},
    "rad": {"rad": 1},
    "A": {"A": 1},
    "N": {"kg": 1, "m": 1, "s": -2},
    "J": {"kg": 1, "m": 2, "s": -2},
    "W": {"kg": 1, "m": 2, "s": -3},
    "Pa": {"kg": 1, "m": -1, "s": -2},
    "V": {"kg": 1, "m": 2, "s": -3, "A": -1},
    "Hz": {"s": -1},
    "1": {},
}
INDEPENDENT = {"name": "time", "valueReference": 0, "causality": "independent", "variability": "continuous"}


def exponents(unit: str) -> dict[str, int] | None:
    """Exponents of the base units of a unit such as ``"N m"`` or ``"rad/s^2"``; None if it is not known.

    >>> exponents("rad/s^2"), exponents("furlong")
    ({'rad': 1, 's': -2}, None)
    """
    found: dict[str, int] = {}
    for sign, part in zip((1, -1), unit.split("/"), strict=False):
        for token in part.split():
            match = re.fullmatch(r"([A-Za-z]+|1)(?:\^(-?\d+))?", token)
            if match is None or match[1] not in BASE:
                return None
            for base, n in BASE[match[1]].items():
                found[base] = found.get(base, 0) + sign * n * int(match[2] or 1)
    return {base: n for base, n in found.items() if n} if unit.count("/") <= 1 else None


class FmuDescription:
    """The description of one FMU.

    Parameters
    ----------
    source : its variables. version : "2.0" or "3.0". identifier : name of its binary. token : by which the binary recognises it.
    """

    def __init__(self, source: ModelSource, version: str, identifier: str, token: str, until: float) -> None:
        self.source, self.version, self.identifier, self.token, self.until = source, version, identifier, token, until
        self.real = "Real" if version == "2.0" else "Float64"

    def text(self) -> str:
        """The XML text."""
        parts = [self._interface(), self._units(), self._experiment(), self._variables(), self._structure()]
        token = "guid" if self.version == "2.0" else "instantiationToken"
        head = {
            "fmiVersion": self.version, "modelName": self.source.name, token: self.token, "generationTool": f"heavytop {__version__}",
            "description": f"Equations of motion of {self.source.name}", "variableNamingConvention": "flat",
        }  # fmt: skip
        if self.version == "2.0":
            head["numberOfEventIndicators"] = str(len(self.source.limits))
        return '<?xml version="1.0" encoding="UTF-8"?>\n' + _element(
            "fmiModelDescription", head, [line for part in parts for line in part]
        )

    def _interface(self) -> list[str]:
        common: dict[str, Any] = {"modelIdentifier": self.identifier}
        if self.version == "2.0":
            common |= {
                "canGetAndSetFMUstate": True,
                "canSerializeFMUstate": True,
                "providesDirectionalDerivative": True,
            }
            files = [_element("SourceFiles", {}, [_element("File", {"name": "fmi2.c"})])]
            exchange, steps = (
                {"completedIntegratorStepNotNeeded": False},
                {"canHandleVariableCommunicationStepSize": True},
            )
        else:
            common |= {
                "canGetAndSetFMUState": True,
                "canSerializeFMUState": True,
                "providesDirectionalDerivatives": True,
            }
            files = []
            exchange = {"needsCompletedIntegratorStep": True}
            steps = {"canHandleVariableCommunicationStepSize": True, "fixedInternalStepSize": self.source.step}
        made = [_element("ModelExchange", common | exchange, files)] if self.source.continuous else []
        return [*made, _element("CoSimulation", common | steps, files)]

    def _units(self) -> list[str]:
        source = self.source
        every = [u for group in (source.states, source.inputs, source.outputs) for u in group.units]
        known = [
            u
            for u in dict.fromkeys([*every, *(rate_unit(u) for u in source.states.units), "s"])
            if u and exponents(u) is not None
        ]
        units = [_element("Unit", {"name": u}, [_element("BaseUnit", exponents(u) or {})]) for u in known]
        return [_element("UnitDefinitions", {}, units)]

    def _experiment(self) -> list[str]:
        return [_element("DefaultExperiment", {"startTime": 0.0, "stopTime": self.until, "stepSize": self.source.step})]

    # --- variables ----------------------------------------------------------------------------------------------------------

    def entries(self) -> Iterator[dict[str, Any]]:
        """The attributes of all variables, in the order of their value references."""
        s, vr = self.source, 1
        yield dict(INDEPENDENT) | {"unit": "s"}
        for name, unit, start in _of(s.states):
            yield {
                "name": name,
                "causality": "output",
                "variability": "continuous",
                "initial": "exact",
                "unit": unit,
                "start": start,
            }
        for k, (name, unit, _) in enumerate(_of(s.states)):
            yield {
                "name": f"der({name})",
                "causality": "local",
                "variability": "continuous",
                "unit": rate_unit(unit),
                "derivative": vr + k,
            }
        for name, unit, start in _of(s.inputs):
            yield {"name": name, "causality": "input", "variability": "continuous", "unit": unit, "start": start}
        for name, unit, start in _of(s.parameters):
            yield {
                "name": name,
                "causality": "parameter",
                "variability": "tunable",
                "initial": "exact",
                "unit": unit,
                "start": start,
            }
        for name, unit, _ in _of(s.outputs):
            yield {"name": name, "causality": "output", "variability": "continuous", "unit": unit}
        for name in s.limits:
            yield {"name": f"indicator of {name}", "causality": "local", "variability": "continuous"}
        for name in s.limits:
            yield {"name": name, "causality": "output", "variability": "discrete", "boolean": True}

    def _variables(self) -> list[str]:
        lines, taken = [], set()
        for number, entry in enumerate(self.entries()):
            entry = {k: v for k, v in entry.items() if k not in ("unit",) or (v and exponents(v) is not None)}
            while entry["name"] in taken:
                entry["name"] += "'"
            taken.add(entry["name"])
            entry["valueReference"] = number
            kind = "Boolean" if entry.pop("boolean", False) else self.real
            if self.version == "3.0":
                lines.append(_element(kind, entry))
                continue
            own = {k: entry.pop(k) for k in ("unit", "start", "derivative") if k in entry}
            if "derivative" in own:
                own["derivative"] += 1  # an index that counts from 1
            lines.append(_element("ScalarVariable", entry, [_element(kind, own)]))
        return [_element("ModelVariables", {}, lines)]

    def _structure(self) -> list[str]:
        s = self.source
        states, outputs = len(s.states), len(s.outputs)
        first_y = 1 + 2 * states + len(s.inputs) + len(s.parameters)
        flags = range(first_y + outputs + len(s.limits), first_y + outputs + 2 * len(s.limits))
        out = [*range(1, 1 + states), *range(first_y, first_y + outputs), *flags]
        rates = list(range(1 + states, 1 + 2 * states))
        unknown = [*rates, *range(first_y, first_y + outputs), *flags]
        if self.version == "2.0":
            groups = (("Outputs", out), ("Derivatives", rates), ("InitialUnknowns", sorted(unknown)))
            inner = [
                _element(label, {}, [_element("Unknown", {"index": vr + 1}) for vr in group])
                for label, group in groups
                if group
            ]
            return [_element("ModelStructure", {}, inner)]
        indicators = range(first_y + outputs, first_y + outputs + len(s.limits))
        groups = (
            ("Output", out),
            ("ContinuousStateDerivative", rates),
            ("InitialUnknown", sorted(unknown)),
            ("EventIndicator", list(indicators)),
        )
        return [
            _element(
                "ModelStructure",
                {},
                [_element(label, {"valueReference": vr}) for label, group in groups for vr in group],
            )
        ]


def rate_unit(unit: str) -> str:
    """The unit of a rate.

    >>> rate_unit("m/s"), rate_unit("rad"), rate_unit("")
    ('m/s^2', 'rad/s', '')
    """
    if not unit or exponents(unit) is None:
        return ""
    if unit == "1":
        return "1/s"
    return unit.replace("/s", "/s^2") if unit.endswith("/s") else "" if "/" in unit else f"{unit}/s"


def build_description(identifier: str) -> str:
    """``buildDescription.xml`` of FMI 3.0."""
    files = [_element("SourceFileSet", {"language": "C99"}, [_element("SourceFile", {"name": "fmi3.c"})])]
    configuration = _element("BuildConfiguration", {"modelIdentifier": identifier}, files)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + _element(
        "fmiBuildDescription", {"fmiVersion": "3.0"}, [configuration]
    )


def _of(variables: Variables) -> Iterator[tuple[str, str, float]]:
    yield from zip(variables.names, variables.units, np.asarray(variables.start).tolist(), strict=True)


def _element(tag: str, attributes: Mapping[str, Any], content: list[str] | None = None) -> str:
    shown = " ".join(f"{name}={quoteattr(_shown(value))}" for name, value in attributes.items())
    opening = f"<{tag} {shown}".rstrip()
    if not content:
        return f"{opening}/>"
    inner = "\n".join("  " + line for text in content for line in text.splitlines())
    return f"{opening}>\n{inner}\n</{tag}>"


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value) if isinstance(value, float) else str(value)
