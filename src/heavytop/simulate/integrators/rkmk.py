"""Explicit Munthe-Kaas methods: Runge-Kutta in the Lie algebra, so that ``q`` never leaves its manifold.

With ``q(t) = q_n o exp(theta(t))`` the motion ``q' = A(q) w`` becomes ``theta' = T^-1(theta) w`` (doc 002, eqs 11, 12,
72-87). theta restarts at zero in every step and the stages evaluate forces at ``q_n o exp(theta_i)`` (errata 2.14-2.16);
with the exact ``T^-1`` the order is that of the tableau. Up to order four ``T^-1`` is cut after its second bracket.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from heavytop._arrays import Array
from heavytop.compile import trace
from heavytop.coordinates import Coordinates, LinearVelocities, Pose, Product, Quaternion
from heavytop.errors import SimulationError
from heavytop.simulate.integrators.base import Integrator
from heavytop.simulate.integrators.tableaus import BUTCHER6, COOPER_VERNER8, RK4, Tableau
from heavytop.simulate.plant import Plant, PlantState, Rates, weighted


class MuntheKaas(Integrator):
    """The method of any explicit tableau."""

    integrates_work = True
    tableau: ClassVar[Tableau]

    def step(self, plant: Plant, state: PlantState, h: Array) -> PlantState:
        k = stage_rates(plant, state, h, self.tableau)
        return plant.advance(state, plant.displacement(h, self.tableau.b, k))


class RKMK4(MuntheKaas):
    """Order 4, four evaluations per step: the default.

    >>> RKMK4().name, RKMK4().order
    ('rkmk4', 4)
    """

    name = "rkmk4"
    order = 4
    stable_up_to = 2.785
    tableau = RK4


class RKMK6(MuntheKaas):
    """Order 6, seven evaluations per step (Butcher 1964).

    >>> RKMK6().name, RKMK6().order
    ('rkmk6', 6)
    """

    name = "rkmk6"
    order = 6
    stable_up_to = 3.39
    tableau = BUTCHER6


class RKMK8(MuntheKaas):
    """Order 8, eleven evaluations per step (Cooper and Verner 1972): for errors near rounding level.

    >>> RKMK8().name, RKMK8().order
    ('rkmk8', 8)
    """

    name = "rkmk8"
    order = 8
    stable_up_to = 3.5
    tableau = COOPER_VERNER8


def stage_rates(
    plant: Plant,
    state: PlantState,
    h: Array,
    tableau: Tableau,
    exact: bool | None = None,
    part: tuple[Array, Array] | None = None,
    first: Rates | None = None,
) -> list[Rates]:
    """Rates ``k_i`` of theta, v and the rest at every stage; theta_i = h sum(a_ij k_j), and zero at the first stage.

    ``exact`` is whether T^-1 is not cut; None: where the order of the method requires it. ``part`` has the begin and the length, relative to the
    step, of the part of it that ``h`` is; None: all of it. ``first`` are the rates of the first stage if they are known.
    """
    whole = tableau.order > 4 if exact is None else exact
    k = [plant.at(state, tableau.c[0]).rates if first is None else first]
    for c, row in zip(tableau.c[1:], tableau.a[1:], strict=True):
        theta = plant.displacement(h, row, k)
        stage = plant.at(plant.retract(state, theta), c if part is None else part[0] + c * part[1])
        k.append(plant.pulled_back(theta, stage.rates, exact=whole))
    return k


class ProjectedRK4(Integrator):
    """Order 4 for any ``q' = A(q) w``, ``phi(q) = 0``: the Runge-Kutta method in q, projected onto the manifold after each step.

    It needs only ``A`` and ``phi``, so it works for coordinates that do not form a group. With ``dphi/dq A = 0``, the error of one step is of
    order h^5, and so is the change by the projection: the method keeps order four.

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


class Terze(Integrator):
    """The scheme of Terze, Mueller and Zlatar: order 4, for attitudes given by unit quaternions.

    Document 002, ref. 20, "f1"; joints ``Spherical("quaternion")`` and ``Free("quaternion")``. The attitude in a step is ``A = A_n exp(theta / 2)``,
    of unit length to rounding, with ``theta' = T^-1(theta) omega``.
    ``T^-1`` is exact here, while ``rkmk4`` cuts its series behind the terms that its order needs: both differ by terms of order h^5.

    Examples
    --------
    >>> import heavytop as ht
    >>> system = ht.System(gravity=(0, 0, 0))
    >>> system.body("box", joint=ht.Spherical("quaternion"), inertia=ht.Inertia(1.0, moment_at_com=(5.3, 1.2, 4.4)))
    >>> run = ht.simulate(system.derive(), ([1.0, 0, 0, 0], [0.01, 0, 10.0]), until=1.0, step=1e-2, integrator="terze")
    >>> run.invariants["quaternion norm"].drift < 1e-14
    True
    """

    name = "terze"
    order = 4
    stable_up_to = 2.785
    project_every = 0
    integrates_work = True

    def step(self, plant: Plant, state: PlantState, h: Array) -> PlantState:
        if not has_quaternions(plant.coordinates):
            raise SimulationError(
                f"the scheme of Terze integrates unit quaternions, but {plant.name!r} has none. Use attitude='quaternion' in its joints, or "
                "integrator='rkmk4', which is the same scheme on other attitudes."
            )
        k = stage_rates(plant, state, h, RK4, exact=True)
        return plant.advance(state, plant.displacement(h, RK4.b, k))


def has_quaternions(coordinates: Coordinates) -> bool:
    """Whether some attitude among the coordinates is a unit quaternion."""
    if isinstance(coordinates, Product):
        return any(has_quaternions(block) for block in coordinates.blocks)
    if isinstance(coordinates, LinearVelocities):
        return has_quaternions(coordinates.base)
    return isinstance(coordinates.attitude_block if isinstance(coordinates, Pose) else coordinates, Quaternion)
