"""Built-in systems: functions that return a new :class:`heavytop.System` each; :func:`load` finds them by name.

>>> load("chain:4").name
'chain of 4'
"""

from __future__ import annotations

import re
from collections.abc import Callable
from inspect import signature
from typing import TYPE_CHECKING

import numpy as np

from heavytop._elsewhere import missing_from
from heavytop.errors import ModelError, unknown_name
from heavytop.library.clearance import (
    STARTS as _LOOSE_STARTS,
    loose_four_bar as loose_four_bar,
    slider_crank as slider_crank,
    woodpecker as woodpecker,
)
from heavytop.library.contact import (
    STARTS as _CONTACT_STARTS,
    billiard as billiard,
    bouncing_ball as bouncing_ball,
    euler_disc as euler_disc,
    gripper as gripper,
    rattleback as rattleback,
    resting_on_ground as resting_on_ground,
    rocking_block as rocking_block,
    tippe_top as tippe_top,
)
from heavytop.library.copters import quadcopter as quadcopter, tricopter_load as tricopter_load
from heavytop.library.mechanisms import (
    andrews as andrews,
    andrews_start as _andrews_start,
    bricard as bricard,
    four_bars as four_bars,
    four_bars_start as _four_bars_start,
    governor as governor,
    governor_start as _governor_start,
)
from heavytop.library.nonholonomic import (
    car as car,
    chaplygin_sleigh as chaplygin_sleigh,
    rolling_ball as rolling_ball,
    rolling_disc as rolling_disc,
    skate as skate,
    snakeboard as snakeboard,
)
from heavytop.library.pendulums import (
    cart_pole as cart_pole,
    chain as chain,
    double_pendulum as double_pendulum,
    free_body as free_body,
    furuta as furuta,
    heavy_top as heavy_top,
    pendulum as pendulum,
)
from heavytop.library.trees import (
    bare_tricopter_load as bare_tricopter_load,
    panda as panda,
    random_chain as random_chain,
)
from heavytop.system import Model, System

_BUILDERS: dict[str, Callable[[], System]] = {
    builder.__name__.replace("_", "-"): builder
    for builder in (
        pendulum, double_pendulum, cart_pole, furuta, heavy_top, free_body, quadcopter, tricopter_load, bare_tricopter_load, panda,
        andrews, bricard, governor, skate, chaplygin_sleigh, rolling_disc, rolling_ball, car, snakeboard,
    )
}  # fmt: skip
_TOUCHING: dict[str, Callable[[], System]] = {
    builder.__name__.replace("_", "-"): builder
    for builder in (
        bouncing_ball, billiard, rocking_block, euler_disc, rattleback, gripper, tippe_top, slider_crank, loose_four_bar,
        woodpecker,
    )
}  # fmt: skip
"""Systems with contact, most of them rigid, for ``integrator="moreau"``."""
_COUNTED: dict[str, Callable[[int], System]] = {"chain": chain, "random-chain": random_chain, "four-bars": four_bars}
_DEFAULT_COUNT = {"chain": 5, "random-chain": 5, "four-bars": 2}


_STARTS: dict[str, Callable[[Model], tuple[np.ndarray, np.ndarray]]] = {
    "andrews": _andrews_start,
    "four-bars": _four_bars_start,
    "governor": _governor_start,
    **_CONTACT_STARTS,
    **_LOOSE_STARTS,
}


_LARGEST = 50
"""Bodies of the largest chain whose name :func:`name_of` finds."""
_STEPS = {
    "andrews": 1e-5,
    "governor": 2e-4,
    "tippe-top": 5e-5,
    "euler-disc": 1e-5,
    "slider-crank": 1e-4,
    "woodpecker": 1e-4,
}


def step(name: str) -> float:
    """A suitable step size in s for a built-in system: 1 ms, or less if it is stiff or fast.

    >>> step("governor"), step("pendulum")
    (0.0002, 0.001)
    """
    return _STEPS.get(name.strip().replace("_", "-").partition(":")[0], 1e-3)


def start(name: str, model: Model) -> tuple[np.ndarray, np.ndarray] | None:
    """The published start (q, v) of a built-in system, for a model derived from it; None if it has none.

    >>> q, v = start("governor", governor().derive(native=False))
    >>> float(q[1])
    0.5
    """
    kind = name.strip().replace("_", "-").partition(":")[0]
    return _STARTS[kind](model) if kind in _STARTS else None


def names(contact: bool = True) -> tuple[str, ...]:
    """Names for :func:`load`; ``chain:N`` denotes a chain of N links. ``contact``: also systems with contact.

    >>> "furuta" in names(), "rattleback" in names(contact=False)
    (True, False)
    """
    return (*_BUILDERS, *(_TOUCHING if contact else ()), *(f"{name}:N" for name in _COUNTED))


def summaries() -> dict[str, str]:
    """A one-line description of each built-in system.

    >>> summaries()["pendulum"]
    'A point mass m on a rod of length l without mass'
    """
    builders = {**_BUILDERS, **_TOUCHING, **{f"{name}:N": builder for name, builder in _COUNTED.items()}}
    first = lambda text: re.split(r"[:;]|\.\s|\.$", " ".join(text.replace("``", "").split()))[0]  # noqa: E731
    return {name: first(builder.__doc__ or "") for name, builder in builders.items()}


def name_of(model: Model) -> str | None:
    """The name for :func:`load` of the built-in system that has the equations of a model; None if there is none.

    >>> name_of(chain(4).derive(native=False))
    'chain:4'
    """
    bodies = len(model.body_names)
    candidates = [
        *_BUILDERS,
        *_TOUCHING,
        *(f"{kind}:{n}" for kind in _COUNTED for n in (bodies, (bodies - 1) // 2) if n >= 1),
    ]
    for name in candidates:
        system = load(name) if bodies <= _LARGEST or ":" not in name else None
        if system is not None and system.name == model.name:
            found = system.describe().equations_key
            if found is not None and found == model.description.equations_key:
                return name
    return None


def load(name: str, symbolic: bool = False) -> System:
    """Return the built-in system of that name; underscores count as hyphens, ``chain:20`` is a chain of 20 links.

    Parameters
    ----------
    symbolic : whether masses, lengths and gravity are parameters with names, so that equations can be printed. Most systems always have them.

    Raises
    ------
    UnknownNameError : no built-in system has the name; the message lists them. ModelError : it has measured numbers only.

    >>> load("heavy-top").name
    'heavy top'
    >>> load("rolling-disc", symbolic=True).derive(native=False).parameter_names
    ('m', 'r', 'g')
    """
    system = _loaded(name, symbolic)
    if symbolic and not system.parameters:
        known = [
            n for n, builder in _BUILDERS.items() if "symbolic" in signature(builder).parameters or builder().parameters
        ]
        raise ModelError(f"{name!r} has numbers only. Systems with symbols: {', '.join(known)}.")
    return system


def _loaded(name: str, symbolic: bool) -> System:
    kind, colon, count = name.strip().replace("_", "-").partition(":")
    single = _BUILDERS | _TOUCHING
    if kind in single:
        if colon:
            raise ModelError(f"{kind!r} takes no number, got {name!r}; only {', '.join(_COUNTED)} do.")
        builder: Callable[..., System] = single[kind]
        return builder(symbolic=True) if symbolic and "symbolic" in signature(builder).parameters else builder()
    if kind not in _COUNTED:
        raise unknown_name("built-in system", name, names())
    if colon and not count.isdecimal():
        raise ModelError(f"{kind}:N needs a whole number, such as {kind}:20, got {name!r}.")
    return _COUNTED[kind](int(count) if colon else _DEFAULT_COUNT[kind])


if not TYPE_CHECKING:  # type checkers should find misspelled names
    __getattr__ = missing_from(__name__, globals())
