"""The scheme of Terze, Mueller and Zlatar: unit quaternions from a rotation vector, without a constraint (doc 002, ref. 20, "f1").

The attitude in a step is ``A = A_n exp(theta / 2)`` with a rotation vector theta, which obeys ``theta' = T^-1(theta) omega`` and starts at zero
in every step. Runge and Kutta's classical method integrates theta together with the velocities; the exponential map then gives a
quaternion of unit length to rounding, so that the length needs neither an equation nor a correction. ``T^-1`` is exact here, while ``rkmk4``
cuts its series behind the terms that its order needs: both differ by terms of order h^5.
"""

from __future__ import annotations

from heavytop._arrays import Array
from heavytop.coordinates import Coordinates, LinearVelocities, Pose, Product, Quaternion
from heavytop.errors import SimulationError
from heavytop.simulate.integrators.base import Integrator
from heavytop.simulate.integrators.rkmk import stage_rates
from heavytop.simulate.integrators.tableaus import RK4
from heavytop.simulate.plant import Plant, PlantState


class Terze(Integrator):
    """Order 4; for attitudes given by unit quaternions: joints ``Spherical("quaternion")`` and ``Free("quaternion")``.

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
