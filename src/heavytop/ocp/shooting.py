"""Runge-Kutta steps of a model in charts with exact first and second derivatives, for all intervals of a horizon in one batch.

An interval of length h starts at a node with the variables ``y = (e, v, [s], [tau], c)``: chart coordinates and velocity, the input at the start
(if inputs are linear in time), the duration (if it is free) and the input, or its change over the interval. Runge-Kutta stages
``k_i = rho(x_i, u_i)``, ``x_i = x + h sum_j a_ij k_j`` follow each other in the chart of the node, which makes the steps those of a
Munthe-Kaas method. Derivatives are composed from those of ``rho`` by the chain rule, forwards for slopes, backwards for Hessians:

    dk_i = rho' dz_i,                      mu_i = h b_i lam + h sum_j a_ji nu_j,      nu_i = rho_x'^T mu_i + h b_i l_x'
    H = sum_i dz_i^T (rho'' mu_i + h b_i l'') dz_i + (mu_i / h dk_i + b_i dl_i) dh + transposed
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from heavytop.compile import Bound, Kernel
from heavytop.ocp.charts import ChartRates, Derivatives
from heavytop.simulate import Tableau


@dataclass(frozen=True)
class NodeLayout:
    """Slices of the variables y of a node.

    Attributes
    ----------
    ne, nv, nu : sizes of chart coordinates, velocity and input.
    linear : whether inputs are linear in time (c is their change over the interval) or held (c is the input).
    free : whether the duration is a variable.
    """

    ne: int
    nv: int
    nu: int
    linear: bool = False
    free: bool = False

    @property
    def nx(self) -> int:
        """Size of (e, v)."""
        return self.ne + self.nv

    @property
    def e(self) -> slice:
        """Chart coordinates."""
        return slice(0, self.ne)

    @property
    def v(self) -> slice:
        """Velocity."""
        return slice(self.ne, self.nx)

    @property
    def s(self) -> slice:
        """Input at the start of the interval; empty if inputs are held."""
        return slice(self.nx, self.nx + (self.nu if self.linear else 0))

    @property
    def tau(self) -> int:
        """Duration, if it is free."""
        return self.s.stop

    @property
    def c(self) -> slice:
        """Input, or its change."""
        start = self.s.stop + int(self.free)
        return slice(start, start + self.nu)

    @property
    def size(self) -> int:
        """Number of variables of a node."""
        return self.c.stop

    @property
    def u(self) -> slice:
        """The input at the node."""
        return self.s if self.linear else self.c


class Given(NamedTuple):
    """Arguments of a run: variables y (N, ny) of the nodes, lengths h (N,) of the steps and their slopes by tau, centres q_bar (N, nq), parameters,
    further arguments of the integrand."""

    y: np.ndarray
    h: np.ndarray
    part: np.ndarray
    q_bar: np.ndarray
    parameters: np.ndarray
    further: Sequence[np.ndarray]


@dataclass
class Trajectory:
    """N integrated intervals.

    Attributes
    ----------
    ends : (N, nx). costs : (N,). slopes : (N, nx, ny) of the ends; cost_slopes : (N, ny); empty (0, ...) unless requested.
    z : (N, T, nz) arguments (x, u) of all T stages. k : (N, T, nx) their rates. slope : (N, T, nx, nz) of the rates by z.
    dz : (N, T, nz, ny), dk : (N, T, nx, ny) by the variables of the node. gradient : (N, T, nz) of the cost per time by its arguments.
    cost_rate : (N, ny) slope of the cost of an interval by the variables, for a fixed length, over the length of its steps.
    """

    given: Given
    ends: np.ndarray
    costs: np.ndarray
    slopes: np.ndarray
    cost_slopes: np.ndarray
    z: np.ndarray
    k: np.ndarray
    slope: np.ndarray
    dz: np.ndarray
    dk: np.ndarray
    gradient: np.ndarray
    cost_rate: np.ndarray


class Shooting:
    """Integration of N intervals with ``substeps`` steps each.

    Parameters
    ----------
    rates : rates of the model.
    layout : layout of the nodes.
    tableau : tableau of an explicit Runge-Kutta method.
    substeps : steps in each interval.
    integrand : cost per time as function of (e, v, u), or of (e, v, u, u') where inputs are linear in time; or None.
    """

    def __init__(
        self,
        rates: ChartRates,
        layout: NodeLayout,
        tableau: Tableau,
        substeps: int = 1,
        integrand: Derivatives | None = None,
    ) -> None:
        self.rates, self.layout, self.integrand = rates, layout, integrand
        self.tableau, self.substeps = tableau, substeps
        self._a = tableau.matrix
        self._kept: Trajectory | None = None
        self._spread: tuple[np.ndarray, np.ndarray] | None = None
        self._lam: tuple[np.ndarray, np.ndarray] | None = None
        self._calls: dict[Kernel, tuple[list[np.ndarray], Bound, list[np.ndarray]]] = {}
        self._bound: tuple[tuple[np.ndarray, ...], list[Bound]] | None = None

    # --- inputs -------------------------------------------------------------------------------------------------------------

    def _input(self, y: np.ndarray, fraction: float) -> np.ndarray:
        """Inputs (N, nu) at a fraction of the interval."""
        layout = self.layout
        return y[:, layout.s] + fraction * y[:, layout.c] if layout.linear else y[:, layout.c]

    @cached_property
    def _input_slopes(self) -> list[np.ndarray]:
        """Constant du/dy (nu, ny) at every stage of every substep."""
        layout, slopes = self.layout, []
        for step in range(self.substeps):
            for c in self.tableau.c:
                slope = np.zeros((layout.nu, layout.size))
                slope[:, layout.c] = np.eye(layout.nu) * (self._fraction(step, c) if layout.linear else 1.0)
                slope[:, layout.s] = np.eye(layout.nu)[:, : layout.s.stop - layout.s.start]
                slopes.append(slope)
        return slopes

    def _fraction(self, step: int, c: float) -> float:
        return (step + c) / self.substeps

    # --- values -------------------------------------------------------------------------------------------------------------

    def run(
        self,
        y: np.ndarray,
        weights: np.ndarray,
        q_bar: np.ndarray,
        parameters: np.ndarray,
        further: Sequence[np.ndarray] = (),
        slopes: bool = False,
    ) -> Trajectory:
        """Integrate all intervals.

        Parameters
        ----------
        y : (N, ny) variables of the nodes. weights : (N,) length of each interval, as part of tau where the duration is free, else in s.
        q_bar : (N, nq) centres of the charts. parameters : (np,). further : further arguments of the integrand.
        slopes : whether to compute the derivatives of ends (N, nx, ny) and costs (N, ny) too. Arrays of stages are overwritten by the
            next run with slopes.
        """
        layout, part = self.layout, weights / self.substeps
        h = part * y[:, layout.tau] if layout.free else part
        made = self._stages(Given(y, h, part, q_bar, parameters, further), slopes)
        for t, fraction in enumerate(self._fractions):
            made.z[:, t, layout.nx :] = self._input(y, fraction)
        x, dx = y[:, : layout.nx], made.slopes
        dx[...] = self._unmoved
        for step in range(self.substeps):
            stages = slice(step * self.tableau.stages, (step + 1) * self.tableau.stages)
            self._step(made, step, x, dx, slopes)
            total = self._weighted(made.k[:, stages])
            x = x + h[:, None] * total
            if slopes:
                dx = dx + h[:, None, None] * self._weighted(made.dk[:, stages])
                if layout.free:
                    dx[:, :, layout.tau] += part[:, None] * total
        made = replace(made, ends=x, slopes=dx)
        return made if self.integrand is None else self._with_costs(made)

    def _step(self, made: Trajectory, step: int, x: np.ndarray, dx: np.ndarray, slopes: bool) -> None:
        """Fill the stages of a step from x (N, nx) with the slopes dx (N, nx, ny)."""
        layout, n, nx, (_, h, part, q_bar, parameters, _) = self.layout, self.tableau.stages, self.layout.nx, made.given
        evaluate = self._evaluations(made) if slopes else []
        first = step * n
        k = made.k[:, first : first + n]
        for i in range(n):
            t, z = first + i, made.z[:, first + i]
            row = [(self._a[i, j], j) for j in range(i) if self._a[i, j] != 0.0]
            raised = _combined(row, k)
            z[:, :nx] = x if raised is None else x + h[:, None] * raised
            if not slopes:
                k[:, i] = self.rates.rho.value(z, q_bar, parameters)[0]
                continue
            evaluate[t]()
            dz = made.dz[:, t, :nx]
            if raised is None:
                dz[...] = dx
            else:
                for place, (a, j) in enumerate(row):
                    if place:
                        dz += (a * h)[:, None, None] * made.dk[:, first + j]
                    else:
                        np.multiply(made.dk[:, first + j], (a * h)[:, None, None], out=dz)
                if step:
                    dz += dx
                else:
                    dz.reshape(len(dz), -1)[:, :: layout.size + 1] += 1.0  # the unit matrix
                if layout.free:
                    dz[:, :, layout.tau] += part[:, None] * raised
            np.matmul(made.slope[:, t], made.dz[:, t], out=made.dk[:, t])

    def _weighted(self, values: np.ndarray) -> np.ndarray:
        """``sum_i b_i values_i`` (N, ...) of the stages of a step (N, s, ...)."""
        count, n, *shape = values.shape
        return (np.array(self.tableau.b)[None] @ values.reshape(count, n, -1)).reshape(count, *shape)

    @cached_property
    def _fractions(self) -> list[float]:
        """Fractions of the interval at all stages of all steps."""
        return [self._fraction(step, c) for step in range(self.substeps) for c in self.tableau.c]

    @cached_property
    def _unmoved(self) -> np.ndarray:
        """dx/dy (nx, ny) at the node itself."""
        return np.eye(self.layout.nx, self.layout.size)

    def _at_stages(self, q_bar: np.ndarray) -> np.ndarray:
        """Centres (N, T, nq) of all stages of all intervals; cached for the last array."""
        if self._spread is None or self._spread[0] is not q_bar:
            self._spread = q_bar, np.repeat(q_bar[:, None], self.substeps * self.tableau.stages, axis=1)
        return self._spread[1]

    def _evaluations(self, made: Trajectory) -> list[Bound]:
        """Native calls that fill the rates and slopes of each stage; cached for the same arrays."""
        q_bar, parameters = made.given.q_bar, made.given.parameters
        key = (made.z, q_bar, parameters)
        if self._bound is None or any(a is not b for a, b in zip(self._bound[0], key, strict=True)):
            first, centres = self.rates.rho.first, np.ascontiguousarray(q_bar)
            stages = range(made.z.shape[1])
            calls = [
                Bound(first, (made.z[:, t], centres, parameters), (made.k[:, t], made.slope[:, t])) for t in stages
            ]
            self._bound = key, calls
        return self._bound[1]

    def _evaluated(self, kernel: Kernel, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Results (N T, ...) of a kernel at all stages, overwritten by its next evaluation. Calls are cached with their arrays."""
        known = self._calls.get(kernel)
        if known is None or any(a is not b for a, b in zip(known[0], arrays, strict=True)):
            shapes, count = list(kernel.inputs.values()), arrays[0].shape[0] * arrays[0].shape[1]
            rows = [a.reshape(count, *s) if a.ndim > len(s) else a for a, s in zip(arrays, shapes, strict=True)]
            outputs = [np.empty((count, *shape)) for shape in kernel.outputs.values()]
            known = self._calls[kernel] = list(arrays), Bound(kernel, rows, outputs), outputs
        known[1]()
        return known[2]

    def _stages(self, given: Given, slopes: bool) -> Trajectory:
        """Arrays for the results of stages; those with slopes are reused."""
        layout, total, count = self.layout, self.substeps * self.tableau.stages, len(given.y)
        nx, ny, nz = layout.nx, layout.size, layout.nx + layout.nu
        if slopes and self._kept is not None and len(self._kept.z) == count:
            return replace(self._kept, given=given, costs=np.zeros(count), slopes=np.empty((count, nx, ny)))
        some = count if slopes else 0
        made = Trajectory(
            given, np.empty((count, nx)), np.zeros(count), np.empty((some, nx, ny)), np.zeros((some, ny)),
            np.empty((count, total, nz)), np.empty((count, total, nx)), np.empty((some, total, nx, nz)),
            np.empty((some, total, nz, ny)), np.empty((some, total, nx, ny)), np.zeros((some, total, 0)), np.zeros((some, ny)),
        )  # fmt: skip
        made.dz[:, :, nx:] = np.stack(self._input_slopes)
        if slopes:
            self._kept = made
        return made

    @cached_property
    def rated(self) -> bool:
        """Whether the cost per time depends on the rates of the inputs."""
        return self.integrand is not None and self.integrand.patterns[0].shape[1] > self.layout.nx + self.layout.nu

    def _cost_arguments(self, made: Trajectory) -> tuple[np.ndarray, np.ndarray]:
        """Arguments (N, T, nz) of the cost per time and their slopes (N, T, nz, ny): those of the rates, and u' = c / (length)."""
        if not self.rated:
            return made.z, made.dz
        layout, y, (count, total, _) = self.layout, made.given.y, made.z.shape
        length = (self.substeps * made.given.h)[:, None]
        rate, slope = y[:, layout.c] / length, np.zeros((count, layout.nu, layout.size))
        slope[:, np.arange(layout.nu), np.arange(layout.c.start, layout.c.stop)] = 1.0 / length
        if layout.free:
            slope[:, :, layout.tau] = -rate / y[:, layout.tau, None]
        z = np.concatenate([made.z, np.repeat(rate[:, None], total, axis=1)], axis=2)
        if not len(made.dz):
            return z, made.dz
        return z, np.concatenate([made.dz, np.repeat(slope[:, None], total, axis=1)], axis=2)

    def _with_costs(self, made: Trajectory) -> Trajectory:
        """The integral of the cost over the intervals, and its slopes: all stages are one native batch."""
        integrand: Derivatives = self.integrand  # pyright: ignore[reportAssignmentType]
        layout, h, (z, dz) = self.layout, made.given.h, self._cost_arguments(made)
        count, total, nz = z.shape
        arguments = [z, self._at_stages(made.given.q_bar), made.given.parameters, *made.given.further]
        b = np.tile(self.tableau.b, self.substeps)
        if not len(made.slopes):
            return replace(made, costs=h * (integrand.value(*arguments)[0][:, :, 0] @ b))
        value, gradient = self._evaluated(integrand.first, arguments)
        rate = value.reshape(count, total) @ b
        gradient = gradient.reshape(count, total, nz)
        moved = ((b[:, None] * gradient).reshape(count, 1, -1) @ dz.reshape(count, total * nz, -1))[:, 0]
        slopes = h[:, None] * moved
        if layout.free:
            slopes[:, layout.tau] += made.given.part * rate
        return replace(made, costs=h * rate, cost_slopes=slopes, gradient=gradient, cost_rate=moved)

    def _stage_multipliers(
        self, slope: np.ndarray, adjoint: np.ndarray, h: np.ndarray, pushed: np.ndarray
    ) -> np.ndarray:
        """mu_i / h (N, n, nx) of the stages of a step.

        ``slope``: (N, n, nx, nz) of their rates. ``adjoint``: (N, nx) at the end of the step. ``h``: (N, 1).
        ``pushed``: (N, n, nx) contribution of the cost to nu_i.
        """
        n, a, b, nx = self.tableau.stages, self._a, self.tableau.b, self.layout.nx
        nu, mus = np.empty((len(adjoint), n, nx)), np.empty((len(adjoint), n, nx))
        for i in reversed(range(n)):
            mu = b[i] * adjoint
            later = _combined([(a[j, i], j) for j in range(i + 1, n) if a[j, i] != 0.0], nu)
            mus[:, i] = mu if later is None else mu + later
            nu[:, i] = ((h * mus[:, i])[:, None] @ slope[:, i])[:, 0, :nx] + pushed[:, i]
        return mus

    # --- second derivatives -------------------------------------------------------------------------------------------------

    def hessians(self, made: Trajectory, lam: np.ndarray, cost_weight: float) -> np.ndarray:
        """Hessians (N, ny, ny) of ``lam . end + cost_weight * cost`` for the trajectory that was last run with slopes."""
        layout, n, nx, (y, h, part, q_bar, parameters, further) = (
            self.layout,
            self.tableau.stages,
            self.layout.nx,
            made.given,
        )
        count, ny, h = len(y), layout.size, h[:, None]
        b, curved_cost = np.array(self.tableau.b), bool(made.gradient.shape[2])
        if self._lam is None or self._lam[0].shape != made.k.shape:
            self._lam = np.empty(made.k.shape), np.empty((*made.k.shape[:2], 1))
        mus, weight = self._lam
        adjoint, pushed = lam, np.zeros((count, n, nx))
        for step in reversed(range(self.substeps)):
            stages = slice(step * n, (step + 1) * n)
            slope = made.slope[:, stages]
            if curved_cost:
                pushed = (cost_weight * h)[:, :, None] * (b[:, None] * made.gradient[:, stages, :nx])
            mu = mus[:, stages] = self._stage_multipliers(slope, adjoint, h, pushed)
            if step:
                back = (h * mu.reshape(count, -1))[:, None] @ slope.reshape(count, n * nx, -1)
                adjoint = adjoint + back[:, 0, :nx] + pushed.sum(axis=1)
        # one native batch for the second derivatives of all stages of all intervals
        centres = self._at_stages(q_bar)
        cross = (mus.reshape(count, 1, -1) @ made.dk.reshape(count, -1, ny))[:, 0] if layout.free else None
        mus *= h[:, :, None]
        (curved,) = self._evaluated(self.rates.rho.second, [mus, made.z, centres, parameters])
        bent_cost = None
        if self.integrand is not None and self.integrand.patterns[1].any():
            weight[:, :, 0] = cost_weight * h * np.tile(b, self.substeps)
            z, dz = self._cost_arguments(made)
            bent_cost = self._evaluated(self.integrand.second, [weight, z, centres, parameters, *further])[0]
            if not self.rated:
                curved += bent_cost
        total = _turned(curved, made.dz)
        if self.rated:
            if bent_cost is not None:
                total += _turned(bent_cost, dz)
            self._add_curved_rates(total, made, cost_weight)
        if cross is not None:
            if curved_cost:
                cross += cost_weight * made.cost_rate
            cross *= part[:, None]
            total[:, layout.tau] += cross
            total[:, :, layout.tau] += cross
        return total

    def _add_curved_rates(self, total: np.ndarray, made: Trajectory, cost_weight: float) -> None:
        """Add the second derivatives of u' = c / length by c and tau to the Hessians, if the length is free."""
        layout, nz, y, h = self.layout, self.layout.nx + self.layout.nu, made.given.y, made.given.h[:, None]
        if not layout.free:
            return
        b, tau = np.tile(self.tableau.b, self.substeps), y[:, layout.tau, None]
        pull = cost_weight * h * np.einsum("i,nik->nk", b, made.gradient[:, :, nz:])
        length = self.substeps * h
        rate = y[:, layout.c] / length
        total[:, layout.tau, layout.tau] += np.sum(2.0 * pull * rate / tau**2, axis=1)
        total[:, layout.tau, layout.c] -= pull / (length * tau)
        total[:, layout.c, layout.tau] -= pull / (length * tau)


def _turned(curved: np.ndarray, dz: np.ndarray) -> np.ndarray:
    """``sum_i dz_i^T curved_i dz_i`` (N, ny, ny) of all stages, with curved (N T, nz, nz) and dz (N, T, nz, ny)."""
    count, ny = len(dz), dz.shape[3]
    bent = (curved.reshape(count, -1, *curved.shape[1:]) @ dz).reshape(count, -1, ny)
    return np.swapaxes(dz.reshape(count, -1, ny), 1, 2) @ bent


def _combined(row: Sequence[tuple[float, int]], values: np.ndarray) -> np.ndarray | None:
    """``sum_j a_j values[:, j]``; None for an empty sum."""
    total: np.ndarray | None = None
    for a, j in row:
        part = values[:, j] if a == 1.0 else a * values[:, j]
        total = part if total is None else total + part
    return total


@dataclass(frozen=True, eq=False)
class IntervalPatterns:
    """Masks of one interval.

    Attributes
    ----------
    slope : (nx, ny) of the Jacobian by the variables of the node. next_slope : (nx, ne) by the chart coordinates of the next one.
    curve : (ny, ny), cross_curve : (ny, ne), next_curve : (ne, ne) of the Hessian. linked : whether links are nonlinear.
    """

    slope: np.ndarray
    next_slope: np.ndarray
    curve: np.ndarray
    cross_curve: np.ndarray
    next_curve: np.ndarray
    linked: bool


def interval_patterns(shooting: Shooting) -> IntervalPatterns:
    """Propagate dependencies through the stages of an interval."""
    layout, rates, a = shooting.layout, shooting.rates, shooting.tableau.matrix
    nx, ny, ne = layout.nx, layout.size, layout.ne
    first, second = rates.rho.patterns
    size = nx + layout.nu * (1 + int(shooting.rated))  # of the arguments of the cost per time
    gradient, curved = np.zeros(size, dtype=bool), np.zeros((size, size), dtype=bool)
    curved[: nx + layout.nu, : nx + layout.nu] = second
    if shooting.integrand is not None:
        own_first, own_second = shooting.integrand.patterns
        curved |= own_second
        gradient = own_first[0]
    dx = np.zeros((nx, ny), dtype=bool)
    dx[np.arange(nx), np.arange(nx)] = True
    curve = np.zeros((ny, ny), dtype=bool)
    implicit = shooting.tableau.implicit
    if implicit:  # every stage depends on all others: the closure under the rates
        dx[:, :] = _reached(first, dx, shooting)
    for step in range(min(shooting.substeps, 2)):  # further steps add no dependency
        dk: list[np.ndarray] = []
        for i in range(shooting.tableau.stages):
            dz = np.zeros((size, ny), dtype=bool)
            dz[:nx] = dx
            for j in () if implicit else range(i):
                if a[i, j] != 0.0:
                    dz[:nx] |= dk[j]
                    if layout.free:
                        dz[:nx, layout.tau] = True
            dz[nx : nx + layout.nu] = (shooting._input_slopes[step * shooting.tableau.stages + i] != 0) | (
                shooting._input_slopes[-1] != 0
            )
            if shooting.rated:
                dz[nx + layout.nu :, layout.c] = np.eye(layout.nu, dtype=bool)
                dz[nx + layout.nu :, layout.tau] |= layout.free
            dk.append(first @ dz[: nx + layout.nu])
            curve |= dz.T @ curved @ dz
            if layout.free:
                crossed = dk[-1].any(axis=0) | (gradient @ dz)
                curve[layout.tau] |= crossed
                curve[:, layout.tau] |= crossed
        for slope in dk:
            dx = dx | slope
        if layout.free:
            dx[:, layout.tau] = True
    link_first, link_second = rates.link.patterns
    bent = bool(link_second.any())
    slope = np.concatenate([link_first[:, :ne] @ dx[:ne], dx[ne:]])
    next_slope = np.zeros((nx, ne), dtype=bool)
    next_slope[:ne] = link_first[:, ne:]
    cross = next_curve = np.zeros((ny, ne), dtype=bool)
    if bent:
        curve |= dx[:ne].T @ link_second[:ne, :ne] @ dx[:ne]
        cross, next_curve = dx[:ne].T @ link_second[:ne, ne:], link_second[ne:, ne:]
    else:
        next_curve = np.zeros((ne, ne), dtype=bool)
    return IntervalPatterns(slope, next_slope, curve, cross, next_curve, bent)


def _reached(first: np.ndarray, dx: np.ndarray, shooting: Shooting) -> np.ndarray:
    """Which variables (nx, ny) reach the states of the stages of an implicit method."""
    layout, nx = shooting.layout, len(dx)
    dz = np.concatenate([dx, np.any([slope != 0 for slope in shooting._input_slopes], axis=0)])
    if layout.free:
        dz[:nx, layout.tau] = True
    while True:
        more = dz[:nx] | (first @ dz)
        if np.array_equal(more, dz[:nx]):
            return more
        dz[:nx] = more
