"""Identification from synthetic logs: truth within intervals, combinations that no log determines, bad logs."""

from __future__ import annotations

import numpy as np
import pytest
from noisy_logs import Case, car, four_bar, furuta, quadcopter, waves

import heavytop as ht
from heavytop.errors import IdentificationError, ShapeError, UnknownNameError
from heavytop.identify import (
    Bias,
    BodyInertia,
    Delay,
    Lag,
    LogWarning,
    MeasuredOutput,
    UnknownParameter,
    unknown_inertia,
)


def pendulum_log(noise: float = 0.001, seed: int = 0, **parameters: float) -> tuple[ht.Model, dict[str, np.ndarray]]:
    model = ht.library.pendulum().derive()
    u = waves(200, 0.02, [1.0], [0.5, 1.2])
    run = ht.simulate(model, ([1.0], [0.0]), until=4.0, step=0.02, inputs=u, parameters={"l": 1.3, **parameters})
    noisy = run.q + noise * np.random.default_rng(seed).standard_normal(run.q.shape)
    return model, {"t": run.t, "u": np.concatenate([u, u[-1:]]), "q": noisy}


def within(found: ht.identify.Identification, truth: dict[str, float], deviations: float = 4.0) -> bool:
    return all(abs(found.values[name] - x) < deviations * found.deviations[name] for name, x in truth.items())


def test_pendulum_and_noise_level() -> None:
    model, log = pendulum_log(m=0.8)
    for window in (0.8, None):
        found = ht.identify(model, log, ["m", "l"], ["q"], window=window)
        assert found.converged
        assert within(found, {"m": 0.8, "l": 1.3})
        assert found.noise["q"] == pytest.approx(0.001, rel=0.2)
        assert all(0 < found.deviations[name] < 0.05 for name in found.values)


def test_exact_log_gives_exact_parameters() -> None:
    model, log = pendulum_log(0.0, m=0.8)
    found = ht.identify(model, log, ["m", "l"], ["q"], window=1.0)
    assert found.values["l"] == pytest.approx(1.3, rel=1e-6)
    assert found.values["m"] == pytest.approx(0.8, rel=1e-5)


def test_scale_of_mass_gravity_and_inputs_is_named() -> None:
    model = ht.library.pendulum().derive()
    run = ht.simulate(model, ([1.0], [0.0]), until=3.0, step=0.02)
    found = ht.identify(model, run, ["m", "l", "g"], ["q"], window=1.0)
    assert any("m changes no output" in text for text in found.undetermined)
    assert any("l" in text and "g" in text and "share a scale" in text for text in found.undetermined)
    assert np.isinf(found.deviations["m"])
    assert np.isinf(found.deviations["l"])


@pytest.mark.thorough
@pytest.mark.parametrize("make", [quadcopter, furuta, car, four_bar])
def test_truth_is_within_intervals(make) -> None:
    case: Case = make()
    scores = []
    for log in case.logs(8, seed=3):
        found = case.identify(log)
        assert found.converged
        scores += [(found.values[name] - x) / found.deviations[name] for name, x in case.truth.items()]
    assert np.max(np.abs(scores)) < 4.0
    assert 0.5 < np.sqrt(np.mean(np.square(scores))) < 1.6


def test_delay_lag_and_bias() -> None:
    """A pendulum driven through a slow, late motor, its angle read with an offset."""
    model = ht.library.pendulum().derive()
    step, parts, n = 0.02, 10, 200
    u = waves(n, step, [2.0], [0.4, 0.9, 2.1], seed=2)
    fine = np.repeat(u, parts, axis=0)
    late = np.concatenate([np.repeat(fine[:1], 6, axis=0), fine])[: len(fine)]  # 12 ms
    lagged, y, a = np.empty_like(late), late[0], np.exp(-step / parts / 0.05)
    for k, value in enumerate(late):
        lagged[k] = y + 0.5 * (1 - a) * (value - y)
        y = y + (1 - a) * (value - y)
    run = ht.simulate(model, ([0.3], [0.0]), until=n * step, step=step / parts, inputs=lagged, record_every=parts)
    noise = 1e-4 * np.random.default_rng(0).standard_normal(run.q.shape)
    log = {"t": run.t, "u": np.concatenate([u, u[-1:]]), "theta": run.q - 0.02 + noise}
    angle = MeasuredOutput("theta", lambda q, v, u, p: q)
    found = ht.identify(
        model,
        log,
        [Delay(value=0.005), Lag(value=0.03), Bias("theta"), "l"],
        [angle],
        window=None,
        starts=[(run.q, run.v)],
    )
    assert found.values["delay"] == pytest.approx(0.012, abs=2e-3)
    assert found.values["lag"] == pytest.approx(0.05, abs=2e-3)
    assert found.values["l"] == pytest.approx(model.parameters["l"], rel=2e-3)
    assert found.values["bias theta[0]"] == pytest.approx(-0.02, abs=1e-3)


def test_outliers_and_robust_loss() -> None:
    model, log = pendulum_log(m=0.8)
    wrong = np.random.default_rng(5).random(len(log["t"])) < 0.1
    log["q"] = log["q"] + np.where(wrong, 0.2, 0.0)[:, None]
    starts = [(np.where(wrong[:, None], log["q"] - 0.2, log["q"]), np.gradient(log["q"][:, 0], 0.02)[:, None] * 0)]
    plain = ht.identify(model, log, ["l"], ["q"], window=1.0, starts=starts)
    robust = ht.identify(model, log, ["l"], ["q"], window=1.0, starts=starts, huber=1.5)
    assert abs(robust.values["l"] - 1.3) < 0.5 * abs(plain.values["l"] - 1.3) + 1e-3


def test_bounds_and_priors() -> None:
    model, log = pendulum_log(m=0.8)
    bounded = ht.identify(model, log, [UnknownParameter("l", low=1.0, high=1.2, value=1.1), "m"], ["q"], window=1.0)
    assert bounded.values["l"] == pytest.approx(1.2)
    assert bounded.at_bounds == ("l",)
    known = [UnknownParameter("l", prior=(1.3, 0.01)), UnknownParameter("g", prior=(9.81, 0.01)), "m"]
    found = ht.identify(model, log, known, ["q"], window=1.0)
    assert within(found, {"l": 1.3, "g": 9.81, "m": 0.8})
    assert found.deviations["g"] <= 0.0101


@pytest.mark.thorough
def test_inertia_stays_physical() -> None:
    """A free body turned by known moments: ten parameters, positive by construction."""
    system = ht.System(gravity=(0.0, 0.0, 0.0), name="brick")
    first = ht.Inertia(1.5, com=(0.0, 0.01, 0.0), moment_at_com=(0.02, 0.02, 0.02))
    system.body("brick", joint=ht.Free(), inertia=unknown_inertia(system, "brick", first))
    for k, name in enumerate(("fx", "fy", "fz", "mx", "my", "mz")):
        unit = np.eye(6)[k]
        system.input(name, ht.Wrench("brick", force=unit[:3], moment=unit[3:]))
    model = system.derive()
    truth = dict(
        zip(BodyInertia("brick").names, [2.0, 0.02, -0.01, 0.03, 0.03, 0.025, 0.01, 0.002, -0.001, 0.001], strict=True)
    )
    u = waves(120, 0.02, [1.0, 1.0, 1.0, 0.1, 0.1, 0.1], [0.5, 1.1, 2.3])
    run = ht.simulate(model, (model.neutral(), np.zeros(6)), 2.4, 0.02, inputs=u, parameters=truth)
    log = {"t": run.t, "u": np.concatenate([u, u[-1:]]), "q": run.q, "v": run.v}
    found = ht.identify(model, log, [BodyInertia("brick")], ["q", "v"], window=0.6)
    for name, value in truth.items():
        assert found.values[name] == pytest.approx(value, abs=1e-5), name
    moments = [found.values[f"brick_{k}"] for k in ("xx", "yy", "zz")]
    assert 2 * max(moments) < sum(moments)


def test_prediction_of_another_log() -> None:
    model, log = pendulum_log(m=0.8)
    found = ht.identify(model, log, ["m", "l"], ["q"], window=1.0)
    _, other = pendulum_log(m=0.8, seed=1)
    before = ht.identify(model, other, [UnknownParameter("l", prior=(1.0, 1e-9))], ["q"], window=1.0)
    assert found.predict(other, 0.5).mean()["q"] < 0.2 * before.predict(other, 0.5).mean()["q"]
    frequency, density = found.spectrum()
    assert frequency[-1] == pytest.approx(25.0, rel=0.05)
    assert density["q"].shape == frequency.shape


def test_gaps_are_left_out() -> None:
    model, log = pendulum_log(m=0.8)
    log["q"][40:50] = np.nan
    log["u"][120:125] = np.nan
    with pytest.warns(LogWarning, match="not numbers"):
        found = ht.identify(model, log, ["m", "l"], ["q"], window=0.5)
    assert within(found, {"m": 0.8, "l": 1.3})


@pytest.mark.thorough
def test_wrong_requests() -> None:
    model, log = pendulum_log()
    with pytest.raises(UnknownNameError, match="'length'"):
        ht.identify(model, log, ["length"], ["q"])
    with pytest.raises(UnknownNameError, match="'gyro'"):
        ht.identify(model, log, ["l"], ["gyro"])
    with pytest.raises(UnknownNameError, match="'v'"):
        ht.identify(model, {k: x for k, x in log.items() if k != "u"}, ["l"], ["v"], inputs=["q"])
    with pytest.raises(IdentificationError, match="samples in a row"):
        ht.identify(model, log, ["l"], ["q"], window=100.0)
    late = np.where(np.arange(len(log["q"]))[:, None] == 0, np.nan, log["q"])
    with pytest.raises(IdentificationError, match="measured at the first"), pytest.warns(LogWarning, match="left out"):
        ht.identify(model, log | {"q": late}, ["l"], ["q"], window=None)
    with pytest.raises(IdentificationError, match="even in time"):
        ht.identify(model, log | {"t": np.where(log["t"] > 2, log["t"] + 0.5, log["t"])}, ["l"], ["q"])
    with pytest.raises(IdentificationError, match="jumps back"):
        ht.identify(model, log | {"t": np.where(log["t"] > 2, log["t"] - 0.5, log["t"])}, ["l"], ["q"])
    with pytest.raises(IdentificationError, match="no sample"):
        ht.identify(model, log | {"q": np.nan * log["q"]}, ["l"], ["q"])
    with pytest.raises(IdentificationError, match="low < high"):
        UnknownParameter("l", low=2.0, high=1.0)


def test_wrong_options_and_missing_inputs() -> None:
    model, log = pendulum_log()
    for wrong in (-1.0, 0.0, np.nan, np.inf):
        with pytest.raises(IdentificationError, match=r"huber.*positive.*got"):
            ht.identify(model, log, ["l"], ["q"], huber=wrong)
    with pytest.raises(IdentificationError, match=r"most_steps.*got 0"):
        ht.identify(model, log, ["l"], ["q"], most_steps=0)
    silent = {key: value for key, value in log.items() if key != "u"}
    with pytest.raises(IdentificationError, match=r"log 0 has no inputs.*'u' \(1 columns\).*inputs="):
        ht.identify(model, silent, ["l"], ["q"])
    with pytest.raises(IdentificationError, match=r"outputs=.*once"):
        ht.identify(model, log, ["l"], ["q", "q"])
    for wrong in (np.nan, np.inf, 0.0, -1.0):
        with pytest.raises(IdentificationError, match=r"window.*0\.02 s, got"):
            ht.identify(model, log, ["l"], ["q"], window=wrong)
    with pytest.raises(IdentificationError, match=r"starts=.*1 pairs.*got int"):
        ht.identify(model, log, ["l"], ["q"], starts=3)
    with pytest.raises(ShapeError, match=r"q of starts\[0\]"):
        ht.identify(model, log, ["l"], ["q"], starts=[(np.zeros((3, 1)), np.zeros((3, 1)))])
    with pytest.raises(ShapeError, match=r"'q' of log 0"):
        ht.identify(model, log | {"q": np.array(["a"] * len(log["t"]))}, ["l"], ["q"])
    for unknown in (Delay(value=-1.0), Lag(value=-1.0)):
        with pytest.raises(IdentificationError, match="outside its bounds"):
            ht.identify(model, log, ["l", unknown], ["q"])
    found = ht.identify(model, log, ["l"], ["q"])
    for wrong in (0.0, -1.0, np.nan):
        with pytest.raises(IdentificationError, match=r"horizon.*got"):
            found.predict(log, wrong)
