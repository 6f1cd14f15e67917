"""An implicit method whose discrete force is a discrete gradient: the energy is exact to the tolerance of its solution.

From (q0, v0) to (q1, v1), with the mean velocity ``v_m = (v0 + v1) / 2``, its displacement ``q1 = q0 o d(h w_m)`` and the
configuration ``q_m`` half way:

    v1 - v0 = h a(q_m, v_m) - h mu v_m,         E(q1, v1) - E0 = h P(q_m, v_m).

Without mu this is the implicit midpoint rule. The term with mu is the correction of the discrete gradient (Gonzalez
1996, in the metric M): it acts along the displacement and makes the work of the discrete force equal to the change of
energy, so that only the power P of inputs and dissipation changes it. mu is of order h^2 and the method is symmetric:
order 2.

Rotations move by the Cayley map, ``d(x) = exp(2 arctan(|x| / 2) x / |x|)``: then ``R1 L1 = R0 L0`` for a body under no force, as
``L1 - L0 = h L_m x w_m``, and in the same way ``R1 p1 = R0 p0``. Poses with velocities in body axes move by ``h (v_m + h w_m x v_m / 2)``,
which is ``h R0 v0`` there: a free body keeps its linear momentum and its angular momentum about the mass centre, and where the
mass centre is the origin of its frame, its path is exact. Where a potential acts, mu changes both by terms of order h^2.

For quaternions the Cayley map is the midpoint rule ``A1 - A0 = h/2 A_m (0, w_m)``, which keeps ``|A|``: the energy-consistent integrator
of the DAE of document 001. Coordinates that are no group take the midpoint rule in q itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from heavytop._arrays import Array, concatenate, jacobian, part, scale, symbol
from heavytop.compile import Shape, Traced, trace_of
from heavytop.coordinates import Attitude, Coordinates, EulerAngles, Pose, Product
from heavytop.errors import SimulationError
from heavytop.geometry import se3, series
from heavytop.simulate.integrators.base import SLOW, Integrator, need_unconstrained, relative_size
from heavytop.simulate.plant import Plant, PlantState

REST = 1e-12
"""Fraction of the energy scale below which kinetic energy counts as none: nothing to correct along."""


class EnergyMomentum(Integrator):
    """Order 2, energy exact; for conservative systems over long times, and with inputs and damping too.

    Parameters
    ----------
    iterations : of the fixed-point iteration in each step. The record ``residual`` tells the last relative change.
    """

    name = "energy_momentum"
    order = 2
    records = ("residual",)

    def __init__(self, iterations: int = 10) -> None:
        if not isinstance(iterations, int) or iterations < 2:
            raise SimulationError(f"EnergyMomentum needs at least 2 iterations, a whole number, got {iterations!r}.")
        self.iterations = iterations

    def __repr__(self) -> str:
        return f"EnergyMomentum(iterations={self.iterations})"

    def carries(self, plant: Plant) -> Mapping[str, Shape]:
        return {"energy": (), "scale": (), "residual": ()}

    def start(self, problem: Any) -> Mapping[str, Array]:
        """The energy of the start is the reference for the whole run, so that rounding does not add up."""
        kinetic, potential = problem.dynamics.kernel("energies")(problem.q, problem.v, problem.p)
        total = kinetic + potential
        return {"energy": total, "scale": np.maximum(np.abs(kinetic), np.abs(total))}

    def step(self, plant: Plant, state: PlantState, h: Array) -> PlantState:
        need_unconstrained(plant, "EnergyMomentum")
        energy, move = _energy_with_slope(plant), _displacement(plant)

        def at(q_m: Array, half: PlantState, whole: PlantState) -> tuple[PlantState, PlantState]:
            """Middle and end; the displacement belongs to the mean velocity of the same iterate."""
            q_m, q_1 = plant.call(move, state.q, q_m, half.v, h, plant.p)
            return half.replaced(q=q_m), whole.replaced(q=q_1)

        def iterate(middle: PlantState, end: PlantState) -> Sequence[PlantState | Array]:
            stage = plant.at(middle, 0.5)
            rates = stage.rates
            _, slope = plant.call(energy, middle.q, middle.v, plant.p)
            now, _ = plant.call(energy, end.q, end.v, plant.p)
            given, lost = stage.power
            power = given - lost
            # h mu v_m . M v_m = E1 - E0 - h P - v_m . M (v1 - v0 - h a): what the midpoint force misses of the work. It is of the order
            # of the displacement at any iterate, so that mu v_m stays small where the motion turns back.
            missed = now - state.own["energy"] - h * power - np.vecdot(slope, end.v - state.v - h * rates.v)
            twice = np.vecdot(slope, middle.v)  # v_m . M v_m
            moving = twice > REST * state.own["scale"]
            h_mu = np.where(moving, missed / np.where(moving, twice, 1.0), 0.0)
            delta = (rates * h).replaced(v=h * rates.v - h_mu * middle.v)
            half, whole = plant.moved(state, state.q, 0.5 * delta), plant.moved(state, state.q, delta)
            told = plant.kept(power, relative_size(whole.v - end.v, end.v, SLOW))
            return *at(middle.q, half, whole), *told

        rates = plant.at(state, 0.5).rates
        half, whole = plant.moved(state, state.q, rates * (0.5 * h)), plant.moved(state, state.q, rates * h)
        _, end, power, change = plant.repeat(self.iterations, iterate, *at(state.q, half, whole))
        # the energy to hold moves on by the work done
        residual = np.maximum(state.own["residual"], change)
        return end.keeping(energy=state.own["energy"] + h * power, residual=residual)


def _displacement(plant: Plant) -> Traced:
    """(q, q_m, v_m, h, p) -> (q_m, q1)."""
    motion = plant.motion
    sizes = {"q": plant.nq, "qm": plant.nq, "vm": plant.nv, "h": None, "p": motion.inputs["p"][0]}
    s = {name: symbol(name, size) for name, size in sizes.items()}
    w = motion.expressions(s["qm"], s["vm"], symbol("u", motion.inputs["u"][0]), s["p"])[0]
    qm, q1 = displace(plant.coordinates, s["q"], s["qm"], s["h"] * w)
    return trace_of("displace", s, {"qm": qm, "q1": q1})


def _energy_with_slope(plant: Plant) -> Traced:
    """(q, v, p) -> E, dE/dv."""
    energies = plant.dynamics.energies()
    if energies is None:
        raise SimulationError(
            f"EnergyMomentum needs the energy of {plant.name!r}: give kinetic= and potential= to the dynamics."
        )
    q, v, p = (symbol(name, energies.inputs[name][0]) for name in ("q", "v", "p"))
    kinetic, potential = energies.expressions(q, v, p)
    total = np.reshape(kinetic + potential, ())
    slope = jacobian(np.reshape(total, (1,)), v)[0, :]
    return trace_of("energy_slope", {"q": q, "v": v, "p": p}, {"E": total, "slope": slope})


def displace(coordinates: Coordinates, q0: Array, q_m: Array, delta: Array) -> tuple[Array, Array]:
    """The configurations half way and at the end of the displacement ``delta = h w_m``.

    ``q_m`` is the last iterate of the middle; only coordinates that are no group need it.
    """
    if coordinates.is_group:
        turn = cayley(coordinates, delta)
        return coordinates.retract(q0, 0.5 * turn), coordinates.retract(q0, turn)
    if isinstance(coordinates, Product):
        sizes = list(zip(coordinates.blocks, coordinates.split_q(q0), coordinates.split_q(q_m), strict=True))
        parts = [displace(block, a, b, d) for (block, a, b), d in zip(sizes, coordinates.split_v(delta), strict=True)]
        return concatenate(*(m for m, _ in parts)), concatenate(*(e for _, e in parts))
    moved = coordinates.rate(q_m, delta)
    return q0 + 0.5 * moved, q0 + moved


def cayley(coordinates: Coordinates, delta: Array) -> Array:
    """The argument for which exp gives the displacement of ``delta``: every rotation by the Cayley map.

    A rotation vector x becomes 2 arctan(|x| / 2) x / |x|. A twist (v, w) in body axes turns so and moves by ``v + w x v / 2``.
    """
    if isinstance(coordinates, Product):
        parts = zip(coordinates.blocks, coordinates.split_v(delta), strict=True)
        return concatenate(*(cayley(block, d) for block, d in parts))
    if isinstance(coordinates, Attitude) and not (
        isinstance(coordinates, EulerAngles) and coordinates.velocity == "rates"
    ):
        return _shorten(delta)
    if isinstance(coordinates, Pose) and coordinates.velocity == "mixed":
        return concatenate(part(delta, 0, 3), _shorten(part(delta, 3, 6)))
    if isinstance(coordinates, Pose):
        linear, angular = part(delta, 0, 3), part(delta, 3, 6)
        turn = _shorten(angular)
        return concatenate(se3.displacement_inverse(linear + 0.5 * np.cross(angular, linear), turn), turn)
    return delta


def _shorten(x: Array) -> Array:
    return scale(series.arctangent(0.25 * np.vecdot(x, x), 1.0), x, 1)
