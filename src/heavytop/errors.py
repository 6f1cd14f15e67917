"""Typed errors. Each message states the expectation, the given value, its place, and a remedy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from importlib.util import find_spec

_FEW = 4
"""Most names in a suggestion."""


class HeavytopError(Exception):
    """Base class of every error that heavytop raises on purpose."""


class ShapeError(HeavytopError, ValueError):
    """An array has the wrong shape or holds a value that is not finite."""


class ModelError(HeavytopError, ValueError):
    """An impossible description of a mechanical system (names, graph, inertia, joints, coordinates)."""


class UnknownNameError(ModelError, KeyError):
    """An undeclared name."""

    def __str__(self) -> str:  # KeyError would show the repr
        return str(self.args[0]) if self.args else ""


class ConfigurationError(HeavytopError, ValueError):
    """A configuration ``q`` that is off its manifold or invalid for the operation."""


class SimulationError(HeavytopError, RuntimeError):
    """A simulation that cannot start or continue."""


class ControlError(HeavytopError, ValueError):
    """A prototype, limit or reference for which no control law exists."""


class PlanError(HeavytopError, ValueError):
    """A contradictory or infeasible planning problem."""


class CompileError(HeavytopError, RuntimeError):
    """Native code could not be built or loaded."""


class FileFormatError(HeavytopError, ValueError):
    """A file that cannot be read or written, or that violates its format."""


class RecipeError(HeavytopError, ValueError):
    """An object that cannot be pickled, or a recipe that cannot be read."""


class IdentificationError(HeavytopError, ValueError):
    """Logs from which the requested parameters cannot be identified, or a contradictory request."""


class SweepError(HeavytopError, ValueError):
    """An impossible sweep, or a store that belongs to another sweep."""


class MissingPackageError(HeavytopError, ImportError):
    """A package of an extra that is not installed."""


EXTRAS: dict[str, tuple[str, ...]] = {"plot": ("matplotlib",), "data": ("xarray", "pandas", "h5netcdf")}


def require_extra(extra: str, purpose: str) -> None:
    """Raise a MissingPackageError if a package of an extra is not installed.

    >>> require_extra("plot", "a figure")
    """
    missing = [name for name in EXTRAS[extra] if find_spec(name) is None]
    if missing:
        raise MissingPackageError(
            f"{purpose} needs the package {missing[0]!r}, which is not installed: pip install 'heavytop[{extra}]'."
        )


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The suggestion at the end of a message about a name: the closest known name or the first entries of that body; empty if none is close.

    >>> did_you_mean("axsi", ["origin", "axis"])
    " Did you mean 'axis'?"
    >>> did_you_mean("ankel", ["g", "ankle.angle", "ankle.rate"])
    " Did you mean 'ankle.angle' or 'ankle.rate'?"
    >>> did_you_mean("accel", ["mass_matrix", "acceleration"])
    " Did you mean 'acceleration'?"
    """
    if not isinstance(name, str):
        return ""
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
    """The error for an undeclared name, with the closest declared ones.

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
