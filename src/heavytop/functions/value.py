"""Immutable values with a structural key.

A value is the call that made it: a class, or a function marked :func:`recipe`, with its arguments. The key is a digest of that call, so two
values with equal keys are interchangeable, in this process and in another one: it finds compiled code, groups the points of a sweep and
identifies a study on disk; pickling writes the same call.

* Arrays count by their bytes. They are copied when a value is made and are read-only from then on; changing an attribute raises.
* User-defined functions and classes cannot be compared. A value that holds one has a key that no other value has: it is traced once, so a
  global variable that the function reads is frozen from then on. Make a new value to read it again.
* A value that holds objects that may change (a list that the user keeps, a random generator, an object that is not a value) has no key:
  it is traced every time.
"""

from __future__ import annotations

import hashlib
import inspect
import itertools
import sys
from abc import ABCMeta
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import FrozenInstanceError, fields, is_dataclass
from enum import Enum
from functools import cached_property, lru_cache, partial, wraps
from threading import RLock
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

import numpy as np

from heavytop._arrays import constant, is_symbolic, to_sx
from heavytop.functions.pickling import Portable

T = TypeVar("T")

CAPACITY = 512
"""Objects kept; the least recently used ones go first."""


class KeyedStore:
    """Objects by key, the most recently used ones.

    Examples
    --------
    >>> store = KeyedStore(capacity=2)
    >>> store.get("a", lambda: 1), store.get("a", lambda: 2), store.get(None, lambda: 3)
    (1, 1, 3)
    """

    def __init__(self, capacity: int = CAPACITY) -> None:
        self.capacity = capacity
        self._kept: OrderedDict[Hashable, Any] = OrderedDict()
        self._lock = RLock()

    def get(self, key: Hashable, build: Callable[[], T]) -> T:
        """The object of this key; ``build()`` makes it if there is none. The key None means: do not keep it."""
        if key is None:
            return build()
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        made = build()
        with self._lock:
            made = self._kept.setdefault(key, made)
            self._kept.move_to_end(key)
            while len(self._kept) > self.capacity:
                self._kept.popitem(last=False)
        return made

    def clear(self) -> None:
        """Forget everything in memory."""
        with self._lock:
            self._kept.clear()


store = KeyedStore()
"""The one of this process."""

Maker = TypeVar("Maker", bound=Callable[..., Any])

LOCAL = "#"
"""First character of keys that mean something in this process only."""
PACKAGES = ("heavytop", "heavytop_bench", "heavytop_mechanics")
"""Packages of this project."""
_LIBRARIES = frozenset({*PACKAGES, "numpy", "scipy", "casadi", *sys.stdlib_module_names} - {"__main__"})
MECHANISM = frozenset({"_call", "_sealed", "key", "_by_recipe"})
"""Attributes that belong to the mechanism of values."""
_IMMUTABLE: set[type] = {type(None), bool, int, float, str}
"""Types whose objects need no copy: numbers, text and all classes of values."""
_numbers = itertools.count(1)


class Origin(NamedTuple):
    """The call that made a value: its maker and the arguments."""

    maker: Callable[..., Any]
    arguments: tuple[Any, ...]
    options: dict[str, Any]

    def bound(self) -> Mapping[str, Any]:
        """All arguments by name, defaults included."""
        bound = _signature(self.maker).bind(*self.arguments, **self.options)
        bound.apply_defaults()
        return bound.arguments


class ValueType(ABCMeta):
    """Metaclass of values: keeps the call that makes one, then seals it."""

    def __init__(cls, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        _IMMUTABLE.add(cls)

    def __setattr__(cls, name: str, member: Any) -> None:
        # a frozen dataclass brings its own guards, whose message does not say what to do
        if name not in ("__setattr__", "__delattr__"):
            super().__setattr__(name, member)

    @property
    def __signature__(cls) -> inspect.Signature:
        """That of the constructor, for ``help`` and completion."""
        return _signature(cls)

    if not TYPE_CHECKING:  # a type checker must see the constructors

        def __call__(cls, *arguments: Any, **options: Any) -> Any:
            if not _IMMUTABLE.issuperset(map(type, arguments)):
                arguments = frozen(arguments)
            if options:
                options = frozen(options)
            value = super().__call__(*arguments, **options)
            state = vars(value)
            if np.ndarray in map(type, state.values()):
                for part in state.values():
                    if type(part) is np.ndarray:
                        part.setflags(write=False)
            state.setdefault("_call", Origin(cls, arguments, options))
            state["_sealed"] = True
            return value


class Value(Portable, metaclass=ValueType):
    """Base of everything that enters a computation: descriptions, laws, references, events, integrators, vehicles.

    Examples
    --------
    >>> class Gain(Value):
    ...     def __init__(self, factor):
    ...         self.factor = factor
    >>> Gain(2.0).factor = 3.0
    Traceback (most recent call last):
    dataclasses.FrozenInstanceError: Gain is immutable, so its 'factor' cannot be changed: make another one, Gain(...).
    """

    _sealed = False
    _call: Origin

    def __setattr__(self, name: str, value: Any) -> None:
        if self._sealed:
            raise FrozenInstanceError(self._immutable(name))
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(self._immutable(name))

    def _immutable(self, name: str) -> str:
        kind = type(self).__name__
        how = f"dataclasses.replace(value, {name}=...)" if is_dataclass(self) else f"{kind}(...)"
        return f"{kind} is immutable, so its {name!r} cannot be changed: make another one, {how}."

    @cached_property
    def key(self) -> str | None:
        """Digest of the call that made it; None if a part of it may change."""
        return self._make_key()

    def _make_key(self) -> str | None:
        if not _is_ours(type(self)):
            return _instance_key(vars(self), mutable=False)
        return _call_key(self._call) or _instance_key(self._call.bound())

    def _on_return(self) -> None:
        """Hook of subclasses: called whenever a function marked :func:`recipe` returns this value, for warnings about it."""

    def recipe(self) -> tuple[Any, ...]:
        """The call, as ``__reduce__`` gives it."""
        return _call, tuple(self._call)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


def _call(maker: Callable[..., Any], arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
    return maker(*arguments, **options)


def recipe(maker: Maker) -> Maker:
    """Decorate a function that makes values: what it returns is that call, and equal calls return the same object.

    Examples
    --------
    >>> class Gain(Value):
    ...     def __init__(self, factor):
    ...         self.factor = factor
    >>> double = recipe(lambda: Gain(2.0))
    >>> isinstance(double(), Gain)
    True
    """

    @wraps(maker)
    def make(*arguments: Any, **options: Any) -> Any:
        call = Origin(make, frozen(arguments), frozen(options))

        def build() -> Any:
            made = maker(*call.arguments, **call.options)
            state = vars(made)
            if "_by_recipe" not in state:  # else an inner recipe made it
                state["_call"], state["_by_recipe"] = call, True
                state.pop("key", None)
            return made

        shared = not (_has_symbols(call.arguments) or _has_symbols(call.options))
        made = store.get(_call_key(call) if shared else None, build)
        made._on_return()
        return made

    return make  # pyright: ignore[reportReturnType]


def frozen(value: Any) -> Any:
    """The value with read-only copies of its arrays and own copies of its lists and dictionaries.

    >>> given = np.zeros(2)
    >>> kept = frozen(given)
    >>> given[0] = 1.0
    >>> kept, kept.flags.writeable
    (array([0., 0.]), False)
    """
    kind = type(value)
    if kind is np.ndarray:
        if value.flags.writeable or value.base is not None:
            value = value.copy()
            value.setflags(write=False)
        return value
    if kind is tuple or kind is list:
        return kind(frozen(item) for item in value)
    if kind is dict:
        return {name: frozen(item) for name, item in value.items()}
    if isinstance(value, Value):
        return value
    return constant(value) if hasattr(value, "to_casadi") else value


# --- keys -------------------------------------------------------------------------------------------------------------------------


class _UserCode(Exception):
    """A user-defined function or class, which cannot be compared."""


class _Changing(Exception):
    """An object that may change."""


def key(*values: Any) -> str | None:
    """The key of some values together; None if one of them may change or holds user-defined functions.

    Examples
    --------
    >>> key(1.0, np.zeros(3)) == key(1.0, np.zeros(3)), key(0.0) == key(-0.0), key(print) == key(len)
    (True, False, False)
    >>> key(lambda x: x) is None
    True
    """
    try:
        return _digest(values)
    except (_UserCode, _Changing):
        return None


def is_local(text: str) -> bool:
    """Whether a key means something in this process only."""
    return text.startswith(LOCAL)


def _instance_key(parts: Mapping[str, Any], mutable: bool = True) -> str | None:
    """A key of one object only, provided that nothing it holds can change."""
    walk = Walk(skip_user_code=True, mutable=mutable)
    try:
        walk.digest(part for name, part in parts.items() if name not in MECHANISM)
    except _Changing:
        return None
    return instance_key()


def instance_key() -> str:
    """A key that nothing else has."""
    return f"{LOCAL}{next(_numbers)}"


def _call_key(call: Origin) -> str | None:
    try:
        return _digest((call.maker, dict(call.bound())))
    except (_UserCode, _Changing):
        return None


def _has_symbols(value: Any) -> bool:
    """Whether symbols are in it: they equal others by name, but belong to one system."""
    if isinstance(value, Value):
        return _has_symbols(value._call.arguments) or _has_symbols(value._call.options)
    if isinstance(value, Mapping):
        return any(map(_has_symbols, value.values()))
    if isinstance(value, tuple | list):
        return any(map(_has_symbols, value))
    return is_symbolic(value)


def _digest(values: Any) -> str:
    return Walk().digest(values)


class Walk:
    """Bytes that determine some values, structure included.

    Parameters
    ----------
    skip_user_code : skip user-defined functions and classes instead of raising.
    mutable : whether lists and dictionaries are allowed, because no one else holds them.
    """

    def __init__(self, skip_user_code: bool = False, mutable: bool = True) -> None:
        self.skip_user_code, self.mutable = skip_user_code, mutable
        self.parts: list[bytes] = []
        self.local = False
        self.inside: dict[int, int] = {}

    def digest(self, values: Any) -> str:
        self.add(tuple(values))
        text = hashlib.sha256(b"|".join(self.parts)).hexdigest()
        return f"{LOCAL}{text}" if self.local else text

    def put(self, *texts: Any) -> None:
        self.parts += [text if isinstance(text, bytes) else str(text).encode() for text in texts]

    def add(self, value: Any) -> None:
        kind = type(value)
        if value is None or kind in (bool, int, float, complex, str, bytes):
            self.put(kind.__name__, repr(value))
        elif kind in (tuple, list):
            self._items(kind.__name__, value)
        elif isinstance(value, np.ndarray | np.generic):
            self._array(np.asarray(value))
        elif isinstance(value, Value):
            self._value(value)
        elif is_symbolic(value):
            self._expression(value)
        elif isinstance(value, FunctionType):
            self._function(value)
        else:
            self._other(value, kind)

    def _items(self, name: str, items: Any) -> None:
        if name != "tuple" and not self.mutable:
            raise _Changing
        self.put(name, len(items))
        for item in items:
            self.add(item)

    def _array(self, value: np.ndarray) -> None:
        if value.dtype.hasobject:
            self._items("tuple", value.ravel().tolist())
        else:
            self.put("array", value.dtype.str, value.shape, value.tobytes())

    def _value(self, value: Value) -> None:
        text = value.key
        if text is None:
            raise _Changing
        self.local = self.local or is_local(text)
        self.put("value", text)

    def _expression(self, value: Any) -> None:
        import casadi

        if isinstance(value, casadi.Function):
            self.put("casadi function", value.serialize())
            return
        expression = to_sx(value)
        symbols = casadi.symvar(expression)
        function = casadi.Function("expression", symbols, [expression])
        self.put("expression", value.shape, [s.name() for s in symbols], function.serialize())

    def _function(self, value: FunctionType) -> None:
        if not _is_ours(value):
            self._user_code()
            return
        if id(value) in self.inside:  # it refers to itself
            self.put("again", self.inside[id(value)])
            return
        self.inside[id(value)] = len(self.inside)
        self.put("function", value.__module__, value.__qualname__)
        if getattr(sys.modules[value.__module__], value.__name__, None) is value:
            return  # found by its name
        self.put(value.__code__.co_firstlineno)
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        for part in (value.__defaults__, value.__kwdefaults__, *cells):
            self.add(part)

    def _user_code(self) -> None:
        """User-defined code cannot be compared."""
        if not self.skip_user_code:
            raise _UserCode

    def _other(self, value: Any, kind: type) -> None:
        if isinstance(value, Mapping):
            self._items("dict", list(value.items()))
        elif isinstance(value, frozenset | set):
            self._items("tuple" if kind is frozenset else "set", sorted(value, key=repr))
        elif isinstance(value, type):
            self.put("class", value.__module__, value.__qualname__) if _is_ours(value) else self._user_code()
        elif isinstance(value, Enum):
            self.put("enum", kind.__qualname__, value.name)
        elif isinstance(value, MethodType):
            self.add((value.__func__, value.__self__))
        elif isinstance(value, partial):
            self.add((value.func, value.args, value.keywords))
        elif hasattr(value, "__wrapped__"):  # behind functools.cache
            self.add(value.__wrapped__)
        elif isinstance(value, BuiltinFunctionType) and not isinstance(value.__self__, ModuleType | type | None):
            raise _Changing  # a method of an object that may change, such as a random generator
        elif isinstance(value, BuiltinFunctionType | np.ufunc) or _wraps_builtin(value):
            self.put("builtin", getattr(value, "__module__", ""), getattr(value, "__qualname__", value.__name__))
        elif isinstance(value, slice | range | np.dtype):
            self.put(repr(value))
        elif isinstance(value, tuple):  # named
            self._items("tuple", (kind.__qualname__, *value))
        elif is_dataclass(value) and _is_ours(kind):
            self.put("dataclass", kind.__module__, kind.__qualname__)
            for field in fields(value):
                self.add((field.name, getattr(value, field.name)))
        elif type(value).__module__.startswith("casadi"):
            self._expression(value)
        else:
            raise _Changing


def _wraps_builtin(value: Any) -> bool:
    return callable(value) and hasattr(value, "__name__") and type(value).__module__ in ("builtins", "numpy")


@lru_cache(4096)
def _signature(maker: Callable[..., Any]) -> inspect.Signature:
    if not isinstance(maker, type):
        return inspect.signature(maker)
    whole = inspect.signature(maker.__init__)
    return whole.replace(parameters=list(whole.parameters.values())[1:])


@lru_cache(4096)
def global_names(code: CodeType) -> tuple[str, ...]:
    names = dict.fromkeys(code.co_names)
    for item in code.co_consts:
        if isinstance(item, CodeType):
            names |= dict.fromkeys(global_names(item))
    return tuple(names)


def _is_ours(value: Any) -> bool:
    """Whether a class or function belongs to an installed library, whose code does not change while a program runs.

    It must be found there: a class made at run time may name any module.
    """
    is_function = isinstance(value, FunctionType)
    module = str((value.__globals__.get("__name__") if is_function else getattr(value, "__module__", None)) or "")
    home: Any = sys.modules.get(module) if module.partition(".")[0] in _LIBRARIES else None
    if is_function:
        return home is not None and vars(home) is value.__globals__
    for name in value.__qualname__.split("."):
        home = getattr(home, name, None)
    return home is value
