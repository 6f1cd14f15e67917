"""Formulas of the pages as MathML, which browsers draw themselves: nothing is fetched, and no LaTeX is needed."""

from __future__ import annotations

import re
from html import escape

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

NAME = "mathml"
_TAG = re.compile(r"\\tag\{([^{}]*)\}")
_SIZES = re.compile(r"\\(?:[bB]igg?[lr]?|textstyle|displaystyle)(?![a-zA-Z])")
"""Sizes of brackets and styles, which a browser chooses itself."""
_UNKNOWN = re.compile(r"<m[io]>\\[a-zA-Z]+</m[io]>")


def mathml(source: str, display: bool = False) -> str:
    """A formula; an unknown command raises an error.

    >>> mathml("q' = A(q) v").startswith("<math")
    True
    """
    found = convert(_SIZES.sub("", source), display="block" if display else "inline")
    if lost := _UNKNOWN.search(found):
        raise ValueError(f"the formula {source!r} has {lost[0]}, which is not read")
    return found


def block(source: str) -> str:
    """A formula on its own line, with the number of its equation at the right."""
    tags = _TAG.findall(source)
    number = f'<span class="tag">({escape(", ".join(tags))})</span>' if tags else ""
    return f'<div class="formula">{mathml(_TAG.sub("", source), True)}{number}</div>\n'


def _inline(self: HTML5Translator, node: nodes.math) -> None:
    self.body.append(mathml(node.astext()))
    raise nodes.SkipNode


def _block(self: HTML5Translator, node: nodes.math_block) -> None:
    self.body.append(block(node.astext()))
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_html_math_renderer(NAME, inline_renderers=(_inline, None), block_renderers=(_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
