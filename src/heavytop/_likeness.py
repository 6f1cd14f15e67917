"""What an object of the user is made of, as a key: two equal keys mean that whatever is computed from the object is the same.

A law, an event or an integrator is traced once and then found again. To find it by its identity would ignore an attribute that was set
since, an array that was changed in place, a global variable that a function reads. So its whole content is the key: attributes, entries
of containers, numbers of arrays, the code of functions with their closures, defaults and the globals that they name, and classes with
their methods. What lasts (a derived model, native code) and what is installed (NumPy, this library) counts by identity. What nobody can
look into, such as a generator of random numbers, is like nothing else, not even like itself: it is computed anew every time.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable
from enum import Enum
from functools import cache, cached_property, lru_cache, partial
from hashlib import blake2b
from types import BuiltinFunctionType, CodeType, FunctionType, MethodDescriptorType, MethodType, ModuleType
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

import numpy as np

MOST = 20_000
"""Parts of an object that are looked at; a larger one is computed anew."""
LONG = 1024
"""Bytes of an array above which its digest stands for it."""


class Lasting:
    """Base of classes whose objects never change in what they compute: they are told apart by identity."""

    def _lasts(self) -> bool:
        """Whether this one does; False: it is told apart by its content after all."""
        return True


class Same:
    """An object itself as a key, kept alive so that nothing else can take its place."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.value is self.value


class _Kept:
    """Something that must stay alive with a key, but says nothing by itself."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __hash__(self) -> int:
        return 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Kept)


class _Opaque(Exception):
    """Something that nobody can look into."""


def likeness(*values: Any) -> Hashable:
    """The content of some values as a key; unlike every other key where part of it cannot be known.

    Examples
    --------
    >>> gains = np.array([1.0, 2.0])
    >>> law = lambda v: -gains * v
    >>> before = likeness(law)
    >>> before == likeness(law)
    True
    >>> gains[0] = 3.0
    >>> before == likeness(law)
    False
    """
    seen = _Walk()
    try:
        for value in values:
            seen.add(value)
    except (_Opaque, RecursionError):
        return object()
    return tuple(seen.parts)


class _Walk:
    """The parts of values in order, each object once."""

    def __init__(self) -> None:
        self.parts: list[Hashable] = []
        self.places: dict[int, int] = {}
        self.kept: list[Any] = []  # a temporary object must not lend its identity to the next one

    def add(self, value: Any) -> None:
        kind = type(value)
        parts = self.parts
        if kind in _PLAIN:
            parts.append(kind)
            parts.append(value)
            return
        if kind is float or kind is complex:
            parts.append(kind)
            parts.append(value if value else repr(value))  # 0.0 == -0.0
            return
        if len(parts) > MOST:
            raise _Opaque
        place = self.places.setdefault(id(value), len(parts))
        if place != len(parts):
            parts.append(_SEEN)
            parts.append(place)
            return
        self.kept.append(value)
        walk = _KINDS.get(kind)
        if walk is not None:
            parts.append(kind)
            walk(self, value)
        else:
            self._other(value, kind)

    def _other(self, value: Any, kind: type) -> None:
        if isinstance(value, Enum | np.ufunc | np.dtype) or (isinstance(value, Lasting) and value._lasts()):
            self.parts.append(Same(value))
        elif isinstance(value, type):
            self._class(value)
        elif isinstance(value, np.ndarray | np.generic):
            self.parts.append(kind)
            self._array(np.asarray(value))
        elif kind.__module__.partition(".")[0] == "casadi":
            self._symbols(value)
        else:
            self._object(value, kind)

    def _items(self, value: Any) -> None:
        self.parts.append(len(value))
        for item in value:
            self.add(item)

    def _mapping(self, value: Any) -> None:
        self.parts.append(len(value))
        for key, item in value.items():
            self.add(key)
            self.add(item)

    def _set(self, value: Any) -> None:
        if not all(type(item) in _PLAIN for item in value):
            raise _Opaque
        self.parts.append(frozenset((type(item), item) for item in value))

    def _array(self, value: np.ndarray) -> None:
        self.parts.append(value.dtype.str)
        self.parts.append(value.shape)
        if value.dtype.hasobject:
            self._items(value.ravel().tolist())
            return
        content = value.tobytes()
        self.parts.append(content if len(content) <= LONG else blake2b(content).digest())

    def _symbols(self, value: Any) -> None:
        """Expressions by their elements, as they may be replaced in place; functions of CasADi never change."""
        import casadi

        if isinstance(value, casadi.Function):
            self.parts.append(Same(value))
            return
        wrapped = getattr(value, "to_casadi", None)
        if wrapped is None and not isinstance(value, casadi.SX):
            raise _Opaque
        matrix: Any = value if wrapped is None else casadi.SX(wrapped())
        self.parts.append(_Kept(matrix))
        self.parts.append(str(matrix.sparsity()))
        self.parts.append(tuple(element.element_hash() for element in matrix.nonzeros()))

    def _function(self, value: FunctionType) -> None:
        home = sys.modules.get(value.__module__) if _trusted(value.__module__) else None
        trusted = home is not None and vars(home) is value.__globals__  # it does not merely claim to be from there
        self.parts.append(Same(value.__code__) if trusted else value.__code__)
        for part in (value.__defaults__, value.__kwdefaults__, value.__dict__ or None):
            self.add(part)
        for cell in value.__closure__ or ():
            try:
                self.add(cell.cell_contents)
            except ValueError:  # not filled yet
                self.parts.append(None)
        if not trusted:
            self._globals(value)

    def _globals(self, value: FunctionType) -> None:
        names, known = _names(value.__code__), value.__globals__
        for name in names:
            found = known.get(name, sys.modules.get(name, _SEEN))  # or imported inside
            if found is _SEEN:
                continue
            self.parts.append(name)
            if isinstance(found, ModuleType) and not _trusted(found.__name__):
                for inner in names:
                    if hasattr(found, inner):
                        self.add(getattr(found, inner))
            else:
                self.add(found)

    def _method(self, value: MethodType) -> None:
        self.add(value.__func__)
        self.add(value.__self__)

    def _partial(self, value: partial) -> None:
        for part in (value.func, value.args, value.keywords):
            self.add(part)

    def _descriptor(self, value: Any) -> None:
        for name in ("__func__", "fget", "fset", "func"):
            self.add(getattr(value, name, None))

    def _remembering(self, value: Any) -> None:
        """A function behind functools.cache."""
        self.add(value.__wrapped__)

    def _itself(self, value: Any) -> None:
        self.parts.append(Same(value))

    def _class(self, value: type) -> None:
        self.parts.append(Same(value))
        for base in value.__mro__:
            if not installed(base):
                for name, member in list(vars(base).items()):
                    if name not in _OF_CLASSES:
                        self.parts.append(name)
                        self.add(member)

    def _object(self, value: Any, kind: type) -> None:
        """Attributes; those that a class of the library computes when asked follow from the others."""
        if not _is_open(kind):
            raise _Opaque
        self.add(kind)
        if isinstance(value, dict):
            self._mapping(value)
        elif isinstance(value, list | tuple):
            self._items(value)
        trusted = installed(kind)
        for name, part in getattr(value, "__dict__", {}).items():
            if trusted and isinstance(getattr(kind, name, None), cached_property):
                continue
            if isinstance(part, WeakKeyDictionary | WeakValueDictionary):
                continue  # who uses it, not what it is
            self.parts.append(name)
            self.add(part)
        for name in _slots(kind):
            self.parts.append(name)
            self.add(getattr(value, name, None))


@lru_cache(1024)
def _is_open(kind: type) -> bool:
    """Whether all that an object of this class has is in its attributes and entries: no class behind it is made in C."""
    for base in kind.__mro__:
        if base in (object, dict, list, tuple):
            continue
        file = getattr(sys.modules.get(base.__module__), "__file__", None)
        if base.__module__ != "__main__" and (file is None or not file.endswith(".py")):
            return False
    return True


@lru_cache(1024)
def _slots(kind: type) -> tuple[str, ...]:
    found: list[str] = []
    for base in kind.__mro__:
        names = vars(base).get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            if name not in ("__dict__", "__weakref__"):
                private = name.startswith("__") and not name.endswith("__")
                found.append(f"_{base.__name__.lstrip('_')}{name}" if private else name)
    return tuple(found)


@lru_cache(1024)
def _names(code: CodeType) -> tuple[str, ...]:
    """Names that a function and those inside it look up outside."""
    names = dict.fromkeys(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= dict.fromkeys(_names(constant))
    return tuple(names)


@lru_cache(1024)
def installed(kind: type) -> bool:
    """Whether a class is one of a trusted module: what merely claims so is not found there."""
    found: Any = sys.modules.get(kind.__module__) if _trusted(kind.__module__) else None
    for name in kind.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is kind


@cache
def _trusted(module: str | None) -> bool:
    """Whether the code of a module does not change while a program runs."""
    return module is not None and module.partition(".")[0] in _INSTALLED


_SEEN = object()
_INSTALLED = frozenset({"heavytop", "numpy", "scipy", "casadi", "llvmlite", *sys.stdlib_module_names})
_REMEMBERING = type(_trusted)
_PLAIN = frozenset({type(None), bool, int, str, bytes, type(Ellipsis)})
_KINDS: dict[type, Callable[[_Walk, Any], None]] = {
    np.ndarray: _Walk._array,
    list: _Walk._items,
    tuple: _Walk._items,
    dict: _Walk._mapping,
    set: _Walk._set,
    frozenset: _Walk._set,
    FunctionType: _Walk._function,
    MethodType: _Walk._method,
    partial: _Walk._partial,
    property: _Walk._descriptor,
    staticmethod: _Walk._descriptor,
    classmethod: _Walk._descriptor,
    cached_property: _Walk._descriptor,
    BuiltinFunctionType: _Walk._itself,
    MethodDescriptorType: _Walk._itself,
    ModuleType: _Walk._itself,
    _REMEMBERING: _Walk._remembering,
}
_OF_CLASSES = frozenset(
    {"__dict__", "__weakref__", "__doc__", "__module__", "__abstractmethods__", "_abc_impl", "__annotations__"}
)
