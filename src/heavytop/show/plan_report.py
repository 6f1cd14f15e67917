"""A plan to look at: the moving system with its gates, inputs with their limits, what held it and when."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from heavytop.geometry.so3 import rotation_with_z
from heavytop.plan.constraints import Gate, KeepOut, KeepOutBox
from heavytop.show.meshes import box, ring, sphere
from heavytop.show.run_report import report_of
from heavytop.show.scene import Body, Marker, Report, Table

if TYPE_CHECKING:
    from heavytop.plan import Plan

GATE_RADIUS = 0.35


def plan_report(plan: Plan) -> Report:
    """The report that :func:`heavytop.show.write_page` writes: the motion of the plan, gates and obstacles drawn, limits that hold it listed."""
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
        Table("What holds it", rows or [("nothing", "", "", "")], ("limit", "nodes", "from, to", "largest multiplier")),
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
    """Gates as rings across the way, obstacles as balls and boxes."""
    problem, found = plan.problem, {}
    constraints = [*problem.path, *(c for phase in problem.phases for c in (*phase.path, *phase.end))]
    for k, constraint in enumerate(constraints):
        if isinstance(constraint, Gate):
            at = np.array(constraint.at)
            radius = max(constraint.radius, GATE_RADIUS)
            pose = np.eye(4)
            pose[:3, :3] = _across(plan, at)
            pose[:3, 3] = at
            found[f"gate {k + 1}"] = Body([ring(radius, 0.04)], np.broadcast_to(pose, (count, 4, 4)))
        elif isinstance(constraint, KeepOut):
            pose = np.eye(4)
            pose[:3, 3] = constraint.center
            found[f"obstacle {k + 1}"] = Body([sphere(constraint.radius)], np.broadcast_to(pose, (count, 4, 4)))
        elif isinstance(constraint, KeepOutBox):
            pose = np.eye(4)
            pose[:3, 3] = constraint.center
            sides = box(2.0 * constraint.half_sides, "load")
            found[f"obstacle {k + 1}"] = Body([sides], np.broadcast_to(pose, (count, 4, 4)))
    return found


def _across(plan: Plan, at: np.ndarray) -> np.ndarray:
    """A rotation whose z axis points along the way where it comes nearest to ``at``."""
    way = plan.model.pose("world", plan.model.body_names[0], plan.q)[:, :3, 3]
    k = int(np.clip(np.argmin(np.linalg.norm(way - at, axis=1)), 1, len(way) - 2))
    z = way[k + 1] - way[k - 1]
    z = z / max(float(np.linalg.norm(z)), 1e-9) if np.any(z) else np.array([0.0, 0.0, 1.0])
    return rotation_with_z(z, np.cross([0.0, 1.0, 0.0] if abs(z[1]) < 0.9 else [1.0, 0.0, 0.0], z))
