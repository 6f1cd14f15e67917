"""The functions of a model, by name: how each is traced, and its native code."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from heavytop.compile.kernel import Kernel
from heavytop.compile.loader import is_cached
from heavytop.compile.trace import Traced
from heavytop.functions import store

T = TypeVar("T")


class Functions:
    """One table of everything that is computed from a model; other layers add to it.

    Parameters
    ----------
    trace : name -> traced function, for the model's own catalogue.
    key : determines the equations of the model, so that equal models share native code, also on disk; None: only this model has it.

    Examples
    --------
    >>> from heavytop.compile import trace
    >>> functions = Functions(lambda name: trace(lambda x: x * x, {"x": ()}, name=name))
    >>> functions.kernel("square")(3.0)
    (array(9.),)
    >>> functions.get("table", dict) is functions.get("table", dict)
    True
    """

    def __init__(self, trace: Callable[[str], Traced | None], key: str | None = None) -> None:
        self.key = key
        self._trace = trace
        self._builders: dict[str, Callable[[], Traced | None]] = {}
        self._made: dict[Hashable, Any] = {}

    def add(self, name: str, build: Callable[[], Traced | None]) -> None:
        """Add a function: ``build()`` traces it when it is first needed, or returns None if the model has no such function."""
        self._builders.setdefault(name, build)

    def get(self, name: Hashable, make: Callable[[], T]) -> T:
        """An object that another layer derives from the model: made once, released together with the model."""
        if name not in self._made:
            self._made[name] = make()
        return self._made[name]

    def traced(self, name: str) -> Traced | None:
        """The traced function of that name."""
        return self.get(("traced", name), self._builders.get(name, lambda: self._trace(name)))

    def kernel(self, name: str, lanes: int | None = None, threads: int | None = 1) -> Kernel | None:
        """The function of that name as native code."""
        return self.get((name, lanes, threads), lambda: self._kernel(name, lanes, threads))

    def in_cache(self, name: str) -> bool:
        """Whether native code of the function exists already."""
        return self.key is not None and is_cached(Kernel.kind, f"{self.key} {name}")

    def _kernel(self, name: str, lanes: int | None, threads: int | None) -> Kernel | None:
        if self.key is None:
            traced = self.traced(name)
            return None if traced is None else Kernel(traced, lanes, threads)
        text = f"{self.key} {name}"

        def build() -> Kernel | None:
            found = Kernel.from_cache(text, lanes, threads)
            if found is None and (traced := self.traced(name)) is not None:
                found = Kernel(traced, lanes, threads, fingerprint=text)
            return found

        return store.get(("kernel", text, lanes, threads), build)
