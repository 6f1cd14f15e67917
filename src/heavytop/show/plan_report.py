"""Report and figure of a plan: the moving system with its gates and obstacles, curves with limits, active limits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from heavytop.geometry import se3, so3
from heavytop.plan import Gate, KeepOut, KeepOutBox
from heavytop.show.meshes import box, ring, sphere
from heavytop.show.plots import COLORS, figure_grid, finish_axis, signal_panels, written
from heavytop.show.run_report import report_of
from heavytop.show.scene import Body, Marker, Report, Table
from heavytop.simulate import as_dynamics

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from heavytop.plan import Plan

GATE_RADIUS = 0.35
"""Least radius of a drawn gate, in m."""
SAMPLES = 401
"""Times of the curves of a figure."""


def plan_report(plan: Plan) -> Report:
    """The report for :func:`heavytop.show.write_page`: the motion of the plan, its gates and obstacles, and its active limits."""
    report = report_of(plan.run())
    scene = report.scene
    ghosts = {**scene.ghosts, **_places(plan, len(scene.times))}
    rows = [
        (
            item.label,
            f"{len(item.times)}",
            f"{item.times[0]:.3f} to {item.times[-1]:.3f} s",
            f"{np.max(item.multipliers):.3g}",
        )
        for item in plan.active
    ]
    tables = (
        Table(
            "Plan",
            (
                ("duration", f"{plan.duration:.4f} s"),
                ("cost", f"{plan.cost:.6g}"),
                ("iterations", f"{plan.iterations}"),
                ("largest defect of an interval", f"{plan.accuracy:.1e}"),
            ),
        ),
        Table("Active limits", rows or [("none", "", "", "")], ("limit", "nodes", "from, to", "largest multiplier")),
    )
    ends = [Marker(float(t), f"phase {i + 1} ends") for i, t in enumerate(plan.phase_times[:-1])]
    return replace(
        report,
        title=f"Plan: {plan.model.name}",
        subtitle=f"{plan.duration:.3f} s, cost {plan.cost:.5g}",
        scene=replace(scene, ghosts=ghosts),
        tables=(*tables, *report.tables),
        markers=(*report.markers, *ends),
    )


def _places(plan: Plan, count: int) -> dict[str, Body]:
    """Gates as rings across the path, obstacles as balls and boxes."""
    problem, found = plan.problem, {}
    constraints = [*problem.path, *(c for phase in problem.phases for c in (*phase.path, *phase.end))]
    for k, constraint in enumerate(constraints):
        if isinstance(constraint, Gate):
            mesh, at, kind = ring(max(constraint.radius, GATE_RADIUS), 0.04), np.array(constraint.at), "gate"
        elif isinstance(constraint, KeepOut):
            mesh, at, kind = sphere(constraint.radius), constraint.center, "obstacle"
        elif isinstance(constraint, KeepOutBox):
            mesh, at, kind = box(2.0 * constraint.half_sides, "load"), constraint.center, "obstacle"
        else:
            continue
        pose = se3.pose(_across(plan, at) if kind == "gate" else np.eye(3), at)
        found[f"{kind} {k + 1}"] = Body([mesh], np.broadcast_to(pose, (count, 4, 4)))
    return found


def _across(plan: Plan, at: np.ndarray) -> np.ndarray:
    """A rotation whose z axis points along the path where it is nearest to ``at``."""
    way = plan.model.pose("world", plan.model.body_names[0], plan.q)[:, :3, 3]
    k = int(np.clip(np.argmin(np.linalg.norm(way - at, axis=1)), 1, len(way) - 2))
    z = way[k + 1] - way[k - 1]
    z = z / max(float(np.linalg.norm(z)), 1e-9) if np.any(z) else np.array([0.0, 0.0, 1.0])
    return so3.rotation_with_z(z, np.cross([0.0, 1.0, 0.0] if abs(z[1]) < 0.9 else [1.0, 0.0, 0.0], z))


def plot_plan(plan: Plan, path: str | Path | None = None) -> Figure:
    """Coordinates, velocities and inputs of a plan, ends of phases dotted, times with an input at its limit shaded.

    Limits of velocities and inputs are dashed: grey if the curves of an axis share them, else in the colour of their curve.

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
    signals = {
        "q": (model.q_names, d.q_units, q),
        "v": (model.v_names, d.v_units, v),
        "u": (model.u_names, d.u_units, plan.inputs(t)),
    }
    panels = list(signal_panels(signals))
    figure, axes = figure_grid(len(panels))
    bounds = {"u": plan.problem.bounds.u, "v": plan.problem.bounds.v}
    for axis, panel in zip(axes, panels, strict=True):
        is_input = panel.part == "u"
        for k, (label, values) in enumerate(panel.curves):
            axis.plot(t, values, color=COLORS[k % len(COLORS)], label=label, linewidth=1.0)
        for limit, color in _limit_lines(bounds.get(panel.part), panel.places):
            axis.axhline(limit, color=color, linewidth=0.8, linestyle="--")
        for span in _saturated(plan) if is_input else ():
            axis.axvspan(*span, color="#888888", alpha=0.12, linewidth=0)
        for end in plan.phase_times[:-1]:
            axis.axvline(end, color="#888888", linewidth=0.6, linestyle=":")
        finish_axis(axis, panel.title, panel.unit)
    figure.suptitle(f"plan of {model.name}: {plan.duration:.4g} s, cost {plan.cost:.5g}", fontsize=10)
    return written(figure, path)


def _limit_lines(bounds: tuple[np.ndarray, np.ndarray] | None, places: tuple[int, ...]) -> list[tuple[float, str]]:
    """Finite limits of the curves of an axis, with their colours."""
    lines: list[tuple[float, str]] = []
    for side in bounds or ():
        own = [float(side[k]) for k in places]
        shared = len(set(own)) == 1
        for k, limit in enumerate(own[:1] if shared else own):
            if np.isfinite(limit):
                lines.append((limit, "#888888" if shared else COLORS[k % len(COLORS)]))
    return lines


def _saturated(plan: Plan) -> list[tuple[float, float]]:
    """Intervals between nodes in which an input is at one of its limits."""
    low, high = plan.problem.bounds.u
    room = 1e-3 * np.where(np.isfinite(high - low), high - low, 1.0)
    at_limit = np.any((plan.u[:-1] < low + room) | (plan.u[:-1] > high - room), axis=1)
    return [(float(a), float(b)) for a, b, at in zip(plan.times[:-1], plan.times[1:], at_limit, strict=True) if at]
