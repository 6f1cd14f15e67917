"""Who looks for something under another name is told where it is."""

from __future__ import annotations

import pickle
from copy import copy
from typing import Any

import numpy as np
import pytest

import heavytop as ht
from heavytop import control, copters
from heavytop.errors import ModelError, did_you_mean, unknown_name


@pytest.fixture(scope="module")
def objects() -> dict[str, Any]:
    system = ht.library.cart_pole()
    model = system.derive()
    run = ht.simulate(model, ([0.0, 0.1], [0.0, 0.0]), 0.1, 0.01)
    law = control.computed_torque(ht.library.pendulum().derive(), stiffness=1.0, damping=2.0)
    flight = copters.fly(copters.quadcopter(), "hover", until=0.1)
    return {"system": system, "model": model, "run": run, "tracking": law.with_reference([0.0]), "flight": flight}


@pytest.mark.parametrize(
    ("owner", "name", "where"),
    [
        ("system", "bodies", "system.derive().body_names"),
        ("system", "mass_matrix", "system.derive().mass_matrix"),
        ("system", "nq", "system.derive().nq"),
        ("model", "bodies", "model.body_names"),
        ("model", "simulate", "ht.simulate(model"),
        ("run", "time", "run.t"),
        ("run", "to_csv", "run.to_dataframe().to_csv"),
        ("flight", "to_dataframe", "flight.run.to_dataframe()"),
        ("tracking", "export_c", "law.export_c(folder)"),
    ],
)
def test_an_attribute_that_is_elsewhere(objects, owner, name, where) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(objects[owner], name)
    assert f"has no attribute {name!r}: " in str(caught.value)
    assert where in str(caught.value)


@pytest.mark.parametrize("owner", ["system", "model", "run", "flight", "tracking"])
def test_any_other_name_is_refused_as_ever(objects, owner) -> None:
    assert not hasattr(objects[owner], "no_such_name")
    with pytest.raises(AttributeError, match="object has no attribute 'no_such_name'$"):
        _ = objects[owner].no_such_name


@pytest.mark.parametrize("owner", ["system", "model", "run"])
def test_objects_are_copied_and_pickled(objects, owner) -> None:
    assert repr(copy(objects[owner])) == repr(objects[owner])
    assert repr(pickle.loads(pickle.dumps(objects[owner]))) == repr(objects[owner])


def test_values_of_parameters_by_name(objects) -> None:
    assert objects["system"].parameters == objects["model"].parameters
    assert objects["system"].parameters["g"] == 9.81


def test_a_name_in_the_place_of_gravity() -> None:
    with pytest.raises(ModelError, match=r"ht\.System\(name='cart'\)"):
        ht.System("cart")  # type: ignore[arg-type]


def test_the_unit_of_all_coordinates_of_a_joint(objects) -> None:
    assert objects["run"].unit("theta") == "rad"
    assert copters.fly(copters.quadcopter(), "hover", until=0.1).run.unit("hull") == ""


def test_what_is_no_name_is_like_no_other() -> None:
    """A number or an array in place of a name is told as it came."""
    given: Any = np.ones(2)
    assert did_you_mean(given, ["hull", "arm"]) == ""
    assert "array" in str(unknown_name("body", given, ["hull", "arm"]))
    assert did_you_mean("hull", given) == ""
