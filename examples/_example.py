"""What all examples share: the option --out DIR, and figures without a screen."""

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
