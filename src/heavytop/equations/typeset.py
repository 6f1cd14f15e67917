"""Equations of motion as text for a terminal and as LaTeX."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import accumulate
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from heavytop._format import latex_text
from heavytop.errors import ModelError

if TYPE_CHECKING:
    from heavytop.equations.equations import Equations

FULL_MATRIX_UP_TO = 36
"""Largest number of entries of a matrix that LaTeX shows as a matrix; larger ones are listed by entry."""
SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
SUPERSCRIPTS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
LETTERS = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau upsilon phi chi psi omega"
CAPITALS = "Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega"
GREEK = frozenset(f"{LETTERS} {CAPITALS}".split(" "))


def _split(name: str) -> tuple[str, bool, str]:
    """Base, dot and subscript of a symbol's name: ``thetadot_1`` is theta, dotted, 1."""
    match = re.fullmatch(r"([A-Za-z]+?)(dot)?(?:_(.*)|(\d+))?", name)
    if match is None:
        return name, False, ""
    base, dot, after, digits = match.groups()
    return base, bool(dot), after or digits or ""


@cache
def _greek_letters() -> dict[str, str]:
    from unicodedata import lookup

    def letter(word: str) -> str:
        case = "SMALL" if word.islower() else "CAPITAL"
        return lookup(f"GREEK {case} LETTER {'LAMDA' if word.lower() == 'lambda' else word.upper()}")

    return {word: letter(word) for word in GREEK}


def unicode_name(name: str) -> str:
    """A symbol's name for a terminal: Greek letters, subscript digits, for rates a dot above a letter or a prime after a word.

    >>> unicode_name("theta_1"), unicode_name("omega_load_x"), unicode_name("x12"), unicode_name("crankdot_2")
    ('θ₁', 'ω_load_x', 'x₁₂', "crank₂'")
    """
    base, dot, sub = _split(name)
    letters = _greek_letters().get(base, base)
    word = len(letters) > 1
    letters += "\N{COMBINING DOT ABOVE}" if dot and not word else ""
    letters += (sub.translate(SUBSCRIPTS) if sub.isdigit() else f"_{sub}") if sub else ""
    return letters + ("'" if dot and word else "")


def latex_name(name: str, rate: bool = False) -> str:
    r"""A symbol's name in LaTeX, or that of its rate, with the dot on the letter.

    >>> print(latex_name("thetadot_1"), latex_name("omega_load_x"), latex_name("L_r"), latex_name("R_xx", rate=True))
    \dot{\theta}_{1} \omega_{\mathrm{load},x} L_{r} \dot{R}_{xx}
    """
    base, dot, sub = _split(name)
    letters = f"\\{base}" if base in GREEK else _latex_word(base)
    dots = bool(dot) + rate
    letters = f"\\{'d' * dots}ot{{{letters}}}" if dots else letters
    parts = [_latex_word(part) for part in sub.split("_") if part]
    return f"{letters}_{{{','.join(parts)}}}" if parts else letters


def _latex_word(word: str) -> str:
    safe = latex_text(word)
    return safe if len(word) == 1 or word.isdigit() or re.fullmatch(r"[xyz]+|[a-z]\d+", word) else f"\\mathrm{{{safe}}}"


@cache
def _printer() -> Any:
    """SymPy's printer for one line, with Greek letters, raised exponents and dots between factors."""
    from sympy.printing.str import StrPrinter

    class Printer(StrPrinter):
        def _print_Symbol(self, expr: Any) -> str:
            return unicode_name(expr.name)

        def _print_Float(self, expr: Any) -> str:
            return f"{float(expr):.12g}"

        def _print_Pow(self, expr: Any, rational: bool = False) -> str:
            base, exponent = expr.as_base_exp()
            if exponent.is_Integer and exponent > 1:
                inner = self._print(base)
                simple = base.is_Symbol or base.is_Function
                return (inner if simple else f"({inner})") + str(int(exponent)).translate(SUPERSCRIPTS)
            return super()._print_Pow(expr, rational=rational)

        def _print_Mul(self, expr: Any) -> str:
            return super()._print_Mul(expr).replace("*", "·")

    return Printer()


def line(expression: Any, unicode: bool) -> str:
    """An expression on one line."""
    if unicode:
        return _printer().doprint(expression)
    from sympy import sstr

    return sstr(expression, full_prec=False)


def entries(matrix: Any, symmetric: bool) -> Iterator[tuple[tuple[int, ...], Any]]:
    """Indices, counted from one, and values of the entries that are not zero; the upper triangle of a symmetric matrix."""
    rows, columns = matrix.shape
    for i in range(rows):
        for j in range(i if symmetric else 0, columns):
            if matrix[i, j] != 0:
                yield ((i + 1,) if columns == 1 else (i + 1, j + 1)), matrix[i, j]


def form(equations: Equations, present: Iterable[str] | None = None) -> str:
    """The equation of motion with the terms that occur."""
    shown = set(occurring(equations) if present is None else present)
    left = ["M a", *(term for name, term in LEFT.items() if name in shown)]
    right = [term for name, term in RIGHT.items() if name in shown]
    return f"{' + '.join(left)} = {' + '.join(right) or '0'}"


LEFT = {"c": "c", "D": "D v", "fK": "fK", "fG": "fG"}
RIGHT = {"B": "B u", "f": "f", "Phi": "Phi^T lam", "F": "F N"}
SYMMETRIC = ("M", "D")


HEADINGS = {
    "M": "mass matrix M",
    "c": "Coriolis and gyroscopic forces c",
    "D": "damping matrix D",
    "fK": "forces of springs and potentials fK",
    "fG": "forces of gravity fG",
    "B": "input matrix B",
    "f": "other forces f",
    "Phi": "rows Phi of loops and constraints, Phi v + b = 0",
    "b": "drift b of loops and constraints",
    "F": "friction F per unit of the reactions N",
    "P": "rows P of the reactions of friction",
}


def _latex_form(plain: str) -> str:
    for old, new in (
        ("M a", "M \\dot{v}"),
        ("fK", "f^K"),
        ("fG", "f^G"),
        ("Phi^T lam", "\\Phi^\\top \\lambda"),
        (" = ", " &= "),
    ):
        plain = plain.replace(old, new)
    return plain


def occurring(equations: Equations) -> list[str]:
    """Names of the quantities with an entry that is not zero."""
    return [name for name, matrix in equations.compact.items() if any(entry != 0 for entry in matrix)]


def rates(equations: Equations) -> list[tuple[Any, Any]]:
    """Coordinates and their rates A v, without those whose rate is a velocity coordinate."""
    A, v = equations.compact["A"], equations.v[:]
    pairs = [
        (equations.q[i], sum((A[i, j] * v[j] for j in range(len(v))), start=0 * v[0])) for i in range(len(equations.q))
    ]
    return [(q, rate) for q, rate in pairs if rate not in v]


def text(equations: Equations, unicode: bool = True, width: int = 100) -> str:
    """One line per entry that is not zero."""
    if not width >= 1:  # textwrap does not terminate for NaN
        raise ModelError(f"width of the text must be at least 1 character, got {width!r}.")
    compact = equations.compact
    present = occurring(equations)
    shown = lambda x: line(x, unicode)  # noqa: E731
    lines = [f"{equations.name}: {form(equations, present)}", ""]

    def paragraph(label: str, content: str) -> None:
        joined = f"{label} = {content}"
        indent = " " * (len(label) + 5 if len(label) < 12 else 8)
        lines.extend(
            wrap(joined, width, initial_indent="  ", subsequent_indent=indent, break_long_words=False) or [label]
        )

    for label, column in (("q", equations.q), ("v", equations.v), ("u", equations.u)):
        if len(column):
            paragraph(label, f"({', '.join(shown(s) for s in column)})")
    turning = rates(equations)
    if turning:
        lines += ["", "  rates q' = A v of the coordinates whose rate is not a velocity coordinate:"]
        for symbol, rate in turning:
            paragraph(f"{shown(symbol)}'", shown(rate))
    if equations.definitions:
        lines += ["", f"  with {len(equations.definitions)} common subexpressions:"]
        for symbol, expression in equations.definitions:
            paragraph(shown(symbol), shown(expression))
    for name, heading in HEADINGS.items():
        if name not in present:
            continue
        mirrored = name in SYMMETRIC and len(equations.v) > 1
        if name == "Phi" and "b" not in present:
            heading = heading.replace(" + b", "")
        lines += ["", f"  {heading}" + (" (symmetric)" if mirrored else "")]
        if name == "P":
            lines += [f"  N[{k + 1}] = |(P lam)[{rows}]|" for k, rows in enumerate(_rows_of_frictions(equations))]
        for index, entry in entries(compact[name], name in SYMMETRIC):
            paragraph(f"{name}[{','.join(map(str, index))}]", shown(entry))
    if "phi" in present:
        lines += ["", "  constraints phi(q) = 0"]
        for index, entry in entries(compact["phi"], False):
            paragraph(f"phi[{index[0]}]", shown(entry))
    return "\n".join(lines)


def _rows_of_frictions(equations: Equations) -> list[str]:
    """For each friction its rows of P, counted from one: ``1`` or ``2..4``."""
    ends = list(accumulate(equations.friction_rows))
    return [
        f"{end}" if n == 1 else f"{end - n + 1}..{end}" for n, end in zip(equations.friction_rows, ends, strict=True)
    ]


def latex_parts(equations: Equations) -> list[list[str]]:
    """Lines of LaTeX in parts: the form with q, v, u, then rates, definitions and each quantity that occurs."""
    import sympy

    symbols = [*equations.q, *equations.v, *equations.u, *equations.p, *(s for s, _ in equations.definitions)]
    names = {symbol: latex_name(symbol.name) for symbol in symbols}
    show = lambda x: sympy.latex(x, symbol_names=names, mat_str="bmatrix", mat_delim="")  # noqa: E731
    present = occurring(equations)
    columns = (("q", equations.q), ("v", equations.v), ("u", equations.u))
    parts = [[_latex_form(form(equations, present))]]
    parts[0] += [f"{label} &= {show(column)}" for label, column in columns if len(column)]
    parts.append(
        [f"{latex_name(q.name, rate=True)} &= {show(rate)}" for q, rate in rates(equations)] if "A" in present else []
    )
    parts.append([f"{names[symbol]} &= {show(expression)}" for symbol, expression in equations.definitions])
    for name in present:
        if name == "A":
            continue
        matrix, label = equations.compact[name], LATEX_LABELS.get(name, name)
        if name == "phi":
            parts.append([f"{show(entry)} &= 0" for _, entry in entries(matrix, False)])
        elif len(matrix) <= FULL_MATRIX_UP_TO:
            parts.append([f"{label} &= {show(matrix)}"])
        else:
            listed = entries(matrix, name in SYMMETRIC)
            parts.append([f"{label}_{{{','.join(map(str, index))}}} &= {show(entry)}" for index, entry in listed])
        if name == "Phi":
            parts[-1].append("\\Phi v + b &= 0" if "b" in present else "\\Phi v &= 0")
        if name == "P":
            for k, rows in enumerate(_rows_of_frictions(equations)):
                place = rows.replace("..", r" \ldots ")
                parts[-1].append(f"N_{{{k + 1}}} &= \\lVert (P \\lambda)_{{{place}}} \\rVert")
    return [part for part in parts if part]


LATEX_LABELS = {"fK": "f^K", "fG": "f^G", "Phi": "\\Phi"}


def latex_document(equations: Equations) -> str:
    """A LaTeX document with the equations, which breaks between lines."""
    parts = ["\\begin{align*}\n" + " \\\\\n".join(part) + "\n\\end{align*}" for part in latex_parts(equations)]
    values = [
        f"{latex_name(str(s))} = {p.value:.6g}"
        for s, p in zip(equations.p, equations.model.description.parameters, strict=True)
        if not p.is_time
    ]
    body = [f"\\section*{{{latex_text(equations.name)}}}", *parts]
    if values:
        body.append("Parameters: $" + "$, $".join(values) + "$.")
    return "\n".join([*PREAMBLE, "\\begin{document}", *body, "\\end{document}", ""])


PREAMBLE = (
    "\\documentclass[a4paper]{article}",
    "\\usepackage{amsmath}",
    "\\setlength{\\textwidth}{17cm}",
    "\\setlength{\\oddsidemargin}{-0.5cm}",
    "\\setlength{\\textheight}{24cm}",
    "\\setlength{\\topmargin}{-1.5cm}",
    "\\setcounter{MaxMatrixCols}{40}",
    "\\allowdisplaybreaks",
)
"""Matrices of SymPy have up to 40 columns."""


def aligned(rows: Iterable[str]) -> str:
    """Lines in an ``aligned`` environment."""
    return "\\begin{aligned}\n" + " \\\\\n".join(rows) + "\n\\end{aligned}"
