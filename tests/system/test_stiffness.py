"""Stiffness from sets of springs against reference data in 50 digits (features K76-K79)."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from systems import along, directions, flow

import heavytop as ht
from heavytop.geometry import se3, so3

DATA = json.loads((Path(__file__).parents[1] / "golden" / "g_stiffness.json").read_text())
sets = pytest.mark.parametrize("data", DATA["sets"], ids=lambda data: data["label"].replace(" ", "-"))


def springs_of(data):
    rows = np.array(data["springs_[k,hx,hy,hz,px,py,pz]"])
    return rows[:, 0], rows[:, 1:4], rows[:, 4:7]


def body_on(springs, gravity=(0, 0, 0)):
    system = ht.System(gravity=gravity)
    system.body("body", joint=ht.Free(), inertia=ht.Inertia(1.0, moment_at_com=(1, 1, 1)))
    system.spring("world", "body", springs)
    return system.derive(native=False)


def spring_sum(springs, G):
    k, h, p = springs
    return 0.5 * np.sum(k * np.sum((se3.transform(G, h) - p) ** 2, axis=-1))


@sets
def test_parameters(data):
    stiffness, rest, least = ht.Stiffness.from_springs(*springs_of(data))
    assert_allclose(stiffness.total, data["k"], rtol=1e-14)
    assert_allclose(stiffness.center, data["h"], atol=1e-14)
    assert_allclose(rest[:3, :3], data["R_R"], atol=1e-12)
    assert_allclose(rest[:3, 3], data["r_R"], atol=1e-12)
    scale = np.max(np.abs(data["Kprime"]))
    assert_allclose(stiffness.moment_at_center, data["Pi_s"], atol=1e-12 * scale)
    assert_allclose(stiffness.moment_at_origin, data["Pi"], atol=1e-12 * scale)
    assert_allclose(stiffness.moments, data["Kprime"], atol=1e-12 * scale)
    assert_allclose(stiffness.matrix, data["stiffness_matrix_6x6"], atol=1e-12 * scale)
    assert_allclose(least, data["V0"], atol=1e-12 * scale)


@sets
def test_potential_and_gradient(data):
    springs = ht.Stiffness.from_springs(*springs_of(data))
    model = body_on(springs)
    for evaluation in data["evaluations"]:
        G = se3.pose(np.array(evaluation["R"]), np.array(evaluation["r"]))
        q = ht.coordinates.Pose().from_pose(G)
        force = np.array(evaluation["grad_[force;moment]"])
        assert_allclose(model.potential_energy(q), evaluation["V"], rtol=1e-12)
        assert_allclose(model.stiffness_force(q), force, atol=1e-12 * np.max(np.abs(force)))


@sets
def test_the_rest_pose_is_a_minimum_with_the_stiffness_as_hessian(data):
    springs = ht.Stiffness.from_springs(*springs_of(data))
    model = body_on(springs)
    q = ht.coordinates.Pose().from_pose(springs.rest)
    scale = np.max(np.abs(springs.stiffness.matrix))
    assert_allclose(model.stiffness_force(q), 0, atol=1e-12 * scale)
    assert_allclose(model.potential_energy(q), springs.least_energy, atol=1e-11 * scale)
    Q = np.broadcast_to(q, (6, 12))
    hessian = along(lambda t: model.stiffness_force(flow(model, Q, directions(model), t)))
    assert_allclose(hessian, springs.stiffness.matrix, atol=1e-8 * scale)
    assert np.linalg.eigvalsh(hessian)[0] > 0
    rng = np.random.default_rng(0)
    poses = model.pose("world", "body", model.random(rng, (200,)))
    assert min(spring_sum(springs_of(data), G) for G in poses) > springs.least_energy - 1e-12 * scale


def test_indefinite_moments_are_accepted():
    """K' may have a negative eigenvalue although the rest pose is a minimum (erratum 0.31)."""
    negative = [
        np.linalg.eigvalsh(ht.Stiffness.from_springs(*springs_of(data)).stiffness.moments)[0] < 0
        for data in DATA["sets"]
    ]
    assert any(negative)
    assert not all(negative)


def test_minimum_that_is_not_strict():
    """Springs along one line: any turn about it costs nothing; the rest pose is one of many and the energy is right."""
    line, k = np.array([1.0, 2.0, 2.0]) / 3, np.array([1.0, 2.0, 3.0])
    points = np.outer([-1.0, 0.5, 2.0], line) + np.array([0.1, 0.2, 0.3])
    anchors = np.outer([-1.5, 0.5, 2.5], [0.0, 0.0, 1.0])
    springs = ht.Stiffness.from_springs(k, points, anchors)
    values = np.linalg.eigvalsh(springs.stiffness.moment_at_center)
    assert abs(values[0]) < 1e-12
    assert values[1] > 0.1
    assert_allclose(spring_sum((k, points, anchors), springs.rest), springs.least_energy, rtol=1e-12)
    model = body_on(springs)
    about = se3.pose(np.eye(3), springs.stiffness.center) @ se3.pose(so3.rotation_about(line, 0.8), np.zeros(3))
    turned = springs.rest @ about @ se3.pose(np.eye(3), -springs.stiffness.center)
    q = ht.coordinates.Pose().from_pose(turned)
    assert_allclose(model.potential_energy(q), springs.least_energy, rtol=1e-10)
    assert_allclose(model.stiffness_force(q), 0, atol=1e-10)
    assert_allclose(model.potential_energy(q), spring_sum((k, points, anchors), turned), rtol=1e-10)


def test_one_spring_pulls_along_itself():
    springs = ht.Stiffness.from_springs([3.0], [[1.0, 0.0, 0.0]], [[0.0, 0.0, 0.0]])
    assert springs.least_energy == 0
    model = body_on(springs)
    assert_allclose(model.stiffness_force(model.neutral()), [3.0, 0, 0, 0, 0, 0], atol=1e-14)


def test_rest_pose_by_default_is_the_neutral_one():
    system = ht.System(gravity=(0, 0, 0))
    system.body("a", at=(0, 0, 1), joint=ht.Revolute("x"), inertia=ht.Inertia(1.0, moment_at_com=(1, 1, 1)))
    system.body("b", parent="a", at=(0, 1, 0), joint=ht.Revolute("x"), inertia=ht.Inertia(1.0, moment_at_com=(1, 1, 1)))
    system.spring("a", "b", ht.Stiffness(moment_at_center=(5.0, 5.0, 5.0)))
    model = system.derive(native=False)
    assert_allclose(model.stiffness_force([0.7, 0.0]), 0, atol=1e-14)
    assert_allclose(model.stiffness_force([0.7, 0.3]), [0, 5.0 * np.sin(0.3)], atol=1e-13)


@pytest.mark.parametrize("seed", range(5))
def test_a_single_spring_has_no_moment(seed: int) -> None:
    rng = np.random.default_rng(seed)
    springs = ht.Stiffness.from_springs([2.5], rng.standard_normal((1, 3)), rng.standard_normal((1, 3)))
    np.testing.assert_allclose(springs.stiffness.moment_at_center, 0.0, atol=1e-12)
    assert springs.stiffness.total == 2.5
