"""Feasibility of a reference: required inputs, missing forces, exceeded limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from heavytop._arrays import finite_matrix
from heavytop._format import counted
from heavytop.control.limits.thrust_sector import Sector, TiltLimits
from heavytop.errors import ControlError
from heavytop.ocp import Limits, input_bounds

if TYPE_CHECKING:
    from heavytop.control.references.reference import Reference
    from heavytop.system import Model

SLACK = 1e-9
"""Share of an input's range, or of its size, that counts as rounding."""


class Exceeded(NamedTuple):
    """An exceeded limit at its worst time.

    Attributes
    ----------
    inputs : their names. what : the limited quantity as text. time : s. value, bound : required and allowed value.

    Examples
    --------
    >>> str(Exceeded(("thrust0",), "'thrust0'", 1.5, 7.0, 6.0))
    "'thrust0' needs 7 at t = 1.5 s, 1 beyond its bound 6"
    """

    inputs: tuple[str, ...]
    what: str
    time: float
    value: float
    bound: float

    @property
    def by(self) -> float:
        """Excess."""
        return abs(self.value - self.bound)

    def __str__(self) -> str:
        return f"{self.what} needs {self.value:.4g} at t = {self.time:.4g} s, {self.by:.4g} beyond its bound {self.bound:.4g}"


@dataclass(frozen=True)
class Feasibility:
    """Inputs required by a reference and the residual.

    Attributes
    ----------
    times : (n,) s. inputs : (n, nu) least-squares inputs. residual : (n, nv) generalised force that no input supplies.
    lower, upper : (nu,) range of each input. largest_residual : largest entry of the residual.
    outside : names of inputs beyond their limits. exceeded : the exceeded limits.
    sizes : (n, nv) of the forces of the motion, to which the residual is compared; None: 1 N or N m.

    Examples
    --------
    >>> report = Feasibility(("thrust",), np.zeros(2), np.ones((2, 1)), np.zeros((2, 1)), ())
    >>> report.names, report.outside
    (('thrust',), ())
    """

    names: tuple[str, ...]
    times: np.ndarray
    inputs: np.ndarray
    residual: np.ndarray
    outside: tuple[str, ...]
    exceeded: tuple[Exceeded, ...] = ()
    sizes: np.ndarray | None = None

    def __repr__(self) -> str:
        state = "feasible" if self.is_feasible() else f"not feasible, residual {self.largest_residual:.3g}"
        beyond = f", beyond their limits: {', '.join(self.outside)}" if self.outside else ""
        sizes = f"{counted(len(self.names), 'input')} at {counted(len(self.times), 'time')}"
        return f"Feasibility({sizes}: {state}{beyond})"

    @property
    def lower(self) -> np.ndarray:
        """(nu,) least value of each input."""
        return self.inputs.min(axis=0)

    @property
    def upper(self) -> np.ndarray:
        """(nu,) largest value of each input."""
        return self.inputs.max(axis=0)

    @property
    def largest_residual(self) -> float:
        """Largest entry of the residual (N or N m)."""
        return float(np.max(np.abs(self.residual)))

    @property
    def relative_residual(self) -> float:
        """Largest entry of the residual relative to the forces of the motion."""
        sizes = np.ones_like(self.residual) if self.sizes is None else self.sizes
        missing = np.abs(self.residual)
        return float(np.max(np.divide(missing, sizes, out=np.zeros_like(missing), where=missing > 0.0), initial=0.0))

    def is_feasible(self, tolerance: float = 1e-6) -> bool:
        """Whether the residual is below ``tolerance`` of the forces of the motion and all inputs are within their limits."""
        return self.relative_residual <= tolerance and not self.outside

    def require(self, tolerance: float = 1e-6) -> None:
        """Raise a ControlError unless the reference is feasible."""
        if not self.relative_residual <= tolerance:
            k = int(np.argmax(np.max(np.abs(self.residual), axis=1)))
            raise ControlError(
                f"the reference is infeasible: at t = {self.times[k]:.4g} s the inputs cannot supply a generalised force of up to "
                f"{self.largest_residual:.4g}, {self.relative_residual:.2g} of the largest. "
                "Use a flat reference, or follow it with a virtual vehicle."
            )
        if self.outside:
            listed = "; ".join(
                f"{n!r} needs {a:.4g} to {b:.4g}"
                for n, a, b in zip(self.names, self.lower, self.upper, strict=True)
                if n in self.outside
            )
            worst = "; ".join(map(str, self.exceeded))
            raise ControlError(f"the reference exceeds the limits: {listed}. Worst: {worst}. Fly it more slowly.")

    def report(self) -> str:
        """Table of the ranges of inputs and of exceeded limits."""
        lines = [
            f"{n:>12}: {a:10.4g} .. {b:10.4g}{'   beyond its limits' if n in self.outside else ''}"
            for n, a, b in zip(self.names, self.lower, self.upper, strict=True)
        ]
        lines += [f"{'':>12}  {e}" for e in self.exceeded]
        return "\n".join([*lines, f"{'residual':>12}: {self.largest_residual:10.3g}"])


def feasibility(
    reference: Reference, limits: Any, until: float | None, samples: int, model: Model | None
) -> Feasibility:
    """Least-squares inputs B u = M a_R + c + ... - f along the reference, and the residual (rank-revealing)."""
    plant = model or reference.model
    times = np.linspace(0.0, reference.horizon if until is None else until, samples)
    times = np.unique(np.concatenate([times, [b for b in reference.breaks if 0 <= b <= times[-1]]]))
    q, v, a = reference(times)
    at = reference.clock(times, plant)
    force = plant.inverse_dynamics(q, v, a, at)
    B = plant.input_matrix(q, at)
    u = np.matvec(np.linalg.pinv(finite_matrix(B, "the input matrix along the reference")), force)
    residual = force - np.matvec(B, u)
    still = plant.inverse_dynamics(q, np.zeros_like(v), np.zeros_like(a), at)
    terms = np.maximum(np.abs(force), np.abs(still)) + np.matvec(np.abs(B), np.abs(u))
    sizes = plant.evaluate("velocity_sizes", q, parameters=at)
    largest = np.max(terms * sizes, initial=0.0)  # all as moments
    if isinstance(limits, Mapping):  # by input, or joint limits of a system
        limits = input_bounds(plant, limits)
    bounds = Limits.of(limits)
    beyond = () if bounds is None else exceeded(plant, bounds, times, u)
    outside = tuple(name for name in plant.u_names if any(name in e.inputs for e in beyond))
    return Feasibility(plant.u_names, times, u, residual, outside, beyond, np.broadcast_to(largest / sizes, v.shape))


def exceeded(
    model: Model, limits: Limits, times: np.ndarray, u: np.ndarray, slack: float = SLACK
) -> tuple[Exceeded, ...]:
    """Limits exceeded by inputs u (n, nu) at times (n,), each at its worst time; a negative ``slack`` is a margin of every range."""
    found: list[Exceeded] = []
    names, inner = model.u_names, set()
    if isinstance(limits, TiltLimits):
        for sector in limits.sectors:
            inner |= {sector.across, sector.along}
            pair = (names[sector.across], names[sector.along])
            for what, values, (low, high), least in _of_sector(sector, times, u[:, [sector.across, sector.along]]):
                found += _worst(pair, what, times, values, (low, high, least), slack)
    lower, upper = limits.bounds(model)
    largest = float(np.max(np.abs(u), initial=0.0))
    for k, name in enumerate(names):
        if k not in inner:
            found += _worst((name,), repr(name), times, u[:, k], (lower[k], upper[k], largest), slack)
    return tuple(found)


def _of_sector(
    sector: Sector, times: np.ndarray, force: np.ndarray
) -> list[tuple[str, np.ndarray, tuple[float, float], float]]:
    """Thrust, tilt and tilt rate with their bounds and a least size."""
    inputs = f"of input {sector.across} and {sector.along}"
    angle = np.unwrap(np.arctan2(-force[:, 0], force[:, 1]))
    found = [(f"the thrust {inputs}", np.linalg.norm(force, axis=1), sector.thrust, 0.0)]
    if sector.bounded:
        middle = (sector.tilt[0] + sector.tilt[1]) / 2
        angle = angle - 2 * np.pi * np.round((angle[0] - middle) / (2 * np.pi))
        found.append((f"the tilt {inputs}", angle, sector.tilt, 1.0))
    if np.isfinite(sector.rate) and len(times) > 1:
        found.append((f"the tilt rate {inputs}", np.gradient(angle, times), (-sector.rate, sector.rate), 0.0))
    return found


def _worst(
    inputs: tuple[str, ...],
    what: str,
    times: np.ndarray,
    values: np.ndarray,
    bounds: tuple[float, float, float],
    slack: float,
) -> list[Exceeded]:
    """The largest excess of values over ``bounds``: least, largest, and a size of the values if these are infinite."""
    low, high, least = bounds
    size = high - low if np.isfinite(high - low) and high > low else np.max(np.abs(values), initial=least)
    room = slack * max(float(size), np.max(np.abs(values), initial=0.0) if slack > 0 else 0.0)
    sides = []
    for bound, off in ((low, low - values), (high, values - high)):
        k = int(np.argmax(off))
        if off[k] > room:
            sides.append(Exceeded(inputs, what, float(times[k]), float(values[k]), float(bound)))
    return sides
