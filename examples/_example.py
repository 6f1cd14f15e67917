"""Common parts of the examples: the option --out DIR, figures without a screen, 3-D pages."""

from __future__ import annotations

import argparse
from pathlib import Path


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
    from heavytop.show.figures import path_figure
    from heavytop.show.flight import flight_report
    from heavytop.show.page import write_page

    report = flight_report(flight)
    finish(path_figure(report.scene, width=6.5), path.with_suffix(".png"))
    print(f"page: {write_page(report, path)}")
