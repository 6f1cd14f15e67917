"""The common part of kernels and steppers: find or make native code, or fall back to interpretation."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Self, TypeVar

from heavytop.compile.cache import Cache
from heavytop.compile.loader import Code, native_code
from heavytop.functions import BoundHere

Source = TypeVar("Source")
Interface = TypeVar("Interface")

CALL_BUDGET = 400_000_000
"""Lane operations of one native call at most (about a tenth of a second), so that Ctrl-C takes effect promptly."""
THREAD_BUDGET = 2_000_000
"""Lane operations per thread below which a second thread does not pay."""


@dataclass(frozen=True)
class KernelStats:
    """Facts about a kernel.

    Attributes
    ----------
    native : False if the function is interpreted; then all other numbers but ``instructions`` are zero.
    instructions : scalar operations per state.
    lanes : states evaluated together.
    chunks : functions into which the program was cut.
    compile_seconds : time of LLVM, here or in the process that filled the cache.
    cache_hit : whether the code came from the disk cache.
    object_bytes : size of the object code.

    Examples
    --------
    >>> from heavytop.compile import Kernel, trace
    >>> stats = Kernel(trace(lambda x: x * x, {"x": (3,)}, name="square")).stats()
    >>> stats.instructions, stats.chunks
    (3, 1)
    """

    native: bool
    instructions: int
    lanes: int
    chunks: int
    compile_seconds: float
    cache_hit: bool
    object_bytes: int


class NativeFunction(BoundHere, Generic[Source, Interface]):
    """Native code of a ``Source`` (a traced function, a schedule) with the ``Interface`` (names and shapes) that is stored with it."""

    kind: ClassVar[str]

    def __init__(
        self,
        source: Source,
        lanes: int | None = None,
        threads: int | None = 1,
        *,
        fingerprint: str | None = None,
        cache: Cache | None = None,
        chunk: int | None = None,
    ) -> None:
        self.threads = threads
        code = native_code(self.kind, lambda count: self._module_text(source, count, chunk), fingerprint, lanes, cache)
        self._interpreted: Source | None = source if code is None else None
        self._adopt(self._interface_of(source), code)

    @classmethod
    def from_cache(
        cls, fingerprint: str, lanes: int | None = None, threads: int | None = 1, *, cache: Cache | None = None
    ) -> Self | None:
        """The function once compiled with this fingerprint, without tracing anything; None if it is not in the cache."""
        code = native_code(cls.kind, None, fingerprint, lanes, cache)
        if code is None:
            return None
        made = cls.__new__(cls)
        made._interpreted = None
        made.threads = threads
        made._adopt(cls._stored_interface(code.meta), code)
        return made

    @classmethod
    def cached(
        cls,
        fingerprint: str,
        build: Callable[[], Source],
        lanes: int | None = None,
        threads: int | None = 1,
        *,
        cache: Cache | None = None,
    ) -> Self:
        """The function of this fingerprint; ``build`` is called only if it is not in the cache."""
        found = cls.from_cache(fingerprint, lanes, threads, cache=cache)
        return found if found is not None else cls(build(), lanes, threads, fingerprint=fingerprint, cache=cache)

    @staticmethod
    @abstractmethod
    def _module_text(source: Source, lanes: int, chunk: int | None) -> tuple[str, dict[str, Any]]:
        """LLVM IR and its metadata."""

    @staticmethod
    @abstractmethod
    def _interface_of(source: Source) -> Interface: ...

    @staticmethod
    @abstractmethod
    def _stored_interface(meta: dict[str, Any]) -> Interface: ...

    def _adopt(self, interface: Interface, code: Code | None) -> None:
        self._code = code
        if code is not None:
            self.lanes: int = code.meta["lanes"]
            self._operations: int = max(code.meta["instructions"], 1)

    @property
    def native(self) -> bool:
        """Whether the function runs as machine code."""
        return self._code is not None

    def stats(self) -> KernelStats:
        """Size of the program, lanes, compile time, origin."""
        code = self._code
        if code is None:
            return KernelStats(False, self._interpreted_instructions(), 0, 0, 0.0, False, 0)
        return KernelStats(
            True,
            code.meta["instructions"],
            self.lanes,
            code.meta.get("chunks", 1),
            code.compile_seconds,
            code.cache_hit,
            code.object_bytes,
        )

    def _interpreted_instructions(self) -> int:
        return 0
