"""Whatever is given to a run, what comes back is a run or an error of our own that says what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray

import heavytop as ht
from heavytop.errors import FileFormatError, HeavytopError, ModelError, ShapeError, UnknownNameError


@pytest.fixture(scope="module")
def rod() -> ht.Model:
    system = ht.System(name="rod")
    system.body("rod", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=(0, 0, -1)))
    system.input("torque", ht.JointForce("rod"))
    return system.derive()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"control_step": float("nan")}, "control_step must be a finite number"),
        ({"events": 5}, "events must be ht.Event"),
        ({"events": [5]}, "an event must be"),
        ({"threads": 0}, "threads must be 1, 2"),
        ({"inputs": {"torque": 1.0}}, "inputs of 'rod' must be real numbers"),
        ({"inputs": [1j]}, "inputs of 'rod' must be real numbers"),
        ({"inputs": lambda t: [np.sin(t)]}, r"inputs must be a function of \(t, q, v\)"),
        ({"record_every": 0}, "record_every"),
        ({"hold": "first-order"}, "hold must be one of"),
    ],
)
def test_options(rod: ht.Model, options: dict[str, Any], message: str) -> None:
    with pytest.raises(HeavytopError, match=message):
        ht.simulate(rod, ([0.1], [0.0]), 0.1, 0.01, **options)


@pytest.mark.parametrize(
    ("start", "message"),
    [
        (("a", [0.0]), "start q of 'rod' must be real numbers"),
        (([[0.1], [1, 2]], [0.0]), "start q of 'rod' must be real numbers"),
        (([0.1], "x"), "start v of 'rod' must be real numbers"),
        ({"q": 1}, "start must be a pair"),
    ],
)
def test_starts(rod: ht.Model, start: Any, message: str) -> None:
    with pytest.raises(HeavytopError, match=message):
        ht.simulate(rod, start, 0.1, 0.01)


def test_a_truth_value_is_no_event(rod: ht.Model) -> None:
    for fired in (lambda t, q, v: q[0] < 0, lambda t, q, v: np.logical_and(q[0] < 0, v[0] < 0)):
        with pytest.raises(HeavytopError, match="return a number that crosses zero"):
            ht.simulate(rod, ([0.1], [0.0]), 1.0, 0.01, events=fired)


@pytest.mark.thorough
def test_files(rod: ht.Model, tmp_path: Path) -> None:
    run = ht.simulate(rod, ([0.1], [0.0]), 0.1, 0.01)
    for write, name in ((run.save, "run.nc"), (run.plot, "run.png"), (run.show, "run.html")):
        with pytest.raises(FileFormatError, match="does not exist"):
            write(tmp_path / "nowhere" / name)
        with pytest.raises(FileFormatError, match="is a folder"):
            write(tmp_path)
        write(tmp_path / name)
    with pytest.raises(FileFormatError, match="must end in"):
        run.plot(tmp_path / "run.foo")
    with pytest.raises(FileFormatError, match="must end in"):
        run.plot(tmp_path / "run")
    for name in ("run", "run.foo"):
        with pytest.raises(FileFormatError, match=r"a netCDF file must end with \.nc .*\.csv writes a table"):
            run.save(tmp_path / name)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run.html", "run.nc", "run.png"]


@pytest.mark.parametrize("content", [5.0, "text", "[1]", np.array(["a", "b"], dtype=object)])
def test_foreign_files(tmp_path: Path, content: Any) -> None:
    axes = ("x",) if np.ndim(content) else ()
    file = tmp_path / "foreign.nc"
    xarray.Dataset({"metadata": (axes, content)}).to_netcdf(file, engine="h5netcdf")
    with pytest.raises(FileFormatError, match="not written by Run.save"):
        ht.Run.load(file, checked=False)


def test_signals_have_names(rod: ht.Model) -> None:
    run = ht.simulate(rod, ([0.1], [0.0]), 0.1, 0.01)
    with pytest.raises(UnknownNameError, match=r"rod\.angle"):
        run[3]  # type: ignore[index]


@pytest.mark.parametrize("name", ["a.b", "a/b", "a b", "", 5])
def test_names_can_be_joined(name: Any) -> None:
    system = ht.System(name="rod")
    system.body("rod", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0))
    for declare in (
        lambda: system.parameter(name, 1.0),
        lambda: system.input(name, ht.JointForce("rod")),
    ):
        with pytest.raises(ModelError, match="needs a name of letters"):
            declare()


@pytest.mark.parametrize("name", ["a:b", "a\nb", " a", "", 5])
def test_names_of_bodies_can_be_told_apart_where_they_are_joined(name: Any) -> None:
    """Robot files have names with dots, slashes and spaces; a colon separates names."""
    system = ht.System(name="rod")
    for allowed in ("a.b", "a/b", "a b"):
        system.body(allowed, joint=ht.Revolute("y"), inertia=ht.Inertia(1.0))
    with pytest.raises(ModelError, match="needs a name of letters"):
        system.body(name, joint=ht.Revolute("y"))


def test_functions_that_need_numbers_are_named() -> None:
    system = ht.System(name="rod")
    system.body("rod", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0))
    system.potential(lambda q: q[0] if q[0] > 0 else 0.0)
    with pytest.raises(ModelError, match=r"given as potential fails on symbols.*np\.where"):
        system.derive().acceleration([0.1], [0.0])


def test_lanes_are_powers_of_two(rod: ht.Model) -> None:
    with pytest.raises(ShapeError, match="lanes must be one of 1, 2, 4, 8, 16"):
        rod.compiled("acceleration", lanes=3)


def test_numbers_by_name_raise_with_the_way_to_give_them(rod: ht.Model) -> None:
    with pytest.raises(ShapeError, match="Give the numbers in their order, without names"):
        ht.simulate(rod, ({"rod.angle": 0.1}, [0.0]), 0.1, 0.01)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda rod: ht.Inertia("1 kg"), "mass of inertia must be real numbers"),
        (lambda rod: ht.System("down"), "gravity must be three numbers"),
        (lambda rod: ht.System(gravity=[[1], [2, 3]]), "gravity of 'system' must be real numbers"),
        (
            lambda rod: ht.control.Weights(places={"rod.angle": 1.0}).vectors(rod),
            "weights of places must be real numbers",
        ),
        (
            lambda rod: ht.simulate(rod, ([0.1], [0.0]), 0.1, 0.01, events=lambda t, q: q[0]),
            "is called with 3 arguments, but takes (t, q).",
        ),
        (
            lambda rod: ht.simulate(rod, ([0.1], [0.0]), 0.1, 0.01, control=ht.Feedback(lambda q, v: -q)),
            "the function given as Feedback is called with 3 arguments, but takes (q, v).",
        ),
        (lambda rod: ht.load("own.toml"), "Airframes are read by heavytop.copters.load('own.toml')"),
        (lambda rod: ht.sweep(lambda x: {"y": x}, over={"x": [1.0]}).to_csv("a"), "result.to_dataframe().to_csv(path)"),
    ],
)
def test_messages_name_what_is_meant(rod: ht.Model, wrong, message) -> None:
    with pytest.raises((HeavytopError, AttributeError)) as caught:
        wrong(rod)
    assert message in str(caught.value)
