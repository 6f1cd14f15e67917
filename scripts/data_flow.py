"""Modules and changes of layer in one call of the library.

    python scripts/data_flow.py                          # every call, cold (empty cache) and warm
    python scripts/data_flow.py simulate:free-body fly   # some of them
    PYTHONPATH=OTHER/src python scripts/data_flow.py     # the same of another version

A call is cold the first time in a process without a cache on disk, and warm from the second time on.
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
    """Calls of each module, and calls from one layer into another."""

    folder: str
    modules: Counter[str] = field(default_factory=Counter)
    switches: Counter[tuple[str, str]] = field(default_factory=Counter)
    _inside: list[str] = field(default_factory=list)

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Profile function for ``sys.setprofile``."""
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
        return f"{len(self.modules)} modules, {self.switches.total()} changes of layer, {self.modules.total()} calls"


def flow(work: Callable[[], object]) -> Flow:
    """Record the calls inside the library during ``work``."""
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


def simulate_call(name: str = "free-body") -> Callable[[], object]:
    """A simulation of a built-in system without a law."""
    import heavytop as ht

    import_module("heavytop.simulate")  # loaded on demand; imports are not counted
    model: Any = ht.library.load(name).derive()
    start = model.neutral(), model.nv * [0.1]
    return lambda: ht.simulate(model, start, until=0.1, step=0.01)


def fly_call(law: str = "") -> Callable[[], object]:
    """A short hover of the quadcopter with the default law, or with the robust one in wind."""
    import heavytop as ht

    import_module("heavytop.copters")
    vehicle = ht.copters.quadcopter()
    maneuver = ht.maneuvers.hover(vehicle)
    if law == "robust":
        return lambda: ht.copters.fly(vehicle, maneuver, until=0.1, law="robust", wind=4)
    return lambda: ht.copters.fly(vehicle, maneuver, until=0.1)


CALLS = {
    "simulate:free-body": simulate_call,
    "simulate:tricopter-load": lambda: simulate_call("tricopter-load"),
    "fly": fly_call,
    "fly:robust": lambda: fly_call("robust"),
}


def warm(name: str) -> Flow:
    """Record a warm call: the third one of the same arguments in this process."""
    work = CALLS[name]()
    work()
    work()
    return flow(work)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as cache:
        os.environ["HEAVYTOP_CACHE"] = cache
        for name in sys.argv[1:] or CALLS:
            call = CALLS[name]()
            print(f"{name}, cold: {flow(call)}")
            call()
            print(f"{name}, warm: {flow(call)}")
