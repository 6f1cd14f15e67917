"""Gain of a rod in a rough slot, and where its motion ends."""

import numpy as np
from common import BLUE, GOLD, GREEN, RED, plt, save

figure, axes = plt.subplots(figsize=(7, 3))
angle = np.linspace(0, np.pi / 2, 300)
shape = 3 * np.sin(angle) * np.cos(angle) / (1 + 3 * np.cos(angle) ** 2)
for mu, color in ((0.5, BLUE), (1.0, GREEN), (4 / 3, GOLD), (2.0, RED)):
    axes.plot(np.degrees(angle), mu * shape, color=color, label=f"$\\mu$ = {mu:.3g}")
axes.axhline(1.0, color="k", ls=":", lw=1)
axes.fill_between([0, 90], 1.0, 1.6, color=RED, alpha=0.08)
axes.text(4, 1.25, "no acceleration or several")
axes.set(xlabel="angle of the rod in degrees", ylabel="gain", ylim=(0, 1.6))
axes.legend(fontsize=8, loc="upper right")
save(figure, "reaction_friction")
