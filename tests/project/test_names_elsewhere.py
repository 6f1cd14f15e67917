"""Names of other tools are answered with heavytop's own, and every answer exists."""

from __future__ import annotations

import copy
import pickle
import re

import pytest

import heavytop as ht
from heavytop import _elsewhere, control, copters


@pytest.fixture(scope="module")
def system() -> ht.System:
    return ht.library.cart_pole()


@pytest.mark.parametrize(
    ("place", "name", "answer"),
    [
        (ht, "animate", "run.show"),
        (ht, "load_urdf", "ht.load"),
        (ht, "PID", "ht.Feedback"),
        (control, "kalman_filter", "ht.estimator"),
        (control, "bode", "law.loop"),
        (copters, "Quadrotor", "copters.load"),
        (ht.library, "cartpole", "cart_pole"),
        (ht.maneuvers, "land", "landing"),
    ],
)
def test_a_module_answers_with_its_own_name(place, name, answer):
    with pytest.raises(AttributeError, match=re.escape(answer)) as error:
        getattr(place, name)
    assert error.value.name == name


@pytest.mark.parametrize(
    ("kind", "name", "answer"),
    [
        ("model", "forward_dynamics", "model.acceleration"),
        ("model", "mass_matrx", "mass_matrix"),
        ("system", "add_motor", "system.input"),
        ("system", "visual", "system.shape"),
        ("run", "to_csv", "run.save"),
        ("run", "success", "run.outcome.ok"),
    ],
)
def test_an_object_answers_with_its_own_name(system, kind, name, answer):
    model = system.derive()
    run = ht.simulate(model, ([0.1, 0.2], [0.0, 0.0]), until=0.02, step=0.01)
    given = {"model": model, "system": system, "run": run}[kind]
    with pytest.raises(AttributeError, match=re.escape(answer)):
        getattr(given, name)
    assert not hasattr(given, "_repr_png_")
    assert type(copy.copy(given)) is type(given)
    assert type(pickle.loads(pickle.dumps(given))) is type(given)


def test_every_answer_exists(system):
    model = system.derive()
    run = ht.simulate(model, ([0.1, 0.2], [0.0, 0.0]), until=0.02, step=0.01)
    law = control.lqr(model, [0.0, 0.0])
    known = {"ht": ht, "model": model, "system": system, "run": run, "law": law}
    found = {
        match
        for text in _elsewhere._ROWS
        for match in re.findall(r"\b(ht|model|system|run|law)((?:\.[A-Za-z_]\w*)+)", re.sub("'.*?'", "", text))
    }
    assert len(found) > 40
    for root, path in found:
        value = known[root]
        for name in path[1:].split("."):
            value = getattr(value, name)


def test_no_name_is_given_twice():
    names = [name for row in _elsewhere._ROWS.values() for name in row.split()]
    repeated = {n for n in names if names.count(n) > 1}
    assert not repeated
