"""A report as one JSON document and one block of 32-bit floats, for the scripts of the page.

The document holds the start of each array in the block. The seven digits of 32-bit floats suffice on a screen, and a report of a minute with
twenty bodies takes about a megabyte.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from heavytop.geometry import quaternion_from_rotation
from heavytop.show import palette
from heavytop.show.meshes import Floats
from heavytop.show.scene import Body, Report, Scene, Spin

FRAME_RATE = 60.0
FRAME_BYTES = 1_600_000
CURVE_SAMPLES = 1600
LARGEST = float(np.finfo(np.float32).max)
"""Larger values are drawn there."""


def columns(pose: Floats) -> list[float]:
    """A pose (4, 4) as 16 numbers column by column, as three.js stores matrices."""
    return np.asarray(pose, dtype=float).T.reshape(-1).tolist()


class PackedBlock:
    """Arrays of 32-bit floats, one after the other."""

    def __init__(self) -> None:
        self._parts: list[np.ndarray] = []
        self._size = 0

    def add(self, values: Floats) -> dict[str, int]:
        """Append an array; return its start and size."""
        flat = np.clip(values, -LARGEST, LARGEST).astype("<f4").reshape(-1)
        place = {"start": self._size, "size": flat.size}
        self._parts.append(flat)
        self._size += flat.size
        return place

    def to_bytes(self) -> bytes:
        """All arrays, little-endian."""
        return b"".join(part.tobytes() for part in self._parts)


def frames_of(scene: Scene, rate: float = FRAME_RATE) -> Floats:
    """Times of the frames: at the rate of a display, fewer if the poses would be too large."""
    floats = sum(1 if isinstance(b.motion, Spin) else 7 for b in (*scene.bodies.values(), *scene.ghosts.values()))
    floats += 6 * len(scene.arrows)
    return frame_times(scene.times, rate, FRAME_BYTES // (4 * floats))


def pack_report(report: Report) -> tuple[dict[str, Any], bytes]:
    """The JSON document and the block of floats of a report."""
    block = PackedBlock()
    document = {
        "title": report.title,
        "subtitle": report.subtitle,
        "highlights": [list(pair) for pair in report.highlights],
        "tables": [
            {"title": t.title, "columns": list(t.columns), "rows": [list(r) for r in t.rows]} for t in report.tables
        ],
        "notes": list(report.notes),
        "markers": [{"time": m.time, "label": m.label} for m in report.markers],
        "scene": _scene(report.scene, block),
        "panels": [_panel(report, k, block) for k in range(len(report.panels))],
        "palette": {
            "roles": _roles(report.scene),
            "series": {"light": palette.SERIES_LIGHT, "dark": palette.SERIES_DARK},
            "marks": palette.MARKS,
        },
    }
    return document, block.to_bytes()


def _roles(scene: Scene) -> dict[str, Any]:
    """Colours of all roles and meshes."""
    own = {mesh.role for body in scene.bodies.values() for mesh in body.meshes}
    looks = {role: palette.look(role) for role in (*palette.ROLES, *sorted(own - palette.ROLES.keys()))}
    return {role: {"light": a, "dark": b, "opacity": c} for role, (a, b, c) in looks.items()}


def _scene(scene: Scene, block: PackedBlock) -> dict[str, Any]:
    at = frames_of(scene)
    return {
        "frames": {"first": float(at[0]), "last": float(at[-1]), "count": len(at)},
        "bodies": [_body(scene, name, body, at, block) for name, body in scene.bodies.items()],
        "ghosts": [_body(scene, name, body, at, block) for name, body in scene.ghosts.items()],
        "trails": [{"name": n, "role": t.role, "dashed": t.dashed} for n, t in scene.trails.items()],
        "arrows": [
            {
                "name": name,
                "unit": arrow.unit,
                "scale": arrow.scale,
                "role": arrow.role,
                "data": block.add(interpolate(scene.times, np.concatenate([arrow.origin, arrow.vector], axis=-1), at)),
            }
            for name, arrow in scene.arrows.items()
        ],
        "follow": scene.follow,
        "ground": scene.ground,
        "axes": list(scene.axes),
    }


def _body(scene: Scene, name: str, body: Body, at: Floats, block: PackedBlock) -> dict[str, Any]:
    if isinstance(body.motion, Spin):
        spin = body.motion
        return {
            "name": name,
            "parent": spin.parent,
            "mount": columns(spin.mount),
            "data": block.add(interpolate(scene.times, spin.angle - spin.angle[0], at)),
            "first": float(spin.angle[0] % (2 * np.pi)),
        }
    return {
        "name": name,
        "radius": float(f"{body.radius:.4g}"),
        "data": block.add(pose_frames(scene.times, body.motion, at)),
    }


def _panel(report: Report, k: int, block: PackedBlock) -> dict[str, Any]:
    panel = report.panels[k]
    names = list(panel.series)
    wanted = [name for name in names if name in panel.references]
    banded = [name for name in names if name in panel.bands]
    edges = [values for name in banded for values in panel.bands[name]]
    curves = np.stack([*panel.series.values(), *(panel.references[name] for name in wanted), *edges])
    times, curves = thin_curves(report.panel_times(panel), curves, CURVE_SAMPLES)
    first = len(names) + len(wanted)
    return {
        "title": panel.title,
        "unit": panel.unit,
        "limits": None if panel.limits is None else [float(x) for x in panel.limits],
        "times": block.add(times),
        "series": [{"name": name, "data": block.add(values)} for name, values in zip(names, curves, strict=False)],
        "references": [
            {"name": name, "data": block.add(values)}
            for name, values in zip(wanted, curves[len(names) :], strict=False)
        ],
        "bands": [
            {"name": name, "low": block.add(low), "high": block.add(high)}
            for name, low, high in zip(banded, curves[first::2], curves[first + 1 :: 2], strict=True)
        ],
        "bandLabel": panel.band_label,
        "bars": panel.is_bars,
    }


# --- resampling for the screen -----------------------------------------------------------------------------------------------


def frame_times(times: Floats, rate: float, most: int) -> Floats:
    """Equidistant times from first to last: at most ``rate`` per second, no denser than the data, at most ``most``.

    >>> len(frame_times(np.linspace(0, 2, 2001), rate=60, most=10_000))
    121
    """
    duration = float(times[-1] - times[0])
    densest = 1.0 / float(np.min(np.diff(times)))
    # the tolerance prevents an additional frame by rounding
    count = int(np.ceil(duration * min(rate, densest) - 1e-6)) + 1
    return np.linspace(times[0], times[-1], int(np.clip(count, 2, max(most, 2))))


def interpolate(times: Floats, values: Floats, at: Floats) -> Floats:
    """Values (T, ...) at other times, linearly between neighbours."""
    k, s = _bracket(times, at)
    s = s.reshape((-1,) + (1,) * (values.ndim - 1))
    return (1 - s) * values[k] + s * values[k + 1]


def pose_frames(times: Floats, poses: Floats, at: Floats) -> Floats:
    """Quaternion and position (N, 7) of poses (T, 4, 4) at other times: ``w, x, y, z`` (continuous in sign), then metres.

    Attitudes follow the shortest arc between neighbours, ``q0 sin((1-s) w) / sin w + q1 sin(s w) / sin w``.
    """
    q = quaternion_from_rotation(poses[:, :3, :3])
    flips = np.where(np.sum(q[1:] * q[:-1], axis=-1) < 0, -1.0, 1.0)
    q = q * np.concatenate([[1.0], np.cumprod(flips)])[:, None]
    k, s = _bracket(times, at)
    angle = np.arccos(np.clip(np.sum(q[k] * q[k + 1], axis=-1), -1.0, 1.0))
    small = angle < 1e-6
    sine = np.where(small, 1.0, np.sin(angle))
    first = np.where(small, 1 - s, np.sin((1 - s) * angle) / sine)
    second = np.where(small, s, np.sin(s * angle) / sine)
    quaternion = first[:, None] * q[k] + second[:, None] * q[k + 1]
    quaternion /= np.linalg.norm(quaternion, axis=-1, keepdims=True)
    return np.concatenate([quaternion, interpolate(times, poses[:, :3, 3], at)], axis=-1)


def _bracket(times: Floats, at: Floats) -> tuple[np.ndarray, Floats]:
    """Index of the sample before each time and the fraction of the way to the next one."""
    k = np.clip(np.searchsorted(times, at, side="right") - 1, 0, len(times) - 2)
    return k, np.clip((at - times[k]) / (times[k + 1] - times[k]), 0.0, 1.0)


def thin_curves(times: Floats, curves: Floats, most: int) -> tuple[Floats, Floats]:
    """Fewer samples of curves (n, T) that keep the least and the greatest value of every interval.

    Curves with at most ``most`` samples are unchanged. Otherwise every interval becomes two samples, its extremes in their order, so that a
    spike of a single sample remains visible.

    >>> spike = np.zeros((1, 10_000)); spike[0, 4321] = 1.0
    >>> t, y = thin_curves(np.arange(10_000.0), spike, most=100)
    >>> len(t) <= 100, float(y.max())
    (True, 1.0)
    """
    count = curves.shape[-1]
    if count <= most:
        return times, curves
    # the first and the last sample stay; each interval between them has at least two samples, so its two times differ
    edges = np.linspace(1, count - 1, most // 2).astype(int)
    kept_times, kept = [times[0]], [curves[:, 0]]
    for start, stop in pairwise(edges):
        part = curves[:, start:stop]
        rows = np.arange(len(part))
        low, high = np.argmin(part, axis=-1), np.argmax(part, axis=-1)
        kept.append(part[rows, np.minimum(low, high)])
        kept.append(part[rows, np.maximum(low, high)])
        first = start + (stop - start) // 4
        kept_times.extend(times[[first, max(first + 1, start + 3 * (stop - start) // 4)]])
    return np.array([*kept_times, times[-1]]), np.stack([*kept, curves[:, -1]], axis=-1)
