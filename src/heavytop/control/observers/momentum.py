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

from heavytop._arrays import Array, concatenate, flatten_columns, part, unflatten_columns
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

    Examples
    --------
    >>> from heavytop.control import OnPart
    >>> from heavytop.copters import quadcopter_with_load
    >>> slung = quadcopter_with_load()
    >>> law = OnPart(slung.law(), slung.model)
    >>> MomentumObserver(Balanced(law, slung.model), slung.model).needs_reference
    True
    """

    def __init__(self, controller: Any, model: Model, lean: bool = True) -> None:
        super().__init__(controller)
        joints = model.description.joints
        self.model, self.lean = model, lean and isinstance(joints[0].joint, Free)

    def seen(self, at: Seen) -> Mapping[str, Array]:
        """The reference that leans, and its accelerations less the unexplained ones."""
        q_R, _, a_R = at.reference
        d = at.signals["unexplained"]
        return {"q_R": self._leaning(at, q_R, d) if self.lean else q_R, "a_R": a_R - d}

    def _leaning(self, at: Seen, q_R: Array, d: Array) -> Array:
        model = self.model
        joints, own = model.description.joints, model.description.parameters
        (M,) = model.traced("mass_matrix").expressions(at.q, model.parameter_vector())
        force = part(np.matvec(M, d), 0, 3)
        free: Any = joints[0].joint
        n, size = free.coordinates.nq, model.mass
        R = se3.rotation(free.pose(part(at.q, 0, n)))
        push = np.matvec(R, force) / size if free.velocity == "body" else force / size
        gravity = at_defaults(model.description.gravity, own)
        G = free.pose(part(q_R, 0, n))
        before = se3.rotation(G)
        after = leaned(before, -gravity - push)
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
