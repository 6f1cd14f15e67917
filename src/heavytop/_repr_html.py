"""What a notebook shows of an object: one overview, written as an HTML table or as LaTeX."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

FEW = 8
"""Names that are listed before the rest is only counted."""


@dataclass(frozen=True)
class Overview:
    """A title, rows of (what, value), and a formula in LaTeX (without dollars) if there is one."""

    title: str
    rows: tuple[tuple[str, str], ...]
    formula: str = ""

    def html(self) -> str:
        """A table; mathematics is left to the notebook.

        >>> Overview("rod", ()).html()
        '<table><caption style="caption-side:top;text-align:left;font-weight:bold">rod</caption></table>'
        """
        left = ' style="text-align:left"'
        body = "".join(
            f"<tr><td{left}>{escape(what)}</td><td{left}>{escape(value)}</td></tr>" for what, value in self.rows
        )
        caption = f'<caption style="caption-side:top;text-align:left;font-weight:bold">{escape(self.title)}</caption>'
        formula = f"<div>$$\\displaystyle {escape(self.formula, quote=False)}$$</div>" if self.formula else ""
        return f"<table>{caption}{body}</table>{formula}"

    def latex(self) -> str:
        r"""An array of texts, followed by the formula.

        >>> print(Overview("rod", (("mass", "2 kg"),)).latex())
        $\begin{array}{ll}\textbf{rod} & \\ \text{mass} & \text{2 kg}\end{array}$
        """
        lines = [rf"\textbf{{{_plain(self.title)}}} & "]
        lines += [rf"\text{{{_plain(what)}}} & \text{{{_plain(value)}}}" for what, value in self.rows]
        table = r"\begin{array}{ll}" + r"\\ ".join(lines) + r"\end{array}"
        return f"$\\begin{{gathered}}{table}\\\\ {self.formula}\\end{{gathered}}$" if self.formula else f"${table}$"


class Shown:
    """An object that a notebook shows by its :meth:`_overview`."""

    def _overview(self) -> Overview:
        return Overview(type(self).__name__, ())

    def _repr_html_(self) -> str:
        return self._overview().html()

    def _repr_latex_(self) -> str:
        return self._overview().latex()


_SPECIAL = {"\\": r"\backslash{}", "{": r"\{", "}": r"\}", "^": r"\^{}", "~": r"\~{}"} | {c: f"\\{c}" for c in "#$%&_"}


def _plain(text: str) -> str:
    """A text inside ``\\text{}``."""
    return "".join(_SPECIAL.get(c, c) for c in text)


def listed(names: Iterable[str]) -> str:
    """Names in a row, the rest counted.

    >>> listed("abc"), listed(str(k) for k in range(10))
    ('a, b, c', '0, 1, 2, 3, 4, 5, 6, 7 and 2 more')
    """
    every = list(names)
    return ", ".join(every[:FEW]) + (f" and {len(every) - FEW} more" if len(every) > FEW else "") or "none"


def matrix_latex(matrix: Any) -> str:
    r"""A matrix of numbers or symbols.

    >>> matrix_latex([[1.0, 0.25], [0.25, 2.0]])
    '\\begin{bmatrix}1 & 0.25\\\\ 0.25 & 2\\end{bmatrix}'
    """
    rows = np.asarray(matrix).tolist() if not hasattr(matrix, "elements") else [list(row) for row in matrix]
    cell = lambda x: f"{x:.4g}" if isinstance(x, int | float) else _plain(str(x))  # noqa: E731
    return r"\begin{bmatrix}" + r"\\ ".join(" & ".join(map(cell, row)) for row in rows) + r"\end{bmatrix}"
