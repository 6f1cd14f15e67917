"""The gallery: runs every example and shows its figures, 3-D pages, output and source."""

from __future__ import annotations

import ast
import hashlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"


def write(target: Path, kept: Path, run: bool = True) -> None:
    """Pages of all examples below ``target``; results are in ``kept`` and updated only if an example or the library changed.

    Without ``run`` nothing is updated, and examples without results are omitted, for quick builds.
    """
    (target / "media").mkdir(parents=True, exist_ok=True)
    cards, pages = [], []
    for script in sorted(path for path in EXAMPLES.glob("*.py") if not path.name.startswith("_")):
        if not run and not (kept / script.stem / "printed.txt").exists():
            continue
        results = _results(script, kept / script.stem) if run else kept / script.stem
        media = target / "media" / script.stem
        shutil.copytree(results, media, dirs_exist_ok=True)
        (target / f"{script.stem}.md").write_text(_page(script, media), encoding="utf-8")
        pages.append(script.stem)
        picture = next(iter(sorted(media.glob("*.png"))), None)
        image = f'<img src="../_static/gallery/{script.stem}/{picture.name}" alt="">' if picture else ""
        cards.append(f'<a href="{script.stem}.html">{image}<p>{_title(script)}</p></a>')
    text = '# Gallery\n\nEach of these is a short program in the folder `examples`.\n\n```{raw} html\n<div class="gallery">\n'
    text += "\n".join(cards) + "\n</div>\n```\n\n```{toctree}\n---\nhidden:\n---\n" + "\n".join(pages) + "\n```\n"
    (target / "index.md").write_text(text, encoding="utf-8")


LIVE = {
    "index": "live_double_pendulum",
    "tutorials/mechanics": "live_double_pendulum",
    "tutorials/drone": "live_quadcopter",
    "tutorials/robots": "live_arm",
    "tutorials/control": "live_furuta",
    "tutorials/multibody": "live_four_bar",
    "tutorials/contact": "live_bounce",
    "tutorials/learning": "live_furuta",
    "tutorials/firmware": "live_quadcopter",
    "tutorials/log_to_flight": "live_quadcopter",
    "live": "live_rolling_disc",
}
"""Page of the site -> the example whose live page it shows."""


def embed(pages: Path) -> None:
    """Show a live page on the first screen of some pages, below their first paragraph, if the gallery has it."""
    for name, example in LIVE.items():
        if not (pages / "gallery" / "media" / example / f"{example}.html").exists():
            continue
        path, up = pages / f"{name}.md", "../" * name.count("/")
        address = f"{up}_static/gallery/{example}/{example}.html"
        text = "This page simulates by itself: move a slider, or pull a body with the mouse or a finger."
        frame = f'<iframe class="scene" src="{address}" title="{example}"></iframe>\n<p>{text}</p>'
        head, _, rest = path.read_text(encoding="utf-8").partition("\n\n")
        first, _, rest = rest.partition("\n\n")
        path.write_text(f"{head}\n\n{first}\n\n```{{raw}} html\n{frame}\n```\n\n{rest}", encoding="utf-8")


def _title(script: Path) -> str:
    text = ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or script.stem
    return text.partition("\n")[0]


def _page(script: Path, media: Path) -> str:
    head, _, rest = _title(script).partition(": ")
    lines = [f"# {head}", "", rest[:1].upper() + rest[1:] if rest else "", ""]
    for picture in sorted(media.glob("*.png")):
        lines += [f"![{picture.stem}](media/{script.stem}/{picture.name})", ""]
    for page in sorted(media.glob("*.html")):
        address = f"../_static/gallery/{script.stem}/{page.name}"
        lines += ["```{raw} html", f'<p><a href="{address}">The page alone</a></p>']
        lines += [f'<iframe class="scene" loading="lazy" src="{address}" title="{page.stem}"></iframe>', "```", ""]
    printed = (media / "printed.txt").read_text(encoding="utf-8").strip()
    if printed:
        lines += ["It prints", "", "```text", printed, "```", ""]
    code = script.read_text(encoding="utf-8").strip()
    return "\n".join([*lines, f"`examples/{script.name}`", "", "```python", code, "```", ""])


def _results(script: Path, folder: Path) -> Path:
    """The folder of the example's files and output."""
    sources = [
        script,
        EXAMPLES / "_example.py",
        *sorted((ROOT / "src").rglob("*.py")),
        *sorted((ROOT / "theory").rglob("*.py")),
    ]
    mark = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()
    seal = folder.with_suffix(".mark")
    if seal.exists() and seal.read_text(encoding="utf-8") == mark:
        return folder
    print(f"running {script.name} ...", end=" ", flush=True)
    began, used = time.monotonic(), _processor_time()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(str(path) for path in (ROOT / "src", ROOT / "theory", EXAMPLES))
    }
    done = subprocess.run(
        [sys.executable, str(script), "--out", "."], cwd=folder, env=environment, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"{script.name} failed with exit code {done.returncode}:\n{done.stderr[-3000:]}")
    print(f"{time.monotonic() - began:.1f} s, {_processor_time() - used:.1f} s of processor time", flush=True)
    (folder / "printed.txt").write_text(done.stdout.replace(str(folder), "."), encoding="utf-8")
    seal.write_text(mark, encoding="utf-8")
    return folder


def _processor_time() -> float:
    """Seconds that finished programs used."""
    spent = os.times()
    return spent.children_user + spent.children_system
