"""What an integrator is: a builder of the calls of one step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from heavytop._arrays import Array
from heavytop.compile import Call
from heavytop.errors import SimulationError
from heavytop.simulate.assembly import Flat, Method, Plant

PROJECT_EVERY = 16
"""Steps between projections onto the manifold: rounding stays below 1e-14, the order of the method is untouched."""


SLOW = 1e-6
"""Speed (m/s or rad/s) below which changes of an iteration are not judged relative to the speed."""


class Integrator(ABC):
    """One method with a fixed step.

    Attributes
    ----------
    name : by which ``simulate(..., integrator=name)`` finds it.
    order : of convergence.
    stable_up_to : |lambda| h on the negative real axis below which linear decay stays decay; None for implicit methods.
    """

    name: ClassVar[str]
    order: ClassVar[int]
    stable_up_to: ClassVar[float | None] = None

    @abstractmethod
    def build(self, plant: Plant) -> Method:
        """The calls of one step."""

    @property
    def fingerprint(self) -> str:
        """A text that determines the calls: class and options."""
        return repr(self)

    def prepare(self, problem: Any, state: dict[str, Array]) -> dict[str, Array]:
        """The start of the integrator's own state from ``q``, ``v`` and the rest."""
        return state

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


def need_group(plant: Plant, name: str) -> None:
    """Raise if the coordinates have no group structure."""
    if not plant.coordinates.is_group:
        raise SimulationError(
            f"{name} moves along one-parameter groups, but {plant.coordinates!r} is no Lie group. "
            "Use integrator='projected_rk4' (or 'energy_momentum' if the energy must be kept)."
        )


def need_unconstrained(plant: Plant, name: str) -> None:
    """Raise if loops or velocity constraints act, which the structure-preserving methods do not know."""
    if "constrain" in plant.functions or plant.nw != plant.nv:
        raise SimulationError(
            f"{name} keeps the structure of unconstrained motions, but {plant.dynamics.name!r} has loops or velocity constraints. "
            "Use 'rkmk4', 'rkmk6', 'rkmk8' or 'rkmk45', which project back onto them."
        )


def project(plant: Plant, every: int = PROJECT_EVERY) -> list[Call]:
    """The call that removes rounding from ``q``; none if there is nothing to project on."""
    if not plant.coordinates.constraint_names:
        return []
    call = plant.function("project", lambda q: {"q": plant.coordinates.project(q)}, ("q",))
    return [Call(call.function, call.inputs, call.outputs, every)]


def weighted(weights: Sequence[Array], rates: Sequence[Array]) -> Array:
    """Sum of weights * rates."""
    total = weights[0] * rates[0]
    for weight, rate in zip(weights[1:], rates[1:], strict=True):
        total = total + weight * rate
    return total


def summed(flat: Flat, at: Mapping[str, Array], step: Array) -> dict[str, Array]:
    """The new value of a flat part, and what was added to the old one: the increment and the rest of the last sum."""
    whole = step + at[f"{flat.name}_rest"]
    return {f"{flat.name}_new": at[flat.name] + whole, f"{flat.name}_sum": whole}


def declare_sums(plant: Plant) -> list[str]:
    """Declare the buffers of :func:`summed`; the inputs it needs."""
    plant.buffers |= {f"{f.name}_{kind}": (f.size,) for f in plant.flats for kind in ("new", "rest", "sum")}
    return [name for f in plant.flats for name in (f.name, f"{f.name}_rest")]


def keep_rests(plant: Plant) -> Call:
    """The call that takes over new values and keeps what rounding cut off the sums (Kahan's summation).

    A function of its own, as the difference of sum and summand is to be computed, not simplified. State: :func:`carried`.
    """
    names = [flat.name for flat in plant.flats]
    inputs = [f"{name}{kind}" for name in names for kind in ("", "_new", "_sum")]

    def keep(*values: Array) -> Mapping[str, Array]:
        at = dict(zip(inputs, values, strict=True))
        rests = {f"{name}_rest": at[f"{name}_sum"] - (at[f"{name}_new"] - at[name]) for name in names}
        return rests | {name: at[f"{name}_new"] for name in names}

    return plant.function("keep_rests", keep, inputs)


def carried(plant: Plant) -> list[str]:
    """State buffers of :func:`keep_rests`."""
    return [f"{flat.name}_rest" for flat in plant.flats]


def relative_size(change: Array, value: Array, floor: Array) -> Array:
    """|change| / (|value| + floor)."""
    return np.sqrt(np.vecdot(change, change)) / (np.sqrt(np.vecdot(value, value)) + floor)


def nonzero(weights: Sequence[float]) -> list[int]:
    """Indices of the weights that are not zero."""
    return [j for j, weight in enumerate(weights) if weight != 0.0]


def stage_names(flats: Sequence[Flat], tag: str) -> Mapping[str, str]:
    """Buffer of each flat part at a stage."""
    return {flat.name: f"{flat.name}{tag}" for flat in flats}
