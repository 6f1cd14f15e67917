"""``simulate``: from a model and a start to a :class:`~heavytop.simulate.run.Run`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from heavytop._arrays import Array
from heavytop.coordinates import Coordinates
from heavytop.simulate.run import Run
from heavytop.simulate.spec import Inputs, RunSpec
from heavytop.simulate.user_dynamics import UserDynamics


def simulate(
    model: Any,
    start: tuple[Any, Any],
    until: float,
    step: float,
    integrator: Any = "rkmk4",
    control: Any = None,
    reference: Any = None,
    inputs: Inputs = None,
    parameters: Mapping[str, Any] | None = None,
    record_every: int = 1,
    *,
    hold: str = "zero-order",
    control_step: float | None = None,
    events: Any = None,
    balance: bool | None = None,
    start_time: float = 0.0,
    raise_on_failure: bool = False,
    threads: int | None = 1,
    progress: bool | None = None,
) -> Run:
    """Simulate on the manifold.

    Parameters
    ----------
    model : a derived model, a vehicle, or :class:`~heavytop.simulate.Dynamics`.
    start : (q0, v0) of shapes (..., nq) and (..., nv); leading axes are batch axes and broadcast.
    until : end time in s.
    step : step size in s; taken a little smaller if it does not divide the duration. With error control it is the distance
        of the records.
    integrator : name or object; see :mod:`heavytop.simulate.integrators`.
    control : a law (:mod:`heavytop.simulate.controller`).
    reference : motion that the law follows; given to ``law.with_reference``.
    inputs : instead of a law: constant (nu,), samples (samples, ..., nu) held in between, or a function
        ``fn(t, q, v) -> u`` that is called from Python at every sample.
    parameters : name -> value or batch of values.
    record_every : steps between records; start and end are always recorded.
    hold : "zero-order": the law is sampled every ``control_step`` (default: every step) and held; "continuous": it is
        evaluated in every stage.
    events : :class:`~heavytop.simulate.Event`, function of (t, q, v), or several.
    balance : whether to integrate the work of inputs, drivers and dissipation along; None: for single trajectories, and where there are loops,
        constraints or drivers, whose energy is watched (see :mod:`heavytop.simulate.energy_monitor`).
    start_time : time of the start in s.
    raise_on_failure : raise :class:`~heavytop.errors.SimulationError` when a trajectory diverges, instead of reporting it in
        the outcome.
    threads : threads over large batches; None: one per processor.
    progress : show a progress bar; None: on a terminal, after a second.

    Returns
    -------
    Run
        Arrays with time first, then batch axes; ``run.outcome`` reports how it ended.

    Examples
    --------
    >>> import heavytop as ht
    >>> system = ht.System(name="pendulum")
    >>> system.body("rod", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=(0, 0, -1)))
    >>> run = ht.simulate(system.derive(), ([0.1], [0.0]), until=1.0, step=0.01)
    >>> print(run.outcome)
    finished: reached t = 1 s
    >>> run.q.shape
    (101, 1)
    """
    spec = RunSpec(
        model,
        until,
        step,
        integrator,
        control,
        reference,
        inputs,
        record_every,
        hold,
        control_step,
        events,
        balance,
        start_time,
        raise_on_failure,
        threads,
        progress,
    )
    return spec(start, parameters)


def simulate_dynamics(
    coordinates: Coordinates,
    acceleration: Callable[..., Any],
    start: tuple[Any, Any],
    until: float,
    step: float,
    *,
    kinetic: Callable[..., Array] | None = None,
    potential: Callable[..., Array] | None = None,
    name: str = "dynamics",
    **options: Any,
) -> Run:
    """Simulate any coordinates with an acceleration given by a function ``fn(q, v) -> v'`` in NumPy notation.

    ``kinetic(q, v)`` and ``potential(q)`` give the energies, ``options`` go to :func:`simulate`. For inputs, parameters and
    forces that do work build a :class:`~heavytop.simulate.UserDynamics` and simulate it.

    Examples
    --------
    >>> import heavytop as ht
    >>> import numpy as np
    >>> fall = lambda q, v: np.array([0.0, 0.0, -9.81])
    >>> run = simulate_dynamics(ht.coordinates.Vector(3), fall, (np.zeros(3), np.zeros(3)), until=1.0, step=0.1)
    >>> float(run.q[-1, 2].round(6))
    -4.905
    """
    dynamics = UserDynamics(coordinates, acceleration, kinetic=kinetic, potential=potential, name=name)
    return simulate(dynamics, start, until, step, **options)
