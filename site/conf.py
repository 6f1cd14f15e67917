"""Settings of Sphinx for the site; ``python site/build.py`` prepares the pages and runs it."""

from pathlib import Path
from typing import Any

from reference import escaped
from sphinx.application import Sphinx

from heavytop import __version__

HERE = Path(__file__).parent
project, author, release = "heavytop", "the authors of heavytop", __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "numpydoc", "formulas"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
myst_heading_anchors = 4
myst_enable_extensions = ["dollarmath"]
myst_dmath_allow_space = False  # "$ command" is not a formula
html_math_renderer = "mathml"
exclude_patterns = ["gallery/media"]  # files of examples are shown, not parsed

autodoc_typehints = "none"  # the table of parameters lists them
autodoc_member_order = "bysource"
numpydoc_show_class_members = False

html_theme = "pydata_sphinx_theme"
html_title = f"heavytop {release}"
html_static_path = [str(HERE / "static")]
html_css_files = ["heavytop.css"]
html_js_files = ["filter.js"]
html_context = {"default_mode": "auto"}
html_show_sourcelink = False
html_copy_source = False
smartquotes = False  # e'' is a second derivative
html_theme_options = {"navbar_align": "left", "show_toc_level": 2, "header_links_before_dropdown": 8, "footer_end": []}
html_sidebars = {"index": [], "gallery/index": []}


def _escape(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = [line if line.lstrip().startswith((">>>", "...")) else escaped(line) for line in lines]


def setup(app: Sphinx) -> None:
    """Called by Sphinx; before numpydoc reads the docstrings."""
    app.connect("autodoc-process-docstring", _escape, priority=100)
