"""The modified Chaplygin sleigh: track of the runner, side force, and the rotary pendulum."""

import numpy as np
from common import BLUE, GREY, RED, plt, save, trajectory
from heavytop_mechanics.moving_frame_examples import ChaplyginSleigh, RotaryPendulum

sleigh = ChaplyginSleigh()
motion = sleigh.derive()
t = np.linspace(0, 25, 1500)
run = trajectory(motion.state_rate, np.array([0, 0, 0, 1.0, 0, 0, 0.5]), t)
runner = run[:, :2] - sleigh.b * np.stack([np.cos(run[:, 2]), np.sin(run[:, 2])], axis=-1)
ideal = motion(run[:, :4], run[:, 4:]).ideal
side = -np.sin(run[:, 2]) * (ideal[:, 0] + ideal[:, 3]) + np.cos(run[:, 2]) * (ideal[:, 1] + ideal[:, 4])

figure, axes = plt.subplots(1, 3, figsize=(10.5, 3.2))
axes[0].plot(*runner.T, color=BLUE, lw=1)
axes[0].plot(*runner[0], "o", color="k", ms=4)
axes[0].set(aspect="equal", title="track of the runner", xlabel="x in m", ylabel="y in m")
axes[1].plot(t, side, color=RED, lw=1)
axes[1].set(title="side force on the runner in N", xlabel="time in s")
pendulum = RotaryPendulum()
t = np.linspace(0, 6, 900)
swing = trajectory(pendulum.derive().state_rate, np.array([0.0, 0.1, 0.0, 0.0]), t)
axes[2].plot(t, swing[:, 0], color=GREY, label=r"arm $\theta$")
axes[2].plot(t, swing[:, 1], color=BLUE, label=r"pendulum $\alpha$")
axes[2].axhline(np.pi, color="k", lw=0.6, ls=":")
axes[2].set(title="rotary pendulum falling from upright", xlabel="time in s", ylabel="rad")
axes[2].legend(fontsize=8)
figure.tight_layout()
save(figure, "moving_frame")
