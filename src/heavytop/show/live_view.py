"""3-D view of the cockpit: vehicle, ghost, trail, thrusts and set point in a viser scene."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from heavytop.copters import GRAVITY, Snapshot, Vehicle
from heavytop.geometry import quaternion_from_rotation, so3
from heavytop.show.airframes import airframe, slung_load
from heavytop.show.meshes import Surface, merge, propeller
from heavytop.show.palette import look

SPIN = 22.0
"""Angular speed of the drawn propellers in hover, rad/s: slow enough to be seen turning."""
TRAIL_POINTS = 240
TRAIL_SECONDS = 0.04
ARROW_LENGTH = 1.4
"""Length of a thrust arrow in hover, as a multiple of the vehicle's reach."""


class View:
    """Draws snapshots.

    Parameters
    ----------
    scene : scene of a viser server.
    dragged : called with the position (3,) to which the set point is dragged.
    """

    def __init__(self, scene: Any, dragged: Callable[[np.ndarray], None]) -> None:
        self._scene = scene
        self._vehicle: Vehicle | None = None
        self._frames: dict[str, Any] = {}
        self._angles = np.zeros(0)
        self._trail: deque[np.ndarray] = deque(maxlen=TRAIL_POINTS)
        self._last, self._noted = 0.0, -1.0
        self._grabbed = False
        scene.set_up_direction("+z")
        scene.configure_default_lights(True, cast_shadow=True)
        scene.add_grid(
            "/ground", 40.0, 40.0, cell_size=0.5, section_size=2.0, cell_color=_rgb("grid"), section_color=_rgb("axis")
        )
        scene.add_frame("/world", axes_length=0.4, axes_radius=0.012)
        self._line = scene.add_line_segments("/trail", np.zeros((1, 2, 3)), _rgb("path"), thickness=0.012)
        self._goal = scene.add_transform_controls(
            "/set point", scale=0.45, disable_rotations=True, line_width=2.0, opacity=0.6
        )

        @self._goal.on_update
        async def _(event: Any) -> None:
            self._grabbed = event.phase != "end"
            dragged(np.array(event.target.position, dtype=float))

    def draw(self, snapshot: Snapshot) -> None:
        """Move everything to its present pose."""
        if snapshot.vehicle is not self._vehicle:
            self._build(snapshot.vehicle)
        for name, pose in snapshot.poses.items():
            _place(self._frames[name], pose)
        for name, pose in snapshot.reference.items():
            _place(self._frames[f"ghost {name}"], pose)
        self._turn_rotors(snapshot)
        self._extend_trail(snapshot)
        if not self._grabbed and not np.allclose(self._goal.position, snapshot.set_point, atol=1e-6):
            self._goal.position = snapshot.set_point

    def _build(self, vehicle: Vehicle) -> None:
        for handle in self._frames.values():
            if handle.name.count("/") == 1:  # its children are removed with it
                handle.remove()
        self._frames, self._vehicle = {}, vehicle
        self._trail.clear()
        rotors, load = vehicle.airframe.rotors, vehicle.airframe.load
        self._angles, reach = np.zeros(len(rotors)), vehicle.airframe.reach
        hull = airframe(vehicle.airframe.positions, rotors[0].radius, vehicle.airframe.front)
        blades = [propeller(r.radius, clockwise=r.spin < 0) for r in rotors]
        discs = [mesh.moved(at=r.at) for mesh, r in zip(blades, rotors, strict=True)]
        self._add("hull", "/hull", hull)
        self._add("ghost hull", "/ghost hull", [m.painted("ghost") for m in (*hull, *discs)])
        for k, r in enumerate(rotors):
            self._add(f"rotor {k}", f"/hull/rotor {k}", blades[k : k + 1])
            self._frames[f"rotor {k}"].position = r.at
        if load is not None:
            crate = slung_load(load.cable, load.size)
            self._add(load.body, "/load", crate)
            self._add(f"ghost {load.body}", "/ghost load", [m.painted("ghost") for m in crate])
        self._frames["thrusts"] = self._scene.add_arrows(
            "/hull/thrusts",
            np.zeros((len(rotors), 2, 3)) + [[0, 0, 0], [0, 0, 1e-3]],
            _rgb("force"),
            shaft_radius=0.03 * reach,
            head_radius=0.09 * reach,
            head_length=0.2 * reach,
        )
        self._goal.scale = 2.0 * reach
        self._line.thickness = 0.05 * reach

    def _add(self, name: str, path: str, meshes: Sequence[Surface]) -> None:
        """Add a frame with one mesh per colour."""
        self._frames[name] = self._scene.add_frame(path, show_axes=False)
        for role, mesh in merge(meshes).items():
            opacity = look(role)[2]
            self._scene.add_mesh_simple(
                f"{path}/{role}",
                mesh.vertices,
                mesh.faces,
                color=_rgb(role),
                opacity=None if opacity == 1.0 else opacity,
                side="double",
                cast_shadow=opacity == 1.0,
            )

    def _turn_rotors(self, snapshot: Snapshot) -> None:
        vehicle = snapshot.vehicle
        forces = vehicle.airframe.forces(snapshot.u)
        share = vehicle.mass * GRAVITY / len(forces)
        length = ARROW_LENGTH * vehicle.airframe.reach / share
        elapsed, self._last = snapshot.time - self._last, snapshot.time
        lines = np.zeros((len(forces), 2, 3))
        for k, (r, force) in enumerate(zip(vehicle.airframe.rotors, forces, strict=True)):
            size = float(np.linalg.norm(force))
            axis = force / size if r.tilt is not None and size > 1e-6 else r.axis
            self._angles[k] += r.spin * SPIN * np.sqrt(min(size / share, 4.0)) * min(max(elapsed, 0.0), 0.1)
            turn = so3.rotation_with_z(axis) @ so3.rotation_about("z", self._angles[k])
            self._frames[f"rotor {k}"].wxyz = quaternion_from_rotation(turn)
            lines[k] = r.at, r.at + length * force
        # an arrow without length has no direction
        lines[:, 1, 2] += np.where(np.linalg.norm(lines[:, 1] - lines[:, 0], axis=-1) < 1e-4, 1e-4, 0.0)
        self._frames["thrusts"].points = lines.astype(np.float32)

    def _extend_trail(self, snapshot: Snapshot) -> None:
        if snapshot.time < self._noted:
            self._trail.clear()
        elif snapshot.time < self._noted + TRAIL_SECONDS:
            return
        self._noted = snapshot.time
        place = snapshot.position.astype(np.float32)
        if self._trail and np.linalg.norm(place - self._trail[-1]) > 2.0:  # a reset is not part of the path
            self._trail.clear()
        self._trail.append(place)
        if len(self._trail) > 1:
            points = np.array(self._trail)
            self._line.points = np.stack([points[:-1], points[1:]], axis=1)
            self._line.colors = np.broadcast_to(np.array(_rgb("path"), dtype=np.uint8), (len(points) - 1, 2, 3)).copy()


def _place(handle: Any, pose: np.ndarray) -> None:
    handle.position = pose[:3, 3]
    handle.wxyz = quaternion_from_rotation(pose[:3, :3])


def _rgb(role: str) -> tuple[int, int, int]:
    """The colour of a role on a light ground."""
    text = look(role)[0].removeprefix("#")
    return int(text[:2], 16), int(text[2:4], 16), int(text[4:], 16)
