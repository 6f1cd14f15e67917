"""Results of commands as plain data for ``--json``."""

from __future__ import annotations

import math
from json import dumps
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from heavytop.simulate import Outcome, Run


def print_json(content: dict[str, Any]) -> None:
    """Print one object on standard output; numbers that are not finite are null, as JSON has none."""
    typer.echo(dumps(_plain(content), indent=1, allow_nan=False))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def outcome_data(outcome: Outcome) -> dict[str, Any]:
    """Ending, time and message."""
    return {"ending": outcome.ending.value, "ok": outcome.ok, "time": outcome.time, "message": outcome.message}


def run_data(run: Run) -> dict[str, Any]:
    """Outcome, last state, energies, drifts, events and times of a run."""
    end: dict[str, Any] = {"time": run.settings.start_time, "q": {}, "v": {}}
    if len(run):
        q, v = dict(zip(run.q_names, run.q[-1], strict=True)), dict(zip(run.v_names, run.v[-1], strict=True))
        end = {"time": run.t[-1], "q": q, "v": v}
    return {
        "system": run.name,
        "integrator": run.integrator,
        "step": run.settings.step,
        "outcome": outcome_data(run.outcome),
        "records": len(run),
        "end": end,
        "energy": {"start": run.energy[0], "end": run.energy[-1]} if run.has_energy and len(run) else {},
        "drift": {
            name: {"absolute": kept.drift, "relative": kept.relative, "unit": kept.unit}
            for name, kept in run.invariants.items()
        },
        "events": [{"time": o.time, "name": o.name} for o in run.events],
        "seconds": {"prepared": run.timing.compile_seconds, "loop": run.timing.wall_seconds},
    }
