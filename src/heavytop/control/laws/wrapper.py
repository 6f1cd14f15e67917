"""Controllers around a controller. A subclass of :class:`Wrapper` says only what it changes.

What an inner controller sees and what becomes of its inputs, a memory and a signal of one's own: everything else (sizes, memories side
by side, signals side by side, sampling, references, the parts of the plant that only the wrapper knows) is done here, once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytop._arrays import Array, Numbers, concatenate, shape, split, symbol
from heavytop.compile import Traced, trace_of
from heavytop.control.laws.base import REFERENCE, BaseController, check_sample_time
from heavytop.control.laws.law_checks import check_sizes
from heavytop.errors import ControlError, unknown_name
from heavytop.functions import Portable
from heavytop.simulate import ARGUMENTS, MEMORY_OUTPUTS, complete

if TYPE_CHECKING:
    from heavytop.control.references.reference import Reference


def signal_sizes(plant: Any) -> dict[str, int]:
    """Sizes of the signals of a plant by name; a model has none."""
    return dict(getattr(plant, "signals", ()))


@dataclass(frozen=True)
class Signals:
    """Named vectors that sensors and observers report to the controllers inside them, in addition to the state.

    A wrapper declares the signals it reports (``Wrapper.provides``, name -> size) and returns their values from ``Wrapper.seen``; a controller
    inside reads them from ``at.signals``. heavytop's own wrappers use these:

    ================== ===== ====================================================================== ====================
    name               size  meaning                                                                reported by
    ================== ===== ====================================================================== ====================
    ``accelerometer``  3     specific force in body axes, mean over the last sample, m/s^2          ``Sensed``
    ``rotor_speeds``   nu    measured rotor speeds, rad/s                                           ``Sensed``
    ``commands``       k nu  commanded levels 1, 2, ..., k samples ago                              ``CommandMemory``
    ``delay``, ``lag`` 1     identified delay of the measurements and lag of the actuators, s       ``Identified``
    ``levels``         nu    levels of the actuators at the time of the measurement                 ``RotorState``
    ``thrusts``        nu    mean thrusts over the sample before the measurement, N                 ``RotorState``
    ``thrust_scale``   1     true divided by assumed acceleration by the thrust                     ``ThrustScale``
    ``force``          3     unexplained acceleration in world axes, m/s^2                          ``ForceObserver``
    ``moment``         3     unexplained angular acceleration in body axes, rad/s^2                 ``MomentObserver``
    ``thrust_loss``    nu    lost share of the thrust of a single actuator                          ``ThrustLoss``
    ================== ===== ====================================================================== ====================

    Parameters
    ----------
    sizes : name -> size. symbol : the symbol (size,) of a name; reading a signal makes it an argument. reader : named in errors.

    Examples
    --------
    >>> import numpy as np
    >>> signals = Signals({"force": 3}, lambda name: np.ones(3), "Probe")
    >>> "force" in signals, signals["force"], signals.get("lag", 0.02)
    (True, array([1., 1., 1.]), 0.02)
    """

    sizes: Mapping[str, int]
    symbol: Callable[[str], Array]
    reader: str

    def __contains__(self, name: str) -> bool:
        return name in self.sizes

    def __getitem__(self, name: str) -> Array:
        if name not in self.sizes:
            raise ControlError(
                f"{self.reader} needs {name.replace('_', ' ')}, which nothing here provides: put it inside the sensor or observer that does."
            )
        return self.symbol(name)

    def get(self, name: str, default: Any) -> Array:
        """The signal (size,), or the default if nothing provides it."""
        return self.symbol(name) if name in self.sizes else default

    def number(self, name: str, default: Any) -> Array:
        """The entry of a signal of size one, or the default if nothing provides it."""
        return self.symbol(name)[0] if name in self.sizes else default


NOTHING = np.zeros(0)


Sizes = Any
"""A model, user-defined dynamics, or a :class:`PartialPlant`: name, nq, nv, nu, u_names, parameter_names."""


@dataclass(frozen=True)
class PartialPlant:
    """The plant as the controller inside a wrapper sees it.

    Attributes
    ----------
    signals : names and sizes of the signals that are known besides the state, see :class:`Signals`.

    Examples
    --------
    >>> PartialPlant("quad", 12, 6, ("u",), ()).providing(accelerometer=3).signals
    (('accelerometer', 3),)
    """

    name: str
    nq: int
    nv: int
    u_names: tuple[str, ...]
    parameter_names: tuple[str, ...]
    signals: tuple[tuple[str, int], ...] = ()

    @property
    def nu(self) -> int:
        """Number of inputs."""
        return len(self.u_names)

    @classmethod
    def of(cls, model: Sizes) -> PartialPlant:
        """The sizes of a model, or the partial plant itself."""
        return model if isinstance(model, cls) else cls.with_inputs(model, model.u_names)

    @classmethod
    def with_inputs(cls, model: Sizes, u_names: Sequence[str]) -> PartialPlant:
        """The plant with these inputs only."""
        signals = tuple(signal_sizes(model).items())
        return cls(model.name, model.nq, model.nv, tuple(u_names), tuple(model.parameter_names), signals)

    def providing(self, **sizes: int) -> PartialPlant:
        """The plant with further signals by name."""
        return replace(self, signals=tuple((dict(self.signals) | sizes).items()))


class Seen(Portable):
    """The arguments of a wrapper, as symbols that are made on first use; unused ones are not arguments.

    Attributes
    ----------
    t (), q (nq,), v (nv,), p (np,) : time, state and parameters of the plant.
    reference : (q_R, v_R, a_R), as long as it is not given.
    signals : :class:`.Signals` that sensors and observers further out report.
    signal, z : the wrapper's own part of the signal and of the memory.
    model : the plant. used : names of the inner controller's arguments. shared : values that a wrapper's methods share.

    Examples
    --------
    >>> sorted(name for name in vars(Seen) if not name.startswith("_"))
    ['inner', 'p', 'period', 'q', 'reference', 'signal', 'signals', 'symbols', 't', 'v', 'whole', 'z']
    """

    def __init__(self, model: Sizes, own: Wrapper, inner: Traced) -> None:
        self.model, self._own, self._inner = model, own, own.controller
        self._sizes: dict[str, int | None] = {"t": None, "q": model.nq, "v": model.nv}
        self._sizes |= {"signal": own.signal_size, "p": len(model.parameter_names), "z": own.state_size}
        self._sizes |= signal_sizes(model)
        if own.needs_reference:  # reference and parameters are still those of the law's own model
            self._sizes |= {name: size[0] for name, size in inner.inputs.items() if name in (*REFERENCE, "p")}
            if (whole := own.reference_model) is not None:
                self._sizes |= dict(
                    zip((*REFERENCE, "p"), (whole.nq, whole.nv, whole.nv, len(whole.parameter_names)), strict=True)
                )
        self._sizes |= {name: size[0] for name, size in inner.inputs.items() if name == "gains"}
        self.used = tuple(inner.inputs)
        self.shared: dict[str, Any] = {}
        self._made: dict[str, Array] = {}

    def whole(self, name: str) -> Array:
        """An argument of the function, with the inner controller's part of signal and memory."""
        if name not in self._made:
            self._made[name] = symbol(name, self._sizes[name])
        return self._made[name]

    @property
    def period(self) -> float:
        """Seconds between samples."""
        if self._own.sample_time is None:
            raise ControlError(
                f"{type(self._own).__name__} needs the sample period: simulate it with hold='zero-order', or call sampled(period)."
            )
        return self._own.sample_time

    @property
    def t(self) -> Array:
        return self.whole("t")

    @property
    def q(self) -> Array:
        return self.whole("q")

    @property
    def v(self) -> Array:
        return self.whole("v")

    @property
    def p(self) -> Array:
        return self.whole("p")

    @property
    def signals(self) -> Signals:
        """Reports of sensors and observers by name."""
        return Signals(signal_sizes(self.model), self.whole, type(self._own).__name__)

    @property
    def reference(self) -> tuple[Array, Array, Array]:
        """q_R, v_R, a_R."""
        if not self._own.needs_reference:
            raise ControlError(
                f"{type(self._own).__name__} changes the reference, so wrap the law before with_reference: "
                f"{type(self._own).__name__}(law, ...).with_reference(reference)."
            )
        return self.whole("q_R"), self.whole("v_R"), self.whole("a_R")

    @property
    def signal(self) -> Array:
        """The wrapper's own part: it follows that of the inner controller."""
        return self._parts("signal", self._inner.signal_size, self._own.own_signal_size)[1]

    @property
    def z(self) -> Array:
        """The wrapper's own part: it precedes that of the inner controller."""
        return self._parts("z", self._own.own_state_size, self._inner.state_size)[0]

    def inner(self, name: str) -> Array:
        """An argument as the inner controller gets it unless the wrapper changes it."""
        if name not in self._sizes:
            return self.signals[name]
        if name == "signal":
            return self._parts("signal", self._inner.signal_size, self._own.own_signal_size)[0]
        if name == "z":
            return self._parts("z", self._own.own_state_size, self._inner.state_size)[1]
        return self.whole(name)

    def _parts(self, name: str, first: int, second: int) -> Sequence[Array]:
        return split(self.whole(name), (first, second)) if first + second else (NOTHING, NOTHING)

    def symbols(self) -> dict[str, Array]:
        """The arguments that were used, in the order of the protocol."""
        order = ("t", "q", "v", *signal_sizes(self.model), *REFERENCE, "signal", "p", "z", "gains")
        return {name: self._made[name] for name in order if name in self._made and self._sizes[name] != 0}


class Wrapper(BaseController):
    """A controller around a controller: a law, a law with a reference, a :class:`heavytop.Feedback`, or another wrapper.

    Override what is different:

    ============================ ==========================================================================================
    :meth:`plant`                the plant for which the inner controller is made; default: the same
    :meth:`seen`                 arguments of the inner controller that differ, by name (q, v, p, t, q_R, v_R, a_R, signals)
    ``provides``                 signals that the wrapper reports to those inside, name -> size; their values come from :meth:`seen`
    :meth:`acted`                the inputs of the plant from those the inner controller wants
    :meth:`channels`             further recorded outputs
    ``own_state_size``           length of an own memory, with :meth:`first` (its start) and :meth:`following` or :meth:`rate`
    ``own_signal_size``          length of an own signal, with :meth:`own_signal`
    ============================ ==========================================================================================

    Parameters
    ----------
    controller : the one inside.

    Examples
    --------
    Inputs that are a tenth too weak:

    >>> import heavytop as ht
    >>> class Weak(Wrapper):
    ...     def acted(self, at, u):
    ...         return 0.9 * u
    >>> system = ht.System()
    >>> system.body("cart", joint=ht.Prismatic("x"), inertia=ht.Inertia(1.0))
    >>> system.input("motor", ht.JointForce("cart"))
    >>> weak = Weak(ht.Feedback(lambda q, v: -q - 2 * v, ("q", "v")))
    >>> run = ht.simulate(system.derive(), ([1.0], [0.0]), until=0.1, step=0.01, control=weak)
    >>> run.u[0]
    array([-0.9])
    """

    def __init__(self, controller: Any) -> None:
        self.controller = complete(controller)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.controller!r})"

    # --- for subclasses ------------------------------------------------------------------------------------------------------

    own_state_size: int = 0
    own_signal_size: int = 0
    provides: Mapping[str, int] = {}
    reference_model: Any = None
    """Model of the reference, if the inner controller follows that of a part of it."""

    def plant(self, model: Any) -> Any:
        """What the inner controller is made for, from the plant for which this one is made."""
        return PartialPlant.of(model).providing(**self.provides) if self.provides else model

    def seen(self, at: Seen) -> Mapping[str, Array]:
        """What the inner controller is given instead of what is there."""
        return {}

    def acted(self, at: Seen, u: Array) -> Array:
        """Inputs (nu,) of the plant from those that the inner controller wants."""
        return u

    def channels(self, at: Seen, u: Array) -> Mapping[str, Array]:
        """Further outputs, recorded under their names."""
        return {}

    def first(self) -> np.ndarray:
        """The own memory at the start (*batch, own_state_size)."""
        return np.zeros(self.own_state_size)

    def rate(self, at: Seen, u: Array) -> Array:
        """Rate of the own memory, for continuous control and, unless :meth:`following` says otherwise, Euler's step."""
        raise ControlError(
            f"{type(self).__name__} stores samples, so it cannot run continuously: simulate it with hold='zero-order'."
        )

    def following(self, at: Seen, u: Array) -> Array:
        """The own memory one sample later, ``at.period`` seconds."""
        return at.z + at.period * self.rate(at, u)

    def own_signal(self, times: np.ndarray) -> np.ndarray:
        """Samples (n, *batch, own_signal_size) at the times (n,)."""
        return np.zeros((len(times), self.own_signal_size))

    @property
    def depends_on_period(self) -> bool:
        """With an own memory the function holds the period."""
        return self.own_state_size > 0

    # --- derived from these -------------------------------------------------------------------------------------------------

    @property
    def signal_size(self) -> int:
        return self.controller.signal_size + self.own_signal_size

    @property
    def own_signal_names(self) -> tuple[tuple[str, str], ...]:
        """Name and unit of each entry of the own signal, as :attr:`signal_names`."""
        return (("", ""),) * self.own_signal_size

    @property
    def signal_names(self) -> tuple[tuple[str, str], ...]:
        inner = getattr(self.controller, "signal_names", (("", ""),) * self.controller.signal_size)
        return (*inner, *self.own_signal_names)

    @property
    def state_size(self) -> int:
        return self.own_state_size + self.controller.state_size

    @property
    def needs_reference(self) -> bool:
        return bool(getattr(self.controller, "needs_reference", False))

    @property
    def lead_time(self) -> float:
        return float(getattr(self.controller, "lead_time", 0.0))

    def referred(self, reference: Any) -> Any:
        inner = getattr(self.controller, "referred", None)
        return reference if inner is None else inner(reference)

    def signal(self, times: Numbers) -> np.ndarray:
        """The inner signal, then the own one."""
        times = np.asarray(times, dtype=float)
        flat = np.atleast_1d(times)
        parts = [self.controller.signal(flat)] if self.controller.signal_size else []
        parts += [self.own_signal(flat)] if self.own_signal_size else []
        samples = _side_by_side(parts, flat.shape)
        return samples if times.ndim else samples[0]

    def initial_state(self) -> np.ndarray:
        """The own memory, then that of the inner controller."""
        parts = [np.asarray(self.first(), dtype=float)] if self.own_state_size else []
        parts += [np.asarray(self.controller.initial_state(), dtype=float)] if self.controller.state_size else []
        return _side_by_side(parts, ())

    def composed(self, model: Any) -> Traced:
        """The inner controller at what it sees, and what becomes of its inputs."""
        subject = self.plant(model)
        controller = self.controller
        inner = controller.composed(subject) if isinstance(controller, BaseController) else controller.traced(subject)
        self._check_inner(inner, subject)
        at = Seen(model, self, inner)
        changed = self._changed(at, inner, signal_sizes(subject))
        given = [changed[name] if name in changed else at.inner(name) for name in inner.inputs]
        values = dict(zip(inner.outputs, inner.expressions(*given), strict=True))
        wanted = values.pop("u")
        outputs = {"u": self.acted(at, wanted), **self._memory(at, wanted, values)}
        outputs |= {name: value for name, value in values.items() if name not in MEMORY_OUTPUTS}
        for name, value in self.channels(at, wanted).items():
            outputs[_free(name, outputs)] = value
        return trace_of(type(self).__name__, at.symbols(), outputs)

    def _changed(self, at: Seen, inner: Traced, signals: Mapping[str, int]) -> Mapping[str, Array]:
        """What the inner controller sees otherwise, each with a name and a size that it knows."""
        own = type(self)
        if not self.own_state_size and (own.rate is not Wrapper.rate or own.following is not Wrapper.following):
            raise ControlError(
                f"{own.__name__} defines rate or following but has no state: set own_state_size, the number of its entries."
            )
        changed = self.seen(at)
        if not isinstance(changed, Mapping):
            raise ControlError(
                f"seen(at) of {own.__name__} must return a mapping such as {{'v': at.z}}, got {changed!r}."
            )
        known = (*ARGUMENTS, *REFERENCE, *signals)
        for name, value in changed.items():
            if name not in known:
                raise unknown_name(f"argument (in seen of {own.__name__})", name, known)
            if name in inner.inputs and shape(value) != inner.inputs[name]:
                raise ControlError(
                    f"seen(at) of {own.__name__} must give {name!r} the shape {inner.inputs[name]}, got {shape(value)}."
                )
        return changed

    def _memory(self, at: Seen, wanted: Array, values: Mapping[str, Array]) -> dict[str, Array]:
        """z_next or z_rate of both."""
        if not self.own_state_size:
            return {name: values[name] for name in MEMORY_OUTPUTS if name in values}
        sampled = self.sample_time is not None or type(self).rate is Wrapper.rate
        name, other = MEMORY_OUTPUTS if sampled else MEMORY_OUTPUTS[::-1]
        if other in values:
            raise ControlError(
                f"{type(self).__name__} needs {name} of the controller inside it, {self.controller!r}, which gives {other}. "
                + (
                    "Sample both: simulate(..., hold='zero-order')."
                    if sampled
                    else "Simulate both with hold='zero-order'."
                )
            )
        inner = values.get(name, NOTHING)
        own = self.following(at, wanted) if sampled else self.rate(at, wanted)
        return {name: concatenate(own, inner)}

    def _check_inner(self, inner: Traced, subject: Sizes) -> None:
        first = next(iter(inner.outputs.items()), ("nothing", ()))
        if first != ("u", (subject.nu,)):
            raise ControlError(
                f"{type(self).__name__} for {subject.name!r} needs a controller whose first output is 'u' of shape ({subject.nu},); "
                f"{self.controller!r} gives {first[0]!r} of shape {first[1]}."
            )
        known = (*ARGUMENTS, *signal_sizes(subject))
        for name in inner.inputs:
            if name not in (*known, *REFERENCE):
                raise ControlError(f"a controller may take {', '.join(known)}; {self.controller!r} takes {name!r}.")


def _free(name: str, taken: Mapping[str, Array]) -> str:
    """The name, or with a number if an inner controller has such a channel too."""
    number, free = 2, name
    while free in taken:
        free, number = f"{name}_{number}", number + 1
    return free


def _side_by_side(parts: Sequence[np.ndarray], lead: tuple[int, ...]) -> np.ndarray:
    """Arrays (*lead, *batch, n) joined along the last axis, their batch axes broadcast."""
    if not parts:
        return np.zeros((*lead, 0))
    k = len(lead)
    batch = np.broadcast_shapes(*(part.shape[k:-1] for part in parts))
    full = []
    for part in parts:
        missing = len(batch) - (part.ndim - k - 1)
        spread = part.reshape(*part.shape[:k], *(1,) * missing, *part.shape[k:])
        full.append(np.broadcast_to(spread, (*part.shape[:k], *batch, part.shape[-1])))
    return np.concatenate(full, axis=-1)


class Tracking(Wrapper):
    """A law, possibly wrapped, that follows a reference. Made by ``law.with_reference(reference)``.

    A traceable reference becomes part of the function of time; any other is given as signal (q_R, v_R, a_R). Integral action takes
    the sample period of the simulation; with a ``sample_time`` it insists on that one. A controller may follow another reference than the
    given one (``referred``: one that answers drag) and look ahead (``lead_time``).

    >>> import heavytop as ht
    >>> from heavytop.control import computed_torque
    >>> model = ht.library.pendulum().derive()
    >>> isinstance(computed_torque(model, stiffness=1.0, damping=2.0).with_reference(np.zeros(1)), Tracking)
    True
    """

    def __init__(
        self,
        law: BaseController,
        reference: Reference | Array,
        knows_parameters: bool = False,
        sample_time: float | None = None,
    ) -> None:
        from heavytop.control.references.reference import Reference

        check_sample_time(sample_time)
        own = law.law.model
        if not isinstance(reference, Reference):
            reference = Reference.set_point(own, reference)
        check_sizes(own, reference.model, "the law", "Make law and reference for one model.", ("nq", "nv"))
        super().__init__(law if sample_time is None else law.sampled(sample_time))
        self.reference, self.knows_parameters, self.sample_time = reference, knows_parameters, sample_time
        self.followed: Reference = law.referred(reference)
        self.own_signal_size = 0 if self.followed.traced is not None else own.nq + 2 * own.nv

    @property
    def needs_reference(self) -> bool:
        return False

    def own_signal(self, times: np.ndarray) -> np.ndarray:
        """q_R, v_R, a_R side by side (n, nq + 2 nv)."""
        return self.followed.signal(np.asarray(times, dtype=float) + self._ahead)

    @property
    def _ahead(self) -> float:
        """Time of the reference less that of the run (s)."""
        return self.controller.lead_time - self.followed.start_time

    def seen(self, at: Seen) -> dict[str, Array]:
        """The reference, and the parameters of the law's own model, as the reference has them, unless it knows those of the plant."""
        own = self.law.model
        if self.followed.traced is None:
            desired = split(at.signal, (own.nq, own.nv, own.nv))
        else:
            ahead = self._ahead
            desired = self.followed.traced.expressions(at.t + ahead if ahead else at.t)
        changed: dict[str, Array] = dict(zip(REFERENCE, desired, strict=True))
        if not self.knows_parameters:
            changed["p"] = own.parameter_vector(self.followed.parameters_of(own))
        elif at.model.parameter_names != own.parameter_names:
            raise ControlError(
                f"a law that uses parameters needs those of the plant: it has {own.parameter_names}, the plant "
                f"{at.model.parameter_names}."
            )
        return changed
