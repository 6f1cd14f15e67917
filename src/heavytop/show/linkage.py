"""Meshes of a model from its description: solids of equivalent inertia, links between joints, pins, rails, posts, struts, thrusters.

World axes are turned so that gravity points down in the picture.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from heavytop._arrays import as_array
from heavytop.geometry import se3, so3
from heavytop.show.airframes import airframe
from heavytop.show.meshes import Floats, Surface, cylinder, disc, propeller, sphere, tube
from heavytop.show.scene import Arrow, Body, Scene, Trail
from heavytop.show.shape_meshes import MassProperties, equivalent_solid, shape_meshes
from heavytop.system import TIME, WORLD, Edge, Model, Plane, Thruster, at_defaults, unit_axis
from heavytop.system.forces import Line
from heavytop.system.joints import Joint

MOST_TRAILS = 6
ROTORS = 3
"""Thrusters on a body from which it is drawn as a multicopter."""
MOST_PIECES = 8
"""Pieces of a line whose length changes."""
LOOKS = 240
"""Times at which the height of the ground and collisions of posts are evaluated."""


def upright(gravity: Floats) -> Floats:
    """Rotation (3, 3) from world axes to those of the picture, whose z axis points up.

    >>> upright(np.array([0.0, -9.81, 0.0])) @ [0, 1, 0]
    array([0., 0., 1.])
    """
    size = np.linalg.norm(gravity)
    if size == 0:
        return np.eye(3)
    up = -gravity / size
    k = int(np.argmax(up))
    if up[k] > 1 - 1e-12:  # a cyclic change of axes keeps their directions positive
        return np.roll(np.eye(3), 2 - k, axis=0)
    return so3.rotation_with_z(up).T


def axis_labels(turn: Floats) -> tuple[str, str]:
    """Names of the two horizontal axes of the picture in terms of world axes; empty if they are oblique."""
    names = []
    for row in turn[:2]:
        k = int(np.argmax(np.abs(row)))
        names.append(("" if row[k] > 0 else "\u2212") + "xyz"[k] if abs(row[k]) > 1 - 1e-9 else "")
    return names[0], names[1]


@dataclass(frozen=True, eq=False)
class Linkage:
    """A moving model to be drawn.

    Parameters
    ----------
    model : the derived model.
    times : (T,) in s.
    q, u : (T, nq) and (T, nu).
    parameters : name -> value.
    moves : whether explicit time is ``times``, not the time among the parameters.
    forces : name -> points (T, 3) in m and forces (T, 3) in N on the bodies there, world axes.
    """

    model: Model
    times: Floats
    q: Floats
    u: Floats
    parameters: Mapping[str, float] = field(default_factory=dict)
    moves: bool = True
    forces: Mapping[str, tuple[Floats, Floats]] = field(default_factory=dict)

    # --- numbers of the description -----------------------------------------------------------------------------------------

    def number(self, value: Any) -> Floats:
        """An array of the description, possibly symbolic, at the parameters."""
        given = (replace(p, value=float(self.parameters.get(p.name, p.value))) for p in self._description.parameters)
        return at_defaults(as_array(value), tuple(given))

    @property
    def _description(self) -> Any:
        return self.model.description

    @property
    def is_timed(self) -> bool:
        """Whether the system depends on the time explicitly."""
        return self._description.time is not None

    @cached_property
    def masses(self) -> dict[str, MassProperties]:
        """Mass properties of every body."""
        return {
            name: MassProperties(float(self.number(i.total)), self.number(i.center), self.number(i.moment_at_center))
            for name, i in self._description.inertias.items()
        }

    @cached_property
    def turn(self) -> Floats:
        """World axes -> axes of the picture."""
        return upright(self.number(self._description.gravity))

    @property
    def picture(self) -> Floats:
        """Pose (4, 4) of the world in the picture."""
        return se3.pose(self.turn, np.zeros(3))

    @cached_property
    def poses(self) -> dict[str, Floats]:
        """Pose (T, 4, 4) of every frame in the picture."""
        names = self._description.graph.frames
        timed = {TIME: self.times} if self.is_timed and self.moves else {}
        found = self.model.evaluate("poses", self.q, parameters={**self.parameters, **timed})
        poses = found if isinstance(found, tuple) else (found,)
        shape = (len(self.times), 4, 4)
        return {name: self.picture @ np.broadcast_to(G, shape) for name, G in zip(names, poses, strict=True)}

    @cached_property
    def links(self) -> dict[str, list[Floats]]:
        """Frame -> points (3,) in it where joints are attached."""
        points: dict[str, list[Floats]] = {frame: [] for frame in self._description.graph.frames}
        points.setdefault(WORLD, [])
        for edge in self._hinges:
            points[edge.a].append(self.number(edge.at)[:3, 3])
            points[edge.b].append(np.zeros(3))
        for loop in self._description.loops:
            points[loop.a].append(self.number(loop.at_a)[:3, 3])
            points[loop.b].append(self.number(loop.at_b)[:3, 3])
        for line in self.lines:
            points[line.a].append(self.number(line.at_a))
            points[line.b].append(self.number(line.at_b))
        return points

    @property
    def _hinges(self) -> list[Edge]:
        """Joints that fix the origin of b in a."""
        thrust = {t.body for t in self._thrusters.values()}
        kept = []
        for edge in self._description.graph.edges:
            if edge.joint.translations:
                continue
            if edge.joint.is_fixed and edge.b not in self.masses and edge.b not in thrust:
                continue
            inside = self._relative(edge)
            if np.max(np.ptp(inside, axis=0)) <= 1e-9 * (1 + np.max(np.abs(inside))):
                kept.append(edge)
        return kept

    def _relative(self, edge: Edge) -> Floats:
        """Origin of b in frame a (T, 3)."""
        a, b = self.poses[edge.a], self.poses[edge.b]
        return np.matvec(np.swapaxes(a[:, :3, :3], -1, -2), b[:, :3, 3] - a[:, :3, 3])

    @property
    def _thrusters(self) -> dict[str, Thruster]:
        return {name: i for name, i in self._description.inputs.items() if isinstance(i, Thruster)}

    @cached_property
    def scale(self) -> float:
        """Length of the largest link or body, in m; a drawn floor or road does not count."""
        lengths = [float(np.linalg.norm(self.number(t.at))) for t in self._thrusters.values()]
        lengths += [body.size for name, body in self.masses.items() if name not in self.shapes[0]]
        lengths += [mesh.radius for name, look in self.shapes[0].items() if name != WORLD for mesh in look]
        lengths += [float(np.linalg.norm(body.center)) for body in self.masses.values()]
        for frame, points in self.links.items():
            if frame != WORLD:
                lengths += [float(np.linalg.norm(point)) for point in points]
        return max(lengths) if max(lengths, default=0.0) > 0 else 1.0

    @property
    def leaves(self) -> list[str]:
        """Bodies that carry no other body."""
        parents = {step.parent for step in self._description.graph.spanning_tree() if step.frame in self.masses}
        return [name for name in self.masses if name not in parents]

    # --- meshes -------------------------------------------------------------------------------------------------------------

    @cached_property
    def meshes(self) -> dict[str, list[Surface]]:
        """Frame -> its look."""
        thickness = 0.016 * self.scale
        parts: dict[str, list[Surface]] = {frame: [] for frame in self.links}
        for name, look in self.shapes[0].items():
            parts[name] += look
        for name in self._bare:
            parts[name] += self._solid(name) + self._arms(name, thickness)
        for edge in self._hinges:
            if not edge.joint.is_fixed and edge.b not in self.shapes[0] and edge.a not in self.shapes[0]:
                parts[edge.b].append(_pin(edge.joint, np.eye(4), thickness))
        for loop in self._description.loops:
            parts[loop.b].append(_pin(loop.joint, self.number(loop.at_b), thickness))
        for edge in self._description.graph.edges:
            if edge.joint.slides_along is not None and edge.b not in self.shapes[0]:
                parts[edge.a] += self._rail(edge, thickness)
        for thruster in self._thrusters.values():
            parts[thruster.body] += self._propeller(thruster, thickness)
        return parts

    @cached_property
    def shapes(self) -> tuple[dict[str, list[Surface]], list[str]]:
        """Frame -> meshes of its shapes, and problems with drawing them."""
        return shape_meshes(self._description.shapes)

    @property
    def _bare(self) -> list[str]:
        """Bodies to draw from their inertia: those without shapes, except parts welded to others in a system that has shapes."""
        welded = {e.b for e in self._description.graph.edges if e.joint.is_fixed} if self.shapes[0] else set()
        return [name for name in self.masses if name not in self.shapes[0] and name not in welded]

    def notes(self) -> list[str]:
        """Notes on the look of the bodies."""
        notes = [f"Not drawn: {problem}" for problem in dict.fromkeys(self.shapes[1])]
        if self._bare:
            some = "Bodies without a shape" if self.shapes[0] else "Bodies"
            notes.append(
                f"{some} are drawn as homogeneous balls, cylinders and boxes with the same mass and moments of inertia, point masses as "
                "small balls; discs that would hide their links are smaller. The model does not contain their true shape."
            )
        return notes

    def _solid(self, name: str) -> list[Surface]:
        rotors = self._rotors(name)
        if len(rotors) >= ROTORS:
            center = self.masses[name].center
            return [part.moved(at=center) for part in airframe(rotors - center, self._propeller_radius(name))]
        body, heaviest = self.masses[name], max(b.mass for b in self.masses.values()) or 1.0
        point = self.scale * max(0.085 * np.cbrt(body.mass / heaviest), 0.045)
        role = "load" if name in self.leaves else "arm"
        joints = [e.joint for e in self._description.graph.edges if e.b == name]
        rails = [joint.slides_along for joint in joints if joint.turns_about is None and joint.slides_along is not None]
        along = self.number(rails[0]) if rails else None
        # a disc must not hide a link between several joints
        reach = [float(np.linalg.norm(p - r)) for p in self.links[name] for r in self.links[name]]
        widest = 0.3 * max(reach, default=0.0)
        return equivalent_solid(body, point, role, along, widest if widest > 0 else np.inf)

    def _arms(self, name: str, thickness: float) -> list[Surface]:
        """Tubes from the joint of a body to its centre of mass and to the joints that it carries."""
        points, center = self.links[name], self.masses[name].center
        held = any(edge.b == name for edge in self._hinges)
        start = np.zeros(3) if held else center
        ends = [center, *points]
        return [tube(start, p, thickness, "body") for p in ends if np.linalg.norm(p - start) > thickness]

    def _rail(self, edge: Edge, thickness: float) -> list[Surface]:
        inside = self._relative(edge)
        axis = self.number(edge.at)[:3, :3] @ self.number(edge.joint.slides_along)
        travel = (inside - inside[0]) @ axis
        low, high = float(travel.min()) - 0.35 * self.scale, float(travel.max()) + 0.35 * self.scale
        ends = inside[0] + low * axis, inside[0] + high * axis
        return [tube(*ends, 0.7 * thickness, "cable"), *(sphere(1.3 * thickness, "cable").moved(at=e) for e in ends)]

    def _rotors(self, name: str) -> Floats:
        """Places (n, 3) of the thrusters on a body."""
        return np.array([self.number(t.at) for t in self._thrusters.values() if t.body == name]).reshape(-1, 3)

    def _propeller_radius(self, name: str) -> float:
        """A radius at which neighbouring propellers do not touch."""
        rotors = self._rotors(name)
        gaps = np.linalg.norm(rotors[:, None] - rotors, axis=-1)[~np.eye(len(rotors), dtype=bool)]
        return 0.45 * float(np.min(gaps, initial=self.scale))

    def _propeller(self, thruster: Thruster, thickness: float) -> list[Surface]:
        at, axis = self.number(thruster.at), self.number(unit_axis(thruster.axis, "thruster"))
        clockwise = float(self.number(thruster.drag_ratio)) > 0
        pose = se3.pose(so3.rotation_with_z(axis), at)
        parts = [propeller(self._propeller_radius(thruster.body), clockwise=clockwise).moved(pose)]
        if len(self._rotors(thruster.body)) < ROTORS:
            center = self.masses[thruster.body].center if thruster.body in self.masses else np.zeros(3)
            parts.append(cylinder(2 * thickness, 4 * thickness).moved(pose))
            parts += [tube(center, at, thickness)] if np.linalg.norm(at - center) > thickness else []
        return parts

    # --- scene --------------------------------------------------------------------------------------------------------------

    def scene(self) -> Scene:
        """Bodies, fixed parts, trails of the last bodies, thrusts, ground."""
        bodies = {_shown(n): _centred(m, self.poses[n]) for n, m in self.meshes.items() if m and n != WORLD}
        bodies |= self._drawn_lines()
        ground = self._ground(bodies)
        fixed = self._fixed(bodies, ground)
        if fixed is not None:
            bodies["fixed parts"] = fixed
        return Scene(
            self.times,
            bodies,
            trails=self._trails(),
            arrows=self._arrows(),
            ground=ground,
            follow=self._followed(bodies),
            axes=axis_labels(self.turn),
        )

    def _followed(self, bodies: Mapping[str, Body]) -> str:
        free = [_shown(e.b) for e in self._description.graph.edges if e.joint.translations > 1]
        roaming = [name for name in free if name in bodies]
        drawn = [name for name in map(_shown, self.masses) if name in bodies]
        return roaming[0] if roaming else max(drawn or bodies, key=lambda name: bodies[name].radius)

    def _trails(self) -> dict[str, Trail]:
        trails = {}
        for name in self.leaves:
            pose = self.poses[name]
            path = se3.transform(pose, self.masses[name].center)
            if np.max(np.ptp(path, axis=0)) > 1e-3 * self.scale and len(trails) < MOST_TRAILS:
                trails[f"path of {name}"] = Trail(path, f"path {len(trails)}")
        return trails

    def _arrows(self) -> dict[str, Arrow]:
        """Thrusts, the largest one as long as the largest link."""
        names = list(self._description.inputs)
        forces = {name: self.u[:, names.index(name)] for name in self._thrusters}
        largest = max((float(np.max(np.abs(f))) for f in forces.values()), default=0.0)
        arrows = {}
        for name, thruster in self._thrusters.items():
            if largest > 0:
                pose = self.poses[thruster.body]
                origin = se3.transform(pose, self.number(thruster.at))
                axis = self.number(unit_axis(thruster.axis, "thruster"))
                vector = forces[name][:, None] * (pose[:, :3, :3] @ axis)
                arrows[name] = Arrow(origin, vector, scale=0.9 * self.scale / largest)
        return arrows | self._force_arrows()

    def _force_arrows(self) -> dict[str, Arrow]:
        """Forces of contacts: a lasting one as long as a link, impacts at most three times that."""
        sizes = [np.linalg.norm(force, axis=-1) for _, force in self.forces.values()]
        acting = np.concatenate([size[size > 0.0] for size in sizes]) if sizes else np.zeros(0)
        if not len(acting):
            return {}
        usual, arrows = float(np.median(acting)), {}
        for (name, (point, force)), size in zip(self.forces.items(), sizes, strict=True):
            if np.any(size):
                shown = force * np.minimum(1.0, 3.0 * usual / np.maximum(size, 1e-300))[:, None]
                arrows[f"contact {name}"] = Arrow(
                    point @ self.turn.T, shown @ self.turn.T, scale=0.6 * self.scale / usual
                )
        return arrows

    @cached_property
    def lines(self) -> list[Line]:
        """Lines of the force elements."""
        return [line for element in self._description.elements for line in element.lines()]

    def _drawn_lines(self) -> dict[str, Body]:
        """Struts as rods that slide in tubes, each fixed to one end; cables as rows of overlapping pieces."""
        bodies = {}
        for k, line in enumerate(self.lines):
            ends = ((line.a, line.at_a), (line.b, line.at_b))
            a, b = (se3.transform(self.poses[frame], self.number(point)) for frame, point in ends)
            length = np.linalg.norm(b - a, axis=-1)
            direction = np.where(length[:, None] > 0, (b - a) / np.maximum(length, 1e-12)[:, None], [0.0, 0.0, 1.0])
            shortest, longest = max(float(length.min()), 0.02 * self.scale), float(length.max())
            if line.look == "strut":
                ends = (("tube", a, 1.0, 0.55, 0.022, "cable"), ("rod", b, -1.0, 0.75, 0.012, "accent"))
                for end, at, sense, share, radius, role in ends:
                    reach = min(shortest, share * longest)
                    mesh = tube((0, 0, 0), (0, 0, reach), radius * self.scale, role)
                    bodies[f"strut {k + 1} {end}"] = Body([mesh], _along(at, sense * direction))
                continue
            count = int(np.clip(np.ceil(longest / shortest), 1, MOST_PIECES))
            reach = max(longest / count, 0.02 * self.scale)
            mesh = tube((0, 0, 0), (0, 0, reach), 0.008 * self.scale, "cable")
            for piece in range(count):
                start = (length - reach) * (piece / max(count - 1, 1))
                bodies[f"line {k + 1} piece {piece + 1}"] = Body(
                    [mesh], _along(a + start[:, None] * direction, direction)
                )
        return bodies

    def _cloud(self, bodies: Mapping[str, Body]) -> Floats:
        """Positions (n, 3) of all vertices at some times."""
        at = np.unique(np.linspace(0, len(self.times) - 1, LOOKS).astype(int))
        clouds = []
        for body in bodies.values():
            motion = np.asarray(body.motion)[at]
            points = np.concatenate([mesh.vertices for mesh in body.meshes])
            points = np.unique(np.round(points / (1e-3 * self.scale)), axis=0) * (1e-3 * self.scale)
            clouds.append((points @ np.swapaxes(motion[:, :3, :3], -1, -2) + motion[:, None, :3, 3]).reshape(-1, 3))
        return np.concatenate(clouds)

    def _ground(self, bodies: Mapping[str, Body]) -> float:
        """The height below everything; a mechanism fixed to the world is a little above it. A robot with shapes that is not far above z = 0, and
        not below it, is on a floor there; so is a system with a ground."""
        if (
            any(g.frame == WORLD and isinstance(g.surface, Plane) for g in self._description.grounds)
            and self.turn[2, 2] > 0.999
        ):
            return 0.0
        cloud = self._cloud(bodies)[:, 2]
        lowest, height = float(cloud.min()), float(np.ptp(cloud))
        if self.shapes[0] and -0.02 * height <= lowest <= height:
            return 0.0
        if self.shapes[0]:
            return lowest
        fixed = [self.turn @ point for point in self.links[WORLD]]
        return min([lowest, *(float(p[2]) for p in fixed)]) - (0.15 * self.scale if fixed else 0.0)

    def _fixed(self, bodies: Mapping[str, Body], ground: float) -> Body | None:
        """Rails, links between the joints on the world, and posts below them where nothing passes."""
        drawn = set(self.shapes[0])
        points = [] if drawn else [self.turn @ point for point in self.links[WORLD]]  # robots with shapes need no posts
        parts = [mesh.moved(self.picture) for mesh in self.meshes[WORLD]]
        thin = 0.011 * self.scale
        cloud = self._cloud(bodies)
        for k, point in enumerate(points):
            if k and np.linalg.norm(point - points[k - 1]) > thin:
                parts.append(tube(points[k - 1], point, thin, "cable"))
            foot = np.array([point[0], point[1], ground])
            near = np.linalg.norm(cloud[:, :2] - point[:2], axis=-1) < 0.04 * self.scale
            if not np.any(near & (cloud[:, 2] < point[2] - 0.25 * self.scale)):
                parts.append(tube(foot, point, 1.6 * thin, "cable"))
                parts.append(disc(0.11 * self.scale, 2 * thin, "cable").moved(at=foot + [0, 0, thin]))
            else:
                parts.append(sphere(3 * thin, "cable").moved(at=point))
        return _centred(parts, np.tile(np.eye(4), (len(self.times), 1, 1))) if parts else None


def _shown(name: str) -> str:
    """A name without slashes, which separate parts of names on the page."""
    return name.replace("/", "\u2215")


def _centred(meshes: list[Surface], poses: Floats) -> Body:
    """A body with its frame in the middle of its meshes, where the camera points."""
    vertices = np.concatenate([mesh.vertices for mesh in meshes])
    middle = (vertices.min(axis=0) + vertices.max(axis=0)) / 2
    moved = np.array(poses)
    moved[:, :3, 3] += poses[:, :3, :3] @ middle
    return Body([mesh.moved(at=-middle) for mesh in meshes], moved)


def _pin(joint: Joint, at: Floats, thickness: float) -> Surface:
    """The look of a joint at a pose: a pin along its axis, or a ball."""
    pose = np.array(at, dtype=float)
    axis = joint.turns_about
    if axis is None:
        return sphere((1.7 if joint.coordinates.nv == 2 else 2.0) * thickness, "accent").moved(pose)
    pose[:3, :3] = pose[:3, :3] @ so3.rotation_with_z(np.asarray(axis, dtype=float))
    return cylinder(1.8 * thickness, 5.5 * thickness, "accent", 20).moved(pose)


def _along(at: Floats, direction: Floats) -> Floats:
    """Poses (T, 4, 4) at places (T, 3) with z axes along directions (T, 3)."""
    return se3.pose(so3.rotation_with_z(direction), at)
