"""Contents of a report as plain data: moving bodies, paths, arrows, curves, tables.

A :class:`Report` is independent of models and control: poses (T, 4, 4) over times (T,), meshes in body frames, curves over time.
:func:`heavytop.show.page.write_page` turns it into a page. All arrays are copied, checked and read-only; lengths are in m, times in s, the
world's z axis points up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytop.errors import ModelError, unknown_name, wrong_shape
from heavytop.functions import Portable
from heavytop.show.meshes import Floats, Surface, frozen_array
from heavytop.show.palette import ROLES

if TYPE_CHECKING:
    from heavytop.show.live_page import LiveCode


def _set(instance: object, **values: object) -> None:
    for name, value in values.items():
        object.__setattr__(instance, name, value)


def _check_role(role: str) -> None:
    if role not in ROLES:
        raise unknown_name("role", role, ROLES)


@dataclass(frozen=True, eq=False)
class Spin:
    """The motion of a part that turns about the z axis of a frame fixed in another body.

    Propellers turn several times between two frames of the page; with an angle instead of poses they turn in the right sense at any speed of
    replay, and become a blurred disc when they are too fast for the eye.

    Parameters
    ----------
    parent : name of the body that carries the part.
    mount : (4, 4) pose of the frame of rotation in the frame of the parent.
    angle : (T,) angle about z in rad, not wrapped.

    Examples
    --------
    >>> Spin("hull", np.eye(4), np.linspace(0, 6, 5)).parent
    'hull'
    """

    parent: str
    mount: Floats
    angle: Floats

    def __post_init__(self) -> None:
        _set(self, mount=frozen_array(self.mount, f"mount on {self.parent!r}", (4, 4)))
        _set(self, angle=frozen_array(self.angle, f"angle of a part of {self.parent!r}", ("T",)))


@dataclass(frozen=True, eq=False)
class Body:
    """A rigid body: its look and its motion.

    Parameters
    ----------
    meshes : surfaces in the body frame.
    motion : (T, 4, 4) poses of the body frame in the world, or the :class:`Spin` of a part that turns on another body.

    Examples
    --------
    >>> from heavytop.show.meshes import cylinder
    >>> Body([cylinder(0.1, 0.5)], np.tile(np.eye(4), (5, 1, 1))).motion.shape
    (5, 4, 4)
    """

    meshes: Sequence[Surface]
    motion: Floats | Spin

    def __post_init__(self) -> None:
        _set(self, meshes=tuple(self.meshes))
        if not isinstance(self.motion, Spin):
            _set(self, motion=frozen_array(self.motion, "poses of a body", ("T", 4, 4)))

    @property
    def length(self) -> int:
        """Number of times."""
        return len(self.motion.angle if isinstance(self.motion, Spin) else self.motion)

    @property
    def radius(self) -> float:
        """Largest distance of a vertex from the origin of the body frame."""
        return max((mesh.radius for mesh in self.meshes), default=0.0)


@dataclass(frozen=True, eq=False)
class Trail:
    """A path (T, 3) in the world. Dashed ones (references) are shown completely, solid ones up to the present time.

    >>> Trail(np.zeros((5, 3)), dashed=True).role
    'path'
    """

    points: Floats
    role: str = "path"
    dashed: bool = False

    def __post_init__(self) -> None:
        _check_role(self.role)
        _set(self, points=frozen_array(self.points, "points of a trail", ("T", 3)))


@dataclass(frozen=True, eq=False)
class Arrow:
    """A vector over time, drawn from ``origin`` (T, 3) with ``scale`` metres per ``unit``.

    >>> thrust = Arrow(np.zeros((5, 3)), np.tile([0.0, 0.0, 9.81], (5, 1)), scale=0.05, unit="N")
    >>> thrust.vector.shape
    (5, 3)
    """

    origin: Floats
    vector: Floats
    scale: float = 1.0
    unit: str = "N"
    role: str = "force"

    def __post_init__(self) -> None:
        _check_role(self.role)
        _set(self, origin=frozen_array(self.origin, "origin of an arrow", ("T", 3)))
        _set(self, vector=frozen_array(self.vector, "vector of an arrow", (len(self.origin), 3)))


@dataclass(frozen=True, eq=False)
class Scene(Portable):
    """Bodies in motion.

    Parameters
    ----------
    times : (T,) increasing, in s; need not be equidistant.
    bodies : name -> body. The parent of a body with a :class:`Spin` is another one.
    ghosts : name -> body at its reference; drawn translucent.
    trails, arrows : name -> trail or arrow.
    ground : height of the ground with its grid and shadows; None for free space.
    follow : name of the body that the camera follows; by default the first one.
    axes : names of the two horizontal axes.

    >>> from heavytop.show.meshes import box
    >>> still = np.tile(np.eye(4), (3, 1, 1))
    >>> Scene(times=[0, 1, 2], bodies={"hull": Body([box((1, 1, 1))], still)}).follow
    'hull'
    """

    times: Floats
    bodies: Mapping[str, Body]
    ghosts: Mapping[str, Body] = field(default_factory=dict)
    trails: Mapping[str, Trail] = field(default_factory=dict)
    arrows: Mapping[str, Arrow] = field(default_factory=dict)
    ground: float | None = 0.0
    follow: str | None = None
    axes: tuple[str, str] = ("x", "y")

    def __post_init__(self) -> None:
        times = increasing_times(self.times, "times of a scene")
        _set(self, times=times)
        for name in ("bodies", "ghosts", "trails", "arrows"):
            _set(self, **{name: MappingProxyType(dict(getattr(self, name)))})
        if not self.bodies:
            raise ModelError("a scene needs at least one body, got none.")
        for kind, group in (("body", self.bodies), ("ghost", self.ghosts)):
            for name, body in group.items():
                self._check_length(f"motion of {kind} {name!r}", body.length)
                self._check_parent(group, name, body)
        for name, trail in self.trails.items():
            self._check_length(f"trail {name!r}", len(trail.points))
        for name, arrow in self.arrows.items():
            self._check_length(f"arrow {name!r}", len(arrow.origin))
        if self.follow is None:
            _set(self, follow=next(n for n, b in self.bodies.items() if not isinstance(b.motion, Spin)))
        elif self.follow not in self.bodies:
            raise unknown_name("body", self.follow, self.bodies)

    def _check_length(self, what: str, length: int) -> None:
        if length != len(self.times):
            raise wrong_shape(what, (len(self.times), "..."), (length,), "One entry per time of the scene is needed.")

    @staticmethod
    def _check_parent(group: Mapping[str, Body], name: str, body: Body) -> None:
        if not isinstance(body.motion, Spin):
            return
        parent = body.motion.parent
        if parent not in group:
            raise unknown_name("body", parent, [n for n in group if n != name])
        if isinstance(group[parent].motion, Spin):
            raise ModelError(f"{name!r} spins on {parent!r}, which spins itself; give {parent!r} poses (T, 4, 4).")


def increasing_times(value: object, what: str) -> Floats:
    """Times (T,), T >= 2, finite and strictly increasing."""
    times = frozen_array(value, what, ("T",))
    if len(times) < 2:
        raise wrong_shape(what, ("T >= 2",), times.shape)
    if np.any(np.diff(times) <= 0):
        k = int(np.argmax(np.diff(times) <= 0))
        raise ModelError(f"{what} must increase, but times {k} and {k + 1} are {times[k]:g} s and {times[k + 1]:g} s.")
    return times


@dataclass(frozen=True)
class Marker:
    """A time marked by a line in every plot and a tick on the time slider.

    >>> Marker(1.5, "gust").label
    'gust'
    """

    time: float
    label: str


@dataclass(frozen=True, eq=False)
class Panel(Portable):
    """Curves over time in one plot.

    Parameters
    ----------
    title, unit : heading, and unit of every curve.
    series : name -> values (T,).
    references : name -> reference (T,) of the curve of that name; drawn dashed.
    limits : bounds of the curves; drawn as hatched bands.
    times : (T,) of the curves if they differ from those of the scene.
    bands : name -> least and greatest values (T,) of other trajectories of that curve; ``band_label`` describes them.

    Examples
    --------
    >>> Panel("Height", "m", {"z": np.zeros(5)}).unit
    'm'
    """

    title: str
    unit: str
    series: Mapping[str, Floats]
    references: Mapping[str, Floats] = field(default_factory=dict)
    limits: tuple[float, float] | None = None
    times: Floats | None = None
    bands: Mapping[str, tuple[Floats, Floats]] = field(default_factory=dict)
    band_label: str = ""
    is_bars: bool = False

    def __post_init__(self) -> None:
        if not self.series:
            raise ModelError(f"panel {self.title!r} needs at least one curve, got none.")
        curves = {n: frozen_array(y, f"curve {n!r} of panel {self.title!r}", ("T",)) for n, y in self.series.items()}
        for name in (*self.references, *self.bands):
            if name not in curves:
                raise unknown_name(f"curve of panel {self.title!r}", name, curves)
        wanted = {
            n: frozen_array(y, f"reference of {n!r} in {self.title!r}", ("T",)) for n, y in self.references.items()
        }
        bands = {
            n: tuple(frozen_array(y, f"band of {n!r} in {self.title!r}", ("T",)) for y in pair)
            for n, pair in self.bands.items()
        }
        _set(self, series=MappingProxyType(curves), references=MappingProxyType(wanted), bands=MappingProxyType(bands))
        if self.times is not None:
            _set(self, times=increasing_times(self.times, f"times of panel {self.title!r}"))
        if self.limits is not None and not self.limits[0] < self.limits[1]:
            raise ModelError(f"limits of panel {self.title!r} must be (low, high), got {tuple(self.limits)}.")


@dataclass(frozen=True)
class Table:
    """Rows of text; the first column is a heading, numbers are formatted with their units.

    >>> Table("Flight", [["duration", "6 s"]]).title
    'Flight'
    """

    title: str
    rows: Sequence[Sequence[str]]
    columns: Sequence[str] = ()

    def __post_init__(self) -> None:
        rows = tuple(tuple(str(cell) for cell in row) for row in self.rows)
        _set(self, rows=rows, columns=tuple(self.columns))
        widths = {len(row) for row in rows} | ({len(self.columns)} if self.columns else set())
        if len(widths) > 1:
            raise ModelError(f"rows of table {self.title!r} must have the same number of cells, got {sorted(widths)}.")


@dataclass(frozen=True, eq=False)
class Report(Portable):
    """The contents of a page.

    Parameters
    ----------
    title, subtitle, scene, panels, tables, markers : its parts.
    highlights : pairs of label and value, shown large.
    notes : paragraphs of plain text.
    sliders : joints of a page without motion. live : equations of motion of a page that simulates.
    choice : name of the trajectory. others : reports of other ones that a reader may choose.

    Examples
    --------
    >>> hull = Body([], np.tile(np.eye(4), (2, 1, 1)))
    >>> report = Report("Flight", "hover", Scene(np.array([0.0, 1.0]), {"hull": hull}))
    >>> report.title
    'Flight'
    """

    title: str
    subtitle: str
    scene: Scene
    panels: Sequence[Panel] = ()
    highlights: Sequence[tuple[str, str]] = ()
    tables: Sequence[Table] = ()
    notes: Sequence[str] = ()
    markers: Sequence[Marker] = ()
    sliders: Mapping[str, Any] | None = None
    live: LiveCode | None = None
    choice: str = ""
    others: Sequence[Report] = ()

    def __post_init__(self) -> None:
        for name in ("panels", "highlights", "tables", "notes", "markers"):
            _set(self, **{name: tuple(getattr(self, name))})
        for panel in self.panels:
            length = len(self.panel_times(panel))
            edges = [(name, values) for name, pair in panel.bands.items() for values in pair]
            for name, values in (*panel.series.items(), *panel.references.items(), *edges):
                if len(values) != length:
                    hint = "One entry per time is needed; give the panel its own times if they differ from the scene's."
                    raise wrong_shape(f"curve {name!r} of panel {panel.title!r}", (length,), values.shape, hint)

    def panel_times(self, panel: Panel) -> Floats:
        """The times of a panel: its own, or else those of the scene."""
        return self.scene.times if panel.times is None else panel.times
