"""Actuators of a robot file between commands and the inputs of its model.

The inputs u of a model act linearly. An actuator has ranges and a state besides: its command c is bounded, filtered or integrated to the activation
a (a = c without a state), and the force on its length L, scale a + constant - stiffness L - damping L', is bounded, as is the total force of the
actuators in a joint. The input that gives the bounded force F is u = (F - constant + stiffness L + damping L') / scale.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from heavytop._arrays import Array, as_array, is_symbolic, shape, vector
from heavytop.errors import wrong_shape
from heavytop.functions import Value
from heavytop.io.robot import Mimic, Robot
from heavytop.simulate import Feedback
from heavytop.system import Description

FREE = (-np.inf, np.inf)


@dataclass(frozen=True)
class InputLaw(Value):
    """One input; ``terms`` are (place in q, place in v, coefficient) of the length L = offset + sum c q."""

    name: str
    command_range: tuple[float, float] = FREE
    input_range: tuple[float, float] = FREE
    lag: float = 0.0
    force_range: tuple[float, float] = FREE
    scale: float = 1.0
    constant: float = 0.0
    stiffness: float = 0.0
    damping: float = 0.0
    terms: tuple[tuple[int, int, float], ...] = ()
    offset: float = 0.0

    def bias(self, q: Array, v: Array) -> Array:
        """The state-dependent part of the force on the length."""
        length = self.offset + sum(c * entry(q, k) for k, _, c in self.terms)
        rate = sum(c * entry(v, k) for _, k, c in self.terms)
        return self.constant - self.stiffness * length - self.damping * rate

    def bounded(self, q: Array, v: Array, a: Array) -> Array:
        """The input for an activation."""
        a = clipped(a, self.input_range)
        if self.force_range == FREE or not self.scale:
            return a
        bias = self.bias(q, v)
        return (clipped(self.scale * a + bias, self.force_range) - bias) / self.scale


@dataclass(frozen=True)
class JointRange(Value):
    """The range of the total force in a joint.

    ``shares`` are (input, force in the joint per force on its length); ``last`` is the input that gives way.
    """

    bounds: tuple[float, float]
    shares: tuple[tuple[int, float], ...]
    last: int


@dataclass(frozen=True)
class Actuation(Value):
    """All actuators of a robot, in the order of the inputs of its model.

    ``system.actuation()`` makes it from a file; :meth:`inputs` for actuators without state, :meth:`feedback` for simulations.

    >>> Actuation((InputLaw("motor", command_range=(-1.0, 1.0)),)).inputs([0.0], [0.0], [3.0])
    array([1.])
    """

    laws: tuple[InputLaw, ...]
    joints: tuple[JointRange, ...] = ()

    def inputs(self, q: Any, v: Any, activations: Any) -> Array:
        """Inputs (..., nu) of the model for activations (..., nu), which are the commands of actuators without state."""
        q, v, a = (as_array(x) for x in (q, v, activations))
        if shape(a)[-1:] != (len(self.laws),):
            raise wrong_shape("activations", ("...", len(self.laws)), shape(a))
        levels = [clipped(entry(a, k), FREE if law.lag else law.command_range) for k, law in enumerate(self.laws)]
        u = [law.bounded(q, v, level) for law, level in zip(self.laws, levels, strict=True)]
        for joint in self.joints:
            forces = [c * (self.laws[k].scale * u[k] + self.laws[k].bias(q, v)) for k, c in joint.shares]
            total = sum(forces[1:], start=forces[0])
            last, share = self.laws[joint.last], dict(joint.shares)[joint.last]
            u[joint.last] = u[joint.last] + (clipped(total, joint.bounds) - total) / (share * last.scale)
        return vector(*u) if is_symbolic(a) or is_symbolic(q) else np.stack(np.broadcast_arrays(*u), axis=-1)

    def feedback(self, command: Callable[[Array, Array, Array], Array], activation: Any = None) -> Feedback:
        """A law of ``ht.simulate`` that applies the commands ``command(t, q, v)`` (nu,), a function in NumPy notation.

        ``activation`` (nu,) are the activations at the start of actuators with a state, by default zero.
        """
        lagging = [k for k, law in enumerate(self.laws) if law.lag]
        if not lagging:
            return Feedback(lambda t, q, v: self.inputs(q, v, command(t, q, v)), ("t", "q", "v"))
        start = np.zeros(len(self.laws)) if activation is None else np.asarray(activation, dtype=float)

        def law(t: Array, q: Array, v: Array, z: Array) -> dict[str, Array]:
            c = as_array(command(t, q, v))
            levels = [c[k] for k in range(len(self.laws))]
            rates = []
            for place, k in enumerate(lagging):
                one, bounded = self.laws[k], clipped(c[k], self.laws[k].command_range)
                rates.append(bounded if one.lag == np.inf else (bounded - z[place]) / one.lag)
                levels[k] = z[place]
            return {"u": self.inputs(q, v, vector(*levels)), "z_rate": vector(*rates)}

        return Feedback(law, ("t", "q", "v", "z"), memory=tuple(start[lagging].tolist()))


def entry(x: Array, k: int) -> Array:
    """Entry k of a vector, or of each vector of a batch."""
    return x[k] if is_symbolic(x) else x[..., k]


def clipped(x: Array, bounds: tuple[float, float]) -> Array:
    """x within bounds, each of which may be infinite."""
    low, high = bounds
    x = x if low == -np.inf else np.maximum(x, low)
    return x if high == np.inf else np.minimum(x, high)


def actuation_of(description: Description, robot: Robot) -> Actuation:
    """The actuators of a robot as laws of the inputs of a description; inputs that the file does not have are not bounded."""
    places, q, v = {}, 0, 0
    for edge in description.joints:
        places[edge.label] = (q, v)
        q, v = q + edge.joint.coordinates.nq, v + edge.joint.coordinates.nv
    actuators = {actuator.name: actuator for actuator in robot.actuators}
    laws = []
    for name in description.inputs:
        made = actuators.get(name)
        if made is None:
            laws.append(InputLaw(name))
            continue
        terms, offset = [], 0.0
        for joint, c in made.length:
            mimic = robot.joints[joint].mimic or Mimic(joint, 1.0, 0.0)
            if mimic.source in places:
                terms.append((*places[mimic.source], c * mimic.ratio))
                offset += c * mimic.offset
        servos = [servo for servo in robot.servos if servo.actuator == name]
        law = InputLaw(
            name,
            command_range=made.command_range,
            input_range=made.limits or FREE,
            lag=made.lag,
            force_range=made.force_range,
            scale=made.scale,
            constant=sum(servo.constant for servo in servos),
            stiffness=sum(servo.stiffness for servo in servos),
            damping=sum(servo.damping for servo in servos),
            terms=tuple(terms),
            offset=offset,
        )
        laws.append(law)
    names = [law.name for law in laws]
    joints = []
    for joint, bounds in robot.force_ranges.items():
        acting = [a for a in robot.actuators if a.name in names and joint in dict(a.length)]
        alone = [a for a in acting if len(a.length) == 1 and a.scale]
        if alone:
            shares = tuple((names.index(a.name), dict(a.length)[joint]) for a in acting)
            joints.append(JointRange(bounds, shares, names.index(alone[-1].name)))
    return Actuation(tuple(laws), tuple(joints))
