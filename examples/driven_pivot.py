"""An inverted pendulum is stable if its pivot vibrates fast enough (Kapitza); the driver supplies the energy."""

import numpy as np
from _example import figure, finish, folder, page

import heavytop as ht

out = folder(__doc__)
length, height, damping = 0.5, 0.05, 0.02
hardly = np.sqrt(2 * 9.81 * length) / height  # frequency above which the upper rest is stable


def pendulum(frequency: float) -> ht.Model:
    """A point mass whose pivot moves up and down."""
    system = ht.System(name="shaken pendulum")
    pivot = (0.0, 0.0, height * np.cos(frequency * system.time))
    system.body("bob", at=pivot, joint=ht.Revolute("y"), inertia=ht.Inertia(0.3, com=(0, 0, -length)))
    system.joint_damper("bob", damping=damping)
    return system.derive()


print(f"the upper rest is stable above {hardly / 2 / np.pi:.1f} Hz")
print(pendulum(2 * hardly).equations().text())
fig, (top, bottom) = figure(nrows=2, figsize=(8, 6), sharex=True)
for factor, color in ((0.8, "#d55e00"), (2.0, "#0072b2")):
    model = pendulum(factor * hardly)
    run = ht.simulate(model, ([np.pi - 0.4], [0.0]), until=6.0, step=2e-4, record_every=5)
    label = f"{factor * hardly / 2 / np.pi:.0f} Hz"
    top.plot(run.t, np.degrees(run.q[:, 0]), color=color, lw=1.0, label=label)
    period = round(2 * np.pi / (factor * hardly) / (run.t[1] - run.t[0]))
    mean = np.convolve(run.work[:, 2], np.ones(period) / period, mode="valid")
    bottom.plot(run.t[period // 2 :][: len(mean)], mean, color=color, lw=1.0, label=f"driver (mean), {label}")
    bottom.plot(run.t, run.work[:, 1], color=color, lw=1.5, ls="--", label=f"damper, {label}")
    print(f"{label}: the energy balance closes to {run.invariants['energy'].relative:.1e}")
run.report()
top.axhline(180, color="k", ls=":", lw=1)
top.set(ylabel="angle in degrees (180: on its head)", title="A pendulum with a shaken pivot")
top.legend(loc="lower left")
bottom.set(xlabel="time in s", ylabel="work in J", ylim=(-1, 5))
bottom.legend(loc="upper left", ncols=2)
finish(fig, out / "driven_pivot.png")
page(run, out / "driven_pivot.html")
