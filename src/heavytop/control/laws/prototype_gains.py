"""Tracking laws whose prototype is a set of gains: desired inertia, damping and stiffness as inputs of the native code.

The law is derived for a model whose further parameters are the numbers of the prototype; outside, these are its gains.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from heavytop._arrays import Array, concatenate, matrix, symbol, vector
from heavytop.compile import Traced, trace_of
from heavytop.control.laws.energy import EnergyBlock, PointBlock, default_blocks
from heavytop.control.laws.law import FeedbackLaw, Law
from heavytop.control.laws.prototype import DesiredDamping, DesiredInertia, Prototype
from heavytop.control.laws.tracking_laws import body_law, energy_law, particle_law
from heavytop.errors import ControlError
from heavytop.functions import recipe
from heavytop.system import WORLD, Kinematics, Model, Moments, Parameter, Stiffness

DISTRIBUTIONS = (("inertia", DesiredInertia), ("damping", DesiredDamping), ("stiffness", Stiffness))


@recipe
def tunable(law: Law) -> TunableLaw:
    """The law with the parameters of its prototype as gains.

    The gains are named ``"stiffness world hull total"``, ``"... c2"`` (centre, m) and ``"... S00"`` (moment about the centre): totals, centres and
    moments of inertia, damping and stiffness as far as they are not zero. ``simulate(..., gains=...)`` changes them without new code, in
    batches; :func:`heavytop.gradient` differentiates with respect to them; :func:`heavytop.tune` improves them.
    Limited inputs stay weighted by the inertia of the prototype of ``law``.

    Parameters
    ----------
    law : law from :func:`.energy_law`, :func:`.body_law` or :func:`.particle_law`, with limits and integral action if it has them.

    Examples
    --------
    >>> from heavytop.copters import quadcopter
    >>> law = tunable(quadcopter().law(limits=False))
    >>> float(law.tunable_gains["stiffness world hull total"]), len(law.tunable_gains)
    (4.0, 14)
    """
    if not isinstance(law, Law):
        raise ControlError(
            f"tunable takes a law of energy_law, body_law or particle_law, got {law!r}. Declare the gains of other laws: ht.Feedback(..., gains=...)."
        )
    inner, names, numbers = with_parameters(law)
    return TunableLaw(law, inner, names, np.array([numbers[name] for name in names]))


class TunableLaw(FeedbackLaw):
    """A law whose gains are the parameters of its prototype; created by :func:`tunable`.

    Attributes
    ----------
    original : the law with fixed numbers, for poles and margins.

    Examples
    --------
    >>> from heavytop.copters import quadcopter
    >>> tunable(quadcopter().law(limits=False)).kind
    'energy'
    """

    def __init__(self, original: Law, inner: Law, names: Sequence[str], values: np.ndarray) -> None:
        self.original, self.model, self.kind = original, original.model, original.kind
        self._inner, self._names, self._values = inner, tuple(names), values

    @property
    def tunable_gains(self) -> Mapping[str, Any]:
        return dict(zip(self._names, self._values, strict=True))

    @property
    def state_size(self) -> int:
        return self._inner.state_size

    def initial_state(self) -> np.ndarray:
        return self._inner.initial_state()

    def poles(self, *given: Any, **named: Any) -> Any:
        """Those of the original numbers."""
        return self.original.poles(*given, **named)

    @cached_property
    def traced_law(self) -> Traced:
        """Traced function of q, v, q_R, v_R, a_R, p, z if there are states, and the gains."""
        traced, own = self._inner.traced_law, len(self.model.parameter_names)
        symbols = {name: symbol(name, own if name == "p" else size[0]) for name, size in traced.inputs.items()}
        gains = symbol("gains", len(self._names))
        given = {**symbols, "p": concatenate(symbols["p"], gains)}
        outputs = dict(zip(traced.outputs, traced.expressions(*given.values()), strict=True))
        return trace_of(traced.name, {**symbols, "gains": gains}, outputs)

    def _arguments(self, q, v, q_R, v_R, a_R, z, parameters) -> list[Array]:
        return [*super()._arguments(q, v, q_R, v_R, a_R, z, parameters), self._values]


def with_parameters(law: Law) -> tuple[Law, tuple[str, ...], dict[str, float]]:
    """The law for a model whose further parameters are the numbers of its prototype that are not zero; their names, and all numbers."""
    numbers = numbers_of(law.prototype)
    symbols = {name: symbol(name.replace(" ", "_")) for name, value in numbers.items() if value != 0.0}
    prototype = symbolic_prototype(law.prototype, numbers | symbols)
    model = with_numbers(law.model, symbols, numbers)
    # for all gains, limited inputs are weighted by the inertia of the law's own prototype
    limits = (
        law.limits if law.limits is None else replace(law.limits, inertia=law.limits.inertia or law.prototype.inertia)
    )
    options: dict[str, Any] = {"limits": limits, "integral": law.integrals, "metric": law.metric}
    options["at"] = law.at if law.at_velocity is None else (law.at, law.at_velocity)
    if law.kind in ("body", "particle"):
        make = body_law if law.kind == "body" else particle_law
        return make(model, prototype, **options), tuple(symbols), numbers
    blocks = law.blocks
    if blocks is None:
        transport = "product" if law.kind == "energy" else "se3"
        blocks = moved_blocks(default_blocks(model.expressions, law.prototype, transport), prototype)
    return energy_law(model, prototype, blocks=blocks, **options), tuple(symbols), numbers


def with_numbers(model: Model, symbols: Mapping[str, Array], numbers: Mapping[str, float]) -> Model:
    """The model with further parameters."""
    more = tuple(Parameter(name, s, numbers[name]) for name, s in symbols.items())
    return Model(replace(model.description, parameters=(*model.description.parameters, *more)))


def moments_of(prototype: Prototype, kind: str) -> dict[tuple[str, str], Moments]:
    """The distributions of a kind, by pairs of bodies also for the inertia."""
    if kind == "inertia":
        return {(WORLD, body): moments for body, moments in prototype.inertia.items()}
    return dict(getattr(prototype, kind))


def numbers_of(prototype: Prototype) -> dict[str, float]:
    """Every number of a prototype by name: totals, centres and the upper triangles of the moments."""
    numbers = {}
    for kind, _ in DISTRIBUTIONS:
        for (a, b), moments in moments_of(prototype, kind).items():
            stem = f"{kind} {a} {b}"
            numbers[f"{stem} total"] = float(moments.total)
            numbers |= {f"{stem} c{i}": float(moments.center[i]) for i in range(3)}
            moment = moments.moment_at_center
            numbers |= {f"{stem} S{i}{j}": float(moment[i, j]) for i in range(3) for j in range(i, 3)}
    return numbers


def symbolic_prototype(prototype: Prototype, numbers: Mapping[str, Any]) -> Prototype:
    """The prototype with numbers and symbols."""
    made: dict[str, dict[Any, Any]] = {}
    for kind, make in DISTRIBUTIONS:
        made[kind] = {}
        for a, b in moments_of(prototype, kind):
            stem = f"{kind} {a} {b}"
            moment = matrix([[numbers[f"{stem} S{min(i, j)}{max(i, j)}"] for j in range(3)] for i in range(3)])
            center = vector(*(numbers[f"{stem} c{i}"] for i in range(3)))
            made[kind][b if kind == "inertia" else (a, b)] = make(numbers[f"{stem} total"], center, moment)
    return Prototype(made["inertia"], made["damping"], made["stiffness"])


@dataclass(frozen=True)
class CenterBlock(PointBlock):
    """A point with its place on the body as a parameter."""

    def velocity(self, kinematics: Kinematics) -> Array:
        twist = kinematics.motion(self.a, self.b).twist
        return twist[:3] + np.cross(twist[3:], vector(*self.at))


def moved_blocks(blocks: Sequence[EnergyBlock], prototype: Prototype) -> tuple[EnergyBlock, ...]:
    """Blocks that were chosen by the numbers of a prototype, at the symbolic centres of stiffness of another."""

    def moved(block: EnergyBlock) -> EnergyBlock:
        if not isinstance(block, PointBlock) or not any(block.at):
            return block
        center = prototype.stiffness[block.a, block.b].center
        return CenterBlock(block.b, (center[0], center[1], center[2]), block.a)

    return tuple(map(moved, blocks))
