"""Small studies for the tests, and programs that run them in their own processes."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import heavytop as ht

POINTS = {"theta_1.angle": np.linspace(-2, 2, 6), "g": np.array([1.6, 3.7, 9.81]), "theta_2.angle": ht.normal(0.0, 1.0)}
DRAWS = 8


def pendulums(chunk: int | None = 16, **more: Any) -> ht.sweep.Study:
    """6 x 3 x 8 double pendulums."""
    model = ht.library.load("double-pendulum").derive()
    return ht.sweep.make_study(model, POINTS, DRAWS, seed=3, until=0.5, step=0.01, chunk=chunk, **more)


def slow_square(x: float, y: float, pause: float = 0.0) -> dict[str, float]:
    """A function of one point that takes its time."""
    time.sleep(float(os.environ.get("SWEEP_PAUSE", "0")))
    if x == 3 and os.environ.get("SWEEP_HANG") and not Path(os.environ["SWEEP_HANG"]).exists():
        Path(os.environ["SWEEP_HANG"]).touch()
        time.sleep(1000)
    return {"square": x * x + y}


def squares(count: int = 60, chunk: int = 4) -> ht.sweep.Study:
    """A quick study of many chunks."""
    return ht.sweep.make_study(slow_square, {"x": np.arange(count), "y": ht.normal()}, 2, seed=1, chunk=chunk)


def main() -> None:
    """Arguments STUDY STORE CLIENT: run one, as a program of a user would; with the client "given" it starts its own workers."""
    name, store, client = sys.argv[1:4]
    makers = {"pendulums": pendulums, "squares": squares, "many": lambda: squares(160, 2)}
    study = makers[name]()
    timeout = float(os.environ.get("SWEEP_TIMEOUT", "60"))
    if client != "given":
        ht.sweep.run_study(study, store, client, workers=2, progress=False, timeout=timeout, retries=99)
        return
    from distributed import Client, LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as made:
        print("workers", *made.run(os.getpid).values(), flush=True)
        ht.sweep.run_study(study, store, made, progress=False, timeout=timeout, retries=99)


if __name__ == "__main__":
    main()
