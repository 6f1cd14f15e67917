"""Comparisons of the library with the oracle: each returns what it compared, as (name, error relative to its scale, tolerance)."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from oracle import rewrite
from oracle.build import Builder
from oracle.description import State, SystemData
from oracle.maximal import Maximal, along, at_model_velocity, derivative

import heavytop as ht
from heavytop.compile import numpy_function

TOLERANCE = 1e-9
LOOSE = 1e-7
WELL_CONDITIONED = 1e6
"""Condition of the equations, as the oracle computes it, up to which the tight tolerance holds."""


@dataclass(frozen=True)
class Compared:
    """One comparison."""

    name: str
    error: float
    tolerance: float

    @property
    def is_deviation(self) -> bool:
        return not self.error <= self.tolerance

    def __str__(self) -> str:
        return f"{self.name}: {self.error:.2e} (tolerance {self.tolerance:.0e})"


class Case:
    """A system, a state, the oracle and the model. ``oracle`` may be the one of another description: a planted fault."""

    def __init__(self, data: SystemData, state: State, oracle: Maximal | None = None, native: bool = False) -> None:
        self.data, self.state, self.native = data, state, native
        self.oracle = Maximal(data, state) if oracle is None else oracle
        self.results: list[Compared] = []

    @cached_property
    def builder(self) -> Builder:
        return Builder(self.data)

    @cached_property
    def model(self) -> ht.Model:
        return self.builder.derive(self.native)

    @cached_property
    def arguments(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.builder.q(self.state), self.oracle.model_velocity, self.builder.u(self.state)

    @cached_property
    def parameters(self) -> dict[str, float]:
        return self.builder.parameters(self.model, self.state)

    @property
    def tolerance(self) -> float:
        return TOLERANCE if self.oracle.condition < WELL_CONDITIONED else LOOSE

    def note(self, name: str, got: Any, expected: Any, scale: float, tolerance: float | None = None) -> None:
        got, expected = np.asarray(got, dtype=float), np.asarray(expected, dtype=float)
        error = float(np.max(np.abs(got - expected), initial=0.0)) / scale if got.shape == expected.shape else np.inf
        self.results.append(Compared(name, error, self.tolerance if tolerance is None else tolerance))

    # --- comparisons ----------------------------------------------------------------------------------------------------

    def accelerations(self) -> None:
        q, v, u = self.arguments
        a = self.model.acceleration(q, v, u, parameters=self.parameters)
        self.note("acceleration", a, self.oracle.acceleration, self.acceleration_scale)

    @cached_property
    def acceleration_scale(self) -> float:
        return max(self.oracle.force_scale, float(np.max(np.abs(self.oracle.acceleration), initial=0.0)))

    def energies(self) -> None:
        q, v, _ = self.arguments
        T, V = self.oracle.kinetic_energy, self.oracle.potential_energy
        self.note(
            "kinetic energy", self.model.kinetic_energy(q, v, parameters=self.parameters), T, max(T, 1e-6), TOLERANCE
        )
        self.note(
            "potential energy", self.model.potential_energy(q, parameters=self.parameters), V, 1.0 + abs(V), TOLERANCE
        )

    def powers(self) -> None:
        """Power of inputs, dissipation and other forces; of drivers by the rate of the energy along the motion of the oracle."""
        q, v, u = self.arguments
        at, state = self.oracle, self.state
        power = self.model.power(q, v, u, parameters=self.parameters)
        nonideal = float(at.work @ np.concatenate([at.X, at.K @ at.z]))
        scale = 1.0 + sum(abs(at.power(kind)) for kind in at.forces)
        self.note("power of inputs", power.input, at.power("input"), scale)
        self.note(
            "dissipated and supplied power",
            power.supplied - power.dissipated,
            at.power("supplied") + at.power("resistance") + nonideal,
            scale,
        )
        rates = np.concatenate([np.zeros(0), *(at.own_acceleration[w] for w in at.own.values())])

        def energy(h: float) -> np.ndarray:
            there = along(self.data, state, at.z, h)
            there = replace(
                there, v={name: state.v[name] + h * rates[where] for name, where in at.own.items()}, t=state.t + h
            )
            moved = Maximal(self.data, there)
            return np.array(moved.kinetic_energy + moved.potential_energy)

        rate, doubt = derivative(energy, 0.02)
        total = power.input + power.supplied - power.dissipated + power.driver
        self.note("rate of the energy", total, rate, scale + abs(float(rate)), self.tolerance + 10 * doubt / scale)

    def reactions(self) -> None:
        if not self.data.loops:
            return
        q, v, u = self.arguments
        forces = self.model.constraint_forces(q, v, u, parameters=self.parameters)
        loads = [self.oracle.loop_reaction(loop.name) for loop in self.data.loops]
        scale = 1.0 + float(np.max(np.abs(loads))) + self._force_scale
        for loop, load in zip(self.data.loops, loads, strict=True):
            if self.oracle.is_determined(loop.name):
                self.note("reaction", forces[loop.name], load, scale)
        dof = self.model.degrees_of_freedom(q, parameters=self.parameters)
        self.note("degrees of freedom", dof, self.oracle.degrees_of_freedom, 1.0, 0.0)

    @property
    def _force_scale(self) -> float:
        return float(max(np.max(np.abs(force), initial=0.0) for force in self.oracle.forces.values()))

    def momenta(self) -> None:
        q, v, _ = self.arguments
        linear, angular = self.oracle.momentum()
        got = self.model.momentum(q, v, parameters=self.parameters)
        if any(element.kind == "armature" for element in self.data.elements):
            return  # spins of rotors belong to no body
        scale = 1.0 + float(np.max(np.abs(self.oracle.X))) * sum(
            float(self.oracle.number(b.mass).f0) for b in self.data.bodies
        )
        self.note("momentum", np.concatenate(got), np.concatenate([linear, angular]), scale, TOLERANCE)

    def inverse(self) -> None:
        """Forces for the accelerations of the oracle: those of the inputs, up to reactions."""
        if self.data.loops or self.data.position_rows or (self.data.velocity_rows and self.data.basis is None):
            return
        q, v, u = self.arguments
        needed = self.model.inverse_dynamics(q, v, self.oracle.acceleration, parameters=self.parameters)
        given = self.model.input_matrix(q, parameters=self.parameters) @ u if len(u) else np.zeros(self.model.nv)
        self.note("inverse dynamics", needed, given, 1.0 + self._force_scale * 10)

    def linearisation(self) -> None:
        """One random direction in the tangent space of the states."""
        model, (q, v, u) = self.model, self.arguments
        rng = np.random.default_rng(0)
        values = model.acceleration_derivatives(q, v, u, parameters=self.parameters)
        constrained = bool(self.data.loops or self.data.velocity_rows or self.data.position_rows)
        if not constrained and np.shape(values[1])[-1] == model.nv and not model.expressions.has_moving_rates:
            delta, dv = rng.standard_normal(model.nv), rng.standard_normal(model.nv)
            expected = values[1] @ delta + values[2] @ dv
            z = self._joint_rates(delta)
        else:
            minimal = model.minimal_tangent(q, v, parameters=self.parameters)
            xi, eta = rng.standard_normal(len(minimal.places)), rng.standard_normal(len(minimal.velocities))
            delta, dv = minimal.D @ xi, minimal.N @ eta + minimal.K @ xi
            expected = values[1] @ xi + values[2] @ eta
            z = delta
        du = rng.standard_normal(model.nu)
        expected = expected + values[3] @ du

        def acceleration(h: float) -> np.ndarray:
            there = along(self.data, self.state, z, h)
            there = replace(
                there, u={given.name: self.state.u[given.name] + h * du[k] for k, given in enumerate(self.data.inputs)}
            )
            return Maximal(self.data, at_model_velocity(self.data, there, v + h * dv)).acceleration

        size = max(1.0, float(np.max(np.abs(z), initial=0.0)), float(np.max(np.abs(dv), initial=0.0)))
        rate, doubt = derivative(acceleration, 0.02 / size)
        scale = (self.acceleration_scale + float(np.max(np.abs(rate)))) * size
        self.note("linearisation", expected, rate, scale, self.tolerance + 10 * doubt / scale)

    def _joint_rates(self, eps: np.ndarray) -> np.ndarray:
        """Velocities of the joints relative to their parents for displacements along the velocities of the model."""
        still = replace(self.state, v={name: 0 * value for name, value in self.state.v.items()})
        own = at_model_velocity(self.data, still, eps).v
        rest = at_model_velocity(self.data, still, 0 * eps).v
        at = self.oracle
        step = np.concatenate([own[edge.name] - rest[edge.name] for edge in self.data.joints])
        return np.linalg.solve(at.own_velocity[0], step)

    def parameter_derivatives(self) -> None:
        model, (q, v, u) = self.model, self.arguments
        if not model.parameter_names:
            return
        slopes = model.parameter_derivatives(q, v, u, parameters=self.parameters)
        for k, name in enumerate(model.parameter_names):

            def acceleration(h: float, name: str = name) -> np.ndarray:
                values = {} if name == "time" else {name: self.data.parameters[name] + h}
                there = replace(self.state, t=self.state.t + h) if name == "time" else self.state
                moved = Maximal(self.data, at_model_velocity(self.data, there, v, values), values)
                gap = abs(moved.gap - self.oracle.gap)
                residual = moved.constraint_rows[2] if self.data.loops or self.data.position_rows else np.zeros(1)
                if gap > 1e-11 or np.max(np.abs(residual)) > 1e-9:
                    raise OpenedError
                return moved.acceleration

            try:
                rate, doubt = derivative(acceleration, 0.02)
            except (
                OpenedError
            ):  # the state no longer satisfies the loops: the derivative depends on how they are written
                continue
            scale = self.acceleration_scale + float(np.max(np.abs(rate)))
            self.note(
                f"derivative by {'time' if name == 'time' else 'a parameter'}",
                slopes[:, k],
                rate,
                scale,
                self.tolerance + 10 * doubt / scale,
            )

    def batch(self) -> None:
        q, _, _ = self.arguments
        rng = np.random.default_rng(1)
        states = [self.state]
        for _ in range(2):
            other = {name: value + 0.3 * rng.standard_normal(value.shape) for name, value in self.state.v.items()}
            if self.data.loops or self.data.velocity_rows or self.data.position_rows:
                other = dict(self.state.v)
            states.append(replace(self.state, v=other, u={name: float(rng.normal()) for name in self.state.u}))
        found = [Maximal(self.data, state) for state in states]
        w = np.array([at.model_velocity for at in found])
        U = np.array([self.builder.u(state) for state in states]).reshape(3, self.model.nu)
        got = self.model.acceleration(np.tile(q, (3, 1)), w, U, parameters=self.parameters)
        scale = max(self.acceleration_scale, *(at.force_scale for at in found))
        self.note("batch", got, np.array([at.acceleration for at in found]), scale)

    def pickled(self) -> None:
        q, v, u = self.arguments
        model = pickle.loads(pickle.dumps(self.model))
        self.note(
            "pickle",
            model.acceleration(q, v, u, parameters=self.parameters),
            self.oracle.acceleration,
            self.acceleration_scale,
        )

    def exported(self) -> None:
        q, v, u = self.arguments
        function = numpy_function(self.model.traced("acceleration"))
        (a,) = function(q, v, u, self.model.parameter_vector(self.parameters))
        self.note("NumPy source", a, self.oracle.acceleration, self.acceleration_scale)

    def _elsewhere(self, name: str, change: Callable[..., rewrite.Rewritten]) -> None:
        """The same system described in another way: the library on that, the oracle on the original."""
        found = change(self.data, self.state, np.random.default_rng(2))
        if found is None:
            return
        data, state, back = found
        other = Case(data, state)
        q, v, u = other.arguments
        a = back(other.model.acceleration(q, v, u, parameters=other.parameters))
        self.note(name, a, self.oracle.acceleration, self.acceleration_scale)

    def units(self) -> None:
        self._elsewhere("other units", rewrite.other_units)

    def worlds(self) -> None:
        self._elsewhere("another world frame", rewrite.moved_world)

    def orders(self) -> None:
        self._elsewhere("another order", rewrite.reordered)


class OpenedError(Exception):
    """A changed parameter opens a loop."""


ALWAYS = ("accelerations", "energies", "reactions")
SOMETIMES = (
    "powers",
    "momenta",
    "inverse",
    "linearisation",
    "parameter_derivatives",
    "batch",
    "pickled",
    "exported",
    "units",
    "worlds",
    "orders",
)


def compare(case: Case, names: tuple[str, ...]) -> list[Compared]:
    for name in names:
        getattr(case, name)()
    return case.results
