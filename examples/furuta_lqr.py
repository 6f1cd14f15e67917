"""The rotary pendulum: linearised upright, balanced by a linear quadratic regulator, for how large a push?"""

import numpy as np
from _example import figure, finish, folder, page
from scipy.linalg import solve_continuous_are

import heavytop as ht

out = folder(__doc__)

model = ht.library.furuta().derive()
q0, zero = np.zeros(2), np.zeros(2)  # the pendulum points up in the neutral configuration
linear = model.linearize(q0, zero, [0.0])
A, B = np.asarray(linear[0]), np.asarray(linear[1])
Q, R = np.diag([1.0, 5.0, 0.1, 0.1]), np.array([[20.0]])
gain = np.linalg.solve(R, B.T @ solve_continuous_are(A, B, Q, R))
print("open-loop poles  ", np.sort_complex(np.linalg.eigvals(A)).round(2))
print("closed-loop poles", np.sort_complex(np.linalg.eigvals(A - B @ gain)).round(2))

K = gain
law = ht.Feedback(lambda q, v: -(K[:, :2] @ q + K[:, 2:] @ v), ("q", "v"))
angles = np.radians(np.linspace(-60, 60, 25))
starts = np.stack([np.zeros(25), angles], axis=-1)
run = ht.simulate(model, (starts, np.zeros((25, 2))), until=3.0, step=1e-3, control=law, record_every=5)

fig, (left, right) = figure(ncols=2, figsize=(10, 4))
caught = np.abs(np.nan_to_num(run.q[-1, :, 1], nan=9.0)) < 0.05
left.plot(run.t, np.degrees(run.q[:, caught, 1]), color="#0072b2", lw=0.9)
left.set(
    xlabel="t in s", ylabel="pendulum in degrees", title=f"caught from {np.degrees(angles[caught]).max():.0f} degrees"
)
right.plot(run.t, run.u[:, caught, 0], color="#d55e00", lw=0.9)
right.set(xlabel="t in s", ylabel="torque in N m", title="input")
finish(fig, out / "furuta_lqr.png")
page(run, out / "furuta_lqr.html", index=18)
