"""A quadcopter flies a loop on the estimates of its filter: a noisy IMU with biases at 200 Hz, poses at 29 Hz that are 20 ms late."""

import numpy as np
from _example import figure, finish, folder

import heavytop as ht
from heavytop import control, copters
from heavytop.control import AccelerometerSensor, GyroSensor, Instrumented, PoseSensor
from heavytop.geometry import so3

out = folder(__doc__)
H, COUNT = 0.005, 20

quad = copters.quadcopter()
model = quad.model
sensors = (
    GyroSensor("hull", noise=0.02, bias=0.03, walk=1e-3),
    AccelerometerSensor("hull", noise=0.2, bias=0.1, walk=1e-2),
    PoseSensor("hull", noise=(0.005,) * 3 + (0.01,) * 3, period=7 * H, delay=4 * H),
)
own = ht.estimator(model, sensors, H, inputs="imu")
print(own.observability())

loop = control.flat_reference(model, control.looping(radius=1.5, duration=3.6), side=(0, 1, 0), duration=6.0)
q, v, _ = loop(0.0)
flown = own.observer(quad.law().with_reference(loop), own.begin(q, v, 0.02, 0.05))
controller = Instrumented(flown, model, sensors, members=COUNT)  # 20 flights with different noise and biases
start = np.tile(q, (COUNT, 1)), np.tile(v, (COUNT, 1))
run = ht.simulate(model, start, 6.0, H, control=controller, balance=False)

t = run.t[:-1]
estimated = run.channels["q_estimated"][:-1]
place = np.linalg.norm(estimated[..., :3] - run.q[:-1, :, :3], axis=-1)
R, R_hat = (np.swapaxes(x[..., 3:].reshape(*x.shape[:-1], 3, 3), -1, -2) for x in (run.q[:-1], estimated))
turn = np.degrees(so3.angle(np.swapaxes(R_hat, -1, -2) @ R))
off = np.linalg.norm(run.q[:-1, :, :3] - loop(t)[0][:, None, :3], axis=-1)
tilt = np.degrees(np.arccos(np.clip(R[..., 2, 2], -1, 1)))
print(f"largest tilt {tilt.max():.0f} degrees: upside down")
print(f"estimate: {1e3 * np.sqrt(np.mean(place**2)):.1f} mm and {np.sqrt(np.mean(turn**2)):.2f} degrees RMS")
print(f"flight: {1e2 * np.sqrt(np.mean(off**2)):.1f} cm RMS from the loop, at most {1e2 * off.max():.1f} cm")

fig, axes = figure(nrows=2, ncols=2, figsize=(10, 6.4))
loop_path = loop(t)[0]
ax = axes[0, 0]
ax.plot(loop_path[:, 0], loop_path[:, 2], color="black", lw=0.8, ls="--", label="reference")
ax.plot(run.q[:, 0, 0], run.q[:, 0, 2], color="#0072b2", label="flown")
ax.plot(estimated[::7, 0, 0], estimated[::7, 0, 2], ".", color="#d55e00", ms=3, label="estimated")
ax.set(xlabel="x in m", ylabel="z in m", aspect="equal", title="one of the flights")
ax.legend(frameon=False, fontsize=8)
axes[0, 1].plot(t, tilt[:, 0], color="#0072b2")
axes[0, 1].set(xlabel="t in s", ylabel="tilt in degrees", title="through the upside-down attitude")
axes[1, 0].plot(t, 1e3 * place, color="#0072b2", lw=0.4)
axes[1, 0].set(xlabel="t in s", ylabel="error of position in mm", title=f"estimates of {COUNT} flights")
axes[1, 1].plot(t, turn, color="#d55e00", lw=0.4)
axes[1, 1].set(xlabel="t in s", ylabel="error of attitude in degrees", title="biases are found within two seconds")
finish(fig, out / "estimate_quadcopter.png")
