"""Invariants of a run, and their drift."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from heavytop._format import counted
from heavytop.simulate.dynamics import Dynamics

if TYPE_CHECKING:
    from heavytop.simulate.run import Run

AXES = "xyz"
HALF_A_TURN = 0.5
"""Turns of a joint in a step above which it is reported."""
CONSERVED = 1e-6
"""Rate of a momentum, relative to the size of its terms, below which it counts as conserved by the equations."""


@dataclass(frozen=True, eq=False)
class Invariant:
    """A quantity that the exact motion keeps.

    Attributes
    ----------
    values : (n, *batch) along the run.
    unit : unit of the values.
    reference : size to which the drift is compared: the largest magnitude of the quantity (1 for constraints).

    Examples
    --------
    >>> Invariant(np.array([1.0, 1.0 + 1e-12]), "J").unit
    'J'
    """

    values: np.ndarray
    unit: str
    reference: float = 1.0

    def __repr__(self) -> str:
        unit = "" if self.unit in ("", "1") else f" {self.unit}"
        return f"Invariant({counted(len(self.values), 'value')}, drift {self.drift:.3g}{unit}, relative {self.relative:.3g})"

    @property
    def drift(self) -> float:
        """Largest deviation from the first value, over time and batch."""
        deviation = np.abs(self.values - self.values[:1])
        return float(np.nanmax(deviation, initial=0.0)) if deviation.size else 0.0

    @property
    def relative(self) -> float:
        """The drift relative to the reference."""
        return self.drift / self.reference if self.reference else self.drift


def invariants_of(run: Run) -> dict[str, Invariant]:
    """All invariants of a run that has its dynamics.

    * ``energy``: stored energy minus work done by inputs and drivers plus dissipated energy; left out if the work was not integrated.
    * ``linear momentum x`` ..., ``angular momentum z``: those that the equations conserve (about the origin, world axes).
    * ``phi``: the largest constraint violation, ``determinant`` and ``quaternion norm``: the worst block.
    """
    dynamics = run.dynamics
    result: dict[str, Invariant] = {}
    if dynamics is None:
        return result
    if run.has_energy and (run.work is not None or dynamics.power() is None):
        balance = run.energy
        if run.work is not None:
            balance = balance - run.work[..., 0] + run.work[..., 1] - run.work[..., 2:].sum(axis=-1)
        size = float(np.nanmax(np.abs(np.stack([run.kinetic_energy, run.potential_energy])), initial=0.0))
        result["energy"] = Invariant(balance, "J", size)
    result |= _momenta(run, dynamics)
    return result | _constraints(run, dynamics) | _loops(run, dynamics)


def lacks_work(run: Run) -> bool:
    """Whether the energy is no invariant of a run only because the work of inputs and dissipation was not integrated along."""
    dynamics = run.dynamics
    return dynamics is not None and run.has_energy and run.work is None and dynamics.power() is not None


def _loops(run: Run, dynamics: Dynamics) -> dict[str, Invariant]:
    """Residuals of loops and velocity constraints."""
    kernel = dynamics.kernel("residual")
    if kernel is None:
        return {}
    residuals = zip(("loops", "velocity constraints"), kernel(run.q, run.v, run.parameters_at_records), strict=True)
    return {name: Invariant(np.max(np.abs(r), axis=-1), "1") for name, r in residuals if r.shape[-1]}


def _constraints(run: Run, dynamics: Dynamics) -> dict[str, Invariant]:
    names = dynamics.coordinates.constraint_names
    if not names:
        return {}
    phi = np.abs(dynamics.coordinates.constraints(run.q))
    result = {"phi": Invariant(np.max(phi, axis=-1), "1")}
    for title, mark in (("determinant", "det R - 1"), ("quaternion norm", "w^2 + x^2 + y^2 + z^2 - 1")):
        at = [k for k, name in enumerate(names) if name.endswith(mark)]
        if at:
            factor = 0.5 if title == "quaternion norm" else 1.0
            result[title] = Invariant(factor * np.max(phi[..., at], axis=-1), "1")
    return result


def _momenta(run: Run, dynamics: Dynamics) -> dict[str, Invariant]:
    kernel = dynamics.kernel("momentum")
    if kernel is None or dynamics.contact_names:  # contacts change momentum
        return {}
    driven = bool(run.u.size and np.any(np.nan_to_num(run.u)))
    kept = conserved_momenta(dynamics, run.parameter_vector, driven, *_samples(run, dynamics))
    if not np.any(kept):
        return {}
    values = kernel(run.q, run.v, run.parameters_at_records)[0]
    result = {}
    for k in np.flatnonzero(kept & np.any(np.nan_to_num(values), axis=tuple(range(values.ndim - 1)))):
        kind, unit = ("linear", "kg m/s") if k < 3 else ("angular", "kg m^2/s")
        group = slice(0, 3) if k < 3 else slice(3, 6)
        size = float(np.nanmax(np.linalg.norm(values[..., group], axis=-1), initial=0.0))
        result[f"{kind} momentum {AXES[k % 3]}"] = Invariant(values[..., k], unit, size)
    return result


def _samples(run: Run, dynamics: Dynamics) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A few states and times to try: random ones, or those of the run if there are constraints to satisfy."""
    rng, n = np.random.default_rng(7), 4
    if dynamics.kernel("residual") is None:
        times = run.t[np.linspace(0, len(run) - 1, n).astype(int)] if len(run) else np.zeros(n)
        q = dynamics.coordinates.random(rng, (n,))
        return q, rng.standard_normal((n, dynamics.nv)) * _typical_velocity(dynamics, q, run.parameter_vector), times
    q, v = run.q.reshape(-1, dynamics.nq), run.v.reshape(-1, dynamics.nv)
    good = np.flatnonzero(np.isfinite(v).all(axis=-1))
    at = good[np.linspace(0, len(good) - 1, n).astype(int)] if len(good) else np.zeros(0, dtype=int)
    return q[at], v[at], run.t[at // max(len(q) // max(len(run), 1), 1)]


def conserved_momenta(
    dynamics: Dynamics, p: np.ndarray, driven: bool, q: np.ndarray, v: np.ndarray, t: np.ndarray | float = 0.0
) -> np.ndarray:
    """Which of the six momenta (linear, angular about the origin) the equations conserve (6,), found by trying.

    Their rates along the motion are computed at the states (n, nq), (n, nv) and times ``t`` (n,); a symmetry makes them vanish at all of
    them, and for all parameters ``p`` (..., np).
    """
    momentum, motion = dynamics.kernel("momentum"), dynamics.kernel("motion")
    if momentum is None or motion is None or not len(q):
        return np.zeros(6, dtype=bool)
    n = len(q)
    u = np.random.default_rng(7).standard_normal((n, dynamics.nu)) if driven else np.zeros((n, dynamics.nu))
    # all members of a batch of parameters, those that are equal once
    p = np.unique(p.reshape(-1, p.shape[-1]), axis=0)[:, None] if p.size else p
    p = dynamics.at_times(p, t)
    w, a = motion(q, v, u, p)[:2]
    if not (np.all(np.isfinite(w)) and np.all(np.isfinite(a))):
        return np.zeros(6, dtype=bool)
    retract = dynamics.coordinates.retract
    swift = _swiftness(dynamics, q, v, a, p)[..., None]
    eps = 1e-5 / np.where(swift > 0.0, swift, 1.0)
    later, earlier = (dynamics.at_times(p, p[..., -1] + s[..., 0]) if dynamics.has_time else p for s in (eps, -eps))
    ahead = momentum(retract(q, eps * w), v + eps * a, later)[0]
    behind = momentum(retract(q, -eps * w), v - eps * a, earlier)[0]
    rate = np.abs(ahead - behind) / (2 * eps)
    # size of a typical rate: what the accelerations and velocities alone would give, to forces and to moments
    size = np.abs(momentum(q, a, p)[0]) + swift * np.abs(momentum(q, v, p)[0])
    groups = [np.broadcast_to(size[..., k : k + 3].max(axis=-1, keepdims=True), (*rate.shape[:-1], 3)) for k in (0, 3)]
    kept = rate <= CONSERVED * np.concatenate(groups, axis=-1)
    return np.all(kept.reshape(-1, kept.shape[-1]), axis=0)


def _typical_velocity(dynamics: Dynamics, q: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Velocities (n, nv) that motions from rest at q (n, nq) soon have: their sizes, times the rate at which gravity and springs move them."""
    motion, rest = dynamics.kernel("motion"), np.zeros((len(q), dynamics.nv))
    first = p.reshape(-1, p.shape[-1])[0] if p.size else p
    sizes = _sizes(dynamics, q, first)
    if motion is None:
        return sizes
    a = np.nan_to_num(motion(q, rest, np.zeros((len(q), dynamics.nu)), first)[1], posinf=0.0, neginf=0.0)
    swift = float(np.max(_swiftness(dynamics, q, rest, a, first)))
    return (swift or 1.0) * sizes


def _sizes(dynamics: Dynamics, q: np.ndarray, p: np.ndarray) -> np.ndarray:
    kernel = dynamics.kernel("sizes")
    return np.ones(dynamics.nv) if kernel is None else kernel(q, p)[0]


def _swiftness(dynamics: Dynamics, q: np.ndarray, v: np.ndarray, a: np.ndarray, p: np.ndarray) -> np.ndarray:
    """How fast a motion changes, in 1/s (...): the larger of its velocities and accelerations relative to their sizes."""
    sizes = _sizes(dynamics, q, p)
    return np.maximum(np.max(np.abs(v / sizes), axis=-1), np.sqrt(np.max(np.abs(a / sizes), axis=-1)))


def turns(names: Sequence[str], units: Sequence[str], moved: np.ndarray) -> float:
    """Most turns of a joint among displacements (..., nv); those of a joint have the same name before the last dot.

    >>> turns(("a.omega_x", "a.omega_y", "b.rate"), ("rad/s",) * 3, np.array([[3.0, 4.0, 6.0]]) * 2 * np.pi)
    6.0
    """
    joints: dict[str, list[int]] = {}
    for k, (name, unit) in enumerate(zip(names, units, strict=True)):
        if unit.startswith("rad"):
            joints.setdefault(name.rpartition(".")[0] or name, []).append(k)
    squares = [np.nanmax(np.sum(moved[..., places] ** 2, axis=-1), initial=0.0) for places in joints.values()]
    return float(np.sqrt(max(squares, default=0.0))) / (2 * np.pi)
