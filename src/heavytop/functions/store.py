"""The store of everything that is expensive to make: traced functions, laws, compiled runs, found by key.

Native code itself is also kept on disk (:mod:`heavytop.compile.cache`), found by the same keys.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import RLock
from typing import Any, TypeVar

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
