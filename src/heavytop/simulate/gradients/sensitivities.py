"""Sensitivities of a run: how every record depends on start, parameters, inputs and gains (forward mode, minimal coordinates)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from heavytop._arrays import Array
from heavytop._format import Brief
from heavytop._memory import available_memory
from heavytop.compile import Kernel, on_symbols, tangent, trace
from heavytop.errors import SimulationError
from heavytop.simulate.controller import split_gains
from heavytop.simulate.gradients.rollout import Directions, Path, Rollout
from heavytop.simulate.recording import RunProblem
from heavytop.simulate.run import Run

TOGETHER = 256
"""Directions that are moved together."""
SHARE = 0.8
"""Largest share of the available memory that sensitivities may use."""


@dataclass(frozen=True, eq=False, repr=False)
class Sensitivities(Brief):
    """Derivatives of the records of a run. Axes: record, batch, row, then what it is differentiated by.

    Rows are displacements of q in velocity coordinates, then v: ``names`` has them. So are the columns of ``start``: the matrices are square and as
    large as there are degrees of freedom, whatever the number of coordinates of q.

    Attributes
    ----------
    t : (n,) times of the records. names : names of the rows.
    start : (n, *batch, nx, nx). parameters : name -> (n, *batch, nx). inputs : (n, *batch, nx, samples, nu).
    gains : name -> (n, *batch, nx, *shape). Empty or None where not requested.

    Examples
    --------
    >>> import heavytop as ht
    >>> run = ht.simulate(ht.library.pendulum().derive(), ([1.0], [0.0]), 0.5, 0.01, sensitivities=("start", "parameters"))
    >>> found = run.sensitivities
    >>> found.start[-1].round(4)
    array([[ 0.145 ,  0.3245],
           [-3.1206, -0.0863]])
    >>> sorted(found.parameters)
    ['g', 'l', 'm']
    """

    t: np.ndarray
    names: tuple[str, ...]
    start: np.ndarray | None = None
    parameters: dict[str, np.ndarray] = field(default_factory=dict)
    inputs: np.ndarray | None = None
    gains: dict[str, np.ndarray] = field(default_factory=dict)
    run: Any = field(default=None, repr=False)

    def of(self, function: Callable[[Array, Array, Array], Array]) -> tuple[np.ndarray, dict[str, Any]]:
        """Outputs ``fn(t, q, v)`` (m,) at the records, in NumPy notation, and their derivatives with respect to all that was requested.

        Returns
        -------
        tuple
            outputs (n, *batch, m), and "start", "parameters", "inputs", "gains" -> as the attributes, with m rows.

        Examples
        --------
        Where a pendulum of length 1 m hangs, measured by a camera:

        >>> import numpy as np
        >>> import heavytop as ht
        >>> run = ht.simulate(ht.library.pendulum().derive(), ([1.0], [0.0]), 0.5, 0.01, sensitivities=("start", "parameters"))
        >>> y, slopes = run.sensitivities.of(lambda t, q, v: ht.vector(np.sin(q[0]), -np.cos(q[0])))
        >>> y.shape, slopes["start"].shape, slopes["parameters"]["l"].shape
        ((51, 2), (51, 2, 2), (51, 2))
        """
        run = self.run
        model, coordinates = run.dynamics, run.dynamics.coordinates
        shapes = {"t": (), "q": (model.nq,), "v": (model.nv,)}
        guarded = on_symbols(function, "outputs of a run", SimulationError)
        traced = trace(lambda t, q, v: {"y": np.reshape(guarded(t, q, v), (-1,))}, shapes, name="outputs")
        along, moved = tangent(traced, (1, 2))
        kernel = Kernel(along)
        t = np.broadcast_to(run.t.reshape(-1, *(1,) * len(run.batch)), run.q.shape[:-1])
        m, nw = traced.outputs["y"][0], coordinates.nv

        def apply(matrix: np.ndarray) -> np.ndarray:
            """Derivatives of outputs from those of states (n, *batch, nx, k)."""
            columns = np.moveaxis(matrix, -1, 0)
            q_dot = coordinates.rate(np.broadcast_to(run.q, (*columns.shape[:-1], model.nq)), columns[..., :nw])
            results = kernel(t, run.q, run.v, q_dot, columns[..., nw:])
            dots = results[1] if moved else np.zeros((*columns.shape[:-1], m))
            return np.moveaxis(dots, 0, -1)

        slopes: dict[str, Any] = {}
        if self.start is not None:
            slopes["start"] = apply(self.start)
        if self.parameters:
            slopes["parameters"] = {name: apply(x[..., None])[..., 0] for name, x in self.parameters.items()}
        if self.inputs is not None:
            flat = self.inputs.reshape(*self.inputs.shape[:-2], -1)
            slopes["inputs"] = apply(flat).reshape(*run.q.shape[:-1], m, *self.inputs.shape[-2:])
        if self.gains:
            slopes["gains"] = {}
            for name, x in self.gains.items():
                lead = run.q.ndim
                flat = x.reshape(*x.shape[:lead], -1)
                slopes["gains"][name] = apply(flat).reshape(*run.q.shape[:-1], m, *x.shape[lead:])
        return Kernel(traced)(t, run.q, run.v)[0], slopes


def sensitivities_of(spec: Any, problem: RunProblem, parts: Any, run: Run, by: Any) -> Sensitivities:
    """The sensitivities of a run that was just simulated."""
    by = (by,) if isinstance(by, str) else tuple(by)
    path = Rollout(spec, by).path(problem, parts)
    made = _Columns(path, run)
    coordinates, dynamics = problem.dynamics.coordinates, problem.dynamics
    names = (*(f"delta {name}" for name in coordinates.v_names), *dynamics.v_names)
    start = made.start() if "start" in by else None
    parameters = made.parameters() if "parameters" in by else {}
    inputs = made.inputs() if "inputs" in by else None
    gains = made.gains() if "gains" in by else {}
    return Sensitivities(run.t, names, start, parameters, inputs, gains, run)


class _Columns:
    """Columns of sensitivity matrices, direction by direction."""

    def __init__(self, path: Path, run: Run) -> None:
        self.path, self.problem, self.run = path, path.problem, run
        coordinates = self.problem.dynamics.coordinates
        self.nw, self.nv, self.rows = coordinates.nv, self.problem.dynamics.nv, path.count
        numbers = np.minimum(self.problem.grid.numbers(), path.problem.steps)[: len(run.t)].copy()
        if len(run.t) < len(self.problem.grid) or run.t[-1] < self.problem.grid.times()[-1]:
            numbers[-1] = path.problem.steps  # the last record is the end, at an event
        self.numbers = numbers
        self.left = coordinates.left_inverse(path.records["q"][numbers])
        stopped = path.plan.stopped
        self.event = path.event_rates() if stopped is not None and np.isfinite(stopped).any() else None

    def start(self) -> np.ndarray:
        """(n, *batch, nx, nx)."""
        n = self.nw + self.nv
        unit = np.broadcast_to(np.eye(n)[:, None], (n, self.rows, n))
        return self._moved(n, lambda a, b: {"w": unit[a:b, :, : self.nw], "v": unit[a:b, :, self.nw :]})

    def parameters(self) -> dict[str, np.ndarray]:
        """Name -> (n, *batch, nx)."""
        names = self.problem.dynamics.parameter_names
        if not names:
            return {}
        n = len(names)
        unit = np.broadcast_to(np.eye(n)[:, None], (n, self.rows, n))
        matrix = self._moved(n, lambda a, b: {"p": unit[a:b]})
        return {name: matrix[..., k] for k, name in enumerate(names)}

    def gains(self) -> dict[str, np.ndarray]:
        """Name -> (n, *batch, nx, *shape)."""
        law = self.problem.plan.control.law
        if law is None:
            return {}
        n = sum(value.size for value in law.gains.values())
        unit = np.broadcast_to(np.eye(n)[:, None], (n, self.rows, n))
        return split_gains(law.gains, self._moved(n, lambda a, b: {"gains": unit[a:b]}))

    def inputs(self) -> np.ndarray:
        """(n, *batch, nx, samples, nu)."""
        samples, nu = len(self.problem.plan.table), self.problem.dynamics.nu

        def directions(a: int, b: int) -> dict[str, np.ndarray]:
            u = np.zeros((samples, b - a, self.rows, nu))
            k = np.arange(a, b)
            u[k // nu, k - a, :, k % nu] = 1.0
            return {"u": u}

        matrix = self._moved(samples * nu, directions)
        return matrix.reshape(*matrix.shape[:-1], samples, nu)

    def _moved(self, count: int, directions: Callable[[int, int], Mapping[str, np.ndarray]]) -> np.ndarray:
        """The matrix (n, *batch, nx, count) of some directions."""
        n, nx = len(self.numbers), self.nw + self.nv
        needed = 8.0 * n * self.rows * nx * count
        if needed > SHARE * available_memory():
            raise SimulationError(
                f"sensitivities of {n} records by {count} numbers need {needed / 1e9:.3g} GB. Raise record_every, or take the gradient of a loss "
                "(ht.gradient), which needs none of this."
            )
        result = np.empty((n, self.rows, nx, count))
        for a in range(0, count, TOGETHER):
            b = min(a + TOGETHER, count)
            moved = self.path.push(Directions(b - a, **directions(a, b)))
            q, v = (moved[x][self.numbers] for x in "qv")
            if self.event is not None:
                q, v = self._at_event(q, v)
            w = np.matvec(self.left[:, None], q)
            result[..., : self.nw, a:b] = np.moveaxis(w, 1, -1)
            result[..., self.nw :, a:b] = np.moveaxis(v, 1, -1)
        return result.reshape(n, *self.problem.batch, nx, count)

    def _at_event(self, q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The time of the event moves too: dt = -(g_x dx) / (g_x x' + g_t)."""
        stopped = self.path.plan.stopped
        if self.event is None or stopped is None:
            return q, v
        rate, slope, g, _ = self.event
        over = self.path.plan.times[self.numbers][:, None, :] >= np.where(np.isfinite(stopped), stopped, np.inf)
        shift = -((g["q"] * q).sum(-1) + (g["v"] * v).sum(-1)) / np.where(np.isfinite(stopped), slope, 1.0)
        shift = np.where(over, shift, 0.0)[..., None]
        return q + shift * rate["q"], v + shift * rate["v"]
