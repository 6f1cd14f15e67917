"""Whatever a user would send to another process arrives there and gives the same bits."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from pathlib import Path

import casadi
import numpy as np
import pytest
from processes import GUARD
from sweep import portable

import heavytop as ht
from heavytop import copters
from heavytop.errors import ModelError, RecipeError
from heavytop.functions import pickling
from heavytop.io import load_recipe, save_recipe

HERE = Path(__file__).parent


def compare(things: dict[str, object]) -> None:
    here = {name: portable.numbers_of(value) for name, value in things.items()}
    paths = os.pathsep.join([str(HERE.parents[1] / "src"), str(HERE.parent)])
    there = subprocess.run(
        [sys.executable, "-c", "from sweep import portable; portable.answer()"],
        input=pickle.dumps(things),
        capture_output=True,
        env={**os.environ, "PYTHONPATH": paths},
        timeout=GUARD,
    )
    assert there.returncode == 0, there.stderr.decode()
    arrived = pickle.loads(there.stdout)
    assert [name for name in here if not np.array_equal(here[name], arrived[name], equal_nan=True)] == []


@pytest.mark.thorough
def test_common_objects_have_the_same_bits_in_another_process() -> None:
    compare(portable.samples(portable.QUICK))


@pytest.mark.slow
def test_all_objects_have_the_same_bits_in_another_process() -> None:
    things = portable.samples()
    assert len(things) > 45
    compare(things)


@pytest.mark.parametrize("names", [portable.QUICK, pytest.param((), marks=pytest.mark.slow)])
@pytest.mark.thorough
def test_only_functions_by_value_need_cloudpickle(names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    monkeypatch.setattr(pickling, "_has_cloudpickle", lambda: False)
    for name, value in portable.samples(names).items():
        if not name.startswith(portable.BY_VALUE):
            pickle.loads(pickle.dumps(value))
    with pytest.raises(RecipeError, match=r"_elements.*needs cloudpickle: pip install 'heavytop\[cluster\]'"):
        pickle.dumps(portable.pendulum(lambda q: q[0] ** 2))


def test_copies_of_a_system_are_its_own() -> None:
    system = portable.pendulum()
    for made in (copy.copy(system), copy.deepcopy(system)):
        made.body("more", parent="rod", joint=ht.Revolute("x"), inertia=ht.Inertia(1.0, com=(0, 0, 1)))
        assert made.derive().nv == 2
    assert system.derive().nv == 1
    mass = system.parameter("other", 2.0)
    again = copy.deepcopy(system)
    again.body("ball", joint=ht.Free(), inertia=ht.Inertia(mass))  # its parameters are those of the original
    assert again.derive().parameter_names == ("mass", "length", "other")


def test_symbols_stay_shared() -> None:
    """A parameter that enters in two places is one parameter on the other side."""
    system = pickle.loads(pickle.dumps(portable.pendulum()))
    model, original = system.derive(), portable.pendulum().derive()
    for mass in (0.2, 3.0):
        values = [
            m.acceleration([0.3], [0.1], [1.0], parameters={"mass": mass, "length": 0.4}) for m in (model, original)
        ]
        assert np.array_equal(*values)
    assert model.description.equations_key == original.description.equations_key  # native code is found in the cache


def test_objects_sent_together_stay_together() -> None:
    quad = copters.quadcopter()
    tracking = quad.law("energy").with_reference(quad.model.neutral())
    made = pickling.unpack(pickling.pack((quad.model, tracking, tracking.law)))
    assert made[1].law is made[2]
    assert made[1].law.model is made[1].reference.model


def test_recipe_of_another_version_raises() -> None:
    content = pickling.pack(portable.pendulum())
    other = content.replace(f'"heavytop": "{ht.__version__}"'.encode(), b'"heavytop": "9.9.1"')
    assert other != content
    with pytest.raises(RecipeError, match=r"written by heavytop 9\.9\.1, this is heavytop"):
        pickling.unpack(other)
    code = pickling.pack(portable.pendulum(lambda q: q[0] ** 2))
    header, _ = pickling.header_of(code)
    assert header["code"]
    with pytest.raises(RecipeError, match=r"bytecode of Python 2\.7"):
        pickling.unpack(code.replace(f'"python": "{header["python"]}"'.encode(), b'"python": "2.7.18"'))
    with pytest.raises(RecipeError, match="not a heavytop recipe"):
        pickling.unpack(b"something else")
    with pytest.raises(RecipeError, match="damaged"):
        pickling.unpack(pickling.MAGIC + b"{}\nx")


def test_recipe_file_runs_code_only_if_trusted(tmp_path: Path) -> None:
    path = tmp_path / "top.recipe"
    save_recipe(portable.pendulum(), path)
    with pytest.raises(RecipeError, match=r"recipe of a System.*runs code.*trust=True"):
        load_recipe(path)
    assert load_recipe(path, trust=True).derive().nv == 1


def test_an_object_that_cannot_be_pickled_is_named_with_the_reason(tmp_path: Path) -> None:
    with (tmp_path / "x").open("w") as file:
        system = portable.pendulum(lambda q: (q[0] ** 2, file)[0])
        with pytest.raises(RecipeError, match=r"_elements\[0\].*variable file.*TextIOWrapper"):
            pickle.dumps(system)


def test_a_symbol_alone_is_not_lost_silently() -> None:
    """A symbol outside of its system cannot mean the same parameter elsewhere."""
    inertia = pickle.loads(pickle.dumps(ht.Inertia(casadi.ArrayInterface(casadi.SX.sym("m"), 0))))
    system = ht.System()
    with pytest.raises(ModelError, match="not parameters.*: m"):
        system.body("stone", joint=ht.Free(), inertia=inertia)
