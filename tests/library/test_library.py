"""Built-in systems: reference data, physics, and finding them by name."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from heavytop import library
from heavytop.errors import ModelError, UnknownNameError

GOLDEN = Path(__file__).parents[1] / "golden"
NAMES = [name.replace(":N", ":4") for name in library.names()]


def golden(name: str) -> dict:
    return json.loads((GOLDEN / f"{name}.json").read_text("utf-8"))


@pytest.mark.parametrize("name", NAMES)
def test_power_balance(name: str) -> None:
    """The energy rate equals the input power minus the dissipated power."""
    model = library.load(name).derive(native=False)
    rng = np.random.default_rng(3)
    q, v, u = model.random(rng), rng.standard_normal(model.nv), rng.standard_normal(model.nu)
    if model.is_constrained:
        start = model.assemble() if name == "bricard" else library.start(name, model)
        q, v = model.assemble(q if start is None else start[0], v)
    a = model.acceleration(q, v, u)
    h = 2e-5
    times = h * np.array([-2.0, -1.0, 1.0, 2.0])
    energies = [model.energy(model.integrate(q, v + 0.5 * t * a, t), v + t * a) for t in times]
    rate = np.dot([1.0, -8.0, 8.0, -1.0], energies) / (12 * h)
    power = v @ model.input_matrix(q) @ u - v @ model.dissipation_force(q, v)
    assert rate == pytest.approx(power, rel=1e-6, abs=1e-6 * (1 + abs(model.energy(q, v))))


@pytest.mark.parametrize("name", NAMES)
def test_mass_matrix_is_positive_definite(name: str) -> None:
    model = library.load(name).derive(native=False)
    M = model.mass_matrix(model.random(0))
    assert np.linalg.eigvalsh(M)[0] > 0


def test_furuta_is_the_reference() -> None:
    data = golden("b_rotary_pendulum")
    model = library.furuta().derive()
    defaults = dict(zip(model.parameter_names, model.parameter_vector(), strict=True))
    given = data["parameters"]
    assert {k: defaults[k] for k in ("L_r", "L_p", "m_r", "m_p", "g", "B_r", "B_p")} == {
        k: given[k] for k in ("L_r", "L_p", "m_r", "m_p", "g", "B_r", "B_p")
    }
    values = {"J_r3": given["Jr"][2], **dict(zip(("J_p1", "J_p2", "J_p3"), given["Jp"], strict=True))}
    for state in data["states"]:
        q, v = state["q"], state["qdot"]
        np.testing.assert_allclose(model.mass_matrix(q, parameters=values), state["M_star"], rtol=1e-13)
        np.testing.assert_allclose(
            model.acceleration(q, v, [given["tau"]], parameters=values), state["qddot"], rtol=1e-12
        )


def test_heavy_top_is_the_reference() -> None:
    data = golden("f_heavy_top")
    model = library.heavy_top().derive()
    energies = []
    for omega, R in zip(data["Omega"], data["R"], strict=True):
        q = np.array(R).T.reshape(9)
        energies.append(float(model.energy(q, omega)))
        J = np.array(data["parameters"]["J_about_fixed_point"])
        torque = np.cross([0, 1, 0], np.array(R).T @ [0, 0, -15 * 9.81])
        expected = (torque - np.cross(omega, J * omega)) / J
        np.testing.assert_allclose(model.acceleration(q, omega), expected, rtol=1e-12, atol=1e-10)
    np.testing.assert_allclose(energies, data["verification"]["energy"], rtol=1e-12)


@pytest.mark.thorough
def test_tricopter_is_the_reference() -> None:
    data = golden("c_tricopter")
    model = library.tricopter_load().derive()
    assert (model.nq, model.nv, model.nu, len(model.body_names)) == (30, 15, 6, 8)
    for state in data["states"]:
        q, v = state["x"], state["xi"]
        found = (model.mass_matrix(q), model.bias(q, v), model.damping_matrix(q), model.gravity_force(q))
        for name, value in zip(("M", "c", "D", "fG"), found, strict=True):
            reference = np.array(state[name])
            np.testing.assert_allclose(value, reference, rtol=0, atol=1e-12 * np.max(np.abs(reference)), err_msg=name)


def test_quadcopter_hovers() -> None:
    model = library.quadcopter().derive()
    hover = np.full(4, 0.9 * 9.81 / 4)
    np.testing.assert_allclose(model.acceleration(model.neutral(), np.zeros(6), hover), 0, atol=1e-14)


def test_cart_pole_falls_from_upright_and_the_pendulum_does_not() -> None:
    upright, hanging = library.cart_pole().derive(), library.pendulum().derive()
    assert upright.acceleration([0, 0.01], [0, 0], [0])[1] > 0
    assert hanging.acceleration([0.01], [0], [0])[0] < 0


@pytest.mark.thorough
def test_chain_hangs_at_rest() -> None:
    model = library.chain(6).derive()
    np.testing.assert_allclose(model.acceleration(model.neutral(), np.zeros(6)), 0, atol=1e-14)
    assert model.nv == 6


def test_each_call_returns_a_new_system() -> None:
    assert library.load("furuta") is not library.load("furuta")


@pytest.mark.parametrize("name", ["tricopter_load", "tricopter-load", " tricopter-load "])
def test_spellings(name: str) -> None:
    assert library.load(name).name == "tricopter with load"


def test_unknown_name_lists_the_names() -> None:
    with pytest.raises(UnknownNameError) as error:
        library.load("furta")
    assert "'furuta'" in str(error.value)
    assert all(name in str(error.value) for name in library.names())


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("chain:0", "1 to 1000 links, got 0"),
        ("chain:x", "chain:20, got 'chain:x'"),
        ("chain:", "chain:20"),
        ("furuta:3", "furuta.*random-chain"),
    ],
)
def test_bad_numbers(name: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        library.load(name)
