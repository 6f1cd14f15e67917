"""Figures of runs: coordinates, velocities, inputs, energies, drifts, phase portraits. Every axis has its unit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from math import ceil, prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytop._files import typed_errors, write_whole
from heavytop.errors import FileFormatError, SimulationError, require_extra
from heavytop.simulate import NO_WORK, ContactRecord, lacks_work

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from heavytop.simulate import Run

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#888888", "#f0e442")
"""A palette for colour-blind readers (Okabe and Ito)."""
FEW = 5
"""Most curves of an axis with a legend inside."""
MANY = 6
"""Trajectories above which a batch is drawn as its median and its range."""
SYMBOLS = {"q": "coordinates", "v": "velocities", "u": "inputs"}


@dataclass(frozen=True)
class AxisCurves:
    """One axis: title, unit, and (label, values) of each curve; of signals their part ("q", "v", "u") and places in it."""

    title: str
    unit: str
    curves: tuple[tuple[str, np.ndarray], ...]
    part: str = ""
    places: tuple[int, ...] = ()


def plot_run(run: Run, path: str | Path | None = None) -> Figure:
    """One figure of a run: coordinates, velocities, inputs, contact forces, energies, drifts.

    Parameters
    ----------
    path : where to write it (png, pdf, svg); None: only return the figure.

    Examples
    --------
    >>> import heavytop as ht
    >>> system = ht.System(name="pendulum")
    >>> system.body("rod", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=(0, 0, -1)))
    >>> figure = ht.simulate(system.derive(), ([1.0], [0.0]), until=2.0, step=0.01).plot()
    >>> [axes.get_xlabel() for axes in figure.axes][0]
    'time in s'
    """
    signals = {
        part: (getattr(run, f"{part}_names"), getattr(run, f"{part}_units"), getattr(run, part)) for part in "qvu"
    }
    draws: list[Callable[[Axes], None]] = [partial(_draw, run=run, panel=panel) for panel in signal_panels(signals)]
    contacts = {name: c for name, c in run.contacts.items() if isinstance(c, ContactRecord)}
    draws += [partial(draw_contacts, run=run, contacts=contacts)] if contacts else []
    draws += [partial(draw_energies, run=run)] if run.has_energy else []
    draws += [partial(draw_drifts, run=run)] if run.invariants else []
    figure, axes = figure_grid(len(draws))
    for axis, draw in zip(axes, draws, strict=True):
        draw(axis)
    about = f"{run.name}: {run.integrator}, step {run.settings.step:g} s, {run.outcome.ending.value}"
    figure.suptitle(about + _batch_note(run), fontsize=10)
    return written(figure, path)


def _batch_note(run: Run) -> str:
    """The number of trajectories and the way they are drawn."""
    count = prod(run.batch)
    if not run.batch:
        return ""
    return f"; {count:,} trajectories: median and range" if count > MANY else f"; {count} trajectories"


def plot_energies(run: Run, path: str | Path | None = None) -> Figure:
    """Kinetic, potential and stored energy; work of inputs and dissipated energy if they were integrated.

    >>> import heavytop as ht
    >>> run = ht.simulate(ht.library.pendulum().derive(), ([1.0], [0.0]), until=0.1, step=0.01)
    >>> len(plot_energies(run).axes)
    1
    """
    figure = new_figure(6.4, 3.6)
    draw_energies(figure.subplots(), run)
    return written(figure, path)


def plot_invariants(run: Run, path: str | Path | None = None) -> Figure:
    """Drift of every invariant over time, on a logarithmic axis.

    >>> import heavytop as ht
    >>> run = ht.simulate(ht.library.pendulum().derive(), ([1.0], [0.0]), until=0.1, step=0.01)
    >>> len(plot_invariants(run).axes)
    1
    """
    figure = new_figure(6.4, 3.6)
    draw_drifts(figure.subplots(), run)
    return written(figure, path)


def plot_phase(run: Run, position: str, velocity: str, path: str | Path | None = None) -> Figure:
    """Phase portrait: one signal over another, for example ``("rod.angle", "rod.rate")``.

    >>> import heavytop as ht
    >>> run = ht.simulate(ht.library.pendulum().derive(), ([1.0], [0.0]), until=0.1, step=0.01)
    >>> plot_phase(run, *run.q_names, *run.v_names).axes[0].get_xlabel()
    'theta.angle in rad'
    """
    x, y = run[position], run[velocity]
    figure = new_figure(4.6, 4.2)
    axis = figure.subplots()
    flat_x, flat_y = x.reshape(len(run), -1), y.reshape(len(run), -1)
    for k in range(min(flat_x.shape[1], 50)):
        axis.plot(flat_x[:, k], flat_y[:, k], color=COLORS[k % len(COLORS)], linewidth=0.9)
        axis.plot(flat_x[0, k], flat_y[0, k], "o", color=COLORS[k % len(COLORS)], markersize=4)
    axis.set_xlabel(_label(position, run.unit(position)))
    axis.set_ylabel(_label(velocity, run.unit(velocity)))
    axis.set_title(f"{run.name} (dot: start)", fontsize=9)
    axis.grid(alpha=0.3)
    return written(figure, path)


def plot_signals(run: Run, names: Sequence[str], path: str | Path | None = None) -> Figure:
    """Chosen signals over time, one axis per unit.

    >>> import heavytop as ht
    >>> run = ht.simulate(ht.library.pendulum().derive(), ([1.0], [0.0]), until=0.1, step=0.01)
    >>> len(plot_signals(run, run.q_names).axes)
    1
    """
    units: dict[str, list[str]] = {}
    for name in names:
        units.setdefault(run.unit(name), []).append(name)
    figure = new_figure(6.4, 2.2 * len(units) + 0.6)
    axes = figure.subplots(len(units), 1, squeeze=False)[:, 0]
    for axis, (unit, group) in zip(axes, units.items(), strict=True):
        _draw(axis, run, AxisCurves("", unit, tuple((name, run[name]) for name in group)))
    return written(figure, path)


def draw_contacts(axis: Axes, run: Run, contacts: Mapping[str, ContactRecord]) -> None:
    """Draw the forces of contacts; below, for a single trajectory, a row of bars for each while it is closed."""
    chosen = dict(list(contacts.items())[: len(COLORS)])
    curves = tuple((name, np.linalg.norm(c.force, axis=-1)) for name, c in chosen.items())
    title = "contact forces" if run.batch else "contact forces (bars: closed)"
    _draw(axis, run, AxisCurves(title, "N", curves))
    if run.batch:
        return
    height = 0.06 * max(float(np.nanmax(values)) for _, values in curves)
    for k, (contact, color) in enumerate(zip(chosen.values(), COLORS, strict=False)):
        bottom = -1.5 * height * (k + 1)
        axis.fill_between(run.t, bottom, bottom + height, where=contact.closed, color=color, linewidth=0, step="pre")


def draw_energies(axis: Axes, run: Run) -> None:
    """Draw energies; the potential energy is relative to its start, so that its changes are comparable with the kinetic energy."""
    start = run.potential_energy[:1]
    curves = [
        ("kinetic", run.kinetic_energy),
        ("potential", run.potential_energy - start),
        ("stored", run.energy - start),
    ]
    if run.work is not None:
        curves += [("work of inputs", run.work[..., 0]), ("dissipated", run.work[..., 1])]
        curves += [("work of drivers", run.work[..., 2])] if run.work.shape[-1] > 2 else []
    acting = tuple((label, values) for label, values in curves if label in ("kinetic", "stored") or np.any(values))
    _draw(axis, run, AxisCurves("energies (potential from its start)", "J", acting))


def draw_drifts(axis: Axes, run: Run) -> None:
    """Draw relative drifts; a curve has gaps where the drift is exactly zero."""
    if not run.invariants:
        raise SimulationError(
            f"run {run.name!r} has no invariants to draw{': ' + ' '.join(NO_WORK) if lacks_work(run) else '.'}"
        )
    for k, (name, invariant) in enumerate(run.invariants.items()):
        deviation = np.abs(invariant.values - invariant.values[:1]).reshape(len(run), -1)
        size = np.nanmax(np.where(np.isfinite(deviation), deviation, 0.0), axis=1) / (invariant.reference or 1.0)
        color, style = COLORS[k % len(COLORS)], "-" if k < len(COLORS) else "--"
        exact = not np.any(size > 0)
        label = f"{name}: exact" if exact else name
        axis.plot(run.t, np.where(size > 0, size, np.nan), style, label=label, color=color, linewidth=0.9)
    axis.set_yscale("log")
    if not any(np.any(np.isfinite(line.get_ydata())) for line in axis.get_lines()):
        axis.set_ylim(1e-17, 1e-15)
    finish_axis(axis, "drift of invariants (relative)", "1")


def signal_panels(signals: Mapping[str, tuple[Sequence[str], Sequence[str], np.ndarray]]) -> Iterator[AxisCurves]:
    """Panels by joint and unit; ``signals`` maps "q", "v" and "u" to names, units and values (n, *batch, names)."""
    for part, (names, units, values) in signals.items():
        if part == "u" and not np.any(values):
            continue
        groups: dict[tuple[str, str], list[int]] = {}
        for k, name in enumerate(names):
            joint = name.rpartition(".")[0]
            groups.setdefault((joint, units[k]), []).append(k)
        for (joint, unit), indices in _merged(groups, len(names)).items():
            is_one_joint = len({names[k].rpartition(".")[0] for k in indices}) == 1
            curves = [(names[k].rpartition(".")[2] if is_one_joint else names[k], values[..., k]) for k in indices]
            title = f"{SYMBOLS[part]}{f' of {joint}' if joint else ''}"
            yield AxisCurves(title, unit, tuple(curves), part, tuple(indices))


def _merged(groups: dict[tuple[str, str], list[int]], total: int) -> dict[tuple[str, str], list[int]]:
    """Groups in which joints with one coordinate share an axis per unit."""
    if all(len(indices) > 1 for indices in groups.values()) or total == len(next(iter(groups.values()), [])):
        return groups
    merged: dict[tuple[str, str], list[int]] = {}
    for (joint, unit), indices in groups.items():
        key = ("", unit) if len(indices) == 1 and len(groups) > 2 else (joint, unit)
        merged.setdefault(key, []).extend(indices)
    return merged


def _draw(axis: Axes, run: Run, panel: AxisCurves) -> None:
    for k, (label, values) in enumerate(panel.curves):
        color, style = COLORS[k % len(COLORS)], ("-", "--", ":")[(k // len(COLORS)) % 3]
        flat = values.reshape(len(run), -1)
        if flat.shape[1] <= MANY:
            for j in range(flat.shape[1]):
                axis.plot(run.t, flat[:, j], style, color=color, label=label if j == 0 else None, linewidth=1.0)
        else:
            low, middle, high = (np.nanquantile(flat, share, axis=1) for share in (0.0, 0.5, 1.0))
            axis.fill_between(run.t, low, high, color=color, alpha=0.15, linewidth=0)
            axis.plot(run.t, middle, style, color=color, label=label, linewidth=1.0)
    for event in run.events:
        if len(run.events) <= 20:
            axis.axvline(event.time, color="#888888", linewidth=0.6, linestyle=":")
    finish_axis(axis, panel.title, panel.unit)


def finish_axis(axis: Axes, title: str, unit: str) -> None:
    """Labels, grid and legend of an axis over time."""
    axis.set_xlabel("time in s", fontsize=8)
    axis.set_ylabel(_label("", unit) or "", fontsize=8)
    axis.set_title(title, fontsize=9)
    axis.tick_params(labelsize=8)
    axis.grid(alpha=0.3)
    handles, labels = axis.get_legend_handles_labels()
    if len(labels) == 1:
        axis.set_ylabel(_label(labels[0], unit), fontsize=8)
    elif len(labels) > FEW:  # below the axis
        place = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.2)}
        axis.legend(handles, labels, fontsize=7, ncols=5, frameon=False, **place)
    elif labels:
        axis.legend(handles, labels, fontsize=7, loc="best", framealpha=0.7)


def _label(name: str, unit: str) -> str:
    if not unit:
        return name
    shown = "" if unit == "1" else f"in {unit}"
    return f"{name} {shown}".strip() or "dimensionless"


def new_figure(width: float, height: float) -> Figure:
    """A figure without a window and without global state of matplotlib, which notebooks draw whether or not pyplot was imported.

    >>> new_figure(3.0, 2.0)._repr_png_()[1:4]
    b'PNG'
    """
    require_extra("plot", "a figure")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    setattr(figure, "_repr_png_", partial(_png, figure))  # noqa: B010
    return figure


def _png(figure: Figure) -> bytes:
    image = BytesIO()
    figure.savefig(image, dpi=90, format="png")
    return image.getvalue()


def figure_grid(
    count: int, most: int = 0, size: tuple[float, float] = (4.8, 2.3), margin: tuple[float, float] = (0.0, 0.6)
) -> tuple[Figure, list[Axes]]:
    """A figure with ``count`` axes of ``size`` in inches, in at most ``most`` columns (0: two, or three for more than eight axes)."""
    columns = max(min(count, most or (2 if count <= 8 else 3)), 1)
    rows = max(ceil(count / columns), 1)
    figure = new_figure(size[0] * columns + margin[0], size[1] * rows + margin[1])
    axes = figure.subplots(rows, columns, squeeze=False).reshape(-1)
    for axis in axes[count:]:
        axis.set_visible(False)
    return figure, list(axes[:count])


def written(figure: Any, path: str | Path | None) -> Any:
    """The figure, after it was written to ``path``, if given."""
    if path is not None:
        with typed_errors(path):
            is_folder = Path(path).is_dir()  # rejected by write_whole
        kind = "png" if is_folder else Path(path).suffix.lower().lstrip(".")
        if kind not in figure.canvas.get_supported_filetypes():
            raise FileFormatError(
                f"cannot draw {str(path)!r}: the name must end in .png, .pdf, .svg or another format of matplotlib."
            )
        image = BytesIO()
        figure.savefig(image, dpi=140, format=kind)
        write_whole(path, image.getvalue(), "run.png")
    return figure
