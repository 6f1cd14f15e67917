"""Call every public callable with odd arguments; run as ``python fuzz_api.py SEED CALLS REPORT``. It has a cache of its own.

Callables are found by walking the packages, methods on whatever earlier calls returned. Allowed endings are a result, an error of
:mod:`heavytop.errors`, a TypeError or a ValueError. Everything else is a failure, as is NaN from finite numbers without a word.
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
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import heavytop as ht
from heavytop.errors import HeavytopError

LEFT_OUT = {"cli", "bench"}
"""Packages whose functions start processes, servers or measurements; their own tests cover them."""
NOT_CALLED = ("heavytop.show.live", "heavytop.show.cockpit", "measure_cortex_m7")
SECONDS = 30
"""Of the processor, for one call; ten times as much asleep. Time in which others have the processor does not count."""
PROCESSOR = 2 * 3600
"""Seconds of the processor for all calls: what hangs in native code, where no signal is seen, ends there."""
ENOUGH = 3.0
"""Seconds of the processor for all calls of one name in one process: plans and flights that succeed shall not take the time of the others."""
MOST = 5
"""Of the names that are looked at for a call: methods of classes that nothing has made yet are passed over."""
ALLOWED = (HeavytopError, TypeError, ValueError, NotImplementedError, StopIteration)


class Slow(Exception):
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
        for name in offered(package):
            value = getattr(package, name)
            if inspect.ismodule(value):
                for inner in vars(value).values():
                    if getattr(inner, "__module__", "") == value.__name__ and not getattr(
                        inner, "__name__", "_"
                    ).startswith("_"):
                        _add(found, inner)
            else:
                _add(found, value)
    return {name: value for name, value in sorted(found.items()) if not any(part in name for part in NOT_CALLED)}


def offered(package: ModuleType) -> list[str]:
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
    if name in found or (module.split(".")[1:2] and module.split(".")[1] in LEFT_OUT):
        return
    found[name] = value
    if inspect.isclass(value):
        for label, member in inspect.getmembers(value, callable):
            if not label.startswith("_") and (getattr(member, "__module__", "") or "").startswith("heavytop"):
                found[f"{name}.{label}"] = member


class Arguments:
    """Values that calls are made with: odd ones, plausible ones, and what earlier calls returned."""

    def __init__(self, rng: np.random.Generator, folder: Path) -> None:
        self.rng = rng
        self.pool: dict[type, list[Any]] = {}
        self.odd = [
            None, True, 0, 1, -1, 3, 10**30, -(10**30), 2**63, 0.0, -0.0, 1e-320, 1e308, float("nan"), float("inf"), 1j,
            "", "x", "world", "rod", "a/b", "\0", "no such name", b"bytes", (), [], {}, {"x": 1.0}, {1: 2}, set(), object(), int,
            len, lambda *a, **k: None, lambda *a: a, range(3), [None], [[1.0], [1.0, 2.0]], ["a", "b"], [1j, 2.0],
            folder / "file.nc", folder / "no" / "where", str(folder / "out"), 10**9,
        ]  # fmt: skip
        for entry in self._models():
            self.keep(entry)

    def _models(self) -> list[Any]:
        system = ht.System(name="pendulum")
        system.body("rod", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=(0, 0, -1)))
        system.input("motor", ht.JointForce("rod"))
        free = ht.System(name="top")
        free.body("hull", joint=ht.Free(), inertia=ht.Inertia(1.0, moment_at_com=(0.1, 0.2, 0.3)))
        model = system.derive()
        run = ht.simulate(model, ([0.1], [0.0]), 0.05, 0.01)
        traced = ht.compile.trace(lambda x: np.sin(x), {"x": (3,)}, name="f")
        return [system, model, run, free, free.derive(), ht.Revolute("y"), ht.Inertia(1.0), traced,
                ht.coordinates.Pose(), ht.coordinates.Vector(3), ht.coordinates.Rotation()]  # fmt: skip

    def keep(self, value: Any) -> None:
        """Remember an object for later calls."""
        if type(value).__module__.startswith("heavytop"):
            same = self.pool.setdefault(type(value), [])
            same.append(value)
            del same[:-4]

    def array(self) -> np.ndarray:
        """An array of a random shape and content."""
        rng = self.rng
        shape = [
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
        chosen = shape[rng.integers(len(shape))]
        kind = rng.integers(10)
        values = rng.normal(size=chosen)
        if kind == 0:
            values = np.full(chosen, [np.nan, np.inf, -np.inf][rng.integers(3)])
        elif kind == 1:
            values = np.zeros(chosen)
        elif kind == 2 and len(chosen) >= 2 and chosen[-1] == chosen[-2]:
            values = np.broadcast_to(np.eye(chosen[-1]), chosen).copy()
        elif kind == 3:
            values = rng.normal(size=chosen) * 10.0 ** rng.integers(-320, 308)
        elif kind == 4:
            return rng.integers(-3, 4, size=chosen)
        elif kind == 5:
            return values.astype([complex, object, str, bool][rng.integers(4)])
        return values

    def object(self) -> Any:
        """An object of the library."""
        kinds = list(self.pool)
        same = self.pool[kinds[self.rng.integers(len(kinds))]]
        return same[self.rng.integers(len(same))]

    def value(self) -> Any:
        """Anything."""
        draw = self.rng.random()
        if draw < 0.4:
            return self.array()
        if draw < 0.6:
            return self.object()
        if draw < 0.7:
            return float(self.rng.normal())
        return self.odd[self.rng.integers(len(self.odd))]

    def of(self, kind: type) -> Any:
        """An object of a class; None if no call has made one yet."""
        fitting = [same for found, same in self.pool.items() if kind in found.__mro__]
        same = fitting[self.rng.integers(len(fitting))] if fitting else [None]
        return same[self.rng.integers(len(same))]


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
    for k, parameter in enumerate(parameters):
        if parameter.kind is parameter.VAR_POSITIONAL:
            positional += [arguments.value() for _ in range(rng.integers(3))]
        elif parameter.kind is parameter.VAR_KEYWORD:
            continue
        elif parameter.default is parameter.empty or rng.random() < 0.3:
            bound = k == 0 and owner is not None and parameter.name == "self"
            value = arguments.of(owner) if bound else arguments.value()
            if parameter.kind is parameter.KEYWORD_ONLY or (parameter.default is not parameter.empty):
                named[parameter.name] = value
            else:
                positional.append(value)
    if rng.random() < 0.02:
        positional = positional[: max(len(positional) - 1, 1)]
    return positional, named


def silent_nan(values: list[Any], result: Any) -> bool:
    """NaN in a result although all numbers given were moderate."""
    for value in values:
        if isinstance(value, np.ndarray) and value.dtype.kind in "fi":
            if not np.all(np.abs(value) < 1e9):
                return False
        elif isinstance(value, int | float):
            if not abs(value) < 1e9:
                return False
        else:
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


def place(error: BaseException) -> str:
    """Where in the library an error came from."""
    frames = [
        f
        for f in traceback.extract_tb(error.__traceback__)
        if "heavytop" in f.filename and "campaign" not in f.filename
    ]
    return (
        f"{Path(frames[-1].filename).parent.name}/{Path(frames[-1].filename).name}:{frames[-1].lineno}"
        if frames
        else "?"
    )


def asleep() -> float:
    """Seconds in which this process neither ran nor waited for the processor; all that passed, where the system does not tell."""
    busy = 0
    for task in Path("/proc/self/task").glob("*/schedstat"):
        with contextlib.suppress(OSError):
            busy += sum(int(word) for word in task.read_text().split()[:2])
    return time.monotonic() - 1e-9 * busy


def main(seed: int, calls: int, report: Path) -> None:
    """Make the calls; write what happened, and beforehand what is about to happen."""
    resource.setrlimit(resource.RLIMIT_AS, (12 * 2**30, 12 * 2**30))
    resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR, PROCESSOR))
    rng = np.random.default_rng(seed)
    counts: Counter[str] = Counter()
    spent: Counter[str] = Counter()
    failures: list[dict[str, str]] = []

    begun = 0.0

    def expire(*_: object) -> None:
        raise Slow

    def look(*_: object) -> None:
        if asleep() - begun > 10 * SECONDS:
            raise Slow
        signal.alarm(SECONDS)

    signal.signal(signal.SIGALRM, look)
    signal.signal(signal.SIGPROF, expire)

    def watch(seconds: int) -> None:
        nonlocal begun
        begun = asleep()
        signal.setitimer(signal.ITIMER_PROF, seconds)
        signal.alarm(seconds)

    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder, open(f"{report}.now", "w") as now:
        os.chdir(folder)
        os.environ["HEAVYTOP_CACHE"] = str(Path(folder) / "cache")  # calls clear it
        arguments = Arguments(rng, Path(folder))
        functions = public_callables()
        names = list(functions)
        owners = {name: functions.get(name.rpartition(".")[0]) for name in names}
        made = 0
        for number in range(MOST * calls):
            if made == calls:
                break
            name = names[(number + seed * 7919) % len(names)]
            if spent[name] > ENOUGH:
                counts["called enough"] += 1
                continue
            owner = owners[name] if inspect.isclass(owners[name]) else None
            positional, named = call(functions[name], owner, arguments)
            if owner is not None and positional and positional[0] is None:
                counts["no object"] += 1
                continue
            made += 1
            text = f"{name}({', '.join([*map(shown, positional), *(f'{k}={shown(v)}' for k, v in named.items())])})"
            now.seek(0)
            now.truncate()
            now.write(f"{made} {text}")
            now.flush()
            failure = ""
            before = time.process_time()
            watch(SECONDS)
            try:
                with contextlib.redirect_stdout(io.StringIO()), np.errstate(all="ignore"):
                    result = functions[name](*positional, **named)
                watch(0)
                counts["returned"] += 1
                arguments.keep(result)
                if silent_nan([*positional, *named.values()], result):
                    failure = "silent NaN"
            except ALLOWED as error:
                counts["typed" if isinstance(error, HeavytopError) else "TypeError, ValueError"] += 1
                if isinstance(error, np.linalg.LinAlgError) and not isinstance(error, HeavytopError):
                    failure = f"LinAlgError at {place(error)}: {error}"
            except Slow:
                failure = "hang"
            except BaseException as error:
                failure = f"{type(error).__name__} at {place(error)}: {shown(error)}"
            finally:
                watch(0)
            spent[name] += time.process_time() - before  # type: ignore[assignment]
            if failure:
                failures.append({"call": text, "failure": failure})
    Path(report).write_text(
        json.dumps(
            {
                "calls": made,
                "counts": counts,
                "callables": len(names),
                "spent": spent.most_common(20),
                "enough": ENOUGH,
                "called enough": sorted(name for name, seconds in spent.items() if seconds > ENOUGH),
                "failures": failures,
            }
        )
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]).resolve())
