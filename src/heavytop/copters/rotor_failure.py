"""Rotor failure: remaining capabilities, detection of a stopped rotor by its speed, and the laws without it.

A quadcopter with one dead rotor, or two opposite ones, gives up yaw and spins, and its thrust axis is steered. With the spin r
about the body's z axis and the wanted direction n of the force, seen from the body as h = R^T n, the tilt motion

    Theta_x p' = tau_x - (Theta_z - Theta_y) q r,   Theta_y q' = tau_y - (Theta_x - Theta_z) p r,   h' = -omega x h

is linear about a relative equilibrium: a constant thrust of the rotor opposite to the dead one is balanced by a constant (p, q), the
vehicle turns about an axis n0 fixed in it, and n0 is kept on n. The gains are those of a linear-quadratic regulator, computed for a table of
spins and interpolated in between. Mueller and D'Andrea (2014) introduced such relative equilibria.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytop._arrays import Array, concatenate, transpose, vector
from heavytop.compile import Traced
from heavytop.control import UP, FeedbackLaw, Hull, Seen, Wrapper, hover_levels, limited, trace_inputs, within
from heavytop.copters.hover_feasibility import LEAST, STRONGEST, reach
from heavytop.copters.propulsion import typical_propulsion
from heavytop.errors import ControlError, ModelError
from heavytop.ocp import Limits

if TYPE_CHECKING:
    from heavytop.copters.vehicle import Vehicle


@dataclass(frozen=True)
class Remaining:
    """Capabilities of a vehicle with dead rotors.

    Attributes
    ----------
    dead : indices of the dead rotors.
    hovers : whether the others can carry the weight without any moment. lift : largest thrust without roll and pitch moment, per weight.
    controls : directions of moments both ways while hovering: roll, pitch, yaw.
    spins : whether the vehicle can hold its position by giving up yaw and spinning.

    Examples
    --------
    >>> from heavytop.copters import hexacopter
    >>> remaining(hexacopter(), 0).hovers
    True
    """

    dead: tuple[int, ...]
    hovers: bool
    lift: float
    controls: tuple[str, ...]
    spins: bool

    @property
    def holds_position(self) -> bool:
        """Whether it can hold its position."""
        return self.spins or (self.hovers and {"roll", "pitch"} <= set(self.controls))

    def __str__(self) -> str:
        if not self.dead:
            return "all rotors turn: it flies fully."
        if self.hovers and {"roll", "pitch", "yaw"} <= set(self.controls):
            return "it flies fully."
        if self.hovers and {"roll", "pitch"} <= set(self.controls):
            return "it holds its position and steers roll and pitch; its heading can be turned one way only, or not at all."
        if self.spins:
            return "it holds its position and spins; its heading is given up."
        if self.lift > 1:
            return f"it cannot hold an attitude; {self.lift:.2g} times its weight can be lifted, which slows a fall."
        return f"it falls: at most {self.lift:.2g} of its weight can be lifted without tumbling."


def remaining(vehicle: Vehicle, *dead: int) -> Remaining:
    """Capabilities of a vehicle with fixed rotors of which some are dead.

    >>> from heavytop.copters import quadcopter
    >>> print(remaining(quadcopter(), 1))
    it holds its position and spins; its heading is given up.
    >>> print(remaining(quadcopter(), 0, 1))
    it falls: at most 0 of its weight can be lifted without tumbling.
    """
    W = Hull.of(vehicle.model).wrenches
    limits = np.array([rotor.thrust for rotor in vehicle.airframe.rotors], dtype=float)
    weight = vehicle.weight
    if not weight:
        raise ModelError(f"{vehicle.name!r} has no weight, so hovering is undefined: give its model gravity.")
    least = LEAST * weight * vehicle.airframe.reach
    low, high = np.maximum(limits[:, 0], 0.0), np.minimum(limits[:, 1], STRONGEST * weight)
    low[list(dead)] = high[list(dead)] = 0.0
    lift = reach(W, low, high, {"roll": 0.0, "pitch": 0.0}, "thrust") or 0.0
    level = {"thrust": weight, "roll": 0.0, "pitch": 0.0, "yaw": 0.0}
    hovers = reach(W, low, high, {k: v for k, v in level.items() if k != "yaw"}, "yaw") is not None
    exact = reach(W, low, high, level, "thrust")

    def controlled(name: str, yaw: bool) -> bool:
        """Whether moments can be made both ways, with the other ones zero; also that about z, unless the heading is given up."""
        others = {k: v for k, v in level.items() if k != name and (k != "yaw" or yaw)}
        both = [reach(W, low, high, others, name, sign) for sign in (1.0, -1.0)]
        return all(b is not None and b > least for b in both)

    controls = [name for name in ("roll", "pitch", "yaw") if controlled(name, exact is not None)]
    if not {"roll", "pitch"} <= set(controls):
        controls += [name for name in ("roll", "pitch") if name not in controls and controlled(name, yaw=False)]
    spins = len(vehicle.airframe.rotors) == 4 and _spins(W, dead) and lift / weight > 1.05
    return Remaining(dead, bool(hovers), float(lift / weight), tuple(controls), spins)


def _spins(W: np.ndarray, dead: tuple[int, ...]) -> bool:
    """One dead rotor of four, or two opposite ones."""
    if len(dead) == 1:
        return True
    return len(dead) == 2 and bool(
        W[3:5, dead[0]] @ W[3:5, dead[1]] < -0.9 * np.prod(np.linalg.norm(W[3:5, list(dead)], axis=0))
    )


def without_rotors(vehicle: Vehicle, *dead: int) -> FeedbackLaw:
    """The law of a vehicle with more rotors than it needs, the dead ones held at zero and heading last."""
    limits = vehicle.limits
    nu = vehicle.model.nu
    lower, upper = limits.bounds(vehicle.model) if limits else (np.zeros(nu), np.full(nu, np.inf))
    lower[list(dead)] = 0.0
    upper[list(dead)] = 1e-9
    priority = limits.torque_priority if limits else 100.0
    return vehicle.law(limits=Limits(lower, upper, priority))


SPINS = np.array([-40, -32, -26, -21, -17, -14, -11, -8, -5, -2.5, 0, 2.5, 5, 8, 11, 14, 17, 21, 26, 32, 40.0])
"""Angular velocities about z (rad/s) of the table."""
IDLE = 0.2
"""Thrust of the rotor opposite to the dead one at a fast spin, per weight."""
DIRECTION, RATE, EFFORT = 60.0, 1.0, 1.8e-3
"""Weights of the direction, of p and q, and of the angular acceleration by the inputs."""
STIFFNESS, DAMPING = 2.5, 5.2
"""Position loop, 1/s^2 and 1/s."""
REACH, FAST, LEAN = 1.5, 2.0, 0.85
"""Limits of the errors of position (m) and velocity (m/s), and of the tangent of the tilt."""


class DeadRotorLaw(FeedbackLaw):
    """Position of a quadcopter without one rotor, or without two opposite ones. Made by :func:`dead_rotor_law`.

    Attributes
    ----------
    dead : indices of the dead rotors.
    """

    kind = "dead rotor"

    def __init__(self, vehicle: Vehicle, dead: tuple[int, ...]) -> None:
        self.vehicle, self.dead, self.model = vehicle, dead, vehicle.model
        self.hull = Hull.of(vehicle.model)
        first = dead[0]
        places = np.array([rotor.at[:2] for rotor in vehicle.airframe.rotors])
        others = [k for k in range(4) if k != first]
        self.opposite = min(others, key=lambda k: float(places[k] @ places[first]))
        if len(dead) == 2 and dead[1] != self.opposite:
            raise ControlError(f"two dead rotors must be opposite: {first} and {self.opposite}, got {dead}.")
        self.pair = tuple(k for k in others if k != self.opposite)

    @property
    def _weight(self) -> float:
        return self.hull.mass * float(np.linalg.norm(self.hull.gravity))

    @property
    def _columns(self) -> np.ndarray:
        """(2, 2) moments about x and y of the opposite rotor, and of one newton more on one of the pair and less on the other."""
        W = self.hull.wrenches[3:5]
        a, b = self.pair
        return np.stack([W[:, self.opposite], 0.5 * (W[:, b] - W[:, a])], axis=1)

    def _idle(self, r: Array) -> Array:
        """Thrust of the opposite rotor in the relative equilibrium."""
        if len(self.dead) == 2:
            return 0.0 * r
        return IDLE * self._weight * within((np.abs(r) - 3.0) / 10.0, 0.0, 1.0)

    def _equilibrium(self, r: Array) -> tuple[Array, Array]:
        """p and q of the relative equilibrium: tau_x = (Theta_z - Theta_y) q r, tau_y = (Theta_x - Theta_z) p r."""
        x, y, z = np.diag(self.hull.moment)
        tau = self._columns[:, 0]
        per = self._idle(r) * r / np.maximum(r * r, 1.0)
        return tau[1] * per / (x - z), tau[0] * per / (z - y)

    @cached_property
    def gains(self) -> np.ndarray:
        """(spins, inputs, 4) gains on (p, q, h_x, h_y)."""
        from scipy.linalg import solve_continuous_are

        x, y, z = np.diag(self.hull.moment)
        columns = self._columns if len(self.dead) == 1 else self._columns[:, 1:]
        B = np.concatenate([columns / np.array([[x], [y]]), np.zeros((2, columns.shape[1]))])
        weight = np.diag(EFFORT * np.sum(B**2, axis=0))
        table = []
        for spin in SPINS:
            r = spin if spin else 0.5
            p, q = (float(s) for s in self._equilibrium(np.asarray(r)))
            h3 = 1 / np.sqrt(1 + (p * p + q * q) / r**2)
            h1, h2 = p / r * h3, q / r * h3
            # h3 = sqrt(1 - h1^2 - h2^2): its change is -(h1 dh1 + h2 dh2) / h3
            A = np.array(
                [
                    [0, -(z - y) / x * r, 0, 0],
                    [-(x - z) / y * r, 0, 0, 0],
                    [0, -h3, q * h1 / h3, r + q * h2 / h3],
                    [h3, 0, -r - p * h1 / h3, -p * h2 / h3],
                ]
            )
            P = solve_continuous_are(A - 1e-3 * np.eye(4), B, np.diag([RATE, RATE, DIRECTION, DIRECTION]), weight)
            table.append(np.linalg.solve(weight, B.T @ P))
        return np.array(table)

    def _gain(self, r: Array) -> list[list[Array]]:
        """The gains at a spin: linear between those of the table."""
        slopes = np.diff(self.gains, axis=0) / np.diff(SPINS)[:, None, None]
        bends = np.diff(slopes, axis=0, prepend=np.zeros((1, *slopes.shape[1:])))
        inside = within(r, SPINS[0], SPINS[-1])
        past = [np.maximum(inside - spin, 0.0) for spin in SPINS[:-1]]
        rows, columns = self.gains.shape[1:]
        return [
            [
                sum((bends[k, i, j] * past[k] for k in range(len(past))), start=self.gains[0, i, j])
                for j in range(columns)
            ]
            for i in range(rows)
        ]

    def thrusts(self, q: Array, v: Array, q_R: Array, v_R: Array, a_R: Array) -> Array:
        """Thrusts (4,) in N."""
        hull, two = self.hull, len(self.dead) == 2
        weight, g = self._weight, float(np.linalg.norm(hull.gravity))
        m = hull.motion(q, v)
        wanted, acceleration, _ = hull.reference(q_R, v_R, a_R)
        force = STIFFNESS * limited(wanted.r - m.r, REACH) + DAMPING * limited(wanted.velocity - m.velocity, FAST)
        force = force + acceleration - hull.gravity
        up = within(force[2], 0.4 * g, 1.8 * g)
        across = limited(vector(force[0], force[1], 0.0), LEAN * up)
        n = vector(across[0], across[1], up)
        h = np.matvec(transpose(m.R), n / np.sqrt(np.vecdot(n, n)))
        p, q_rate, r = m.omega[0], m.omega[1], m.omega[2]
        p0, q0 = self._equilibrium(r)
        # the axis to point along n; at a slow spin that of the body
        size = np.sqrt(p0 * p0 + q0 * q0 + r * r + 1e-9)
        sense = np.where(r >= 0, 1.0, -1.0)
        h1, h2 = sense * p0 / size, sense * q0 / size
        flat = np.sqrt(h[0] * h[0] + h[1] * h[1] + 1e-12)
        reach = np.where(h[2] < 0.2, 1 / flat, 1.0)  # pointing away: the largest error
        state = [p - p0, q_rate - q0, reach * h[0] - h1, reach * h[1] - h2]
        requested = [-sum((k * x for k, x in zip(row, state, strict=True)), start=0.0) for row in self._gain(r)]
        axis = np.matvec(m.R, UP)[2]
        lift = within(hull.mass * up / np.maximum(axis, 0.7), 0.3 * weight, 3.0 * weight)
        total = np.where(axis < 0.2, 0.25 * weight, lift)
        opposite = 0.0 if two else within(self._idle(r) + requested[0], 0.0, 1.2 * weight)
        difference = within(requested[-1], -2.2 * weight, 2.2 * weight)
        both = np.maximum(np.maximum(total - opposite, 0.16 * weight), np.abs(difference))
        values: dict[int, Array] = dict.fromkeys(self.dead, 0.0 * r)
        if not two:
            values[self.opposite] = opposite
        values[self.pair[0]], values[self.pair[1]] = 0.5 * (both - difference), 0.5 * (both + difference)
        low, high = self._range
        return within(vector(*(values[k] + 0.0 * r for k in range(4))), low, high)

    @cached_property
    def _range(self) -> tuple[np.ndarray, np.ndarray]:
        limits = np.array([rotor.thrust for rotor in self.vehicle.airframe.rotors], dtype=float)
        limits[list(self.dead)] = 0.0
        return np.maximum(limits[:, 0], 0.0), limits[:, 1]

    @cached_property
    def traced_law(self) -> Traced:
        """The law as traced function of q, v, q_R, v_R, a_R, p."""
        return trace_inputs("dead_rotor_law", self.model, self.thrusts)


def dead_rotor_law(vehicle: Vehicle, *dead: int) -> FeedbackLaw:
    """The law of a vehicle with dead rotors.

    A quadcopter gives up yaw. A vehicle with redundant rotors shares the thrusts among the others.

    Raises
    ------
    ControlError
        The other rotors cannot hold its position; the message states its capabilities, see :func:`.remaining`.

    Examples
    --------
    >>> from heavytop.copters import quadcopter
    >>> dead_rotor_law(quadcopter(), 0)
    DeadRotorLaw('dead rotor' of 'quadcopter': 4 inputs, 0 states)
    """

    able = remaining(vehicle, *dead)
    if not able.holds_position:
        raise ControlError(f"{vehicle.name!r} without the rotors {list(dead)}: {able}")
    return DeadRotorLaw(vehicle, dead) if len(vehicle.airframe.rotors) == 4 else without_rotors(vehicle, *dead)


STILL, ALIVE, COMMANDED = 0.15, 0.35, 0.4
"""Shares of the hovering speed: a rotor below the first while commanded above the third is suspicious, one above the second is alive."""
DWELL = 0.025
"""Time (s) of suspicion, beyond delay and lag, after which a rotor is dead."""
LATCHED = 1e3
"""Suspicion that never ends."""


class Failover(Wrapper):
    """A law that switches to the one for a dead rotor when the speed of a rotor stays low. It never switches back.

    It replaces the law: ``robust_controller(vehicle, law=Failover(OnPart(law, vehicle.model), vehicle))``. It requires measured rotor
    speeds. The channel ``dead`` is 1 for a rotor that is given up.

    Parameters
    ----------
    controller : the law of the sound vehicle, inside :class:`.OnPart`. vehicle : with four fixed rotors.

    Examples
    --------
    >>> from heavytop.control import OnPart
    >>> from heavytop.copters import agile_law, load
    >>> craft = load("hummingbird")
    >>> Failover(OnPart(agile_law(craft), craft.model), craft).state_size
    8
    """

    def __init__(self, controller: Any, vehicle: Vehicle) -> None:
        super().__init__(controller)
        self.vehicle, self.hull = vehicle, Hull.of(vehicle.model)
        self.actuators = (vehicle.propulsion or typical_propulsion(vehicle)).actuators
        self.laws = [dead_rotor_law(vehicle, k) for k in range(vehicle.model.nu)]
        self.own_state_size = 2 * vehicle.model.nu

    def first(self) -> np.ndarray:
        return np.concatenate([hover_levels(self.hull, self.actuators), np.zeros(self.vehicle.model.nu)])

    def _suspicion(self, at: Seen) -> list[Array]:
        """Seconds of suspicion of every rotor."""
        if "suspicion" in at.shared:
            return at.shared["suspicion"]
        nu, speed = self.vehicle.model.nu, at.signals["rotor_speeds"]
        hover, lag = hover_levels(self.hull, self.actuators), float(np.mean(self.actuators.time_constant))
        patience = DWELL + at.signals.number("delay", 0.0) + 0.5 * at.signals.number("lag", lag)
        before = [at.z[nu + k] for k in range(nu)]
        taken = sum((np.where(b > 0.5 * LATCHED, 1.0, 0.0) for b in before), start=0.0)
        counted = []
        for k in range(nu):
            suspicious = np.where(speed[k] < STILL * hover[k], 1.0, 0.0) * np.where(
                at.z[k] > COMMANDED * hover[k], 1.0, 0.0
            )
            count = np.where(speed[k] > ALIVE * hover[k], 0.0, before[k] + at.period * suspicious)
            # the laws are for one dead rotor: the first one stays the only one
            new = np.where(count > patience, 1.0, 0.0) * np.where(taken > 0.5, 0.0, 1.0)
            counted.append(
                np.where(
                    before[k] > 0.5 * LATCHED,
                    LATCHED,
                    np.where(new > 0.5, LATCHED, count * (1 - np.minimum(taken, 1.0))),
                )
            )
            taken = taken + new
        at.shared["suspicion"] = counted
        return counted

    def dead(self, at: Seen) -> Array:
        """1 for the rotor that is given up (nu,)."""
        return vector(*(np.where(count > 0.5 * LATCHED, 1.0, 0.0) for count in self._suspicion(at)))

    def acted(self, at: Seen, u: Array) -> Array:
        dead = self.dead(at)
        p = self.vehicle.model.parameter_vector()
        for k, law in enumerate(self.laws):
            u = np.where(dead[k] > 0.5, law.traced_law.expressions(at.q, at.v, *at.reference, p)[0], u)
        return u

    def following(self, at: Seen, u: Array) -> Array:
        return concatenate(self.actuators.target(self.acted(at, u)), vector(*self._suspicion(at)))

    def channels(self, at: Seen, u: Array) -> dict[str, Array]:
        return {"dead": self.dead(at)}
