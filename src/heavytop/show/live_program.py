"""The Python program of a live page: lines that make its run, with places for the present settings."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytop import copters, library
from heavytop.control import ComputedTorque, LinearQuadratic, Tracking
from heavytop.simulate import LiveStep

if TYPE_CHECKING:
    from heavytop.copters import Flight

UNKNOWN = "...  # as in the program that made this page: "
MOST_SAMPLES = 200
"""Samples of inputs that are written out."""


def program_of(live: LiveStep) -> dict[str, Any]:
    """Lines of the program of a run.

    ``head`` makes the system, ``changes`` it as numbers of the page do (number -> lines with ``VALUE``), ``model`` derives it, ``law`` makes its law;
    ``arguments`` of ``simulate`` that are not settings of the page; ``run``: lines in place of ``simulate``, if any; ``live`` makes the LiveRun that
    takes the other settings; ``show``: the object of which this is the page.
    """
    model, plan = live.described, live.problem.plan
    built_in = library.name_of(model)
    system = f"ht.library.load({_literal(built_in)})" if built_in else f"{UNKNOWN}the system {_literal(model.name)}"
    law, arguments = _law(live)
    arguments = [f"integrator={_literal(live.integrator.name)}", *arguments]
    if live.problem.start_time:
        arguments.append(f"start_time={live.problem.start_time!r}")
    before = []
    if plan.control.law is None and len(plan.table) > 1:
        rows = plan.table.reshape(len(plan.table), -1)
        known = len(rows) <= MOST_SAMPLES and not plan.table.shape[1:-1]
        before = [f"inputs = {_literal(rows.tolist())}" if known else f"inputs = {UNKNOWN}{len(rows)} samples"]
        arguments += ["inputs=inputs", *_period(plan.every, live)]
    return {
        "head": ["", f"system = {system}"],
        "changes": {} if law else _changes(live),  # a law is made for the system as it was
        "model": ["model = system.derive()", *before],
        "law": law,
        "arguments": arguments,
        "run": [],
        "live": "ht.simulate.LiveRun(run)",
        "show": "run",
    }


def flight_program(flight: Flight) -> dict[str, Any]:
    """As :func:`program_of`, for a flight."""
    name, maneuver, c = flight.vehicle.name.replace("_", "-"), flight.maneuver.name, flight.conditions
    known = name in copters.vehicle_names() and copters.load(name) == flight.vehicle
    vehicle = f"copters.load({_literal(name)})" if known else f"{UNKNOWN}the vehicle {_literal(flight.vehicle.name)}"
    named = known and maneuver in copters.maneuvers.suited(flight.vehicle)
    named = named and copters.maneuvers.make(maneuver, flight.vehicle) == flight.maneuver
    path = _literal(maneuver) if named else f"{UNKNOWN}the maneuver {_literal(maneuver)}"
    settings, options = flight.run.settings, []
    options += [] if flight.limits else ["limits=False"]
    options += [f"wind={_literal(np.asarray(c.wind).tolist())}"] if np.any(c.wind) else []
    options += [f"integral={flight.integral}"] if flight.integral != bool(np.any(c.wind) or c.payload) else []
    given = {"noise": c.noise, "payload": c.payload, "seed": c.seed, "delay": c.delay, "rotors": flight.rotors}
    options += [f"{key}={value!r}" for key, value in given.items() if value]
    options += [f"step={settings.step!r}", f"until={settings.until!r}"]
    call = ", ".join(["vehicle", "maneuver", _literal(flight.law), "start=start", *options])
    return {
        "head": ["from heavytop import copters", "", f"vehicle = {vehicle}", f"maneuver = {path}"],
        "changes": {},
        "model": ["model = vehicle.model"],
        "law": [],
        "arguments": [],
        "run": [f"flight = copters.fly({call})"],
        "live": "flight.live()",
        "show": "flight",
    }


def _changes(live: LiveStep) -> dict[str, list[str]]:
    """Number of the page -> lines that change the system before it is derived."""
    model = live.described
    hinges = [edge.label for edge in model.description.joints if edge.joint.coordinates.nv == 1]
    found: dict[str, list[str]] = {}
    for n in live.numbers:
        if n.name == "gravity" and n.kind == "system":
            unit = np.asarray(model.description.gravity, dtype=float) / n.value
            terms = ", ".join("0.0" if x == 0 else f"{float(x)!r} * VALUE" for x in unit)
            found[f"p{n.index}"] = [f"system.gravity = ({terms})"]
        elif n.kind == "system" and n.value == 0.0:
            found[f"p{n.index}"] = [
                f"for joint in {_literal(hinges)}:",
                "    system.joint_damper(joint, damping=VALUE)",
            ]
    return found


def _law(live: LiveStep) -> tuple[list[str], list[str]]:
    """Lines that make the law, and its arguments of ``simulate``."""
    control, arguments = live.problem.plan.control, ["control=law"]
    if control.law is None:
        return [], []
    law: Any = control.law.law
    if control.kind == "continuous":
        arguments.append('hold="continuous"')
    arguments += _period(control.every, live)
    if isinstance(law, LinearQuadratic) and law.design and law.model.key == live.described.key:
        options = dict(law.design)
        place = options.pop("reference")
        return [f"law = ht.control.lqr(model, {_call([place], options)})"], arguments
    if (
        isinstance(law, Tracking)
        and isinstance(law.controller, ComputedTorque)
        and law.followed.is_constant
        and not law.knows_parameters
    ):
        inner = law.controller
        options = {"stiffness": inner.stiffness.tolist(), "damping": inner.damping.tolist()}
        arguments.append(f"reference={_literal(law.followed(np.zeros(1))[0][0].tolist())}")
        return [f"law = ht.control.computed_torque(model, {_call([], options)})"], arguments
    return [f"law = {UNKNOWN}{' '.join(repr(law).split())}"], arguments


def _period(every: int, live: LiveStep) -> list[str]:
    return [f"control_step={every * live.problem.step!r}"] if every > 1 else []


def _call(values: Sequence[Any], options: dict[str, Any]) -> str:
    return ", ".join([*map(_literal, values), *(f"{name}={_literal(value)}" for name, value in options.items())])


def _literal(value: Any) -> str:
    """Plain data as Python text."""
    return (
        json.dumps(value, ensure_ascii=False)
        if isinstance(value, str)
        else re.sub(r"\binf\b", 'float("inf")', repr(value))
    )
