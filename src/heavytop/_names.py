"""Names that are safe where they are written: C, Python source, symbols of equations, LaTeX, HTML, file names.

One function makes them, always distinct from each other and from what the target reserves.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable
from typing import Literal

Target = Literal["c", "python", "symbol", "latex", "html", "file"]

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
"""Keywords of C and C++, macros and functions of the headers that the export includes, and the names of its own test."""
_MATH_VARIANT = re.compile(r"(.*?)[fl]")
_C_LOCAL = re.compile(r"w\d+|y\d+|[kdn]")
_PYTHON = frozenset({*keyword.kwlist, *keyword.softkwlist, "np", "batch", "erf", "float"})
_PYTHON_LOCAL = re.compile(r"t\d+")
_DEVICES = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)
_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "^": r"\textasciicircum{}",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "%": r"\%",
}


def safe_names(names: Iterable[str], target: Target, taken: Iterable[str] = ()) -> list[str]:
    """The names as the target can take them, each unlike the others and unlike ``taken``.

    Parameters
    ----------
    target : "c" and "python" give identifiers, "symbol" identifiers for reading (numbered where they repeat, no word is reserved), "file" a
        part of a path, "latex" and "html" text without commands.

    Examples
    --------
    >>> safe_names(["arm/joint 2", "for", "2x", "sin", "a b", "a_b"], "c")
    ['arm_joint_2', 'for_', '_2x', 'sin_', 'a_b', 'a_b_']
    >>> safe_names(["lambda", "np"], "python"), safe_names(["<b>"], "html"), safe_names(["50 %"], "latex")
    (['lambda_', 'np_'], ['&lt;b&gt;'], ['50 \\\\%'])
    >>> safe_names(["a b", "a_b", "lambda"], "symbol")
    ['a_b', 'a_b_2', 'lambda']
    >>> safe_names(["../x", "nul", ""], "file")
    ['.._x', '_nul', '_']
    """
    used = set(taken)
    result = []
    for name in names:
        base = text = _text(str(name), target)
        number = 1
        while text in used or _reserved(text, target):
            number += 1
            text = f"{base}_{number}" if target == "symbol" else text + (r"\_" if target == "latex" else "_")
        used.add(text)
        result.append(text)
    return result


def safe_name(name: str, target: Target, taken: Iterable[str] = ()) -> str:
    """One name; see :func:`safe_names`."""
    return safe_names([name], target, taken)[0]


def _text(name: str, target: Target) -> str:
    if target == "html":
        from html import escape

        return escape("".join(c for c in name if c.isprintable() or c in "\n\t"))
    if target == "latex":
        return "".join(_LATEX.get(c, c) for c in name if c.isprintable())
    if target == "file":
        text = re.sub(r"[^\w.+-]", "_", name)[:100]
        text = "_" + text if _DEVICES.fullmatch(text) else text
        return text if text.strip(".") else text.replace(".", "_") + "_"
    if target == "symbol":
        return re.sub(r"\W", "_", name) or "_"
    text = re.sub(r"\W", "_", name, flags=re.ASCII)
    if target == "c" and text.upper().startswith("HEAVYTOP"):  # the guards of the headers
        return "x_" + text
    return "_" + text if not text or text[0].isdigit() else text


def _reserved(text: str, target: Target) -> bool:
    if target == "c":
        variant = _MATH_VARIANT.fullmatch(text)  # sinf, sinl
        return text in _C or bool(variant and variant[1] in _C) or _C_LOCAL.fullmatch(text) is not None
    return target == "python" and (text in _PYTHON or _PYTHON_LOCAL.fullmatch(text) is not None)
