"""Bad descriptions and bad arguments: a typed error that says what, where and what to do."""

from __future__ import annotations

import re

import numpy as np
import pytest

import heavytop as ht
from heavytop.errors import ConfigurationError, ModelError, ShapeError, UnknownNameError

NAN = float("nan")
INERTIA = ht.Inertia(1.0, moment_at_com=(1, 1, 1))


def arm() -> ht.System:
    """Two bodies: a revolute joint, then a ball joint."""
    system = ht.System(name="arm")
    system.body("upper", joint=ht.Revolute("x"), inertia=INERTIA)
    system.body("lower", parent="upper", at=(0, 0, 1), joint=ht.Spherical("quaternion"), inertia=INERTIA)
    return system


def deriving(change):
    """Change the arm, then derive it."""

    def run():
        system = arm()
        change(system)
        return system.derive()

    return run


def declaring(change):
    """Change the arm only: the error must come at once."""
    return lambda: change(arm())


def refused(error, text, run):
    with pytest.raises(error, match=re.escape(text)) as caught:
        run()
    assert isinstance(caught.value, ht.errors.HeavytopError)
    assert isinstance(caught.value, ValueError)


def foreign():
    """A parameter of another system."""
    return ht.System().parameter("alien", 1.0)


NAMES = {
    "duplicate": (ModelError, "the name 'upper' is taken", declaring(lambda s: s.body("upper", joint=ht.Fixed()))),
    "world": (ModelError, "'world' is reserved", declaring(lambda s: s.body("world", joint=ht.Fixed()))),
    "frame-duplicate": (
        ModelError,
        "the name 'lower' is taken",
        declaring(lambda s: s.frame("lower", "upper", (0, 0, 0))),
    ),
    "colon": (
        ModelError,
        "a name of letters, digits, spaces, '_', '-', '.', '/' and '+', got 'a:b'",
        declaring(lambda s: s.body("a:b")),
    ),
    "empty": (ModelError, "got ''", declaring(lambda s: s.body(""))),
    "no-string": (ModelError, "got 3", declaring(lambda s: s.body(3))),
    "joint-name": (
        ModelError,
        "joint name 'lower' is taken. Give the joint another name",
        declaring(lambda s: s.connect("world", "lower", ht.Fixed())),
    ),
    "parent": (
        UnknownNameError,
        "unknown body or frame (in joint 'hand') 'lover'. Did you mean 'lower'? Known: 'world', 'upper', 'lower', 'hand'.",
        deriving(lambda s: s.body("hand", parent="lover", joint=ht.Fixed())),
    ),
    "frame": (UnknownNameError, "'elbow'", deriving(lambda s: s.frame("eye", "elbow", (0, 0, 0)))),
    "spring": (
        UnknownNameError,
        "(in spring between 'upper' and 'hand') 'hand'",
        deriving(lambda s: s.spring("upper", "hand", ht.Stiffness(1.0))),
    ),
    "damper": (
        UnknownNameError,
        "Did you mean 'world'?",
        deriving(lambda s: s.damper("wrld", "upper", ht.Damping(1.0))),
    ),
    "spring-itself": (
        ModelError,
        "spring connects 'upper' with itself",
        deriving(lambda s: s.spring("upper", "upper", ht.Stiffness(1.0))),
    ),
    "damper-itself": (
        ModelError,
        "damper connects 'upper' with itself",
        deriving(lambda s: s.damper("upper", "upper", ht.Damping(1.0))),
    ),
    "velocity-joint": (
        UnknownNameError,
        "unknown joint (the name of the body it carries) 'load'",
        lambda: arm().derive({"load": "absolute"}),
    ),
}

GRAPH = {
    "disconnected": (
        ModelError,
        "not connected: 'c', 'd' cannot be reached from 'world'",
        deriving(lambda s: (s.body("c"), s.body("d", parent="c", joint=ht.Fixed()))),
    ),
    "never-connected": (
        ModelError,
        "'c' cannot be reached from 'world'. Give each group of bodies a joint to the rest (ht.Free()",
        deriving(lambda s: s.body("c", inertia=INERTIA)),
    ),
    "loop": (
        ModelError,
        "joint 'strut' between 'world' and 'lower' closes a loop: both are already connected",
        deriving(lambda s: s.connect("world", "lower", ht.Revolute("x"), name="strut")),
    ),
    "self-loop": (
        ModelError,
        "between 'lower' and 'lower' closes a loop",
        deriving(lambda s: s.connect("lower", "lower", ht.Fixed(), name="knot")),
    ),
    "no-freedom": (ModelError, "'still' has no degree of freedom", lambda: ht.System(name="still").derive()),
    "no-inertia": (
        ModelError,
        "no body of 'ghost' has inertia",
        lambda: (lambda s: (s.body("a", joint=ht.Revolute("x")), s.derive()))(ht.System(name="ghost")),
    ),
    "absolute-against": (
        ModelError,
        "has an absolute velocity, but its body 'world' is nearer to the world than its parent 'c'",
        deriving(lambda s: (s.body("c", inertia=INERTIA), s.connect("c", "world", ht.Spherical(velocity="absolute")))),
    ),
}

MOMENTS = {
    "triangle": (
        ModelError,
        "no distribution of particles has these moments",
        lambda: ht.Inertia(1.0, moment_at_com=(1, 1, 3)),
    ),
    "triangle-says": (
        ModelError,
        "each must be at most the sum of the other two",
        lambda: ht.Inertia(1.0, (1, 0, 0), (3, 1, 1)),
    ),
    "negative-mass": (ModelError, "inertia: the mass must not be negative, got -1.", lambda: ht.Inertia(-1.0)),
    "negative-moment": (ModelError, "[-1.  1.  1.]", lambda: ht.Inertia(1.0, moment_at_com=(-1, 1, 1))),
    "asymmetric": (
        ModelError,
        "moment_at_com of inertia must be symmetric, but entries mirrored at the diagonal differ by up to 0.1",
        lambda: ht.Inertia(1.0, moment_at_com=[[1, 0.1, 0], [0, 1, 0], [0, 0, 1]]),
    ),
    "shape": (
        ShapeError,
        "moment_at_com of inertia must have shape (3, 3), got (2,). Give the full matrix or its three diagonal entries.",
        lambda: ht.Inertia(1.0, moment_at_com=(1, 1)),
    ),
    "com-shape": (ShapeError, "com of inertia must have shape (3,), got (2,)", lambda: ht.Inertia(1.0, (0, 0))),
    "mass-shape": (ShapeError, "mass of inertia must have shape (), got (1,)", lambda: ht.Inertia([1.0])),
    "mass-nan": (ShapeError, "mass of inertia must be finite, got nan", lambda: ht.Inertia(NAN)),
    "com-nan": (ShapeError, "com of inertia must be finite, got [nan, 0.0, 0.0]", lambda: ht.Inertia(1.0, (NAN, 0, 0))),
    "moment-nan": (
        ShapeError,
        "moment_at_com of inertia must be finite",
        lambda: ht.Inertia(1.0, moment_at_com=(1, 1, NAN)),
    ),
    "positions": (
        ShapeError,
        "positions of inertia must have shape (2, 3), got (1, 3)",
        lambda: ht.Inertia.from_particles([1, 2], [[1, 2, 3]]),
    ),
    "weights": (
        ShapeError,
        "weights of inertia must have shape (n,)",
        lambda: ht.Inertia.from_particles(1.0, [1, 2, 3]),
    ),
    "particles-nan": (
        ShapeError,
        "must be finite",
        lambda: ht.Inertia.from_particles([1, NAN], [[1, 2, 3], [1, 2, 3]]),
    ),
    "first-moment": (
        ModelError,
        "of a distribution of total zero must vanish",
        lambda: ht.Inertia.from_moments([[0, 0, 0, 1], [0, 0, 0, 0], [0, 0, 0, 0], [1, 0, 0, 0]]),
    ),
    "moments-shape": (
        ShapeError,
        "moments of inertia must have shape (4, 4)",
        lambda: ht.Inertia.from_moments(np.eye(3)),
    ),
    "parameter-mass": (
        ModelError,
        "inertia of body 'hand': the mass must not be negative, got -1.",
        declaring(lambda s: s.body("hand", joint=ht.Fixed(), inertia=ht.Inertia(s.parameter("m", -1.0)))),
    ),
    "foreign-mass": (
        ModelError,
        "body 'hand' uses symbols that are not parameters of 'arm': alien",
        declaring(lambda s: s.body("hand", joint=ht.Fixed(), inertia=ht.Inertia(foreign()))),
    ),
    "type": (
        ModelError,
        "inertia of body 'hand' must be an ht.Inertia, got float",
        declaring(lambda s: s.body("hand", joint=ht.Fixed(), inertia=3.0)),
    ),
    "kind": (ModelError, "got Damping", declaring(lambda s: s.body("hand", joint=ht.Fixed(), inertia=ht.Damping(1.0)))),
    "damping": (ModelError, "damping: the total must not be negative, got -0.1", lambda: ht.Damping(-0.1)),
    "stiffness": (ModelError, "Needed: total >= 0 (got -1)", lambda: ht.Stiffness(-1.0)),
    "stiffness-moment": (
        ModelError,
        "the rest pose would not be a minimum of the energy",
        lambda: ht.Stiffness(1.0, moment_at_center=(-1, 1, 1)),
    ),
    "spring-constants": (
        ModelError,
        "spring constants must be finite, not negative and not all zero, got [-1.0]",
        lambda: ht.Stiffness.from_springs([-1.0], [[0, 0, 0]], [[0, 0, 0]]),
    ),
    "spring-points-nan": (
        ShapeError,
        "points_b of the springs must be finite, got nan",
        lambda: ht.Stiffness.from_springs([1.0], [[0, 0, NAN]], [[0, 0, 0]]),
    ),
    "spring-points": (
        ShapeError,
        "points_a of the springs must have shape (1, 3), got (3,)",
        lambda: ht.Stiffness.from_springs([1.0], [[0, 0, 0]], [0, 0, 0]),
    ),
    "no-springs": (ShapeError, "At least one spring is needed", lambda: ht.Stiffness.from_springs([], [], [])),
    "spring-type": (
        ModelError,
        "spring between 'upper' and 'lower' needs an ht.Stiffness, got float",
        declaring(lambda s: s.spring("upper", "lower", 3.0)),
    ),
    "damper-type": (
        ModelError,
        "damper between 'upper' and 'lower' needs an ht.Damping, got float",
        declaring(lambda s: s.damper("upper", "lower", 0.1)),
    ),
    "spring-rest": (
        ShapeError,
        "rest pose of spring between 'upper' and 'lower' must have shape (3,), got (2,). Give a position (3,) or a pose (4, 4).",
        declaring(lambda s: s.spring("upper", "lower", ht.Stiffness(1.0), rest=(0, 0))),
    ),
    "spring-rest-nan": (
        ShapeError,
        "must be finite, got [0.0, 0.0, nan]",
        declaring(lambda s: s.spring("upper", "lower", ht.Stiffness(1.0), rest=(0, 0, NAN))),
    ),
}

JOINTS = {
    "zero-axis": (
        ModelError,
        "Revolute joint: a rotation axis must be finite and not zero",
        lambda: ht.Revolute((0, 0, 0)),
    ),
    "nan-axis": (ModelError, "must be finite and not zero, got [nan, 0.0, 0.0]", lambda: ht.Revolute((NAN, 0, 0))),
    "letter": (ModelError, "must be 'x', 'y' or 'z', got 'w'", lambda: ht.Revolute("w")),
    "axis-shape": (ShapeError, "Prismatic joint: ", lambda: ht.Prismatic((1, 2))),
    "cylindrical": (ModelError, "Cylindrical joint: ", lambda: ht.Cylindrical((0, 0, 0))),
    "parallel": (ModelError, "the two axes must not be parallel, got 'x' and '-x'", lambda: ht.Universal(("x", "-x"))),
    "one-axis": (ModelError, "Universal joint: it takes two axes", lambda: ht.Universal(("x",))),
    "revolute": (
        ModelError,
        "coordinates must be 'angle' or 'circle', got 'sin'",
        lambda: ht.Revolute("x", coordinates="sin"),
    ),
    "attitude": (
        ModelError,
        "Free joint: attitude must be one of 'matrix', 'quaternion', 'euler', got 'quat'",
        lambda: ht.Free("quat"),
    ),
    "free": (ModelError, "one of 'body', 'mixed', 'unified', got 'world'", lambda: ht.Free(velocity="world")),
    "spherical": (ModelError, "one of 'relative', 'absolute', got 'fast'", lambda: ht.Spherical(velocity="fast")),
    "string": (
        ModelError,
        "joint 'hand' must be a joint such as ht.Revolute('z'), got 'revolute'",
        declaring(lambda s: s.body("hand", joint="revolute")),
    ),
    "class": (ModelError, "must be a joint such as", declaring(lambda s: s.body("hand", joint=ht.Revolute))),
    "at-shape": (
        ShapeError,
        "at of joint 'hand' must have shape (3,), got (2,). Give a position (3,) or a pose (4, 4).",
        declaring(lambda s: s.body("hand", at=(0, 0), joint=ht.Fixed())),
    ),
    "at-nan": (
        ShapeError,
        "at of joint 'hand' must be finite, got [0.0, 0.0, nan]",
        declaring(lambda s: s.body("hand", at=(0, 0, NAN), joint=ht.Fixed())),
    ),
    "at-reflection": (
        ModelError,
        "det = -1",
        declaring(lambda s: s.body("hand", at=np.diag([1, 1, -1, 1]), joint=ht.Fixed())),
    ),
    "at-scaled": (
        ModelError,
        "at of joint 'hand' is not a pose: its rotation part is off by 3 from orthogonality",
        declaring(lambda s: s.body("hand", at=np.diag([2.0, 2.0, 2.0, 1.0]), joint=ht.Fixed())),
    ),
    "at-foreign": (
        ModelError,
        "at of joint 'hand' uses symbols that are not parameters of 'arm': alien",
        declaring(lambda s: s.body("hand", at=(0, 0, foreign()), joint=ht.Fixed())),
    ),
    "custom-scaled": (
        ModelError,
        "Custom: the given pose G(q) is not in SE(3) at q = [",
        lambda: ht.Custom(
            ht.coordinates.Vector(1),
            lambda q: ht.matrix([[1 + q[0], 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]),
        ),
    ),
    "custom-reflection": (
        ModelError,
        "det R = -1",
        lambda: ht.Custom(ht.coordinates.Angle(), lambda q: np.diag([1.0, 1.0, -1.0, 1.0])),
    ),
    "custom-row": (
        ModelError,
        "last row [0.0, 0.0, 0.0, 2.0]",
        lambda: ht.Custom(ht.coordinates.Angle(), lambda q: np.diag([1.0, 1.0, 1.0, 2.0])),
    ),
    "custom-nan": (
        ModelError,
        "turned a symbol into the number nan",
        lambda: ht.Custom(ht.coordinates.Angle(), lambda q: NAN * np.eye(4)),
    ),
    "custom-shape": (
        ModelError,
        "the pose must be a 4x4 matrix, got shape (3, 3)",
        lambda: ht.Custom(ht.coordinates.Angle(), lambda q: np.eye(3)),
    ),
    "custom-coordinates": (
        ModelError,
        "coordinates must be a block such as ht.coordinates.Angle(), got 'angle'",
        lambda: ht.Custom("angle", lambda q: np.eye(4)),
    ),
    "custom-pose": (ModelError, "pose must be a function of q", lambda: ht.Custom(ht.coordinates.Angle(), None)),
    "general": (
        ModelError,
        "kinematics_matrix(q) violates the constraints: dphi/dq A must vanish (eq. 2.4), but 'v_1' changes 'phi_1'",
        lambda: ht.coordinates.GeneralCoordinates(
            lambda q: [[-2 * q[1]], [q[0]]], lambda q: [q[0] ** 2 + q[1] ** 2 - 1], nq=2, nv=1
        ),
    ),
    "custom-kinematics": (
        ModelError,
        "Custom: the kinematics matrix A(q) violates the constraints: dphi/dq A must vanish, but 'rate' changes 'c^2 + s^2 - 1'",
        lambda: ht.Custom(Spiral(), lambda q: np.eye(4)),
    ),
}


class Spiral(ht.coordinates.Circle):
    """A circle whose rate leads off it."""

    def kinematics_matrix(self, q):
        return super().kinematics_matrix(q) + 0.1


INPUTS = {
    "thruster": (
        UnknownNameError,
        "input 'f': unknown body or frame 'hand'. Known: 'world', 'upper', 'lower'.",
        deriving(lambda s: s.input("f", ht.Thruster("hand"))),
    ),
    "thruster-axis": (
        ModelError,
        "input 'f': thruster on 'upper': a rotation axis must be finite and not zero",
        deriving(lambda s: s.input("f", ht.Thruster("upper", axis=(0, 0, 0)))),
    ),
    "thruster-at": (
        ShapeError,
        "input 'f': at of thruster on 'upper' must have shape (3,), got (2,)",
        deriving(lambda s: s.input("f", ht.Thruster("upper", at=(0, 0)))),
    ),
    "thruster-nan": (
        ShapeError,
        "input 'f': its force",
        deriving(lambda s: s.input("f", ht.Thruster("upper", at=(0, 0, NAN)))),
    ),
    "thruster-drag": (
        ShapeError,
        "must be finite",
        deriving(lambda s: s.input("f", ht.Thruster("upper", drag_ratio=NAN))),
    ),
    "thruster-foreign": (
        ModelError,
        "input 'f': its force of 'arm' uses symbols that are not parameters of it: alien",
        deriving(lambda s: s.input("f", ht.Thruster("upper", drag_ratio=foreign()))),
    ),
    "joint": (
        UnknownNameError,
        "input 'f': unknown joint (the name of the body it carries) 'hand'. Known: 'upper', 'lower'.",
        deriving(lambda s: s.input("f", ht.JointForce("hand"))),
    ),
    "joint-index": (
        ModelError,
        "input 'f': joint 'lower' has 3 velocity coordinates; index 3 does not exist.",
        deriving(lambda s: s.input("f", ht.JointForce("lower", 3))),
    ),
    "joint-negative": (
        ModelError,
        "index -1 does not exist",
        deriving(lambda s: s.input("f", ht.JointForce("lower", -1))),
    ),
    "joint-fixed": (
        ModelError,
        "joint 'hand' has 0 velocity coordinates",
        deriving(lambda s: (s.body("hand", joint=ht.Fixed()), s.input("f", ht.JointForce("hand")))),
    ),
    "joint-gear": (ShapeError, "gear must be finite", deriving(lambda s: s.input("f", ht.JointForce("lower", 0, NAN)))),
    "wrench": (UnknownNameError, "'hand'", deriving(lambda s: s.input("f", ht.Wrench("hand", force=(1, 0, 0))))),
    "wrench-world": (
        UnknownNameError,
        "'hand'",
        deriving(lambda s: s.input("f", ht.Wrench("hand", force=(1, 0, 0), frame="world"))),
    ),
    "wrench-reaction": (
        UnknownNameError,
        "'hand'",
        deriving(lambda s: s.input("f", ht.Wrench("upper", relative_to="hand"))),
    ),
    "wrench-frame": (
        ModelError,
        "frame must be 'body' or 'world', got 'lower'",
        deriving(lambda s: s.input("f", ht.Wrench("upper", frame="lower"))),
    ),
    "wrench-shape": (
        ShapeError,
        "moment of wrench on 'upper' must have shape (3,), got (2,)",
        deriving(lambda s: s.input("f", ht.Wrench("upper", moment=(1, 0)))),
    ),
    "wrench-nan": (
        ShapeError,
        "must be finite",
        deriving(lambda s: s.input("f", ht.Wrench("upper", force=(1, 0, NAN)))),
    ),
    "duplicate": (
        ModelError,
        "the input name 'f' is taken",
        declaring(lambda s: (s.input("f", ht.Thruster("upper")), s.input("f", ht.Thruster("upper")))),
    ),
    "type": (
        ModelError,
        "input 'f' must be an element such as ht.Thruster(...)",
        declaring(lambda s: s.input("f", "jet")),
    ),
    "class": (ModelError, "must be an element such as", declaring(lambda s: s.input("f", ht.Thruster))),
    "name": (ModelError, "an input needs a name of letters", declaring(lambda s: s.input(3, ht.Thruster("upper")))),
}

FUNCTIONS = {
    "potential": (ModelError, "potential must be a function, got 3", declaring(lambda s: s.potential(3))),
    "potential-shape": (
        ModelError,
        "potential(q) must return one number (an energy or power), got an array of shape (5,)",
        deriving(lambda s: s.potential(lambda q: q)),
    ),
    "potential-foreign": (
        ModelError,
        "potential(q) of 'arm' uses symbols that are not parameters of it: alien",
        deriving(lambda s: s.potential(lambda q: foreign() * q[0])),
    ),
    "dissipation-shape": (
        ModelError,
        "dissipation(q, v) must return one number",
        deriving(lambda s: s.dissipation(lambda q, v: v)),
    ),
    "force-shape": (
        ModelError,
        "force(q, v) must return 4 generalised forces, one for each velocity coordinate of the joints, got an array of shape (5,)",
        deriving(lambda s: s.force(lambda q, v: q)),
    ),
    "velocity-size": (
        ModelError,
        "velocity(q, v) must return 4 velocity coordinates, got an array of shape (2,)",
        lambda: arm().derive(lambda q, v: v[:2]),
    ),
    "velocity-square": (ModelError, "must be linear in v (w = W(q) v)", lambda: arm().derive(lambda q, v: v**2)),
    "velocity-offset": (ModelError, "must be linear in v (w = W(q) v)", lambda: arm().derive(lambda q, v: v + 1)),
    "velocity-constant": (ModelError, "does not determine v", lambda: arm().derive(lambda q, v: np.zeros(4))),
    "velocity-repeated": (
        ModelError,
        "velocity(q, v) does not determine v: the map is singular",
        lambda: arm().derive(lambda q, v: ht.vector(v[0], v[0], v[1], v[2])),
    ),
    "velocity-dependent": (
        ModelError,
        "velocity(q, v) does not determine v: the map is singular",
        lambda: arm().derive(
            lambda q, v: ht.vector(
                v[0] + np.sin(q[0]) * v[1], np.cos(q[0]) * v[0] + np.sin(q[0]) * np.cos(q[0]) * v[1], v[2], v[3]
            )
        ),
    ),
    "velocity-type": (ModelError, "such as {'load': 'absolute'}, got 'absolute'", lambda: arm().derive("absolute")),
    "velocity-frame": (ModelError, "one of 'relative', 'absolute', got 'abs'", lambda: arm().derive({"lower": "abs"})),
    "velocity-revolute": (
        ModelError,
        "Revolute joints have no choice of the velocity frame, got 'absolute'; only Spherical has.",
        lambda: arm().derive({"upper": "absolute"}),
    ),
}

PARAMETERS = {
    "duplicate": (
        ModelError,
        "the parameter name 'm' is taken",
        declaring(lambda s: (s.parameter("m", 1), s.parameter("m", 2))),
    ),
    "nan": (ShapeError, "parameter 'm' must be one finite number, got nan", declaring(lambda s: s.parameter("m", NAN))),
    "vector": (
        ShapeError,
        "parameter 'm' must be one finite number, got [1, 2]",
        declaring(lambda s: s.parameter("m", [1, 2])),
    ),
    "empty": (ModelError, "a parameter needs a name of letters", declaring(lambda s: s.parameter("", 1.0))),
    "gravity-shape": (
        ShapeError,
        "gravity of 'moon' must have shape (3,), got ()",
        lambda: ht.System(gravity=1.6, name="moon"),
    ),
    "gravity-nan": (ShapeError, "gravity of 'system' must be finite", lambda: ht.System(gravity=(0, 0, NAN))),
}


def _cases():
    groups = {
        "names": NAMES,
        "graph": GRAPH,
        "moments": MOMENTS,
        "joints": JOINTS,
        "inputs": INPUTS,
        "functions": FUNCTIONS,
        "parameters": PARAMETERS,
    }
    return [
        pytest.param(*case, id=f"{group}-{name}") for group, cases in groups.items() for name, case in cases.items()
    ]


@pytest.mark.parametrize(("error", "text", "run"), _cases())
def test_bad_descriptions(error, text, run):
    refused(error, text, run)


@pytest.fixture(scope="module")
def model():
    system = arm()
    system.parameter("k", 1.0)
    system.body("wheel", parent="lower", joint=ht.Revolute("z", coordinates="circle"), inertia=INERTIA)
    system.body("ship", joint=ht.Free(), inertia=INERTIA)
    system.input("torque", ht.JointForce("upper"))
    return system.derive()


def changed(model, values):
    q = model.neutral()
    for index, value in values.items():
        q[model.q_names.index(index)] = value
    return q


ARGUMENTS = {
    "q": (
        ShapeError,
        "configuration q of 'arm' must have shape (..., 19), got (1,). Its coordinates are upper.angle, lower.w",
        lambda m: m.mass_matrix([0.0]),
    ),
    "q-nv": (
        ShapeError,
        "It has nq = 19 configuration coordinates but nv = 11 velocity coordinates",
        lambda m: m.mass_matrix(np.zeros(11)),
    ),
    "q-scalar": (ShapeError, "got ()", lambda m: m.mass_matrix(0.0)),
    "constraints": (ShapeError, "must have shape (..., 19), got (3,)", lambda m: m.constraints(np.zeros(3))),
    "v": (
        ShapeError,
        "velocity v of 'arm' must have shape (..., 11), got (3,)",
        lambda m: m.bias(m.neutral(), np.zeros(3)),
    ),
    "v-nq": (ShapeError, "Did you pass the rate of q?", lambda m: m.bias(m.neutral(), np.zeros(19))),
    "v-nan": (
        ShapeError,
        "velocity v of 'arm' must be finite, got nan",
        lambda m: m.bias(m.neutral(), np.full(11, NAN)),
    ),
    "u": (
        ShapeError,
        "input u of 'arm' must have shape (..., 1), got (2,)",
        lambda m: m.acceleration(m.neutral(), np.zeros(11), np.zeros(2)),
    ),
    "u-inf": (
        ShapeError,
        "input u of 'arm' must be finite, got inf",
        lambda m: m.acceleration(m.neutral(), np.zeros(11), [np.inf]),
    ),
    "a": (
        ShapeError,
        "acceleration a of 'arm' must have shape (..., 11)",
        lambda m: m.inverse_dynamics(m.neutral(), np.zeros(11), 0.0),
    ),
    "batch": (ShapeError, "do not broadcast", lambda m: m.bias(np.tile(m.neutral(), (2, 1)), np.zeros((3, 11)))),
    "dt": (
        ShapeError,
        "the time dt to move 'arm' for must be finite, got nan",
        lambda m: m.integrate(m.neutral(), np.zeros(11), NAN),
    ),
    "parameter-nan": (
        ShapeError,
        "parameter 'k' of 'arm' must be finite",
        lambda m: m.mass_matrix(m.neutral(), parameters={"k": NAN}),
    ),
    "parameter": (
        UnknownNameError,
        "unknown parameter of 'arm' 'mass'. Known: 'k'.",
        lambda m: m.mass_matrix(m.neutral(), parameters={"mass": 1.0}),
    ),
    "pose": (
        UnknownNameError,
        "unknown body or frame 'uper'. Did you mean 'upper'?",
        lambda m: m.pose("world", "uper", m.neutral()),
    ),
    "jacobian": (UnknownNameError, "unknown body or frame 'x'", lambda m: m.jacobian("x", "world", m.neutral())),
    "traced": (UnknownNameError, "unknown function of a model 'mass'", lambda m: m.traced("mass")),
    "q-nan": (
        ConfigurationError,
        "must be finite, got lower.w = nan",
        lambda m: m.mass_matrix(changed(m, {"lower.w": NAN})),
    ),
    "quaternion": (
        ConfigurationError,
        "of 'lower' is off its manifold: w^2 + x^2 + y^2 + z^2 - 1 = 3 (tolerance 1e-06). Call project(q)",
        lambda m: m.mass_matrix(changed(m, {"lower.w": 2.0})),
    ),
    "circle": (
        ConfigurationError,
        "of 'wheel' is off its manifold: c^2 + s^2 - 1 = 0.25",
        lambda m: m.mass_matrix(changed(m, {"wheel.s": 0.5})),
    ),
    "reflection": (
        ConfigurationError,
        "of 'ship' is off its manifold: det R - 1 = -2 (tolerance 1e-06). It is a reflection",
        lambda m: m.mass_matrix(changed(m, {"ship.R_zz": -1.0})),
    ),
    "in-a-batch": (
        ConfigurationError,
        "at index (1,)",
        lambda m: m.mass_matrix(np.stack([m.neutral(), changed(m, {"ship.R_yx": 0.1})])),
    ),
}


@pytest.mark.parametrize(("error", "text", "run"), ARGUMENTS.values(), ids=ARGUMENTS)
def test_bad_arguments(model, error, text, run):
    refused(error, text, lambda: run(model))


def test_rounding_is_not_off_the_manifold(model):
    assert np.all(np.isfinite(model.mass_matrix(changed(model, {"lower.w": 1 + 1e-8}))))
    refused(ConfigurationError, "off its manifold", lambda: model.mass_matrix(changed(model, {"lower.w": 1 + 1e-5})))


def test_velocity_that_moves_no_mass():
    system = arm()
    system.body("vane", parent="lower", joint=ht.Revolute("x"))
    model = system.derive()
    text = "velocity 'vane.rate' of 'arm' moves no mass: the mass matrix is singular"
    refused(ModelError, text, lambda: model.acceleration(model.neutral(), np.zeros(5)))


def test_massless_bodies_inside_a_chain_are_welcome():
    system = ht.System()
    system.body("link", joint=ht.Revolute("x"))
    system.body("bob", parent="link", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, (0, 0, -1), (0.1, 0.1, 0.1)))
    model = system.derive()
    assert np.all(np.isfinite(model.acceleration([0.1, 0.2], [0.3, 0.4])))


def test_a_refused_body_can_be_declared_again():
    system = ht.System()
    for wrong in ({"joint": "free"}, {"joint": ht.Free(), "inertia": 1.0}, {"joint": ht.Free(), "at": (0, 0)}):
        with pytest.raises(ht.errors.HeavytopError):
            system.body("ship", **wrong)
    system.body("ship", joint=ht.Free(), inertia=INERTIA)
    with pytest.raises(ShapeError):
        system.frame("bow", "ship", (1, 2))
    system.frame("bow", "ship", (1, 0, 0))
    assert system.derive().nv == 6


def test_a_velocity_map_written_with_math_is_refused() -> None:
    import math

    system = ht.System()
    system.body("a", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=(0, 0, -1)))
    with pytest.raises(ModelError, match="turned a symbol into the number nan. Write it with NumPy"):
        system.derive(velocity=lambda q, v: ht.vector(math.cos(q[0]) * v[0]), native=False)
