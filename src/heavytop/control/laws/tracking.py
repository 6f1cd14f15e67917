"""A law together with its reference: what a simulation calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from heavytop._arrays import Array, split
from heavytop.control.laws.base import REFERENCE, BaseController, check_sample_time
from heavytop.control.laws.wrapper import Seen, Wrapper
from heavytop.errors import ControlError

if TYPE_CHECKING:
    from heavytop.control.references.reference import Reference


class Tracking(Wrapper):
    """A law, or what is around one, that follows a reference. Made by ``law.with_reference(reference)``.

    A traceable reference becomes part of the function of time; any other is given as signal (q_R, v_R, a_R). Integral action takes
    the sample period of the simulation; with a ``sample_time`` it insists on that one. A controller may follow another reference than the
    given one (``referred``: one that answers drag) and look ahead (``lead_time``).

    >>> import heavytop as ht
    >>> from heavytop.control import computed_torque
    >>> model = ht.library.pendulum().derive()
    >>> isinstance(computed_torque(model, stiffness=1.0, damping=2.0).with_reference(np.zeros(1)), Tracking)
    True
    """

    def __init__(
        self,
        law: BaseController,
        reference: Reference | Array,
        knows_parameters: bool = False,
        sample_time: float | None = None,
    ) -> None:
        from heavytop.control.references.reference import Reference

        check_sample_time(sample_time)
        own = law.law.model
        if not isinstance(reference, Reference):
            reference = Reference.set_point(own, reference)
        for what in ("nq", "nv"):
            if getattr(reference.model, what) != getattr(own, what):
                raise ControlError(
                    f"the reference is made for {reference.model.name!r} with {what} = {getattr(reference.model, what)}, "
                    f"the law for {own.name!r} with {what} = {getattr(own, what)}. Make both for one model."
                )
        super().__init__(law if sample_time is None else law.sampled(sample_time))
        self.reference, self.knows_parameters, self.sample_time = reference, knows_parameters, sample_time
        self.followed: Reference = law.referred(reference)
        self.own_signal_size = 0 if self.followed.traced is not None else own.nq + 2 * own.nv

    @property
    def needs_reference(self) -> bool:
        """It has one."""
        return False

    def own_signal(self, times: np.ndarray) -> np.ndarray:
        """q_R, v_R, a_R side by side (n, nq + 2 nv)."""
        return self.followed.signal(np.asarray(times, dtype=float) + self._ahead)

    @property
    def _ahead(self) -> float:
        """Time of the reference less that of the run (s)."""
        return self.controller.lead_time - self.followed.start_time

    def seen(self, at: Seen) -> dict[str, Array]:
        """The reference, and the parameters of the law's own model, as the reference has them, unless it knows those of the plant."""
        own = self.law.model
        if self.followed.traced is None:
            desired = split(at.signal, (own.nq, own.nv, own.nv))
        else:
            ahead = self._ahead
            desired = self.followed.traced.expressions(at.t + ahead if ahead else at.t)
        changed: dict[str, Array] = dict(zip(REFERENCE, desired, strict=True))
        if not self.knows_parameters:
            changed["p"] = own.parameter_vector(self.followed.parameters_of(own))
        elif at.model.parameter_names != own.parameter_names:
            raise ControlError(
                f"a law that knows the parameters needs the same ones: it has {own.parameter_names}, the plant "
                f"{at.model.parameter_names}."
            )
        return changed
