"""Work-precision diagrams of the integrators on three systems; writes docs/images/work_precision.png and prints JSON.

    python benchmarks/work_precision.py [--json FILE]

The reference solutions are those of tests/golden (documents 002 and the thesis). Processor time of one trajectory on one
core, without compilation.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from heavytop_bench.precision import PrecisionPoint, work_precision

import heavytop as ht
from heavytop.show.plots import COLORS

ROOT = Path(__file__).parents[1]
GOLDEN = ROOT / "tests" / "golden"
ORDER = ("rkmk4", "rkmk6", "rkmk8", "rkmk45", "projected_rk4", "energy_momentum", "variational")
TITLES = {
    "free body": "free body near its unstable axis, 1 s",
    "heavy top": "heavy top, 1 s",
    "tricopter": "tricopter with load, 0.4 s",
}


def golden(name: str) -> dict[str, Any]:
    return json.loads((GOLDEN / f"{name}.json").read_text())


def halved(first: float, count: int) -> list[float]:
    return [first / 2**k for k in range(count)]


def free_body() -> list[PrecisionPoint]:
    data = golden("a_unstable_rotation")
    system = ht.System(gravity=(0, 0, 0), name="free body")
    inertia = ht.Inertia(1.0, moment_at_com=data["parameters"]["J"])
    system.body("body", joint=ht.Spherical("quaternion"), inertia=inertia)
    model = system.derive()
    end = ht.coordinates.Quaternion().from_rotation_matrix(np.array(data["R"][-1])), np.array(data["Omega"][-1])
    start = model.neutral(), np.array(data["parameters"]["Omega0"])
    steps = {
        "rkmk4": halved(1 / 160, 8),
        "rkmk6": halved(1 / 80, 7),
        "rkmk8": halved(1 / 40, 7),
        "projected_rk4": halved(1 / 160, 8),
        "energy_momentum": halved(1 / 640, 7),
        "variational": halved(1 / 640, 7),
    }
    return work_precision(model, start, 1.0, end, steps, tolerances=10.0 ** -np.arange(5, 13))


def heavy_top() -> list[PrecisionPoint]:
    data = golden("f_heavy_top")
    p = data["parameters"]
    system = ht.System(name="heavy top")
    system.body(
        "top", joint=ht.Spherical("quaternion"), inertia=ht.Inertia(p["m"], com=p["X"], moment_at_com=p["J_com"])
    )
    model = system.derive()
    at = data["t"].index(1.0)
    end = ht.coordinates.Quaternion().from_rotation_matrix(np.array(data["R"][at])), np.array(data["Omega"][at])
    start = model.neutral(), np.array(p["Omega0"])
    steps = {
        "rkmk4": halved(4e-3, 8),
        "rkmk6": halved(8e-3, 7),
        "rkmk8": halved(1e-2, 6),
        "projected_rk4": halved(4e-3, 8),
        "energy_momentum": halved(1e-3, 7),
        "variational": halved(1e-3, 7),
    }
    return work_precision(model, start, 1.0, end, steps, tolerances=10.0 ** -np.arange(4, 13))


def tricopter() -> list[PrecisionPoint]:
    sys.path.insert(0, str(ROOT / "tests"))
    from tricopter_load import relative_transform, tricopter as describe

    data = golden("c_tricopter")["trajectories"]["damped"]
    model = describe().derive()
    states = np.array(data["x"]), np.array(data["xi"])

    def state(k: int) -> tuple[np.ndarray, np.ndarray]:
        return states[0][k], np.linalg.solve(relative_transform(states[0][k]), states[1][k])

    steps = {
        "rkmk4": halved(5e-3, 7),
        "rkmk6": halved(1e-2, 6),
        "rkmk8": halved(1e-2, 5),
        "projected_rk4": halved(5e-3, 7),
        "energy_momentum": halved(2.5e-3, 5),
        "variational": halved(2.5e-3, 5),
    }
    return work_precision(model, state(0), 0.4, state(2), steps, tolerances=10.0 ** -np.arange(4, 12), repeats=2)


def draw(results: dict[str, list[PrecisionPoint]], path: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullFormatter

    figure = Figure(figsize=(13, 4.8), layout="constrained")
    FigureCanvasAgg(figure)
    for axis, (system, points) in zip(figure.subplots(1, len(results)), results.items(), strict=True):
        for color, name in zip(COLORS, ORDER, strict=False):
            own = [p for p in points if p.integrator == name]
            axis.loglog(
                [p.seconds * 1e3 for p in own],
                [np.hypot(p.configuration_error, p.velocity_error) for p in own],
                "o-",
                markersize=3,
                linewidth=1,
                color=color,
                label=name,
            )
        axis.set_title(TITLES[system], fontsize=10)
        axis.set_xlabel("processor time in ms")
        axis.xaxis.set_minor_formatter(NullFormatter())
        axis.grid(alpha=0.3, which="both")
    figure.axes[0].set_ylabel("error at the end (displacement and velocity, SI)")
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(ORDER), fontsize=9)
    figure.savefig(path, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the points to this file")
    options = parser.parse_args()
    results = {"free body": free_body(), "heavy top": heavy_top(), "tricopter": tricopter()}
    draw(results, ROOT / "docs" / "images" / "work_precision.png")
    content = json.dumps({name: [asdict(p) for p in points] for name, points in results.items()}, indent=1)
    if options.json is not None:
        options.json.write_text(content)
    else:
        print(content)


if __name__ == "__main__":
    main()
