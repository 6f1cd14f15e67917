"""The result of a simulation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from heavytop._elsewhere import Advised
from heavytop._files import CSV
from heavytop._format import Overview, Shown
from heavytop.errors import FileFormatError, SimulationError, UnknownNameError, unknown_name
from heavytop.simulate.dynamics import Dynamics
from heavytop.simulate.events import Occurrence
from heavytop.simulate.outcome import Outcome

if TYPE_CHECKING:
    from pathlib import Path

    import pandas
    import xarray

    from heavytop.show import InlinePage
    from heavytop.simulate.invariants import Invariant
    from heavytop.simulate.recording import RunProblem


@dataclass(frozen=True)
class Timing:
    """Where the time went: seconds to trace and compile, seconds of the time loop, steps, trajectories."""

    compile_seconds: float
    wall_seconds: float
    steps: int
    trajectories: int

    @property
    def steps_per_second(self) -> float:
        """Steps of single trajectories per second of the time loop."""
        return self.steps * self.trajectories / self.wall_seconds if self.wall_seconds > 0 else float("inf")


@dataclass(frozen=True)
class Settings:
    """Step size, end and start in s, steps between records."""

    step: float
    until: float
    start_time: float
    record_every: int


@dataclass(frozen=True, eq=False)
class Run(Shown, Advised):
    """A simulated motion: data only.

    Attributes
    ----------
    t : (n,) times of the records in s.
    q, v, u : (n, *batch, nq), (n, *batch, nv), (n, *batch, nu). In a batch, entries after the end of a trajectory are NaN;
        a single trajectory is cut at its end.
    outcome : how it ended; for a batch the worst. ``outcomes`` has one per trajectory.
    channels : further records by name: outputs of the law and of the dynamics.
    work : (n, *batch, 2) work of the inputs and dissipated energy (contacts included) in J, or None; with drivers (n, *batch, 3), theirs last.
    events : all crossings in order of time.
    parameters : name -> value (*batch).
    settings, timing : how it was made.
    sensitivities : derivatives of the records (:class:`~heavytop.simulate.Sensitivities`), if requested.

    ``run["hull.x"]`` (or ``"hull/x"``) is a coordinate, velocity, input, channel or energy by name.

    Examples
    --------
    >>> import heavytop as ht
    >>> run = ht.simulate(ht.library.pendulum().derive(), ([1.0], [0.0]), until=1.0, step=0.01)
    >>> run.t.shape, run.q.shape, run.outcome.ok
    ((101,), (101, 1), True)
    >>> run.q_names, run.q_units
    (('theta.angle',), ('rad',))
    """

    name: str
    integrator: str
    t: np.ndarray
    q: np.ndarray
    v: np.ndarray
    u: np.ndarray
    outcome: Outcome
    outcomes: np.ndarray
    q_names: tuple[str, ...]
    v_names: tuple[str, ...]
    u_names: tuple[str, ...]
    q_units: tuple[str, ...]
    v_units: tuple[str, ...]
    u_units: tuple[str, ...]
    channels: dict[str, np.ndarray] = field(default_factory=dict)
    work: np.ndarray | None = None
    events: tuple[Occurrence, ...] = ()
    parameters: dict[str, np.ndarray] = field(default_factory=dict)
    settings: Settings = Settings(0.0, 0.0, 0.0, 1)
    timing: Timing = Timing(0.0, 0.0, 0, 1)
    dynamics: Dynamics | None = field(default=None, repr=False)
    model: Any = field(default=None, repr=False)
    origin: RunProblem | None = field(default=None, repr=False)
    stored: Mapping[str, Any] = field(default_factory=dict, repr=False)
    sensitivities: Any = field(default=None, repr=False)

    # --- access -----------------------------------------------------------------------------------------------------------

    @property
    def batch(self) -> tuple[int, ...]:
        """Batch axes."""
        return self.q.shape[1:-1]

    def __len__(self) -> int:
        return len(self.t)

    __iter__ = None  # records have names, not numbers: without this Python would ask for run[0], run[1], ...

    def __getitem__(self, name: str) -> np.ndarray:
        key = self._key(str(name))
        for names, array in ((self.q_names, self.q), (self.v_names, self.v), (self.u_names, self.u)):
            if key in names:
                return array[..., names.index(key)]
        if str(name) in self.channels:
            return self.channels[str(name)]
        if key in ("energy", "kinetic_energy", "potential_energy"):
            return getattr(self, key)
        known = [*self.q_names, *self.v_names, *self.u_names, *self.channels, "energy"]
        if group := self._group(str(name)) or self._group(key):
            return self.q[..., group]
        raise unknown_name(f"signal of run {self.name!r}", str(name), known)

    def _key(self, name: str) -> str:
        """The name of a signal as it is, or with dots for slashes if there is none of that name."""
        own = name in self.q_names or name in self.v_names or name in self.u_names
        return name if own else name.replace("/", ".")

    def _group(self, name: str) -> list[int]:
        """Places of the coordinates of a joint in q; a joint "arm" has none of those of a joint "arm.tip"."""
        blocks = getattr(getattr(self.dynamics, "coordinates", None), "names", None) or ()
        if name in blocks:
            return list(range(len(self.q_names)))[self.dynamics.coordinates.q_slice(name)]  # pyright: ignore
        return [k for k, label in enumerate(self.q_names) if label.startswith(name + ".")]

    def __contains__(self, name: str) -> bool:
        try:
            self[name]
        except UnknownNameError:
            return False
        return True

    def unit(self, name: str) -> str:
        """Unit of a coordinate, velocity or input; empty if unknown."""
        key = self._key(name)
        for names, units in (
            (self.q_names, self.q_units),
            (self.v_names, self.v_units),
            (self.u_names, self.u_units),
        ):
            if key in names:
                return units[names.index(key)]
        if group := self._group(name) or self._group(key):
            units = {self.q_units[k] for k in group}
            return units.pop() if len(units) == 1 else ""
        return "J" if "energy" in name else ""

    @property
    def final(self) -> tuple[np.ndarray, np.ndarray]:
        """The last q and v of each trajectory: a start for another run.

        In a batch, a trajectory that ended early gives the state at the event that ended it, or its last finite record.
        """
        if not len(self.t):
            raise SimulationError(f"run {self.name!r} has no records, so no last state.")
        finite = np.all(np.isfinite(np.concatenate([self.q, self.v], axis=-1)), axis=-1)
        if np.all(finite[-1]):
            return self.q[-1], self.v[-1]
        last = len(self.t) - 1 - np.argmax(finite[::-1], axis=0)
        at = (last, *np.indices(self.batch))
        q, v = self.q[at], self.v[at]
        for occurrence in self.events:
            if occurrence.terminal:  # between two records
                q[occurrence.trajectory], v[occurrence.trajectory] = occurrence.q, occurrence.v
        return q, v

    # --- energies and invariants --------------------------------------------------------------------------------------------

    @cached_property
    def _energies(self) -> tuple[np.ndarray, np.ndarray]:
        if "kinetic_energy" in self.stored:
            return self.stored["kinetic_energy"], self.stored["potential_energy"]
        kernel = self.dynamics.kernel("energies") if self.dynamics is not None else None
        if kernel is None:
            raise SimulationError(
                f"the energy of {self.name!r} is unknown. Give kinetic= and potential= to the dynamics."
            )
        kinetic, potential = kernel(self.q, self.v, self.parameters_at_records)
        return kinetic, potential

    @property
    def has_energy(self) -> bool:
        """Whether the energy is known."""
        known = self.dynamics is not None and self.dynamics.kernel("energies") is not None
        return "kinetic_energy" in self.stored or known

    @property
    def kinetic_energy(self) -> np.ndarray:
        """T (n, *batch) in J."""
        return self._energies[0]

    @property
    def potential_energy(self) -> np.ndarray:
        """V (n, *batch) in J."""
        return self._energies[1]

    @property
    def energy(self) -> np.ndarray:
        """T + V (n, *batch) in J."""
        return self._energies[0] + self._energies[1]

    @property
    def parameter_vector(self) -> np.ndarray:
        """Parameters (*batch, np)."""
        if not self.parameters:
            return np.zeros(0)
        return np.stack(np.broadcast_arrays(*self.parameters.values()), axis=-1)

    @property
    def parameters_at_records(self) -> np.ndarray:
        """Parameters as functions of the model take them with the records: (*batch, np), with the time among them (n, *batch, np)."""
        p = self.parameter_vector
        if self.dynamics is None or not self.dynamics.has_time:
            return p
        return self.dynamics.at_times(p, self.t.reshape(-1, *(1,) * len(self.batch)))

    @cached_property
    def driver_power(self) -> dict[str, np.ndarray]:
        """Power (n, *batch) in W of each driver: prescribed motions of frames, constraints or potentials."""
        if "driver_power" in self.stored:
            return dict(self.stored["driver_power"])
        kernel = self.dynamics.kernel("drivers") if self.dynamics is not None else None
        if kernel is None:
            return {}
        return dict(zip(kernel.outputs, kernel(self.q, self.v, self.u, self.parameters_at_records), strict=True))

    @cached_property
    def contacts(self) -> dict[str, Any]:
        """Contacts and ropes by name (:class:`ContactRecord`), hard stops and sticking friction (:class:`JointReaction`)."""
        from heavytop.simulate.contact_record import contacts_of

        return dict(self.stored["contacts"]) if "contacts" in self.stored else contacts_of(self)

    @property
    def contact_work(self) -> np.ndarray | None:
        """Work (n, *batch, 3) of rigid contacts in J: normal forces (impacts), friction, closing, all in the dissipated energy; else None."""
        return self.channels.get("contact_work")

    @cached_property
    def invariants(self) -> dict[str, Invariant]:
        """What should stay constant, how far it drifted, with units."""
        from heavytop.simulate.invariants import invariants_of

        return dict(self.stored["invariants"]) if "invariants" in self.stored else invariants_of(self)

    # --- hand over ----------------------------------------------------------------------------------------------------------

    @overload
    def report(self, show: Literal[True] = True) -> None: ...
    @overload
    def report(self, show: Literal[False]) -> str: ...
    def report(self, show: bool = True) -> str | None:
        """Print outcome, energy balance, drift of every invariant and wall time; with ``show=False`` return the text instead."""
        from heavytop.simulate.report import report

        text = report(self)
        if not show:
            return text
        print(text)
        return None

    def to_xarray(self) -> xarray.Dataset:
        """The run as a labelled dataset with units."""
        from heavytop.io import to_xarray

        return to_xarray(self)

    def to_dataframe(self) -> pandas.DataFrame:
        """Coordinates, velocities, inputs and energies as columns; a row for each time, in a batch for each trajectory and time."""
        from heavytop.io import to_dataframe

        return to_dataframe(self)

    def save(self, path: str | Path, every: int = 1) -> None:
        """Write a netCDF file (atomically); :meth:`load` reads it back exactly.

        With the ending ``.mcap``: a log for Foxglove and PlotJuggler; ``.csv``: a table of one trajectory, with every ``every``-th record and
        the last one.
        """
        if str(path).lower().endswith(CSV):
            from heavytop.io import save_table

            save_table(self, path, every)
            return
        if every != 1:
            raise FileFormatError(
                f"every={every} applies only to tables: give a name that ends with .csv, got {str(path)!r}."
            )
        if str(path).lower().endswith(".mcap"):
            from heavytop.log import save_mcap

            save_mcap(self, path)
            return
        from heavytop.io import save_run

        save_run(self, path)

    @classmethod
    def load(cls, path: str | Path, *, checked: bool = True) -> Run:
        """Read a run that was saved; a file whose checksum is missing or wrong raises unless ``checked`` is False."""
        from heavytop.io import load_run

        return load_run(path, checked=checked)

    def plot(self, path: str | Path | None = None) -> Any:
        """Figure with coordinates, velocities, inputs, energies and drifts; written to ``path`` if given."""
        from heavytop.show import plot_run

        return plot_run(self, path)

    def show(
        self, path: str | Path | None = None, index: int | Sequence[int] = 0, *, live: bool = False
    ) -> Path | InlinePage:
        """Write a self-contained page with the moving system, curves and numbers; of a batch the trajectory ``index``.

        Parameters
        ----------
        path : HTML file; None: the page is returned as an object that a notebook shows in place.
        index : trajectory of a batch: its number, or one number per batch axis. A page in a file also has some others to choose.
        live : instead of a replay the page runs the equations of motion itself, without Python: sliders for parameters, start and inputs, and
            bodies that can be pulled. All trajectories of a batch run.

        Raises
        ------
        SimulationError
            Live only: the run calls Python at every sample (a function as ``inputs=``, predictive control), or was read from a file.
        """
        from heavytop.show import InlinePage, live_report, report_of, report_with_choice, write_page

        if path is not None and not live:
            return write_page(report_with_choice(self, index), path)
        report = report_of(self, index)
        if live:
            chosen = (index,) if isinstance(index, int | np.integer) else tuple(index)
            flat = len(chosen) == 1 or not self.batch
            row = int(chosen[0]) if flat else int(np.ravel_multi_index(chosen, self.batch))
            report = live_report(self, report, row=row)
        return InlinePage(report) if path is None else write_page(report, path)

    def _overview(self) -> Overview:
        settings, timing = self.settings, self.timing
        rows = [("outcome", str(self.outcome))]
        if self.batch:
            rows.append(("trajectories", " x ".join(map(str, self.batch))))
        if len(self):
            rows.append(("time", f"{self.t[0]:g} s to {self.t[-1]:g} s, {len(self)} records"))
        rows.append(("integrator", f"{self.integrator}, step {settings.step:g} s"))
        rows.append(("steps", f"{timing.steps * timing.trajectories:,} in {timing.wall_seconds:.3g} s"))
        return Overview(f"Run of {self.name}", tuple(rows))

    # --- copies -------------------------------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        """A pickled run has its energies and invariants instead of the model, like a saved one."""
        state = {f.name: getattr(self, f.name) for f in fields(self)}
        if self.dynamics is not None:
            energies: dict[str, Any] = {}
            if self.has_energy:
                energies |= {"kinetic_energy": self.kinetic_energy, "potential_energy": self.potential_energy}
            if self.driver_power:
                energies["driver_power"] = self.driver_power
            if self.contacts:
                energies["contacts"] = self.contacts
            state |= {
                "dynamics": None,
                "model": None,
                "origin": None,
                "sensitivities": None,
                "stored": {"invariants": self.invariants, **energies},
            }
        return state

    def __copy__(self) -> Run:
        return replace(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Run:
        """Own arrays; the model, which does not change, is shared."""
        shared = ("dynamics", "model", "origin")
        own = {f.name: deepcopy(getattr(self, f.name), memo) for f in fields(self) if f.name not in shared}
        return replace(self, **own)

    def __repr__(self) -> str:
        batch = np.shape(self.q)[1:-1]  # an error message may show a run made of something else
        shown = f", batch {batch}" if batch else ""
        return f"Run({self.name!r}, {self.integrator}, {np.size(self.t)} records{shown}: {self.outcome})"
