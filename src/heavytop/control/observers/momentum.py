"""Observer of disturbances of any system on its full model, and their compensation: loads, arms, tilting rotors.

With the equations of motion M v' + b = B u + f_d the observer estimates the acceleration M^-1 f_d that the model does not explain,

    d <- d + s ((v - v_before) / h - a(q, v_mean, u) - d),    s = 1 - exp(-h / time),

over the samples. The reference accelerations are reduced by it, which the law turns into inputs by the same model. A hull that only pushes along
one axis leans against the force: its attitude turns by the smallest angle that balances f_d with gravity.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from heavytop._arrays import Array, concatenate, flatten_columns, part, scale, transpose, unflatten_columns
from heavytop.control.disturbances.air_drag import leaned
from heavytop.control.laws.wrapper import Seen, Wrapper
from heavytop.errors import ControlError
from heavytop.geometry import se3
from heavytop.system import Model, at_defaults
from heavytop.system.joints import Free


class MomentumObserver(Wrapper):
    """Wrapper that reports ``unexplained``: the acceleration (nv,) that the full model with its inputs does not explain.

    Parameters
    ----------
    controller : the wrapped controller. model : model of the plant, a tree. time : time constant, s.

    Examples
    --------
    >>> import heavytop as ht
    >>> arm = ht.library.double_pendulum().derive()
    >>> MomentumObserver(ht.Feedback(lambda v: v[:0], ("v",)), arm).provides
    {'unexplained': 2}
    """

    def __init__(self, controller: Any, model: Model, time: float = 0.1) -> None:
        super().__init__(controller)
        if model.is_constrained:
            raise ControlError(f"{model.name!r} has loops or velocity constraints: its disturbances are not observed.")
        if not time > 0:
            raise ControlError(f"the time constant of an observer must be positive, got {time}.")
        self.model, self.time = model, float(time)
        self.provides = {"unexplained": model.nv}
        self.own_state_size = model.nu + 2 * model.nv + 1

    def _unexplained(self, at: Seen) -> Array:
        if "unexplained" in at.shared:
            return at.shared["unexplained"]
        model, h = self.model, at.period
        nu, nv = model.nu, model.nv
        u, before, started = part(at.z, 0, nu), part(at.z, nu, nu + nv), at.z[nu + nv]
        old = part(at.z, nu + nv + 1, self.own_state_size)
        p = model.parameter_vector()
        (a,) = model.traced("acceleration").expressions(at.q, 0.5 * (at.v + before), u, p)
        share = started * (1 - float(np.exp(-h / self.time)))
        at.shared["unexplained"] = old + share * ((at.v - before) / h - a - old)
        return at.shared["unexplained"]

    def seen(self, at: Seen) -> Mapping[str, Array]:
        return {"unexplained": self._unexplained(at)}

    def following(self, at: Seen, u: Array) -> Array:
        return concatenate(u, at.v, np.ones(1), self._unexplained(at))

    def channels(self, at: Seen, u: Array) -> dict[str, Array]:
        return {"unexplained_acceleration": self._unexplained(at)}


class Balanced(Wrapper):
    """A law whose reference balances the acceleration that a :class:`MomentumObserver` around it reports.

    Parameters
    ----------
    controller : a law without a reference. model : model of the law.
    lean : whether the first body, a free one, leans against the force; loads on spherical joints keep their attitude.
    time : time constant, s, with which it leans: the force passes a filter of second order, whose derivatives are the angular velocity and
        acceleration of the reference.

    Examples
    --------
    >>> from heavytop.control import OnPart
    >>> from heavytop.copters import quadcopter_with_load
    >>> slung = quadcopter_with_load()
    >>> law = OnPart(slung.law(), slung.model)
    >>> MomentumObserver(Balanced(law, slung.model), slung.model).needs_reference
    True
    """

    own_state_size = 6  # push and its rate, of a hull that leans

    def __init__(self, controller: Any, model: Model, lean: bool = True, time: float = 0.1) -> None:
        super().__init__(controller)
        joints = model.description.joints
        self.model, self.lean, self.time = model, lean and isinstance(joints[0].joint, Free), float(time)

    def seen(self, at: Seen) -> Mapping[str, Array]:
        """The reference that leans, and its accelerations less the unexplained ones."""
        q_R, v_R, a_R = at.reference
        a_R = a_R - at.signals["unexplained"]
        if not self.lean:
            return {"a_R": a_R}
        free, n = self._free, self._free.coordinates.nq
        gravity = at_defaults(self.model.description.gravity, self.model.description.parameters)
        push, rate, second = self._filtered(at)
        specific = -gravity - push
        G = free.pose(part(q_R, 0, n))
        after = leaned(se3.rotation(G), specific)
        # the axis b of the thrust turns with b x b'
        square = np.vecdot(specific, specific) + 1e-18  # as in leaned
        turns = [np.matvec(transpose(after), scale(-1 / square, np.cross(specific, x), 1)) for x in (rate, second)]
        v_R, a_R = (
            concatenate(part(x, 0, 3), part(x, 3, 6) + turn, part(x, 6, self.model.nv))
            for x, turn in zip((v_R, a_R), turns, strict=True)
        )
        return {"q_R": self._leaning(q_R, after), "v_R": v_R, "a_R": a_R}

    @property
    def _free(self) -> Any:
        """The joint of the hull."""
        return self.model.description.joints[0].joint

    def _push(self, at: Seen) -> Array:
        """Unexplained force (3,) per mass of the whole, world axes."""
        model, free = self.model, self._free
        (M,) = model.traced("mass_matrix").expressions(at.q, model.parameter_vector())
        push = part(np.matvec(M, at.signals["unexplained"]), 0, 3) / model.mass
        R = se3.rotation(free.pose(part(at.q, 0, free.coordinates.nq)))
        return np.matvec(R, push) if free.velocity == "body" else push

    def _filtered(self, at: Seen) -> tuple[Array, Array, Array]:
        """The push now, its first and its second derivative."""
        push, rate, w = part(at.z, 0, 3), part(at.z, 3, 6), 1 / self.time
        return push, rate, w * w * (self._push(at) - push) - 2 * w * rate

    def following(self, at: Seen, u: Array) -> Array:
        if not self.lean:
            return at.z
        # exact for a push that is held over the period
        push, rate, h, w = part(at.z, 0, 3), part(at.z, 3, 6), at.period, 1 / self.time
        target, kept = self._push(at), float(np.exp(-at.period / self.time))
        off = push - target
        return concatenate(target + kept * (off + h * (rate + w * off)), kept * (rate - w * h * (rate + w * off)))

    def _leaning(self, q_R: Array, after: Array) -> Array:
        """The configuration with another rotation of the hull; loads keep their attitude."""
        joints, free = self.model.description.joints, self._free
        n = free.coordinates.nq
        G = free.pose(part(q_R, 0, n))
        before = se3.rotation(G)
        parts = [free.coordinates.from_pose(se3.pose(after, se3.position(G)))]
        place = n
        for each in joints[1:]:
            block = each.joint.coordinates
            found = part(q_R, place, place + block.nq)
            if each.joint.kind == "spherical" and each.a == joints[0].b and block.nq == 9:
                turned = after.T @ before @ unflatten_columns(found, 3)
                found = flatten_columns(turned)
            parts.append(found)
            place += block.nq
        return concatenate(*parts)
