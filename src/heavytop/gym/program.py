"""The native program of an environment: the step of the system with its task in one schedule, and the start of episodes as a kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from heavytop._arrays import Array, concatenate, numbers, shape, symbol, vector
from heavytop.compile import Call, Kernel, Schedule, Stepper, Traced, batch_lanes, on_symbols, trace_of
from heavytop.copters import Vehicle
from heavytop.errors import ModelError, SimulationError, unknown_name
from heavytop.functions import is_local, key
from heavytop.gym.actions import Action, action_of
from heavytop.gym.draws import MOST, Draw
from heavytop.gym.numpy_task import NumpyTask, Outcome
from heavytop.gym.task import At, EnvTask
from heavytop.simulate import Control, Terminals, as_dynamics, bind, step_schedule
from heavytop.simulate.integrators import as_integrator
from heavytop.system import Damping, Inertia, Model
from heavytop.system.joints import Fixed

PAYLOAD, DRAG = "payload", "drag"
"""Parameters of multicopters that can be drawn: a mass (kg) below the hull, air drag (N s/m) of the hull."""
PAYLOAD_SIZE = 0.06
"""Edge (m) of the payload, a cube whose centre is as far below the hull's origin."""
GOAL, AGE, OBSERVATION, REWARD, DONE = "goal", "age", "observation", "reward", "done"


@dataclass(frozen=True, eq=False)
class EnvProgram:
    """A task of a system as native code.

    Attributes
    ----------
    stepper : the step; its records are the observation, the reward and the end, or the inputs. terminals : its buffers.
    first : (draws, p) -> (q, v, goal, observation) at the start of an episode. outcome : that of a step in NumPy; None: the step records it.
    draws, goal_size, observation_size : numbers. parameters : nominal (np,). randomized : (index, low, high) of drawn parameters.
    """

    model: Model
    task: EnvTask
    action: Action
    stepper: Stepper
    terminals: Terminals
    first: Callable[[np.ndarray, np.ndarray], Any]
    outcome: Outcome | None
    draws: int
    goal_size: int
    observation_size: int
    parameters: np.ndarray
    randomized: tuple[tuple[int, float, float], ...]


def program(subject: Any, task: EnvTask, threads: int | None) -> EnvProgram:
    """Trace and compile a task for a vehicle or a model."""
    dynamics = as_dynamics(_plant(subject, task))
    model = getattr(dynamics, "model", None)
    if not isinstance(model, Model):
        raise ModelError(f"an environment needs a derived model or a vehicle, got {type(subject).__name__}.")
    if model.description.time is not None or model.is_constrained:
        raise ModelError(
            f"environments are for systems without loops, constraints and explicit time; {model.name!r} has some. Use ht.stepper."
        )
    action = action_of(task.action, subject, model, task.limits, task.lag, task.period)
    for name in task.randomized:
        if name not in model.parameter_names:
            raise unknown_name(f"parameter of {model.name!r}", name, model.parameter_names)
    places = tuple((model.parameter_names.index(n), float(a), float(b)) for n, (a, b) in task.randomized.items())
    if not task.traced:
        return _hosted(dynamics, model, task, action, places, threads)
    first, draws, goal_size = _first(model, task, action)
    outcome = _outcome(model, task, action, goal_size)

    def build() -> Schedule:
        made, at = _step(dynamics, model, task, action)
        sizes = {GOAL: (goal_size,), AGE: (), **{name: outcome.outputs[name] for name in outcome.outputs}}
        call = Call("outcome", (at.q, at.v, at.u, at.signals[0][1], GOAL, at.p, AGE), tuple(outcome.outputs))
        return replace(
            made,
            functions={**made.functions, "outcome": outcome},
            buffers={**made.buffers, **sizes},
            constants=(*made.constants, GOAL, AGE),
            observe=[call],
            record=tuple(outcome.outputs),
        )

    stepper = _stepper(dynamics, build, (task, action, task.period / task.substeps), threads)
    return EnvProgram(
        model, task, action, stepper, Terminals.of(stepper), Kernel(first), None, draws, goal_size, outcome.outputs[OBSERVATION][0],
        model.parameter_vector(), places,
    )  # fmt: skip


def _hosted(
    dynamics: Any, model: Model, task: EnvTask, action: Action, places: tuple[Any, ...], threads: int | None
) -> EnvProgram:
    """A task in plain NumPy: the native step records the inputs, the rest follows outside."""

    def build() -> Schedule:
        made, at = _step(dynamics, model, task, action)
        return replace(made, record=(at.u,))

    stepper = _stepper(dynamics, build, (action, task.substeps, task.period / task.substeps), threads)
    made = NumpyTask(model, task, action)
    return EnvProgram(
        model, task, action, stepper, Terminals.of(stepper), made.first, made.outcome, made.draws, made.goal_size, made.observation_size,
        model.parameter_vector(), places,
    )  # fmt: skip


def _step(dynamics: Any, model: Model, task: EnvTask, action: Action) -> tuple[Schedule, Terminals]:
    """The step of the system with the action as its law, and the buffers of it."""
    law = bind(action, dynamics, model, None, task.period)
    made = step_schedule(dynamics, Control("sampled", law, task.substeps), as_integrator("rkmk4"), balance=False)
    return made, Terminals.of(made)


def _stepper(dynamics: Any, build: Callable[[], Schedule], parts: tuple[Any, ...], threads: int | None) -> Stepper:
    """The schedule as native code, from the cache where its parts have a key."""
    found, lanes = key(*parts), batch_lanes()
    if found is None or is_local(found) or dynamics.equations_key is None:
        return Stepper(build(), lanes, threads)
    return Stepper.cached(f"{dynamics.equations_key} env {found}", build, lanes, threads)


def _plant(subject: Any, task: EnvTask) -> Any:
    """The vehicle with a payload or air drag that are drawn, or the subject itself."""
    drawn = [name for name in (PAYLOAD, DRAG) if name in task.randomized]
    if not isinstance(subject, Vehicle) or not drawn:
        return subject
    system = subject.describe()
    if PAYLOAD in drawn:
        low, high = task.randomized[PAYLOAD]
        if not 0.0 < low <= high:
            raise SimulationError(f"the range of the payload must be positive, got {task.randomized[PAYLOAD]!r} kg.")
        mass = system.parameter(PAYLOAD, high)
        size = mass * PAYLOAD_SIZE**2 / 6.0
        inertia = Inertia(mass, moment_at_com=vector(size, size, size))
        system.body(PAYLOAD, parent="hull", at=(0.0, 0.0, -PAYLOAD_SIZE), joint=Fixed(), inertia=inertia)
    if DRAG in drawn:
        system.damper("world", "hull", Damping(system.parameter(DRAG, 0.0)))
    return system.derive()


def _first(model: Model, task: EnvTask, action: Action) -> tuple[Traced, int, int]:
    """The start of an episode, the numbers it draws, and the size of its goal."""
    given, p = symbol("draws", MOST), symbol("p", len(model.parameter_names))
    draw = Draw(given)
    result = on_symbols(task.reset, "reset of the task", SimulationError)(draw)
    if not isinstance(result, tuple | list) or len(result) not in (2, 3):
        raise SimulationError(f"reset of the task must return (q, v) or (q, v, goal), got {type(result).__name__}.")
    q, v = _vector(result[0], "q"), _vector(result[1], "v")
    goal = _vector(result[2], "goal") if len(result) == 3 else np.zeros(0)
    for what, value, size in (("q", q, model.nq), ("v", v, model.nv)):
        if shape(value) != (size,):
            raise SimulationError(f"reset of the task must return {what} of shape ({size},), got {shape(value)}.")
    nothing = np.zeros(action.size)
    u = action.expression(q, v, p, nothing, action.initial_state())["u"]
    at = At(model, q, v, u, nothing, goal, p, np.zeros(()))
    seen = _vector(on_symbols(task.observation, "observation of the task", SimulationError)(at), "observation")
    count = max(draw.used, 1)
    outputs = {"q": q, "v": v, GOAL: goal, OBSERVATION: seen}
    used = symbol("draws", count)
    whole = trace_of("first", {"draws": given, "p": p}, outputs)
    values = whole.expressions(_padded(used, count), p)
    return trace_of("first", {"draws": used, "p": p}, dict(zip(outputs, values, strict=True))), count, shape(goal)[0]


def _padded(used: Array, count: int) -> Array:
    return concatenate(used, np.zeros(MOST - count))


def _vector(value: Any, what: str) -> Array:
    try:
        array = value if hasattr(value, "to_casadi") else numbers(value, what)
    except Exception:
        array = np.stack(list(value))
    if len(shape(array)) != 1:
        raise SimulationError(f"{what} of the task must be a vector, got shape {shape(array)}.")
    return array


def _outcome(model: Model, task: EnvTask, action: Action, goal_size: int) -> Traced:
    """Observation, reward and end after a step."""
    sizes = {
        "q": model.nq,
        "v": model.nv,
        "u": model.nu,
        "action": action.size,
        "goal": goal_size,
        "p": len(model.parameter_names),
    }
    s = {name: symbol(name, n) for name, n in sizes.items()} | {"t": symbol("t")}
    bounded = np.minimum(np.maximum(s["action"], -1.0), 1.0)
    at = At(model, s["q"], s["v"], s["u"], bounded, s["goal"], s["p"], s["t"])
    zero = 0.0 * s["t"]
    seen = _vector(on_symbols(task.observation, "observation of the task", SimulationError)(at), "observation")
    reward = on_symbols(task.reward, "reward of the task", SimulationError)(at) + zero
    ends = (
        zero
        if task.terminated is None
        else on_symbols(task.terminated, "terminated of the task", SimulationError)(at) + zero
    )
    for what, value in (("reward", reward), ("terminated", ends)):
        if shape(value) not in ((), (1,)):
            raise SimulationError(f"{what} of the task must return one number, got shape {shape(value)}.")
    outputs = {OBSERVATION: seen + zero, REWARD: np.reshape(reward, ()), DONE: np.reshape(ends, ())}
    return trace_of("outcome", s, outputs)
