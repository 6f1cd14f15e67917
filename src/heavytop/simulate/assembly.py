"""Collects the functions, buffers and calls of one step: the plant as an integrator sees it.

Beside the configuration ``q`` on its manifold a step carries flat parts: ``v``, the memory ``z`` of a continuous law,
and the work done so far. Integrators treat all of them alike through :class:`Flat`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from heavytop._arrays import Array
from heavytop.compile import Call, Schedule, Traced, trace
from heavytop.compile.schedule import TIME
from heavytop.compile.signature import Shape
from heavytop.coordinates import Coordinates
from heavytop.simulate.dynamics import Dynamics
from heavytop.simulate.protocol import BoundLaw

CHANNEL = "channel:"
"""Prefix of the buffers that are recorded under a name of the user's choice."""


@dataclass(frozen=True)
class Flat:
    """A part of the state that is a plain vector: its buffer, its size, and the stem of its rate buffers."""

    name: str
    size: int

    @property
    def rate(self) -> str:
        return f"{self.name}_rate"


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


class Plant:
    """The system to be stepped, and the growing list of what a step needs.

    Attributes
    ----------
    coordinates : where ``q`` lives. nq, nv, nw : sizes of q, of v, and of the velocities of the coordinates' blocks.
    flats : the flat parts of the state, ``v`` first.
    clock : buffer of the time at the start of the step.
    nodes : stage times (fractions of the step) at which the reference signal is needed.
    """

    def __init__(self, dynamics: Dynamics, control: Control, balance: bool, clock: str = TIME) -> None:
        self.clock = clock
        self.dynamics, self.control, self.balance = dynamics, control, balance
        self.coordinates: Coordinates = dynamics.coordinates
        self.nq, self.nv, self.nw = dynamics.nq, dynamics.nv, dynamics.coordinates.nv
        self.functions: dict[str, Traced] = {"motion": dynamics.motion()}
        self.buffers: dict[str, Shape] = {
            "q": (self.nq,),
            "u": (dynamics.nu,),
            "p": (len(dynamics.parameter_names),),
            "h": (),
        }
        self.flats = [Flat("v", self.nv)]
        self.nodes: dict[float, str] = {}
        law = control.law
        if law is not None:
            self.functions["law"] = law.traced
            if law.state_size:
                self.buffers["z"] = (law.state_size,)
                if control.kind == "continuous":
                    self.flats.append(Flat("z", law.state_size))
        projection = dynamics.projection()
        if projection is not None:
            self.functions["constrain"] = projection
        power = dynamics.power() if balance else None
        if power is not None:
            self.functions["power"] = power
            self.flats.append(Flat("work", 2))
        for flat in self.flats:
            self.buffers[flat.name] = (flat.size,)

    # --- building blocks for integrators ------------------------------------------------------------------------------

    def function(
        self, name: str, fn: Callable[..., Mapping[str, Array]], inputs: Sequence[str], **shapes: Shape
    ) -> Call:
        """Trace ``fn`` on buffers ``inputs`` and return the call that writes the buffers it returns.

        Buffers it returns must be known, or be given by ``shapes``.
        """
        for buffer, shape in shapes.items():
            self.buffers[buffer] = shape
        traced = trace(fn, {label: self.buffers[label] for label in inputs}, name=name)
        self.functions[name] = traced
        return Call(name, tuple(inputs), tuple(traced.outputs))

    def rates(self, tag: str, node: float, q: str = "q", flats: Mapping[str, str] | None = None) -> list[Call]:
        """Calls that evaluate the motion at a stage and write ``w{tag}`` and the rates ``{flat}_rate{tag}``.

        Parameters
        ----------
        tag : suffix of the buffers.
        node : time of the stage as a fraction of the step.
        q, flats : buffers of the stage; the state itself if not given.
        """
        at = {flat.name: (flats or {}).get(flat.name, flat.name) for flat in self.flats}
        calls, u = self.input_at(tag, node, q, at)
        motion = self.functions["motion"]
        extra = list(motion.outputs.items())[2:]
        for name, shape in (
            (f"w{tag}", (self.nw,)),
            (f"v_rate{tag}", (self.nv,)),
            *((f"{label}~", s) for label, s in extra),
        ):
            self.buffers[name] = tuple(shape)
        outputs = (f"w{tag}", f"v_rate{tag}", *(f"{label}~" for label, _ in extra))
        calls.append(Call("motion", (q, at["v"], u, "p"), outputs))
        if "power" in self.functions:
            self.buffers |= {"input_power~": (), "dissipated_power~": (), f"work_rate{tag}": (2,)}
            calls.append(Call("power", (q, at["v"], u, "p"), ("input_power~", "dissipated_power~")))
            calls.append(self._pair(f"work_rate{tag}"))
        return calls

    def _pair(self, target: str) -> Call:
        from heavytop._arrays import vector

        if "pair" not in self.functions:
            self.functions["pair"] = trace(lambda a, b: vector(a, b), {"a": (), "b": ()}, name="pair")
        return Call("pair", ("input_power~", "dissipated_power~"), (target,))

    def input_at(self, tag: str, node: float, q: str, at: Mapping[str, str]) -> tuple[list[Call], str]:
        """Calls that compute the input at a stage, and its buffer."""
        law = self.control.law
        if law is None or self.control.kind != "continuous":
            return [], "u"
        calls: list[Call] = []
        sources = {"q": q, "v": at["v"], "p": "p", "z": at.get("z", "z")}
        if "signal" in law.takes:
            sources["signal"] = self.signal(node)
        if "t" in law.takes:
            sources["t"] = self.clock
            if node:
                sources["t"] = f"t@{node!r}"
                self.buffers[sources["t"]] = ()
                if sources["t"] not in self.functions:
                    self.functions[sources["t"]] = trace(
                        lambda t, h: t + node * h, {"t": (), "h": ()}, name="stage_time"
                    )
                calls.append(Call(sources["t"], (self.clock, "h"), (sources["t"],)))
        outputs = []
        for label, shape in law.traced.outputs.items():
            target = {"u": f"u{tag}", "z_rate": f"z_rate{tag}"}.get(label, f"{label}~")
            self.buffers[target] = tuple(shape)
            outputs.append(target)
        calls.append(Call("law", tuple(sources[name] for name in law.takes), tuple(outputs)))
        return calls, f"u{tag}"

    def signal(self, node: float) -> str:
        """The table of the reference signal at a stage time."""
        if node not in self.nodes:
            law = self.control.law
            self.nodes[node] = f"signal@{node!r}"
            self.buffers[self.nodes[node]] = (law.signal_size if law is not None else 0,)
        return self.nodes[node]


@dataclass(frozen=True)
class Method:
    """What an integrator adds to a plant.

    Attributes
    ----------
    advance : calls of one step; they end by writing the state.
    observe : calls that make ``q`` and ``v`` of a record, if they are not the state itself.
    state : further state buffers of the integrator.
    carries_v : whether ``v`` is state; otherwise ``observe`` computes it.
    """

    advance: Sequence[Call]
    observe: Sequence[Call] = ()
    state: Sequence[str] = ()
    carries_v: bool = True
    record: Sequence[str] = field(default=())


def schedule(plant: Plant, method: Method) -> Schedule:
    """The complete step: control, records, integration."""
    control, law = plant.control, plant.control.law
    state = ["q", *(f.name for f in plant.flats if f.name != "v" or method.carries_v), *method.state]
    record = ["q", "v", "u", *(f.name for f in plant.flats if f.name != "v"), *method.record]
    sample: list[Call] = []
    observe: list[Call] = list(method.observe)
    advance: list[Call] = list(method.advance)
    if "constrain" in plant.functions:  # back onto loops and constraints, least in the metric of the mass matrix
        advance.append(Call("constrain", ("q", "v", "p"), ("q", "v")))
    tables: list[str] = []
    channels: list[str] = []
    if control.kind == "table":
        tables.append("u")
    elif law is not None:
        sources = {"t": "time", "q": "q", "v": "v", "p": "p", "z": "z"}
        if "signal" in law.takes:
            sources["signal"] = plant.signal(0.0)
        names = {"z_rate": "z_rate~"} if control.kind == "continuous" else {}
        names |= {label: f"{CHANNEL}{label}" for label in law.channels}
        outputs = tuple(names.get(label, label) for label in law.traced.outputs)
        plant.buffers |= {name: tuple(s) for name, s in zip(outputs, law.traced.outputs.values(), strict=True)}
        call = Call("law", tuple(sources[name] for name in law.takes), outputs, control.every)
        channels = [f"{CHANNEL}{label}" for label in law.channels]
        if control.kind == "continuous":
            observe.append(call)
        else:
            sample += [*observe, call]  # a law may need what the integrator does not carry
            observe = []
            if law.state_size:  # the memory moves on with the step, so that a step may be sampled twice
                state.append("z")
                record.append("z")
                plant.functions["remember"] = trace(lambda z: {"z": z + 0}, {"z": (law.state_size,)}, name="remember")
                advance.insert(0, Call("remember", ("z_next",), ("z",), control.every))
    extra = list(plant.functions["motion"].outputs.items())[2:]
    if extra:
        names = [f"{CHANNEL}{label}" for label, _ in extra]
        plant.buffers |= {"w~": (plant.nw,), "a~": (plant.nv,)}
        plant.buffers |= {name: tuple(s) for name, (_, s) in zip(names, extra, strict=True)}
        observe.append(Call("motion", ("q", "v", "u", "p"), ("w~", "a~", *names)))
        channels += names
    return Schedule(
        plant.functions,
        plant.buffers,
        state,
        advance,
        sample,
        observe,
        constants=("p", "h"),
        tables=(*tables, *plant.nodes.values()),
        record=(*record, *channels),
    )
