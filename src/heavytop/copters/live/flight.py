"""A flight in real time that obeys commands: the cockpit without its window.

Commands may come from any thread; they are queued and take effect at the next call of :meth:`LiveFlight.advance`. The data of viewers
are in :attr:`LiveFlight.snapshot`, which is replaced as a whole and never changed. New vehicles, laws and maneuvers are prepared in a
separate thread while the present flight continues.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any, cast

import numpy as np

from heavytop.control import Wind
from heavytop.coordinates import Pose
from heavytop.copters import catalogue, maneuvers
from heavytop.copters.live.gains import Recipe, recipe_of
from heavytop.copters.live.loop import STEP, NativeLoop
from heavytop.copters.maneuvers import Maneuver
from heavytop.copters.maneuvers.base import vector3
from heavytop.copters.vehicle import LAWS, Vehicle
from heavytop.errors import HeavytopError, ShapeError, SimulationError, unknown_name
from heavytop.geometry import se3, so3

HOVER = "hover"
PUSH_SECONDS = 0.1
LONGEST = 0.25
"""Most seconds (times the speed) that one call of :meth:`LiveFlight.advance` simulates after a hold-up."""
LOST = 200.0
"""Distance from the reference (m) beyond which the vehicle is reset."""
SPEEDS = (0.1, 0.25, 0.5, 1.0, 2.0)


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The state of a live flight at one moment.

    Attributes
    ----------
    time : simulated s. vehicle, law, maneuver : present ones ("hover" holds the set point).
    poses, reference : body -> (4, 4), true and desired.
    u : (nu,) inputs. thrusts : (rotors,) N. tracking_error : m. attitude_error : rad.
    set_point : (3,) and yaw in rad. wind : (3,) m/s.
    real_time : simulated seconds per second, over the last ones. capacity : the same without waiting.
    paused, speed : state and speed of the clock. note : message for the pilot. preparing : what is being compiled, or "".
    lost : number of resets of a lost vehicle. gains : present values.
    """

    time: float
    vehicle: Vehicle
    law: str
    maneuver: str
    poses: Mapping[str, np.ndarray]
    reference: Mapping[str, np.ndarray]
    u: np.ndarray
    thrusts: np.ndarray
    tracking_error: float
    attitude_error: float
    set_point: np.ndarray
    yaw: float
    wind: np.ndarray
    real_time: float
    capacity: float
    paused: bool
    speed: float
    note: str
    preparing: str
    lost: int
    gains: Mapping[str, float]

    @property
    def position(self) -> np.ndarray:
        """(3,) of the hull, m."""
        return self.poses["hull"][:3, 3]


@dataclass
class _Pace:
    """Simulated time relative to the clock."""

    samples: deque[tuple[float, float, float]] = field(default_factory=lambda: deque(maxlen=120))

    def add(self, wall: float, simulated: float, computing: float) -> None:
        self.samples.append((wall, simulated, computing))

    def ratio(self, against: int) -> float:
        """Simulated seconds per second of waiting (0) or of computing (2)."""
        total = sum(s[against] for s in self.samples)
        return sum(s[1] for s in self.samples) / total if total > 0 else 0.0


class LiveFlight:
    """A vehicle in flight.

    Parameters
    ----------
    vehicle : a vehicle or the name of one. law : "energy", "particle" or "body".
    background : whether new vehicles and maneuvers are prepared in a separate thread; otherwise within :meth:`advance`.

    Examples
    --------
    >>> flight = LiveFlight("tricopter", background=False)
    >>> flight.set_point((1.0, 0.0, 2.0))
    >>> flight.advance(8.0)
    >>> flight.snapshot.tracking_error < 0.01
    True
    """

    def __init__(self, vehicle: str | Vehicle = "quadcopter", law: str = "energy", background: bool = True) -> None:
        self._background = background
        self._queue: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._loops: dict[tuple[str, str], NativeLoop] = {}
        self._request, self._preparing = 0, ""
        self._time, self._left, self._speed, self._paused = 0.0, 0.0, 1.0, False
        self._target, self._yaw = np.array([0.0, 0.0, 1.5]), 0.0
        self._wind: Wind | None = None
        self._pulses: list[tuple[int, np.ndarray]] = []
        self._maneuver: Maneuver | None = None
        self._begun, self._shift = 0.0, np.zeros(3)
        self._note, self._lost = "", 0
        self._pace = _Pace()
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()
        self._adopt(self._loop(vehicle, law))

    # --- commands: from any thread --------------------------------------------------------------------------------------------

    def set_point(self, position: Any, yaw: float | None = None) -> None:
        """Hold this place (3,) m and heading (rad); a present maneuver ends."""
        target = vector3("set point", position)
        if yaw is not None and not np.isfinite(yaw):
            raise ShapeError(f"yaw must be finite, got {yaw!r}.")

        def command() -> None:
            self._maneuver = None
            self._target = target
            if yaw is not None:
                self._yaw = float(yaw)

        self._queue.put(command)

    def push(self, impulse: Any = (0.0, 0.0, 0.0), twist: Any = (0.0, 0.0, 0.0)) -> None:
        """Give the hull an impulse (3,) N s and a rotational impulse (3,) N m s in world axes, within a tenth of a second."""
        wrench = np.concatenate([vector3("impulse", impulse), vector3("rotational impulse", twist)]) / PUSH_SECONDS
        self._queue.put(lambda: self._pulses.append((round(PUSH_SECONDS / STEP), wrench)))

    def wind(self, wind: Wind | None) -> None:
        """Set the wind, see :mod:`heavytop.control.disturbances.wind`; None: no air."""
        if wind is not None and not np.all(np.isfinite(wind.at(np.linspace(0.0, 10.0, 101)))):
            raise ShapeError("the velocity of the wind must be finite.")

        def command() -> None:
            self._wind = wind
            self._parameters()

        self._queue.put(command)

    def gains(self, values: Mapping[str, float]) -> None:
        """Change gains of the present vehicle (see :class:`.Recipe`); the others stay. Impossible ones are rejected with a note."""
        given = {name: float(value) for name, value in values.items()}
        if not all(np.isfinite(value) for value in given.values()):
            raise ShapeError(f"gains must be finite, got {given}.")
        self._queue.put(lambda: self._tune(given))

    def choose(self, vehicle: str | Vehicle | None = None, law: str | None = None) -> None:
        """Change the vehicle, the law or both."""
        if law is not None and law not in LAWS:
            raise unknown_name("law", law, LAWS)
        self._queue.put(lambda: self._choose(vehicle, law))

    def fly(self, maneuver: str) -> None:
        """Fly a maneuver by name, beginning at the set point; "hover" returns to holding the set point."""
        self._queue.put(lambda: self._fly(maneuver))

    def pause(self, paused: bool = True) -> None:
        """Stop the clock, or continue."""
        self._queue.put(lambda: setattr(self, "_paused", bool(paused)))

    def speed(self, factor: float) -> None:
        """Simulated seconds per second."""
        if not 0 < factor <= 10:
            raise SimulationError(f"speed must lie in (0, 10], got {factor!r}.")
        self._queue.put(lambda: setattr(self, "_speed", float(factor)))

    def reset(self) -> None:
        """Return to rest at the set point, with the initial gains."""

        def command() -> None:
            self._note, self._maneuver = "", None
            self._tune(self._recipe.defaults)
            self._rest()

        self._queue.put(command)

    # --- the clock --------------------------------------------------------------------------------------------------------------

    def advance(self, seconds: float) -> None:
        """Execute the queued commands, then simulate ``seconds`` (times the speed, unless paused)."""
        self._obey()
        begin, simulated = time.perf_counter(), 0.0
        if not self._paused:
            self._left += seconds * self._speed
            steps = int(self._left / STEP + 1e-6)
            self._left -= steps * STEP
            simulated = steps * STEP
            while steps > 0:
                part = min(steps, 100)
                self._step(part)
                steps -= part
        self._pace.add(seconds, simulated, time.perf_counter() - begin)
        self._look()

    def start(self, rate: float = 100.0) -> None:
        """Advance in a thread, ``rate`` times a second, until :meth:`stop`."""
        if self._thread is not None:
            return
        self._ended.clear()
        self._thread = threading.Thread(target=self._keep_going, args=(rate,), name="flight", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._ended.set()
        thread, self._thread = self._thread, None
        # a thread interrupted during its start is not alive yet: it ends by itself
        if thread is not None and thread.is_alive():
            thread.join(timeout=5.0)

    def _keep_going(self, rate: float) -> None:
        last = time.perf_counter()
        while not self._ended.wait(max(0.0, last + 1.0 / rate - time.perf_counter())):
            now = time.perf_counter()
            # after a hold-up the flight continues from its present state instead of racing
            self.advance(min(now - last, LONGEST))
            last = now

    # --- below: only the thread that calls advance --------------------------------------------------------------------------

    def _obey(self) -> None:
        while True:
            try:
                command = self._queue.get_nowait()
            except Empty:
                return
            try:
                command()
            except HeavytopError as error:
                self._note = str(error)

    def _prepare(self, what: str, work: Callable[[], Callable[[], None]]) -> None:
        """Do the work in another thread and call its result in this one; only the latest request counts."""
        self._request += 1
        number, self._preparing = self._request, what

        def finish(done: Callable[[], None]) -> None:
            if number == self._request:
                self._preparing = ""
                done()

        def task() -> None:
            try:
                done = work()
            except Exception as error:  # the flight continues whatever a vehicle file contains
                text = f"{what} failed: {error}"

                def done() -> None:
                    self._note = text

            self._queue.put(lambda: finish(done))

        if self._background:
            threading.Thread(target=task, name=what, daemon=True).start()
        else:
            task()
            self._queue.get_nowait()()

    def _loop(self, vehicle: str | Vehicle, law: str) -> NativeLoop:
        key = (vehicle if isinstance(vehicle, str) else f"{vehicle.name} {id(vehicle)}", law)
        if key not in self._loops:
            known = {name: loop.vehicle for (name, _), loop in self._loops.items()}
            if isinstance(vehicle, str):
                vehicle = known.get(vehicle) or catalogue.load(vehicle)
            self._loops[key] = NativeLoop(vehicle, law)
        return self._loops[key]

    def _choose(self, vehicle: str | Vehicle | None, law: str | None) -> None:
        wanted: str | Vehicle = self._vehicle if vehicle is None else vehicle
        name = wanted if isinstance(wanted, str) else wanted.name
        chosen = law or self._law

        def work() -> Callable[[], None]:
            loop = self._loop(wanted, chosen)
            return lambda: self._adopt(loop)

        self._prepare(f"compiling {name} with the {chosen} law", work)

    def _adopt(self, loop: NativeLoop) -> None:
        """Continue with another loop; the same vehicle keeps its motion and its gains."""
        before = self.__dict__.get("_native")
        self._native, self._vehicle, self._law = loop, loop.vehicle, loop.law_name
        if before is not None and before.vehicle is loop.vehicle:
            self._parameters()
            return
        self._recipe: Recipe = recipe_of(loop.vehicle)
        self._values = self._recipe.defaults
        self._prototype = loop.vehicle.prototype
        self._maneuver, self._note = None, ""
        self._parameters()
        self._rest()
        self._look()

    def _rest(self) -> None:
        q = self._held()
        self._pulses.clear()
        self._state = self._native.start(q, np.zeros(self._vehicle.model.nv))
        _, self._u, _ = self._native.run(self._state, self._native.signal(q), self._p, 1)
        self._desired = q

    def _parameters(self) -> None:
        drag = 0.0 if self._wind is None else self._vehicle.drag
        self._p = self._native.parameters(self._prototype, drag)

    def _tune(self, given: Mapping[str, float]) -> None:
        wanted = self._values | dict(given)
        self._prototype = self._recipe.prototype(wanted)
        self._values, self._note = wanted, ""
        self._parameters()

    def _fly(self, name: str) -> None:
        if name == HOVER:
            self._maneuver = None
            return
        vehicle = self._vehicle

        def work() -> Callable[[], None]:
            maneuver = maneuvers.make(name, vehicle)
            maneuver(0.0)  # makes its native code
            return lambda: self._begin(maneuver)

        self._prepare(f"preparing {name}", work)

    def _begin(self, maneuver: Maneuver) -> None:
        if maneuver.vehicle is not self._vehicle:
            return
        q, v = maneuver.start
        self._shift = self._target - q[:3]
        self._maneuver, self._begun, self._note = maneuver, self._time, ""
        if not np.allclose(q, maneuver(0.0)[0]):  # it begins away from its reference: a step, a recovery
            q = q.copy()
            q[:3] += self._shift
            self._state = self._native.start(q, v)

    def _held(self) -> np.ndarray:
        """The configuration at rest at the set point."""
        return placed(self._vehicle, self._target, self._yaw)

    def _step(self, steps: int) -> None:
        signal = self._signal(self._time + STEP * np.arange(steps + 1), steps)
        state, self._u, finite = self._native.run(self._state, signal, self._p, steps)
        self._time += steps * STEP
        self._desired = signal[-1, : self._vehicle.model.nq]
        if finite and np.linalg.norm(self._native.seen(state)[0][:3] - self._desired[:3]) < LOST:
            self._state = state
        else:
            self._lost += 1
            self._maneuver = None
            self._note = "the vehicle was lost and is reset to the set point"
            self._rest()

    def _signal(self, times: np.ndarray, steps: int) -> np.ndarray:
        """Samples for the steps, and the one after them."""
        wrench = self._wrench(times, steps)
        if self._maneuver is not None and times[0] - self._begun >= self._maneuver.horizon:
            self._end_maneuver(self._maneuver)
        if self._maneuver is None:
            return self._native.signal(
                np.broadcast_to(self._held(), (len(times), self._vehicle.model.nq)), wrench=wrench
            )
        since = np.clip(times - self._begun, 0.0, self._maneuver.horizon)
        q, v, a = self._maneuver(since)
        q = q.copy()
        q[:, :3] += self._shift
        return self._native.signal(q, v, a, wrench)

    def _end_maneuver(self, maneuver: Maneuver) -> None:
        """Hold the final place and heading."""
        q, _, _ = maneuver(maneuver.horizon)
        G = self._vehicle.model.pose("world", "hull", q)
        self._target = G[:3, 3] + self._shift
        self._yaw = float(np.arctan2(G[1, 0], G[0, 0])) if G[2, 2] > 0 else self._yaw
        self._maneuver = None

    def _wrench(self, times: np.ndarray, steps: int) -> np.ndarray:
        wrench = np.zeros((len(times), 6))
        if self._wind is not None:
            wrench[:, :3] += self._vehicle.drag * self._wind.at(times)
        waiting = []
        for left, pulse in self._pulses:
            wrench[:left] += pulse
            if left > steps:
                waiting.append((left - steps, pulse))
        self._pulses = waiting
        return wrench

    def _look(self) -> None:
        """Update the snapshot."""
        vehicle, q = self._vehicle, self._native.seen(self._state)[0]
        names = ["hull"] if vehicle.airframe.load is None else ["hull", vehicle.airframe.load.body]
        poses, reference = ({n: vehicle.model.pose("world", n, x) for n in names} for x in (q, self._desired))
        G, G_R = poses["hull"], reference["hull"]
        turn = so3.log(G[:3, :3].T @ G_R[:3, :3])
        wind = np.zeros(3) if self._wind is None else np.array(self._wind.at(np.array([self._time]))[0])
        self.snapshot = Snapshot(
            time=self._time,
            vehicle=vehicle,
            law=self._law,
            maneuver=HOVER if self._maneuver is None else self._maneuver.name,
            poses=poses,
            reference=reference,
            u=self._u,
            thrusts=vehicle.airframe.thrusts(self._u),
            tracking_error=float(np.linalg.norm(G[:3, 3] - G_R[:3, 3])),
            attitude_error=float(np.linalg.norm(turn)),
            set_point=self._target.copy(),
            yaw=self._yaw,
            wind=wind,
            real_time=self._pace.ratio(0),
            capacity=self._pace.ratio(2),
            paused=self._paused,
            speed=self._speed,
            note=self._note,
            preparing=self._preparing,
            lost=self._lost,
            gains=dict(self._values),
        )

    @property
    def recipe(self) -> Recipe:
        """The gains of the present vehicle."""
        return self._recipe


def vehicle_names() -> tuple[str, ...]:
    """Names of the vehicles of a cockpit: those of the catalogue without detailed plants."""
    return tuple(name for name in catalogue.names() if not name.endswith("-full"))


def placed(vehicle: Vehicle, position: Any, yaw: float = 0.0) -> np.ndarray:
    """The configuration (nq,) at rest with the hull at a place (3,) and heading (rad)."""
    block = cast(Pose, vehicle.model.description.joints[0].joint.coordinates)
    G = se3.pose(so3.exp(np.array([0.0, 0.0, yaw])), np.asarray(position, dtype=float))
    q = vehicle.model.neutral().copy()
    q[: block.nq] = block.from_pose(G)
    return q
