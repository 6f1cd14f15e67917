"""Other engines. A peer is a module of this package with an object ``PEER``, which is found automatically."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from heavytop_bench.peers.base import FreeBodyMethod as FreeBodyMethod, Peer as Peer, Trial as Trial


@cache
def known() -> tuple[Peer, ...]:
    """The peers of this package by name.

    >>> [peer.name for peer in known()]
    ['crocoddyl', 'exudyn', 'mujoco', 'pin', 'rotorpy']
    """
    modules = [import_module(f"{__name__}.{found.name}") for found in iter_modules(__path__)]
    return tuple(sorted((module.PEER for module in modules if hasattr(module, "PEER")), key=lambda peer: peer.name))


def versions() -> dict[str, str]:
    """Versions of the known peers that are installed."""
    return {peer.name: version for peer in known() if (version := peer.version()) is not None}


def divide(peers: Sequence[Peer] | None, what: str) -> tuple[list[Peer], list[str]]:
    """The installed peers (None: the known ones) that support ``what``, and the names of the missing ones."""
    offering = [peer for peer in (known() if peers is None else peers) if peer.offers(what)]
    present = [
        peer for peer in offering if (peer.name in versions() if peer in known() else peer.version() is not None)
    ]
    return present, [peer.name for peer in offering if peer not in present]
