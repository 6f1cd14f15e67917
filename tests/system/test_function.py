"""Functions of a model bound once: the same bits, arrays of the caller, several threads, errors."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import heavytop as ht
from heavytop.errors import ConfigurationError, HeavytopError, ShapeError
from heavytop.system import evaluation


@pytest.fixture(scope="module")
def model() -> ht.Model:
    return ht.library.load("tricopter-load").derive()


def states(model: ht.Model, *shape: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    return model.random(rng, shape), rng.standard_normal((*shape, model.nv)), rng.standard_normal((*shape, model.nu))


@pytest.mark.parametrize("shape", [(), (5,), (2, 3)])
def test_the_bits_are_those_of_the_method(model: ht.Model, shape: tuple[int, ...]) -> None:
    q, v, u = states(model, *shape)
    f = model.function("acceleration")
    expected = model.acceleration(q, v, u)
    np.testing.assert_array_equal(f(q, v, u), expected)
    out = np.full((*shape, model.nv), np.nan)
    assert f(q, v, u, out=out) is out
    np.testing.assert_array_equal(out, expected)


def test_several_results_and_parameters() -> None:
    system = ht.System()
    mass = system.parameter("mass", 2.0)
    system.body("ball", joint=ht.Free(), inertia=ht.Inertia(mass, moment_at_com=(1, 2, 2.5)))
    model = system.derive()
    f = model.function("momentum", parameters={"mass": 3.0})
    q, v = model.neutral(), np.arange(1.0, 7.0)
    for ours, expected in zip(f(q, v), model.momentum(q, v, parameters={"mass": 3.0}), strict=True):
        np.testing.assert_array_equal(ours, expected)
    out = np.empty(3), np.empty(3)
    f(q, v, out=out)
    np.testing.assert_array_equal(out[0], model.momentum(q, v, parameters={"mass": 3.0})[0])


def test_an_output_may_be_an_input(model: ht.Model) -> None:
    q, v, u = states(model, 7)
    expected = model.acceleration(q, v, u)
    model.function("acceleration")(q, v, u, out=v)
    np.testing.assert_array_equal(v, expected)


def test_threads(model: ht.Model) -> None:
    q, v, u = states(model, 400)
    f, expected = model.function("acceleration"), model.acceleration(q, v, u)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda i: f(q[i], v[i], u[i], out=np.empty(model.nv)), range(400)))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "out", [np.empty(3), np.empty(40)[::2], np.empty((1, 15)), 3.0, [1.0], np.empty(15, dtype=int), "x"]
)
@pytest.mark.parametrize("shape", [(), (2,)])
def test_a_place_that_does_not_fit_is_refused(model: ht.Model, out: object, shape: tuple[int, ...]) -> None:
    if shape == () and getattr(out, "shape", None) == (15,):
        pytest.skip("entries of one state are cast on copying")
    with pytest.raises(ShapeError, match="out"):
        model.function("acceleration")(*states(model, *shape), out=out)  # type: ignore[arg-type]


def test_a_place_that_cannot_be_written_is_refused(model: ht.Model) -> None:
    out = np.empty(model.nv)
    out.setflags(write=False)
    with pytest.raises(ShapeError, match="writable"):
        model.function("acceleration")(*states(model), out=out)


def test_the_quick_check_sees_what_the_slow_one_sees(model: ht.Model) -> None:
    """The first calls look closely, the later ones natively: both accept and refuse the same, with the same words."""
    q, v, u = states(model)
    bad = {"far": q * 1.001, "nan": np.where(np.arange(model.nq) == 2, np.nan, q), "just off": q + 3e-6}
    fresh = ht.library.load("tricopter-load").derive()
    before = {name: _message(fresh, wrong, v, u) for name, wrong in bad.items()}
    for _ in range(evaluation.QUICK_FROM + 1):
        fresh.acceleration(q, v, u)
    assert fresh._is_on_manifold(q)
    assert {name: _message(fresh, wrong, v, u) for name, wrong in bad.items()} == before
    slightly = q * (1 + 1e-7)
    np.testing.assert_allclose(fresh.acceleration(slightly, v, u), fresh.acceleration(q, v, u), rtol=1e-4)


def _message(model: ht.Model, q: np.ndarray, v: np.ndarray, u: np.ndarray) -> str:
    with pytest.raises(ConfigurationError) as caught:
        model.acceleration(q, v, u)
    return str(caught.value)


def test_velocities_and_inputs_are_checked_on_every_call(model: ht.Model) -> None:
    q, v, u = states(model)
    for bad in (np.nan, np.inf, -np.inf):
        with pytest.raises(HeavytopError, match="velocity v .* must be finite"):
            model.acceleration(q, np.where(np.arange(model.nv) == 1, bad, v), u)
        with pytest.raises(HeavytopError, match="input u .* must be finite"):
            model.acceleration(q, v, np.full(model.nu, bad))
