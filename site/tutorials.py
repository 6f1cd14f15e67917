"""Tutorials: pages of ``docs/tutorials`` as notebooks with figures, and as pages of the site with the output of their programs.

``python site/tutorials.py [NAME ...]`` runs the pages in Jupyter kernels and writes ``notebooks/NAME.ipynb`` (needs the extra ``docs``). After a
change of text alone, ``--text`` keeps the outputs and runs nothing.
A fenced block ``python`` is a cell, ``sh`` a command; a block after ``<!-- file: NAME -->`` is a file that later cells read.
"""

from __future__ import annotations

import base64
import json
import os
import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "tutorials"
NOTEBOOKS = ROOT / "notebooks"
_BLOCK = re.compile(
    r"^(?:<!-- file: (?P<file>[\w.-]+) -->\n)?```(?P<kind>\w+)\n(?P<text>.*?)^```$\n?", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True)
class Cell:
    """``kind`` is ``text``, ``python``, ``sh``, ``file`` (of ``name``) or ``quote`` (shown, not run, as the block of language ``name``)."""

    kind: str
    text: str
    name: str = ""

    @property
    def source(self) -> str:
        """Source for Jupyter."""
        heads = {"sh": "%%sh\n", "file": f"%%writefile {self.name}\n"}
        if self.kind == "quote":
            return f"```{self.name}\n{self.text}\n```"
        return heads.get(self.kind, "") + self.text

    @property
    def is_run(self) -> bool:
        """Whether it is executed."""
        return self.kind in ("python", "sh", "file")


def names() -> list[str]:
    """The tutorials in the order of their index."""
    return re.findall(r"\]\((\w+)\.md\)", (PAGES / "index.md").read_text(encoding="utf-8"))


def cells(name: str) -> list[Cell]:
    """The page ``name`` cut into cells."""
    text, found, end = (PAGES / f"{name}.md").read_text(encoding="utf-8"), [], 0
    for block in _BLOCK.finditer(text):
        found.append(Cell("text", text[end : block.start()].strip()))
        kind, body = block["kind"], block["text"].rstrip()
        if block["file"]:
            found.append(Cell("file", body, block["file"]))
        elif kind in ("python", "sh"):
            found.append(Cell(kind, body))
        else:
            found.append(Cell("quote", body, kind))
        end = block.end()
    found.append(Cell("text", text[end:].strip()))
    return [cell for cell in found if cell.text]


def notebook(name: str) -> dict[str, Any]:
    """The page as a notebook without outputs."""
    made = []
    for k, cell in enumerate(cells(name)):
        entry: dict[str, Any] = {"id": f"{name}-{k}", "metadata": {}, "source": cell.source}
        if cell.is_run:
            entry |= {"cell_type": "code", "execution_count": None, "outputs": []}
        else:
            entry |= {"cell_type": "markdown", "source": _outward(cell.source)}
        made.append(entry)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": made, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def _outward(text: str) -> str:
    """Links to pages relative to the folder of the notebooks."""
    return re.sub(r"\]\((?!https?:|#)([^)]+)\)", lambda m: f"](../docs/tutorials/{m[1]})", text)


def run(name: str) -> dict[str, Any]:
    """The notebook with all outputs, computed in an empty folder."""
    import nbformat
    from nbclient import NotebookClient

    os.environ["PYTHONPATH"] = os.pathsep.join(
        [str(ROOT / "src"), str(ROOT / "theory"), os.environ.get("PYTHONPATH", "")]
    )
    with tempfile.TemporaryDirectory() as folder:
        shim = Path(folder) / "bin"
        shim.mkdir()
        for program, module in (("heavytop", "-m heavytop"), ("python", "")):
            (shim / program).write_text(f'#!/bin/sh\nexec "{sys.executable}" {module} "$@"\n', encoding="utf-8")
            (shim / program).chmod(0o755)
        os.environ["PATH"] = os.pathsep.join([str(shim), os.environ["PATH"]])
        work = Path(folder) / "work"
        work.mkdir()
        book = nbformat.from_dict(notebook(name))
        NotebookClient(book, timeout=600, resources={"metadata": {"path": str(work)}}).execute()
        text = nbformat.writes(book).replace(str(work), ".")
    made = json.loads(text)
    for cell in made["cells"]:
        cell["metadata"] = {}  # without the times of the run
    made["metadata"] = {"kernelspec": made["metadata"]["kernelspec"]}
    return made


def reworded(name: str) -> dict[str, Any]:
    """The notebook with the text of the page and the outputs that it has; the programs must be unchanged."""
    kept = json.loads((NOTEBOOKS / f"{name}.ipynb").read_text(encoding="utf-8"))
    made = notebook(name)
    programs = [[cell for cell in book["cells"] if cell["cell_type"] == "code"] for book in (kept, made)]
    if ["".join(cell["source"]) for cell in programs[0]] != [cell["source"] for cell in programs[1]]:
        raise SystemExit(f"the programs of {name} have changed: run python site/tutorials.py {name}")
    for old, new in zip(*programs, strict=True):
        new |= {key: old[key] for key in ("outputs", "execution_count")}
    cells = [cell | {"source": cell["source"].splitlines(keepends=True)} for cell in made["cells"]]
    return kept | {"cells": [dict(sorted(cell.items())) for cell in cells]}


def write(target: Path) -> None:
    """Pages of the site below ``target``, with the outputs of the notebooks."""
    for name in names():
        book = json.loads((NOTEBOOKS / f"{name}.ipynb").read_text(encoding="utf-8"))
        outputs = [cell["outputs"] for cell in book["cells"] if cell["cell_type"] == "code"]
        lines, k = [], 0
        for cell in cells(name):
            if not cell.is_run:
                lines += [cell.source, ""]
                continue
            if cell.kind == "file":
                lines += [f"`{cell.name}`:", ""]
            ending = {"file": Path(cell.name).suffix.lstrip(".") or "text"}.get(cell.kind, cell.kind)
            lines += [f"```{ending.replace('urdf', 'xml')}", cell.text, "```", ""]
            if cell.kind != "file":
                lines += _shown(outputs[k], target, f"{name}-{k}")
            k += 1
        lines += ["", f"This page as a notebook: {{download}}`{name}.ipynb <{name}.ipynb>`", ""]
        (target / f"{name}.md").write_text("\n".join(lines), encoding="utf-8")
        (target / f"{name}.ipynb").write_text(json.dumps(book), encoding="utf-8")


def _shown(outputs: list[dict[str, Any]], target: Path, stem: str) -> list[str]:
    lines: list[str] = []
    printed = "".join("".join(output["text"]) for output in outputs if output.get("name") == "stdout")
    for k, output in enumerate(outputs):
        data = output.get("data", {})
        if "image/png" in data:
            (target / f"{stem}-{k}.png").write_bytes(base64.b64decode(data["image/png"]))
            lines += [f"![output of the cell]({stem}-{k}.png)", ""]
        elif "text/html" in data:
            lines += ["```{raw} html", '<div class="output">', "".join(data["text/html"]), "</div>", "```", ""]
        elif "text/plain" in data:
            printed += "".join(data["text/plain"]) + "\n"
    return (
        ["```{code-block} text", ":class: output", "", printed.rstrip(), "```", ""] if printed.strip() else []
    ) + lines


def main() -> int:
    """Run the tutorials that are named, or all."""
    NOTEBOOKS.mkdir(exist_ok=True)
    for name in [argument for argument in sys.argv[1:] if argument != "--text"] or names():
        print(name, flush=True)
        book = reworded(name) if "--text" in sys.argv else run(name)
        text = json.dumps(book, indent=1, ensure_ascii=False) + "\n"
        (NOTEBOOKS / f"{name}.ipynb").write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
