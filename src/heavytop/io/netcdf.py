"""Runs as datasets of xarray, tables of pandas and netCDF files: names and units as attributes, exact round trip, atomic writing."""

from __future__ import annotations

import json
from dataclasses import asdict
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np

from heavytop._checksum import check_sealed_file, seal
from heavytop._files import NETCDF, check_ending, whole_file
from heavytop._format import printable
from heavytop._memory import available_memory
from heavytop.errors import FileFormatError, require_extra

if TYPE_CHECKING:
    import pandas
    import xarray

    from heavytop.simulate import Run
    from heavytop.simulate.contact_record import ContactRecord, JointReaction

FORMAT = "heavytop run 1"
HDF5 = b"\x89HDF\r\n\x1a\n"
OLD_ENDINGS = {"refused": "controller_failed"}
"""Outcomes that had another name before 0.2.0."""
PARTS = {"q": "coordinates", "v": "velocities", "u": "inputs"}


def to_xarray(run: Run) -> xarray.Dataset:
    """The run as an ``xarray.Dataset`` with dimensions time, trajectory axes and names; units are attributes.

    Examples
    --------
    >>> import heavytop as ht
    >>> system = ht.System(name="pendulum")
    >>> system.body("rod", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=(0, 0, -1)))
    >>> data = ht.simulate(system.derive(), ([0.1], [0.0]), until=0.1, step=0.01).to_xarray()
    >>> data.q.sel(coordinate="rod.angle").sizes["time"]
    11
    """
    require_extra("data", "a run as a dataset")
    import xarray

    from heavytop.simulate import Ending

    endings = list(Ending)
    batch = _batch_axes(run)
    data: dict[str, Any] = {}
    coords: dict[str, Any] = {"time": ("time", run.t, {"units": "s"})}
    for name, axis in (("q", "coordinate"), ("v", "velocity"), ("u", "input")):
        names, units, values = getattr(run, f"{name}_names"), getattr(run, f"{name}_units"), getattr(run, name)
        if names:
            coords[axis] = (axis, np.array(names, dtype=str), {"units": list(units)})
            data[name] = (["time", *batch, axis], values, {"long_name": PARTS[name]})
    if run.has_energy:
        for label in ("kinetic_energy", "potential_energy"):
            data[label] = (["time", *batch], getattr(run, label), {"units": "J"})
    if run.work is not None:
        coords["power"] = ("power", np.array(["input", "dissipated", "driver"][: run.work.shape[-1]]))
        data["work"] = (["time", *batch, "power"], run.work, {"units": "J"})
    for label, values in run.driver_power.items():
        data[_variable("driver", label)] = (["time", *batch], values, {"units": "W", "long_name": printable(label)})
    for label, record in run.contacts.items():
        for part, values in _contact_parts(record).items():
            axes = [_variable(f"{part}_axis{k}", label) for k in range(values.ndim - 1 - len(batch))]
            data[_variable(f"contact_{part}", label)] = (
                ["time", *batch, *axes],
                values,
                {"long_name": printable(label)},
            )
    for label, values in run.channels.items():
        axes = [_variable(f"axis{k}", label) for k in range(values.ndim - 1 - len(batch))]
        if values.size or not axes:
            data[_variable("channel", label)] = (["time", *batch, *axes], values, {"long_name": printable(label)})
    for label, invariant in run.invariants.items():
        attributes = {"units": invariant.unit, "long_name": printable(label), "reference": invariant.reference}
        data[f"invariant_{label.replace(' ', '_')}"] = (["time", *batch], invariant.values, attributes)
    for label, value in run.parameters.items():
        own = np.asarray(value)
        data[_variable("parameter", label)] = (batch[len(batch) - own.ndim :], own, {"long_name": printable(label)})
    codes = np.array([endings.index(o.ending) for o in run.outcomes.reshape(-1)], dtype=np.int64)
    data["outcome"] = (batch, codes.reshape(run.batch), {"meaning": [e.value for e in endings]})
    times = np.array([o.time for o in run.outcomes.reshape(-1)], dtype=float)
    data["end_time"] = (batch, times.reshape(run.batch), {"units": "s"})
    data["metadata"] = ((), np.array(_metadata(run), dtype=object))  # an attribute must not exceed 64 kB
    return xarray.Dataset(data, coords, {"title": printable(f"{run.name}, {run.integrator}")})


def _contact_parts(record: ContactRecord | JointReaction) -> dict[str, np.ndarray]:
    """The arrays of a contact by their names in its class."""
    return {name: value for name, value in vars(record).items() if isinstance(value, np.ndarray) and name != "t"}


def _variable(kind: str, label: str) -> str:
    """The name of a variable; a slash would create a group, and HDF5 rejects zero bytes."""
    return f"{kind}_" + "".join(
        c if c.isprintable() and c not in "/%" else quote(c, "", errors="surrogatepass") for c in label
    )


def to_dataframe(run: Run) -> pandas.DataFrame:
    """The run as a table with columns for coordinates, velocities, inputs and energies, and their units in ``attrs["units"]``.

    The index is the time in s, in a batch (trajectory axes, time); rows after the end of a trajectory are omitted.

    Examples
    --------
    >>> import heavytop as ht
    >>> run = ht.simulate(ht.library.pendulum().derive(), ([1.0], [0.0]), until=0.02, step=0.01)
    >>> table = run.to_dataframe()
    >>> table.shape, table.index.name, table.attrs["units"]["theta.angle"]
    ((3, 5), 'time', 'rad')
    """
    require_extra("data", "a run as a table")
    import pandas

    columns, units = run_columns(run)
    axes = _batch_axes(run)
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


def run_columns(run: Run) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Coordinates, velocities, inputs and energies (n, ...) by name, and their units."""
    columns: dict[str, np.ndarray] = {}
    units: dict[str, str] = {}
    for part in ("q", "v", "u"):
        names, part_units = getattr(run, f"{part}_names"), getattr(run, f"{part}_units")
        for k, (name, unit) in enumerate(zip(names, part_units, strict=True)):
            label = name if name not in columns else f"{part}/{name}"
            columns[label], units[label] = getattr(run, part)[..., k], unit
    if run.has_energy:
        columns |= {"kinetic_energy": run.kinetic_energy, "potential_energy": run.potential_energy}
        units |= dict.fromkeys(("kinetic_energy", "potential_energy"), "J")
    return columns, units


def _batch_axes(run: Run) -> list[str]:
    return [f"trajectory{k}" if len(run.batch) > 1 else "trajectory" for k in range(len(run.batch))]


def _metadata(run: Run) -> str:
    """Everything except arrays, as JSON."""
    flat = run.outcomes.reshape(-1)
    usual = flat[0].message if len(flat) else ""
    content = {
        "format": FORMAT,
        "name": run.name,
        "integrator": run.integrator,
        "batch": list(run.batch),
        "names": {part: list(getattr(run, f"{part}_names")) for part in PARTS},
        "units": {part: list(getattr(run, f"{part}_units")) for part in PARTS},
        "channels": {name: list(values.shape) for name, values in run.channels.items()},
        "drivers": list(run.driver_power),
        "contacts": {name: getattr(record, "unique", None) for name, record in run.contacts.items()},
        "invariants": list(run.invariants),
        "parameters": list(run.parameters),
        "has_energy": run.has_energy,
        "settings": asdict(run.settings),
        "timing": asdict(run.timing),
        "outcome": [run.outcome.ending.value, run.outcome.message, run.outcome.time, list(run.outcome.trajectory)],
        "usual_message": usual,
        "messages": {str(k): o.message for k, o in enumerate(flat) if o.message != usual},
        "events": [[o.name, o.time, list(o.trajectory), o.q.tolist(), o.v.tolist(), o.terminal] for o in run.events],
    }
    return json.dumps(content)


def save_run(run: Run, path: str | Path) -> None:
    """Write the run; the file appears under its name only when it is complete.

    It is assembled in memory, because HDF5 aborts the process when a disk is full.

    >>> from tempfile import TemporaryDirectory
    >>> import heavytop as ht
    >>> run = ht.simulate(ht.library.pendulum().derive(), ([1.0], [0.0]), until=0.1, step=0.01)
    >>> with TemporaryDirectory() as folder:
    ...     save_run(run, f"{folder}/run.nc")
    ...     print(bool((load_run(f"{folder}/run.nc").q == run.q).all()))
    ...
    True
    """
    check_ending(path, NETCDF, "a netCDF file", " A name that ends with .csv writes a table.")
    require_extra("data", "a netCDF file")
    needed, room = sum(array.nbytes for array in (run.q, run.v, run.u, *run.channels.values())), available_memory()
    if needed > room:
        raise FileFormatError(
            f"cannot write {str(path)!r}: it is assembled in memory, which takes {needed / 1e9:.3g} GB of the {room / 1e9:.3g} GB available. "
            "Save parts of it, or record less with record_every."
        )
    made = _netcdf(to_xarray(run))
    with whole_file(path, "run.nc") as temporary, open(temporary, "wb") as file:
        file.write(made + seal(made))


def _netcdf(data: xarray.Dataset) -> bytes:
    """The bytes of a netCDF-4 file."""
    import h5netcdf
    import h5py

    buffer = BytesIO()
    with h5netcdf.File(buffer, "w") as file:
        file.attrs.update(data.attrs)
        file.dimensions = {str(name): size for name, size in data.sizes.items()}
        for name, variable in data.variables.items():
            text = variable.dtype.kind in "OU"
            values = variable.values.astype(object) if text else variable.values
            kind = h5py.string_dtype() if text else values.dtype
            made = file.create_variable(str(name), variable.dims, kind, data=values)
            made.attrs.update(variable.attrs)
    return buffer.getvalue()  # not a view: Python 3.12.1 and before cannot collect one that is part of a cycle


def load_run(path: str | Path, *, checked: bool = True) -> Run:
    """Read a run; its arrays are bit-identical to those saved. It has no model.

    ``checked=False`` skips the checksum, for files rewritten by another program or written by heavytop 0.1.0.

    >>> from tempfile import TemporaryDirectory
    >>> import heavytop as ht
    >>> run = ht.simulate(ht.library.pendulum().derive(), ([1.0], [0.0]), until=0.1, step=0.01)
    >>> with TemporaryDirectory() as folder:
    ...     save_run(run, f"{folder}/run.nc")
    ...     print(load_run(f"{folder}/run.nc").name)
    ...
    pendulum
    """
    require_extra("data", "a netCDF file")
    import xarray

    source = _existing(path)
    try:
        if checked:
            check_sealed_file(source, "Run.load(path, checked=False) reads it without the check, if you trust it.")
        _check_sizes(source)
        with xarray.open_dataset(source, engine="h5netcdf", decode_cf=False) as opened:
            data = opened.load()
    except FileFormatError:
        raise
    except Exception as error:
        raise FileFormatError(f"{str(source)!r} is not a readable netCDF file: {error}") from error
    meta = _meta(data)
    if meta.get("format") != FORMAT:
        raise FileFormatError(
            f"{str(source)!r} was not written by Run.save: expected format {FORMAT!r}, got {meta.get('format')!r}."
        )
    try:
        return _run(data, meta)
    except (KeyError, ValueError, TypeError, IndexError, AttributeError) as error:
        raise FileFormatError(f"{str(source)!r} is damaged or was changed: {type(error).__name__} {error}.") from error


def _existing(path: str | Path) -> Path:
    source = Path(path)
    try:
        with open(source, "rb") as file:
            start = file.read(len(HDF5))
    except FileNotFoundError:
        raise FileFormatError(f"there is no file {str(path)!r}.") from None
    except (OSError, ValueError) as error:
        raise FileFormatError(f"cannot read {str(path)!r}: {error}.") from None
    if start != HDF5:
        raise FileFormatError(f"{str(source)!r} is not a readable netCDF file: its first bytes are not those of HDF5.")
    return source


def _check_sizes(source: Path) -> None:
    """Raise a FileFormatError for arrays that are larger than the file, before memory is allocated."""
    import h5py

    room = source.stat().st_size
    with h5py.File(source, "r") as file:
        for name, item in file.items():
            claimed = item.size * item.dtype.itemsize if isinstance(item, h5py.Dataset) and item.size else 0
            empty = item.attrs.get("NAME", b"").startswith(b"This is a netCDF dimension but not")  # no data
            if claimed > room and not empty:
                raise FileFormatError(
                    f"{str(source)!r} is damaged or was changed: {name!r} claims {claimed} bytes in a file of {room}."
                )


def _meta(data: xarray.Dataset) -> dict[str, Any]:
    """The content of :func:`_metadata`; empty if it is not valid."""
    if "metadata" not in data or data["metadata"].size != 1:
        return {}
    value = data["metadata"].values.item()
    try:
        content = json.loads(value if isinstance(value, str | bytes) else "")
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}


def _channel(data: xarray.Dataset, label: str, shape: list[int]) -> np.ndarray:
    if (name := _variable("channel", label)) in data:
        return data[name].values
    if 0 not in shape:  # those of size zero have no variable in the file
        raise ValueError(f"the numbers of channel {label!r} are missing")
    return np.zeros(tuple(shape))


def _contact(data: xarray.Dataset, label: str, unique: bool | None) -> ContactRecord | JointReaction:
    from heavytop.simulate.contact_record import ContactRecord, JointReaction

    values = lambda part: data[_variable(f"contact_{part}", label)].values  # noqa: E731
    t = data["time"].values
    if unique is None:
        return JointReaction(label, t, values("force"))
    return ContactRecord(label, t, values("forces"), values("gaps"), values("points"), values("use"), unique)


def _run(data: xarray.Dataset, meta: dict[str, Any]) -> Run:
    # imported here, so that robots can be loaded without simulation
    from heavytop.simulate import Ending, Invariant, Occurrence, Outcome, Run, Settings, Timing

    endings = list(Ending)
    shared = (Ending.finished, Ending.interrupted, Ending.step_limit, Ending.lost)  # by all trajectories
    batch, n = tuple(meta["batch"]), data.sizes["time"]
    names = {part: tuple(meta["names"][part]) for part in PARTS}
    arrays = {part: data[part].values if names[part] else np.zeros((n, *batch, 0)) for part in PARTS}
    stored: dict[str, Any] = {"invariants": {}}
    for label in meta["invariants"]:
        variable = data[f"invariant_{label.replace(' ', '_')}"]
        unit, reference = str(variable.attrs["units"]), float(variable.attrs["reference"])
        stored["invariants"][label] = Invariant(variable.values, unit, reference)
    if meta["has_energy"]:
        stored |= {label: data[label].values for label in ("kinetic_energy", "potential_energy")}
    drivers = {label: data[_variable("driver", label)].values for label in meta.get("drivers", [])}
    stored |= {"driver_power": drivers} if drivers else {}
    if contacts := {label: _contact(data, label, unique) for label, unique in meta.get("contacts", {}).items()}:
        stored["contacts"] = contacts
    codes, times = data["outcome"].values.reshape(-1), data["end_time"].values.reshape(-1)
    flat = np.empty(len(codes), dtype=object)
    for k, (code, end) in enumerate(zip(codes, times, strict=True)):
        ending = endings[int(code)]
        index = tuple(int(i) for i in np.unravel_index(k, batch)) if batch and ending not in shared else ()
        message = meta["messages"].get(str(k), meta["usual_message"])
        flat[k] = Outcome(ending, message, float(end), index)
    ending, message, end, trajectory = meta["outcome"]
    labels: dict[str, Any] = {f"{part}_names": names[part] for part in PARTS}
    labels |= {f"{part}_units": tuple(meta["units"][part]) for part in PARTS}
    return Run(
        name=meta["name"],
        integrator=meta["integrator"],
        t=data["time"].values,
        **arrays,
        outcome=Outcome(Ending(OLD_ENDINGS.get(ending, ending)), message, end, tuple(trajectory)),
        outcomes=flat.reshape(batch),
        **labels,
        channels={label: _channel(data, label, shape) for label, shape in meta["channels"].items()},
        work=data["work"].values if "work" in data else None,
        events=tuple(
            Occurrence(name, when, tuple(index), np.array(q), np.array(v), terminal)
            for name, when, index, q, v, terminal in meta["events"]
        ),
        parameters={label: data[_variable("parameter", label)].values for label in meta["parameters"]},
        settings=Settings(**meta["settings"]),
        timing=Timing(**meta["timing"]),
        stored=stored,
    )
