"""Results of inverse kinematics: configurations, whether they reach the targets, and the obstacles where they do not."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from heavytop._arrays import Flags, Floats
from heavytop._format import counted
from heavytop.errors import ConfigurationError

REACHED, LIMITS, UNREACHABLE = "reached", "limits", "unreachable"
"""Outcomes: reached; reached only beyond joint limits; not reached without limits either."""


@dataclass(frozen=True, eq=False)
class InverseKinematics:
    """Configurations found by ``model.inverse_kinematics``, with leading batch axes (...).

    Attributes
    ----------
    q : (..., nq), within the limits; where the targets are not reached, the configuration with the least residual that was found.
    reached : (...) whether all rows of the first priority, and loops, are within the tolerance.
    outcome : (...) "reached"; "limits": reached only beyond joint limits; "unreachable": not reached without limits either.
    residuals : part of a task -> (...) length of its residual, m or rad, of all priorities.
    blocking : (...) for the outcome "limits" the names of the joints that would have to exceed their limits; else empty.
    rank : (...) of the Jacobian of the tasks, with joints at limits held; -1 where the targets are reached.
    rows : number of rows of the Jacobian that count.
    starts : (...) number of starts that were tried.
    iterations : (...) of all starts.
    tolerance : m or rad.
    units : part of a task -> unit of its residual.

    Examples
    --------
    >>> import heavytop as ht
    >>> system = ht.System()
    >>> for name, parent in (("upper", "world"), ("lower", "upper")):
    ...     system.body(name, parent=parent, at=(0, 0, 0) if parent == "world" else (1, 0, 0), joint=ht.Revolute("z"), inertia=ht.Inertia(1.0))
    >>> system.frame("tip", "lower", at=(1, 0, 0))
    >>> arm = system.derive()
    >>> found = arm.inverse_kinematics({"tip": (1.0, 1.0, 0.0)})
    >>> bool(found.reached), arm.pose("world", "tip", found.q)[:2, 3].round(9)
    (True, array([1., 1.]))
    >>> print(arm.inverse_kinematics({"tip": (3.0, 0.0, 0.0)}))
    0 of 1 reached; 1 unreachable: nearest with position of 'tip' 1 m, Jacobian of rank 1 of 3 rows
    """

    q: Floats
    reached: Flags
    outcome: np.ndarray
    residuals: dict[str, Floats]
    blocking: np.ndarray
    rank: np.ndarray
    rows: int
    starts: np.ndarray
    iterations: np.ndarray
    tolerance: float
    units: dict[str, str]

    def __repr__(self) -> str:
        return f"InverseKinematics({np.count_nonzero(self.reached)} of {self.reached.size} reached)"

    def __str__(self) -> str:
        return self.report()

    def report(self) -> str:
        """The outcomes as text: counts, joints in the way, least residuals."""
        parts = [f"{np.count_nonzero(self.reached)} of {self.reached.size} reached"]
        at_limits, away = self.outcome == LIMITS, self.outcome == UNREACHABLE
        if np.any(at_limits):
            names = Counter(name for names in self.blocking[at_limits] for name in names)
            listed = ", ".join(repr(name) for name, _ in names.most_common(4))
            parts.append(f"{np.count_nonzero(at_limits)} only beyond joint limits ({listed})")
        if np.any(away):
            least = np.min(np.where(away, self._size, np.inf))
            k = (
                np.unravel_index(np.argmin(np.where(away, self._size, np.inf)), self._size.shape)
                if self._size.ndim
                else ()
            )
            near = ", ".join(
                f"{name} {x[k]:.3g} {self.units[name]}".rstrip()
                for name, x in self.residuals.items()
                if x[k] > 0.5 * least
            )
            text = f"{np.count_nonzero(away)} unreachable: nearest with {near}"
            if self.rank[k] < self.rows:
                text += f", Jacobian of rank {self.rank[k]} of {counted(self.rows, 'row')}"
            parts.append(text)
        return "; ".join(parts)

    @property
    def _size(self) -> Floats:
        """(...) largest residual."""
        return np.max(np.stack(list(self.residuals.values())), axis=0)

    def require(self) -> Floats:
        """``q``; raises a ConfigurationError with the report unless all targets are reached."""
        if not np.all(self.reached):
            raise ConfigurationError(f"inverse kinematics: {self.report()} (tolerance {self.tolerance:g}).")
        return self.q

    def __getitem__(self, index: Any) -> InverseKinematics:
        """The result of some problems of a batch."""
        pick = {name: x[index] for name, x in self.residuals.items()}
        arrays = {
            name: np.asarray(getattr(self, name)[index])
            for name in ("reached", "outcome", "rank", "starts", "iterations")
        }
        return replace(self, q=self.q[index], residuals=pick, blocking=_object(self.blocking[index]), **arrays)


def _object(value: Any) -> np.ndarray:
    """An array of objects, also of one."""
    if isinstance(value, np.ndarray):
        return value
    made = np.empty((), dtype=object)
    made[()] = value
    return made
