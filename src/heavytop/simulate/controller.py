"""The protocol of controllers that run inside the native time loop.

A controller is any object with these members; no base class is needed, and only ``traced`` must be there. One that is
a value (:mod:`heavytop.functions`) is traced once for a model; a global variable that its functions read is frozen then. Any other object
is traced for every run.

``traced(model)``
    A :class:`~heavytop.compile.Traced` function. Its inputs are any of the names below, in any order; its first output
    is ``u`` (nu,). Further outputs are recorded as channels under their names.

    ========== ======= =====================================================
    ``t``      ()      time in s
    ``q``      (nq,)   configuration
    ``v``      (nv,)   velocity coordinates
    ``signal`` (m,)    sample of the reference signal
    ``p``      (np,)   parameters of the model
    ``z``      (s,)    memory of the law (integral action, filters, delays)
    ``gains``  (g,)    numbers of the law that a run may change
    ========== ======= =====================================================

``signal_size`` and ``signal(times)``
    m, and the samples (len(times), *batch, m) of the reference; needed only if the function takes ``signal``.
``state_size`` and ``initial_state()``
    s, and the first memory (*batch, s); needed only if the function takes ``z``. A sampled law outputs ``z_next`` (s,),
    a continuous one ``z_rate`` (s,).
``tunable_gains``
    Name -> value of numbers that are inputs of the function (all of them in order, flattened), needed only if it takes ``gains``:
    ``simulate(..., gains=...)`` changes them without new code, and a gradient with respect to them is available.
``sampled(period)``
    Optional: the law for the period in s at which it is sampled here, None if it is evaluated continuously. Called before
    ``traced``, so that a memory with rates can be given as ``z_next``.
``causes``
    Optional: a law that has no input for some states reports it by an output ``status`` (): 0, or k for its k-th cause, whose text is
    ``causes[k - 1]``. The trajectory ends there with the outcome ``controller_failed``.
    It may also report by an output ``lost`` (), in the same way, that it has given up; the trajectory goes on, and one that ends so has
    the outcome ``lost``.
``host``
    Optional: what answers in Python at every sample, for a controller that cannot be traced as a whole (:class:`Host`).
``signal_names``
    Optional: name and unit of each entry of the signal that is a setting where it is constant (a gain, a set point), for the sliders of live
    pages; empty texts for the others.
``with_reference(reference)``
    The law for another reference; needed only for ``simulate(..., reference=...)``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np

from heavytop._arrays import Array, concatenate, constant, is_symbolic, numbers, split, symbol, vector
from heavytop._format import Brief
from heavytop.compile import Kernel, Shape, Traced, on_symbols, trace, trace_of
from heavytop.errors import ShapeError, SimulationError, unknown_name
from heavytop.functions import Value, key, store

ARGUMENTS = ("t", "q", "v", "signal", "p", "z", "gains", "contacts")
"""Names a traced law may take."""
MEMORY_OUTPUTS = ("z_next", "z_rate")
RESERVED = ("z", "residual")
"""Channels that the run itself records."""
STATUS = "status"
"""Output of a law that has no input at some states."""
LOST = "lost"
"""Output of a law that may give up."""


@runtime_checkable
class Controller(Protocol):
    """The members of a controller that a simulation uses; :func:`complete` adds those that a simple controller omits.

    Attributes
    ----------
    signal_size : m, length of a sample of its signal; 0: it takes none. state_size : s, length of its memory; 0: it has none.

    Examples
    --------
    >>> import heavytop as ht
    >>> isinstance(ht.Feedback(lambda v: -v, ("v",)), Controller)
    True
    """

    @property
    def signal_size(self) -> int: ...

    @property
    def state_size(self) -> int: ...

    def traced(self, model: Any) -> Traced:
        """Inputs: some of t (), q (nq,), v (nv,), signal (m,), p (np,), z (s,). Outputs: u (nu,), then z_next or z_rate (s,), channels."""
        ...

    def signal(self, times: np.ndarray) -> np.ndarray:
        """Samples (len(times), *batch, m)."""
        ...

    def initial_state(self) -> np.ndarray:
        """The memory at the start (*batch, s)."""
        ...


@dataclass(frozen=True, eq=False)
class _Completed:
    """A controller with only some of the members."""

    law: Any

    def __repr__(self) -> str:
        return repr(self.law)

    @property
    def signal_size(self) -> int:
        return int(getattr(self.law, "signal_size", 0))

    @property
    def state_size(self) -> int:
        return int(getattr(self.law, "state_size", 0))

    def traced(self, model: Any) -> Traced:
        return self.law.traced(model)

    def sampled(self, period: float | None) -> _Completed:
        made = self.law.sampled(period) if hasattr(self.law, "sampled") else self.law
        return self if made is self.law else _Completed(made)

    def signal(self, times: np.ndarray) -> np.ndarray:
        return self.law.signal(times) if self.signal_size else np.zeros((len(times), 0))

    def initial_state(self) -> np.ndarray:
        return np.asarray(self.law.initial_state(), dtype=float) if self.state_size else np.zeros(0)

    @property
    def causes(self) -> tuple[str, ...]:
        return tuple(getattr(self.law, "causes", ()))

    @property
    def tunable_gains(self) -> Mapping[str, Any]:
        return gains_of(self.law)

    @property
    def host(self) -> Any:
        return getattr(self.law, "host", None)


def gains_of(law: Any) -> dict[str, np.ndarray]:
    """Name -> value of the gains of a controller; empty if it has none.

    >>> gains_of(Feedback(lambda v, gains: -gains["damping"] * v, ("v", "gains"), gains={"damping": 2.0}))
    {'damping': array(2.)}
    """
    given = getattr(law, "tunable_gains", None) or {}
    return {str(name): numbers(value, f"gain {name!r}") for name, value in given.items()}


def flat_gains(own: Mapping[str, np.ndarray], changed: Mapping[str, Any] | None, who: str) -> np.ndarray:
    """All gains of a controller as one vector (*batch, g), some of them changed.

    >>> flat_gains({"k": np.array(1.0), "d": np.zeros(2)}, {"k": 3.0}, "the law")
    array([3., 0., 0.])
    """
    parts = []
    for name in changed or {}:
        if name not in own:
            raise unknown_name(f"gain of {who}", name, own)
    for name, value in own.items():
        array = value if changed is None or name not in changed else numbers(changed[name], f"gain {name!r} of {who}")
        lead = array.ndim - value.ndim
        if lead < 0 or array.shape[lead:] != value.shape:
            raise ShapeError(f"gain {name!r} of {who} must have the shape (..., {value.shape}), got {array.shape}.")
        if not np.isfinite(array).all():
            raise SimulationError(f"gain {name!r} of {who} must be finite.")
        parts.append(array.reshape(*array.shape[:lead], value.size))
    if not parts:
        return np.zeros(0)
    batch = np.broadcast_shapes(*(part.shape[:-1] for part in parts))
    return np.concatenate([np.broadcast_to(part, (*batch, part.shape[-1])) for part in parts], axis=-1)


def split_gains(own: Mapping[str, np.ndarray], flat: Array) -> dict[str, Array]:
    """The inverse of :func:`flat_gains`, on numbers and symbols: name -> value in its shape.

    >>> split_gains({"k": np.array(1.0), "d": np.zeros(2)}, np.arange(3.0))
    {'k': array(0.), 'd': array([1., 2.])}
    """
    parts = split(flat, [value.size for value in own.values()])
    if is_symbolic(flat):
        return {n: np.reshape(x, own[n].shape) if own[n].ndim else x[0] for n, x in zip(own, parts, strict=True)}
    return {n: x.reshape((*x.shape[:-1], *own[n].shape)) for n, x in zip(own, parts, strict=True)}


def complete(law: Any) -> Controller:
    """The controller itself, or one with the members that it leaves out.

    Raises
    ------
    SimulationError
        It has no method ``traced(model)``.

    Examples
    --------
    >>> import heavytop as ht
    >>> complete(ht.Feedback(lambda v: -v, ("v",))).state_size
    0
    """
    if isinstance(law, Controller):
        return law
    if not callable(getattr(law, "traced", None)):
        raise SimulationError(
            f"control must be a law with a method traced(model), got {type(law).__name__}. "
            'A function of (t, q, v) can be wrapped, ht.Feedback(function, ("t", "q", "v")), or be given as inputs=.'
        )
    return _Completed(law)


@dataclass(frozen=True, eq=False, repr=False)
class Feedback(Brief, Value):
    """A law from a function in NumPy notation.

    Parameters
    ----------
    function : called with the named ``arguments`` in order; returns ``u`` or a mapping of outputs, the first of which is
        ``u``.
    arguments : any of t, q, v, signal, p, z, gains, and contacts: the force (3,) in N on the body of each of :attr:`.Model.sensed_contacts`, world
        axes, one after the other; of rigid contacts the mean over the step before, of compliant ones the present one. For fixed steps.
    signal_size : m, if ``signal`` is among the arguments.
    samples : function of times (n,) that returns samples (n, m) of the signal.
    memory : initial memory (s,), if ``z`` is among the arguments.
    gains : name -> value of numbers that runs may change, if ``gains`` is among the arguments; the function is given them by name.

    Examples
    --------
    >>> import heavytop as ht
    >>> system = ht.System()
    >>> system.body("arm", joint=ht.Revolute("z"), inertia=ht.Inertia(1.0, com=(1, 0, 0)))
    >>> system.input("motor", ht.JointForce("arm"))
    >>> brake = Feedback(lambda v: -2.0 * v, ("v",))
    >>> run = ht.simulate(system.derive(), ([0.0], [1.0]), until=1.0, step=0.01, control=brake, hold="continuous")
    >>> float(run.v[-1, 0].round(4))
    0.1353
    """

    function: Callable[..., Array | Mapping[str, Array]]
    arguments: tuple[str, ...] = ("t", "q", "v")
    signal_size: int = 0
    samples: Callable[[np.ndarray], np.ndarray] | None = None
    memory: Any = field(default=())
    gains: Any = ()

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "gains", tuple((str(name), constant(value)) for name, value in dict(self.gains).items())
        )

    @property
    def tunable_gains(self) -> Mapping[str, Any]:
        """The gains by name."""
        return dict(self.gains)

    @property
    def state_size(self) -> int:
        """Size of the memory."""
        return np.shape(self.memory)[-1] if np.ndim(self.memory) else 0

    def initial_state(self) -> np.ndarray:
        """The first memory."""
        return np.asarray(self.memory, dtype=float)

    def signal(self, times: np.ndarray) -> np.ndarray:
        """Samples of the reference signal."""
        if not self.signal_size:
            return np.zeros((*np.shape(times), 0))
        if self.samples is None:
            raise SimulationError("this feedback takes a 'signal'; give samples=function of times to Feedback.")
        return np.asarray(self.samples(times), dtype=float)

    def traced(self, model: Any) -> Traced:
        """The function with the sizes of the model."""
        own = gains_of(self)
        shapes = argument_shapes(model, self.signal_size, self.state_size, sum(value.size for value in own.values()))
        if unknown := [name for name in self.arguments if name not in shapes]:
            raise unknown_name("argument of Feedback", str(unknown[0]), tuple(shapes))
        if "contacts" in self.arguments and shapes["contacts"] == (0,):
            raise SimulationError(
                f"Feedback takes 'contacts', but {getattr(model, 'name', 'this system')!r} has none. Add system.contact(...)."
            )
        wanted = {name: shapes[name] for name in self.arguments}

        def outputs(*values: Array) -> Mapping[str, Array]:
            given = [split_gains(own, x) if name == "gains" else x for name, x in zip(wanted, values, strict=True)]
            result = on_symbols(self.function, "Feedback", SimulationError)(*given)
            return result if isinstance(result, Mapping) else {"u": result}

        return trace(outputs, wanted, name="feedback")


def argument_shapes(model: Any, signal_size: int, state_size: int, gain_size: int = 0) -> dict[str, Shape]:
    """Shapes of everything a law may take."""
    return {
        "t": (),
        "q": (model.nq,),
        "v": (model.nv,),
        "signal": (signal_size,),
        "p": (len(model.parameter_names),),
        "z": (state_size,),
        "gains": (gain_size,),
        "contacts": (3 * len(getattr(model, "sensed_contacts", ())),),
        **{name: (size,) for name, size in getattr(model, "signals", ())},
    }


@dataclass(frozen=True, eq=False)
class BoundLaw:
    """A law checked against a model."""

    law: Controller
    traced: Traced
    signal_size: int
    state_size: int

    @property
    def takes(self) -> tuple[str, ...]:
        """Names of the inputs in order."""
        return tuple(self.traced.inputs)

    @property
    def channels(self) -> dict[str, Shape]:
        """Outputs that are recorded in addition to ``u``."""
        names = list(self.traced.outputs)[1:]
        return {name: self.traced.outputs[name] for name in names if name not in MEMORY_OUTPUTS}

    def need_no_contacts(self, where: str) -> None:
        """Raise an error if the law reads contact forces, which only fixed steps keep."""
        if "contacts" in self.takes:
            raise SimulationError(
                f"{type(self.law).__name__} takes 'contacts', the forces of contacts in the step before, which {where} does not have. Simulate it "
                "with a fixed step: integrator='moreau' for rigid contacts, 'ros2' or 'rkmk4' for compliant ones."
            )

    @cached_property
    def gains(self) -> dict[str, np.ndarray]:
        """Name -> value of the gains."""
        return gains_of(self.law) if "gains" in self.traced.inputs else {}

    @property
    def causes(self) -> tuple[str, ...]:
        """Texts of the statuses of the law, from 1 on."""
        return tuple(getattr(self.law, "causes", ()))

    @property
    def host(self) -> Any:
        """What answers in Python at every sample (:class:`Host`); None: the law is native code as a whole."""
        return getattr(self.law, "host", None)

    @cached_property
    def kernel(self) -> Kernel:
        """The law alone as native code."""
        return Kernel(self.traced)

    def signal(self, times: np.ndarray) -> np.ndarray:
        """Samples of the reference, checked."""
        samples = np.asarray(self.law.signal(times), dtype=float)
        if samples.ndim < 2 or samples.shape[0] != len(times) or samples.shape[-1] != self.signal_size:
            raise SimulationError(
                f"signal(times) of {self.law!r} must return an array ({len(times)}, ..., {self.signal_size}), "
                f"got {samples.shape}."
            )
        if not np.all(np.isfinite(samples)):
            late = times[np.argwhere(~np.isfinite(samples))[0, 0]]
            raise SimulationError(f"signal(times) of {self.law!r} is not finite at t = {late:g} s.")
        return samples

    def initial_state(self) -> np.ndarray:
        """The first memory (*batch, s)."""
        return np.asarray(self.law.initial_state(), dtype=float) if self.state_size else np.zeros(0)


def bind(law: Any, dynamics: Any, subject: Any, reference: Any, period: float | None) -> BoundLaw:
    """Check a law against the system it is to control, or find it checked.

    Parameters
    ----------
    dynamics : what is simulated (sizes).
    subject : the user's model, for which the law is traced.
    reference : passed to ``law.with_reference`` if given.
    period : seconds between samples, the memory must be given as ``z_next``; None: continuous, as ``z_rate``.
    """
    sampled = period is not None
    found = key(law, reference, None if period is None else float(f"{period:.12g}"), dynamics)
    return store.get(
        None if found is None else ("law", found),
        lambda: _bound(_ready(law, reference, period), dynamics, subject, sampled),
    )


def _ready(law: Any, reference: Any, period: float | None) -> Any:
    """The law with its reference and its period."""
    if reference is not None:
        if not hasattr(law, "with_reference"):
            raise SimulationError(
                f"{type(law).__name__} has no method with_reference(reference), so reference=... cannot be used with it. "
                "Give the reference to the law itself."
            )
        law = law.with_reference(reference)
    complete(law)
    return law.sampled(period) if hasattr(law, "sampled") else law


def _bound(law: Any, dynamics: Any, subject: Any, sampled: bool) -> BoundLaw:
    whole = complete(law)
    traced = whole.traced(subject)
    size = sum(value.size for value in gains_of(whole).values())
    shapes = argument_shapes(dynamics, whole.signal_size, whole.state_size, size)
    for name, shape in traced.inputs.items():
        if name not in shapes:
            raise SimulationError(
                f"a control law may take {', '.join(ARGUMENTS)}; {type(law).__name__} takes {name!r}."
            )
        if tuple(shape) != shapes[name]:
            raise SimulationError(
                f"{type(law).__name__} takes {name!r} of shape {tuple(shape)}; here it has shape {shapes[name]}."
            )
    first = next(iter(traced.outputs.items()), ("nothing", ()))
    if first != ("u", (dynamics.nu,)):
        raise SimulationError(
            f"the first output of a control law must be 'u' of shape ({dynamics.nu},), {type(law).__name__} gives "
            f"{first[0]!r} of shape {first[1]}."
        )
    memory = whole.state_size
    if sampled:
        needed, other, kind, remedy = "z_next", "z_rate", "sampled", "hold='continuous'"
    else:
        needed, other, kind, remedy = "z_rate", "z_next", "continuous", "hold='zero-order'"
    if memory and traced.outputs.get(needed) != (memory,):
        hint = f" It outputs {other!r}: simulate it with {remedy}." if other in traced.outputs else ""
        raise SimulationError(f"a {kind} law with memory must output {needed!r} of shape ({memory},).{hint}")
    if traced.outputs.get(STATUS, ()) != ():
        raise SimulationError(
            f"the output {STATUS!r} of {type(law).__name__} must be a number: 0 if the input is valid, else the number of its cause; it has "
            f"shape {traced.outputs[STATUS]}."
        )
    if taken := [name for name in traced.outputs if name in RESERVED]:
        raise SimulationError(f"the output {taken[0]!r} of {type(law).__name__} is a reserved channel name; rename it.")
    return BoundLaw(whole, traced, shapes["signal"][0], memory)


# --- hosts: controllers in Python ------------------------------------------------------------------------------------------
#
# Predictive control, for example, solves a program whose work depends on its data. Such a controller has a ``host``. Its traced function
# represents it: it passes the first entries of the signal on as inputs ``u`` and outputs the state it sees (:data:`SEEN`), so that wrappers
# change both as those of any law. At every sample the run evaluates the function, calls the host and writes its answer into the signal.

SEEN = ("seen_t", "seen_q", "seen_v")
"""Outputs of a function that represents a host: time, configuration and velocity given to the host."""

Session = Callable[[float, np.ndarray, np.ndarray], Any]


class Host(Protocol):
    """What answers outside of the native code.

    Attributes
    ----------
    answer_size : number of its inputs u, which are the first entries of the signal.
    """

    @property
    def answer_size(self) -> int: ...

    def sessions(self, count: int) -> list[Session]:
        """One function ``(t, q, v) -> u`` for each of ``count`` trajectories, each with a fresh memory."""
        ...


class Hosted:
    """The hosts of one run.

    Parameters
    ----------
    law : whose function represents a host. count : trajectories.
    """

    def __init__(self, law: BoundLaw, count: int) -> None:
        self.law, self.size = law, law.host.answer_size
        self.sessions: list[Session] = law.host.sessions(count)

    def answers(self, values: Mapping[str, Any]) -> np.ndarray:
        """The answers of the hosts (*batch, size), which are the first entries of the signal.

        Parameters
        ----------
        values : the arguments of the function by name, with batch axes where they have some; ``signal`` among them.
        """
        law = self.law
        seen = dict(zip(law.traced.outputs, law.kernel(*(values[name] for name in law.takes)), strict=True))
        t, q, v = (seen[name] for name in SEEN)
        lead = np.shape(values["q"])[:-1]
        if not lead:
            return self._checked(self.sessions[0](float(t), q, v), float(t))
        times = np.broadcast_to(t, lead).reshape(-1)
        q, v = (np.broadcast_to(x, (*lead, x.shape[-1])).reshape(-1, x.shape[-1]) for x in (q, v))
        answers = np.empty((len(times), self.size))
        for k, ask in enumerate(self.sessions):
            answers[k] = self._checked(ask(float(times[k]), q[k], v[k]), float(times[k]))
        return answers.reshape(*lead, self.size)

    def _checked(self, answer: Any, t: float) -> np.ndarray:
        u = answer if type(answer) is np.ndarray else numbers(answer, f"the answer of {self.law.law!r} at t = {t:g} s")
        if u.shape != (self.size,):
            raise ShapeError(f"{self.law.law!r} must answer with ({self.size},) inputs, got {u.shape} at t = {t:g} s.")
        if not np.all(np.isfinite(u)):
            raise SimulationError(f"the answer of {self.law.law!r} is not finite at t = {t:g} s: {u}.")
        return u


def hosted(law: BoundLaw, count: int) -> Hosted | None:
    """The hosts of a run of ``count`` trajectories; None for a law that is native code as a whole."""
    return None if law.host is None else Hosted(law, count)


# --- status of a law ---------------------------------------------------------------------------------------------------------
#
# A law may output ``status`` (): 0 where its input is valid, k where its k-th cause prevents one; the texts are ``causes`` of the law. The first
# status that is not zero is kept in the native loop with the configuration at the start of that step, and a NaN in a part of the state that nothing
# else reads ends the trajectory. A method that may reject steps sets none: the last failure counts if the step size vanishes there.

CODE, ALARM, HEAD = range(3)
"""Entries of a failure: the status, 0 or NaN, then the configuration."""


@dataclass(frozen=True)
class LawFailure:
    """What a law said of one trajectory: which of its causes (from 1 on) and the configuration (nq,)."""

    cause: int
    q: np.ndarray

    @classmethod
    def of(cls, row: np.ndarray) -> LawFailure | None:
        """From the numbers of one trajectory; None if the law had nothing to say."""
        return cls(round(float(row[CODE])), row[HEAD:]) if row[CODE] > 0 else None

    def text(self, causes: Sequence[str]) -> str:
        """The cause as text."""
        return reason(causes, self.cause)


def reason(causes: Sequence[str], code: float) -> str:
    """The text of a status.

    >>> reason(("the motor is too weak",), 1.0)
    'the motor is too weak'
    """
    number = round(float(code))
    return causes[number - 1] if number <= len(causes) else f"status {number}"


@cache
def first_status() -> Traced:
    """(seen, status) -> seen, the first that is not zero: later stages start from what it left."""
    seen, status = symbol("seen"), symbol("status")
    fresh = np.logical_and(seen == 0.0, status > 0.0)
    return trace_of("first_status", {"seen": seen, "status": status}, {"seen": np.where(fresh, status, seen)})


def keep_failure(nq: int, rejects: bool) -> Traced:
    """(q, status, law_failure) -> law_failure, for a step that begins at ``q``; ``rejects``: the method may do the step again."""
    q, status, before = symbol("q", nq), symbol("status"), symbol("law_failure", HEAD + nq)
    failed = status > 0.0
    alarm = np.where(failed, 0.0 if rejects else np.nan, 0.0)
    fresh = failed if rejects else np.logical_and(failed, before[CODE] == 0.0)
    after = np.where(fresh, concatenate(vector(status, alarm), q), before)
    return trace_of("law_failure", {"q": q, "status": status, "law_failure": before}, {"law_failure": after})
