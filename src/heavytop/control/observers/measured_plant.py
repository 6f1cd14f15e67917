"""Wrappers that know more than the state: what sensors measure and observers estimate travels inwards with the velocities.

A sensor or an observer appends named entries to v for the controllers inside it; who needs one asks for it by its name. The law at the
heart sees its own coordinates only, through :class:`.OnPart`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from heavytop._arrays import Array, concatenate, part
from heavytop.control.laws.wrapper import PartialPlant, Seen, Wrapper
from heavytop.errors import ControlError


@dataclass(frozen=True)
class MeasuredPlant(PartialPlant):
    """A plant of which more than the state is known.

    Attributes
    ----------
    told : name, first place in v and number of entries, of everything that is known beside the state.

    Examples
    --------
    >>> plant = MeasuredPlant("quad", 12, 6, ("u",), ()).telling(accelerometer=3)
    >>> plant.nv, plant.told
    (9, (('accelerometer', 6, 3),))
    """

    told: tuple[tuple[str, int, int], ...] = ()

    @classmethod
    def of(cls, model: Any) -> MeasuredPlant:
        """A plant as one of which nothing more is known yet."""
        if isinstance(model, cls):
            return model
        return cls(model.name, model.nq, model.nv, tuple(model.u_names), tuple(model.parameter_names))

    def telling(self, **sizes: int) -> MeasuredPlant:
        """The plant with further entries by name; one that is there already is replaced in place."""
        told, nv = list(self.told), self.nv
        names = [name for name, _, _ in told]
        for name, size in sizes.items():
            if name not in names:
                told.append((name, nv, size))
                nv += size
        return MeasuredPlant(self.name, self.nq, nv, self.u_names, self.parameter_names, tuple(told))


class Informed(Wrapper):
    """A wrapper that uses or adds what is known beside the state.

    Override ``adds`` (name -> size) and :meth:`tells` (name -> values) to tell those inside, :meth:`changes` for q, v and the reference.

    Examples
    --------
    A thermometer:

    >>> import heavytop as ht
    >>> class Thermometer(Informed):
    ...     adds = {"temperature": 1}
    ...     def tells(self, at):
    ...         return {"temperature": np.array([21.0])}
    >>> model = ht.library.pendulum().derive()
    >>> Thermometer(ht.Feedback(lambda v: 0 * v[:0], ("v",))).plant(model).told
    (('temperature', 1, 1),)
    """

    adds: Mapping[str, int] = {}

    def tells(self, at: Seen) -> Mapping[str, Array]:
        """Values of what the wrapper adds, or of what it replaces, by name."""
        return {}

    def changes(self, at: Seen) -> Mapping[str, Array]:
        """Arguments of the inner controller that differ; of v only the part of the state."""
        return {}

    def plant(self, model: Any) -> Any:
        """The plant with what the wrapper adds."""
        return MeasuredPlant.of(model).telling(**self.adds)

    def seen(self, at: Seen) -> dict[str, Array]:
        """The changed arguments, and v with everything that is told."""
        changed, told = dict(self.changes(at)), dict(self.tells(at))
        outer = MeasuredPlant.of(at.model)
        state = outer.nv - sum(size for _, _, size in outer.told)
        parts = [changed.get("v", part(at.v, 0, state))]
        for name, start, size in self.plant(outer).told:
            value = told[name] if name in told else part(at.v, start, start + size)
            parts.append(value)
        changed["v"] = concatenate(*parts) if len(parts) > 1 else parts[0]
        return changed


def knows(at: Seen, name: str) -> bool:
    """Whether something is known beside the state."""
    return any(name == known for known, _, _ in MeasuredPlant.of(at.model).told)


def reading(at: Seen, name: str, who: str) -> Array:
    """What is known under a name (size,)."""
    for known, start, size in MeasuredPlant.of(at.model).told:
        if known == name:
            return part(at.v, start, start + size)
    raise ControlError(
        f"{who} needs {name.replace('_', ' ')}, which nothing here provides: put it inside the sensor or observer that does."
    )


def state_of(at: Seen, nv: int) -> tuple[Array, Array]:
    """q and the velocities of the state alone."""
    return at.q, part(at.v, 0, nv)


def limited(x: Array, largest: float | Array) -> Array:
    """A vector (3,) shortened to a length."""
    length = np.sqrt(np.vecdot(x, x) + 1e-18)
    return np.minimum(1.0, largest / length) * x


def within(x: Array, low: float | np.ndarray, high: float | np.ndarray) -> Array:
    """Numbers kept between two others."""
    return np.minimum(np.maximum(x, low), high)
