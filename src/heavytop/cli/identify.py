"""``heavytop identify``: parameters of a multicopter from logs of its flights."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from heavytop.cli.choices import JSON, PAGES, check_places
from heavytop.cli.terminal import fail, print_json, reported, working


@reported
def identify(
    files: Annotated[
        list[str],
        Argument(metavar="LOG... AIRFRAME.toml", help="Flight logs, then the airframe with initial values."),
    ],
    map: Annotated[
        Path | None, Option(help="Map from columns to signals (TOML); not needed for ULog, bags, MCAP and netCDF.")
    ] = None,
    rate: Annotated[float, Option(help="Resample the logs to this rate, in samples per second.")] = 100.0,
    model: Annotated[
        str,
        Option(
            help="Model: quadratic, lag, drag, full, trim, spin, or best (the one that best predicts logs left out). "
            "Default: best with several logs, full with one."
        ),
    ] = "",
    horizon: Annotated[float, Option(help="Time over which the motion is predicted, s.")] = 0.5,
    check: Annotated[list[str] | None, Option(help="Another log, used for prediction only; may be repeated.")] = None,
    out: Annotated[Path | None, Option("--out", "-o", help="Write an HTML page with the result.")] = None,
    save: Annotated[Path | None, Option(help="Write the airframe with the identified values as TOML.")] = None,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Identify a multicopter from logs: thrust, moments of inertia, motors, drag, delay, with 95 % intervals.

    Examples:

    - `heavytop identify flight.csv airframe.toml --map map.toml --save fitted.toml`
    - `heavytop identify a.ulg b.ulg airframe.toml --check c.ulg --out fit.html`
    """
    from heavytop.copters import load
    from heavytop.identify import identify_copter
    from heavytop.log import load_log

    if len(files) < 2 or not files[-1].lower().endswith(".toml"):
        raise fail(f"give one or more logs and then an airframe that ends with .toml, got {' '.join(files)}.")
    check_places(out=(out, PAGES), save=(save, (".toml",)))
    *logs, airframe = files
    vehicle = load(airframe)
    with working("reading"):
        data = [load_log(path, map, rate=rate) for path in logs]
        others = [load_log(path, map, rate=rate) for path in check or ()]
    with working("identifying"):
        found = identify_copter(vehicle, data, model=model, horizon=horizon)
    ahead = {path: found.predict(log, horizon).mean() for path, log in zip(check or (), others, strict=True)}
    if save is not None:
        found.save(save, airframe)
    if out is not None:
        found.page(out)
    if json:
        print_json(
            {
                "values": found.values,
                "deviations": found.deviations,
                "noise": found.noise,
                "not_determined": list(found.undetermined),
                "converged": found.converged,
                "prediction": ahead,
            }
        )
        return
    typer.echo(found.summary())
    for path, errors in ahead.items():
        typer.echo(f"prediction of {path} over {horizon:g} s: " + ", ".join(f"{n} {x:.3g}" for n, x in errors.items()))
    for written in (save, out):
        if written is not None:
            typer.echo(f"wrote {written}")
