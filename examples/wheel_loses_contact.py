"""A wheel rolls over a hump, takes off where it is too fast for its curvature, lands and rolls on: rigid contact with a height function."""

import numpy as np
from _example import figure, finish, folder, page

import heavytop as ht
from heavytop.geometry import se3, so3

out = folder(__doc__)
G, R, MASS, HUMP, WIDTH = 9.81, 0.3, 8.0, 0.25, 0.8

system = ht.System(name="wheel")
system.body(
    "wheel",
    at=se3.pose(so3.rotation_about("x", np.pi / 2), np.zeros(3)),
    joint=ht.Planar(),
    inertia=ht.Inertia(MASS, moment_at_com=MASS * R**2 * np.array([0.4, 0.4, 0.8])),
)
system.shape("wheel", ht.Cylinder(R, 0.06), color="#0072b2")
system.shape("wheel", ht.Box((1.7 * R, 0.04, 0.07)), color="#f0e442")


def hump(x, y):
    return HUMP * np.exp(-((x / WIDTH) ** 2))


system.ground(height=hump, friction=0.9)
along = np.linspace(-2.0, 2.0, 41)
ridge = [(x, y, hump(x, y)) for x in along for y in (-0.5, 0.5)]
faces = [(k + a, k + b, k + c) for k in range(0, 80, 2) for a, b, c in ((0, 2, 1), (1, 2, 3))]
system.shape("world", ht.Triangles(ridge, faces), color="#c8b98f")  # for the picture only
system.contact("wheel", "ground", ht.Sphere(R))
model = system.derive()


def roll(speed: float) -> ht.Run:
    """From 4 m in front of the hump."""
    return ht.simulate(model, ([-4.0, R, 0.0], [speed, 0.0, -speed / R]), 8.0 / speed, 5e-4, "moreau", record_every=4)


fig, (path, force) = figure(nrows=2, figsize=(9, 6), sharex=True)
x = np.linspace(-4.0, 4.0, 400)
path.fill_between(x, hump(x, 0.0), -0.05, color="#dddddd")
for speed in (3.0, 4.5, 6.0):
    run = roll(speed)
    wheel = run.contacts["wheel"]
    label = f"{speed:g} m/s"
    path.plot(run.q[:, 0], run.q[:, 1] - R, label=label)
    force.plot(run.q[:, 0], np.linalg.norm(wheel.force, axis=1), lw=0.8, label=label)
    for left in wheel.liftoffs:
        landed = wheel.touchdowns[wheel.touchdowns > left]
        print(f"{label}: takes off after {left:.3f} s" + (f", lands after {landed[0]:.3f} s" if landed.size else ""))
path.set(ylabel="height of the rim in m", title="A wheel on a hump")
force.set(xlabel="x in m", ylabel="contact force in N", ylim=(0, 250))
path.legend()
finish(fig, out / "wheel_loses_contact.png")
page(run, out / "wheel_loses_contact.html")
