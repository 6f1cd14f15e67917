"""Properties of joints, which drawings, writers and converters rely on, agree with their motion."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heavytop as ht
from heavytop.geometry import se3, so3
from heavytop.system.joints import Joint

PACKAGE = Path(ht.__file__).parent
JOINTS: dict[str, tuple[Joint, int]] = {
    "revolute": (ht.Revolute((1, 2, 2)), 0),
    "circle": (ht.Revolute("-y", coordinates="circle"), 0),
    "prismatic": (ht.Prismatic((0, 3, 4)), 1),
    "cylindrical": (ht.Cylindrical("x"), 1),
    "universal": (ht.Universal(), 0),
    "spherical": (ht.Spherical("quaternion"), 0),
    "planar": (ht.Planar(), 2),
    "free": (ht.Free(), 3),
    "mixed": (ht.Free("quaternion", "mixed"), 3),
    "fixed": (ht.Fixed(), 0),
}


class Screw(Joint):
    """A joint of a user, with a parameter."""

    def __init__(self, pitch: Any) -> None:
        self.pitch, self.block = pitch, ht.coordinates.Angle()

    @property
    def coordinates(self) -> ht.coordinates.Angle:
        return self.block

    def pose(self, q: Any) -> Any:
        return se3.pose(so3.rotation_about("z", q[0]), ht.vector(0.0, 0.0, self.pitch * q[0]))


@pytest.mark.parametrize("name", JOINTS)
def test_translations_and_axes(name: str) -> None:
    joint, translations = JOINTS[name]
    assert joint.translations == translations
    assert joint.is_fixed == (joint.coordinates.nv == 0)
    for q in joint.coordinates.random(3, (4,)):
        linear, angular = joint.jacobian(q)[:3], joint.jacobian(q)[3:]
        for axis, part in ((joint.turns_about, angular), (joint.slides_along, linear)):
            if axis is not None:
                assert np.linalg.norm(axis) == pytest.approx(1.0)
                np.testing.assert_allclose(np.cross(axis, part.T), 0.0, atol=1e-12)
                assert np.linalg.norm(axis @ part) == pytest.approx(1.0)


def test_a_joint_of_the_user_is_found_out() -> None:
    parameter = ht.System().parameter("pitch", 0.1)
    for pitch in (0.1, parameter):
        screw = Screw(pitch)
        assert (screw.translations, screw.kind, screw.turns_about, screw.is_fixed) == (1, "", None, False)


def test_another_pose_is_another_kind() -> None:
    """A file would be written with a joint that moves in another way."""

    class Skewed(ht.Revolute):
        def pose(self, q: Any) -> Any:
            return super().pose(2.0 * q)

    class Named(ht.Revolute):
        pass

    assert Skewed("z").kind == ""
    assert Named("z").kind == "revolute"


def test_a_coupled_joint_answers_for_the_one_inside() -> None:
    joint = ht.Coupled(ht.Prismatic("y"), "left", ratio=-2.0, offset=0.5)
    assert (joint.kind, joint.follows, joint.translations, joint.is_fixed) == ("prismatic", "left", 1, False)
    q, v = joint.follow(np.array([0.1]), np.array([1.0]))
    np.testing.assert_allclose([*q, *v], [0.3, -2.0])


@pytest.mark.thorough
def test_no_code_depends_on_classes_of_joints_or_elements() -> None:
    """A chain of isinstance forgets the parts of users."""
    kinds = {
        kind.__name__
        for module in (ht.system.joints, ht.system.forces)
        for kind in vars(module).values()
        if isinstance(kind, type)
    }
    kinds -= {"Joint", "ForceElement", "Free"}  # checks of arguments; Free alone has a choice of attitude coordinates
    found = []
    for path in PACKAGE.rglob("*.py"):
        if path.parent.name in ("joints", "forces"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance":
                named = {n.id for n in ast.walk(node.args[1]) if isinstance(n, ast.Name)}
                found += [(str(path.relative_to(PACKAGE)), name) for name in named & kinds]
    assert found == []
