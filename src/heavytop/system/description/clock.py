"""The time of a system: a symbol that is among its parameters from the moment someone asks for it."""

from __future__ import annotations

from heavytop._arrays import Array, depends_on, symbol
from heavytop.system.description.description import Parameter
from heavytop.system.description.names import TIME


class Clock:
    """The time in s; copies of a system share it, since functions of the user hold its symbol.

    >>> clock = Clock()
    >>> clock.parameters, clock.time.shape, len(clock.parameters)
    ((), (), 1)
    """

    def __init__(self) -> None:
        self._parameter: Parameter | None = None

    def __copy__(self) -> Clock:
        return self

    @property
    def time(self) -> Array:
        """The symbol."""
        if self._parameter is None:
            self._parameter = Parameter(TIME, symbol("t"), 0.0, is_time=True)
        return self._parameter.symbol

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The time as a parameter; none if nobody asked for it."""
        return () if self._parameter is None else (self._parameter,)

    def moves(self, value: Array) -> bool:
        """Whether an array depends on the time."""
        return self._parameter is not None and depends_on(value, self._parameter.symbol)
