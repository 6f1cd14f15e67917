"""Whether a store still holds the files that were written: chunks by the digest in their mark, all others by the list of checksums."""

from __future__ import annotations

import json
import warnings

import numpy as np

from heavytop.errors import SweepError
from heavytop.sweep.chunk_files import content_of, digest
from heavytop.sweep.store import CHECKSUMS, OPEN, UNREADABLE, Store, seal_of

SHOWN = 3
"""Damaged files that a message names."""


class DamagedStoreWarning(UserWarning):
    """Chunks of a store were damaged and are computed again.

    Examples
    --------
    >>> issubclass(DamagedStoreWarning, UserWarning)
    True
    """


def damaged_chunks(store: Store) -> dict[int, str]:
    """Index -> defect of every marked chunk whose files are not those that were written."""
    found: dict[int, str] = {}
    seals = store.seals()
    for index in np.flatnonzero(seals != OPEN).tolist():
        seal = int(seals[index])
        if seal == UNREADABLE:
            found[index] = f"the mark of chunk {index} cannot be read"
            continue
        try:
            files = {name: content_of(store.path / name) for name in store.file_names(index)}
        except OSError as error:
            found[index] = f"chunk {index}: {error}"
            continue
        if seal_of(files, seal & 3) != seal:
            lost = [name for name, content in files.items() if content is None]
            found[index] = f"chunk {index} is not what was written" + (f" ({', '.join(lost)}: no file)" if lost else "")
    return found


def check_frame(store: Store) -> None:
    """Raise a SweepError if names, shapes or coordinates of a store were changed or lost."""
    path = store.path / "done" / CHECKSUMS
    try:
        written = json.loads(path.read_text(encoding="utf-8"))
        wrong = [n for n, number in written.items() if digest({n: content_of(store.path / n)}) != number]
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise SweepError(f"{str(store.path)!r} is damaged: {str(path)!r} cannot be read: {error}.") from error
    if wrong:
        names = ", ".join(wrong[:SHOWN]) + (f" and {len(wrong) - SHOWN} more" if len(wrong) > SHOWN else "")
        raise SweepError(
            f"{str(store.path)!r} is damaged: {names} changed after the store was made. Restore the files, or remove the store "
            "and run the sweep again."
        )


def check_store(store: Store) -> None:
    """Raise a SweepError that names what is damaged."""
    check_frame(store)
    found = list(damaged_chunks(store).values())
    if found:
        raise SweepError(
            f"{str(store.path)!r} is damaged: {_some(found)}. Run the same sweep again to redo these chunks; "
            "open_result(path, check=False) reads what is there."
        )


def reopen_damaged(store: Store) -> None:
    """Open damaged chunks again before a sweep continues, and warn."""
    check_frame(store)
    found = damaged_chunks(store)
    if found:
        store.reopen(found)
        warnings.warn(
            f"{str(store.path)!r} is damaged, these chunks are computed again: {_some(list(found.values()))}.",
            DamagedStoreWarning,
            stacklevel=2,
        )


def _some(texts: list[str]) -> str:
    return "; ".join(texts[:SHOWN]) + (f"; and {len(texts) - SHOWN} more" if len(texts) > SHOWN else "")
