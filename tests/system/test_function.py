"""Functions of a model bound once: the same bits, arrays of the caller, several threads, errors."""

import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import heavytop as ht
from heavytop.compile.backends import fastcall as quick
from heavytop.errors import ConfigurationError, HeavytopError, ShapeError
from heavytop.system.model import QUICK_FROM


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
def test_an_output_of_the_wrong_shape(model: ht.Model, out: object, shape: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match="out"):
        model.function("acceleration")(*states(model, *shape), out=out)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [int, np.float32, ">f8", object])
@pytest.mark.parametrize("shape", [(), (2,)])
def test_results_are_not_rounded(model: ht.Model, kind: type, shape: tuple[int, ...]) -> None:
    """For one state they were cut to whole numbers without a word."""
    with pytest.raises(ShapeError, match="must be an array float64"):
        model.function("acceleration")(*states(model, *shape), out=np.empty((*shape, model.nv), dtype=kind))


def test_complex_numbers_and_text(model: ht.Model) -> None:
    q, v, u = states(model)
    for wrong in (q.astype(complex), q.astype(str), "q"):
        with pytest.raises(ShapeError, match="must be real numbers"):
            model.function("acceleration")(wrong, v, u)
        with pytest.raises(ShapeError, match="must be real numbers"):
            model.traced("acceleration").interpret(wrong, v, u, model.parameter_vector())


def test_a_read_only_output(model: ht.Model) -> None:
    out = np.empty(model.nv)
    out.setflags(write=False)
    with pytest.raises(ShapeError, match="writable"):
        model.function("acceleration")(*states(model), out=out)


def test_fast_and_slow_checks_agree(model: ht.Model) -> None:
    """The first calls check in Python, later ones by compiled code, with the same results and messages."""
    q, v, u = states(model)
    bad = {"far": q * 1.001, "nan": np.where(np.arange(model.nq) == 2, np.nan, q), "just off": q + 3e-6}
    fresh = ht.library.load("tricopter-load").derive()
    before = {name: _message(fresh, wrong, v, u) for name, wrong in bad.items()}
    for _ in range(QUICK_FROM + 1):
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


# --- the way past Python ------------------------------------------------------------------------------------------------------


def same(model: ht.Model, *arguments: object) -> None:
    np.testing.assert_array_equal(
        model.function("acceleration")(*arguments),  # type: ignore[arg-type]
        model.acceleration(*(np.asarray(a, dtype=float) for a in arguments)),
    )


def test_other_arguments_than_arrays_of_one_state(model: ht.Model) -> None:
    q, v, u = states(model)
    call = model.function("acceleration")._call
    assert call is not None
    place = np.full(model.nv, np.nan)
    assert call(q, v, u, place) is True
    np.testing.assert_array_equal(place, model.acceleration(q, v, u))

    class Kind(np.ndarray):
        pass

    backwards = v.astype(v.dtype.newbyteorder())
    for other in (
        v.tolist(),
        v.astype(np.float32),
        backwards,
        v.view(Kind),
        v[None],
        np.repeat(v, 2)[::2],
        np.array([v] * 3),
        v[:-1],
        np.zeros((model.nv, 1)),
        np.float64(1.0),
        None,
        3,
        "v",
        object(),
        (),
    ):
        place[:] = 7.0
        assert call(q, other, u, place) is False
        assert np.all(place == 7.0), "nothing may be written"
    fixed = place.copy()
    fixed.setflags(write=False)
    for wrong in (fixed, np.zeros(2 * model.nv)[::2], place[:3], place.astype(np.float32), None, place.tolist()):
        assert call(q, v, u, wrong) is False
    for few in ((), (q,), (q, v, u), (q, v, u, place, place)):
        assert call(*few) is False
    same(model, q, v.tolist(), u)
    same(model, q, backwards, u)
    same(model, q, np.repeat(v, 2)[::2], u)
    same(model, q, v.view(Kind), u)
    with pytest.raises(HeavytopError):
        model.function("acceleration")(q, v[:-1], u)
    with pytest.raises(HeavytopError):
        model.function("acceleration")(q, v)


def test_results_are_new_and_nothing_is_leaked(model: ht.Model) -> None:
    q, v, u = states(model)
    f = model.function("acceleration")
    first = f(q, v, u)
    assert f(q, v, u) is not first
    counts = [sys.getrefcount(array) for array in (q, v, u)]
    for _ in range(1000):
        f(q, v, u)
        f(q, v.tolist(), u)
    assert [sys.getrefcount(array) for array in (q, v, u)] == counts


def test_parameters_are_bound_as_they_were() -> None:
    system = ht.System()
    mass = system.parameter("mass", 2.0)
    system.body("stone", joint=ht.Prismatic("z"), inertia=ht.Inertia(mass))
    system.input("push", ht.JointForce("stone"))
    model = system.derive()
    given = np.array(4.0)
    f = model.function("acceleration", {"mass": given})
    given[...] = 1.0
    arguments = np.zeros(1), np.zeros(1), np.array([8.0])
    np.testing.assert_allclose(f(*arguments), [2.0 - 9.81], rtol=1e-14)
    batch = model.function("acceleration", {"mass": np.array([2.0, 4.0])})
    np.testing.assert_allclose(batch(*arguments), [[4.0 - 9.81], [2.0 - 9.81]], rtol=1e-14)


def test_scalars_and_several_results_by_the_quick_way(model: ht.Model) -> None:
    q, v, _ = states(model)
    energy = model.function("energy")
    assert energy._call is not None
    assert energy(q, v).shape == ()  # type: ignore[union-attr]
    assert energy(q, v) == model.energy(q, v)
    momentum = model.function("momentum")
    linear, angular = momentum(q, v)
    np.testing.assert_array_equal((linear, angular), model.momentum(q, v))
    with pytest.raises(ShapeError, match="out"):
        momentum(q, v, out=3)  # type: ignore[arg-type]


def test_where_arrays_look_otherwise_there_is_no_quick_way(monkeypatch: pytest.MonkeyPatch, model: ht.Model) -> None:
    assert quick.is_supported()
    monkeypatch.setattr(quick, "ENTRIES", 48)
    assert not quick.is_supported.__wrapped__()
    monkeypatch.undo()
    monkeypatch.setattr("heavytop.compile.kernel.is_supported", lambda: False)
    f = model.function("acceleration")
    assert f._call is None
    same(model, *states(model))


@pytest.mark.parametrize(
    "out",
    [np.zeros(15, np.float32), np.zeros(15, ">f8"), np.zeros(30)[::2], np.zeros(15, int)],
    ids=["single precision", "other byte order", "with gaps", "integers"],
)
def test_an_output_of_another_type(model: ht.Model, out: np.ndarray) -> None:
    with pytest.raises(ShapeError, match="out for acceleration"):
        model.function("acceleration")(*states(model), out=out)


@pytest.mark.parametrize(
    "value", [np.full(15, 1.0 + 2.0j), "text", [[1.0], [1.0, 2.0]]], ids=["complex", "text", "ragged"]
)
def test_arguments_must_be_real_numbers(model: ht.Model, value: object) -> None:
    q, _, u = states(model)
    with pytest.raises(ShapeError, match="v of acceleration must be real numbers"):
        model.function("acceleration")(q, value, u)  # type: ignore[arg-type]


def test_missing_arguments_are_counted_without_the_parameters(model: ht.Model) -> None:
    with pytest.raises(ShapeError, match=r"acceleration\(q, v, u\) takes 3 arrays, got 2"):
        model.function("acceleration")(*states(model)[:2])


def test_parameters_are_a_copy_of_the_nominal_values() -> None:
    model = ht.library.cart_pole().derive()
    assert tuple(model.parameters) == model.parameter_names
    heavier = {**model.parameters, "m_p": 3.0}
    assert np.array_equal(model.parameter_vector(heavier), [1.0, 3.0, 0.5, 9.81])
    model.parameters["m_p"] = 3.0
    assert np.array_equal(list(model.parameters.values()), model.parameter_vector())
    assert model.parameters["m_p"] == 0.1
