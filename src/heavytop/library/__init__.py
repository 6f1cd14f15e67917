"""Built-in systems, each a function that returns a fresh :class:`heavytop.System`; :func:`load` finds them by name.

>>> load("chain:4").name
'chain of 4'
"""

from __future__ import annotations

from collections.abc import Callable

from heavytop.errors import ModelError, UnknownNameError, unknown_name
from heavytop.library.copters import quadcopter as quadcopter
from heavytop.library.copters import tricopter_load as tricopter_load
from heavytop.library.pendulums import cart_pole as cart_pole
from heavytop.library.pendulums import chain as chain
from heavytop.library.pendulums import double_pendulum as double_pendulum
from heavytop.library.pendulums import furuta as furuta
from heavytop.library.pendulums import pendulum as pendulum
from heavytop.library.tops import free_body as free_body
from heavytop.library.tops import heavy_top as heavy_top
from heavytop.system import System

_BUILDERS: dict[str, Callable[..., System]] = {
    "pendulum": pendulum,
    "double-pendulum": double_pendulum,
    "cart-pole": cart_pole,
    "furuta": furuta,
    "heavy-top": heavy_top,
    "free-body": free_body,
    "quadcopter": quadcopter,
    "tricopter-load": tricopter_load,
    "chain": chain,
}


def names() -> tuple[str, ...]:
    """Names that :func:`load` knows; ``chain:N`` stands for a chain of N links."""
    return tuple("chain:N" if name == "chain" else name for name in _BUILDERS)


def load(name: str) -> System:
    """The built-in system of that name; underscores may stand for hyphens, ``chain:20`` is a chain of 20 links.

    Raises an UnknownNameError that lists the names.
    """
    kind, colon, count = name.strip().replace("_", "-").partition(":")
    if kind not in _BUILDERS:
        raise UnknownNameError(f"{unknown_name('built-in system', name, names())}")
    if not colon:
        return _BUILDERS[kind]()
    if kind != "chain":
        raise ModelError(f"only chain takes a number (chain:20), got {name!r}.")
    if not count.isdecimal():
        raise ModelError(f"chain:N needs a whole number of links, such as chain:20, got {name!r}.")
    return chain(int(count))
