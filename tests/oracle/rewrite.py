"""The same system described in another way: other units, another world frame, another order. None where the description does not allow it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from oracle.description import WORLD, Body, Edge, Element, Input, Joint, Par, Place, State, SystemData, Wave
from oracle.maximal import exp_rotation

Back = Callable[[np.ndarray], np.ndarray]
Rewritten = tuple[SystemData, State, Back] | None


# --- order ------------------------------------------------------------------------------------------------------------------


def reordered(data: SystemData, state: State, rng: np.random.Generator) -> Rewritten:
    """Bodies, joints, elements and inputs declared in a random order."""
    edges = tuple(data.edges[i] for i in rng.permutation(len(data.edges)))
    other = replace(data, edges=edges)
    start, count = {}, 0
    for edge in data.joints:
        start[edge.name] = count
        count += edge.joint.nv
    order = np.array(
        [start[edge.name] + k for edge in other.joints for k in range(edge.joint.nv)], dtype=int
    )  # new -> old
    inverse = np.argsort(order)
    elements = []
    for i in rng.permutation(len(data.elements)):
        element = data.elements[i]
        vectors = {
            name: element.data[name][order]
            for name in ("g", "h")
            if element.kind in ("dissipation", "force") and name in element.data
        }
        elements.append(replace(element, data={**element.data, **vectors}))
    entries = (
        None
        if data.velocity_map is None
        else tuple((int(inverse[i]), int(inverse[j]), f) for i, j, f in data.velocity_map)
    )
    other = replace(
        other,
        elements=tuple(elements),
        inputs=tuple(data.inputs[i] for i in rng.permutation(len(data.inputs))),
        bodies=tuple(data.bodies[i] for i in rng.permutation(len(data.bodies))),
        velocity_map=entries,
    )
    return other, state, (lambda a: a) if data.basis is not None else (lambda a: a[inverse])


# --- world --------------------------------------------------------------------------------------------------------------------


def moved_world(data: SystemData, state: State, rng: np.random.Generator) -> Rewritten:
    """Everything in a frame "lab" that is turned and shifted in the world."""
    if any(isinstance(x, Par | Wave) for x in data.gravity) or any(
        x.kind == "wrench" and x.data["frame"] == "world" for x in data.inputs
    ):
        return None
    R, p = exp_rotation(rng.standard_normal(3)), rng.standard_normal(3)

    def lab(name: str) -> str:
        return "lab" if name == WORLD else name

    edges = (
        Edge("lab", WORLD, "lab", Joint("fixed"), Place(tuple(p.tolist()), R)),
        *(replace(e, a=lab(e.a), b=lab(e.b)) for e in data.edges),
    )
    pairs = ("spring", "springs", "damper", "strut", "drag")
    elements = tuple(replace(e, a=lab(e.a), b=lab(e.b)) if e.kind in pairs else e for e in data.elements)
    inputs = tuple(
        replace(x, data={**x.data, "relative_to": lab(x.data["relative_to"])}) if x.kind == "wrench" else x
        for x in data.inputs
    )
    loops = tuple(replace(loop, a=lab(loop.a), b=lab(loop.b)) for loop in data.loops)
    gravity = tuple((R @ np.array(data.gravity, dtype=float)).tolist())
    bodies = (Body("lab", is_frame=True), *data.bodies)
    return (
        replace(data, bodies=bodies, edges=edges, elements=elements, inputs=inputs, loops=loops, gravity=gravity),
        state,
        lambda a: a,
    )


# --- units --------------------------------------------------------------------------------------------------------------------

LENGTH, MASS, TIME = 10.0, 0.3, 4.0
"""Numbers in new units per number in old ones."""
FIXED_KINDS = ("drag", "quartic", "potential", "dissipation", "force")


def factor(length: int, mass: int, time: int) -> float:
    return LENGTH**length * MASS**mass * TIME**time


def scaled(x: Any, by: float) -> Any:
    """A number, or a tuple of them, times a factor; waves in the new time."""
    if isinstance(x, tuple):
        return tuple(scaled(part, by) for part in x)
    if isinstance(x, Par):
        return Par(x.name, x.factor * by, x.offset * by)
    if isinstance(x, Wave):
        return Wave(x.mean * by, x.amplitude * by, x.rate / TIME, x.phase)
    return x * by


def lengths(joint: Joint) -> list[int]:
    """Exponent of the length of each velocity."""
    return {"prismatic": [1], "cylindrical": [0, 1], "planar": [1, 1, 0], "free": [1, 1, 1, 0, 0, 0]}.get(
        joint.kind, [0] * joint.nv
    )


def coordinate_lengths(joint: Joint, size: int) -> list[int]:
    return (
        [1, 1, 1] + [0] * (size - 3)
        if joint.kind == "free"
        else [0] * size
        if joint.circle or joint.kind == "spherical"
        else lengths(joint)
    )


def scaled_place(at: Place) -> Place:
    return replace(at, p=scaled(at.p, LENGTH), angle=scaled(at.angle, 1.0))


def scaled_joint(joint: Joint, source: Joint | None) -> Joint:
    if joint.kind == "custom":
        by = {"slide": LENGTH, "turn": 1.0}
        joint = replace(
            joint, stages=tuple((what, axis, by[what] * x, by[what] * y) for what, axis, x, y in joint.stages)
        )
    exponents = lengths(joint)
    if joint.motion:
        joint = replace(joint, motion=tuple(scaled(x, LENGTH**n) for x, n in zip(joint.motion, exponents, strict=True)))
    if source is not None:
        own = LENGTH ** exponents[0]
        joint = replace(
            joint, ratio=scaled(joint.ratio, own / LENGTH ** lengths(source)[0]), offset=scaled(joint.offset, own)
        )
    return joint


def scaled_element(element: Element, joints: dict[str, Joint]) -> Element:
    d = dict(element.data)
    if element.kind in ("spring", "damper"):
        time = -2 if element.kind == "spring" else -1
        d |= {"total": scaled(d["total"], factor(0, 1, time)), "center": scaled(d["center"], LENGTH)}
        d["factor"] = scaled(d["factor"], factor(2, 1, time))
        if d.get("rest") is not None:
            d["rest"] = scaled_place(d["rest"])
        return replace(element, data=d)
    if element.kind == "springs":
        points = {name: LENGTH * d[name] for name in ("points_a", "points_b")}
        return replace(element, data={**points, "k": d["k"] * factor(0, 1, -2)})
    if element.kind == "strut":
        powers = {
            "at_a": (1, 0, 0),
            "at_b": (1, 0, 0),
            "stiffness": (0, 1, -2),
            "rest_length": (1, 0, 0),
            "damping": (0, 1, -1),
        }
        return replace(element, data={name: scaled(value, factor(*powers[name])) for name, value in d.items()})
    exponents = lengths(joints[element.a])

    def each(name: str, mass: int, time: int, sign: int) -> Any:
        """One number for each velocity: (force or inertia) per length**sign of the coordinate."""
        value = d[name] if isinstance(d[name], tuple) else (d[name],) * len(exponents)
        return tuple(
            scaled(x, factor(sign * n + (2 if mass else 0), mass, time)) for x, n in zip(value, exponents, strict=True)
        )

    if element.kind == "joint_spring":
        d = {"stiffness": each("stiffness", 1, -2, -2), "rest": each("rest", 0, 0, 1)}
    elif element.kind == "joint_damper":
        d = {"damping": each("damping", 1, -1, -2)}
    elif element.kind == "armature":
        d = {**d, "inertia": each("inertia", 1, 0, -2)}
        if len(exponents) == 1:
            d["inertia"] = d["inertia"][0]
            if element.b and exponents[0]:  # I n w: the gear of a sliding joint is an angle per length
                d |= {
                    "inertia": scaled(element.data["inertia"], factor(2, 1, 0)),
                    "gear_ratio": scaled(d["gear_ratio"], 1 / LENGTH),
                }
    elif element.kind == "joint_friction" and len(exponents) == 1:
        n = exponents[0]
        d |= {name: scaled(d[name], factor(2 - n, 1, -2)) for name in ("coulomb", "static")}
        d["viscous"] = scaled(d["viscous"], factor(2 - 2 * n, 1, -1))
        d |= {name: d[name] * factor(n, 0, -1) for name in ("stribeck_speed", "smoothing")}
    elif element.kind == "joint_stop" and len(set(exponents)) == 1:
        n = exponents[0]
        d |= {name: d[name] * LENGTH**n for name in ("lower", "upper", "smoothing")}
        d |= {
            "stiffness": scaled(d["stiffness"], factor(2 - 2 * n, 1, -2)),
            "damping": scaled(d["damping"], factor(2 - 2 * n, 1, -1)),
        }
    else:
        raise NotImplementedError
    return replace(element, data=d)


def scaled_input(given: Input, joints: dict[str, Joint]) -> Input:
    """Inputs keep their numbers: gears and forces per unit of them change."""
    d = dict(given.data)
    if given.kind == "thruster":
        if isinstance(d["drag_ratio"], Wave):
            raise NotImplementedError
        return replace(given, data={**d, "at": scaled(d["at"], LENGTH), "drag_ratio": scaled(d["drag_ratio"], LENGTH)})
    if given.kind == "joint_force":
        n = lengths(joints[given.target])[d["index"]]
        return replace(given, data={**d, "gear": scaled(d["gear"], factor(2 - n, 1, -2))})
    return replace(
        given,
        data={**d, "force": scaled(d["force"], factor(1, 1, -2)), "moment": scaled(d["moment"], factor(2, 1, -2))},
    )


def other_units(data: SystemData, state: State, rng: np.random.Generator) -> Rewritten:
    """Lengths, masses and times in other units."""
    written = data.velocity_rows or data.position_rows or data.velocity_map is not None
    if (
        written
        or any(e.kind in FIXED_KINDS for e in data.elements)
        or any(e.joint.velocity == "unified" for e in data.edges)
    ):
        return None
    joints = {edge.name: edge.joint for edge in data.edges}
    bodies = tuple(
        replace(
            b,
            mass=scaled(b.mass, MASS),
            com=scaled(b.com, LENGTH),
            moment_factor=scaled(b.moment_factor, factor(2, 1, 0)),
        )
        for b in data.bodies
    )
    edges = tuple(
        replace(e, joint=scaled_joint(e.joint, joints.get(e.joint.source)), at=scaled_place(e.at)) for e in data.edges
    )
    loops = tuple(
        replace(x, joint=scaled_joint(x.joint, None), at_a=scaled_place(x.at_a), at_b=scaled_place(x.at_b))
        for x in data.loops
    )
    try:
        elements = tuple(scaled_element(e, joints) for e in data.elements)
        inputs = tuple(scaled_input(x, joints) for x in data.inputs)
    except NotImplementedError:
        return None
    other = replace(
        data,
        bodies=bodies,
        edges=edges,
        loops=loops,
        elements=elements,
        inputs=inputs,
        gravity=scaled(data.gravity, factor(1, 0, -2)),
    )
    thrust = {x.name: factor(1, 1, -2) for x in data.inputs if x.kind == "thruster"}
    q = {
        name: _times(value, coordinate_lengths(joints[name], len(value)))
        for name, value in state.q.items()
        if name in joints
    }
    q |= {x.name: _times(state.q[x.name], coordinate_lengths(x.joint, len(state.q[x.name]))) for x in data.loops}
    v = {name: _times(value, lengths(joints[name])) / TIME for name, value in state.v.items()}
    u = {name: value * thrust.get(name, 1.0) for name, value in state.u.items()}
    sizes = np.concatenate([LENGTH ** np.array(lengths(edge.joint), dtype=float) for edge in data.joints])
    return other, State(q, v, state.t * TIME, u), lambda a: a / sizes * TIME**2


def _times(value: np.ndarray, exponents: list[int]) -> np.ndarray:
    return np.asarray(value) * LENGTH ** np.array(exponents, dtype=float)
