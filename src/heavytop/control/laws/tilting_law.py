"""Tracking law with tilting rotors: their sectors as limits, their tilts as states if the tilt rate is bounded."""

from __future__ import annotations

from functools import cached_property

from heavytop._arrays import Array, concatenate, from_sx, symbol, to_sx
from heavytop.compile import Traced, trace_of
from heavytop.control.laws.law import Law
from heavytop.control.limits.box_qp import scalars
from heavytop.control.limits.thrust_sector import TiltLimits, nearest_in_sectors


class TiltingLaw(Law):
    """A law with :class:`.TiltLimits`, made by :func:`.energy_law` and the other laws for such limits.

    With a bounded tilt rate its states are the integrals followed by the tilts (rad) of the last sample; sampled with the period of the
    limits, the next state is the commanded tilt.

    Examples
    --------
    >>> import numpy as np
    >>> from heavytop.control import energy_law
    >>> from heavytop.copters import tricopter
    >>> craft = tricopter(thrust=(0.0, 7.0))
    >>> law = energy_law(craft.model, craft.prototype, craft.limits)
    >>> far = craft.model.neutral()
    >>> far[2] = -50.0
    >>> u = law(far, np.zeros(6), craft.model.neutral())
    >>> np.hypot(u[0::2], u[1::2]).round(9)
    array([7., 7., 7.])
    """

    limits: TiltLimits

    @property
    def state_size(self) -> int:
        """Number of integrals and stored tilts."""
        return super().state_size + len(self.limits.rate_limited)

    def symbols(self) -> dict[str, Array]:
        """Inputs of the law: q, v, q_R, v_R, a_R, p and, with integral action or stored tilts, z."""
        symbols = self.terms.symbols()
        return symbols | {"z": concatenate(self._z, self._angles)} if self.state_size else symbols

    @cached_property
    def _angles(self) -> Array:
        return symbol("tilt", len(self.limits.rate_limited))

    @cached_property
    def traced_law(self) -> Traced:
        """The law as traced function of its :meth:`symbols`; outputs u, then z_rate if it has states."""
        import casadi

        projection, limits = self.projection, self.limits
        N = projection.directions
        angles = scalars(to_sx(self._angles))
        u, tilts = nearest_in_sectors(projection.weight(N, limits), projection.unlimited(N), limits, angles)
        outputs = {"u": u}
        rates = list(self._z_rate)
        if tilts:
            turned = from_sx(casadi.vertcat(*tilts), (len(tilts),))
            rates.append((turned - self._angles) / limits.period)
        if rates:
            outputs["z_rate"] = concatenate(*rates)
        return trace_of(f"{self.kind}_law", self.symbols(), outputs)
