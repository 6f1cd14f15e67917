"""Work-precision measurements of integrators: processor time and error."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from time import process_time
from typing import Any

import numpy as np

from heavytop.simulate import as_dynamics, simulate

OFTEN = 10**9
"""Record stride that keeps start and end only."""
ENOUGH = 0.1
"""Seconds of repetitions after which the shortest counts."""


@dataclass(frozen=True)
class PrecisionPoint:
    """One run of a work-precision diagram.

    Attributes
    ----------
    integrator : name. step : in s (the tolerance for ``rkmk45``).
    seconds : processor time of the run without preparation, the best of several.
    steps : steps or attempts.
    configuration_error, velocity_error : Euclidean distance from the reference at the end; displacements in the velocity
        coordinates of the blocks.
    """

    integrator: str
    step: float
    seconds: float
    steps: int
    configuration_error: float
    velocity_error: float


def measure(
    model: Any,
    start: tuple[Any, Any],
    until: float,
    step: float,
    integrator: Any,
    reference: tuple[np.ndarray, np.ndarray],
    *,
    repeats: int = 3,
    label: float | None = None,
    **options: Any,
) -> PrecisionPoint | None:
    """Run once to prepare, then at least ``repeats`` times for the clock; None if the run diverges.

    Parameters
    ----------
    reference : exact (q, v) at the end.
    label : value to store as the step, for integrators that choose their own.
    """
    dynamics = as_dynamics(model)
    options = {"record_every": OFTEN, "balance": False, **options}
    run = simulate(model, start, until, step, integrator, **options)
    if not run.outcome.ok:
        return None
    best, spent, count = np.inf, 0.0, 0
    while count < repeats or (spent < ENOUGH and count < 20 * repeats):
        clock = process_time()
        run = simulate(model, start, until, step, integrator, **options)
        seconds = process_time() - clock
        best, spent, count = min(best, seconds), spent + seconds, count + 1
    q, v = run.final
    displacement = dynamics.coordinates.difference(reference[0], q)
    return PrecisionPoint(
        run.integrator,
        float(step if label is None else label),
        float(best),
        run.timing.steps,
        float(np.linalg.norm(displacement)),
        float(np.linalg.norm(v - reference[1])),
    )


def work_precision(
    model: Any,
    start: tuple[Any, Any],
    until: float,
    reference: tuple[np.ndarray, np.ndarray],
    steps: Mapping[str, Iterable[float]],
    *,
    tolerances: Iterable[float] = (),
    repeats: int = 3,
    **options: Any,
) -> list[PrecisionPoint]:
    """Points of a work-precision diagram.

    Parameters
    ----------
    steps : integrator name -> step sizes in s.
    tolerances : relative tolerances of ``rkmk45``, which is left out without any.

    Examples
    --------
    >>> import heavytop as ht
    >>> fall = ht.UserDynamics(ht.coordinates.Vector(1), lambda q, v: -q, name="oscillator")
    >>> end = np.array([np.cos(1.0)]), np.array([-np.sin(1.0)])
    >>> points = work_precision(fall, ([1.0], [0.0]), 1.0, end, {"rkmk4": (0.1, 0.05)}, repeats=1)
    >>> points[0].velocity_error > 10 * points[1].velocity_error
    True
    """
    from heavytop.simulate.integrators import RKMK45

    points = []
    for name, sizes in steps.items():
        for step in sizes:
            points.append(measure(model, start, until, step, name, reference, repeats=repeats, **options))
    for tolerance in tolerances:
        method = RKMK45(tolerance, 1e-2 * tolerance, first_step=1e-3 * until)
        points.append(
            measure(model, start, until, until, method, reference, repeats=repeats, label=tolerance, **options)
        )
    return [point for point in points if point is not None]
