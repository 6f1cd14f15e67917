"""Measured outputs: functions of the state, their residuals on the manifold and the derivatives of these."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from heavytop._arrays import Array, concatenate, is_symbolic, part, transpose
from heavytop.compile import Kernel, Traced, on_symbols, tangent, trace
from heavytop.errors import IdentificationError, unknown_name
from heavytop.geometry import quaternion, se3, so3
from heavytop.simulate import Dynamics
from heavytop.system import GRAVITY
from heavytop.system.joints import Free

HULL = ("position", "attitude", "velocity", "gyro", "angular_velocity", "accelerometer")
"""Signals of a free body: position and velocity in world axes, attitude (quaternion w, x, y, z), rates and specific force in body axes."""


@dataclass(frozen=True, eq=False)
class MeasuredOutput:
    """A measured signal as a function of the state.

    Parameters
    ----------
    signal : its name in the log.
    function : ``fn(q, v, u, p)`` (m,) in NumPy notation, p: name -> parameter. None: by the name of the signal: "q", "v", names of coordinates and
        velocities, and for a free body those of :data:`HULL`.
    noise : standard deviation, in the unit of the signal; None: estimated for each entry.

    Examples
    --------
    The place of a pendulum's bob, seen by a camera:

    >>> import heavytop as ht
    >>> camera = ht.identify.MeasuredOutput("bob", lambda q, v, u, p: p["l"] * ht.vector(np.sin(q[0]), -np.cos(q[0])))
    >>> camera.signal
    'bob'
    """

    signal: str
    function: Callable[..., Array] | None = None
    noise: float | None = None

    def __post_init__(self) -> None:
        if self.noise is not None and not self.noise > 0:
            raise IdentificationError(f"noise of the output {self.signal!r} must be positive, got {self.noise}.")


class Outputs:
    """All outputs of an identification as one function.

    Parameters
    ----------
    given : names or :class:`MeasuredOutput`. dynamics : the model's dynamics.
    body : model of the free body whose coordinates are the first ones, or None.
    """

    def __init__(self, given: Sequence[Any], dynamics: Dynamics, body: Any) -> None:
        self.items = [MeasuredOutput(x) if isinstance(x, str) else x for x in given]
        if not self.items:
            raise IdentificationError("outputs= must name at least one measured signal.")
        twice = {item.signal for item in self.items if self.signals.count(item.signal) > 1}
        if twice:
            raise IdentificationError(
                f"outputs= must name each signal once, got {', '.join(self.signals)}: a signal that counts twice has too small intervals."
            )
        self.dynamics, self.body = dynamics, body
        parts = [self._part(item) for item in self.items]
        self.measured = [size for size, _ in parts]
        """Entries of each signal in the log."""
        self.residual = self._trace([fn for _, fn in parts])
        self.sizes = [int(self.residual.outputs[f"r{k}"][0]) for k in range(len(self.items))]
        """Entries of each residual."""
        self.kernel = Kernel(self.residual)
        along, self.moved = tangent(self.residual, (0, 1, 2, 3))
        self.along = Kernel(along)

    @property
    def count(self) -> int:
        """Number of residuals of a sample."""
        return sum(self.sizes)

    @property
    def signals(self) -> list[str]:
        return [item.signal for item in self.items]

    @property
    def channels(self) -> list[str]:
        """Name of each residual."""
        return [
            item.signal if n == 1 else f"{item.signal}[{k}]"
            for item, n in zip(self.items, self.sizes, strict=True)
            for k in range(n)
        ]

    def offset(self, signal: str) -> int:
        """Index of the first residual of a signal."""
        return sum(self.sizes[: self.signals.index(signal)])

    def values(self, q: np.ndarray, v: np.ndarray, u: np.ndarray, p: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Residuals (..., m), model minus measurement."""
        return np.concatenate(self.kernel(q, v, u, p, y), axis=-1)

    def slopes(
        self, at: Sequence[np.ndarray], q: np.ndarray, v: np.ndarray, u: np.ndarray, p: np.ndarray
    ) -> np.ndarray:
        """Derivatives (n, ..., m) of the residuals along n directions of q, v, u and p."""
        found = self.along(*at, q, v, u, p)
        first = len(self.items)
        lead = np.broadcast_shapes(q.shape[:-1], p.shape[:-1])
        rows = dict(zip(self.moved, found[first:], strict=True))
        parts = [rows.get(k, np.zeros((*lead, n))) for k, n in enumerate(self.sizes)]
        return np.concatenate([np.broadcast_to(x, (*lead, x.shape[-1])) for x in parts], axis=-1)

    # --- single outputs ------------------------------------------------------------------------------------------------------

    def _part(self, item: MeasuredOutput) -> tuple[int, Callable[..., Array]]:
        """Entries of the signal in the log, and its residual of (q, v, u, p, y)."""
        d = self.dynamics
        if item.function is not None:
            fn = on_symbols(item.function, f"output {item.signal!r}", IdentificationError)

            def of(q: Array, v: Array, u: Array, p: Array) -> Array:
                return np.reshape(fn(q, v, u, {name: p[k] for k, name in enumerate(d.parameter_names)}), (-1,))

            shapes = {"q": (d.nq,), "v": (d.nv,), "u": (d.nu,), "p": (len(d.parameter_names),)}
            size = trace(lambda q, v, u, p: {"y": of(q, v, u, p)}, shapes, name="output").outputs["y"][0]
            return int(size), lambda q, v, u, p, y: of(q, v, u, p) - y
        if item.signal == "q":
            return d.nq, lambda q, v, u, p, y: d.coordinates.difference(y, q)
        if item.signal == "v":
            return d.nv, lambda q, v, u, p, y: v - y
        for names, which in ((d.q_names, 0), (d.v_names, 1)):
            if item.signal in names:
                k = names.index(item.signal)
                return 1, lambda q, v, u, p, y, k=k, which=which: (q, v)[which][k : k + 1] - y
        if item.signal in HULL and self.body is not None:
            return self._of_hull(item.signal)
        known = ["q", "v", *d.q_names, *d.v_names, *(HULL if self.body is not None else ())]
        raise unknown_name("output (without function=)", item.signal, known)

    def _of_hull(self, signal: str) -> tuple[int, Callable[..., Array]]:
        joint, n = self.body.description.joints[0].joint, self.body.coordinates

        def twist(q: Array, v: Array) -> Array:
            J = joint.jacobian(part(q, 0, joint.coordinates.nq))
            own = part(v, 0, 6)
            return np.matvec(J, own) if is_symbolic(J) or not np.array_equal(J, np.eye(6)) else own

        def pose(q: Array) -> Array:
            return joint.pose(part(q, 0, joint.coordinates.nq))

        if signal == "position":
            return 3, lambda q, v, u, p, y: se3.position(pose(q)) - y
        if signal == "attitude":

            def turn(q: Array, v: Array, u: Array, p: Array, y: Array) -> Array:
                return so3.log(transpose(quaternion.rotation_from_quaternion(y)) @ se3.rotation(pose(q)))

            return 4, turn
        if signal == "velocity":
            return 3, lambda q, v, u, p, y: np.matvec(se3.rotation(pose(q)), part(twist(q, v), 0, 3)) - y
        if signal in ("gyro", "angular_velocity"):
            return 3, lambda q, v, u, p, y: part(twist(q, v), 3, 6) - y
        if joint.velocity != "body":
            raise IdentificationError(
                f"the output 'accelerometer' needs velocities in body axes; {n.name if hasattr(n, 'name') else 'the body'} has {joint.velocity!r}."
            )
        motion, gravity = self.dynamics.motion(), np.array([0.0, 0.0, GRAVITY])

        def force(q: Array, v: Array, u: Array, p: Array, y: Array) -> Array:
            a = motion.expressions(q, v, u, p)[1]
            xi = twist(q, v)
            linear = part(a, 0, 3) + np.cross(part(xi, 3, 6), part(xi, 0, 3))
            return linear + np.matvec(transpose(se3.rotation(pose(q))), gravity) - y

        return 3, force

    def _trace(self, functions: Sequence[Callable[..., Array]]) -> Traced:
        d = self.dynamics
        shapes = {
            "q": (d.nq,),
            "v": (d.nv,),
            "u": (d.nu,),
            "p": (len(d.parameter_names),),
            "y": (sum(self.measured),),
        }
        ends = np.cumsum([0, *self.measured])

        def residual(q: Array, v: Array, u: Array, p: Array, y: Array) -> dict[str, Array]:
            return {
                f"r{k}": concatenate(fn(q, v, u, p, part(y, int(ends[k]), int(ends[k + 1]))))
                for k, fn in enumerate(functions)
            }

        return trace(residual, shapes, name="outputs")


def free_body(subject: Any) -> Any:
    """The model whose first joint is free and whose coordinates come first: the model itself or that of a vehicle's plant; None if there is none."""
    model = getattr(getattr(subject, "vehicle", subject), "model", subject)
    joints = getattr(getattr(model, "description", None), "joints", ())
    return model if joints and isinstance(joints[0].joint, Free) else None
