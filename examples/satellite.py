"""A satellite rotates by its reaction wheels: specified poles at rest, a reference with zero momentum, and the conserved total momentum."""

import numpy as np
from _example import figure, finish, folder, page

import heavytop as ht
from heavytop import control
from heavytop.geometry import so3

out = folder(__doc__)
HULL, WHEEL = np.array([2.0, 2.5, 3.0]), 0.01
AXIS = np.array([1.0, 2.0, -1.0]) / np.sqrt(6.0)

system = ht.System(gravity=(0, 0, 0), name="satellite")
system.body("hull", joint=ht.Spherical(), inertia=ht.Inertia(20.0, moment_at_com=HULL))
for k, axis in enumerate("xyz"):
    moment = np.full(3, 0.006)
    moment[k] = WHEEL
    system.body(f"wheel_{axis}", parent="hull", joint=ht.Revolute(axis), inertia=ht.Inertia(1.0, moment_at_com=moment))
    system.input(axis, ht.JointForce(f"wheel_{axis}"))
model = system.derive()

wanted = [p for frequency in (0.5, 0.6, 0.7) for p in control.poles_of(frequency, 0.8)]
prototype = control.Prototype.for_model(model, poles=wanted, bodies=["hull"])
print(prototype.design.report())
law = control.energy_law(model, prototype, limits=(-0.2, 0.2))

# Two and a half radians about an oblique axis in 40 s. Without momentum the wheels turn by -(moment of all) x (angle of the hull) / WHEEL.
whole = HULL + 2 * 0.006 + WHEEL


def turn(t):
    angle = 2.5 * control.smoothstep(t / 40.0)
    wheels = -whole * AXIS / WHEEL * angle
    return np.concatenate([so3.exp(angle * AXIS).T.reshape(9), wheels])


reference = control.Reference.from_function(model, turn, duration=40.0)
rng = np.random.default_rng(0)
tilts = so3.exp(rng.uniform(-0.6, 0.6, (12, 3)))
q = np.concatenate([np.swapaxes(tilts, 1, 2).reshape(12, 9), np.zeros((12, 3))], axis=1)
run = ht.simulate(
    model, (q, np.zeros((12, 6))), until=50.0, step=0.02, control=law, reference=reference, record_every=10
)
R, R_R = (x[..., :9].reshape(*x.shape[:-1], 3, 3).swapaxes(-1, -2) for x in (run.q, reference(run.t)[0]))
error = np.degrees(so3.angle(np.swapaxes(R, -1, -2) @ R_R[:, None]))
print(f"largest angle after 50 s, of 12 starts: {error[-1].max():.1e} degrees")

fig, (left, right) = figure(ncols=2, figsize=(10, 4))
left.semilogy(run.t, error, color="#0072b2", lw=0.8)
left.set(xlabel="t in s", ylabel="angle to the reference in degrees", title="12 starts, torques within 0.2 N m")
right.plot(run.t, run.v[:, 0, 3:] * 60 / (2 * np.pi), lw=1, label=["wheel x", "wheel y", "wheel z"])
right.set(xlabel="t in s", ylabel="speed in rpm", title="wheels of one of them")
right.legend()
finish(fig, out / "satellite.png")
page(run, out / "satellite.html")
