"""The cockpit of any system: a run in real time in the browser, with levers for all its numbers and a hand (extra ``live``)."""

from __future__ import annotations

import threading
import time
from html import escape
from typing import Any

import numpy as np

from heavytop.geometry import quaternion_from_rotation
from heavytop.show.linkage import Linkage
from heavytop.show.live import FRAMES, NUMBERS, check_host, need_viser
from heavytop.show.live_page import round_up
from heavytop.show.meshes import merge
from heavytop.show.palette import VERMILION, look
from heavytop.simulate import LiveRun, Run

SPEEDS = ("0.1", "0.25", "0.5", "1", "2", "5")
NOTHING = "nothing"


class SystemCockpit:
    """A run that goes on, a server and a browser view.

    Parameters
    ----------
    run : a single trajectory of a model, with or without a law.
    port, host, network : as for :class:`.Cockpit`.
    """

    def __init__(self, run: Run, port: int = 8080, host: str = "127.0.0.1", *, network: bool = False) -> None:
        check_host(host, network)
        viser = need_viser()
        self.live = LiveRun(run)
        self._server: Any = viser.ViserServer(host=host, port=port, label="heavytop", verbose=False)
        self._server.gui.configure_theme(show_logo=False, show_share_button=False, brand_color=(0, 114, 178))
        self._lock = threading.Lock()
        self._paused = self._closed = False
        self._speed = 1.0
        self._title = run.name
        self._draw_bodies(run)
        self._make_levers()

    @property
    def address(self) -> str:
        """The address for a browser."""
        return f"http://localhost:{self._server.get_port()}"

    # --- picture ----------------------------------------------------------------------------------------------------------------

    def _draw_bodies(self, run: Run) -> None:
        model, live = self.live.described, self.live
        q = np.tile(live.q, (2, 1))
        self._linkage = Linkage(model, np.array([0.0, 1.0]), q, np.zeros((2, model.nu)), moves=False)
        scene = self._server.scene
        scene.set_up_direction("+z")
        scene.configure_default_lights(True, cast_shadow=True)
        scale = self._linkage.scale
        scene.add_grid("/ground", 20 * scale, 20 * scale, cell_size=0.5 * scale, position=(0.0, 0.0, self._ground(run)))
        self._frames = {}
        for name, meshes in self._linkage.meshes.items():
            if not meshes:
                continue
            path = f"/{name.replace('/', '_')}"
            self._frames[name] = scene.add_frame(path, show_axes=False)
            for role, mesh in merge(meshes).items():
                color, _, opacity = look(role)
                rgb = tuple(int(color[k : k + 2], 16) for k in (1, 3, 5))
                options = {"color": rgb, "opacity": None if opacity == 1.0 else opacity, "side": "double"}
                scene.add_mesh_simple(f"{path}/{role.removeprefix('#')}", mesh.vertices, mesh.faces, **options)
        self._goal = scene.add_transform_controls("/hand", scale=0.3 * scale, disable_rotations=True, visible=False)

        @self._goal.on_update
        async def _(event: Any) -> None:
            self._pull(np.array(event.target.position, dtype=float))

        for camera in (self._server.initial_camera,):
            camera.position, camera.look_at = np.array([1.6, -3.2, 1.4]) * scale, np.zeros(3)

    def _ground(self, run: Run) -> float:
        from heavytop.show.run_report import report_of

        ground = report_of(run).scene.ground
        return 0.0 if ground is None else float(ground)

    def _poses(self) -> dict[str, np.ndarray]:
        """Poses of all frames in the picture."""
        live, model = self.live, self.live.described
        values = {name: live.numbers[name] for name in model.parameter_names if name in live.numbers}
        found = model.evaluate("poses", live.q, parameters=values)
        poses = found if isinstance(found, tuple) else (found,)
        frames = model.description.graph.frames
        return {name: self._linkage.picture @ pose for name, pose in zip(frames, poses, strict=True)}

    def _draw(self) -> None:
        for name, pose in self._poses().items():
            if name in self._frames:
                self._frames[name].position = pose[:3, 3]
                self._frames[name].wxyz = quaternion_from_rotation(pose[:3, :3])

    # --- levers -----------------------------------------------------------------------------------------------------------------

    def _make_levers(self) -> None:
        gui, live = self._server.gui, self.live
        self._numbers = gui.add_html("")
        with gui.add_folder("Time"):
            pause = gui.add_button("Pause or go on")
            speed = gui.add_dropdown("Speed", SPEEDS, initial_value="1")
            restart = gui.add_button("Restart")
        pause.on_click(lambda _: setattr(self, "_paused", not self._paused))
        speed.on_update(lambda _: setattr(self, "_speed", float(speed.value)))
        restart.on_click(lambda _: self._restart())
        with gui.add_folder("Hand"):
            self._held = gui.add_dropdown("Pull", (NOTHING, *live.bodies), initial_value=NOTHING)
        self._held.on_update(lambda _: self._grab())
        self.sliders: dict[str, Any] = {}
        with gui.add_folder("Settings"):
            for name, value in live.numbers.items():
                low, high = (-1.0, 1.0) if value == 0.0 else sorted((0.2 * value, 3.0 * value))
                if value == 0.0 and name.startswith("joint friction"):
                    low, high = 0.0, round_up(self._linkage.scale)
                unit = live.units.get(name, "")
                label = f"{name} ({unit})" if unit else name
                slider = gui.add_slider(label, low, high, (high - low) / 400, value)
                slider.on_update(lambda _, n=name, s=slider: self._change(n, s.value))
                self.sliders[name] = slider

    def _change(self, name: str, value: float) -> None:
        with self._lock:
            self.live.change(name, value)

    def _restart(self) -> None:
        with self._lock:
            self.live.restart()
        self._held.value = NOTHING

    def _grab(self) -> None:
        """Begin to pull a body where its centre of mass is."""
        body = self._held.value
        with self._lock:
            if body == NOTHING:
                self.live.release()
                self._goal.visible = False
                return
            center = self._linkage.masses[body].center
            pose = self._poses()[body]
            place = pose[:3, :3] @ center + pose[:3, 3]
        self._goal.position, self._goal.visible = place, True
        self._pull(place)

    def _pull(self, place: np.ndarray) -> None:
        body = self._held.value
        if body != NOTHING:
            with self._lock:
                self.live.hold(body, self._linkage.turn.T @ place, self._linkage.masses[body].center)

    # --- time -------------------------------------------------------------------------------------------------------------------

    def run(self, until: threading.Event | None = None) -> None:
        """Simulate and draw until the event is set or Ctrl-C is pressed; then stop the server."""
        ended = threading.Event() if until is None else until
        shown, last = 0.0, time.monotonic()
        try:
            while not ended.wait(1.0 / FRAMES):
                now = time.monotonic()
                elapsed, last = min(now - last, 0.1), now
                with self._lock:
                    if not self._paused:
                        self.live.advance(elapsed * self._speed)
                    if np.isfinite(self.live.q).all():
                        self._draw()
                if now > shown + 1.0 / NUMBERS:
                    shown = now
                    self._numbers.content = self.numbers_html()
        except KeyboardInterrupt:
            pass
        finally:
            self.close()

    def numbers_html(self) -> str:
        """The instruments as HTML."""
        live = self.live
        rows = [("system", self._title), ("time", f"{live.time:.2f} s"), ("energy drift", f"{live.drift:.1e}")]
        rows += [(name, f"{u:.3g}") for name, u in zip(live.described.u_names, live.u, strict=True)]
        cells = "".join(
            f"<tr><td style='opacity:.7;padding-right:.8em'>{escape(a)}</td><td>{escape(b)}</td></tr>" for a, b in rows
        )
        problem = f"<div style='color:{VERMILION}'>{escape(live.problem)}</div>" if live.problem else ""
        return f"<div style='font-size:.8em;padding:.4em .9em'><table>{cells}</table>{problem}</div>"

    def close(self) -> None:
        """Stop the server; may be called again."""
        if not self._closed:
            self._closed = True
            self._server.stop()
