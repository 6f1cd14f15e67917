"""What one ``ht.simulate`` passes through: modules, and calls from one layer into another.

    python scripts/data_flow.py              # warm, and cold with an empty cache
    PYTHONPATH=OTHER/src python scripts/data_flow.py     # the same of another version

A run is cold the first time in a process without a cache on disk, and warm the second time.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any


@dataclass
class Flow:
    """What was passed: calls of each module, and calls from one layer into another."""

    folder: str
    modules: Counter[str] = field(default_factory=Counter)
    switches: Counter[tuple[str, str]] = field(default_factory=Counter)
    _inside: list[str] = field(default_factory=list)

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """To be given to ``sys.setprofile``."""
        file = frame.f_code.co_filename
        if not file.startswith(self.folder) or event not in ("call", "return"):
            return
        if event == "return":
            if self._inside:
                self._inside.pop()
            return
        module = file[len(self.folder) :].strip("/\\").removesuffix(".py").replace(os.sep, ".")
        if self._inside and _layer(self._inside[-1]) != _layer(module):
            self.switches[_layer(self._inside[-1]), _layer(module)] += 1
        self.modules[module] += 1
        self._inside.append(module)

    def __str__(self) -> str:
        return f"{len(self.modules)} modules, {self.switches.total()} switches of layer, {self.modules.total()} calls"


def flow(work: Callable[[], object]) -> Flow:
    """What a piece of work passes of the library."""
    import heavytop

    seen = Flow(str(Path(heavytop.__file__).parent))
    sys.setprofile(seen)
    try:
        work()
    finally:
        sys.setprofile(None)
    return seen


def _layer(module: str) -> str:
    return module.partition(".")[0]


def run_of(name: str) -> Callable[[], object]:
    """A single run of a built-in system."""
    import heavytop as ht

    import_module("heavytop.simulate")  # loaded on demand; imports are not counted
    model: Any = ht.library.load(name).derive()
    start = model.neutral(), model.nv * [0.1]
    return lambda: ht.simulate(model, start, until=0.1, step=0.01)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as cache:
        os.environ["HEAVYTOP_CACHE"] = cache
        for name in sys.argv[1:] or ("tricopter-load", "free-body"):
            work = run_of(name)
            for kind in ("cold", "warm"):
                print(f"{name}, {kind}: {flow(work)}")
