"""Self-contained HTML pages of a motion: 3-D replay, curves, tables. They work offline."""

from __future__ import annotations

import base64
import json
import zlib
from html import escape
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

from heavytop._files import check_ending as _check_ending, write_whole
from heavytop._format import html_text
from heavytop._version import __version__
from heavytop.errors import FileFormatError
from heavytop.show.pack import pack_report
from heavytop.show.scene import Report
from heavytop.show.viewer import scene_meshes, snapshot, view_of, viewer_source

SIZE_LIMIT = 5_000_000
OTHERS_LIMIT = 2_500_000
"""Size of the data of trajectories besides the first one."""
HEIGHT = 720
"""Of a page in a notebook, in pixels."""
ENDINGS = (".html", ".htm")
SCRIPTS = ("decode.js", "stage.js", "plots.js", "sliders.js", "page.js")
LIVE_SCRIPTS = ("decode.js", "stage.js", "plots.js", "wasm.js", "live.js")


def write_page(report: Report, path: str | Path) -> Path:
    """Write a report as one self-contained HTML file of at most 5 MB.

    The file is written under a temporary name and then renamed.

    Parameters
    ----------
    report : contents of the page.
    path : file to write, ending with .html or .htm; the folder must exist.

    Returns
    -------
    Path : the written file.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import heavytop as ht
    >>> from heavytop.show.run_report import report_of
    >>> run = ht.simulate(ht.library.pendulum().derive(), ([1.0], [0.0]), until=0.1, step=0.01)
    >>> with TemporaryDirectory() as folder:
    ...     print(write_page(report_of(run), f"{folder}/run.html").name)
    ...
    run.html
    """
    check_ending(path)
    content = page(report).encode("utf-8")
    if len(content) > SIZE_LIMIT:
        raise FileFormatError(
            f"the page of {report.title!r} would have {len(content) / 1e6:.1f} MB, the limit is {SIZE_LIMIT / 1e6:.0f} MB. "
            "Use fewer or coarser meshes, or shorter tables."
        )
    write_whole(path, content, "run.html")
    return Path(path)


def check_ending(path: str | Path) -> None:
    """Raise a FileFormatError for a name that does not end like a page."""
    _check_ending(path, ENDINGS, "a page")


def page(report: Report) -> str:
    """The HTML text of a report."""
    document, packed = _packed(report)
    parts = {"title": html_text(report.title), "viewer": _base64(viewer_source()), **packed}
    if report.live is None:
        names, scripts, style = "page.html", SCRIPTS, _asset("page.css")
    else:
        names, scripts, style = "live.html", LIVE_SCRIPTS, _asset("page.css") + _asset("live.css")
        document["live"] = report.live.document
        parts |= {name: _base64(data) for name, data in report.live.packed().items()}
    script = "\n".join(_asset(name) for name in scripts)
    parts["others"] = _others(report, document) if report.live is None else ""
    return Template(_asset(names)).substitute(**parts, style=style, script=script, document=_json_in_html(document))


def _packed(report: Report) -> tuple[dict[str, Any], dict[str, str]]:
    """The document of a report, its numbers and its meshes."""
    document, block = pack_report(report)
    document["scene"]["view"] = view_of(report.scene)
    document["version"] = __version__
    document["sliders"] = report.sliders
    meshes = snapshot(scene_meshes(report.scene))
    return document, {"block": _base64(zlib.compress(block, 9)), "snapshot": _base64(meshes)}


def _others(report: Report, document: dict[str, Any]) -> str:
    """Elements with the data of other trajectories, as many as there is room for; the document lists all choices."""
    document["choices"] = [report.choice]
    elements: list[str] = []
    room = OTHERS_LIMIT
    for other in report.others:
        own, packed = _packed(other)
        texts = {"document": _json_in_html(own), **packed}
        room -= sum(map(len, texts.values()))
        if room < 0:
            break
        number = len(document["choices"])
        document["choices"].append(other.choice)
        elements += [f'<script type="text/plain" id="{name}-{number}">{text}</script>' for name, text in texts.items()]
    return "\n".join(elements)


def _asset(name: str) -> str:
    return resources.files("heavytop.show").joinpath("assets", name).read_text(encoding="utf-8")


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _json_in_html(document: object) -> str:
    """JSON in which no text can end the script element."""
    text = json.dumps(document, ensure_ascii=False, allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028")


class InlinePage:
    """A page that is displayed in a notebook, or written with :meth:`save`.

    Examples
    --------
    >>> import heavytop as ht
    >>> run = ht.simulate(ht.library.pendulum().derive(), ([1.0], [0.0]), until=0.1, step=0.01)
    >>> run.show()
    InlinePage('Pendulum': shown in a notebook; .save("run.html") writes it)
    """

    def __init__(self, report: Report) -> None:
        self.title, self.html = report.title, page(report)

    def __repr__(self) -> str:
        return f'InlinePage({self.title!r}: shown in a notebook; .save("run.html") writes it)'

    def _repr_html_(self) -> str:
        style = f"width:100%;height:{HEIGHT}px;border:0"
        return f'<iframe srcdoc="{escape(self.html)}" style="{style}" title="{escape(self.title)}"></iframe>'

    def save(self, path: str | Path) -> Path:
        """Write the page as a file."""
        check_ending(path)
        write_whole(path, self.html.encode("utf-8"), "run.html")
        return Path(path)
