"""Frames and curves for the screen keep what can be seen."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from heavytop.geometry import so3
from heavytop.geometry.quaternion import rotation_from_quaternion
from heavytop.show.pack import frame_times, interpolate, pose_frames, thin_curves


@pytest.mark.parametrize(
    ("count", "duration", "most", "expected"),
    [(2001, 2.0, 9999, 121), (11, 1.0, 9999, 11), (60001, 60.0, 500, 500), (2, 1.0, 999, 2)],
)
def test_number_of_frames(count: int, duration: float, most: int, expected: int) -> None:
    times = np.linspace(3.0, 3.0 + duration, count)
    frames = frame_times(times, 60.0, most)
    assert len(frames) == expected
    assert frames[0] == times[0]
    assert frames[-1] == times[-1]


@given(st.integers(0, 2**31), st.floats(0.1, 12.0))
@settings(max_examples=25, deadline=None)
def test_poses_between_samples_of_a_steady_turn_are_exact(seed: int, rate: float) -> None:
    rng = np.random.default_rng(seed)
    axis = rng.normal(size=3)
    axis /= np.linalg.norm(axis)
    times = np.sort(rng.uniform(0, 2, 60))
    times = np.unique(np.concatenate([[0.0], times, [2.0]]))
    start = so3.random(rng)

    def pose(t: np.ndarray) -> np.ndarray:
        G = np.tile(np.eye(4), (len(t), 1, 1))
        G[:, :3, :3] = start @ so3.exp(rate * t[:, None] * axis)
        G[:, :3, 3] = t[:, None] * np.array([1.0, -2.0, 0.5])
        return G

    at = np.linspace(0, 2, 77)
    frames = pose_frames(times, pose(times), at)
    gap = rate * np.max(np.diff(times))
    if gap < np.pi:  # beyond, the shortest arc is another turn
        np.testing.assert_allclose(rotation_from_quaternion(frames[:, :4]), pose(at)[:, :3, :3], atol=1e-7)
    np.testing.assert_allclose(frames[:, 4:], pose(at)[:, :3, 3], atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(frames[:, :4], axis=-1), 1.0)


def test_quaternions_do_not_jump_in_sign_over_many_turns() -> None:
    times = np.linspace(0, 10, 1001)
    poses = np.tile(np.eye(4), (1001, 1, 1))
    poses[:, :3, :3] = so3.exp(5 * times[:, None] * np.array([0.0, 1.0, 0.0]))
    frames = pose_frames(times, poses, frame_times(times, 60, 9999))
    assert np.min(np.sum(frames[1:, :4] * frames[:-1, :4], axis=-1)) > 0.9


def test_interpolation_holds_the_ends() -> None:
    values = interpolate(np.array([0.0, 1.0]), np.array([[0.0], [2.0]]), np.array([-1.0, 0.25, 5.0]))
    np.testing.assert_allclose(values, [[0.0], [0.5], [2.0]])


@given(st.integers(3, 5000), st.integers(10, 400), st.integers(0, 2**31))
@settings(max_examples=40, deadline=None)
def test_thinned_curves_keep_extremes_ends_and_order(count: int, most: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    times = np.cumsum(rng.uniform(0.5, 1.5, count))
    curves = rng.normal(size=(3, count))
    t, y = thin_curves(times, curves, most)
    assert len(t) <= max(most, count if count <= most else 0)
    assert np.all(np.diff(t) > 0)
    assert (t[0], t[-1]) == (times[0], times[-1])
    np.testing.assert_array_equal(y.max(axis=1), curves.max(axis=1))
    np.testing.assert_array_equal(y.min(axis=1), curves.min(axis=1))
    if count <= most:
        np.testing.assert_array_equal(y, curves)
