"""Faults of the kind that were found are planted, one by one: the library gets a description with the fault, the oracle the right one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from oracle.compare import ALWAYS, Case, compare
from oracle.description import WORLD, Element, Smooth, State, SystemData, Wave
from oracle.maximal import Maximal
from oracle.test_random_systems import COUNT, MORE, PARTS, drawn

Fault = Callable[[SystemData, State], SystemData | None]
FAULTS: dict[str, Fault] = {}


def fault(fn: Fault) -> Fault:
    FAULTS[fn.__name__] = fn
    return fn


def first(items: tuple[Any, ...], fits: Callable[[Any], bool]) -> int | None:
    return next((k for k, item in enumerate(items) if fits(item)), None)


def changed(items: tuple[Any, ...], k: int, **values: Any) -> tuple[Any, ...]:
    return (*items[:k], replace(items[k], **values), *items[k + 1 :])


def with_data(data: SystemData, k: int, **values: Any) -> SystemData:
    return replace(data, elements=changed(data.elements, k, data={**data.elements[k].data, **values}))


@fault
def gravity_on_the_armature_of_a_free_joint(data: SystemData, state: State) -> SystemData | None:
    """A rotor's inertia is no mass, but falls like one."""
    free = [edge.name for edge in data.joints if edge.joint.kind == "free" and not edge.joint.velocity]
    k = first(data.elements, lambda e: e.kind == "armature" and e.a in free)
    if k is None:
        return None
    at = Maximal(data, state)
    name, part = data.elements[k].a, at._rotor(data.elements[k])[0]
    force = np.zeros(at.nv)
    force[at.own[name]] = part @ np.concatenate([at.motion[name].R.T @ at.gravity, np.zeros(3)])
    return replace(
        data, elements=(*data.elements, Element("force", data={"f": Smooth(1.0), "g": force, "h": 0 * force}))
    )


LOOSER = {"prismatic": "cylindrical", "universal": "spherical", "fixed": "spherical", "revolute": "spherical"}
"""Joints with fewer equations."""


@fault
def lost_constraint_row(data: SystemData, state: State) -> SystemData | None:
    k = first(data.loops, lambda loop: loop.joint.kind in ("revolute", *LOOSER))
    if k is None:
        return None
    joint = data.loops[k].joint
    in_plane = joint.kind == "revolute" and joint.axes[0][2] == 1.0
    looser = replace(joint, kind="planar" if in_plane else LOOSER[joint.kind])
    return replace(data, loops=changed(data.loops, k, joint=looser))


@fault
def forgotten_drift(data: SystemData, state: State) -> SystemData | None:
    k = first(data.velocity_rows, lambda row: bool(row.drift.terms))
    return (
        None
        if k is None or data.basis is not None
        else replace(data, velocity_rows=changed(data.velocity_rows, k, drift=Smooth()))
    )


@fault
def forgotten_work_of_a_constraint(data: SystemData, state: State) -> SystemData | None:
    k = first(data.velocity_rows, lambda row: row.work > 0)
    return None if k is None else replace(data, velocity_rows=changed(data.velocity_rows, k, work=0.0))


@fault
def wrong_pivot(data: SystemData, state: State) -> SystemData | None:
    """The inverse of a velocity map is off by 1e-7, as after an elimination with a small pivot."""
    if data.velocity_map is None:
        return None
    i, j, _ = data.velocity_map[0]
    return replace(data, velocity_map=(*data.velocity_map, (i, j, Smooth(1e-7))))


@fault
def damping_in_absolute_velocities(data: SystemData, state: State) -> SystemData | None:
    k = first(data.elements, lambda e: e.kind == "damper" and e.a != WORLD)
    return None if k is None else replace(data, elements=changed(data.elements, k, a=WORLD))


@fault
def missing_parallel_axis_term(data: SystemData, state: State) -> SystemData | None:
    """The moment about the origin is taken for the one about the centre of mass."""
    k = first(
        data.bodies,
        lambda body: isinstance(body.mass, float) and body.mass > 0 and all(isinstance(x, float) for x in body.com),
    )
    if k is None:
        return None
    body, c = data.bodies[k], np.array(data.bodies[k].com)
    return replace(
        data, bodies=changed(data.bodies, k, moment=body.moment + body.mass * (c @ c * np.eye(3) - np.outer(c, c)))
    )


@fault
def rotor_without_gyroscopic_effect(data: SystemData, state: State) -> SystemData | None:
    k = first(data.elements, lambda e: e.kind == "armature" and e.b != "")
    return None if k is None else replace(data, elements=changed(data.elements, k, b=""))


def slow(x: Any, t: float) -> Any:
    """A wave with the same value and velocity at t, and no acceleration."""
    if not isinstance(x, Wave):
        return x
    value, rate = (
        x.mean + x.amplitude * np.sin(x.rate * t + x.phase),
        x.amplitude * x.rate * np.cos(x.rate * t + x.phase),
    )
    return Wave(float(value), float(rate) / 1e-3, 1e-3, -1e-3 * t)


@fault
def moving_frame_without_acceleration(data: SystemData, state: State) -> SystemData | None:
    k = first(data.edges, lambda edge: any(isinstance(x, Wave) for x in edge.at.p))
    if k is None:
        return None
    at = data.edges[k].at
    return replace(data, edges=changed(data.edges, k, at=replace(at, p=tuple(slow(x, state.t) for x in at.p))))


@fault
def driver_without_acceleration(data: SystemData, state: State) -> SystemData | None:
    k = first(data.edges, lambda edge: bool(edge.joint.motion))
    if k is None:
        return None
    joint = data.edges[k].joint
    return replace(
        data, edges=changed(data.edges, k, joint=replace(joint, motion=tuple(slow(x, state.t) for x in joint.motion)))
    )


@fault
def transposed_placement(data: SystemData, state: State) -> SystemData | None:
    k = first(data.edges, lambda edge: edge.joint.nv > 0 and not np.allclose(edge.at.R, edge.at.R.T) and not data.loops)
    return (
        None
        if k is None
        else replace(data, edges=changed(data.edges, k, at=replace(data.edges[k].at, R=data.edges[k].at.R.T)))
    )


@fault
def spring_without_reaction(data: SystemData, state: State) -> SystemData | None:
    """What an element between two bodies does to the first one is lost."""
    k = first(data.elements, lambda e: e.kind == "strut" and WORLD not in (e.a, e.b))
    if k is None or any(isinstance(x, Wave) for x in data.elements[k].data["at_a"]):
        return None
    at = Maximal(data, state)
    body = at.motion[data.elements[k].a]
    point = body.origin + body.R @ at.value(data.elements[k].data["at_a"])
    element = replace(
        data.elements[k], a=WORLD, data={**data.elements[k].data, "at_a": tuple(point.tolist()), "damping": 0.0}
    )
    return replace(data, elements=(*data.elements[:k], element, *data.elements[k + 1 :]))


@fault
def wrench_without_reaction(data: SystemData, state: State) -> SystemData | None:
    k = first(data.inputs, lambda x: x.kind == "wrench" and x.data["relative_to"] != WORLD)
    return (
        None
        if k is None
        else replace(data, inputs=changed(data.inputs, k, data={**data.inputs[k].data, "relative_to": WORLD}))
    )


@fault
def gear_of_a_coupling_in_the_wrong_sense(data: SystemData, state: State) -> SystemData | None:
    k = first(data.edges, lambda edge: edge.joint.source != "" and isinstance(edge.joint.ratio, float))
    return (
        None
        if k is None
        else replace(
            data, edges=changed(data.edges, k, joint=replace(data.edges[k].joint, ratio=-data.edges[k].joint.ratio))
        )
    )


@fault
def stale_parameter(data: SystemData, state: State) -> SystemData | None:
    return (
        replace(data, parameters={name: value * (1 + 1e-6) for name, value in data.parameters.items()})
        if data.parameters
        else None
    )


@pytest.mark.parametrize("name", FAULTS)
def test_fault_is_noticed(name: str) -> None:
    for k in range((PARTS + MORE) * COUNT):
        data, state = drawn(k)
        faulty = FAULTS[name](data, state)
        if faulty is None:
            continue
        found = compare(Case(faulty, state, oracle=Maximal(data, state)), ALWAYS)
        if any(one.is_deviation for one in found):
            return
    raise AssertionError("no system of the suite notices this fault")


@pytest.mark.thorough
def test_sign_of_the_coriolis_terms_is_noticed() -> None:
    """a(q, v) = a(q, 0) - M^-1 c becomes a(q, 0) + M^-1 c."""
    noticed = 0
    for data, state in map(drawn, range(30)):
        plain = replace(data, elements=tuple(e for e in data.elements if e.kind == "armature"), inputs=())
        if (
            data.velocity_rows
            or data.loops
            or data.position_rows
            or data.velocity_map
            or data.velocity_frames
            or len(data.bodies) > 2
        ):
            continue
        case = Case(plain, replace(state, u={}))
        q, v, u = case.arguments
        still = case.model.acceleration(q, 0 * v, u, parameters=case.parameters)
        moving = case.model.acceleration(q, v, u, parameters=case.parameters)
        case.note("acceleration", 2 * still - moving, case.oracle.acceleration, case.acceleration_scale)
        case.note("acceleration", moving, case.oracle.acceleration, case.acceleration_scale)
        wrong, right = case.results
        assert not right.is_deviation
        noticed += wrong.is_deviation
    assert noticed >= 3
