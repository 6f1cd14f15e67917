"""What a model tells about a motion besides its equations: where frames are and how they move, mass, momentum, energy, power."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from heavytop._arrays import Array, Floats, numbers
from heavytop.errors import ModelError, wrong_shape
from heavytop.system.description.description import at_defaults
from heavytop.system.evaluation import Evaluation, Parameters


class Momentum(NamedTuple):
    """Linear momentum (..., 3) in kg m/s and angular momentum (..., 3) in kg m^2/s, in world axes."""

    linear: Floats
    angular: Floats


class Power(NamedTuple):
    """Power (...) in W: brought in by the inputs, dissipated by what resists, supplied by all other forces, done by drivers.

    The energy of the system changes at the rate ``input + supplied - dissipated + driver``.
    """

    input: Floats
    dissipated: Floats
    supplied: Floats
    driver: Floats | float = 0.0


class Answers(Evaluation):
    """Kinematics, energies, momenta and power."""

    # --- frames -----------------------------------------------------------------------------------------------------------

    def pose(self, a: str, b: str, q: Array, parameters: Parameters = None) -> Floats:
        """G_ab (..., 4, 4): pose of frame b in frame a."""
        return self.evaluate(f"pose:{a}:{b}", self._configuration(q), parameters=parameters)

    def jacobian(self, a: str, b: str, q: Array, parameters: Parameters = None) -> Floats:
        """J_ab (..., 6, nv): body twist (linear, angular) of b relative to a is J_ab v."""
        return self.evaluate(f"jacobian:{a}:{b}", self._configuration(q), parameters=parameters)

    def jacobian_rate(self, a: str, b: str, q: Array, v: Array, parameters: Parameters = None) -> Floats:
        """d/dt(J_ab) (..., 6, nv) along the motion (eq. 3.124c, erratum 0.44)."""
        q, v = self._configuration(q), self._vector(v, self.nv, "velocity v")
        return self.evaluate(f"jacobian_rate:{a}:{b}", q, v, parameters=parameters)

    def twist(self, a: str, b: str, q: Array, v: Array, parameters: Parameters = None) -> Floats:
        """xi_ab (..., 6): linear and angular velocity of frame b relative to frame a, in axes of b (eq. 3.104)."""
        q, v = self._configuration(q), self._vector(v, self.nv, "velocity v")
        return self.evaluate(f"twist:{a}:{b}", q, v, parameters=parameters)

    def twist_rate(
        self, a: str, b: str, q: Array, v: Array, acceleration: Array, parameters: Parameters = None
    ) -> Floats:
        """d/dt(xi_ab) = J_ab a + d/dt(J_ab) v (..., 6) for the velocity rates ``acceleration`` (nv,)."""
        q, v, rates = self._configuration(q), self._vector(v, self.nv, "velocity v"), self._rates(acceleration)
        return self.evaluate(f"twist_rate:{a}:{b}", q, v, rates, parameters=parameters)

    def _rates(self, a: Array) -> Array:
        return self._vector(a, self.nv, "acceleration a")

    # --- mass and momentum --------------------------------------------------------------------------------------------------

    @property
    def mass(self) -> float:
        """Total mass in kg, with all parameters at their defaults."""
        total = sum((inertia.mass for inertia in self.description.inertias.values()), np.zeros(()))
        return float(at_defaults(total, self.description.parameters))

    def center_of_mass(self, q: Array, parameters: Parameters = None) -> Floats:
        """Centre of mass (..., 3) of all bodies in the world, m."""
        return self._finite("center_of_mass", self._configuration(q), parameters=parameters)

    def momentum(self, q: Array, v: Array, about: Any = None, parameters: Parameters = None) -> Momentum:
        """Linear and angular momentum of all bodies in world axes.

        Parameters
        ----------
        about : point of the angular momentum: None for the origin of the world, "center_of_mass", or a point (..., 3) in the world.

        Examples
        --------
        >>> import heavytop as ht
        >>> system = ht.System()
        >>> system.body("ball", joint=ht.Free(), inertia=ht.Inertia(2.0, moment_at_com=(1, 1, 1)))
        >>> model = system.derive()
        >>> model.momentum(model.neutral(), [3.0, 0, 0, 0, 0, 0.5]).linear
        array([6., 0., 0.])
        """
        q, v = self._configuration(q), self._vector(v, self.nv, "velocity v")
        linear, angular = self._finite("momentum", q, v, parameters=parameters)
        if about is None:
            return Momentum(linear, angular)
        if isinstance(about, str):
            if about != "center_of_mass":
                raise ModelError(f"momentum: about must be None, 'center_of_mass' or a point (..., 3), got {about!r}.")
            point = self.center_of_mass(q, parameters)
        else:
            point = numbers(about, "about")
            if point.ndim == 0 or point.shape[-1] != 3:
                raise wrong_shape("about of momentum", ("...", 3), point.shape)
        return Momentum(linear, angular - np.cross(point, linear))

    # --- energy and power ---------------------------------------------------------------------------------------------------

    def kinetic_energy(self, q: Array, v: Array, parameters: Parameters = None) -> Floats:
        """T (...,) in J."""
        q, v = self._configuration(q), self._vector(v, self.nv, "velocity v")
        return self._finite("kinetic_energy", q, v, parameters=parameters)

    def potential_energy(self, q: Array, parameters: Parameters = None) -> Floats:
        """V (...,) in J: gravity, springs and the user's potentials."""
        return self._finite("potential_energy", self._configuration(q), parameters=parameters)

    def energy(self, q: Array, v: Array, parameters: Parameters = None) -> Floats:
        """T + V (...,) in J."""
        q, v = self._configuration(q), self._vector(v, self.nv, "velocity v")
        return self._finite("energy", q, v, parameters=parameters)

    def acceleration_energy(self, q: Array, v: Array, a: Array, parameters: Parameters = None) -> Floats:
        """S (...) in J/s^2: half the sum of mass times squared acceleration (eq. 3.113); its gradient by ``a`` is M a + c."""
        q, v, a = self._configuration(q), self._vector(v, self.nv, "velocity v"), self._rates(a)
        return self._finite("acceleration_energy", q, v, a, parameters=parameters)

    def power(self, q: Array, v: Array, u: Array | None = None, parameters: Parameters = None) -> Power:
        """Power of the inputs, of what resists, and of all other forces that are no gradient of an energy."""
        q, v, u = self._configuration(q), self._vector(v, self.nv, "velocity v"), self._inputs(u)
        return Power(*self._finite("power", q, v, u, parameters=parameters))

    @property
    def driver_names(self) -> tuple[str, ...]:
        """Who moves the system as the time tells: frames that move, constraints that move, ``"potentials"`` that change."""
        return self.expressions.drivers.names if self.expressions.is_driven else ()

    def driver_power(
        self, q: Array, v: Array, u: Array | None = None, parameters: Parameters = None
    ) -> dict[str, Floats]:
        """Power (...) in W that each driver brings in, from the reactions on it.

        Examples
        --------
        A turntable that is sped up; the driver pays for the kinetic energy of the ball in its slot:

        >>> import heavytop as ht
        >>> system = ht.System()
        >>> system.body("table", joint=ht.Prescribed(ht.Revolute("z"), lambda t: 0.5 * t * t))
        >>> system.body("ball", parent="table", joint=ht.Prismatic("x"), inertia=ht.Inertia(2.0))
        >>> model = system.derive(native=False)
        >>> model.driver_power([0.5], [0.0], parameters={"time": 3.0})
        {'table': array(1.5)}
        """
        return self._of_drivers("driver_power", self.driver_names, q, v, u, parameters)

    def driver_wrenches(
        self, q: Array, v: Array, u: Array | None = None, parameters: Parameters = None
    ) -> dict[str, Floats]:
        """Wrench (..., 6) (force, moment) of each driver on the frame that it moves, in the axes and at the origin of that frame."""
        names = tuple(self.expressions.drivers.frames) if self.expressions.is_driven else ()
        return self._of_drivers("driver_wrenches", names, q, v, u, parameters)

    def _of_drivers(
        self, function: str, names: tuple[str, ...], q: Array, v: Array, u: Array | None, parameters: Parameters
    ) -> dict[str, Floats]:
        q, v, u = self._configuration(q), self._vector(v, self.nv, "velocity v"), self._inputs(u)
        if not names:
            return {}
        values = self._finite(function, q, v, u, parameters=parameters)
        return dict(zip(names, values if isinstance(values, tuple) else (values,), strict=True))
