"""Text of values, names and counts: for representations, messages, source code, LaTeX, HTML and file names."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from html import escape
from typing import Any, Literal

import numpy as np

from heavytop._arrays import is_symbolic

Target = Literal["c", "python", "symbol", "file"]
_MOST_ENTRIES = 16
"""Arrays with more entries are shown by their shape."""

# --- values ---------------------------------------------------------------------------------------------------------


def brief(value: Any) -> str:
    """Short text of a value: six digits, arrays as tuples or by their shape, functions by their names.

    >>> brief(np.array([0.1, 2.0, 1 / 3])), brief(np.zeros((400, 3))), brief(np.sin), brief({"rest": 0.5})
    ('(0.1, 2, 0.333333)', 'array (400, 3)', 'sin', "{'rest': 0.5}")
    """
    if is_symbolic(value):
        text = str(value)
        return text if len(text) <= 40 else f"symbols {value.shape}"
    if isinstance(value, float | np.floating):
        return f"{value:.6g}"
    if isinstance(value, np.ndarray):
        if value.size > _MOST_ENTRIES:
            return f"array {value.shape}"
        return brief(value.tolist()) if value.ndim else brief(value[()])
    if isinstance(value, tuple | list):
        return f"({', '.join(map(brief, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key!r}: {brief(item)}' for key, item in value.items())}}}"
    if callable(value) and not isinstance(value, type) and hasattr(value, "__name__"):
        return value.__name__.strip("<>")
    return repr(value)


class Brief:
    """A dataclass (with ``repr=False``) whose representation lists the fields that differ from their defaults."""

    def __repr__(self) -> str:
        kept = [f for f in fields(self) if f.repr and not _is_default(getattr(self, f.name), f.default)]  # type: ignore[arg-type]
        return f"{type(self).__name__}({', '.join(f'{f.name}={brief(getattr(self, f.name))}' for f in kept)})"


def _is_default(value: Any, default: Any) -> bool:
    if default is MISSING or is_symbolic(value):
        return False
    try:
        return value is default or bool(np.array_equal(value, default))
    except (TypeError, ValueError):
        return False


def format_vector(values: Sequence[float] | np.ndarray, digits: int = 4, most: int = 8) -> str:
    """Numbers in parentheses, at most the first ``most``.

    >>> format_vector([1.0, 1 / 3]), format_vector(np.arange(9.0), most=3)
    ('(1, 0.3333)', '(0, 1, 2, ...)')
    """
    shown = [f"{float(x):.{digits}g}" for x in values[:most]]
    return f"({', '.join([*shown, '...'] if len(values) > most else shown)})"


def counted(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun.

    >>> counted(1, "input"), counted(2000, "input"), counted(0, "body")
    ('1 input', '2,000 inputs', '0 bodies')
    """
    plural = plural or (f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s")
    return f"{number:,} {noun if number == 1 else plural}"


def listed(names: Iterable[str], most: int = 8) -> str:
    """Names separated by commas, at most the first ``most``.

    >>> listed("abc"), listed(str(k) for k in range(10))
    ('a, b, c', '0, 1, 2, 3, 4, 5, 6, 7 and 2 more')
    """
    every = list(names)
    return ", ".join(every[:most]) + (f" and {len(every) - most} more" if len(every) > most else "") or "none"


def shortened(text: str, length: int = 60) -> str:
    """The text, cut to ``length`` characters.

    >>> shortened("a long text", 8)
    'a lon...'
    """
    return text if len(text) <= length else text[: length - 3] + "..."


# --- markup ---------------------------------------------------------------------------------------------------------

_LATEX = {c: f"\\{c}" for c in "{}$&#_%"} | {
    "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
}


def printable(text: str) -> str:
    """The text without control characters."""
    return "".join(c for c in text if c.isprintable())


def latex_text(text: str) -> str:
    r"""The text with LaTeX's special characters escaped.

    >>> print(latex_text("50 % of a_1"))
    50 \% of a\_1
    """
    return "".join(_LATEX.get(c, c) for c in printable(text))


def html_text(text: str) -> str:
    """The text with HTML's special characters escaped, without control characters.

    >>> html_text("<b>")
    '&lt;b&gt;'
    """
    return escape("".join(c for c in text if c.isprintable() or c in "\n\t"))


# --- identifiers and file names -------------------------------------------------------------------------------------

_C = frozenset(
    """auto break case char const continue default do double else enum extern float for goto if inline int long main
    register restrict return short signed sizeof static struct switch typedef union unsigned void volatile while
    alignas alignof and and_eq asm atomic bitand bitor bool catch class compl concept const_cast constexpr decltype
    delete dynamic_cast explicit export false friend mutable namespace new noexcept not not_eq nullptr operator or
    or_eq private protected public reinterpret_cast requires static_assert static_cast template this thread_local
    throw true try typeid typename typeof using virtual wchar_t xor xor_eq NULL EOF NAN INFINITY HUGE_VAL HUGE_VALF
    HUGE_VALL FP_NAN FP_INFINITE FP_ZERO FP_SUBNORMAL FP_NORMAL FP_FAST_FMA FP_FAST_FMAF FP_FAST_FMAL FP_ILOGB0
    FP_ILOGBNAN MATH_ERRNO MATH_ERREXCEPT math_errhandling MAXFLOAT BUFSIZ FILENAME_MAX FOPEN_MAX L_tmpnam SEEK_CUR
    SEEK_END SEEK_SET TMP_MAX stdin stdout stderr size_t va_list fpos_t FILE float_t double_t linux unix i386
    acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 expm1 fabs fdim floor fma
    fmax fmin fmod fpclassify frexp gamma hypot ilogb isfinite isgreater isgreaterequal isinf isless islessequal
    islessgreater isnan isnormal isunordered j0 j1 jn ldexp lgamma llrint llround log log10 log1p log2 logb lrint
    lround modf nan nearbyint nextafter nexttoward pow remainder remquo rint round scalb scalbln scalbn signbit
    signgam significand sin sinh sqrt tan tanh tgamma trunc y0 y1 yn drem finite pow10 exp10
    printf puts putchar getchar fopen fclose remove rename tmpfile fflush setbuf scanf perror rewind feof ferror
    abs labs div exit abort malloc free calloc realloc rand srand system qsort index rindex bcopy bzero time clock
    signal raise read write open close memcpy memset memmove memcmp strlen strcpy
    difference worst scale failed got expected""".split()  # noqa: SIM905
)
"""Keywords of C and C++, macros and functions of the headers included by the export, and names in its test program."""
_MATH_VARIANT = re.compile(r"(.*?)[fl]")  # sinf, sinl
_C_LOCAL = re.compile(r"w\d+|y\d+|[kdn]")
_PYTHON = frozenset({*keyword.kwlist, *keyword.softkwlist, "np", "batch", "erf", "float"})
_PYTHON_LOCAL = re.compile(r"t\d+")
_DEVICES = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)


def safe_names(names: Iterable[str], target: Target, taken: Iterable[str] = ()) -> list[str]:
    """Valid names for the target, all different and none of them in ``taken``.

    Parameters
    ----------
    target : "c" and "python" give identifiers, "symbol" identifiers for reading (numbered where they repeat, no reserved words), "file" one
        component of a path.

    Examples
    --------
    >>> safe_names(["arm/joint 2", "for", "2x", "sin", "a b", "a_b"], "c")
    ['arm_joint_2', 'for_', '_2x', 'sin_', 'a_b', 'a_b_']
    >>> safe_names(["lambda", "np"], "python"), safe_names(["a b", "a_b", "lambda"], "symbol")
    (['lambda_', 'np_'], ['a_b', 'a_b_2', 'lambda'])
    >>> safe_names(["../x", "nul", ""], "file")
    ['.._x', '_nul', '_']
    """
    used = set(taken)
    result = []
    for name in names:
        base = text = _valid_characters(str(name), target)
        number = 1
        while text in used or _reserved(text, target):
            number += 1
            text = f"{base}_{number}" if target == "symbol" else f"{text}_"
        used.add(text)
        result.append(text)
    return result


def safe_name(name: str, target: Target, taken: Iterable[str] = ()) -> str:
    """One name; see :func:`safe_names`."""
    return safe_names([name], target, taken)[0]


def _valid_characters(name: str, target: Target) -> str:
    if target == "file":
        text = re.sub(r"[^\w.+-]", "_", name)[:100]
        text = "_" + text if _DEVICES.fullmatch(text) else text
        return text if text.strip(".") else text.replace(".", "_") + "_"
    if target == "symbol":
        return re.sub(r"\W", "_", name) or "_"
    text = re.sub(r"\W", "_", name, flags=re.ASCII)
    if target == "c" and text.upper().startswith("HEAVYTOP"):  # include guards
        return "x_" + text
    return "_" + text if not text or text[0].isdigit() else text


def _reserved(text: str, target: Target) -> bool:
    if target == "c":
        variant = _MATH_VARIANT.fullmatch(text)
        return text in _C or bool(variant and variant[1] in _C) or _C_LOCAL.fullmatch(text) is not None
    return target == "python" and (text in _PYTHON or _PYTHON_LOCAL.fullmatch(text) is not None)


# --- pages of notebooks ----------------------------------------------------------------------------------------------------


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
