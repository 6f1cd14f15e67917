"""Live pages: the equations of motion of a run inside its page, as WebAssembly, with sliders and a hand that pulls bodies."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import pi
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytop._arrays import Array, as_array, concatenate, is_symbolic, symbol
from heavytop.compile import Traced, WasmModule, step_words, trace_of, wasm_functions, wasm_step
from heavytop.control import WIND_AXES
from heavytop.coordinates import Circle
from heavytop.errors import SimulationError
from heavytop.show.linkage import Linkage
from heavytop.show.live_program import program_of
from heavytop.show.pack import columns
from heavytop.show.run_report import MOST_CURVES, UNITS, coordinate_label, model_of, report_of
from heavytop.show.scene import Report
from heavytop.simulate import Ending, LiveStep, Number, energy_monitor as watch, live_step, simulate, usual_integrator
from heavytop.system import ASSEMBLED, OPEN, WORLD, InnerJoint, Model, at_defaults, unit_axis

if TYPE_CHECKING:
    from heavytop.copters import ScaledGain
    from heavytop.simulate import Run

MOST_SIGNALS = 120_000
"""Numbers of the signal of a law in a page; longer ones are interpolated."""
PREVIEW = 4.0
"""Seconds of motion of a model by which the camera of its page is set."""
GROUPS = {"parameter": "Parameters", "system": "System", "input": "Inputs", "gain": "Gains"}
FREQUENCY = 9.0
"""Of the spring of the hand with the mass it feels, rad/s."""
FASTEST = 0.12
"""The same times the step, at most: the hand must not shake."""


@dataclass(frozen=True, eq=False)
class LiveCode:
    """What makes a page live: two modules, samples of signals (64-bit), and the part of the document that describes them."""

    step: WasmModule
    functions: WasmModule
    signals: np.ndarray
    document: dict[str, Any]

    def packed(self) -> dict[str, bytes]:
        """The modules and signals, compressed, by the names of the template."""
        return {
            "step_code": zlib.compress(self.step.data, 9),
            "function_code": zlib.compress(self.functions.data, 9),
            "signals": zlib.compress(self.signals.astype("<f8").tobytes(), 9),
        }


def live_code(
    run: Run, report: Report, gains: Sequence[ScaledGain] = (), row: int = 0, program: Mapping[str, Any] | None = None
) -> LiveCode:
    """The live part of the page of a run, made for its ``report``.

    Parameters
    ----------
    gains : parameters that are changed together. row : number of the trajectory whose bodies are drawn.
    program : lines of the Python program of the page, as :func:`.program_of` makes those of a run.

    Raises
    ------
    SimulationError : the run was read from a file, has no model with bodies, or calls Python at every sample.
    """
    if run.origin is None:
        raise SimulationError(
            f"run {run.name!r} holds only numbers, as it was read from a file or pickled, and a live page needs its equations. Simulate it again, "
            "then run.show(path, live=True)."
        )
    return _Page(live_step(run.origin), run, report, gains, row).code(program)


def live_report(
    run: Run, report: Report, gains: Sequence[ScaledGain] = (), row: int = 0, program: Mapping[str, Any] | None = None
) -> Report:
    """The report of a run as that of a live page; ``gains``, ``row`` and ``program`` as of :func:`live_code`."""
    # the page draws the paths of bodies itself, as they move; forces of contacts are not among its records
    trails = {name: trail for name, trail in report.scene.trails.items() if trail.dashed}
    arrows = {name: arrow for name, arrow in report.scene.arrows.items() if name in run.u_names}
    report = replace(report, scene=replace(report.scene, trails=trails, arrows=arrows))
    code = live_code(run, report, gains, row, program)
    method = code.document["integrator"]
    notes = list(report.notes)
    if method != run.integrator:
        notes.insert(0, f"The run used {run.integrator}; a live page has a fixed step, here that of {method}.")
    notes.append(
        "The equations of motion run in this page as WebAssembly. The balance of energy, the loops and the constraints are watched as in runs; the "
        "motion stops with a notice where they are wrong."
    )
    tables = tuple(table for table in report.tables if table.title == "Bodies")
    subtitle = f"live: {method}, step {run.settings.step:.4g} s"
    if code.document["count"] > 1:
        subtitle += f", {code.document['count']:,} trajectories"
    return replace(
        report,
        subtitle=subtitle,
        panels=(),
        highlights=(),
        tables=tables,
        markers=(),
        notes=notes,
        live=code,
    )


def live_model_report(model: Model, q: Any = None, v: Any = None, step: float = 1e-3) -> Report:
    """The report of a live page of a model that starts at (q, v); default: neutral, at rest."""
    start = model.neutral() if q is None else q, np.zeros(model.nv) if v is None else v
    if model.is_constrained and q is None:
        start = model.assemble(*start)
    method, every = usual_integrator(model), max(1, round(0.01 / step))
    run = simulate(model, start, PREVIEW, step, method, record_every=every, progress=False)
    if (
        run.outcome.ending in (Ending.diverged, Ending.jumped) and method != "moreau"
    ):  # dampers and springs of files are often stiff
        run = simulate(model, start, PREVIEW, step, "ros2", record_every=every, progress=False)
    if len(run.t) < 2:
        raise SimulationError(
            f"the motion of {model.name!r} from its start ends within {every} steps of {step:g} s, too early for a page ({run.outcome}). Choose "
            "another start (q=, v=), for example without deep overlaps at contacts, or a smaller step=."
        )
    return live_report(run, report_of(run))


class _Page:
    """Collects the document of a live page."""

    def __init__(self, live: LiveStep, run: Run, report: Report, gains: Sequence[ScaledGain], row: int) -> None:
        self.live, self.run, self.report, self.gains = live, run, report, gains
        # the page draws its first trajectory
        self.rows = np.r_[row, np.delete(np.arange(live.problem.count), row)]
        self.model: Model = live.model
        self.problem = live.problem
        self.linkage = _linkage(run)
        self.frames = list(self.model.description.graph.frames)
        law = self.problem.plan.control.law
        flat = [float(x) for value in ({} if law is None else law.gains).values() for x in np.ravel(value)]
        names = [n.name for n in live.numbers if n.kind == "gain"]
        self.usual = dict(zip(names, flat, strict=True))
        self.single: set[str] = set() if law is None else {name for name, value in law.gains.items() if value.ndim == 0}

    def code(self, program: Mapping[str, Any] | None) -> LiveCode:
        live, at, layout = self.live, self.live.terminals, self.live.schedule.layout
        functions = {**live.functions, "poses": self._poses(), "sizes": self._sizes(), "tips": self._tips()}
        step = wasm_step(live.schedule, 1 if self.problem.count == 1 else 2)
        kernels = wasm_functions(functions)
        signals, places = [], []
        for name, rows in live.samples.items():
            # a long signal is given at fewer times; the page interpolates
            every = max(1, -(-rows.size // MOST_SIGNALS))
            kept = rows[np.unique([*range(0, len(rows), every), len(rows) - 1])]
            entry = {"name": name, "rows": len(rows), "every": every, "width": rows.shape[1]}
            places.append({**entry, "start": sum(map(len, signals)), "size": kept.size})
            signals.append(kept.reshape(-1))
        numbers = np.concatenate(signals) if signals else np.zeros(0)
        dynamics, single = live.dynamics, self.problem.count == 1
        document = {
            "step": {**step_words(layout), "free": step.free, "scratch": step.scratch},
            "functions": {
                "free": kernels.free,
                "scratch": kernels.scratch,
                "functions": {
                    name: {"inputs": list(traced.input_sizes), "outputs": list(traced.output_sizes)}
                    for name, traced in functions.items()
                },
            },
            "at": {name: getattr(at, name) for name in _TERMINALS},
            "verdicts": {name: at.own[name] for name in ("unsolved", "ill_posed") if name in at.own},
            "signals": places,
            "start": {name: np.ravel(value[self.rows]).tolist() for name, value in live.start.items()},
            "parameters": np.ravel(live.parameters[self.rows]).tolist(),
            "accounts": list(at.accounts),
            "count": self.problem.count,
            "nq": dynamics.nq,
            "nv": dynamics.nv,
            "nw": dynamics.coordinates.nv,
            "nu": dynamics.nu,
            "integrator": live.integrator.name,
            "h": self.problem.step,
            "startTime": self.problem.start_time,
            "duration": max(self.problem.step * self.problem.steps, self.problem.step),
            "hasTime": dynamics.has_time,
            "hasEnergies": "energies" in functions,
            "constrained": "relative_residuals" in functions,
            "stepIsFree": self._step_is_free,
            "causes": [] if self.problem.plan.control.law is None else list(self.problem.plan.control.law.causes),
            "events": [{"name": e.name, "direction": e.direction, "terminal": e.terminal} for e in self.problem.events],
            "blank": watch.BLANK.tolist(),
            "books": {n: getattr(watch, n.upper()) for n in ("kinetic", "stored", "worked", "error", "since")},
            "watch": {
                n: getattr(watch, n.upper()) for n in ("fastest", "loss", "worst", "miss", "branch", "gain", "closing")
            },
            "limits": {"assembled": 10 * ASSEMBLED, "open": OPEN, "lost": watch.LOST, "never": watch.NEVER},
            "hand": live.hand if single else None,
            "holds": list(live.bodies.values()),
            "root": columns(self.linkage.picture),
            "bodies": self._bodies(),
            "lines": self._lines(),
            "arrows": self._arrows(),
            "paths": self._paths(),
            "panels": list(self._panels()),
            "numbers": self._numbers(),
            "source": program or program_of(live),
        }
        return LiveCode(step, kernels, numbers, document)

    # --- functions ------------------------------------------------------------------------------------------------------------

    def _poses(self) -> Traced:
        traced = self.model.traced("poses")
        s = {"q": symbol("q", self.model.nq), "p": symbol("p", len(self.model.parameter_names))}
        values = traced.expressions(*s.values())
        return trace_of("poses", s, {f"pose{k}": np.reshape(value, (16,)) for k, value in enumerate(values)})

    def _sizes(self) -> Traced:
        """p -> size of the look of each frame relative to that of the page: of the distances of its joints and its centre of mass."""
        d = self.model.description
        points: dict[str, list[Array]] = {frame: [] for frame in self.frames}
        for edge in d.graph.edges:
            points[edge.a].append(as_array(edge.at)[:3, 3])
        for loop in d.loops:
            points[loop.a].append(as_array(loop.at_a)[:3, 3])
            points[loop.b].append(as_array(loop.at_b)[:3, 3])
        for name, inertia in d.inertias.items():
            points[name].append(inertia.center)
        symbols = concatenate(np.zeros(0), *(np.reshape(p.symbol, (1,)) for p in d.parameters))
        values: list[Array] = []
        for frame, own in points.items():
            square = sum((np.vecdot(x, x) for x in own), np.zeros(()))
            known = float(at_defaults(square, d.parameters)) if is_symbolic(square) else 0.0
            values.append(np.sqrt(square / known) if known > 0.0 and frame != WORLD else np.ones(()))
        if not d.parameters:
            symbols = symbol("p", 0)
        return trace_of("sizes", {"p": symbols}, {"sizes": concatenate(*(np.reshape(x, (1,)) for x in values))})

    def _tips(self) -> Traced:
        """(q, p) -> places of the centres of mass of the last bodies, one after the other."""
        e, d = self.model.expressions, self.model.description
        places: list[Array] = [np.zeros(0)]
        for name in self.linkage.leaves[:2]:
            pose = e.kinematics.pose(WORLD, name)
            places.append(np.matvec(pose[:3, :3], d.inertias[name].center) + pose[:3, 3])
        return trace_of("tips", {"q": e.q, "p": e.p}, {"places": concatenate(*places)})

    # --- bodies ---------------------------------------------------------------------------------------------------------------

    def _bodies(self) -> list[dict[str, Any]]:
        """Bodies of the scene that move with a frame: the pose of their look in it, and the hand for them."""
        found, shown = [], {name.replace("/", "\u2215"): name for name in self.frames}
        hands = self._hands()
        for name, body in self.report.scene.bodies.items():
            frame = shown.get(name)
            if frame is None or frame == WORLD:
                continue
            offset = np.linalg.inv(self.linkage.poses[frame][0]) @ np.asarray(body.motion)[0]
            hand = hands.get(self._carrier(frame), {"hand": None, "stiffness": 0.0, "damping": 0.0})
            found.append({"name": name, "frame": self.frames.index(frame), "offset": columns(offset), **hand})
        return found

    def _carrier(self, frame: str) -> str:
        """The body with mass that carries a frame."""
        parents = {step.frame: step.parent for step in self.model.description.graph.spanning_tree()}
        while frame not in self.live.bodies and frame in parents:
            frame = parents[frame]
        return frame

    def _hands(self) -> dict[str, dict[str, Any]]:
        """Spring and damper for each body, from the mass that a force at its centre feels and the weight of everything."""
        model, problem = self.live.described, self.problem
        q, p = problem.rows(problem.q)[0], problem.rows(problem.p)[0]
        given = dict(zip(model.parameter_names, p.tolist(), strict=True))
        inverse = np.linalg.pinv(model.mass_matrix(q, parameters=given))
        weight = sum(body.mass for body in self.linkage.masses.values()) * 9.81 / self.linkage.scale
        found = {}
        for name, index in self.live.bodies.items():
            J = model.jacobian(WORLD, name, q, parameters=given)
            center = self.linkage.masses[name].center
            rows = J[:3] - np.cross(np.eye(3), center) @ J[3:]  # v + omega x c
            felt = 1.0 / max(float(np.linalg.eigvalsh(rows @ inverse @ rows.T)[-1]), 1e-12)
            most = (FASTEST / problem.step) ** 2 * felt
            stiffness = min(max(FREQUENCY**2 * felt, 2.0 * weight), most)
            found[name] = {"hand": index, "stiffness": stiffness, "damping": 0.7 * float(np.sqrt(stiffness * felt))}
        return found

    def _lines(self) -> list[dict[str, Any]]:
        """Struts and cables: where they are attached, and the pieces they are drawn with."""
        found = []
        for k, line in enumerate(self.linkage.lines):
            if line.look == "strut":
                parts = [
                    {"name": f"strut {k + 1} tube", "from": "a", "share": 0.0, "reach": 0.0, "sense": 1},
                    {"name": f"strut {k + 1} rod", "from": "b", "share": 0.0, "reach": 0.0, "sense": -1},
                ]
            else:
                names = [n for n in self.report.scene.bodies if n.startswith(f"line {k + 1} piece ")]
                reach = self._reach(names[0]) if names else 0.0
                parts = [
                    {"name": n, "from": "a", "share": i / max(len(names) - 1, 1), "reach": reach, "sense": 1}
                    for i, n in enumerate(names)
                ]
            found.append(
                {
                    "a": self.frames.index(line.a),
                    "b": self.frames.index(line.b),
                    "atA": self.linkage.number(line.at_a).tolist(),
                    "atB": self.linkage.number(line.at_b).tolist(),
                    "offset": columns(np.eye(4)),
                    "parts": parts,
                }
            )
        return found

    def _reach(self, name: str) -> float:
        return max(float(mesh.vertices[:, 2].max()) for mesh in self.report.scene.bodies[name].meshes)

    def _arrows(self) -> list[dict[str, Any]]:
        found, names = [], list(self.model.description.inputs)
        for name in self.report.scene.arrows:
            thruster: Any = self.model.description.inputs[name]
            axis = self.linkage.number(unit_axis(thruster.axis, "thruster"))
            at = self.linkage.number(thruster.at)
            frame, index = self.frames.index(thruster.body), names.index(name)
            found.append({"frame": frame, "at": at.tolist(), "axis": axis.tolist(), "index": index})
        return found

    def _paths(self) -> list[dict[str, Any]]:
        found = []
        for k, name in enumerate(self.linkage.leaves[:2]):
            center = self.linkage.masses[name].center.tolist()
            entry = {"name": f"path of {name}", "role": f"path {k}", "frame": self.frames.index(name)}
            found.append({**entry, "center": center})
        return found

    # --- curves ---------------------------------------------------------------------------------------------------------------

    def _panels(self) -> list[dict[str, Any]]:
        run, groups = self.run, {}
        names = self.model.coordinates.names

        def add(title: str, unit: str, entry: dict[str, Any]) -> None:
            groups.setdefault((title, unit), []).append(entry)

        for edge in self.model.description.joints:
            where = self.model.coordinates.q_slice(edge.label)
            if isinstance(edge.joint, InnerJoint):
                continue
            if isinstance(edge.joint.coordinates, Circle):
                add("Angles", "rad", {"name": edge.label, "from": "angle", "index": where.start})
                continue
            for k in range(where.start, where.stop):
                if run.q_units[k] != "1":
                    label = coordinate_label(run.q_names[k], run.q_names, names)
                    title = UNITS.get(run.q_units[k], "Coordinates")
                    add(title, run.q_units[k], {"name": label, "from": "q", "index": k})
            if "1" in run.q_units[where] and edge.b in self.frames:
                body = self.linkage.masses.get(edge.b)
                axis = 2 if body is None or body.symmetry is None else body.symmetry
                tilt = {"name": f"{edge.b} {'xyz'[axis]}", "from": "tilt", "index": self.frames.index(edge.b)}
                add("Angle of body axes to the vertical", "°", {**tilt, "axis": axis})
        for k, (name, unit) in enumerate(zip(run.v_names, run.v_units, strict=True)):
            label = coordinate_label(name, run.v_names, names)
            add(UNITS.get(unit, "Velocities"), unit, {"name": label, "from": "v", "index": k})
        if self.problem.plan.control.law is not None:
            for k, (name, unit) in enumerate(zip(run.u_names, run.u_units, strict=True)):
                wind = name in WIND_AXES  # a velocity that acts as a force
                title, unit = ("Wind", "m/s") if wind else ("Inputs", unit)
                add(title, unit, {"name": name, "from": "u", "index": k})
        if self.live.dynamics.energies() is not None:
            for name in ("kinetic", "potential", "total"):
                add("Energies", "J", {"name": name, "from": name, "index": 0})
        return [
            {"title": title, "unit": {"1": "dimensionless"}.get(unit, unit), "series": series[:MOST_CURVES]}
            for (title, unit), series in groups.items()
        ]

    # --- sliders ----------------------------------------------------------------------------------------------------------------

    @property
    def _step_is_free(self) -> bool:
        """Whether the step may change: a sampled law is made for its period."""
        return self.problem.plan.control.law is None

    def _numbers(self) -> list[dict[str, Any]]:
        tuned = {name for gain in self.gains for name in self.problem.dynamics.parameter_names}
        found = [
            {
                "name": n.name,
                "unit": n.unit,
                "kind": n.kind,
                "group": GROUPS[n.kind],
                "to": "p",
                "index": n.index,
                "value": self._value(n),
                "usual": self.usual.get(n.name, n.value),
                "option": n.kind != "gain" or n.name in self.single,
                **self._range(n),
            }
            for n in self.live.numbers
            if n.name not in tuned
        ]
        found += self._tunings()
        found += self._signals()
        if self.problem.count == 1:
            found += self._state()
        if self._step_is_free:
            h = self.problem.step
            step = {"name": "step", "unit": "s", "kind": "step", "group": "Integration", "to": "h", "index": 0}
            found.append({**step, "value": h, "low": 0.1 * h, "high": 100 * h, "log": True})
        return [{**entry, "id": f"{entry['to']}{entry['index']}"} for entry in found]

    def _value(self, n: Number) -> float:
        return float(self.live.parameters[self.rows[0], n.index])

    def _range(self, n: Number) -> dict[str, float]:
        x = self._value(n)
        weight = sum(body.mass for body in self.linkage.masses.values()) * 9.81
        if n.name == "gravity":
            return {"low": 0.0, "high": 2.5 * x}
        if n.kind == "input":
            most = max(2.0 * abs(x), weight * min(self.linkage.scale, 1.0))
            return {"low": -most, "high": most}
        if n.kind == "system" and x == 0.0:  # friction
            return {"low": 0.0, "high": round_up(0.1 * weight * self.linkage.scale)}
        if x == 0.0:
            return {"low": -1.0, "high": 1.0}
        return {"low": min(0.2 * x, 3.0 * x), "high": max(0.2 * x, 3.0 * x)}

    def _tunings(self) -> list[dict[str, Any]]:
        """Gains that scale several parameters."""
        place, found = {n.name: n.index for n in self.live.numbers}, []
        for gain in self.gains:
            targets = [[place[name], float(self.live.parameters[0, place[name]]), name] for name in gain.parameters]
            entry = {"name": gain.name, "unit": gain.unit, "kind": "law", "group": "Gains", "to": "scaled"}
            x = targets[0][1]
            found.append(
                {**entry, "index": targets[0][0], "targets": targets, "value": x, "low": 0.1 * x, "high": 4.0 * x}
            )
        return found

    def _signals(self) -> list[dict[str, Any]]:
        """Constant entries of the signal that the law names: set points, gains, wind."""
        law = self.problem.plan.control.law
        names: Sequence[tuple[str, str]] = getattr(None if law is None else law.law, "signal_names", ())
        found = []
        for name, rows in self.live.samples.items():
            if len(names) != rows.shape[1]:
                continue
            for k, (label, unit) in enumerate(names):
                if label and np.all(rows[:, k] == rows[0, k]):
                    x = float(rows[0, k])
                    reach = max(2.0 * abs(x), 8.0 if unit == "m/s" else 1.0)
                    group = "Wind" if label.startswith("wind") else "Law"
                    entry = {"name": label, "unit": unit, "kind": "law", "group": group, "to": "signal", "index": k}
                    found.append({**entry, "name_of": name, "value": x, "low": x - reach, "high": x + reach})
        return found

    def _state(self) -> list[dict[str, Any]]:
        """Sliders for the start: displacements of the coordinates, and velocities."""
        found, c, scale = [], self.model.coordinates, self.linkage.scale
        labels = c.names or ()
        q, v = self.problem.rows(self.problem.q)[0], self.problem.rows(self.problem.v)[0]
        at = 0
        for edge in self.model.description.joints:
            block, where = edge.joint.coordinates, c.q_slice(edge.label)
            for k in range(block.nv):
                name = coordinate_label(c.v_names[at], c.v_names, c.names)
                unit = c.v_units[at].removesuffix("/s")
                flat = block.nq == block.nv
                value = float(q[where.start + k]) if flat else 0.0
                reach = pi if unit == "rad" else max(scale, 0.5 * abs(value))
                label = name if flat else name.replace("omega_", "turn ").replace("v_", "").removesuffix("_rate")
                entry = {"name": label, "unit": unit, "kind": "start", "group": "Start", "to": "delta", "index": at}
                found.append({**entry, "value": value, "zero": value, "low": value - reach, "high": value + reach})
                at += 1
        for k, (name, unit) in enumerate(zip(self.run.v_names, self.run.v_units, strict=True)):
            label = coordinate_label(name, self.run.v_names, c.names)
            reach = max(3.0 * abs(float(v[k])), 6.0 if unit == "rad/s" else 3.0)
            entry = {"name": f"{label} speed" if label in labels else label, "unit": unit, "kind": "start"}
            entry |= {"group": "Start velocities", "to": "v", "index": k, "value": float(v[k])}
            found.append({**entry, "low": -reach, "high": reach})
        return found


_TERMINALS = ("q", "v", "u", "p", "h", "memory", "work", "paid", "exchanged", "watch", "ledger", "law_failure")


def _linkage(run: Run) -> Linkage:
    """The picture of the first state, with the model of the page."""
    origin = run.origin
    assert origin is not None
    known = model_of(run, None)
    q = np.tile(origin.rows(origin.q)[0], (2, 1))
    values = dict(zip(known.parameter_names, origin.rows(origin.p)[0].tolist(), strict=True))
    own = {p.name: values[p.name] for p in known.description.parameters if not p.is_time}
    return Linkage(known, np.array([0.0, 1.0]) + origin.start_time, q, np.zeros((2, known.nu)), own)


def round_up(x: float) -> float:
    """One, two or five times a power of ten that is not less.

    >>> round_up(0.3), round_up(7.0)
    (0.5, 10.0)
    """
    if x <= 0.0:
        return 1.0
    power = 10.0 ** np.floor(np.log10(x))
    return float(next(m * power for m in (1, 2, 5, 10) if m * power >= x * (1 - 1e-12)))
