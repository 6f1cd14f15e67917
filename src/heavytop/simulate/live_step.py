"""The step of a run as a live page needs it: everything a reader may change is an input.

The model gets a few more parameters (gravity, masses, friction in the joints, constant inputs) and a hand that pulls a point of a body towards
a place: generalised forces in the joints, which a law around that of the run computes at every sample from the spring between both. With the
hand open and all numbers as they were, the motion is that of the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from heavytop._arrays import Array, concatenate, is_symbolic, part, symbol, transpose, vector
from heavytop.compile import Schedule, Traced, trace_of
from heavytop.errors import SimulationError
from heavytop.geometry import se3
from heavytop.simulate.controller import MEMORY_OUTPUTS, BoundLaw
from heavytop.simulate.dynamics import Dynamics, ModelDynamics, as_dynamics
from heavytop.simulate.energy_monitor import first_watch, ledger
from heavytop.simulate.events import trace_events
from heavytop.simulate.inputs import InputPlan
from heavytop.simulate.integrators import Integrator, as_integrator
from heavytop.simulate.plant import Control
from heavytop.simulate.recording import RunProblem
from heavytop.simulate.step_assembly import Terminals, step_schedule
from heavytop.system import (
    TIME,
    WORLD,
    Description,
    FrameGraph,
    Inertia,
    JointForce,
    Loop,
    Model,
    Parameter,
)
from heavytop.system.forces import JointDamper

MOST_MASSES = 16
"""Bodies up to which each has its mass as a parameter."""
GRAVITY, FRICTION = "gravity", "joint friction"
HAND = ("stiffness", "damping", "x", "y", "z", "point x", "point y", "point z")
"""Numbers of the hand: spring in N/m, damper in N s/m, its place in the world in m, the point of the body it holds in m."""


@dataclass(frozen=True)
class Number:
    """A number that a reader may change: its place in the parameters, its value, and the kind of thing it is."""

    name: str
    unit: str
    kind: str
    index: int
    value: float


@dataclass(frozen=True, eq=False)
class LiveStep:
    """A step with its inputs.

    Attributes
    ----------
    problem : the run. described : its model. model : with the hand and more parameters. integrator : its method, or the nearest with a fixed step.
    schedule, terminals : the step.
    parameters : (n, np) their values, for each trajectory.
    numbers : those that can be changed. bodies : name -> place of the parameter that is 1 while the hand holds it; hand : place of its numbers.
    functions : what else a page computes, by name.
    samples : (m, size) of the signal of the law or of the inputs, one for each sample; None: there are none.
    """

    problem: RunProblem
    described: Model
    model: Model
    integrator: Integrator
    schedule: Schedule
    terminals: Terminals
    parameters: np.ndarray
    numbers: tuple[Number, ...]
    bodies: Mapping[str, int]
    hand: int
    functions: Mapping[str, Traced]
    samples: Mapping[str, np.ndarray]

    @property
    def dynamics(self) -> Dynamics:
        """Of the model with the hand."""
        return as_dynamics(self.model)

    @property
    def start(self) -> dict[str, np.ndarray]:
        """The first value (n, size) of every lasting buffer; zero for the accounts of energy, which a page opens itself."""
        problem, at, layout = self.problem, self.terminals, self.schedule.layout
        found = {name: np.zeros((problem.count, layout.size(name))) for name in layout.persistent}
        given = ((at.q, problem.q), (at.v, problem.v), (at.memory, problem.memory))
        return found | {name: problem.rows(value) for name, value in given if name is not None}


def live_step(problem: RunProblem) -> LiveStep:
    """The step of a run for a live page.

    Raises
    ------
    SimulationError : the run calls Python at every sample (a function as ``inputs=``, predictive control), which a page cannot, or has no model.
    """
    dynamics = problem.dynamics
    if not isinstance(dynamics, ModelDynamics):
        raise SimulationError(
            f"a live page needs a model with bodies, but {dynamics.name!r} is {type(dynamics).__name__}. Describe it with ht.System, or write "
            "a page that replays the run: run.show(path)."
        )
    _check_law(problem)
    model, numbers, bodies, hand = _with_hand(dynamics.model, problem, single=problem.count == 1)
    own = as_dynamics(model)
    integrator = _fixed(problem.integrator, own)
    law = _law(problem.plan, dynamics.model, model, numbers, bodies, hand)
    kind = "continuous" if problem.plan.control.kind == "continuous" else "sampled"
    every = problem.plan.control.every if problem.plan.control.law is not None else problem.plan.every
    control = Control(kind, law, every if kind == "sampled" else 1)
    schedule = step_schedule(own, control, integrator, balance=True, watched=problem.watched)
    terminals = Terminals.of(schedule)
    values = np.array([p.value for p in model.description.parameters])
    rows = np.broadcast_to(values, (problem.count, len(values))).copy()
    given, time = problem.rows(problem.p), dynamics.has_time
    count = given.shape[-1] - time
    rows[:, :count] = given[:, :count]
    if time:
        rows[:, -1] = problem.start_time
    gains = [n.index for n in numbers if n.kind == "gain"]
    if gains:
        rows[:, gains] = problem.rows(problem.gains)
    works = 0 if terminals.paid is None else schedule.layout.size(terminals.paid)
    functions = _functions(problem, own, terminals, works)
    samples = _samples(problem, terminals)
    return LiveStep(
        problem, dynamics.model, model, integrator, schedule, terminals, rows, numbers, bodies, hand, functions, samples
    )


def _check_law(problem: RunProblem) -> None:
    plan = problem.plan
    if plan.callback is not None:
        raise SimulationError(
            f"the inputs of {problem.dynamics.name!r} come from a Python function at every sample, which a page cannot call. Write the law in NumPy "
            "notation (ht.Feedback) and give it as control=, or write a page that replays the run: run.show(path)."
        )
    if plan.control.law is not None and plan.control.law.host is not None:
        raise SimulationError(
            f"{plan.control.law.law!r} solves a program in Python at every sample, which a page cannot. Near its goal, and without active limits, "
            "predictive control is the regulator control.lqr(model, reference), which can be live; or write a page that replays the run: "
            "run.show(path)."
        )


def _fixed(integrator: Integrator, dynamics: Dynamics) -> Integrator:
    """The method itself, or one with a fixed step that starts from (q, v) alone."""
    needs_more = type(integrator).start is not Integrator.start or integrator.chooses_step
    if not needs_more and integrator.carries_velocity:
        return integrator
    return as_integrator("rkmk4" if dynamics.coordinates.is_group else "projected_rk4")


# --- the model with a hand --------------------------------------------------------------------------------------------------


class _Parameters:
    """Collects further parameters with names that are free."""

    def __init__(self, description: Description) -> None:
        self.made = [p for p in description.parameters if not p.is_time]
        self.time = [p for p in description.parameters if p.is_time]
        self.numbers = [Number(p.name, "", "parameter", k, p.value) for k, p in enumerate(self.made)]

    def add(self, name: str, value: float, unit: str = "", kind: str = "") -> Array:
        """The symbol of one more parameter; with a ``kind`` a reader may change it."""
        taken = {p.name for p in (*self.made, *self.time)}
        while name in taken:
            name += " "
        if kind:
            self.numbers.append(Number(name.strip(), unit, kind, len(self.made), value))
        self.made.append(Parameter(name, symbol(name.replace(" ", "_")), value))
        return self.made[-1].symbol


def _with_hand(
    model: Model, problem: RunProblem, single: bool
) -> tuple[Model, tuple[Number, ...], dict[str, int], int]:
    d, more = model.description, _Parameters(model.description)
    gravity, inertias, elements = d.gravity, dict(d.inertias), list(d.elements)
    size = 0.0 if is_symbolic(gravity) else float(np.linalg.norm(gravity))
    if size > 0.0:
        gravity = np.asarray(gravity) / size * more.add(GRAVITY, size, "m/s²", "system")
    fixed = {name: i for name, i in inertias.items() if not is_symbolic(i.total, i.center, i.moment_at_center)}
    fixed = {name: i for name, i in fixed.items() if float(i.total) > 0.0}
    graph, loops = d.graph, d.loops
    if len(fixed) <= MOST_MASSES:
        masses = {name: more.add(f"mass of {name}", float(i.total), "kg", "system") for name, i in fixed.items()}
        sizes = {name: more.add(f"size of {name}", 1.0, "×", "system") for name in _scalable(d, fixed)}
        for name, i in fixed.items():
            m, s = masses[name], sizes.get(name, 1.0)
            inertias[name] = Inertia(m, i.center * s, i.moment_at_center * (m / float(i.total) * s * s))
        graph, loops = _resized(d, sizes)
    hinges = [edge.label for edge in d.joints if edge.joint.coordinates.nv == 1]
    if hinges:
        friction = more.add(FRICTION, 0.0, "N m s/rad", "system")
        elements += [JointDamper(label, friction) for label in hinges]
    if problem.plan.control.law is None and len(problem.plan.table) == 1:
        row = np.broadcast_to(problem.plan.table[0], (*problem.batch, model.nu)).reshape(problem.count, model.nu)[0]
        for name, unit, value in zip(model.u_names, model.u_units, row, strict=True):
            more.add(f"input {name}", float(value), unit, "input")
    if problem.gains.shape[-1]:
        for name, value in zip(_gain_names(problem), problem.rows(problem.gains)[0], strict=True):
            more.add(name, float(value), "", "gain")
    hand = len(more.made)
    inputs, bodies = dict(d.inputs), {}
    if single:
        for name in HAND:
            more.add(f"hand {name}", 0.0)
        bodies = {name: len(more.made) + k for k, name in enumerate(d.inertias)}
        for name in bodies:
            more.add(f"hand holds {name}", 0.0)
        for edge in d.joints:
            for k in range(edge.joint.coordinates.nv):
                inputs[f"hand {edge.label} {k}"] = JointForce(edge.label, index=k)
    changed = replace(
        d,
        gravity=gravity,
        graph=graph,
        loops=loops,
        inertias=inertias,
        elements=tuple(elements),
        inputs=inputs,
        parameters=(*more.made, *more.time),
    )
    return Model(changed), tuple(more.numbers), bodies, hand


def _scalable(d: Description, fixed: Mapping[str, Inertia]) -> list[str]:
    """Bodies whose size can be a parameter: all lengths are places of joints and centres of mass, given as numbers, and nothing else knows them."""
    joints_only = all(hasattr(item, "joint") for item in (*d.elements, *d.inputs.values()))
    if not joints_only or d.constraints or d.contacts or d.velocity is not None:
        return []
    points: dict[str, list[Array]] = {name: [i.center] for name, i in fixed.items()}
    places = [(edge.a, edge.at) for edge in d.graph.edges]
    places += [(frame, at) for loop in d.loops for frame, at in ((loop.a, loop.at_a), (loop.b, loop.at_b))]
    for frame, at in places:
        points.get(frame, []).append(at[:3, 3])
    known = {name: own for name, own in points.items() if not is_symbolic(*own)}
    return [name for name, own in known.items() if any(np.linalg.norm(x) > 0.0 for x in own)]


def _resized(d: Description, sizes: Mapping[str, Array]) -> tuple[FrameGraph, tuple[Loop, ...]]:
    """Places of joints and loops on bodies, times the size of the body."""

    def moved(frame: str, at: Array) -> Array:
        return se3.pose(at[:3, :3], at[:3, 3] * sizes[frame]) if frame in sizes else at

    edges = tuple(replace(edge, at=moved(edge.a, edge.at)) for edge in d.graph.edges)
    loops = (replace(x, at_a=moved(x.a, x.at_a), at_b=moved(x.b, x.at_b)) for x in d.loops)
    return replace(d.graph, edges=edges), tuple(loops)


def _gain_names(problem: RunProblem) -> list[str]:
    """Names of the gains of the law, one for each entry."""
    law, names = problem.plan.control.law, []
    for name, value in ({} if law is None else law.gains).items():
        names += [name] if value.ndim == 0 else [f"{name} {k}" for k in range(value.size)]
    return names


def _pull(model: Model, bodies: Mapping[str, int], hand: int) -> Traced:
    """(q, w, p) -> generalised forces of the hand on the joints' velocities w: J^T of a spring and damper at a point of the body it holds."""
    e = model.expressions
    w = symbol("w", e.coordinates.nv)
    tree = e.tree(w)
    stiffness, damping = e.p[hand], e.p[hand + 1]
    place, point = (vector(*(e.p[hand + k + i] for i in range(3))) for k in (2, 5))
    total: Array = np.zeros(e.coordinates.nv)
    for name, index in bodies.items():
        motion = tree.motion(WORLD, name)
        R, r = motion.pose[:3, :3], motion.pose[:3, 3]
        velocity = motion.twist[:3] + np.cross(motion.twist[3:], point)
        # all in the axes of the body
        force = stiffness * (np.matvec(transpose(R), place - r) - point) - damping * velocity
        wrench = concatenate(force, np.cross(point, force)) * e.p[index]
        total = total + np.matvec(transpose(motion.jacobian), wrench)
    return trace_of("hand", {"q": e.q, "w": w, "p": e.p}, {"force": total})


# --- the law around that of the run -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Live:
    """The law of a live page: only its texts are used."""

    causes: tuple[str, ...] = ()


def _law(
    plan: InputPlan, model: Model, live: Model, numbers: tuple[Number, ...], bodies: Mapping[str, int], hand: int
) -> BoundLaw:
    """The law of the run, or its inputs, and the forces of the hand."""
    law = plan.control.law
    known, time = len(model.parameter_names), TIME in model.parameter_names and model.description.time is not None
    table = law is None and len(plan.table) > 1
    signal_size = model.nu if table else 0 if law is None else law.signal_size
    state_size = 0 if law is None else law.state_size
    s: dict[str, Array] = {
        "t": symbol("t"),
        "q": symbol("q", live.nq),
        "v": symbol("v", live.nv),
        "signal": symbol("signal", signal_size),
        "p": symbol("p", len(live.parameter_names)),
        "z": symbol("z", state_size),
    }
    outputs: dict[str, Array] = {}

    def entries(kind: str) -> Array:
        return concatenate(np.zeros(0), *(np.reshape(s["p"][n.index], (1,)) for n in numbers if n.kind == kind))

    if law is not None:
        law.need_no_contacts("a live page")
        p = part(s["p"], 0, known - time)
        seen = s | {"p": concatenate(p, s["p"][-1:]) if time else p, "gains": entries("gain")}
        outputs = dict(
            zip(law.traced.outputs, law.traced.expressions(*(seen[name] for name in law.takes)), strict=True)
        )
        u = outputs.pop("u")
    elif table:
        u = s["signal"]
    else:
        u = entries("input")
    if bodies:
        (w,) = live.traced("joint_velocity").expressions(s["q"], s["v"], s["p"])
        (force,) = _pull(live, bodies, hand).expressions(s["q"], w, s["p"])
        u = concatenate(u, force)
    absent = {name for name, size in (("signal", signal_size), ("z", state_size)) if not size}
    used = {name: value for name, value in s.items() if name not in absent}
    kept = {name: value for name, value in outputs.items() if name in (*MEMORY_OUTPUTS, "status")}
    causes = () if law is None else law.causes
    return BoundLaw(_Live(causes), trace_of("live", used, {"u": u, **kept}), signal_size, state_size)  # pyright: ignore[reportArgumentType]


def _samples(problem: RunProblem, terminals: Terminals) -> dict[str, np.ndarray]:
    """Samples (m, size) of the signals of the law at every step, one for all trajectories."""
    law, plan = problem.plan.control.law, problem.plan
    instants = problem.start_time + problem.step * np.arange(problem.steps + 1)
    found = {}
    for c, name in terminals.signals:
        if law is None:
            rows = plan.table.reshape(len(plan.table), -1, plan.table.shape[-1])[:, 0]
            rows = rows[np.minimum(np.arange(problem.steps + 1) // plan.every, len(rows) - 1)]
        else:
            rows = law.signal(instants + c * problem.step)
            rows = rows.reshape(len(rows), -1, rows.shape[-1])[:, 0]
        found[name] = rows[:1] if np.all(rows == rows[0]) else rows
    return found


# --- what else a page computes ----------------------------------------------------------------------------------------------


def _functions(problem: RunProblem, dynamics: Dynamics, terminals: Terminals, works: int) -> dict[str, Traced]:
    c = dynamics.coordinates
    q, delta = symbol("q", c.nq), symbol("delta", c.nv)
    found = {"moved": trace_of("moved", {"q": q, "delta": delta}, {"q": c.retract(q, delta)})}
    for name in ("energies", "relative_residuals"):
        if (traced := getattr(dynamics, name)()) is not None:
            found[name] = traced
    if (both := dynamics.projection()) is not None:
        found["project"] = both[0]
    if terminals.watch is not None and (kept := dynamics.kept()) is not None:
        found["first_watch"] = first_watch(dynamics, kept)
    if terminals.ledger is not None:
        found["ledger"] = ledger(dynamics, works)
    if problem.events:
        found["events"] = trace_events(problem.events, dynamics)
    return found
