"""References: what the system shall do, as (q_R, v_R, a_R) at any time.

Written in NumPy notation a reference is traced once: its derivatives are exact and it can run inside native code. A reference that
cannot be traced (an integrated or recorded one) is evaluated on numbers and handed to native code as a table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

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
from heavytop._format import counted
from heavytop.compile import Kernel, Traced, trace_of
from heavytop.control.laws.law_checks import need_timeless
from heavytop.coordinates import Pose
from heavytop.errors import ControlError, wrong_shape
from heavytop.functions import Value
from heavytop.geometry import se3
from heavytop.system.description.names import TIME, WORLD
from heavytop.system.dynamics.solve import solve_definite, symmetric
from heavytop.system.expressions import Expressions
from heavytop.system.joints import Free
from heavytop.system.model import Model

Motion3 = tuple[np.ndarray, np.ndarray, np.ndarray]


class Reference(Value):
    """A desired motion of a model.

    Parameters
    ----------
    model : whose coordinates q_R, v_R, a_R are in.
    evaluate : times (n,) -> q_R (n, nq), v_R (n, nv), a_R (n, nv).
    traced : the same as traced function of t, if there is one; then ``evaluate`` may be None.
    duration : where the motion ends (s); None if it has no end.
    period : after which it repeats (s), if it does.
    breaks : times where it is less smooth; :meth:`feasibility` looks at them.
    start_time : time (s) of a run at which the motion begins; times of the reference count from there.
    parameters : values of parameters of the model for which the motion is feasible, by name; None: the defaults.
    begin : time (s) of the reference up to which the first configuration is held; a period repeats from there.

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
        if evaluate is None and traced is None:
            raise ControlError("a reference needs a function of numbers or a traced one.")
        if evaluate is not None and not callable(evaluate):
            raise ControlError(
                f"evaluate of a reference must be a function times (n,) -> q_R (n, nq), v_R (n, nv), a_R (n, nv), got {evaluate!r}."
            )
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
        return f"Reference({self.model.name!r}: {'at rest' if self.is_constant else ends})"

    # --- construction -----------------------------------------------------------------------------------------------------

    @classmethod
    def set_point(cls, model: Model, q: Array | None = None, **options: Any) -> Reference:
        """Rest at the configuration q (nq,); default: the neutral one. ``options`` are those of the class (``duration``, say)."""
        q = model.neutral() if q is None else model.coordinates.check(q, "set point q")
        if q.ndim != 1:
            raise wrong_shape("set point q", (model.nq,), q.shape)
        zero = np.zeros(model.nv)
        traced = trace_of("set_point", {"t": symbol("t")}, {"q_R": q, "v_R": zero, "a_R": zero})
        if options.get("duration") is None and options.get("period") is None:
            options["period"] = 1.0  # rest repeats itself, in whatever time
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
        """What the function of a user gave at ``count`` times, if it is a motion."""
        sizes = {"q_R": self.model.nq, "v_R": self.model.nv, "a_R": self.model.nv}
        if not isinstance(values, tuple | list) or len(values) != 3:
            got = f"{len(values)} of them" if isinstance(values, tuple | list) else repr(values)[:60]
            raise ControlError(f"the function of a reference must give three arrays, q_R, v_R and a_R, got {got}.")
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
        """q_R, v_R, a_R side by side (..., nq + 2 nv)."""
        return np.concatenate(self(times), axis=-1)

    @property
    def horizon(self) -> float:
        """How long to look: duration, else one period, else 10 s."""
        return self.begin + (self.period or 10.0) if self.duration is None else self.duration

    @cached_property
    def is_constant(self) -> bool:
        """Whether it is known to be the same at all times: traced, and without the time in it."""
        if self.traced is None or self.duration is not None:
            return False
        import casadi

        t = casadi.SX.sym("t")  # pyright: ignore[reportCallIssue, reportArgumentType]
        return all(casadi.jacobian_sparsity(out, t).nnz() == 0 for out in self.traced.function.call([t]))

    def delayed(self, start: float) -> Reference:
        """The same motion, begun at the time ``start`` of the reference (the first pose is held before it)."""
        if not 0 <= start < np.inf:
            raise ControlError(f"a reference is delayed by a time that is not negative, got {start!r} s.")
        if self.is_constant:
            return self
        return Reference(
            self.model,
            lambda t: _held(self, t, start),
            duration=None if self.duration is None else self.duration + start,
            period=self.period,
            breaks=(start, *(b + start for b in self.breaks)),
            start_time=self.start_time,
            parameters=self.parameters,
            begin=self.begin + start,
        )

    def with_parameters(self, parameters: Mapping[str, Any] | None, model: Model | None = None) -> Reference:
        """The same motion of the model (default: the reference's own) with other values of its parameters, by name."""
        if not parameters:
            return self
        (model or self.model).parameter_vector(parameters)  # names and shapes are checked there
        return Reference(
            self.model,
            self._given,
            self.traced,
            self.duration,
            self.period,
            self.breaks,
            self.start_time,
            {**self.parameters, **parameters},
            self.begin,
        )

    def clock(self, times: Numbers, model: Model | None = None) -> dict[str, Any] | None:
        """Parameters of a model (default: the reference's own) at times of the reference: those it was made for, and ``time`` where the
        equations depend on it; None: the defaults."""
        model = model or self.model
        given = self.parameters_of(model)
        if model.description.time is not None:
            given[TIME] = self.start_time + np.asarray(times, dtype=float)
        return given or None

    def parameters_of(self, model: Model) -> dict[str, Any]:
        """The values that the motion was made for, of those parameters that a model has."""
        return {name: value for name, value in self.parameters.items() if name in model.parameter_names}

    def feasibility(
        self, limits: Any = None, until: float | None = None, samples: int = 2001, model: Model | None = None
    ) -> Feasibility:
        """What the inputs must do on the reference, and what they cannot do.

        Parameters
        ----------
        limits : limits of the inputs to compare with.
        until : end of the look; default: :attr:`horizon`.
        model : another model in the same coordinates.
        """
        from heavytop.control.references.feasibility import feasibility

        return feasibility(self, limits, until, samples, model)


class Exceeded(NamedTuple):
    """A limit that is exceeded, where it is worst.

    Attributes
    ----------
    inputs : their names. what : in words. time : s. value, bound : what is needed and what is allowed.

    Examples
    --------
    >>> str(Exceeded(("thrust0",), "'thrust0'", 1.5, 7.0, 6.0))
    "'thrust0' needs 7 at t = 1.5 s, 1 beyond its bound 6"
    """

    inputs: tuple[str, ...]
    what: str
    time: float
    value: float
    bound: float

    @property
    def by(self) -> float:
        """By how much."""
        return abs(self.value - self.bound)

    def __str__(self) -> str:
        return f"{self.what} needs {self.value:.4g} at t = {self.time:.4g} s, {self.by:.4g} beyond its bound {self.bound:.4g}"


@dataclass(frozen=True)
class Feasibility:
    """Inputs needed on a reference and what remains.

    Attributes
    ----------
    times : (n,) s. inputs : (n, nu) least-squares inputs. residual : (n, nv) generalised force that no input supplies.
    lower, upper : (nu,) range of each input. largest_residual : largest entry of the residual.
    outside : names of inputs beyond their limits. exceeded : which limits, when and by how much.
    sizes : (n, nv) of the forces of the motion, with which the residual is compared; None: 1 N or N m.

    Examples
    --------
    >>> report = Feasibility(("thrust",), np.zeros(2), np.ones((2, 1)), np.zeros((2, 1)), ())
    >>> report.names, report.outside
    (('thrust',), ())
    """

    names: tuple[str, ...]
    times: np.ndarray
    inputs: np.ndarray
    residual: np.ndarray
    outside: tuple[str, ...]
    exceeded: tuple[Exceeded, ...] = ()
    sizes: np.ndarray | None = None

    def __repr__(self) -> str:
        state = "feasible" if self.is_feasible() else f"not feasible, residual {self.largest_residual:.3g}"
        beyond = f", beyond their limits: {', '.join(self.outside)}" if self.outside else ""
        return (
            f"Feasibility({counted(len(self.names), 'input')} at {counted(len(self.times), 'time')}: {state}{beyond})"
        )

    @property
    def lower(self) -> np.ndarray:
        """(nu,) least value of each input."""
        return self.inputs.min(axis=0)

    @property
    def upper(self) -> np.ndarray:
        """(nu,) largest value of each input."""
        return self.inputs.max(axis=0)

    @property
    def largest_residual(self) -> float:
        """Largest entry of the residual (N or N m)."""
        return float(np.max(np.abs(self.residual)))

    @property
    def relative_residual(self) -> float:
        """Largest entry of the residual beside the forces of the motion."""
        sizes = np.ones_like(self.residual) if self.sizes is None else self.sizes
        missing = np.abs(self.residual)
        return float(np.max(np.divide(missing, sizes, out=np.zeros_like(missing), where=missing > 0.0), initial=0.0))

    def is_feasible(self, tolerance: float = 1e-6) -> bool:
        """Whether the residual is below ``tolerance`` of the forces of the motion and no input leaves its limits."""
        return self.relative_residual <= tolerance and not self.outside

    def require(self, tolerance: float = 1e-6) -> None:
        """Raise a ControlError that names the cause unless the reference is feasible."""
        if not self.relative_residual <= tolerance:
            k = int(np.argmax(np.max(np.abs(self.residual), axis=1)))
            raise ControlError(
                f"the reference is infeasible: at t = {self.times[k]:.4g} s a generalised force of up to "
                f"{self.largest_residual:.4g} is missing that no input supplies, {self.relative_residual:.2g} of the largest. "
                "Take a flat reference, or follow it with a virtual vehicle."
            )
        if self.outside:
            listed = "; ".join(
                f"{n!r} needs {a:.4g} to {b:.4g}"
                for n, a, b in zip(self.names, self.lower, self.upper, strict=True)
                if n in self.outside
            )
            listed = ". Worst: ".join([listed, "; ".join(map(str, self.exceeded))])
            raise ControlError(f"the reference is infeasible within the limits: {listed}. Fly it more slowly.")

    def report(self) -> str:
        """A short table."""
        lines = [
            f"{n:>12}: {a:10.4g} .. {b:10.4g}{'   beyond its limits' if n in self.outside else ''}"
            for n, a, b in zip(self.names, self.lower, self.upper, strict=True)
        ]
        lines += [f"{'':>12}  {e}" for e in self.exceeded]
        return "\n".join([*lines, f"{'residual':>12}: {self.largest_residual:10.3g}"])


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
    """Parameters replaced by their default values: a reference is a curve, not a family."""
    for p in model.description.parameters:
        x = substitute(x, p.symbol, np.asarray(p.value))
    return x


def _held(reference: Reference, t: np.ndarray, start: float) -> Motion3:
    q, v, a = reference(np.maximum(t - start, 0.0))
    before = (t < start)[:, None]
    return q, np.where(before, 0.0, v), np.where(before, 0.0, a)
