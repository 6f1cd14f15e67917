"""A figure and a page of an identification: intervals, correlations, residuals by frequency, measured and simulated motion."""

from __future__ import annotations

import base64
import io
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytop._files import check_ending, write_whole
from heavytop.errors import require_extra

if TYPE_CHECKING:
    from heavytop.identify.result import Identification

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
STYLE = """body{font:15px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem;color:#222}
table{border-collapse:collapse;margin:1rem 0}td,th{padding:.2rem .8rem;text-align:right;border-bottom:1px solid #ddd}
td:first-child,th:first-child{text-align:left}img{max-width:100%}li{margin:.3rem 0}"""


def figure(found: Identification) -> Any:
    """A matplotlib figure with four panels."""
    require_extra("plot", "a figure")
    from matplotlib.figure import Figure

    fig = Figure(figsize=(11, 7.5), layout="constrained")
    axes = fig.subplots(2, 2)
    _intervals(axes[0, 0], found)
    _correlations(fig, axes[0, 1], found)
    _spectrum(axes[1, 0], found)
    _residuals(axes[1, 1], found)
    return fig


def _intervals(ax: Any, found: Identification) -> None:
    names = list(found.values)
    sizes = np.array([abs(found.values[n]) or 1.0 for n in names])
    half = np.array([1.96 * found.deviations[n] for n in names]) / sizes * 100
    known = np.isfinite(half)
    y = np.arange(len(names))[::-1]
    ax.barh(y[known], half[known], color=COLORS[0], height=0.6)
    top = max(float(half[known].max(initial=1e-3)), 1e-3)
    for row, name, ok in zip(y, names, known, strict=True):
        if not ok:
            ax.text(0.02 * top, row, f"{name}: not determined", va="center", color=COLORS[1], fontsize=8)
    ax.set_yticks(y, names, fontsize=8)
    ax.set(
        xlabel="half width of the 95 % interval, % of the value",
        title="Uncertainty",
        xscale="symlog" if top > 50 else "linear",
    )


def _correlations(fig: Any, ax: Any, found: Identification) -> None:
    names = list(found.values)
    image = ax.imshow(found.correlations, vmin=-1, vmax=1, cmap="RdBu_r")
    ax.set_xticks(range(len(names)), names, rotation=90, fontsize=7)
    ax.set_yticks(range(len(names)), names, fontsize=7)
    ax.set_title("Correlations")
    fig.colorbar(image, ax=ax, shrink=0.8)


def _spectrum(ax: Any, found: Identification) -> None:
    from matplotlib.ticker import NullFormatter

    frequency, density = found.spectrum()
    for k, (name, values) in enumerate(density.items()):
        scale = found.noise[name]
        ax.loglog(frequency[1:], values[1:] / scale, lw=0.9, color=COLORS[k % len(COLORS)], label=name)
    ax.set(xlabel="frequency, Hz", ylabel="residual / noise level, 1/sqrt(Hz)", title="Residuals by frequency")
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.legend(fontsize=6, ncols=2)


def _residuals(ax: Any, found: Identification) -> None:
    step = found.shooting.trials[0].step
    seen = found.shooting.windows.seen.sum(axis=1)
    total = ((found.fit.shot.residuals / found.fit.noise) ** 2).sum(axis=1)
    rms = np.sqrt(np.where(seen > 0, total / np.maximum(seen, 1), np.nan))
    for k, name in enumerate(found.noise):
        ax.plot(step * np.arange(len(rms)), rms[:, k], lw=0.9, color=COLORS[k % len(COLORS)], label=name)
    ax.set(
        xlabel="time after the start of a window, s",
        ylabel="rms residual / noise level",
        title="Residuals along the windows",
    )
    ax.set_ylim(bottom=0)


def page(found: Identification, path: str | Path) -> Path:
    """Write a self-contained HTML page."""
    check_ending(path, (".html", ".htm"), "a page")
    picture = io.BytesIO()
    figure(found).savefig(picture, format="png", dpi=110)
    image = base64.b64encode(picture.getvalue()).decode()
    rows = []
    for name, value in found.values.items():
        low, high = found.intervals[name]
        text = f"{low:.6g} to {high:.6g}" if np.isfinite(low) else "not determined"
        text = "at its bound" if name in found.at_bounds else text
        rows.append(f"<tr><td>{escape(name)}</td><td>{value:.6g}</td><td>{text}</td></tr>")
    noise = "".join(f"<tr><td>{escape(n)}</td><td>{x:.3g}</td></tr>" for n, x in found.noise.items())
    notes = "".join(f"<li>{escape(text)}</li>" for text in found.undetermined)
    title = escape(f"Identification of {found.shooting.dynamics.name}")
    parts = [
        f"<!doctype html><html lang='en'><head><meta charset='utf-8'><title>{title}</title><style>{STYLE}</style></head><body><h1>{title}</h1>",
        f"<p>{escape(found.summary().splitlines()[0])}</p>",
        f"<table><tr><th>parameter</th><th>value</th><th>95 % interval</th></tr>{''.join(rows)}</table>",
        f"<h2>Not determined by the logs</h2><ul>{notes}</ul>" if notes else "",
        f"<img alt='uncertainty, correlations, residuals' src='data:image/png;base64,{image}'>",
        f"<h2>Noise</h2><table><tr><th>channel</th><th>standard deviation</th></tr>{noise}</table></body></html>",
    ]
    write_whole(path, "\n".join(parts), "fit.html")
    return Path(path)
