"""A rattleback reverses its spin, a block rocks on its edges, a ball bounces: rigid contact with exact friction, and the energy that it takes."""

import numpy as np
from _example import figure, finish, folder, page

import heavytop as ht
from heavytop.geometry import so3

out = folder(__doc__)

model = ht.library.rattleback().derive()
tilt = np.asarray(so3.rotation_about("x", np.deg2rad(0.5)))
q = model.neutral()
q[3:12] = tilt.T.reshape(9)
q = ht.library.resting_on_ground(model, q)
spin = tilt.T @ np.array([0.0, 0.0, -5.0])
v = np.concatenate([-np.cross(spin, [0.0, 0.0, -q[2]]), spin])  # the lowest point is at rest
run = ht.simulate(model, (q, v), until=12.0, step=5e-4, integrator="moreau", record_every=20)
run.report()
R = run.q[:, 3:12].reshape(-1, 3, 3)
about_z = np.einsum("nji,nj->ni", R, run.v[:, 3:])[:, 2]
print(f"spin {about_z[0]:.1f} rad/s at the start, {about_z.max():.2f} rad/s after the reversal")

fig, (left, right) = figure(ncols=2, figsize=(10, 4))
left.plot(run.t, about_z)
left.set(xlabel="t in s", ylabel="spin in rad/s", title="Rattleback")

ball = ht.library.bouncing_ball().derive()
q, v = ball.neutral(), np.zeros(6)
q[2], v[0], v[4] = 1.0, 0.5, -40.0
for restitution in (0.9, 0.8, 0.6):
    bounce = ht.simulate(ball, (q, v), 4.0, 1e-3, "moreau", parameters={"restitution": restitution}, record_every=4)
    right.plot(bounce["ball.x"], bounce["ball.z"], label=f"e = {restitution}")
right.set(xlabel="x in m", ylabel="z in m", title="A ball with backspin")
right.legend()
finish(fig, out / "rattleback.png")
page(run, out / "rattleback.html")
page(bounce, out / "bouncing_ball.html")
