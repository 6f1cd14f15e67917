"""References: desired motions (q_R, v_R, a_R) as functions of time.

In NumPy notation a reference is traced once: its derivatives are exact and it can run inside native code. A reference that
cannot be traced (an integrated or recorded one) is evaluated on numbers and passed to native code as a table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytop._arrays import (
    Array,
    Numbers,
    as_array,
    directional,
    is_symbolic,
    numbers,
    shape,
    substitute,
    symbol,
    transpose,
)
from heavytop.compile import Kernel, Traced, trace_of
from heavytop.control.laws.law_checks import need_timeless
from heavytop.coordinates import Pose
from heavytop.errors import ControlError, wrong_shape
from heavytop.functions import Value
from heavytop.geometry import se3
from heavytop.system import TIME, WORLD, Expressions, Model, solve_definite, symmetric
from heavytop.system.joints import Free

if TYPE_CHECKING:
    from heavytop.control.references.feasibility import Feasibility

Motion3 = tuple[np.ndarray, np.ndarray, np.ndarray]
FASTEST = 1e4
"""Velocity (m/s, rad/s) beyond which a reference counts as singular."""


class Reference(Value):
    """A desired motion of a model.

    Parameters
    ----------
    model : model of the coordinates q_R, v_R, a_R.
    evaluate : times (n,) -> q_R (n, nq), v_R (n, nv), a_R (n, nv).
    traced : the same as traced function of t; then ``evaluate`` may be None.
    duration : end of the motion (s); None if it has no end.
    period : period of a periodic motion (s).
    breaks : times where it is less smooth, included in :meth:`feasibility`.
    start_time : time (s) of a run at which the motion starts; times of the reference are relative to it.
    parameters : values of parameters of the model for which the motion is feasible, by name; None: the nominal ones.
    begin : time (s) of the reference until which the first configuration is held; a period repeats from there.

    Examples
    --------
    >>> import heavytop as ht
    >>> system = ht.System()
    >>> system.body("cart", joint=ht.Prismatic("x"), inertia=ht.Inertia(1.0))
    >>> swing = Reference.from_function(system.derive(), lambda t: ht.vector(np.sin(2 * t)))
    >>> q, v, a = swing(0.0)
    >>> q, v, a
    (array([0.]), array([2.]), array([-0.]))
    """

    def __init__(
        self,
        model: Model,
        evaluate: Callable[[np.ndarray], Motion3] | None = None,
        traced: Traced | None = None,
        duration: float | None = None,
        period: float | None = None,
        breaks: Sequence[float] = (),
        start_time: float = 0.0,
        parameters: Mapping[str, Any] | None = None,
        begin: float = 0.0,
    ) -> None:
        if evaluate is None:
            need_timeless(model)
            if traced is None:
                raise ControlError("a reference needs a function of numbers or a traced one.")
        for name, value in (("duration", duration), ("period", period)):
            if value is not None and not 0 < float(numbers(value, f"the {name} of a reference")) < np.inf:
                raise ControlError(f"the {name} of a reference must be a positive time in s, or None, got {value!r}.")
        self.model, self.traced, self.duration, self.period = model, traced, duration, period
        self.breaks, self.start_time, self.begin = tuple(breaks), float(start_time), float(begin)
        self.parameters = dict(parameters or {})
        self._given = evaluate

    def __repr__(self) -> str:
        """
        >>> import heavytop as ht
        >>> Reference.set_point(ht.library.cart_pole().derive(native=False))
        Reference('cart and pole': at rest)
        """
        ends = "without an end" if self.duration is None else f"{self.duration:g} s"
        ends = f"every {self.period:g} s" if self.duration is None and self.period is not None else ends
        return f"{type(self).__name__}({self.model.name!r}: {'at rest' if self.is_constant else ends})"

    # --- construction -----------------------------------------------------------------------------------------------------

    @classmethod
    def set_point(cls, model: Model, q: Array | None = None, **options: Any) -> Reference:
        """Rest at the configuration q (nq,); default: the neutral one. ``options`` are those of the class, such as ``duration``."""
        q = model.neutral() if q is None else model.coordinates.check(q, "set point q")
        if q.ndim != 1:
            raise wrong_shape("set point q", (model.nq,), q.shape)
        zero = np.zeros(model.nv)
        traced = trace_of("set_point", {"t": symbol("t")}, {"q_R": q, "v_R": zero, "a_R": zero})
        if options.get("duration") is None and options.get("period") is None:
            options["period"] = 1.0  # rest is periodic with any period
        return cls(model, traced=traced, **options)

    @classmethod
    def from_function(cls, model: Model, function: Callable[[Array], Array], **options: Any) -> Reference:
        """From q_R = function(t) (nq,) in NumPy notation; velocities and accelerations follow by differentiation."""
        t = symbol("t")
        q = as_array(function(t))
        if shape(q) != (model.nq,):
            raise wrong_shape("the reference q_R = function(t)", (model.nq,), shape(q))
        if not is_symbolic(q):
            return cls.set_point(model, q, **options)
        e = Expressions(model.description)
        A = substitute(e.kinematics.kinematics_matrix, e.q, q)
        A = with_defaults(A, model)
        rate = directional(q, t, np.asarray(1.0))
        # q' = A v; A has full column rank
        v = solve_definite(symmetric(transpose(A) @ A), np.matvec(transpose(A), rate))
        outputs = {"q_R": q, "v_R": v, "a_R": directional(v, t, np.asarray(1.0))}
        return cls(model, traced=trace_of("reference", {"t": t}, outputs), **options)

    @classmethod
    def from_pose(cls, model: Model, pose: Callable[[Array], Array], **options: Any) -> Reference:
        """From the pose G(t) (4, 4) of a single free body in NumPy notation: any curve, for a fully actuated vehicle."""
        t, one = symbol("t"), np.asarray(1.0)
        G = as_array(pose(t))
        if shape(G) != (4, 4):
            raise wrong_shape("the reference pose G(t)", (4, 4), shape(G))
        if not is_symbolic(G):
            return cls.set_point(model, pose_coordinates(model, G), **options)
        xi = se3.vee(se3.inverse(G) @ directional(G, t, one))
        q, v, a = coordinates_of_motion(model, G, xi, directional(xi, t, one))
        return cls(model, traced=trace_of("reference", {"t": t}, {"q_R": q, "v_R": v, "a_R": a}), **options)

    # --- evaluation -------------------------------------------------------------------------------------------------------

    def __call__(self, t: Any) -> Motion3:
        """q_R (..., nq), v_R (..., nv), a_R (..., nv) at the times t (...)."""
        times = numbers(t, "times of a reference")
        if not np.all(np.isfinite(times)):
            raise ControlError("a reference is defined at finite times only.")
        flat = times.reshape(-1)
        values = self._kernel(flat) if self._given is None else self._checked(self._given(flat), len(flat))
        q, v, a = (value.reshape(*times.shape, value.shape[-1]) for value in values)
        return q, v, a

    def _checked(self, values: Any, count: int) -> Sequence[np.ndarray]:
        """Values of a user-defined function at ``count`` times."""
        sizes = {"q_R": self.model.nq, "v_R": self.model.nv, "a_R": self.model.nv}
        if not isinstance(values, tuple | list) or len(values) != 3:
            got = f"{len(values)}" if isinstance(values, tuple | list) else repr(values)[:60]
            raise ControlError(f"the function of a reference must return three arrays, q_R, v_R and a_R, got {got}.")
        motion = [numbers(value, f"{name} of a reference") for name, value in zip(sizes, values, strict=True)]
        for (name, size), value in zip(sizes.items(), motion, strict=True):
            if value.shape != (count, size):
                raise wrong_shape(f"{name} of a reference at {count} times", (count, size), value.shape)
        return motion

    @cached_property
    def _kernel(self) -> Kernel:
        if self.traced is None:
            raise ControlError("this reference is not traced.")
        return Kernel(self.traced)

    def signal(self, times: Numbers) -> np.ndarray:
        """q_R, v_R, a_R concatenated (..., nq + 2 nv)."""
        return np.concatenate(self(times), axis=-1)

    @property
    def horizon(self) -> float:
        """Time span for checks: duration, else one period, else 10 s."""
        return self.begin + (self.period or 10.0) if self.duration is None else self.duration

    @cached_property
    def is_constant(self) -> bool:
        """Whether it is traced and does not depend on time."""
        if self.traced is None or self.duration is not None:
            return False
        import casadi

        t = casadi.SX.sym("t")  # pyright: ignore[reportCallIssue, reportArgumentType]
        return all(casadi.jacobian_sparsity(out, t).nnz() == 0 for out in self.traced.function.call([t]))

    def delayed(self, start: float) -> Reference:
        """The same motion, started at the time ``start`` of the reference; before it the first pose is held."""
        if not 0 <= start < np.inf:
            raise ControlError(f"the delay of a reference must not be negative, got {start!r} s.")
        if self.is_constant:
            return self

        def held(t: np.ndarray) -> Motion3:
            q, v, a = self(np.maximum(t - start, 0.0))
            before = (t < start)[:, None]
            return q, np.where(before, 0.0, v), np.where(before, 0.0, a)

        duration = None if self.duration is None else self.duration + start
        breaks = (start, *(b + start for b in self.breaks))
        return self._changed(evaluate=held, traced=None, duration=duration, breaks=breaks, begin=self.begin + start)

    def _changed(self, **options: Any) -> Reference:
        """The reference with other ``options`` of the class."""
        names = ("traced", "duration", "period", "breaks", "start_time", "parameters", "begin")
        kept: dict[str, Any] = {"evaluate": self._given} | {name: getattr(self, name) for name in names}
        return Reference(self.model, **(kept | options))

    def with_parameters(self, parameters: Mapping[str, Any] | None, model: Model | None = None) -> Reference:
        """The same motion with other values of parameters of the model (default: the reference's own), by name."""
        if not parameters:
            return self
        (model or self.model).parameter_vector(parameters)  # checks names and shapes
        return self._changed(parameters={**self.parameters, **parameters})

    def clock(self, times: Numbers, model: Model | None = None) -> dict[str, Any] | None:
        """Parameters of a model (default: the reference's own) at times of the reference, with ``time`` if the equations depend on it; None:
        nominal values."""
        model = model or self.model
        given = self.parameters_of(model)
        if model.description.time is not None:
            given[TIME] = self.start_time + np.asarray(times, dtype=float)
        return given or None

    def parameters_of(self, model: Model) -> dict[str, Any]:
        """Values of the reference's parameters that a model has, too."""
        return {name: value for name, value in self.parameters.items() if name in model.parameter_names}

    def feasibility(
        self, limits: Any = None, until: float | None = None, samples: int = 2001, model: Model | None = None
    ) -> Feasibility:
        """Inputs required by the reference, missing forces and exceeded limits.

        Parameters
        ----------
        limits : limits of the inputs: a pair, ``control.Limits``, a mapping from inputs to pairs, or joint limits (``system.limits``).
        until : end of the checked time span; default: :attr:`horizon`.
        model : another model in the same coordinates.
        """
        from heavytop.control.references.feasibility import feasibility

        return feasibility(self, limits, until, samples, model)


def coordinates_of_motion(model: Model, G: Array, xi: Array, xi_rate: Array) -> tuple[Array, Array, Array]:
    """q, v, a of a single free body with pose G, body twist xi and its rate; numbers with batch axes, or symbols."""
    q = pose_coordinates(model, G)
    v, a = model.functions.get(_velocities, lambda: _velocities(model))(q, xi, xi_rate)
    return q, v, a


def pose_coordinates(model: Model, G: Array) -> Array:
    """q (..., nq) of a model that is one free body with the pose G (..., 4, 4)."""
    edge = _free_edge(model)
    block = edge.joint.coordinates
    at = with_defaults(edge.at, model)
    inner = se3.inverse(at) @ G
    if not isinstance(block, Pose):
        block = Pose(edge.joint.attitude if isinstance(edge.joint, Free) else "matrix")
    return block.from_pose(inner)


def _free_edge(model: Model):
    joints = model.description.joints
    if len(joints) != 1 or not isinstance(joints[0].joint, Free):
        raise ControlError(
            f"{model.name!r} is not a single free body, so a pose does not determine its configuration. "
            "Give the reference as q_R(t): Reference.from_function(model, function)."
        )
    return joints[0]


def _velocities(model: Model) -> Traced:
    """Traced function (q, xi, xi_rate) -> (v, a) of a single free body."""
    e = Expressions(model.description)
    xi, rate = symbol("xi", 6), symbol("xi_rate", 6)
    motion = e.kinematics.motion(WORLD, _free_edge(model).b)
    J = with_defaults(motion.jacobian, model)
    metric = symmetric(transpose(J) @ J)
    v = solve_definite(metric, np.matvec(transpose(J), xi))
    bias = substitute(with_defaults(motion.bias, model), e.v, v)
    a = solve_definite(metric, np.matvec(transpose(J), rate - bias))
    return trace_of("velocities", {"q": e.q, "xi": xi, "xi_rate": rate}, {"v": v, "a": a})


def with_defaults(x: Array, model: Model) -> Array:
    """Replace parameters by their nominal values."""
    for p in model.description.parameters:
        x = substitute(x, p.symbol, np.asarray(p.value))
    return x


def check_regular(reference: Reference, samples: int = 2001) -> None:
    """Raise a ControlError where the attitude is undetermined: no thrust, or its axis along the side or heading vector."""
    times = np.linspace(0.0, reference.horizon, samples)
    # interpreted if possible: compiling would take longer
    q, v, a = reference(times) if reference.traced is None else reference.traced(times)
    bad = ~np.all(np.isfinite(np.concatenate([q, v, a], axis=1)), axis=1) | (np.max(np.abs(v), axis=1) > FASTEST)
    if np.any(bad):
        raise ControlError(
            f"the reference is singular at t = {times[np.argmax(bad)]:.4g} s: the thrust vanishes there or is parallel to the side or heading "
            "vector, or a path is not finite. Choose a vector that is not parallel to the thrust (for a planar motion the normal of its plane as "
            "side vector), or another curve."
        )
