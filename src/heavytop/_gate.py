"""The gate of the public interface: an error that slips out of a public function is turned into one of ours.

Functions check what they must know beforehand (shapes, signs, finiteness) themselves. What they cannot foresee, such as an
object of a wrong class, fails somewhere inside with an AttributeError or the like. The gate looks at the arguments then, and only
then: it compares them with the annotations of the function and names the one that does not fit. Errors of functions that the user
has given pass unchanged, and the new error is also one of the old kind, so that code that expects it goes on working.

The gate stands where users enter. What is called often from inside goes past it: such a method has a second name that was bound before,
``_raw_run = run`` in the class (:class:`Inside` where subclasses override it), and constructors that only store what they are given have
no gate.
"""

from __future__ import annotations

import inspect
import sys
import sysconfig
from collections.abc import Callable
from dataclasses import is_dataclass
from functools import cache, partial, wraps
from pathlib import Path
from types import FunctionType, ModuleType, TracebackType
from typing import Any, get_type_hints

import numpy as np

from heavytop._arrays import is_symbolic, numbers
from heavytop._offered import completion
from heavytop.errors import ArgumentError, HeavytopError, did_you_mean

_RAW = (
    AttributeError,
    IndexError,
    KeyError,
    OverflowError,
    ZeroDivisionError,
    RuntimeError,
    NotImplementedError,
    TypeError,
    ValueError,
    AssertionError,
    MemoryError,
    np.linalg.LinAlgError,
)
"""Built-in errors that are translated; exactly these classes, not what others derive from them."""
_OWN = (str(Path(__file__).parent), sysconfig.get_paths()["stdlib"], "<frozen ", "<__array_function__")
_INSTALLED = ("site-packages", "dist-packages", ".pyx", ".pxd")
"""Parts of the names of files that are installed; Cython tells its sources without their folder."""
_MARK = "__heavytop_gated__"
_MEANT = {
    "weights": ("cost",), "q": ("cost",), "r": ("cost",), "bounds": ("limits",), "constraints": ("path", "within"), "dt": ("step",),
    "h": ("step",), "timestep": ("step",), "n": ("horizon", "steps", "samples"), "t_final": ("until", "duration"),
    "t_end": ("until", "duration"), "tf": ("until", "duration"), "x0": ("start",), "target": ("goal", "reference"),
    "controller": ("control",), "soft": ("states", "within"),
}  # fmt: skip
"""Names that other tools give to what is called otherwise here."""


class Inside:
    """Base of classes with overridden methods that the library calls often: a method with a name ``_raw_NAME`` keeps both in step.

    >>> class Shape(Inside):
    ...     def area(self): return 0.0
    ...     _raw_area = area
    >>> class Square(Shape):
    ...     def area(self): return 1.0
    >>> Square()._raw_area()
    1.0
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name, member in list(vars(cls).items()):
            if hasattr(cls, f"_raw_{name}"):
                setattr(cls, f"_raw_{name}", member)


def gate(package: str, *modules: str, whole: bool = False) -> None:
    """Guard the public functions and classes of a package, and those of its public ``modules``, or of all (``whole``).

    To be called at the end of the package's ``__init__``. Completion (``dir``) then finds what the package and those in it offer.
    """
    owner = sys.modules[package]
    parts = [value for value in vars(owner).values() if isinstance(value, ModuleType) and hasattr(value, "__path__")]
    for module in (owner, *(part for part in parts if part.__name__.startswith(f"{package}."))):
        vars(module).setdefault("__dir__", partial(completion, module))
    inside = [name for name, value in vars(owner).items() if whole and isinstance(value, ModuleType)]
    for name, value in list(vars(owner).items()):
        if not name.startswith("_") and not isinstance(value, ModuleType):
            _guard(owner, name, value, package)
    for module in (*modules, *inside):
        inner = sys.modules.get(f"{package}.{module}")
        for name, value in list(vars(inner).items()) if inner is not None else ():
            if inner is not None and not name.startswith("_"):
                _guard(inner, name, value, inner.__name__)


def gated(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function behind the gate."""

    @wraps(function)
    def guarded(*arguments: Any, **named: Any) -> Any:
        try:
            return function(*arguments, **named)
        except _RAW as error:
            translated = _translated(function, arguments, named, error)
            if translated is None:
                raise
            raise translated from error

    setattr(guarded, _MARK, True)
    return guarded


def _guard(owner: ModuleType, name: str, value: Any, package: str) -> None:
    """Guard one public name where it is defined and where it is offered."""
    if not str(getattr(value, "__module__", "")).startswith(package) or getattr(value, _MARK, False):
        return
    if isinstance(value, FunctionType):
        wrapped = gated(value)
        setattr(owner, name, wrapped)
        home = sys.modules[value.__module__]
        if getattr(home, name, None) is value:
            setattr(home, name, wrapped)
    elif inspect.isclass(value) and not issubclass(value, BaseException) and not getattr(value, "_is_protocol", False):
        _guard_class(value)


def _guard_class(kind: type) -> None:
    """Guard the constructor and the public methods that a class and its bases in the library define."""
    for base in kind.__mro__:
        if not base.__module__.startswith("heavytop"):
            continue
        for name, member in list(vars(base).items()):
            if name == "__repr__" and isinstance(member, FunctionType) and not getattr(member, _MARK, False):
                setattr(base, name, _told(member))
            if name.startswith("_") and (name != "__init__" or _only_stores(base)):
                continue
            if isinstance(member, FunctionType) and not getattr(member, _MARK, False):
                setattr(base, name, gated(member))
            elif isinstance(member, staticmethod | classmethod) and not getattr(member.__func__, _MARK, False):
                setattr(base, name, type(member)(gated(member.__func__)))


def _told(text: Callable[[Any], str]) -> Callable[[Any], str]:
    """A ``__repr__`` that fails for no object: errors of others show the objects that they speak of."""

    @wraps(text)
    def told(self: Any) -> str:
        try:
            return text(self)
        except (*_RAW, HeavytopError) as error:
            return f"<{type(self).__name__} whose parts do not fit: {error}>"

    setattr(told, _MARK, True)
    return told


def _only_stores(kind: type) -> bool:
    """Whether the constructor was generated and nothing follows it: it fails only for missing or unknown arguments, as Python tells."""
    if not is_dataclass(kind) or hasattr(kind, "__post_init__"):
        return False
    return getattr(kind.__init__, "__code__", _only_stores.__code__).co_filename == "<string>"


def _translated(
    function: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any], error: Exception
) -> Exception | None:
    """Our error for a raw one; None where it must pass: not a built-in class, or raised by code of the user.

    An error that an inner gate made is told anew where the outer function was given the argument that does not fit.
    """
    again = isinstance(error, ArgumentError)
    raw = MemoryError if isinstance(error, MemoryError) else type(error)  # NumPy has a class of its own
    if not again and (isinstance(error, HeavytopError) or raw not in _RAW or not _own(error.__traceback__)):
        return None
    label = f"{function.__module__.removeprefix('heavytop.')}.{function.__qualname__}"
    reason = f"{type(error).__name__}: {error.args[0] if error.args else ''}"
    try:
        misfit = _misfit(function, arguments, named)
    except Exception:
        misfit = ""
    if again:
        return type(error)(f"{label}: {misfit}") if misfit else None
    if misfit:
        return _kind(raw)(f"{label}: {misfit} ({reason})")
    known = _accepted(function, named) if raw is TypeError else ""
    if known:  # from Python 3.13 on it proposes a name too
        reason = reason.partition(". Did you mean")[0]
    elif raw is TypeError and (takes := _call_that_fails(function, arguments, named)):
        reason, known = reason.replace(f"{function.__qualname__}()", f"{function.__name__}()"), f" It takes {takes}."
    given = _given(function, arguments, named)
    return _kind(raw)(f"{label} cannot take these arguments: {reason}.{known} Given: {given}.")


def _given(function: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]) -> str:
    """The arguments of a call as they were understood: by name, without the object whose method was called."""
    parameters = list(inspect.signature(function).parameters.values())
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if names[:1] in (["self"], ["cls"]):
        names, arguments = names[1:], arguments[1:]
    placed = [f"{name}={shown(value)}" for name, value in zip(names, arguments, strict=False)]
    placed += [shown(value) for value in arguments[len(names) :]]
    return ", ".join([*placed, *(f"{name}={shown(value)}" for name, value in named.items())]) or "nothing"


def _call_that_fails(function: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]) -> str:
    """What a function takes, where a call leaves out arguments or has too many; empty where the call itself is right."""
    signature = inspect.signature(function)
    try:
        signature.bind(*arguments, **named)
    except TypeError:
        kept = [p.replace(annotation=p.empty) for p in signature.parameters.values() if p.name not in ("self", "cls")]
        return str(signature.replace(parameters=kept, return_annotation=signature.empty))
    return ""


def _accepted(function: Callable[..., Any], named: dict[str, Any]) -> str:
    """What ends the message about a keyword that the function does not have: the nearest one, and all; else nothing."""
    parameters = inspect.signature(function).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return ""
    known = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    unknown = [name for name in named if name not in known]
    offered = [name for name in known if name not in ("self", "cls") and not name.startswith("_")]
    if not unknown:
        return ""
    meant = next((name for name in _MEANT.get(unknown[0].lower(), ()) if name in offered), None)
    hint = did_you_mean(unknown[0], offered) if meant is None else f" Did you mean {meant!r}?"
    return f"{hint} Accepted: {', '.join(offered) or 'no keyword'}."


def _own(trace: TracebackType | None) -> bool:
    """Whether an error was raised in the library or in one that is installed, not in a function that the user wrote."""
    file = ""
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        trace = trace.tb_next
    return file.startswith(_OWN) or any(part in file for part in _INSTALLED)


@cache
def _kind(raw: type[Exception]) -> type[Exception]:
    """An ArgumentError that is also an error of the raw class."""
    if issubclass(ArgumentError, raw):
        return ArgumentError
    return type(
        "ArgumentError", (ArgumentError, raw), {"__module__": "heavytop.errors", "__str__": ArgumentError.__str__}
    )


def _misfit(function: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]) -> str:
    """The first argument that its annotation does not allow, in words."""
    signature = inspect.signature(function)
    hints = get_type_hints(function)
    for name, value in signature.bind(*arguments, **named).arguments.items():
        text = str(function.__annotations__.get(name, ""))
        hint = hints.get(name)
        if text == "Array" and not is_symbolic(value):
            try:
                numbers(value, name)
            except HeavytopError as error:
                return str(error)
        elif isinstance(hint, type) and not getattr(hint, "_is_protocol", False) and hint not in (object, float, int):
            if not isinstance(value, hint):
                made = getattr(hint, "_made_by", "")
                return f"{name} must be of class {hint.__name__}, got {shown(value)}.{made and f' {made} makes one.'}"
        elif hint in (float, int) and not np.isscalar(value) and np.ndim(value):
            return f"{name} must be a number, got {shown(value)}."
    return ""


def shown(value: Any) -> str:
    """A short text of an argument; its class where it has none."""
    try:
        with np.printoptions(threshold=12, precision=4):
            text = " ".join(repr(value).split())
    except Exception:
        return f"an object of class {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:60]}... of class {type(value).__name__}"
