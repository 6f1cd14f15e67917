"""The topics of a log as tables of numbers, whatever the format of its file."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import gzip
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from heavytop.errors import FileFormatError
from heavytop.log.mcap_format import OWN_LIBRARY, read_own_mcap

LOG_TIME = "log_time"
"""Column with the time of recording in ns, in formats that have one."""
MOST_ENTRIES = 64
"""Entries of an array in a message that become columns."""
ULOG_MAGIC, MCAP_MAGIC, ROSBAG_MAGIC = b"ULog\x01\x12\x35", b"\x89MCAP0\r\n", b"#ROSBAG V"
HDF5_MAGIC, NETCDF_MAGIC = b"\x89HDF\r\n\x1a\n", b"CDF"
LONG_UNITS = {"seconds": "s", "second": "s", "milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"}


@dataclass(frozen=True, eq=False)
class TopicTable:
    """One topic: columns (n,) of equal length.

    Attributes
    ----------
    columns : name -> numbers. type : type of its messages, if the format has types. units : column -> unit, where the file states it.
    names : original names of columns that a format had to change. time : column of the time, if the file has one.
    """

    columns: Mapping[str, np.ndarray]
    type: str = ""
    units: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    time: str = ""

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))


@dataclass(frozen=True, eq=False)
class TableVariable:
    """An array of a netCDF file: its topic and columns, name and labels of its second axis, if it has one."""

    topic: str
    columns: tuple[str, ...]
    axis: str = ""
    labels: tuple[Any, ...] = ()


@dataclass(frozen=True, eq=False)
class Tables:
    """The content of a file: its format, its topics and facts of its header; in netCDF files the variables with their columns."""

    format: str
    topics: Mapping[str, TopicTable]
    facts: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, TableVariable] = field(default_factory=dict)


def read_tables(path: str | Path) -> Tables:
    """Read a file whose format is recognised by its content."""
    source = Path(path)
    if source.is_dir():
        return _ros_bag(source)
    try:
        with open(source, "rb") as file:
            start = file.read(16)
    except FileNotFoundError:
        raise FileFormatError(f"there is no file {str(path)!r}.") from None
    except OSError as error:
        raise FileFormatError(f"cannot read {str(path)!r}: {error.strerror or error}.") from None
    if not start:
        raise FileFormatError(f"{str(path)!r} is empty.")
    if start.startswith(ULOG_MAGIC):
        return _ulog(source)
    if start.startswith(MCAP_MAGIC):
        return _mcap(source)
    if start.startswith(ROSBAG_MAGIC):
        return _ros_bag(source)
    if start.startswith((HDF5_MAGIC, NETCDF_MAGIC)):
        return _netcdf(source, "h5netcdf" if start.startswith(HDF5_MAGIC) else "scipy")
    return _csv(source)


@contextlib.contextmanager
def _damaged(path: Path, what: str) -> Iterator[None]:
    """Errors of a reader as FileFormatErrors."""
    try:
        yield
    except FileFormatError:
        raise
    except ImportError as error:
        raise FileFormatError(
            f"reading {what} needs the package {error.name!r}: pip install 'heavytop[log]'."
        ) from None
    except Exception as error:
        raise FileFormatError(f"{str(path)!r} is not a readable {what}: {type(error).__name__}: {error}.") from error


# --- text -----------------------------------------------------------------------------------------------------------------------


def _csv(path: Path) -> Tables:
    """A table of text with one line of column names; Betaflight's decoder writes a header of facts before it."""
    packed = path.suffix.lower() == ".gz"
    with _damaged(path, "table of text"):
        with (gzip.open if packed else open)(path, "rb") as file:
            raw = file.read()
        text = raw.decode("utf-8-sig")
        lines = text.splitlines()
        first = _header_line(lines)
        names = [name.strip() for name in next(csv.reader([lines[first]], skipinitialspace=True))]
        facts = {}
        for line in lines[:first]:
            entries = next(csv.reader([line]), [])
            if len(entries) > 1:
                facts[entries[0].strip()] = ",".join(entries[1:]).strip()
    if len(names) < 2 or all(_is_number(name) for name in names):
        raise FileFormatError(
            f"{str(path)!r} is not a log that can be read: its line {first + 1} does not name columns. Known formats: CSV with column "
            "names, ULog, MCAP, ROS bags."
        )
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise FileFormatError(f"{str(path)!r}, line {first + 1}: two columns have the name {twice!r}.")
    units, plain = {}, []
    for name in names:  # "gyroADC[0] (deg/s)"
        found = re.fullmatch(r"(.*\S)\s*\(([^()]*)\)", name)
        plain.append(found[1] if found else name)
        if found:
            units[found[1]] = found[2]
    values = _numbers(path, "\n".join(lines[first + 1 :]), plain, first + 2)
    kind = "betaflight" if "loopIteration" in plain else "csv"
    return Tables(kind, {"": TopicTable(values, units=units)}, facts)


def _header_line(lines: list[str]) -> int:
    """The line with the names of the columns: Betaflight's begins with loopIteration, otherwise it is the first."""
    for k, line in enumerate(lines[:2000]):
        if line.lstrip('" ').startswith("loopIteration"):
            return k
    return 0


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _numbers(path: Path, text: str, names: list[str], first: int) -> dict[str, np.ndarray]:
    """Columns of numbers; columns with text are left out, empty cells are NaN."""
    import pandas

    exact: dict[str, Any] = {"float_precision": "round_trip"} if int(pandas.__version__.split(".")[0]) < 3 else {}
    options: dict[str, Any] = {
        "header": None,
        "names": names,
        "index_col": False,
        "skipinitialspace": True,
        "low_memory": False,
    }
    try:
        frame = pandas.read_csv(io.StringIO(text), **options, **exact)
    except pandas.errors.EmptyDataError:
        raise FileFormatError(f"{str(path)!r} has no samples after line {first - 1}.") from None
    except (pandas.errors.ParserError, ValueError) as error:
        raise FileFormatError(f"{str(path)!r} is not a readable table of text: {error}.") from None
    if not len(frame):
        raise FileFormatError(f"{str(path)!r} has no samples after line {first - 1}.")
    columns = {str(name): frame[name] for name in frame.columns}
    return {name: c.to_numpy(dtype=float) for name, c in columns.items() if c.dtype.kind in "fiub"}


def _netcdf(path: Path, engine: str) -> Tables:
    """A netCDF file: a topic for each axis along which there are variables, named by the axis if there are several."""
    with _damaged(path, "netCDF file"):
        import xarray

        options: dict[str, Any] = {"decode_times": False, "decode_timedelta": False}
        with xarray.open_dataset(path, engine=engine, **options) as opened:
            data = opened.load()
    columns: dict[str, dict[str, np.ndarray]] = {}
    units: dict[str, dict[str, str]] = {}
    variables: dict[str, TableVariable] = {}
    for key, array in data.variables.items():
        name = str(key)
        if array.dtype.kind not in "fiub" or array.ndim not in (1, 2):
            continue
        topic, *axis = map(str, array.dims)
        labels = tuple(data[axis[0]].values.tolist()) if axis and axis[0] in data.coords else range(array.shape[-1])
        own = tuple(f"{name}[{label}]" for label in labels) if axis else (name,)
        columns.setdefault(topic, {}).update(zip(own, array.values.reshape(len(array), -1).T, strict=True))
        unit = str(array.attrs.get("units", ""))
        units.setdefault(topic, {}).update(dict.fromkeys(own, LONG_UNITS.get(unit.partition(" since ")[0], unit)))
        if name != topic:
            variables[name] = TableVariable(topic, own, axis[0] if axis else "", tuple(labels) if axis else ())
    if not variables:
        raise FileFormatError(f"{str(path)!r} has no signals: variables of numbers along a time, (n,) or (n, m).")
    topics = {t: TopicTable(c, units=units[t], time=t if t in c else "") for t, c in columns.items() if set(c) - {t}}
    if len(topics) == 1:
        topics = {"": next(iter(topics.values()))}
        variables = {name: replace(v, topic="") for name, v in variables.items()}
    return Tables("netcdf", topics, variables=variables)


# --- flight stacks and robots ---------------------------------------------------------------------------------------------------


def _ulog(path: Path) -> Tables:
    with _damaged(path, "ULog file"):
        from pyulog import ULog

        log = ULog(str(path))
        topics = {}
        for data in log.data_list:
            name = data.name if data.multi_id == 0 else f"{data.name}#{data.multi_id}"
            columns = {k: np.asarray(v) for k, v in data.data.items() if np.asarray(v).dtype.kind in "fiub"}
            topics[name] = TopicTable(columns, data.name)
        facts = {str(k): str(v) for k, v in log.msg_info_dict.items()}
    return Tables("ulog", topics, facts)


def _mcap(path: Path) -> Tables:
    with _damaged(path, "MCAP file"):
        own = read_own_mcap(path)
        if own is not None:
            tables = {
                topic: TopicTable(c.columns, c.type, c.units, c.names) for topic, c in own.items()
            }  # fmt: skip
            return Tables(OWN_LIBRARY, tables)
        from mcap.reader import make_reader

        with open(path, "rb") as file:
            reader = make_reader(file, validate_crcs=True)
            gathered = _Gathered()
            decoders: dict[int, Callable[[bytes], Any] | None] = {}
            for schema, channel, message in reader.iter_messages():
                if channel.id not in decoders:
                    decoders[channel.id] = _mcap_decoder(channel.message_encoding, schema)
                decode = decoders[channel.id]
                kind = schema.name if schema is not None else ""
                gathered.add(channel.topic, kind, message.log_time, None if decode is None else decode(message.data))
    return Tables("mcap", gathered.tables())


def _mcap_decoder(encoding: str, schema: Any) -> Callable[[bytes], Any] | None:
    """The decoder of a channel; None if its encoding is not known."""
    if encoding == "json":
        return json.loads
    if encoding == "cdr":
        from mcap_ros2.decoder import DecoderFactory

        return DecoderFactory().decoder_for(encoding, schema)
    if encoding == "protobuf":
        from mcap_protobuf.decoder import DecoderFactory as ProtobufFactory  # pyright: ignore

        return ProtobufFactory().decoder_for(encoding, schema)
    return None


def _ros_bag(path: Path) -> Tables:
    with _damaged(path, "ROS bag"):
        from rosbags.highlevel import AnyReader
        from rosbags.typesys import Stores, get_typestore

        gathered = _Gathered()
        with AnyReader([path], default_typestore=get_typestore(Stores.ROS2_HUMBLE)) as reader:
            for connection, timestamp, data in reader.messages():
                message = reader.deserialize(data, connection.msgtype)
                gathered.add(connection.topic, connection.msgtype, timestamp, message)
    return Tables("rosbag", gathered.tables())


class _Gathered:
    """Messages of topics as columns."""

    def __init__(self) -> None:
        self._topics: dict[str, tuple[str, list[int], list[dict[str, float]]]] = {}

    def add(self, topic: str, kind: str, time: int, message: Any) -> None:
        _, times, rows = self._topics.setdefault(topic, (kind, [], []))
        times.append(time)
        rows.append({} if message is None else dict(_flat(message, "")))

    def tables(self) -> dict[str, TopicTable]:
        """Columns that all messages of a topic have, with the time of recording."""
        made = {}
        for topic, (kind, times, rows) in self._topics.items():
            common = [name for name in rows[0] if all(name in row for row in rows)]
            columns = {LOG_TIME: np.array(times, dtype=np.int64)}
            columns |= {name: np.array([row[name] for row in rows], dtype=float) for name in common}
            made[topic] = TopicTable(columns, kind)
        return made


def _flat(value: Any, name: str) -> Iterator[tuple[str, float]]:
    """The numbers of a message by their paths: ``pose.position.x``, ``covariance[3]``."""
    if isinstance(value, bool | int | float | np.number):
        yield name, float(value)
        return
    if isinstance(value, str | bytes) or value is None:
        return
    if isinstance(value, Mapping):
        members = [(str(k), v) for k, v in value.items()]
    elif dataclasses.is_dataclass(value):
        members = [(f.name, getattr(value, f.name)) for f in dataclasses.fields(value)]
    elif hasattr(value, "DESCRIPTOR"):  # protobuf
        members = [(f.name, getattr(value, f.name)) for f in value.DESCRIPTOR.fields]
    elif hasattr(value, "__slots__"):
        members = [(slot.lstrip("_"), getattr(value, slot)) for slot in value.__slots__]
    else:
        try:
            entries = list(value)
        except TypeError:
            return
        for k, entry in enumerate(entries[:MOST_ENTRIES]):
            yield from _flat(entry, f"{name}[{k}]")
        return
    for member, inner in members:
        yield from _flat(inner, f"{name}.{member}" if name else member)
