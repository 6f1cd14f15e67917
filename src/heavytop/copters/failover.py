"""Failed rotors in flight: noticed by their speeds and by the motion, isolated, and left out of the law.

Four failures differ in their signs. A rotor that is *dead* does not turn although it is commanded to. A *stuck* one turns, but its speed does not
change with the commands. A *lost blade* leaves the speed as commanded, and the thrust of one rotor is missing in angular and linear
acceleration (:class:`.ThrustLoss`). A *weak* rotor keeps a part of its thrust: the observers compensate it, and no law is switched.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, reduce
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytop._arrays import Array, concatenate, part, vector
from heavytop.control import GONE, Hull, Seen, Wrapper, box_qp, hover_levels, limited, sent_before
from heavytop.copters.propulsion import typical_propulsion
from heavytop.copters.rotor_failure import DeadRotorLaw, remaining
from heavytop.errors import ControlError
from heavytop.simulate import LOST

if TYPE_CHECKING:
    from heavytop.copters.vehicle import Vehicle

STILL, ALIVE, COMMANDED = 0.3, 0.45, 0.5
"""Shares of the hovering speed: a rotor below the first while commanded above the third is suspicious, one above the second is alive."""
DWELL = 0.025
"""Time (s) of suspicion, beyond delay and lag, after which a rotor is given up."""
SECOND, FORGIVEN = 4.0, 0.25
"""After a first failure the motion is violent: factor of this time, and suspicion that a second without a sign takes back, s per s."""
SLOWEST = 2.0
"""Largest factor of this time in tumbling, which looks like lost thrust in wind: it grows with the angular speed over that of a real loss."""
WINDOW = 0.15
"""Time (s) over which changes of the speeds are compared with those of the commands."""
MOVED, FOLLOWS, APART, TOP = 0.1, 0.015, 0.1, 0.8
"""A rotor is stuck if the speed that its commands imply varies by more than the first share of the hovering speed (RMS), its own by less than the
second share of that square, and both differ by more than the third share of the hovering speed, below the last share of the largest speed."""
STEADY, WIDE = 0.02, 0.5
"""It is also stuck if its speed varies by less than the first share of the hovering speed and differs by more than the second from the implied one,
now and on average: commands at a limit do not vary."""
LATCHED = 1e3
"""Suspicion that never ends."""
RISE, PUSH = 0.6, 6.0
"""Integral action of the position while rotors are given up, 1/s^3, and its largest acceleration, m/s^2."""
TILT, HEADING = 200.0, 0.02
"""Weights of angular accelerations about the tilt axes and the thrust axis, m^2, relative to that of linear acceleration."""
UPSET = 0.5
"""Vertical component of the thrust axis below which a vehicle whose failed rotors cannot be replaced is lost."""
SINK = 1.0
"""Speed (m/s) at which a lost vehicle sinks."""
PHASE = 1.0
"""Largest turn (rad) between samples of a lost vehicle that still pushes."""
GIVEN_UP = "rotors have failed without which the vehicle cannot hold its position; it only slows its fall"


class Failover(Wrapper):
    """A law that detects failed rotors and continues without them. A rotor that was given up is never used again.

    It replaces the law: ``robust_controller(vehicle, law=Failover(OnPart(law, vehicle.model), vehicle))``, or
    ``robust_controller(vehicle, failures=True)``. It requires measured rotor speeds. A quadcopter switches to :func:`.dead_rotor_law`, also for two
    opposite rotors; a vehicle with more rotors shares the wrench of its law among the others, heading last. The channel ``dead`` is 1 for a
    rotor that is given up. Where the remaining rotors cannot hold the position, the outcome of the run is ``lost``; the vehicle
    then brakes its fall with full thrust whenever the thrust axis points up.

    Parameters
    ----------
    controller : the law of the intact vehicle, inside :class:`.OnPart`. vehicle : with four or more fixed rotors.
    dead : rotors known to be dead from the start.

    Examples
    --------
    >>> from heavytop.control import OnPart
    >>> from heavytop.copters import agile_law, load
    >>> craft = load("hummingbird")
    >>> Failover(OnPart(agile_law(craft), craft.model), craft).state_size
    36
    """

    requires = ("thrust_loss",)

    def __init__(self, controller: Any, vehicle: Vehicle, dead: tuple[int, ...] = ()) -> None:
        super().__init__(controller)
        self.vehicle, self.hull, self.known = vehicle, Hull.of(vehicle.model), dead
        self.actuators = (vehicle.propulsion or typical_propulsion(vehicle)).actuators
        nu = vehicle.model.nu
        if nu < 4 or nu != len(vehicle.airframe.rotors):
            raise ControlError(f"{vehicle.name!r} has no four or more fixed rotors: a failed one cannot be left out.")
        if dead and not (able := remaining(vehicle, *dead)).holds_position:
            raise ControlError(f"{vehicle.name!r} without the rotors {list(dead)}: {able}")
        self.laws: dict[tuple[int, ...], DeadRotorLaw] = {}
        self.pairs = list(combinations(range(nu), 2))
        """Rotors that may fail at the same instant."""
        failing = [*((k,) for k in range(nu)), *self.pairs]
        self.hopeless = [some for some in failing if not remaining(vehicle, *some).holds_position]
        """Rotors without which the vehicle does not hold its position."""
        if nu == 4:  # without a single one it may fall until it spins fast enough
            self.hopeless = [some for some in self.hopeless if len(some) == 2]
        if nu == 4:
            spinning = [some for some in failing if len(some) == 1 or some not in self.hopeless]
            self.laws = {some: DeadRotorLaw(vehicle, some) for some in spinning}
        self.own_state_size = 8 * nu + 4

    def first(self) -> np.ndarray:
        nu, hover = self.vehicle.model.nu, hover_levels(self.hull, self.actuators)
        latched = np.zeros(nu)
        latched[list(self.known)] = LATCHED
        return np.concatenate([hover, hover, hover, hover, np.zeros(2 * nu), latched, np.zeros(nu), np.zeros(4)])

    def _stored(self, at: Seen) -> list[Array]:
        """Commanded and implied speeds, means of implied and own ones, their squared changes, suspicions, stuck ones (nu,) each, and the integral."""
        nu = self.vehicle.model.nu
        return [part(at.z, k * nu, (k + 1) * nu) for k in range(8)] + [part(at.z, 8 * nu, 8 * nu + 3)]

    @property
    def causes(self) -> tuple[str, ...]:
        """Those of the law, and that of a vehicle that is given up."""
        return (*super().causes, GIVEN_UP)

    @cached_property
    def _upset_rate(self) -> float:
        """Least angular acceleration about the tilt axes by the loss of one rotor in hovering, rad/s^2."""
        hull = self.hull
        turn = np.linalg.solve(hull.moment, hull.wrenches[3:])[:2]
        hover = self.actuators.output(hover_levels(hull, self.actuators))
        return float(np.min(np.linalg.norm(turn, axis=0) * hover))

    def _axis(self, at: Seen) -> Array:
        """Vertical component of the thrust axis."""
        return self.hull.motion(at.q, at.v).R[2, 2]

    def _watched(self, at: Seen) -> tuple[Array, Array, Array, Array, Array]:
        """Suspicions and stuck rotors (nu,), implied speeds (nu,), the statistics of the speeds (4 nu,), and whether the vehicle is lost, now."""
        if "watched" in at.shared:
            return at.shared["watched"]
        nu, speed, h = self.vehicle.model.nu, at.signals["rotor_speeds"], at.period
        hover = hover_levels(self.hull, self.actuators)
        lag = at.signals.number("lag", float(np.mean(self.actuators.time_constant)))
        delay = at.signals.number("delay", 0.0)
        commanded, implied, mean, own, changed, moved, before, was_stuck, _ = self._stored(at)
        target = sent_before(at, nu, delay) if "commands" in at.signals else commanded
        implied = target + (implied - target) * np.exp(-h / lag)
        share = 1 - float(np.exp(-h / WINDOW))
        mean, own = mean + share * (implied - mean), own + share * (speed - own)
        changed = changed + share * ((implied - mean) * (implied - mean) - changed)
        moved = moved + share * ((speed - own) * (speed - own) - moved)
        patience = DWELL + delay + 0.5 * lag
        top = TOP * float(self.actuators.level(np.asarray(self.actuators.highest)))
        loss = at.signals.get("thrust_loss", np.zeros(nu))
        turn = self.hull.motion(at.q, at.v).omega
        sure = 1 / np.minimum(np.maximum(1.0, np.sqrt(np.vecdot(turn, turn)) / (self._upset_rate * patience)), SLOWEST)
        given = [np.where(before[k] > 0.5 * LATCHED, 1.0, 0.0) for k in range(nu)]
        taken = sum(given, start=0.0)
        counted, stuck, fatal = [], [], 0.0
        for k in range(nu):
            turning = np.minimum(commanded[k], implied[k])
            still = np.where(speed[k] < STILL * hover[k], 1.0, 0.0) * np.where(turning > COMMANDED * hover[k], 1.0, 0.0)
            frozen = (
                np.where(changed[k] > (MOVED * hover[k]) ** 2, 1.0, 0.0)
                * np.where(moved[k] < FOLLOWS * changed[k], 1.0, 0.0)
                * np.where(np.abs(speed[k] - implied[k]) > APART * hover[k], 1.0, 0.0)
                * np.where(speed[k] < top, 1.0, 0.0)
            )
            stalled = (
                np.where(moved[k] < (STEADY * hover[k]) ** 2, 1.0, 0.0)
                * np.where(np.abs(speed[k] - implied[k]) > WIDE * hover[k], 1.0, 0.0)
                * np.where(np.abs(own[k] - mean[k]) > WIDE * hover[k], 1.0, 0.0)
                * np.where(speed[k] < top, 1.0, 0.0)
            )
            frozen = np.maximum(frozen, stalled)
            gone = np.where(loss[k] > GONE, 1.0, 0.0)
            sign = np.minimum(still + frozen + gone, 1.0)
            # a stopped rotor that turns again, and one that makes thrust, are cleared
            alive = np.where(speed[k] > ALIVE * hover[k], 1.0, 0.0) * (1 - np.minimum(frozen + gone, 1.0))
            count = (1 - alive) * np.maximum(
                before[k] + h * np.where(sign > 0.5, np.where(gone * (1 - taken) > 0.5, sure, 1.0), -FORGIVEN), 0.0
            )
            # rotors whose signs began together are given up together
            allowed = self._allowed(given, k)
            enough = np.where(taken > 0.5, SECOND, 1.0) * patience
            certain = np.where(count > enough, 1.0, 0.0)
            new = certain * allowed
            fatal = np.maximum(fatal, certain * (1 - allowed) * (1 - given[k]))
            kept = np.where(
                before[k] > 0.5 * LATCHED, LATCHED, np.where(new > 0.5, LATCHED, np.minimum(count, enough + h))
            )
            counted.append(kept)
            stuck.append(np.where(new > 0.5, frozen * (1 - gone) * (1 - still), was_stuck[k]))
            given[k] = np.maximum(given[k], new)
        for some in self.hopeless:
            fatal = np.maximum(fatal, reduce(np.minimum, [given[k] for k in some]))
        upset = np.where(self._axis(at) < UPSET, 1.0, 0.0)
        lost = np.maximum(at.z[8 * nu + 3], fatal * upset)
        found = vector(*counted), vector(*stuck), implied, concatenate(mean, own, changed, moved), lost
        at.shared["watched"] = found
        return found

    def _allowed(self, given: Sequence[Array], k: int) -> Array | float:
        """1 if rotor k may be given up besides those that are: the remaining ones can still hold the position."""
        taken = sum(given, start=0.0)
        if self.laws:
            first = np.where(taken < 0.5, 1.0, 0.0)
            partner = [j for some in self.laws if len(some) == 2 and k in some for j in some if j != k]
            second = sum((given[j] for j in partner), start=0.0)
            return np.minimum(first + second * np.where(taken < 1.5, 1.0, 0.0), 1.0)
        return np.where(taken < 0.5 * (self.vehicle.model.nu - 3), 1.0, 0.0)

    def dead(self, at: Seen) -> Array:
        """1 for every rotor that is given up (nu,)."""
        suspicions = self._watched(at)[0]
        return vector(*(np.where(suspicions[k] > 0.5 * LATCHED, 1.0, 0.0) for k in range(self.vehicle.model.nu)))

    def _kept_thrusts(self, at: Seen) -> Array:
        """Thrusts (nu,) of stuck rotors, 0 for all others."""
        return self._watched(at)[1] * self.actuators.output(at.signals["rotor_speeds"])

    def acted(self, at: Seen, u: Array) -> Array:
        kept = self._spinning(at, u) if self.laws else self._shared_among_others(at, u)
        return np.where(self._watched(at)[4] > 0.5, self._falling(at), kept)

    def _falling(self, at: Seen) -> Array:
        """Full thrust while it points up and the vehicle falls, least thrust otherwise: for any motion of the attitude this brakes most.

        A vehicle that turns so fast that samples do not see its phase waits.
        """
        low, high = self._range
        motion = self.hull.motion(at.q, at.v)
        turn = at.period * at.period * np.vecdot(motion.omega, motion.omega)
        brakes = np.where(motion.velocity[2] < -SINK, 1.0, 0.0) * np.where(motion.R[2, 2] > 0, 1.0, 0.0)
        return np.where(brakes * np.where(turn < PHASE**2, 1.0, 0.0) > 0.5, high, low)

    def _spinning(self, at: Seen, u: Array) -> Array:
        """The laws of a quadcopter without one rotor or two."""
        dead, kept = self.dead(at), self._kept_thrusts(at)
        push = RISE * self._stored(at)[-1]
        for failed, law in self.laws.items():
            given = dead[failed[0]] if len(failed) == 1 else dead[failed[0]] * dead[failed[1]]
            stuck = kept[failed[0]] if len(failed) == 1 else 0.0
            u = np.where(given > 0.5, law.thrusts(at.q, at.v, *at.reference, stuck, push), u)
        return u

    @cached_property
    def _range(self) -> tuple[np.ndarray, np.ndarray]:
        """Least and largest thrusts (nu,)."""
        low, high = np.array([rotor.thrust for rotor in self.vehicle.airframe.rotors], dtype=float).T
        return low, np.minimum(high, self.actuators.highest)

    def _shared_among_others(self, at: Seen, u: Array) -> Array:
        """The wrench of the law by the sound rotors."""
        dead, kept, hull, nu = self.dead(at), self._kept_thrusts(at), self.hull, self.vehicle.model.nu
        low, high = self._range
        E = np.concatenate([hull.wrenches[2:3] / hull.mass, np.linalg.solve(hull.moment, hull.wrenches[3:])])
        H = E.T @ np.diag([1.0, TILT, TILT, HEADING]) @ E
        H = H + 1e-6 * np.trace(H) / nu * np.eye(nu)
        lower = vector(*(np.where(dead[k] > 0.5, kept[k], low[k]) for k in range(nu)))
        upper = vector(*(np.where(dead[k] > 0.5, kept[k], high[k]) for k in range(nu)))
        failed = sum((dead[k] for k in range(nu)), start=0.0)
        return np.where(failed > 0.5, box_qp(H, u, lower, upper), u)

    def following(self, at: Seen, u: Array) -> Array:
        suspicions, stuck, implied, statistics, lost = self._watched(at)
        dead = self.dead(at)
        failed = np.minimum(sum((dead[k] for k in range(self.vehicle.model.nu)), start=0.0), 1.0)
        q_R, v_R, _ = at.reference
        off = limited(self.hull.motion(q_R, v_R).r - self.hull.motion(at.q, at.v).r, 1.0)
        rise = limited(self._stored(at)[-1] + failed * at.period * off, PUSH / RISE)
        command = self.actuators.target(self.acted(at, u))
        return concatenate(command, implied, statistics, suspicions, stuck, rise, vector(lost))

    def channels(self, at: Seen, u: Array) -> dict[str, Array]:
        return {"dead": self.dead(at), LOST: len(self.causes) * self._watched(at)[4]}
