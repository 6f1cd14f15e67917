"""The builder: describe bodies, joints, springs, dampers, inputs and parameters, then derive."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np

from heavytop._arrays import Array, Floats, as_array, constant, depends_on, is_symbolic, symbol
from heavytop._elsewhere import Advised
from heavytop._format import Overview, Shown, counted, format_vector, listed
from heavytop.compile import on_symbols
from heavytop.errors import HeavytopError, ModelError, ShapeError, unknown_name, wrong_shape
from heavytop.functions import Portable
from heavytop.system.composition import (
    Prefixed,
    renamed_constraint,
    renamed_edge,
    renamed_element,
    renamed_loop,
)
from heavytop.system.contacts.contact import Contact, Ground
from heavytop.system.contacts.one_sided import HardStop, Inequality, Rope, StickingFriction
from heavytop.system.contacts.surfaces import Height, Plane, Solid
from heavytop.system.description import GRAVITY, TIME, WORLD, check_frame_name, check_name
from heavytop.system.description.description import Basis, Description, FunctionConstraint, Loop, Parameter, at_defaults
from heavytop.system.description.graph import Edge, FrameGraph, check_pose, placement
from heavytop.system.description.inputs import Input
from heavytop.system.description.moments import Damping, Inertia, Moments, SpringSet, Stiffness
from heavytop.system.description.shapes import Bore, PlacedShape, Points, Rim, Shape, color_of
from heavytop.system.dynamics.rheonomic import depends_on_time
from heavytop.system.forces import (
    Armature,
    Damper,
    Dissipation,
    Force,
    ForceElement,
    JointBristles,
    JointDamper,
    JointFriction,
    JointSpring,
    JointStop,
    Potential,
    Spring,
    Strut,
)
from heavytop.system.forces.base import renamed
from heavytop.system.forces.contact import HERTZ, RESTITUTION, CompliantContact, compliant_contact, hysteresis_of
from heavytop.system.forces.inner import InnerJoint
from heavytop.system.forces.tyre import LOW_SPEED, RelaxingTyre, Tyre
from heavytop.system.joints import Fixed, Joint
from heavytop.system.joints.base import JointLimits
from heavytop.system.model import Model


class System(Portable, Shown, Advised):
    """A system of rigid bodies under construction.

    Parameters
    ----------
    gravity : (3,) acceleration of free fall in world axes, m/s^2 (world z points up).
    name : used in messages and reports.

    Examples
    --------
    >>> import heavytop as ht
    >>> system = ht.System(name="pendulum")
    >>> system.body("rod", joint=ht.Revolute("y"), inertia=ht.Inertia(mass=1.0, com=(0, 0, -0.5), moment_at_com=(1 / 12, 1 / 12, 0)))
    >>> model = system.derive()
    >>> model.acceleration([0.1], [0.0]).round(6)
    array([-1.469049])
    """

    def __init__(self, gravity: Array = (0.0, 0.0, -GRAVITY), name: str = "system") -> None:
        if isinstance(gravity, str):
            raise ModelError(
                f"gravity must be three numbers, got {gravity!r}. Did you mean ht.System(name={gravity!r})?"
            )
        self.name = name
        self._parameters: dict[str, Parameter] = {}
        self._time = Parameter(TIME, symbol("t"), 0.0, is_time=True)
        self._frames: list[str] = [WORLD]
        self._edges: list[Edge] = []
        self._inertias: dict[str, Inertia] = {}
        self._elements: list[ForceElement] = []
        self._inputs: dict[str, Input] = {}
        self._loops: list[Loop] = []
        self._constraints: list[FunctionConstraint] = []
        self._basis: Basis | None = None
        self._shapes: list[PlacedShape] = []
        self._is_kinematic = False
        self._grounds: dict[str, Ground] = {}
        self._contacts: dict[str, Contact] = {}
        self._inequalities: dict[str, Inequality] = {}
        self.limits: dict[str, JointLimits] = {}
        """Joint name -> bounds, as data: ``joint_stop`` or ``ht.simulate.limit_events`` enforce them."""
        self.input_limits: dict[str, tuple[float, float]] = {}
        """Input name -> its least and largest value, as data: for laws and plans."""
        self.gravity = gravity

    def __repr__(self) -> str:
        sizes = ((self._inertias, "body"), (self._edges, "joint"), (self._inputs, "input"))
        return f"System({self.name!r}: {', '.join(counted(len(items), noun) for items, noun in sizes)})"

    def _overview(self) -> Overview:
        joints = [f"{edge.label} ({type(edge.joint).__name__.lower()}: {edge.a} to {edge.b})" for edge in self._edges]
        rows = [("bodies", listed(self._inertias)), ("joints", listed(joints))]
        more = (
            ("loops", [loop.name for loop in self._loops]),
            ("constraints", [constraint.name for constraint in self._constraints]),
            ("contacts", [*self._contacts, *self._inequalities]),
            ("force elements", [type(element).__name__ for element in self._elements]),
            ("inputs", list(self._inputs)),
            ("parameters", [f"{p.name} = {p.value:.6g}" for p in self._parameters.values()]),
            ("time", ["moves frames or changes forces"] * self._depends_on_time()),
        )
        rows += [(title, listed(names)) for title, names in more if names]
        gravity = "symbolic" if is_symbolic(self.gravity) else f"{format_vector(self.gravity, 6)} m/s²"
        return Overview(f"System {self.name}", (*rows, ("gravity", gravity)))

    def _depends_on_time(self) -> bool:
        try:
            return self.describe().time is not None
        except HeavytopError:  # the description is not complete yet
            return False

    def __copy__(self) -> System:
        """An independent system; immutable parts and parameters are shared."""
        made = System.__new__(type(self))
        vars(made).update({name: copy(part) for name, part in vars(self).items()})
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> System:
        return copy(self)

    @property
    def gravity(self) -> Array:
        """Acceleration of free fall (3,) in world axes, m/s^2: read-only; assign a whole vector, of numbers or expressions, to change it."""
        return self._gravity

    @gravity.setter
    def gravity(self, value: Array) -> None:
        gravity = constant(value, f"gravity of {self.name!r}")
        if gravity.shape != (3,):
            raise wrong_shape(f"gravity of {self.name!r}", (3,), gravity.shape)
        if not is_symbolic(gravity) and not np.all(np.isfinite(gravity)):
            raise ShapeError(f"gravity of {self.name!r} must be finite, got {gravity.tolist()}.")
        self._gravity = gravity

    # --- bodies and frames ------------------------------------------------------------------------------------------------

    def body(
        self,
        name: str,
        *,
        parent: str = WORLD,
        at: Array | None = None,
        joint: Joint | None = None,
        inertia: Inertia | None = None,
    ) -> None:
        """Add a rigid body.

        Parameters
        ----------
        name : unique among bodies and frames.
        parent : the body or frame its joint hangs on; it may be declared later.
        at : joint frame in the parent frame: a position (3,), a pose (4, 4), or None for the parent frame itself.
        joint : how it moves relative to the parent; None when :meth:`connect` gives the joint.
        inertia : None for a body without mass.
        """
        self._check_frame_name(name)
        if inertia is not None:
            self._check_moments(inertia, Inertia, f"body {name!r}")
        if joint is not None:
            self._connect(parent, name, joint, at, name)
        self._frames.append(name)
        if inertia is not None:
            self._inertias[name] = inertia

    def set_inertia(self, body: str, inertia: Inertia) -> None:
        """Replace the inertia of a body, for example by its sum with that of a payload.

        >>> import heavytop as ht
        >>> system = ht.System()
        >>> system.body("cart", joint=ht.Prismatic("x"), inertia=ht.Inertia(1.0))
        >>> system.set_inertia("cart", ht.Inertia(1.0) + ht.Inertia(system.parameter("payload", 0.5)))
        >>> system.derive(native=False).mass
        1.5
        """
        if body not in self._inertias:
            raise unknown_name("body with an inertia", body, self._inertias)
        self._check_moments(inertia, Inertia, f"body {body!r}")
        self._inertias[body] = inertia

    def frame(self, name: str, body: str, at: Array) -> None:
        """Add a named frame fixed to ``body`` at a position (3,) or pose (4, 4)."""
        self._check_frame_name(name)
        self._connect(body, name, Fixed(), at, name)
        self._frames.append(name)

    def connect(self, a: str, b: str, joint: Joint, at: Array | None = None, name: str | None = None) -> None:
        """Add the transformation from frame a to frame b = ``at`` followed by ``joint``, in any direction of the tree.

        ``name`` labels the joint's coordinates; default: the name of b.
        """
        self._connect(a, b, joint, at, name or b)

    def shape(self, body: str, shape: Shape, at: Array | None = None, color: object = None) -> None:
        """Give a body or frame a shape to be drawn with; it has no effect on the motion.

        Parameters
        ----------
        body : body, frame or "world".
        shape : ``ht.Box``, ``Cylinder``, ``Sphere``, ``Capsule``, ``Ellipsoid`` or ``Mesh``.
        at : where the shape is in the body frame: a position (3,), a pose (4, 4), or None.
        color : "#rrggbb", three or four numbers from 0 to 1, or None.

        Examples
        --------
        >>> import heavytop as ht
        >>> brick = ht.Box((0.2, 0.1, 0.05))
        >>> system = ht.System()
        >>> system.body("brick", joint=ht.Free(), inertia=ht.Inertia.of(brick, density=2000.0))
        >>> system.shape("brick", brick, color="#aa3311")
        """
        if not hasattr(shape, "unit_moments"):
            raise ModelError(f"the shape of {body!r} must be a shape such as ht.Box((1, 1, 1)), got {shape!r}.")
        where = f"at of the shape of {body!r}"
        self._shapes.append(PlacedShape(body, shape, self._at_defaults(self._pose(at, where), where), color_of(color)))

    def _check_frame_name(self, name: str) -> None:
        check_frame_name(name)
        if name in self._frames:
            raise ModelError(
                f"the name {name!r} is taken: body and frame names must be unique (and 'world' is reserved)."
            )

    def _connect(self, a: str, b: str, joint: Joint, at: Array, label: str) -> None:
        if any(edge.label == label for edge in self._edges):
            raise ModelError(f"joint name {label!r} is taken. Choose another one: system.connect(..., name=...).")
        if not isinstance(joint, Joint):
            raise ModelError(
                f"the joint of {label!r} must be a joint such as ht.Revolute('y') or ht.Free(), got {joint!r}."
            )
        placed, joint = joint.prescribed(self._pose(at, f"at of joint {label!r}"), self.time)
        if depends_on(placed, self.time):
            placed = self._pose(placed, f"motion of joint {label!r}")
            if not joint.is_fixed:  # the anchor becomes a frame, so that joints never move by themselves
                anchor = f"{label} anchor"
                self._check_frame_name(anchor)
                self._frames.append(anchor)
                self._edges.append(Edge(a, anchor, placed, Fixed(), anchor))
                a, placed = anchor, np.eye(4)
        self._add_joint_parts(label, joint)
        self._edges.append(Edge(a, b, placed, joint, label))

    def _pose(self, at: Array, where: str) -> Array:
        value = placement(at, where)
        check_pose(where, lambda instant: self._at_defaults(value, where, instant), depends_on(value, self.time))
        return value

    # --- systems inside systems -------------------------------------------------------------------------------------------

    def attach(
        self,
        system: System,
        parent: str = WORLD,
        at: Array | None = None,
        *,
        prefix: str = "",
        joint: Joint | None = None,
    ) -> str:
        """Add all of another system: a robot of a file, a gripper on an arm, an arm under a drone, an object.

        Bodies, frames, joints, loops and constraints get the ``prefix`` in their names, inputs and parameters too (characters that these
        cannot have become ``_``). Force elements, contacts, limits and shapes are included, gravity is that of this system. The other is unchanged.

        Parameters
        ----------
        system : the other one; its world becomes a frame of this system, ``{prefix}mount`` (with ``_`` behind it if that is taken).
        parent : body or frame that carries it.
        at : where its world is in ``parent``: a position (3,), a pose (4, 4), or None.
        prefix : prefix of all names, such as "gripper/".
        joint : how it moves relative to ``parent``; None: it is fixed.

        Returns
        -------
        str : name of the frame that is its world.

        Examples
        --------
        >>> import heavytop as ht
        >>> finger = ht.System()
        >>> finger.body("tip", joint=ht.Prismatic("y", limits=(0, 0.04)), inertia=ht.Inertia(0.1))
        >>> finger.input("grip", ht.JointForce("tip"))
        >>> arm = ht.System(name="arm")
        >>> arm.body("link", joint=ht.Revolute("z"), inertia=ht.Inertia(1.0, com=(0.5, 0, 0)))
        >>> arm.attach(finger, parent="link", at=(1, 0, 0), prefix="left/")
        'left/mount'
        >>> model = arm.derive()
        >>> model.q_names, model.u_names
        (('link.angle', 'left/tip.x'), ('left_grip',))
        """
        other = copy(system)
        for what, owner in (("the system", self), ("the attached system", other)):
            if owner._basis is not None:
                raise ModelError(
                    f"{what} {owner.name!r} has a basis of velocities, which belongs to a complete system. Attach first, then choose the basis."
                )
        held = {id(parameter.symbol): label for label, parameter in self._parameters.items()}
        if shared := [held[id(x.symbol)] for x in other._parameters.values() if id(x.symbol) in held]:
            raise ModelError(
                f"{other.name!r} is already attached, and its parameters belong to that copy ({shared[0]!r}). Describe it once more for a "
                "second copy with its own parameters."
            )
        self._adopt_time(other)
        mount, taken = f"{prefix}mount", {*self._frames, *(f"{prefix}{frame}" for frame in other._frames)}
        while mount in taken:
            mount += "_"
        self.body(mount, parent=parent, at=at, joint=joint or Fixed())
        name = Prefixed(prefix, mount)
        q, v = (slice(n, n + m) for n, m in zip(self._sizes(), other._sizes(), strict=True))
        own_q, own_v = slice(0, q.start), slice(0, v.start)
        # functions of this system keep its coordinates
        self._elements = [renamed_element(x, str, own_q, own_v) if x.reads_coordinates else x for x in self._elements]
        self._constraints = [renamed_constraint(x, str, own_q, own_v) for x in self._constraints]
        for frame in other._frames:
            if frame != WORLD:
                self._check_frame_name(name(frame))
                self._frames.append(name(frame))
        labels = {edge.label for edge in self._edges}
        for edge in other._edges:
            made = renamed_edge(edge, name)
            if made.label in labels:
                raise ModelError(
                    f"joint name {made.label!r} is taken. Choose another prefix: system.attach(..., prefix=...)."
                )
            self._edges.append(made)
        self._inertias |= {name(body): inertia for body, inertia in other._inertias.items()}
        self._elements += [renamed_element(element, name, q, v) for element in other._elements]
        for label, element in other._inputs.items():
            self.input(name.plain(label), renamed(element, name, world=False))
        for label, parameter in other._parameters.items():
            if name.plain(label) in self._parameters:
                raise ModelError(
                    f"the parameter name {name.plain(label)!r} is taken. Choose another prefix: system.attach(..., prefix=...)."
                )
            self._parameters[name.plain(label)] = replace(parameter, name=name.plain(label))
        taken = {item.name for item in (*self._loops, *self._constraints)}
        for item in (*other._loops, *other._constraints):
            if name(item.name) in taken:
                raise ModelError(
                    f"the constraint name {name(item.name)!r} is taken. Choose another prefix: system.attach(..., prefix=...)."
                )
        self._loops += [renamed_loop(loop, name) for loop in other._loops]
        self._constraints += [renamed_constraint(constraint, name, q, v) for constraint in other._constraints]
        self._attach_contacts(other, name)
        self._shapes += [replace(placed, body=name(placed.body)) for placed in other._shapes]
        self.limits |= {name(label): limits for label, limits in other.limits.items()}
        self.input_limits |= {name.plain(label): pair for label, pair in other.input_limits.items()}
        self._is_kinematic = self._is_kinematic or other._is_kinematic
        return mount

    def _attach_contacts(self, other: System, name: Prefixed) -> None:
        """Take the grounds, rigid contacts, stops, ropes and sticking frictions of another system."""
        taken = {*self._grounds, *self._contacts, *self._inequalities, *self._frames}
        for label in (*other._grounds, *other._contacts, *other._inequalities):
            if label not in other._frames and name(label) in taken:
                raise ModelError(
                    f"the name {name(label)!r} of a contact or ground is taken. Choose another prefix: system.attach(..., prefix=...)."
                )
        for ground in other._grounds.values():
            self._grounds[name(ground.name)] = replace(ground, name=name(ground.name), frame=name(ground.frame))
        for contact in other._contacts.values():
            body, partner = name(contact.body), name(contact.partner)
            self._contacts[name(contact.name)] = replace(contact, name=name(contact.name), body=body, partner=partner)
        for item in other._inequalities.values():
            frames = {"a": name(item.a), "b": name(item.b)} if isinstance(item, Rope) else {"joint": name(item.joint)}
            self._inequalities[name(item.name)] = replace(item, name=name(item.name), **frames)

    def _sizes(self) -> tuple[int, int]:
        """Numbers of coordinates q and velocities so far."""
        blocks = [edge.joint.coordinates for edge in self._edges]
        return sum(block.nq for block in blocks), sum(block.nv for block in blocks)

    def _adopt_time(self, other: System) -> None:
        """Take the symbol of the time of a system that depends on it."""
        if not other._depends_on_time():
            return
        if self._depends_on_time() and self._time.symbol is not other._time.symbol:
            raise ModelError(
                f"{self.name!r} and {other.name!r} both depend explicitly on the time. Attach the systems first, then use system.time of the whole."
            )
        self._time = other._time

    # --- force elements ---------------------------------------------------------------------------------------------------

    def add(self, element: ForceElement) -> None:
        """Add a force element: one of ``ht.system.forces``, or your own :class:`~heavytop.PairElement` or :class:`~heavytop.JointElement`."""
        element.check_pieces()
        if element.states:
            if not element.memory:
                raise ModelError(
                    f"{element.title} has states, {element.states}, but no name for them. Give it memory = 'name'."
                )
            self.body(element.memory, joint=InnerJoint(element.states))
        self._elements.append(element)

    def spring(self, a: str, b: str, stiffness: Stiffness | SpringSet, rest: Array | None = None) -> None:
        """Add a spring of body b relative to body a.

        ``rest`` is the relaxed pose (4, 4) or position (3,) of b in a; None: where b is in the neutral configuration. A
        :class:`SpringSet` from ``Stiffness.from_springs`` brings its own rest pose and least energy.
        """
        least = 0.0
        if isinstance(stiffness, SpringSet):
            stiffness, rest, least = stiffness
        where = f"spring between {a!r} and {b!r}"
        self._check_moments(stiffness, Stiffness, where)
        pose = None if rest is None else self._pose(rest, f"rest pose of {where}")
        self.add(Spring(a, b, stiffness, pose, least))

    def damper(self, a: str, b: str, damping: Damping) -> None:
        """Add a damper: body b moves through a viscous fluid fixed to body a (not symmetric in a and b, section 3.4.5)."""
        self._check_moments(damping, Damping, f"damper between {a!r} and {b!r}")
        self.add(Damper(a, b, damping))

    def strut(
        self,
        a: str,
        b: str,
        *,
        at_a: Array = (0.0, 0.0, 0.0),
        at_b: Array = (0.0, 0.0, 0.0),
        stiffness: Array = 0.0,
        rest_length: Array = 0.0,
        damping: Array = 0.0,
    ) -> None:
        """Add a spring-damper on the line between the point ``at_a`` of body a and ``at_b`` of body b.

        ``stiffness`` in N/m, ``rest_length`` in m, ``damping`` in N s/m; the points must not coincide during the motion.
        """
        where = f"strut between {a!r} and {b!r}"
        points = [as_array(at_a), as_array(at_b)]
        if any(depends_on(point, self.time) for point in points):
            raise ModelError(
                f"the points of {where} must not depend on the time, since its damper would not notice. Attach it to a moving frame: "
                "system.frame(name, body, at) with an at that depends on system.time."
            )
        for label, point in zip(("at_a", "at_b"), points, strict=True):
            if point.shape != (3,):
                raise wrong_shape(f"{label} of {where}", (3,), point.shape)
        for label, value in (("stiffness", stiffness), ("rest_length", rest_length), ("damping", damping)):
            number = self._at_defaults(as_array(value), f"{label} of {where}")
            if number.shape != () or not np.isfinite(number) or number < 0:
                raise ModelError(f"{label} of {where} must be one finite, non-negative number, got {number.tolist()}.")
        self.add(Strut(a, b, points[0], points[1], stiffness, rest_length, damping))

    def potential(self, fn: Callable[[Array], Array]) -> None:
        """Add a potential energy ``fn(q)`` in J, written in NumPy notation."""
        self.add(Potential(on_symbols(fn, "potential")))

    def dissipation(self, fn: Callable[[Array, Array], Array]) -> None:
        """Add a dissipation function ``fn(q, v)`` in W (half the power for a quadratic one); its force is d fn/dv.

        ``v`` are the joints' own velocity coordinates, also where ``derive(velocity=...)`` or a basis chooses others.
        """
        self.add(Dissipation(on_symbols(fn, "dissipation")))

    def force(self, fn: Callable[[Array, Array], Array]) -> None:
        """Add a generalised force ``fn(q, v)`` on the right-hand side.

        ``v`` and the force belong to the joints' own velocity coordinates, also where ``derive(velocity=...)`` or a basis chooses others.
        """
        self.add(Force(on_symbols(fn, "force")))

    def input(self, name: str, element: Input) -> None:
        """Add an input: one column of B(q)."""
        check_name(name, "an input")
        if name in self._inputs:
            raise ModelError(f"the input name {name!r} is taken: input names must be unique.")
        self._inputs[name] = element

    # --- elements and limits of joints ------------------------------------------------------------------------------------

    def limit(
        self,
        joint: str,
        lower: float | None = None,
        upper: float | None = None,
        *,
        velocity: float | None = None,
        effort: float | None = None,
        hard: bool = False,
        restitution: Array = 0.0,
    ) -> None:
        """Store the bounds of a joint of one axis in :attr:`limits`: data for stops, events, sliders and robot files.

        Parameters
        ----------
        joint : name of the joint.
        lower, upper : ends of its range, rad or m; None: no end.
        velocity, effort : largest speed (rad/s or m/s) and force (N m or N); None: no bound.
        hard : whether the ends are rigid stops, which ``integrator="moreau"`` simulates; otherwise they exert no force.
        restitution : restitution of rigid stops, from 0 to 1.

        Examples
        --------
        >>> import heavytop as ht
        >>> system = ht.System()
        >>> system.body("door", joint=ht.Revolute("z"), inertia=ht.Inertia(1.0, com=(0.5, 0, 0)))
        >>> system.limit("door", 0.0, 1.5)
        >>> system.joint_stop("door", stiffness=1e3)  # at these limits
        """
        where = f"limits of joint {joint!r}"
        given = {"lower": lower, "upper": upper, "velocity": velocity, "effort": effort}
        kept = {name: float(x) for name, x in given.items() if x is not None and np.isfinite(x)}
        if any(x is not None and np.isnan(x) for x in given.values()):
            raise ModelError(f"{where} must be numbers, got {given}.")
        if kept.get("lower", -np.inf) > kept.get("upper", np.inf):
            raise ModelError(f"{where}: lower must not exceed upper, got {lower} and {upper}.")
        if min(kept.get("velocity", 0.0), kept.get("effort", 0.0)) < 0.0:
            raise ModelError(f"{where}: velocity and effort must not be negative, got {velocity} and {effort}.")
        if hard and not {"lower", "upper"} & set(kept):
            raise ModelError(f"{where}: a hard limit needs an end, lower or upper.")
        if not hard and (is_symbolic(restitution) or np.any(restitution)):
            raise ModelError(f"{where}: restitution= belongs to rigid stops. Give hard=True, or omit it.")
        self.limits[joint] = JointLimits(**kept)
        self._inequalities.pop(f"{joint} limit", None)
        if hard:
            self._check_restitution(where, restitution)
            stop = HardStop(f"{joint} limit", joint, kept.get("lower"), kept.get("upper"), restitution)
            self._inequalities[stop.name] = stop

    def _check_restitution(self, where: str, restitution: Array) -> None:
        self._check_values(where, vectors=False, restitution=restitution)
        if np.max(self._at_defaults(as_array(restitution), where)) > 1.0:
            raise ModelError(f"restitution of {where} must be from 0 to 1, got {restitution!r}.")

    def joint_spring(self, joint: str, *, stiffness: Array, rest: Array = 0.0) -> None:
        """Add a spring in a joint.

        Parameters
        ----------
        joint : name of the joint: that of the body it carries, or ``name`` of :meth:`connect`.
        stiffness : N m/rad or N/m; one number or one for each velocity of the joint.
        rest : relaxed displacement from the neutral configuration, rad or m; for rotations the rotation vector.
        """
        where = f"joint spring in {joint!r}"
        self._check_values(where, stiffness=stiffness)
        self._check_values(where, sign=False, rest=rest)
        self.add(JointSpring(joint, stiffness, rest))

    def joint_damper(self, joint: str, *, damping: Array) -> None:
        """Add viscous friction in a joint: ``damping`` in N m s/rad or N s/m, one number or one for each velocity of the joint."""
        self._check_values(f"joint damper in {joint!r}", damping=damping)
        self.add(JointDamper(joint, damping))

    def joint_friction(
        self,
        joint: str,
        *,
        coulomb: Array,
        viscous: Array = 0.0,
        static: Array | None = None,
        stribeck_speed: Array = 0.1,
        smoothing: Array = 0.01,
        sticking: bool = False,
        bristles: Array | None = None,
    ) -> None:
        """Add dry friction in a joint: ``(F_C + (F_S - F_C) exp(-(w / w_S)^2)) tanh(w / w_0) + d w`` against the velocity w.

        Parameters
        ----------
        joint : name of the joint.
        coulomb : F_C, N m or N; like all values one number, or one for each velocity of the joint.
        viscous : d, N m s/rad or N s/m.
        static : F_S, N m or N; None: as ``coulomb``.
        stribeck_speed : w_S, rad/s or m/s, at which the static friction has gone.
        smoothing : w_0, rad/s or m/s, within which the sign of w is smoothed; small values make the equations stiff.
        sticking : whether the joint sticks up to F_C instead, exactly, which ``integrator="moreau"`` simulates; without Stribeck's effect.
        bristles : displacement in rad or m at which F_C is reached, such as 1e-4, instead of the tanh: the joint sticks without creeping, with
            every integrator (:mod:`heavytop.system.forces.inner`); without Stribeck's effect.
        """
        where = f"joint friction in {joint!r}"
        if sticking and bristles is not None:
            raise ModelError(f"{where}: sticking=True and bristles= are different laws of friction. Omit one of them.")
        if sticking:
            self._check_values(where, coulomb=coulomb, viscous=viscous)
            if static is not None:
                raise ModelError(f"{where}: sticking friction has one coefficient. Omit static=.")
            self._inequalities[f"{joint} friction"] = StickingFriction(f"{joint} friction", joint, coulomb)
            if is_symbolic(viscous) or np.any(viscous):
                self.joint_damper(joint, damping=viscous)
            return
        if bristles is not None:
            self._check_values(where, coulomb=coulomb, viscous=viscous)
            self._check_values(where, positive=True, bristles=bristles)
            if static is not None:
                raise ModelError(f"{where}: bristles have one strength. Omit static=.")
            edge = next((edge for edge in self._edges if edge.label == joint), None)
            if edge is None:
                raise unknown_name("joint (declare it before its bristles)", joint, [e.label for e in self._edges])
            names = edge.joint.own_coordinates.v_names
            self.add(JointBristles(joint, coulomb, bristles, names, f"{joint} bristles"))
            if is_symbolic(viscous) or np.any(viscous):
                self.joint_damper(joint, damping=viscous)
            return
        self._check_values(where, coulomb=coulomb, viscous=viscous, static=coulomb if static is None else static)
        self._check_values(where, positive=True, stribeck_speed=stribeck_speed, smoothing=smoothing)
        self.add(JointFriction(joint, coulomb, viscous, static, stribeck_speed, smoothing))

    def joint_stop(
        self,
        joint: str,
        *,
        lower: Array | None = None,
        upper: Array | None = None,
        stiffness: Array,
        damping: Array = 0.0,
        smoothing: Array = 1e-3,
    ) -> None:
        """Add compliant stops to a joint.

        Parameters
        ----------
        joint : name of the joint.
        lower, upper : ends of its range, rad or m (for rotations of the rotation vector from the neutral attitude); None: no end. Without
            both the ends are those of ``system.limits``.
        stiffness, damping : beyond the ends, N m/rad and N m s/rad, or N/m and N s/m.
        smoothing : depth in rad or m over which the stop sets in, with a force of continuous slope.
        """
        where = f"joint stop in {joint!r}"
        if lower is None and upper is None and joint in self.limits:
            lower, upper = self.limits[joint].lower, self.limits[joint].upper
        if lower is None and upper is None:
            raise ModelError(f"{where} needs an end: lower=, upper= or both, or limits of the joint (system.limit).")
        low, high = -np.inf if lower is None else lower, np.inf if upper is None else upper
        self._check_values(where, stiffness=stiffness, damping=damping)
        self._check_values(where, positive=True, smoothing=smoothing)
        ends = [self._at_defaults(as_array(end), f"ends of {where}") for end in (low, high)]
        if not np.all(ends[0] <= ends[1]):
            raise ModelError(f"{where}: lower must not exceed upper, got {ends[0].tolist()} and {ends[1].tolist()}.")
        self.add(JointStop(joint, low, high, stiffness, damping, smoothing))

    def armature(
        self, joint: str, inertia: Array, gear_ratio: Array = 1.0, *, body: str | None = None, axis: Any = None
    ) -> None:
        """Add the inertia of a motor's rotor to a joint: ``inertia * gear_ratio**2`` on its velocity, without a further coordinate.

        Parameters
        ----------
        joint : name of the joint that the motor drives.
        inertia : inertia of the rotor about its axis, kg m^2 (kg for sliding joints); like ``gear_ratio`` one number, or one for each velocity.
        gear_ratio : turns of the rotor per turn of the joint.
        body : the body (or frame) on which the motor is mounted; the spin of the rotor then also turns this body, exactly. The inertia of
            the body includes the rotor as if it were welded to it. None: the gyroscopic effect is left out.
        axis : axis of the rotor in ``body``; None: that of the joint.
        """
        where = f"armature in {joint!r}"
        self._check_values(where, inertia=inertia)
        self._check_values(where, sign=False, gear_ratio=gear_ratio)
        if axis is not None and body is None:
            raise ModelError(f"{where}: axis= belongs to a rotor on a body; name the body with body=.")
        self.add(Armature(joint, inertia, gear_ratio, body, axis))

    def _add_joint_parts(self, label: str, joint: Joint) -> None:
        """Add the elements and limits that are given as keywords of a joint."""
        parts = joint.parts
        if not parts:
            return
        if joint.is_fixed:
            raise ModelError(f"joint {label!r} does not move, so {', '.join(parts)} cannot act in it.")
        if "stiffness" in parts:
            self.joint_spring(label, stiffness=parts["stiffness"], rest=parts.get("rest", 0.0))
        if "damping" in parts:
            self.joint_damper(label, damping=parts["damping"])
        if "friction" in parts:
            self.joint_friction(label, **_keywords(parts["friction"], "coulomb"))
        if "armature" in parts:
            self.armature(label, **_keywords(parts["armature"], "inertia"))
        if "limits" in parts:
            self._limit_by_keyword(label, joint, parts["limits"])

    def _limit_by_keyword(self, label: str, joint: Joint, value: Any) -> None:
        if isinstance(value, JointLimits):
            self.limit(label, value.lower, value.upper, velocity=value.velocity, effort=value.effort)
            return
        if isinstance(value, Mapping):
            self.joint_stop(label, **value)
            ends = value.get("lower"), value.get("upper")
            if all(end is None or isinstance(end, int | float) for end in ends):
                self.limit(label, *ends)
            return
        if joint.own_coordinates.nv != 1:
            raise ModelError(
                f"limits= of joint {label!r}: it has {joint.own_coordinates.nv} velocities, and (lower, upper) bounds one. Use stops: "
                "limits={'lower': ..., 'upper': ..., 'stiffness': ...} with one number each for every velocity."
            )
        self.limit(label, *value)

    def _check_values(
        self, where: str, sign: bool = True, positive: bool = False, vectors: bool = True, **values: Array
    ) -> None:
        """Raise a ModelError unless all numbers or ``vectors`` are finite, not negative (``sign``), or positive (``positive``)."""
        for label, value in values.items():
            number = self._at_defaults(as_array(value), f"{label} of {where}")
            is_finite, least = bool(np.all(np.isfinite(number))), np.min(number, initial=np.inf)
            if number.ndim > vectors or not is_finite or (sign and least < 0) or (positive and least <= 0):
                needed = "positive" if positive else "finite and not negative" if sign else "finite"
                count = "one number or one for each velocity" if vectors else "one number"
                raise ModelError(f"{label} of {where} must be {needed}: {count}, got {number.tolist()}.")

    # --- contacts -----------------------------------------------------------------------------------------------------------

    def ground(
        self,
        height: Callable[[Array, Array], Array] | None = None,
        frame: str = WORLD,
        friction: Array | None = None,
        name: str = "ground",
    ) -> None:
        """Add a surface that contacts can meet: the plane z = 0 of a frame, or a height over it.

        Parameters
        ----------
        height : ``height(x, y)`` in m, in NumPy notation, or an ``ht.HeightGrid``; None: z = 0.
        frame : body or frame that carries it, "world" by default.
        friction : Coulomb's coefficient of contacts that give none.
        name : for :meth:`contact`.

        Examples
        --------
        >>> import heavytop as ht, numpy as np
        >>> system = ht.System()
        >>> system.ground(height=lambda x, y: 0.1 * np.sin(x), friction=0.8)
        """
        check_frame_name(name)
        if name in self._grounds or name in self._frames:
            raise ModelError(f"the name {name!r} is taken: grounds, bodies and frames must have unique names.")
        if friction is not None:
            self._check_values(f"ground {name!r}", vectors=False, friction=friction)
        surface = Plane() if height is None else Height(height)
        self._grounds[name] = Ground(name, frame, surface, friction)

    def contact(
        self,
        body: str,
        partner: str = "ground",
        shape: Shape | Points | Rim | None = None,
        *,
        at: Array | None = None,
        against: Shape | Bore | None = None,
        friction: Array | None = None,
        restitution: Array | tuple[float, float] | None = None,
        stiffness: Array | None = None,
        name: str | None = None,
        exponent: float | None = None,
        hysteresis: Array | None = None,
        slip_speed: Array | None = None,
        turn_speed: Array | None = None,
        rolling: Array | None = None,
        spinning: Array | None = None,
        patch: Array | None = None,
        bristles: Array | None = None,
    ) -> None:
        """Let a shape on a body touch a ground, the plane of a frame or the surface of another body.

        Parameters
        ----------
        body : body or frame with the shape.
        partner : ground (:meth:`ground`), or a body or frame: its plane z = 0, or the surface ``against``.
        shape : ``ht.Sphere``, ``Capsule``, ``Ellipsoid``, ``Box``, ``Cylinder``, ``Rim``, ``Points`` or ``Mesh`` (the hull, at most 64 points).
        at : where the shape is in the body frame: a position (3,), a pose (4, 4), or None.
        against : ``ht.Sphere``, ``Capsule``, ``Box`` or ``Cylinder`` around the origin of ``partner``, or a hole along its z axis, ``ht.Bore``; not
            for grounds.
        friction : Coulomb's coefficient; None: that of the ground.
        restitution : Newton's coefficient, from 0 to 1, 0 by default. Of compliant contacts (coefficient, speed in m/s): it falls with the speed; a
            number belongs to 1 m/s, and (0.2, 1.0) is the default.
        stiffness : None for rigid contact, which ``integrator="moreau"`` simulates. In N/m^exponent for compliant contact, a force element
            (:class:`.CompliantContact`) for every other integrator.
        name : name of the contact in a run; None: the name of the body, or "body/partner" if this is taken.
        exponent : exponent of the depth in the elastic force, compliant contact: 1.5 for round bodies (Hertz, the default), 1 for a linear spring.
        hysteresis : in s/m, for compliant contact instead of restitution: the elastic force is multiplied by 1 + hysteresis times the closing speed.
        slip_speed : speed in m/s from which on compliant friction is full, 0.01 by default; below it is smooth.
        turn_speed : the same of rolling and spinning resistance in rad/s, 0.1 by default.
        rolling, spinning : resisting moment over normal force of a compliant contact, m.
        patch : radius in m of the contact patch, which couples sliding and spinning friction (Coulomb and Contensou).
        bristles : displacement in m at which compliant friction is full, such as 1e-4, instead of a slip speed: what sticks does not creep. The
            bristles are states of the model, :mod:`heavytop.system.forces.inner`.

        Points of the shape meet the surface: two boxes miss contacts of edges with edges (``Contact.unseen``).

        Examples
        --------
        >>> import heavytop as ht
        >>> system = ht.System(name="ball")
        >>> system.body("ball", joint=ht.Free(), inertia=ht.Inertia.of(ht.Sphere(0.05), density=190.0))
        >>> system.ground()
        >>> system.contact("ball", "ground", ht.Sphere(0.05), friction=0.3, restitution=0.8)

        Compliant, for any integrator:

        >>> system.contact("ball", "ground", ht.Sphere(0.05), friction=0.3, restitution=(0.8, 1.0), stiffness=1e5, name="soft")
        """
        taken = {*self._contacts, *(e.contact.name for e in self._elements if isinstance(e, CompliantContact))}
        label = name or (body if body not in taken else f"{body}/{partner}")
        where = f"contact {label!r}"
        if label in taken:
            raise ModelError(f"the name of {where} is taken. Choose another one: system.contact(..., name=...).")
        check_frame_name(label)
        if shape is None:
            raise ModelError(f"{where} needs a shape, such as ht.Sphere(0.05) or ht.Box((0.1, 0.1, 0.1)).")
        properties = {
            "exponent": exponent,
            "hysteresis": hysteresis,
            "slip_speed": slip_speed,
            "turn_speed": turn_speed,
        }
        properties |= {"rolling": rolling, "spinning": spinning, "patch": patch, "bristles": bristles}
        properties = {key: value for key, value in properties.items() if value is not None}
        ground = self._grounds.get(partner)
        if ground is None and partner == "ground":
            raise ModelError(f"{where} touches the ground, which is not defined. Call system.ground() first.")
        if ground is not None and against is not None:
            raise ModelError(f"{where}: against= is the shape of a body, and {partner!r} is a ground. Omit it.")
        if friction is None and (ground is None or ground.friction is None):
            known = "" if ground or partner in self._frames else f" {partner!r} is not a ground or body so far."
            raise ModelError(f"{where} needs friction=, for example 0.5, or 0 for smooth surfaces.{known}")
        friction = friction if friction is not None or ground is None else ground.friction
        self._check_values(where, vectors=False, friction=friction)
        frame = partner if ground is None else ground.frame
        if frame == body:
            raise ModelError(f"{where} is between {body!r} and itself.")
        surface = ground.surface if ground is not None else Plane() if against is None else Solid(against)
        place = self._pose(at, f"at of {where}")
        if depends_on(place, self.time):
            raise ModelError(f"at of {where} must not depend on the time. Put the shape on a moving frame instead.")
        if stiffness is not None:
            contact = Contact(label, body, frame, shape, place, surface, friction)
            self.add(self._compliant(contact, restitution, stiffness=stiffness, **properties))
            return
        if properties:
            raise ModelError(
                f"{where}: {next(iter(properties))}= belongs to compliant contact. Give stiffness=, or omit it."
            )
        restitution = 0.0 if restitution is None else restitution
        if isinstance(restitution, tuple):
            raise ModelError(
                f"{where}: restitution=(coefficient, speed) belongs to compliant contact. Give stiffness=, or one number for rigid contact."
            )
        self._check_restitution(where, restitution)
        self._contacts[label] = Contact(label, body, frame, shape, place, surface, friction, restitution)

    def tyre(
        self,
        wheel: str,
        partner: str = "ground",
        *,
        radius: float,
        stiffness: Array,
        slip: Array,
        cornering: Array,
        damping: Array = 0.0,
        friction: Array | None = None,
        rolling: Array = 0.0,
        low_speed: Array = LOW_SPEED,
        relaxation: Array | None = None,
    ) -> None:
        """Let a wheel, a disc around the y axis of its body or frame, roll on the ground with slip.

        Parameters
        ----------
        wheel : body or frame at the centre of the wheel. partner : ground (:meth:`ground`).
        radius : m. stiffness, damping : vertical, N/m and N s/m.
        slip : longitudinal force per unit of slip, N. cornering : lateral force per unit of the tangent of the slip angle, N.
        friction : Coulomb's coefficient, shared by braking and cornering; None: that of the ground.
        rolling : coefficient of the rolling resistance, its moment over normal force and radius.
        low_speed : speed in m/s below which forces follow the slip velocity instead of the slip: a standing car creeps at F low_speed / slip.
        relaxation : distance in m over which forces follow the slip, 0.1 to 0.5 for cars: the tyre bends, a standing car does not creep. None: forces
            follow without delay.

        See :class:`.Tyre` for the equations.
        """
        where = f"tyre of {wheel!r}"
        ground = self._grounds.get(partner)
        if ground is None:
            raise ModelError(f"{where} rolls on a ground, and {partner!r} is not one. Call system.ground() first.")
        friction = ground.friction if friction is None else friction
        if friction is None:
            raise ModelError(f"{where} needs friction=, for example 1.0, or a ground with friction.")
        lengths = {"radius": radius, "stiffness": stiffness, "low_speed": low_speed}
        self._check_values(where, positive=True, vectors=False, **lengths)
        forces = {"slip": slip, "cornering": cornering, "damping": damping, "friction": friction, "rolling": rolling}
        self._check_values(where, vectors=False, **forces)
        values = (float(radius), stiffness, damping, slip, cornering, friction, rolling, low_speed)
        tyre = Tyre(ground.frame, wheel, ground.surface, *values)
        if relaxation is not None:
            self._check_values(
                where, positive=True, vectors=False, relaxation=relaxation, slip=slip, cornering=cornering
            )
            tyre = RelaxingTyre(ground.frame, wheel, ground.surface, *values, relaxation, f"{wheel} tyre")
        self.add(tyre)

    def _compliant(self, contact: Contact, restitution: Any, **properties: Any) -> CompliantContact:
        """The force element of a contact, its numbers checked."""
        where = f"contact {contact.name!r}"
        if "hysteresis" not in properties:
            pair = RESTITUTION if restitution is None else restitution
            pair = pair if isinstance(pair, tuple) else (pair, RESTITUTION[1])
            if len(pair) != 2 or is_symbolic(*pair):
                raise ModelError(
                    f"restitution of {where} must be (coefficient, speed in m/s) with numbers, got {restitution!r}. A parameter can be its "
                    "hysteresis= in s/m."
                )
            properties["hysteresis"] = hysteresis_of(*map(float, pair))
        elif restitution is not None:
            raise ModelError(f"{where}: give restitution= or hysteresis=, not both.")
        exponent = properties.get("exponent", HERTZ)
        if not isinstance(exponent, int | float) or not 1.0 <= exponent <= 10.0:
            raise ModelError(
                f"exponent of {where} must be a number from 1 (linear) to 10, usually 1.5, got {exponent!r}."
            )
        for key, value in properties.items():
            positive = key in ("stiffness", "slip_speed", "turn_speed", "bristles")
            self._check_values(where, positive=positive, vectors=False, **{key: value})
        if "bristles" in properties and (other := {"slip_speed", "patch"} & properties.keys()):
            raise ModelError(f"{where}: bristles= and {min(other)}= are different laws of friction. Omit one of them.")
        return compliant_contact(contact, **properties)

    def rope(
        self,
        a: str,
        b: str,
        length: Array,
        *,
        at_a: Array = (0.0, 0.0, 0.0),
        at_b: Array = (0.0, 0.0, 0.0),
        restitution: Array = 0.0,
        name: str | None = None,
    ) -> None:
        """Add a rope that does not stretch and goes slack, which ``integrator="moreau"`` simulates.

        Parameters
        ----------
        a, b : bodies or frames. length : m.
        at_a, at_b : ends (3,) in the axes of a and b, m.
        restitution : when it becomes taut, from 0 to 1.
        name : in a run; None: "rope", "rope 2", ...

        Examples
        --------
        >>> import heavytop as ht
        >>> system = ht.System()
        >>> system.body("ball", joint=ht.Free(), inertia=ht.Inertia(1.0, moment_at_com=(0.1, 0.1, 0.1)))
        >>> system.rope("world", "ball", 2.0)
        """
        count = sum(isinstance(item, Rope) for item in self._inequalities.values())
        label = name or ("rope" if not count else f"rope {count + 1}")
        where = f"rope {label!r}"
        if label in self._inequalities or label in self._contacts:
            raise ModelError(f"the name of {where} is taken. Choose another one: system.rope(..., name=...).")
        self._check_values(where, positive=True, vectors=False, length=length)
        self._check_restitution(where, restitution)
        ends = [as_array(at_a), as_array(at_b)]
        for side, end in zip(("at_a", "at_b"), ends, strict=True):
            if end.shape != (3,):
                raise wrong_shape(f"{side} of {where}", (3,), end.shape)
            if depends_on(end, self.time):
                raise ModelError(
                    f"{side} of {where} must not depend on the time. Put the end on a moving frame instead."
                )
        if a == b:
            raise ModelError(f"{where} connects {a!r} with itself.")
        self._inequalities[label] = Rope(label, a, b, ends[0], ends[1], length, restitution)

    # --- constraints --------------------------------------------------------------------------------------------------------

    def loop(
        self,
        a: str,
        b: str,
        joint: Joint,
        at_a: Array | None = None,
        at_b: Array | None = None,
        name: str | None = None,
        friction: Callable[[Array], Array] | None = None,
    ) -> None:
        """Close a kinematic loop: join the frame ``at_a`` of body a and the frame ``at_b`` of body b by a joint.

        The configuration stays that of the tree; the loop adds equations phi(q) = 0. Redundant equations are allowed.
        ``model.assemble(q)`` finds a configuration that satisfies them; ``model.constraint_forces`` gives the reaction by ``name``.
        ``friction(twist)`` (6,) is the wrench on b per unit of the reaction force, for the twist (6,) of b relative to a, both in the joint
        frame at b: a pin of radius r resists with the moment ``-mu r sign(twist[5])``.
        """
        label = self._constraint_name(name, f"loop{len(self._loops) + 1}")
        at_a, at_b = self._pose(at_a, f"at_a of loop {label!r}"), self._pose(at_b, f"at_b of loop {label!r}")
        joint.check_closure()
        if joint.parts:
            raise ModelError(
                f"loop {label!r}: a joint that closes a loop has no coordinates, so {', '.join(joint.parts)} cannot act in it. Put an element "
                "between the two bodies instead: system.strut(...), system.spring(...), or your own ht.PairElement."
            )
        self._loops.append(Loop(label, a, b, joint, at_a, at_b, friction))

    def constrain(
        self,
        fn: Callable[..., Array],
        work: Callable[[Array, Array], Array] | None = None,
        name: str | None = None,
        kind: str | None = None,
        friction: Callable[[Array, Array], Array] | None = None,
    ) -> None:
        """Add a constraint written in NumPy notation.

        Parameters
        ----------
        fn : ``fn(q, v)`` (m,): velocity constraints fn = 0, linear in v plus a drift (nonholonomic: rolling, skates); or ``fn(q)`` (m,):
            holonomic constraints.
        work : nonideal part: ``work(q, v)`` (nv,) is a generalised force whose work under virtual displacements the constraint does
            (friction); None for an ideal constraint.
        name : for ``model.constraint_forces``.
        kind : "velocity" or "position" (holonomic); None: by the number of arguments of ``fn``.
        friction : ``friction(q, v)`` (nv,), a generalised force per unit of the reaction |lam| (the normal force if ``fn`` is a length).

        ``v`` are the joints' own velocity coordinates, whatever the model uses.

        Examples
        --------
        A skate does not slip sideways (v of the planar joint are world rates):

        >>> import heavytop as ht, numpy as np
        >>> system = ht.System(gravity=(0, 0, 0))
        >>> system.body("skate", joint=ht.Planar(), inertia=ht.Inertia(1.0, moment_at_com=(0.1, 0.1, 0.2)))
        >>> system.constrain(lambda q, v: v[1] * np.cos(q[2]) - v[0] * np.sin(q[2]))
        >>> system.derive().acceleration([0, 0, 0], [1.0, 0, 2.0]).round(9) + 0.0
        array([0., 2., 0.])
        """
        label = self._constraint_name(name, f"constraint{len(self._constraints) + 1}")
        if kind is None:
            count = _argument_count(fn)
            if count not in (1, 2):
                raise ModelError(
                    f"constraint {label!r} must be a function of q, or of q and v; it takes {count} arguments. Specify "
                    "kind='position' or kind='velocity'."
                )
            kind = "position" if count == 1 else "velocity"
        if kind not in ("position", "velocity"):
            raise ModelError(f"constraint {label!r}: kind must be 'position' or 'velocity', got {kind!r}.")
        self._constraints.append(FunctionConstraint(label, fn, kind == "position", work, friction))

    def basis(self, fn: Callable[[Array, Array], Array], names: Sequence[str]) -> None:
        """Choose minimal velocity coordinates for all constraints: ``v = fn(q, w)`` with one name per entry of w.

        The model is then derived in w: no multipliers are needed and velocity constraints hold exactly.
        """
        self._basis = Basis(on_symbols(fn, "basis"), tuple(names))

    def _constraint_name(self, name: str | None, default: str) -> str:
        label = name or default
        if any(label == c.name for c in (*self._loops, *self._constraints)):
            raise ModelError(f"the constraint name {label!r} is taken: names of loops and constraints must be unique.")
        return label

    # --- time and parameters ------------------------------------------------------------------------------------------------

    @property
    def time(self) -> Array:
        """The time in s as a symbol, allowed wherever a number is, except in inertias.

        Where a placement ``at`` depends on it, the anchor or support moves; potentials, springs, forces, inputs and constraints may depend on
        it too. A model whose equations depend on it has the parameter ``"time"`` (default 0), which a simulation sets.

        Examples
        --------
        A pendulum whose pivot moves up and down:

        >>> import heavytop as ht, numpy as np
        >>> system = ht.System()
        >>> pivot = (0.0, 0.0, 0.1 * np.sin(20.0 * system.time))
        >>> system.body("rod", at=pivot, joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=(0, 0, -1)))
        >>> system.derive(native=False).acceleration([0.1], [0.0], parameters={"time": np.pi / 40}).round(6)
        array([3.013971])
        """
        return self._time.symbol

    @property
    def parameters(self) -> dict[str, float]:
        """Declared values of the parameters by name.

        >>> import heavytop as ht
        >>> system = ht.System()
        >>> mass = system.parameter("mass", 2.0)
        >>> system.parameters
        {'mass': 2.0}
        """
        return {parameter.name: parameter.value for parameter in self._parameters.values()}

    def parameter(self, name: str, value: float) -> Array:
        """Declare a named number; the returned symbol is allowed wherever a number is and stays an input of compiled code."""
        check_name(name, "a parameter")
        if name in self._parameters:
            raise ModelError(f"the parameter name {name!r} is taken: parameter names must be unique.")
        number = np.asarray(value, dtype=float)
        if number.shape != () or not np.isfinite(number):
            raise ShapeError(f"parameter {name!r} must be one finite number, got {value!r}.")
        self._parameters[name] = Parameter(name, symbol(name), float(number))
        return self._parameters[name].symbol

    def _at_defaults(self, value: Array, where: str, instant: float = 0.0) -> Floats:
        try:
            return at_defaults(value, (*self._parameters.values(), self._time), instant)
        except ValueError as error:
            raise ModelError(f"{where} uses symbols that are not parameters of {self.name!r}: {error}.") from None

    def _check_moments(self, moments: Moments, kind: type[Moments], where: str) -> None:
        if not isinstance(moments, kind):  # other moments would be taken without an error
            raise ModelError(f"{where} needs an ht.{kind.__name__}, got {type(moments).__name__}.")
        numbers = self._at_defaults(moments.moments, where)
        if not np.all(np.isfinite(numbers)):
            raise ShapeError(f"{moments.kind} of {where} must be finite.")
        moments.check_physical(numbers, f"{moments.kind} of {where}")

    # --- derivation -------------------------------------------------------------------------------------------------------

    def describe(self, velocity: Callable[[Array, Array], Array] | None = None) -> Description:
        """Return the description as immutable data, with all names checked."""
        joints = [edge.label for edge in self._edges if not edge.joint.is_fixed]
        for name in self.limits:
            if name not in joints:
                raise unknown_name("joint (with limits)", name, joints)
        for element in self._elements:
            element.check_names(self._frames, joints)
        for loop in self._loops:
            for name in (loop.a, loop.b):
                if name not in self._frames:
                    raise unknown_name(f"body or frame (in loop between {loop.a!r} and {loop.b!r})", name, self._frames)
            if loop.a == loop.b:
                raise ModelError(f"loop connects {loop.a!r} with itself.")
        for placed in self._shapes:
            if placed.body not in self._frames:
                raise unknown_name("body or frame (with a shape)", placed.body, self._frames)
        for item in self._inequalities.values():
            if isinstance(item, Rope):
                for name in (item.a, item.b):
                    if name not in self._frames:
                        raise unknown_name(f"body or frame (of rope {item.name!r})", name, self._frames)
            elif item.joint not in joints:
                raise unknown_name(f"joint (of {item.name!r})", item.joint, joints)
        for ground in self._grounds.values():
            if ground.frame not in self._frames:
                raise unknown_name(f"body or frame (with ground {ground.name!r})", ground.frame, self._frames)
        for contact in self._contacts.values():
            for name in (contact.body, contact.partner):
                if name not in self._frames:
                    raise unknown_name(
                        f"body, frame or ground (in contact {contact.name!r})", name, [*self._frames, *self._grounds]
                    )
        graph = FrameGraph(tuple(self._frames), tuple(self._edges))
        description = Description(
            name=self.name,
            gravity=self._gravity,
            graph=graph,
            inertias=dict(self._inertias),
            elements=tuple(self._elements),
            inputs=dict(self._inputs),
            parameters=tuple(self._parameters.values()),
            velocity=velocity,
            loops=tuple(self._loops),
            constraints=tuple(self._constraints),
            basis=self._basis,
            shapes=tuple(self._shapes),
            limits=dict(self.limits),
            is_kinematic=self._is_kinematic,
            grounds=tuple(self._grounds.values()),
            contacts=tuple(self._contacts.values()),
            inequalities=tuple(self._inequalities.values()),
        )
        if not depends_on_time(description, self.time):
            return description
        if TIME in self._parameters:
            raise ModelError(
                f"{self.name!r} depends on system.time and has a parameter called {TIME!r}. Rename the parameter."
            )
        return replace(description, parameters=(*description.parameters, self._time))

    def derive(
        self, velocity: Callable[[Array, Array], Array] | Mapping[str, str] | None = None, native: bool = True
    ) -> Model:
        """Derive the equations of motion.

        Parameters
        ----------
        velocity : other velocity coordinates. A function w = velocity(q, v), linear in v, in NumPy notation; or a mapping from joint
            names to "absolute" or "relative" for spherical joints, as in example 7 of the thesis.
        native : whether methods run as native code (compiled when first called, cached on disk) or are interpreted, which starts
            sooner and is about a hundred times slower.
        """
        described = self
        if velocity is not None and self._basis is not None:
            raise ModelError(
                f"the basis of {self.name!r} already chooses its velocity coordinates. Omit velocity=, or the basis."
            )
        if isinstance(velocity, Mapping):
            described, velocity = self._with_velocity_frames(velocity), None
        model = Model(described.describe(velocity), native)
        model.check()
        return model

    def _with_velocity_frames(self, frames: Mapping[str, str]) -> System:
        """A copy whose named spherical joints have the given velocity frame."""
        changed = copy(self)
        labels = [edge.label for edge in self._edges]
        for label, frame in frames.items():
            if label not in labels:
                raise unknown_name("joint (the name of the body it carries)", label, labels)
            edge = self._edges[labels.index(label)]
            changed._edges[labels.index(label)] = replace(
                edge, joint=edge.joint.with_velocity(frame), own_frame=edge.joint.velocity_frame
            )
        return changed


def _keywords(value: Any, first: str) -> Mapping[str, Any]:
    """The keywords of a method given as a mapping, or as one value of its ``first`` keyword."""
    return value if isinstance(value, Mapping) else {first: value}


def _argument_count(fn: Callable[..., Any]) -> int:
    """Number of positional arguments without default; 0 for ``*args``."""
    parameters = inspect.signature(fn).parameters.values()
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return 0
    return sum(p.default is p.empty for p in parameters)
