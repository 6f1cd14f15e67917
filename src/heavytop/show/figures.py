"""Figures of a report for papers: curves and paths as vector graphics, readable in print and without colour."""

from __future__ import annotations

import os
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytop._files import write_whole
from heavytop.errors import ModelError
from heavytop.show import palette
from heavytop.show.scene import Panel, Report, Scene

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMN = 3.4
"""Width of a column of a two-column paper, in inches."""

STYLE: dict[Any, Any] = {
    "font.size": 8,
    "axes.labelsize": 8,
    "axes.titlesize": 8,
    "legend.fontsize": 7,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "lines.linewidth": 1.1,
    "lines.markersize": 3.2,
    "hatch.linewidth": 0.4,
    "pdf.fonttype": 42,  # text stays text
    "svg.fonttype": "none",
}

LEGEND = {"handlelength": 1.8, "columnspacing": 1.0, "borderpad": 0.2}

MARKS = {
    "circle": "o",
    "square": "s",
    "triangle": "^",
    "diamond": "D",
    "cross": "x",
    "plus": "+",
    "down": "v",
    "star": "*",
}


def curves_figure(report: Report, panels: Sequence[str] | None = None, width: float = COLUMN) -> Figure:
    """The panels of a report below each other with one time axis.

    Parameters
    ----------
    report : Report
    panels : sequence of str, optional
        Titles of the panels to draw; all if left out.
    width : float
        Width in inches.
    """
    chosen = _chosen(report, panels)
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width, 0.35 + 1.15 * len(chosen)), layout="constrained")
        axes = figure.subplots(len(chosen), 1, sharex=True, squeeze=False)[:, 0]
        for ax, panel in zip(axes, chosen, strict=True):
            _curves(ax, report.panel_times(panel), panel)
            for marker in report.markers:
                ax.axvline(marker.time, color="0.5", linewidth=0.6, linestyle=(0, (1, 3)))
        axes[-1].set_xlabel("time in s")
        axes[-1].set_xlim(float(report.scene.times[0]), float(report.scene.times[-1]))
        figure.align_ylabels(axes)
    return figure


def _chosen(report: Report, titles: Sequence[str] | None) -> list[Panel]:
    from heavytop.errors import unknown_name

    known = {panel.title: panel for panel in report.panels}
    for title in titles or ():
        if title not in known:
            raise unknown_name("panel", title, known)
    chosen = list(known.values()) if titles is None else [known[title] for title in titles]
    if not chosen:
        raise ModelError(f"report {report.title!r} has no panels to draw.")
    return chosen


def _curves(ax: Axes, times: np.ndarray, panel: Panel) -> None:
    for k, (name, values) in enumerate(panel.series.items()):
        color = palette.SERIES_LIGHT[k % len(palette.SERIES_LIGHT)]
        mark = MARKS[palette.MARKS[k % len(palette.MARKS)]] if len(panel.series) > 1 else None
        every = max(1, len(values) // 8)
        # marks of different curves are shifted, so that they do not hide each other
        start = (k * every) // max(len(panel.series), 1)
        ax.plot(times, values, color=color, marker=mark, markevery=(start, every), markerfacecolor="white", label=name)
        if name in panel.references:
            ax.plot(times, panel.references[name], color=color, linestyle=(0, (5, 3)), linewidth=0.8, alpha=0.8)
    if panel.limits is not None:
        low, high = ax.get_ylim()
        for bound, edge in ((panel.limits[0], low), (panel.limits[1], high)):
            if low <= bound <= high or abs(bound - edge) < 0.3 * (high - low):
                beyond = bound + np.sign(edge - bound or bound - np.mean(panel.limits)) * 0.06 * (high - low)
                ax.axhspan(
                    min(bound, beyond), max(bound, beyond), facecolor="none", edgecolor="0.5", hatch="////", linewidth=0
                )
                ax.axhline(bound, color="0.2", linewidth=0.7, linestyle=(0, (1, 1.5)))
    ax.set_ylabel(f"{panel.title}\nin {panel.unit}" if panel.unit else panel.title)
    if len(panel.series) > 1:
        ax.legend(
            frameon=False,
            ncols=min(len(panel.series), 4),
            loc="lower left",
            bbox_to_anchor=(0.0, 0.97),
            borderaxespad=0.0,
            **LEGEND,
        )


def path_figure(scene: Scene, pictures: int = 9, width: float = COLUMN) -> Figure:
    """The paths in space with the axes of the followed body: x vermilion, y dotted, z black."""
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    if scene.follow is None or not isinstance(poses := scene.bodies[scene.follow].motion, np.ndarray):
        raise ModelError("the followed body of a scene needs poses (T, 4, 4) for a figure of its path.")
    with matplotlib.rc_context(STYLE):
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
        ax.set_box_aspect(spans, zoom=0.84)  # pyright: ignore[reportArgumentType]  (the stub of matplotlib asks for an int)
        for axis, share in zip((ax.xaxis, ax.yaxis, ax.zaxis), spans / spans.max(), strict=True):
            axis.set_major_locator(MaxNLocator(max(1, round(5 * share))))
        if scene.trails:
            ax.legend(frameon=False, loc="upper left", **LEGEND)
    return figure


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> Path:
    """Write a figure as PDF, SVG, EPS or PNG, by the ending of the path, without a date inside (equal input, equal file)."""
    import matplotlib

    target = Path(path)
    kind = target.suffix.lower().lstrip(".")
    undated = {"pdf": {"CreationDate": None}, "svg": {"Date": None}, "eps": {}, "png": {}}
    if kind not in undated:
        raise ModelError(f"cannot save a figure as {target.name!r}: the name must end in .pdf, .svg, .eps or .png.")
    image = BytesIO()
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": "heavytop"}):
        figure.savefig(image, format=kind, metadata=undated[kind] or None, dpi=300)
    write_whole(target, image.getvalue(), "figure.pdf")
    return target
