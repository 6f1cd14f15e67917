"""The laws: formulas, coincidences, closed loops, energy balances."""

from __future__ import annotations

import numpy as np
import pytest

from heavytop import System
from heavytop._arrays import concatenate, directional
from heavytop.compile import trace_of
from heavytop.control import (
    AttitudeBlock,
    ClosedLoop,
    JointBlock,
    PointBlock,
    Prototype,
    Reference,
    energy_balance,
    energy_law,
    hover,
)
from heavytop.errors import ConfigurationError, ControlError, ShapeError, UnknownNameError
from heavytop.geometry import se3, so3
from heavytop.system import Damping, Free, Inertia, JointForce, Prismatic, Revolute, Spherical, Stiffness, Wrench

PAIR = ("world", "hull")


def random_problem(rng: np.random.Generator, rotating: bool = True) -> dict[str, np.ndarray]:
    G, G_R = se3.random(rng), se3.random(rng)
    xi, xi_R, rate = rng.standard_normal((3, 6))
    if not rotating:
        xi_R[3:] = rate[3:] = 0.0
    return {"G": G, "G_R": G_R, "xi": xi, "xi_R": xi_R, "rate": rate}


def q_of(G: np.ndarray) -> np.ndarray:
    return np.concatenate([G[:3, 3], G[:3, :3].T.ravel()])


def desired(law, x: dict[str, np.ndarray]) -> np.ndarray:
    """a_d of a single free body with body velocities."""
    p = law.model.parameter_vector()
    return law.traced_diagnostics(q_of(x["G"]), x["xi"], q_of(x["G_R"]), x["xi_R"], x["rate"], p)[0]


def formula(kind: str, prototype: Prototype, x: dict[str, np.ndarray]) -> np.ndarray:
    """a_d from the formulas of the laws, written out for one body."""
    M, D, K = prototype.inertia["hull"], prototype.damping[PAIR], prototype.stiffness[PAIR]
    E = se3.inverse(x["G"]) @ x["G_R"]
    wed, ad, Ad = se3.wed, se3.ad, se3.Ad(E)
    xi, xi_R, rate = x["xi"], x["xi_R"], x["rate"]
    spring = se3.vee2((np.eye(4) - E) @ K.moments)
    if kind == "P":
        c = se3.vee2((wed(xi) @ wed(xi) - E @ (wed(rate) + wed(xi_R) @ wed(xi_R))) @ M.moments)
        c = c + se3.vee2((wed(xi) - E @ wed(xi_R)) @ D.moments) + spring
    elif kind == "B":
        error = xi - Ad @ xi_R
        feedforward = Ad @ rate - ad(error) @ Ad @ xi_R
        c = -M.matrix @ feedforward - ad(error).T @ M.matrix @ error + D.matrix @ error + spring
    else:
        if kind == "E":
            error = xi - Ad @ xi_R
            feedforward = Ad @ rate - ad(error) @ Ad @ xi_R
        else:
            center, Q, w, w_R = K.center, E[:3, :3], xi[3:], xi_R[3:]
            nu, nu_R = xi[:3] + np.cross(w, center), xi_R[:3] + np.cross(w_R, center)
            nu_rate = rate[:3] + np.cross(rate[3:], center)
            w_e = w - Q @ w_R
            error = np.concatenate([nu - Q @ nu_R - np.cross(w_e, center), w_e])
            turn = Q @ rate[3:] - np.cross(w, Q @ w_R)
            move = Q @ (nu_rate + np.cross(w_R, nu_R)) - np.cross(w, Q @ nu_R)
            feedforward = np.concatenate([move - np.cross(turn, center), turn])
        c = -M.matrix @ feedforward + se3.vee2(wed(xi) @ wed(error) @ M.moments) + D.matrix @ error + spring
    return np.linalg.solve(M.matrix, -c)


@pytest.mark.parametrize("kind", ["P", "B", "E", "Ed"])
@pytest.mark.parametrize("name", ["quadcopter", "bicopter"])
def test_law_is_the_formula(lab, name: str, kind: str) -> None:
    law, rng = lab.law(name, kind), np.random.default_rng(1)
    for _ in range(5):
        x = random_problem(rng)
        expected = formula(kind, law.prototype, x)
        np.testing.assert_allclose(desired(law, x), expected, atol=1e-11 * np.max(np.abs(expected)))


@pytest.mark.parametrize("kind", ["P", "B", "E", "Ed"])
def test_on_the_reference_the_desired_acceleration_is_that_of_the_reference(lab, kind: str) -> None:
    law, rng = lab.law("quadcopter", kind), np.random.default_rng(2)
    for _ in range(5):
        x = random_problem(rng)
        x |= {"G": x["G_R"], "xi": x["xi_R"]}
        np.testing.assert_allclose(desired(law, x), x["rate"], atol=1e-11)


def test_laws_coincide_while_the_reference_only_translates(lab) -> None:
    rng = np.random.default_rng(3)
    laws = [lab.law("quadcopter", kind) for kind in ("P", "B", "E", "Ed")]
    for _ in range(5):
        x = random_problem(rng, rotating=False)
        first, *others = (desired(law, x) for law in laws)
        for other in others:
            np.testing.assert_allclose(other, first, atol=1e-11 * np.max(np.abs(first)))


def test_laws_differ_when_the_reference_rotates(lab) -> None:
    x = random_problem(np.random.default_rng(4))
    values = [desired(lab.law("quadcopter", kind), x) for kind in ("P", "B", "E", "Ed")]
    for i in range(4):
        for j in range(i):
            assert np.max(np.abs(values[i] - values[j])) > 1e-3


def test_fully_actuated_closed_loop_is_the_prototype(lab) -> None:
    law, rng = lab.law("tricopter", "Ed"), np.random.default_rng(5)
    x = random_problem(rng)
    q, q_R = q_of(x["G"]), q_of(x["G_R"])
    u = law.traced_law(q, x["xi"], q_R, x["xi_R"], x["rate"], [])[0]
    np.testing.assert_allclose(law.model.acceleration(q, x["xi"], u), desired(law, x), atol=1e-9)


@pytest.mark.parametrize("name", ["quadcopter", "bicopter"])
def test_underactuated_residual_is_orthogonal_to_the_inputs(lab, name: str) -> None:
    law, rng = lab.law(name, "P"), np.random.default_rng(6)
    x, model = random_problem(rng), lab.vehicle(name).model
    q = q_of(x["G"])
    u = law.traced_law(q, x["xi"], q_of(x["G_R"]), x["xi_R"], x["rate"], [])[0]
    N = np.linalg.solve(model.mass_matrix(q), model.input_matrix(q))
    missing = model.acceleration(q, x["xi"], u) - desired(law, x)
    assert np.max(np.abs(missing)) > 1e-2
    np.testing.assert_allclose(N.T @ law.prototype.inertia["hull"].matrix @ missing, 0.0, atol=1e-10)


def test_evaluation_broadcasts(lab) -> None:
    law, model = lab.law("quadcopter", "Ed"), lab.vehicle("quadcopter").model
    q = model.random(0, (5, 1))
    u = law(q, np.zeros(6), model.random(1, (3,)))
    assert u.shape == (5, 3, 4)
    single = law(q[2, 0], np.zeros(6), model.random(1, (3,))[1])
    np.testing.assert_allclose(u[2, 1], single, rtol=1e-12)


# --- energy -----------------------------------------------------------------------------------------------------------------


def spinning(model) -> Reference:
    """A reference that turns and moves."""

    def pose(t):
        R = so3.rotation_about("z", 0.7 * t) @ so3.rotation_about("x", 0.5 * np.sin(t))
        return se3.pose(R, np.stack([np.sin(t), np.cos(2 * t), 0.3 * t]))

    return Reference.from_pose(model, pose)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["B", "E", "Ed"])
def test_energy_of_one_fully_actuated_body_decreases_by_the_damping(lab, kind: str) -> None:
    law, model = lab.law("tricopter", kind), lab.vehicle("tricopter").model
    controller = law.with_reference(spinning(model))
    q, v, _ = controller.reference(0.0)
    flight = ClosedLoop(model, controller).fly((lab.turned(q, 0.5, 100.0), v), 3.0, step=2e-3)
    balance = energy_balance(controller, flight)
    assert balance.W[0] > 1.0
    assert balance.W[-1] < 1e-2 * balance.W[0]
    assert np.max(np.abs(balance.imbalance)) < 1e-7 * balance.W[0]
    assert np.max(np.abs(balance.defect)) < 1e-12


@pytest.mark.thorough
def test_particle_law_has_no_balance_on_a_rotating_reference(lab) -> None:
    law, model = lab.law("tricopter", "P"), lab.vehicle("tricopter").model
    controller = law.with_reference(spinning(model))
    q, v, _ = controller.reference(0.0)
    flight = ClosedLoop(model, controller).fly((lab.turned(q, 0.5, 100.0), v), 3.0, step=2e-3)
    balance = energy_balance(controller, flight)
    assert np.max(np.abs(balance.imbalance)) > 1e-3 * balance.W[0]
    assert np.all(np.isnan(balance.defect))


def two_bodies() -> tuple[System, Prototype]:
    """A free hull with a load on a spherical joint, fully actuated."""
    system = System(name="two_bodies")
    system.body("hull", joint=Free(), inertia=Inertia(1.0, (0.01, 0.02, 0.0), (0.02, 0.03, 0.04)))
    load = Inertia(0.5, (0.0, 0.0, -0.4), (0.03, 0.03, 0.01))
    system.body("load", parent="hull", at=(0.0, 0.1, -0.1), joint=Spherical(), inertia=load)
    for axis in range(3):
        unit = np.eye(3)[axis]
        system.input(f"force{axis}", Wrench("hull", force=unit))
        system.input(f"moment{axis}", Wrench("hull", moment=unit))
        system.input(f"swing{axis}", Wrench("load", moment=unit, relative_to="hull"))
    prototype = Prototype(
        {
            "hull": Inertia(1.0, (0, 0, 0.1), (0.1, 0.12, 0.14)),
            "load": Inertia(0.4, (0, 0.05, -0.2), (0.05, 0.06, 0.07)),
        },
        {"hull": Damping(3.0, (0, 0, 0.1), (0.5, 0.5, 0.6)), "load": Damping(0.0, moment_at_center=(0.3, 0.3, 0.2))},
        {
            "hull": Stiffness(4.0, (0, 0, 0.15), (2.0, 2.2, 2.4)),
            "load": Stiffness(0.0, moment_at_center=(1.0, 1.2, 1.4)),
        },
    )
    return system, prototype


def energy_rate(law):
    """Traced function of (q, v, q_R, v_R, a_R, p): W', the rate of W along the prototype equation, and the dissipation."""
    model, s = law.model, law.symbols()
    a_d, W, dissipation, _ = law.traced_diagnostics.expressions(*s.values())
    (q_rate,) = model.traced("rate").expressions(s["q"], s["v"], s["p"])
    (reference_rate,) = model.traced("rate").expressions(s["q_R"], s["v_R"], s["p"])
    variables = concatenate(s["q"], s["v"], s["q_R"], s["v_R"])
    rate = directional(W, variables, concatenate(q_rate, a_d, reference_rate, s["a_R"]))
    return trace_of("energy_rate", s, {"rate": rate, "dissipation": dissipation, "W": W})


@pytest.mark.thorough
@pytest.mark.parametrize("transform", [None, "absolute"])
def test_energy_of_several_bodies(lab, transform: str | None) -> None:
    """Exact for the energy-based law, in any velocity coordinates; the others have no balance for several bodies."""
    system, prototype = two_bodies()
    model = system.derive(velocity=None if transform is None else {"load": transform})
    rng = np.random.default_rng(8)
    q, q_R = model.random(rng, (2, 20))
    v, v_R, a_R = rng.standard_normal((3, 20, model.nv))
    defects = {}
    for kind in ("P", "B", "Ed"):
        law = lab.LAWS[kind](model, prototype)
        rate, dissipation, W = energy_rate(law)(q, v, q_R, v_R, a_R, [])
        assert np.min(W) > 0
        assert np.min(dissipation) > 0
        defects[kind] = np.max(np.abs(rate + dissipation) / W)
    assert defects["Ed"] < 1e-11
    assert defects["P"] > 1e-2
    assert defects["B"] > 1e-2


def test_every_law_dissipates_at_a_set_point_of_several_bodies(lab) -> None:
    system, prototype = two_bodies()
    model = system.derive()
    rng = np.random.default_rng(9)
    q, q_R = model.random(rng, (2, 20))
    zero = np.zeros((20, model.nv))
    for kind in ("P", "B", "Ed"):
        law = lab.LAWS[kind](model, prototype)
        rate, dissipation, W = energy_rate(law)(q, rng.standard_normal((20, model.nv)), q_R, zero, zero, [])
        assert np.max(np.abs(rate + dissipation) / W) < 1e-11


def test_defect_appears_when_blocks_and_springs_do_not_match(lab) -> None:
    craft = lab.vehicle("quadcopter")
    center = tuple(float(c) for c in craft.prototype.stiffness[PAIR].center)
    x = random_problem(np.random.default_rng(7))
    arguments = (q_of(x["G"]), x["xi"], q_of(x["G_R"]), x["xi_R"], x["rate"], [])
    defects = []
    for at in (center, (0.0, 0.0, 0.0)):
        law = energy_law(craft.model, craft.prototype, blocks=(PointBlock("hull", at), AttitudeBlock("hull")))
        outputs = dict(zip(law.traced_diagnostics.outputs, law.traced_diagnostics(*arguments), strict=True))
        defects.append(abs(float(outputs["defect"])))
    assert defects[0] < 1e-12
    assert defects[1] > 1e-3


# --- systems with other joints --------------------------------------------------------------------------------------------------


def test_cart_with_pole() -> None:
    """Underactuated, joints without rotation groups: the error of each joint is a difference."""
    system = System(name="cart_pole")
    system.body("cart", joint=Prismatic("x"), inertia=Inertia(1.0))
    system.body("pole", parent="cart", joint=Revolute("y"), inertia=Inertia(0.2, (0, 0, -0.5), (0.02, 0.02, 0.0)))
    system.input("force", JointForce("cart"))
    model = system.derive()
    prototype = Prototype(
        {"cart": Inertia(1.0), "pole": Inertia(0.5, moment_at_com=(0.1, 0.1, 0.1))},
        {"cart": Damping(3.0), ("cart", "pole"): Damping(0.0, moment_at_center=(0.3, 0.3, 0.3))},
        {"cart": Stiffness(3.0), ("cart", "pole"): Stiffness(0.0, moment_at_center=(1.0, 1.0, 1.0))},
    )
    law = energy_law(model, prototype)
    assert hover(law).is_stable()
    flight = ClosedLoop(model, law.with_reference(model.neutral())).fly(([0.5, 0.3], np.zeros(2)), 20.0, step=5e-3)
    assert np.max(np.abs(flight.q[-1])) < 0.05


def test_blocks_must_cover_the_system(lab) -> None:
    craft = lab.vehicle("quadcopter")
    with pytest.raises(ControlError, match="3 velocities.*6"):
        energy_law(craft.model, craft.prototype, blocks=(PointBlock("hull"),))
    with pytest.raises(ControlError, match="'product' or 'se3'"):
        energy_law(craft.model, craft.prototype, transport="euler")
    assert JointBlock("cart").size == 1


# --- bad input --------------------------------------------------------------------------------------------------------------------


def test_prototype_of_an_unknown_body(lab) -> None:
    craft = lab.vehicle("quadcopter")
    with pytest.raises(UnknownNameError, match="'hul'"):
        energy_law(craft.model, Prototype({"hul": Inertia(1.0, moment_at_com=(1, 1, 1))}))


def test_singular_prototype_inertia(lab) -> None:
    craft = lab.vehicle("quadcopter")
    flat = Prototype({"hull": Inertia(1.0)}, craft.prototype.damping, craft.prototype.stiffness)
    with pytest.raises(ControlError, match=r"inertia M_bar.*'hull.omega"):
        energy_law(craft.model, flat)


def test_inputs_without_effect(lab) -> None:
    system = System(name="rail")
    system.body("hull", joint=Prismatic("x"), inertia=Inertia(1.0, moment_at_com=(0.1, 0.1, 0.1)))
    system.input("lift", Wrench("hull", force=(0, 0, 1.0)))
    with pytest.raises(ControlError, match="'lift' of 'rail'"):
        energy_law(system.derive(), lab.vehicle("quadcopter").prototype)
    with pytest.raises(ValueError, match="derive"):
        energy_law(system, lab.vehicle("quadcopter").prototype)  # type: ignore[arg-type]


def test_no_inputs(lab) -> None:
    system = System(name="stone")
    system.body("hull", joint=Free(), inertia=Inertia(1.0, moment_at_com=(0.1, 0.1, 0.1)))
    with pytest.raises(ControlError, match="has no inputs"):
        energy_law(system.derive(), lab.vehicle("quadcopter").prototype)


def test_a_law_without_reference_is_rejected(lab) -> None:
    law = lab.law("quadcopter", "Ed")
    with pytest.raises(ControlError, match="needs a reference"):
        law.traced(law.model)


def test_arguments_that_are_not_finite_are_rejected(lab) -> None:
    law = lab.law("quadcopter", "Ed")
    q, bad = law.model.neutral(), np.array([0, 0, np.nan, 0, 0, 0])
    for what, arguments in (("v", (q, bad, q)), ("v_R", (q, 0 * q[:6], q, bad)), ("a_R", (q, q[:6], q, q[:6], bad))):
        with pytest.raises(ShapeError, match=rf"^{what} of Law\('energy' .*finite"):
            law(*arguments)
    with pytest.raises(ConfigurationError, match="q_R"):
        law(q, np.zeros(6), np.full(12, np.inf))


def test_reference_of_another_model(lab) -> None:
    law, other = lab.law("quadcopter", "Ed"), lab.vehicle("tricopter_with_load").model
    with pytest.raises(ControlError, match="nq = 21"):
        law.with_reference(Reference.set_point(other))


def test_particle_obeys_its_error_equation(lab) -> None:
    """A point mass on three slides (eqs 3.6, 3.7): m e'' + d e' + k e = 0 with every law."""
    system = System(name="particle")
    parent = "world"
    for axis in "xyz":
        system.body(axis, parent=parent, joint=Prismatic(axis), inertia=Inertia(2.0) if axis == "z" else None)
        system.input(f"force_{axis}", JointForce(axis))
        parent = axis
    model = system.derive()
    m, d, k = 1.5, 4.0, 7.0
    prototype = Prototype({"z": Inertia(m)}, {"z": Damping(d)}, {"z": Stiffness(k)})
    q, v, q_R, v_R, a_R = np.random.default_rng(10).standard_normal((5, 3))
    for kind in ("P", "B", "E", "Ed"):
        law = lab.LAWS[kind](model, prototype)
        u = law.traced_law(q, v, q_R, v_R, a_R, [])[0]
        a = model.acceleration(q, v, u)
        np.testing.assert_allclose(m * (a - a_R) + d * (v - v_R) + k * (q - q_R), 0.0, atol=1e-12)


def test_gains_may_be_parameters() -> None:
    """Parameters of prototype moments are inputs of the law: one law for a sweep over gains."""
    system = System(name="tunable")
    total, height = system.parameter("total", 4.0), system.parameter("height", 0.1)
    system.body("hull", joint=Free(), inertia=Inertia(1.0, moment_at_com=(0.02, 0.03, 0.04)))
    for axis in range(3):
        system.input(f"force{axis}", Wrench("hull", force=np.eye(3)[axis]))
        system.input(f"moment{axis}", Wrench("hull", moment=np.eye(3)[axis]))
    inertia, damping = Inertia(1.0, moment_at_com=(0.02, 0.03, 0.04)), Damping(3.0, moment_at_center=(0.3, 0.3, 0.3))

    def prototype(k, h) -> Prototype:
        return Prototype({"hull": inertia}, {"hull": damping}, {"hull": Stiffness(k, (0.0, 0.0, h), (1.0, 1.1, 1.2))})

    model = system.derive()
    lower = np.array([-20.0, *[-np.inf] * 5])
    law = energy_law(model, prototype(total, height), limits=(lower, -lower))
    rng = np.random.default_rng(11)
    q, q_R = model.random(rng, (2,))
    v, v_R, a_R = rng.standard_normal((3, 6))
    for k, h in ((4.0, 0.1), (9.0, -0.2)):
        fixed = energy_law(model, prototype(k, h), limits=(lower, -lower))
        expected = fixed.traced_law(q, v, q_R, v_R, a_R, [4.0, 0.1])[0]
        np.testing.assert_allclose(law.traced_law(q, v, q_R, v_R, a_R, [k, h])[0], expected, rtol=1e-10)
        defect = law.traced_diagnostics(q, v, q_R, v_R, a_R, [k, h])[-1]
        assert abs(float(defect)) < 1e-10
