"""A control law: a static (or, with integral action, dynamic) feedback ``u = law(q, v, q_R, v_R, a_R)`` as traced function."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytop._arrays import Array, concatenate, is_symbolic, split, symbol
from heavytop._format import Overview, Shown, counted, listed
from heavytop.compile import Kernel, Traced, trace_of
from heavytop.control.laws.base import BaseController
from heavytop.control.laws.integral import Integral, integral_symbols
from heavytop.control.laws.law_checks import check_law, check_sizes
from heavytop.control.laws.law_terms import LawTerms
from heavytop.control.limits.allocation import LOST, METRICS, InputRank, Projection
from heavytop.control.limits.box_qp import box_qp
from heavytop.control.linear.linearised_loop import (
    LinearisedLoop,
    UnstableWarning,
    ahead,
    check_steady,
    holding_inputs,
    ordered,
    sample_configurations,
    steady_velocity,
    unstable,
)
from heavytop.errors import ControlError, ShapeError, wrong_shape
from heavytop.functions import store
from heavytop.ocp import Limits
from heavytop.system import Model, entries_of, nominal_of

if TYPE_CHECKING:
    from heavytop.compile import Precision
    from heavytop.control.laws.prototype import Prototype
    from heavytop.control.linear.loop import FeedbackLoop
    from heavytop.control.linear.margins import Margins
    from heavytop.control.references.reference import Reference

Parameters = Mapping[str, Any] | None
Place = Array | tuple[Array, Array] | None
"""Where a law is made for: a configuration of rest q, or a steady motion (q, v)."""


class FeedbackLaw(BaseController, Shown):
    """Base of laws: evaluation on numbers, a reference, export. A subclass gives :attr:`traced_law`.

    >>> from heavytop.copters import quadcopter
    >>> craft = quadcopter()
    >>> isinstance(craft.law(limits=False), FeedbackLaw)
    True
    """

    kind: str
    model: Model

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.kind!r} of {self.model.name!r}: {counted(self.model.nu, 'input')}, {counted(self.state_size, 'state')})"

    def _overview(self) -> Overview:
        model = self.model
        rows = (("model", model.name), ("inputs", listed(model.u_names)), ("states", str(self.state_size)))
        return Overview(f"{type(self).__name__} {self.kind}", rows)

    @property
    @abstractmethod
    def traced_law(self) -> Traced:
        """Traced function of q, v, q_R, v_R, a_R, p and, with states, z; outputs u and, with states, z_rate."""

    @property
    def _kernel(self) -> Kernel:
        traced = self.traced_law
        return store.get(None if traced.key is None else ("kernel", traced.key), lambda: Kernel(traced))

    def __call__(
        self,
        q: Array,
        v: Array,
        q_R: Array,
        v_R: Array | None = None,
        a_R: Array | None = None,
        z: Array | None = None,
        parameters: Parameters = None,
    ) -> Array:
        """Inputs u (..., nu) at the state (q, v) for the reference (q_R, v_R, a_R); all broadcast. Symbols give symbols.

        ``v_R`` and ``a_R`` default to rest, ``z`` to the initial state of the integrals.
        """
        arguments = self._arguments(q, v, q_R, v_R, a_R, z, parameters)
        if is_symbolic(*arguments):
            return self.traced_law(*arguments)[0]
        return self._numbers(arguments)

    def _numbers(self, arguments: Sequence[Array]) -> np.ndarray:
        return self._kernel(*arguments)[0]

    def _arguments(self, q, v, q_R, v_R, a_R, z, parameters) -> list[Array]:
        model, zero = self.model, np.zeros(self.model.nv)
        arguments = [
            model.coordinates.check(q, "q") if not is_symbolic(q) else q,
            self._vector(v, "v", model.nv),
            model.coordinates.check(q_R, "q_R") if not is_symbolic(q_R) else q_R,
            zero if v_R is None else self._vector(v_R, "v_R", model.nv),
            zero if a_R is None else self._vector(a_R, "a_R", model.nv),
            model.parameter_vector(parameters),
        ]
        if self.state_size:
            arguments.append(self.initial_state() if z is None else self._vector(z, "z", self.state_size))
        return arguments

    def _vector(self, x: Array, what: str, size: int) -> Array:
        if is_symbolic(x):
            return x
        x = np.asarray(x, dtype=float)
        if x.ndim == 0 or x.shape[-1] != size:
            raise wrong_shape(f"{what} of {self!r}", ("...", size), x.shape)
        if not np.all(np.isfinite(x)):
            raise ShapeError(f"{what} of {self!r} must be finite, got {x[~np.isfinite(x)][0]} among its entries.")
        return x

    # --- use --------------------------------------------------------------------------------------------------------------

    @property
    def needs_reference(self) -> bool:
        """A law alone cannot be simulated."""
        return True

    @property
    def depends_on_period(self) -> bool:
        """Integrals are taken over the period."""
        return self.state_size > 0

    def composed(self, model: Any) -> Traced:
        """The law for a plant: a function of q, v, q_R, v_R, a_R, p and, with integral action, z."""
        self.check_plant(model)
        traced = self.traced_law
        if not self.state_size or self.sample_time is None:
            return traced
        symbols = {name: symbol(name, size[0]) for name, size in traced.inputs.items()}
        outputs = dict(zip(traced.outputs, traced.expressions(*symbols.values()), strict=True))
        outputs["z_next"] = symbols["z"] + self.sample_time * outputs.pop("z_rate")
        return trace_of(traced.name, symbols, outputs)

    def check_plant(self, model: Any) -> None:
        """Raise a ControlError unless the plant has the coordinates and inputs the law was made for."""
        hint = "Derive both from systems with the same joints and inputs"
        hint += "; of a vehicle take vehicle.model, not vehicle.virtual." if self.model.name == model.name else "."
        check_sizes(self.model, model, "the law", hint)

    def margins(self, reference: Reference | Array | None = None, starts: int = 0) -> Margins:
        """Gain, phase and delay margin, largest actuator lag and least sample rate at rest or along a reference; see :func:`.margins`.

        With ``starts`` > 0 that number of random starts is simulated as well, and the share that recovers is reported.
        """
        from heavytop.control.linear.margins import margins

        return margins(self, reference, starts=starts)

    def loop(self, reference: Reference | Array | None = None, t: float = 0.0) -> FeedbackLoop:
        """The linearised loop at rest, or at a time (s) of a reference: loci, step responses, Bode and Nyquist plots; see :class:`.FeedbackLoop`."""
        from heavytop.control.linear.margins import loop_of

        return loop_of(self, reference, t)

    def call_seconds(self, calls: int = 20_000) -> float:
        """Measured time of one evaluation as native code (s), one state at a time in a native loop on this processor."""
        from time import perf_counter

        kernel = Kernel(self.traced_law, lanes=1)
        model = self.model
        packed = kernel.packed(calls)
        state = [model.random(0), np.ones(model.nv), model.neutral(), np.ones(model.nv), np.ones(model.nv)]
        packed.fill(*state, model.parameter_vector(), *([self.initial_state()] if self.state_size else []))
        packed.run()
        clock = perf_counter()
        packed.run()
        return (perf_counter() - clock) / calls

    def export_c(self, folder: str | Path, *, precision: Precision = "double", footprint: bool = False) -> list[Path]:
        """Write the law as C99 without allocation and with bounded run time, with a test and a README, for a flight controller.

        The C function has the inputs of :meth:`symbols` in order and the outputs u and, with integral action, z_rate. Header and README name
        their entries and list the nominal values of the parameters.
        """
        from heavytop.compile import export_c

        rng = np.random.default_rng(0)
        count, model = 16, self.model
        closed = sample_configurations(model) if model.is_constrained else None  # with open loops numbers mean nothing
        places = model.random(rng, (2, count)) if closed is None else closed[rng.integers(len(closed), size=(2, count))]
        vectors = [
            places[0],
            rng.standard_normal((count, model.nv)),
            places[1],
            rng.standard_normal((count, model.nv)),
            rng.standard_normal((count, model.nv)),
            np.broadcast_to(model.parameter_vector(), (count, len(model.parameter_names))),
        ]
        if self.state_size:
            vectors.append(rng.standard_normal((count, self.state_size)))
        name = f"{self.kind}_law"
        used = [*self.traced_law.inputs, *self.traced_law.outputs]
        return export_c(
            folder, {name: self.traced_law}, precision=precision, name=name, vectors={name: vectors}, footprint=footprint,
            entries=entries_of(model, used), nominal=nominal_of(model, used),
        )  # fmt: skip


def trace_inputs(name: str, model: Model, inputs: Callable[[Array, Array, Array, Array, Array], Array]) -> Traced:
    """The traced law whose inputs are a function of (q, v, q_R, v_R, a_R) in NumPy notation, without parameters and states."""
    sizes = {"q": model.nq, "v": model.nv, "q_R": model.nq, "v_R": model.nv, "a_R": model.nv}
    symbols = {label: symbol(label, size) for label, size in sizes.items()}
    u = inputs(*symbols.values())
    return trace_of(name, {**symbols, "p": symbol("p", len(model.parameter_names))}, {"u": u})


class Law(FeedbackLaw):
    """A tracking law of a model, derived from a prototype.

    Made by :func:`.particle_law`, :func:`.body_law` and :func:`.energy_law`.

    Attributes
    ----------
    kind : name of the law.
    model, prototype, limits, integrals : what it was derived from.
    blocks : user-defined error blocks of an energy-based law; None: those of its transport.
    state_size : number of integrator states z; 0 for a static law.

    Examples
    --------
    >>> from heavytop.copters import quadcopter
    >>> craft = quadcopter()
    >>> law = craft.law(limits=False)
    >>> law(craft.model.neutral(), np.zeros(6), craft.model.neutral()).round(4)  # hover: a quarter of the weight each
    array([2.2072, 2.2073, 2.2072, 2.2073])
    """

    def __init__(
        self,
        kind: str,
        terms: LawTerms,
        bias: Array,
        diagnostics: Callable[[], Mapping[str, Array]],
        limits: Limits | None,
        integrals: Sequence[Integral],
        metric: str = "prototype",
        at: Place = None,
        blocks: Sequence[Any] | None = None,
    ) -> None:
        if metric not in METRICS:
            raise ControlError(
                f"metric must be 'prototype' or 'model', whose masses measure accelerations, got {metric!r}."
            )
        self.metric, self.rank, self.blocks = metric, None, blocks
        self.kind, self.terms, self.limits, self.integrals = kind, terms, limits, tuple(integrals)
        self.model: Model = terms.model
        self.prototype: Prototype = terms.prototype
        self._diagnostics = diagnostics
        self._z = integral_symbols(self.integrals)
        rates = []
        for integral, z in zip(self.integrals, split(self._z, [i.size for i in self.integrals]), strict=True):
            force, rate = integral.force_and_rate(terms, z)
            bias = bias + force
            rates.append(rate)
        self._bias, self._z_rate = bias, rates
        self._bounds = None if limits is None else limits.bounds(self.model)
        self.rank: InputRank | None = check_law(self)
        q, v = at if isinstance(at, tuple) and len(at) == 2 and np.ndim(at[0]) else (at, None)
        self.at = None if q is None else self.model.coordinates.check(q, "at")
        self.at_velocity = None if v is None or self.at is None else steady_velocity(self.model, self.at, v)
        self._instability = self._find_instability()

    @property
    def state_size(self) -> int:
        return sum(i.size for i in self.integrals)

    # --- poles ------------------------------------------------------------------------------------------------------------

    @cached_property
    def _rest(self) -> LinearisedLoop:
        return LinearisedLoop.at(self.model, self.at)

    def poles(self, q: Array | None = None, v: Array | None = None) -> np.ndarray:
        """Poles (n,) of the closed loop at rest, slowest first, without limits and integrals (1/s).

        At the configuration ``q`` (nq,); None: where the law is made for, ``at``, by default the neutral configuration. With ``v`` (nv,)
        along the steady motion with this velocity, about (q, v).

        Raises
        ------
        ControlError
            No inputs hold the model there.

        Examples
        --------
        >>> from heavytop.copters import quadcopter
        >>> craft = quadcopter()
        >>> craft.law(limits=False).poles()[:3].real.round(2)
        array([-2., -2., -2.])
        """
        if q is None and v is None:
            v = self.at_velocity
        place = self.at if q is None else self.model.coordinates.check(q, "q")
        if v is not None and np.any(v):
            return self._poles_along(self.model.neutral() if place is None else place, v)
        rest = self._rest if q is None else LinearisedLoop.at(self.model, place)
        return rest.poles(self.prototype, self.metric)

    def _poles_along(self, q: Array, v: Array) -> np.ndarray:
        """Those of the linearised law itself: what laws call the velocity error differs where the reference moves."""
        v = steady_velocity(self.model, q, v)
        here = self._linear_along(q, v)
        later = ahead(self.model, q, v)
        check_steady(self.model, here[1], self._linear_along(later, v)[1])
        return ordered(np.linalg.eigvals(here[0]))

    def _linear_along(self, q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A of the closed loop about (q, v), without integrals, and the same as matrix of velocities of joints."""
        from heavytop.control.linear.analysis import linearize
        from heavytop.control.references.reference import Reference

        model = self.model
        holding_inputs(model, q, v)

        def frozen(t: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            given = [np.broadcast_to(x, (*t.shape, len(x))) for x in (q, v, np.zeros(model.nv))]
            return given[0], given[1], given[2]

        closed = linearize(model, self.with_reference(Reference(model, frozen)), q, v).A
        states = len(closed) - self.state_size
        A = closed[:states, :states]
        return A, A if states == 2 * model.nv else LinearisedLoop.at(model, q, v).in_joints(A)

    def _find_instability(self) -> str:
        """Why the law does not hold the configuration it is made for; empty if it does."""
        try:
            poles = self.poles()
        except ControlError:
            if self.at is not None:
                raise
            return ""  # no inputs balance the neutral configuration, so there is nothing to hold
        bad = unstable(poles)
        if not len(bad):
            return ""
        what = "the neutral configuration" if self.at is None else "its configuration"
        what = what if self.at_velocity is None else "its steady motion"
        listed = ", ".join(f"{p.real:.3g}{p.imag:+.3g}i" if p.imag else f"{p.real:.3g}" for p in bad)
        return (
            f"the {self.kind} law of {self.model.name!r} does not hold {what}: unstable poles {listed} 1/s. "
            "Prototype.for_model(model, q, poles=...) makes a prototype with the requested poles; "
            "give at=q if the law is meant for another configuration."
        )

    def _on_return(self) -> None:
        if self._instability:
            warnings.warn(self._instability, UnstableWarning, stacklevel=3)

    # --- traced functions -------------------------------------------------------------------------------------------------

    @property
    def projection(self) -> Projection:
        """Gauss's projection of the prototype equation."""
        return Projection(self.terms, self._bias, self.metric, self.rank)

    def symbols(self) -> dict[str, Array]:
        """Inputs of the law: q, v, q_R, v_R, a_R, p and, with integral action, z."""
        symbols = self.terms.symbols()
        return symbols | {"z": self._z} if self.state_size else symbols

    @cached_property
    def traced_law(self) -> Traced:
        """The law as traced function of its :meth:`symbols`; outputs u, then z_rate with integral action."""
        projection = self.projection
        N = projection.directions
        u = projection.unlimited(N)
        if self._bounds is not None and self.limits is not None:
            u = box_qp(projection.weight(N, self.limits), u, *self._bounds)
        outputs = {"u": u}
        if self.state_size:
            outputs["z_rate"] = concatenate(*self._z_rate)
        return trace_of(f"{self.kind}_law", self.symbols(), outputs)

    @cached_property
    def traced_diagnostics(self) -> Traced:
        """Desired acceleration a_d, energy W, dissipation 2R, compatibility defect delta."""
        outputs = {"a_d": self.projection.desired_acceleration(), **self._diagnostics()}
        return trace_of(f"{self.kind}_diagnostics", self.symbols(), outputs)

    @cached_property
    def _diagnostics_kernel(self) -> Kernel:
        return Kernel(self.traced_diagnostics)

    @cached_property
    def _effect(self) -> Traced:
        """H (nu, nu) as function of q and p."""
        projection, s = self.projection, self.terms
        return trace_of("effect", {"q": s.actual.q, "p": s.actual.p}, {"H": projection.metric(projection.directions)})

    # --- evaluation -------------------------------------------------------------------------------------------------------

    def lost_directions(self, q: Array, parameters: Parameters = None) -> tuple[str, ...]:
        """Combinations of inputs that have lost their usual effect at one configuration q (nq,), as text.

        >>> import heavytop as ht
        >>> from heavytop.control import Prototype, energy_law
        >>> system = ht.System(name="crane")
        >>> system.body("boom", joint=ht.Revolute("z"), inertia=ht.Inertia(1.0, moment_at_com=(1, 1, 1)))
        >>> system.frame("tip", "boom", at=(1, 0, 0))
        >>> system.input("pull", ht.Wrench("tip", force=(0, 1, 0), frame="world"))
        >>> one = ht.Inertia(1.0, moment_at_com=(1, 1, 1))
        >>> law = energy_law(system.derive(native=False), Prototype({"boom": one}))
        >>> law.lost_directions([0.0]), law.lost_directions([np.pi / 2])
        ((), ("'pull'",))
        """
        rank, names = self._known_rank, self.model.u_names
        H = self._effect(self.model.coordinates.check(q, "q"), self.model.parameter_vector(parameters))[0]
        shares, directions = rank.shares(H)
        lost = []
        for direction in rank.lost(shares, directions).T:
            large = np.max(np.abs(direction))
            first = next(x for x in direction if abs(x) > 0.05 * large)
            terms = [(x / first, n) for x, n in zip(direction, names, strict=True) if abs(x) > 0.05 * large]
            words = " ".join(f"{'+' if x > 0 else '-'} {_factor(x)}{n!r}" for x, n in terms)
            lost.append(words.removeprefix("+ "))
        return tuple(lost)

    @property
    def _known_rank(self) -> InputRank:
        if self.rank is None:
            raise ControlError(f"{self!r} has not been examined yet.")
        return self.rank

    def diagnostics(
        self,
        q: Array,
        v: Array,
        q_R: Array,
        v_R: Array | None = None,
        a_R: Array | None = None,
        z: Array | None = None,
        parameters: Parameters = None,
    ) -> dict[str, np.ndarray]:
        """Desired acceleration ``a_d`` (..., nv), energy ``W`` (J), ``dissipation`` (W) and ``defect`` (W) at a state, and the effect of the inputs.

        ``rank`` (...) is the number of independent directions of the inputs, ``shares`` (..., nu) how much of its usual effect each direction has,
        ascending, and ``lost`` (..., nu) the weakest direction where it is lost, else zero; :meth:`lost_directions` describes it. Spare
        inputs have shares of zero everywhere; nothing is lost by that.

        Where the prototype equation is realised in full, ``W' = -dissipation + defect`` for the energy-based law. The defect is
        nan for the laws that have no such balance.
        """
        arguments = self._arguments(q, v, q_R, v_R, a_R, z, parameters)
        values = dict(zip(self.traced_diagnostics.outputs, self._diagnostics_kernel(*arguments), strict=True))
        rank = self._known_rank
        shares, directions = rank.shares(self._effect(arguments[0], arguments[5])[0])
        values["rank"], values["shares"], values["lost"] = (
            np.sum(shares >= LOST, axis=-1),
            shares,
            np.zeros(shares.shape),
        )
        for place in np.ndindex(shares.shape[:-1]):
            missing = rank.lost(shares[place], directions[place])
            if missing.shape[1]:
                values["lost"][place] = missing[:, 0]
        return values


def _factor(x: float) -> str:
    return "" if abs(abs(x) - 1.0) < 0.005 else f"{abs(x):.3g} "
