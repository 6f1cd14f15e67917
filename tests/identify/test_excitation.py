"""Designed inputs: information against an independent computation, smaller deviations than plain inputs, limits kept."""

from __future__ import annotations

import numpy as np
import pytest

import heavytop as ht
from heavytop.errors import IdentificationError, ShapeError
from heavytop.identify import MeasuredOutput, excitation

NOISE = 0.002
ANGLE = [MeasuredOutput("q", noise=NOISE)]
REST = ([0.0], [0.0])


@pytest.fixture(scope="module")
def pendulum() -> ht.Model:
    return ht.library.pendulum().derive()


def log_of(model: ht.Model, start, u: np.ndarray, step: float, rng: np.random.Generator) -> dict[str, np.ndarray]:
    run = ht.simulate(model, start, step * len(u), step, inputs=u)
    return {"t": run.t, "u": np.concatenate([u, u[-1:]]), "q": run.q + NOISE * rng.standard_normal(run.q.shape)}


def test_information_is_that_of_finite_differences(pendulum) -> None:
    """Known start, one window: F = S^T S / noise^2 with S from differences of runs."""
    made = excitation(
        pendulum, REST, 2.0, ["m", "l"], ANGLE, limits=(-1, 1), step=0.02, window=None, free_starts=False, knots=8, iterations=3
    )  # fmt: skip

    def angles(**parameters: float) -> np.ndarray:
        return ht.simulate(pendulum, REST, 2.0, 0.02, inputs=made.u, parameters=parameters).q[:, 0]

    p, h = pendulum.parameters, 1e-5
    S = [(angles(**{n: p[n] + h}) - angles(**{n: p[n] - h})) / (2 * h) for n in ("m", "l")]
    F = np.array([[a @ b for b in S] for a in S]) / NOISE**2
    assert np.allclose(made.information, F, rtol=1e-5)
    assert [made.deviations[n] for n in ("m", "l")] == pytest.approx(
        np.sqrt(np.diag(np.linalg.inv(F))).tolist(), rel=1e-5
    )


@pytest.mark.thorough
def test_identified_spread_is_the_predicted_one_and_smaller_than_with_plain_inputs(pendulum) -> None:
    options = {"limits": (-1.0, 1.0), "step": 0.02, "window": 1.0}
    made = excitation(pendulum, REST, 4.0, ["m", "l"], ANGLE, **options)
    t = 0.02 * np.arange(200)
    plain = np.sin(2 * np.pi * 0.3 * t)[:, None]
    assert np.abs(made.u).max() <= 1.0
    assert made.gain > 1.0
    rng, spreads = np.random.default_rng(0), []
    for u in (made.u, plain):
        found = [
            ht.identify(pendulum, log_of(pendulum, REST, u, 0.02, rng), ["m", "l"], ["q"], window=1.0)
            for _ in range(100)
        ]
        spreads.append({n: np.std([f.values[n] for f in found]) for n in ("m", "l")})
    for name in ("m", "l"):
        assert spreads[0][name] == pytest.approx(made.deviations[name], rel=0.25)  # 100 draws: 7 % per deviation
        assert spreads[0][name] < 0.7 * spreads[1][name]


@pytest.mark.thorough
def test_limits_of_states_are_kept(pendulum) -> None:
    keep = {"tau": (-1.0, 1.0), "theta.angle": (-0.4, 0.4), "theta.rate": (-1.5, 1.5)}
    made = excitation(pendulum, REST, 3.0, ["m", "l"], ANGLE, limits=keep, step=0.02, window=1.0, knots=15)
    free = excitation(pendulum, REST, 3.0, ["m", "l"], ANGLE, limits=(-1, 1), step=0.02, window=1.0, knots=15)
    assert np.abs(made.run.q).max() <= 0.4
    assert np.abs(made.run.v).max() <= 1.5
    assert np.abs(free.run.q).max() > 0.4
    assert np.linalg.det(free.information) > np.linalg.det(made.information)


@pytest.mark.thorough
def test_quadcopter_with_poses() -> None:
    model = ht.library.quadcopter().derive()
    start, hover = (model.neutral(), np.zeros(6)), 9.81 * model.parameters["m"] / 4
    outputs = [MeasuredOutput("position", noise=0.002), MeasuredOutput("attitude", noise=0.004)]
    made = excitation(
        model, start, 1.0, ["m", "J_1", "J_2"], outputs, limits=(0.8 * hover, 1.2 * hover), step=0.02, knots=5, iterations=10
    )  # fmt: skip
    assert made.u.min() >= 0.8 * hover - 1e-12
    assert made.u.max() <= 1.2 * hover + 1e-12
    assert made.gain > 1.0
    assert 0 < made.deviations["J_1"] < model.parameters["J_1"]


def test_mistakes_are_named(pendulum) -> None:
    good = {"limits": (-1.0, 1.0), "step": 0.02, "knots": 8, "iterations": 1}
    with pytest.raises(IdentificationError, match=r"no input determines all of l, g"):
        excitation(pendulum, REST, 1.0, ["l", "g", "m"], ANGLE, **(good | {"limits": (-1e-9, 1e-9)}))
    with pytest.raises(IdentificationError, match=r"'q' needs its noise.*noise="):
        excitation(pendulum, REST, 1.0, ["l"], ["q"], **good)
    with pytest.raises(IdentificationError, match=r"missing: tau"):
        excitation(pendulum, REST, 1.0, ["l"], ANGLE, **(good | {"limits": {"theta.angle": (-1, 1)}}))
    with pytest.raises(IdentificationError, match=r"knots.*2 and the 50 samples, got 1"):
        excitation(pendulum, REST, 1.0, ["l"], ANGLE, **(good | {"knots": 1}))
    with pytest.raises(IdentificationError, match=r"duration.*got -1"):
        excitation(pendulum, REST, -1.0, ["l"], ANGLE, **good)
    with pytest.raises(IdentificationError, match=r"window.*at most the duration"):
        excitation(pendulum, REST, 1.0, ["l"], ANGLE, window=2.0, **good)
    with pytest.raises(ShapeError, match=r"guess.*\(50, 1\), got \(3, 1\)"):
        excitation(pendulum, REST, 1.0, ["l"], ANGLE, guess=np.zeros((3, 1)), **good)
    narrow = {"tau": (-1.0, 1.0), "theta.angle": (0.2, 0.3)}
    with pytest.raises(IdentificationError, match=r"limits of the states"):
        excitation(pendulum, REST, 1.0, ["l"], ANGLE, **(good | {"limits": narrow}))
