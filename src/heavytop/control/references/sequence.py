"""References one after the other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from heavytop._arrays import Floats
from heavytop.control.references.reference import Motion3, Reference
from heavytop.errors import ControlError
from heavytop.functions import Value

MEETS = 1e-6
"""Largest difference of configurations and velocities where two references meet."""


def sequence(*references: Reference) -> Reference:
    """The motion of several references of one model, each starting where the previous one ends.

    Raises
    ------
    ControlError
        A reference has no end, or two of them do not meet: the configuration or the velocity would jump.

    Examples
    --------
    >>> import heavytop as ht
    >>> from heavytop.control import MotionLimits, joint_reference
    >>> system = ht.System()
    >>> system.body("arm", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=(0, 0, -1)))
    >>> model, limits = system.derive(), MotionLimits(2.0, 8.0)
    >>> there, back = (joint_reference(model, points, limits) for points in ([[0.0], [1.0]], [[1.0], [0.0]]))
    >>> both = sequence(there, back)
    >>> both.duration == there.duration + back.duration, both(there.duration)[0]
    (True, array([1.]))
    """
    for k, reference in enumerate(references):
        if getattr(reference, "grounded", False):
            raise ControlError(
                f"reference {k + 1} of a sequence, {reference!r}, is over the ground, which a reference does not have. Join maneuvers with "
                "heavytop.copters.maneuvers.sequence."
            )
    return joined(*references)


def joined(*references: Reference) -> Reference:
    """The reference of :func:`sequence`."""
    if not references:
        raise ControlError("a sequence needs at least one reference.")
    model, starts = references[0].model, [0.0]
    for k, reference in enumerate(references):
        if reference.model.key != model.key and reference.model is not model:
            raise ControlError(f"reference {k + 1} of a sequence belongs to another model, {reference.model.name!r}.")
        if reference.duration is None:
            raise ControlError(f"reference {k + 1} of a sequence has no end; give it a duration.")
        starts.append(starts[-1] + reference.duration)
        if k:
            _check_meeting(references[k - 1], reference, k)
    breaks = [start + b for start, reference in zip(starts, references, strict=False) for b in (0.0, *reference.breaks)]
    return Reference(model, Sequence(references, np.array(starts)), duration=starts[-1], breaks=tuple(breaks[1:]))


def _check_meeting(before: Reference, after: Reference, number: int) -> None:
    (q0, v0, _), (q1, v1, _) = before(before.duration), after(0.0)
    gap = float(np.max(np.abs(after.model.difference(q0, q1)), initial=0.0))
    jump = float(np.max(np.abs(v1 - v0), initial=0.0))
    if gap > MEETS or jump > MEETS:
        part, old, new = ("q", q0, q1) if gap > MEETS else ("v", v0, v1)
        k = int(np.argmax(np.abs(np.asarray(new) - old)))
        name = getattr(after.model, f"{part}_names")[k]
        raise ControlError(
            f"references {number} and {number + 1} of a sequence do not meet: {name!r} is {old[k]:.6g} at the end of reference {number} "
            f"and {new[k]:.6g} at the start of the next; the configuration jumps by {gap:.3g} (rad or m), the velocity by "
            f"{jump:.3g}. Start the second where the first ends."
        )


@dataclass(frozen=True, eq=False)
class Sequence(Value):
    """The function of numbers of a :func:`sequence`."""

    references: tuple[Reference, ...]
    starts: Floats

    def __call__(self, times: np.ndarray) -> Motion3:
        k = np.clip(np.searchsorted(self.starts, times, side="right") - 1, 0, len(self.references) - 1)
        model = self.references[0].model
        q, v, a = (np.zeros((len(times), size)) for size in (model.nq, model.nv, model.nv))
        for i, reference in enumerate(self.references):
            own = k == i
            if np.any(own):
                q[own], v[own], a[own] = reference(times[own] - self.starts[i])
        return q, v, a
