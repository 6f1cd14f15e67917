"""PyTorch and JAX differentiate through runs, steps, forward dynamics and laws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from extrapolation import slope

import heavytop as ht
from heavytop.errors import HeavytopError

pytestmark = pytest.mark.peers


def case() -> tuple[ht.Model, dict[str, np.ndarray], dict[str, np.ndarray], np.ndarray]:
    """A quadcopter, its arguments, directions of them and weights of the records."""
    model, rng = ht.library.load("quadcopter").derive(), np.random.default_rng(0)
    arguments = {
        "q": model.random(rng, (3,)),
        "v": 0.3 * rng.standard_normal((3, 6)),
        "u": 2.2 + 0.1 * rng.standard_normal((20, 3, 4)),
    }
    directions = {
        "q": rng.standard_normal((3, 6)),
        "v": rng.standard_normal((3, 6)),
        "u": rng.standard_normal((20, 3, 4)),
    }
    return model, arguments, directions, rng.standard_normal((21, 3, 12))


def expected(model: ht.Model, arguments: Any, directions: Any, weights: np.ndarray) -> np.ndarray:
    def value(e: float) -> np.ndarray:
        q = np.asarray(model.coordinates.retract(arguments["q"], e * directions["q"]))
        run = ht.simulate(
            model, (q, arguments["v"] + e * directions["v"]), 0.2, 0.01, inputs=arguments["u"] + e * directions["u"],
            parameters={"m": 0.9 + 0.3 * e},
        )  # fmt: skip
        return (weights * run.q).sum() + (run.v**2).sum()

    return slope(value)


def test_torch() -> None:
    torch = pytest.importorskip("torch")
    from torch.autograd import forward_ad

    model, arguments, directions, weights = case()
    run, w = ht.torch.prepare(model, until=0.2, step=0.01), torch.tensor(weights)

    def loss(q: Any, v: Any, u: Any, m: Any) -> Any:
        q_n, v_n = run(q, v, u, {"m": m})
        return (w * q_n).sum() + (v_n**2).sum()

    q, v, u = (torch.tensor(x, requires_grad=True) for x in arguments.values())
    m = torch.tensor(0.9, dtype=torch.float64, requires_grad=True)
    loss(q, v, u, m).backward()
    q_dot = np.asarray(model.coordinates.rate(arguments["q"], directions["q"]))
    along = (q.grad.numpy() * q_dot).sum() + sum(
        (x.grad.numpy() * directions[n]).sum() for n, x in (("v", v), ("u", u))
    )
    along += 0.3 * float(m.grad)
    reference = expected(model, arguments, directions, weights)
    assert along == pytest.approx(reference, rel=1e-9)
    with forward_ad.dual_level():
        dots = (q_dot, directions["v"], directions["u"], np.array(0.3))
        dual = [forward_ad.make_dual(x.detach(), torch.tensor(d)) for x, d in zip((q, v, u, m), dots, strict=True)]
        assert float(forward_ad.unpack_dual(loss(*dual)).tangent) == pytest.approx(reference, rel=1e-9)
    acceleration = ht.torch.forward_dynamics(model)
    assert torch.autograd.gradcheck(lambda v, u: acceleration(q.detach(), v, u), (v, u[0].detach().requires_grad_()))
    q_1, _ = ht.torch.step(model, 0.01)(q, v, u[0])
    np.testing.assert_allclose(
        q_1.detach().numpy(),
        ht.simulate(model, (arguments["q"], arguments["v"]), 0.01, 0.01, inputs=arguments["u"][:1]).q[-1],
    )
    with pytest.raises(HeavytopError, match="float64"):
        run(q.detach().float(), v, u)


def test_torch_gains_of_a_law() -> None:
    torch = pytest.importorskip("torch")
    system = ht.System()
    system.body("rod", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=(0, 0, -1.0)))
    system.input("motor", ht.JointForce("rod"))
    model = system.derive()
    law = ht.Feedback(
        lambda q, v, gains: -gains["k"] * q - gains["d"] @ v, ("q", "v", "gains"), gains={"k": 1.0, "d": [[1.0]]}
    )
    k = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    d = torch.tensor([[0.5]], dtype=torch.float64, requires_grad=True)
    start = torch.ones(4, 1, dtype=torch.float64), torch.zeros(4, 1, dtype=torch.float64)
    q, _ = ht.torch.simulate(model, start, 1.0, 0.01, gains={"k": k, "d": d}, control=law)
    (q[-1] ** 2).sum().backward()
    loss = lambda t, q, v: q[0] ** 2  # noqa: E731
    found = ht.gradient(loss, model, ([1.0], [0.0]), 1.0, 0.01, control=law, gains={"k": 2.0, "d": [[0.5]]})
    assert float(k.grad) == pytest.approx(4 * float(found.gains["k"]), rel=1e-10)
    assert float(d.grad[0, 0]) == pytest.approx(4 * float(found.gains["d"][0, 0]), rel=1e-10)
    u = ht.torch.law(model, law)(torch.zeros((), dtype=torch.float64), *start)
    np.testing.assert_allclose(u.numpy(), -1.0)


def test_jax() -> None:
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    model, arguments, directions, weights = case()
    q_dot = np.asarray(model.coordinates.rate(arguments["q"], directions["q"]))
    dots = (q_dot, directions["v"], directions["u"], 0.3)
    reference = expected(model, arguments, directions, weights)

    def loss(run: Any) -> Any:
        def value(q: Any, v: Any, u: Any, m: Any) -> Any:
            q_n, v_n = run(q, v, u, {"m": m})
            return (weights * q_n).sum() + (v_n**2).sum()

        return value

    given = (*arguments.values(), 0.9)
    reverse = ht.jax.prepare(model, until=0.2, step=0.01)
    bars = jax.jit(jax.grad(loss(reverse), argnums=(0, 1, 2, 3)))(*given)
    assert sum((np.asarray(b) * d).sum() for b, d in zip(bars, dots, strict=True)) == pytest.approx(reference, rel=1e-9)
    forward = ht.jax.prepare(model, until=0.2, step=0.01, mode="forward")
    assert jax.jvp(loss(forward), given, dots)[1] == pytest.approx(reference, rel=1e-9)
    many = jax.vmap(lambda q, v: reverse(q, v, arguments["u"][:, 0])[0])(arguments["q"], arguments["v"])
    assert many.shape == (3, 21, 12)
    acceleration = ht.jax.forward_dynamics(model)
    a = acceleration(arguments["q"], arguments["v"], arguments["u"][0])
    np.testing.assert_allclose(a, model.acceleration(arguments["q"], arguments["v"], arguments["u"][0]), rtol=1e-12)
