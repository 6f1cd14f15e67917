"""Open every page of a built site in Chromium. ``python site/look.py [FOLDER] [--width 400]`` (default build/site, 1400 pixels wide).

Reports errors of scripts, missing images and files, content wider than the window, and a search without results. It needs the extra ``browser``.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))
from browser.chromium import chromium, find_chromium  # noqa: E402

FAULTS = """
[...[...document.images].filter(i => !(i.complete && i.naturalWidth)).map(i => `image ${i.getAttribute('src')} is missing`),
 ...(document.documentElement.scrollWidth > innerWidth + 1 ? [`wider than the window: ${document.documentElement.scrollWidth}`] : [])]
"""
LOADED = (
    "document.readyState === 'complete' && [...document.images].every(i => { i.loading = 'eager'; return i.complete; })"
)
SEARCHED = "document.querySelectorAll('#search-results li').length"


def faults(site: Path, width: int) -> list[str]:
    """One line for each fault of a page; names of the reference are sampled, since their pages are made by one template."""
    executable = find_chromium()
    if executable is None:
        raise SystemExit("no Chromium found: install it, or put it on the path")
    pages = [page for page in sorted(site.rglob("*.html")) if "_static" not in page.parts]
    names = [page for page in pages if page.parent.name == "names"]
    found = []
    with chromium(executable) as tab:
        tab.size(width, 900)
        for page in [*(page for page in pages if page not in set(names)), *names[:: max(1, len(names) // 20)]]:
            tab.errors.clear()
            tab.open(page.as_uri(), LOADED)
            where = page.relative_to(site).as_posix()
            found += [f"{where}: {fault}" for fault in [*tab.evaluate(FAULTS), *tab.errors]]
        tab.open(f"{(site / 'search.html').as_uri()}?q=inverse+kinematics", f"{SEARCHED} > 0")
    return found


def main() -> int:
    """Print the faults; the exit code."""
    given = sys.argv[1:]
    width = int(given.pop(given.index("--width") + 1)) if "--width" in given else 1400
    folders = [argument for argument in given if argument != "--width"]
    found = faults(Path(folders[0]).resolve() if folders else ROOT / "build" / "site", width)
    print("\n".join(found) or "every page is complete")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
