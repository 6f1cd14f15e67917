"""Controllers at the sampling of a simulation: one sample period for a controller and everything inside it."""

from __future__ import annotations

from copy import copy
from math import isclose
from typing import Any, Self
from weakref import WeakValueDictionary

from heavytop._travel import Portable
from heavytop.errors import ControlError

TOLERANCE = 0.01
"""Relative difference up to which a simulation may shorten the period, so that its steps divide its duration."""


class Resampling(Portable):
    """What controllers share: :meth:`sampled`, which a simulation calls with the period at which it samples them.

    Attributes
    ----------
    sample_time : period (s) the controller was made for; None: it takes that of the simulation, or runs continuously.
    """

    sample_time: float | None = None
    state_size: int
    _origin: Any = None
    """The controller this one was made from; kept, so that it finds this one again."""

    @property
    def _has_rates(self) -> bool:
        """Whether the controller itself, without what is inside it, has states whose step depends on the period."""
        return False

    def sampled(self, period: float | None) -> Self:
        """The same controller sampled every ``period`` seconds; None: continuously.

        The result is kept as long as someone uses it: the same period gives the same object, whose native code is known.

        Raises
        ------
        ControlError
            The controller has a sample time and it is another one, by more than a hundredth.
        """
        self._check_period(period)
        inside: Any = getattr(self, "controller", None)
        inner = inside.sampled(period) if hasattr(inside, "sampled") else inside
        # a period differs in its last digits with the duration of the run
        key = None if period is None else float(f"{period:.12g}")
        if inner is inside and (key == self.sample_time or not self._has_rates):
            return self
        known = vars(self).setdefault("_resampled", WeakValueDictionary())
        made = known.get(key)
        if made is None:
            made = copy(self)
            vars(made).pop("_resampled")
            made.sample_time, made._origin = key, self
            if inner is not inside:
                vars(made)["controller"] = inner
            known[key] = made
        return made

    def _check_period(self, period: float | None) -> None:
        own = self.sample_time
        if own is None or (period is not None and isclose(own, period, rel_tol=TOLERANCE)):
            return
        if period is None:
            raise ControlError(
                f"{type(self).__name__} has the sample time {own:g} s, but this simulation evaluates it continuously. Leave "
                f"sample_time away, or sample it: simulate(..., hold='zero-order', control_step={own:g})."
            )
        raise ControlError(
            f"{type(self).__name__} has the sample time {own:g} s, but this simulation samples it every {period:g} s. Leave "
            f"sample_time away (it takes that of the simulation), or give simulate(..., control_step={own:g})."
        )


def check_sample_time(sample_time: float | None) -> None:
    """Raise a ControlError unless the sample time is positive or None."""
    if sample_time is not None and not sample_time > 0:
        raise ControlError(f"the sample time must be positive, got {sample_time}.")
