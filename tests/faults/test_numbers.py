"""NaN in native code, infinities in decompositions, parameters and files with impossible numbers."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heavytop as ht
from heavytop.compile import Kernel, numpy_function, trace
from heavytop.errors import ConfigurationError, FileFormatError, HeavytopError, ModelError, ShapeError
from heavytop.geometry import linalg

SPECIAL = np.array([np.nan, -np.inf, -1.0, -0.0, 0.0, 2.0, np.inf])


@pytest.mark.parametrize("function", [np.minimum, np.maximum])
@pytest.mark.parametrize("lanes", [1, None])
def test_minimum_and_maximum_keep_nan(function: Any, lanes: int | None) -> None:
    traced = trace(lambda x, y: function(x, y), {"x": (), "y": ()}, name="f")
    x, y = np.meshgrid(SPECIAL, SPECIAL)
    np.testing.assert_array_equal(Kernel(traced, lanes)(x, y)[0], function(x, y))
    np.testing.assert_array_equal(numpy_function(traced)(x, y)[0], function(x, y))


def test_sign_of_zero_and_nan() -> None:
    got = Kernel(trace(lambda x: np.sign(x), {"x": ()}, name="sign"))(SPECIAL)[0]
    np.testing.assert_array_equal(got, np.sign(SPECIAL))
    np.testing.assert_array_equal(np.signbit(got)[1:], np.signbit(np.sign(SPECIAL))[1:])


@pytest.mark.parametrize(
    "relation", [np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal], ids=lambda r: r.__name__
)
def test_comparisons_with_nan(relation: Any) -> None:
    traced = trace(lambda x, y: np.where(relation(x, y), 1.0, 0.0), {"x": (), "y": ()}, name="r")
    x, y = np.meshgrid(SPECIAL, SPECIAL)
    np.testing.assert_array_equal(Kernel(traced)(x, y)[0], relation(x, y).astype(float))


@pytest.mark.parametrize(
    "law",
    [
        lambda q, v: np.clip(np.sqrt(q - 10.0), -1.0, 1.0),
        lambda q, v: np.minimum(np.maximum(np.log(q - 10.0), -1.0), 1.0),
        lambda q, v: 0.0 * v + np.sqrt(q - 10.0),
    ],
    ids=["clip", "minimum", "plain"],
)
def test_a_law_that_is_nan_ends_the_run(law: Any) -> None:
    """A clamp must not hide NaN."""
    system = ht.System(name="pendulum")
    system.body("rod", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=(0, 0, -1)))
    system.input("motor", ht.JointForce("rod"))
    run = ht.simulate(system.derive(), ([0.1], [0.0]), 1.0, 0.01, control=ht.Feedback(law, ("q", "v")))
    assert not run.outcome.ok
    assert run.outcome.ending.value == "diverged"
    assert "'motor' at t = 0 s" in run.outcome.message


@pytest.mark.thorough
def test_a_strut_without_length_is_named() -> None:
    system = ht.System(name="jack")
    system.body("mass", joint=ht.Prismatic("z"), inertia=ht.Inertia(1.0))
    system.strut("world", "mass", at_a=(0, 0, 1), stiffness=5.0, rest_length=0.5, damping=0.1)
    model = system.derive()
    for evaluate in (
        lambda: model.acceleration([1.0], [0.0]),
        lambda: model.stiffness_force([1.0]),
        lambda: model.linearize([1.0]),
        lambda: model.inverse_dynamics([1.0], [0.0], [0.0]),
    ):
        with pytest.raises(ConfigurationError, match="strut between 'world' and 'mass'"):
            evaluate()
    run = ht.simulate(model, ([1.0], [0.0]), 0.1, 0.01)
    assert run.outcome.ending.value == "diverged"
    assert "strut between 'world' and 'mass'" in run.outcome.message
    assert np.isfinite(run.q).all()
    batch = ht.simulate(model, ([[1.0], [0.5]], [0.0]), 0.1, 0.01)
    assert [o.ok for o in batch.outcomes] == [False, True]


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_decompositions_reject_numbers_that_are_not_finite(value: float) -> None:
    """LAPACK does not terminate for infinities."""
    for size in (2, 3, 12):
        matrix = np.eye(size)
        matrix[-1, 0] = value
        for function in (linalg.singular_values, linalg.pseudo_inverse):
            with pytest.raises(ShapeError, match="must be finite"):
                function(matrix)


def test_inverses_that_would_overflow() -> None:
    with pytest.raises(ShapeError, match="too small"):
        linalg.pseudo_inverse(np.diag([1e-310, 2e-310]))
    with pytest.raises(ShapeError, match=r"must have shape \(\.\.\., m, n\)"):
        linalg.pseudo_inverse([1.0, 2.0])


def test_a_singular_matrix_has_no_nearest_rotation() -> None:
    for block in (ht.coordinates.Rotation(), ht.coordinates.Pose()):
        q = np.zeros(block.nq)
        with pytest.raises(ConfigurationError, match="singular"):
            block.project(q)


def test_errors_of_the_users_functions_pass() -> None:
    def law(x: Any) -> Any:
        return {}["missing"]

    with pytest.raises(KeyError, match="missing") as caught:
        ht.compile.trace(law, {"x": ()})
    assert not isinstance(caught.value, HeavytopError)


def _massive(moment: bool) -> ht.Model:
    system = ht.System(name="stick")
    mass, a, b, c, g = (system.parameter(n, v) for n, v in zip("mabcg", (1.0, 1.0, 1.0, 0.1, 9.81), strict=True))
    given = [[a, c, 0.0], [c, b, 0.0], [0.0, 0.0, 1.0]] if moment else np.zeros((3, 3))
    inertia = ht.Inertia(mass, com=(0, 0, -1), moment_at_com=ht.matrix(given) if moment else given)
    system.body("rod", joint=ht.Revolute("y"), inertia=inertia)
    system.input("motor", ht.JointForce("rod", gear=g))
    return system.derive(native=False)


@pytest.mark.parametrize("value", [-1.0, [1.0, -1.0], [[1.0, 2.0], [3.0, -1.0]]])
def test_a_negative_mass_is_rejected_by_name(value: Any) -> None:
    with pytest.raises(ModelError, match="'rod' in 'stick' with m = -1"):
        _massive(False).parameter_vector({"m": value})


def test_a_negative_mass_at_the_call_of_simulate() -> None:
    with pytest.raises(ModelError, match="m = -1"):
        ht.simulate(_massive(False), ([0.1], [0.0]), 0.1, 0.01, parameters={"m": -1.0})


def test_negative_moments_are_rejected_by_name() -> None:
    model = _massive(True)
    for wrong in ({"a": -1.0}, {"c": 2.0}, {"a": 0.0}, {"a": [1.0, 2.0], "c": [0.5, -3.0]}):
        with pytest.raises(ModelError, match=r"'rod' in 'stick' with m = 1, a = .*moment"):
            model.parameter_vector(wrong)
    for right in ({"a": 3.0}, {"a": 0.01, "b": 1.0}, {"m": 0.0, "c": 0.0}, {"g": -1.0}, {"m": np.zeros((0,))}):
        model.parameter_vector(right)


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("thrust_coefficient", "1e-320", r"line 9: the wrenches of the rotors must be finite"),
        ("mass", "1e400", r"line 8: 'mass' must be a positive number \(kg\), got inf"),
    ],
)
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_numbers_of_airframes_out_of_range(key: str, value: str, text: str, tmp_path: Path) -> None:
    frame = (Path(ht.copters.__file__).parent / "catalogue" / "crazyflie.toml").read_text(encoding="utf-8")
    path = tmp_path / "frame.toml"
    path.write_text(re.sub(rf"^({key} *= *)[-\d.e]+", rf"\g<1>{value}", frame, count=1, flags=re.M))
    with pytest.raises(FileFormatError, match=text):
        ht.copters.load(path)
