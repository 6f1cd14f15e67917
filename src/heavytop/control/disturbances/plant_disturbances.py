"""Disturbances of the plant that a controller does not know: rotor drag and wind, added to the described system."""

from __future__ import annotations

from typing import Any

import numpy as np

from heavytop._arrays import Array, part, vector
from heavytop.control.disturbances.wind import Wind
from heavytop.control.laws.wrapper import PartialPlant, Seen, Wrapper
from heavytop.errors import ControlError, unknown_name
from heavytop.system import Damping, System, Wrench
from heavytop.system.joints import Free

WIND_AXES = ("wind_x", "wind_y", "wind_z")


def add_rotor_drag(system: System, body: str, coefficient: float) -> None:
    """Drag of the rotors of a free body: a force -coefficient (v_x, v_y, 0) in its axes, at its origin, in N s/m times m/s.

    In the rotor plane the drag of propellers is linear in the velocity; along the axis there is (nearly) none.

    >>> import heavytop as ht
    >>> system = ht.System()
    >>> system.body("hull", joint=ht.Free(), inertia=ht.Inertia(1.0, moment_at_com=(0.01, 0.01, 0.02)))
    >>> add_rotor_drag(system, "hull", 0.2)
    >>> model = system.derive(native=False)
    >>> model.acceleration(model.neutral(), [1.0, 0, 0, 0, 0, 0])[:3]
    array([-0.2 , -0.  , -9.81])
    """
    description = system.describe()
    labels = [edge.label for edge in description.joints]
    if body not in labels:
        raise unknown_name("body (in rotor drag)", body, labels)
    joint = description.joints[labels.index(body)].joint
    if not isinstance(joint, Free):
        raise ControlError(f"rotor drag acts on a free body; {body!r} has a {type(joint).__name__} joint.")
    before = description.joints[: labels.index(body)]
    i, j = (sum(getattr(e.joint.coordinates, n) for e in before) for n in ("nq", "nv"))

    def dissipation(q: Array, v: Array) -> Array:
        J = joint.jacobian(part(q, i, i + joint.coordinates.nq))
        twist = np.matvec(J, part(v, j, j + 6))
        return 0.5 * coefficient * (twist[0] * twist[0] + twist[1] * twist[1])

    system.dissipation(dissipation)


def add_wind(system: System, body: str, drag: float, at: Any = (0.0, 0.0, 0.0)) -> None:
    """Wind on a body: drag (N s/m) times the wind velocity at a point, as three inputs, and drag against its own motion.

    The inputs wind_x, wind_y, wind_z take the wind velocity in world axes (m/s). Wrap a controller for the
    system without wind in :class:`Windy`.

    >>> import heavytop as ht
    >>> system = ht.System()
    >>> system.body("hull", joint=ht.Free(), inertia=ht.Inertia(1.0, moment_at_com=(0.01, 0.01, 0.02)))
    >>> add_wind(system, "hull", drag=0.1)
    >>> system.derive(native=False).u_names
    ('wind_x', 'wind_y', 'wind_z')
    """
    system.damper("world", body, Damping(drag, at))
    system.frame(f"{body}_air", body, at)
    for name, axis in zip(WIND_AXES, np.eye(3), strict=True):
        system.input(name, Wrench(f"{body}_air", force=drag * axis, frame="world"))


class Windy(Wrapper):
    """A controller for a plant with the wind inputs of :func:`add_wind`; the inner controller does not know the wind.

    Parameters
    ----------
    controller : for the plant without wind.
    wind : any of :mod:`heavytop.control.disturbances.wind`.

    Examples
    --------
    >>> import heavytop as ht
    >>> model = ht.library.quadcopter().derive()
    >>> law = ht.control.lqr(model, model.neutral())
    >>> Windy(law, ht.control.VonKarman((4.0, 0.0, 0.0))).own_signal_size
    3
    """

    own_signal_size = 3

    def __init__(self, controller: Any, wind: Wind) -> None:
        super().__init__(controller)
        self.wind = wind

    def own_signal(self, times: np.ndarray) -> np.ndarray:
        return self.wind.at(times)

    def plant(self, model: Any) -> PartialPlant:
        names = [name for name in model.u_names if name not in WIND_AXES]
        if len(names) + 3 != model.nu:
            raise ControlError(
                f"{model.name!r} has no wind inputs: call add_wind(system, body, drag) before deriving it. Use one Windy: "
                "Winds((...)) adds several winds."
            )
        return PartialPlant.with_inputs(model, names)

    def acted(self, at: Seen, u: Array) -> Array:
        names = [name for name in at.model.u_names if name not in WIND_AXES]
        given = {name: u[i] for i, name in enumerate(names)}
        given |= {name: at.signal[i] for i, name in enumerate(WIND_AXES)}
        return vector(*(given[name] for name in at.model.u_names))
