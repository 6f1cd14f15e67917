"""Figures of linearised loops: Bode and Nyquist plots, step responses."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from heavytop.show.plots import COLORS, figure_grid, finish_axis, new_figure, written

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from heavytop.control import FeedbackLoop

FAR = 3.0
"""Half the width of a Nyquist plot around the point -1 and the unit circle."""


def plot_bode(loop: FeedbackLoop, path: str | Path | None = None) -> Figure:
    """Magnitude and phase of the loop at every input over the frequency.

    >>> import heavytop as ht
    >>> figure = ht.control.lqr(ht.library.cart_pole().derive(), [0.0, 0.0]).loop().bode()
    >>> [axes.get_ylabel() for axes in figure.axes]
    ['magnitude in dB', 'phase in deg']
    """
    w = loop.frequencies()
    locus = loop.locus(w)
    figure = new_figure(6.4, 5.0)
    upper, lower = figure.subplots(2, 1, sharex=True)
    for i, name in enumerate(loop.inputs):
        color = COLORS[i % len(COLORS)]
        upper.semilogx(w, 20 * np.log10(np.abs(locus[:, i])), color=color, label=name, linewidth=1.1)
        phase = np.degrees(np.unwrap(np.angle(locus[:, i])))
        lower.semilogx(w, phase - 360 * np.round((phase[-1] + 90) / 360), color=color, linewidth=1.1)
        crossed = np.flatnonzero(np.diff(np.sign(np.abs(locus[:, i]) - 1)))
        for axis in (upper, lower):
            for k in crossed:
                axis.axvline(w[k], color=color, alpha=0.4, linewidth=0.8, linestyle="--")
    upper.axhline(0.0, color="#888888", linewidth=0.8)
    lower.axhline(-180.0, color="#888888", linewidth=0.8)
    for axis, label in ((upper, "magnitude in dB"), (lower, "phase in deg")):
        axis.set_ylabel(label, fontsize=8)
        axis.tick_params(labelsize=8)
        axis.grid(alpha=0.3, which="both")
    lower.set_xlabel("frequency in rad/s", fontsize=8)
    upper.set_title(f"loop of {loop.name}, cut at each input", fontsize=9)
    upper.legend(fontsize=7, loc="best", framealpha=0.7)
    return written(figure, path)


def plot_nyquist(loop: FeedbackLoop, path: str | Path | None = None) -> Figure:
    """Loci of the loop near the unit circle, positive frequencies solid, negative ones dashed, and the point -1.

    >>> import heavytop as ht
    >>> ht.control.lqr(ht.library.cart_pole().derive(), [0.0, 0.0]).loop().nyquist().axes[0].get_xlabel()
    'real part'
    """
    locus = loop.locus()
    figure = new_figure(5.2, 5.0)
    axis = figure.subplots()
    for i, name in enumerate(loop.inputs):
        color = COLORS[i % len(COLORS)]
        axis.plot(np.real(locus[:, i]), np.imag(locus[:, i]), color=color, label=name, linewidth=1.1)
        axis.plot(np.real(locus[:, i]), -np.imag(locus[:, i]), "--", color=color, linewidth=0.8)
    turn = np.linspace(0.0, 2 * np.pi, 200)
    axis.plot(np.cos(turn), np.sin(turn), ":", color="#888888", linewidth=0.8)
    axis.plot([-1.0], [0.0], "x", color="#000000", markersize=7)
    axis.set_xlim(-FAR - 1, FAR - 1)
    axis.set_ylim(-FAR, FAR)
    axis.set_aspect("equal")
    axis.set_xlabel("real part", fontsize=8)
    axis.set_ylabel("imaginary part", fontsize=8)
    axis.set_title(f"loop of {loop.name}, cut at each input", fontsize=9)
    axis.tick_params(labelsize=8)
    axis.grid(alpha=0.3)
    axis.legend(fontsize=7, loc="upper right", framealpha=0.7)
    return written(figure, path)


def plot_steps(loop: FeedbackLoop, of: Sequence[str], path: str | Path | None = None) -> Figure:
    """Responses of all states and inputs to unit steps of the set points of some states, one row each.

    >>> import heavytop as ht
    >>> len(ht.control.lqr(ht.library.cart_pole().derive(), [0.0, 0.0]).loop().step("x.x").axes)
    2
    """
    figure, axes = figure_grid(2 * len(of), most=2)
    for row, name in enumerate(of):
        t, x, u = loop.step_response(name)
        for axis, values, labels, title in (
            (axes[2 * row], x, loop.states, f"unit step of the set point of {name}"),
            (axes[2 * row + 1], u, loop.inputs, "inputs"),
        ):
            for k, label in enumerate(labels):
                style = ("-", "--", ":")[(k // len(COLORS)) % 3]
                axis.plot(t, values[:, k], style, color=COLORS[k % len(COLORS)], label=label, linewidth=1.0)
            finish_axis(axis, title, "SI units")
    return written(figure, path)
