"""Runs as MCAP files: transforms and poses with Foxglove schemas, coordinates, velocities, inputs, energies and channels to plot."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytop._files import check_ending, whole_file
from heavytop._version import __version__
from heavytop.compile import Kernel, trace
from heavytop.errors import FileFormatError
from heavytop.functions import store
from heavytop.geometry import quaternion_from_rotation
from heavytop.log.mcap_format import OWN_LIBRARY, Topic, write_messages
from heavytop.system import WORLD, Model
from heavytop.system.joints import Free

if TYPE_CHECKING:
    from heavytop.simulate import Run

OWN_TYPE = "heavytop_msgs/msg/"
"""Types of messages with one number for each coordinate, velocity, ..."""
_LINE = "=" * 80
_TIME = f"{_LINE}\nMSG: builtin_interfaces/Time\nint32 sec\nuint32 nanosec\n"
_VECTOR = f"{_LINE}\nMSG: geometry_msgs/Vector3\nfloat64 x\nfloat64 y\nfloat64 z\n"
_POINT = _VECTOR.replace("Vector3", "Point")
_QUATERNION = f"{_LINE}\nMSG: geometry_msgs/Quaternion\nfloat64 x\nfloat64 y\nfloat64 z\nfloat64 w\n"
_TRANSFORM = (
    "builtin_interfaces/Time timestamp\nstring parent_frame_id\nstring child_frame_id\ngeometry_msgs/Vector3 translation\n"
    "geometry_msgs/Quaternion rotation\n"
)
TRANSFORMS = f"foxglove_msgs/FrameTransform[] transforms\n{_LINE}\nMSG: foxglove_msgs/FrameTransform\n{_TRANSFORM}{_TIME}{_VECTOR}{_QUATERNION}"
POSE = (
    f"builtin_interfaces/Time timestamp\nstring frame_id\ngeometry_msgs/Pose pose\n{_LINE}\nMSG: geometry_msgs/Pose\n"
    f"geometry_msgs/Point position\ngeometry_msgs/Quaternion orientation\n{_TIME}{_POINT}{_QUATERNION}"
)
_STAMP = (("sec", "int32"), ("nanosec", "uint32"))


def save_mcap(run: Run, path: str | Path) -> None:
    """Write a run of one trajectory as an MCAP file, which Foxglove and PlotJuggler open; :func:`load_log` reads it back exactly.

    Topics: ``/tf`` with the pose of every body in the world (``foxglove_msgs/msg/FrameTransforms``), ``/pose/NAME`` of free bodies
    (``foxglove_msgs/msg/PoseInFrame``), and ``/q``, ``/v``, ``/u``, ``/energy``, ``/channel/NAME`` with named numbers. Times are those of the run,
    from the epoch.

    Parameters
    ----------
    run : run of one trajectory; poses need its model, which a run that was loaded from a file does not have.
    path : ends with ``.mcap``.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import heavytop as ht
    >>> run = ht.simulate(ht.library.pendulum().derive(), ([1.0], [0.0]), until=0.1, step=0.01)
    >>> with TemporaryDirectory() as folder:
    ...     run.save(f"{folder}/run.mcap")
    ...     data = ht.load_log(f"{folder}/run.mcap")
    ...
    >>> bool((data.q.values == run.q).all()), data.q.coordinate.values.tolist()
    (True, ['theta.angle'])
    """
    check_ending(path, (".mcap",), "an MCAP file")
    if run.batch:
        raise FileFormatError(
            f"an MCAP file holds one trajectory, but the run has the batch axes {run.batch}. Simulate one of them, or save all as netCDF."
        )
    if not len(run):
        raise FileFormatError("the run has no records to write.")
    times = np.round((run.t - min(float(run.t[0]), 0.0)) * 1e9).astype(np.int64)
    if not (np.diff(times) > 0).all():
        raise FileFormatError("records closer than 1 ns cannot be written as MCAP; record less with record_every.")
    stamp = times // 10**9, times % 10**9
    topics = [*_pose_topics(run, stamp)]
    for name, names, units, values in _groups(run):
        topics.append(_plotted(name, names, units, values, run.t, stamp))
    with whole_file(path, "run.mcap") as temporary, open(temporary, "wb") as file:
        write_messages(file, topics, times, f"{OWN_LIBRARY} {__version__}")


def _groups(run: Run) -> list[tuple[str, Sequence[str], Sequence[str], np.ndarray]]:
    """Topic, names, units and numbers (n, m) of everything that is plotted."""
    found: list[tuple[str, Sequence[str], Sequence[str], np.ndarray]] = [
        (f"/{part}", getattr(run, f"{part}_names"), getattr(run, f"{part}_units"), getattr(run, part))
        for part in "qvu"
        if getattr(run, f"{part}_names")
    ]
    if run.has_energy:
        energies = np.stack([run.kinetic_energy, run.potential_energy], axis=-1)
        found.append(("/energy", ("kinetic", "potential"), ("J", "J"), energies))
    if run.work is not None:
        names = ("input", "dissipated", "driver")[: run.work.shape[-1]]
        found.append(("/work", names, ("J",) * len(names), run.work))
    for label, values in run.channels.items():
        flat = values.reshape(len(values), -1)
        if flat.shape[1]:
            names = ("value",) if values.ndim == 1 else tuple(f"{k}" for k in range(flat.shape[1]))
            found.append((f"/channel/{label}", names, ("",) * len(names), flat))
    return found


def _plotted(
    topic: str,
    names: Sequence[str],
    units: Sequence[str],
    values: np.ndarray,
    t: np.ndarray,
    stamp: tuple[np.ndarray, np.ndarray],
) -> Topic:
    """One message per record with a number for each name."""
    fields = ros_names(names)
    definition = "".join(["builtin_interfaces/Time stamp\n", "float64 t\n", *(f"float64 {f}\n" for f in fields), _TIME])
    values = np.ascontiguousarray(values, dtype=float)

    def fill(target: np.ndarray, rows: slice) -> None:
        target["sec"], target["nanosec"] = stamp[0][rows], stamp[1][rows]
        target["t"], target["values"] = t[rows], values[rows]

    kind = re.sub(r"[^A-Za-z0-9]", "", topic.title()) or "Values"
    metadata = {
        "names": json.dumps(dict(zip(fields, names, strict=True))),
        "units": json.dumps(dict(zip(fields, units, strict=True))),
    }
    parts = (*_STAMP, ("t", "float64"), ("values", (len(names),)))
    return Topic(topic, OWN_TYPE + kind, definition, parts, fill, metadata)


def ros_names(names: Sequence[str]) -> list[str]:
    """Names of fields of ROS messages: lower case, digits and single underscores, each once.

    >>> ros_names(["hull.R_xx", "hull.r_xx", "3", "t"])
    ['hull_r_xx', 'hull_r_xx_2', 'n3', 't_2']
    """
    made: list[str] = []
    for name in names:
        text = re.sub(r"_+", "_", re.sub(r"[^a-z0-9_]", "_", name.lower())).strip("_") or "value"
        text = f"n{text}" if text[0].isdigit() else text
        unique, k = text, 1
        while unique in (*made, "t", "stamp"):
            k += 1
            unique = f"{text}_{k}"
        made.append(unique)
    return made


def _pose_topics(run: Run, stamp: tuple[np.ndarray, np.ndarray]) -> list[Topic]:
    """The poses of bodies, if the model is known."""
    model: Any = run.model
    if not isinstance(model, Model) or model.nq != run.q.shape[-1]:
        return []
    graph = model.description.graph
    bodies = [name for name in graph.frames if name != WORLD]
    place = {name: k for k, name in enumerate(graph.frames)}
    quaternions = store.get(
        ("kernel", "quaternion_from_rotation"),
        lambda: Kernel(trace(quaternion_from_rotation, {"R": (3, 3)}, name="quaternion")),
    )
    latest: dict[int, Any] = {}

    def poses(rows: slice) -> tuple[np.ndarray, np.ndarray]:
        """Positions (n, bodies, 3) and quaternions (n, bodies, 4), scalar last."""
        if rows.start not in latest:
            latest.clear()
            p = run.parameters_at_records
            found = model.compiled("poses")(run.q[rows], p[rows] if p.ndim > 1 else p)
            G = np.stack([np.broadcast_to(found[place[b]], (rows.stop - rows.start, 4, 4)) for b in bodies], axis=1)
            wxyz = quaternions(np.ascontiguousarray(G[..., :3, :3]))[0]
            latest[rows.start] = G[..., :3, 3], np.roll(wxyz, -1, axis=-1)
        return latest[rows.start]

    parts: list[tuple[str, Any]] = [("count", "uint32")]
    for k, body in enumerate(bodies):
        parts += [(f"sec{k}", "int32"), (f"nanosec{k}", "uint32"), ("", WORLD.encode()), ("", body.encode())]
        parts += [(f"translation{k}", (3,)), (f"rotation{k}", (4,))]

    def fill_all(target: np.ndarray, rows: slice) -> None:
        positions, rotations = poses(rows)
        target["count"] = len(bodies)
        for k in range(len(bodies)):
            target[f"sec{k}"], target[f"nanosec{k}"] = stamp[0][rows], stamp[1][rows]
            target[f"translation{k}"], target[f"rotation{k}"] = positions[:, k], rotations[:, k]

    topics = [Topic("/tf", "foxglove_msgs/msg/FrameTransforms", TRANSFORMS, parts, fill_all)] if bodies else []
    for edge in graph.edges:
        if isinstance(edge.joint, Free) and edge.a == WORLD and edge.b in bodies:
            k = bodies.index(edge.b)

            def fill(target: np.ndarray, rows: slice, k: int = k) -> None:
                positions, rotations = poses(rows)
                target["sec"], target["nanosec"] = stamp[0][rows], stamp[1][rows]
                target["position"], target["orientation"] = positions[:, k], rotations[:, k]

            shape = (*_STAMP, ("", WORLD.encode()), ("position", (3,)), ("orientation", (4,)))
            topics.append(Topic(f"/pose/{edge.b}", "foxglove_msgs/msg/PoseInFrame", POSE, shape, fill))
    return topics
