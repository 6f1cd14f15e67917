"""A ``heavytop.System`` of a description, through the calls that a user writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from oracle.description import Edge, Element, Input, Joint, Number, Par, Place, Smooth, State, SystemData, Wave
from oracle.maximal import neutral

import heavytop as ht
from heavytop.geometry import se3, so3


class Drag(ht.PairElement):
    """Quadratic drag and a cubic spring between two origins."""

    def __init__(self, a: str, b: str, drag: Any, cubic: Any) -> None:
        self.a, self.b, self.coefficient, self.cubic = a, b, drag, cubic

    def energy(self, pose):
        square = np.vecdot(pose[:3, 3], pose[:3, 3])
        return 0.25 * self.cubic * square**2

    def resistance(self, pose, twist):
        v = twist[:3]
        return np.concatenate([self.coefficient * np.sqrt(np.vecdot(v, v) + 0.01) * v, np.zeros(3)])


class Quartic(ht.JointElement):
    """Energy c/4 x^4 of the first coordinate of a joint and resistance d w^3."""

    def __init__(self, joint: str, c: Any, d: Any) -> None:
        self.joint, self.c, self.d = joint, c, d

    def energy(self, q):
        return 0.25 * self.c * q[0] ** 4

    def resistance(self, q, w):
        return self.d * w**3


class Builder:
    """The system of a description, and where its coordinates are."""

    def __init__(self, data: SystemData) -> None:
        self.data = data
        self.system = ht.System(name="random")
        self.symbols = {name: self.system.parameter(name, value) for name, value in data.parameters.items()}
        self.q_at: dict[str, int] = {}
        self.v_at: dict[str, int] = {}
        nq = nv = 0
        for edge in data.joints:
            self.q_at[edge.name], self.v_at[edge.name] = nq, nv
            nq, nv = nq + len(neutral(edge.joint)), nv + edge.joint.nv
        self.nq, self.nv = nq, nv
        self.system.gravity = self.vector(data.gravity)
        self._bodies()
        for element in data.elements:
            if not element.as_keyword:
                self._element(element)
        for given in data.inputs:
            self.system.input(given.name, self._input(given))
        for loop in data.loops:
            at = self.pose(loop.at_a), self.pose(loop.at_b)
            self.system.loop(loop.a, loop.b, self.joint(loop.joint), *at, name=loop.name)
        self._constraints()

    # numbers

    def number(self, x: Number) -> Any:
        if isinstance(x, Par):
            return x.factor * self.symbols[x.name] + x.offset
        if isinstance(x, Wave):
            return x.mean + x.amplitude * np.sin(x.rate * self.system.time + x.phase)
        return x

    def vector(self, x: Any) -> Any:
        if isinstance(x, tuple | list):
            if any(isinstance(part, Par | Wave) for part in x):
                return ht.vector(*(self.number(part) for part in x))
            return np.array(x, dtype=float)
        return self.number(x)

    def pose(self, at: Place) -> Any:
        R: Any = at.R
        if not (isinstance(at.angle, float) and at.angle == 0.0):
            R = at.R @ so3.rotation_about(at.axis, self.number(at.angle))
        return se3.pose(R, self.vector(at.p))

    def smooth(self, f: Smooth) -> Callable[[Any], Any]:
        constant, terms = self.number(f.constant), [(c, self.q_at[name] + k, w, p) for c, name, k, w, p in f.terms]

        def value(q: Any) -> Any:
            total = constant
            for c, k, w, p in terms:
                total = total + c * np.sin(w * q[k] + p)
            return total

        return value

    # parts

    def joint(self, joint: Joint) -> Any:
        axes: Any = joint.axes
        attitude: Any = joint.attitude
        if joint.motion:
            motion = joint.motion
            plain = self.joint(Joint(joint.kind, joint.axes, attitude=joint.attitude, stages=joint.stages))
            return ht.Prescribed(plain, lambda t: _moved(motion, t))
        if joint.source:
            plain = self.joint(Joint(joint.kind, joint.axes))
            return ht.Coupled(plain, joint.source, self.number(joint.ratio), self.number(joint.offset))
        if joint.kind == "revolute":
            return ht.Revolute(joint.axes[0], coordinates="circle" if joint.circle else "angle")
        if joint.kind == "prismatic":
            return ht.Prismatic(joint.axes[0])
        if joint.kind == "cylindrical":
            return ht.Cylindrical(joint.axes[0])
        if joint.kind == "universal":
            return ht.Universal(axes)
        if joint.kind == "planar":
            return ht.Planar()
        if joint.kind == "spherical":
            return ht.Spherical(attitude, velocity=joint.velocity or "relative")
        if joint.kind == "free":
            return ht.Free(attitude, velocity=joint.velocity or "body")
        if joint.kind == "fixed":
            return ht.Fixed()
        return ht.Custom(ht.coordinates.Vector(joint.nv), lambda q: _staged(joint, q))

    def _bodies(self) -> None:
        bodies = {body.name: body for body in self.data.bodies}
        for edge in self.data.edges:
            body, joint, at = bodies[edge.name], self._joint_with_parts(edge), self.pose(edge.at)
            if edge.b != edge.name:  # described from the body to its parent
                self.system.body(edge.name, inertia=self._inertia(body))
                self.system.connect(edge.a, edge.b, joint, at, name=edge.name)
            elif body.is_frame:
                self.system.frame(edge.b, edge.a, at)
            else:
                self.system.body(edge.b, parent=edge.a, at=at, joint=joint, inertia=self._inertia(body))

    def _joint_with_parts(self, edge: Edge) -> Any:
        """The joint with the elements that are given as keywords of it."""
        joint = self.joint(edge.joint)
        for element in self.data.elements:
            if element.as_keyword and element.a == edge.name:
                d = self._numbers(element)
                if element.kind == "joint_spring":
                    joint = joint.having(stiffness=d["stiffness"], rest=d["rest"])
                elif element.kind == "joint_damper":
                    joint = joint.having(damping=d["damping"])
                elif element.kind == "joint_friction":
                    joint = joint.having(friction=d)
                elif element.kind == "joint_stop":
                    joint = joint.having(limits=d)
                else:
                    joint = joint.having(armature={"inertia": d["inertia"], "gear_ratio": d["gear_ratio"]})
        return joint

    def _numbers(self, element: Element) -> dict[str, Any]:
        return {
            name: self.vector(value) if isinstance(value, tuple | Par | Wave) else value
            for name, value in element.data.items()
        }

    def _inertia(self, body: Any) -> ht.Inertia | None:
        if not body.has_inertia:
            return None
        return ht.Inertia(self.number(body.mass), self.vector(body.com), self.number(body.moment_factor) * body.moment)

    def _element(self, element: Element) -> None:
        d = self._numbers(element)
        s, a, b = self.system, element.a, element.b
        if element.kind == "spring":
            rest = None if d["rest"] is None else self.pose(d["rest"])
            s.spring(a, b, ht.Stiffness(d["total"], d["center"], d["factor"] * d["moment"]), rest)
        elif element.kind == "springs":
            s.spring(a, b, ht.Stiffness.from_springs(d["k"], d["points_b"], d["points_a"]))
        elif element.kind == "damper":
            s.damper(a, b, ht.Damping(d["total"], d["center"], d["factor"] * d["moment"]))
        elif element.kind == "strut":
            s.strut(a, b, **d)
        elif element.kind in ("joint_spring", "joint_damper", "joint_friction", "joint_stop"):
            getattr(s, element.kind)(a, **d)
        elif element.kind == "armature":
            s.armature(a, d["inertia"], d["gear_ratio"], body=b or None, axis=d["axis"] if b else None)
        elif element.kind == "quartic":
            s.add(Quartic(a, d["c"], d["d"]))
        elif element.kind == "drag":
            s.add(Drag(a, b, d["drag"], d["cubic"]))
        elif element.kind == "potential":
            f = self.smooth(element.data["f"])
            s.potential(lambda q: f(q))
        elif element.kind == "dissipation":
            f, g = self.smooth(element.data["f"]), d["g"]
            s.dissipation(lambda q, v: 0.5 * f(q) ** 2 * np.vecdot(g, v) ** 2)
        elif element.kind == "force":
            f, g, h = self.smooth(element.data["f"]), d["g"], d["h"]
            s.force(lambda q, v: f(q) * g * (1.0 + np.vecdot(h, v)))
        else:
            raise ValueError(element.kind)

    def _input(self, given: Input) -> Any:
        d = given.data
        if given.kind == "thruster":
            return ht.Thruster(given.target, self.vector(d["at"]), d["axis"], self.number(d["drag_ratio"]))
        if given.kind == "joint_force":
            return ht.JointForce(given.target, d["index"], self.number(d["gear"]))
        return ht.Wrench(given.target, self.vector(d["force"]), self.vector(d["moment"]), d["frame"], d["relative_to"])

    def _constraints(self) -> None:
        dependent: dict[int, Any] = {}
        for row in self.data.velocity_rows:
            terms = [(self.v_at[name] + k, self.smooth(f)) for name, k, f in row.terms]
            drift, work = self.smooth(row.drift), row.work

            def line(q: Any, v: Any, terms: Any = terms, drift: Any = drift) -> Any:
                return sum((f(q) * v[k] for k, f in terms), drift(q))

            def nonideal(q: Any, v: Any, work: float = work) -> Any:
                return -work * v

            self.system.constrain(line, work=nonideal if work else None, name=row.name, kind="velocity")
            dependent[terms[0][0]] = (terms[1:], drift)
        for row in self.data.position_rows:
            f = self.smooth(row.f)
            self.system.constrain(lambda q, f=f: f(q), name=row.name, kind="position")
        if self.data.basis is not None:
            free = [self.v_at[name] + int(k) for name, k in (label.split("/") for label in self.data.basis)]
            place = {k: i for i, k in enumerate(free)}
            nv = self.nv

            def basis(q: Any, w: Any) -> Any:
                v = {k: w[i] for k, i in place.items()}
                for k, (terms, drift) in dependent.items():
                    v[k] = -sum((f(q) * v[j] for j, f in terms), drift(q))
                return ht.vector(*(v[k] for k in range(nv)))

            self.system.basis(basis, [f"w{i}" for i in range(len(free))])

    # models and states

    def derive(self, native: bool = False) -> ht.Model:
        if self.data.velocity_map is None:
            return self.system.derive(dict(self.data.velocity_frames) or None, native=native)
        entries = [(i, j, self.smooth(f)) for i, j, f in self.data.velocity_map]
        nv = self.nv

        def velocity(q: Any, v: Any) -> Any:
            return ht.vector(*(sum((f(q) * v[j] for r, j, f in entries if r == i), 0.0) for i in range(nv)))

        return self.system.derive(velocity, native=native)

    def q(self, state: State) -> np.ndarray:
        return np.concatenate([np.zeros(0), *(state.q[edge.name] for edge in self.data.joints)])

    def u(self, state: State) -> np.ndarray:
        return np.array([state.u.get(given.name, 0.0) for given in self.data.inputs])

    def parameters(self, model: ht.Model, state: State, values: Mapping[str, float] | None = None) -> dict[str, float]:
        time = {"time": state.t} if "time" in model.parameter_names else {}
        return {**(values or {}), **time}


def _moved(motion: tuple[Number, ...], t: Any) -> Any:
    values = [x.mean + x.amplitude * np.sin(x.rate * t + x.phase) if isinstance(x, Wave) else x for x in motion]
    return values[0] if len(values) == 1 else ht.vector(*values)


def _staged(joint: Joint, q: Any) -> Any:
    R, p = np.eye(3), np.zeros(3)
    for what, axis, slopes, bends in joint.stages:
        amount = sum(slopes[i] * q[i] + bends[i] * np.sin(q[i]) for i in range(len(slopes)))
        if what == "turn":
            R = R @ so3.rotation_about(axis, amount)
        else:
            p = p + R @ (amount * axis)
    return se3.pose(R, p)
