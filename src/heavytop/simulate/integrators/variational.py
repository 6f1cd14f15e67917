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

from collections.abc import Mapping
from typing import Any

import numpy as np

from heavytop._arrays import Array, jacobian, substitute, symbol, transpose
from heavytop.compile import Call, Traced, trace_of
from heavytop.errors import SimulationError
from heavytop.simulate.assembly import Control, Method, Plant
from heavytop.simulate.dynamics import velocity_map
from heavytop.simulate.integrators.base import SLOW, Integrator, need_group, need_unconstrained, project, relative_size
from heavytop.system.solve import solve_definite


class Variational(Integrator):
    """Order 2, symplectic, momentum exact; for conservative systems over long times, and with inputs and damping too.

    Parameters
    ----------
    iterations : of the fixed-point iteration in each step. The record ``residual`` tells the last relative change.
    """

    name = "variational"
    order = 2

    def __init__(self, iterations: int = 10) -> None:
        if not isinstance(iterations, int) or iterations < 2:
            raise SimulationError(f"Variational needs at least 2 iterations, a whole number, got {iterations!r}.")
        self.iterations = iterations

    def __repr__(self) -> str:
        return f"Variational(iterations={self.iterations})"

    def build(self, plant: Plant) -> Method:
        need_group(plant, "Variational")
        need_unconstrained(plant, "Variational")
        if len(plant.flats) > 1 and any(f.name == "z" for f in plant.flats):
            raise SimulationError(
                "Variational does not integrate the memory of a continuous law; take hold='zero-order'."
            )
        pieces = _Pieces(plant)
        forced = plant.dynamics.force() is not None
        n = plant.nv
        plant.buffers |= {
            "momentum": (n,),
            "v": (n,),
            "delta": (n,),
            "qm": (plant.nq,),
            "vm": (n,),
            "force": (n,),
            "mass": (n, n),
            "residual": (),
            "change": (),
        }
        plant.functions |= pieces.functions()
        half_force = ("force",) if forced else ()
        observe = Call("velocity", ("q", "momentum", "p"), ("v",))
        calls = [observe, Call("predict", ("q", "v", "h", "p"), ("delta", "mass"))]
        sweep: list[Call] = []
        if forced:
            plant.functions["force"] = self._force(plant)
            middle = Call("middle", ("q", "delta", "h", "p"), ("qm", "vm"))
            inputs, u = plant.input_at("m", 0.5, "qm", {"v": "vm"})
            sweep += [middle, *inputs, Call("force", ("qm", "vm", u, "p"), ("force",))]
        sweep.append(Call("iterate", ("q", "delta", "momentum", "mass", "h", "p", *half_force), ("delta", "change")))
        calls += sweep * self.iterations
        if any(f.name == "work" for f in plant.flats):
            calls += self._work(plant)
        calls.append(
            Call("finish", ("q", "delta", "h", "p", "change", "residual", *half_force), ("q", "momentum", "residual"))
        )
        return Method(
            [*calls, *project(plant)],
            observe=(observe,),
            state=("momentum", "residual"),
            carries_v=False,
            record=("residual",),
        )

    def _force(self, plant: Plant) -> Traced:
        """The generalised force of the blocks' velocities: W^-T f."""
        force = plant.dynamics.force()
        if force is None:
            raise SimulationError(f"{plant.dynamics.name!r} has no force function.")
        w_map = velocity_map(plant.functions["motion"], plant.nq, plant.nv)
        if w_map is None:
            return force
        q, v, u, p = (symbol(name, force.inputs[name][0]) for name in ("q", "v", "u", "p"))
        value = np.linalg.solve(transpose(w_map.expressions(q, p)[0]), force.expressions(q, v, u, p)[0])
        return trace_of("force", {"q": q, "v": v, "u": u, "p": p}, {"force": value})

    def _work(self, plant: Plant) -> list[Call]:
        """Work by the midpoint rule."""
        _, u = plant.input_at("m", 0.5, "qm", {"v": "vm"})
        plant.buffers |= {"input_power~": (), "dissipated_power~": ()}
        power = Call("power", ("qm", "vm", u, "p"), ("input_power~", "dissipated_power~"))

        def add(work: Array, h: Array, a: Array, b: Array) -> Mapping[str, Array]:
            return {"work": work + h * np.stack([a, b], axis=-1)}

        return [power, plant.function("work", add, ("work", "h", "input_power~", "dissipated_power~"))]

    def prepare(self, problem: Any, state: dict[str, Array]) -> dict[str, Array]:
        """Start from the momentum p = W^-T M v."""

        def make() -> Traced:
            return _Pieces(Plant(problem.dynamics, Control("table"), False)).momentum()

        momenta = problem.dynamics.steppers.recall("momenta", make)
        momentum = momenta.interpret(problem.q, problem.v, problem.p)[0]
        return {name: value for name, value in state.items() if name != "v"} | {"momentum": momentum}


class _Pieces:
    """The traced functions of a step, from the energies of the system by differentiation."""

    def __init__(self, plant: Plant) -> None:
        energies = plant.dynamics.energies()
        if energies is None:
            raise SimulationError(
                f"Variational needs the energies of {plant.dynamics.name!r}: give kinetic= and potential= to the dynamics."
            )
        self.plant, self.energies, self.c = plant, energies, plant.coordinates
        self.n, self.nq, self.np = plant.nv, plant.nq, energies.inputs["p"][0]
        self.map = velocity_map(plant.functions["motion"], self.nq, self.n)

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

    def momentum(self) -> Traced:
        """(q, v, p) -> W^-T M v."""
        s = self._symbols("q", "v", "p")
        w = s["v"] if self.map is None else np.matvec(self.map.expressions(s["q"], s["p"])[0], s["v"])
        return trace_of("momentum", s, {"momentum": np.matvec(self._mass(s["q"], s["p"]), w)})

    def functions(self) -> dict[str, Traced]:
        """All functions the calls use."""
        forced = self.plant.dynamics.force() is not None
        result = {"velocity": self._velocity(), "predict": self._predict(), "iterate": self._iterate(forced)}
        if forced:
            result["middle"] = self._middle()
        return result | {"finish": self._finish(forced)}

    def _velocity(self) -> Traced:
        s = self._symbols("q", "momentum", "p")
        w = solve_definite(self._mass(s["q"], s["p"]), s["momentum"])
        return trace_of("velocity", s, {"v": self._velocity_of(s["q"], w, s["p"])})

    def _predict(self) -> Traced:
        s = self._symbols("q", "v", "h", "p")
        w = s["v"] if self.map is None else np.matvec(self.map.expressions(s["q"], s["p"])[0], s["v"])
        mass = self._mass(s["q"], s["p"])
        return trace_of("predict", s, {"delta": s["h"] * w, "mass": mass + np.zeros((self.n, self.n))})

    def _middle(self) -> Traced:
        s = self._symbols("q", "delta", "h", "p")
        qm = self.c.retract(s["q"], 0.5 * s["delta"])
        return trace_of("middle", s, {"qm": qm, "vm": self._velocity_of(qm, (1 / s["h"]) * s["delta"], s["p"])})

    def _iterate(self, forced: bool) -> Traced:
        s = self._symbols("q", "delta", "momentum", "mass", "h", "p", *(["force"] if forced else []))
        by_delta, by_start = self._discrete(s["q"], s["delta"], s["h"], s["p"])
        left = self._pull_back(-s["delta"], by_delta) - by_start
        if forced:
            left = left - 0.5 * s["h"] * s["force"]
        change = s["h"] * solve_definite(s["mass"], s["momentum"] - left)
        relative = relative_size(change, s["delta"], SLOW * s["h"])
        return trace_of("iterate", s, {"delta": s["delta"] + change, "change": relative})

    def _finish(self, forced: bool) -> Traced:
        s = self._symbols("q", "delta", "h", "p", "change", "residual", *(["force"] if forced else []))
        by_delta, _ = self._discrete(s["q"], s["delta"], s["h"], s["p"])
        right = self._pull_back(s["delta"], by_delta)
        if forced:
            right = right + 0.5 * s["h"] * s["force"]
        moved = self.c.retract(s["q"], s["delta"])
        residual = np.maximum(s["residual"], s["change"])
        return trace_of("finish", s, {"q": moved, "momentum": right, "residual": residual})
