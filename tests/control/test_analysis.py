"""Floquet exponents, linearisation, local instability of the particle law, computed torque, C export."""

from __future__ import annotations

import itertools
import shutil
import subprocess
import time

import numpy as np
import pytest

from heavytop import Feedback, System, vector
from heavytop.control import (
    ClosedLoop,
    Reference,
    circle,
    computed_torque,
    figure_eight,
    flat_reference,
    floquet_exponents,
    hover,
    linearize,
    region_of_attraction,
)
from heavytop.errors import ControlError, SimulationError
from heavytop.geometry import se3, so3
from heavytop.system import Inertia, JointForce, Prismatic, Revolute, Wrench

KINDS = ("P", "B", "E", "Ed")
FLOQUET = {
    ("eight", 0.8): (-1.448, -1.105, -0.989, -1.449),
    ("eight", 1.2): (-1.188, -0.271, -0.252, -1.196),
    ("eight", 1.5): (-1.073, 0.115, 0.191, -1.083),
    ("eight", 1.6): (-0.783, 0.164, 0.315, -1.051),
    ("vertical", 2): (-1.50, -0.59, -0.64, -1.50),
    ("vertical", 3): (-1.06, 1.45, 1.00, -1.17),
    ("vertical", 4): (-0.18, 1.78, 1.12, -0.97),
    ("vertical", 5): (0.59, 2.02, 1.18, -0.68),
    ("vertical", 6): (1.32, 2.19, 1.21, 0.08),
    ("horizontal", 2): (-1.26, -0.60, -0.58, -1.29),
    ("horizontal", 3): (-0.19, 0.12, 0.02, -1.03),
    ("horizontal", 4): (2.02, 0.47, 0.04, -0.80),
}
FAST = {("eight", 1.5), ("vertical", 4)}


@pytest.mark.parametrize(
    ("path", "rate"), [pytest.param(*key, marks=() if key in FAST else pytest.mark.slow) for key in FLOQUET]
)
def test_floquet_exponents(lab, path: str, rate: float) -> None:
    model, period = lab.vehicle("quadcopter").model, 2 * np.pi / rate
    if path == "eight":
        reference = flat_reference(model, figure_eight(rate), heading=(1, 0, 0), period=period)
    elif path == "vertical":
        reference = flat_reference(model, circle(1.5, rate, "xz"), side=(0, 1, 0), period=period)
    else:
        reference = flat_reference(model, circle(2.0, rate, "xy"), heading=(1, 0, 0), period=period)
    digits = 6e-4 if path == "eight" else 6e-3
    for kind, expected in zip(KINDS, FLOQUET[path, rate], strict=True):
        assert floquet_exponents(lab.law("quadcopter", kind), reference, steps=1000)[0] == pytest.approx(
            expected, abs=digits
        )


def test_floquet_needs_a_period(lab) -> None:
    with pytest.raises(ControlError, match="periodic"):
        floquet_exponents(lab.law("quadcopter", "P"), lab.manoeuvre("loop")[0])


@pytest.mark.parametrize("kind", ["P", "B", "Ed"])
def test_particle_law_is_unstable_on_fast_rotation(lab, kind: str) -> None:
    """Locally unstable for w_R^2 > Pibar / Thbar; the other two stay stable. Tricopter: Pibar = 100 Thbar."""
    law, model = lab.law("tricopter", kind), lab.vehicle("tricopter").model
    largest = []
    for rate in (9.5, 10.5):
        reference = Reference.from_pose(model, lambda t, w=rate: se3.pose(so3.rotation_about("z", w * t), np.zeros(3)))
        q, v, _ = reference(0.0)
        largest.append(np.max(linearize(model, law.with_reference(reference), q, v).poles.real))
    assert largest[0] < 0
    assert (largest[1] > 0) == (kind == "P")


def test_linearisation_predicts_a_small_motion(lab) -> None:
    law, model = lab.law("bicopter", "Ed"), lab.vehicle("bicopter").model
    linear = hover(law)
    x = 1e-6 * np.random.default_rng(0).standard_normal(12)
    start = (model.integrate(model.neutral(), x[:6], 1.0), x[6:])
    flight = ClosedLoop(model, law.with_reference(model.neutral())).fly(start, 0.5)
    from scipy.linalg import expm

    predicted = expm(0.5 * linear.A) @ x
    got = np.concatenate([model.difference(model.neutral(), flight.q[-1]), flight.v[-1]])
    np.testing.assert_allclose(got, predicted, atol=1e-10)


@pytest.mark.thorough
def test_export_to_python_control(lab) -> None:
    linear = hover(lab.law("quadcopter", "Ed"))
    assert linear.names[0] == "eps:hull.v_x"
    control = pytest.importorskip("control") if _has_control() else None
    if control is None:
        with pytest.raises(ControlError, match="'control'"):
            linear.to_control()
    else:
        np.testing.assert_allclose(linear.to_control().A, linear.A)


def _has_control() -> bool:
    try:
        import control
    except ImportError:
        return False
    return hasattr(control, "ss")


# --- computed torque ------------------------------------------------------------------------------------------------------------


def arm(inputs: int = 2) -> System:
    system = System(name="arm")
    system.body("upper", joint=Revolute("y"), inertia=Inertia(1.0, (0, 0, -0.4), (0.05, 0.05, 0.001)))
    system.body(
        "lower",
        parent="upper",
        at=(0, 0, -0.8),
        joint=Revolute("y"),
        inertia=Inertia(0.7, (0, 0, -0.3), (0.03, 0.03, 0.001)),
    )
    for name in ("upper", "lower")[:inputs]:
        system.input(name, JointForce(name))
    return system


@pytest.mark.thorough
def test_computed_torque_error_equation() -> None:
    model = arm().derive()
    L1, L0 = np.array([[3.0, 0.5], [0.2, 4.0]]), np.array([5.0, 7.0])
    law = computed_torque(model, stiffness=L0, damping=L1)
    rng = np.random.default_rng(1)
    q, v, q_R, v_R, a_R = rng.standard_normal((5, 2))
    a = model.acceleration(q, v, law(q, v, q_R, v_R, a_R))
    np.testing.assert_allclose(a - a_R + L1 @ (v - v_R) + L0 * (q - q_R), 0.0, atol=1e-10)
    reference = Reference.from_function(model, lambda t: vector(np.sin(t), np.cos(2 * t)))
    flight = ClosedLoop(model, law.with_reference(reference)).fly(
        (reference(0.0)[0] + 0.3, reference(0.0)[1]), 8.0, step=2e-3
    )
    assert np.max(np.abs(flight.q[-1] - reference(8.0)[0])) < 1e-4


def test_computed_torque_rejects_unsuitable_models(lab) -> None:
    with pytest.raises(ControlError, match="inputs"):
        computed_torque(arm(1).derive(), stiffness=1.0, damping=1.0)
    with pytest.raises(ControlError, match="minimal"):
        computed_torque(lab.vehicle("tricopter").model, stiffness=1.0, damping=1.0)
    twin = arm(1)
    twin.input("again", JointForce("upper"))
    with pytest.raises(ControlError, match="B is singular"):
        computed_torque(twin.derive(), stiffness=1.0, damping=1.0)
    massless = System(name="massless")
    massless.body("upper", joint=Revolute("y"), inertia=Inertia(0.0))
    massless.input("motor", Wrench("upper", moment=(0, 1.0, 0)))
    with pytest.raises(ControlError, match="M is singular"):
        computed_torque(massless.derive(), stiffness=1.0, damping=1.0)
    with pytest.raises(ValueError, match="damping"):
        computed_torque(arm().derive(), stiffness=1.0, damping=[1.0, 2.0, 3.0])


# --- C ----------------------------------------------------------------------------------------------------------------------------


def test_time_per_call(lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all calls between two readings, one each."""
    readings = itertools.count()
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(readings)))
    seconds = lab.law("quadcopter", "Ed").call_seconds(1000)
    assert seconds == 1e-3


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
@pytest.mark.thorough
def test_law_as_c(lab, tmp_path) -> None:
    """The exported law compiles as C99 without warnings and passes its own test: same inputs as here."""
    law = lab.law("quadcopter", "Ed", (0.0, 6.0, 100.0))
    files = law.export_c(tmp_path / "law")
    source = (tmp_path / "law" / "energy_law.c").read_text()
    assert "malloc" not in source
    assert {f.name for f in files} >= {"energy_law.c", "energy_law.h", "Makefile"}
    flags = ["-std=c99", "-O1", "-Wall", "-Werror"]
    names = ["energy_law.c", "test_energy_law.c"]
    subprocess.run(["cc", *flags, *names, "-lm", "-o", "test"], cwd=tmp_path / "law", check=True, capture_output=True)
    subprocess.run(["./test"], cwd=tmp_path / "law", check=True, capture_output=True)


def test_diverging_flights_are_not_recovered() -> None:
    """z'' = -2 z' - z + z^3: from |z| > 1 at rest it leaves in finite time; the other flights count all the same."""
    system = System(gravity=(0, 0, 0))
    system.body("lift", joint=Prismatic("z"), inertia=Inertia(1.0))
    system.input("motor", JointForce("lift"))
    model = system.derive()
    law = Feedback(lambda q, v: q**3 - q - 2 * v, ("q", "v"))
    start = (np.array([[0.5], [2.0], [-0.5], [-2.0]]), np.zeros((4, 1)))
    result = region_of_attraction(model, law, start, until=20.0, step=0.01)  # type: ignore[arg-type]
    np.testing.assert_array_equal(result.recovered, [True, False, True, False])
    assert result.share == 0.5
    np.testing.assert_array_equal(np.isinf(result.final_distance), [False, True, False, True])
    np.testing.assert_allclose(result.drop[:3], [0.0, -2.0, 0.0], atol=1e-3)
    assert result.drop[3] > 1.0
    lost = region_of_attraction(model, law, (start[0][1::2], start[1][1::2]), until=20.0, step=0.01)  # type: ignore[arg-type]
    assert lost.share == 0.0
    with pytest.raises(SimulationError, match="not finite"):
        ClosedLoop(model, law).fly(start, 20.0, 0.01)  # type: ignore[arg-type]
