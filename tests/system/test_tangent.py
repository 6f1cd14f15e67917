"""Linear equations on loops, velocity constraints and bases, against differences of motions on the constraint manifold."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import heavytop as ht
from heavytop.errors import ConfigurationError, ControlError, UnknownNameError
from heavytop.system import NotAtRestWarning


def four_bar(motor: bool = True) -> ht.Model:
    rod = ht.Inertia(1.0, com=(0.5, 0.1, 0), moment_at_com=(0.01, 1 / 12, 1 / 12))
    system = ht.System(gravity=(0, -9.81, 0), name="four-bar")
    system.body("crank", joint=ht.Revolute("z"), inertia=rod)
    system.body("coupler", parent="crank", at=(1, 0, 0), joint=ht.Revolute("z"), inertia=rod)
    system.body("rocker", at=(1.5, 0, 0), joint=ht.Revolute("z"), inertia=rod)
    system.loop("coupler", "rocker", ht.Revolute("z"), at_a=(1.4, 0, 0), at_b=(1.2, 0, 0), name="pin")
    system.joint_damper("rocker", damping=0.3)
    if motor:
        system.input("motor", ht.JointForce("crank"))
    return system.derive()


def ball_in_a_bowl() -> ht.Model:
    """A free body whose centre is bound to a sphere and which does not spin about its own axis: redundant coordinates, both kinds."""
    system = ht.System(name="bowl")
    body = ht.Inertia(1.0, com=(0.1, 0, 0.2), moment_at_com=(0.1, 0.2, 0.15))
    system.body("ball", joint=ht.Free(velocity="mixed"), inertia=body)
    system.constrain(lambda q: q[0] ** 2 + q[1] ** 2 + q[2] ** 2 - 1.0, name="sphere")
    system.constrain(lambda q, v: v[5] - 0.3 * v[0], name="spin")
    system.input("push", ht.JointForce("ball", 0))
    return system.derive()


CASES = {
    "four-bar": lambda: (four_bar(), [0.9, -0.5, 1.3], [1.5, 0.0, 0.0]),
    "bricard": lambda: (ht.library.bricard().derive(), [0.1, 0.2, 0.1, 0.0, 0.1], [1.0, 0.0, 0.0, 0.0, 0.0]),
    "skate": lambda: (ht.library.skate(minimal=False).derive(), [0.1, 0.2, 0.3], [1.0, 0.2, 2.0]),
    "skate with a basis": lambda: (ht.library.skate().derive(), [0.1, 0.2, 0.3], [1.0, 2.0]),
    "disc with a basis": lambda: (ht.library.rolling_disc().derive(), None, [0.3, 5.0, 0.4]),
    "disc": lambda: (ht.library.rolling_disc(minimal=False).derive(), None, [2.0, 0.0, 0.0, 0.1, 4.0, 0.3]),
    "car": lambda: (ht.library.car(minimal=False).derive(), [0, 0, 0.2, 0.1], [1.0, 0.2, 0.0, 0.3]),
    "bowl": lambda: (ball_in_a_bowl(), None, [0.3, -0.2, 0.1, 0.4, 0.5, -0.2]),
}


def start_of(name: str) -> tuple[ht.Model, np.ndarray, np.ndarray, np.ndarray]:
    model, q, v = CASES[name]()
    if q is None:
        q = model.random(3) if name != "bowl" else model.neutral()
        if name == "bowl":
            q[:3] = (0.6, 0.0, -0.8)
    q, v = model.assemble(q, v) if model.is_constrained else (np.asarray(q, float), np.asarray(v, float))
    return model, q, v, 0.7 * np.ones(model.nu)


def moved(model: ht.Model, q: np.ndarray, v: np.ndarray, tangent, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A state on the constraint manifold with deviations x of the independent coordinates, to second order."""
    xi, eta = x[: len(tangent.places)], x[len(tangent.places) :]
    q_new = model.coordinates.retract(q, tangent.D @ xi)
    v_new = v + tangent.N @ eta + tangent.K @ xi
    return model.assemble(q_new, v_new) if model.is_constrained else (q_new, v_new)


def deviation(model: ht.Model, q: np.ndarray, v: np.ndarray, tangent, state) -> np.ndarray:
    """x of a state near (q, v)."""
    delta = model.coordinates.difference(q, state[0])
    return np.concatenate([delta[list(tangent.places)], (state[1] - v)[list(tangent.velocities)]])


LARGE = ("bricard", "four-bar", "disc", "disc with a basis", "car")


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.thorough) if n in LARGE else n for n in CASES])
@pytest.mark.thorough
def test_linear_equations_are_the_derivative_of_motions(name: str) -> None:
    """exp(A h) to second order in h, from motions that start at neighbouring states on the manifold, along a motion (v is not zero)."""
    model, q, v, u = start_of(name)
    tangent = model.minimal_tangent(q, v)
    A, B = model.linearize(q, v, u)
    assert A.shape == (tangent.size, tangent.size)
    assert B.shape == (tangent.size, model.nu)
    h, eps = 1e-3, 1e-5
    size, n = tangent.size, model.nu
    starts, inputs = [(q, v)], [u]
    for k in range(size):
        for sign in (1, -1):
            starts.append(moved(model, q, v, tangent, sign * eps * np.eye(size)[k]))
            inputs.append(u)
    for k in range(n):
        for sign in (1, -1):
            starts.append((q, v))
            inputs.append(u + sign * eps * np.eye(n)[k])
    rates = []
    for (q0, v0), u0 in zip(starts, inputs, strict=True):
        run = ht.simulate(model, (q0, v0), until=h, step=h / 4, inputs=u0 if n else None, integrator="rkmk6")
        rates.append((q0, v0, run.q[-1], run.v[-1]))
    before = [deviation(model, q, v, tangent, (q0, v0)) for q0, v0, _, _ in rates]
    end = rates[0][2:]
    after = [deviation(model, *end, tangent, (q1, v1)) for _, _, q1, v1 in rates]
    X = np.array([(before[1 + 2 * k] - before[2 + 2 * k]) / (2 * eps) for k in range(size)]).T
    np.testing.assert_allclose(X, np.eye(size), atol=1e-6)
    Y = np.array([(after[1 + 2 * k] - after[2 + 2 * k]) / (2 * eps) for k in range(size)]).T
    # the mean of the matrices at both ends of the step: the trapezoidal rule
    A_end, B_end = model.linearize(*end, u, independent=())
    other = model.minimal_tangent(*end)
    assert other.places == tangent.places
    assert other.velocities == tangent.velocities
    middle = 0.5 * (A + A_end)
    expected = np.eye(size) + h * middle + 0.5 * h * h * middle @ middle
    scale = 1 + np.max(np.abs(middle)) ** 3
    np.testing.assert_allclose(Y, expected, atol=1e-6 + h**3 * scale)
    np.testing.assert_allclose((Y - X) / h, middle, atol=0.02 * scale**0.5)
    if n:
        first = 1 + 2 * size
        Z = np.array([(after[first + 2 * k] - after[first + 1 + 2 * k]) / (2 * eps) for k in range(n)]).T
        np.testing.assert_allclose(Z, h * 0.5 * (B + B_end) + 0.5 * h * h * middle @ B, atol=1e-8 + h**2 * scale)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.thorough
def test_acceleration_derivatives_are_those_along_the_manifold(name: str) -> None:
    model, q, v, u = start_of(name)
    tangent = model.minimal_tangent(q, v)
    a, by_q, by_v, by_u = model.acceleration_derivatives(q, v, u)
    np.testing.assert_allclose(a, model.acceleration(q, v, u), rtol=1e-12, atol=1e-12)
    eps, f = 1e-5, len(tangent.places)
    for k, slope in enumerate(np.concatenate([by_q, by_v], axis=1).T):
        ends = [moved(model, q, v, tangent, sign * eps * np.eye(tangent.size)[k]) for sign in (1, -1)]
        # assembling shifts the dependent ones only to second order, so the difference is along the manifold
        difference = np.subtract(*(model.acceleration(x, y, u) for x, y in ends)) / (2 * eps)
        np.testing.assert_allclose(
            slope, difference, rtol=2e-5, atol=2e-5 * (1 + np.max(np.abs(a))), err_msg=f"{k} of {f}"
        )
    for k in range(model.nu):
        du = np.eye(model.nu)[k]
        np.testing.assert_allclose(
            by_u[:, k], model.acceleration(q, v, u + du) - model.acceleration(q, v, u), atol=1e-9
        )


@pytest.mark.thorough
def test_the_swinging_four_bar_has_the_frequency_of_its_equilibrium() -> None:
    """Two linear equations for one degree of freedom; small oscillations have the period of the eigenvalues."""
    model = four_bar(motor=False)
    low = ht.simulate(model, model.assemble([-0.5, -1.0, -0.8]), until=1500.0, step=0.02, record_every=1000).final[0]
    q, _ = model.assemble(low)
    A, _ = model.linearize(q)
    assert A.shape == (2, 2)
    values = np.linalg.eigvals(A)
    assert np.all(values.real < 0)
    tangent = model.minimal_tangent(q)
    start = moved(model, q, np.zeros(3), tangent, np.array([1e-4, 0.0]))
    run = ht.simulate(model, start, until=3.0, step=1e-3)
    x = run.q[:, tangent.places[0]] - q[tangent.places[0]]
    w, V = np.linalg.eig(A)
    expected = (V @ (np.exp(np.outer(w, run.t)) * np.linalg.solve(V, [1e-4, 0])[:, None]))[0].real
    np.testing.assert_allclose(x, expected, atol=1e-8)


@pytest.mark.thorough
def test_batches_and_choices() -> None:
    model = four_bar()
    starts = [model.assemble([angle, -0.5, 1.3], [1.0, 0, 0], fixed=("crank",)) for angle in (0.8, 0.9, 1.0)]
    q, v = np.array([s[0] for s in starts]), np.array([s[1] for s in starts])
    A, B = model.linearize(q, v, independent=("crank",))
    assert A.shape == (3, 2, 2)
    assert B.shape == (3, 2, 1)
    np.testing.assert_allclose(A[1], model.linearize(q[1], v[1], independent=("crank",))[0], rtol=1e-10)
    assert model.minimal_tangent(q[0], independent=("rocker",)).names == ("along rocker.rate", "rocker.rate")
    with pytest.raises(UnknownNameError, match="crack"):
        model.linearize(q[0], independent=("crack",))
    with pytest.raises(ConfigurationError, match="independent"):
        model.linearize(q[0], independent=("crank", "rocker"))


def test_linearization_without_holding_inputs_warns() -> None:
    """Omitted inputs are zero, which is another system about an arm that its motor holds."""
    system = ht.System(name="arm")
    system.body("arm", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=(1, 0, 0)))
    system.input("motor", ht.JointForce("arm"))
    model = system.derive(native=False)
    with pytest.warns(NotAtRestWarning, match=r"'arm.rate'.*9.81") as caught:
        model.linearize([0.0])
    assert caught[0].filename == __file__
    with pytest.warns(NotAtRestWarning):
        model.linearize(np.zeros((3, 1)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.linearize([np.pi / 2])  # it hangs
        model.linearize([0.0], u=model.gravity_force([0.0]))
        model.linearize([0.0], [0.0], [0.0])
        ht.library.pendulum().derive(native=False).linearize([0.5], u=[0.0])


def test_a_rest_typed_with_seven_digits_is_one() -> None:
    model = ht.library.furuta().derive(native=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        A, _ = model.linearize([0.0, 3.1415927])
        ht.control.lqr(model, [0.0, 3.1415927])
    np.testing.assert_allclose(A, model.linearize([0.0, np.pi])[0], atol=1e-4)
    with pytest.warns(NotAtRestWarning):
        model.linearize([0.0, 3.1416])
    with pytest.raises(ControlError, match="not in balance"):
        ht.control.lqr(model, [0.0, 3.1416])


def test_no_parameters_give_no_linear_equations() -> None:
    system = ht.System()
    system.body("a", joint=ht.Revolute("y"), inertia=ht.Inertia(system.parameter("m", 1.0), com=(0, 0, -1)))
    system.input("M", ht.JointForce("a"))
    A, B = system.derive(native=False).linearize([0.1], parameters={"m": np.zeros(0)})
    assert (A.shape, B.shape) == ((0, 2, 2), (0, 2, 1))


def test_linearization_of_a_moving_loop_warns() -> None:
    system = ht.library.four_bars(1)
    system.input("motor", ht.JointForce("crank0"))
    model = system.derive(native=False)
    q, _ = model.assemble([1.2, 1.0, -1.0])
    with pytest.warns(NotAtRestWarning):
        model.linearize(q)
