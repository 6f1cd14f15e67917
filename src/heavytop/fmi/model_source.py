"""The generated part of an FMU: sizes, start values and functions of a model, or of a model with its law, as C99."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from heavytop._arrays import Array, concatenate, from_sx, split, symbol, to_sx
from heavytop.compile import TIME, Call, Program, ScheduleText, Traced, c_function, c_schedule, literal, trace, trace_of
from heavytop.control import FeedbackLaw, Seen, Wrapper
from heavytop.errors import ModelError
from heavytop.simulate import (
    BoundLaw,
    Control,
    Terminals,
    as_dynamics,
    bind,
    limit_events,
    step_schedule,
    trace_events,
)
from heavytop.simulate.integrators import as_integrator
from heavytop.system import Model

DRIFT = 1e-6
"""Distance from the manifold at which a model-exchange FMU requests an event to return to it."""


@dataclass(frozen=True, eq=False)
class Variables:
    """Names, units and start values of one kind of variable."""

    names: tuple[str, ...]
    units: tuple[str, ...]
    start: np.ndarray

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True, eq=False)
class ModelSource:
    """The variables of an FMU, and the texts of its generated files.

    Attributes
    ----------
    states, inputs, parameters, outputs : the variables. limits : names of the event indicators. continuous : whether model exchange is possible.
    """

    name: str
    states: Variables
    inputs: Variables
    parameters: Variables
    outputs: Variables
    limits: tuple[str, ...]
    continuous: bool
    step: float
    header: str
    source: str


def model_source(
    model: Model, start: tuple[Any, Any] | None, step: float, control: Any, reference: Any, integrator: Any
) -> ModelSource:
    """Everything of an FMU that depends on the model."""
    dynamics, method = as_dynamics(model), as_integrator(integrator)
    if reference is None and getattr(control, "needs_reference", False):
        control = _Commanded(control)
    if method.chooses_step:
        raise ModelError(f"an FMU makes fixed steps; {method.name} chooses its own: use integrator='rkmk4'.")
    law = None if control is None else bind(control, dynamics, model, reference, step)
    if law is not None and law.host is not None:
        raise ModelError(f"{law.law!r} is computed in Python at every sample and cannot be part of an FMU.")
    q, v = (model.neutral(), np.zeros(model.nv)) if start is None else start
    q, v = model.coordinates.check(q, f"start q of {model.name!r}"), np.asarray(v, dtype=float)
    if q.shape != (model.nq,) or v.shape != (model.nv,):
        raise ModelError(
            f"start of an FMU must be one state, q ({model.nq},) and v ({model.nv},), got {q.shape} and {v.shape}."
        )
    names = unique([*model.q_names, *model.v_names])
    states = Variables(tuple(names), (*model.q_units, *model.v_units), np.concatenate([q, v]))
    inputs = _inputs(model, law, q)
    count = len(model.parameter_names) - dynamics.has_time
    parameters = Variables(tuple(model.parameter_names[:count]), ("",) * count, model.parameter_vector()[:count])
    functions = _functions(model, law)
    y_names, y_units = ["kinetic_energy", "potential_energy"], ["J", "J"]
    if law is not None:
        y_names += [f"input.{name}" for name in model.u_names]
        y_units += list(model.u_units)
    outputs = Variables(tuple(y_names), tuple(y_units), np.zeros(len(y_names)))
    events = limit_events(model)
    limits = tuple(event.name for event in events)
    schedule = step_schedule(
        dynamics, Control("table") if law is None else Control("sampled", law), method, balance=False
    )
    at = Terminals.of(schedule)
    if at.own:
        raise ModelError(
            f"{method.name} carries {', '.join(at.own)} from step to step: use integrator='rkmk4' for an FMU."
        )
    watched = [item for item in schedule.advance if not (isinstance(item, Call) and item.outputs == (at.watch,))]
    made = c_schedule(replace(schedule, advance=watched))
    functions["model_indicators"] = (
        trace_events(events, dynamics)
        if events
        else trace(lambda t, q, v: {"z": t}, {"t": (), "q": (model.nq,), "v": (model.nv,)}, name="indicators")
    )
    phi = model.traced("constraints")
    functions["model_constraints"] = phi
    project = next((c for name, c in made.functions.items() if _projects(schedule.functions[name])), None)
    if project is None:  # the step leaves the coordinates as they are
        functions["model_project"] = trace(
            lambda q: {"projected": model.coordinates.project(q)}, {"q": (model.nq,)}, name="project"
        )
    command = [name for _, name in at.signals] if law is not None else [at.u]
    memory = np.zeros(0) if law is None else law.initial_state().reshape(-1)
    text = sources(
        functions, made, (model.nq, model.nv), phi.output_sizes[0], (states, inputs, parameters, outputs), limits, step,
        Glue(at, command, memory, dynamics.has_time, project),
    )  # fmt: skip
    continuous = law is None or law.state_size == 0
    return ModelSource(model.name, states, inputs, parameters, outputs, limits, continuous, step, *text)


@dataclass(frozen=True, eq=False)
class Glue:
    """The buffers of a step that variables of an FMU are copied to and from.

    Attributes
    ----------
    at : their names. command : those of the inputs. memory : at the start. has_time : whether the time follows the parameters.
    project : function of the step that returns coordinates to their manifold; None: ``model_project`` is among the functions.
    """

    at: Terminals
    command: Sequence[str]
    memory: np.ndarray
    has_time: bool
    project: str | None = None


def sources(
    functions: Mapping[str, Traced],
    made: ScheduleText,
    state: tuple[int, int],
    constraints: int,
    variables: tuple[Variables, Variables, Variables, Variables],
    limits: Sequence[str],
    step: float,
    glue: Glue,
) -> tuple[str, str]:
    """The texts of ``model.h`` and ``model.c``.

    Parameters
    ----------
    functions : those that core.c calls. made : the step. state : numbers of coordinates and velocities. constraints : constraints of the coordinates.
    variables : states, inputs, parameters, outputs.
    """
    states, inputs, parameters, outputs = variables
    sizes = {
        "NQ": state[0],
        "NX": sum(state),
        "NU": len(inputs),
        "NP": len(parameters),
        "NY": len(outputs),
        "NZ": len(limits),
        "NPHI": constraints,
    }
    header = ["/* Sizes of the model, and its step in s. */", *(f"#define {k} {n}" for k, n in sizes.items())]
    header += [f"#define STEP_SIZE {literal(step)}", f"#define DRIFT {DRIFT!r}", ""]
    text = ["#include <math.h>", "#include <string.h>", ""]
    text += ["static " + c_function(Program.from_traced(f), f.signature, label) for label, f in functions.items()]
    text.append(made.text)
    for label, group in (("start", states), ("inputs", inputs), ("parameters", parameters)):
        numbers = ", ".join(literal(x) for x in group.start) or "0.0"
        text.append(f"static const double model_{label}[] = {{{numbers}}};")
    text += _glue(made.members, glue, state, len(inputs), len(parameters))
    return "\n".join(header), "\n".join([*text, ""])


def _projects(function: Traced) -> bool:
    """Whether a function of a step returns the coordinates, and nothing else, to their manifold."""
    return function.name == "project" and tuple(function.inputs) == ("q",)


class _Commanded(Wrapper):
    """A law whose reference (q_R, v_R, a_R) is a signal: the inputs of the FMU."""

    def __init__(self, law: FeedbackLaw) -> None:
        super().__init__(law)
        self._parts = (law.model.nq, law.model.nv, law.model.nv)
        self.own_signal_size = sum(self._parts)

    @property
    def needs_reference(self) -> bool:
        return False

    def seen(self, at: Seen) -> dict[str, Array]:
        """The reference."""
        return dict(zip(("q_R", "v_R", "a_R"), split(at.signal, self._parts), strict=True))


def _inputs(model: Model, law: BoundLaw | None, q: np.ndarray) -> Variables:
    """The inputs of the model, or the signal of its law: where its reference is an input, q_R, v_R and a_R, at first rest at ``q``."""
    if law is None:
        return Variables(tuple(model.u_names), tuple(model.u_units), np.zeros(model.nu))
    if not law.signal_size:
        return Variables((), (), np.zeros(0))
    if isinstance(law.law, _Commanded):
        rates = [f"der({name})" for name in model.v_names]
        names = [f"reference.{name}" for name in (*unique([*model.q_names, *model.v_names]), *rates)]
        units = [*model.q_units, *model.v_units, *(f"{u}^2" if u.endswith("/s") else "" for u in model.v_units)]
        return Variables(tuple(names), tuple(units), np.concatenate([q, np.zeros(2 * model.nv)]))
    first = law.signal(np.zeros(1)).reshape(-1)
    if first.shape != (law.signal_size,):
        raise ModelError("the reference of an FMU must be that of one trajectory.")
    return Variables(tuple(f"signal[{k}]" for k in range(law.signal_size)), ("",) * law.signal_size, first)


def _functions(model: Model, law: BoundLaw | None) -> dict[str, Traced]:
    """Rates and outputs, and their derivatives along a direction of states and inputs."""
    import casadi

    size = model.nu if law is None else law.signal_size
    memory = 0 if law is None else law.state_size
    t, p = symbol("t"), symbol("p", len(model.parameter_names))
    q, v, u, z = symbol("q", model.nq), symbol("v", model.nv), symbol("u", size), symbol("z", memory)
    force: Array = u
    if law is not None:
        law.need_no_contacts("an FMU")
        if "gains" in law.takes:
            raise ModelError(
                f"{law.law!r} takes gains, which an FMU does not contain: write their numbers into the law."
            )
        given = {"t": t, "q": q, "v": v, "signal": u, "p": p, "z": z}
        force = law.traced.expressions(*(given[name] for name in law.takes))[0]
    rate = model.traced("rate").expressions(q, v, p)[0]
    acceleration = model.traced("acceleration").expressions(q, v, force, p)[0]
    kinetic = model.traced("kinetic_energy").expressions(q, v, p)[0]
    potential = model.traced("potential_energy").expressions(q, p)[0]
    y = concatenate(np.reshape(kinetic, (1,)), np.reshape(potential, (1,)), *(() if law is None else (force,)))
    symbols = {"t": t, "q": q, "v": v, "u": u, "p": p, "z": z}
    outputs = {"q_dot": rate, "v_dot": acceleration, "y": y}
    rates = trace_of("rates", symbols, outputs)
    seeds = {"dq": symbol("dq", model.nq), "dv": symbol("dv", model.nv), "du": symbol("du", size)}
    x, dx = casadi.vertcat(to_sx(q), to_sx(v), to_sx(u)), casadi.vertcat(*(to_sx(s) for s in seeds.values()))
    along = {f"d_{name}": from_sx(casadi.jtimes(to_sx(value), x, dx), value.shape) for name, value in outputs.items()}
    return {"model_rates": rates, "model_directional": trace_of("directional", symbols | seeds, along)}


def _glue(members: Mapping[str, str], glue: Glue, state: tuple[int, int], inputs: int, parameters: int) -> list[str]:
    """Copies between the variables of an FMU and the buffers of a step."""

    def copy(target: str, source: str, n: int) -> list[str]:
        return [f"    memcpy({target}, {source}, {n} * sizeof(double));"] if n else []

    def place(name: str) -> str:
        return f"b->{members[name]}"

    at, (nq, nv), memory = glue.at, state, glue.memory
    z = "b->copied" if at.memory is None else place(at.memory)
    lines = []
    if glue.project is not None:
        head = "static void model_project(const double *q, double *projected)"
        lines += ["", f"{head} {{ {glue.project}(q, projected); }}"]
    lines += ["", f"static const double *model_z(const step_buffers *b) {{ return {z}; }}", ""]
    lines += ["static void model_memory(step_buffers *b)", "{", "    (void)b;"]
    if at.memory is not None:
        first = ", ".join(literal(x) for x in memory)
        lines += [f"    static const double first[] = {{{first}}};", *copy(place(at.memory), "first", len(memory))]
    lines += ["}", ""]
    lines += [
        "static void model_load(step_buffers *b, const double *x, const double *u, const double *p, double h)",
        "{",
    ]
    lines += ["    (void)x; (void)u; (void)p;", *copy(place(at.q), "x", nq), *copy(place(at.v), f"x + {nq}", nv)]
    for name in glue.command:
        lines += copy(place(name), "u", inputs)
    lines += [*copy(place(at.p), "p", parameters), f"    {place(at.h)}[0] = h;", "}", ""]
    lines += ["static void model_store(const step_buffers *b, double *x)", "{", "    (void)b; (void)x;"]
    lines += [*copy("x", place(at.q), nq), *copy(f"x + {nq}", place(at.v), nv), "}", ""]
    lines += ["static void model_clock(step_buffers *b, double time, double k)", "{"]
    lines += [f"    {place(TIME)}[0] = time;", f"    {place('step')}[0] = k;"]
    if glue.has_time:
        lines.append(f"    {place(at.p)}[{parameters}] = time;")
    return [*lines, "}"]


def unique(names: Sequence[str]) -> list[str]:
    """Names of variables, each once."""
    made: list[str] = []
    for name in names:
        unique, k = name, 1
        while unique in made:
            k += 1
            unique = f"{name}_{k}"
        made.append(unique)
    return made
