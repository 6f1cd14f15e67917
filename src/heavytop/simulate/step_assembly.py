"""One step of a simulation as a schedule: control, records, integration; and where the time loop finds its ends."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from heavytop.compile import Call, Schedule, Stepper, Traced, trace
from heavytop.errors import SimulationError, unknown_name
from heavytop.simulate.controller import STATUS, keep_failure
from heavytop.simulate.dynamics import Dynamics
from heavytop.simulate.energy_monitor import SELDOM, SHARE, exchanged, ledger, watch
from heavytop.simulate.integrators.base import Integrator
from heavytop.simulate.plant import Control, Plant, PlantState
from heavytop.simulate.tape import Slot, Tape


@dataclass(frozen=True)
class Terminals:
    """The buffers of the native code that the time loop feeds and reads; kept with the code.

    Attributes
    ----------
    q, v, u, p, h : configuration, velocities, input, parameters, size of the step.
    memory, gains : memory and gains of the law. work : done by inputs and dissipation. flow : the same, where it is not recorded.
    watch, ledger, exchanged : state of the energy monitor. law_failure : status of the law.
    events : values of their functions. None where there is none.
    own : what the integrator carries along, and given : what it is given, by its own names.
    signals : (stage time, table) of the samples of the reference.
    channels : name -> record. accounts : what is zero at the start of an account of energy.
    rests : remainders of compensated sums.
    """

    q: str
    v: str
    u: str
    p: str
    h: str
    memory: str | None = None
    gains: str | None = None
    work: str | None = None
    flow: str | None = None
    watch: str | None = None
    ledger: str | None = None
    exchanged: str | None = None
    law_failure: str | None = None
    events: str | None = None
    own: dict[str, str] = field(default_factory=dict)
    given: dict[str, str] = field(default_factory=dict)
    signals: tuple[tuple[float, str], ...] = ()
    channels: dict[str, str] = field(default_factory=dict)
    accounts: tuple[str, ...] = ()
    rests: tuple[str, ...] = ()

    @property
    def paid(self) -> str | None:
        """The work or flow that the ledger reads."""
        return self.work or self.flow

    @classmethod
    def of(cls, step: Stepper | Schedule) -> Terminals:
        """The terminals of a step."""
        notes: dict[str, Any] = dict(step.layout.notes)
        signals = tuple((float(c), str(name)) for c, name in notes.pop("signals"))
        accounts = tuple(str(name) for name in notes.pop("accounts"))
        return cls(**notes, signals=signals, accounts=accounts)


def step_schedule(
    dynamics: Dynamics,
    control: Control,
    integrator: Integrator,
    *,
    balance: bool,
    watched: bool = False,
    events: Traced | None = None,
) -> Schedule:
    """The complete step. With ``events`` everything that lasts is recorded, so that a step can be repeated."""
    plant = Plant(dynamics, control, balance, integrator, watched)
    return _Assembly(plant, integrator, events).schedule()


class _Assembly:
    """The phases of a step: what is sampled, what is observed with every record, what moves on."""

    def __init__(self, plant: Plant, integrator: Integrator, events: Traced | None) -> None:
        self.plant, self.integrator, self.events = plant, integrator, events
        make = plant.slots.make
        law = plant.control.law
        self.sampled = law is not None and plant.control.kind == "sampled"
        self.channels: dict[str, Slot] = {}
        if law is not None and not integrator.chooses_step:
            self.channels |= {label: make(label, tuple(size)) for label, size in law.channels.items()}
        reports = not integrator.chooses_step and plant.stage is None
        self.extra = dict(list(plant.motion.outputs.items())[2:]) if reports else {}
        self.channels |= {label: make(label, tuple(size)) for label, size in self.extra.items()}
        self.memory_next = make("z next", plant.memory.shape) if self.sampled and plant.memory is not None else None
        self.event_values = make("events", next(iter(events.outputs.values()))) if events is not None else None

    def schedule(self) -> Schedule:
        """All phases together."""
        plant, slots = self.plant, self.plant.slots
        sample, observe, advance = Tape(slots), Tape(slots), Tape(slots)
        self._velocity(sample if self.sampled else observe)
        if not self.integrator.chooses_step:
            self._law(sample if self.sampled else observe)
            self._observe(observe)
        state = self._advance(advance)
        names = slots.names
        record = self._record(state)
        # the calls give names to the functions, so they come first
        phases = {"advance": self._thinned(advance.calls()), "sample": sample.calls(), "observe": observe.calls()}
        constants = [plant.parameters, *plant.given.values(), *([] if self.integrator.chooses_step else [plant.size])]
        constants += [] if plant.gains is None else [plant.gains]
        tables = ([plant.u] if plant.control.kind == "table" else []) + list(plant.signals.values())
        return Schedule(
            slots.functions,
            slots.shapes,
            names(state),
            **phases,
            constants=names(constants),
            tables=names(tables),
            record=names(record),
            notes=self._notes(),
        )

    def _thinned(self, calls: list[Any]) -> list[Any]:
        """The calls of a step with the ledger in as few steps as keep it cheap."""
        target = None if self.plant.ledger is None else self.plant.slots.name(self.plant.ledger)
        if target is None:
            return calls
        functions = self.plant.slots.functions
        costs = [functions[c.function].instructions for c in calls if isinstance(c, Call)]
        own = next(k for k, c in enumerate(calls) if isinstance(c, Call) and target in c.outputs)
        cost = functions[calls[own].function].instructions
        every = min(max(round(cost / (SHARE * max(sum(costs) - cost, 1))), 1), SELDOM)
        return [replace(c, every=every) if k == own else c for k, c in enumerate(calls)]

    def _velocity(self, tape: Tape) -> None:
        """v, where the integrator carries something else instead."""
        if not self.integrator.carries_velocity:
            self.plant.tape = tape
            v = self.integrator.velocity(self.plant, self.plant.state())
            tape.write([self.plant.v], [tape.value(v, "v")])

    def _law(self, tape: Tape) -> None:
        """The law at the start of the step: held for a while, or for the record only."""
        plant, law = self.plant, self.plant.control.law
        if law is None:
            return
        sources: dict[str, Slot | None] = {
            "t": plant.time,
            "q": plant.q,
            "v": plant.v,
            "p": self._now(tape),
            "z": plant.memory,
            "gains": plant.gains,
            "signal": plant.signal(0.0) if "signal" in law.takes else None,
            "contacts": self._contacts(tape) if "contacts" in law.takes else None,
        }
        targets = {"u": plant.u, "z_next": self.memory_next, **self.channels}
        outputs = [
            targets.get(label) or plant.slots.make(label, tuple(size)) for label, size in law.traced.outputs.items()
        ]
        inputs = [slot for name in law.takes if (slot := sources[name]) is not None]
        tape.call(law.traced, inputs, outputs, plant.control.every)

    def _contacts(self, tape: Tape) -> Slot:
        """Forces of contacts that a law reads at the start of the step."""
        plant = self.plant
        plant.tape = tape
        return tape.value(plant.contact_forces(plant.state(), plant.p_at(0.0)), "contacts").slot

    def _observe(self, tape: Tape) -> None:
        """Values of events, and further outputs of the motion function."""
        plant = self.plant
        if self.events is not None and self.event_values is not None:
            tape.call(self.events, (plant.time, plant.q, plant.v), (self.event_values,))
        if self.extra:
            rates = [plant.slots.make("w", (plant.nw,)), plant.slots.make("a", (plant.nv,))]
            outputs = (*rates, *(self.channels[label] for label in self.extra))
            tape.call(plant.motion, (plant.q, plant.v, plant.u, self._now(tape)), outputs)

    def _now(self, tape: Tape) -> Slot:
        """The parameters at the start of the step."""
        plant = self.plant
        if not plant.dynamics.has_time:
            return plant.parameters
        plant.tape = tape
        return tape.value(plant.p_at(0.0), "p now").slot

    def _advance(self, tape: Tape) -> list[Slot]:
        """The integrator's step, then back onto the manifold and the constraints; the slots that last."""
        plant, method, slots = self.plant, self.integrator, self.plant.slots
        memory, following = plant.memory, self.memory_next
        if memory is not None and following is not None:  # with the step, so that it may be sampled twice
            remember = trace(lambda z: {"z": z + 0}, {"z": memory.shape}, name="remember")
            tape.call(remember, (following,), (memory,), plant.control.every)
        self._velocity(tape)
        plant.tape = tape
        self._ledger(tape)  # before the step, as it reads what the step overwrites
        if plant.status is not None and not self.sampled:
            tape.write([plant.status], [tape.value(np.zeros(()), "status")])
        end = method.step(plant, plant.state(), plant.h)
        if not isinstance(end, PlantState) or end.plant is not plant:
            raise SimulationError(
                f"step of {type(method).__name__} must return the state at the end of the step, as plant.advance and "
                f"plant.retract make it, got {end!r}."
            )
        self._law_failure(tape)  # while the slots still hold the start of the step
        values = end.values()
        if plant.exchanged is not None and plant.paid is not None:
            most = exchanged(slots.read(plant.exchanged), values[plant.paid].get())
            values[plant.exchanged] = tape.value(most, "exchanged")
        if not method.carries_velocity:
            del values[plant.v]
        tape.write(list(values), list(values.values()))
        if method.project_every and plant.coordinates.constraint_names:  # rounding
            project = trace(lambda q: {"q": plant.coordinates.project(q)}, {"q": (plant.nq,)}, name="project")
            tape.call(project, (plant.q,), (plant.q,), method.project_every)
        if plant.projection is not None and not method.enforces_constraints:  # back onto them
            ends = plant.project(slots.read(plant.q), slots.read(plant.v))
            tape.write([plant.q, plant.v], [tape.value(x, "end") for x in ends])
        lasting = [
            slot
            for slot in (memory, self._watch(tape), plant.ledger, plant.law_failure)
            if slot is not None and slot not in values
        ]
        return [*values, *lasting]

    def _law_failure(self, tape: Tape) -> None:
        """Keep what the law said of itself in this step."""
        plant = self.plant
        if plant.law_failure is None:
            return
        status = self.channels[STATUS] if self.sampled else plant.status
        if status is not None:
            tape.call(
                keep_failure(plant.nq, self.integrator.chooses_step),
                (plant.q, status, plant.law_failure),
                (plant.law_failure,),
            )

    def _watch(self, tape: Tape) -> Slot | None:
        """Look whether what the motion keeps has jumped in this step."""
        plant = self.plant
        if plant.watch is None or plant.watched is None:
            return None
        power = plant.power if plant.control.kind != "continuous" else None
        slots = {"q": plant.q, "v": plant.v, "p": plant.parameters, "h": plant.size, "u": plant.u, "work": plant.work}
        if plant.dynamics.has_time:
            slots["p"] = tape.value(plant.p_at(1.0, moved=True), "p end").slot
        function = watch(plant.dynamics, plant.watched, power, plant.work)
        inputs = [slot for name in function.inputs if (slot := slots.get(name)) is not None]
        tape.call(function, (*inputs, plant.watch), (plant.watch,))
        return plant.watch

    def _ledger(self, tape: Tape) -> None:
        """Enter the state at the start of the step in the ledger."""
        plant = self.plant
        if plant.ledger is None:
            return
        paid = plant.paid
        inputs = [plant.q, plant.v, self._now(tape), plant.clock]
        if paid is not None and plant.exchanged is not None:
            inputs += [paid, plant.exchanged]
        function = ledger(plant.dynamics, 0 if paid is None else paid.shape[0])
        tape.call(function, (*inputs, plant.ledger), (plant.ledger,))

    def _record(self, state: list[Slot]) -> list[Slot]:
        plant = self.plant
        for name in self.integrator.records:
            if name not in plant.carried:
                raise unknown_name("entry of carries to record", name, plant.carried)
        own = [plant.carried[name] for name in self.integrator.records]
        if self.integrator.chooses_step:
            return own
        parts = (plant.q, plant.v, plant.u, plant.memory, plant.work, *own, *self.channels.values())
        lasting = (*state, self.event_values) if self.events is not None else ()
        return list(dict.fromkeys(slot for slot in (*parts, *lasting) if slot is not None))

    def _notes(self) -> dict[str, Any]:
        plant, name = self.plant, self.plant.slots.name

        def maybe(slot: Slot | None) -> str | None:
            return None if slot is None else name(slot)

        terminals = Terminals(
            q=name(plant.q),
            v=name(plant.v),
            u=name(plant.u),
            p=name(plant.parameters),
            h=name(plant.size),
            memory=maybe(plant.memory),
            gains=maybe(plant.gains),
            work=maybe(plant.work),
            flow=maybe(plant.flow),
            watch=maybe(plant.watch),
            ledger=maybe(plant.ledger),
            exchanged=maybe(plant.exchanged),
            law_failure=maybe(plant.law_failure),
            events=maybe(self.event_values),
            own={label: name(slot) for label, slot in plant.carried.items()},
            given={label: name(slot) for label, slot in plant.given.items()},
            signals=tuple((c, name(slot)) for c, slot in plant.signals.items()),
            channels={label: name(slot) for label, slot in self.channels.items()}
            | {
                label: name(plant.carried[label])
                for label in self.integrator.records
                if label != "residual" and not self.integrator.chooses_step
            },
            accounts=tuple(name(slot) for slot in plant.accounts),
            rests=tuple(name(slot) for slot in plant.rests),
        )
        return asdict(terminals)
