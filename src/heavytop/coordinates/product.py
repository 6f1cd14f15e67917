"""Products of coordinate blocks: the coordinates of a whole system."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np

from heavytop._arrays import Array, Floats, Seed, block, concatenate, is_symbolic, split
from heavytop.coordinates.base import Coordinates
from heavytop.errors import ModelError, unknown_name


@dataclass(frozen=True)
class Product(Coordinates):
    """The product of coordinate blocks: ``q`` and ``v`` are joined, ``A`` is block-diagonal.

    Parameters
    ----------
    blocks : the blocks in order.
    names : one name per block, default block1, block2, ...; the components are named ``name.component``.

    Examples
    --------
    >>> from heavytop.coordinates import Angle, Circle
    >>> both = Product((Angle(), Circle()), names=("arm", "wheel"))
    >>> both.q_names
    ('arm.angle', 'wheel.c', 'wheel.s')
    >>> both.q_slice("wheel")
    slice(1, 3, None)
    """

    blocks: Sequence[Coordinates]
    names: Sequence[str] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "blocks", tuple(self.blocks))
        names = tuple(f"block{i + 1}" for i in range(len(self.blocks))) if self.names is None else tuple(self.names)
        if len(names) != len(self.blocks) or len(set(names)) != len(names):
            raise ModelError(f"a Product of {len(self.blocks)} blocks needs as many distinct names, got {names}.")
        object.__setattr__(self, "names", names)

    @property
    def is_group(self) -> bool:
        """Whether every block is a group."""
        return all(b.is_group for b in self.blocks)

    @property
    def q_names(self) -> tuple[str, ...]:
        return self._prefixed(lambda b: b.q_names)

    @property
    def v_names(self) -> tuple[str, ...]:
        return self._prefixed(lambda b: b.v_names)

    @property
    def q_units(self) -> tuple[str, ...]:
        return tuple(unit for block in self.blocks for unit in block.q_units)

    @property
    def v_units(self) -> tuple[str, ...]:
        return tuple(unit for block in self.blocks for unit in block.v_units)

    @property
    def constraint_names(self) -> tuple[str, ...]:
        return self._prefixed(lambda b: b.constraint_names)

    def _prefixed(self, get: Callable[[Coordinates], tuple[str, ...]]) -> tuple[str, ...]:
        return tuple(f"{name}.{part}" for name, b in zip(self.names or (), self.blocks, strict=True) for part in get(b))

    def q_slice(self, name: str) -> slice:
        """Place of the block ``name`` in ``q``."""
        return self._slice(name, [b.nq for b in self.blocks])

    def v_slice(self, name: str) -> slice:
        """Place of the block ``name`` in ``v``."""
        return self._slice(name, [b.nv for b in self.blocks])

    def _slice(self, name: str, sizes: list[int]) -> slice:
        names = tuple(self.names or ())
        if name not in names:
            raise unknown_name("coordinate block", name, names)
        k = names.index(name)
        stop = list(accumulate(sizes))[k]
        return slice(stop - sizes[k], stop)

    def split_q(self, q: Array) -> tuple[Array, ...]:
        """The parts of ``q`` by block."""
        return split(q, [b.nq for b in self.blocks])

    def split_v(self, v: Array) -> tuple[Array, ...]:
        """The parts of ``v`` by block."""
        return split(v, [b.nv for b in self.blocks])

    def neutral(self) -> Floats:
        return _join([b.neutral() for b in self.blocks])

    def random(self, rng: Seed = None, shape: tuple[int, ...] = ()) -> Floats:
        rng = np.random.default_rng(rng)
        return _join([b.random(rng, shape) for b in self.blocks], shape)

    def kinematics_matrix(self, q: Array) -> Array:
        return self._diagonal([b.kinematics_matrix(p) for b, p in zip(self.blocks, self.split_q(q), strict=True)])

    def left_inverse(self, q: Array) -> Array:
        return self._diagonal([b.left_inverse(p) for b, p in zip(self.blocks, self.split_q(q), strict=True)])

    def _diagonal(self, matrices: list[Array]) -> Array:
        kept = [m for m in matrices if m.shape[-2] or m.shape[-1]]
        if not kept:
            return np.zeros((0, 0))
        rows = []
        for i, m in enumerate(kept):
            zeros = [np.zeros((m.shape[-2], other.shape[-1])) for other in kept]
            rows.append([*zeros[:i], m, *zeros[i + 1 :]])
        return block(rows)

    def rate(self, q: Array, v: Array) -> Array:
        return self._map(lambda b, x, y: b.rate(x, y), self.split_q(q), self.split_v(v))

    def constraints(self, q: Array) -> Array:
        return self._map(lambda b, x: b.constraints(x), self.split_q(q))

    def retract(self, q: Array, delta: Array) -> Array:
        return self._map(lambda b, x, d: b.retract(x, d), self.split_q(q), self.split_v(delta))

    def difference(self, q0: Array, q1: Array) -> Array:
        return self._map(lambda b, x, y: b.difference(x, y), self.split_q(q0), self.split_q(q1))

    def bracket(self, a: Array, b: Array) -> Array:
        return self._map(lambda c, x, y: c.bracket(x, y), self.split_v(a), self.split_v(b))

    def tangent_inverse(self, delta: Array, v: Array) -> Array:
        return self._map(lambda b, d, w: b.tangent_inverse(d, w), self.split_v(delta), self.split_v(v))

    def project(self, q: Array) -> Array:
        return self._map(lambda b, x: b.project(x), self.split_q(q))

    def _map(self, apply: Callable[..., Array], *parts: tuple[Array, ...]) -> Array:
        return _join([apply(b, *pieces) for b, *pieces in zip(self.blocks, *parts, strict=True)])

    def commutation(self, q: Array) -> Array | tuple[Array, ...]:
        parts = [b.commutation(p) for b, p in zip(self.blocks, self.split_q(q), strict=True)]
        if is_symbolic(q):
            return self._symbolic_commutation(parts)
        gamma = np.zeros((*np.shape(q)[:-1], *(self.nv,) * 3))
        start = 0
        for b, part in zip(self.blocks, parts, strict=True):
            s = slice(start, start + b.nv)
            gamma[..., s, s, s] = part
            start = s.stop
        return gamma

    def _symbolic_commutation(self, parts: list[Any]) -> tuple[Array, ...]:
        sizes = [b.nv for b in self.blocks]
        zeros = [np.zeros((n, n)) for n in sizes]
        return tuple(self._diagonal([*zeros[:i], g, *zeros[i + 1 :]]) for i, part in enumerate(parts) for g in part)

    def check(self, q: Array, where: str = "q", tolerance: float = 1e-6) -> Floats:
        q = self._check_entries(q, where)
        for name, b, cut in self._curved:
            b._check_constraints(q[..., cut], f"{where} of {name!r}", tolerance)
        return q

    @cached_property
    def _curved(self) -> tuple[tuple[str, Coordinates, slice], ...]:
        """Name, block and place in ``q`` of the blocks with constraints."""
        blocks = zip(self.names or (), self.blocks, self._cuts, strict=True)
        return tuple(block for block in blocks if block[1].constraint_names)

    @cached_property
    def _cuts(self) -> tuple[slice, ...]:
        """Places of the blocks in ``q``."""
        ends = list(accumulate(b.nq for b in self.blocks))
        return tuple(slice(end - b.nq, end) for end, b in zip(ends, self.blocks, strict=True))


def _join(parts: list[Array], shape: tuple[int, ...] = ()) -> Array:
    """Join vectors; an empty product has no entries."""
    return concatenate(*parts) if parts else np.zeros((*shape, 0))
