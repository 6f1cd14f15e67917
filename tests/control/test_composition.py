"""Every wrapper around every wrapper around every law: against the same composition in numbers, sampled and continuous."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import heavytop as ht
from heavytop import control
from heavytop.compile import Traced, trace
from heavytop.control import Actuated, Delayed, Noisy, Propellers, VirtualVehicle, Windy
from heavytop.errors import ControlError, HeavytopError, SimulationError
from heavytop.simulate import as_dynamics, bind, simulate

PERIOD, LAG = 0.02, 0.05
START = (np.array([0.3]), np.array([-0.2]))


def cart(wind: bool = False) -> Any:
    system = ht.System(name="cart")
    system.body("cart", joint=ht.Prismatic("x"), inertia=ht.Inertia(2.0))
    system.input("motor", ht.JointForce("cart"))
    if wind:
        control.add_wind(system, "cart", 0.3)
    return system.derive()


MODEL, WINDY = cart(), cart(wind=True)
PROTOTYPE = control.Prototype(
    {"cart": ht.Inertia(2.0)},
    {("world", "cart"): control.DesiredDamping(6.0)},
    {("world", "cart"): ht.Stiffness(9.0)},
)
WIND = control.Gust((3.0, 0.0, 0.0), -1.0, 4.0)


class Bare:
    """A law without any base class: a function and nothing else."""

    def traced(self, model: Any) -> Any:
        return trace(lambda q, v: {"u": -q - v}, {"q": (model.nq,), "v": (model.nv,)}, name="bare")


def moving() -> Any:
    """A reference that is no traced function, so that it comes as a signal."""
    sample = lambda t: tuple(f(t)[..., None] for f in (np.sin, np.cos, lambda x: -np.sin(x)))  # noqa: E731
    return control.Reference(MODEL, sample)


LAWS: dict[str, Any] = {
    "energy": lambda: control.energy_law(MODEL, PROTOTYPE).with_reference([0.5]),
    "particle, limits": lambda: control.particle_law(MODEL, PROTOTYPE, (-1.0, 1.0)).with_reference([0.5]),
    "body, signal": lambda: control.body_law(MODEL, PROTOTYPE).with_reference(moving()),
    "integral": lambda: control.energy_law(MODEL, PROTOTYPE, integral=control.Integral("cart", 2.0)).with_reference(
        [0.5]
    ),
    "computed torque": lambda: control.computed_torque(MODEL, stiffness=2.0, damping=3.0).with_reference(moving()),
    "feedback": lambda: ht.Feedback(lambda q, v: -2 * q - v, ("q", "v")),
    "feedback of time": lambda: ht.Feedback(lambda t: ht.vector(np.sin(t)), ("t",)),
    "feedback, signal": lambda: ht.Feedback(
        lambda q, signal: {"u": signal - q, "error": q - signal}, ("q", "signal"), 1, lambda t: np.cos(t)[:, None]
    ),
    "feedback, memory": lambda: ht.Feedback(lambda q, z: {"u": -z, "z_next": 0.9 * z + q}, ("q", "z"), memory=[0.1]),
    "feedback, rates": lambda: ht.Feedback(lambda q, z: {"u": -z, "z_rate": q - z}, ("q", "z"), memory=[0.1]),
    "virtual vehicle": lambda: VirtualVehicle(control.energy_law(MODEL, PROTOTYPE), moving()),
    "bare": Bare,
}
ONLY_SAMPLED, ONLY_CONTINUOUS = {"feedback, memory"}, {"feedback, rates", "virtual vehicle"}

WRAPPERS: dict[str, Any] = {
    "noisy": lambda c: Noisy(c, MODEL, 0.1, 0.2, seed=3, period=0.05),
    "delayed": lambda c: Delayed(c, 2, START),
    "actuated": lambda c: Actuated(c, Propellers(LAG), [0.4]),
    "windy": lambda c: Windy(c, WIND),
}
STACKS = [
    (),
    *((a,) for a in WRAPPERS),
    *((a, b) for a in WRAPPERS for b in WRAPPERS),
    ("windy", "delayed", "actuated", "noisy"),
]
"""Outermost first."""


def sensible(stack: tuple[str, ...]) -> bool:
    """Wind is no demand that actuators could follow, and there is one air."""
    return "windy" not in stack[1:] or (stack[0] != "actuated" and stack[0] != "windy")


def stacked(stack: tuple[str, ...], law: Any) -> Any:
    for name in reversed(stack):
        law = WRAPPERS[name](law)
    return law


def outputs(controller: Any, model: Any, at: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    function = controller.traced(model)
    return dict(zip(function.outputs, function(*(at[name] for name in function.inputs)), strict=True))


def in_numbers(stack: tuple[str, ...], law: Any, at: dict[str, np.ndarray], period: float | None) -> tuple[Any, Any]:
    """(u, memory later) of a stack, written down by hand: the meaning of each wrapper on numbers."""
    if not stack:
        values = outputs(law, MODEL, at)
        return values["u"], values.get("z_next" if period else "z_rate", np.zeros(0))
    name, rest = stack[0], stack[1:]
    q, v, z, s = at["q"], at["v"], at["z"], at["signal"]
    if name == "noisy":
        dq, dv = s[-2:-1], s[-1:]
        return in_numbers(rest, law, {**at, "q": q + dq, "v": v + dv, "signal": s[:-2]}, period)
    if name == "delayed":
        u, later = in_numbers(rest, law, {**at, "q": z[0:1], "v": z[1:2], "z": z[4:]}, period)
        return u, np.concatenate([z[2:4], q, v, later])
    if name == "windy":
        u, later = in_numbers(rest, law, {**at, "signal": s[:-3]}, period)
        return np.concatenate([u, s[-3:]]), later
    u, later = in_numbers(rest, law, {**at, "z": z[1:]}, period)
    own = (u - z[:1]) / LAG if period is None else z[:1] + (u - z[:1]) * (1 - np.exp(-period / LAG))
    return z[:1], np.concatenate([own, later])


def complaint(stack: tuple[str, ...], name: str, period: float | None) -> str:
    """Error of an impossible stack: that of the innermost wrapper that does not fit its inner controller."""
    if period and name == "virtual vehicle":
        return r"virtual vehicle.*0\.02 s"
    if not sensible(stack):
        air = "'cart' has no wind inputs: call add_wind"
        return air if stack[0] == "windy" else r"start of the actuators must have shape \(4,\), got \(1,\)"
    usual = "z_next" if period else "z_rate"
    given = {
        "feedback, memory": "z_next",
        "feedback, rates": "z_rate",
        "virtual vehicle": "z_rate",
        "integral": usual,
    }.get(name)
    for wrapper in reversed(stack):
        own = {"delayed": "z_next", "actuated": usual}.get(wrapper)
        if own and given and own != given:
            return f"^{wrapper.capitalize()} needs {own} of the controller inside it, .*, which gives {given}"
        given = own or given
    assert given is not None
    hold = "zero-order" if given == "z_next" else "continuous"
    return f"must output '{usual}' of shape .* It outputs '{given}': simulate it with hold='{hold}'"


@pytest.mark.parametrize("period", [PERIOD, None], ids=["sampled", "continuous"])
@pytest.mark.parametrize("name", LAWS)
def test_the_whole_table(name: str, period: float | None) -> None:
    """Every stack gives what its parts give one after the other; what makes no sense says why."""
    rng = np.random.default_rng(7)
    law = LAWS[name]()
    for stack in STACKS:
        plant = WINDY if "windy" in stack else MODEL
        controller = stacked(stack, law)
        possible = name not in (ONLY_CONTINUOUS if period else ONLY_SAMPLED) and (period or "delayed" not in stack)
        if not sensible(stack) or not possible:
            with pytest.raises(HeavytopError, match=complaint(stack, name, period)):
                bind(controller, as_dynamics(plant), plant, None, period)
            continue
        bound = bind(controller, as_dynamics(plant), plant, None, period)
        z, signal = bound.initial_state(), bound.signal(np.array([0.0, 0.13]))[1] if bound.signal_size else np.zeros(0)
        assert z.shape == (bound.state_size,)
        at = {"t": np.asarray(0.13), "q": rng.standard_normal(1), "v": rng.standard_normal(1), "signal": signal}
        at |= {"z": z + rng.standard_normal(z.shape), "p": np.zeros(0)}
        inner = law.sampled(period) if hasattr(law, "sampled") else law
        u, later = in_numbers(stack, inner, at, period)
        made = dict(zip(bound.traced.outputs, bound.traced(*(at[n] for n in bound.takes)), strict=True))
        np.testing.assert_allclose(made["u"], u, rtol=1e-12, atol=1e-14, err_msg=f"{stack}")
        if bound.state_size:
            np.testing.assert_allclose(
                made["z_next" if period else "z_rate"], later, rtol=1e-12, atol=1e-14, err_msg=f"{stack}"
            )
        assert ("error" in made) == (name == "feedback, signal")


@pytest.mark.parametrize(
    ("name", "hold"), [("integral", "zero-order"), ("feedback, signal", "zero-order"), ("energy", "continuous")]
)
def test_stacks_run_natively(name: str, hold: str) -> None:
    """The native loop does what a loop in numbers does with the same function."""
    sampled = hold == "zero-order"
    controller = stacked(
        ("windy", "delayed", "actuated", "noisy") if sampled else ("windy", "noisy", "actuated"), LAWS[name]()
    )
    run = simulate(WINDY, START, 20 * PERIOD, PERIOD, "rkmk4", control=controller, hold=hold, balance=False)
    assert np.all(np.isfinite(run.q))
    assert np.ptp(run.u[:, 0]) > 1e-3
    if not sampled:
        return
    bound = bind(controller, as_dynamics(WINDY), WINDY, None, run.t[1])
    samples, (q, v), z = bound.signal(run.t), START, bound.initial_state()
    for k in range(20):
        at = {"t": run.t[k], "q": q, "v": v, "signal": samples[k], "z": z, "p": np.zeros(0)}
        values = dict(zip(bound.traced.outputs, bound.traced(*(at[n] for n in bound.takes)), strict=True))
        np.testing.assert_allclose(run.u[k], values["u"], rtol=1e-9, atol=1e-12)
        z = values["z_next"]
        # m v' = u + d (w - v): exactly over one period
        force, wind = values["u"][0], values["u"][1]
        final, kept = wind + force / 0.3, np.exp(-0.3 / 2.0 * run.t[1])
        q, v = q + final * run.t[1] + (v - final) * (1 - kept) * 2.0 / 0.3, final + (v - final) * kept
        np.testing.assert_allclose((run.q[k + 1], run.v[k + 1]), (q, v), rtol=1e-7, atol=1e-9)


def test_a_reference_may_come_last() -> None:
    """Wrappers go around a law that has no reference yet, too."""
    law = control.energy_law(MODEL, PROTOTYPE, integral=control.Integral("cart", 2.0))
    for reference in ([0.5], moving()):
        inside = stacked(("windy", "delayed", "noisy"), law.with_reference(reference))
        outside = stacked(("windy", "delayed", "noisy"), law)
        assert outside.needs_reference
        assert not inside.needs_reference
        runs = [
            simulate(WINDY, START, 0.4, PERIOD, control=c, balance=False)
            for c in (inside, outside.with_reference(reference))
        ]
        runs.append(simulate(WINDY, START, 0.4, PERIOD, control=outside, reference=reference, balance=False))
        for run in runs[1:]:
            np.testing.assert_allclose(run.q, runs[0].q, rtol=1e-12, atol=1e-14)
    with pytest.raises(ControlError, match="needs a reference"):
        simulate(WINDY, START, 0.4, PERIOD, control=outside)
    with pytest.raises(ControlError, match="has one already"):
        simulate(WINDY, START, 0.4, PERIOD, control=inside, reference=[0.1])


# --- noise ------------------------------------------------------------------------------------------------------------------


def test_noise_is_a_function_of_time() -> None:
    noisy = Noisy(LAWS["feedback"](), MODEL, 1.0, 1.0, seed=4).sampled(PERIOD)
    times = PERIOD * np.arange(50)
    all_at_once = noisy.signal(times)
    fresh = Noisy(LAWS["feedback"](), MODEL, 1.0, 1.0, seed=4).sampled(PERIOD)
    one_by_one = np.concatenate([fresh.signal(times[k : k + 1]) for k in range(50)])
    np.testing.assert_array_equal(one_by_one, all_at_once)
    np.testing.assert_array_equal(noisy.signal(times + 0.9 * PERIOD), all_at_once)
    assert len(np.unique(all_at_once)) == all_at_once.size
    with pytest.raises(ControlError, match=r"Noisy\(\.\.\., period="):
        simulate(MODEL, START, 0.1, 0.01, control=Noisy(LAWS["feedback"](), MODEL, 0.1), hold="continuous")
    with pytest.raises(ControlError, match="begins at t = 0"):
        noisy.signal(np.array([-1.0]))


@pytest.mark.thorough
def test_events_and_adaptive_steps_see_the_same_noise() -> None:
    """Locating an event repeats a step; another noise there would put the crossing elsewhere."""
    noisy = Noisy(ht.Feedback(lambda q, v: -30 * q - 4 * v, ("q", "v")), MODEL, 0.05, 0.3, seed=1, period=0.05)
    plain = simulate(MODEL, START, 1.0, 0.05, "rkmk4", control=noisy)
    seen = simulate(
        MODEL,
        START,
        1.0,
        0.05,
        "rkmk4",
        control=noisy,
        events=[ht.Event(lambda t, q, v: q[0], name="zero", terminal=False)],
    )
    np.testing.assert_array_equal(plain.q, seen.q)
    crossing = seen.events[0].time
    k = int(crossing / 0.05)
    v, u, h = plain.v[k, 0], plain.u[k, 0], crossing - plain.t[k]
    assert plain.q[k, 0] + v * h + 0.5 * (u / 2.0) * h * h == pytest.approx(0.0, abs=1e-9)
    adaptive = simulate(MODEL, START, 1.0, 0.05, "rkmk45", control=noisy)
    np.testing.assert_allclose(adaptive.q, plain.q, atol=1e-6)


def test_noise_of_each_member_of_a_batch() -> None:
    members = 40
    start = tuple(np.broadcast_to(x, (members, 1)) for x in START)
    shared, own = (
        simulate(
            MODEL, start, 0.4, PERIOD, control=Noisy(LAWS["feedback"](), MODEL, 0.1, 0.1, members=m), balance=False
        )
        for m in ((), members)
    )
    assert np.ptp(shared.q[-1]) == 0.0
    assert len(np.unique(own.q[-1])) == members
    # one number gives the start its batch axis, too
    alone = simulate(
        MODEL, START, 0.4, PERIOD, control=Noisy(LAWS["feedback"](), MODEL, 0.1, 0.1, members=members), balance=False
    )
    np.testing.assert_array_equal(alone.q, own.q)
    late = Delayed(Noisy(LAWS["energy"](), MODEL, 0.1, members=members), 1, START)
    assert late.sampled(PERIOD).signal(np.zeros(3)).shape == (3, members, 2)
    batch = Delayed(LAWS["integral"](), 2, start)
    assert batch.initial_state().shape == (members, 4 + 3)


def test_a_stack_travels_with_its_period() -> None:
    late = stacked(("windy", "delayed", "actuated", "noisy"), LAWS["integral"]())
    for controller in (late, late.sampled(PERIOD)):
        there = pickle.loads(pickle.dumps(controller))
        runs = [simulate(WINDY, START, 0.1, PERIOD, control=c, balance=False) for c in (controller, there)]
        np.testing.assert_array_equal(runs[0].q, runs[1].q)
    assert there.sampled(PERIOD) is there
    with pytest.raises(ControlError, match="has the sample time"):
        there.sampled(0.5)


# --- what makes no sense ----------------------------------------------------------------------------------------------------


def test_what_makes_no_sense_says_why() -> None:
    feedback = LAWS["feedback"]()
    with pytest.raises(SimulationError, match="method traced"):
        Noisy(lambda t: 0.0, MODEL)
    with pytest.raises(ControlError, match="needs a controller whose first output is 'u' of shape \\(1,\\)"):
        Delayed(ht.Feedback(lambda q: ht.vector(q[0], q[0]), ("q",)), 1, START).traced(MODEL)
    with pytest.raises(ControlError, match="the noise was made for"):
        Noisy(feedback, SimpleNamespace(nv=2, nq=2, name="other", coordinates=SimpleNamespace(nv=2)), 0.1).sampled(
            0.1
        ).traced(MODEL)
    with pytest.raises(ControlError, match="is not part of"):
        control.OnPart(feedback, SimpleNamespace(nq=5, nv=5, name="big")).traced(MODEL)
    with pytest.raises(ValueError, match="must have shape"):
        Delayed(feedback, 1, (np.zeros(2), np.zeros(1))).traced(MODEL)
    with pytest.raises(ControlError, match="Winds"):
        Windy(Windy(feedback, WIND), WIND).traced(WINDY)


def test_channels_of_the_same_name_are_kept_apart() -> None:
    twice = Actuated(Actuated(LAWS["feedback"](), Propellers(0.1), [0.0]), Propellers(0.2), [0.0])
    run = simulate(MODEL, START, 0.2, PERIOD, control=twice, balance=False)
    # the outer demand is what the inner actuator gives
    np.testing.assert_allclose(run.channels["demand"][:, 0], -2 * run.q[:, 0] - run.v[:, 0], atol=1e-12)
    np.testing.assert_allclose(run.channels["demand_2"][:, 0], run.channels["z"][:, 1], atol=1e-12)


class Proportional(control.FeedbackLaw):
    """A law of a user that is not cached."""

    kind = "proportional"

    def __init__(self, model: ht.Model, gain: float) -> None:
        self.model, self.gain = model, gain

    @property
    def traced_law(self) -> Traced:
        n = self.model.nv
        shapes = dict.fromkeys(("q", "v", "q_R", "v_R", "a_R"), (n,)) | {"p": (len(self.model.parameter_names),)}
        return trace(lambda q, v, q_R, v_R, a_R, p: {"u": -self.gain * (q - q_R) - v}, shapes, name="proportional")


def test_a_law_is_immutable() -> None:
    system = ht.System(gravity=(0, 0, 0), name="cart")
    system.body("cart", joint=ht.Prismatic("x"), inertia=ht.Inertia(1.0))
    system.input("motor", ht.JointForce("cart"))
    model = system.derive()
    law = Proportional(model, 4.0)

    def end(law: Proportional) -> float:
        return ht.simulate(model, ([1.0], [0.0]), 1.0, 0.01, control=law, reference=[0.0]).q[-1, 0]

    first = end(law)
    with pytest.raises(FrozenInstanceError, match="'gain'.*Proportional"):
        law.gain = 1.0
    assert end(law) == first != end(Proportional(model, 1.0))
