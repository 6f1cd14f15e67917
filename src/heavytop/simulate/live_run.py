"""A run that goes on and takes changes: the step of a live page as native code, for cockpits and scripts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from heavytop._arrays import numbers
from heavytop.compile import Kernel, Stepper
from heavytop.errors import ShapeError, SimulationError, unknown_name
from heavytop.simulate.energy_monitor import (
    AT_REST,
    BLANK,
    ERROR,
    KINETIC,
    NEVER,
    SINCE,
    STORED,
    WORKED,
    Watched,
    beginning,
)
from heavytop.simulate.live_step import HAND, live_step
from heavytop.simulate.run import Run
from heavytop.system import ASSEMBLED

ROUNDS = 30
"""Steps of Newton's method that close loops."""


class LiveRun:
    """A motion that is advanced piece by piece, whose parameters change on the way, and whose bodies can be pulled.

    Parameters
    ----------
    run : a single trajectory; its law, start, parameters and step are taken.

    Attributes
    ----------
    time : s. q, v, u : present state, and the inputs of the model in the last step.
    problem : why the motion stopped, or None; time and state are then those before.

    Examples
    --------
    >>> import heavytop as ht
    >>> model = ht.library.double_pendulum().derive()
    >>> live = LiveRun(ht.simulate(model, ([0.1, 0.0], [0.0, 0.0]), until=0.1, step=1e-3))
    >>> live.change("l_1", 1.5)
    >>> live.hold("lower", place=(1.5, 0.0, -1.0))
    >>> live.advance(3.0)
    >>> bool(live.q[0] < -0.3), live.problem
    (True, None)
    """

    def __init__(self, run: Run) -> None:
        if run.origin is None or run.origin.count != 1:
            what = "holds only numbers" if run.origin is None else f"has {run.origin.count} trajectories"
            raise SimulationError(f"a live run needs a run of one trajectory with its model; {run.name!r} {what}.")
        self._live = live_step(run.origin)
        self.model, self.described = self._live.model, self._live.described
        self._stepper, self._at = Stepper(self._live.schedule, 1), self._live.terminals
        self._step = run.origin.step
        self._p = self._live.parameters[0].copy()
        self._tables = {name: rows.copy() for name, rows in self._live.samples.items()}
        self._project, self._residuals, self._ledger = (
            Kernel(self._live.functions[name]) if name in self._live.functions else None
            for name in ("project", "relative_residuals", "ledger")
        )
        self._changed = False
        self.restart()

    @property
    def numbers(self) -> Mapping[str, float]:
        """Name -> present value of everything :meth:`change` takes."""
        return {n.name: float(self._p[n.index]) for n in self._live.numbers} | {
            name: float(self._tables[table][0, k]) for name, (table, k) in self._signals().items()
        }

    @property
    def units(self) -> Mapping[str, str]:
        """Name -> unit of each number; empty where it is unknown."""
        return {n.name: n.unit for n in self._live.numbers}

    @property
    def bodies(self) -> tuple[str, ...]:
        """Bodies that can be held."""
        return tuple(self._live.bodies)

    def _signals(self) -> dict[str, tuple[str, int]]:
        """Constant entries of the signal that the law names: name -> table and place."""
        law = self._live.problem.plan.control.law
        names: Sequence[tuple[str, str]] = getattr(None if law is None else law.law, "signal_names", ())
        found = {}
        for table, rows in self._tables.items():
            for k, (label, _) in enumerate(names if len(names) == rows.shape[1] else ()):
                if label and np.all(rows[:, k] == rows[0, k]):
                    found[label] = table, k
        return found

    def restart(self) -> None:
        """Return to the start, with the present parameters and an open hand; loops are closed where the parameters changed."""
        shapes = self._live.schedule.layout.shapes
        self._state: dict[str, np.ndarray] = {
            name: rows[0].reshape(shapes[name]).copy() for name, rows in self._live.start.items()
        }
        self._count, self.problem = 0, None
        self.u = np.zeros(self.described.nu)
        self.release()
        if self._changed:
            self._assemble()
        self._open_books()

    def _assemble(self) -> None:
        """Close the loops by Newton's method from where the bodies are; a problem if that fails."""
        if self._project is None or self._residuals is None:
            return
        p = self._live.dynamics.at_times(self._p, np.asarray(self.time))
        for k in range(ROUNDS):
            q, v = self._project(self.q, self.v, p)[:2]
            moved = float(np.max(np.abs(q - self.q)))
            if not (np.all(np.isfinite(q)) and np.all(np.isfinite(v))):
                break
            self._state[self._at.q], self._state[self._at.v] = q, v
            if moved < 1e-13 and k:
                break
        open_by = max(float(np.max(np.abs(x), initial=0.0)) for x in self._residuals(self.q, self.v, p)[:2])
        if not open_by <= 10 * ASSEMBLED:
            self.problem = "the loops cannot be closed with these values"

    def _open_books(self) -> None:
        """Begin the accounts of energy again."""
        at, dynamics = self._at, self._live.dynamics
        for name in at.accounts:
            self._state[name] = np.zeros_like(self._state[name])
        if at.watch is not None:
            self._state[at.watch] = beginning(
                dynamics, self.q, self.v, dynamics.at_times(self._p, np.asarray(self.time))
            )
        if at.ledger is not None:
            self._state[at.ledger] = BLANK.copy()

    @property
    def time(self) -> float:
        """Simulated time in s."""
        return self._live.problem.start_time + self._count * self._step

    @property
    def q(self) -> np.ndarray:
        """The configuration (nq,)."""
        return self._state[self._at.q]

    @property
    def v(self) -> np.ndarray:
        """The velocities (nv,)."""
        return self._state[self._at.v]

    @property
    def drift(self) -> float:
        """Error of the balance of energy relative to the energy exchanged."""
        if self._at.ledger is None:
            return float("nan")
        row = self._state[self._at.ledger]
        exchanged = float(row[KINETIC] + row[STORED] + row[WORKED])
        return float(row[ERROR]) / exchanged if exchanged > 0.0 else 0.0

    def change(self, name: str, value: float) -> None:
        """Give a number of :attr:`numbers` another value; the motion goes on from where it is, with its loops closed."""
        value = float(numbers(value, name))
        if not np.isfinite(value):
            raise ShapeError(f"{name} must be a finite number, got {value}.")
        if name in (signals := self._signals()):
            table, k = signals[name]
            self._tables[table][:, k] = value
            return
        index = {n.name: n.index for n in self._live.numbers}
        if name not in index:
            raise unknown_name("number of a live run", name, self.numbers)
        self._p[index[name]] = value
        self._changed = True
        self._assemble()
        self._open_books()

    def hold(self, body: str, place: Any, point: Any = (0.0, 0.0, 0.0), stiffness: float | None = None) -> None:
        """Pull a point of a body, given in its axes, towards a place in the world, m; ``stiffness`` in N/m, by default one that suits its mass."""
        if body not in self._live.bodies:
            raise unknown_name("body", body, self._live.bodies)
        mass = float(np.max(np.linalg.eigvalsh(np.atleast_2d(self.described.mass_matrix(self.q, self._own())))))
        k = 80.0 * mass if stiffness is None else float(stiffness)
        self.release()
        row = [k, 0.7 * float(np.sqrt(k * mass)), *numbers(place, "place"), *numbers(point, "point")]
        self._p[self._live.hand : self._live.hand + len(HAND)] = row
        self._p[self._live.bodies[body]] = 1.0

    def _own(self) -> dict[str, float]:
        names = self.described.parameter_names
        return dict(zip(names, self._p[: len(names)].tolist(), strict=True))

    def release(self) -> None:
        """Open the hand."""
        for index in self._live.bodies.values():
            self._p[index] = 0.0

    def advance(self, seconds: float) -> None:
        """Simulate some seconds more, whole steps; nothing once there is a :attr:`problem`."""
        steps = round(seconds / self._step)
        if steps < 1 or self.problem is not None:
            return
        done = self._stepper.run(
            self._state,
            {self._at.p: self._p, self._at.h: np.asarray(self._step)},
            self._tables,
            steps=steps,
            step_size=self._step,
            start_time=self._live.problem.start_time,
            first=self._count,
            record_every=steps,
        )
        before, u = (self._state, self._count), self.u
        self._state, self._count = done.state, self._count + steps
        self.u = done.records[self._at.u][0, : self.described.nu]
        self._enter()
        self.problem = self._wrong(int(done.failed) >= 0)
        if self.problem is not None:  # the last state that is right
            (self._state, self._count), self.u = before, u

    def _enter(self) -> None:
        """Enter the present state in the ledger, which a step does only now and then."""
        at, s = self._at, self._state
        if self._ledger is not None and at.ledger is not None:
            paid = [] if at.paid is None or at.exchanged is None else [s[at.paid], s[at.exchanged]]
            t = np.asarray(self.time)
            s[at.ledger] = self._ledger(
                self.q, self.v, self._live.dynamics.at_times(self._p, t), t, *paid, s[at.ledger]
            )[0]

    def _wrong(self, failed: bool) -> str | None:
        """Why the motion cannot go on, as far as that can be seen."""
        at, live = self._at, self._live
        watch = None if at.watch is None else Watched.of(self._state[at.watch], len(self.q))
        too_large = f"the step of {self._step:g} s is too large for these settings"
        if failed and at.law_failure is not None:
            code = round(float(np.ravel(self._state[at.law_failure])[0]))
            law = live.problem.plan.control.law
            if code > 0 and law is not None:
                causes = law.causes
                cause = causes[code - 1] if code <= len(causes) else f"status {code}"
                return f"the law has no input from t = {self.time:.4g} s on: {cause}"
        ill_posed = "ill_posed" in at.own and np.any(self._state[at.own["ill_posed"]] > 0)
        if ill_posed or (failed and watch is not None and watch.ill_posed):
            return "friction answers its own reaction (Painlevé's paradox): lower the friction"
        if failed and watch is not None and watch.branch < 0:
            return f"a loop flipped to the other side of its joint: {too_large}"
        if failed:
            return f"the motion cannot go on from t = {self.time:.4g} s: {too_large}"
        if "unsolved" in at.own and np.any(self._state[at.own["unsolved"]] > 0):
            return f"the equations of a step were not solved: {too_large}"
        if at.ledger is not None and abs(self._state[at.ledger][SINCE]) < NEVER and not self._at_rest():
            return f"the balance of energy is wrong by {100 * self.drift:.2g} %: {too_large}"
        return None

    def _at_rest(self) -> bool:
        """Whether only rounding moves anything."""
        size = 1.0 + float(np.max(np.abs(self.q), initial=0.0))
        moved = float(np.max(np.abs(self.q - self._live.start[self._at.q][0]), initial=0.0))
        return max(self._step * float(np.max(np.abs(self.v), initial=0.0)), moved) <= AT_REST * size
