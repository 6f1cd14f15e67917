"""Gains by the gradient through the closed loop: a crane with delayed measurements, a slow motor and loads of unknown mass."""

import numpy as np
from _example import figure, finish, folder, page

import heavytop as ht

out = folder(__doc__)

system = ht.System(name="crane")
mass = system.parameter("mass", 2.0)
system.body("trolley", joint=ht.Prismatic("x"), inertia=ht.Inertia(5.0))
system.body("load", parent="trolley", joint=ht.Revolute("y"), inertia=ht.Inertia(mass, com=(0, 0, -1.5)))
system.input("push", ht.JointForce("trolley"))
model = system.derive()

TARGET = 2.0  # m


def law(q, v, gains):
    """The trolley to its target, with damping of the swing; at most 30 N."""
    u = gains["position"] * (TARGET - q[0]) - gains["speed"] * v[0] + gains["angle"] * q[1] + gains["swing"] * v[1]
    return np.clip(np.reshape(u, (1,)), -30.0, 30.0)


feedback = ht.Feedback(
    law, ("q", "v", "gains"), gains={"position": 2.0, "speed": 4.0, "angle": 0.0, "swing": 0.0}
)  # fmt: skip
late = ht.control.Delayed(feedback, samples=3, start=(np.zeros(2), np.zeros(2)))  # 60 ms
slow = ht.control.Actuated(late, ht.control.Propellers(0.1), start=np.zeros(1))  # a lag of 0.1 s

loss = ht.Loss(
    end=lambda t, q, v: 5 * (q[0] - TARGET) ** 2 + 5 * v[0] ** 2 + 5 * q[1] ** 2 + 5 * v[1] ** 2,
    running=lambda t, q, v, u: 0.1 * (q[0] - TARGET) ** 2 + 2 * q[1] ** 2,
)
masses = np.linspace(0.5, 6.0, 12)
starts = np.zeros((12, 2)), np.zeros(2)
options = {"until": 8.0, "step": 0.01, "control_step": 0.02}
tuned = ht.tune(slow, loss, model, over=starts, parameters={"mass": masses}, worst=1.0, **options)
print(f"loss {tuned.start:.3f} -> {tuned.value:.3f} in {tuned.runs} gradients of 12 motions each: {tuned.message}")
print({name: float(value.round(3)) for name, value in tuned.gains.items()})

before = ht.simulate(model, starts, parameters={"mass": masses}, control=slow, **options)
after = ht.simulate(model, starts, parameters={"mass": masses}, control=slow, gains=tuned.gains, **options)
fig, axes = figure(nrows=2, sharex=True, figsize=(6.5, 5))
for run, color, label in ((before, "#d55e00", "first guess"), (after, "#0072b2", "tuned")):
    axes[0].plot(run.t, run["trolley.x"], color=color, lw=0.8, label=[label, *[""] * 11])
    axes[1].plot(run.t, np.degrees(run["load.angle"]), color=color, lw=0.8)
axes[0].set(ylabel="trolley, m", title="A crane with loads of 0.5 to 6 kg, 60 ms delay and a lag of 0.1 s")
axes[1].set(xlabel="time, s", ylabel="swing, degrees")
axes[0].legend(loc="lower right")
finish(fig, out / "tune_crane.png")
page(after, out / "tune_crane.html", index=6)
