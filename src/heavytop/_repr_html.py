"""Notebook representations: an overview of an object as an HTML table or as LaTeX."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from heavytop._format import latex_text


@dataclass(frozen=True)
class Overview:
    """A title, rows of (label, value), and a formula in LaTeX without dollar signs (may be empty)."""

    title: str
    rows: tuple[tuple[str, str], ...]
    formula: str = ""

    def html(self) -> str:
        """A table; the notebook typesets the formula.

        >>> Overview("rod", ()).html()
        '<table><caption style="caption-side:top;text-align:left;font-weight:bold">rod</caption></table>'
        """
        left = ' style="text-align:left"'
        body = "".join(
            f"<tr><td{left}>{escape(label)}</td><td{left}>{escape(value)}</td></tr>" for label, value in self.rows
        )
        caption = f'<caption style="caption-side:top;text-align:left;font-weight:bold">{escape(self.title)}</caption>'
        formula = f"<div>$$\\displaystyle {escape(self.formula, quote=False)}$$</div>" if self.formula else ""
        return f"<table>{caption}{body}</table>{formula}"

    def latex(self) -> str:
        r"""A table of texts, followed by the formula.

        >>> print(Overview("rod", (("mass", "2 kg"),)).latex())
        $\begin{array}{ll}\textbf{rod} & \\ \text{mass} & \text{2 kg}\end{array}$
        """
        lines = [rf"\textbf{{{latex_text(self.title)}}} & "]
        lines += [rf"\text{{{latex_text(label)}}} & \text{{{latex_text(value)}}}" for label, value in self.rows]
        table = r"\begin{array}{ll}" + r"\\ ".join(lines) + r"\end{array}"
        return f"$\\begin{{gathered}}{table}\\\\ {self.formula}\\end{{gathered}}$" if self.formula else f"${table}$"


class Shown:
    """An object shown in notebooks by its :meth:`_overview`."""

    def _overview(self) -> Overview:
        return Overview(type(self).__name__, ())

    def _repr_html_(self) -> str:
        return self._overview().html()

    def _repr_latex_(self) -> str:
        return self._overview().latex()


def matrix_latex(matrix: Any) -> str:
    r"""A matrix of numbers or symbols.

    >>> matrix_latex([[1.0, 0.25], [0.25, 2.0]])
    '\\begin{bmatrix}1 & 0.25\\\\ 0.25 & 2\\end{bmatrix}'
    """
    rows = np.asarray(matrix).tolist() if not hasattr(matrix, "elements") else [list(row) for row in matrix]
    cell = lambda x: f"{x:.4g}" if isinstance(x, int | float) else latex_text(str(x))  # noqa: E731
    return r"\begin{bmatrix}" + r"\\ ".join(" & ".join(map(cell, row)) for row in rows) + r"\end{bmatrix}"
