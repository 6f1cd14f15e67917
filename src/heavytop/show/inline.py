"""A page inside a notebook."""

from __future__ import annotations

from html import escape
from pathlib import Path

from heavytop._files import write_whole
from heavytop.show.page import check_ending, page
from heavytop.show.scene import Report

HEIGHT = 720


class InlinePage:
    """A page that is shown in the notebook, or written with :meth:`save`.

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
        source = escape(self.html, quote=True)
        return f'<iframe srcdoc="{source}" style="width:100%;height:{HEIGHT}px;border:0" title="{escape(self.title)}"></iframe>'

    def save(self, path: str | Path) -> Path:
        """Write the page as a file."""
        check_ending(path)
        write_whole(path, self.html.encode("utf-8"), "run.html")
        return Path(path)
