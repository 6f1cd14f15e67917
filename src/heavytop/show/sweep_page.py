"""The page of a sweep: maps, shares with confidence intervals, histograms, parallel coordinates, and notable points with their runs."""

from __future__ import annotations

import base64
import io
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytop._files import typed_errors, write_whole
from heavytop._format import counted, html_text, safe_name
from heavytop._version import __version__
from heavytop.show.page import check_ending
from heavytop.show.palette import SERIES_LIGHT
from heavytop.show.plots import figure_grid, new_figure
from heavytop.sweep import (
    DRAW,
    FAILED,
    OUTCOMES,
    SAMPLE,
    Result,
    binned_sums,
    boxes,
    extremes,
    pick,
    places,
    points,
    sample,
    sums,
    valid,
    width,
)

if TYPE_CHECKING:
    import xarray

MOST_MAPS, MOST_LINES, MOST_POINTS, MOST_CELLS, MOST_NAMES = 12, 400, 12, 400, 40
"""Maps of one measure, lines of the parallel coordinates, points in the list, cells along an axis, names along an axis."""
MOST_ROWS = 10_000
"""Points whose numbers are embedded in the page."""
MOST_PAIRS, MOST_BINS, POINTS_PER_BIN = 6, 30, 12
"""Maps of pairs of variables of one measure, bins along an axis, and the mean number of points in a bin if there are fewer bins."""
ROUNDING = 1e-13
"""Differences of a measure, in its unit and relative, that have no map."""
OUTLYING = 1.0
"""Values further beyond the range of nine tenths than this part of it do not stretch the colours."""
HIDDEN = ("outcome", "end_time", "cause")
STYLE = """
:root { color-scheme: light dark; --ink: #1c2329; --paper: #fff; --line: #d5dbe0; --soft: #5b6670; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6ebf0; --paper: #14191e; --line: #303a44; --soft: #9aa6b1; } img { background: #fff; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 0 auto; padding: 1.5rem; max-width: 1180px; }
h1 { font-size: 1.6rem; margin: 0 0 .2rem; } h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; border-bottom: 1px solid var(--line); }
p.sub { color: var(--soft); margin: 0 0 1rem; } img { max-width: 100%; height: auto; border-radius: 4px; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
td, th { padding: .2rem .8rem .2rem 0; text-align: left; vertical-align: top; }
code { background: color-mix(in srgb, var(--line) 45%, transparent); padding: .1rem .3rem; border-radius: 3px; font-size: .85em; }
.scroll { overflow-x: auto; } details { margin-top: 2rem; color: var(--soft); } pre { white-space: pre-wrap; font-size: .8rem; }
"""


def write_sweep(result: Result, path: str | Path, runs: int = 0) -> Path:
    """Write the page of a sweep; the 3-D pages of the first ``runs`` listed points are written next to it and linked."""
    target = Path(path)
    check_ending(target)
    links = _write_runs(result, target, runs) if runs else {}
    write_whole(target, page(result, links).encode("utf-8"), "study.html")
    return target


def page(result: Result, links: dict[tuple[int, ...], str] | None = None) -> str:
    """The HTML text of the page."""
    counts = result.outcomes()
    sizes = " × ".join(
        counted(result.data.sizes[d], d) if d == DRAW else f"{result.data.sizes[d]} {d}" for d in result.dims
    )
    ended = ", ".join(f"{n:,} {name}" for name, n in counts.items())
    parts = [
        f"<h1>{html_text(_title(result))}</h1><p class='sub'>{result.points:,} points: {html_text(sizes)}. {html_text(ended)}.</p>"
    ]
    for heading, images in _sections(result):
        shown = "".join(f"<img alt='{html_text(text)}' src='data:image/png;base64,{image}'>" for text, image in images)
        if shown:
            parts.append(f"<h2>{html_text(heading)}</h2>{shown}")
    parts += [_causes(result), _points(result, links or {}), _numbers(result)]
    parts.append(
        f"<details><summary>The study</summary><pre>{html_text(str(result.data.attrs.get('study', '')))}</pre></details>"
    )
    body = "\n".join(part for part in parts if part)
    name = html_text(_title(result))
    head = f"<meta charset='utf-8'><meta name='viewport' content='width=device-width'><title>{name}</title><style>{STYLE}</style>"
    return f"<!doctype html>\n<html lang='en'><head>{head}</head><body>{body}<p class='sub'>heavytop {__version__}</p></body></html>"


def _title(result: Result) -> str:
    return result.store.stem if result.store else "Sweep"


def _measures(result: Result) -> list[str]:
    """Names of the measures with one number per point."""
    return [
        str(n)
        for n, a in result.data.data_vars.items()
        if n not in HIDDEN and a.dims == result.dims and a.dtype.kind in "fiub"
    ]


def _varied(result: Result) -> list[str]:
    """Dimensions with more than one value, except draws."""
    return [d for d in result.dims if result.data.sizes[d] > 1 and d != DRAW]


def _sections(result: Result) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    names, varied = _measures(result), _varied(result)
    maps = [m for name in names if (m := _maps(result, name, varied)) is not None] if len(varied) >= 2 else []
    maps += [m for name in names if (m := _binned_maps(result, name, varied)) is not None]
    yield "Maps", maps
    shares = [n for n in names if result.data[n].dtype.kind == "b"]
    if shares and varied:
        heading = "Shares with 95 % confidence intervals" if DRAW in result.dims else "Shares"
        yield heading, [_share(result, n, varied) for n in shares]
    numbers = [n for n in names if result.data[n].dtype.kind != "b"]
    if numbers:
        yield "Distribution of the measures", [_histograms(result, numbers)]
    if len(names) + len(varied) >= 3:
        yield "Parallel coordinates", [_parallel(result, varied, names)]


def _png(figure: Any) -> str:
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=110, format="png")
    return base64.b64encode(buffer.getvalue()).decode("ascii")


def _label(data: xarray.Dataset, name: str) -> str:
    unit = data[name].attrs.get("units", "") if name in data else ""
    return f"{name} [{unit}]" if unit else name


def _ticks(data: xarray.Dataset, name: str) -> np.ndarray:
    return data[name].values if name in data.coords and data[name].dims == (name,) else np.arange(data.sizes[name])


def _cells(data: xarray.Dataset, dim: str) -> np.ndarray:
    """Positions of the cells of a map along a dimension: its values, or the means of neighbours that share a cell."""
    labels = _ticks(data, dim)
    wide = width(len(labels), MOST_CELLS)
    if wide == 1:
        return labels
    first = np.arange(0, len(labels), wide)
    return np.add.reduceat(labels.astype(float), first) / np.diff(np.append(first, len(labels)))


def _maps(result: Result, name: str, varied: list[str]) -> tuple[str, str] | None:
    """Means over draws on the two finest dimensions, one map for each value of a third."""
    data = result.data
    ordered = sorted(
        (d for d in varied if data[d].dtype.kind in "fiu" or d not in data.coords), key=lambda d: -data.sizes[d]
    )
    if len(ordered) < 2:
        return None
    x, y = sorted(ordered[:2], key=varied.index, reverse=True)
    rest = [d for d in varied if d not in (x, y)]
    split = rest[0] if rest and data.sizes[rest[0]] <= MOST_MAPS else None
    total, count = sums(result, name, [y, x, *([split] if split else [])], MOST_CELLS)
    with np.errstate(invalid="ignore"):
        mean = total / np.where(count, count, np.nan)
    if _constant(mean):
        return None
    panels = [(mean, "")]
    if split:
        unit = data[split].attrs.get("units", "") if split in data else ""
        panels = [
            (mean[..., k], f"{split} = {_cell_text(value)} {unit}") for k, value in enumerate(_ticks(data, split))
        ]
    figure, axes = figure_grid(len(panels), 3, (3.9, 3.4), (0.9, 0.0))
    is_share = data[name].dtype.kind == "b"
    low, high, beyond = (0.0, 1.0, "neither") if is_share else _colour_range(mean)
    style = {"cmap": "viridis", "vmin": low, "vmax": high, "shading": "nearest"}
    image: Any = None
    for (values, text), axis in zip(panels, axes, strict=True):
        image = axis.pcolormesh(_cells(data, x), _cells(data, y), values, **style)
        axis.set(xlabel=_label(data, x), ylabel=_label(data, y), title=text)
    what = "" if count.max() <= 1 else "share of " if is_share else "mean of "  # one point per cell has no mean
    figure.colorbar(image, ax=figure.axes, label=f"{what}{_label(data, name)}", extend=beyond)
    return f"map of {name} over {x} and {y}", _png(figure)


def _drawn(result: Result) -> list[str]:
    """Drawn variables that are numbers."""
    data = result.data
    return [
        str(c)
        for c in data.coords
        if c != DRAW and data[c].dims == (DRAW,) and data[c].dtype.kind in "fiu" and data[c].size
    ]


def _binned_maps(result: Result, name: str, varied: list[str]) -> tuple[str, str] | None:
    """Means in bins of two drawn variables, or of a drawn and another one: one map for each pair."""
    data, drawn = result.data, _drawn(result)
    lines = [d for d in varied if d in data.coords and data[d].dtype.kind in "fiu"]
    pairs = [*itertools.combinations(drawn, 2), *itertools.product(drawn, lines)][:MOST_PAIRS]
    if not pairs:
        return None
    most = int(np.clip(np.sqrt(result.points / POINTS_PER_BIN), 2, MOST_BINS))
    found = []
    for x, y in pairs:
        edges = [_edges(data[v].values, most) for v in (y, x)]
        total, count = binned_sums(result, name, (y, x), edges)
        with np.errstate(invalid="ignore"):
            found.append((x, y, edges, total / np.where(count, count, np.nan)))
    everything = np.concatenate([mean.reshape(-1) for *_, mean in found])
    if _constant(everything):
        return None
    figure, axes = figure_grid(len(found), 3, (3.9, 3.4), (0.9, 0.0))
    is_share = data[name].dtype.kind == "b"
    low, high, beyond = (0.0, 1.0, "neither") if is_share else _colour_range(everything)
    image: Any = None
    for (x, y, edges, mean), axis in zip(found, axes, strict=True):
        image = axis.pcolormesh(edges[1], edges[0], mean, cmap="viridis", vmin=low, vmax=high)
        axis.set(xlabel=_label(data, x), ylabel=_label(data, y))
    figure.colorbar(
        image, ax=figure.axes, label=f"{'share' if is_share else 'mean'} of {_label(data, name)}", extend=beyond
    )
    return f"means of {name} in bins of {', '.join(f'{x} and {y}' for x, y in pairs)}", _png(figure)


def _edges(values: np.ndarray, most: int) -> np.ndarray:
    """Edges of bins: between the values if there are few, equal widths otherwise."""
    some = np.unique(values[np.isfinite(values)])
    if len(some) < 2:
        middle = float(some[0]) if len(some) else 0.0
        return np.array([middle - 0.5, middle + 0.5])
    if len(some) <= most:
        middle = 0.5 * (some[1:] + some[:-1])
        return np.concatenate([[2 * some[0] - middle[0]], middle, [2 * some[-1] - middle[-1]]])
    return np.linspace(some[0], some[-1], most + 1)


def _constant(values: np.ndarray) -> bool:
    """Whether a map would show nothing, or rounding errors."""
    low, high = _range(values)
    return not high - low > ROUNDING * max(1.0, abs(low), abs(high))


def _colour_range(values: np.ndarray) -> tuple[float, float, str]:
    """Range of the colours, and the ends that values exceed: a few outliers do not hide the differences of the others."""
    low, high = _range(values)
    finite = values[np.isfinite(values)]
    if len(finite) < 8:
        return low, high, "neither"
    a, b = np.quantile(finite, [0.05, 0.95])
    room = OUTLYING * (b - a)
    new_low, new_high = (a if a - low > room else low), (b if high - b > room else high)
    if not new_high > new_low:
        return low, high, "neither"
    beyond = {(False, False): "neither", (True, False): "min", (False, True): "max", (True, True): "both"}
    return new_low, new_high, beyond[new_low > low, new_high < high]


def _range(values: np.ndarray) -> tuple[float, float]:
    """Least and largest finite value."""
    finite = values[np.isfinite(values)]
    return (finite.min(), finite.max()) if len(finite) else (0.0, 1.0)


def _share(result: Result, name: str, varied: list[str]) -> tuple[str, str]:
    """Share along every dimension, over all others."""
    from heavytop.sweep import share_interval

    data = result.data
    shown = [d for d in varied if _ticks(data, d).dtype.kind in "fiu" or data.sizes[d] <= MOST_NAMES]
    figure, axes = figure_grid(len(shown), 3, (3.9, 3.0), (0.0, 0.0))
    for k, (dim, axis) in enumerate(zip(shown, axes, strict=True)):
        labels = _ticks(data, dim)
        numbers = labels.dtype.kind in "fiu"
        hits, trials = sums(result, name, [dim], MOST_CELLS)
        low, high = share_interval(hits, trials)
        at = _cells(data, dim) if numbers else np.arange(len(labels))
        share = hits / np.maximum(trials, 1)
        bars = np.maximum([share - low, high - share], 0.0) if DRAW in result.dims else None  # else nothing is random
        axis.errorbar(at, share, yerr=bars, fmt="o-" if numbers else "o", capsize=3, color=SERIES_LIGHT[k % 8])
        if not numbers:
            axis.set_xticks(at, [_cell_text(x) for x in labels])
            axis.margins(x=0.3)
        axis.set(xlabel=_label(data, dim), ylabel=f"share of {name}", ylim=(-0.03, 1.03))
        axis.grid(alpha=0.3)
    return f"share of {name} along {', '.join(shown)}", _png(figure)


def _histograms(result: Result, names: list[str]) -> tuple[str, str]:
    figure, axes = figure_grid(len(names), 3, (3.9, 2.7), (0.0, 0.0))
    for k, (name, axis) in enumerate(zip(names, axes, strict=True)):
        some = sample(result, name)
        if len(some):
            edges = np.histogram_bin_edges(some, 60, tuple(np.quantile(some, [0.001, 0.999])))
            counts = np.zeros(60, dtype=int)
            for _, (values, outcome) in boxes(result, name, "outcome"):
                counted = values[valid(values, outcome)].astype(float)
                counts += np.histogram(np.clip(counted, edges[0], edges[-1]), edges)[0]
            axis.stairs(counts, edges, fill=True, color=SERIES_LIGHT[k % 8])
        axis.set(xlabel=_label(result.data, name), ylabel="points")
        axis.grid(alpha=0.3)
    return f"histograms of {', '.join(names)}", _png(figure)


def _parallel(result: Result, varied: list[str], names: list[str]) -> tuple[str, str]:
    """Some points as lines over varied parameters and measures, coloured by the first measure."""
    data = result.data
    flat = points(result, MOST_LINES)
    outcome = pick(result, "outcome", flat)
    columns: dict[str, np.ndarray] = {}
    texts: dict[str, np.ndarray] = {}
    for name in [*varied, *_drawn(result), *names]:
        if name in result.dims:
            values = _ticks(data, name)[places(result, flat)[result.dims.index(name)]]
        else:
            values = pick(result, name, flat)
        if values.dtype.kind not in "fiub":
            texts[name], numbers = np.unique(values.astype(object).astype(str), return_inverse=True)
            columns[name] = numbers.astype(float)
        elif name in names:
            columns[name] = np.where(valid(values, outcome), values.astype(float), np.nan)
        else:
            columns[name] = values.astype(float)
    scaled = []
    for values in columns.values():
        low, high = _range(values)
        scaled.append((values - low) / (high - low) if high > low else np.full(len(values), 0.5))
    figure = new_figure(max(1.45 * len(columns), 6), 4.2)
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    axis = figure.subplots()
    first = names[0]
    shades = ScalarMappable(Normalize(*_range(columns[first])), "viridis")
    for row, value in zip(np.array(scaled).T, columns[first], strict=True):
        axis.plot(row, color=shades.to_rgba(np.nan_to_num(value)), alpha=0.35, linewidth=0.8)
    figure.colorbar(shades, ax=axis, label=_label(data, first))
    axis.set_xticks(range(len(columns)), [_label(data, n) for n in columns], rotation=20, ha="right")
    for k, (name, values) in enumerate(columns.items()):
        low, high = _range(values)
        axis.axvline(k, color="#97a3ae", linewidth=0.8)
        if name in texts:
            for place, text in enumerate(texts[name]) if len(texts[name]) <= MOST_MAPS else ():
                height = place / max(len(texts[name]) - 1, 1) if len(texts[name]) > 1 else 0.5
                axis.text(k, 1.06 * height - 0.03, _cell_text(text), ha="center", fontsize=7)
        elif np.any(np.isfinite(values)):
            axis.text(k, 1.03, f"{high:.3g}", ha="center", fontsize=7)
            axis.text(k, -0.07, f"{low:.3g}", ha="center", fontsize=7)
    axis.set(yticks=[], ylim=(-0.1, 1.1), xlim=(-0.3, len(columns) - 0.7))
    return f"parallel coordinates of {len(flat)} points", _png(figure)


def _causes(result: Result) -> str:
    rows = "".join(
        f"<tr><td>{n:,}</td><td>{html_text(text)}</td></tr>" for text, n in list(result.causes().items())[:10]
    )
    return f"<h2>Why runs ended early</h2><div class='scroll'><table>{rows}</table></div>" if rows else ""


def notable_points(result: Result) -> dict[tuple[int, ...], str]:
    """Indices of points and the reason: some that failed, then the largest, median and least values of each measure."""
    found: dict[tuple[int, ...], str] = {}
    for region, (codes,) in boxes(result, "outcome"):
        for place in np.argwhere(codes > 1)[: 4 - len(found)]:
            code = int(codes[tuple(place)])
            found[tuple(int(i) + s.start for i, s in zip(place, region, strict=True))] = OUTCOMES[code]
        if len(found) >= 4:
            break
    some = points(result, SAMPLE)
    outcome = pick(result, "outcome", some)
    for name in _measures(result):
        largest, least = extremes(result, name, 4)
        values = pick(result, name, some)
        middle = some[np.argsort(np.where(valid(values, outcome), values.astype(float), -np.inf))[len(values) // 2]]
        flat = np.array([*largest, middle, least])
        at = places(result, flat)
        listed = list(zip(*(i.tolist() for i in at), strict=True)) if at else [()]
        words = [*("among the largest" if k else "largest" for k in range(len(largest))), "median", "least"]
        if values.dtype.kind == "b":
            words = ["" if value else "not" for value in pick(result, name, flat)]
        for place, word in zip(listed, words, strict=False):
            if place not in found or found[place] in (f"among the largest {name}", f"median {name}"):
                found[place] = f"{word} {name}".strip()
    return dict(list(found.items())[:MOST_POINTS])


def _points(result: Result, links: dict[tuple[int, ...], str]) -> str:
    names = _measures(result)[:4]
    rows, plain = [], all(d.isidentifier() for d in result.dims)
    for place, why in notable_points(result).items():
        chosen = ", ".join(
            f"{f'{d}=' if plain else f'{d!r}: '}{_cell_text(_ticks(result.data, d)[i], quote=True)}"
            for d, i in zip(result.dims, place, strict=True)
        )
        point = result.data.isel(dict(zip(result.dims, place, strict=True)))
        cells = "".join(f"<td>{_cell(point[n].values, point['outcome'].values)}</td>" for n in names)
        link = f"<a href='{html_text(links[place])}'>3-D page</a>" if place in links else ""
        call = html_text(f"result.rerun({chosen})" if plain else f"result.rerun(**{{{chosen}}})")
        rows.append(f"<tr><td>{html_text(why)}</td>{cells}<td><code>{call}</code></td><td>{link}</td></tr>")
    head = "".join(f"<th>{html_text(_label(result.data, n))}</th>" for n in names)
    note = (
        "<p class='sub'>A point is run again with the same bits: <code>result.rerun(...)</code> gives the run, "
        '<code>.show("run.html")</code> its 3-D page.</p>'
    )
    table = f"<tr><th>why</th>{head}<th>again</th><th></th></tr>{''.join(rows)}"
    return f"<h2>Notable points</h2>{note}<div class='scroll'><table>{table}</table></div>"


def _numbers(result: Result) -> str:
    """A link to the numbers as a table, embedded in the page if they are few."""
    note = "<code>result.to_dataframe()</code> gives the numbers as a table."
    if result.dims and result.points <= MOST_ROWS:
        whole = [n for n in result.data.data_vars if result.data[n].dims == result.dims]
        frame = result.data[whole].drop_vars(
            [n for n, c in result.data.coords.items() if not set(c.dims) <= {*result.dims}]
        )
        frame = frame.to_dataframe().reset_index()
        frame["outcome"] = ["open" if code < 0 else OUTCOMES[code] for code in frame["outcome"]]
        content = base64.b64encode(frame.to_csv(index=False).encode("utf-8")).decode("ascii")
        name = html_text(safe_name(_title(result), "file"))
        note = f"<a download='{name}.csv' href='data:text/csv;base64,{content}'>All points as CSV</a>. {note}"
    return f"<h2>Numbers</h2><p>{note}</p>"


def _cell(value: np.ndarray, outcome: np.ndarray) -> str:
    """A measure of a point; missing integers are shown as missing floats."""
    return "nan" if value.dtype.kind in "iu" and not valid(value, outcome) else _cell_text(value[()])


def _cell_text(value: Any, quote: bool = False) -> str:
    if isinstance(value, float | np.floating):
        return f"{value:.10g}" if quote else f"{value:.4g}"  # a point is found by the nearest value
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, int | np.integer):
        return str(int(value))
    return repr(str(value)) if quote else str(value)


def _write_runs(result: Result, target: Path, count: int) -> dict[tuple[int, ...], str]:
    """3-D pages of the first listed points."""
    folder = target.parent / f"{target.stem}-runs"
    with typed_errors(target):
        folder.mkdir(exist_ok=True)
    links: dict[tuple[int, ...], str] = {}
    for place in notable_points(result):
        if len(links) == count:
            break
        try:
            run = result.rerun(**{d: _ticks(result.data, d)[i] for d, i in zip(result.dims, place, strict=True)})
        except Exception:
            if int(result.data["outcome"].isel(dict(zip(result.dims, place, strict=True)))) != FAILED:
                raise
            continue  # it has no motion; the page has its cause
        file = folder / f"point-{len(links)}.html"
        if not hasattr(run, "show"):
            continue
        run.show(file)
        links[place] = f"{folder.name}/{file.name}"
    return links
