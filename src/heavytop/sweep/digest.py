"""What a study is, as lines of text: equal where the study is equal, to be compared with what a store was made for."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import is_dataclass
from difflib import unified_diff
from inspect import unwrap
from pathlib import Path
from sysconfig import get_path
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from heavytop._arrays import is_symbolic, shape, to_sx
from heavytop.functions import Value
from heavytop.functions.pickling import Portable, kept_attributes
from heavytop.simulate.run import Run
from heavytop.system.model import Model

SHOWN = 6
"""Numbers of an array that a line shows."""


def line(name: str, value: Any) -> str:
    """One line: the name, what the value looks like, and a digest of all that determines it."""
    return f"{name} = {_look(value)} [{digest(value)}]"


def digest(value: Any) -> str:
    """Twelve hexadecimal digits that determine a value."""
    hashed = hashlib.sha256()
    for text in _texts(value, {}):
        hashed.update(text.encode())
        hashed.update(b"|")
    return hashed.hexdigest()[:12]


def difference(stored: Iterable[str], given: Iterable[str]) -> str:
    """Lines that differ, with - for what the store was made for and + for what is asked for now."""
    lines = list(unified_diff(list(stored), list(given), lineterm="", n=0))[2:]
    return "\n".join(f"{text[0]} {text[1:]}" for text in lines if not text.startswith("@@"))


def _look(value: Any) -> str:
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiubU":
        flat = value.reshape(-1)
        shown = [str(x) for x in (flat if len(flat) <= SHOWN else [*flat[: SHOWN - 1].tolist(), flat[-1]])]
        if len(flat) > SHOWN:
            shown.insert(-1, "...")
        return f"{value.shape} {', '.join(shown)}"
    if isinstance(value, FunctionType | MethodType):
        return f"{value.__module__}.{value.__qualname__}"
    if isinstance(value, Mapping | list | tuple | np.ndarray):
        return f"{type(value).__name__} of {len(value)}"
    text = repr(value)
    return text if len(text) < 90 and " at 0x" not in text else type(value).__name__


Seen = dict[int, tuple[int, Any]]
"""Number of what was told, by its id; kept here, as the id of an object that is gone may become that of another."""


def _texts(value: Any, seen: Seen) -> Iterable[str]:
    """The content of a value as a stream of texts; whatever was told before is told by its number."""
    if value is None or isinstance(value, str | bytes | bool | int | float | complex | np.generic):
        yield f"{type(value).__name__} {value!r}"
        return
    if id(value) in seen:
        yield f"again {seen[id(value)][0]}"
        return
    seen[id(value)] = len(seen), value
    if isinstance(value, Model) and value.description.equations_key is not None:
        yield f"model {value.description.equations_key}"
    elif type(value).__name__ == "Function" and hasattr(value, "serialize"):  # of CasADi
        yield str(value.serialize())  # pyright: ignore
    elif is_symbolic(value):
        yield _expression(value)
    elif isinstance(value, np.ndarray) and value.dtype.kind in "fiubU":
        array = np.ascontiguousarray(value)
        yield f"array {array.dtype.str} {array.shape} {hashlib.sha256(array.tobytes()).hexdigest()}"
    elif isinstance(value, MethodType):
        yield f"method {value.__func__.__qualname__}"
        yield from _texts(value.__self__, seen)
    elif isinstance(value, FunctionType):
        yield from _function(value, seen)
    elif isinstance(value, type | ModuleType | BuiltinFunctionType):
        yield f"{type(value).__name__} {getattr(value, '__module__', '')}.{getattr(value, '__qualname__', value.__name__)}"
    elif type(value).__module__.partition(".")[0] == "xarray" and hasattr(value, "to_dict"):
        yield type(value).__name__
        yield from _texts(value.to_dict(data="array"), seen)  # pyright: ignore
    elif isinstance(value, Mapping):
        yield f"map {len(value)}"
        for key, item in value.items():
            yield from _texts(key, seen)
            yield from _texts(item, seen)
    elif isinstance(value, set | frozenset):
        yield f"set {sorted(map(repr, value))}"
    elif isinstance(value, list | tuple | np.ndarray):
        yield f"{type(value).__name__} {len(value)}"
        for item in value:
            yield from _texts(item, seen)
    else:
        yield from _object(value, seen)


def _object(value: Any, seen: Seen) -> Iterable[str]:
    cls = type(value)
    yield f"{cls.__module__}.{cls.__qualname__}"
    made_by = vars(value).get("_made_by") if hasattr(value, "__dict__") else None
    if made_by is not None:
        yield from _texts(made_by[1][1:], seen)
        yield made_by[1][0].__qualname__
    elif isinstance(value, Model):
        yield from _texts(value.description, seen)
    elif isinstance(value, Run):
        yield from _texts((value.t, value.q, value.v), seen)
    elif hasattr(value, "__dict__") and (isinstance(value, Portable) or not _pickles_itself(cls)):
        traits = dict(value._call.bound()) if isinstance(value, Value) else kept_attributes(value)
        for name, item in traits.items():
            yield name
            yield from _texts(item, seen)
        yield from _texts({n: getattr(value, n) for n in _slots(cls) if hasattr(value, n)}, seen)
    else:
        reduced = value.__reduce_ex__(4)
        if isinstance(reduced, tuple):  # arguments, state, entries of a list and of a map
            entries = [None if items is None else list(items) for items in reduced[3:5]]
            reduced = (*reduced[1:3], *entries)
        yield from _texts(reduced, seen)


def _pickles_itself(cls: type) -> bool:
    """Whether a class says itself what is kept of its objects."""
    return any(
        getattr(cls, name, None) is not getattr(object, name, None)
        for name in ("__reduce_ex__", "__reduce__", "__getstate__")
    )


def _slots(cls: type) -> list[str]:
    """Attributes that are not in the dictionary of an object."""
    found = [name for base in cls.__mro__ for name in _as_tuple(vars(base).get("__slots__", ()))]
    return [name for name in found if name not in ("__dict__", "__weakref__")]


def _as_tuple(names: Any) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _function(function: FunctionType, seen: Seen) -> Iterable[str]:
    """Its code, defaults, closure, and what it uses of its module: numbers, texts, collections, functions and objects of ours."""
    module = function.__module__ or ""
    yield f"function {module} {function.__qualname__}"
    if module.partition(".")[0] == "heavytop" and not function.__closure__ and "<locals>" not in function.__qualname__:
        return  # the version of the library determines it
    yield from _code(function.__code__)
    yield from _texts((function.__defaults__, function.__kwdefaults__), seen)
    for cell in function.__closure__ or ():
        try:
            yield from _texts(cell.cell_contents, seen)
        except ValueError:
            yield "empty cell"
    for name in _names(function.__code__):
        value = unwrap(found) if callable(found := function.__globals__.get(name)) else found
        if isinstance(value, KINDS) or is_dataclass(value) or (isinstance(value, FunctionType) and _own(value)):
            yield name
            yield from _texts(value, seen)


KINDS = int | float | complex | str | bytes | tuple | list | set | frozenset | Mapping | np.ndarray | Portable
"""What a function can use of its module and what is then part of a study."""


def _own(function: FunctionType) -> bool:
    """Whether a function was written by the user, who may change it; not part of Python or of a package that is installed."""
    file = Path(function.__code__.co_filename)
    return not {"site-packages", "dist-packages"}.intersection(file.parts) and not file.is_relative_to(
        get_path("stdlib")
    )


def _names(code: CodeType) -> list[str]:
    """Names that the code of a function and of functions inside of it looks up."""
    inner = (name for part in code.co_consts if isinstance(part, CodeType) for name in _names(part))
    return list(dict.fromkeys([*code.co_names, *inner]))


def _code(code: CodeType) -> Iterable[str]:
    yield hashlib.sha256(code.co_code).hexdigest()
    yield repr(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _code(constant)
        else:
            yield repr(sorted(map(repr, constant))) if isinstance(constant, frozenset) else repr(constant)


def _expression(value: Any) -> str:
    import casadi

    sx = to_sx(value)
    return f"{shape(value)}{casadi.Function('e', casadi.symvar(sx), [sx]).serialize()}"
