"""The variational midpoint method on a Lie group: symplectic, and exact in every momentum that a symmetry conserves.

The discrete Lagrangian of a step ``q1 = q0 o exp(delta)`` is ``l(q0, delta) = h L(q0 o exp(delta / 2), delta / h)``. Stationarity
of its sum, with variations ``q o exp(eta)``, gives for the momenta p = dL/dw (Marsden and West 2001; Bou-Rabee and
Marsden 2009)

    p0 = T^-T(-delta) dl/ddelta - dl/dq0 - h/2 F,         p1 = T^-T(delta) dl/ddelta + h/2 F,

``T^-1`` the inverse tangent operator of exp and F the forces that have no potential, taken half way. A left symmetry of L
is one of l, so its momentum is exact; the method is symmetric: order 2. The energy oscillates and does not drift.

The first equation is solved for delta by ``delta <- delta + h M^-1 (p0 - ...)``, a fixed number of times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from heavytop._arrays import Array, jacobian, substitute, symbol, to_sx, transpose, vector
from heavytop.compile import Shape, Traced, trace_of
from heavytop.errors import SimulationError
from heavytop.simulate.dynamics import Dynamics
from heavytop.simulate.integrators.base import SLOW, Integrator, need_unconstrained, relative_size
from heavytop.simulate.plant import Plant, PlantState
from heavytop.system import solve_definite


class Variational(Integrator):
    """Order 2, symplectic, exact momentum; for long runs of conservative systems, also with inputs and damping.

    Parameters
    ----------
    iterations : number of fixed-point iterations in each step. The record ``residual`` has the last relative change.

    Examples
    --------
    >>> import heavytop as ht
    >>> run = ht.simulate(ht.library.pendulum().derive(), ([1.0], [0.0]), 1.0, 0.01, Variational(iterations=12))
    >>> bool(run.channels["residual"].max() < 1e-12)
    True
    """

    name = "variational"
    order = 2
    carries_velocity = False
    records = ("residual",)

    def __init__(self, iterations: int = 10) -> None:
        if not isinstance(iterations, int) or iterations < 2:
            raise SimulationError(f"Variational needs at least 2 iterations, a whole number, got {iterations!r}.")
        self.iterations = iterations

    def __repr__(self) -> str:
        return f"Variational(iterations={self.iterations})"

    def carries(self, plant: Plant) -> Mapping[str, Shape]:
        return {"momentum": (plant.nv,), "residual": ()}

    def start(self, problem: Any) -> Mapping[str, Array]:
        """Start from the momentum p = W^-T M v."""
        return {"momentum": _pieces(problem.dynamics).momentum.interpret(problem.q, problem.v, problem.p)[0]}

    def initial(self, dynamics: Dynamics) -> Traced:
        return _pieces(dynamics).momentum

    def readout(self, dynamics: Dynamics) -> Traced:
        return _pieces(dynamics).velocity

    def velocity(self, plant: Plant, state: PlantState) -> Array:
        plant.need_group()
        need_unconstrained(plant, "Variational")
        return plant.call(_pieces(plant.dynamics).velocity, state.q, state.own["momentum"], plant.p)[0]

    def step(self, plant: Plant, state: PlantState, h: Array) -> PlantState:
        if plant.memory in plant.flats:
            raise SimulationError(
                "Variational does not integrate the memory of a continuous law; take hold='zero-order'."
            )
        f = _pieces(plant.dynamics)
        start, mass = plant.call(f.predict, state.q, state.v, h, plant.p)

        def iterate(delta: Array) -> Sequence[Array]:
            driven: list[Array] = []
            if f.force is not None:
                q_m, v_m = plant.call(f.middle, state.q, delta, h, plant.p)
                u = plant.at(state.replaced(q=q_m, v=v_m), 0.5).u
                driven = [*plant.call(f.force, q_m, v_m, u, plant.p), q_m, v_m, u]
            better = plant.call(f.improve, state.q, delta, state.own["momentum"], mass, h, plant.p, *driven[:1])
            return *better, *driven

        delta, change, *driven = plant.repeat(self.iterations, iterate, start)
        q, momentum, residual = plant.call(
            f.finish, state.q, delta, h, plant.p, change, state.own["residual"], *driven[:1]
        )
        end = state.replaced(q=q).keeping(momentum=momentum, residual=residual)
        if plant.work is not None and plant.power is not None:  # by the midpoint rule
            powers = plant.call(plant.power, *driven[1:], plant.p)
            end = end.replaced(work=state.of(plant.work) + h * vector(*powers))
        return end


def _pieces(dynamics: Dynamics) -> _Pieces:
    return dynamics.functions.get(_Pieces, lambda: _Pieces(dynamics))


class _Pieces:
    """The traced functions of a step, from the energies of the system by differentiation."""

    def __init__(self, dynamics: Dynamics) -> None:
        if dynamics.has_time:
            raise SimulationError(
                f"Variational takes the momentum of {dynamics.name!r} from a kinetic energy that is quadratic in the velocities, but the time is in "
                "its equations. Use integrator='rkmk4' or 'rkmk8'."
            )
        energies = dynamics.energies()
        if energies is None:
            raise SimulationError(
                f"Variational needs the energies of {dynamics.name!r}: give kinetic= and potential= to the dynamics."
            )
        self.energies, self.c, self._force = energies, dynamics.coordinates, dynamics.force()
        self.n, self.nq, self.np = dynamics.nv, dynamics.nq, energies.inputs["p"][0]
        self.map = _velocity_map(dynamics.motion(), self.nq, self.n)

    def _velocity_of(self, q: Array, w: Array, p: Array) -> Array:
        """v from the blocks' velocities w = W v."""
        return w if self.map is None else np.linalg.solve(self.map.expressions(q, p)[0], w)

    def _energies(self, q: Array, w: Array, p: Array) -> tuple[Array, Array]:
        kinetic, potential = self.energies.expressions(q, self._velocity_of(q, w, p), p)
        return np.reshape(kinetic, (1,)), np.reshape(potential, (1,))

    def _mass(self, q: Array, p: Array) -> Array:
        """d2T/dw2, the mass matrix in the blocks' velocities."""
        w = symbol("w", self.n)
        kinetic, _ = self._energies(q, w, p)
        return jacobian(jacobian(kinetic, w)[0, :], w)

    def _discrete(self, q: Array, delta: Array, h: Array, p: Array) -> tuple[Array, Array]:
        """dl/ddelta and dl/dq0 along q0 o exp(eta)."""
        eta, moved = symbol("eta", self.n), symbol("moved", self.n)
        start = self.c.retract(q, eta)
        kinetic, potential = self._energies(self.c.retract(start, 0.5 * moved), (1 / h) * moved, p)
        value = h * (kinetic - potential)
        by_delta = jacobian(value, moved)[0, :]
        by_start = jacobian(value, eta)[0, :]
        zero = np.zeros(self.n)
        return tuple(  # type: ignore[return-value]
            substitute(substitute(e, eta, zero), moved, delta) for e in (by_delta, by_start)
        )

    def _pull_back(self, delta: Array, covector: Array) -> Array:
        """T^-T(delta) covector."""
        velocity = symbol("velocity", self.n)
        matrix = jacobian(self.c.tangent_inverse(delta, velocity), velocity)
        return np.matvec(transpose(matrix), covector)

    def _symbols(self, *names: str) -> dict[str, Array]:
        sizes = {"q": self.nq, "p": self.np, "h": None, "change": None, "residual": None}
        values = {}
        for name in names:
            if name == "mass":
                values[name] = np.reshape(symbol(name, self.n * self.n), (self.n, self.n))
            else:
                values[name] = symbol(name, sizes.get(name, self.n))
        return values

    @cached_property
    def momentum(self) -> Traced:
        """(q, v, p) -> W^-T M v."""
        s = self._symbols("q", "v", "p")
        w = s["v"] if self.map is None else np.matvec(self.map.expressions(s["q"], s["p"])[0], s["v"])
        return trace_of("momentum", s, {"momentum": np.matvec(self._mass(s["q"], s["p"]), w)})

    @cached_property
    def force(self) -> Traced | None:
        """(q, v, u, p) -> the generalised force of the blocks' velocities: W^-T f."""
        force = self._force
        if force is None or self.map is None:
            return force
        q, v, u, p = (symbol(name, force.inputs[name][0]) for name in ("q", "v", "u", "p"))
        value = np.linalg.solve(transpose(self.map.expressions(q, p)[0]), force.expressions(q, v, u, p)[0])
        return trace_of("force", {"q": q, "v": v, "u": u, "p": p}, {"force": value})

    @cached_property
    def velocity(self) -> Traced:
        """(q, momentum, p) -> v."""
        s = self._symbols("q", "momentum", "p")
        w = solve_definite(self._mass(s["q"], s["p"]), s["momentum"])
        return trace_of("velocity", s, {"v": self._velocity_of(s["q"], w, s["p"])})

    @cached_property
    def predict(self) -> Traced:
        """(q, v, h, p) -> (delta, mass matrix)."""
        s = self._symbols("q", "v", "h", "p")
        w = s["v"] if self.map is None else np.matvec(self.map.expressions(s["q"], s["p"])[0], s["v"])
        mass = self._mass(s["q"], s["p"])
        return trace_of("predict", s, {"delta": s["h"] * w, "mass": mass + np.zeros((self.n, self.n))})

    @cached_property
    def middle(self) -> Traced:
        """(q, delta, h, p) -> configuration and velocity half way."""
        s = self._symbols("q", "delta", "h", "p")
        qm = self.c.retract(s["q"], 0.5 * s["delta"])
        return trace_of("middle", s, {"qm": qm, "vm": self._velocity_of(qm, (1 / s["h"]) * s["delta"], s["p"])})

    @cached_property
    def improve(self) -> Traced:
        """(q, delta, momentum, mass, h, p, force if there is one) -> (delta, relative change)."""
        s = self._symbols("q", "delta", "momentum", "mass", "h", "p", *(["force"] if self._force else []))
        by_delta, by_start = self._discrete(s["q"], s["delta"], s["h"], s["p"])
        left = self._pull_back(-s["delta"], by_delta) - by_start
        if self._force:
            left = left - 0.5 * s["h"] * s["force"]
        change = s["h"] * solve_definite(s["mass"], s["momentum"] - left)
        relative = relative_size(change, s["delta"], SLOW * s["h"])
        return trace_of("iterate", s, {"delta": s["delta"] + change, "change": relative})

    @cached_property
    def finish(self) -> Traced:
        """(q, delta, h, p, change, residual, force if there is one) -> (q, momentum, residual)."""
        s = self._symbols("q", "delta", "h", "p", "change", "residual", *(["force"] if self._force else []))
        by_delta, _ = self._discrete(s["q"], s["delta"], s["h"], s["p"])
        right = self._pull_back(s["delta"], by_delta)
        if self._force:
            right = right + 0.5 * s["h"] * s["force"]
        moved = self.c.retract(s["q"], s["delta"])
        residual = np.maximum(s["residual"], s["change"])
        return trace_of("finish", s, {"q": moved, "momentum": right, "residual": residual})


def _velocity_map(motion: Traced, nq: int, nv: int) -> Traced | None:
    """W(q, p) (nv, nv) of ``joint_velocity = W v``; None if it is the identity."""
    import casadi

    q, v = symbol("q", nq), symbol("v", nv)
    u, p = (symbol(n, motion.inputs[n][0]) for n in ("u", "p"))
    matrix = jacobian(motion.expressions(q, v, u, p)[0], v)
    entries = to_sx(matrix)
    if entries.is_constant() and np.array_equal(
        np.asarray(casadi.DM(casadi.evalf(entries)).full()).reshape(nv, nv), np.eye(nv)
    ):
        return None
    return trace_of("velocity_map", {"q": q, "p": p}, {"W": matrix})
