"""A log as one labelled dataset: SI units, world axes (east, north, up), body axes (forward, left, up), quaternions with the scalar first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytop._format import listed
from heavytop.errors import FileFormatError, require_extra, unknown_name
from heavytop.geometry import quaternion, quaternion_from_rotation
from heavytop.io.conventions import pose_from_ned
from heavytop.log.log_map import ATTITUDE, TIME_UNITS, UNITS, LogMap, SignalMap
from heavytop.log.mcap_format import OWN_LIBRARY
from heavytop.log.mcap_writer import OWN_TYPE
from heavytop.log.tables import LOG_TIME, Tables, TopicTable, read_tables

if TYPE_CHECKING:
    import xarray

GAP = 5.0
"""A gap is longer than this multiple of the median time between samples."""
MOST_ADDED = 100
"""Samples after resampling per sample of the fastest signal beyond which times are wrong."""
MOST_SAMPLES = 100_000_000
AXES = {3: ("axis", ("x", "y", "z")), 4: ("quaternion", ("w", "x", "y", "z"))}
OWN_AXES = {
    "/q": ("q", "coordinate"),
    "/v": ("v", "velocity"),
    "/u": ("u", "input"),
    "/energy": ("energy", "energy_kind"),
}


def load_log(
    path: str | Path, map: str | Path | Mapping[str, Any] | LogMap | None = None, *, rate: float | None = None
) -> xarray.Dataset:
    """Read a log of a flight or a robot as one labelled dataset.

    The format is recognised by the content: ULog (PX4), MCAP (JSON, ROS 2, protobuf, and :meth:`.Run.save`), ROS 1 and 2 bags, netCDF, Betaflight's
    blackbox as CSV, plain CSV (also ``.csv.gz``).

    Parameters
    ----------
    path : the file, or the folder of a ROS 2 bag.
    map : signals by columns: a TOML file, its content as a dictionary, or a :class:`LogMap`. Plain CSV needs one, the other formats have one.
    rate : Hz; resample everything to one time, linearly, attitudes along great arcs; NaN within gaps. Default: every topic has its own times.

    Returns
    -------
    xarray.Dataset
        Signals such as ``position``, ``velocity`` (world), ``attitude`` (quaternion w, x, y, z of the body in the world), ``gyro``,
        ``accelerometer``, ``angular_velocity`` (body), ``motors``, ``setpoint_...`` with their units. Times in s begin with the first sample;
        ``attrs["start_time"]`` is its time in the log, ``attrs["report"]`` a text on samples, rates, gaps, clock jumps, missing and unused columns.

    Raises
    ------
    FileFormatError
        The file is damaged or not a log, a column is missing or NaN, the clock jumps back (unless the map allows it).

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import heavytop as ht
    >>> log_map = {"time": {"column": "ms", "unit": "ms"}, "signals": {"gyro": {"columns": ["gx", "gy", "gz"], "unit": "deg/s"}}}
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "log.csv").write_text("ms,gx,gy,gz\\n0,0,0,90\\n10,0,0,180\\n")
    ...     data = ht.load_log(f"{folder}/log.csv", log_map)
    ...
    >>> data.gyro.values[1].round(3).tolist(), data.gyro.units, float(data.time[1])
    ([0.0, 0.0, 3.142], 'rad/s', 0.01)
    """
    if rate is not None and not (isinstance(rate, int | float) and isfinite(rate) and rate > 0):
        raise FileFormatError(f"rate must be a positive number of samples per second, got {rate!r}.")
    require_extra("data", "a log")
    tables = read_tables(path)
    if map is None and tables.format == OWN_LIBRARY:
        return _own(tables, str(path))
    return _Loading(tables, _map_of(map, tables, str(path)), str(path)).dataset(rate)


def _map_of(given: Any, tables: Tables, path: str) -> LogMap:
    if isinstance(given, LogMap):
        return given
    if isinstance(given, Mapping):
        return LogMap.parse(_toml(given), "map")
    if given is not None:
        return LogMap.read(given)
    if tables.format == "csv":
        columns = listed(tables.topics[""].columns, 60)
        raise FileFormatError(
            f"a table of text needs map=, a TOML file with [time] column and [signals]. The columns of {path!r} are: {columns}."
        )
    if tables.format == "netcdf":
        timed = {n: v for n, v in tables.variables.items() if tables.topics[v.topic].time}
        known = {n: v for n, v in timed.items() if ATTITUDE not in n or len(v.columns) == 4}
        if not known:
            columns = [name for table in tables.topics.values() for name in table.columns]
            raise FileFormatError(
                f"no variable of {path!r} has a coordinate with the times of its first axis. Give a map= with [time] column and [signals]; the "
                f"columns are: {listed(columns, 60)}."
            )
        return LogMap({n: SignalMap(v.columns, v.topic) for n, v in known.items()}, nan="keep", name="the file")
    built_in = {"ulog": "ulog", "betaflight": "betaflight"}.get(tables.format, "ros")
    return LogMap.built_in(built_in)


def _toml(content: Mapping[str, Any]) -> str:
    """The text of a map given as dictionary, so that it is checked like a file."""

    def text(value: Any) -> str:
        if isinstance(value, Mapping):
            return "{ " + ", ".join(f"{_quoted(k)} = {text(v)}" for k, v in value.items()) + " }"
        if isinstance(value, list | tuple):
            return "[" + ", ".join(text(v) for v in value) + "]"
        if isinstance(value, bool):
            return str(value).lower()
        return repr(float(value)) if isinstance(value, int | float | np.number) else _quoted(str(value))

    return "\n".join(f"{_quoted(k)} = {text(v)}" for k, v in content.items())


def _quoted(text: str) -> str:
    import json

    return json.dumps(text)


@dataclass(eq=False)
class _Signal:
    """A signal with its own times."""

    name: str
    values: np.ndarray
    unit: str
    topic: str
    times: np.ndarray
    columns: tuple[str, ...]
    late: float


@dataclass(eq=False)
class _Loading:
    """One log with its map, on the way to a dataset."""

    tables: Tables
    log_map: LogMap
    path: str
    lines: list[str] = field(default_factory=list)
    """Of the report."""

    def dataset(self, rate: float | None) -> xarray.Dataset:
        import xarray

        topics, missing = self._topics()
        if not topics:
            raise FileFormatError(
                f"none of the signals of {self.log_map.name or 'the map'} is in {self.path!r}, which has the topics "
                f"{listed(self.tables.topics, 60)}. Give a map= with the topics and columns of this log."
            )
        clocks = {topic: self._clock(topic) for topic in topics}
        first = min(clocks.values(), key=lambda clock: clock[0][0] * clock[1])
        kept = {topic: self._times(topic, *clock, first[0][0]) for topic, clock in clocks.items()}
        start = float(first[0][0] * first[1])
        signals = [
            self._signal(name, spec, topic, *kept[topic])
            for topic, group in topics.items()
            for name, spec in group.items()
        ]
        signals = [self._to_body(s, self.log_map.signals[s.name], signals) for s in signals]
        self._describe(signals, missing)
        if rate is not None:
            signals = self._resampled(signals, float(rate))
        labels = ["time"] * len(signals) if rate is not None else _time_labels(signals)
        data: dict[str, Any] = {}
        coords: dict[str, Any] = {}
        for s, label in zip(signals, labels, strict=True):
            coords[label] = (label, s.times, {"units": "s"})
            attributes = {"units": s.unit, "columns": list(s.columns)}
            axis, names = self._axis(s)
            if not axis:
                data[s.name] = ((label,), s.values[:, 0], attributes)
                continue
            coords[axis] = (axis, list(names))
            data[s.name] = ((label, axis), s.values, attributes)
        attributes = {
            "source": self.path,
            "format": self.tables.format,
            "start_time": start,
            "report": "\n".join(self.lines),
        }
        return xarray.Dataset(data, coords, attributes)

    def _axis(self, s: _Signal) -> tuple[str, tuple[Any, ...]]:
        """Name and labels of the second axis of a signal; an empty name if it has one entry."""
        width = s.values.shape[1]
        variable = self.tables.variables.get(s.name)
        if variable is not None and variable.columns == s.columns:
            return variable.axis, variable.labels
        if width == 1:
            return "", ()
        if width in AXES and (width != 4 or ATTITUDE in s.name):
            return AXES[width]
        return f"entry_{s.name}", tuple(map(str, range(width)))

    def _topics(self) -> tuple[dict[str, dict[str, SignalMap]], list[str]]:
        """Topic -> signals in it, and those that are not there."""
        found: dict[str, dict[str, SignalMap]] = {}
        missing = []
        for name, spec in self.log_map.signals.items():
            topic = self._topic_of(spec)
            absent = [] if topic is None else [c for c in spec.columns if c not in self.tables.topics[topic].columns]
            if topic is not None and not absent:
                found.setdefault(topic, {})[name] = spec
                continue
            missing.append(name)
            if spec.optional:
                continue
            if topic is None:
                kind, wanted = ("type of messages", spec.type) if spec.type else ("topic", spec.topic)
                known = [t.type for t in self.tables.topics.values()] if spec.type else list(self.tables.topics)
            else:
                kind, wanted, known = "column", absent[0], list(self.tables.topics[topic].columns)
            raise FileFormatError(f"{self.path!r}, signal {name!r}: {unknown_name(kind, wanted, known)}")
        return found, missing

    def _topic_of(self, spec: SignalMap) -> str | None:
        if spec.type:
            short = spec.type.replace("/msg/", "/")
            return next(
                (n for n, t in self.tables.topics.items() if t.type.replace("/msg/", "/") == short and len(t)), None
            )
        topic = spec.topic
        return topic if topic in self.tables.topics and len(self.tables.topics[topic]) else None

    def _clock(self, topic: str) -> tuple[np.ndarray, float]:
        """The clock (n,) of a topic and its unit in s; whole numbers of ns stay whole, as floats have no room for their last digits."""
        table, log_map = self.tables.topics[topic], self.log_map
        column = log_map.time or table.time or (LOG_TIME if LOG_TIME in table.columns else "")
        if column not in table.columns:
            raise FileFormatError(
                f"{self._where(topic)}: {unknown_name('column of the time', column, list(table.columns))} [time] column = ... of the map names it."
            )
        raw = table.columns[column]
        if not np.isfinite(raw).all():
            k = int(np.argmin(np.isfinite(raw)))
            raise FileFormatError(
                f"{self._where(topic)}: the time is not a number in sample {k + 1} (column {column!r})."
            )
        stated = "ns" if column == LOG_TIME else "" if log_map.time else table.units.get(column, "")
        scale = TIME_UNITS[stated if stated in TIME_UNITS else log_map.time_unit]
        return raw.astype(np.int64) if raw.dtype.kind in "iu" else raw, scale

    def _where(self, topic: str) -> str:
        return f"{self.path!r}" + (f", topic {topic!r}" if topic else "")

    def _times(self, topic: str, clock: np.ndarray, scale: float, first: Any) -> tuple[np.ndarray, np.ndarray]:
        """Times (n,) in s after the ``first`` of the log, and the samples of the topic are kept."""
        t = (clock - first) * scale
        ahead = np.concatenate([[True], t[1:] > np.maximum.accumulate(t)[:-1]])
        if not ahead.all():
            k = int(np.argmin(ahead))
            jump = f"the time goes back or stands still in {np.sum(~ahead)} samples, first from {t[k - 1]:.9g} s to {t[k]:.9g} s in sample {k + 1}"
            if self.log_map.jumps == "raise":
                raise FileFormatError(
                    f'{self._where(topic)}: {jump}. [time] jumps = "drop" of the map leaves them out.'
                )
            self.lines.append(f"{topic or 'clock'}: {jump}; left out")
        return t[ahead], np.flatnonzero(ahead)

    def _signal(self, name: str, spec: SignalMap, topic: str, times: np.ndarray, rows: np.ndarray) -> _Signal:
        table = self.tables.topics[topic]
        values = np.stack([np.asarray(table.columns[c], dtype=float)[rows] for c in spec.columns], axis=-1)
        finite = np.isfinite(values.sum(axis=1))
        if not finite.all():
            k = int(np.argmin(finite))
            column = spec.columns[int(np.argmin(np.isfinite(values[k])))]
            text = f"{name}: {np.sum(~finite)} of {len(finite)} samples are not numbers, first {column!r} at t = {times[k]:.6g} s"
            if self.log_map.nan == "raise":
                raise FileFormatError(f'{self.path!r}, {text}. [time] nan = "drop" or "keep" of the map allows it.')
            self.lines.append(text + ("; left out" if self.log_map.nan == "drop" else ""))
            if self.log_map.nan == "drop":
                values, times = values[finite], times[finite]
        unit = self._unit(spec, table)
        factor, si = UNITS[unit]
        values = spec.offset + spec.scale * factor * self._own_scale(spec, table) * values
        if ATTITUDE in name:
            values = _rotated_attitude(_scalar_first(values, spec.order), spec.frame, f"{self.path!r}, {name}")
            si = "1"
        elif spec.frame == "NED":
            values = values[:, [1, 0, 2]] * [1.0, 1.0, -1.0]
        elif spec.frame == "FRD":
            values = values * [1.0, -1.0, -1.0]
        return _Signal(name, values, si, topic, times - spec.late, spec.columns, spec.late)

    def _unit(self, spec: SignalMap, table: TopicTable) -> str:
        """The unit that the file states for the column, or that of the map."""
        stated = table.units.get(spec.columns[0], "")
        return stated if stated in UNITS and stated else spec.unit

    def _own_scale(self, spec: SignalMap, table: TopicTable) -> float:
        """Betaflight's accelerometer in counts, of which its header gives the number per g."""
        counts = self.tables.facts.get("acc_1G", "")
        if spec.columns[0].startswith("accSmooth") and spec.columns[0] not in table.units and counts:
            return 1.0 / float(counts)
        return 1.0

    def _to_body(self, signal: _Signal, spec: SignalMap, signals: list[_Signal]) -> _Signal:
        """An angular velocity in world axes in those of the body."""
        if spec.frame != "world":
            return signal
        attitude = next((s for s in signals if s.name == ATTITUDE), None)
        if attitude is None:
            raise FileFormatError(
                f"{self.path!r}: {signal.name!r} in world axes needs the signal 'attitude' in the map."
            )
        R = quaternion.rotation_from_quaternion(_between(attitude, signal.times))
        return _Signal(
            signal.name,
            np.matvec(np.swapaxes(R, -1, -2), signal.values),
            signal.unit,
            signal.topic,
            signal.times,
            signal.columns,
            signal.late,
        )

    def _gap(self, times: np.ndarray) -> float:
        if self.log_map.gap is not None:
            return self.log_map.gap
        return GAP * float(np.median(np.diff(times))) if len(times) > 1 else np.inf

    def _describe(self, signals: list[_Signal], missing: list[str]) -> None:
        found, used = [], set()
        for topic in dict.fromkeys(s.topic for s in signals):
            group = [s for s in signals if s.topic == topic]
            t = max((s.times for s in group), key=len)
            used |= {(topic, c) for s in group for c in s.columns}
            pace = np.diff(t)
            rate = f", {1 / np.median(pace):.4g} Hz" if len(pace) else ""
            found.append(f"{topic or 'samples'}: {len(t)} from {t[0]:.6g} to {t[-1]:.6g} s{rate}")
            for s in group:
                shifted = f", taken {s.late:g} s earlier" if s.late else ""
                found.append(f"  {s.name} [{s.unit}]: {', '.join(s.columns)}{shifted}")
            gaps = np.flatnonzero(pace > self._gap(t))
            if len(gaps):
                worst = gaps[np.argmax(pace[gaps])]
                found.append(
                    f"  {len(gaps)} gaps of more than {self._gap(t):.3g} s, the longest {pace[worst]:.3g} s at t = {t[worst]:.6g} s"
                )
        clocks = {LOG_TIME, self.log_map.time}
        tables = self.tables.topics.items()
        every = [(topic, c) for topic, table in tables for c in table.columns if c not in {*clocks, table.time}]
        unused = [f"{topic}: {c}" if topic else c for topic, c in every if (topic, c) not in used]
        self.lines[:0] = [f"{Path(self.path).name} ({self.tables.format})", *found]
        if missing:
            self.lines.append(f"not in the log: {', '.join(missing)}")
        if unused:
            self.lines.append(f"unused columns: {listed(unused, 24)}")

    def _resampled(self, signals: list[_Signal], rate: float) -> list[_Signal]:
        start, end = max(float(s.times[0]) for s in signals), min(float(s.times[-1]) for s in signals)
        count = (end - start) * rate
        if not 0 <= count < MOST_SAMPLES:
            raise FileFormatError(
                f"{self.path!r}: from {start:.6g} s, when all signals have begun, to {end:.6g} s, when the first one ends, there are no samples at "
                f"{rate:g} Hz that fit into memory. Leave signals out of the map."
            )
        dense = max(signals, key=lambda s: len(s.times))
        if count > MOST_ADDED * len(dense.times):
            pace = np.diff(dense.times)
            k = int(np.argmax(pace))
            raise FileFormatError(
                f"{self.path!r}: {len(dense.times)} samples of {dense.name!r}, {np.median(pace):.6g} s apart, would become {count:.0f} at {rate:g} "
                f"Hz; the time jumps from {dense.times[k]:.6g} s by {pace[k]:.6g} s. Give the unit of the time in the map, correct the clock, or a "
                "lower rate=."
            )
        times = start + np.arange(int(count * (1 + 1e-12)) + 1) / rate
        made = []
        for s in signals:
            values = _between(s, times)
            k = np.clip(np.searchsorted(s.times, times, side="right") - 1, 0, max(len(s.times) - 2, 0))
            if len(s.times) > 1:
                inside = (np.diff(s.times)[k] > self._gap(s.times)) & (times > s.times[k]) & (times < s.times[k + 1])
                values[inside] = np.nan
                if inside.any():
                    self.lines.append(
                        f"{s.name}: {np.sum(inside)} of {len(times)} resampled values lie in gaps and are NaN"
                    )
            made.append(replace(s, values=values, times=times))
        return made


def _time_labels(signals: list[_Signal]) -> list[str]:
    """The names of the times of signals: "time" in a single topic, else by topics; by signals where those of a topic differ."""
    groups = {topic: [s for s in signals if s.topic == topic] for topic in {s.topic for s in signals}}
    same = {t: all(np.array_equal(s.times, own[0].times) for s in own) for t, own in groups.items()}
    topic = {t: _plain(t).removeprefix("time_") if len(groups) > 1 else "" for t in groups}
    parts = [("time", topic[s.topic], "" if same[s.topic] else _plain(s.name)) for s in signals]
    return ["_".join(filter(None, own)) for own in parts]


def _between(signal: _Signal, times: np.ndarray) -> np.ndarray:
    """Values at other times: linear, attitudes along great arcs; constant beyond the ends."""
    t = np.clip(times, signal.times[0], signal.times[-1])
    if ATTITUDE not in signal.name:
        return np.stack([np.interp(t, signal.times, column) for column in signal.values.T], axis=-1)
    if len(signal.times) == 1:
        return np.repeat(signal.values, len(t), axis=0)
    k = np.clip(np.searchsorted(signal.times, t, side="right") - 1, 0, len(signal.times) - 2)
    x = (t - signal.times[k]) / (signal.times[k + 1] - signal.times[k])
    a, b = signal.values[k], signal.values[k + 1]
    step = quaternion.multiply(quaternion.conjugate(a), np.where(np.vecdot(a, b)[:, None] < 0, -b, b))
    return quaternion.multiply(a, quaternion.exp(x[:, None] * quaternion.log(step)))


def _scalar_first(values: np.ndarray, order: str) -> np.ndarray:
    return np.roll(values, 1, axis=1) if order == "xyzw" else values


def _rotated_attitude(values: np.ndarray, frame: str, where: str) -> np.ndarray:
    """Unit quaternions, from north-east-down if ``frame`` says so; of the two signs that near the sample before."""
    norms = np.linalg.norm(values, axis=1)
    finite = np.isfinite(norms)
    if (finite & (np.abs(norms - 1.0) > 0.1)).any():
        k = int(np.argmax(finite & (np.abs(norms - 1.0) > 0.1)))
        raise FileFormatError(f"{where}: sample {k + 1} is not a unit quaternion: {values[k]} has norm {norms[k]:.4g}.")
    unit = values / norms[:, None]
    if frame == "NED":
        G = np.zeros((len(unit), 4, 4))
        G[:, :3, :3], G[:, 3, 3] = (
            quaternion.rotation_from_quaternion(np.where(finite[:, None], unit, [1.0, 0.0, 0.0, 0.0])),
            1.0,
        )
        unit = np.where(finite[:, None], quaternion_from_rotation(pose_from_ned(G)[:, :3, :3]), np.nan)
    turns = np.concatenate([[1.0], np.where(np.vecdot(unit[1:], unit[:-1]) < 0, -1.0, 1.0)])
    return unit * np.cumprod(turns)[:, None]


def _plain(text: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in text).strip("_")


def _own(tables: Tables, path: str) -> xarray.Dataset:
    """A file of :meth:`.Run.save`: the numbers of the run, bit by bit."""
    import xarray

    data: dict[str, Any] = {}
    coords: dict[str, Any] = {}
    for topic, table in tables.topics.items():
        if not table.type.startswith(OWN_TYPE):
            continue
        names = [name for name in table.columns if name in table.names]
        label, axis = OWN_AXES.get(topic, (_plain(topic), f"entry_{_plain(topic)}"))
        coords["time"] = ("time", table.columns["t"], {"units": "s"})
        coords[axis] = (axis, [table.names[name] for name in names])
        units = [table.units.get(name, "") for name in names]
        data[label] = (("time", axis), np.stack([table.columns[name] for name in names], axis=-1), {"units": units})
    lines = [
        f"{Path(path).name} (MCAP of heavytop)",
        *(f"{name}: {array[1].shape[1]} columns" for name, array in data.items()),
    ]
    return xarray.Dataset(data, coords, {"source": path, "format": tables.format, "report": "\n".join(lines)})
