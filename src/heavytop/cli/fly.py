"""``heavytop fly``: fly a vehicle through a maneuver and show the flight; ``heavytop cockpit``: fly it by hand in the browser."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from math import isfinite
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from heavytop._files import CSV, NETCDF
from heavytop._format import safe_name
from heavytop.cli.choices import (
    JSON,
    PAGES,
    check_places,
    complete_law,
    complete_maneuver,
    complete_vehicle,
)  # fmt: skip
from heavytop.cli.terminal import FAILURE, console, fail, outcome_data, print_json, reported

if TYPE_CHECKING:
    from heavytop.copters import Flight, Vehicle
    from heavytop.copters.maneuvers import Maneuver


@reported
def fly(
    vehicle: Annotated[
        str, Argument(metavar="VEHICLE", help="Name of a vehicle, or a TOML file.", autocompletion=complete_vehicle)
    ] = "quadcopter",
    maneuver: Annotated[
        str | None,
        Argument(
            metavar="MANEUVER",
            help="Name of a maneuver, or a TOML file with a plan to solve.",
            autocompletion=complete_maneuver,
        ),
    ] = None,
    law: Annotated[
        str, Option(help="Control law: energy, particle, body or robust.", autocompletion=complete_law)
    ] = "energy",
    limits: Annotated[bool, Option("--limits/--no-limits", help="Respect the limits of the rotors.")] = True,
    wind: Annotated[
        str, Option(metavar="SPEED", help="Mean wind in m/s along x, or its velocity x,y,z (3,0,1); with gusts.")
    ] = "0",
    noise: Annotated[
        float | None,
        Option(
            help="Measurement noise; 1 is motion-capture noise, or that of the sensors in the vehicle's file (then the default)."
        ),
    ] = None,
    payload: Annotated[float, Option(help="Extra mass in kg, unknown to the controller.")] = 0.0,
    rotors: Annotated[
        bool, Option("--rotors", help="Simulate the lag of rotor speeds and tilts, and the drag of rotors and frame.")
    ] = False,
    delay: Annotated[float, Option(help="Measurement delay in s.")] = 0.0,
    stack: Annotated[
        str | None,
        Option(
            help="Fly with firmware instead of a law: betaflight, px4, ardupilot, or the raptor policy; implies --rotors."
        ),
    ] = None,
    stack_path: Annotated[
        Path | None, Option(help="Path to the stack's program; default: built once from source.")
    ] = None,
    out: Annotated[Path | None, Option("--out", "-o", help="File name of the page.")] = None,
    save: Annotated[Path | None, Option(help="Also write the run: .nc (netCDF) or .csv (a table).")] = None,
    every: Annotated[int, Option(help="With --save x.csv: write every n-th record (one per ms).", min=1)] = 1,
    open_page: Annotated[
        bool, Option("--open/--no-open", help="Open the page in a browser if there is a display.")
    ] = True,
    seed: Annotated[int, Option(help="Seed of gusts and noise.", min=0)] = 0,
    live: Annotated[
        bool,
        Option(
            "--live",
            help="Write a page that simulates the flight itself, with sliders for gains and wind and a hull to pull.",
        ),
    ] = False,
    listed: Annotated[bool, Option("--list", help="List vehicles and maneuvers.")] = False,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Fly a vehicle through a maneuver, print errors and margins, and write a page with the flight in 3-D.

    Without arguments a quadcopter flies a looping.

    Examples:

    - `heavytop fly`
    - `heavytop fly tricopter hover-roll`
    - `heavytop fly quadcopter eight --wind 4 --noise 1`
    - `heavytop fly quadcopter hover --wind=-2,3,0.5`
    - `heavytop fly hummingbird eight --law robust --rotors --delay 0.02`
    - `heavytop fly crazyflie helix --law particle --out helix.html --save helix.nc`
    - `heavytop fly hexacopter eight --rotors --save eight.csv --every 10`
    - `heavytop fly quadcopter eight --live`
    - `heavytop fly hummingbird waypoints --stack betaflight --wind 3`
    """
    if listed:
        list_vehicles(json)
        return
    options = {"limits": limits, "noise": noise, "payload": payload, "seed": seed, "rotors": rotors, "delay": delay}
    options |= {"law": law, "wind": _wind(wind)}
    if stack is not None:
        from heavytop.copters import stacks

        options |= {"law": stacks.stack(stack, None if stack_path is None else str(stack_path)), "rotors": True}
    elif stack_path is not None:
        raise fail("--stack-path needs --stack.")
    if live and stack is not None:
        raise fail("a live page cannot run firmware: omit --live (the page then replays the flight), or --stack.")
    for option in ("noise", "delay"):
        number = options[option]
        if number is not None and not (isfinite(number) and number >= 0):
            raise fail(f"--{option} must be a finite number of at least 0, got {number}.")
    if not isfinite(payload):
        raise fail(f"--payload must be a finite number, got {payload}.")
    check_places(out=(out, PAGES), save=(save, (*NETCDF, CSV)))
    if every > 1 and (save is None or save.suffix.lower() != CSV):
        raise fail("--every applies only to tables: give --save with a name that ends with .csv.")
    _check_names(vehicle, law, maneuver)
    begin = perf_counter()
    with _progress() as report:
        flight = _fly(vehicle, maneuver, options, report)
        page = None
        if len(flight.t) > 1:  # otherwise firmware did not start: only the outcome is left
            report("writing the page")
            page = _write(flight, out, save, live, every)
    if json:
        _print_json(flight, page, None if page is None else save)
    elif page is not None:
        _print(flight, perf_counter() - begin)
        if save is not None:
            typer.echo(f"run:  {save}")
        typer.echo(f"page: {page}")
    if page is not None and open_page and has_desktop():
        typer.launch(page.resolve().as_uri())
    _fail_unless_finished(flight)


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Show the present step: as a spinner on a terminal, else as lines."""
    screen = console(stderr=True)
    with screen.status("loading") as status:

        def report(step: str) -> None:
            status.update(step)
            if not screen.is_terminal:
                screen.print(f"{step} ...", style="dim")

        yield report


def _fly(vehicle: str, maneuver: str | None, options: dict[str, Any], report: Callable[[str], None]) -> Flight:
    from heavytop.copters import catalogue, fly as fly_vehicle

    report(f"describing {vehicle}")
    craft = catalogue.load(vehicle)
    flown: Any = maneuver or default_maneuver(craft)
    if flown.lower().endswith(".toml"):
        report(f"planning {flown}")
        flown = _planned(craft, Path(flown))
    return fly_vehicle(craft, flown, report=report, **options)


def _write(flight: Flight, out: Path | None, save: Path | None, live: bool, every: int = 1) -> Path:
    from heavytop.show import flight_report, live_flight_report, write_page

    if save is not None:
        flight.save(save, every)
    named = out or Path(f"{_file_name(flight.vehicle.name)}-{_file_name(flight.maneuver.name)}.html")
    return write_page(live_flight_report(flight) if live else flight_report(flight), named)


def _fail_unless_finished(flight: Flight) -> None:
    from heavytop.simulate import Ending

    if flight.outcome.ending is Ending.lost:
        raise fail(f"{flight.outcome.message}.", FAILURE)
    if not flight.outcome.ok:
        raise fail(f"the flight ended early: {flight.outcome}", FAILURE)


def _check_names(vehicle: str, law: str, maneuver: str | None) -> None:
    """Reject a file that is not an airframe, a law or a maneuver that does not exist, before a vehicle is derived."""
    from heavytop.copters import LAW_NAMES
    from heavytop.copters.maneuvers import listed_name
    from heavytop.errors import unknown_name

    if not vehicle.lower().endswith(".toml") and (Path(vehicle).suffix or Path(vehicle).name != vehicle):
        raise fail(
            f"a vehicle is a name (heavytop fly --list) or an airframe in a TOML file, got {vehicle!r}. Simulate other systems and robots "
            "with heavytop simulate."
        )
    if law not in LAW_NAMES:
        raise unknown_name("law", law, LAW_NAMES)
    if maneuver is not None and not maneuver.lower().endswith(".toml"):
        listed_name(maneuver)
    elif maneuver is not None and not Path(maneuver).is_file():
        raise fail(f"the file {maneuver!r} does not exist.")


def _planned(craft: Vehicle, path: Path) -> Maneuver:
    """The maneuver of a planning study."""
    from heavytop.copters.maneuvers import Maneuver
    from heavytop.plan import read_study

    found = read_study(path, craft.model).plan()
    moments = [(float(t), f"gate {i + 1}") for i, t in enumerate(found.phase_times[:-1])]
    return Maneuver(craft, found.reference, path.stem, duration=found.duration + 2.0, moments=moments)


def default_maneuver(vehicle: Vehicle) -> str:
    """Looping, or transport for a vehicle with a load."""
    from heavytop.copters.maneuvers import suited

    return "looping" if "looping" in suited(vehicle) else "transport"


def has_desktop() -> bool:
    """Whether a browser window would be seen: there is a screen and a person at the terminal, no automation."""
    if os.environ.get("CI") or not sys.stdout.isatty():
        return False
    if sys.platform.startswith("linux"):
        return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    return not os.environ.get("SSH_CONNECTION")


def _print(flight: Flight, seconds: float) -> None:
    from rich.table import Table

    from heavytop.show import rows_of, single_rows

    table = Table(title=f"{flight.vehicle.name}: {flight.maneuver.name}, {flight.law} law", title_justify="left")
    for column, justify in (("", "left"), ("largest", "right"), ("RMS", "right")):
        table.add_column(column, justify=justify)  # pyright: ignore
    for row in rows_of(flight):
        table.add_row(*row)
    table.add_section()
    for what, value in single_rows(flight):
        table.add_row(what, value, "")
    for what, value in flight.margins.rows() if flight.margins is not None else ():
        table.add_row(f"{what} of the law at rest", value, "")
    check = flight.maneuver.check()
    table.add_row("reference within the limits", "yes" if not check.outside else "no", "")
    low, high = flight.maneuver.thrusts()
    table.add_row("thrust of a rotor on the reference", f"{low.min():.3g} to {high.max():.3g} N", "")
    screen = console()
    screen.print(table)
    t = flight.run.timing
    screen.print(
        f"{flight.t[-1]:.3g} s of flight in {1000 * t.wall_seconds:.3g} ms ({t.steps_per_second:,.0f} steps/s); {seconds:.1f} s in all"
    )


def _print_json(flight: Flight, page: Path | None, save: Path | None) -> None:
    flown = {"vehicle": flight.vehicle.name, "maneuver": flight.maneuver.name, "law": flight.law}
    files = {"page": page, "run": save}
    print_json({**flown, "outcome": outcome_data(flight.outcome), "figures": flight.numbers(), "files": files})


def list_vehicles(json: bool) -> None:
    """Print the vehicles with their maneuvers."""
    from rich.table import Table

    from heavytop.copters import catalogue
    from heavytop.copters.maneuvers import suited

    able = {name: suited(catalogue.load(name)) for name in catalogue.names()}
    if json:
        print_json(able)
        return
    table = Table("vehicle", "maneuvers", title="vehicles and their maneuvers", title_justify="left")
    for name, names in able.items():
        table.add_row(name, ", ".join(names))
    console().print(table)
    typer.echo("VEHICLE may also be a TOML file with your own airframe.")


def _file_name(text: str) -> str:
    """A name as part of a file name: letters, digits, dots and hyphens only."""
    return re.sub("[-_]+", "-", safe_name(text, "file")).strip("-.") or "flight"


def _wind(text: str) -> float | tuple[float, ...]:
    """A speed, or a velocity of three numbers separated by commas."""
    try:
        values = tuple(float(part) for part in text.split(","))
    except ValueError:
        values = ()
    if len(values) == 1 and isfinite(values[0]) and values[0] >= 0:
        return values[0]
    if len(values) == 3 and all(map(isfinite, values)):
        return values
    raise fail(
        f"--wind must be a finite number of at least 0, got {text}. A velocity has three components: --wind 3,0,1."
    )


# --- the cockpit ----------------------------------------------------------------------------------------------------------


@reported
def cockpit(
    target: Annotated[
        str,
        Argument(
            metavar="[SYSTEM]", help="A built-in system, a .py file with `system`, or a robot, instead of a vehicle."
        ),
    ] = "",
    vehicle: Annotated[
        str, Option(help="Vehicle: quadcopter, hexacopter, tricopter, bicopter, ...", autocompletion=complete_vehicle)
    ] = "quadcopter",
    law: Annotated[str, Option(help="Control law: energy, particle or body.", autocompletion=complete_law)] = "energy",
    maneuver: Annotated[str | None, Option(help="Maneuver to begin with.", autocompletion=complete_maneuver)] = None,
    port: Annotated[int, Option(help="Port to listen on.", min=1, max=65535)] = 8080,
    host: Annotated[
        str, Option(help="Address to listen on; addresses other than this machine's also need --network.")
    ] = "127.0.0.1",
    network: Annotated[
        bool,
        Option(
            "--network",
            help="Allow connections from other machines that have the address and its token; not encrypted.",
        ),
    ] = False,
    open_browser: Annotated[bool, Option("--open/--no-open", help="Open the browser.")] = True,
    listed: Annotated[bool, Option("--list", help="List vehicles and maneuvers.")] = False,
    json: Annotated[bool, Option("--json", help="With --list: one JSON object.")] = False,
) -> None:
    """Fly a vehicle in real time: push it, switch the wind, drag its set point, turn its gains, watch it recover.

    Needs the extra `live`: `pip install 'heavytop[live]'`. Ctrl-C ends it.

    Examples:

    - `heavytop cockpit`
    - `heavytop cockpit --vehicle tricopter --law particle`
    - `heavytop cockpit --maneuver eight`
    - `heavytop cockpit furuta`, `heavytop cockpit my_robot.py` with a law `control` in the file
    """
    if listed:
        list_vehicles(json)
        return
    if target:
        _run_live(target, port, host, open_browser, network)
    else:
        _fly_live(vehicle, law, port, host, open_browser, maneuver, network)


def _run_live(target: str, port: int, host: str, open_browser: bool, network: bool) -> None:
    """Serve the cockpit of a system until Ctrl-C."""
    from heavytop.cli.simulate import prepared
    from heavytop.show import SystemCockpit, need_viser

    need_viser()
    typer.echo(f"preparing {target} ...")
    with suppress(KeyboardInterrupt):
        made = SystemCockpit(prepared(target), port, host, network=network)
        try:
            typer.echo(f"the cockpit is at {made.address} (Ctrl-C ends it)")
            if open_browser:
                typer.launch(made.address)
            made.run()
        finally:
            made.close()
    typer.echo("ended.")


def _fly_live(
    vehicle: str,
    law: str,
    port: int = 8080,
    host: str = "127.0.0.1",
    open_browser: bool = True,
    maneuver: str | None = None,
    network: bool = False,
) -> None:
    """Serve the cockpit until Ctrl-C, starting with a maneuver if one is named."""
    from heavytop.show import Cockpit, need_viser

    need_viser()
    typer.echo(f"preparing {vehicle} ...")
    with suppress(KeyboardInterrupt):  # at any other time than in flight
        made = Cockpit(vehicle, law, port, host, network=network)
        try:
            if maneuver is not None:
                made.flight.fly(maneuver)
            typer.echo(f"the cockpit is at {made.address} (Ctrl-C ends it)")
            if open_browser:
                typer.launch(made.address)
            made.run()
        finally:
            made.close()
    typer.echo("landed.")
