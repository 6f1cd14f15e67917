"""Runs and flights as tables of text; those of flights have the same columns for all plants of a vehicle."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from heavytop._files import CSV, write_whole
from heavytop.errors import FileFormatError
from heavytop.io.netcdf import run_columns

if TYPE_CHECKING:
    from heavytop.copters import Flight
    from heavytop.simulate import Run


def flight_columns(flight: Flight) -> dict[str, np.ndarray]:
    """Columns (n,) by name, without units: SI, radians.

    >>> from heavytop.copters import fly, maneuvers, quadcopter
    >>> craft = quadcopter()
    >>> flight = fly(craft, maneuvers.hover(craft, duration=0.02))
    >>> [name for name in flight_columns(flight) if name.startswith(("time", "hull.v", "thrust0"))]
    ['time', 'hull.v_x', 'hull.v_y', 'hull.v_z', 'thrust0', 'thrust0_command']
    """
    run, model = flight.run, flight.vehicle.model
    columns = {"time": run.t}
    for part in ("q", "v"):
        columns |= {name: getattr(run, part)[:, k] for k, name in enumerate(getattr(run, f"{part}_names"))}
    inputs = model.u_names[: flight.u.shape[1]]
    columns |= {name: flight.u[:, k] for k, name in enumerate(inputs)}
    columns |= {f"{name}_command": flight.commands[:, k] for k, name in enumerate(model.u_names)}
    columns |= {name: run.u[:, k] for k, name in enumerate(run.u_names) if name.startswith("wind_")}
    return columns | {"position_error": flight.position_error, "attitude_error": flight.attitude_error}


def save_flight(flight: Flight, path: str | Path, every: int = 1) -> None:
    """Write a flight as a table (.csv) with one row for every ``every``-th record and the last one, or its run as netCDF."""
    if str(path).lower().endswith(CSV):
        _write_table(flight_columns(flight), path, every)
    else:
        flight.run.save(path, every)


def save_table(run: Run, path: str | Path, every: int = 1) -> None:
    """Write a run of one trajectory as a table with the columns of ``run.to_dataframe()``.

    >>> from tempfile import TemporaryDirectory
    >>> import heavytop as ht
    >>> run = ht.simulate(ht.library.pendulum().derive(), ([1.0], [0.0]), until=0.1, step=0.01)
    >>> with TemporaryDirectory() as folder:
    ...     save_table(run, f"{folder}/run.csv", every=5)
    ...     print(Path(f"{folder}/run.csv").read_text().splitlines()[1])
    0,1,0,0,0,-5.512380245
    """
    if run.batch:
        raise FileFormatError(
            f"a table holds one trajectory, got a batch of shape {run.batch}: run.to_dataframe().to_csv(path) writes all of them."
        )
    _write_table({"time": run.t} | run_columns(run)[0], path, every)


def _write_table(columns: dict[str, np.ndarray], path: str | Path, every: int) -> None:
    if isinstance(every, bool) or every < 1 or every != int(every):
        raise FileFormatError(f"every must be 1, 2, ..., got {every!r}.")
    n = len(columns["time"])
    rows = np.union1d(np.arange(0, n, int(every)), [n - 1])
    values = np.stack([np.asarray(column, dtype=float)[rows] for column in columns.values()], axis=1)
    lines = [",".join(columns), *(",".join(f"{x:.10g}" for x in row) for row in values)]
    write_whole(path, ("\n".join(lines) + "\n").encode("utf-8"), "table.csv")
