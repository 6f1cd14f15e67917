"""What was made recently, by key: a bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any


class Recent:
    """Values by key; beyond ``size`` the one that was not used for longest is forgotten.

    Examples
    --------
    >>> squares = Recent(2)
    >>> [squares.recall(n, lambda: n * n) for n in (1, 2, 1, 3)]
    [1, 4, 1, 9]
    >>> 1 in squares, 2 in squares
    (True, False)
    """

    def __init__(self, size: int = 16) -> None:
        self.size = size
        self._values: dict[Hashable, Any] = {}

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._values

    def recall(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """The value of a key; made, and kept, if it is not known."""
        value = self._values.pop(key) if key in self._values else make()
        self._values[key] = value  # last: used most recently
        while len(self._values) > self.size:
            del self._values[next(iter(self._values))]
        return value
