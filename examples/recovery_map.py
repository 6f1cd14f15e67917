"""Delay and lag tolerance of a quadcopter: a map of the share of successful loopings for two laws, with an interactive page.

python examples/recovery_map.py --out DIR [--size 12] [--draws 40] [--workers 8]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import heavytop as ht
from heavytop.copters import quadcopter


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path.cwd())
    parser.add_argument("--size", type=int, default=4, help="delays and lags; 12 for the picture of the documentation")
    parser.add_argument("--draws", type=int, default=40)
    parser.add_argument("--workers", type=int, default=None)
    given = parser.parse_args()
    result = ht.sweep(
        quadcopter(),
        over={
            "law": ["energy", "particle"],
            "delay": 0.01 * np.round(np.linspace(0, 8, given.size)),
            "lag": np.linspace(0.02, 0.16, given.size),
            "tilt": ht.uniform(0.0, 1.5),
            "heading": ht.uniform(0.0, 2 * np.pi),
        },
        draws=given.draws,
        maneuver="looping",
        step=0.01,
        store=given.out / "recovery.zarr",
        client="local" if given.workers else None,
        workers=given.workers,
    )
    share = result.share("recovered").share
    print(share.mean("lag").to_series().unstack().round(2))
    draw(share, given.out / "recovery_map.png")
    result.show(given.out / "recovery_map.html")


def draw(share, path: Path) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.8), sharey=True, layout="constrained")
    for axis, law in zip(axes, share.law.values, strict=True):
        chosen = share.sel(law=law)
        image = axis.pcolormesh(1e3 * share.lag, 1e3 * share.delay, chosen, vmin=0, vmax=1, shading="nearest")
        axis.set(title=f"{law} law", xlabel="time constant of the propellers / ms", ylabel="delay of measurements / ms")
    figure.colorbar(image, ax=axes, label="share that ends the looping on its path")
    figure.savefig(path, dpi=130)


if __name__ == "__main__":
    main()
