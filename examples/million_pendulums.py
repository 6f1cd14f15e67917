"""A million double pendulums, released from rest: the time at which a rod first turns over is a fractal.

python examples/million_pendulums.py --out DIR [--size 1000] [--workers 8]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import heavytop as ht


def over_the_top(t, q, v):
    """Crosses zero when one of the angles passes half a turn."""
    return (np.pi**2 - q[0] ** 2) * (np.pi**2 - (q[0] + q[1]) ** 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path.cwd())
    parser.add_argument("--size", type=int, default=48, help="pendulums along each side; 1000 for a million")
    parser.add_argument("--workers", type=int, default=None)
    given = parser.parse_args()
    angles = np.linspace(-3.1, 3.1, given.size)

    def start(angle_1: np.ndarray, angle_2: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.stack([angle_1, angle_2 - angle_1], axis=-1), np.zeros(2)

    result = ht.sweep(
        ht.library.load("double-pendulum").derive(),
        over={"angle_1": angles, "angle_2": angles},
        start=start,
        measure=["theta_1.angle"],
        events=ht.Event(over_the_top, name="over the top", tolerance=1e-4),
        until=10.0,
        step=0.01,
        store=given.out / f"pendulums-{given.size}.zarr",
        client="local" if given.workers else None,
        workers=given.workers,
    )
    print(result.outcomes())
    draw(angles, np.where(result.outcome == 1, result.end_time, np.nan), given.out / "million_pendulums.png")


def draw(angles: np.ndarray, time: np.ndarray, path: Path) -> None:
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(7, 6), layout="constrained")
    image = axis.pcolormesh(angles, angles, np.log10(time).T, cmap="twilight_shifted", shading="nearest")
    axis.set(xlabel="angle of the upper rod / rad", ylabel="angle of the lower rod / rad", aspect="equal")
    axis.set_title("When a rod first turns over")
    figure.colorbar(image, ax=axis, label="log10 of the time / s; white: not within 10 s")
    figure.savefig(path, dpi=130)


if __name__ == "__main__":
    main()
