"""The Munthe-Kaas form of Dormand and Prince's method: step size by error control, dense output."""

from __future__ import annotations

from heavytop._arrays import Array
from heavytop.simulate.integrators.error_control import ErrorControlled, TrialStep
from heavytop.simulate.integrators.rkmk import stage_rates
from heavytop.simulate.integrators.tableaus import DORMAND_PRINCE4_WEIGHTS, DORMAND_PRINCE5, MIDDLE
from heavytop.simulate.plant import Plant, PlantState

ERROR_WEIGHTS = tuple(b - e for b, e in zip(DORMAND_PRINCE5.b, DORMAND_PRINCE4_WEIGHTS, strict=True))


class RKMK45(ErrorControlled):
    """Order 5 with an embedded estimate of order 4.

    Parameters
    ----------
    rtol : local error relative to the velocities; for displacements relative to one unit (1 m, 1 rad).
    atol : absolute part of the tolerance of velocities.
    first_step : in s; None: a hundredth of the distance of the records.
    max_step : in s; None: the distance of the records where the equations depend explicitly on the time, so that pulses that last longer than it
        are not stepped over, else unlimited.
    max_steps : attempts per trajectory, after which the outcome is ``step_limit``.

    Examples
    --------
    >>> import heavytop as ht
    >>> run = ht.simulate(ht.library.pendulum().derive(), ([1.0], [0.0]), 1.0, 0.1, RKMK45(rtol=1e-10))
    >>> run.outcome.ok, len(run)
    (True, 11)
    """

    name = "rkmk45"
    order = 5

    def attempt(self, plant: Plant, state: PlantState, h: Array) -> TrialStep:
        k = stage_rates(plant, state, h, DORMAND_PRINCE5)
        step = plant.displacement(h, DORMAND_PRINCE5.b, k)
        end = plant.retract(state, step)
        plant.cut()  # the error estimate is a separate function
        error, middle = plant.combine(ERROR_WEIGHTS, k) * h, plant.combine(MIDDLE, k) * h
        return TrialStep(end, step, error, (k[0] * h, k[6] * h, middle))
