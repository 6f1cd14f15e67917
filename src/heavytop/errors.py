"""Typed errors. Each message says what was expected, what came, where, and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

_FEW = 4
"""Entries of a body or joint that a question lists."""


class HeavytopError(Exception):
    """Base class of every error that heavytop raises on purpose."""


class ShapeError(HeavytopError, ValueError):
    """An array has the wrong shape or holds a value that is not finite."""


class ModelError(HeavytopError, ValueError):
    """A description that no mechanical system has (names, graph, inertia, joints, coordinates)."""


class UnknownNameError(ModelError, KeyError):
    """A name that was never declared."""

    def __str__(self) -> str:  # KeyError would show the repr
        return str(self.args[0]) if self.args else ""


class ConfigurationError(HeavytopError, ValueError):
    """A configuration ``q`` that is off its manifold, or that the operation cannot take."""


class SimulationError(HeavytopError, RuntimeError):
    """A simulation that cannot start or cannot go on."""


class ControlError(HeavytopError, ValueError):
    """A prototype, limit or reference for which no control law exists."""


class PlanError(HeavytopError, ValueError):
    """A motion that cannot be planned as it is described, or that no motion fulfils."""


class CompileError(HeavytopError, RuntimeError):
    """Native code could not be made or loaded."""


class FileFormatError(HeavytopError, ValueError):
    """A file whose content is not what its format demands."""


class RecipeError(HeavytopError, ValueError):
    """An object that cannot travel to another process, or a recipe that cannot be read here."""


class SweepError(HeavytopError, ValueError):
    """A sweep that cannot be made, or a store that does not belong to it."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The question that ends a message about a name: the nearest known one, the first entries of what is named, or nothing if none is near.

    >>> did_you_mean("axsi", ["origin", "axis"])
    " Did you mean 'axis'?"
    >>> did_you_mean("ankel", ["g", "ankle.angle", "ankle.rate"])
    " Did you mean 'ankle.angle' or 'ankle.rate'?"
    >>> did_you_mean("accel", ["mass_matrix", "acceleration"])
    " Did you mean 'acceleration'?"
    """
    if not isinstance(name, str):
        return ""  # whoever asks tells what came
    names = [n for n in known if isinstance(n, str)]
    owners = [] if "." in name else [n.rpartition(".")[0] for n in names if "." in n]
    first = [*(n for n in names if "." not in n), *owners] if owners else names
    near = get_close_matches(name, first, n=1) or get_close_matches(name, names, n=1)
    begun = [n for n in names if len(name) > 2 and n.lower().startswith(name.lower())]
    if not near and not begun:
        return ""
    found = begun if not near else near if near[0] in names else [n for n in names if n.startswith(f"{near[0]}.")]
    shown = [repr(n) for n in found[:_FEW]]
    if len(found) > _FEW:
        return f" Did you mean {', '.join(shown)}, ...?"
    return f" Did you mean {' or '.join(filter(None, (', '.join(shown[:-1]), shown[-1])))}?"


def unknown_name(kind: str, name: str, known: Iterable[str]) -> UnknownNameError:
    """The error for an undeclared name, with the nearest declared ones.

    >>> str(unknown_name("body", "hul", ["world", "hull"]))
    "unknown body 'hul'. Did you mean 'hull'? Known: 'world', 'hull'."
    """
    names = list(known)
    declared = ", ".join(repr(n) for n in names) if names else "none"
    return UnknownNameError(f"unknown {kind} {name!r}.{did_you_mean(name, names)} Known: {declared}.")


def wrong_shape(what: str, expected: Sequence[int | str], got: Sequence[int], hint: str = "") -> ShapeError:
    """The error for an array whose trailing shape is not the expected one.

    >>> str(wrong_shape("velocity v of 'quad'", ("...", 6), (7,)))
    "velocity v of 'quad' must have shape (..., 6), got (7,)."
    """
    shape = "(" + ", ".join(str(n) for n in expected) + ("," if len(expected) == 1 else "") + ")"
    message = f"{what} must have shape {shape}, got {tuple(got)}."
    return ShapeError(f"{message} {hint}".rstrip())
