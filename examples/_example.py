"""Common parts of the examples: the option --out DIR, figures without a screen, 3-D pages."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np


def folder(description: str | None) -> Path:
    """The folder to write to; it is made if it does not exist."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--out", type=Path, default=Path(), metavar="DIR", help="folder for pictures and pages")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    return out


def figure(**options):
    """A matplotlib figure and its axes, drawn without a window."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt.subplots(layout="constrained", **options)


def finish(fig, path: Path) -> None:
    """Write the figure and say where."""
    fig.savefig(path, dpi=110)
    print(f"picture: {path}")


def page(run, path: Path, index: int = 0) -> None:
    """Write the page of a run in 3-D (of a batch: trajectory ``index``) and say where."""
    print(f"page: {run.show(path, index)}")


def flown(flight, path: Path) -> None:
    """Write the page of a flight in 3-D and a picture of its path, and say where."""
    from heavytop.show import flight_report, write_page

    report = flight_report(flight)
    finish(path_figure(report.scene), path.with_suffix(".png"))
    print(f"page: {write_page(report, path)}")


def path_figure(scene, pictures: int = 9, width: float = 6.5):
    """A figure of the paths in space with the axes of the followed body: x vermilion, y dotted, z black."""
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    from heavytop.show import palette

    poses = scene.bodies[scene.follow].motion
    with matplotlib.rc_context({"font.size": 8, "lines.linewidth": 1.1}):
        figure = Figure(figsize=(width, 0.9 * width), layout="constrained")
        ax = figure.add_subplot(projection="3d")
        for name, trail in scene.trails.items():
            style = (0, (4, 3)) if trail.dashed else "-"
            ax.plot(*trail.points.T, color=palette.ROLES[trail.role][0], linestyle=style, label=name)
        size = 1.6 * scene.bodies[scene.follow].radius
        # equidistant along the path, so that pictures do not pile up where the body rests
        steps = np.linalg.norm(np.diff(poses[:, :3, 3], axis=0), axis=-1) + 1e-9
        arc = np.concatenate([[0.0], np.cumsum(steps)])
        for pose in poses[np.searchsorted(arc, np.linspace(0, arc[-1], pictures)).clip(0, len(poses) - 1)]:
            for axis, color, dash in zip(
                pose[:3, :3].T, (palette.VERMILION, palette.GREEN, palette.BLACK), ("-", ":", "-"), strict=True
            ):
                ends = np.stack([pose[:3, 3], pose[:3, 3] + size * axis])
                ax.plot(*ends.T, color=color, linewidth=1.4, linestyle=dash)
        ax.set_xlabel("x in m")
        ax.set_ylabel("y in m")
        ax.set_zlabel("z in m")
        # equal scales: the box has the proportions of the ranges; ticks in proportion too
        spans = np.array([np.ptp(ax.get_xlim()), np.ptp(ax.get_ylim()), np.ptp(ax.get_zlim())])
        ax.set_box_aspect(spans, zoom=0.84)
        for axis, share in zip((ax.xaxis, ax.yaxis, ax.zaxis), spans / spans.max(), strict=True):
            axis.set_major_locator(MaxNLocator(max(1, round(5 * share))))
        if scene.trails:
            ax.legend(frameon=False, loc="upper left")
    return figure


def robot(name: str, masses: float = 1.0):
    """A robot of the folder ``robots`` with all its masses times a factor."""
    import re
    import tempfile

    import heavytop as ht

    text = (Path(__file__).parent / "robots" / name).read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / name
        file.write_text(re.sub('mass value="(.*?)"', lambda m: f'mass value="{masses * float(m[1])}"', text), "utf-8")
        return ht.load(file)
