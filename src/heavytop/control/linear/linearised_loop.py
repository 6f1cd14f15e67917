"""Plant and prototype to first order about rest or a steady motion: the poles of a law before it is used.

In the minimal tangent coordinates x = (xi, eta) of the plant, ``x' = A x + B u`` and its acceleration is ``a = a_x x + N u``. At rest the
prototype equation of every law is ``M_bar a + C x = 0`` to first order with ``C x = D_bar v + K_bar delta``, whence with H = N^T M_bar N

    u = -H^+ N^T (M_bar a_x + C) x.

About a steady motion (a car at speed: the velocity coordinates are constant) C is that of the particle-based law. A particle of frame b has
a constant place in b. Seen from b, its distance from its place on the reference and the differences of velocity and acceleration are the matrices
(docs/control/laws.md, particle-based law)

    I - E,     wed(xi) - E wed(xi_R),     wed(beta) + wed(xi)^2 - E (wed(beta_R) + wed(xi_R)^2),     E = G^-1 G_R,

times that place, with the twist xi and its bias beta = d/dt(J) v. About the reference a deviation that moves b by the twist eps changes them by

    wed(eps),     wed(d xi) + wed(eps) wed(xi),     wed(d beta) + wed(d xi) wed(xi) + wed(xi) wed(d xi) + wed(eps) (wed(beta) + wed(xi)^2).

At rest these are wed(eps), wed(d xi) and zero, and all laws agree; the same holds while nothing rotates and no constraint forbids the velocity error.

Everything but the moments of the prototype is computed once, so that a design can try thousands of prototypes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from heavytop._arrays import Array, Floats, is_symbolic, jacobian, substitute, symbol, to_sx
from heavytop._format import format_vector
from heavytop.compile import trace_of
from heavytop.errors import ControlError, HeavytopError, wrong_shape
from heavytop.geometry import se3
from heavytop.system import WORLD
from heavytop.system.dynamics import tangent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from heavytop.control.laws.prototype import Pair, Prototype
    from heavytop.system import Model, Moments

UNSTABLE = 1e-3
"""Real part, relative to the size of the poles, above which one is certainly unstable: poles at zero scatter by rounding."""
STEP = 1e-6
"""Displacement (m, rad) of the central differences of poses."""
BALANCED = 1e-6
"""Share of the forces at rest that may remain unbalanced."""
SAME = 1e-5
"""Relative change of the linear equations along a steady motion that is attributed to rounding."""
UNREACHED = 1e-8
"""Relative size below which a direction counts as unreachable by the inputs."""
TRIES = 12
"""Random guesses per sample configuration while no loop has closed."""


class UnstableWarning(UserWarning):
    """A law does not stabilise the rest configuration it was designed for.

    >>> issubclass(UnstableWarning, UserWarning)
    True
    """


class MissedPolesWarning(UserWarning):
    """A prototype was found, but some poles of its law differ from the requested ones.

    >>> issubclass(MissedPolesWarning, UserWarning)
    True
    """


class _Interpreted:
    """A model whose functions are interpreted: for a few calls, compiling would take longer."""

    def __init__(self, model: Model) -> None:
        self._model = model

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def evaluate(self, name: str, *arguments: Any, parameters: Any = None) -> Any:
        results = self._model.traced(name)(*arguments, self._model.parameter_vector(parameters))
        return results[0] if len(results) == 1 else results


class Deviations(NamedTuple):
    """Changes (nx, 4, 4) of acceleration, velocity and place of a frame's particles per deviation x, seen from the frame; the
    acceleration without that of the velocity coordinates."""

    acceleration: Floats
    velocity: Floats
    place: Floats


@dataclass(frozen=True, eq=False)
class LinearisedLoop:
    """The plant about rest at q (nq,), or a steady motion with velocity v (nv,), with the inputs u (nu,) that hold it.

    Attributes
    ----------
    A : (nx, nx), B : (nx, nu). by_x : (nv, nx) and directions N : (nv, nu): the acceleration. velocity : (nv, nx) and displacement : (nw, nx) of
    the joint velocities: deviations per x. tangent : (nv, n) velocities that satisfy the constraints.
    """

    model: Model
    q: Floats
    v: Floats
    u: Floats
    A: Floats
    B: Floats
    by_x: Floats
    directions: Floats
    velocity: Floats
    displacement: Floats
    tangent: Floats
    joint_rows: Floats
    names: tuple[str, ...]

    @classmethod
    def at(cls, model: Model, q: Any = None, v: Any = None) -> LinearisedLoop:
        """About q; None: the neutral configuration, with loops the first closed sample. With v: about the steady motion with this velocity.

        Raises
        ------
        ControlError
            No inputs hold the model there, or friction that depends on reactions prevents linearisation.
        """
        if model.expressions.is_driven:
            raise ControlError(f"{model.name!r} is driven by constraints or time: it is never at rest.")
        plain: Any = _Interpreted(model)
        place = sample_configurations(model)[0] if q is None else model.coordinates.check(q, "q")
        rest, p = steady_velocity(model, place, v), model.parameter_vector()
        u = holding_inputs(model, place, rest)
        try:
            minimal = tangent.minimal_tangent(plain, place, rest, None, ())
            A, B = tangent.linearization(plain, place, rest, u, None, minimal)
            _, by_q, by_v, by_u = tangent.acceleration_derivatives(plain, place, rest, u, None, minimal)
        except HeavytopError as error:
            raise ControlError(f"{model.name!r} cannot be linearised at q = {format_vector(place)}: {error}") from None
        velocity = np.concatenate([minimal.K, minimal.N], axis=-1)
        displacement = np.concatenate([minimal.D, np.zeros((minimal.D.shape[0], minimal.N.shape[1]))], axis=-1)
        rows = model.traced("joint_rows")(place, p)[0]
        by_x = np.concatenate([by_q, by_v], axis=-1)
        return cls(model, place, rest, u, A, B, by_x, by_u, velocity, displacement, minimal.N, rows, minimal.names)

    @cached_property
    def _moved(self) -> dict[str, tuple[Floats, Floats]]:
        """Poses of every frame displaced forwards and backwards along each joint velocity: (nw, 4, 4) twice."""
        c, names = self.model.coordinates, self.model.description.graph.frames
        steps = STEP * np.eye(c.nv)
        sides = [
            self.model.traced("poses")(
                c.retract(np.broadcast_to(self.q, (c.nv, len(self.q))), s), self.model.parameter_vector()
            )
            for s in (steps, -steps)
        ]
        return {name: (np.asarray(a), np.asarray(b)) for name, a, b in zip(names, *sides, strict=True)}

    def shift(self, pair: Pair) -> Floats:
        """Twist (6, nw) of frame b relative to frame a per displacement along each joint velocity."""
        a, b = pair
        count = self.model.coordinates.nv

        def relative(side: int) -> Floats:
            outer = np.broadcast_to(self._moved[b][side], (count, 4, 4))
            return outer if a == WORLD else se3.inverse(np.broadcast_to(self._moved[a][side], (count, 4, 4))) @ outer

        ahead, behind = relative(0), relative(1)
        middle = se3.inverse(0.5 * (ahead + behind))
        return se3.vee(middle @ (ahead - behind) / (2 * STEP)).T

    def deviations(self, pair: Pair) -> Deviations:
        """Deviations of a frame's particles per x; at rest without tracing anything."""
        eps = self.shift(pair)
        moved = se3.wed((eps @ self.displacement).T)
        if not np.any(self.v):
            turned = se3.wed((eps @ self.joint_rows @ self.velocity).T)
            return Deviations(np.zeros_like(turned), turned, moved)
        twist, bias, twist_q, bias_q, J, bias_v = _slopes(self.model, pair, self.q, self.v)
        turned = se3.wed((twist_q @ self.displacement + J @ self.velocity).T)
        pushed = se3.wed((bias_q @ self.displacement + bias_v @ self.velocity).T)
        xi = se3.wed(twist)
        acceleration = pushed + turned @ xi + xi @ turned + moved @ (se3.wed(bias) + xi @ xi)
        return Deviations(acceleration, turned + moved @ xi, moved)

    def jacobian(self, pair: Pair) -> Floats:
        """J (6, nv) of frame b relative to frame a."""
        return self.shift(pair) @ self.joint_rows

    def mass_matrix(self, inertia: Mapping[str, Moments]) -> Floats:
        """sum J^T M_bar J (nv, nv)."""
        total = np.zeros((self.model.nv, self.model.nv))
        for body, moments in inertia.items():
            J = self.jacobian((WORLD, body))
            total = total + J.T @ numeric(self.model, moments.matrix) @ J
        return total

    def bias(self, pairs: Mapping[Pair, Moments], what: str) -> Floats:
        """sum J^T vee2(W X') (nv, nx) with the deviations W of the "acceleration", the "velocity" or the "place" of particles."""
        total = np.zeros((self.model.nv, len(self.A)))
        for pair, moments in pairs.items():
            seen = getattr(self.deviations(pair), what)
            total = total + self.jacobian(pair).T @ se3.vee2(seen @ numeric(self.model, moments.moments)).T
        return total

    def matrices(self, prototype: Prototype) -> tuple[Floats, Floats]:
        """M_bar (nv, nv) and C (nv, nx) of a prototype."""
        bias = self.bias(prototype.damping, "velocity") + self.bias(prototype.stiffness, "place")
        if np.any(self.v):
            bias = bias + self.bias({(WORLD, b): m for b, m in prototype.inertia.items()}, "acceleration")
        return self.mass_matrix(prototype.inertia), bias

    def gain(self, M_bar: Floats, C: Floats, metric: str = "prototype") -> Floats:
        """F (nu, nx) of the law's u = u_0 + F x."""
        N, left = self.directions, M_bar @ self.by_x + C
        if metric == "model":
            M = self.model.traced("mass_matrix")(self.q, self.model.parameter_vector())[0]
            T = self.tangent
            # a_x less the acceleration nearest to the prototype's that keeps the constraints
            off = T @ np.linalg.solve(T.T @ M_bar @ T, T.T @ left)
            return -np.linalg.pinv(N.T @ M @ N, rcond=1e-12, hermitian=True) @ (N.T @ M @ off)
        return -np.linalg.pinv(N.T @ M_bar @ N, rcond=1e-12, hermitian=True) @ (N.T @ left)

    def poles(self, prototype: Prototype, metric: str = "prototype") -> np.ndarray:
        """Poles (nx,) of a law of this prototype, without its limits and integrals, slowest first."""
        return ordered(np.linalg.eigvals(self.A + self.B @ self.gain(*self.matrices(prototype), metric)))

    def in_joints(self, A: Floats) -> Floats:
        """A matrix (nx, nx) of deviations x in terms of displacements along joint velocities and deviations of velocities."""
        X = np.concatenate([self.displacement, self.velocity])
        return X @ A @ np.linalg.pinv(X)

    @cached_property
    def reached(self) -> Floats:
        """Orthonormal basis (nx, n) of the deviations that the inputs can cause, by the staircase of A and B."""
        size = max(np.linalg.norm(self.A, 2), 1e-300)
        basis = np.zeros((len(self.A), 0))
        block = self.B / max(np.linalg.norm(self.B, 2), 1e-300)
        while block.shape[1]:
            block = block - basis @ (basis.T @ block)
            block = block - basis @ (basis.T @ block)
            U, s, _ = np.linalg.svd(block, full_matrices=False)
            block = U[:, s > UNREACHED]
            basis = np.concatenate([basis, block], axis=1)
            block = self.A @ block / size
        return basis

    @property
    def fixed_poles(self) -> np.ndarray:
        """Poles that do not depend on the inputs."""
        from scipy.linalg import null_space

        rest = null_space(self.reached.T) if self.reached.shape[1] else np.eye(len(self.A))
        return ordered(np.linalg.eigvals(rest.T @ self.A @ rest))


def _slopes(model: Model, pair: Pair, q: Floats, v: Floats) -> tuple[Floats, ...]:
    """Twist (6,) and bias (6,) of a pair of frames, their derivatives along joint velocities (6, nw), and by v (6, nv)."""
    e = model.expressions
    motion = e.kinematics.motion(*pair)
    delta = symbol("delta", e.coordinates.nv)
    moved = e.q + np.matvec(e.coordinates.kinematics_matrix(e.q), delta)

    def along(x: Array) -> Array:
        return substitute(slope(substitute(x, e.q, moved), delta), delta, np.zeros(e.coordinates.nv))

    twist, bias = motion.twist, motion.bias
    outputs = (twist, bias, along(twist), along(bias), slope(twist, e.v), slope(bias, e.v))
    names = ("twist", "bias", "twist_q", "bias_q", "twist_v", "bias_v")
    traced = trace_of("slopes", {"q": e.q, "v": e.v, "p": e.p}, dict(zip(names, outputs, strict=True)))
    return tuple(np.asarray(x) for x in traced(q, v, model.parameter_vector()))


def slope(expression: Array, variables: Array) -> Array:
    """Derivative (m, n) of an expression (m,) that need not depend on the variables (n,)."""
    if not is_symbolic(expression):
        return np.zeros((expression.shape[0], variables.shape[0]))
    return jacobian(expression, variables)


def unstable(poles: np.ndarray) -> np.ndarray:
    """Poles with a positive real part beyond rounding."""
    size = np.abs(poles)
    # with mostly zero poles, as of a body that slides freely, the median itself is rounding
    scale = max(float(np.median(size)), UNSTABLE * float(np.max(size, initial=0.0)), 1e-9)
    return poles[np.real(poles) > UNSTABLE * scale]


def steady_velocity(model: Model, q: Floats, v: Any) -> Floats:
    """The velocity (nv,) of a steady motion, checked; None: rest."""
    if v is None:
        return np.zeros(model.nv)
    given = np.asarray(v, dtype=float)
    if given.shape != (model.nv,):
        raise wrong_shape(f"v of the steady motion of {model.name!r}", (model.nv,), given.shape)
    if not np.all(np.isfinite(given)):
        raise ControlError(f"v of the steady motion of {model.name!r} must be finite, got {given.tolist()}.")
    if model.is_constrained:
        slip = model.traced("constraint_jacobian")(q, model.parameter_vector())[0] @ given
        if np.max(np.abs(slip), initial=0.0) > BALANCED * max(np.max(np.abs(given)), 1e-9):
            raise ControlError(
                f"v of the steady motion violates the constraints of {model.name!r} by {np.max(np.abs(slip)):.4g}. "
                "model.assemble(q, v) returns a consistent one."
            )
    return given


def ahead(model: Model, q: Floats, v: Floats) -> Floats:
    """The configuration half a metre or half a radian ahead on a steady motion."""
    rates = np.matvec(model.traced("kinematics_matrix")(q, model.parameter_vector())[0], v)
    return model.integrate(q, v, 0.5 / max(float(np.max(np.abs(rates))), 1e-9))


def check_steady(model: Model, here: Floats, there: Floats) -> None:
    """Raise a ControlError unless the equations of deviations, in joint velocities, are the same here and ahead.

    Comparing poles does not suffice: in axes that do not turn with the motion those of a turning reference are constant, but not its exponents.
    """
    if np.max(np.abs(here - there)) > SAME * np.max(np.abs(here)):
        raise ControlError(
            f"this motion of {model.name!r} is not a relative equilibrium and has no poles: its linear equations change along it. Poles exist if "
            "they do not depend on the motion, as at constant speed straight ahead, or for a turning free body in body velocities."
        )


def holding_inputs(model: Model, q: Floats, v: Floats | None = None) -> Floats:
    """The smallest inputs (nu,) that hold a model at rest at q, or keep its velocity v (nv,); a ControlError names the unbalanced coordinate."""
    zero, p = np.zeros(model.nv), model.parameter_vector()
    moves = v is not None and bool(np.any(v))
    v = zero if v is None else v
    needed = model.traced("inverse_dynamics")(q, v, zero, p)[0]
    columns = model.traced("input_matrix")(q, p)[0] if model.nu else np.zeros((model.nv, 0))
    if model.is_constrained:
        columns = np.concatenate([columns, model.traced("constraint_jacobian")(q, p)[0].T], axis=1)
    found = np.linalg.lstsq(columns, needed, rcond=1e-9)[0] if columns.shape[1] else np.zeros(0)
    left = needed - columns @ found
    if np.max(np.abs(left), initial=0.0) > BALANCED * max(np.max(np.abs(needed), initial=0.0), 1e-9):
        worst = int(np.argmax(np.abs(left)))
        what = f"{left[worst]:.4g} remain along {model.v_names[worst]!r}"
        if moves:
            raise ControlError(
                f"no inputs keep the velocity of {model.name!r} at q = {format_vector(q)} constant: {what}."
            )
        raise ControlError(
            f"{model.name!r} is not in balance at rest at q = {format_vector(q)}: no inputs hold it, {what}. "
            "heavytop.control.equilibrium(model, guess) finds an equilibrium."
        )
    if moves and model.is_constrained:
        a = model.traced("acceleration")(q, v, found[: model.nu], p)[0]
        if np.max(np.abs(a)) > BALANCED * max(float(np.max(np.abs(v))), 1e-9):
            worst = int(np.argmax(np.abs(a)))
            raise ControlError(
                f"the motion of {model.name!r} is not steady: its constraints change {model.v_names[worst]!r} by {a[worst]:.4g} per "
                "second. Use velocity coordinates that remain constant when turning at a constant rate (system.basis)."
            )
    return found[: model.nu]


def numeric(model: Model, matrix: Any) -> Floats:
    """A matrix of moments with the model's parameter values in place of symbols."""
    if not is_symbolic(matrix):
        return matrix
    import casadi

    function = casadi.Function("numbers", [to_sx(model.expressions.p)], [to_sx(matrix)])
    return np.reshape(np.array(function(model.parameter_vector())), tuple(matrix.shape))


def ordered(values: np.ndarray) -> np.ndarray:
    """Poles ordered from slow to fast."""
    return values[np.lexsort((np.imag(values), np.round(-np.real(values), 9)))]


def moments_of(matrix: Floats) -> Floats:
    """The moments X' (..., 4, 4) of matrices Vee(X') (..., 6, 6): [tr(S) / 2 - S, t c; t c^T, t] of [t, t wed(c)^T; t wed(c), S].

    >>> moments_of(np.diag([2.0, 2.0, 2.0, 3.0, 4.0, 5.0])).diagonal().tolist()
    [3.0, 2.0, 1.0, 2.0]
    """
    S, arm = matrix[..., 3:, 3:], matrix[..., 3:, :3]
    center = np.stack([arm[..., 2, 1], arm[..., 0, 2], arm[..., 1, 0]], axis=-1)
    half = 0.5 * np.trace(S, axis1=-2, axis2=-1)[..., None, None] * np.eye(3) - S
    top = np.concatenate([half, center[..., None]], axis=-1)
    bottom = np.concatenate([center, matrix[..., 0, :1]], axis=-1)[..., None, :]
    return np.concatenate([top, bottom], axis=-2)


def sample_configurations(model: Model, count: int = 3) -> Floats:
    """Sample configurations (n, nq), the neutral one first; with loops assembled from random guesses.

    >>> import heavytop as ht
    >>> sample_configurations(ht.library.cart_pole().derive(native=False)).shape
    (4, 2)
    """
    guesses = np.vstack([model.neutral(), model.random(0, (count,))])
    if not model.is_constrained or not any(rows.phi is not None for rows in model.expressions.constrained.rows):
        return guesses
    found: list[Floats] = []
    for k, guess in enumerate((*guesses, *model.random(1, (TRIES * count,)))):
        if k > count and len(found) >= 2:
            break
        try:
            found.append(model.assemble(guess)[0])
        except HeavytopError:
            continue
    if not found:
        raise ControlError(
            f"no configuration of {model.name!r} closes its loops from {1 + (TRIES + 1) * count} random guesses. Check the "
            "lengths: model.assemble(guess) must find one."
        )
    return np.array(found)


def freedom_of(model: Model, samples: Floats) -> int:
    """Degrees of freedom away from singular configurations: the minimum over the samples."""
    return min(model.degrees_of_freedom(q) for q in samples) if model.is_constrained else model.nv
