"""A plan: motion, inputs, active constraints and accuracy."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytop._arrays import numbers
from heavytop._format import Overview, Shown
from heavytop.control import LinearQuadratic, Reference, Weights, lqr
from heavytop.errors import PlanError
from heavytop.functions import Portable
from heavytop.ocp import NodeLayout, chart, intervals, needed_inputs
from heavytop.ocp.solvers import Solution
from heavytop.plan.problem import Problem
from heavytop.simulate import Run, Tableau, simulate
from heavytop.system import TIME

if TYPE_CHECKING:
    from heavytop.show import InlinePage

CLOSING = 4
"""Newton steps from an integrated state to the nearest one with closed loops: quadratic, from the defect of an interval."""


@dataclass(frozen=True)
class Active:
    """An active bound or constraint.

    Attributes
    ----------
    label : its name. times : (n,) s. multipliers : (n,) sensitivities of the cost.
    """

    label: str
    times: np.ndarray
    multipliers: np.ndarray


@dataclass(frozen=True)
class Attempt:
    """One solution during refinement: integration of intervals, iterations, seconds and resulting defect."""

    order: int
    substeps: int
    steps: int
    iterations: int
    seconds: float
    callback_seconds: float
    defect: float


@dataclass(frozen=True)
class GuessCosts:
    """Several guesses for one plan.

    Attributes
    ----------
    costs : from each guess, on coarse tolerances, the default one first; infinite without a plan. best : index of the guess of the returned plan.
    """

    costs: tuple[float, ...]
    best: int

    def __str__(self) -> str:
        costs = ", ".join(f"{cost:.4g}" if np.isfinite(cost) else "none" for cost in self.costs)
        return f"best of {len(self.costs)} starts: number {self.best + 1}; costs before refinement {costs}"


@dataclass(frozen=True, eq=False)
class Plan(Portable, Shown):
    """An optimal motion within its limits.

    Attributes
    ----------
    times : (N + 1,) s of the nodes. q, v : (N + 1, nq), (N + 1, nv). u : (N + 1, nu) inputs at the nodes: held until the next node, or
        linear in between (``linear``).
    cost, duration, iterations : cost, duration and iterations of the plan; ``attempts`` lists them solution by solution.
    accuracy : largest difference of an interval from a fine simulation from the same node (m, rad, and their rates).
    active : active bounds and constraints, with multipliers.
    violation : largest violation of constraints and limits between the nodes, with its label; in m for positions, rad for angles, otherwise in the
        unit of the bounded value.
    starts : if several guesses were tried, their costs (infinite without a plan) and the index of the best; otherwise None.
    converged : False if the user stopped the solver; the plan is then the best motion so far.

    Examples
    --------
    >>> from dataclasses import fields
    >>> [field.name for field in fields(Plan)][1:5]
    ['times', 'q', 'v', 'u']
    """

    problem: Problem
    times: np.ndarray
    q: np.ndarray
    v: np.ndarray
    u: np.ndarray
    cost: float
    iterations: int
    accuracy: float
    active: tuple[Active, ...]
    multipliers: dict[str, np.ndarray]
    attempts: tuple[Attempt, ...]
    converged: bool
    message: str
    tableau: Tableau
    substeps: int
    violation: tuple[str, float] = ("", 0.0)
    solution: Solution | None = field(default=None, repr=False)
    starts: GuessCosts | None = None

    @property
    def model(self) -> Any:
        """The planned model."""
        return self.problem.model

    @property
    def duration(self) -> float:
        """In s."""
        return float(self.times[-1])

    @property
    def linear(self) -> bool:
        """Whether inputs are linear between the nodes."""
        return self.problem.linear

    @property
    def phase_times(self) -> np.ndarray:
        """End of each phase in s."""
        return self.times[self.problem.ends]

    def __repr__(self) -> str:
        return f"Plan({self.model.name!r}: {self.duration:.4g} s, cost {self.cost:.6g}, {self.iterations} iterations)"

    def _overview(self) -> Overview:
        rows = [
            ("duration", f"{self.duration:.6g} s"),
            ("cost", f"{self.cost:.8g}"),
            ("iterations", str(self.iterations)),
            ("ended", self.message),
            ("defect", f"{self.accuracy:.2g}"),
        ]
        rows += [(f"held by {item.label}", f"{item.times[0]:.3g} to {item.times[-1]:.3g} s") for item in self.active]
        return Overview(f"Plan of {self.model.name}", tuple(rows))

    # --- use ----------------------------------------------------------------------------------------------------------------

    def _interval(self, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        k = np.clip(np.searchsorted(self.times, t, side="right") - 1, 0, len(self.times) - 2)
        return k, np.clip(t, 0.0, self.duration) - self.times[k]

    @cached_property
    def _lengths(self) -> np.ndarray:
        """Lengths (N,) of the intervals as divisors: 1 s for phases without duration."""
        h = np.diff(self.times)
        return np.where(h > 0, h, 1.0)

    def _after(self, t: np.ndarray) -> np.ndarray:
        """Which times (n, 1) lie after the end, beyond rounding."""
        return (t > self.duration * (1 + 1e-9))[:, None]

    def inputs(self, t: Any) -> np.ndarray:
        """Inputs (..., nu) at the times t (...); after the end those nearest to balance in the last configuration."""
        times = numbers(t, "times of a plan")
        if not np.all(np.isfinite(times)):
            raise PlanError("the inputs of a plan need finite times.")
        k, tau = self._interval(times.reshape(-1))
        u = self.u[k]
        if self.linear:
            u = u + (tau / self._lengths[k])[:, None] * (self.u[k + 1] - u)
        u = np.where(self._after(times.reshape(-1)), self._rest, u)
        return u.reshape(*times.shape, self.model.nu)

    def _parameters(self, t: Any = 0.0) -> dict[str, Any]:
        """Values of the parameters at the times t from the start."""
        given = dict(zip(self.model.parameter_names, self.problem.parameters.tolist(), strict=True))
        if self.model.description.time is not None:
            given[TIME] = self.problem.start_time + np.asarray(t, dtype=float)
        return given

    @cached_property
    def _rest(self) -> np.ndarray:
        """Inputs (nu,) nearest to balance at the end."""
        model, zero = self.model, np.zeros(self.model.nv)
        return needed_inputs(model, self.q[-1], zero, zero, self._parameters(self.duration))

    @cached_property
    def reference(self) -> Reference:
        """The motion as reference for every law: integrated from the previous node, so that it is feasible at any time.

        Configurations and velocities satisfy the equations of the coordinates, loops and constraints up to rounding. After its end the last
        configuration is held at rest.
        """
        return Reference(
            self.model,
            self._motion,
            duration=self.duration,
            breaks=tuple(self.times[1:-1]),
            start_time=self.problem.start_time,
            parameters={name: value for name, value in self._parameters().items() if name != TIME},
        )

    def _motion(self, t: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        problem, rates = self.problem, self.problem.rates
        k, tau = self._interval(t)
        layout = NodeLayout(rates.ne, rates.nv, rates.nu, self.linear)
        y = np.zeros((len(t), layout.size))
        y[:, layout.v], y[:, layout.u] = self.v[k], self.u[k]
        if self.linear:
            y[:, layout.c] = (tau / self._lengths[k])[:, None] * (self.u[k + 1] - self.u[k])
        centres = problem.with_time(self.q, self.times)[k]
        ends = intervals(rates, layout, self.tableau, self.substeps).run(y, tau, centres, problem.parameters).ends
        q = rates.coordinates.project(chart(rates.coordinates, centres, ends[:, : rates.ne]))[:, : self.model.nq]
        v, parameters = ends[:, rates.ne :], self._parameters(self.times[k] + tau)
        q, v = self._closed(q, v, parameters)
        a = self.model.evaluate("acceleration", q, v, self.inputs(t), parameters=parameters)
        after = self._after(t)
        return q, np.where(after, 0.0, v), np.where(after, 0.0, a)

    def _closed(self, q: np.ndarray, v: np.ndarray, parameters: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
        """The nearest states with closed loops and admissible velocities, which leave them by the defects of the intervals."""
        if not self.model.is_constrained:
            return q, v
        for _ in range(CLOSING):
            moved, _, _ = self.model.evaluate("projection", q, v, parameters=parameters)
            q = self.model.coordinates.project(moved)
        return q, self.model.evaluate("projection", q, v, parameters=parameters)[1]

    def run(self, samples: int = 400, record_every: int = 10) -> Run:
        """The planned motion as a run, for plots and files: the inputs of the plan from its start, without feedback.

        A motion that is unstable without feedback leaves the plan by rounding and the defects of the intervals; ``reference`` does not.
        """
        # nodes of phases of different lengths are not on one grid: each step takes the mean input, which keeps its impulse
        count = record_every * samples
        grid = np.linspace(0.0, self.duration, count + 1)
        mean = np.diff(self._impulse(grid), axis=0) / np.diff(grid)[:, None]
        parameters, start_time = self._parameters(), 0.0
        if self.model.description.time is not None:
            start_time = float(parameters.pop(TIME))
        return simulate(
            self.model, (self.q[0], self.v[0]), start_time + self.duration, self.duration / count, inputs=mean, parameters=parameters,
            record_every=record_every, progress=False, start_time=start_time,
        )  # fmt: skip

    def _impulse(self, t: np.ndarray) -> np.ndarray:
        """Integral of the inputs (n, nu) from the start to the times t (n,)."""
        h = np.diff(self.times)[:, None]
        ends = self.u[1:] if self.linear else self.u[:-1]
        whole = np.concatenate([np.zeros((1, self.model.nu)), np.cumsum(0.5 * h * (self.u[:-1] + ends), axis=0)])
        k, tau = self._interval(t)
        part = tau[:, None]
        return whole[k] + part * self.u[k] + 0.5 * part**2 * ((ends - self.u[:-1]) / self._lengths[:, None])[k]

    # --- follow -------------------------------------------------------------------------------------------------------------

    def regulator(self, cost: Weights | None = None, limits: Any = None) -> LinearQuadratic:
        """The linear-quadratic regulator along the plan, :func:`heavytop.control.lqr` with its reference and its inputs.

        Parameters
        ----------
        cost : weights; None: inputs cost a tenth of the default of :class:`.Weights`, for robustness to wrong masses.
        limits : limits of the inputs of the plant, including a ``reserve``; None: those of the plan.

        Examples
        --------
        >>> import heavytop as ht
        >>> task = ht.plan.problems.swing_up_cart_pole()
        >>> plan = task.plan(tolerance=1e-4)
        >>> run = ht.simulate(task.model, (plan.q[0] + 0.02, plan.v[0]), plan.duration, 1e-3, control=plan.regulator())
        >>> bool(plan.distance(run)[-1] < 0.01)
        True
        """
        bounds = self.problem.bounds.u if limits is None else limits
        return lqr(self.model, self.reference, cost or Weights(inputs=0.01), inputs=self.inputs, limits=bounds)

    def distance(self, run: Run) -> np.ndarray:
        """Largest distance (m) of a body of a run from its planned position, by the origins of frames, at the times of the run (n, *batch).

        Positions of both are computed with the parameters of the plan.
        """
        if run.q.shape[-1] != self.model.nq or tuple(run.q_names) != tuple(self.model.q_names):
            raise PlanError(
                f"the run has other coordinates ({', '.join(run.q_names)}) than the plan of {self.model.name!r} "
                f"({', '.join(self.model.q_names)})."
            )
        t = np.asarray(run.t) - self.problem.start_time
        q = self.reference(np.clip(t, 0.0, self.duration))[0]
        parameters = self._parameters(t)
        away = []
        for body in self.model.body_names:
            planned = self.model.pose("world", body, q, parameters=parameters)[:, :3, 3]
            actual = self.model.pose("world", body, run.q, parameters=parameters)[..., :3, 3]
            away.append(np.linalg.norm(actual - planned.reshape(len(t), *(1,) * (actual.ndim - 2), 3), axis=-1))
        return np.max(away, axis=0)

    # --- show and save ------------------------------------------------------------------------------------------------------

    def plot(self, path: str | Path | None = None) -> Any:
        """Figure with coordinates, velocities, inputs and their limits; written to ``path`` (png, pdf, svg) if given."""
        from heavytop.show import plot_plan

        return plot_plan(self, path)

    def show(self, path: str | Path | None = None) -> Path | InlinePage:
        """Write a self-contained page with the moving system, gates and obstacles, curves, and the active constraints.

        Without a ``path`` the page is returned as an object that a notebook displays.
        """
        from heavytop.show import InlinePage, write_page
        from heavytop.show.plan_report import plan_report

        report = plan_report(self)
        return InlinePage(report) if path is None else write_page(report, path)

    def save(self, path: str | Path) -> None:
        """Write the plan with its problem and its model, for :meth:`load`. ``plan.run().save(path)`` writes the motion as netCDF."""
        from heavytop.io import save_recipe

        save_recipe(self, path)

    @classmethod
    def load(cls, path: str | Path, *, trust: bool = False) -> Plan:
        """Read a saved plan. Reading runs code named in the file, so confirm that you trust it: ``Plan.load(path, trust=True)``.

        Raises
        ------
        RecipeError
            It is not trusted, or was written by another series of heavytop.
        PlanError
            The file holds another object.
        """
        from heavytop.io import load_recipe

        found = load_recipe(path, trust=trust)
        if not isinstance(found, cls):
            raise PlanError(
                f"{str(path)!r} holds a {type(found).__name__}, not a Plan. load_recipe(path, trust=True) reads it."
            )
        return found

    def report(self) -> str:
        """A short text with the result and the active constraints."""
        lines = [
            f"{self.model.name}: {self.duration:.6g} s, cost {self.cost:.8g}, {self.iterations} iterations, {self.message}",
            f"defect against a fine simulation {self.accuracy:.2g}",
        ]
        if self.starts is not None:
            lines.append(str(self.starts))
        if self.violation[1] > 1e-6:
            lines.append(f"between the nodes {self.violation[0]} is exceeded by {self.violation[1]:.2g}")
        for item in self.active:
            lines.append(
                f"  held by {item.label}: {len(item.times)} nodes, {item.times[0]:.3g} to {item.times[-1]:.3g} s"
            )
        return "\n".join(lines)
