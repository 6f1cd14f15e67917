"""A car on a slalom: rolling constraints by minimal velocities, and a prototype with specified poles at speed."""

import numpy as np
from _example import figure, finish, folder, page

import heavytop as ht
from heavytop import control

out = folder(__doc__)
SPEED, LENGTH, WIDTH, RATE = 10.0, 2.5, 2.0, 1.2

system = ht.library.car(wheelbase=LENGTH)  # velocities: speed of the rear axle, steering rate
system.input("drive", ht.Wrench("chassis", force=(1, 0, 0)))
model = system.derive()


def slalom(t):
    """The rear axle moves along y = WIDTH sin(RATE t); heading and steering angle follow from its derivatives."""
    across, bend = WIDTH * RATE * np.cos(RATE * t), -WIDTH * RATE**2 * np.sin(RATE * t)
    curvature = SPEED * bend / (SPEED**2 + across**2) ** 1.5
    return ht.vector(SPEED * t, WIDTH * np.sin(RATE * t), np.arctan2(across, SPEED), np.arctan(LENGTH * curvature))


reference = control.Reference.from_function(model, slalom)

# At 10 m/s steering moves a point ahead sideways: the poles are specified for straight driving, the lateral ones near -3 1/s. The prototype
# that is found ties the steering to the sideways error by springs ahead of the axles, as one above the centre of mass tilts a quadcopter.
straight = np.zeros(4), np.array([SPEED, 0.0])
prototype = control.Prototype.for_model(model, *straight, poles=[-1, -1.5, -2.5, -3 + 1j, -3 - 1j, -3.5])
print(prototype.design.report())
law = control.particle_law(model, prototype, limits=([-400, -8000], [400, 8000]), at=straight)

rng = np.random.default_rng(0)
q0, v0, _ = reference(0.0)
q = q0 + rng.uniform(-1, 1, (20, 4)) * np.array([3.0, 3.0, 0.4, 0.2])
v = v0 + rng.uniform(-1, 1, (20, 2)) * np.array([3.0, 0.2])
run = ht.simulate(model, (q, v), until=10.0, step=5e-3, control=law, reference=reference, record_every=4)
error = np.linalg.norm(run.q[..., :2] - reference(run.t)[0][:, None, :2], axis=-1)
print(f"largest distance after 10 s, of 20 disturbed starts: {error[-1].max():.1e} m")

fig, (left, right) = figure(nrows=2, figsize=(9, 6))
left.plot(run.q[..., 0], run.q[..., 1], color="#0072b2", lw=0.6, alpha=0.7)
left.plot(*reference(run.t)[0][:, :2].T, color="black", lw=1.4, ls="--", label="reference")
left.set(xlabel="x in m", ylabel="y in m", title="rear axle from 20 starts")
left.legend()
right.semilogy(run.t, error, color="#d55e00", lw=0.7)
right.set(xlabel="t in s", ylabel="distance in m")
finish(fig, out / "car_slalom.png")
page(run, out / "car_slalom.html", index=3)
