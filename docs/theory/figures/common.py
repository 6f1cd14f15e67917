"""Common parts of the figures of the theory pages: style, integration, saving."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from heavytop_mechanics.functions import Evaluator
from PIL import Image
from scipy.integrate import solve_ivp

IMAGES = Path(__file__).parents[2] / "images" / "theory"
BLUE, RED, GREEN, GREY, GOLD = "#1f5fa8", "#c0392b", "#2e8b57", "#8a8f98", "#d9a400"

plt.rcParams.update(
    {
        "figure.dpi": 110,
        "font.size": 10,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.alpha": 0.25,
        "lines.linewidth": 1.8,
        "legend.frameon": False,
    }
)


def save(figure: plt.Figure, name: str) -> None:
    """Write the figure to the folder of the pages."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    drawn = BytesIO()
    figure.savefig(drawn, bbox_inches="tight")
    plt.close(figure)
    Image.open(drawn).convert("RGB").quantize(96).save(IMAGES / f"{name}.png", optimize=True)  # a third of the size


def trajectory(rate: Callable, start: np.ndarray, t: np.ndarray) -> np.ndarray:
    """States (m, n) of ``z' = rate(z, t)``, which is traced once."""
    start = np.asarray(start, dtype=float)
    function = Evaluator(rate, {"z": (len(start),), "t": ()}, "rate").traced.function
    solution = solve_ivp(
        lambda time, z: function(z, time).full()[:, 0], (t[0], t[-1]), start, "DOP853", t, rtol=1e-10, atol=1e-11
    )
    return solution.y.T
