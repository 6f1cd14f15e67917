"""Runge and Kutta's method in the redundant coordinates, projected back onto the manifold after each step.

It needs nothing but ``A`` and ``phi``, so it runs for coordinates that are no group. With ``dphi/dq A = 0`` the
defect of one step is of order h^5 and so is what the projection moves: the order stays four.
"""

from __future__ import annotations

from collections.abc import Sequence

from heavytop._arrays import Array
from heavytop.compile import trace
from heavytop.simulate.integrators.base import Integrator
from heavytop.simulate.integrators.tableaus import RK4
from heavytop.simulate.plant import Plant, PlantState, weighted


class ProjectedRK4(Integrator):
    """Order 4 for any ``q' = A(q) w``, ``phi(q) = 0``.

    >>> ProjectedRK4().name, ProjectedRK4().order
    ('projected_rk4', 4)
    """

    name = "projected_rk4"
    order = 4
    stable_up_to = 2.785
    project_every = 1
    integrates_work = True

    def step(self, plant: Plant, state: PlantState, h: Array) -> PlantState:
        rate = trace(plant.coordinates.rate, {"q": (plant.nq,), "w": (plant.nw,)}, name="rate")  # q' = A(q) w
        k, q_rates, point = [], [], state

        def moved(weights: Sequence[float]) -> Array:
            return state.q + weighted(
                *zip(*((h * a, r) for a, r in zip(weights, q_rates, strict=True) if a), strict=True)
            )

        for c, row in zip(RK4.c, RK4.a, strict=True):
            if k:
                point = plant.moved(state, moved(row), plant.displacement(h, row, k))
            k.append(plant.at(point, c).rates)
            q_rates += plant.call(rate, point.q, k[-1].w)
        return plant.advance(state, plant.displacement(h, RK4.b, k), q=moved(RK4.b))
