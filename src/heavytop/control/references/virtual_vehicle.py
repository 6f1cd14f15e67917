"""Virtual vehicles: feasible references for systems without flat outputs.

A law flies a copy of the model along an approximately feasible reference. The motion of the copy is exactly feasible, so
the real vehicle follows it. The copy is simulated with the real vehicle, as state of the controller, or beforehand.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from heavytop._arrays import Array, Numbers, concatenate, numbers, split, symbol
from heavytop.compile import Traced, trace_of
from heavytop.control.laws.base import BaseController
from heavytop.control.laws.law import Law
from heavytop.control.laws.wrapper import Tracking
from heavytop.control.linear.analysis import ClosedLoop
from heavytop.control.references.reference import Reference
from heavytop.errors import ControlError, wrong_shape
from heavytop.system import Model


class VirtualVehicle(BaseController):
    """A controller that follows a virtual vehicle, whose state (q, v) is part of the controller's state z.

    Parameters
    ----------
    law : law of the real vehicle.
    reference : approximately feasible; the virtual vehicle follows it and starts on it.
    guide : law of the virtual vehicle, without integral action; default: the same law.

    Examples
    --------
    >>> from heavytop.copters import quadcopter
    >>> craft, t = quadcopter(), np.linspace(0.0, 1.0, 11)
    >>> rest = np.tile(craft.model.neutral(), (11, 1))
    >>> reference = recorded_reference(craft.model, t, rest, np.zeros((11, 6)), np.zeros((11, 6)))
    >>> VirtualVehicle(craft.law(limits=False), reference).state_size == craft.model.nq + craft.model.nv
    True
    """

    def __init__(self, law: Law, reference: Reference, guide: Law | None = None) -> None:
        self._law, self.guide, self.reference = law, guide or law, reference
        if self.guide.state_size:
            raise ControlError("the law of the virtual vehicle must not have integral action.")
        self._inner = Tracking(self.guide, reference)

    @property
    def law(self) -> Law:
        return self._law

    @property
    def signal_size(self) -> int:
        return self._inner.signal_size

    @property
    def state_size(self) -> int:
        """State of the virtual vehicle and integrals of the law."""
        model = self.guide.model
        return model.nq + model.nv + self.law.state_size

    def sampled(self, period: float | None) -> VirtualVehicle:
        """The controller itself, which is continuous."""
        if period is not None:
            raise ControlError(
                f"a virtual vehicle is continuous, but this simulation samples it every {period:g} s. Use "
                "simulate(..., hold='continuous'), or simulate it beforehand: virtual_reference(guide, reference)."
            )
        return self

    def signal(self, times: Numbers) -> np.ndarray:
        return self._inner.signal(times)

    def initial_state(self) -> np.ndarray:
        """The virtual vehicle on the reference, the integrals at zero."""
        q, v, _ = self.reference(0.0)
        return np.concatenate([q, v, self.law.initial_state()])

    def composed(self, model: Model) -> Traced:
        self.law.check_plant(model)
        own, nz = self.guide.model, self.law.state_size
        inner = self._inner.traced(own)
        names = [name for name in inner.inputs if name in ("t", "signal")]
        symbols: dict[str, Array] = {name: symbol(name, None if name == "t" else self.signal_size) for name in names}
        symbols |= {"q": symbol("q", own.nq), "v": symbol("v", own.nv), "z": symbol("z", self.state_size)}
        q_v, v_v, z = split(symbols["z"], (own.nq, own.nv, nz))
        at = {**symbols, "q": q_v, "v": v_v}
        (u_v,) = inner.expressions(*(at[name] for name in inner.inputs))
        p = own.parameter_vector()
        (a_v,) = own.traced("acceleration").expressions(q_v, v_v, u_v, p)
        (rate,) = own.traced("rate").expressions(q_v, v_v, p)
        arguments = [symbols["q"], symbols["v"], q_v, v_v, a_v, self.law.model.parameter_vector()]
        results = self.law.traced_law.expressions(*arguments, *([z] if nz else []))
        z_rate = concatenate(rate, a_v, *results[1:])
        outputs = {"u": results[0], "z_rate": z_rate, "q_virtual": q_v, "v_virtual": v_v}
        return trace_of("virtual_vehicle", symbols, outputs)


def recorded_reference(model: Model, t: Any, q: Any, v: Any, a: Any, period: float | None = None) -> Reference:
    """Reference through samples at equidistant times t (n,): q (n, nq), v (n, nv), a (n, nv).

    The acceleration is interpolated linearly; before the first and after the last sample that configuration is held at rest.

    >>> from heavytop.copters import quadcopter
    >>> craft = quadcopter()
    >>> t = np.linspace(0.0, 1.0, 11)
    >>> rest = np.tile(craft.model.neutral(), (11, 1))
    >>> recorded_reference(craft.model, t, rest, np.zeros((11, 6)), np.zeros((11, 6))).duration
    1.0
    """
    t = numbers(t, "t of a recorded reference")
    if t.ndim != 1 or len(t) < 2 or not np.all(np.isfinite(t)) or not np.all(np.diff(t) > 0):
        raise ControlError(
            f"a recorded reference needs two or more finite increasing times, got {np.array2string(t, threshold=8)}."
        )
    h = float(t[1] - t[0])
    if not np.allclose(np.diff(t), h, rtol=1e-6, atol=0.0):
        raise ControlError("a recorded reference needs samples at equidistant times.")
    recorded = []
    for name, value, size in (("q", q, model.nq), ("v", v, model.nv), ("a", a, model.nv)):
        array = numbers(value, f"{name} of a recorded reference")
        if array.shape != (len(t), size):
            raise wrong_shape(f"{name} of a recorded reference at {len(t)} times", (len(t), size), array.shape)
        if not np.all(np.isfinite(array)):
            raise ControlError(f"{name} of a recorded reference must be finite.")
        recorded.append(array)
    q, v, a = recorded
    jerk = np.diff(a, axis=0) / h

    def evaluate(times: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        rest = ((times < t[0] - 1e-9 * h) | (times > t[-1] + 1e-9 * h))[:, None]
        k = np.clip(np.floor((times - t[0]) / h + 1e-9).astype(int), 0, len(t) - 2)
        tau = np.clip(times, t[0], t[-1])[:, None] - t[k][:, None]
        mean = v[k] + a[k] * tau / 2 + jerk[k] * tau**2 / 6
        place = model.integrate(q[k], mean, tau[:, 0])
        speed, rate = v[k] + a[k] * tau + jerk[k] * tau**2 / 2, a[k] + jerk[k] * tau
        return place, np.where(rest, 0.0, speed), np.where(rest, 0.0, rate)

    return Reference(model, evaluate, duration=float(t[-1]), period=period)


def virtual_reference(guide: Law, reference: Reference, until: float | None = None, step: float = 1e-3) -> Reference:
    """Feasible reference: the motion of a virtual vehicle along ``reference``, simulated beforehand.

    >>> from heavytop.copters import quadcopter
    >>> craft, t = quadcopter(), np.linspace(0.0, 1.0, 11)
    >>> rest = np.tile(craft.model.neutral(), (11, 1))
    >>> reference = recorded_reference(craft.model, t, rest, np.zeros((11, 6)), np.zeros((11, 6)))
    >>> virtual_reference(craft.law(limits=False), reference, until=0.1, step=0.01).duration
    0.1
    """
    model = guide.model
    flight = ClosedLoop(model, guide.with_reference(reference)).fly(
        reference(0.0)[:2], reference.horizon if until is None else until, step / 2
    )
    a = model.acceleration(flight.q, flight.v, flight.u)
    return recorded_reference(model, flight.t, flight.q, flight.v, a)
