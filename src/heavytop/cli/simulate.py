"""``heavytop simulate``: the motion of a system from a start."""

from __future__ import annotations

from functools import partial
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

from heavytop._files import NETCDF
from heavytop.cli.choices import FIGURES, JSON, LIST_SYSTEMS, PAGES, check_places, complete_integrator, list_systems
from heavytop.cli.target import (
    BASE,
    CONTACTS,
    TARGET,
    check_target,
    derived,
    is_file,
    is_robot,
    load_target,
    names_of_file,
)
from heavytop.cli.terminal import FAILURE, fail, print_json, reported, run_data, working

if TYPE_CHECKING:
    import numpy as np

    from heavytop.simulate import Run
    from heavytop.system import Model

PUSH = 0.5
"""Default of every velocity coordinate at the start (m/s or rad/s)."""


@reported
def simulate(
    target: Annotated[str, TARGET] = "",
    until: Annotated[float, Option(help="End time in s.")] = 10.0,
    step: Annotated[
        float | None,
        Option(
            help="Step size in s; with rkmk45, which chooses its own steps, the time between records. Default: 0.001, less for stiff built-in "
            "systems."
        ),
    ] = None,
    integrator: Annotated[
        str | None,
        Option(
            help="Integrator: rkmk4, rkmk6, rkmk8, rkmk45, ...; default: rkmk4, or moreau for systems with rigid contacts.",
            autocompletion=complete_integrator,
        ),
    ] = None,
    every: Annotated[int | None, Option(help="Steps between records; default: 10, or 1 with rkmk45.")] = None,
    q: Annotated[str | None, Option(help="Initial configuration, comma-separated numbers.")] = None,
    v: Annotated[str | None, Option(help="Initial velocity, comma-separated numbers.")] = None,
    seed: Annotated[int | None, Option("--random", help="Random initial state with this seed.", min=0)] = None,
    out: Annotated[Path | None, Option("--out", "-o", help="Write the run to this netCDF file.")] = None,
    plot: Annotated[Path | None, Option(help="Plot the run to this file (png, pdf, svg).")] = None,
    page: Annotated[Path | None, Option(help="Write an HTML page with an animation of the system.")] = None,
    live: Annotated[
        bool, Option("--live", help="Write a page that simulates live, with sliders and bodies to pull.")
    ] = False,
    base: Annotated[str, BASE] = "fixed",
    contacts: Annotated[str | None, CONTACTS] = None,
    json: Annotated[bool, JSON] = False,
    listed: Annotated[bool, LIST_SYSTEMS] = False,
) -> None:
    """Simulate a system on its manifold and report outcome, energy balance and drift of every invariant.

    The start is `start = (q0, v0)` of the file, or --q and --v, or a random one, or the published one of a built-in mechanism;
    otherwise the neutral configuration with every velocity 0.5 (with --contacts at rest, with a free base on the ground). A file
    may also define `control` (a law), `inputs` and `events`.

    Examples:

    - `heavytop simulate heavy-top --until 5 --v 0,15,-4`
    - `heavytop simulate my_robot.py --out run.nc --page run.html`
    - `heavytop simulate double-pendulum --live --page pendulum.html`
    - `heavytop simulate dog.urdf --base free --contacts feet --page dog.html`
    """
    if listed:
        list_systems(json)
        return
    check_target(target, base, "simulate")
    if live and page is None:
        raise fail("--live makes the page of a run live: name it with --page FILE.html.")
    from heavytop import library
    from heavytop.simulate import simulate as run_simulation, usual_integrator
    from heavytop.simulate.integrators import as_integrator

    _check_numbers(until, step, every, q, v)
    check_places(out=(out, NETCDF), plot=(plot, FIGURES), page=(page, PAGES))
    method = None if integrator is None else as_integrator(integrator)
    step = step if step is not None else 1e-3 if is_file(target) else library.step(target)
    names: dict[str, Any] = names_of_file(Path(target)) if is_file(target) and not is_robot(target) else {}
    model = derived(names["system"] if names else load_target(target, base, contacts=contacts))
    start = _start(model, names, q, v, seed, None if is_file(target) else target, contacts is not None, base)
    options = {name: names[name] for name in ("control", "inputs", "events") if name in names}
    method = method or as_integrator(usual_integrator(model))
    record_every = every if every is not None else 1 if integrator == "rkmk45" else 10
    run = run_simulation(model, start, until, step, method, record_every=record_every, **options)
    if not json:
        run.report()
    for path, write, what in (
        (out, run.save, "saving"),
        (plot, run.plot, "drawing"),
        (page, partial(run.show, live=live), "writing the page"),
    ):
        if path is not None:
            with working(what):
                write(path)
    written = [path for path in (out, plot, page) if path is not None]
    if json:
        print_json({**run_data(run), "files": written})
    else:
        for path in written:
            typer.echo(f"wrote {path}")
    if not run.outcome.ok:
        raise typer.Exit(FAILURE)


def prepared(target: str, base: str = "fixed") -> Run:
    """A short run of a system with its start, its law and its step, for the cockpit."""
    from heavytop import library
    from heavytop.simulate import simulate as run_simulation, usual_integrator

    check_target(target, base, "simulate")
    step = 1e-3 if is_file(target) else library.step(target)
    names: dict[str, Any] = names_of_file(Path(target)) if is_file(target) and not is_robot(target) else {}
    model = derived(names["system"] if names else load_target(target, base))
    start = _start(model, names, None, None, None, None if is_file(target) else target)
    options = {name: names[name] for name in ("control", "inputs", "events") if name in names}
    return run_simulation(model, start, 100 * step, step, usual_integrator(model), progress=False, **options)


def _check_numbers(until: float, step: float | None, every: int | None, q: str | None, v: str | None) -> None:
    """Reject numbers that are wrong for every system, before one is derived."""
    if not isfinite(until) or until < 0:
        raise fail(f"--until must be a time in s that is not before the start at 0, got {until:g}.")
    if step is not None and not (isfinite(step) and step > 0):
        raise fail(f"--step must be a positive number of seconds, got {step:g}.")
    if every is not None and every < 1:
        raise fail(f"--every must be 1, 2, ..., got {every}.")
    for option, text in (("--q", q), ("--v", v)):
        if text is not None:
            _parsed(text, option)


def _start(
    model: Model,
    names: dict[str, Any],
    q: str | None,
    v: str | None,
    seed: int | None,
    built_in: str | None,
    touching: bool = False,
    base: str = "fixed",
) -> tuple[Any, Any]:
    """The start from the options, the file, the built-in system, or the default; a ``touching`` robot starts at rest on the ground."""
    import numpy as np

    from heavytop import library

    published = None if built_in is None else library.start(built_in, model)
    if seed is not None:
        rng = np.random.default_rng(seed)
        chosen = model.random(rng), rng.standard_normal(model.nv)
    elif "start" in names:
        given = names["start"]
        if not isinstance(given, tuple | list) or len(given) != 2:
            raise fail("'start' in the file must be a pair (q0, v0).")
        chosen = tuple(given)
    elif published is not None:
        chosen = published
    elif touching:
        rest = model.neutral()
        chosen = library.resting_on_ground(model, rest) if base == "free" else rest, np.zeros(model.nv)
    else:
        chosen = model.neutral(), np.full(model.nv, PUSH)
    start = (
        chosen[0] if q is None else _numbers(q, "--q", model.q_names),
        chosen[1] if v is None else _numbers(v, "--v", model.v_names),
    )
    given_whole = "start" in names and q is None and v is None
    return model.assemble(*start) if model.is_constrained and not given_whole else start


def _numbers(text: str, option: str, names: tuple[str, ...]) -> np.ndarray:
    import numpy as np

    values = np.array(_parsed(text, option))
    if len(values) != len(names):
        raise fail(f"{option} needs {len(names)} numbers ({', '.join(names)}), got {len(values)}.")
    return values


def _parsed(text: str, option: str) -> list[float]:
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        values = []
    if not values or not all(map(isfinite, values)):
        raise fail(f"{option} takes finite numbers separated by commas, got {text!r}.")
    return values
