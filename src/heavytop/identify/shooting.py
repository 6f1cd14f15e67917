"""Shooting on the manifold: all windows of all logs simulated in one native batch, with residuals and their exact derivatives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from heavytop.errors import ConfigurationError, IdentificationError, SimulationError
from heavytop.identify.input_path import InputPath, input_path
from heavytop.identify.outputs import Outputs
from heavytop.identify.trials import Trial
from heavytop.identify.unknowns import Unknowns
from heavytop.simulate import Dynamics, prepare
from heavytop.simulate.gradients import Directions, Path, Rollout

ROOM = 2e8
"""Bytes of directions that are moved together."""


@dataclass(frozen=True, eq=False)
class Windows:
    """Windows of equal length in the logs.

    Attributes
    ----------
    log, first : (w,) index of the log and of the first sample. length : samples after the first.
    y : (length + 1, w, m) measured signals. seen : (length + 1, w, r) whether a residual is measured.
    """

    log: np.ndarray
    first: np.ndarray
    length: int
    y: np.ndarray
    seen: np.ndarray

    def __len__(self) -> int:
        return len(self.log)


def cut(trials: Sequence[Trial], outputs: Outputs, length: int, every: int | None = None) -> Windows:
    """Windows of ``length`` samples; those with gaps in the inputs are left out.

    They follow one another, and the last one ends with the log: it overlaps the one before, whose samples are not compared again. With ``every``
    they start every ``every`` samples and are all compared whole.
    """
    log, first, known_until = [], [], []
    for k, trial in enumerate(trials):
        bad = np.concatenate([[0], np.cumsum(~trial.usable)])
        starts = np.arange(0, len(trial) - length, every or length)
        if every is None and len(starts) and starts[-1] + length < len(trial) - 1:
            starts = np.append(starts, len(trial) - 1 - length)
        clean = bad[np.minimum(starts + length + 1, len(trial))] == bad[starts]
        y0 = np.concatenate([trial.signals[s] for s in outputs.signals], axis=1)[starts]
        starts = starts[clean & np.isfinite(y0).all(axis=1)]
        log += [k] * len(starts)
        first += starts.tolist()
        overlaps = np.diff(starts) < length if every is None else np.zeros(max(len(starts) - 1, 0), dtype=bool)
        known_until += [-1] * min(len(starts), 1) + np.where(overlaps, starts[:-1] + length, -1).tolist()
    if not log:
        shortest = min(len(t) for t in trials)
        raise IdentificationError(
            f"no log has {length + 1} samples in a row without gaps and with all outputs measured at the first (the shortest log has {shortest}). "
            "Give a shorter window=, or a log from its first complete sample on."
        )
    rows = np.asarray(first)[None, :] + np.arange(length + 1)[:, None]
    parts, seen = [], []
    for signal, size in zip(outputs.signals, outputs.sizes, strict=True):
        values = np.stack([trials[k].signals[signal][rows[:, w]] for w, k in enumerate(log)], axis=1)
        known = np.isfinite(values).all(axis=-1, keepdims=True)
        parts.append(np.where(known, values, _filler(signal, values.shape[-1])))
        known = known & (rows > np.asarray(known_until))[..., None]
        seen.append(np.broadcast_to(known, (*values.shape[:2], size)))
    return Windows(
        np.asarray(log), np.asarray(first), length, np.concatenate(parts, axis=-1), np.concatenate(seen, axis=-1)
    )


def _filler(signal: str, size: int) -> np.ndarray:
    """Any valid value of a signal where none was measured."""
    return np.eye(size)[0] if size == 4 and "attitude" in signal else np.zeros(size)


@dataclass(frozen=True, eq=False)
class SearchPoint:
    """A point of the search: the unknowns z (n,), the start of every window (w, nq), (w, nv)."""

    z: np.ndarray
    q: np.ndarray
    v: np.ndarray


class WindowShooting:
    """Residuals of all windows.

    Parameters
    ----------
    dynamics, subject : the model. trials : logs. parts : steps per sample.
    """

    def __init__(
        self,
        dynamics: Dynamics,
        subject: Any,
        trials: Sequence[Trial],
        outputs: Outputs,
        unknowns: Unknowns,
        windows: Windows,
        parts: int = 1,
        integrator: Any = "rkmk4",
    ) -> None:
        self.dynamics, self.subject, self.trials = dynamics, subject, list(trials)
        self.outputs, self.unknowns, self.windows, self.parts = outputs, unknowns, windows, parts
        self.integrator = integrator
        h = trials[0].step / parts
        steps = windows.length * parts
        spec = prepare(
            subject,
            until=steps * h,
            step=h,
            integrator=integrator,
            inputs=np.zeros((1, dynamics.nu)),
            record_every=parts,
            balance=False,
        )
        by = ["start", "parameters"] if dynamics.parameter_names else ["start"]
        self.moves_inputs = bool(unknowns.indices("delay", "lag"))
        self.rollout = Rollout(spec, [*by, "inputs"] if self.moves_inputs else by)
        measured = getattr(subject, "measured_inputs", ())  # of the motion itself: known up to the start of a window
        self.is_measured = np.array([name in measured for name in dynamics.u_names], dtype=bool)
        self.moving = unknowns.indices("parameter", "inertia", "delay", "lag")
        self.model = getattr(dynamics, "model", None)
        self.is_constrained = self.model is not None and self.model.is_constrained

    def shoot(self, point: SearchPoint) -> Shot:
        """Simulate all windows; raises a SimulationError if one of them diverges."""
        return Shot(self, point)

    def moved(self, point: SearchPoint, dz: np.ndarray, dx: np.ndarray, basis: np.ndarray) -> SearchPoint:
        """The point after a step dz of the unknowns and dx (w, nx) of the starts; loops are closed again."""
        nw = self.dynamics.coordinates.nv
        delta = np.matvec(basis, dx)
        q = np.asarray(self.dynamics.coordinates.retract(point.q, delta[:, :nw]))
        return self.closed(SearchPoint(point.z + dz, q, point.v + delta[:, nw:]))

    def closed(self, point: SearchPoint) -> SearchPoint:
        """The point with starts that satisfy loops and constraints."""
        if not self.is_constrained or self.model is None:
            return point
        p = self.unknowns.parameters(point.z)
        try:
            made = [self.model.assemble(q, v, parameters=p) for q, v in zip(point.q, point.v, strict=True)]
        except ConfigurationError as error:
            raise SimulationError(f"the start of a window cannot be closed: {error}") from None
        return replace(point, q=np.stack([q for q, _ in made]), v=np.stack([v for _, v in made]))

    def basis(self, point: SearchPoint) -> np.ndarray:
        """(w, nw + nv, nx) free directions of the starts."""
        nw, nv = self.dynamics.coordinates.nv, self.dynamics.nv
        if not self.is_constrained or self.model is None:
            return np.broadcast_to(np.eye(nw + nv), (len(self.windows), nw + nv, nw + nv))
        found = self.model.minimal_tangent(point.q, point.v, parameters=self.unknowns.parameters(point.z))
        k, m = len(found.places), len(found.velocities)
        B = np.zeros((len(self.windows), nw + nv, k + m))
        B[:, :nw, :k], B[:, nw:, :k], B[:, nw:, k:] = found.D, found.K, found.N
        return B

    def inputs(self, z: np.ndarray) -> list[InputPath]:
        """The inputs of every log."""
        return [input_path(t, self.unknowns, z, self.dynamics.u_names, self.parts) for t in self.trials]

    def table(self, arrays: Sequence[np.ndarray]) -> np.ndarray:
        """Samples (steps, w, nu) of the windows from those (n, nu) of the logs."""
        w = self.windows
        rows = (w.first * self.parts)[:, None] + np.arange(w.length * self.parts)
        made = np.stack([arrays[k][rows[i]] for i, k in enumerate(w.log)], axis=1)
        made[..., self.is_measured] = made[:1][..., self.is_measured]
        return made


class Shot:
    """The windows simulated from one point."""

    def __init__(self, shooting: WindowShooting, point: SearchPoint) -> None:
        self.of, self.point = shooting, point
        self.paths = shooting.inputs(point.z)
        self.table = shooting.table([p.u for p in self.paths])
        d = shooting.dynamics
        parameters = shooting.unknowns.parameters(point.z)
        self.p = d.parameter_vector(parameters)
        inputs = self.table if d.nu else None
        with np.errstate(all="ignore"):
            self.path: Path = shooting.rollout.run((point.q, point.v), parameters, None, inputs)
        every = shooting.parts
        self.q, self.v = self.path.records["q"][::every], self.path.records["v"][::every]
        held = np.minimum(np.arange(len(self.q)) * every, len(self.table) - 1)
        self.u = self.table[held]
        if not (np.isfinite(self.q).all() and np.isfinite(self.v).all()):
            raise SimulationError("a window diverges.")

    @cached_property
    def residuals(self) -> np.ndarray:
        """(length + 1, w, m), model plus bias minus measurement; zero where nothing was measured."""
        s, w = self.of, self.of.windows
        r = s.outputs.values(self.q, self.v, self.u, self.p, w.y)
        for k in s.unknowns.indices("bias"):
            e = s.unknowns.entries[k]
            column = s.outputs.offset(e.signal) + e.place
            r[..., column] += np.where(e.log is None, 1.0, w.log == (e.log or 0)) * self.point.z[k]
        return np.where(w.seen, r, 0.0)

    def slopes(self, basis: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Derivatives of the residuals: (w, length + 1, m, nx) by the starts, (w, length + 1, m, nz) by the unknowns."""
        s, w, d = self.of, self.of.windows, self.of.dynamics
        count, nx, nz = len(w), basis.shape[-1], len(s.unknowns)
        nw, n = d.coordinates.nv, nx + len(s.moving)
        p_dot = np.zeros((n, count, len(d.parameter_names)))
        u_dot = np.zeros((len(self.table), n, count, d.nu)) if s.moves_inputs else None
        w_dot, v_dot = np.zeros((n, count, nw)), np.zeros((n, count, d.nv))
        w_dot[:nx], v_dot[:nx] = np.moveaxis(basis[:, :nw], -1, 0), np.moveaxis(basis[:, nw:], -1, 0)
        slopes = s.unknowns.slopes(self.point.z)
        for j, k in enumerate(s.moving):
            e = s.unknowns.entries[k]
            if e.kind in ("delay", "lag") and u_dot is not None:
                u_dot[:, nx + j] = s.table([path.slopes[k] for path in self.paths])
            elif e.kind == "parameter":
                p_dot[nx + j, :, d.parameter_names.index(e.name)] = 1.0
        for item, first in s.unknowns.bodies:
            places = [d.parameter_names.index(name) for name in item.names]
            for k in range(10):
                p_dot[nx + s.moving.index(first + k)][:, places] = slopes[first : first + 10, first + k]
        r_dot = np.empty((n, len(self.q), count, s.outputs.count))
        moves_p = bool(d.parameter_names) and bool(s.unknowns.indices("parameter", "inertia"))
        together = max(1, int(ROOM / (8.0 * len(self.table) * count * (d.nq + d.nv + 1))))
        for a in range(0, n, together):
            part = slice(a, min(a + together, n))
            size = part.stop - part.start
            moved = self.path.push(
                Directions(
                    size,
                    w=w_dot[part],
                    v=v_dot[part],
                    p=p_dot[part] if moves_p else None,
                    u=None if u_dot is None else u_dot[:, part],
                )
            )
            q_dot, vd = (np.moveaxis(moved[x][:: s.parts], 1, 0) for x in "qv")
            held = np.minimum(np.arange(len(self.q)) * s.parts, len(self.table) - 1)
            ud = (
                np.zeros((size, 1, 1, d.nu))
                if u_dot is None
                else np.ascontiguousarray(np.moveaxis(u_dot[held][:, part], 1, 0))
            )
            at = (self.q, self.v, self.u, self.p, w.y)
            r_dot[part] = s.outputs.slopes(
                at, np.ascontiguousarray(q_dot), np.ascontiguousarray(vd), ud, p_dot[part][:, None]
            )
        r_dot = np.where(w.seen, r_dot, 0.0)
        J = np.moveaxis(r_dot, (0, 2), (-1, 0))  # (w, records, m, n)
        Jz = np.zeros((*J.shape[:-1], nz))
        Jz[..., s.moving] = J[..., nx:]
        for k in s.unknowns.indices("bias"):
            e = s.unknowns.entries[k]
            column = s.outputs.offset(e.signal) + e.place
            own = np.where(e.log is None, 1.0, w.log == (e.log or 0))
            Jz[:, :, column, k] = own[:, None] * np.moveaxis(w.seen, 1, 0)[:, :, column]
        return J[..., :nx], Jz
