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

PROJECT_EVERY = 8
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


def weighted(weights: Sequence[float], rates: Sequence[Array]) -> Array:
    """Sum of weights * rates."""
    total = weights[0] * rates[0]
    for weight, rate in zip(weights[1:], rates[1:], strict=True):
        total = total + weight * rate
    return total


def add_compensated(plant: Plant) -> list[Call]:
    """Calls that add ``{flat}_step`` to each flat part and carry the rounding error of the sum along (Kahan's summation).

    Two functions, as the difference of sum and summand is to be computed, not simplified. State: :func:`carried`.
    """
    names = [flat.name for flat in plant.flats]
    shapes = {f"{f.name}_{kind}": (f.size,) for f in plant.flats for kind in ("new", "rest", "step")}
    plant.buffers |= shapes

    def add(*values: Array) -> Mapping[str, Array]:
        n = len(names)
        return {f"{name}_new": values[i] + (values[n + i] + values[2 * n + i]) for i, name in enumerate(names)}

    def keep(*values: Array) -> Mapping[str, Array]:
        n = len(names)
        rests = {}
        for i, name in enumerate(names):
            x, step, rest, new = (values[k * n + i] for k in range(4))
            rests[f"{name}_rest"] = (step + rest) - (new - x)
        return rests | {name: values[3 * n + i] for i, name in enumerate(names)}

    inputs = [*names, *(f"{name}_step" for name in names), *(f"{name}_rest" for name in names)]
    first = plant.function("add", add, inputs)
    second = plant.function("keep_rest", keep, [*inputs, *(f"{name}_new" for name in names)])
    return [first, second]


def carried(plant: Plant) -> list[str]:
    """State buffers of :func:`add_compensated`."""
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
