"""Analysis of closed loops: poles, Floquet exponents, energy along a motion, region of attraction by sampling."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from heavytop._arrays import Array, Seed, block, from_columns, is_symbolic, substitute, symbol, transpose
from heavytop._format import counted
from heavytop.compile import Traced, trace_of
from heavytop.control.laws.law import Law
from heavytop.control.laws.wrapper import Tracking
from heavytop.control.linear.linearised_loop import ordered, slope
from heavytop.control.references.reference import Reference
from heavytop.errors import ControlError
from heavytop.functions import Portable
from heavytop.geometry import se3, so3
from heavytop.simulate import Controller, Run, simulate
from heavytop.system import Model


class ClosedLoop(Portable):
    """A plant with its controller.

    Parameters
    ----------
    plant : the model that moves; it may differ from the one the law was made for.
    controller : a law with a reference, ``law.with_reference(reference)``.

    Examples
    --------
    >>> from heavytop.copters import quadcopter
    >>> craft = quadcopter()
    >>> loop = ClosedLoop(craft.model, craft.law(limits=False).with_reference(craft.model.neutral()))
    >>> run = loop.fly((craft.model.neutral(), np.array([0.5, 0, 0, 0, 0, 0])), until=8.0, step=0.02)
    >>> bool(np.abs(run.q[-1, 0]) < 0.01)
    True
    """

    def __init__(self, plant: Model, controller: Controller) -> None:
        if plant.nv == 0:
            raise ControlError(f"{plant.name!r} has no degree of freedom.")
        self.plant, self.controller = plant, controller

    @cached_property
    def inputs(self) -> dict[str, Array]:
        """Symbols of the flow: t or signal, q, v, z, p."""
        c, plant = self.controller, self.plant
        sizes = {"q": plant.nq, "v": plant.nv, "signal": c.signal_size, "z": c.state_size}
        symbols = {name: symbol(name, size) for name, size in sizes.items()}
        return {"t": symbol("t"), **symbols, "p": symbol("p", len(plant.parameter_names))}

    @cached_property
    def expressions(self) -> dict[str, Array]:
        """Rates of q, v and z, and the input u, as expressions in :attr:`inputs`."""
        s, plant = self.inputs, self.plant
        if getattr(self.controller, "host", None) is not None:
            raise ControlError(
                f"{self.controller!r} is computed in Python at every sample, so the closed loop cannot be linearised. "
                "Near its goal and without active limits predictive control equals control.lqr(model, reference)."
            )
        controller = self.controller.traced(plant)
        results = controller.expressions(*(s[name] for name in controller.inputs))
        values = dict(zip(controller.outputs, results, strict=True))
        u = values["u"]
        z_rate = values.get("z_rate", np.zeros(0))
        if self.controller.state_size and "z_rate" not in values:
            raise ControlError(f"{self.controller!r} has a sampled state (z_next); simulate it with sampled control.")
        (rate,) = plant.traced("rate").expressions(s["q"], s["v"], s["p"])
        (a,) = plant.traced("acceleration").expressions(s["q"], s["v"], u, s["p"])
        return {"q_rate": rate, "v_rate": a, "z_rate": z_rate, "u": u}

    @cached_property
    def flow(self) -> Traced:
        """The closed loop as traced function (t, q, v, signal, z, p) -> (q_rate, v_rate, z_rate, u)."""
        return trace_of("flow", self.inputs, self.expressions)

    def fly(
        self,
        start: tuple[Array, Array],
        until: float,
        step: float = 1e-3,
        record_every: int = 1,
        parameters: Mapping[str, Any] | None = None,
        threads: int | None = None,
        raise_on_failure: bool = True,
    ) -> Run:
        """Simulate from start = (q, v), with any leading batch axes, the law evaluated in every stage of the integrator.

        Raises a SimulationError if a state becomes infinite or NaN, unless ``raise_on_failure`` is False: then the outcome reports it.
        """
        return simulate(
            self.plant, start, until, step, "projected_rk4", control=self.controller, hold="continuous", parameters=parameters,
            record_every=record_every, balance=False, raise_on_failure=raise_on_failure, threads=threads, progress=False,
        )  # fmt: skip


@dataclass(frozen=True)
class Linearization:
    """x' = A x of a closed loop about its reference at one time, x = (eps, dv, dz) in tangent coordinates.

    Attributes
    ----------
    A : (n, n). names : names of the states.
    """

    A: np.ndarray
    names: tuple[str, ...]

    def __repr__(self) -> str:
        slowest = f", slowest pole {self.poles[0]:.4g}" if len(self.A) else ""
        return f"Linearization({counted(len(self.A), 'state')}{slowest})"

    @property
    def poles(self) -> np.ndarray:
        """Eigenvalues (n,), slowest first."""
        return ordered(np.linalg.eigvals(self.A))

    @property
    def damping(self) -> np.ndarray:
        """Damping ratio -Re/|.| (n,) of each pole; nan for poles at zero."""
        size = np.abs(self.poles)
        return np.where(size > 1e-12, -np.real(self.poles) / np.where(size > 1e-12, size, 1.0), np.nan)

    def is_stable(self, margin: float = 0.0) -> bool:
        """Whether all poles lie left of ``-margin``."""
        return bool(np.max(np.real(self.poles)) < -margin)

    def report(self) -> str:
        """Poles with natural frequency and damping ratio."""
        rows = [
            f"{p.real:10.4f} {p.imag:+10.4f}i   w = {abs(p):8.4f} 1/s   zeta = {z:7.4f}"
            for p, z in zip(self.poles, self.damping, strict=True)
        ]
        return "\n".join(rows)

    def to_control(self) -> Any:
        """The linearisation as ``control.StateSpace`` of the package python-control, with the full state as output."""
        from importlib import import_module

        try:
            make = import_module("control").ss
        except (ImportError, AttributeError):  # missing, or a namespace package of that name
            raise ControlError("to_control() needs the package 'control': pip install control.") from None
        n = len(self.A)
        return make(self.A, np.zeros((n, 1)), np.eye(n), np.zeros((n, 1)), states=list(self.names))


def tangent_flow(loop: ClosedLoop) -> Traced:
    """Traced function (t, q, v, signal, z, p) -> A of the closed loop in tangent coordinates.

    eps' = dv - gamma(v) eps (eq. 2.24, erratum 0.10); the other rows are derivatives of the accelerations and of the rate of z.
    """
    s, plant = loop.inputs, loop.plant
    n, m = plant.nv, loop.controller.state_size
    e = plant.expressions
    gammas = e.kinematics.commutation
    turning = transpose(from_columns(*(np.matvec(transpose(g), e.v) for g in gammas)))
    turning = substitute(turning, e.q, s["q"])
    turning = substitute(substitute(turning, e.v, s["v"]), e.p, s["p"]) if is_symbolic(turning) else turning
    (A,) = plant.traced("kinematics_matrix").expressions(s["q"], s["p"])
    eps = symbol("eps", n)
    rates = [loop.expressions["v_rate"], loop.expressions["z_rate"]][: 1 + bool(m)]
    moved = [substitute(rate, s["q"], s["q"] + np.matvec(A, eps)) for rate in rates]
    by_eps = [substitute(slope(rate, eps), eps, np.zeros(n)) for rate in moved]
    rows = [[-turning, np.eye(n)]]
    rows += [[by, slope(rate, s["v"])] for by, rate in zip(by_eps, rates, strict=True)]
    if m:
        rows = [[*row, slope(rate, s["z"])] for row, rate in zip(rows, [np.zeros(n), *rates], strict=True)]
    return trace_of("tangent_flow", s, {"A": block(rows)})


def _along(
    loop: ClosedLoop, times: np.ndarray, q: np.ndarray, v: np.ndarray, z: np.ndarray, parameters: Any = None
) -> np.ndarray:
    signal = loop.controller.signal(times)
    # interpreted: a few thousand evaluations at most, compiling would take longer
    return tangent_flow(loop)(times, q, v, signal, z, loop.plant.parameter_vector(parameters))[0]


def linearize(
    plant: Model,
    controller: Controller,
    q: Array,
    v: Array | None = None,
    t: float = 0.0,
    z: Array | None = None,
    parameters: Mapping[str, Any] | None = None,
) -> Linearization:
    """Linearise the closed loop about the state (q, v) at the time t, in tangent coordinates: no spurious states.

    ``parameters`` are those of the plant by name; default: nominal values.
    Meaningful if (q, v) is on a motion of the closed loop, for example hover at the set point, or a feasible reference.

    >>> from heavytop.copters import quadcopter
    >>> craft = quadcopter()
    >>> controller = craft.law(limits=False).with_reference(craft.model.neutral())
    >>> linearize(craft.model, controller, craft.model.neutral()).is_stable()
    True
    """
    loop = ClosedLoop(plant, controller)
    v = np.zeros(plant.nv) if v is None else np.asarray(v, dtype=float)
    z = controller.initial_state() if z is None else np.asarray(z, dtype=float)
    if plant.description.loops or plant.description.constraints:
        return _linearize_kept(loop, np.asarray(q, dtype=float), v, t, z, parameters)
    A = _along(loop, np.asarray(float(t)), np.asarray(q, dtype=float), v, z, parameters)
    names = [f"eps:{n}" for n in plant.v_names] + list(plant.v_names) + [f"z{i + 1}" for i in range(len(z))]
    return Linearization(A, tuple(names))


def _linearize_kept(
    loop: ClosedLoop, q: np.ndarray, v: np.ndarray, t: float, z: np.ndarray, parameters: Any
) -> Linearization:
    """The closed loop in the minimal tangent coordinates of loops, velocity constraints or a basis: A + B du/dx."""
    s, plant, controller = loop.inputs, loop.plant, loop.controller
    delta = symbol("delta", plant.coordinates.nv)
    moved = s["q"] + np.matvec(plant.coordinates.kinematics_matrix(s["q"]), delta)
    outputs = {"u": loop.expressions["u"]}
    for name in ("u", "z_rate")[: 1 + bool(len(z))]:
        value = loop.expressions[name]
        by_delta = substitute(slope(substitute(value, s["q"], moved), delta), delta, np.zeros(delta.shape[0]))
        outputs |= {f"{name}_q": by_delta, f"{name}_v": slope(value, s["v"]), f"{name}_z": slope(value, s["z"])}
    at = (float(t), q, v, controller.signal(np.asarray(float(t))), z, plant.parameter_vector(parameters))
    given = dict(zip(outputs, trace_of("slopes", s, outputs)(*at), strict=True))
    tangent = plant.minimal_tangent(q, v, parameters=parameters)
    A, B = plant.linearize(q, v, given["u"], parameters)

    def along(name: str) -> np.ndarray:
        by_q, by_v = given[f"{name}_q"], given[f"{name}_v"]
        return np.concatenate([by_q @ tangent.D + by_v @ tangent.K, by_v @ tangent.N], axis=1)

    closed, names = A + B @ along("u"), list(tangent.names)
    if len(z):
        closed = np.block([[closed, B @ given["u_z"]], [along("z_rate"), given["z_rate_z"]]])
        names += [f"z{i + 1}" for i in range(len(z))]
    return Linearization(closed, tuple(names))


def hover(law: Law, q: Array | None = None, *, plant: Model | None = None) -> Linearization:
    """Linearise the law at a set point q (default: the neutral configuration), optionally with a plant that differs from its model.

    >>> from heavytop.copters import quadcopter
    >>> craft = quadcopter()
    >>> hover(craft.law(limits=False)).is_stable()
    True
    """
    target = law.model.neutral() if q is None else np.asarray(q, dtype=float)
    return linearize(plant or law.model, law.with_reference(target), target)


def floquet_exponents(law: Law, reference: Reference, *, steps: int = 2000, plant: Model | None = None) -> np.ndarray:
    """Real parts of the Floquet exponents (2 nv + states,) along a periodic, feasible reference, largest first, 1/s.

    All negative: small errors decay. The linear equations are integrated over one period by the classical Runge-Kutta method.

    >>> import heavytop as ht
    >>> from heavytop.control import computed_torque, recorded_reference
    >>> model = ht.library.pendulum().derive()
    >>> t = np.linspace(0.0, 1.0, 11)
    >>> rest = recorded_reference(model, t, np.zeros((11, 1)), np.zeros((11, 1)), np.zeros((11, 1)), period=1.0)
    >>> floquet_exponents(computed_torque(model, stiffness=2.0, damping=3.0), rest, steps=100).round(3)
    array([-1., -2.])
    """
    if reference.period is None:
        raise ControlError("Floquet exponents need a periodic reference: set period=...")
    if law.model.description.loops or law.model.description.constraints:
        raise ControlError(
            f"Floquet exponents are computed for tree systems; {law.model.name!r} has loops or constraints."
        )
    loop = ClosedLoop(plant or law.model, law.with_reference(reference))
    h = reference.period / steps
    times = reference.begin + np.arange(2 * steps + 1) * (h / 2)
    q, v, _ = reference(times)
    A = _along(loop, times, q, v, np.broadcast_to(law.initial_state(), (len(times), law.state_size)))
    phi = np.eye(A.shape[-1])
    for first, middle, last in zip(A[0:-1:2], A[1::2], A[2::2], strict=True):
        k1 = first @ phi
        k2 = middle @ (phi + h / 2 * k1)
        k3 = middle @ (phi + h / 2 * k2)
        phi = phi + h / 6 * (k1 + 2 * k2 + 2 * k3 + last @ (phi + h * k3))
    sizes = np.abs(np.linalg.eigvals(phi))
    with np.errstate(divide="ignore"):
        return np.sort(np.log(sizes) / reference.period)[::-1]


@dataclass(frozen=True)
class EnergyBalance:
    """The error energy W along a motion.

    Attributes
    ----------
    t, W, dissipation, defect : (n, ...). imbalance : W(t) - W(0) + the integral of the dissipation, in J.
    """

    t: np.ndarray
    W: np.ndarray
    dissipation: np.ndarray
    defect: np.ndarray
    imbalance: np.ndarray


def energy_balance(controller: Tracking, flight: Run) -> EnergyBalance:
    """The energy W along a simulated motion and the error of W' = -dissipation, for laws without integral action.

    >>> from heavytop.copters import quadcopter
    >>> craft = quadcopter()
    >>> from heavytop.simulate import simulate
    >>> controller = craft.law(limits=False).with_reference(craft.model.neutral())
    >>> start = craft.model.neutral(), np.array([0.5, 0, 0, 0, 0, 0])
    >>> run = simulate(craft.model, start, until=0.5, step=0.005, control=controller, hold="continuous")
    >>> W = energy_balance(controller, run).W
    >>> bool(W[-1] < W[0])
    True
    """
    from scipy.interpolate import CubicSpline

    if controller.state_size:
        raise ControlError("the energy balance is that of the prototype only: use a law without integral action.")
    lead = (len(flight.t), *(1,) * (flight.q.ndim - 2))
    desired = [x.reshape(*lead, x.shape[-1]) for x in controller.reference(flight.t)]
    values = controller.law.diagnostics(flight.q, flight.v, *desired)
    W, dissipation = values["W"], values["dissipation"]
    lost = CubicSpline(flight.t, dissipation, axis=0).antiderivative()(flight.t)
    return EnergyBalance(flight.t, W, dissipation, values["defect"], W - W[0] + lost)


@dataclass(frozen=True)
class Attraction:
    """Outcome of many flights from random states.

    Attributes
    ----------
    start : (q, v) of all samples. recovered : (n,) booleans. final_distance : (n,) m; infinite if the flight diverged.
    drop : (n,) m below the lower of start and target, while the state was finite.
    """

    start: tuple[np.ndarray, np.ndarray]
    recovered: np.ndarray
    final_distance: np.ndarray
    drop: np.ndarray

    @property
    def share(self) -> float:
        """Share of recovered samples."""
        return float(np.mean(self.recovered))


def random_states(
    model: Model,
    count: int,
    rng: Seed = 0,
    distance: float = 5.0,
    angle: float = np.deg2rad(179.9),
    speed: float = 3.0,
    rate: float = 5.0,
) -> tuple[np.ndarray, np.ndarray]:
    """Random states of a single free body: |r_i| < distance, rotation angle < angle, |v_i| < speed, |w_i| < rate.

    >>> from heavytop.copters import quadcopter
    >>> craft = quadcopter()
    >>> q, v = random_states(craft.model, 3, rng=0, distance=2.0)
    >>> q.shape, v.shape, bool(np.all(np.abs(q[:, :3]) < 2))
    ((3, 12), (3, 6), True)
    """
    from heavytop.control.references.reference import coordinates_of_motion

    for what, bound in (("angle", angle), ("distance", distance), ("speed", speed), ("rate", rate)):
        if not np.all(np.isfinite(bound)):
            raise ControlError(f"{what} must be finite, got {bound!r}.")
    rng = np.random.default_rng(rng)
    axis = rng.standard_normal((count, 3))
    axis /= np.linalg.norm(axis, axis=1, keepdims=True)
    R = so3.exp(axis * rng.uniform(0.0, angle, (count, 1)))
    G = se3.pose(R, rng.uniform(-distance, distance, (count, 3)))
    xi = np.concatenate([rng.uniform(-speed, speed, (count, 3)), rng.uniform(-rate, rate, (count, 3))], axis=1)
    q, v, _ = coordinates_of_motion(model, G, xi, np.zeros((count, 6)))
    return q, v


def region_of_attraction(
    plant: Model,
    controller: Controller,
    start: tuple[np.ndarray, np.ndarray],
    until: float = 30.0,
    step: float = 2e-3,
    target: Callable[[float], np.ndarray] | None = None,
    tolerance: float = 0.05,
) -> Attraction:
    """Simulate from many states and report which recover.

    Parameters
    ----------
    start : (q, v) with one batch axis, for example from :func:`random_states`.
    target : time -> position (3,) of the goal; default: the origin.
    tolerance : largest final distance of the first body's origin from the target that counts as recovered, m.

    Examples
    --------
    >>> from heavytop.copters import quadcopter
    >>> craft = quadcopter()
    >>> controller = craft.law(limits=False).with_reference(craft.model.neutral())
    >>> start = random_states(craft.model, 4, distance=1.0)
    >>> region_of_attraction(craft.model, controller, start, until=8.0, step=0.02).share
    1.0
    """
    every = max(1, round(0.05 / step))
    flight = ClosedLoop(plant, controller).fly(start, until, step, record_every=every, raise_on_failure=False)
    survived = np.array([outcome.ok for outcome in flight.outcomes.flat], dtype=bool).reshape(flight.batch)
    off = np.max(np.abs(plant.coordinates.constraints(flight.q)), axis=-1, initial=0.0)
    good = np.isfinite(flight.q).all(axis=-1) & (off < 1e-6)
    # states after a divergence are replaced by the start, which changes neither the drop nor the outcome
    q = np.where(good[..., None], flight.q, flight.q[0])
    places = plant.pose("world", plant.body_names[0], q)[..., :3, 3]
    goal = np.zeros(3) if target is None else np.asarray(target(until), dtype=float)
    distance = np.where(survived, np.linalg.norm(places[-1] - goal, axis=-1), np.inf)
    least = np.minimum(places[0, ..., 2], goal[2])
    return Attraction(start, distance < tolerance, distance, least - places[..., 2].min(axis=0))
