"""Readable equations: equal to the numbers of the model, and as short as a textbook prints them."""

from __future__ import annotations

import itertools
import math
import re
import subprocess

import numpy as np
import pytest
import sympy
from sympy.printing.pycode import PythonCodePrinter

import heavytop as ht
from heavytop import library
from heavytop.equations import Equations
from heavytop.equations.equations import QUANTITIES
from heavytop.errors import UnknownNameError

SYSTEMS = [name.replace(":N", ":3") for name in library.names(contact=False)] + ["chain:1", "chain:7"]
LARGE = ("tricopter-load", "panda", "chain:7")


def numbers(
    equations: Equations, q: np.ndarray, v: np.ndarray, p: np.ndarray, complete: bool = False
) -> dict[str, np.ndarray]:
    """The SymPy expressions at a state, through their definitions or written out."""
    arguments = [*equations.q, *equations.v, *equations.p]
    values = dict(zip(map(str, arguments), [*q, *v, *p], strict=True))
    if not complete:
        for symbol, expression in equations.definitions:
            values[str(symbol)] = evaluate(expression, values)
    matrices = equations.sympy() if complete else equations.compact
    return {
        name: np.array([evaluate(entry, values) for entry in matrices[name]], dtype=float).reshape(matrices[name].shape)
        for name in (*QUANTITIES, "phi")
    }


PYTHON = PythonCodePrinter()


def evaluate(expression: sympy.Expr, values: dict[str, float]) -> float:
    return float(eval(PYTHON.doprint(expression), {"math": math}, values))


def assert_equal(model: ht.Model, equations: Equations, seed: int = 0, complete: bool = False) -> None:
    rng = np.random.default_rng(seed)
    q, v = model.random(rng), rng.standard_normal(model.nv)
    p = model.parameter_vector() * rng.uniform(0.8, 1.25, len(model.parameter_names))
    values = dict(zip(model.parameter_names, p, strict=True))
    got = numbers(equations, q, v, p, complete)
    expected = {
        "M": model.mass_matrix(q, parameters=values),
        "c": model.bias(q, v, parameters=values)[:, None],
        "D": model.damping_matrix(q, parameters=values),
        "fK": model.stiffness_force(q, parameters=values)[:, None],
        "fG": model.gravity_force(q, parameters=values)[:, None],
        "B": model.input_matrix(q, parameters=values),
        "A": model.kinematics_matrix(q, parameters=values),
    }
    resisting = model.dissipation_force(q, v, parameters=values)
    dissipated = resisting - expected["D"] @ v
    supplied = model.evaluate("supplied_force", q, v, parameters=values)
    expected["f"] = (supplied - dissipated)[:, None]
    for name, value in expected.items():
        reference = resisting if name == "f" else value
        scale = max(1e-3, np.max(np.abs(value), initial=0.0), np.max(np.abs(reference), initial=0.0))
        np.testing.assert_allclose(got[name], value, rtol=0, atol=1e-12 * scale, err_msg=name)
    if model.is_constrained:
        Phi = model.evaluate("constraint_jacobian", q, parameters=values)
        np.testing.assert_allclose(got["Phi"], Phi, rtol=0, atol=1e-12 * np.max(np.abs(Phi)))
    assert np.max(np.abs(got["phi"]), initial=0.0) < 1e-12


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.thorough) if n in LARGE else n for n in SYSTEMS])
def test_equal_to_the_model(name: str) -> None:
    model = library.load(name).derive(native=False)
    equations = model.equations()
    assert_equal(model, equations)
    assert_solved(model, equations)


@pytest.mark.parametrize("name", ["furuta", "double-pendulum", "chain:4"])
def test_written_out_equal_to_the_model(name: str) -> None:
    model = library.load(name).derive(native=False)
    equations = model.equations()
    assert_equal(model, equations, seed=1, complete=True)
    known = {*equations.q, *equations.v, *equations.p}
    assert all(matrix.free_symbols <= known | set(equations.u) for matrix in equations.sympy().values())


JOINTS = {
    "circle": lambda: ht.Revolute("z", coordinates="circle"),
    "universal": lambda: ht.Universal(("x", "y")),
    "cylindrical": lambda: ht.Cylindrical("z"),
    "planar": lambda: ht.Planar(),
    "quaternion": lambda: ht.Spherical("quaternion"),
    "euler": lambda: ht.Spherical("euler"),
    "free-quaternion": lambda: ht.Free("quaternion"),
    "free-mixed": lambda: ht.Free(velocity="mixed"),
    "free-unified": lambda: ht.Free(velocity="unified"),
}


@pytest.mark.parametrize("joint", JOINTS)
def test_every_coordinate_block(joint: str) -> None:
    system = ht.System(gravity=(0.1, 0.2, -9.8), name=joint)
    m, l = system.parameter("m", 1.2), system.parameter("l", 0.3)
    system.body(
        "base", joint=JOINTS[joint](), inertia=ht.Inertia(m, com=(l, 0.1, 0.0), moment_at_com=(0.02, 0.03, 0.04))
    )
    system.body("tip", parent="base", at=(0, 0, l), joint=ht.Revolute("y"), inertia=ht.Inertia(m, com=(0, 0, l)))
    system.damper("world", "tip", ht.Damping(0.3, (0.1, 0, 0)))
    system.spring("base", "tip", ht.Stiffness(2.0, (0, 0.1, 0.2), (0.1, 0.2, 0.2)))
    model = system.derive(native=False)
    assert_equal(model, model.equations())


def test_user_defined_functions() -> None:
    system = ht.System(name="custom")
    k = system.parameter("k", 2.0)
    system.body("cart", joint=ht.Prismatic("x"), inertia=ht.Inertia(1.0))
    system.body("pole", parent="cart", joint=ht.Revolute("y"), inertia=ht.Inertia(0.5, com=(0, 0, 0.4)))
    system.potential(lambda q: k * np.exp(-q[0]) + np.where(q[0] > 0, q[0] ** 2, 0.0) + np.tanh(q[1]))
    system.dissipation(lambda q, v: 0.5 * k * v[0] ** 2 * (2 + np.cos(q[1])))
    system.dissipation(lambda q, v: 0.1 * (1 + v[1] ** 2) ** 1.5)
    system.force(lambda q, v: ht.vector(np.sqrt(1 + q[0] ** 2), np.arctan2(q[1], 2.0) / (1 + q[0] ** 2)))
    model = system.derive(native=False)
    for seed in range(4):
        assert_equal(model, model.equations(), seed)
    assert model.equations().D[0, 0] == sympy.sympify("k*(cos(pole) + 2)")


# --- textbook forms ---------------------------------------------------------------------------------------------------------


def zero(expression: sympy.Expr) -> bool:
    return sympy.simplify(expression) == 0


def operations(matrix: sympy.Matrix) -> int:
    return sum(entry.count_ops() for entry in matrix)


def test_pendulum() -> None:
    e = library.pendulum().derive().equations()
    assert sympy.Matrix([sympy.sympify("m*l**2")]) == e.M
    assert e.fG == sympy.Matrix([sympy.sympify("m*g*l*sin(theta)")])
    assert e.c == e.D == e.fK == e.f == sympy.zeros(1, 1)
    assert sympy.ones(1, 1) == e.B


def test_furuta_is_equation_90() -> None:
    """Document 004, eqs 90a and 90b with erratum 4.10."""
    e = library.furuta().derive().equations()
    names = "L_r L_p m_r m_p J_r3 J_p1 J_p2 J_p3 B_r B_p g theta alpha thetadot alphadot"
    s = dict(zip(names.split(), sympy.symbols(names), strict=True))
    a, sin, cos = s["alpha"], sympy.sin, sympy.cos
    parse = lambda text: sympy.sympify(text, locals={**s, "sin": sin, "cos": cos})  # noqa: E731
    mass = parse(
        "J_p2*sin(alpha)**2 + J_p3*cos(alpha)**2 + J_r3 + L_p**2*m_p*sin(alpha)**2/4 + L_r**2*m_p + L_r**2*m_r/4"
    )
    assert zero(e.M[0, 0] - mass)
    assert e.M[0, 1] == e.M[1, 0] == parse("-L_p*L_r*m_p*cos(alpha)/2")
    assert zero(e.M[1, 1] - parse("J_p1 + L_p**2*m_p/4"))
    square = parse("L_p*L_r*m_p*sin(alpha)/2*alphadot**2")
    assert zero(e.c[0] - square - parse("(J_p2 - J_p3 + L_p**2*m_p/4)*sin(2*alpha)*alphadot*thetadot"))
    assert zero(e.c[1] + parse("(L_p**2*m_p/8 + (J_p2 - J_p3)/2)*sin(2*alpha)*thetadot**2"))
    assert e.fG == sympy.Matrix([0, parse("-L_p*m_p*g/2*sin(alpha)")])
    assert sympy.diag(s["B_r"], s["B_p"]) == e.D
    assert sympy.Matrix([1, 0]) == e.B
    assert sin(2 * a) in e.c[0].atoms(sympy.sin)
    assert operations(e.M) <= 36
    assert operations(e.c) <= 30
    assert not e.definitions


def sleigh() -> Equations:
    """The sleigh with a rotor of document 004, section 4.1, before its runner is constrained: velocities u, w of the runner."""
    system = ht.System(gravity=(0, 0, 0), name="sleigh")
    values = {"m_c": 5.0, "m_r": 1.5, "J_c": 0.4, "J_r": 0.05, "a": 0.3, "b": 0.25, "k_1": 2.0, "k_2": 1.0}
    m_c, m_r, J_c, J_r, a, b, k_1, k_2 = (system.parameter(*pair) for pair in values.items())
    system.body("sleigh", joint=ht.Planar(), inertia=ht.Inertia(m_c, com=(b, 0, 0), moment_at_com=(0.3, 0.3, J_c)))
    system.body("rotor", inertia=ht.Inertia(m_r, com=(a, 0, 0), moment_at_com=(0.03, 0.03, J_r)))
    system.connect("sleigh", "rotor", ht.Revolute("z"), at=(b, 0, 0), name="delta")
    system.potential(lambda q: k_1 * q[3] ** 2 + k_2 * q[3] ** 4)

    def velocity(q, v):
        c, s = np.cos(q[2]), np.sin(q[2])
        return ht.vector(c * v[0] + s * v[1], c * v[1] - s * v[0], v[2], v[3])

    names = {"angle": "theta", "w_1": "u", "w_2": "w", "w_3": "thetadot", "w_4": "deltadot"}
    return system.derive(velocity).equations(names)


def test_sleigh_is_equations_68_and_69() -> None:
    """Document 004, eqs 68 and 69 with erratum 4.7, for the lateral velocity w = 0."""
    e = sleigh()
    names = "m_c m_r J_c J_r a b k_1 k_2 theta delta u thetadot deltadot"
    s = dict(zip(names.split(), sympy.symbols(names), strict=True))
    parse = lambda text: sympy.sympify(text, locals=s)  # noqa: E731
    kept = [0, 2, 3]
    inertia = parse("J_c + J_r + a**2*m_r + 2*a*b*m_r*cos(delta) + b**2*m_c + b**2*m_r")
    cross, coupling = parse("-a*m_r*sin(delta)"), parse("J_r + a**2*m_r + a*b*m_r*cos(delta)")
    M = sympy.Matrix(
        [[parse("m_c + m_r"), cross, cross], [cross, inertia, coupling], [cross, coupling, parse("J_r + a**2*m_r")]]
    )
    assert (e.M.extract(kept, kept) - M).applyfunc(sympy.simplify) == sympy.zeros(3, 3)
    right = sympy.Matrix(
        [
            parse("a*m_r*cos(delta)*(deltadot**2 + 2*deltadot*thetadot + thetadot**2) + b*(m_c + m_r)*thetadot**2"),
            parse(
                "a*b*m_r*sin(delta)*(deltadot**2 + 2*deltadot*thetadot) - (a*m_r*cos(delta) + b*(m_c + m_r))*u*thetadot"
            ),
            parse("-a*b*m_r*sin(delta)*thetadot**2 - a*m_r*u*cos(delta)*thetadot - 2*k_1*delta - 4*k_2*delta**3"),
        ]
    )
    forces = (e.c + e.fK).extract(kept, [0]).subs("w", 0)
    assert (forces + right).applyfunc(sympy.simplify) == sympy.zeros(3, 1)
    assert operations(e.M) <= 90
    assert operations(e.c) <= 95
    theta = sympy.Symbol("theta")
    assert theta not in (e.M.free_symbols | e.c.free_symbols | e.fK.free_symbols)
    assert e.A[:2, :2] == sympy.Matrix([[sympy.cos(theta), -sympy.sin(theta)], [sympy.sin(theta), sympy.cos(theta)]])


def test_constrained_sleigh_in_minimal_velocities() -> None:
    """The numbers of the same equations when the runner is constrained by choice of the velocity coordinates."""
    e = library.chaplygin_sleigh().derive().equations()
    full = sleigh()
    values = full.model.description.parameters
    numbers = {p.name: p.value for p in values} | {
        "w": 0,
        "thetadot": "turn_rate",
        "deltadot": "rotor_rate",
        "delta": "rotor",
    }
    for name in ("M", "c", "fK"):
        matrix = getattr(full, name).extract([0, 2, 3], [0, 2, 3] if name == "M" else [0]).subs(numbers)
        difference = (matrix - getattr(e, name)).applyfunc(sympy.expand)
        assert all(abs(k) < 1e-12 for entry in difference for k in entry.as_coefficients_dict().values())


def test_free_body_is_equation_3_96() -> None:
    """M xi' = ad(xi)^T M xi + M Ad(G)^-1 (a_G, 0)."""
    e = library.free_body().derive().equations()
    m, g, J = sympy.Symbol("m"), sympy.Symbol("g"), sympy.symbols("J_1:4")
    v, omega = sympy.Matrix(e.v[:3]), sympy.Matrix(e.v[3:])
    Theta = sympy.diag(*J)
    assert sympy.diag(m, m, m, *J) == e.M
    expected = sympy.Matrix([m * omega.cross(v), omega.cross(Theta * omega)])
    assert (e.c - expected).applyfunc(sympy.expand) == sympy.zeros(6, 1)
    down = sympy.Matrix(sympy.symbols("R_zx R_zy R_zz"))
    assert e.fG == sympy.Matrix([*(m * g * down), 0, 0, 0])
    assert operations(e.c) <= 24


def test_free_body_with_mixed_velocities_loses_its_rotation_matrix() -> None:
    """With the centre of mass as reference, R^T R = I removes R from the mass matrix and from the force of gravity."""
    system = ht.System(name="mixed")
    m = system.parameter("m", 1.0)
    system.body("body", joint=ht.Free(velocity="mixed"), inertia=ht.Inertia(m, moment_at_com=(1.0, 2.0, 2.5)))
    e = system.derive().equations()
    assert sympy.diag(m_ := sympy.Symbol("m"), m_, m_, 1, 2, sympy.Rational(5, 2)) == e.M
    assert e.c[:3] == [0, 0, 0]
    assert zero(e.fG[2] - 9.81 * m_)
    assert e.fG[:2] == [0, 0]


def test_circle_coordinates_use_their_constraint() -> None:
    system = ht.System(gravity=(0, 0, 0), name="circle")
    m = system.parameter("m", 1.0)
    system.body("a", joint=ht.Prismatic("x"), inertia=ht.Inertia(1.0))
    system.body("b", inertia=ht.Inertia(m, com=(1, 0, 0)))
    system.connect("a", "b", ht.Revolute("z", coordinates="circle"), name="phi")
    e = system.derive().equations()
    assert [str(s) for s in e.q] == ["a", "c_phi", "s_phi"]
    assert [str(s) for s in e.v] == ["adot", "phidot"]
    assert e.M[0, 0] == sympy.sympify("m + 1")
    assert e.M[1, 1] == sympy.Symbol("m")
    assert e.phi == sympy.Matrix([sympy.sympify("c_phi**2 + s_phi**2 - 1")])


def test_angles_add_up_in_planar_chains() -> None:
    e = library.double_pendulum().derive().equations()
    total = sympy.sin(sum(e.q))
    assert total in e.fG[1].atoms(sympy.sin)
    assert operations(e.M) + operations(e.c) + operations(e.fG) <= 60


def test_rounding_leaves_no_traces() -> None:
    system = ht.System(gravity=(0, 0, 0), name="dust")
    turn = ht.geometry.se3.pose(ht.geometry.so3.rotation_about("z", np.pi / 2), np.array([0.3, 0.1, 0]))
    system.body("a", at=turn, joint=ht.Revolute("x"), inertia=ht.Inertia(1.0, com=(0, 1, 0)))
    system.body("b", parent="a", at=turn, joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=(0.5, 0, 0)))
    e = system.derive().equations()
    floats = {abs(float(n)) for matrix in (e.M, e.c) for n in matrix.atoms(sympy.Number) if n != 0}
    assert min(floats) > 1e-3


# --- names and output ---------------------------------------------------------------------------------------------------------


def test_names() -> None:
    e = library.load("tricopter-load").derive().equations()
    q, v = [str(s) for s in e.q], [str(s) for s in e.v]
    assert q[:4] == ["x_hull", "y_hull", "z_hull", "R_hull_xx"]
    assert q[-8:] == ["theta_2", "theta_3", "c_p_1", "s_p_1", "c_p_2", "s_p_2", "c_p_3", "s_p_3"]
    assert v[3:10] == [
        "omega_hull_x",
        "omega_hull_y",
        "omega_hull_z",
        "omega_load_x",
        "omega_load_y",
        "omega_load_z",
        "thetadot_1",
    ]
    assert len({*q, *v}) == 45


def test_names_that_collide_stay_distinct() -> None:
    system = ht.System(name="same")
    mass = system.parameter("x", 1.0)
    system.body("x", joint=ht.Prismatic("x"), inertia=ht.Inertia(mass))
    system.input("x", ht.JointForce("x"))
    e = system.derive().equations()
    assert len({*e.q, *e.v, *e.u, *e.p}) == 4
    assert str(e.u[0]) == "u_x"
    assert sympy.Matrix([e.p[0]]) == e.M


def test_other_names_and_unknown_ones() -> None:
    model = library.pendulum().derive()
    assert model.equations({"theta": "phi"}).fG[0].has(sympy.Symbol("phi"))
    with pytest.raises(UnknownNameError, match=r"unknown symbol of the equations 'thet'\. Did you mean 'theta'"):
        model.equations({"thet": "phi"})


def test_text() -> None:
    text = library.furuta().derive().equations().text()
    assert text.splitlines()[0] == "rotary pendulum: M a + c + D v + fG = B u"
    assert "M[1,2] = -L_p·L_r·m_p·cos(α)/2" in text
    assert "v = (θ̇, α̇)" in text
    assert "fK" not in text
    assert max(map(len, text.splitlines())) <= 100


def test_plain_text_is_python() -> None:
    text = library.furuta().derive().equations().text(unicode=False)
    assert text.isascii()
    line = next(line for line in text.splitlines() if line.strip().startswith("c[2] ="))
    assert sympy.sympify(line.split("=")[1]) == library.furuta().derive().equations().c[1]


def test_latex() -> None:
    e = library.furuta().derive().equations()
    latex = e.latex()
    assert latex.startswith("\\begin{aligned}\nM \\dot{v} + c + D v + f^G &= B u")
    assert "\\dot{\\theta}" in latex
    assert latex.count("{") == latex.count("}")
    parts = e.latex_parts()
    assert e._repr_latex_() == "\n\n".join(f"$\\displaystyle {part}$" for part in parts)
    rows = [row for part in parts for row in part.split("\n")[1:-1]]
    assert [row.removesuffix(" \\\\") for row in rows] == [row.removesuffix(" \\\\") for row in latex.split("\n")[1:-1]]
    assert "q &= " in parts[0]
    assert "u &= " in parts[0]


def test_a_parameter_named_like_a_matrix_is_renamed() -> None:
    system = ht.System(name="cart")
    M, q = system.parameter("M", 1.0), system.parameter("q", 2.0)
    system.body("cart", joint=ht.Prismatic("x"), inertia=ht.Inertia(M))
    system.body("rod", parent="cart", joint=ht.Revolute("y"), inertia=ht.Inertia(0.5, com=(0, 0, q)))
    equations = system.derive(native=False).equations()
    assert "M &= \\begin{bmatrix}M_{\\mathrm{par}}" in equations.latex()
    assert sorted(equations.text().split("M[1,1] = ")[1].splitlines()[0].split(" + ")) == ["1/2", "M_par"]
    assert_equal(system.derive(native=False), equations)


@pytest.mark.thorough
def test_large_system_names_its_subexpressions() -> None:
    e = library.load("chain:5").derive().equations()
    assert e.definitions
    assert f"with {len(e.definitions)} common subexpressions" in e.text()
    seen: set[sympy.Symbol] = {*e.q, *e.v, *e.p}
    for symbol, expression in e.definitions:
        assert expression.free_symbols <= seen
        seen.add(symbol)
    assert max(entry.count_ops() for entry in e.compact["c"]) < 200
    assert "x_{0} &=" in e.latex()


def test_to_dict_is_plain_data() -> None:
    import json

    data = library.furuta().derive().equations().to_dict()
    assert json.loads(json.dumps(data)) == data
    assert data["M"][1][1] == "J_p1 + L_p**2*m_p/4"
    assert data["parameters"]["L_r"] == 0.216


# --- the equations as written are the equations -------------------------------------------------------------------------------


def solved(terms: dict[str, np.ndarray], v: np.ndarray, u: np.ndarray, rate: np.ndarray, rows: list[int]) -> np.ndarray:
    """a from M a + c + D v + fK + fG = B u + f + Phi^T lam + F N, Phi a + d/dt(Phi) v + d/dt(b) = 0 and N_k = |P_k lam|."""
    flat = {name: terms[name].reshape(-1) for name in ("c", "fK", "fG", "f")}
    M, Phi = terms["M"], terms["Phi"].reshape(-1, len(v))
    force = terms["B"] @ u + flat["f"] - flat["c"] - terms["D"] @ v - flat["fK"] - flat["fG"]
    matrix = np.block([[M, -Phi.T], [Phi, np.zeros((len(Phi), len(Phi)))]])
    N, starts = np.zeros(len(rows)), np.cumsum([0, *rows])
    for _ in range(60):
        right = np.concatenate([force + terms["F"] @ N, -rate])
        x = np.linalg.lstsq(matrix, right, rcond=1e-11)[0]
        reaction = terms["P"] @ x[len(v) :]
        N = np.array([np.linalg.norm(reaction[a:b]) for a, b in itertools.pairwise(starts)])
    return x[: len(v)]


def consistent_state(model: ht.Model) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rng, p = np.random.default_rng(3), model.parameter_vector()
    q, v, u = model.random(3), rng.standard_normal(model.nv), rng.standard_normal(model.nu)
    if model.description.time is not None:
        p[-1] = 0.7
    if model.is_constrained:
        given = dict(zip(model.parameter_names, p, strict=True))
        guess = None if model.name == "bricard" else 0.3 * q if model.nq == model.nv else q
        q, v = model.assemble(guess, v, parameters=given)
    return q, v, u, p


def assert_solved(model: ht.Model, equations: Equations) -> None:
    """The acceleration from the written terms is that of the model."""
    q, v, u, p = consistent_state(model)
    terms, h = numbers(equations, q, v, p), 1e-5
    rate, ahead = np.zeros(len(terms["Phi"])), np.zeros(len(p))
    if model.description.time is not None:
        ahead[-1] = h
    if model.is_constrained:
        moved = [numbers(equations, model.integrate(q, v, s * h), v, p + s * ahead) for s in (-1, 1)]
        before, after = (m["Phi"] @ v + m["b"][:, 0] for m in moved)
        rate = (after - before) / (2 * h)
        np.testing.assert_allclose(terms["Phi"] @ v, -terms["b"][:, 0], atol=1e-9)
    a = model.acceleration(q, v, u, parameters=dict(zip(model.parameter_names, p, strict=True)))
    np.testing.assert_allclose(
        solved(terms, v, u, rate, equations.friction_rows), a, rtol=1e-6, atol=1e-6 * (1 + np.max(np.abs(a)))
    )


def planar(name: str) -> ht.System:
    system = ht.System(gravity=(0.5, -3.0, 0.0), name=name)
    system.body("b", joint=ht.Planar(), inertia=ht.Inertia(2.0, com=(0.1, 0, 0), moment_at_com=(0.15, 0.15, 0.3)))
    system.input("push", ht.JointForce("b", 0))
    return system


def rough_skate() -> ht.System:
    system = planar("skate")
    system.constrain(lambda q, v: v[1] * np.cos(q[2]) - v[0] * np.sin(q[2]), work=lambda q, v: -0.5 * v, name="blade")
    return system


def belt() -> ht.System:
    system = planar("belt")
    system.constrain(lambda q, v: v[0] - 2.0 * np.sin(q[1]))
    return system


def rough_pin() -> ht.System:
    system = planar("pin")
    inertia = ht.Inertia(0.5, com=(0.3, 0.1, 0), moment_at_com=(0.1, 0.1, 0.1))
    system.body("rod", parent="b", at=(0.2, 0, 0), joint=ht.Revolute("z"), inertia=inertia)
    drag = lambda xi: ht.vector(0, 0, 0, 0, 0, -0.05 * np.tanh(xi[5] / 0.3))  # noqa: E731
    system.loop("world", "rod", ht.Revolute("z"), at_b=(0.6, 0, 0), friction=drag, name="pin")
    return system


def rough_slide() -> ht.System:
    system = rough_pin()
    system.constrain(lambda q: q[0] - 0.1 * q[1], friction=lambda q, v: -0.1 * np.tanh(v), name="slide")
    return system


def moving_pivot() -> ht.System:
    system = ht.System(name="pivot")
    at = (0.1 * np.sin(3.0 * system.time), 0.0, 0.2 * np.cos(2.0 * system.time))
    system.body("rod", at=at, joint=ht.Revolute("y", damping=0.3), inertia=ht.Inertia(1.0, com=(0, 0, -0.4)))
    system.damper("world", "rod", ht.Damping(0.4, (0, 0, -0.2)))
    return system


def moving_loop() -> ht.System:
    system = planar("driven")
    inertia = ht.Inertia(0.5, com=(0.3, 0.1, 0), moment_at_com=(0.1, 0.1, 0.1))
    system.body("rod", parent="b", at=(0.2, 0, 0), joint=ht.Revolute("z"), inertia=inertia)
    system.loop("world", "rod", ht.Revolute("z"), at_a=(0.1 * np.sin(2.0 * system.time), 0, 0), at_b=(0.6, 0, 0))
    return system


def ball() -> ht.System:
    system = ht.System(name="ball")
    inertia = ht.Inertia(1.0, com=(0, 0.1, -0.4), moment_at_com=(0.1, 0.2, 0.25))
    system.body("ball", joint=ht.Spherical("quaternion", armature=0.1), inertia=inertia)
    system.force(lambda q, v: -0.3 * v * v)
    return system


WRITTEN = {
    "rough skate": lambda: rough_skate().derive(native=False),
    "belt": lambda: belt().derive(native=False),
    "rough pin": lambda: rough_pin().derive(native=False),
    "rough pin and slide": lambda: rough_slide().derive(native=False),
    "moving pivot": lambda: moving_pivot().derive(native=False),
    "moving loop": lambda: moving_loop().derive(native=False),
    "velocity map": lambda: rough_skate().derive(
        lambda q, v: ht.vector(v[0] + v[2], (2 + np.sin(q[0])) * v[1], v[2]), False
    ),
    "absolute velocity": lambda: ball().derive({"ball": "absolute"}, False),
    "loops": lambda: library.load("four-bars:2").derive(native=False),
    "basis": lambda: library.load("rolling-disc").derive(native=False),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_solution_of_the_written_equations_is_the_acceleration(name: str) -> None:
    model = WRITTEN[name]()
    assert_solved(model, model.equations())


@pytest.mark.parametrize("name", ["rough skate", "belt", "rough pin and slide"])
def test_text_and_data_are_complete(name: str) -> None:
    """The terms read back from the plain text, and those of to_dict, are the terms."""
    model = WRITTEN[name]()
    equations = model.equations()
    q, v, _, p = consistent_state(model)
    expected, data = numbers(equations, q, v, p), equations.to_dict()
    values = dict(zip(map(str, [*equations.q, *equations.v, *equations.p]), [*q, *v, *p], strict=True))
    space = {name: getattr(np, name) for name in ("sin", "cos", "tanh", "sqrt")}
    for symbol, expression in data["definitions"]:
        values[symbol] = eval(expression, space, values)
    for quantity in (*QUANTITIES, "phi"):
        read = np.zeros(expected[quantity].shape)
        for place, expression in re.findall(
            rf"^ *{quantity}\[([\d,]+)\] = (.*)$", equations.text(unicode=False, width=10**6), re.MULTILINE
        ):
            i, j = (int(k) - 1 for k in (place + ",1").split(",")[:2])
            read[i, j] = eval(expression, space, values)
            if quantity in ("M", "D"):
                read[j, i] = read[i, j]
        if quantity != "A":
            np.testing.assert_allclose(read, expected[quantity], atol=1e-12, err_msg=quantity)
        written = [[eval(entry, space, values) for entry in row] for row in data[quantity]]
        np.testing.assert_allclose(np.reshape(written, read.shape), expected[quantity], atol=1e-12, err_msg=quantity)


FUNCTIONS = {
    "M": "mass_matrix",
    "c": "bias",
    "D": "damping_matrix",
    "fK": "stiffness_force",
    "fG": "gravity_force",
    "B": "input_matrix",
    "f": "supplied_force",
    "Phi": "constraint_jacobian",
    "F": "friction_forces",
    "P": "friction_reactions",
    "rate": "constraint_bias",
    "b": "constraint_drift",
}


@pytest.mark.parametrize(
    ("name", "library_name"),
    [
        *((name, "numpy") for name in ("rough skate", "belt", "rough pin and slide", "moving loop")),
        ("rough pin and slide", "jax"),
        pytest.param("moving loop", "jax", marks=pytest.mark.thorough),
    ],
)
def test_solution_of_exported_terms_is_the_acceleration(name: str, library_name: str) -> None:
    if library_name == "jax":
        pytest.importorskip("jax").config.update("jax_enable_x64", True)
    model = WRITTEN[name]()
    q, v, u, p = consistent_state(model)
    given, terms = {"q": q, "v": v, "u": u, "p": p}, {}
    for label, function in FUNCTIONS.items():
        traced, names = model.traced(function), {}
        exec(ht.compile.numpy_source(traced, library=library_name), names)
        terms[label] = np.asarray(names[function](*(given[k] for k in traced.inputs))[0], dtype=float)
    np.testing.assert_allclose(terms["Phi"] @ v, -terms["b"], atol=1e-9)
    a = model.acceleration(q, v, u, parameters=dict(zip(model.parameter_names, p, strict=True)))
    rows = model.equations().friction_rows
    np.testing.assert_allclose(solved(terms, v, u, terms["rate"], rows), a, rtol=1e-9, atol=1e-9)


@pytest.mark.thorough
def test_exported_c_of_all_terms_fulfils_its_test_vectors(tmp_path) -> None:
    model = WRITTEN["rough pin and slide"]()
    model.export_c(tmp_path, [*FUNCTIONS.values(), "acceleration"])
    subprocess.run(["make", "test"], cwd=tmp_path, check=True, capture_output=True, timeout=60)


def test_latex_states_drift_and_friction() -> None:
    latex = WRITTEN["rough pin and slide"]().equations().latex()
    assert all(
        part in latex
        for part in (r"\Phi^\top \lambda + F N", r"\Phi v &= 0", r"N_{2} &= \lVert (P \lambda)_{4} \rVert")
    )
    assert r"\Phi v + b &= 0" in WRITTEN["belt"]().equations().latex()
