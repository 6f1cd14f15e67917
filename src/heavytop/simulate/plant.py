"""The plant as an integrator sees it: states, rates, and how to get from one to the other.

With a state ``x = (q, v, ...)`` an integrator evaluates the rates at a stage and moves along them::

    k = plant.at(x, 0.0).rates
    x_new = plant.advance(x, k * h)

Besides the configuration ``q`` on its manifold a state has flat parts: ``v``, the memory of a continuous law, and the work done so
far. Rates have the velocities ``w`` of the coordinates' blocks and the rates of all flat parts, and are moved as a whole: no part can
be forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytop._arrays import Array, as_array, concatenate, is_symbolic, shape, vector
from heavytop.compile import TIME, Traced, trace, with_aside
from heavytop.coordinates import Coordinates
from heavytop.errors import SimulationError, unknown_name
from heavytop.simulate import controller, energy_monitor as watch
from heavytop.simulate.controller import BoundLaw
from heavytop.simulate.dynamics import Dynamics
from heavytop.simulate.tape import Slot, Slots, Tape, TapeValue

if TYPE_CHECKING:
    from heavytop.simulate.integrators.base import Integrator


@dataclass(frozen=True)
class Control:
    """How the input comes about.

    Attributes
    ----------
    kind : "table" (samples given from outside), "sampled" (a law, held for ``every`` steps) or "continuous" (a law,
        evaluated in every stage).
    law : None for tables.
    """

    kind: str
    law: BoundLaw | None = None
    every: int = 1


class Parts:
    """One value for every part of a state: the common ground of states and rates."""

    def __init__(self, plant: Plant, first: TapeValue, flats: Mapping[Slot, TapeValue]) -> None:
        self.plant, self._first, self._flats = plant, first, dict(flats)

    @property
    def v(self) -> Array:
        """The part that belongs to the velocities (nv,)."""
        return self.of(self.plant.v)

    def of(self, flat: Slot) -> Array:
        """The part that belongs to one of :attr:`Plant.flats`."""
        return self._flats[flat].get()


class PlantState(Parts):
    """A state of the plant.

    Attributes
    ----------
    q, v : configuration and velocities.
    own : what the integrator carries along by itself, by the names of :attr:`Integrator.carries`.
    """

    def __init__(
        self,
        plant: Plant,
        q: TapeValue,
        flats: Mapping[Slot, TapeValue],
        own: Mapping[str, TapeValue] | None = None,
        rests: Mapping[Slot, TapeValue] | None = None,
    ) -> None:
        super().__init__(plant, q, flats)
        self._own, self.rests = dict(own or {}), dict(rests or {})

    @property
    def q(self) -> Array:
        """The configuration (nq,)."""
        return self._first.get()

    @property
    def own(self) -> dict[str, Array]:
        """What the integrator carries along."""
        return {name: value.get() for name, value in self._own.items()}

    def keeping(self, **own: Array) -> PlantState:
        """The same state with new values of what the integrator carries along."""
        tape = self.plant.tape
        for name in own:
            if name not in self.plant.carried:
                raise unknown_name("entry of carries", name, self.plant.carried)
        return PlantState(
            self.plant,
            self._first,
            self._flats,
            self._own | {name: tape.value(value, name) for name, value in own.items()},
            self.rests,
        )

    def replaced(
        self,
        q: Array | None = None,
        v: Array | None = None,
        work: Array | None = None,
        memory: Array | None = None,
        flow: Array | None = None,
    ) -> PlantState:
        """The same state with some parts replaced."""
        plant, tape = self.plant, self.plant.tape
        parts = {plant.v: v, plant.work: work, plant.memory: memory, plant.flow: flow}
        flats = self._flats | {s: tape.value(x, s.role) for s, x in parts.items() if s is not None and x is not None}
        return PlantState(plant, self._first if q is None else tape.value(q, "q"), flats, self._own, self.rests)

    def values(self) -> dict[Slot, TapeValue]:
        """Slot -> new value of everything that lasts from step to step."""
        plant = self.plant
        result = {plant.q: self._first, **self._flats} | {plant.carried[name]: v for name, v in self._own.items()}
        return result | {plant.rest(flat): value for flat, value in self.rests.items()}

    @property
    def parts(self) -> list[Array]:
        """q and the flat parts in order."""
        return [self.q, *(self.of(flat) for flat in self.plant.flats)]


class Rates(Parts):
    """Rates of a state, or displacements along them: they can be added, and multiplied by numbers as in ``rates * h``."""

    @property
    def w(self) -> Array:
        """Velocities (nw,) of the coordinates' blocks."""
        return self._first.get()

    def replaced(self, v: Array) -> Rates:
        """The same rates but for those of v."""
        return Rates(self.plant, self._first, self._flats | {self.plant.v: self.plant.tape.value(v, "v rate")})

    def __add__(self, other: Rates) -> Rates:
        return self.plant.combine((1.0, 1.0), (self, other))

    def __sub__(self, other: Rates) -> Rates:
        return self.plant.combine((1.0, -1.0), (self, other))

    def __mul__(self, factor: Array | float) -> Rates:
        return self.plant.combine((factor,), (self,))

    def __truediv__(self, divisor: Array | float) -> Rates:
        return self * (1.0 / divisor)

    def __neg__(self) -> Rates:
        return self * -1.0

    __rmul__ = __mul__
    __array_ufunc__ = None  # a NumPy scalar on the left leaves the product to us

    def __float__(self) -> float:
        """Raise: a symbolic number on the left calls this, and cannot multiply rates."""
        raise TypeError("rates are multiplied from the right by symbols such as the step: write rates * h.")


class Stage:
    """The plant at a state and a time within the step; only what is used is computed."""

    def __init__(self, plant: Plant, state: PlantState, c: float | Array) -> None:
        self.plant, self.state, self.c = plant, state, c

    @property
    def u(self) -> Array:
        """The input (nu,)."""
        return self._input[0]

    @cached_property
    def p(self) -> Array:
        """The parameters (np,), with the time of this stage if it is among them."""
        return self.plant.p_at(self.c)

    @cached_property
    def _input(self) -> tuple[Array, Array | None]:
        return self.plant.input_at(self.state, self.c)

    @cached_property
    def rates(self) -> Rates:
        """Rates of the state."""
        plant, state = self.plant, self.state
        p = self.p
        u, z_rate = self._input
        if plant.flow is None:
            w, a = plant.motion_at(state.q, state.v, u, p)
            flats = {plant.v: a}
        else:
            w, a, *_, flow = plant.call(plant.motion_and_flow, state.q, state.v, u, p)
            flats = {plant.v: a, plant.flow: flow}
        if plant.memory is not None and z_rate is not None:
            flats[plant.memory] = z_rate
        if plant.work is not None:
            flats[plant.work] = vector(*self.power)
        return plant.rates(w, flats)

    @cached_property
    def power(self) -> tuple[Array, ...]:
        """Power of the inputs, dissipated power, and that of drivers if there are any, W."""
        plant, state = self.plant, self.state
        if plant.power is None:
            return as_array(0.0), as_array(0.0)
        return plant.call(plant.power, state.q, state.v, self.u, self.p)


class Plant:
    """The system to be stepped, on a tape.

    Attributes
    ----------
    coordinates : where ``q`` lives. nq, nv, nw : sizes of q, of v, and of the velocities of the coordinates' blocks.
    dynamics, control : what moves, and what drives it.
    q, v, u, memory, gains, work, flow, watch, ledger, size : slots of the state, the input, the gains and the size of the step; None for
        parts that are not there.
    flats : the flat parts of the state, ``v`` first.
    carried, given : name -> slot of what the integrator carries along, and of what the time loop gives it.
    signals : stage time (fraction of the step) -> slot of the sample of the reference.
    """

    def __init__(
        self, dynamics: Dynamics, control: Control, balance: bool, method: Integrator, watched: bool = False
    ) -> None:
        self.slots = Slots()
        self.tape = Tape(self.slots)
        make = self.slots.make
        self.dynamics, self.control, self.name = dynamics, control, dynamics.name
        self.coordinates: Coordinates = dynamics.coordinates
        self.nq, self.nv, self.nw = dynamics.nq, dynamics.nv, dynamics.coordinates.nv
        self.stage = dynamics.stage()
        self.motion: Traced = dynamics.motion() if self.stage is None else self.stage[0]
        self.projection = dynamics.projection()
        self.power = dynamics.power()
        self.q, self.v = make("q", (self.nq,)), make("v", (self.nv,))
        self.u, self.parameters = make("u", (dynamics.nu,)), make("p", (len(dynamics.parameter_names),))
        self.size, self.time = make("h"), make("time", name=TIME)
        law = control.law
        self.memory = make("z", (law.state_size,)) if law is not None and law.state_size else None
        takes = () if law is None else law.takes
        self.gains = make("gains", law.traced.inputs["gains"]) if law is not None and "gains" in takes else None
        self.work = make("work", (len(self.power.outputs),)) if balance and self.power is not None else None
        kept = dynamics.kept() if method.carries_velocity else None
        reported = self.power is None or self.work is not None or (self.is_constrained and len(self.power.outputs) > 2)
        self.watched = kept if reported else None
        self.watch = make("watch", (watch.size(self.watched),)) if self.watched is not None else None
        known = watched and method.integrates_work and dynamics.is_balanced
        self.flow: Slot | None = None
        if known and self.power is not None and self.work is None and self.stage is None and not method.chooses_step:
            self.flow = make("flow", (len(self.power.outputs),))
            self.motion_and_flow = with_aside(self.motion, watch.flow(self.power))
        known = known and (self.power is None or self.work is not None or self.flow is not None)
        self.ledger = make("ledger", (watch.LEDGER,)) if known else None
        self.paid = self.work or self.flow
        self.exchanged = make("exchanged", (1,)) if self.ledger is not None and self.paid is not None else None
        reported = law is not None and controller.STATUS in law.traced.outputs
        self.law_failure = make("law_failure", (controller.HEAD + self.nq,)) if reported else None
        self.status = make("status") if reported else None
        flats = (self.v, self.memory if control.kind == "continuous" else None, self.work, self.flow)
        self.flats: tuple[Slot, ...] = tuple(slot for slot in flats if slot is not None)
        self.method = type(method).__name__
        self.carried = {name: make(name, size) for name, size in method.carries(self).items()}
        self.given = {name: make(name, size) for name, size in method.given().items()}
        self.clock = self.time if method.clock is None else self.carried[method.clock]
        self.signals: dict[float, Slot] = {}
        self._rests: dict[Slot, Slot] = {}
        self._times: dict[float, Traced] = {}

    @property
    def is_constrained(self) -> bool:
        """Whether there are loops or velocity constraints."""
        return self.projection is not None or self.nw != self.nv

    @property
    def p(self) -> Array:
        """The parameters; the time among them, if it is there, is that of the start of the run."""
        return self.slots.read(self.parameters)

    def p_at(self, c: float | Array, moved: bool = False) -> Array:
        """The parameters with the time ``c`` of the step after its start; if the step has ``moved`` on, its own clock has too."""
        if not self.dynamics.has_time:
            return self.p
        time = self._time(0.0 if moved and self.clock is not self.time else c)
        others = self.p[: shape(self.p)[0] - 1]
        return self.kept(concatenate(others, np.reshape(time, (1,))))[0]

    @property
    def h(self) -> Array:
        """The size of the step."""
        return self.slots.read(self.size)

    def need_group(self) -> Coordinates:
        """The coordinates; raises if they are no group."""
        if not self.coordinates.is_group:
            raise SimulationError(
                f"{self.method} moves along one-parameter groups, but {self.coordinates!r} is not a Lie group. "
                "Use integrator='projected_rk4' (or 'energy_momentum' if the energy must be kept)."
            )
        return self.coordinates

    def given_symbol(self, name: str) -> Array:
        """A number that the time loop gives to the integrator."""
        return self.slots.read(self.given[name])

    def set_size(self, h: Array) -> Array:
        """Choose the size of this step, before its first stage."""
        self.tape.write([self.size], [self.tape.value(h, "h")])
        return self.h

    # --- states and rates -------------------------------------------------------------------------------------------------

    def state(self) -> PlantState:
        """The state at the start of the step."""
        tape, read = self.tape, self.slots.read
        flats = {flat: tape.value(read(flat), flat.role) for flat in self.flats}
        own = {name: tape.value(read(slot), name) for name, slot in self.carried.items()}
        return PlantState(self, tape.value(read(self.q), "q"), flats, own)

    def at(self, state: PlantState, c: float | Array) -> Stage:
        """The plant at a state, ``c`` of the step after its start: a law and a reference see that time.

        A ``c`` that differs between trajectories is the time of the law, while its reference is that of the middle of the step.
        """
        return Stage(self, state, c if is_symbolic(c) else float(c))

    def rates(self, w: Array, flats: Mapping[Slot, Array]) -> Rates:
        """Rates of which every part is given."""
        if missing := [flat.role for flat in self.flats if flat not in flats]:
            raise SimulationError(
                f"rates of {self.name!r} need a part for each of its flat parts; {missing[0]!r} is missing."
            )
        if others := [slot.role for slot in flats if slot not in self.flats]:
            raise SimulationError(
                f"rates of {self.name!r} were given a part for {others[0]!r}, but {others[0]!r} is not a flat part; "
                f"these are {', '.join(repr(flat.role) for flat in self.flats)}."
            )
        sizes = [("w", w, (self.nw,)), *((flat.role, flats[flat], flat.shape) for flat in self.flats)]
        for role, part, size in sizes:
            if shape(part) != size:
                raise SimulationError(f"the rate of {role} of {self.name!r} must have shape {size}, got {shape(part)}.")
        values = {flat: self.tape.value(flats[flat], f"{flat.role} rate") for flat in self.flats}
        return Rates(self, self.tape.value(w, "w"), values)

    def combine(self, weights: Sequence[Array | float], rates: Sequence[Rates]) -> Rates:
        """The sum of weights times rates; weights that are the number zero are left out."""
        if any(not (isinstance(a, int | float) and a == 0) for a in weights[len(rates) :]):
            raise SimulationError(f"a sum of rates got {len(weights)} weights for {len(rates)} rates.")
        used = [(a, k) for a, k in zip(weights, rates, strict=False) if not (isinstance(a, int | float) and a == 0)]
        if not used and not rates:
            raise SimulationError("a sum of rates needs at least one of them.")
        used = used or [(0.0, rates[0])]
        self._check_own(*(k for _, k in used))
        factors, terms = [a for a, _ in used], [k for _, k in used]
        flats = {flat: weighted(factors, [k.of(flat) for k in terms]) for flat in self.flats}
        return self.rates(weighted(factors, [k.w for k in terms]), flats)

    def _check_own(self, *rates: Rates) -> None:
        for k in rates:
            if not isinstance(k, Rates) or k.plant is not self:
                found = "rates of another plant" if isinstance(k, Rates) else repr(k)
                raise SimulationError(f"a step of {self.name!r} must move along the rates of its plant, got {found}.")

    def displacement(self, h: Array, weights: Sequence[float], rates: Sequence[Rates]) -> Rates:
        """``h sum(weights rates)``: a line of a tableau."""
        return self.combine([h * a if a else 0.0 for a in weights], rates)

    def pulled_back(self, theta: Rates, rates: Rates, exact: bool = True) -> Rates:
        """``T^-1(theta) w``: the velocities of theta where ``q o exp(theta)`` has the velocities ``w``; flat parts as they are.

        If not ``exact``, T^-1 is cut after its second bracket, which is enough up to order four.
        """
        c = self.need_group()
        inverse = c.tangent_inverse if exact else c.tangent_inverse_truncated
        return self.rates(inverse(theta.w, rates.w), {flat: rates.of(flat) for flat in self.flats})

    def retract(self, state: PlantState, delta: Rates) -> PlantState:
        """The state moved by ``delta``: ``q o exp(delta)``, flat parts by addition."""
        return self.moved(state, self.need_group().retract(state.q, delta.w), delta)

    def moved(self, state: PlantState, q: Array, delta: Rates) -> PlantState:
        """The state with another configuration, its flat parts moved by ``delta``."""
        self._check_own(delta)
        place = self.tape.value(q, "q")
        flats = {flat: self.tape.value(state.of(flat) + delta.of(flat), flat.role) for flat in self.flats}
        return PlantState(self, place, flats, state._own, state.rests)

    def advance(self, state: PlantState, delta: Rates, q: Array | None = None) -> PlantState:
        """The end of the step: ``state`` moved by ``delta``, and what rounding cuts off the sums is kept for the next step.

        Kahan's summation of the flat parts. The differences of sum and summand are a function of their own, as they are to be
        computed, not simplified.
        """
        self._check_own(delta)
        tape, read = self.tape, self.slots.read
        moved = self.need_group().retract(state.q, delta.w) if q is None else q
        end = tape.value(moved, "q")
        sums, news, summed = {}, {}, [flat for flat in self.flats if flat is not self.flow]
        if self.flow is not None:  # rounding does not matter there
            news[self.flow] = tape.value(state.of(self.flow) + delta.of(self.flow), "flow")
        for flat in summed:
            rest = state.rests[flat].get() if flat in state.rests else read(self.rest(flat))
            whole = delta.of(flat) + rest
            news[flat] = tape.value(state.of(flat) + whole, flat.role)
            sums[flat] = tape.value(whole, flat.role)
        tape.cut()
        rests = {flat: sums[flat].get() - (news[flat].get() - state.of(flat)) for flat in summed}
        return PlantState(self, end, news, state._own, {flat: tape.value(x, flat.role) for flat, x in rests.items()})

    def chosen(self, condition: Array, one: PlantState, other: PlantState) -> PlantState:
        """``one`` where the condition holds, else ``other``."""
        pairs = {flat: np.where(condition, one.of(flat), other.of(flat)) for flat in self.flats}
        flats = {flat: self.tape.value(x, flat.role) for flat, x in pairs.items()}
        return PlantState(self, self.tape.value(np.where(condition, one.q, other.q), "q"), flats, one._own, one.rests)

    def rest(self, flat: Slot) -> Slot:
        """Where the rest of the sums of a flat part is kept."""
        if flat not in self._rests:
            self._rests[flat] = self.slots.make(f"rest of {flat.role}", flat.shape)
        return self._rests[flat]

    @property
    def accounts(self) -> list[Slot]:
        """Slots of the work, the flow and the energy exchanged, and of what rounding cuts off their sums."""
        sums = [slot for slot in (self.work, self.flow, self.exchanged) if slot is not None]
        return [*sums, *(self._rests[slot] for slot in sums if slot in self._rests)]

    @property
    def rests(self) -> tuple[Slot, ...]:
        """All slots of rests that are used so far."""
        return tuple(self._rests.values())

    # --- functions of their own, iterations -------------------------------------------------------------------------------

    def call(self, function: Traced, *arguments: Array) -> tuple[Array, ...]:
        """Call a traced function; code of the same function is shared by all calls."""
        return self.tape.call(function, arguments)

    def changed(self, function: Traced, changed: Sequence[Array], *arguments: Array) -> tuple[Array, ...]:
        """Call a function that gives results of an earlier call new values where its last argument, ``near``, is not zero."""
        outputs = [slot for x in changed if (slot := self.slots.slot_of(x)) is not None]
        return self.tape.call(function, arguments, outputs, when=len(arguments) - 1)

    def motion_at(self, q: Array, v: Array, u: Array, p: Array) -> tuple[Array, Array]:
        """Velocities of the coordinates' blocks and accelerations; ``p`` as of :meth:`p_at`."""
        w, a, *more = self.call(self.motion, q, v, u, p)
        if self.stage is not None:
            w, a = self.changed(self.stage[1], (w, a), q, v, u, p, w, a, more[0])
        return w, a

    def project(self, q: Array, v: Array) -> tuple[Array, Array]:
        """The state nearest to loops and constraints at the end of the step, least in the metric of the mass matrix."""
        if self.projection is None:
            return q, v
        p = self.p_at(1.0, moved=True)
        q_new, v_new, near = self.call(self.projection[0], q, v, p)
        (v_new,) = self.changed(self.projection[1], (v_new,), q_new, v, p, v_new, near)
        return q_new, v_new

    def cut(self) -> None:
        """End the function that collects the formulas: what follows is another one, and reads what was computed so far."""
        self.tape.cut()

    def kept(self, *arrays: Array) -> list[Array]:
        """The same arrays, computed here once for all that is computed later."""
        values = [self.tape.value(x, "kept") for x in arrays]
        slots = [value.slot for value in values]
        self.tape.cut()
        return [self.slots.read(slot) for slot in slots]

    def repeat(
        self,
        times: int,
        body: Callable[..., Sequence[PlantState | Array]],
        *start: PlantState | Array,
        ends: bool = False,
    ) -> list[Any]:
        """Apply ``body`` several times to states and arrays, which it takes and returns in the same order.

        What the body returns beyond that are arrays that are wanted of the last round. If it ``ends`` by itself, the first array is a number
        that is not zero once it has: the body must then leave everything as it is (:meth:`.Tape.repeat`).
        """
        kinds = [len(x.parts) if isinstance(x, PlantState) else 0 for x in start]
        own = next((x._own for x in start if isinstance(x, PlantState)), {})
        parts = ["q", *(flat.role for flat in self.flats)]

        def pack(items: Sequence[PlantState | Array]) -> list[Array]:
            return [part for x in items for part in (x.parts if isinstance(x, PlantState) else [x])]

        def unpack(arrays: Sequence[Array]) -> list[Any]:
            rest, items = list(arrays), []
            for n in kinds:
                taken = [rest.pop(0) for _ in range(n or 1)]
                items.append(self._state_of(taken, own) if n else taken[0])
            return items + rest

        roles = [role for n in kinds for role in (parts if n else ["iterated"])]
        packed = self.tape.repeat(times, lambda *arrays: pack(body(*unpack(arrays))), pack(start), roles, ends=ends)
        return unpack(packed)

    def _state_of(self, parts: Sequence[Array], own: Mapping[str, TapeValue]) -> PlantState:
        values = [self.tape.value(x, "part") for x in parts]
        return PlantState(self, values[0], dict(zip(self.flats, values[1:], strict=True)), own)

    # --- inputs -----------------------------------------------------------------------------------------------------------

    def input_at(self, state: PlantState, c: float | Array) -> tuple[Array, Array | None]:
        """The input at a stage, and the rate of the law's memory if it has one."""
        law = self.control.law
        if law is None or self.control.kind != "continuous":
            return self.slots.read(self.u), None
        results = self.call(law.traced, *self.law_arguments(law, state, c))
        outputs = dict(zip(law.traced.outputs, results, strict=True))
        if self.status is not None:  # in a separate slot, so that rounds of a repetition add to it
            self.tape.call(controller.first_status(), (self.status, outputs[controller.STATUS]), (self.status,))
        return outputs["u"], outputs.get("z_rate")

    def law_arguments(self, law: BoundLaw, state: PlantState, c: float | Array) -> list[Array]:
        """The arguments of a law at a stage."""
        p = self.p_at(c) if {"p", "contacts"} & set(law.takes) else self.p
        sources: dict[str, Callable[[], Array]] = {
            "t": lambda: self._time(c),
            "q": lambda: state.q,
            "v": lambda: state.v,
            "signal": lambda: self.slots.read(self.signal(c if isinstance(c, float) else 0.5)),
            "p": lambda: p,
            "gains": lambda: self.slots.read(self.gains),  # type: ignore
            "contacts": lambda: self.contact_forces(state, p),
            "z": lambda: state.of(self.memory) if self.memory in self.flats else self.slots.read(self.memory),  # type: ignore
        }
        return [sources[name]() for name in law.takes]

    def contact_forces(self, state: PlantState, p: Array) -> Array:
        """Forces (3 n,) of contacts that laws read: rigid ones in the step before, compliant ones at the state."""
        function = self.dynamics.contact_sensor()
        rows = function.inputs["impulse"][0]
        impulse = state.own["impulse"] if "impulse" in self.carried else np.zeros(rows)
        return self.call(function, state.q, state.v, impulse, self.h, p)[0]

    def _time(self, c: float | Array) -> Array:
        """t + c h."""
        t = self.slots.read(self.clock)
        if not isinstance(c, float):
            return t + c * self.h
        if not c:
            return t
        if c not in self._times:
            self._times[c] = trace(lambda t, h: t + c * h, {"t": (), "h": ()}, name="stage_time")
        return self.call(self._times[c], t, self.h)[0]

    def signal(self, c: float) -> Slot:
        """The sample of the reference at a stage time."""
        if c not in self.signals:
            law = self.control.law
            self.signals[c] = self.slots.make("signal", (law.signal_size if law is not None else 0,))
        return self.signals[c]


def weighted(weights: Sequence[Array | float], rates: Sequence[Array]) -> Array:
    """Sum of weights * rates."""
    total = weights[0] * rates[0]
    for weight, rate in zip(weights[1:], rates[1:], strict=True):
        total = total + weight * rate
    return total
