"""From the neutral description of a robot to a system."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from heavytop.errors import FileFormatError, HeavytopError, ModelError
from heavytop.geometry import se3
from heavytop.io.actuation import Actuation, actuation_of
from heavytop.io.contacts import add_contacts
from heavytop.io.elements import (
    GravityCompensation,
    JointPolynomial,
    JointTendon,
    LengthPolynomial,
    PathForce,
    PathTendon,
    SharedForce,
)
from heavytop.io.import_report import TransferReport
from heavytop.io.keyframes import Keyframe, keyframe_of
from heavytop.io.renaming import frame_name, with_valid_names
from heavytop.io.robot import MOST_LINKS, JointKind, Mimic, Robot, RobotJoint, RobotLink, ServoTerm, planar_axes
from heavytop.io.sensors import SensorFunction
from heavytop.system import (
    WORLD,
    Coupled,
    Fixed,
    Free,
    Inertia,
    JointForce,
    JointLimits,
    Model,
    Planar,
    Prismatic,
    Revolute,
    Spherical,
    System,
    Wrench,
)
from heavytop.system.joints import Joint

SMOOTHING = 0.01
"""Speed in rad/s or m/s below which dry friction is smoothed."""


class LoadedSystem(System):
    """A system read from a file: it can be extended and derived like any other.

    Attributes
    ----------
    report : which parts of the file are represented and which are not, by name and line.
    input_limits : input name -> its least and largest value.
    input_lags : input name -> time constant in s of a filter of first order before it, inf for an integrator: the input is the state of
        such an actuator, not its command.
    limits : joint name -> bounds of position, speed and effort, as in every system. They are data: ``system.joint_stop`` or
        ``ht.simulate.limit_events`` enforce them.
    keyframes : name -> stored state of the file, as start of a simulation.
    sensors : name -> sensor of the file, a function of the model and the state.
    """

    def __init__(self, robot: Robot) -> None:
        super().__init__(robot.gravity, robot.name)
        self.report: TransferReport = robot.report
        self.input_limits: dict[str, tuple[float, float]] = {}
        self.input_lags: dict[str, float] = {}
        self._robot = robot
        self._sites: dict[str, str] = {}
        self._stored = tuple(robot.keyframes)
        self._zeros = {name: joint.zero for name, joint in robot.joints.items() if joint.zero}
        self._is_kinematic = not any(link.mass or np.any(link.moment) for link in robot.links.values())

    def actuation(self) -> Actuation:
        """The actuators of the file: their ranges, clamps of forces, filters and integrators, as a map from commands to inputs.

        >>> import tempfile, heavytop as ht
        >>> text = '''<mujoco><worldbody><body name="rod"><joint name="elbow"/><geom type="box" size=".1 .1 .1"/></body></worldbody>
        ... <actuator><position name="servo" joint="elbow" kp="50" forcerange="-3 3"/></actuator></mujoco>'''
        >>> with tempfile.NamedTemporaryFile("w", suffix=".xml") as file:
        ...     _ = file.write(text), file.flush()
        ...     system = ht.load(file.name)
        >>> actuation = system.actuation()
        >>> actuation.inputs([0.2], [0.0], [1.0])  # 50 (0.26 - 0.2) = 3
        array([0.26])
        >>> hold = actuation.feedback(lambda t, q, v: ht.vector(1.0))
        >>> run = ht.simulate(system.derive(native=False), ([0.2], [0.0]), until=0.1, step=0.01, control=hold)
        """
        return actuation_of(self.describe(), self._robot)

    @property
    def sensors(self) -> dict[str, SensorFunction]:
        """Sensors of the file by name: functions of the model and the state, without noise.

        >>> import tempfile, heavytop as ht
        >>> text = '''<mujoco><worldbody><body name="rod"><joint name="elbow" axis="0 1 0"/><geom type="box" size="1 1 1"/><site name="imu"/></body>
        ... </worldbody><sensor><gyro name="rate" site="imu"/></sensor></mujoco>'''
        >>> with tempfile.NamedTemporaryFile("w", suffix=".xml") as file:
        ...     _ = file.write(text), file.flush()
        ...     system = ht.load(file.name)
        >>> system.sensors["rate"](system.derive(native=False), [0.3], [2.0])
        array([0., 2., 0.])
        """
        if not self._robot.sensors:
            return {}
        actuation = self.actuation()
        return {
            x.name: SensorFunction(x.name, x.kind, x.target, x, actuation, self._zeros, self._sites)
            for x in self._robot.sensors
        }

    @property
    def keyframes(self) -> dict[str, Keyframe]:
        """Stored states of the file by name, in the coordinates of the model.

        >>> import tempfile, heavytop as ht
        >>> text = '''<mujoco><worldbody><body name="rod"><joint name="elbow"/><geom type="box" size="1 1 1"/></body></worldbody>
        ... <keyframe><key name="home" qpos="0.3"/></keyframe></mujoco>'''
        >>> with tempfile.NamedTemporaryFile("w", suffix=".xml") as file:
        ...     _ = file.write(text), file.flush()
        ...     system = ht.load(file.name)
        >>> system.keyframes["home"].q
        array([0.3])
        >>> run = ht.simulate(system.derive(native=False), system.keyframes["home"], until=0.1, step=0.05)
        """
        if not self._stored:
            return {}
        model = Model(self.describe(), False)
        return {state.name: keyframe_of(model, state, self._zeros) for state in self._stored}


class GivenInertia(Inertia):
    """An inertia that is used as given, except that the mass must not be negative.

    The moments of many robot files break the triangle inequality, and other programs compute with them. The mass matrix of such a robot may
    be indefinite.
    """

    @classmethod
    def check_physical(cls, moments: np.ndarray, where: str) -> None:
        """Raise a ModelError for a negative mass only."""
        if moments[3, 3] < 0:
            raise ModelError(f"{where}: the mass must not be negative, got {moments[3, 3]:g}.")


def build_system(
    robot: Robot,
    base: str = "fixed",
    shapes: str = "visual",
    contacts: str | Sequence[str] | None = None,
    options: Mapping[str, Any] | None = None,
) -> LoadedSystem:
    """The system of a robot; ``base`` "fixed" or "free" joins links without a joint to the world; ``shapes`` "visual" or "collision" are drawn.

    ``contacts`` and their ``options`` as in :func:`.add_contacts`; None: there are none.
    """
    if base not in ("fixed", "free"):
        raise ModelError(f"base must be 'fixed' or 'free', got {base!r}.")
    _check_tree(robot)
    robot = with_valid_names(robot)
    system = LoadedSystem(robot)
    with _located_errors(robot.file):
        _add_bodies(system, robot, base, shapes)
        sites = system._sites = _add_frames(system, robot)
        _add_actuators(system, robot, sites)
        _add_closures(system, robot)
        _add_elements(system, robot)
        if contacts is not None:
            add_contacts(system, robot, contacts, options or {})
    return system


@contextmanager
def _located_errors(where: str) -> Iterator[None]:
    """Turn errors of the system into FileFormatErrors with their place in the file."""
    try:
        yield
    except FileFormatError:
        raise
    except HeavytopError as error:
        raise FileFormatError(f"{where}: {error}") from error


def _check_tree(robot: Robot) -> None:
    """Raise a FileFormatError for missing parents, links with two parents, and cycles."""
    for what in ("links", "frames", "joints", "actuators", "tendons", "closures", "relations"):
        count = len(getattr(robot, what))
        if count > MOST_LINKS:
            raise FileFormatError(f"{robot.file}: it has {count} {what}; at most {MOST_LINKS} are read.")
    carrier: dict[str, RobotJoint] = {}
    for joint in robot.joints.values():
        for role, name in (("parent", joint.parent), ("child", joint.child)):
            if name != WORLD and name not in robot.links:
                raise FileFormatError(
                    f"{joint.where}: joint {joint.name!r} has the {role} {name!r}, which is not a link of the file."
                )
        if joint.child in carrier:
            other = carrier[joint.child]
            raise FileFormatError(
                f"{joint.where}: link {joint.child!r} is carried by two joints, {other.name!r} ({other.where}) and {joint.name!r}. A tree "
                "has one joint per link; close a loop with system.loop(...) after loading."
            )
        carrier[joint.child] = joint
    checked: set[str] = set()
    for name in robot.links:
        path: dict[str, None] = {}
        while name in carrier and name not in checked:
            if name in path:
                names = list(path)
                cycle = " -> ".join(reversed(names[names.index(name) :]))
                raise FileFormatError(f"{carrier[name].where}: the joints form a cycle: {cycle} -> {names[-1]}.")
            path[name] = None
            name = carrier[name].parent
        checked.update(path)


def _add_bodies(system: LoadedSystem, robot: Robot, base: str, shapes: str) -> None:
    carried = {joint.child for joint in robot.joints.values()}
    for name, link in robot.links.items():
        if name == WORLD and base == "fixed":
            continue
        if name == WORLD:
            raise FileFormatError(
                f"{link.where}: the root link is 'world', which cannot move: load the file with base='fixed'."
            )
        with _located_errors(link.where):
            system.body(name, inertia=_inertia(link, robot.report))
        if name not in carried:
            joint = Free() if base == "free" else Fixed()
            system.connect(WORLD, name, joint, name=name if name not in robot.joints else "root_joint")
    for joint in robot.joints.values():
        with _located_errors(joint.where):
            _add_joint(system, robot, joint)
    looks = [(link.name, visual) for link in robot.links.values() for visual in link.visuals]
    chosen = [(name, visual) for name, visual in looks if visual.is_collision == (shapes == "collision")]
    for name, visual in chosen or looks:  # a file with one kind of geometry is drawn with it
        system.shape(name, visual.shape, visual.at, visual.color)


def _inertia(link: RobotLink, report: TransferReport) -> Inertia | None:
    """The inertia of a link, or None for a link without mass and moment; an impossible one is kept and reported."""
    if link.mass is None or (link.mass == 0 and not np.any(link.moment)):
        return None
    try:
        return Inertia(link.mass, link.com, link.moment)
    except ModelError:
        principal = np.array2string(np.linalg.eigvalsh(link.moment), precision=3)
        note = (
            f"no body has these moments (principal ones {principal}, each must be at most the sum of the other two and none negative); "
            "used as given"
        )
        report.changed("inertia", link.name, link.where, note)
        return GivenInertia(link.mass, link.com, link.moment)


def _add_joint(system: LoadedSystem, robot: Robot, joint: RobotJoint) -> None:
    """Connect parent and child, through a frame between them where the child frame is not that of the joint."""
    at, after = joint.at, joint.after
    if joint.kind == JointKind.PLANAR and joint.axis[2] != np.linalg.norm(joint.axis):
        # Planar moves in x-y: turn z to the axis and back
        turn = se3.pose(planar_axes(joint.axis), np.zeros(3))
        at = at @ turn
        after = se3.inverse(turn) if after is None else se3.inverse(turn) @ after
    child = joint.child
    if after is not None:
        moved = frame_name(f"{joint.name}.moved")
        while moved in robot.links:
            moved += "_"
        system.body(moved)
        system.connect(moved, child, Fixed(), after, name=f"{joint.name}.after")
        child = moved
    system.connect(joint.parent, child, _joint(joint), at, name=joint.name)
    if joint.limits != JointLimits() and joint.kind != JointKind.FIXED:
        system.limits[joint.name] = joint.limits


def _joint(joint: RobotJoint) -> Joint:
    if joint.mimic is not None:
        inner = Prismatic(joint.axis) if joint.kind == JointKind.PRISMATIC else Revolute(joint.axis)
        return Coupled(inner, joint.mimic.source, joint.mimic.ratio, joint.mimic.offset)
    if joint.kind in (JointKind.REVOLUTE, JointKind.CONTINUOUS):
        return Revolute(joint.axis)
    if joint.kind == JointKind.PRISMATIC:
        return Prismatic(joint.axis)
    return {JointKind.FIXED: Fixed, JointKind.FLOATING: Free, JointKind.PLANAR: Planar, JointKind.SPHERICAL: Spherical}[
        joint.kind
    ]()


def _add_frames(system: LoadedSystem, robot: Robot) -> dict[str, str]:
    """Sites as frames: site -> name of the frame, another one where a body has the name of the site."""
    made: dict[str, str] = {}
    if not robot.frames:  # describing a large system takes a while
        return made
    taken, names = {WORLD, *system.describe().graph.frames}, {frame.name for frame in robot.frames}
    for frame in robot.frames:
        name = frame.name
        while name in taken or (name != frame.name and name in names):
            name = f"{name}.site"
        if name != frame.name:
            robot.report.changed("site", frame.name, frame.where, f"named {name!r}, as a body has its name")
        taken.add(name)
        system.body(name)
        label = f"{name}.frame"
        while label in robot.joints:
            label += "_"
        system.connect(frame.link, name, Fixed(), frame.at, name=label)
        made[frame.name] = name
    return made


def _add_actuators(system: LoadedSystem, robot: Robot, sites: dict[str, str]) -> None:
    for actuator in robot.actuators:
        if actuator.limits is not None:
            system.input_limits[actuator.name] = actuator.limits
        if actuator.lag:
            system.input_lags[actuator.name] = actuator.lag
        if actuator.frame is not None:
            system.input(actuator.name, Wrench(sites[actuator.frame], actuator.wrench[:3], actuator.wrench[3:]))
        elif actuator.path:
            system.input(actuator.name, PathForce(actuator.path, actuator.gear))
        elif len(actuator.terms) == 1:
            system.input(actuator.name, JointForce(*actuator.terms[0]))
        else:
            system.input(actuator.name, SharedForce(actuator.terms))


def _add_closures(system: LoadedSystem, robot: Robot) -> None:
    for loop in robot.closures:
        joint = Spherical() if loop.kind == "connect" else Fixed()
        system.loop(loop.a, loop.b, joint, loop.at_a, loop.at_b, name=loop.name)
    for relation in robot.relations:
        system.constrain(JointPolynomial.of(system, relation), name=relation.name)
    for relation in robot.length_relations:
        system.constrain(LengthPolynomial.of(system, robot, relation), name=relation.name)


def _add_elements(system: System, robot: Robot) -> None:
    """Springs, dampers, friction and rotor inertia in joints, servos, tendons, gravity compensation."""
    for joint in robot.joints.values():
        if joint.kind != JointKind.FIXED and (joint.stiffness or joint.damping or joint.friction or joint.armature):
            _in_joint(system, robot, joint)
    for servo in robot.servos:
        _servo(system, robot, servo)
    for tendon in robot.tendons:
        if tendon.stiffness or tendon.damping:
            constants = (tendon.stiffness, tendon.damping, *tendon.rest)
            path, terms = tendon.path, tendon.terms
            system.add(PathTendon(*constants, path=path) if path else JointTendon(*constants, terms=terms))
    for link in robot.links.values():
        if link.gravity_compensation and link.mass:
            weight = link.gravity_compensation * link.mass * np.array(robot.gravity)
            system.add(GravityCompensation(link.name, link.com, weight))


def _servo(system: System, robot: Robot, servo: ServoTerm) -> None:
    """A spring and damper in a joint if they represent it, otherwise a force along the length."""
    k, d, f = servo.stiffness, servo.damping, servo.constant
    plain = len(servo.terms) == 1 and robot.joints[servo.terms[0][0]].mimic is None and (k > 0 or not (k or f))
    if plain:
        ((joint, c),) = servo.terms
        if k:
            system.joint_spring(joint, stiffness=k * c * c, rest=f / (k * c))
        if d:
            system.joint_damper(joint, damping=d * c * c)
    elif servo.path:
        system.add(PathTendon(k, d, 0.0, 0.0, f, path=servo.path))
    else:
        system.add(JointTendon(k, d, 0.0, 0.0, f, terms=servo.terms))


def _in_joint(system: System, robot: Robot, joint: RobotJoint) -> None:
    if joint.kind == JointKind.FLOATING:
        _on_free_joint(system, robot, joint)
        return
    # elements of a joint that follows another one act on that one
    mimic = joint.mimic or Mimic(joint.name, 1.0, 0.0)
    target, ratio, offset = mimic.source, mimic.ratio, mimic.offset
    if ratio == 0:
        return  # it does not move
    if joint.stiffness:
        rest = 0.0 if joint.kind == JointKind.SPHERICAL else (joint.rest - offset) / ratio
        system.joint_spring(target, stiffness=joint.stiffness * ratio**2, rest=rest)
    if joint.damping:
        system.joint_damper(target, damping=joint.damping * ratio**2)
    if joint.armature:
        system.armature(target, joint.armature, abs(ratio))
    if joint.friction:
        system.joint_friction(target, coulomb=joint.friction * abs(ratio), smoothing=SMOOTHING / abs(ratio))
        robot.report.changed("dry friction", joint.name, joint.where, f"smoothed below {SMOOTHING} rad/s or m/s")


def _on_free_joint(system: System, robot: Robot, joint: RobotJoint) -> None:
    """A free body: damping and rotor inertia are the same in world and body axes."""
    if joint.damping:
        system.joint_damper(joint.name, damping=joint.damping)
    if joint.armature:
        system.armature(joint.name, joint.armature)
    for label in ("stiffness", "friction"):
        if getattr(joint, label):
            robot.report.lost(label, joint.name, joint.where, "not on a free joint")
