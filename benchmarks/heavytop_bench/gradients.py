"""Gradients of whole motions: 1,000 steps by start, parameters and 1,000 held inputs, in runs; and against JAX and CasADi."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import numpy as np

import heavytop as ht
from heavytop.compile import numpy_source, trace
from heavytop_bench.measure import BenchEffort, Work, best_times
from heavytop_bench.peers import Peer
from heavytop_bench.report import BenchReport

TITLE = "gradient of 1,000 steps by start, parameters and 1,000 held inputs, ns per step"
SYSTEMS = {"quadcopter": 2e-3, "bare-tricopter-load": 5e-4, "panda": 5e-4}
"""Steps in s."""
RUNS = 4.0
"""Runs that a gradient may take."""
PEERS = 10.0
"""How many times faster than reverse mode through a scan of the same steps."""
BRIDGE = 50.0
"""Microseconds that a call through PyTorch may add."""


def run(effort: BenchEffort, peers: Sequence[Peer] | None = None) -> BenchReport:
    """Measure gradients in units of runs with the same arguments."""
    steps = 20 if effort.seconds == 0 else 1000
    report = BenchReport("gradients", TITLE)
    loss = ht.Loss(end=lambda t, q, v: np.vecdot(q, q) + v[0])
    for name, step in SYSTEMS.items():
        model = ht.library.load(name).derive()
        rng = np.random.default_rng(0)
        inputs = 0.1 * rng.standard_normal((steps, model.nu)) + (2.2 if name == "quadcopter" else 0.0)
        spec = ht.prepare(model, steps * step, step, inputs=inputs, progress=False)
        for batch in ((), (effort.batch,)):
            q, v = model.random(rng, batch), 0.1 * rng.standard_normal((*batch, model.nv))
            count = max(int(np.prod(batch)), 1)
            works: dict[str, Work] = {
                "run": lambda spec=spec, q=q, v=v: spec((q, v)),
                "gradient": lambda spec=spec, q=q, v=v: spec.gradient(loss, (q, v)),
            }
            few = effort if not batch else replace(effort, rounds=min(effort.rounds, 3), seconds=0.0)
            times = best_times(works, few)
            row: dict[str, float | int | str] = {"system": name, "trajectories": count}
            row |= {f"{k}_ns": seconds / steps / count * 1e9 for k, seconds in times.items()}
            report.row(**row)
            label = f"{name}, {count} at once" if batch else name
            report.limit(f"{label}: gradient", times["gradient"] / times["run"], RUNS, "runs")
    _against_peers(report, effort, steps)
    _bridge(report, effort)
    return report


def _against_peers(report: BenchReport, effort: BenchEffort, steps: int) -> None:
    """The quadcopter: the same Runge-Kutta steps as a scan of JAX and as a CasADi function, both differentiated by themselves."""
    model = ht.library.load("quadcopter").derive()
    rng, h = np.random.default_rng(0), 2e-3
    q, v = model.random(rng), 0.1 * rng.standard_normal(model.nv)
    inputs = 2.2 + 0.1 * rng.standard_normal((steps, model.nu))
    spec = ht.prepare(model, steps * h, h, inputs=inputs, integrator="projected_rk4", progress=False)
    loss = ht.Loss(end=lambda t, q, v: np.vecdot(q, q) + v[0])
    ours = np.asarray(spec.gradient(loss, (q, v), by=("start", "inputs")).inputs)
    works: dict[str, Work] = {"heavytop": lambda: spec.gradient(loss, (q, v), by=("start", "inputs"))}
    for name, make in (("JAX", _jax_gradient), ("CasADi", _casadi_gradient)):
        if name == "JAX" and find_spec("jax") is None:
            report.missing.append("jax")
            continue
        work = make(model, q, v, inputs, h)
        # without the projection of each step, whose derivative along the manifold is the identity but for terms of the step's error
        error = np.abs(np.asarray(work()).reshape(ours.shape) - ours).max() / np.abs(ours).max()
        if error > 1e-6:
            report.notes.append(f"{name}: gradients differ by {error:.1e}, so its time is not compared.")
            continue
        works[name] = work
    times = best_times(works, effort)
    report.row(system="quadcopter, by inputs", trajectories=1, **{f"{k}_ns": t / steps * 1e9 for k, t in times.items()})
    for name in works:
        if name != "heavytop":
            report.ratio(f"{name} / heavytop", times[name] / times["heavytop"], PEERS)
    if find_spec("mujoco") is None or find_spec("mujoco.mjx") is None:
        report.missing.append("mujoco-mjx")
    elif effort.seconds:
        slope = _mjx_gradient(steps, h)
        slope()  # compiles
        begin = time.process_time()
        slope()
        report.ratio("MJX / heavytop", (time.process_time() - begin) / times["heavytop"], PEERS)
        report.notes.append(
            "MJX: jax.grad of a scan of mjx.step by the controls, a free body with four thrusts, no contacts, Euler's method in float64 instead of "
            "Runge and Kutta's."
        )


def _jax_gradient(model: Any, q: np.ndarray, v: np.ndarray, inputs: np.ndarray, h: float) -> Work:
    """``jax.grad`` of a scan of Runge and Kutta's steps of heavytop's source for JAX."""
    import jax  # pyright: ignore[reportMissingImports]
    import jax.numpy as jnp  # pyright: ignore[reportMissingImports]

    jax.config.update("jax_enable_x64", True)
    namespace: dict[str, Any] = {}
    exec(numpy_source(_rate_function(model), "rates", "jax"), namespace)
    function = namespace["rates"]

    def step(state: Any, u: Any) -> Any:
        q, v = state
        k = [function(q, v, u)]
        for c in (0.5, 0.5, 1.0):
            k.append(function(q + c * h * k[-1][0], v + c * h * k[-1][1], u))
        q, v = (x + h / 6 * (k[0][i] + 2 * k[1][i] + 2 * k[2][i] + k[3][i]) for i, x in enumerate((q, v)))
        return (q, v), None

    def loss(u: Any) -> Any:
        (q_n, v_n), _ = jax.lax.scan(step, (jnp.asarray(q), jnp.asarray(v)), u)
        return q_n @ q_n + v_n[0]

    slope = jax.jit(jax.grad(loss))
    given = jnp.asarray(inputs)
    return lambda: jax.block_until_ready(slope(given))


def _mjx_gradient(steps: int, h: float) -> Work:
    """``jax.grad`` of a scan of steps of MJX by the controls of a quadcopter."""
    import jax  # pyright: ignore[reportMissingImports]
    import jax.numpy as jnp  # pyright: ignore[reportMissingImports]
    import mujoco  # pyright: ignore[reportMissingImports]
    from mujoco import mjx  # pyright: ignore[reportMissingImports, reportAttributeAccessIssue]

    jax.config.update("jax_enable_x64", True)
    places = [(0.2, 0.0, 1), (0.0, 0.2, -1), (-0.2, 0.0, 1), (0.0, -0.2, -1)]
    sites = "".join(f'<site name="m{k}" pos="{x} {y} 0"/>' for k, (x, y, _) in enumerate(places))
    motors = "".join(f'<motor site="m{k}" gear="0 0 1 0 0 {0.02 * s}"/>' for k, (_, _, s) in enumerate(places))
    model = mujoco.MjModel.from_xml_string(  # pyright: ignore[reportAttributeAccessIssue]
        f'<mujoco><option timestep="{h}"><flag contact="disable" constraint="disable"/></option><worldbody><body name="hull"><freejoint/>'
        f'<inertial pos="0 0 0" mass="0.9" diaginertia="0.01 0.01 0.02"/>{sites}</body></worldbody><actuator>{motors}</actuator></mujoco>'
    )
    put, first = mjx.put_model(model), mjx.make_data(model)

    def loss(u: Any) -> Any:
        def step(data: Any, sample: Any) -> Any:
            return mjx.step(put, data.replace(ctrl=sample)), None

        last, _ = jax.lax.scan(step, first, u)
        return last.qpos @ last.qpos + last.qvel[0]

    slope = jax.jit(jax.grad(loss))
    given = jnp.asarray(np.full((steps, 4), 2.2))
    return lambda: jax.block_until_ready(slope(given))


def _casadi_gradient(model: Any, q: np.ndarray, v: np.ndarray, inputs: np.ndarray, h: float) -> Work:
    """The gradient of CasADi's ``mapaccum`` of the same steps, by CasADi's virtual machine."""
    import casadi

    f = _rate_function(model).function
    nq, nv, nu = model.nq, model.nv, model.nu
    x, u = casadi.MX.sym("x", nq + nv), casadi.MX.sym("u", nu)

    def rates(x: Any) -> Any:
        return casadi.vertcat(*f(x[:nq], x[nq:], u))

    k1 = rates(x)
    k2 = rates(x + h / 2 * k1)
    k3 = rates(x + h / 2 * k2)
    k4 = rates(x + h * k3)
    step = casadi.Function("step", [x, u], [x + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)])
    samples = casadi.MX.sym("samples", nu, len(inputs))
    last = step.mapaccum(len(inputs))(np.concatenate([q, v]), samples)[:, -1]
    value = casadi.dot(last[:nq], last[:nq]) + last[nq]
    slope = casadi.Function("slope", [samples], [casadi.gradient(value, samples)])
    return lambda: slope(inputs.T).full().T


def _rate_function(model: Any) -> Any:
    """(q, v, u) -> (q', v') at the default parameters."""
    motion, p = model.traced("motion"), model.parameter_vector()

    def rates(q: Any, v: Any, u: Any) -> Any:
        w, a = motion.expressions(q, v, u, p)[:2]
        return {"q": model.coordinates.rate(q, w), "v": a}

    return trace(rates, {"q": (model.nq,), "v": (model.nv,), "u": (model.nu,)}, name="rates")


def _bridge(report: BenchReport, effort: BenchEffort) -> None:
    """What PyTorch adds to a short run and its adjoint."""
    if find_spec("torch") is None:
        report.missing.append("torch")
        return
    import torch  # pyright: ignore[reportMissingImports]

    from heavytop.simulate.gradients import RunFunction

    model = ht.library.load("quadcopter").derive()
    rng = np.random.default_rng(0)
    arrays: dict[Any, np.ndarray] = {"q": model.random(rng), "v": np.zeros(6), "inputs": np.full((20, 4), 2.2)}
    function = RunFunction(ht.prepare(model, 0.2, 0.01, progress=False), tuple(arrays))
    run = ht.torch.prepare(model, 0.2, 0.01, progress=False)
    tensors = [torch.tensor(x, requires_grad=True) for x in arrays.values()]
    ones = torch.ones(21, 12, dtype=torch.float64), torch.ones(21, 6, dtype=torch.float64)

    def bare() -> None:
        path = function.run(arrays)
        function.records(path)
        function.vjp(path, arrays, ones[0].numpy(), ones[1].numpy())

    times = best_times({"native": bare, "torch": lambda: torch.autograd.grad(run(*tensors), tensors, ones)}, effort)
    report.limit("PyTorch adds", (times["torch"] - times["native"]) * 1e6, BRIDGE, "us")
