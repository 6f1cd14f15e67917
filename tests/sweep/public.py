"""Objects of every public class, taken from the examples in the docstrings."""

from __future__ import annotations

import doctest
import importlib.util
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import numpy as np
from heavytop_mechanics import (
    action,
    gauss,
    moving_frame,
    moving_frame_examples,
    rigid_body,
    scalable_body,
    spatial_newton_euler,
)

from heavytop import control, library, plan
from heavytop.functions import stable_key
from heavytop.simulate import integrators

ROOT = Path(__file__).parents[2]


def public_classes() -> dict[type, str]:
    """The classes on the page of public names, with their paths; no errors and warnings."""
    name = "api_page_of_the_scripts"
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / "api_page.py")
    assert spec is not None
    assert spec.loader is not None
    page = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(page)
    exports = [e for module in page.public_modules() for e in page.exports_of(module)]
    return {e.value: e.path for e in exports if inspect.isclass(e.value) and not e.is_exception}


def examples(wanted: dict[type, str]) -> dict[str, Any]:
    """For every class an object that the examples of the library make; by the path of the class."""
    found: dict[type, Any] = {}

    def look(frame: FrameType, event: str, result: Any) -> None:
        if event == "return":
            made = frame.f_locals.get("self") if frame.f_code.co_name == "__init__" else result
            if type(made) in wanted:
                found.setdefault(type(made), made)

    runner = doctest.DocTestRunner(verbose=False)
    finder = doctest.DocTestFinder()

    def run(thing: Any, module: ModuleType) -> None:
        for test in finder.find(thing, thing.__name__, module, globs=dict(vars(module))):
            sys.setprofile(look)
            try:
                runner.run(test, clear_globs=False, out=lambda text: None)
            finally:
                sys.setprofile(None)

    for cls in wanted:
        run(cls, sys.modules[cls.__module__])
    for cls in wanted:  # results: what makes them has the example
        if cls not in found and not inspect.isabstract(cls):
            run(sys.modules[cls.__module__], sys.modules[cls.__module__])
    found = {**{type(value): value for value in by_hand()}, **found}
    return {wanted[cls]: value for cls, value in found.items() if cls in wanted}


def by_hand() -> Iterator[Any]:
    """Objects that no example makes."""
    points, model = np.eye(3)[:2], library.load("pendulum").derive()
    yield integrators.RKMK6()
    yield integrators.RKMK8()
    yield control.JointBlock("arm")
    yield control.PoseBlock("hull")
    yield action.Curve(points, points)
    yield gauss.closest_realizable(np.eye(2), np.ones(2), np.ones((2, 1)), np.arange(2.0))
    yield moving_frame.scaled(np.eye(3), points.T)
    yield moving_frame_examples.ChaplyginSleigh()
    yield rigid_body.springs([1.0, 2.0], points, np.ones((2, 3)))
    yield rigid_body.springs([1.0, 2.0], points, np.ones((2, 3))).minimum()
    yield scalable_body.NO_LOADS
    yield scalable_body.Constrained(np.arange(7.0), np.array(0.5))
    yield spatial_newton_euler.InverseDynamics(np.arange(2.0), (np.arange(6.0),))
    yield plan.Distance(control.Reference.set_point(model, [0.1]))


def answer() -> None:
    """Read pickles of named objects, write the digest of each."""
    import pickle

    found = pickle.load(sys.stdin.buffer)
    pickle.dump({name: stable_key(pickle.loads(content)) for name, content in found.items()}, sys.stdout.buffer)
