"""Base of controllers: sizes, memory, signal, and one sample period for a controller and everything inside it.

The members are those of :class:`heavytop.simulate.Controller`. A law still lacks its reference: its function also takes q_R, v_R, a_R,
which :class:`.Tracking` gives it, inside or outside of whatever wraps it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from math import isclose
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from heavytop._arrays import Numbers
from heavytop.compile import Traced
from heavytop.errors import ControlError
from heavytop.functions import MECHANISM, Value, recipe

if TYPE_CHECKING:
    from heavytop._arrays import Array
    from heavytop.control.laws.wrapper import Tracking
    from heavytop.control.references.reference import Reference

TOLERANCE = 0.01
"""Relative difference up to which a simulation may shorten the period, so that its steps divide its duration."""
REFERENCE = ("q_R", "v_R", "a_R")
"""Arguments of a function besides those of a controller as long as it has no reference."""


class BaseController(Value, ABC):
    """A law, a law with a reference, or something around either.

    A subclass gives :meth:`composed` and, where it has them, its sizes, its memory and its signal.

    Attributes
    ----------
    controller : the one inside this one; None: there is none.
    sample_time : period (s) the controller was made for; None: it takes that of the simulation, or runs continuously.
    """

    controller: Any = None
    sample_time: float | None = None

    # --- for simulations ---------------------------------------------------------------------------------------------------

    @property
    def signal_size(self) -> int:
        """Length of a sample of the signal."""
        return 0

    @property
    def signal_names(self) -> tuple[tuple[str, str], ...]:
        """Name and unit of each entry of the signal that is a setting when it is constant (a gain, a set point, wind); else empty texts."""
        return (("", ""),) * self.signal_size

    @property
    def state_size(self) -> int:
        """Length of the memory z."""
        return 0

    def signal(self, times: Numbers) -> np.ndarray:
        """Samples (n, *batch, signal_size) of the signal at the times (n,)."""
        return np.zeros((*np.shape(times), 0))

    def initial_state(self) -> np.ndarray:
        """The memory at the start (*batch, state_size)."""
        return np.zeros(self.state_size)

    def traced(self, model: Any) -> Traced:
        """The controller as traced function for a plant.

        Raises
        ------
        ControlError
            It has no reference yet.
        """
        if self.needs_reference:
            raise ControlError(
                f"{self!r} needs a reference: give simulate(..., control=law, reference=...), or control=law.with_reference(reference). "
                "A configuration q serves as set point."
            )
        return self.composed(model)

    # --- for wrappers ------------------------------------------------------------------------------------------------------

    @property
    def needs_reference(self) -> bool:
        """Whether the function takes q_R, v_R and a_R, because no reference has been given yet."""
        return False

    @property
    def law(self) -> Any:
        """The law at the heart of it, whatever there is around it."""
        if self.controller is None:
            return self
        return getattr(self.controller, "law", self.controller)

    @property
    def causes(self) -> tuple[str, ...]:
        """Why there may be no input: texts of the output ``status`` from 1 on. Empty: the function has no such output."""
        return () if self.controller is None else tuple(getattr(self.controller, "causes", ()))

    @property
    def tunable_gains(self) -> Mapping[str, Any]:
        """Name -> value of numbers that a run may change (``simulate(..., gains=...)``); those of the controller inside."""
        return {} if self.controller is None else dict(getattr(self.controller, "tunable_gains", None) or {})

    @property
    def host(self) -> Any:
        """What answers in Python at every sample (:class:`heavytop.simulate.controller.Host`); None: the whole is native code."""
        return None if self.controller is None else getattr(self.controller, "host", None)

    @abstractmethod
    def composed(self, model: Any) -> Traced:
        """The function for a plant; until there is a reference its inputs include q_R, v_R and a_R."""

    # --- of some controllers -------------------------------------------------------------------------------------------------

    def poles(self, *given: Any, **named: Any) -> Any:
        """A law and a regulator have poles; anything else raises a ControlError."""
        raise self._without("poles")

    def margins(self, *given: Any, **named: Any) -> Any:
        """A law and a regulator have margins; anything else raises a ControlError."""
        raise self._without("margins")

    def loop(self, *given: Any, **named: Any) -> Any:
        """A law and a regulator have a linearised loop; anything else raises a ControlError."""
        raise self._without("loop")

    def _without(self, what: str) -> ControlError:
        if self.host is not None:
            return ControlError(
                f"{self!r} has no {what}: its inputs follow from an optimisation. Near its goal and without active limits predictive control "
                f"is the regulator: control.lqr(model, reference).{what}()."
            )
        law = self.law
        has = getattr(type(law), what, None) not in (None, getattr(BaseController, what))
        how = f"take the law inside: controller.law.{what}()" if has else "simulate it"
        return ControlError(
            f"{type(self).__name__} has no {what}: {how}, or linearise the whole loop: control.linearize(plant, controller, q)."
        )

    # --- a reference --------------------------------------------------------------------------------------------------------

    @property
    def lead_time(self) -> float:
        """How far ahead of the time the controller looks at its reference, s."""
        return 0.0

    def referred(self, reference: Reference) -> Reference:
        """The reference that is followed instead of a given one; default: itself."""
        return reference

    def with_reference(
        self, reference: Reference | Array, knows_parameters: bool = False, sample_time: float | None = None
    ) -> Tracking:
        """The controller with a reference, ready to be simulated.

        Parameters
        ----------
        reference : a :class:`.Reference`, or a configuration (nq,) to hold.
        knows_parameters : whether the law is given the plant's parameters; otherwise it uses the defaults of the law's model.
        sample_time : period (s) at which the simulation must sample the law; None: at any, or continuously.
        """
        from heavytop.control.laws.wrapper import Tracking

        if not self.needs_reference:
            raise ControlError(f"{self!r} takes no reference, or has one already. Give another to the law itself.")
        return Tracking(self, reference, knows_parameters, sample_time)

    # --- sampling -----------------------------------------------------------------------------------------------------------

    @property
    def depends_on_period(self) -> bool:
        """Whether the controller itself, without what is inside it, changes with the period at which it is sampled."""
        return False

    def sampled(self, period: float | None) -> Self:
        """The same controller sampled every ``period`` seconds; None: continuously.

        Raises
        ------
        ControlError
            The controller has a sample time and it is another one, by more than a hundredth.
        """
        self._check_period(period)
        inside = self.controller
        inner = inside.sampled(period) if hasattr(inside, "sampled") else inside
        # a period differs in its last digits with the duration of the run
        key = None if period is None else float(f"{period:.12g}")
        if inner is inside and (key == self.sample_time or not self.depends_on_period):
            return self
        return _resampled(self, inner, key)  # pyright: ignore[reportReturnType]

    def _check_period(self, period: float | None) -> None:
        own = self.sample_time
        if own is None or (period is not None and isclose(own, period, rel_tol=TOLERANCE)):
            return
        does = "evaluates it continuously" if period is None else f"samples it every {period:g} s"
        raise ControlError(
            f"{type(self).__name__} has the sample time {own:g} s, but this simulation {does}. Omit sample_time (it takes that of the "
            f"simulation), or give simulate(..., hold='zero-order', control_step={own:g})."
        )


@recipe
def _resampled(controller: BaseController, inner: Any, period: float | None) -> BaseController:
    """The controller with another one inside and another period; it shares whatever was derived from it already."""
    made = object.__new__(type(controller))
    vars(made).update({name: part for name, part in vars(controller).items() if name not in MECHANISM})
    made.controller, made.sample_time = inner, period
    vars(made)["_sealed"] = True
    return made


def check_sample_time(sample_time: float | None) -> None:
    """Raise a ControlError unless the sample time is positive or None."""
    if sample_time is not None and not sample_time > 0:
        raise ControlError(f"the sample time must be positive, got {sample_time}.")
