"""``sweep``: from a model, vehicle or function and its variables to a labelled dataset."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from heavytop._memory import available_memory
from heavytop.copters import Vehicle
from heavytop.errors import SweepError, require_extra, unknown_name
from heavytop.simulate import Dynamics
from heavytop.sweep.cases import Cases, FunctionCases, Output, is_function
from heavytop.sweep.cluster import Cluster, connected
from heavytop.sweep.engine import Tally, in_process
from heavytop.sweep.flight_cases import FlightCases
from heavytop.sweep.grid import make_grid
from heavytop.sweep.measure import as_measures
from heavytop.sweep.model_cases import ModelCases
from heavytop.sweep.result import Result, in_memory, open_result
from heavytop.sweep.store import DONE, GIVEN_UP, OPEN, Store, reopen_damaged
from heavytop.sweep.study import Study, describe, empty_arrays, write_into
from heavytop.system import Model

RETRIES = 3
FEW_GROUPS, SLOW = 20, 60.0
"""Combinations of variables outside the native batch, and seconds of processor time for them, above which a sweep warns before it starts."""


class SlowSweepWarning(UserWarning):
    """Variables of a sweep cannot vary within a native batch, which takes a long time; the message has an estimate.

    Examples
    --------
    >>> issubclass(SlowSweepWarning, UserWarning)
    True
    """


def sweep(
    make: Any,
    over: Any = None,
    draws: int | None = None,
    seed: int = 0,
    measure: Any = None,
    store: str | Path | None = None,
    client: Any = None,
    *,
    chunk: int | None = None,
    first_draw: int = 0,
    trajectories: bool | Mapping[str, Sequence[int]] = False,
    workers: int | None = None,
    retries: int = RETRIES,
    timeout: float | None = None,
    retry_failed: bool = False,
    batched: bool = False,
    progress: bool | None = None,
    **options: Any,
) -> Result:
    """Run a model, a vehicle or a function at many points, here or on a cluster; the result is a labelled dataset.

    Parameters
    ----------
    make : a model (options as for :func:`heavytop.simulate`), a vehicle (options ``maneuver``, ``law``, ... of
        :func:`heavytop.copters.fly`, and ``lag``), or a function of one point that takes variables by name and returns numbers by
        name, a run or a flight.
    over : name -> values. A list or array is a dimension of the same name; an ``xarray.DataArray`` brings its dimensions; variables that
        share a dimension vary together, other dimensions multiply. A distribution (:func:`normal`, :func:`uniform`, :func:`choice`,
        :func:`attitude`) varies along ``draw``. ``("mass", "arm"): [(1, 0.2), (2, 0.3)]`` and :func:`zipped` vary together.
        An ``xarray.Dataset`` works, too.
    draws : number of draws of the distributions at every point of the other dimensions.
    seed : seed of the draws, and of noise and wind of flights unless ``seed`` varies. A draw depends on the seed, the name of the variable and its
        own index, on nothing else.
    measure : measured numbers: a function of the run that returns a mapping, names of coordinates (their values at the end) or
        :func:`take`, or a mapping from names to functions, names or :func:`take`. Records have time first, then the batch. Default: ``q`` and
        ``v`` at the end.
    store : path of a zarr store. Points in it are not computed again; a store of another study raises.
    client : None: in this process; "local": workers on this machine; an address, a scheduler file or a ``dask.distributed.Client``.
    chunk : approximate number of points of a task, which is one chunk of the store.
    first_draw : index of the first draw, to continue an earlier study.
    trajectories : whether to keep ``q_t``, ``v_t``, ``u_t`` of all points, or a mapping from dimensions to positions.
    workers : number of workers of the local cluster; None: one per processor.
    retries : number of further attempts if a chunk fails on a worker; then its points are recorded as failed, with the cause.
    timeout : seconds without an answer after which a worker is assumed to hang; None: 20 times the slowest chunk, at least a minute.
    retry_failed : whether chunks that were given up before are tried again.
    batched : whether the function takes arrays of values (count, ...) and returns arrays.
    progress : show a bar; None: on a terminal.
    options : options of the simulation or the flight; functions among them take variables of the sweep by name.

    Returns
    -------
    Result
        With ``result.data``, an ``xarray.Dataset``.

    Examples
    --------
    >>> import heavytop as ht
    >>> model = ht.library.load("pendulum").derive()
    >>> swing = ht.sweep(model, over={"theta.angle": [0.1, 0.2], "g": [1.6, 9.81]}, until=1.0, step=0.01)
    >>> swing.q.dims
    ('theta.angle', 'g', 'coordinate')
    """
    study = make_study(
        make,
        over,
        draws,
        seed,
        measure,
        chunk=chunk,
        first_draw=first_draw,
        trajectories=trajectories,
        batched=batched,
        **options,
    )
    return run_study(
        study,
        store,
        client,
        workers=workers,
        retries=retries,
        timeout=timeout,
        retry_failed=retry_failed,
        progress=progress,
    )


def make_study(
    make: Any,
    over: Any = None,
    draws: int | None = None,
    seed: int = 0,
    measure: Any = None,
    *,
    chunk: int | None = None,
    first_draw: int = 0,
    trajectories: bool | Mapping[str, Sequence[int]] = False,
    batched: bool = False,
    **options: Any,
) -> Study:
    """Create the study that :func:`sweep` would run, without running it.

    Examples
    --------
    >>> study = make_study(lambda x, y: {"sum": x + y}, {"x": [1.0, 2.0], "y": [10.0, 20.0, 30.0]})
    >>> study.grid.shape
    (2, 3)
    """
    grid = make_grid({} if over is None else over, draws, seed, first_draw)
    if chunk is not None and not _whole(chunk, 1):
        raise SweepError(f"chunk must be None or 1, 2, ..., got {chunk!r}.")
    kept = None
    if isinstance(trajectories, Mapping):
        for dim, positions in trajectories.items():
            if dim not in grid.sizes:
                raise unknown_name("dimension of the sweep (in trajectories)", dim, grid.sizes)
            if not hasattr(positions, "__iter__") or not all(_whole(i, 0) and i < grid.sizes[dim] for i in positions):
                raise SweepError(
                    f"trajectories along {dim!r} are kept at a list of positions from 0 to {grid.sizes[dim] - 1}, got {positions!r}."
                )
        kept = {dim: tuple(int(i) for i in places) for dim, places in trajectories.items()}
    cases = _cases(make, options, measure, bool(trajectories), batched, seed, tuple(grid.variables))
    cases.check()
    grid = grid.with_units({name: cases.unit(name) for name in grid.variables})
    return Study(cases, grid, describe(make, options, measure, grid, trajectories), chunk, kept)


def _whole(number: Any, least: int) -> bool:
    """Whether this is a whole number, and large enough."""
    return isinstance(number, int | np.integer) and not isinstance(number, bool) and int(number) >= least


def _is_flown(make: Any, options: Mapping[str, Any]) -> bool:
    return isinstance(make, Vehicle) or "maneuver" in options


def is_simulated(make: Any, options: Mapping[str, Any]) -> bool:
    """Whether a model, given or returned by a function, is simulated, and not flown."""
    made = is_function(make) and ("until" in options or "step" in options)
    return not _is_flown(make, options) and (isinstance(make, Model | Dynamics) or made)


def _cases(
    make: Any,
    options: dict[str, Any],
    measure: Any,
    trajectories: bool,
    batched: bool,
    seed: int,
    names: tuple[str, ...],
) -> Cases:
    if _is_flown(make, options):
        return FlightCases(make, options, measure, trajectories, names, seed)
    if is_simulated(make, options):
        return ModelCases(make, options, as_measures(measure), trajectories, names)
    if not callable(make):
        hint = " Call .derive() first." if hasattr(make, "derive") else ""
        raise SweepError(
            f"a sweep needs a model, a vehicle or a function of one point, got {type(make).__name__}.{hint}"
        )
    if options:
        raise unknown_name(
            "option of a sweep over a function", next(iter(options)), ("batched", "chunk", "client", "store")
        )
    if trajectories:
        raise SweepError("trajectories are kept of models and vehicles only; return the numbers from the function.")
    return FunctionCases(make, None if measure is None else as_measures(measure), names, batched)


def run_study(
    study: Study,
    store: str | Path | None = None,
    client: Any = None,
    *,
    workers: int | None = None,
    retries: int = RETRIES,
    timeout: float | None = None,
    retry_failed: bool = False,
    progress: bool | None = None,
) -> Result:
    """Run a study; see :func:`sweep`.

    Examples
    --------
    >>> result = run_study(make_study(lambda x: {"square": x**2}, {"x": [1.0, 2.0, 3.0]}))
    >>> result["square"].values
    array([1., 4., 9.])
    """
    require_extra("data", "a sweep")
    if not _whole(retries, 0):
        raise SweepError(f"retries must be 0, 1, 2, ..., got {retries!r}.")
    if workers is not None and not _whole(workers, 1):
        raise SweepError(f"workers must be None or 1, 2, ..., got {workers!r}.")
    if workers is not None and client is None:
        raise SweepError(f'workers={workers} applies to a cluster on this machine: also give client="local".')
    if timeout is not None and (not isinstance(timeout, int | float | np.number) or not timeout > 0):
        raise SweepError(f"timeout must be None or a positive number of seconds, got {timeout!r}.")
    if store is None:
        path, chunks = None, study.chunks
        indices = list(range(len(chunks)))
        _check_room(study)
        arrays = empty_arrays(study)

        def keep(index: int, output: Output, given_up: bool) -> None:
            write_into(arrays, chunks.region(index), output, study.layout)
    else:
        if not isinstance(store, str | Path) or not str(store) or "\0" in str(store):
            raise SweepError(f"store must be None or the path of a folder such as 'study.zarr', got {store!r}.")
        opened = _opened(study, Store(store), retry_failed)
        path, chunks, indices = opened.path, opened.chunks, np.flatnonzero(opened.marks() == OPEN).tolist()

        def keep(index: int, output: Output, given_up: bool) -> None:
            opened.write(index, output, study, GIVEN_UP if given_up else DONE)

    _warn_if_slow(study, sum(map(chunks.points, indices)))
    with Tally(study.grid.points, study.grid.points - sum(map(chunks.points, indices)), progress) as tally:
        if client is None:
            in_process(study, chunks, indices, keep, tally)
        elif indices:
            with connected(client, workers) as (made, revive):
                Cluster(made, study, chunks, path, retries, timeout, keep, tally, revive).run(indices)
    if path is None:
        return in_memory(study, arrays, study.layout)
    opened.tidy()
    return open_result(path, study, check=False)


def _warn_if_slow(study: Study, points: int) -> None:
    """Warn if many combinations of variables are prepared one by one; the time of one of them is measured."""
    names, groups = study.groups
    groups = min(groups, points)
    if groups < FEW_GROUPS:
        return
    study.layout  # noqa: B018  (compiles the code that all of them share)
    begin = time.process_time()
    study.cases.evaluate(study.at([n - 1 for n in study.grid.shape]))
    each = time.process_time() - begin
    if each * groups > SLOW:
        hours, minutes = divmod(round(each * groups / 60), 60)
        warnings.warn(
            f"{', '.join(map(repr, names))} cannot vary within a native batch: {groups:,} combinations take about {each:.2g} s each, "
            f"{hours} h {minutes} min of processor time in all. Starts, parameters, inputs and seeds vary within a batch.",
            SlowSweepWarning,
            stacklevel=3,
        )


def _opened(study: Study, store: Store, retry_failed: bool) -> Store:
    """The store of a study, made or checked, ready to be continued."""
    if store.exists:
        store.check(study)
        reopen_damaged(store)
        if retry_failed:
            store.reopen(np.flatnonzero(store.marks() == GIVEN_UP).tolist())
    else:
        store.create(study)
    store.tidy()
    return store


def _check_room(study: Study) -> None:
    """Raise a SweepError if a result does not fit into the memory of this machine."""
    each = sum(np.dtype(e.dtype).itemsize * prod(e.shape) for e in study.layout.values()) + 17  # outcome, time, cause
    room = available_memory()
    if study.grid.points * each > room:
        raise SweepError(
            f"{study.grid.points:,} points of {each} bytes do not fit into the {room / 1e9:.3g} GB of memory that are free: give a path, "
            "store='study.zarr'."
        )
