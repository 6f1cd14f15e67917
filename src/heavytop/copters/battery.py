"""The battery of a vehicle: its voltage sags with the current and falls with the charge, the speed of the rotors with the voltage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np

from heavytop.copters.propulsion import typical_propulsion
from heavytop.errors import ModelError

if TYPE_CHECKING:
    from heavytop.copters.vehicle import Vehicle

CHARGES = (0.0, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
VOLTS = (3.0, 3.5, 3.61, 3.69, 3.77, 3.87, 4.02, 4.2)
"""Open-circuit voltage of a lithium-polymer cell by its charge: typical values."""


@dataclass(frozen=True)
class Battery:
    """A pack of lithium-polymer cells in series.

    Parameters
    ----------
    cells : number of cells in series. capacity : capacity in Ah. resistance : resistance of the pack with its cables, ohm.
    voltage : V at which the rotors reach the largest speed of the airframe; None: that of the full pack without load.
    efficiency : mechanical power of the rotors per electrical power. charge : at the start, 0 to 1.

    Examples
    --------
    >>> pack = Battery(cells=4, capacity=1.8, resistance=0.02)
    >>> round(pack.open_circuit(1.0), 2), round(pack.loaded(1.0, 200.0)[0], 2)
    (16.8, 16.45)
    """

    cells: int
    capacity: float
    resistance: float
    voltage: float | None = None
    efficiency: float = 0.7
    charge: float = 1.0

    def __post_init__(self) -> None:
        for name in ("cells", "capacity", "resistance", "efficiency", "charge"):
            value = getattr(self, name)
            if not (np.isfinite(value) and value > 0) or (name in ("efficiency", "charge") and value > 1):
                most = " and at most 1" if name in ("efficiency", "charge") else ""
                raise ModelError(f"{name} of a battery must be positive{most}, got {value!r}.")

    @property
    def nominal(self) -> float:
        """Voltage (V) at which the rotors reach their largest speed."""
        return self.cells * VOLTS[-1] if self.voltage is None else self.voltage

    def open_circuit(self, charge: float) -> float:
        """Voltage (V) without load; 0 when the pack is empty."""
        return self.cells * float(np.interp(charge, CHARGES, VOLTS)) if charge > 0.0 else 0.0

    def loaded(self, charge: float, power: float) -> tuple[float, float]:
        """Voltage (V) and current (A) at a mechanical power (W) of the rotors: U = E - R I, U I = power / efficiency.

        Beyond the largest power of the pack the voltage is half of that without load.
        """
        E, R = self.open_circuit(charge), self.resistance
        if E == 0.0:
            return 0.0, 0.0
        U = 0.5 * (E + sqrt(max(E * E - 4.0 * R * power / self.efficiency, 0.0)))
        return U, (E - U) / R


class BatteryState:
    """A battery in flight: the share of the largest rotor speeds that it supplies, and its state.

    Attributes
    ----------
    voltage, current, charge : present values in V, A, 0 to 1.
    """

    def __init__(self, battery: Battery, vehicle: Vehicle, period: float) -> None:
        self.battery, self._period = battery, period
        propulsion = vehicle.propulsion or typical_propulsion(vehicle)
        self._torque, self._most = propulsion.torque_coefficient, max(propulsion.speed)
        self.charge = battery.charge
        self.voltage, self.current = battery.open_circuit(self.charge), 0.0

    def supply(self, commands: Sequence[float]) -> float:
        """Rotor speed per commanded speed at the present voltage; the pack is discharged by one sample at these commands (0 to 1)."""
        share = self.voltage / self.battery.nominal
        power = self._torque * sum((command * share * self._most) ** 3 for command in commands)
        self.voltage, self.current = self.battery.loaded(self.charge, power)
        self.charge = max(self.charge - self.current * self._period / (3600.0 * self.battery.capacity), 0.0)
        return self.voltage / self.battery.nominal
