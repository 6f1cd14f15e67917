"""Force elements are drawn as lines from end to end at every time, also user-defined ones."""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_allclose

import heavytop as ht
from heavytop.show.linkage import Linkage
from heavytop.system.forces import Line


class Rope(ht.PairElement):
    """A user-defined element."""

    def __init__(self, a: str, b: str) -> None:
        self.a, self.b = a, b

    def energy(self, pose):
        return 0.5 * np.vecdot(pose[:3, 3], pose[:3, 3])


class Anchored(Rope):
    def lines(self) -> tuple[Line, ...]:
        return (Line(self.a, (0.0, 0.0, 2.0), self.b, (0.1, 0.0, 0.0)),)


def drawn(element: ht.ForceElement) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Names of the pieces, the least and the largest z of their vertices at each time."""
    system = ht.System()
    system.body("ball", joint=ht.Prismatic("z"), inertia=ht.Inertia(1.0, moment_at_com=(0.001, 0.001, 0.001)))
    system.add(element)
    model = system.derive(native=False)
    z = np.linspace(-0.3, -1.0, 5)
    scene = Linkage(model, np.arange(5.0), z[:, None], np.zeros((5, 0))).scene()
    pieces = {name: body for name, body in scene.bodies.items() if name.startswith("line")}
    heights = np.concatenate(
        [
            (body.motion[:, None, :3, :3] @ mesh.vertices[None, :, :, None])[..., 2, 0] + body.motion[:, None, 2, 3]
            for body in pieces.values()
            for mesh in body.meshes
        ],
        axis=1,
    )
    return list(pieces), heights.min(axis=1), heights.max(axis=1)


def test_a_line_of_any_length_reaches_from_end_to_end() -> None:
    names, low, high = drawn(Rope("world", "ball"))
    assert len(names) == 4  # from 0.3 m to 1 m
    assert_allclose(low, np.linspace(-0.3, -1.0, 5), atol=0.01)
    assert_allclose(high, 0.0, atol=0.01)


def test_elements_define_their_lines() -> None:
    _, low, high = drawn(Anchored("world", "ball"))
    assert_allclose(low, np.linspace(-0.3, -1.0, 5), atol=0.01)
    assert_allclose(high, 2.0, atol=0.01)


def test_a_drawn_floor_does_not_enlarge_rails_and_point_masses() -> None:
    system = ht.System(name="lift")
    system.shape("world", ht.Box((100.0, 100.0, 0.1)))
    system.body("cabin", joint=ht.Free(), inertia=ht.Inertia(5.0, moment_at_com=(0.1, 0.1, 0.1)))
    system.body("load", parent="cabin", joint=ht.Prismatic("z"), inertia=ht.Inertia(1.0))
    model = system.derive(native=False)
    q, v = np.tile(model.neutral(), (2, 1)), np.zeros((2, model.nv))
    bodies = Linkage(model, np.arange(2.0), q, v).scene().bodies
    assert max(mesh.radius for name in ("cabin", "load") for mesh in bodies[name].meshes) < 1.0
