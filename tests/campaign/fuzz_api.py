"""Call every public function with random arguments; run as ``python fuzz_api.py SEED CALLS REPORT``. It has its own cache.

Functions are found by walking the packages, methods on the objects that earlier calls returned. A plain Python error for an absurd argument
is no failure; failures are crashes, hangs, internal errors, silent NaN, and harm to files that were not named.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import inspect
import io
import json
import os
import pkgutil
import resource
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import heavytop as ht

LEFT_OUT = {"cli"}
"""Packages whose functions start processes or servers; their own tests cover them."""
NOT_CALLED = ("heavytop.show.live", "heavytop.show.cockpit", "measure_cortex_m7")
SECONDS, ASLEEP = 30, 600
"""Of the processor, and of the clock, after which a call hangs."""
PROCESSOR = 2 * 3600
"""Seconds of the processor for all calls: a hang in native code, where no signal is seen, ends there."""
ENOUGH = 3.0
"""Seconds of the processor for all calls of one name in one process: plans and flights that succeed must not take the time of the others."""
FAILURES = (RecursionError, SystemError, AssertionError)
"""Errors that no argument may cause."""
SHAPES = [
    (),
    (0,),
    (1,),
    (2,),
    (3,),
    (4,),
    (6,),
    (7,),
    (12,),
    (3, 3),
    (4, 4),
    (6, 6),
    (5, 3),
    (2, 3, 3),
    (3, 4),
    (1, 1),
]


class Hang(BaseException):
    """A call that takes too long."""


def packages() -> Iterator[ModuleType]:
    """The package and its layers."""
    yield ht
    for info in pkgutil.iter_modules(ht.__path__):
        if info.ispkg and info.name not in LEFT_OUT:
            yield importlib.import_module(f"heavytop.{info.name}")


def public_callables() -> dict[str, Callable[..., Any]]:
    """Qualified name -> function, class or method (a method takes its object first)."""
    found: dict[str, Callable[..., Any]] = {}
    for package in packages():
        for name in exported(package):
            value = getattr(package, name)
            inner = [v for n, v in vars(value).items() if n[0] != "_"] if inspect.ismodule(value) else [value]
            for each in inner:
                _add(found, each)
    return {name: value for name, value in sorted(found.items()) if not any(part in name for part in NOT_CALLED)}


def exported(package: ModuleType) -> list[str]:
    """Public names that the file of a package defines or imports under their own name."""
    names = []
    for node in ast.walk(ast.parse(Path(str(package.__file__)).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("heavytop"):
            names += [alias.name for alias in node.names if alias.asname == alias.name]
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.append(node.name)
    return [name for name in dict.fromkeys(names) if not name.startswith("_") and hasattr(package, name)]


def _add(found: dict[str, Callable[..., Any]], value: Any) -> None:
    module = getattr(value, "__module__", "") or ""
    if not module.startswith("heavytop") or not callable(value) or not hasattr(value, "__qualname__"):
        return
    name = f"{module}.{value.__qualname__}"
    if name in found or LEFT_OUT.intersection(module.split(".")):
        return
    found[name] = value
    if inspect.isclass(value):
        for label, member in inspect.getmembers(value, callable):
            if not label.startswith("_") and (getattr(member, "__module__", "") or "").startswith("heavytop"):
                found[f"{name}.{label}"] = member


class Arguments:
    """Arguments of calls: invalid ones, plausible ones, and results of earlier calls."""

    def __init__(self, rng: np.random.Generator, folder: Path) -> None:
        self.rng = rng
        self.pool: dict[type, list[Any]] = {}
        self.special = [
            None, True, 0, 1, -1, 3, 10**30, 2**63, 0.0, -0.0, 1e-320, 1e308, float("nan"), float("inf"), 1j,
            "", "x", "world", "rod", "a/b", "\0", b"bytes", (), [], {}, {"x": 1.0}, set(), object(), int,
            len, lambda *a, **k: None, lambda *a: a, range(3), [None], [[1.0], [1.0, 2.0]], ["a", "b"],
            folder / "file.nc", folder / "no" / "where", str(folder / "out"), folder / "mine", 10**9,
        ]  # fmt: skip
        system = ht.System(name="pendulum")
        system.body("rod", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=(0, 0, -1)))
        system.input("motor", ht.JointForce("rod"))
        free = ht.System(name="top")
        free.body("hull", joint=ht.Free(), inertia=ht.Inertia(1.0, moment_at_com=(0.1, 0.2, 0.3)))
        model = system.derive()
        traced = ht.compile.trace(lambda x: np.sin(x), {"x": (3,)}, name="f")
        for entry in (system, model, ht.simulate(model, ([0.1], [0.0]), 0.05, 0.01), free, free.derive(), traced,
                      ht.Revolute("y"), ht.Inertia(1.0), ht.coordinates.Pose(), ht.coordinates.Vector(3)):  # fmt: skip
            self.keep(entry)

    def keep(self, value: Any) -> None:
        """Store an object for later calls."""
        if type(value).__module__.startswith("heavytop"):
            same = self.pool.setdefault(type(value), [])
            same.append(value)
            del same[:-4]

    def _any(self, items: list[Any]) -> Any:
        return items[self.rng.integers(len(items))]

    def array(self) -> np.ndarray:
        """An array of random shape and content."""
        rng, shape = self.rng, self._any(SHAPES)
        values = rng.normal(size=shape)
        match rng.integers(10):
            case 0:
                return np.full(shape, self._any([np.nan, np.inf, -np.inf]))
            case 1:
                return np.zeros(shape)
            case 2 if len(shape) >= 2 and shape[-1] == shape[-2]:
                return np.broadcast_to(np.eye(shape[-1]), shape).copy()
            case 3:
                return values * 10.0 ** rng.integers(-320, 308)
            case 4:
                return rng.integers(-3, 4, size=shape)
            case 5:
                return values.astype(self._any([complex, object, str, bool]))
        return values

    def value(self) -> Any:
        """Anything."""
        draw = self.rng.random()
        if draw < 0.4:
            return self.array()
        if draw < 0.6:
            return self._any(self._any(list(self.pool.values())))
        return float(self.rng.normal()) if draw < 0.7 else self._any(self.special)

    def of(self, kind: type) -> Any:
        """An object of a class; None if no call has made one yet."""
        fitting = [same for found, same in self.pool.items() if kind in found.__mro__]
        return self._any(self._any(fitting)) if fitting else None


def call(function: Callable[..., Any], owner: Any, arguments: Arguments) -> tuple[list[Any], dict[str, Any]]:
    """Positional and keyword arguments for one call."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    if inspect.isclass(function) and issubclass(function, Enum):  # given more, Python makes a new class
        parameters = parameters[:1]
    positional: list[Any] = []
    named: dict[str, Any] = {}
    rng = arguments.rng
    for k, p in enumerate(parameters):
        if p.kind is p.VAR_POSITIONAL:
            positional += [arguments.value() for _ in range(rng.integers(3))]
        elif p.kind is not p.VAR_KEYWORD and (p.default is p.empty or rng.random() < 0.3):
            bound = k == 0 and owner is not None and p.name == "self"
            value = arguments.of(owner) if bound else arguments.value()
            if p.kind is p.KEYWORD_ONLY or p.default is not p.empty:
                named[p.name] = value
            else:
                positional.append(value)
    return positional, named


def silent_nan(values: list[Any], result: Any) -> bool:
    """Whether a result has NaN although all numbers given were moderate."""
    for value in values:
        numbers = isinstance(value, int | float) or (isinstance(value, np.ndarray) and value.dtype.kind in "fi")
        if not numbers or not np.all(np.abs(value) < 1e9):
            return False
    results = result if isinstance(result, tuple) else (result,)
    return any(isinstance(r, np.ndarray | float) and np.any(np.isnan(r)) for r in results)


def shown(value: Any) -> str:
    """A short text of an argument."""
    with np.printoptions(threshold=20, precision=3):
        try:
            text = repr(value)
        except Exception as error:
            return f"<repr of {type(value).__name__} fails: {type(error).__name__}>"
    return text if len(text) < 160 else text[:157] + "..."


def watch(seconds: int) -> None:
    """Limit the next call; 0 ends the limit."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, ASLEEP if seconds else 0)


def expire(*_: object) -> None:
    raise Hang


def main(seed: int, calls: int, report: Path) -> None:
    """Make the calls; write the failures, and before each call what is called."""
    resource.setrlimit(resource.RLIMIT_AS, (12 * 2**30, 12 * 2**30))
    resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR, PROCESSOR))
    signal.signal(signal.SIGALRM, expire)
    signal.signal(signal.SIGPROF, expire)
    warnings.simplefilter("ignore")
    spent: Counter[str] = Counter()
    failures: list[str] = []
    made = 0
    with tempfile.TemporaryDirectory() as folder, open(f"{report}.now", "w") as now:
        os.chdir(folder)
        os.environ["HEAVYTOP_CACHE"] = str(Path(folder) / "cache")  # calls clear it
        thesis = Path(folder) / "mine" / "thesis.txt"
        thesis.parent.mkdir()
        thesis.write_text("years of work")
        arguments = Arguments(np.random.default_rng(seed), Path(folder))
        functions = public_callables()
        names = list(functions)
        for number in range(5 * calls):  # methods of classes without an object are skipped
            name = names[(number + seed * 7919) % len(names)]
            above = functions.get(name.rpartition(".")[0])
            owner = above if inspect.isclass(above) else None
            positional, named = call(functions[name], owner, arguments)
            if spent[name] > ENOUGH or (owner is not None and positional and positional[0] is None):
                continue
            made += 1
            text = f"{name}({', '.join([*map(shown, positional), *(f'{k}={shown(v)}' for k, v in named.items())])})"
            now.seek(0)
            now.truncate()
            now.write(f"{made} {text}")
            now.flush()
            before = time.process_time()
            watch(SECONDS)
            try:
                with contextlib.redirect_stdout(io.StringIO()), np.errstate(all="ignore"):
                    result = functions[name](*positional, **named)
                watch(0)
                arguments.keep(result)
                if silent_nan([*positional, *named.values()], result):
                    failures.append(f"silent NaN: {text}")
            except FAILURES as error:
                failures.append(f"{type(error).__name__} {shown(error)}: {text}")
            except Exception:
                pass
            except BaseException as error:  # a hang, or an exit
                failures.append(f"{type(error).__name__}: {text}")
            finally:
                watch(0)
            if not thesis.exists() or thesis.read_text() != "years of work":
                failures.append(f"harmed a file: {text}")
                thesis.parent.mkdir(exist_ok=True)
                thesis.write_text("years of work")
            spent[name] += time.process_time() - before  # type: ignore[assignment]
            if made == calls:
                break
    report.write_text(json.dumps({"calls": made, "callables": len(names), "failures": failures}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]).resolve())
