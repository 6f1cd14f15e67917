"""Benchmark reports: rows of figures, ratios with their targets, notes on the method."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

Figure = float | int | str


@dataclass(frozen=True)
class Ratio:
    """A figure with its target; ``at_least`` states whether the target is a lower bound.

    Ratios of speed are dimensionless; a limit on a time carries its unit.

    >>> Ratio("ours / theirs", 20.0, target=18.0).met, Ratio("wait", 2.0, 1.5, at_least=False, unit="s").met
    (True, False)
    """

    name: str
    value: float
    target: float | None = None
    at_least: bool = True
    unit: str = "x"

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None without a target."""
        if self.target is None:
            return None
        return self.value >= self.target if self.at_least else self.value <= self.target

    def to_json(self) -> dict[str, Any]:
        """The ratio as plain data."""
        return {**asdict(self), "met": self.met}


@dataclass
class BenchReport:
    """Figures of one benchmark.

    Attributes
    ----------
    rows : one mapping of column -> figure per measured thing; the units are in the names of the columns.
    missing : peers that are not installed, so their figures and ratios are absent.

    Examples
    --------
    >>> report = BenchReport("name", "title", rows=[{"system": "panda", "ns": 90.0}])
    >>> report.ratio("panda / peer", 24.0, target=18.0)
    >>> report.unmet
    []
    """

    name: str
    title: str
    rows: list[dict[str, Figure]] = field(default_factory=list)
    ratios: list[Ratio] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    def row(self, **figures: Figure) -> None:
        """Add a row."""
        self.rows.append(figures)

    def ratio(self, name: str, value: float, target: float | None = None) -> None:
        """Add a ratio of speeds that should be at least ``target``."""
        self.ratios.append(Ratio(name, value, target))

    def limit(self, name: str, value: float, target: float, unit: str) -> None:
        """Add a figure that should be at most ``target``."""
        self.ratios.append(Ratio(name, value, target, at_least=False, unit=unit))

    @property
    def unmet(self) -> list[Ratio]:
        """Ratios that do not meet their targets."""
        return [ratio for ratio in self.ratios if ratio.met is False]

    def to_json(self) -> dict[str, Any]:
        """The report as plain data."""
        return {
            "title": self.title,
            "rows": self.rows,
            "ratios": {ratio.name: ratio.to_json() for ratio in self.ratios},
            "notes": self.notes,
            "missing": self.missing,
        }

    def text(self) -> str:
        """The report as plain text."""
        lines = [f"{self.name}: {self.title}"]
        columns = list(dict.fromkeys(key for row in self.rows for key in row))
        if columns:
            lines += _table([columns, *([show(row.get(c, "")) for c in columns] for row in self.rows)])
        if self.ratios:
            rows = [["ratio", "value", "target", "met"]]
            rows += [
                [r.name, f"{show(r.value)} {r.unit}", _target(r), {None: "", True: "yes", False: "no"}[r.met]]
                for r in self.ratios
            ]
            lines += ["", *_table(rows)]
        lines += [f"  note: {note}" for note in self.notes]
        if self.missing:
            lines.append(f"  not installed, so not compared: {', '.join(self.missing)} (pip install 'heavytop[peers]')")
        return "\n".join(lines)


def show(figure: Figure) -> str:
    """A figure with three significant digits.

    >>> show(1234.5), show(0.012345), show("panda"), show(7)
    ('1230', '0.0123', 'panda', '7')
    """
    if not isinstance(figure, float):
        return str(figure)
    return f"{float(f'{figure:.3g}'):.10g}"


def _target(ratio: Ratio) -> str:
    if ratio.target is None:
        return ""
    return f"{'>=' if ratio.at_least else '<='} {show(ratio.target)}"


def _table(rows: list[list[str]]) -> list[str]:
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    aligned = [
        "  "
        + "  ".join(cell.rjust(w) if k else cell.ljust(w) for k, (cell, w) in enumerate(zip(row, widths, strict=True)))
        for row in rows
    ]
    return [aligned[0], "  " + "  ".join("-" * w for w in widths), *aligned[1:]]


def whole(reports: Mapping[str, BenchReport], machine: Mapping[str, Any]) -> dict[str, Any]:
    """One JSON object: the machine, and every benchmark by name."""
    return {"machine": dict(machine), "benchmarks": {name: report.to_json() for name, report in reports.items()}}
