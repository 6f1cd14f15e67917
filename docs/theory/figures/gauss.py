"""The true acceleration is the admissible one closest to the free one, in the norm of the masses."""

import numpy as np
from common import BLUE, GREY, RED, plt, save
from heavytop_mechanics import gauss

mass = np.array([[1.0, 0.5], [0.5, 2.0]])
free, line, right_side = np.array([3.0, 2.5]), np.array([[1.0, 0.6]]), np.array([1.0])
best = gauss.quadratic_program(mass, free, line, right_side)
euclidean = gauss.quadratic_program(np.eye(2), free, line, right_side)
x, y = np.meshgrid(np.linspace(-2.5, 5, 150), np.linspace(-1.5, 4, 120))
value = gauss.gaussian_constraint(mass, np.stack([x, y], axis=-1), free)

figure, axis = plt.subplots(figsize=(6.5, 4))
least = float(gauss.gaussian_constraint(mass, best, free))
axis.contour(x, y, value, levels=least * np.array([0.1, 0.35, 0.7, 1.0, 1.5, 2.2]), colors=GREY, linewidths=0.8)
span = np.array([-2.5, 3.4])
axis.plot(span, (1.0 - span) / 0.6, color=BLUE, label="allowed accelerations $C a = d$")
axis.plot(*free, "o", color="k", label="free acceleration")
axis.plot(*best, "o", color=RED, label="motion: least $G$")
axis.plot(*euclidean, "x", color=GREY, label="nearest for the eye")
axis.annotate("", best, free, arrowprops={"arrowstyle": "->", "color": RED})
axis.set(
    xlim=(-2.5, 5),
    ylim=(-1.5, 4),
    xlabel="$a_1$",
    ylabel="$a_2$",
    aspect="equal",
    title="level sets of $G$ are ellipses of the mass matrix",
)
axis.legend(fontsize=8, loc="lower right")
save(figure, "gauss")
