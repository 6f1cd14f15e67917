"""Prototypes: numbers computed independently, and which inequality fails."""

from __future__ import annotations

import numpy as np
import pytest

from heavytop.control import DesiredDamping, DesiredInertia, Prototype, lateral_lever, poles_of
from heavytop.errors import ControlError
from heavytop.system import Damping, Inertia, Stiffness

LATERAL = (-2, -2, -6.4 + 4.8j, -6.4 - 4.8j)
YAW = poles_of(3.0, 0.9)


def moments(prototype: Prototype) -> list[np.ndarray]:
    pair = ("world", "hull")
    parts = (prototype.inertia["hull"], prototype.damping[pair], prototype.stiffness[pair])
    return [np.diag(part.moment_at_origin) for part in parts]


def test_quadcopter_numbers() -> None:
    prototype = Prototype.from_poles(LATERAL, (-2, -2), YAW, spread=0.02, yaw_inertia=0.01)
    inertia, damping, stiffness = moments(prototype)
    np.testing.assert_allclose(inertia, (0.02, 0.02, 0.01), rtol=1e-12)
    np.testing.assert_allclose(damping, (0.336, 0.336, 0.054), rtol=1e-12)
    np.testing.assert_allclose(stiffness, (2.384, 2.384, 0.09), rtol=1e-12)
    assert prototype.damping["world", "hull"].center[2] == pytest.approx(0.1565749, abs=5e-8)
    assert prototype.stiffness["world", "hull"].center[2] == pytest.approx(0.1304791, abs=5e-8)


def test_bicopter_numbers() -> None:
    levers = (lateral_lever(0.006, 1.0, 0.10), lateral_lever(0.020, 1.0, 0.25 / np.tan(np.deg2rad(15)) + 0.10))
    np.testing.assert_allclose(levers, (0.06, 0.0193608), atol=5e-8)
    prototype = Prototype.matched(LATERAL, 4.0, YAW, levers=levers, height=0.07)
    inertia, damping, stiffness = moments(prototype)
    np.testing.assert_allclose(inertia, (0.01332, 0.01633, 0.01), atol=5e-6)
    np.testing.assert_allclose(damping, (0.21531, 0.27717, 0.054), atol=5e-6)
    np.testing.assert_allclose(stiffness, (1.43045, 1.73865, 0.09), atol=5e-6)
    assert prototype.damping["world", "hull"].total == pytest.approx(4.8)


@pytest.mark.parametrize(
    ("lateral", "spread", "offset", "message"),
    [
        (LATERAL, 0.02, 0.2, "inertia: spread > offset^2 fails"),
        (LATERAL, 0.08, 0.0, "damping: spread < p3 q1 g^2 / p1^2 fails"),
        ((-1, -1, -1, -1), 0.02, 0.0125, "stiffness: p2 spread - g offset > q0 h^2 fails"),
    ],
)
def test_failing_inequality_is_named(lateral: tuple[complex, ...], spread: float, offset: float, message: str) -> None:
    with pytest.raises(ControlError, match=message.replace("^", r"\^")):
        Prototype.from_poles(lateral, (-2, -2), YAW, spread=spread, offset=offset)


def test_inequalities_are_sharp() -> None:
    p3, _, p1, _ = np.real(np.poly(LATERAL))[1:]
    limit = p3 * 4 * 9.81**2 / p1**2
    Prototype.from_poles(LATERAL, (-2, -2), YAW, spread=limit * (1 - 1e-6))
    with pytest.raises(ControlError, match="damping"):
        Prototype.from_poles(LATERAL, (-2, -2), YAW, spread=limit * (1 + 1e-6))


@pytest.mark.parametrize(
    ("lateral", "message"),
    [
        ((-2, -2, -3), "has 4 poles, got 3"),
        ((-2, -2, -3, 0.1), "negative real parts"),
        ((-2, -2, -3 + 1j, -4), "conjugate pairs"),
        ((-2, -2, -3, np.nan), "finite"),
    ],
)
def test_bad_poles(lateral: tuple[complex, ...], message: str) -> None:
    with pytest.raises(ControlError, match=message):
        Prototype.from_poles(lateral, (-2, -2), YAW)


def test_not_positive_moment_names_the_kind() -> None:
    inertia = Inertia(1.0, moment_at_com=(0.02, 0.02, 0.02))
    with pytest.raises(ControlError, match=r"stiffness between 'world' and 'hull'"):
        Prototype.of_body(inertia, Damping(1.0, moment_at_center=(1, 1, 1)), Stiffness(0.0, moment_at_center=(1, 1, 1)))
    with pytest.raises(ControlError, match=r"damping between 'world' and 'hull'"):
        Prototype.of_body(inertia, Damping(1.0), Stiffness(1.0, moment_at_center=(1, 1, 1)))


def test_desired_moments_need_not_be_physical() -> None:
    moment = (0.25, 0.19, 0.05)  # violates the triangle inequality
    assert DesiredDamping(4.8, (0, 0, 0.07), moment).total == 4.8
    with pytest.raises(ControlError, match="negative eigenvalue"):
        DesiredInertia(1.0, (0, 0, 0), (0.1, 0.1, -0.01))


def test_prototype_without_inertia() -> None:
    with pytest.raises(ControlError, match="body"):
        Prototype({})
