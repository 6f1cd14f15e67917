"""A run in a few lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from heavytop.simulate.invariants import HALF_A_TURN, lacks_work, turns

if TYPE_CHECKING:
    from heavytop.simulate.run import Run

LOST = 0.01
"""Relative drift of energy or momentum above which a run is not to be trusted."""
NO_WORK = (
    "batches leave out the energy balance, which needs the work of inputs and dampers;",
    "simulate(..., balance=True) has it.",
)
"""Why the energy of a run is not among its invariants, in two lines."""


def report(run: Run) -> str:
    """Outcome, energy balance, drifts with units, events, timing."""
    lines = [f"{run.name}: {run.outcome}", ""]
    lines += _facts(run)
    if len(run) > 1:
        lines += _energies(run)
        lines += _invariants(run)
    lines += _contacts(run)
    lines += _tracking(run)
    if run.events:
        lines += ["", "events"]
        lines += [f"  {o.time:14.9g} s  {o.name}{f'  {o.trajectory}' if o.trajectory else ''}" for o in run.events[:10]]
        if len(run.events) > 10:
            lines.append(f"  ... {len(run.events) - 10} more")
    timing = run.timing
    lines += [
        "",
        f"{timing.steps * timing.trajectories:,} steps in {timing.wall_seconds:.3g} s "
        f"({timing.steps_per_second:,.0f} steps/s), prepared in {timing.compile_seconds:.3g} s",
    ]
    return "\n".join(lines)


def _facts(run: Run) -> list[str]:
    s = run.settings
    batch = f"{int(np.prod(run.batch))} trajectories {run.batch}" if run.batch else "one trajectory"
    end = run.t[-1] if len(run) else s.start_time
    return [
        f"{batch}, t = {s.start_time:g} s to {end:g} s, {run.integrator}, step {s.step:g} s, {len(run)} records",
    ]


def _row(label: str, *cells: str) -> str:
    return f"  {label:<24}" + "".join(f"{cell:>16}" for cell in cells)


def _energies(run: Run) -> list[str]:
    if not run.has_energy or not len(run):
        return []
    lines = ["", _row("energy in J", "start", "end", "largest")]
    rows = [("kinetic", run.kinetic_energy), ("potential", run.potential_energy), ("stored", run.energy)]
    if run.work is not None:
        rows += [("work of inputs", run.work[..., 0]), ("dissipated", run.work[..., 1])]
        rows += [("work of drivers", run.work[..., 2])] if run.work.shape[-1] > 2 else []
    for label, values in rows:
        first, last, top = np.nanmean(values[0]), _last(values), np.nanmax(values, initial=-np.inf)
        lines.append(_row(label, f"{first:.6g}", f"{last:.6g}", f"{top:.6g}"))
    if run.driver_power:
        lines += ["", _row("power of drivers in W", "mean", "smallest", "largest")]
        for name, values in run.driver_power.items():
            lines.append(_row(name, *(f"{f(values):.6g}" for f in (np.nanmean, np.nanmin, np.nanmax))))
    if run.batch:
        lines.append("  (start and end: mean over the trajectories)")
    return lines


def _last(values: np.ndarray) -> float:
    """Mean over the batch of each trajectory's last number."""
    flat = values.reshape(len(values), -1)
    last = [column[np.isfinite(column)][-1] for column in flat.T if np.any(np.isfinite(column))]
    return float(np.mean(last)) if last else float("nan")


def _invariants(run: Run) -> list[str]:
    found = run.invariants
    lines = []
    if found:
        lines += ["", _row("drift of", "absolute", "unit", "relative")]
        for name, invariant in found.items():
            relative = f"{invariant.relative:.2e}" if invariant.unit != "1" else ""
            lines.append(_row(name, f"{invariant.drift:.2e}", invariant.unit, relative))
        lost = max((i.relative for name, i in found.items() if name == "energy" or "momentum" in name), default=0.0)
        if lost > LOST:
            lines += [
                "",
                f"  note: a quantity that should be conserved has changed by {lost:.2g} of its size. Take a smaller step.",
            ]
    spun = turns(run.v_names, run.v_units, run.settings.step * run.v) if run.integrator != "rkmk45" else 0.0
    if spun > HALF_A_TURN:
        lines += [
            "",
            f"  note: a joint turns by up to {spun:.2g} turns in a step. Take a step below {HALF_A_TURN / spun * run.settings.step:.2g} s.",
        ]
    if lacks_work(run):
        lines += ["", f"  note: {NO_WORK[0]}", f"  {NO_WORK[1]}"]
    if "residual" in run.channels and len(run) and run.contact_work is None:
        worst = float(np.nanmax(run.channels["residual"], initial=0.0))
        lines.append(_row("implicit equations", f"{worst:.2e}", "1", ""))
    return lines


def _contacts(run: Run) -> list[str]:
    """Rigid contacts: how many are closed, depth, cone, residual and work."""
    if not run.contacts or run.contact_work is None or not len(run):
        return []
    from heavytop.simulate.contact_record import summary

    normal, friction, closing = (_last(run.contact_work[..., k]) for k in range(3))
    residual = float(np.nanmax(run.channels["residual"], initial=0.0))
    return [
        "",
        f"  contacts: {summary(run.contacts)}, residual {residual:.1e} m/s, work {normal:.4g} J normal, {friction:.4g} J friction, "
        f"{closing:.4g} J closing",
    ]


def _tracking(run: Run) -> list[str]:
    """Channels of the law whose name speaks of an error: their largest and last size."""
    names = [name for name in run.channels if "error" in name]
    if not names or not len(run):
        return []
    lines = ["", _row("tracking", "largest", "rms", "at the end")]
    for name in names:
        values = run.channels[name]
        size = np.abs(values) if values.ndim == 1 + len(run.batch) else np.linalg.norm(values, axis=-1)
        cells = np.nanmax(size), np.sqrt(np.nanmean(size**2)), np.nanmax(size[-1])
        lines.append(_row(name, *(f"{cell:.4g}" for cell in cells)))
    return lines
