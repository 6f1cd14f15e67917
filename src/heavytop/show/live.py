"""The live cockpit: a flight in real time in the browser (extra ``live``)."""

from __future__ import annotations

import threading
import time
from types import ModuleType
from typing import Any

import numpy as np

from heavytop.copters import LiveFlight, Vehicle
from heavytop.errors import HeavytopError, SimulationError
from heavytop.show.live_levers import Levers
from heavytop.show.live_view import View

FRAMES = 40.0
"""Pictures per second."""
DIRECTION = np.array([-0.47, -0.75, 0.47])
"""From the vehicle to the camera."""
LOCAL = ("127.0.0.1", "localhost", "::1")
NUMBERS = 8.0
"""Updates of the numbers per second."""


class MissingViserError(HeavytopError, ImportError):
    """The extra ``live`` is not installed."""


def need_viser() -> ModuleType:
    """The viser package; raises a MissingViserError with the command that installs it."""
    try:
        import viser
    except ImportError as error:
        raise MissingViserError(
            "the live cockpit needs the package viser, which is not installed. Install it: pip install 'heavytop[live]'"
        ) from error
    return viser


def check_host(host: str, network: bool) -> None:
    """Raise a SimulationError if other machines could reach an address without ``network``."""
    if host not in LOCAL and not network:
        raise SimulationError(
            f"--host {host} lets everyone who can reach this machine fly, without encryption. Add --network (network=True) if you mean it."
        )


class Cockpit:
    """A flight, a server and a browser view.

    Parameters
    ----------
    vehicle, law : as for :class:`.LiveFlight`.
    port : to listen on; the next free one if it is in use.
    host : address to listen on. The default serves this machine only; others require ``network=True``, and everyone who reaches them can fly.
    """

    def __init__(
        self,
        vehicle: str | Vehicle = "quadcopter",
        law: str = "energy",
        port: int = 8080,
        host: str = "127.0.0.1",
        *,
        network: bool = False,
    ) -> None:
        check_host(host, network)
        viser = need_viser()
        self.flight = LiveFlight(vehicle, law)
        self._server: Any = viser.ViserServer(host=host, port=port, label="heavytop", verbose=False)
        self._server.gui.configure_theme(show_logo=False, show_share_button=False, brand_color=(0, 114, 178))
        self._levers = Levers(self._server.gui, self.flight)
        self._view = View(self._server.scene, self._levers.dragged)
        self._closed = False
        self._seen: Vehicle | None = None

    @property
    def address(self) -> str:
        """The address for a browser."""
        return f"http://localhost:{self._server.get_port()}"

    def run(self, until: threading.Event | None = None) -> None:
        """Fly and draw until the event is set or Ctrl-C is pressed; then stop server and flight."""
        ended = threading.Event() if until is None else until
        self.flight.start()
        shown = 0.0
        try:
            while not ended.wait(1.0 / FRAMES):
                snapshot = self.flight.snapshot
                if snapshot.vehicle is not self._seen:
                    self._seen = snapshot.vehicle
                    self._look_at(snapshot.position, snapshot.vehicle.airframe.reach)
                self._view.draw(snapshot)
                if time.monotonic() > shown + 1.0 / NUMBERS:
                    shown = time.monotonic()
                    self._levers.show(snapshot)
                if self._levers.follow.value:
                    self._follow(snapshot.position)
        except KeyboardInterrupt:
            pass
        finally:
            self.close()

    def close(self) -> None:
        """Stop the flight and the server; may be called again."""
        if not self._closed:
            self._closed = True
            self.flight.stop()
            self._server.stop()

    def _look_at(self, position: np.ndarray, reach: float) -> None:
        """Turn every present and future camera to the vehicle, at a distance that suits its size."""
        place = position + (0.6 + 8.0 * reach) * DIRECTION
        for camera in (self._server.initial_camera, *(c.camera for c in self._server.get_clients().values())):
            camera.position, camera.look_at = place, position

    def _follow(self, position: np.ndarray) -> None:
        """Move every camera with the vehicle, without turning it."""
        for client in self._server.get_clients().values():
            camera = client.camera
            move = 0.2 * (position - camera.look_at)
            if np.linalg.norm(move) > 1e-3:
                with client.atomic():
                    camera.position, camera.look_at = camera.position + move, camera.look_at + move
