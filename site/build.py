"""Build the site: pages, reference, gallery. ``python site/build.py [FOLDER] [--no-run]`` (default build/site), offline; a warning is an error.

It needs the extra ``docs``. The examples of the gallery are run; a second build reuses unchanged results from ``build/gallery``, and ``--no-run``
takes all of it as it is. Afterwards every link and anchor of the built pages is checked.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path[:0] = [str(HERE), *(str(ROOT / folder) for folder in ("scripts", "src", "benchmarks", "theory"))]

import gallery  # noqa: E402
import links  # noqa: E402
import pages  # noqa: E402
import reference  # noqa: E402
from sphinx.cmd.build import build_main  # noqa: E402


def main() -> int:
    """The exit code of Sphinx."""
    given = [argument for argument in sys.argv[1:] if argument != "--no-run"]
    target = Path(given[0]) if given else ROOT / "build" / "site"
    source = ROOT / "build" / "site-pages"
    shutil.rmtree(source, ignore_errors=True)
    pages.write(source)
    reference.write(source / "reference")
    gallery.write(source / "gallery", ROOT / "build" / "gallery", run="--no-run" not in sys.argv)
    gallery.embed(source)
    code = build_main(["-W", "--keep-going", "-q", "-c", str(HERE), str(source), str(target)])
    if code == 0:
        shutil.copytree(source / "gallery" / "media", target / "_static" / "gallery", dirs_exist_ok=True)
        broken = links.broken(target)
        print("\n".join(broken) or f"site: {target / 'index.html'}")
        return int(bool(broken))
    return code


if __name__ == "__main__":
    sys.exit(main())
