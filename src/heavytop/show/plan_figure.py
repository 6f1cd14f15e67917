"""A figure of a plan: coordinates, velocities and inputs over time, with the limits of the inputs and what holds the plan."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytop.show.plots import COLORS, _figure, _finish, _signals, _written
from heavytop.simulate.dynamics import as_dynamics

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from heavytop.plan import Plan

SAMPLES = 401


@dataclass(frozen=True, eq=False)
class _Curves:
    """What panels are made of, as a run has it."""

    q_names: tuple[str, ...]
    v_names: tuple[str, ...]
    u_names: tuple[str, ...]
    q_units: tuple[str, ...]
    v_units: tuple[str, ...]
    u_units: tuple[str, ...]
    q: np.ndarray
    v: np.ndarray
    u: np.ndarray


def plot_plan(plan: Plan, path: str | Path | None = None) -> Figure:
    """Coordinates, velocities and inputs of a plan; limits of inputs dashed, ends of phases dotted, times at which an input is held shaded.

    Parameters
    ----------
    path : where to write it (png, pdf, svg); None: only return the figure.

    Examples
    --------
    >>> import heavytop as ht
    >>> plan = ht.plan.problems.swing_up_cart_pole(steps=20).plan(tolerance=1e-2)
    >>> [axes.get_title() for axes in plan.plot().axes if axes.get_visible()][-1]
    'inputs'
    """
    t = np.linspace(0.0, plan.duration, SAMPLES)
    q, v, _ = plan.reference(t)
    d, model = as_dynamics(plan.model), plan.model
    curves: Any = _Curves(
        model.q_names, model.v_names, model.u_names, d.q_units, d.v_units, d.u_units, q, v, plan.inputs(t)
    )
    panels = list(_signals(curves))
    columns = 1 if len(panels) == 1 else 2 if len(panels) <= 8 else 3
    rows = ceil(len(panels) / columns)
    figure = _figure(4.8 * columns, 2.3 * rows + 0.6)
    axes = figure.subplots(rows, columns, squeeze=False).reshape(-1)
    lowest, highest = plan.problem.bounds.u
    for axis, panel in zip(axes, panels, strict=False):
        is_input = panel.title.startswith("inputs")
        for k, (label, values) in enumerate(panel.curves):
            axis.plot(t, values, color=COLORS[k % len(COLORS)], label=label, linewidth=1.0)
        for limit in np.unique([*lowest, *highest]) if is_input else ():
            if np.isfinite(limit):
                axis.axhline(limit, color="#888888", linewidth=0.8, linestyle="--")
        for span in _held(plan) if is_input else ():
            axis.axvspan(*span, color="#888888", alpha=0.12, linewidth=0)
        for end in plan.phase_times[:-1]:
            axis.axvline(end, color="#888888", linewidth=0.6, linestyle=":")
        _finish(axis, panel.title, panel.unit)
    for axis in axes[len(panels) :]:
        axis.set_visible(False)
    figure.suptitle(f"plan of {model.name}: {plan.duration:.4g} s, cost {plan.cost:.5g}", fontsize=10)
    return _written(figure, path)


def _held(plan: Plan) -> list[tuple[float, float]]:
    """Intervals between the nodes in which an input is at a limit of its own."""
    low, high = plan.problem.bounds.u
    room = 1e-3 * np.where(np.isfinite(high - low), high - low, 1.0)
    held = np.any((plan.u[:-1] < low + room) | (plan.u[:-1] > high - room), axis=1)
    return [(float(a), float(b)) for a, b, at in zip(plan.times[:-1], plan.times[1:], held, strict=True) if at]
