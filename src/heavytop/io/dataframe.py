"""Runs as tables: a row for each time, a column for each quantity."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas

    from heavytop.simulate.run import Run


def to_dataframe(run: Run) -> pandas.DataFrame:
    """Columns are coordinates, velocities, inputs and energies by name, with their units in ``attrs["units"]``; the index is the time
    in s, in a batch (trajectory axes, time). Where a trajectory has ended the row is left out.

    Examples
    --------
    >>> import heavytop as ht
    >>> run = ht.simulate(ht.library.pendulum().derive(), ([1.0], [0.0]), until=0.02, step=0.01)
    >>> table = run.to_dataframe()
    >>> table.shape, table.index.name, table.attrs["units"]["theta.angle"]
    ((3, 5), 'time', 'rad')
    """
    import pandas

    columns: dict[str, np.ndarray] = {}
    units: dict[str, str] = {}
    for part in ("q", "v", "u"):
        for k, (name, unit) in enumerate(
            zip(getattr(run, f"{part}_names"), getattr(run, f"{part}_units"), strict=True)
        ):
            label = name if name not in columns else f"{part}/{name}"
            columns[label], units[label] = getattr(run, part)[..., k], unit
    if run.has_energy:
        columns |= {"kinetic_energy": run.kinetic_energy, "potential_energy": run.potential_energy}
        units |= dict.fromkeys(("kinetic_energy", "potential_energy"), "J")
    axes = [f"trajectory{k}" if len(run.batch) > 1 else "trajectory" for k in range(len(run.batch))]
    index = pandas.MultiIndex.from_product([*map(range, run.batch), run.t], names=[*axes, "time"])
    if not run.batch:
        index = pandas.Index(run.t, name="time")
    rows = {name: np.moveaxis(values, 0, -1).reshape(-1) for name, values in columns.items()}
    table = pandas.DataFrame(rows, index=index)
    table.attrs["units"] = units
    if not run.batch:
        return table
    present = np.isfinite(np.moveaxis(run.q, 0, -2)).all(axis=-1).reshape(-1)
    return table.loc[present, :]
