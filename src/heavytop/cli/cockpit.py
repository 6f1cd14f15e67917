"""``heavytop cockpit``: fly by hand, in real time, in the browser."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated

import typer

from heavytop.cli.choices import complete_law, complete_vehicle
from heavytop.cli.terminal import reported


@reported
def cockpit(
    vehicle: Annotated[
        str,
        typer.Option(
            "--vehicle", help="quadcopter, hexacopter, tricopter, bicopter, ...", autocompletion=complete_vehicle
        ),
    ] = "quadcopter",
    law: Annotated[
        str, typer.Option("--law", help="energy, particle or body.", autocompletion=complete_law)
    ] = "energy",
    port: Annotated[int, typer.Option("--port", help="Port to listen on.", min=1, max=65535)] = 8080,
    host: Annotated[
        str, typer.Option("--host", help="Address to listen on; any other than this machine's also needs --network.")
    ] = "127.0.0.1",
    network: Annotated[
        bool,
        typer.Option("--network", help="Let in other machines that know the address and its token; not encrypted."),
    ] = False,
    open_browser: Annotated[bool, typer.Option("--open/--no-open", help="Open the browser.")] = True,
    listed: Annotated[bool, typer.Option("--list", help="List vehicles and maneuvers.")] = False,
    json: Annotated[bool, typer.Option("--json", help="With --list: one JSON object.")] = False,
) -> None:
    """Fly a vehicle in real time: push it, switch the wind, drag its set point, turn its gains, watch it recover.

    Needs the extra `live`: `pip install 'heavytop[live]'`. Ctrl-C ends it.

    Examples:

    - `heavytop cockpit`
    - `heavytop cockpit --vehicle tricopter --law particle`
    """
    if listed:
        from heavytop.cli.fly import list_vehicles

        list_vehicles(json)
        return
    fly_live(vehicle, law, port, host, open_browser, network=network)


def fly_live(
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
