"""Integrators, found by name.

=================== ===== =================================================================================
name                order what for
=================== ===== =================================================================================
``rkmk4``           4     the default: four evaluations a step, on the manifold
``rkmk6``           6     tighter errors
``rkmk8``           8     errors near rounding
``rkmk45``          5     step size by error control, dense output
``projected_rk4``   4     coordinates that are no group: any ``A`` and ``phi``
``energy_momentum`` 2     long conservative runs: the energy is exact
``moreau``          2     rigid contacts, impacts, hard stops, ropes, sticking friction
``terze``           4     unit quaternions as document 002 cites them: ``rkmk4`` with the exact tangent operator
``variational``     2     long conservative runs: symplectic, momentum is exact
``ros2``            2     stiff springs, dampers, friction, stops: linearly implicit, L-stable
=================== ===== =================================================================================
"""

from __future__ import annotations

from typing import Any

from heavytop.errors import SimulationError, unknown_name
from heavytop.simulate.integrators.base import Integrator as Integrator
from heavytop.simulate.integrators.energy_momentum import EnergyMomentum as EnergyMomentum
from heavytop.simulate.integrators.error_control import RKMK45 as RKMK45
from heavytop.simulate.integrators.moreau import Moreau as Moreau
from heavytop.simulate.integrators.rkmk import (
    RKMK4 as RKMK4,
    RKMK6 as RKMK6,
    RKMK8 as RKMK8,
    ProjectedRK4 as ProjectedRK4,
    Terze as Terze,
)
from heavytop.simulate.integrators.ros2 import ROS2 as ROS2
from heavytop.simulate.integrators.variational import Variational as Variational

INTEGRATORS: dict[str, type[Integrator]] = {
    cls.name: cls
    for cls in (RKMK4, RKMK6, RKMK8, RKMK45, ProjectedRK4, EnergyMomentum, Variational, Terze, Moreau, ROS2)
}
"""Name -> class."""


def as_integrator(choice: Any) -> Integrator:
    """An integrator from its name, its class, or itself.

    >>> as_integrator("rkmk4")
    RKMK4()
    """
    if isinstance(choice, str):
        if choice not in INTEGRATORS:
            raise unknown_name("integrator", choice, INTEGRATORS)
        return INTEGRATORS[choice]()
    if isinstance(choice, type) and choice in INTEGRATORS.values():
        return choice()
    if isinstance(choice, Integrator):
        for label in ("name", "order"):
            if not hasattr(choice, label):
                raise SimulationError(f"the integrator {type(choice).__name__} must have a class attribute {label!r}.")
        return choice
    raise SimulationError(f"integrator must be a name ({', '.join(INTEGRATORS)}) or an Integrator, got {choice!r}.")
