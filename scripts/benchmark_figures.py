"""The figure of docs/benchmarks.md, drawn from the tables of that page: ``python scripts/benchmark_figures.py``."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "benchmarks.md"
TARGET = ROOT / "docs" / "images" / "benchmarks.png"
OURS, PIN, MUJOCO, EXUDYN = "#0072b2", "#d55e00", "#009e73", "#cc79a7"


def tables(first: str) -> list[list[dict[str, str]]]:
    """All tables of the page whose first column is called ``first``, as rows by column."""
    found: list[list[dict[str, str]]] = []
    for block in re.findall(r"(?:^\|.*\|\n)+", PAGE.read_text(encoding="utf-8"), re.MULTILINE):
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines()]
        if rows[0][0] == first:
            found.append([dict(zip(rows[0], row, strict=True)) for row in rows[2:]])
    if not found:
        raise SystemExit(f"docs/benchmarks.md has no table that begins with {first!r}")
    return found


def number(text: str) -> float:
    """The first number of a cell."""
    match = re.search(r"[\d.]+(?:e-?\d+)?", text)
    if match is None:
        raise SystemExit(f"no number in the cell {text!r} of docs/benchmarks.md")
    return float(match[0])


def main() -> int:
    """Draw and write the figure."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    forward = next(table for table in tables("system") if "arrays / pin" in table[0])
    chains, free = tables("links")[0], tables("accuracy")[0]
    fig, (left, middle, right) = plt.subplots(ncols=3, figsize=(12, 3.8), layout="constrained")
    for k, (name, color) in enumerate((("arrays", OURS), ("pin", PIN), ("mujoco", MUJOCO))):
        values = [number(row[name]) for row in forward]
        bars = left.bar([j + 0.27 * (k - 1) for j in range(len(values))], values, 0.27, color=color)
        left.bar_label(bars, fmt="%.0f", fontsize=7)
        bars.set_label("heavytop" if name == "arrays" else name)
    left.set(yscale="log", ylabel="ns per state", title="forward dynamics, batch of 4096")
    left.set_xticks(range(len(forward)), [row["system"] for row in forward], fontsize=8)
    left.legend(fontsize=8)
    links = [number(row["links"]) for row in chains]
    for name, color, mark in (("arrays, ns", OURS, "o-"), ("pin, ns", PIN, "s-")):
        label = "heavytop" if color == OURS else "pin"
        middle.loglog(links, [number(row[name]) for row in chains], mark, color=color, label=label)
    middle.set(xlabel="links of a chain", ylabel="ns per state", title="work grows linearly")
    middle.set_xticks(links, [f"{n:.0f}" for n in links])
    middle.minorticks_off()
    middle.legend(fontsize=8)
    accuracy = [number(row["accuracy"]) for row in free]
    for name, color, mark in (("exudyn RK44", EXUDYN, "o-"), ("exudyn RK67", PIN, "s-"), ("mujoco RK4", MUJOCO, "^-")):
        right.loglog(accuracy, [number(row[name]) for row in free], mark, color=color, label=name)
    right.axhline(1.0, color="#888888", lw=0.8)
    right.invert_xaxis()
    right.set(xlabel="error after 1 s", ylabel="time of the loop / ours", title="free body, unstable rotation")
    right.legend(fontsize=8)
    fig.savefig(TARGET, dpi=110)
    print(f"wrote {TARGET.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
