"""Explicit Munthe-Kaas methods: Runge-Kutta in the Lie algebra, so that ``q`` never leaves its manifold.

With ``q(t) = q_n o exp(theta(t))`` the motion ``q' = A(q) w`` becomes ``theta' = T^-1(theta) w`` (doc 002, eqs 11, 12,
72-87). theta restarts at zero in every step and the stages evaluate forces at ``q_n o exp(theta_i)`` (errata 2.14-2.16);
with the exact ``T^-1`` the order is that of the tableau. Up to order four ``T^-1`` is cut after its second bracket.
"""

from __future__ import annotations

from typing import ClassVar

from heavytop._arrays import Array
from heavytop.simulate.integrators.base import Integrator
from heavytop.simulate.integrators.tableaus import BUTCHER6, COOPER_VERNER8, RK4, Tableau
from heavytop.simulate.plant import Plant, PlantState, Rates


class MuntheKaas(Integrator):
    """The method of any explicit tableau."""

    integrates_work = True
    tableau: ClassVar[Tableau]

    def step(self, plant: Plant, state: PlantState, h: Array) -> PlantState:
        k = stage_rates(plant, state, h, self.tableau)
        return plant.advance(state, plant.displacement(h, self.tableau.b, k))


class RKMK4(MuntheKaas):
    """Order 4, four evaluations a step: the default.

    >>> RKMK4().name, RKMK4().order
    ('rkmk4', 4)
    """

    name = "rkmk4"
    order = 4
    stable_up_to = 2.785
    tableau = RK4


class RKMK6(MuntheKaas):
    """Order 6, seven evaluations a step (Butcher 1964).

    >>> RKMK6().name, RKMK6().order
    ('rkmk6', 6)
    """

    name = "rkmk6"
    order = 6
    stable_up_to = 3.39
    tableau = BUTCHER6


class RKMK8(MuntheKaas):
    """Order 8, eleven evaluations a step (Cooper and Verner 1972): for errors near rounding.

    >>> RKMK8().name, RKMK8().order
    ('rkmk8', 8)
    """

    name = "rkmk8"
    order = 8
    stable_up_to = 3.5
    tableau = COOPER_VERNER8


def stage_rates(plant: Plant, state: PlantState, h: Array, tableau: Tableau, exact: bool | None = None) -> list[Rates]:
    """Rates ``k_i`` of theta, v and the rest at every stage; theta_i = h sum(a_ij k_j), and zero at the first stage.

    ``exact`` is whether T^-1 is not cut; None: where the order of the method requires it.
    """
    whole = tableau.order > 4 if exact is None else exact
    k = [plant.at(state, tableau.c[0]).rates]
    for c, row in zip(tableau.c[1:], tableau.a[1:], strict=True):
        theta = plant.displacement(h, row, k)
        stage = plant.at(plant.retract(state, theta), c)
        k.append(plant.pulled_back(theta, stage.rates, exact=whole))
    return k
