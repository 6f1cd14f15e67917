"""Steps of a model in charts with exact first and second derivatives: all intervals of a horizon at once.

An interval of length h starts at a node with the variables ``y = (e, v, [s], [tau], c)``: place and velocity, the input at the start (only
where inputs are linear in time), the duration (only where it is free) and the input, or its change over the interval. Runge-Kutta stages
``k_i = rho(x_i, u_i)``, ``x_i = x + h sum_j a_ij k_j`` follow each other in the chart of the node, which makes the steps those of a
Munthe-Kaas method. Derivatives are composed from those of ``rho`` by the chain rule, forwards for slopes, backwards for Hessians:

    dk_i = rho' dz_i,                      mu_i = h b_i lam + h sum_j a_ji nu_j,      nu_i = rho_x'^T mu_i + h b_i l_x'
    H = sum_i dz_i^T (rho'' mu_i + h b_i l'') dz_i + (mu_i / h dk_i + b_i dl_i) dh + transposed
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from heavytop.control.rates import ChartRates, Derivatives
from heavytop.simulate.integrators.tableaus import Tableau


@dataclass(frozen=True)
class NodeLayout:
    """Where what is in the variables y of a node.

    Attributes
    ----------
    ne, nv, nu : sizes of place, velocity and input.
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
        """Place in the chart."""
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
        """Duration; only if it is free."""
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


@dataclass
class Trajectory:
    """Intervals that were integrated: ends (N, nx), costs (N,), what derivatives need of every stage, and slopes (none: 0 of them)."""

    ends: np.ndarray
    costs: np.ndarray
    stages: list[dict[str, np.ndarray]]
    slopes: np.ndarray
    cost_slopes: np.ndarray


class Shooting:
    """Integration of N intervals with ``substeps`` steps each.

    Parameters
    ----------
    rates : of the model.
    layout : of the nodes.
    tableau : of an explicit Runge-Kutta method.
    substeps : steps in each interval.
    integrand : cost per time as function of (e, v, u), or None.
    """

    def __init__(
        self,
        rates: ChartRates,
        layout: NodeLayout,
        tableau: Tableau,
        substeps: int = 1,
        integrand: Derivatives | None = None,
    ) -> None:
        self.rates, self.layout, self.tableau, self.substeps, self.integrand = (
            rates,
            layout,
            tableau,
            substeps,
            integrand,
        )
        self._a = tableau.matrix

    # --- where inputs are ---------------------------------------------------------------------------------------------------

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
        own: Sequence[np.ndarray] = (),
        slopes: bool = False,
    ) -> Trajectory:
        """Integrate all intervals.

        Parameters
        ----------
        y : (N, ny) variables of the nodes. weights : (N,) length of each interval, as part of tau where the duration is free, else in s.
        q_bar : (N, nq) centres of the charts. parameters : (np,). own : further arguments of the integrand.
        slopes : whether to compute the derivatives of ends (N, nx, ny) and costs (N, ny) too.
        """
        layout, n = self.layout, self.tableau.stages
        count, nx = len(y), layout.nx
        part = weights / self.substeps
        h = part * y[:, layout.tau] if layout.free else part
        x, costs, stages = y[:, :nx].copy(), np.zeros(count), []
        dx, dh = np.zeros((count if slopes else 0, nx, layout.size)), part
        dx[:, np.arange(nx), np.arange(nx)] = 1.0
        dcosts = np.zeros((len(dx), layout.size))
        rho, column = self.rates.rho, h[:, None]
        for step in range(self.substeps):
            k: list[np.ndarray] = []
            dk: list[np.ndarray] = []
            for i in range(n):
                row = [j for j in range(i) if self._a[i, j] != 0.0]
                raised = sum((self._a[i, j] * k[j] for j in row), np.zeros((count, nx)))
                u = self._input(y, self._fraction(step, self.tableau.c[i]))
                z = np.concatenate([x + column * raised, u], axis=1)
                stage: dict[str, np.ndarray] = {"z": z}
                if not slopes:
                    (rate,) = rho.value(z, q_bar, parameters)
                    if self.integrand is not None and self.tableau.b[i]:
                        costs += h * self.tableau.b[i] * self.integrand.value(z, q_bar, parameters, *own)[0][:, 0]
                else:
                    rate, slope = rho.first(z, q_bar, parameters)
                    dz = np.empty((count, nx + layout.nu, layout.size))
                    dz[:, :nx] = dx
                    for j in row:
                        dz[:, :nx] += (self._a[i, j] * column)[:, :, None] * dk[j]
                    if layout.free and row:
                        dz[:, :nx, layout.tau] += dh[:, None] * raised
                    dz[:, nx:] = self._input_slopes[step * n + i]
                    dk.append(slope @ dz)
                    stage |= {"dz": dz, "slope": slope, "dk": dk[-1]}
                    if self.integrand is not None and self.tableau.b[i]:
                        value, gradient = self.integrand.first(z, q_bar, parameters, *own)
                        moved = np.matvec(np.swapaxes(dz, 1, 2), gradient[:, 0])
                        costs += h * self.tableau.b[i] * value[:, 0]
                        dcosts += (self.tableau.b[i] * column) * moved
                        if layout.free:
                            dcosts[:, layout.tau] += dh * self.tableau.b[i] * value[:, 0]
                        stage |= {"gradient": gradient[:, 0], "dl": moved}
                k.append(rate)
                stages.append(stage)
            b = self.tableau.b
            total = sum((b[i] * k[i] for i in range(n) if b[i]), np.zeros((count, nx)))
            x = x + column * total
            if slopes:
                dx = dx + column[:, :, None] * sum(b[i] * dk[i] for i in range(n) if b[i])
                if layout.free:
                    dx[:, :, layout.tau] += dh[:, None] * total
        return Trajectory(x, costs, stages, dx, dcosts)

    def _stage_multipliers(
        self, stages: list[dict[str, np.ndarray]], adjoint: np.ndarray, h: np.ndarray, costs: list[np.ndarray | float]
    ) -> list[np.ndarray]:
        """mu_i / h (N, nx) of the stages of a step, from the last one to the first."""
        n, a, b, nx = self.tableau.stages, self._a, self.tableau.b, self.layout.nx
        nu: list[np.ndarray] = [np.zeros_like(adjoint)] * n
        mus = [np.zeros_like(adjoint)] * n
        for i in reversed(range(n)):
            mu = b[i] * adjoint
            for j in range(i + 1, n):
                if a[j, i] != 0.0:
                    mu = mu + a[j, i] * nu[j]
            mus[i] = mu
            nu[i] = np.matvec(np.swapaxes(stages[i]["slope"][:, :, :nx], 1, 2), h * mu) + costs[i]
        return mus

    # --- second derivatives -------------------------------------------------------------------------------------------------

    def hessians(
        self,
        trajectory: Trajectory,
        lam: np.ndarray,
        cost_weight: float,
        y: np.ndarray,
        weights: np.ndarray,
        q_bar: np.ndarray,
        parameters: np.ndarray,
        own: Sequence[np.ndarray] = (),
    ) -> np.ndarray:
        """Hessians (N, ny, ny) of ``lam . end + cost_weight * cost`` for a trajectory that was run with slopes."""
        layout, n, b = self.layout, self.tableau.stages, self.tableau.b
        nx, part = layout.nx, weights / self.substeps
        h = (part * y[:, layout.tau] if layout.free else part)[:, None]
        total = np.zeros((len(y), layout.size, layout.size))
        cross = np.zeros((len(y), layout.size))
        adjoint, everything = lam, []
        for step in reversed(range(self.substeps)):
            stages = trajectory.stages[step * n : (step + 1) * n]
            costs = [
                cost_weight * b[i] * h * stages[i]["gradient"][:, :nx] if "gradient" in stages[i] else 0.0
                for i in range(n)
            ]
            mus = self._stage_multipliers(stages, adjoint, h, costs)
            for i in reversed(range(n)):
                stage = stages[i]
                if layout.free:
                    cross += np.matvec(np.swapaxes(stage["dk"], 1, 2), mus[i])
                    if "gradient" in stage:
                        cross += cost_weight * b[i] * stage["dl"]
                mu = h * mus[i]
                adjoint = adjoint + np.matvec(np.swapaxes(stage["slope"][:, :, :nx], 1, 2), mu) + costs[i]
                everything.append((stage, mu, b[i]))
        # one native batch for the second derivatives of all stages of all intervals
        count = len(everything)
        z = np.concatenate([stage["z"] for stage, _, _ in everything])
        centres = np.broadcast_to(q_bar, (count, *q_bar.shape)).reshape(-1, q_bar.shape[1])
        (curved,) = self.rates.rho.second(np.concatenate([mu for _, mu, _ in everything]), z, centres, parameters)
        if self.integrand is not None:
            weight = np.concatenate([np.broadcast_to(cost_weight * bi * h, (len(y), 1)) for _, _, bi in everything])
            spread = [np.broadcast_to(o, (count, *o.shape)).reshape(-1, o.shape[1]) for o in own]
            curved = curved + self.integrand.second(weight, z, centres, parameters, *spread)[0]
        dz = np.concatenate([stage["dz"] for stage, _, _ in everything])
        parts = np.swapaxes(dz, 1, 2) @ (curved @ dz)
        total += parts.reshape(count, len(y), layout.size, layout.size).sum(axis=0)
        if layout.free:
            total[:, layout.tau] += part[:, None] * cross
            total[:, :, layout.tau] += part[:, None] * cross
        return total
