"""Meshes have the volumes of their solids, outward normals, and reject bad input."""

from __future__ import annotations

import numpy as np
import pytest

from heavytop.errors import ModelError, ShapeError, UnknownNameError
from heavytop.geometry import rotation_with_z
from heavytop.show.airframes import airframe, slung_load
from heavytop.show.meshes import (
    Surface,
    box,
    cone,
    cylinder,
    hull,
    merge,
    propeller,
    ring,
    sphere,
    sweep,
    tube,
)


def volume(mesh: Surface) -> float:
    """Volume by the divergence theorem: one sixth of the sum of det(a, b, c) over the triangles."""
    a, b, c = (mesh.vertices[mesh.faces[:, k]] for k in range(3))
    return float(np.sum(np.cross(a, b) * c) / 6)


def face_normals(mesh: Surface) -> tuple[np.ndarray, np.ndarray]:
    a, b, c = (mesh.vertices[mesh.faces[:, k]] for k in range(3))
    normal = np.cross(b - a, c - a)
    area = np.linalg.norm(normal, axis=-1)
    return normal[area > 1e-12] / area[area > 1e-12, None], area > 1e-12


@pytest.mark.parametrize(
    ("mesh", "expected", "tolerance"),
    [
        (box((1.0, 2.0, 3.0)), 6.0, 1e-12),
        (cylinder(0.5, 2.0, sides=200), np.pi * 0.25 * 2.0, 1e-3),
        (cone(0.5, 2.0, sides=200), np.pi * 0.25 * 2.0 / 3, 1e-3),
        (sphere(0.7, sides=120), 4 / 3 * np.pi * 0.343, 3e-3),
        (ring(1.0, 0.2, sides=200), 2 * np.pi**2 * 0.01, 0.08),
        (hull((2.0, 1.0, 0.5), roundness=1.0, sides=120), np.pi / 6, 3e-3),
        (tube((1.0, 0.0, 0.0), (1.0, 3.0, 4.0), 0.1, sides=200), np.pi * 0.01 * 5, 1e-3),
    ],
)
def test_volume_is_that_of_the_solid(mesh: Surface, expected: float, tolerance: float) -> None:
    assert volume(mesh) == pytest.approx(expected, rel=tolerance)


@pytest.mark.parametrize(
    "mesh",
    [
        box((1, 2, 3)),
        cylinder(1, 2),
        cone(1, 2),
        sphere(1),
        ring(1, 0.2),
        hull((1, 1, 1)),
        tube((0, 0, 0), (1, 1, 1), 0.1),
    ],
)
def test_vertex_normals_are_units_and_agree_with_the_faces(mesh: Surface) -> None:
    np.testing.assert_allclose(np.linalg.norm(mesh.normals, axis=-1), 1.0, atol=1e-9)
    across, real = face_normals(mesh)
    mean = mesh.normals[mesh.faces[real]].mean(axis=1)
    assert np.min(np.sum(mean * across, axis=-1)) > 0


def test_propellers_of_both_senses_are_mirror_images() -> None:
    left, right = propeller(0.1), propeller(0.1, clockwise=True)
    assert np.max(np.linalg.norm(left.vertices[:, :2], axis=-1)) == pytest.approx(0.1, rel=0.05)
    # mirrored in the plane of z and the blade axis: y -> -y maps the set of blade vertices of one onto the other
    mirrored = {tuple(p) for p in np.round(right.vertices * [1, -1, 1], 6) + 0.0}
    assert len(mirrored & {tuple(p) for p in np.round(left.vertices, 6) + 0.0}) > 0.9 * len(mirrored)


def test_the_leading_edge_of_a_counterclockwise_propeller_is_high() -> None:
    blade = propeller(0.1).vertices
    tip = blade[(blade[:, 0] > 0.05) & (np.abs(blade[:, 1]) > 0.004)]
    # turning in the positive sense about z the blade on +x moves to +y: its edge at +y leads
    assert tip[tip[:, 1] > 0, 2].mean() > tip[tip[:, 1] < 0, 2].mean()


def test_moving_turns_normals() -> None:
    pose = np.eye(4)
    pose[:3, :3] = rotation_with_z(np.array([0.6, 0.0, 0.8]))
    pose[:3, 3] = (1, 2, 3)
    moved = box((1, 1, 1)).moved(pose)
    across, _ = face_normals(moved)
    np.testing.assert_allclose(moved.normals[moved.faces].mean(axis=1), across, atol=1e-12)
    np.testing.assert_allclose(moved.vertices.mean(axis=0), (1, 2, 3), atol=1e-12)


def test_merge_keeps_every_triangle_and_role() -> None:
    merged = merge([box((1, 1, 1)), box((1, 1, 1)).moved(at=(3, 0, 0)), sphere(0.5, "load")])
    assert volume(merged["body"]) == pytest.approx(2.0)
    assert set(merged) == {"body", "load"}


def test_frames_along_any_direction_are_rotations() -> None:
    z = np.random.default_rng(1).normal(size=(50, 3))
    z = np.concatenate([z / np.linalg.norm(z, axis=-1, keepdims=True), np.eye(3), -np.eye(3)])
    R = rotation_with_z(z)
    np.testing.assert_allclose(R[:, :, 2], z)
    np.testing.assert_allclose(np.linalg.det(R), 1.0)
    np.testing.assert_allclose(R @ np.swapaxes(R, 1, 2), np.broadcast_to(np.eye(3), R.shape), atol=1e-12)


def test_a_prefix_of_a_swept_curve_is_the_curve_so_far() -> None:
    t = np.linspace(0, 1, 41)
    curve = np.stack([t, np.sin(3 * t), t**2], axis=-1)
    tube_mesh = sweep(curve, 0.01, sides=6)
    per_segment = 6 * 2
    assert len(tube_mesh.faces) == 40 * per_segment
    half = tube_mesh.vertices[tube_mesh.faces[: 20 * per_segment].reshape(-1)]
    assert np.max(half[:, 0]) < 0.5 + 0.011
    distances = np.linalg.norm(tube_mesh.vertices.reshape(41, 7, 3) - curve[:, None], axis=-1)
    np.testing.assert_allclose(distances, 0.01)


def test_a_dashed_curve_has_gaps_and_a_resting_one_survives() -> None:
    line = np.linspace((0, 0, 0), (1, 0, 0), 101)
    solid, dashed = sweep(line, 0.01), sweep(line, 0.01, dash=0.1)
    assert len(dashed.faces) == pytest.approx(len(solid.faces) / 2, rel=0.05)
    assert np.all(np.isfinite(sweep(np.zeros((5, 3)), 0.01).vertices))


@pytest.mark.parametrize("count", [2, 3, 4, 6, 8])
def test_an_airframe_reaches_its_rotors(count: int) -> None:
    angle = 2 * np.pi * np.arange(count) / count
    rotors = 0.3 * np.stack([np.cos(angle), np.sin(angle), 0 * angle], axis=-1)
    meshes = airframe(rotors, 0.1)
    vertices = np.concatenate([mesh.vertices for mesh in meshes])
    for tip in rotors:
        assert np.min(np.linalg.norm(vertices - tip, axis=-1)) < 0.03
    assert "accent" in {mesh.role for mesh in meshes}


def test_a_slung_load_hangs_at_the_end_of_its_cable() -> None:
    crate = next(mesh for mesh in slung_load(0.5, 0.1) if mesh.role == "load")
    np.testing.assert_allclose(crate.vertices.mean(axis=0), (0, 0, -0.5), atol=1e-12)


def test_bad_meshes_are_rejected() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown role 'bodi'\. Did you mean 'body'\?"):
        box((1, 1, 1), role="bodi")
    with pytest.raises(ShapeError, match=r"size of a box must have shape \(3,\), got \(2,\)"):
        box((1, 1))
    with pytest.raises(ShapeError, match=r"size of a box.*finite"):
        box((1, 1, np.nan))
    with pytest.raises(ModelError, match=r"tube"):
        tube((0, 0, 0), (0, 0, 0), 0.1)
    with pytest.raises(ModelError, match=r"0 to 2, got 3"):
        Surface(np.zeros((3, 3)), np.ones((3, 3)), np.array([[0, 1, 3]]))
    with pytest.raises(ShapeError, match=r"points of a curve must have shape \(n >= 2, 3\), got \(1, 3\)"):
        sweep(np.zeros((1, 3)), 0.1)
