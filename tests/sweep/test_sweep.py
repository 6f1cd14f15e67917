"""Points, draws, batches: a sweep equals its single runs, however it is cut."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray
from scipy import stats
from sweep import studies

import heavytop as ht
from heavytop import control, copters
from heavytop.errors import SweepError, UnknownNameError
from heavytop.functions import store
from heavytop.sweep import distributions
from heavytop.sweep.grid import cut, make_grid


@pytest.mark.parametrize(
    "distribution",
    [
        ht.normal([0, 1, 2, 3, 4], 2.0),
        ht.normal(),
        ht.uniform(-1, 2),
        ht.choice([1, 2, 5], [0.2, 0.3, 0.5]),
        ht.attitude(),
    ],
    ids=lambda d: d.kind,
)
def test_a_draw_depends_on_its_index_only(distribution: distributions.Distribution) -> None:
    whole = distribution.draw(7, "x", 0, 1000)
    cuts = [0, 1, 2, 3, 7, 8, 100, 101, 640, 1000]
    parts = [distribution.draw(7, "x", a, b) for a, b in pairwise(cuts)]
    assert np.array_equal(np.concatenate(parts), whole)
    assert not np.array_equal(distribution.draw(8, "x", 0, 1000), whole)
    assert not np.array_equal(distribution.draw(7, "y", 0, 1000), whole)


def test_moments_of_distributions() -> None:
    from scipy import stats

    n = 20_000
    assert stats.kstest(ht.normal(1.0, 2.0).draw(0, "x", 0, n), stats.norm(1, 2).cdf).pvalue > 1e-3
    assert stats.kstest(ht.uniform(-1, 3).draw(0, "x", 0, n), stats.uniform(-1, 4).cdf).pvalue > 1e-3
    counts = np.unique(ht.choice(["a", "b", "c"], [1, 2, 7]).draw(0, "x", 0, n), return_counts=True)[1]
    assert stats.chisquare(counts, n * np.array([0.1, 0.2, 0.7])).pvalue > 1e-3
    # on SO(3) the angle has the density (1 - cos) / pi, and the image of any axis is uniform on the sphere
    R = ht.attitude().draw(0, "x", 0, n)
    angle = np.arccos(np.clip((np.trace(R, axis1=1, axis2=2) - 1) / 2, -1, 1))
    assert stats.kstest(angle, lambda a: (a - np.sin(a)) / np.pi).pvalue > 1e-3
    assert stats.kstest(R[:, 2, 2], stats.uniform(-1, 2).cdf).pvalue > 1e-3
    both = [ht.normal().draw(0, name, 0, n) for name in ("x", "y")]
    assert abs(np.corrcoef(*both)[0, 1]) < 0.03


def test_dimensions_are_those_of_xarray() -> None:
    pair = xarray.DataArray([[1.0, 2.0], [3.0, 4.0]], dims=("a", "b"), attrs={"units": "kg"})
    other = xarray.DataArray([10.0, 20.0], dims="b")
    result = ht.sweep(lambda x, y, z: {"sum": x + y + z}, over={"x": pair, "y": other, "z": [100.0, 200.0, 300.0]})
    assert result["sum"].dims == ("a", "b", "z")
    expected = pair + other + xarray.DataArray([100.0, 200.0, 300.0], dims="z")
    assert np.array_equal(result["sum"], expected)
    assert result.data.x.attrs["units"] == "kg"


def test_zipped_values_vary_together() -> None:
    for over in (
        {("a", "b"): [(1, 10), (2, 20)], "c": [0.5]},
        {"ab": ht.sweep.zipped("a_b", a=[1, 2], b=[10, 20]), "c": [0.5]},
        xarray.Dataset({"a": ("a_b", [1, 2]), "b": ("a_b", [10, 20]), "c": ("c", [0.5])}),
    ):
        result = ht.sweep(lambda a, b, c: {"sum": a + b + c}, over=over)
        assert result["sum"].values.ravel().tolist() == [11.5, 22.5]
        assert set(result["sum"].dims) == {"a_b", "c"}


def test_chunks_cover_every_point_once() -> None:
    grid = make_grid({"a": np.arange(7), "b": np.arange(5), "c": np.arange(11), "d": ht.normal()}, 13, 0)
    for target in (1, 10, 100, 1000, 10**6):
        for apart in ((), ("b",), ("draw", "a")):
            chunks, count = cut(grid, target, apart), np.zeros(grid.shape, dtype=int)
            for k in range(len(chunks)):
                count[chunks.region(k)] += 1
            assert np.all(count == 1)
            assert np.prod(chunks.size) <= max(target, 1)


def test_a_sweep_is_its_single_runs() -> None:
    model = ht.library.load("double-pendulum").derive()
    study = studies.pendulums()
    result = ht.sweep.run_study(study)
    for index in [(0, 0, 0), (5, 2, 7), (3, 1, 4)]:
        chosen = {
            dim: (result.data[dim].values[i] if dim in result.data.coords else i)
            for dim, i in zip(result.dims, index, strict=True)
        }
        values = study.at(index)
        start = [values["theta_1.angle"][0], values["theta_2.angle"][0]]
        alone = ht.simulate(model, (start, [0.0, 0.0]), until=0.5, step=0.01, parameters={"g": float(values["g"][0])})
        assert np.allclose(alone.q[-1], result.q.values[index], rtol=0, atol=1e-12)
        assert np.array_equal(result.rerun(**chosen).q[-1], result.q.values[index])  # the same bits


def test_results_do_not_depend_on_chunks_and_threads() -> None:
    usual = ht.sweep.run_study(studies.pendulums(None)).data
    for more in ({"chunk": 1}, {"chunk": 7}, {"chunk": 10**6, "threads": 2}):
        assert ht.sweep.run_study(studies.pendulums(**more)).data.drop_attrs().identical(usual.drop_attrs())


def test_starts_parameters_and_functions_of_values_run_in_one_batch(batches: list[int]) -> None:
    model = ht.library.load("double-pendulum").derive()

    def start(tilt: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.stack([tilt, 2 * tilt], axis=-1), np.zeros(2)

    study = ht.sweep.make_study(
        model, {"tilt": np.linspace(0, 1, 50), "g": [1.0, 9.81]}, until=0.1, step=0.01, start=start, chunk=100
    )
    assert study.layout
    batches.clear()
    result = ht.sweep.run_study(study)
    assert batches == [100]
    alone = ht.simulate(model, ([1.0, 2.0], [0.0, 0.0]), until=0.1, step=0.01)
    assert np.allclose(result.q.values[-1, -1], alone.q[-1], atol=1e-13)


ONE, TWO = ht.library.load("pendulum").derive(), ht.library.load("double-pendulum").derive()
CART = ht.library.cart_pole().derive()


@pytest.mark.parametrize("count", [1, 2, 3, 5])
@pytest.mark.parametrize(
    ("model", "start"),
    [
        (ONE, lambda angle: ([angle], [0.0])),
        (ONE, lambda angle: (angle, 0.0)),
        (ONE, lambda angle: (np.array([angle]), np.zeros(1))),
        (ONE, lambda angle: (angle[:, None], [0.0])),
        (TWO, lambda angle: ([angle, 0.5], [0.0, angle])),
        (TWO, lambda angle: ([angle, 2 * angle], [0.0, 0.0])),
        (TWO, lambda angle: (np.array([angle, angle**2]), np.zeros(2))),
        (TWO, lambda angle: (np.stack([angle, angle**2], axis=-1), np.zeros(2))),
        (TWO, lambda angle: ([angle, 1.0] if angle > 1 else [0.0, angle], [0.0, 0.0])),
        (TWO, lambda **point: ([point["angle"], 0.0], [0.0, 0.0])),
    ],
)
def test_a_start_may_be_a_function_of_one_point_or_of_arrays(model: ht.Model, start: Any, count: int) -> None:
    """Also if there are as many points as coordinates, where rows and columns look alike."""
    angles = np.linspace(0.4, 1.3, count)
    result = ht.sweep(model, over={"angle": angles}, start=start, until=0.1, step=0.05)
    for k, angle in enumerate(angles):
        try:
            q, v = start(angle=float(angle))
        except (TypeError, IndexError):
            q, v = (np.atleast_2d(part)[0] for part in start(angle=np.array([angle])))
        alone = ht.simulate(model, (np.atleast_1d(q), np.atleast_1d(v)), until=0.1, step=0.05)
        assert np.array_equal(result.q.values[k], alone.q[-1])
        assert np.array_equal(result.rerun(angle=angle).q, alone.q)


@pytest.mark.parametrize("count", [1, 3])
def test_inputs_and_parameters_may_be_functions_of_one_point_or_of_arrays(count: int) -> None:
    furuta = ht.library.load("furuta").derive()
    torques = np.linspace(0.0, 1e-3, count)
    options = {"until": 0.1, "step": 0.05}
    wanted = [ht.simulate(furuta, ([0.0, 0.3], [0.0, 0.0]), **options, inputs=[torque]).q[-1] for torque in torques]
    start = [0.0, 0.3], [0.0, 0.0]
    for inputs in (lambda torque: [torque], lambda torque: torque[:, None], lambda torque: [[torque], [torque]]):
        found = ht.sweep(furuta, {"torque": torques}, start=start, inputs=inputs, **options)
        assert np.array_equal(found.q.values, wanted)
        assert np.array_equal(found.rerun(torque=torques[-1]).q[-1], wanted[-1])
    name = furuta.parameter_names[0]
    usual = float(furuta.parameter_vector()[0])
    factors = np.linspace(1.0, 1.2, count)
    wanted = [ht.simulate(furuta, start, **options, parameters={name: usual * f}).q[-1] for f in factors]
    for parameters in (lambda f: {name: usual * f}, lambda f: {name: usual * f if f < 9 else 1.0}):
        found = ht.sweep(furuta, {"f": factors}, start=start, parameters=parameters, **options)
        assert np.array_equal(found.q.values, wanted)


def test_functions_that_mix_points_are_called_point_by_point() -> None:
    angles, options = np.linspace(0.1, 0.4, 4), {"until": 0.1, "step": 0.05}
    for start in (
        lambda a: (np.stack([a, a / np.max(a)], axis=-1), [0.0, 0.0]),
        lambda a: ([0.0, 1.0] if np.any(a > 0.2) else [0.0, 0.5], [0.0, 0.0]),
    ):
        wanted = [ht.simulate(TWO, start(a), **options).q[-1] for a in angles]
        assert np.array_equal(ht.sweep(TWO, {"a": angles}, start=start, **options).q.values, wanted)
    pushed = ht.sweep(CART, {"f": angles}, inputs=lambda f: np.stack([f - np.mean(f) + 1], axis=-1), **options)
    assert np.ptp(pushed.q.values, axis=0).tolist() == [0.0, 0.0]


def test_parameters_must_have_the_same_names_at_all_points() -> None:
    either = lambda f: {"m_c": f} if f < 1 else {"m_p": f}  # noqa: E731
    with pytest.raises(SweepError, match="parameters="):
        ht.sweep(CART, {"f": [0.5, 2.0]}, parameters=either, until=0.1, step=0.05)


@pytest.mark.thorough
def test_a_full_store_of_code_changes_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    def run() -> Any:
        over = {"gain": np.linspace(1.0, 2.0, 5), "step": [0.05, 0.1], "angle": [0.1, 0.2]}
        law = lambda gain: ht.Feedback(lambda q, v: -gain * v[:1], ("q", "v"))  # noqa: E731
        return ht.sweep(CART, over, control=law, start=lambda angle: ([0.0, angle], [0.0, 0.0]), until=0.2)

    wanted = run().q.values
    assert len(np.unique(wanted[..., 1])) == wanted[..., 1].size
    monkeypatch.setattr(store, "capacity", 2)
    assert np.array_equal(run().q.values, wanted)


@pytest.mark.parametrize(
    "start",
    [lambda angle: [angle], lambda angle: ([angle, 0, 0], [0, 0]), lambda angle: ({}, None), lambda angle: angle],
)
def test_a_start_of_a_wrong_shape_is_reported_with_the_shapes(start: Any) -> None:
    with pytest.raises(SweepError, match=r"start= must return .*\(2,\) and \(2,\)"):
        ht.sweep(TWO, over={"angle": [0.1, 0.2]}, start=start, until=0.1, step=0.05)


@pytest.mark.thorough
def test_integrators_and_structure_become_other_tasks() -> None:
    def chain(links: int) -> ht.Model:
        return ht.library.load(f"chain:{links}").derive(native=False)

    def tilted() -> tuple[float, float]:
        return 0.3, 1.0

    result = ht.sweep(
        chain,
        over={"links": [1, 2], "integrator": ["rkmk4", "rkmk6"]},
        measure=lambda run: {"energy": run.kinetic_energy[-1]},
        start=tilted,
        until=0.02,
        step=0.01,
    )
    assert result.energy.dims == ("links", "integrator")
    assert np.all(result.outcome == 0)
    same = np.isclose(result.energy.values[:, 0], result.energy.values[:, 1], rtol=1e-6)
    assert np.all(same)
    assert result.energy.values[0, 0] != result.energy.values[1, 0]


@pytest.mark.thorough
def test_seeds_of_noise_run_in_one_batch(batches: list[int]) -> None:
    """Controllers that differ only in their signals share native code and a batch."""
    cart = ht.System(name="cart")
    cart.body("cart", joint=ht.Prismatic("x"), inertia=ht.Inertia(1.0))
    cart.input("motor", ht.JointForce("cart"))
    model = cart.derive()
    spring = ht.Feedback(lambda q, v: -q - 2 * v, ("q", "v"))

    def noisy(seed: int) -> control.Noisy:
        return control.Noisy(spring, model, 0.05, 0.02, seed=seed)

    over = {"seed": range(6), "cart.x": [0.0, 1.0]}
    result = ht.sweep(model, over=over, control=noisy, until=0.3, step=0.01, chunk=12)
    assert batches[-1] == 12
    for k in (0, 4):
        alone = ht.simulate(model, ([1.0], [0.0]), until=0.3, step=0.01, control=noisy(k))
        assert np.array_equal(result.q.values[k, 1], alone.q[-1])
    assert len(np.unique(result.q.values[:, 0, 0])) == 6


class Spring:
    """A user-defined law that is not a value: it is traced once for a sweep, not for every batch."""

    traces = 0

    def __init__(self, stiffness: float) -> None:
        self.stiffness = stiffness

    def traced(self, model: Any) -> Any:
        type(self).traces += 1
        return ht.Feedback(lambda q, v: -self.stiffness * q, ("q", "v")).traced(model)


@pytest.mark.thorough
def test_user_defined_laws_are_traced_once_for_a_group() -> None:
    system = ht.System(gravity=(0, 0, 0))
    system.body("cart", joint=ht.Prismatic("x"), inertia=ht.Inertia(1.0))
    system.input("motor", ht.JointForce("cart"))
    over = {"cart.x": np.linspace(0, 1, 40_000)}
    result = ht.sweep(system.derive(), over, control=Spring(4.0), until=0.1, step=0.05, chunk=40_000)
    assert Spring.traces <= 3  # for the layout, for the chunk, not for each of its ten batches
    assert result.q.values[-1, 0] < 0.99


def test_failures_are_data() -> None:
    def point(x: float) -> dict[str, float]:
        if x == 2:
            raise ArithmeticError("two is bad")
        return {"y": 1 / x}

    result = ht.sweep(point, over={"x": [1.0, 2.0, 4.0]})
    assert result.outcomes() == {"finished": 2, "failed": 1}
    assert result.causes() == {"ArithmeticError: two is bad": 1}
    assert np.isnan(result.y.values[1])
    # of a model: a bad point does not spoil its batch
    model = ht.library.load("pendulum").derive()
    swing = ht.sweep(model, over={"g": [9.81, np.nan, 1.6]}, start=([0.5], [0.0]), until=0.1, step=0.01)
    assert swing.outcome.values.tolist() == [0, 5, 0]
    assert "finite" in str(swing.cause.values[1])
    assert np.isfinite(swing.q.values[[0, 2]]).all()


def test_events_and_divergence_are_outcomes() -> None:
    system = ht.System(name="ball")
    system.body("ball", joint=ht.Prismatic("z"), inertia=ht.Inertia(1.0))
    ground = ht.Event(lambda t, q, v: q[0], name="ground", direction=-1)
    result = ht.sweep(system.derive(), over={"ball.x": [0.5, 1.0, 50.0]}, events=ground, until=1.0, step=0.01)
    assert [result.data.outcome.attrs["meaning"][c] for c in result.outcome.values] == ["event", "event", "finished"]
    assert np.allclose(result.end_time.values[:2], np.sqrt(2 * np.array([0.5, 1.0]) / 9.81), atol=1e-6)
    assert np.allclose(result.q.values[:2], 0.0, atol=1e-9)  # where the event was
    assert "ground" in result.cause.values[0]


def test_trajectories_all_or_chosen() -> None:
    model = ht.library.load("pendulum").derive()
    over = {"theta.angle": [0.1, 0.2, 0.3]} if "theta.angle" in model.q_names else {model.q_names[0]: [0.1, 0.2, 0.3]}
    name = next(iter(over))
    whole = ht.sweep(model, over=over, until=0.1, step=0.01, trajectories=True)
    assert whole.q_t.dims == (name, "time", "coordinate")
    alone = ht.simulate(model, ([0.2], [0.0]), until=0.1, step=0.01)
    assert np.allclose(whole.q_t.values[1], alone.q, atol=1e-14)
    some = ht.sweep(model, over=over, until=0.1, step=0.01, trajectories={name: [2]})
    assert np.isnan(some.q_t.values[:2]).all()
    assert np.array_equal(some.q_t.values[2], whole.q_t.values[2])


def test_named_measures() -> None:
    model = ht.library.load("pendulum").derive()
    name = model.q_names[0]
    measure = {
        "end": name,
        "top": ht.sweep.take(name, "max"),
        "swing": ht.sweep.take(name, "rms"),
        "half": lambda run: run.q[5, ..., 0],
    }
    result = ht.sweep(model, over={name: [0.1, 0.4]}, measure=measure, until=0.1, step=0.01)
    run = ht.simulate(model, ([0.4], [0.0]), until=0.1, step=0.01)
    expected = [run.q[-1, 0], run.q.max(), np.sqrt(np.mean(run.q**2)), run.q[5, 0]]
    assert np.allclose([result[n].values[1] for n in measure], expected, atol=1e-14)
    assert result.top.attrs["units"] == "rad"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"over": {"x": ht.normal()}}, "is a distribution: say how often"),
        ({"over": {"x": [1, 2], "y": xarray.DataArray([1, 2, 3], dims="x")}}, "share a dimension vary together"),
        ({"over": {"x": []}}, "no values"),
        ({"over": {"outcome": [1]}}, "cannot be called"),
        ({"over": {"z": [1]}}, "does not use this variable"),
        ({"over": {"x": [1]}, "draws": 0}, "draws must be"),
        ({"over": {"x": [1]}, "chunk": 0}, "chunk must be"),
        ({"over": {"x": [1]}, "wind": 3}, "unknown option"),
        ({"over": {"x": [1]}, "client": 5}, "client must be None"),
        ({"over": [1]}, "must map names"),
        ({"over": {"x": ht.normal()}, "draws": True}, "draws must be"),
        ({"over": {("x", "y"): [1, 2]}}, "needs 2 values, got 1"),
        ({"over": {"p": ht.sweep.zipped("time", x=[1.0])}}, "dimension of a sweep cannot be called 'time'"),
        ({"over": {"p": ht.sweep.zipped("draw", x=[1.0]), "y": ht.normal()}, "draws": 2}, "1 values are given along"),
    ],
)
def test_invalid_arguments_raise(arguments: dict, message: str) -> None:
    def point(x: float, y: float = 0.0) -> dict[str, float]:
        return {"s": x + y}

    with pytest.raises((SweepError, UnknownNameError), match=message):
        ht.sweep(point, **arguments)


def by_x(first: object, second: object) -> Callable[[float], object]:
    """A function of one point that returns one thing at zero and another one elsewhere."""
    return lambda x: first if x == 0 else second


@pytest.mark.parametrize("chunk", [1, 5])
@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize(
    ("point", "message"),
    [
        (by_x({"y": 1}, {"y": 0.5}), "int64 at the first point, and 0.5 does not fit"),
        (by_x({"y": True}, {"y": 2}), "bool at the first point, and 2 does not fit"),
        (by_x({"y": np.int8(1)}, {"y": 300}), "int8 at the first point, and 300 does not fit"),
        (by_x({"y": np.float32(1)}, {"y": 1 / 3}), "float32 at the first point, and 0.333"),
        (by_x({"y": 1.0}, {"y": 2**53 + 1}), "float64.*, and 9007199254740993 does not fit"),
        (by_x({"y": 2**53 + 1}, {"y": 1.5}), "and (9007199254740993|1.5) does not fit"),
        (by_x({"y": 1.0}, {"y": 2**63 - 1}), "and 9223372036854775807 does not fit"),
        (by_x({"y": 1}, {"y": 2.0**63}), "int64 at the first point, and 9.2.*e.18 does not fit"),
        (by_x({"y": 1.0}, {"y": 2.0, "z": 3.0}), "one point has also 'z'"),
        (by_x({"y": 1.0, "z": 3.0}, {"y": 2.0}), "one point lacks 'z'"),
        (by_x({"y": 1.0}, {"y": np.zeros(2)}), "a sweep keeps one shape"),
        (by_x({"y": 1.0}, {"y": None}), "must be numbers"),
        (by_x({"y": 1j}, {"y": 1j}), "must be numbers"),
        (by_x({"x": 1.0}, {"x": 2.0}), "the name of a variable of the sweep"),
        (by_x({"outcome": 1.0}, {"outcome": 2.0}), "a measure cannot be called 'outcome'"),
        (by_x({"a/b": 1.0}, {"a/b": 2.0}), "a measure cannot be called 'a/b'"),
        (by_x({}, {}), "gives no measures"),
        (by_x({"y": np.longdouble(1)}, {"y": np.longdouble(1)}), "at most 64 bits"),
        (
            by_x({"y": ht.sweep.Measured(np.zeros(2), dims=("x",))}, {"y": np.zeros(2)}),
            "an axis 'x' with 2 values",
        ),
    ],
)
def test_measures_that_change_raise(
    point: Callable[[float], object], message: str, chunk: int, stored: bool, tmp_path: Path
) -> None:
    with pytest.raises(SweepError, match=message):
        ht.sweep(point, {"x": np.arange(3.0)}, chunk=chunk, store=tmp_path / "s.zarr" if stored else None)


def test_numbers_of_another_type_that_fit_are_kept() -> None:
    def point(x: float) -> dict[str, object]:
        if x == 1:
            raise ArithmeticError
        return {"whole": 1 if x == 0 else 2.0, "number": 1.0 if x == 0 else 7, "truth": True if x == 0 else 0}

    for chunk in (1, 4):
        result = ht.sweep(point, {"x": np.arange(3.0)}, chunk=chunk)
        assert result.whole.values.tolist() == [1, np.iinfo(np.int64).min, 2]
        assert np.array_equal(result.number, [1.0, np.nan, 7.0], equal_nan=True)
        assert result.truth.values.tolist() == [True, False, False]
        assert result.outcomes() == {"finished": 2, "failed": 1}


def test_a_batch_function_may_fail_at_first() -> None:
    def batch(x: np.ndarray) -> dict[str, np.ndarray]:
        if x[0] < 1:
            raise ArithmeticError("not there")
        return {"y": x}

    result = ht.sweep(batch, {"x": np.arange(3.0)}, batched=True, chunk=1)
    assert result.outcomes() == {"finished": 2, "failed": 1}


def test_choice_takes_values_of_one_kind() -> None:
    with pytest.raises(SweepError, match="of one kind"):
        ht.choice(["a", 1])
    with pytest.raises(SweepError, match="numbers or texts"):
        ht.choice([None, ht])
    with pytest.raises(SweepError, match="numbers or texts"):
        ht.choice([[1, 2], [3]])


def test_variables_have_units() -> None:
    model = ht.library.load("pendulum").derive()
    over = {"theta.angle": [0.1], "theta.rate": ht.normal(), "until": [0.1, 0.2]}
    result = ht.sweep(model, over, 2, measure={"end": "theta.angle"}, step=0.01)
    assert [result.data[n].attrs.get("units") for n in over] == ["rad", "rad/s", "s"]
    study = ht.sweep.make_study(copters.quadcopter(), {"tilt": [0.0], "wind": [1.0], "hull.x": [0.0]}, maneuver="hover")
    assert [v.unit for v in study.grid.variables.values()] == ["rad", "m/s", "m"]


def test_long_runs_and_other_structures_are_cut_finer() -> None:
    """A chunk is a bounded task: long runs and runs with other code are shared by the workers."""
    model = ht.library.load("pendulum").derive()
    over = {"theta.angle": ht.uniform()}
    short, long = (ht.sweep.make_study(model, over, 20_000, until=t, step=0.01) for t in (1.0, 1000.0))
    assert (len(short.chunks), len(long.chunks)) == (2, 100)
    laws = {"integrator": ["rkmk4", "rkmk45"], **over}
    assert len(ht.sweep.make_study(model, laws, 100, until=1.0, step=0.01).chunks) >= 8


@pytest.mark.parametrize("option", ["until", "step", "start_time"])
def test_times_that_are_not_numbers_are_reported(option: str) -> None:
    model = ht.library.load("pendulum").derive()
    times = {"until": 1.0, "step": 0.01, option: np.nan}
    with pytest.raises(SweepError, match=f"{option} must be a finite number of seconds, got nan"):
        ht.sweep(model, over={"g": [1.6, 9.81]}, **times)


def test_unknown_variable_of_a_model_names_the_known_ones() -> None:
    model = ht.library.load("pendulum").derive()
    with pytest.raises(UnknownNameError, match=r"'gravity'.*Known:.*'g'"):
        ht.sweep(model, over={"gravity": [1.0]}, until=1.0, step=0.01)
    with pytest.raises(SweepError, match="needs until="):
        ht.sweep(model, over={"g": [1.0]}, step=0.01)
    with pytest.raises(SweepError, match=r"Call \.derive\(\) first"):
        ht.sweep(ht.library.load("pendulum"), over={"g": [1.0]})


@pytest.mark.thorough
def test_flights_vary_the_start() -> None:
    quad = copters.quadcopter()
    result = ht.sweep(quad, over={"tilt": [0.0, 1.0, 3.0]}, maneuver="hover", until=0.5, step=0.01)
    assert set(result.data.data_vars) >= {"recovered", "position_error", "attitude_error", "outcome"}
    flight = result.rerun(tilt=3.0)
    assert np.isclose(flight.attitude_error[0], 3.0)
    assert flight.position_error[-1] == result.position_error.values[2]


@pytest.mark.thorough
def test_flights_that_differ_in_lag_share_their_code(batches: list[int]) -> None:
    quad, lags = copters.quadcopter(), [0.02, 0.05, 0.1]
    options = {"limits": False, "until": 0.5, "step": 0.01, "chunk": 6}
    result = ht.sweep(quad, over={"lag": lags, "tilt": [1.0, 2.0]}, maneuver="hover", measure=["hull.x"], **options)
    assert batches[-1] == 6  # three lags in one native call
    law = quad.law("energy", limits=False).with_reference(quad.model.neutral())
    hover = np.full(4, quad.model.mass * 9.81 / 4)
    for k, lag in enumerate(lags):
        alone = control.Actuated(law, control.Propellers(lag), hover, sample_time=0.01)
        start = quad.model.integrate(quad.model.neutral(), np.array([0, 0, 0, 0, 2.0, 0]), 1.0), np.zeros(6)
        run = ht.simulate(quad.model, start, 0.5, 0.01, control=alone)
        assert np.isclose(result["hull.x"].values[k, 1], run.q[-1, 0], rtol=1e-9)


@pytest.mark.thorough
def test_flights_have_the_sensors_of_their_vehicle() -> None:
    """As in single flights: those of the file, unless noise= overrides them."""
    result = ht.sweep("hummingbird", {"noise": [0.0, 1.0, 2.0]}, maneuver="hover", until=0.2)
    off = np.asarray(result["position_error_max"])
    assert off[0] < 1e-9 < off[1] < off[2]
    usual = ht.sweep("hummingbird", {"wind": [0.0]}, maneuver="hover", until=0.2)
    assert float(usual["position_error_max"][0]) == off[1]
    flight = ht.copters.fly(ht.copters.load("hummingbird"), "hover", until=0.2, step=2e-3)
    assert flight.position_error.max() == pytest.approx(off[1], rel=1e-6)


@pytest.mark.thorough
def test_inputs_of_hovering_start_the_lag() -> None:
    """A lag that begins with what hovering needs moves nothing."""
    result = ht.sweep("quadcopter-with-load", {"lag": [0.05]}, maneuver="hover", until=0.2)
    assert float(result["position_error_max"][0]) < 1e-9


@pytest.mark.thorough
def test_flights_vary_conditions() -> None:
    quad = copters.quadcopter()
    over = {"tilt": [0.0, 3.0], "wind": [2.0, 4.0], "seed": [0, 1], "delay": [0.0, 0.02], "lag": [0.0, 0.05]}
    result = ht.sweep(quad, over=over, maneuver="hover", until=0.5, step=0.01)
    alone = copters.fly(quad, "hover", wind=4.0, seed=1, step=0.01, until=0.5)
    assert np.isclose(result.position_error.values[0, 1, 1, 0, 0], alone.position_error[-1], atol=1e-12)
    flight = result.rerun(tilt=3.0, wind=4.0, seed=1, delay=0.02, lag=0.05)
    assert flight.position_error[-1] == result.position_error.values[1, 1, 1, 1, 1]
    assert flight.conditions.wind == 4.0
    # delay and lag make it worse
    errors = result.attitude_error.sel(tilt=3.0).mean(("wind", "seed"))
    assert errors.values[1, 1] > errors.values[0, 0]


@pytest.mark.parametrize("trials", [1, 2, 5, 20, 100])
def test_intervals_of_shares_cover_at_least_as_often_as_stated(trials: int) -> None:
    """Summed over all results, at shares of any size; Wilson's interval falls to 0.80."""
    k = np.arange(trials + 1)
    low, high = ht.sweep.share_interval(k, trials)
    for p in np.geomspace(1e-4, 0.9999, 300):
        assert stats.binom.pmf(k, trials, p)[(low <= p) & (p <= high)].sum() >= 0.95
    exact = [stats.binomtest(int(n), trials).proportion_ci(0.95, "exact") for n in k]
    assert np.allclose(low, [e.low for e in exact], atol=1e-12)
    assert np.allclose(high, [e.high for e in exact], atol=1e-12)


def test_quantiles_of_a_result() -> None:
    def point(a: float, x: float) -> dict[str, Any]:
        if x > 0.95:
            raise ValueError("too far")
        return {"y": a + x, "pair": np.array([x, 2 * x]), "ok": x > 0.5}

    result = ht.sweep(point, {"a": [0.0, 1.0], "x": ht.uniform()}, draws=300)
    found = result.quantile(0.9, confidence=0.8)
    assert set(found.data_vars) == {f"{name}{end}" for name in ("y", "pair") for end in ("", "_low", "_high")}
    for k in range(2):
        y = np.where(result.outcome[k] == 0, result.y[k], np.inf)
        expected = ht.sweep.quantile_interval(y, 0.9, 0.8)
        assert [float(found[name][k]) for name in ("y", "y_low", "y_high")] == list(expected)
    assert found.pair.dims == ("a", "pair_0")
    assert np.all(np.isinf(result.quantile(0.98, "y").y))
    assert result.quantile(0.5, "y", over=result.dims).y.dims == ()
    with pytest.raises(SweepError, match=r"result.quantile\(0.99, 'y'\)"):
        result.quantile("y", 0.9)
    with pytest.raises(UnknownNameError, match="'z'"):
        result.quantile(0.5, "z")
    with pytest.raises(SweepError, match="nothing in this sweep is random"):
        ht.sweep(lambda x: {"y": x}, {"x": [1.0, 2.0]}).quantile(0.5)


def test_shares_of_draws() -> None:
    result = ht.sweep(lambda x, y: {"ok": y < x}, over={"x": [0.25, 1.0], "y": ht.uniform(0, 1)}, draws=400)
    share = result.share("ok")
    assert share.low.values[0] < 0.25 < share.high.values[0]
    assert share.high.values[1] == 1.0
    low, high = ht.sweep.share_interval(0, 0)
    assert (low, high) == (0.0, 1.0)


def test_a_share_does_not_count_nan() -> None:
    result = ht.sweep(lambda x: {"y": np.nan if x == 0 else 1.0}, {"x": np.arange(4.0)})
    assert float(result.share("y").share) == 0.75


def test_quantile_interval_covers() -> None:
    rng = np.random.default_rng(1)
    inside = 0
    for _ in range(200):
        _, low, high = ht.sweep.quantile_interval(rng.random(300), 0.9)
        inside += low <= 0.9 <= high
    assert inside > 184


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"draws": 2**70}, "draws are numbered up to"),
        ({"draws": 10**14}, "more than 10,000,000: take a larger chunk"),
        ({"draws": 10**14, "chunk": 10**9}, "do not fit into the "),
        ({"draws": 3, "workers": -1}, "workers must be None or 1, 2"),
        ({"draws": 3, "retries": "x"}, "retries must be 0, 1, 2"),
        ({"draws": 3, "timeout": -1}, "timeout must be None or a positive number"),
        ({"draws": 3, "chunk": True}, "chunk must be None or 1, 2"),
        ({"draws": 3, "trajectories": {"draw": [3]}}, "positions from 0 to 2"),
        ({"draws": 3, "trajectories": {"draw": 1}}, "positions from 0 to 2"),
        ({"draws": 3, "store": ""}, "store must be None or the path"),
        ({"draws": 3, "store": 3}, "store must be None or the path"),
        ({"draws": 3, "store": "a\0b"}, "store must be None or the path"),
    ],
)
def test_too_large_or_contradictory_sweeps_raise(options: dict, text: str) -> None:
    with pytest.raises(SweepError, match=text):
        ht.sweep(lambda x: {"y": x}, over={"x": ht.uniform()}, **options)


def test_a_dimension_twice_and_a_store_that_is_not_there(tmp_path: Path) -> None:
    twice = xarray.DataArray(np.ones((2, 2)), dims=("k", "k"))
    with pytest.raises(SweepError, match="dimension twice"):
        ht.sweep(lambda a: {"y": a}, over={"a": twice})
    with pytest.raises(SweepError, match=r"none\.zarr.* does not exist"):
        ht.sweep.open_result(tmp_path / "none.zarr")


def test_shares_are_those_of_conditions_along_any_dimensions() -> None:
    result = ht.sweep(lambda x, y: {"far": x + y > 3, "way": x + y}, {"x": [1.0, 2.0, 3.0], "y": [1.0, 2.0]})
    assert result.share("far", over="x").share.values.tolist() == [1 / 3, 2 / 3]
    whole = result.share("far", over=result.dims)
    assert (float(whole.share), int(whole.trials)) == (0.5, 6)
    with pytest.raises(SweepError, match="'way' is a number, not a condition"):
        result.share("way")
    with pytest.raises(SweepError, match='client="local"'):
        ht.sweep(lambda x: {"y": x}, {"x": [1.0]}, workers=2)
