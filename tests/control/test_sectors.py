"""Limits of tilting rotors: discs, rings, cones and boxes, the nearest point in them, stored tilts, export."""

from __future__ import annotations

import shutil
import subprocess

import numpy as np
import pytest
from scipy.optimize import minimize

from heavytop.compile import trace
from heavytop.control import Integral, Sector, TiltingLaw, TiltLimits, energy_law
from heavytop.control.limits.thrust_sector import nearest_in_sectors
from heavytop.copters import bicopter, tricopter
from heavytop.errors import ControlError

DISC, RING = {"thrust": (0.0, 7.0)}, {"thrust": (1.0, 7.0)}
CONE, WIDE = {"tilt": (-0.3, 0.8)}, {"tilt": (-2.0, 2.2)}
FEW = [np.inf, 3.0, np.inf, 3.0, np.inf, np.inf]
SHAPES = [DISC, RING, CONE, WIDE, DISC | CONE, RING | CONE, RING | WIDE]


@pytest.mark.parametrize("shape", SHAPES)
def test_nearest_point_of_a_sector_is_that_of_a_fine_grid(shape: dict) -> None:
    sector = Sector(0, 1, **shape)
    low, high = sector.thrust[0], min(sector.thrust[1], 15.0)
    first, last = sector.tilt if sector.bounded else (-np.pi, np.pi)
    angles, sizes = np.meshgrid(np.linspace(first, last, 300), np.linspace(low, high, 100))
    grid = np.stack([-sizes * np.sin(angles), sizes * np.cos(angles)], axis=-1).reshape(-1, 2)
    rng = np.random.default_rng(0)
    for point in [*(4 * rng.standard_normal((15, 2))), *(0.5 * rng.standard_normal((5, 2)))]:
        found = sector.nearest(point)
        thrust, tilt = sector.excess(found)
        assert thrust < 1e-12
        assert tilt < 1e-9
        nearest = np.linalg.norm(grid - point, axis=1).min()
        assert nearest - 0.2 <= np.linalg.norm(found - point) <= nearest + 1e-9


def test_a_force_that_vanishes_keeps_the_least_thrust_inside_the_cone() -> None:
    found = Sector(0, 1, (0.5, 7.0), (0.2, 0.4)).nearest((0.0, 0.0))
    np.testing.assert_allclose(found, 0.5 * np.array([-np.sin(0.3), np.cos(0.3)]))


def metric(seed: int, n: int = 6, spread: float = 100.0) -> np.ndarray:
    """A random metric with the condition of torque priority."""
    rng = np.random.default_rng(seed)
    Q, _ = np.linalg.qr(rng.standard_normal((n, n)))
    return Q @ np.diag(np.geomspace(1.0, spread, n)) @ Q.T


def by_slsqp(H: np.ndarray, x: np.ndarray, limits: TiltLimits, start: np.ndarray) -> float:
    """The minimum cost by a general solver."""
    conditions = []
    for s in limits.sectors:
        pair = [s.across, s.along]
        if np.isfinite(s.thrust[1]):
            conditions.append(lambda u, p=pair, F=s.thrust[1]: F**2 - u[p] @ u[p])
        if s.bounded:
            for side, angle in ((1.0, s.tilt[0]), (-1.0, s.tilt[1])):
                normal = side * np.array([-np.cos(angle), -np.sin(angle)])
                conditions.append(lambda u, p=pair, n=normal: n @ u[p])
    lower, upper = (np.broadcast_to(side, len(x)) for side in (limits.lower, limits.upper))
    solved = minimize(
        lambda u: (u - x) @ H @ (u - x) / 100,
        start,
        jac=lambda u: H @ (u - x) / 50,
        bounds=list(zip(lower, upper, strict=True)),
        constraints=[{"type": "ineq", "fun": c} for c in conditions],
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 300},
    )
    assert all(c(solved.x) > -1e-5 for c in conditions)
    return 100 * float(solved.fun)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "limits",
    [
        TiltLimits(sectors=[Sector(2 * k, 2 * k + 1, **DISC) for k in range(3)]),
        TiltLimits(sectors=[Sector(2 * k + 1, 2 * k, **DISC, **CONE) for k in range(3)]),
        TiltLimits([-np.inf, -1, *[-np.inf] * 4], FEW, sectors=[Sector(4, 2, **CONE), Sector(0, 5, **DISC)]),
    ],
)
def test_nearest_input_and_a_general_solver(limits: TiltLimits) -> None:
    """As good in all but rare demands, admissible in all."""
    traced, gaps = trace(limits.nearest, {"H": (6, 6), "x": (6,)}), []
    for seed in range(12):
        H, rng = metric(seed), np.random.default_rng(seed)
        x = rng.choice([3.0, 10.0, 40.0]) * rng.standard_normal(6)
        u = traced(H, x)[0]
        for s in limits.sectors:
            thrust, tilt = s.excess(u[[s.across, s.along]])
            assert thrust < 1e-9
            assert tilt < 1e-9 or np.linalg.norm(u[[s.across, s.along]]) < 1e-9
        free = [i for i in range(6) if all(i not in (s.across, s.along) for s in limits.sectors)]
        assert np.all(u[free] <= np.broadcast_to(limits.upper, 6)[free])
        assert np.all(u[free] >= np.broadcast_to(limits.lower, 6)[free])
        cost, other = (u - x) @ H @ (u - x), by_slsqp(H, x, limits, u)
        gaps.append((cost - other) / max(cost, 1e-6))
    assert np.mean(np.array(gaps) < 1e-7) >= 0.9
    assert max(gaps) < 0.2


def test_a_demand_inside_its_sectors_is_unchanged() -> None:
    limits = TiltLimits(sectors=[Sector(0, 1, **DISC, **CONE), Sector(2, 3, **RING)])
    x = np.array([-1.0, 4.0, 2.0, -3.0])
    np.testing.assert_allclose(limits.nearest(metric(0, 4), x), x, rtol=1e-14)


@pytest.mark.thorough
def test_numbers_and_native_code_agree() -> None:
    limits = TiltLimits(
        sectors=[Sector(0, 1, (0.2, 7.0), (-1.0, 1.2), rate=8.0), Sector(2, 3, (0.0, 7.0), rate=5.0)], period=0.01
    )
    H = metric(3, 4)

    def nearest(x, z):
        from heavytop._arrays import from_sx, is_symbolic, to_sx

        angles = [to_sx(z)[k] for k in range(2)] if is_symbolic(z) else list(z)
        u, tilts = nearest_in_sectors(H, x, limits, angles, steps=4)
        if not is_symbolic(x):
            return u, np.array(tilts)
        import casadi

        return u, from_sx(casadi.vertcat(*tilts), (2,))

    traced = trace(nearest, {"x": (4,), "z": (2,)})
    rng = np.random.default_rng(1)
    for k in range(15):
        x, z = 8 * rng.standard_normal(4), rng.uniform(-1, 1, 2)
        u, tilts = traced(x, z)
        if k < 3:
            for a, b in zip((u, tilts), nearest(x, z), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
        assert np.all(np.abs(tilts - z) <= 0.01 * np.array([8.0, 5.0]) + 1e-12)
        for i in range(2):
            if np.hypot(*u[2 * i : 2 * i + 2]) > 1e-6:
                assert np.arctan2(-u[2 * i], u[2 * i + 1]) == pytest.approx(tilts[i], abs=1e-6)


def test_wrong_sectors_are_rejected() -> None:
    for wrong in ({"thrust": (3.0, 1.0)}, {"thrust": (-1.0, 1.0)}, {"tilt": (1.0, -1.0)}, {"rate": 0.0}):
        with pytest.raises(ControlError):
            Sector(0, 1, **wrong)
    with pytest.raises(ControlError, match="two sectors"):
        TiltLimits(sectors=[Sector(0, 1), Sector(1, 2)])
    with pytest.raises(ControlError, match="period"):
        TiltLimits(sectors=[Sector(0, 1, rate=1.0)])
    craft = tricopter()
    with pytest.raises(ControlError, match="6 inputs"):
        energy_law(craft.model, craft.prototype, TiltLimits(sectors=[Sector(5, 6)]))


def test_box_around_a_sector() -> None:
    low, high = Sector(0, 1, (0.0, 2.0), (-np.pi / 2, np.pi / 6)).box()
    np.testing.assert_allclose(low, [-1.0, 0.0], atol=1e-14)
    np.testing.assert_allclose(high, [2.0, 2.0], atol=1e-14)
    low, high = Sector(0, 1).box()
    assert np.all(np.isinf(low))
    assert np.all(np.isinf(high))


@pytest.mark.slow
@pytest.mark.parametrize("make", [tricopter, bicopter])
def test_limited_law_in_c_is_that_in_python(make, tmp_path) -> None:
    """Thrust, tilt and tilt rate bounded, with integral action: the generated test of the C code passes."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    craft = make(thrust=(0.2, 8.0), tilt=(-1.0, 1.0), tilt_rate=20.0)
    law = craft.law(integral=Integral("hull", gain=0.5, limit=3.0))
    assert law.state_size == 3 + len(craft.airframe.rotors)
    files = law.export_c(tmp_path / "law")
    folder = tmp_path / "law"
    sources = [str(f) for f in files if f.suffix == ".c"]
    subprocess.run(["cc", "-std=c99", "-O1", "-o", str(folder / "test"), *sources, "-lm"], check=True, cwd=folder)
    done = subprocess.run([str(folder / "test")], check=False, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_bounded_tilt_rate_holds_in_a_sampled_flight() -> None:
    from heavytop.geometry import so3
    from heavytop.simulate import simulate

    craft = tricopter(thrust=(0.0, 9.0), tilt_rate=12.0)
    q = craft.model.neutral()
    q[:3], q[3:] = (2.0, -1.0, 0.0), so3.exp([0.9, 0.0, 0.4]).T.reshape(9)
    law = craft.law()
    run = simulate(craft.model, (q, np.zeros(6)), 4.0, 5e-3, control=law.with_reference(craft.model.neutral()))
    assert run.outcome.ok
    assert np.linalg.norm(run.q[-1, :3]) < 1e-2
    thrusts, tilts = np.hypot(run.u[:, 0::2], run.u[:, 1::2]), np.arctan2(-run.u[:, 0::2], run.u[:, 1::2])
    assert thrusts.max() <= 9.0 + 1e-9
    turning = np.abs(np.angle(np.exp(1j * np.diff(tilts, axis=0))))
    lifted = (thrusts[1:] > 1e-3) & (thrusts[:-1] > 1e-3)
    assert turning[lifted].max() <= 12.0 * 5e-3 + 1e-6
    assert turning[lifted].max() > 11.9 * 5e-3


@pytest.mark.slow
def test_more_tilting_rotors_than_directions() -> None:
    """Four tilting rotors, eight inputs of rank six: every demand ends in the discs, a small one is met."""
    from heavytop.copters import Rotor, agile_law, multicopter

    rotors = [
        Rotor(
            (0.3 * np.cos(a), 0.3 * np.sin(a), 0.0),
            drag_ratio=0.02 * (-1) ** k,
            thrust=(0.0, 6.0),
            tilt=(-np.sin(a), np.cos(a), 0.0),
        )
        for k, a in enumerate(np.arange(4) * np.pi / 2)
    ]
    craft = multicopter(rotors, 1.2, (0.013, 0.013, 0.024))
    assert craft.virtual is None
    assert isinstance(agile_law(craft), TiltingLaw)
    law, model, rng = craft.law(), craft.model, np.random.default_rng(0)
    q = model.random(rng, (20,))
    u = law(q, rng.standard_normal((20, 6)), model.neutral())
    assert np.hypot(u[:, 0::2], u[:, 1::2]).max() <= 6.0 + 1e-9
    rest = law(model.neutral(), np.zeros(6), model.neutral())
    np.testing.assert_allclose(model.input_matrix(model.neutral()) @ rest, [0, 0, 1.2 * 9.81, 0, 0, 0], atol=1e-6)
