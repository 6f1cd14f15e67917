"""A run of any model as a report: moving bodies, coordinates, velocities, inputs, energies, drift, numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytop.coordinates import Circle
from heavytop.errors import SimulationError
from heavytop.geometry import so3
from heavytop.show.linkage import Linkage
from heavytop.show.meshes import Floats
from heavytop.show.scene import Marker, Panel, Report, Table
from heavytop.simulate import ContactRecord
from heavytop.system import TIME, InnerJoint

if TYPE_CHECKING:
    from heavytop.simulate import Run
    from heavytop.system import Model

MOST_POSES = 6000
"""Records with poses; longer runs are thinned evenly."""
MOST_CURVES = 8
"""Curves in one panel: the number of colours."""
MOST_MARKERS = 12
MOST_ROWS = 24
SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
Curve = tuple[str, str, Floats, Floats | None]
"""Name, unit and values (n,) of the displayed trajectory, and those of all (n, *batch)."""
CHOICES = 6
"""Trajectories of a batch among which a reader of its page chooses."""
HIDDEN = 10.0
"""Ratio of ranges beyond which the smaller curve is a line at zero in the axis of the larger one."""
SPINNING = {"rad": 2 * np.pi, "rad/s": 6.0}
"""Ranges of angles and angular velocities below which curves share an axis."""
UNITS = {"m": "Positions", "rad": "Angles", "m/s": "Velocities", "rad/s": "Angular velocities"}


def report_of(run: Run, index: int | Sequence[int] = 0, model: Model | None = None) -> Report:
    """The report of a run for :func:`heavytop.show.write_page`.

    Bodies are drawn as the homogeneous solids that have their inertia, joints as pins and tubes between them.

    Parameters
    ----------
    run : a run of a model, with any number of trajectories.
    index : trajectory of a batch: its number, or one number per batch axis.
    model : the model, for a run read from a file.

    Examples
    --------
    >>> import heavytop as ht
    >>> system = ht.System(name="pendulum")
    >>> system.body("rod", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=(0, 0, -1)))
    >>> run = ht.simulate(system.derive(), ([1.0], [0.0]), until=2.0, step=0.01)
    >>> [panel.title for panel in report_of(run).panels]
    ['Angles', 'Angular velocities', 'Energies', 'Drift of energy']
    """
    view = _Trajectory(run, model_of(run, model), _index(run, index))
    return Report(
        title=run.name[:1].upper() + run.name[1:].replace("-", " "),
        subtitle=view.subtitle(),
        scene=view.linkage.scene(),
        panels=tuple(view.panels()),
        highlights=tuple(view.highlights()),
        tables=tuple(view.tables()),
        notes=tuple(view.linkage.notes()),
        markers=tuple(view.markers()),
    )


def report_with_choice(run: Run, index: int | Sequence[int] = 0) -> Report:
    """The report of a trajectory and, of a batch, those of some others, spread evenly, for the reader to choose."""
    count = int(np.prod(run.batch))
    if count < 2:
        return report_of(run, index)
    own = int(np.ravel_multi_index(_index(run, index), run.batch))
    spread = np.unique(np.linspace(0, count - 1, min(count, CHOICES)).round().astype(int))
    others = [int(k) for k in spread if k != own][: CHOICES - 1]
    return replace(
        report_of(run, own),
        choice=_choice(run, own),
        others=[replace(report_of(run, k), choice=_choice(run, k)) for k in others],
    )


def _choice(run: Run, number: int) -> str:
    place = tuple(int(k) for k in np.unravel_index(number, run.batch))
    return f"{place[0] if len(place) == 1 else place} of {' x '.join(f'{n:,}' for n in run.batch)}"


def model_of(run: Run, given: Model | None) -> Model:
    subject: Any = run.model if given is None else given
    model = getattr(subject, "model", subject)  # a vehicle, or dynamics of a model
    if model is None:
        raise SimulationError(
            f"run {run.name!r} has no model, so there are no bodies to show: runs read from a file hold only numbers. Use "
            "show.write_page(show.report_of(run, model=model), path), or run.plot(path) for figures."
        )
    if not (hasattr(model, "pose") and hasattr(model, "description")):
        raise SimulationError(
            f"run {run.name!r} was made from {type(subject).__name__}, which has equations of motion but no bodies to show. Describe "
            "the system with ht.System to see it move, or use run.plot(path) for figures."
        )
    return model


def _index(run: Run, index: int | Sequence[int]) -> tuple[int, ...]:
    batch = run.batch
    if isinstance(index, int | np.integer):
        count = int(np.prod(batch))
        if not 0 <= index < count:
            raise SimulationError(
                f"run {run.name!r} has trajectories 0 to {count - 1}, got index {index}."
                if count > 1
                else f"run {run.name!r} is a single trajectory, got index {index}."
            )
        return tuple(int(k) for k in np.unravel_index(index, batch)) if batch else ()
    chosen = tuple(int(k) for k in index)
    if len(chosen) != len(batch) or any(not 0 <= k < n for k, n in zip(chosen, batch, strict=True)):
        raise SimulationError(
            f"index of a trajectory of run {run.name!r} must lie within the batch {batch}, got {chosen}."
        )
    return chosen


class _Trajectory:
    """One trajectory of a run, up to its end."""

    def __init__(self, run: Run, model: Model, index: tuple[int, ...]) -> None:
        self.run, self.model, self.index = run, model, index
        q, v, u = (array[(slice(None), *index)] for array in (run.q, run.v, run.u))
        good = np.isfinite(np.concatenate([q, v], axis=-1)).all(axis=-1)
        self.count = len(q) if np.all(good) else int(np.argmin(good))
        if self.count < 2:
            raise SimulationError(
                f"a page needs at least two records of the motion, run {run.name!r} has {self.count}. Simulate longer, or with "
                "a smaller record_every."
            )
        self.t, self.q, self.v = run.t[: self.count], q[: self.count], v[: self.count]
        self.u = np.nan_to_num(u[: self.count])
        self.parameters = {name: float(np.broadcast_to(p, run.batch)[index]) for name, p in run.parameters.items()}
        thin = slice(None, None, ceil(self.count / MOST_POSES))
        self.contacts = {name: c for name, c in run.contacts.items() if isinstance(c, ContactRecord)}
        forces = {name: (self.pick(c.point)[thin], self.pick(c.force)[thin]) for name, c in self.contacts.items()}
        self.linkage = Linkage(model, self.t[thin], self.q[thin], self.u[thin], self.parameters, forces=forces)

    def pick(self, values: Floats) -> Floats:
        """This trajectory (n,) of an array (n, *batch)."""
        return values[(slice(self.count), *self.index)]

    def subtitle(self) -> str:
        run, s = self.run, self.run.settings
        shown = str(self.index[0]) if len(self.index) == 1 else str(self.index)
        which = f", trajectory {shown} of {' x '.join(f'{n:,}' for n in run.batch)}" if self.index else ""
        return f"{run.integrator}, step {s.step:.4g} s, {self.t[-1] - self.t[0]:.4g} s of motion{which}"

    # --- curves -------------------------------------------------------------------------------------------------------------

    def panels(self) -> Iterator[Panel]:
        """Coordinates, velocities and inputs by unit, attitudes, energies, drift."""
        run = self.run
        yield from self._grouped(self._coordinates(), "Coordinates")
        yield from self._attitudes()
        yield from self._grouped(
            [
                (coordinate_label(n, run.v_names, self.model.coordinates.names), unit, self.v[:, k], run.v[..., k])
                for k, (n, unit) in enumerate(zip(run.v_names, run.v_units, strict=True))
            ],
            "Velocities",
        )
        if np.any(self.u):
            yield from self._grouped(
                [
                    (n, unit, self.u[:, k], run.u[..., k])
                    for k, (n, unit) in enumerate(zip(run.u_names, run.u_units, strict=True))
                ],
                "Inputs",
                False,
            )
        for title, unit, of in (
            ("Contact forces", "N", lambda c: np.linalg.norm(c.force, axis=-1)),
            ("Use of the friction cone", "", lambda c: c.use),
        ):
            curves = {name: self.pick(of(c)) for name, c in list(self.contacts.items())[:MOST_CURVES]}
            if any(np.any(values) for values in curves.values()):
                yield Panel(title, unit, curves, times=self.t)
        closed = {name: self.pick(c.closed.astype(float)) for name, c in list(self.contacts.items())[:MOST_CURVES]}
        if any(np.any(values) for values in closed.values()):
            yield Panel("Closed contacts", "", closed, times=self.t, is_bars=True)
        if run.has_energy:
            kinetic, potential = self.pick(run.kinetic_energy), self.pick(run.potential_energy)
            curves = {"kinetic": kinetic, "potential": potential, "total": kinetic + potential}
            yield Panel("Energies", "J", curves, times=self.t)
        if "energy" in run.invariants:
            balance, size = self.pick(run.invariants["energy"].values), run.invariants["energy"].reference or 1.0
            drift = (balance - balance[0]) / size
            power = int(np.floor(np.log10(np.max(np.abs(drift))))) if np.any(drift) else 0
            unit = f"relative, in 10{str(power).translate(SUPERSCRIPT)}" if power else "relative"
            yield Panel("Drift of energy", unit, {"drift": drift / 10.0**power}, times=self.t)

    def _coordinates(self) -> list[Curve]:
        """Each coordinate that is a length or an angle; points of circles as angles."""
        run, curves = self.run, []
        for edge in self.model.description.joints:
            where = self.model.coordinates.q_slice(edge.label)
            if isinstance(edge.joint, InnerJoint):
                continue
            if isinstance(edge.joint.coordinates, Circle):
                c, s = self.q[:, where].T
                curves.append((edge.label, "rad", np.unwrap(np.arctan2(s, c)), None))
                continue
            for k in range(where.start, where.stop):
                if run.q_units[k] != "1":
                    name = coordinate_label(run.q_names[k], run.q_names, self.model.coordinates.names)
                    curves.append((name, run.q_units[k], self.q[:, k], run.q[..., k]))
        return curves

    def _attitudes(self) -> Iterator[Panel]:
        """Angles of the axes of a body (if symmetric: of its axis) to the vertical; of several bodies their rotation."""
        joints = [
            e
            for e in self.model.description.joints
            if not isinstance(e.joint.coordinates, Circle)
            and "1" in self.run.q_units[self.model.coordinates.q_slice(e.label)]
        ]
        turns = {e.b: self.linkage.poses[e.b][:, :3, :3] for e in joints}
        if len(turns) == 1:
            ((name, R),) = turns.items()
            body = self.linkage.masses.get(name)
            single = None if body is None else body.symmetry
            tilts = np.degrees(np.arccos(np.clip(R[:, 2], -1, 1)))
            curves = {f"{axis} axis": tilts[:, k] for k, axis in enumerate("xyz") if single in (None, k)}
            yield Panel("Angle of body axes to the vertical", "°", curves, times=self.linkage.times)
        elif turns:
            chosen = list(turns.items())[:MOST_CURVES]
            curves = {name: np.degrees(so3.angle(np.swapaxes(R[:1], -1, -2) @ R)) for name, R in chosen}
            yield Panel("Rotation from the start", "°", curves, times=self.linkage.times)

    def _grouped(self, curves: list[Curve], kind: str, by_unit: bool = True) -> Iterator[Panel]:
        """One panel per unit, with at most as many curves as colours; in a batch each with the range of all trajectories."""
        groups: dict[str, list[Curve]] = {}
        for curve in curves:
            groups.setdefault(curve[1], []).append(curve)
        for unit, group in groups.items():
            title = UNITS.get(unit, kind) if by_unit else kind
            for part, note in _by_size(group):
                yield self._panel(part, f"{title}{note}", unit, kind)

    def _panel(self, group: list[Curve], title: str, unit: str, kind: str) -> Panel:
        shown, count = group[:MOST_CURVES], int(np.prod(self.run.batch))
        more = f" ({MOST_CURVES} of {len(group)})" if len(group) > MOST_CURVES else ""
        return Panel(
            title + more,
            {"": "SI units", "1": "dimensionless"}.get(unit, unit),
            {name: values for name, _, values, _ in shown},
            times=self.t,
            bands={n: self._band(y, every) for n, _, y, every in shown if every is not None} if count > 1 else {},
            band_label=f"band: range of {count:,} trajectories" if count > 1 else "",
        )

    def _band(self, values: Floats, every: Floats) -> tuple[Floats, Floats]:
        """Least and greatest value of all present trajectories at each time."""
        flat = every[: self.count].reshape(self.count, -1)
        finite = np.isfinite(flat)
        low = np.min(np.where(finite, flat, np.inf), axis=1)
        high = np.max(np.where(finite, flat, -np.inf), axis=1)
        return np.minimum(low, values), np.maximum(high, values)

    def markers(self) -> Iterator[Marker]:
        """Events of this trajectory."""
        own = [event for event in self.run.events if tuple(event.trajectory) == self.index]
        for event in own[:MOST_MARKERS]:
            yield Marker(float(event.time), event.name)

    # --- numbers --------------------------------------------------------------------------------------------------------------

    def _drifts(self) -> Iterator[tuple[str, str, str]]:
        """Name, absolute drift with unit, relative drift of each invariant along this trajectory."""
        for name, invariant in self.run.invariants.items():
            values = self.pick(invariant.values)
            drift = float(np.max(np.abs(values - values[0])))
            unit = "" if invariant.unit == "1" else f" {invariant.unit}"
            relative = _small(drift / (invariant.reference or 1.0)) if unit else ""
            yield name, _unbroken(_small(drift) + unit), relative

    def highlights(self) -> Iterator[tuple[str, str]]:
        """End, drift of energy, speed."""
        run, timing = self.run, self.run.timing
        yield "motion", f"{self.t[-1] - self.t[0]:.4g} s"
        relative = {name: share for name, _, share in self._drifts()}
        if "energy" in relative:
            yield "drift of energy", relative["energy"]
        elif run.has_energy:
            yield "largest kinetic energy", f"{np.max(self.pick(run.kinetic_energy)):.4g} J"
        if timing.steps and timing.wall_seconds > 0:
            yield "steps per second", f"{timing.steps_per_second:,.0f}"

    def tables(self) -> Iterator[Table]:
        """The run, the drifts, the bodies, the parameters."""
        run, timing = self.run, self.run.timing
        outcome = run.outcomes[self.index] if self.index else run.outcome
        rows = [
            ("outcome", str(outcome)),
            ("integrator", run.integrator),
            ("step", _unbroken(f"{run.settings.step:.4g} s")),
            ("records", f"{self.count:,}"),
            ("steps", f"{timing.steps * timing.trajectories:,}"),
            ("wall time", f"{timing.wall_seconds:.3g} s"),
            ("preparation", f"{timing.compile_seconds:.3g} s"),
        ]
        yield Table("Run", rows)
        if run.invariants:
            yield Table("Drift", list(self._drifts()), columns=("", "absolute", "relative"))
        yield Table("Bodies", list(self._bodies()), columns=("", "mass", "principal moments"))
        given = {name: value for name, value in self.parameters.items() if name != TIME or not self.linkage.is_timed}
        if given:
            yield Table("Parameters", _capped([(name, f"{value:.6g}") for name, value in given.items()]))

    def _bodies(self) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = []
        for name, body in self.linkage.masses.items():
            moments = ", ".join(f"{x:.3g}" for x in np.linalg.eigvalsh(body.moment))
            known = _unbroken(f"{moments} kg m²") if np.any(body.moment) else "point mass"
            rows.append((name, _unbroken(f"{body.mass:.4g} kg"), known))
        return _capped(rows)


def _by_size(group: list[Curve]) -> list[tuple[list[Curve], str]]:
    """Angles and their rates that are far smaller than others, a pitch next to spinning wheels, have an axis for themselves."""
    sizes = [
        float(np.ptp(values[np.isfinite(values)])) if np.isfinite(values).any() else 0.0 for _, _, values, _ in group
    ]
    largest = max(sizes, default=0.0)
    if group[0][1] not in ("rad", "rad/s") or largest < SPINNING[group[0][1]]:
        return [(group, "")]
    small = [curve for curve, size in zip(group, sizes, strict=True) if 0 < size < largest / HIDDEN]
    rest = [curve for curve, size in zip(group, sizes, strict=True) if not 0 < size < largest / HIDDEN]
    return [(small, ", small"), (rest, ", large")] if small and rest else [(group, "")]


def coordinate_label(name: str, names: Sequence[str], labels: Sequence[str] | None) -> str:
    """Only the component if all belong to one joint, only the joint if it has one component; joints have the names ``labels``."""
    joint, component = _split_name(name, labels or ())
    joints = [_split_name(n, labels or ())[0] for n in names]
    if not component or joints.count(joint) == 1:
        return joint
    return component if len(set(joints)) == 1 else name


def _split_name(name: str, labels: Sequence[str]) -> tuple[str, str]:
    """Joint and component of a coordinate's name; names of joints may hold dots."""
    joint = max((label for label in labels if name.startswith(f"{label}.")), key=len, default=name.partition(".")[0])
    return joint, name[len(joint) + 1 :]


def _small(value: float) -> str:
    """A small number with two digits."""
    digits, _, power = f"{value:.1e}".partition("e")
    return f"{digits}e{int(power)}".replace("-", "\u2212") if value else "0"


def _unbroken(text: str) -> str:
    """Text that is not broken into lines."""
    return text.replace("^2", "²").replace(" ", "\u00a0")


def _capped(rows: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    if len(rows) <= MOST_ROWS:
        return rows
    return [*rows[:MOST_ROWS], (f"... {len(rows) - MOST_ROWS} more", *[""] * (len(rows[0]) - 1))]
