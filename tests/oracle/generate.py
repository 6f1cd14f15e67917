"""Random systems over the whole vocabulary, with a state of motion that satisfies their loops and constraints."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from oracle.description import (
    WORLD,
    Body,
    Edge,
    Element,
    Input,
    Joint,
    Loop,
    Number,
    Par,
    Place,
    PositionRow,
    Smooth,
    State,
    SystemData,
    VelocityRow,
    Wave,
)
from oracle.jets import jet
from oracle.maximal import Maximal, consistent, joint_pose, neutral

LARGEST_CONDITION = 1e9
"""Systems that amplify rounding more than this are drawn again."""
KINDS = ("revolute", "prismatic", "cylindrical", "universal", "planar", "spherical", "free", "custom", "fixed")
CHANCES = np.array([0.32, 0.12, 0.07, 0.08, 0.08, 0.13, 0.08, 0.08, 0.04])


@dataclass
class Drawn:
    """The system under construction."""

    rng: np.random.Generator
    with_parameters: bool
    with_time: bool
    planar: bool
    parameters: dict[str, float] = field(default_factory=dict)
    spread: float = 0.0
    """Decades by which masses differ, up and down."""

    def chance(self, p: float) -> bool:
        return bool(self.rng.uniform() < p)

    def pick(self, items: Any) -> Any:
        return items[int(self.rng.integers(len(items)))]

    def vector(self, size: float = 1.0) -> np.ndarray:
        return size * self.rng.standard_normal(3)

    def unit(self) -> np.ndarray:
        if self.planar:
            return np.array([0.0, 0.0, 1.0])
        if self.chance(0.3):
            return self.pick((1.0, -1.0)) * np.eye(3)[self.rng.integers(3)]
        x = self.vector()
        return x / np.linalg.norm(x)

    def rotation(self, least: float = 0.2, most: float = 2.6) -> np.ndarray:
        axis, angle = self.unit(), self.rng.uniform(least, most)
        return joint_pose(Joint("revolute", (axis,)), jet([angle]))[0].f0

    def number(self, x: float, time: bool = True) -> Number:
        """The number itself, or a parameter of that value, or a wave about it."""
        if self.with_parameters and len(self.parameters) < 4 and self.chance(0.15):
            name = f"p{len(self.parameters)}"
            self.parameters[name] = float(self.rng.uniform(0.6, 1.6))
            return Par(name, x / self.parameters[name])
        if time and self.with_time and self.chance(0.15):
            return Wave(x, 0.3 * abs(x) + 0.01, float(self.rng.uniform(0.5, 2.0)), float(self.rng.uniform(0, 6)))
        return float(x)

    def numbers(self, x: np.ndarray, time: bool = True) -> tuple[Number, ...]:
        return tuple(self.number(float(part), time) for part in x)

    def place(self, size: float = 0.5) -> Place:
        if self.planar:
            p = self.vector(size) * np.array([1.0, 1.0, 0.0])
            return Place((*self.numbers(p[:2]), 0.0))
        R = self.rotation() if self.chance(0.6) else np.eye(3)
        moving = self.with_time and self.chance(0.2)
        angle: Number = Wave(0.1, 0.5, float(self.rng.uniform(0.5, 2)), 0.3) if moving else 0.0
        if self.with_parameters and not moving and self.chance(0.1):
            angle = self.number(0.7, time=False)
        return Place(self.numbers(self.vector(size)), R, tuple(self.unit()), angle)

    def moment(self, size: float) -> np.ndarray:
        """A moment of inertia of some distribution."""
        points = self.rng.standard_normal((5, 3))
        return size * np.sum([np.dot(x, x) * np.eye(3) - np.outer(x, x) for x in points], axis=0) / 5

    def smooth(self, edges: list[Edge], size: float, base: float = 0.0, count: int = 2) -> Smooth:
        terms = []
        for _ in range(int(self.rng.integers(1, count + 1))):
            edge = self.pick(edges)
            component = int(self.rng.integers(len(neutral(edge.joint))))
            c, w, p = size * self.rng.standard_normal(), self.rng.uniform(0.5, 1.5), self.rng.uniform(0, 6)
            terms.append((float(c), edge.name, component, float(w), float(p)))
        return Smooth(self.number(base), tuple(terms))


def random_joint(d: Drawn, root: bool) -> Joint:
    kind = str(d.rng.choice(KINDS, p=CHANCES / CHANCES.sum()))
    if d.planar:
        kind = d.pick(("revolute", "revolute", "revolute", "prismatic", "planar"))
        if kind == "prismatic":
            angle = d.rng.uniform(0, 6)
            return Joint(kind, (np.array([np.cos(angle), np.sin(angle), 0.0]),))
    if root and kind == "fixed":
        kind = "revolute"
    attitude = d.pick(("matrix", "matrix", "quaternion", "euler"))
    if kind == "revolute":
        return Joint(kind, (d.unit(),), circle=d.chance(0.2))
    if kind == "universal":
        return Joint(kind, (np.array([1.0, 0, 0]), np.array([0, 1.0, 0])) if d.chance(0.4) else (d.unit(), _skewed(d)))
    if kind == "spherical":
        return Joint(kind, attitude=attitude, velocity="absolute" if d.chance(0.2) else "")
    if kind == "free":
        return Joint(kind, attitude=attitude, velocity=d.pick(("", "", "mixed", "unified")))
    if kind == "custom":
        n = int(d.rng.integers(1, 3))
        stages = tuple(
            (what, d.unit(), d.rng.uniform(-1, 1, n), d.rng.uniform(-0.3, 0.3, n))
            for what in (("turn", "slide", "turn") if n == 2 else ("turn", "slide"))
        )
        return Joint(kind, stages=stages)
    return Joint(kind, (d.unit(),) if kind in ("prismatic", "cylindrical") else ())


def _skewed(d: Drawn) -> np.ndarray:
    return np.array([0.6, 0.0, 0.8]) if d.chance(0.5) else np.array([0.48, 0.64, 0.6])


def random_q(d: Drawn, joint: Joint) -> np.ndarray:
    if joint.kind == "revolute":
        angle = d.rng.uniform(-2.5, 2.5)
        return np.array([np.cos(angle), np.sin(angle)]) if joint.circle else np.array([angle])
    if joint.kind in ("spherical", "free"):
        R = d.rotation()
        if joint.attitude == "matrix":
            turned = R.T.reshape(9)
        elif joint.attitude == "euler":
            turned = d.rng.uniform(-1.1, 1.1, 3)
        else:
            turned = d.rng.standard_normal(4) + np.array([1.0, 0, 0, 0])
            turned /= np.linalg.norm(turned)
        return np.concatenate([d.vector(0.6), turned]) if joint.kind == "free" else turned
    return d.rng.uniform(-1.2, 1.2, joint.nv)


def random_element(d: Drawn, edges: list[Edge], joints: list[Edge], names: list[str], nv: int) -> Element:
    pairs = ("spring", "springs", "damper", "strut", "drag")
    singles = ("joint_spring", "joint_damper", "joint_friction", "joint_stop", "armature", "armature", "quartic")
    whole = ("potential", "dissipation", "force")
    kind = d.pick(pairs + singles + whole)
    if kind in pairs:
        a, b = d.rng.choice([WORLD, *names], 2, replace=False)
        if kind == "strut":
            data: dict[str, Any] = {
                "at_a": d.numbers(d.vector(0.5), time=False),
                "at_b": d.numbers(d.vector(0.5), time=False),
                "stiffness": d.number(float(d.rng.uniform(1, 20))),
                "rest_length": d.number(float(d.rng.uniform(0.1, 0.8))),
                "damping": d.number(float(d.rng.uniform(0, 2))),
            }
        elif kind == "springs":
            count = int(d.rng.integers(1, 5))
            data = {
                "k": d.rng.uniform(1, 10, count),
                "points_b": d.rng.standard_normal((count, 3)),
                "points_a": d.rng.standard_normal((count, 3)),
            }
        elif kind == "drag":
            data = {"drag": d.number(float(d.rng.uniform(0, 1))), "cubic": d.number(float(d.rng.uniform(0, 2)))}
        else:
            data = {"total": d.number(float(d.rng.uniform(1, 20) if kind == "spring" else d.rng.uniform(0.1, 2)))}
            data |= {
                "center": d.numbers(d.vector(0.4), time=False),
                "moment": d.moment(1.0 if kind == "spring" else 0.2),
            }
            data["factor"] = d.number(float(d.rng.uniform(0.5, 3)))
            if kind == "spring":
                data["rest"] = None if d.chance(0.3) else d.place(0.4)
        return Element(kind, str(a), str(b), data)
    if kind in singles:
        slots = [e for e in edges if e.joint.nv and not e.joint.motion]
        edge = d.pick(slots)
        n = edge.joint.nv
        many = n > 1 and d.chance(0.5) and edge.joint.kind != "coupled"

        def some(low: float, high: float, time: bool = True) -> Any:
            return (
                d.numbers(d.rng.uniform(low, high, n), time)
                if many
                else d.number(float(d.rng.uniform(low, high)), time)
            )

        if kind == "joint_spring":
            return Element(kind, edge.name, data={"stiffness": some(1, 10), "rest": some(-0.3, 0.3)})
        if kind == "joint_damper":
            return Element(kind, edge.name, data={"damping": some(0.1, 2)})
        if kind == "joint_friction":
            data = {
                "coulomb": some(0.1, 1),
                "static": some(1, 2),
                "viscous": some(0.02, 1),  # its waves remain positive
                "stribeck_speed": 0.4,
                "smoothing": 0.3,
            }
            return Element(kind, edge.name, data=data)
        if kind == "joint_stop":
            data = {
                "lower": -0.4,
                "upper": 0.5,
                "stiffness": d.number(float(d.rng.uniform(5, 20))),
                "damping": d.number(1.0),
                "smoothing": 0.1,
            }
            return Element(kind, edge.name, data=data)
        if kind == "quartic":
            return Element(
                kind,
                edge.name,
                data={"c": d.number(float(d.rng.uniform(0, 2))), "d": d.number(float(d.rng.uniform(0, 0.3)))},
            )
        data = {"inertia": some(0.01, 0.3, time=False), "gear_ratio": some(0.5, 3, time=False), "axis": tuple(d.unit())}
        on = str(d.pick(names)) if n == 1 and d.chance(0.6) else ""
        return Element(kind, edge.name, on, data)
    f = d.smooth(joints, 1.0, 0.5)
    if kind == "potential":
        return Element(kind, data={"f": f})
    g = d.rng.standard_normal(nv)
    return Element(
        kind, data={"f": f, "g": g} if kind == "dissipation" else {"f": f, "g": g, "h": 0.3 * d.rng.standard_normal(nv)}
    )


def _as_keywords(d: Drawn, elements: list[Element]) -> list[Element]:
    """Some of the elements in joints as keywords of the joint: of each kind at most one per joint."""
    kinds = ("joint_spring", "joint_damper", "joint_friction", "joint_stop", "armature")
    seen: set[tuple[str, str]] = set()
    made = []
    for element in elements:
        fits = element.kind in kinds and not element.b and (element.kind, element.a) not in seen
        made.append(replace(element, as_keyword=fits and d.chance(0.4)))
        seen.add((element.kind, element.a))
    return made


def random_input(d: Drawn, k: int, joints: list[Edge], edges: list[Edge], names: list[str]) -> Input:
    kind = d.pick(("thruster", "joint_force", "wrench"))
    if kind == "joint_force":
        slots = [e for e in edges if e.joint.nv and not e.joint.motion]
        edge = d.pick(slots)
        return Input(
            f"u{k}",
            kind,
            edge.name,
            {"index": int(d.rng.integers(edge.joint.nv)), "gear": d.number(float(d.rng.uniform(0.5, 3)))},
        )
    body = str(d.pick(names))
    if kind == "thruster":
        return Input(
            f"u{k}", kind, body, {"at": d.numbers(d.vector(0.5)), "axis": d.unit(), "drag_ratio": d.number(0.2)}
        )
    other = str(d.pick([WORLD, WORLD, *(n for n in names if n != body)]))
    data = {
        "force": d.numbers(d.vector()),
        "moment": d.numbers(d.vector()),
        "frame": d.pick(("body", "world")),
        "relative_to": other,
    }
    return Input(f"u{k}", kind, body, data)


def random_tree(d: Drawn, count: int) -> tuple[list[Body], list[Edge]]:
    bodies: list[Body] = []
    edges: list[Edge] = []
    for i in range(count):
        name = f"b{i}"
        parent = WORLD if not bodies or d.chance(0.15) else bodies[-1].name if d.chance(0.5) else d.pick(bodies).name
        sources = [
            e
            for e in edges
            if e.joint.kind in ("revolute", "prismatic") and not e.joint.circle and e.joint.is_independent
        ]
        joint = random_joint(d, parent == WORLD)
        if sources and d.chance(0.1):
            kind = d.pick(("revolute", "prismatic"))
            axis = d.unit() if kind == "revolute" or not d.planar else np.array([1.0, 0.0, 0.0])
            ratio = d.number(float(d.rng.uniform(-2, 2)), time=False)
            joint = Joint(kind, (axis,), source=d.pick(sources).name, ratio=ratio, offset=d.number(0.3, time=False))
        elif (
            d.with_time
            and d.chance(0.15)
            and joint.kind in ("revolute", "prismatic", "cylindrical", "planar", "universal")
        ):
            motion = [
                Wave(float(d.rng.normal()), 0.6, float(d.rng.uniform(0.5, 2)), float(d.rng.uniform(0, 6)))
                for _ in range(joint.nv)
            ]
            joint = replace(joint, circle=False, motion=tuple(motion))
        at = d.place()
        com = d.vector(0.3) * (np.array([1.0, 1.0, 0.0]) if d.planar else 1.0)
        heavy = 10 ** d.rng.uniform(-d.spread, d.spread)
        mass, moment = d.number(heavy * float(d.rng.uniform(0.3, 3)), False), heavy * d.moment(0.1)
        body = Body(name, mass, d.numbers(com, False), moment, d.number(1.0, False))
        if d.chance(0.08) and joint.kind != "free" and joint.is_independent and joint.nv == 1 and i + 1 < count:
            body = Body(name)  # without mass; bodies further out have it, or the condition rejects it
        backwards = d.chance(0.12) and joint.velocity != "absolute" and not d.planar
        edges.append(Edge(name, name, parent, joint, at) if backwards else Edge(name, parent, name, joint, at))
        bodies.append(body)
        if d.chance(0.15) and not d.planar:
            bodies.append(Body(f"f{i}", is_frame=True))
            edges.append(Edge(f"f{i}", name, f"f{i}", Joint("fixed"), d.place()))
    return bodies, edges


def close_loop(d: Drawn, system: SystemData, state: State, k: int) -> tuple[SystemData, State] | None:
    """A loop that is closed in this state, by the choice of its frame at b."""
    names = [body.name for body in system.bodies]
    a, b = (str(x) for x in d.rng.choice([WORLD, *names], 2, replace=False))
    if b == WORLD:
        a, b = b, a
    if d.planar:
        joint = (
            Joint("revolute", (np.array([0.0, 0.0, 1.0]),))
            if d.chance(0.8)
            else Joint("prismatic", (np.array([1.0, 0.0, 0.0]),))
        )
    else:
        kind = d.pick(
            ("revolute", "prismatic", "cylindrical", "universal", "spherical", "spherical", "planar", "fixed")
        )
        axes = {"universal": (np.array([1.0, 0, 0]), np.array([0, 0.6, 0.8]))}.get(kind, (d.unit(),))
        joint = Joint(kind, axes if kind in ("revolute", "prismatic", "cylindrical", "universal") else ())
        if d.chance(0.08):  # a screw
            axis = d.unit()
            joint = Joint(
                "custom",
                stages=(("turn", axis, np.array([1.0]), np.zeros(1)), ("slide", axis, np.array([0.3]), np.zeros(1))),
            )
    q = d.rng.uniform(-1, 1, joint.nv) if joint.kind != "spherical" else random_q(d, joint)
    at_a = d.place(0.3)
    system = replace(system, parameters=dict(d.parameters))
    at = Maximal(system, state)
    A, B = at.motion[a], at.motion[b]
    R1, p1 = at.place(at_a)
    Rj, pj = joint_pose(joint, jet(q) if joint.nv else jet(np.zeros(0)))
    R = A.R @ R1.f0 @ Rj.f0
    p = A.origin + A.R @ (p1.f0 + R1.f0 @ pj.f0)
    at_b = Place(tuple(float(x) for x in B.R.T @ (p - B.origin)), B.R.T @ R)
    loop = Loop(f"loop{k}", a, b, joint, at_a, at_b)
    closed, moved = replace(system, loops=(*system.loops, loop)), replace(state, q={**state.q, loop.name: q})
    at = Maximal(closed, moved)
    fits = at.degrees_of_freedom >= 1 and at.condition < LARGEST_CONDITION and _takes_part(at)
    return (closed, moved) if fits else None


def _takes_part(at: Maximal) -> bool:
    """Whether joints that the constraints bind can still move."""
    Phi = at.constraint_rows[0]
    bound = np.linalg.norm(Phi, axis=0) > 1e-9
    _, sizes, Vt = np.linalg.svd(Phi)
    free = Vt[int(np.sum(sizes > 1e-9)) :]
    return bool(np.max(np.abs(free[:, bound]), initial=0.0) > 1e-3)


def random_system(seed: Any, largest: int = 12) -> tuple[SystemData, State]:
    """A system and a state of it; the same seed draws the same."""
    rng = np.random.default_rng(seed)
    while True:
        found = _attempt(rng, largest)
        if found is not None:
            return found


def _attempt(rng: np.random.Generator, largest: int) -> tuple[SystemData, State] | None:
    planar = bool(rng.uniform() < 0.08)
    d = Drawn(rng, bool(rng.uniform() < 0.45), bool(rng.uniform() < 0.3), planar)
    looped = planar or d.chance(0.2)
    count = 1 + min(int(rng.geometric(0.35)) + (2 if looped else 0), largest - 1)
    looped = looped and largest > 1
    if d.chance(0.12):
        count = 1
    d.spread = float(rng.uniform(0, 2)) if d.chance(0.15) else 0.0
    bodies, edges = random_tree(d, min(count, largest))
    joints = [edge for edge in edges if edge.joint.is_independent]
    nv = sum(edge.joint.nv for edge in joints)
    if not nv:
        return None
    names = [body.name for body in bodies]
    down = np.array([0.0, -9.81, 0.0]) if planar else np.array([0.0, 0.0, -9.81])
    gravity = d.numbers(down if planar or d.chance(0.4) else d.vector(5.0))
    elements = _as_keywords(d, [random_element(d, edges, joints, names, nv) for _ in range(int(rng.poisson(1.6)))])
    inputs = [random_input(d, k, joints, edges, names) for k in range(int(rng.integers(0, 3)))]
    q = {edge.name: random_q(d, edge.joint) for edge in joints}
    v = {edge.name: rng.standard_normal(edge.joint.nv) for edge in joints}
    u = {given.name: float(rng.normal()) for given in inputs}
    state = State(q, v, float(rng.uniform(0, 3)), u)
    plain = SystemData(
        tuple(bodies), tuple(edges), gravity, tuple(elements), tuple(inputs), parameters=dict(d.parameters)
    )
    try:
        if _condition(plain, state) > LARGEST_CONDITION or _has_heavy_rotor(plain, Maximal(plain, state)):
            return None
        system, state = _constrained(d, plain, state, joints, nv, looped)
        if system.loops or system.velocity_rows or system.position_rows:
            state = consistent(system, state)
        at = Maximal(system, state)
        if at.condition > LARGEST_CONDITION or at.degrees_of_freedom < 1:
            return None
        _, _, residual = at.constraint_rows
        if np.max(np.abs(residual), initial=0.0) > 1e-11 * (1 + np.max(np.abs(at.z))) or np.max(np.abs(at.z)) > 30:
            return None
    except np.linalg.LinAlgError:
        return None
    return _unused_removed(system), state


def _condition(system: SystemData, state: State) -> float:
    M, _ = Maximal(system, state).reduced
    if np.min(np.diag(M)) < 1e-12 * np.max(np.diag(M)):
        return np.inf
    scale = 1 / np.sqrt(np.diag(M))
    values = np.linalg.eigvalsh(scale[:, None] * M * scale)
    return float(values[-1] / values[0]) if values[0] > 0 else np.inf


def _has_heavy_rotor(system: SystemData, at: Maximal) -> bool:
    """Whether a rotor is too heavy for its body, whose inertia includes it: J a^T I^-1 a >= 1."""
    bodies = {body.name: body for body in system.bodies}
    fixed = {edge.b: edge.a for edge in system.edges if edge.joint.kind == "fixed"}
    for element in system.elements:
        if element.kind != "armature" or not element.b:
            continue
        name, turn = element.b, np.eye(3)
        while not bodies[name].has_inertia:  # a frame: what it is fixed to
            edge = next(e for e in system.edges if e.b == name)
            turn = edge.at.R @ turn
            if name not in fixed or edge.a == WORLD or np.any(np.asarray(at.value(edge.at.angle))):
                return True
            name = edge.a
        axis = turn @ np.asarray(element.data["axis"])
        moment = float(at.value(bodies[name].moment_factor)) * bodies[name].moment
        if float(np.max(at.value(element.data["inertia"]))) * axis @ np.linalg.solve(moment, axis) >= 0.95:
            return True
    return False


def _constrained(
    d: Drawn, system: SystemData, state: State, joints: list[Edge], nv: int, looped: bool
) -> tuple[SystemData, State]:
    if looped:
        for k in range(2 if d.chance(0.3) else 1):
            for _ in range(12):
                found = close_loop(d, system, state, k)
                if found is not None:
                    system, state = found
                    break
    components = [(edge, k) for edge in joints for k in range(edge.joint.nv)]
    if nv > 2 and d.chance(0.18):
        count = 1 if nv < 5 else int(d.rng.integers(1, 3))
        chosen = [components[i] for i in d.rng.choice(len(components), min(len(components), count + 2), replace=False)]
        rows = []
        for i in range(count):
            dependent, others = chosen[i], chosen[count:]
            terms = [(dependent[0].name, dependent[1], Smooth(1.0))]
            terms += [(e.name, k, d.smooth(joints, 0.4, float(d.rng.normal()), 1)) for e, k in others]
            drift = d.smooth(joints, 0.5, float(d.rng.normal())) if d.chance(0.5) else Smooth()
            rows.append(
                VelocityRow(f"row{i}", tuple(terms), drift, float(d.rng.uniform(0, 0.5)) if d.chance(0.3) else 0.0)
            )
        system = replace(system, velocity_rows=tuple(rows))
        if not system.loops and d.chance(0.5):
            held = {(e.name, k) for e, k in chosen[:count]}
            system = replace(system, basis=tuple(f"{e.name}/{k}" for e, k in components if (e.name, k) not in held))
    if nv > 1 and d.chance(0.08) and system.basis is None:
        f = d.smooth(joints, 0.7, 0.0, 3)
        now = float(Maximal(replace(system, parameters=dict(d.parameters)), state).smooth(f, _still(system, state)).f0)
        offset = f.constant if isinstance(f.constant, Wave) else Wave(0.0, 0.0)
        if isinstance(f.constant, Par):
            return system, state
        base = replace(offset, mean=offset.mean - now) if isinstance(f.constant, Wave) else float(f.constant) - now
        system = replace(system, position_rows=(PositionRow("row", replace(f, constant=base)),))
    if system.basis is None and d.chance(0.1):
        entries = [(i, i, d.smooth(joints, 0.3, float(d.rng.uniform(1.2, 2)), 1)) for i in range(nv)]
        entries += [
            (int(i), int(j), d.smooth(joints, 0.1, 0.1, 1)) for i, j in d.rng.integers(nv, size=(nv, 2)) if i != j
        ]
        fixed = [
            (i, j, replace(f, constant=f.constant.mean if isinstance(f.constant, Wave) else f.constant))
            for i, j, f in entries
        ]
        system = replace(system, velocity_map=tuple(fixed))
    elif system.basis is None and d.chance(0.3):
        frames = {
            e.name: "absolute"
            for e in joints
            if e.joint.kind == "spherical" and not e.joint.velocity and e.b == e.name and d.chance(0.5)
        }
        system = replace(system, velocity_frames=frames)
    return replace(system, parameters=dict(d.parameters)), state


def _still(system: SystemData, state: State) -> dict[str, Any]:
    return {edge.name: jet(state.q[edge.name]) for edge in system.joints}


def _unused_removed(system: SystemData) -> SystemData:
    """Without parameters that nothing uses any more."""
    text = repr(system)
    return replace(
        system, parameters={name: value for name, value in system.parameters.items() if f"Par(name='{name}'" in text}
    )
