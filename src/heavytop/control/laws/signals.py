"""Signals: named vectors that sensors and observers report to the controllers inside them, besides the state.

A wrapper declares the signals it reports (``Wrapper.provides``, name -> size) and returns their values from ``Wrapper.seen``; a controller inside
reads them from ``at.signals``. heavytop's own wrappers use these:

================== ===== ====================================================================== ====================
name               size  meaning                                                                reported by
================== ===== ====================================================================== ====================
``accelerometer``  3     specific force in body axes, mean over the last sample, m/s^2          ``Sensed``
``rotor_speeds``   nu    measured rotor speeds, rad/s                                           ``Sensed``
``commands``       k nu  commanded levels 1, 2, ..., k samples ago                              ``CommandMemory``
``delay``, ``lag`` 1     identified delay of the measurements and lag of the actuators, s       ``Identified``
``levels``         nu    levels of the actuators at the time of the measurement                 ``RotorState``
``thrusts``        nu    mean thrusts over the sample before the measurement, N                 ``RotorState``
``thrust_scale``   1     true divided by assumed acceleration by the thrust                     ``ThrustScale``
``force``          3     unexplained acceleration in world axes, m/s^2                          ``ForceObserver``
``moment``         3     unexplained angular acceleration in body axes, rad/s^2                 ``MomentObserver``
================== ===== ====================================================================== ====================
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from heavytop._arrays import Array
from heavytop.errors import ControlError


def signal_sizes(plant: Any) -> dict[str, int]:
    """Sizes of the signals of a plant by name; a model has none."""
    return dict(getattr(plant, "signals", ()))


@dataclass(frozen=True)
class Signals:
    """The signals a wrapper can read.

    Parameters
    ----------
    sizes : name -> size. symbol : the symbol (size,) of a name; reading a signal makes it an argument. reader : named in errors.

    Examples
    --------
    >>> import numpy as np
    >>> signals = Signals({"force": 3}, lambda name: np.ones(3), "Probe")
    >>> "force" in signals, signals["force"], signals.get("lag", 0.02)
    (True, array([1., 1., 1.]), 0.02)
    """

    sizes: Mapping[str, int]
    symbol: Callable[[str], Array]
    reader: str

    def __contains__(self, name: str) -> bool:
        return name in self.sizes

    def __getitem__(self, name: str) -> Array:
        if name not in self.sizes:
            raise ControlError(
                f"{self.reader} needs {name.replace('_', ' ')}, which nothing here provides: put it inside the sensor or observer that does."
            )
        return self.symbol(name)

    def get(self, name: str, default: Any) -> Array:
        """The signal (size,), or the default if nothing provides it."""
        return self.symbol(name) if name in self.sizes else default

    def number(self, name: str, default: Any) -> Array:
        """The entry of a signal of size one, or the default if nothing provides it."""
        return self.symbol(name)[0] if name in self.sizes else default
