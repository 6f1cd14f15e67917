"""Links of a built site: every file and every anchor inside it exists, and nothing is fetched from elsewhere."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class _Page(HTMLParser):
    """Links, loaded files and anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if tag in ("img", "script", "iframe", "source") and "src" in values:
            self.loads.append(values["src"])
        if tag == "link" and values.get("rel") in ("stylesheet", "icon") and "href" in values:
            self.loads.append(values["href"])


def broken(site: Path) -> list[str]:
    """One line for each link that leads nowhere, and for each file that would be fetched from elsewhere."""
    pages = {
        path.resolve(): _Page(path.read_text(encoding="utf-8"))
        for path in sorted(site.rglob("*.html"))
        if "_static" not in path.relative_to(site).parts
    }
    found = []
    for path, page in pages.items():
        where = path.relative_to(site.resolve()).as_posix()
        for address in [*page.links, *page.loads]:
            parts = urlsplit(address)
            if parts.scheme in ("data", "blob", "mailto", "javascript"):
                continue
            if parts.scheme or parts.netloc:
                if address in page.loads:
                    found.append(f"{where}: fetches {address}")
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                found.append(f"{where}: {address} does not exist")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                found.append(f"{where}: {address} has no such place")
    return found
