"""Rotor failure: remaining capabilities, and the laws without a rotor.

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
from typing import TYPE_CHECKING

import numpy as np

from heavytop._arrays import Array, transpose, vector
from heavytop.compile import Traced
from heavytop.control import UP, FeedbackLaw, Hull, limited, trace_inputs, within
from heavytop.copters.hover_feasibility import LEAST, STRONGEST, reach
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


NEGLIGIBLE = 0.02
"""Thrust of an idling rotor per weight that does not matter."""


def remaining(vehicle: Vehicle, *dead: int) -> Remaining:
    """Capabilities of a vehicle with fixed rotors, some of which are dead.

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
    low = np.where(low < NEGLIGIBLE * weight, 0.0, low)
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


def _opposite(W: np.ndarray, dead: int) -> int:
    """The rotor of a quadcopter opposite to a dead one: its moment about the tilt axes is."""
    return min((k for k in range(4) if k != dead), key=lambda k: float(W[3:5, k] @ W[3:5, dead]))


def _pair(W: np.ndarray, dead: int) -> tuple[int, int, float, np.ndarray]:
    """The two rotors besides a dead one and its opposite, the share of the first with the smallest moment, and this moment (2,) per newton."""
    a, b = (k for k in range(4) if k not in (dead, _opposite(W, dead)))
    across = W[3:5, b] - W[3:5, a]
    share = float(np.clip(across @ W[3:5, b] / (across @ across), 0.2, 0.8))
    return a, b, share, share * W[3:5, a] + (1 - share) * W[3:5, b]


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


SPINS = np.array(
    [-60, -50, -40, -32, -26, -21, -17, -14, -11, -8, -5, -2.5, 0, 2.5, 5, 8, 11, 14, 17, 21, 26, 32, 40, 50, 60.0]
)
"""Angular velocities about z (rad/s) of the table."""
IDLE, FASTER = 0.2, 0.3
"""Thrust of the rotor opposite to the dead one at a fast spin, and more of it at one of 50 rad/s, per weight."""
HEAVY, EVEN = 0.7, 0.5
"""Sums of the thrusts of a stuck rotor and the opposite one per weight: largest in the relative equilibrium, and that which does not accelerate the
spin: above 10 rad/s it changes from the first to the second."""
DIRECTION, RATE, EFFORT = 60.0, 0.02, 6e-4
"""Weights of the direction, of p and q, and of the angular acceleration by the inputs. With two dead rotors one input at
the frequency of the spin balances a steady moment only together with a nutation of several rad/s: a large weight of p and q would oppose it, and
wind tilt the vehicle."""
STIFFNESS, DAMPING = 2.5, 5.2
"""Position loop, 1/s^2 and 1/s."""
REACH, FAST, LEAN = 1.5, 2.0, 0.85
"""Limits of the errors of position (m) and velocity (m/s), and of the tangent of the tilt."""
SPARE, LEAST_SPARE = 0.8, 0.1
"""Share of the tangent of the tilt at which the remaining thrust carries just the weight, and the least square of that tangent."""


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
        W = self.hull.wrenches
        self.opposite = _opposite(W, dead[0])
        if len(dead) == 2 and dead[1] != self.opposite:
            raise ControlError(f"two dead rotors must be opposite: {dead[0]} and {self.opposite}, got {dead}.")
        a, b, self._share, rest = _pair(W, dead[0])
        self.pair = (a, b)
        # opposite thrust and difference of the pair that cancel the moments of one newton of the pair, and of the failed rotor
        self._pair_trim = -np.linalg.solve(self._columns, rest)
        self._stuck_trim = -np.linalg.solve(self._columns, W[3:5, dead[0]])
        if len(dead) == 2:
            self._pair_trim[0] = 0.0
        lift = remaining(vehicle, *dead).lift
        self._lean = min(LEAN, SPARE * float(np.sqrt(max(lift**2 - 1, LEAST_SPARE))))

    @property
    def _weight(self) -> float:
        return self.hull.mass * float(np.linalg.norm(self.hull.gravity))

    @property
    def _columns(self) -> np.ndarray:
        """(2, 2) moments about x and y of the opposite rotor, and of one newton more on one of the pair and less on the other."""
        W = self.hull.wrenches[3:5]
        a, b = self.pair
        return np.stack([W[:, self.opposite], 0.5 * (W[:, b] - W[:, a])], axis=1)

    def _idle(self, r: Array, stuck: Array | float = 0.0) -> Array:
        """Thrust of the opposite rotor in the relative equilibrium beyond that of the failed one, which is stuck at this thrust."""
        if len(self.dead) == 2:
            return 0.0 * r
        weight = self._weight
        # with the thrust of hovering no moment is left; with more the opposite rotor makes less, so that the weight is not exceeded;
        # a fast spin balances more of it, up to that which does not accelerate the spin
        share = IDLE + FASTER * within((np.abs(r) - 25.0) / 25.0, 0.0, 2.0)
        most = HEAVY + (EVEN - HEAVY) * within((np.abs(r) - 10.0) / 15.0, 0.0, 1.0)
        most = most + FASTER * within((np.abs(r) - 50.0) / 25.0, 0.0, 1.0)  # brakes the spin
        idle = np.minimum(share * np.maximum(weight - 4 * stuck, 0.0), most * weight - 2 * stuck)
        return np.maximum(idle, -stuck) * within((np.abs(r) - 3.0) / 10.0, 0.0, 1.0)

    def _trimmed(self, stuck: Array | float, both: Array | float) -> Array:
        """Thrust of the opposite rotor that cancels the moments of the failed rotor and of the pair; negative if none does."""
        return self._stuck_trim[0] * stuck + self._pair_trim[0] * both

    def _equilibrium(self, r: Array, stuck: Array | float = 0.0) -> tuple[Array, Array]:
        """p and q of the relative equilibrium: tau_x = (Theta_z - Theta_y) q r, tau_y = (Theta_x - Theta_z) p r."""
        x, y, z = np.diag(self.hull.moment)
        missing = np.maximum(-self._trimmed(stuck, self._weight - 2 * stuck), 0.0)
        tau = self._columns[:, 0]
        turning = within((np.abs(r) - 3.0) / 10.0, 0.0, 1.0)
        per = (self._idle(r, stuck) + missing * turning) * r / np.maximum(r * r, 1.0)
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

    def thrusts(
        self,
        q: Array,
        v: Array,
        q_R: Array,
        v_R: Array,
        a_R: Array,
        stuck: Array | float = 0.0,
        push: Array | None = None,
    ) -> Array:
        """Thrusts (4,) in N.

        ``stuck`` : thrust of the first failed rotor, N, if it still turns. ``push`` : further acceleration (3,) in world axes, m/s^2.
        """
        hull, two = self.hull, len(self.dead) == 2
        weight, g = self._weight, float(np.linalg.norm(hull.gravity))
        m = hull.motion(q, v)
        wanted, acceleration, _ = hull.reference(q_R, v_R, a_R)
        force = STIFFNESS * limited(wanted.r - m.r, REACH) + DAMPING * limited(wanted.velocity - m.velocity, FAST)
        force = force + acceleration - hull.gravity + (np.zeros(3) if push is None else push)
        up = within(force[2], 0.4 * g, 1.8 * g)
        across = limited(vector(force[0], force[1], 0.0), self._lean * up)
        n = vector(across[0], across[1], up)
        h = np.matvec(transpose(m.R), n / np.sqrt(np.vecdot(n, n)))
        p, q_rate, r = m.omega[0], m.omega[1], m.omega[2]
        p0, q0 = self._equilibrium(r, stuck)
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
        share, pair_trim, stuck_trim = self._share, self._pair_trim, self._stuck_trim
        if two:
            opposite, both = 0.0 * r, np.maximum(total, 0.16 * weight)
        else:
            steered = self._idle(r, stuck) + requested[0]
            both = (total - stuck - steered - stuck_trim[0] * stuck) / (1 + pair_trim[0])
            both = np.maximum(both, 0.16 * weight)
            opposite = within(self._trimmed(stuck, both) + steered, 0.0, 1.2 * weight)
            both = np.maximum(total - stuck - opposite, 0.16 * weight)
        difference = within(stuck_trim[1] * stuck + pair_trim[1] * both + requested[-1], -2.2 * weight, 2.2 * weight)
        both = np.maximum(both, np.abs(difference) / (2 * min(share, 1 - share)))
        values: dict[int, Array] = dict.fromkeys(self.dead, 0.0 * r)
        if not two:
            values[self.opposite] = opposite
        values[self.pair[0]] = share * both - 0.5 * difference
        values[self.pair[1]] = (1 - share) * both + 0.5 * difference
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
