"""The generated part of an FMU of a law alone: measurements and references in, inputs of the plant out."""

from __future__ import annotations

import numpy as np

from heavytop._arrays import from_sx, split, symbol, to_sx
from heavytop.compile import TIME, Call, Schedule, c_schedule, trace, trace_of
from heavytop.control import BaseController, PartialPlant
from heavytop.errors import ModelError
from heavytop.fmi.model_source import Glue, ModelSource, Variables, sources, unique
from heavytop.simulate import Terminals


def law_source(law: BaseController, period: float) -> ModelSource:
    """The law, sampled every ``period`` s: q, v and the reference q_R, v_R, a_R are inputs, u is the output; its memory moves on with each step."""
    import casadi

    if law.host is not None or not law.needs_reference:
        raise ModelError(
            f"{law!r} cannot be an FMU by itself: give a traced law without a reference, which becomes an input."
        )
    model, sampled = law.law.model, law.sampled(period)
    traced = sampled.composed(PartialPlant.of(model))
    sizes = {"q": model.nq, "v": model.nv, "q_R": model.nq, "v_R": model.nv, "a_R": model.nv}
    used = {name: size for name, size in sizes.items() if name in traced.inputs}
    if unknown := [name for name in traced.inputs if name not in (*sizes, "t", "p", "z")]:
        raise ModelError(
            f"{law!r} takes {unknown[0]!r} besides the state and the reference and cannot be an FMU by itself."
        )
    inputs = _inputs(law, used)
    memory = sampled.initial_state().reshape(-1)
    t, p, z = symbol("t"), symbol("p", len(model.parameter_names)), symbol("z", len(memory))
    u, du = symbol("u", len(inputs)), symbol("du", len(inputs))
    given = dict(zip(used, split(u, list(used.values())), strict=True)) | {"t": t, "p": p, "z": z}
    outputs = dict(zip(traced.outputs, traced.expressions(*(given[name] for name in traced.inputs)), strict=True))
    nothing = np.zeros(0)
    symbols = {"t": t, "q": symbol("q", 0), "v": symbol("v", 0), "u": u, "p": p, "z": z}
    seeds = {"dq": symbol("dq", 0), "dv": symbol("dv", 0), "du": du}
    along = from_sx(casadi.jtimes(to_sx(outputs["u"]), to_sx(u), to_sx(du)), outputs["u"].shape)
    functions = {
        "model_rates": trace_of("rates", symbols, {"q_dot": nothing, "v_dot": nothing, "y": outputs["u"]}),
        "model_directional": trace_of("directional", symbols | seeds, {"d_q": nothing, "d_v": nothing, "d_y": along}),
        "model_indicators": trace(lambda t, q, v: {"z": t}, {"t": (), "q": (), "v": ()}, name="indicators"),
        "model_constraints": trace(lambda q, p: {"phi": q}, {"q": (), "p": ()}, name="constraints"),
        "model_project": trace(lambda q: {"projected": q}, {"q": ()}, name="project"),
    }
    update = trace_of("update", {"t": t, "u": u, "p": p, "z": z}, {"z_next": outputs.get("z_next", z)})
    buffers = {"u": (len(inputs),), "p": (len(model.parameter_names),), "z": (len(memory),), "h": (), "none": (0,)}
    calls = [Call("update", (TIME, "u", "p", "z"), ("z",))] if len(memory) else []
    made = c_schedule(Schedule({"update": update}, buffers, ("z",), calls, constants=("p", "h", "none"), tables=("u",)))
    at = Terminals(q="none", v="none", u="u", p="p", h="h", memory="z" if len(memory) else None)
    count = len(model.parameter_names)
    parameters = Variables(tuple(model.parameter_names), ("",) * count, model.parameter_vector())
    shown = Variables(tuple(model.u_names), tuple(model.u_units), np.zeros(model.nu))
    states = Variables((), (), nothing)
    texts = sources(
        functions, made, (0, 0), 0, (states, inputs, parameters, shown), (), period, Glue(at, ["u"], memory, False)
    )
    return ModelSource(f"law of {model.name}", states, inputs, parameters, shown, (), False, period, *texts)


def _inputs(law: BaseController, used: dict[str, int]) -> Variables:
    """Names, units and start values of what the law takes; at first at rest in the neutral configuration, with that as its reference."""
    model = law.law.model
    every = unique([*model.q_names, *model.v_names])
    names: list[str] = []
    units: list[str] = []
    for name in used:
        own, of = (every[: model.nq], model.q_units) if name[0] == "q" else (every[model.nq :], model.v_units)
        if name == "a_R":
            own, of = [f"der({n})" for n in own], tuple(f"{unit}^2" if unit.endswith("/s") else "" for unit in of)
        names += [f"reference.{n}" for n in own] if name.endswith("_R") else own
        units += of
    start = [model.neutral() if name[0] == "q" else np.zeros(size) for name, size in used.items()]
    return Variables(tuple(names), tuple(units), np.concatenate(start))
