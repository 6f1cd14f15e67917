"""Keys that are the same in every process, of anything a user writes: for studies on disk.

User-defined functions and classes count by their code, the variables they name and, of modules of the user, the attributes they name;
objects by their class and state; functions, classes and modules of installed packages by their name.
"""

from __future__ import annotations

import sys
from copyreg import __newobj__ as default_reconstructor, dispatch_table  # pyright: ignore
from enum import Enum
from functools import cached_property, lru_cache, partial, partialmethod
from inspect import unwrap
from pathlib import Path
from sysconfig import get_paths
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    GeneratorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any
from uuid import uuid4
from weakref import ReferenceType, WeakKeyDictionary, WeakSet, WeakValueDictionary

import numpy as np

from heavytop.functions.value import MECHANISM, PACKAGES, Value, Walk, global_names, is_local

_WEAK = (ReferenceType, WeakKeyDictionary, WeakSet, WeakValueDictionary)
_REDUCTIONS: dict[type, Any] = dispatch_table  # pyright: ignore
_UNUSED = frozenset(
    {
        "__dict__",
        "__weakref__",
        "__doc__",
        "__module__",
        "__qualname__",
        "__firstlineno__",
        "__static_attributes__",
        "__annotations__",
        "__annotations_cache__",
        "__annotate_func__",
        "__dataclass_fields__",
        "__dataclass_params__",
        "__abstractmethods__",
        "_abc_impl",
        "__parameters__",
        "__orig_bases__",
        "__slotnames__",
    }
)
"""Attributes of classes that do not change results."""


def stable_key(*values: Any) -> str:
    """A key that is the same in every process.

    Files, environment variables and the like that a function reads are not seen, and objects that hold such resources (open files, locks,
    connections) count by their class.

    >>> stable_key(lambda x: x + 1) == stable_key(lambda x: x + 1), stable_key(lambda x: x + 1) == stable_key(lambda x: x + 2)
    (True, False)
    """
    return _StableWalk().digest(values)


class _StableWalk(Walk):
    """Describes user-defined code and objects instead of rejecting them."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[int, tuple[int, Any]] = {}  # with the objects: the id of one that is gone may be used again

    def add(self, value: Any) -> None:
        kind = type(value)
        if value is None or kind in (bool, int, float, complex, str, bytes):
            self.put(kind.__name__, repr(value))
        elif isinstance(value, ModuleType | BuiltinFunctionType | np.dtype):
            self.put(kind.__name__, getattr(value, "__module__", ""), getattr(value, "__qualname__", str(value)))
            owner = getattr(value, "__self__", None)
            if not isinstance(owner, ModuleType | type | None):
                self.add(owner)  # such as the dictionary of its method get
        elif id(value) in self.seen:
            self.put("again", self.seen[id(value)][0])
        else:
            self.seen[id(value)] = len(self.seen), value
            self._describe(value, kind)

    def _describe(self, value: Any, kind: type) -> None:
        if kind in (tuple, list):
            self._items(kind.__name__, value)
        elif kind in (dict, MappingProxyType):
            self._items("dict", list(value.items()))
        elif kind in (set, frozenset):
            self._items("set", sorted(stable_key(item) for item in value))
        elif kind in (np.ndarray, memoryview) or isinstance(value, np.generic):
            self._array(np.asarray(value))
        elif isinstance(value, np.ufunc | GeneratorType):
            self._compiled(value)
        elif isinstance(value, Value):
            self._value(value)
        elif _package(kind) == "casadi":
            self._expression(value)
        elif isinstance(value, FunctionType):
            self._function(value)
        elif isinstance(value, MethodType):
            self.add((value.__func__, value.__self__))
        elif isinstance(value, partial | partialmethod):
            self.add((value.func, value.args, value.keywords))
        elif isinstance(value, type):
            self._class(value)
        elif isinstance(value, Enum):
            self.add((kind, value.name))
        elif "__wrapped__" in getattr(value, "__dict__", ()) and callable(
            value
        ):  # functools.lru_cache and other decorators
            self.add((kind, unwrap(value)))
        else:
            self._object(value, kind)

    def _value(self, value: Value) -> None:
        text = value.key
        if text is not None and not is_local(text):
            self.put("value", text)
        elif _is_installed(type(value)):
            self.add((type(value), dict(value._call.bound())))
        else:
            self.add((type(value), _attributes(value)))

    def _compiled(self, value: np.ufunc | GeneratorType[Any, Any, Any]) -> None:
        """A universal function by its name; what :func:`numpy.frompyfunc` made, or a generator, hides its code: it equals nothing else."""
        homes = ("numpy", "scipy.special")
        found = next((home for home in homes if _found(home, value.__name__) is value), uuid4())
        self.put(type(value).__name__, found, value.__name__)

    # --- functions and classes ----------------------------------------------------------------------------------------------------

    def _function(self, value: FunctionType) -> None:
        home = str(value.__globals__.get("__name__", ""))
        self.put("function", value.__qualname__)
        if _is_installed(value) and _found(home, value.__qualname__) is value:
            self.put(home)
            return
        self._code(value.__code__, value.__doc__)
        names = (*global_names(value.__code__), *_texts(value.__code__))
        for name in names:
            if name in value.__globals__:
                self.put(name)
                self._global(value.__globals__[name], names)
        for cell in value.__closure__ or ():
            try:
                self.add(cell.cell_contents)
            except ValueError:
                self.put("empty cell")
        self.add((value.__defaults__, value.__kwdefaults__, vars(value)))

    def _global(self, value: Any, names: tuple[str, ...]) -> None:
        """A global variable of a function; of a module of the user the attributes that the function names."""
        self.add(value)
        if isinstance(value, ModuleType) and not _is_installed(value):
            for name in names:
                if hasattr(value, name) and not name.startswith("__"):
                    self.put(name)
                    self._global(getattr(value, name), tuple(n for n in names if n != name))

    def _code(self, code: CodeType, doc: str | None = None) -> None:
        self.put("code", code.co_code, code.co_names, code.co_varnames)
        for k, constant in enumerate(code.co_consts):
            if isinstance(constant, CodeType):
                self._code(constant)
            else:
                self.add(None if k == 0 and constant == doc else constant)

    def _class(self, value: type) -> None:
        self.put("class", value.__qualname__)
        if _is_installed(value):
            self.put(str(value.__module__))
            return
        self.add((type(value), value.__bases__))
        if issubclass(value, Enum):
            self.add({member.name: member.value for member in value})
        for name, member in vars(value).items():
            if name not in _UNUSED and not isinstance(member, MemberDescriptorType) and not isinstance(member, Enum):
                self.put(name)
                self.add(_plain(member))

    # --- objects ------------------------------------------------------------------------------------------------------------------

    def _object(self, value: Any, kind: type) -> None:
        if _package(kind) == "xarray" and hasattr(value, "to_dict"):
            self.add((kind, value.to_dict(data="array")))  # its state holds caches
            return
        self.add(kind)
        if isinstance(value, _WEAK):
            return
        if isinstance(value, np.ndarray):
            self.add(_attributes(value))
        try:
            reduced = _REDUCTIONS[kind](value) if kind in _REDUCTIONS else value.__reduce_ex__(4)
        except Exception:  # open files, locks, connections
            return
        if isinstance(reduced, str):
            self.put(reduced)
            return
        maker, arguments, state, items, entries, *_ = (*reduced, None, None, None)
        if maker is default_reconstructor:
            arguments = arguments[1:]
            state = {**_attributes(value), **_slots(value)} if _is_default(kind) else state
        self.add((maker, arguments, state, list(items or ()), list(entries or ())))


def _texts(code: CodeType) -> list[str]:
    """Constants that may name global variables or attributes: ``getattr(module, "mass")``."""
    found = [item for item in code.co_consts if isinstance(item, str) and item.isidentifier()]
    return found + [text for item in code.co_consts if isinstance(item, CodeType) for text in _texts(item)]


def _plain(member: Any) -> Any:
    """What a member of a class is made from."""
    if isinstance(member, property):
        return member.fget, member.fset, member.fdel
    if isinstance(member, staticmethod | classmethod):
        return member.__func__
    return member.func if isinstance(member, cached_property) else member


def _is_default(kind: type) -> bool:
    return getattr(kind, "__getstate__", None) is getattr(object, "__getstate__", None)


def _attributes(value: Any) -> dict[str, Any]:
    """Attributes of an object without those that it computes from the others."""
    own = getattr(value, "__dict__", {})
    return {
        n: part
        for n, part in own.items()
        if n not in MECHANISM and not isinstance(getattr(type(value), n, None), cached_property)
    }


def _slots(value: Any) -> dict[str, Any]:
    names = [n for base in type(value).__mro__ for n in _names(vars(base).get("__slots__", ()))]
    return {n: getattr(value, n) for n in names if n not in ("__dict__", "__weakref__") and hasattr(value, n)}


def _names(slots: Any) -> tuple[str, ...]:
    return (slots,) if isinstance(slots, str) else tuple(slots)


# --- installed packages -----------------------------------------------------------------------------------------------------------


def _package(kind: type) -> str:
    return str(kind.__module__).partition(".")[0]  # a descriptor in some extension modules


def _is_installed(value: Any) -> bool:
    """Whether a module, or the module of a class or function, belongs to Python or an installed package."""
    if isinstance(value, FunctionType):
        name = str(value.__globals__.get("__name__", ""))
    else:
        name = value.__name__ if isinstance(value, ModuleType) else str(value.__module__)
    if isinstance(value, type) and _found(name, value.__qualname__) is not value:
        return False  # made at run time
    return name in sys.modules and _is_installed_module(name, getattr(sys.modules[name], "__file__", None))


@lru_cache(4096)
def _is_installed_module(name: str, file: str | None) -> bool:
    top = name.partition(".")[0]
    if top in PACKAGES or (file is None and top in sys.stdlib_module_names and top != "__main__"):
        return True
    if file is None:
        return False
    path = Path(file)
    library = any(path.is_relative_to(get_paths()[which]) for which in ("stdlib", "platstdlib"))
    return library or bool({"site-packages", "dist-packages"}.intersection(path.parts))


def _found(module: str, name: str) -> Any:
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found
