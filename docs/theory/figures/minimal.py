"""Euler angles at 90 degrees of pitch: the mass matrix loses rank and the rates diverge, while the motion is regular."""

import numpy as np
from common import BLUE, GREEN, RED, plt, save, trajectory
from heavytop_mechanics import minimal

from heavytop.coordinates import Rotation
from heavytop.geometry import so3

THETA = np.array([1.0, 1.6, 2.2])
body = minimal.euler_angle_body(THETA)
pitch = np.linspace(-0.4995 * np.pi, 0.4995 * np.pi, 401)
condition = np.linalg.cond(body.mass_matrix(np.stack([0.3 + 0 * pitch, pitch, 0 * pitch], axis=-1)))

t = np.linspace(0, 2.2, 500)
start = np.concatenate(
    [Rotation().from_rotation_matrix(so3.from_roll_pitch_yaw(np.array([0.2, 0.4, 0.0]))), [0.12, 1.0, -0.02]]
)
run = trajectory(
    lambda z, t: np.concatenate([Rotation().rate(z[:9], z[9:]), minimal.euler_rotation(THETA, z[9:])]), start, t
)
angles = so3.to_roll_pitch_yaw(Rotation().rotation_matrix(run[:, :9]))
rates = np.linalg.solve(so3.roll_pitch_yaw_rates(angles), run[:, 9:, None])[..., 0]

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2))
left.semilogy(np.degrees(pitch), condition, color=RED, label="Euler angles, $M(q)$")
left.axhline(THETA.max() / THETA.min(), color=BLUE, label=r"body velocities, $\Theta$")
left.set(xlabel="pitch in degrees", ylabel="condition number", title="The mass matrix")
left.legend()
right.plot(t, rates[:, 0], color=RED, label="roll rate")
right.plot(t, rates[:, 2], color=RED, ls="--", label="yaw rate")
for i, name in enumerate("xyz"):
    right.plot(t, run[:, 9 + i], color=(BLUE, GREEN, "k")[i], lw=1, label=rf"$\omega_{name}$")
right.set(xlabel="time in s", ylabel="rad/s", title=f"One motion; largest pitch {np.degrees(angles[:, 1].max()):.1f}°")
right.legend(ncols=2, fontsize=8)
save(figure, "minimal")
