"""From IR text to loaded functions through the disk cache.

Two kinds of keys lead to an entry. The hash of the IR text finds code that was compiled before; a fingerprint given
by the caller (for example of a model description) finds it without tracing the model. The second kind also depends on
the source files of this library, since they define the meaning of a description. Both depend on the processor and the
version of LLVM.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from heavytop.compile.cache import Cache, source_stamp
from heavytop.compile.jit import Library, compile_side_by_side, external_functions, host, native_allowed
from heavytop.errors import CompileError, ShapeError

LANES = (1, 2, 4, 8, 16)
"""Possible numbers of states evaluated together."""


class NativeCodeWarning(UserWarning):
    """Warning that native code cannot be built; results are the same but take about a hundred times longer."""


@dataclass(frozen=True)
class Code:
    """Loaded functions with their metadata."""

    library: Library
    meta: dict[str, Any]
    cache_hit: bool
    object_bytes: int

    @property
    def compile_seconds(self) -> float:
        """Compile time of LLVM, here or in an earlier process."""
        return self.meta["compile_seconds"]


def load(
    build: Callable[[], tuple[str, dict[str, Any]]] | None, fingerprint: str | None = None, store: Cache | None = None
) -> Code | None:
    """Code for the IR text that ``build`` returns with its metadata, from the cache if possible.

    With a known fingerprint ``build`` is not called; it may be None, and then an unknown
    fingerprint gives None.
    """
    store = Cache() if store is None else store
    if fingerprint is not None:
        pointer = store.get(_fingerprint_key(fingerprint))
        found = _found(store, pointer.meta["points_to"], pointer.meta["meta"]) if pointer is not None else None
        if found is not None:
            return found
    if build is None:
        return None
    with _garbage_collection_paused():
        text, meta = build()
    key = f"ir {hashlib.sha256(text.encode()).hexdigest()} {host().label}"
    result = _found(store, key, meta)
    if result is None:
        code = compile_side_by_side(text)
        own = {"compile_seconds": code.seconds, "externals": external_functions(text), "objects": list(code.sizes)}
        meta = {**meta, **own}
        store.put(key, meta, code.data)
        library = Library(code.data, meta["externals"], code.sizes)
        result = Code(library, meta, cache_hit=False, object_bytes=len(code.data))
    if fingerprint is not None:
        # functions with other names and shapes may have the same code: those are the pointer's
        store.put(_fingerprint_key(fingerprint), {"points_to": key, "meta": meta}, b"")
    return result


def native_code(
    kind: str,
    text: Callable[[int], tuple[str, dict[str, Any]]] | None,
    fingerprint: str | None,
    lanes: int | None,
    store: Cache | None,
) -> Code | None:
    """Code of a ``kind`` of function for this machine; ``text`` returns its IR for a number of lanes.

    None if the function must be interpreted (a warning is issued) or, without ``text``, if it is not in the cache.
    """
    if lanes is not None and lanes not in LANES:
        raise ShapeError(f"lanes must be one of {', '.join(map(str, LANES))}, got {lanes!r}.")
    if not native_allowed():
        return None
    try:
        count = lanes or host().lanes
        key = None if fingerprint is None else _lanes_key(kind, fingerprint, count)
        return load(None if text is None else lambda: text(count), key, store)
    except CompileError as error:
        if text is not None:
            warn_interpreted(str(error))
        return None


def is_cached(kind: str, fingerprint: str) -> bool:
    """Whether the cache has code of a ``kind`` of function for this machine."""
    if not native_allowed():
        return False
    try:
        return _fingerprint_key(_lanes_key(kind, fingerprint, host().lanes)) in Cache()
    except CompileError:
        return False


def _lanes_key(kind: str, fingerprint: str, lanes: int) -> str:
    return f"{kind} {fingerprint} lanes {lanes}"


def _found(store: Cache, key: str, meta: dict[str, Any]) -> Code | None:
    """Code from the cache, with the metadata of the function that needs it; None if it is absent or cannot be loaded."""
    entry = store.get(key)
    if entry is None:
        return None
    merged = {**entry.meta, **meta}
    try:
        library = Library(entry.data, merged["externals"], merged["objects"])
    except CompileError:
        return None
    return Code(library, merged, cache_hit=True, object_bytes=len(entry.data))


@contextlib.contextmanager
def _garbage_collection_paused() -> Iterator[None]:
    """No garbage collection: programs are millions of small objects without cycles."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _fingerprint_key(fingerprint: str) -> str:
    return f"model {fingerprint} {source_stamp()} {host().label}"


@cache
def warn_interpreted(reason: str) -> None:
    """Warn, once for every reason, that code is interpreted."""
    warnings.warn(
        f"no native code: {reason} Functions are interpreted instead: same results, about 100 times slower. "
        "Set HEAVYTOP_NATIVE=0 to choose this without a warning.",
        NativeCodeWarning,
        stacklevel=5,
    )
