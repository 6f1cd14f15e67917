"""The oracle against itself: one system of equations for everything, balance of energy, and textbook cases by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from oracle.description import Body, Edge, Joint, Place, State, SystemData
from oracle.generate import random_system
from oracle.maximal import Maximal, along, derivative


@pytest.mark.parametrize("k", range(6))
def test_one_solve_for_accelerations_and_all_reactions(k: int) -> None:
    """Bodies, joints and multipliers in one dense least-squares problem, as the equations stand."""
    system, state = random_system([3, k], 5)
    at = Maximal(system, state)
    J, right = at.tree
    size, ny = at.size, at.ny
    inverse = np.linalg.pinv(at.K)
    coupled = np.hstack([np.zeros((ny, size)), np.eye(ny) - at.K @ inverse])
    Phi, bound, _ = at.constraint_rows
    J = np.vstack([J, coupled, np.hstack([np.zeros((len(Phi), size)), Phi @ inverse])])
    right = np.concatenate([right, np.zeros(ny), bound])
    m = len(J)
    whole = np.block([[at.mass, J.T], [J, np.zeros((m, m))]])
    force = np.sum(list(at.forces.values()), axis=0) + at.work
    solution = np.linalg.lstsq(whole, np.concatenate([force, right]), rcond=1e-13)[0]
    found = inverse @ solution[size : size + ny]
    assert np.max(np.abs(found - at.solution[0])) < 1e-8 * at.force_scale


@pytest.mark.thorough
def test_energy_changes_by_the_power_of_forces() -> None:
    drawn = [random_system([4, k], 3) for k in range(12)]
    free = [
        (replace(system, loops=(), velocity_rows=(), position_rows=(), basis=None), state) for system, state in drawn
    ]
    still = [(system, state) for system, state in free if "Wave(" not in repr(system)]  # no drivers
    assert len(still) > 3
    for system, state in still[:4]:
        at = Maximal(system, state)

        def energy(h: float, system: SystemData = system, state: State = state, at: Maximal = at) -> np.ndarray:
            rates = {name: state.v[name] + h * at.own_acceleration[where] for name, where in at.own.items()}
            there = Maximal(system, replace(along(system, state, at.z, h), v=rates))
            return np.array(there.kinetic_energy + there.potential_energy)

        power = sum(at.power(kind) for kind in ("resistance", "supplied", "input"))
        scale = 1.0 + sum(abs(at.power(kind)) for kind in at.forces)
        assert abs(derivative(energy, 0.02)[0] - power) < 1e-8 * scale


def test_compound_pendulum() -> None:
    """a = -m g l sin(angle) / (I + m l^2)."""
    body = Body("rod", 2.0, (0.0, 0.0, -0.7), np.diag([0.3, 0.4, 0.1]))
    system = SystemData((body,), (Edge("rod", "world", "rod", Joint("revolute", (np.array([0.0, 1.0, 0.0]),))),))
    at = Maximal(system, State({"rod": np.array([0.3])}, {"rod": np.array([1.1])}))
    assert at.acceleration[0] == pytest.approx(-2.0 * 9.81 * 0.7 * np.sin(0.3) / (0.4 + 2.0 * 0.7**2), rel=1e-13)


def test_free_top() -> None:
    """I omega' = -omega x I omega, and free fall of a centre of mass that is not the origin."""
    moment, com = np.diag([0.3, 0.4, 0.6]), np.array([0.1, -0.2, 0.3])
    edge = Edge("top", "world", "top", Joint("free"), Place((1.0, 2.0, 3.0)))
    system = SystemData((Body("top", 2.0, tuple(com), moment),), (edge,))
    omega, v = np.array([1.0, 2.0, -0.5]), np.array([0.3, 0.1, -0.2])
    state = State({"top": np.concatenate([np.zeros(3), np.eye(3).reshape(9)])}, {"top": np.concatenate([v, omega])})
    a = Maximal(system, state).acceleration
    turned = -np.linalg.solve(moment, np.cross(omega, moment @ omega))
    fall = np.array([0, 0, -9.81]) - np.cross(turned, com) - np.cross(omega, np.cross(omega, com)) - np.cross(omega, v)
    assert np.allclose(a, np.concatenate([fall, turned]), rtol=0, atol=1e-13)
