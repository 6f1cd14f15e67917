"""The store of a sweep: a zarr v3 group that xarray opens, one chunk of work in one chunk of every array, the done mark last."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import unified_diff
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from heavytop._files import sweep_leftovers, work_folder
from heavytop.errors import SweepError
from heavytop.sweep.cases import Output, missing
from heavytop.sweep.grid import DRAW, TIME, Chunks
from heavytop.sweep.measure import OUTCOMES
from heavytop.sweep.study import StoredVariable, Study, shaped

FORMAT = "heavytop sweep 2"
OPEN, DONE, GIVEN_UP, UNREADABLE = 0, 1, 2, 3
"""Marks of a chunk: the two lowest bits of a number of eight bytes whose other bits are the digest of the chunk's files and its mark."""
CHECKSUMS = "checksums.json"
"""File in the folder of the marks with the digests of all files that are written once: names, shapes, coordinates."""
LEVEL = -5
"""Compression of zstd: constants vanish as at the usual level, while random numbers, which would lose 4 % there, cost a sixth of the time."""
_ALWAYS = {"outcome": (np.int8, -1), "end_time": (float, float("nan")), "cause": (str, "")}
"""Type and fill value of the arrays that every result has."""


class StoreFull(SweepError):
    """The store cannot be written: no space, no permission, or it is gone."""


class Store:
    """The store of one study at a path."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).absolute()

    @cached_property
    def attributes(self) -> dict[str, Any]:
        """Description of the study and of the arrays."""
        if not self.exists:
            raise SweepError(
                f"the store {str(self.path)!r} does not exist: check the path, or run the study that writes it."
            )
        try:
            attributes = json.loads((self.path / "zarr.json").read_text(encoding="utf-8"))["attributes"]
        except (OSError, KeyError, TypeError, ValueError) as error:
            raise SweepError(f"{str(self.path)!r} is not the store of a sweep: {error}.") from error
        form = attributes.get("format")
        if form != FORMAT:
            older = str(form).startswith(FORMAT.rstrip("0123456789"))
            what = "was written by another version of heavytop" if older else "is not the store of a sweep"
            hint = " Open it with that version, or remove it and run the sweep again." if older else ""
            raise SweepError(f"{str(self.path)!r} {what}: its format is {form!r}, expected {FORMAT!r}.{hint}")
        return attributes

    @property
    def exists(self) -> bool:
        """Whether the path exists."""
        return self.path.exists()

    @cached_property
    def chunks(self) -> Chunks:
        """Chunks of the store."""
        return Chunks(tuple(self.attributes["shape"]), tuple(self.attributes["chunk"]))

    @property
    def lines(self) -> tuple[str, ...]:
        """Description of the study that the store was made for."""
        return tuple(self.attributes["study"])

    @cached_property
    def entries(self) -> dict[str, StoredVariable]:
        """Variables of the result."""
        return {
            n: StoredVariable(tuple(e["dims"]), tuple(e["shape"]), e["dtype"], e["unit"])
            for n, e in self.attributes["layout"].items()
        }

    @cached_property
    def arrays(self) -> Mapping[str, Any]:
        """The zarr arrays."""
        return dict(zarr_module().open_group(str(self.path), mode="r").arrays())

    def marks(self) -> np.ndarray:
        """The mark of every chunk."""
        marks = (self.seals() & 3).astype(np.uint8)
        for index in np.flatnonzero(marks == UNREADABLE).tolist():
            path = self.path / file_name("done", (index,))
            raise SweepError(f"{str(path)!r} is damaged. Run the same sweep again to redo this chunk.")
        return marks

    def seals(self) -> np.ndarray:
        """Digest and mark of every chunk, as one number each."""
        seals = np.full(len(self.chunks), OPEN, dtype=np.uint64)
        folder = self.path / "done" / "c"
        for name in os.listdir(folder) if folder.is_dir() else ():
            if name.isdecimal() and int(name) < len(seals):
                try:
                    content = (folder / name).read_bytes()
                except OSError:
                    content = b""
                seals[int(name)] = int.from_bytes(content, "little") if len(content) == 8 else UNREADABLE
        return seals

    def values(self, name: str, index: int) -> np.ndarray:
        """An array of the result (``outcome``, ``cause``, a measure) on one chunk."""
        try:
            return np.asarray(self.arrays[name][self.chunks.region(index)])
        except (OSError, ValueError, RuntimeError) as error:
            raise SweepError(
                f"chunk {index} of {name!r} in {str(self.path)!r} is damaged: {error}. Run the same sweep again to redo it."
            ) from error

    # --- making -----------------------------------------------------------------------------------------------------------------

    def create(self, study: Study) -> None:
        """Make the store; it appears under its name when all its arrays are there."""
        parent = self.path.parent
        if not parent.is_dir():
            raise SweepError(f"cannot make {str(self.path)!r}: the folder {str(parent)!r} does not exist.")
        attributes = _attributes(study)
        sweep_leftovers(parent)
        try:
            with work_folder(parent, self.path.name) as work:
                group = zarr_module().create_group(str(work / "new"), attributes=attributes)
                _make_arrays(group, study)
                write_checksums(work / "new")
                sync_folder(work / "new")
                (work / "new").rename(self.path)
        except OSError as error:
            if self.exists:  # another process was faster
                self.check(study)
                return
            raise StoreFull(f"cannot make the store {str(self.path)!r}: {error.strerror or error}.") from error

    def check(self, study: Study) -> None:
        """Raise a SweepError that shows the difference if the store was made for another study."""
        if self.lines != study.lines:
            lines = list(unified_diff(self.lines, study.lines, lineterm="", n=0))[2:]
            difference = "\n".join(f"{line[0]} {line[1:]}" for line in lines if not line.startswith("@@"))
            raise SweepError(
                f"{str(self.path)!r} was made for another study (-: the store, +: the given study):\n{difference}\n"
                "Use another path for the new study, or remove the store."
            )

    # --- writing ----------------------------------------------------------------------------------------------------------------

    def write(self, index: int, output: Output, study: Study, mark: int = DONE) -> None:
        """Write a chunk, wait until it is on the disk, then mark it."""
        region = self.chunks.region(index)
        files: dict[str, bytes | None] = dict.fromkeys(self.file_names(index))
        for name, values in shaped(output, [s.stop - s.start for s in region], self.entries):
            files |= encoded(self.arrays[name], region, values)
        for name, bounds, values in self._draws(index, output, study):
            files |= encoded(self.arrays[name], bounds, values)
        seal = seal_of(files, mark)
        try:
            for part in (files, {file_name("done", (index,)): seal.to_bytes(8, "little")}):
                self._put(part)
        except OSError as error:
            raise StoreFull(
                f"cannot write to {str(self.path)!r}: {error.strerror or error}. Chunks marked as done are safe; run the same sweep again "
                "for the rest."
            ) from error

    def _put(self, files: Mapping[str, bytes | None]) -> None:
        try:
            put(self.path, files, self.path / "done")
        except FileNotFoundError:  # another client that starts has removed the new work folder as a leftover
            if not (self.path / "done").is_dir():
                raise
            put(self.path, files, self.path / "done")

    def file_names(self, index: int) -> list[str]:
        """Names of the files of a chunk; arrays that hold only their fill value there have none."""
        place = self.chunks.place(index)
        found = [file_name(name, (*place, *(0,) * len(entry.shape))) for name, entry in self.entries.items()]
        found += [file_name(name, place) for name in _ALWAYS]
        if (part := self._draw_part(index)) is not None:
            axes: dict[str, int] = self.attributes["drawn"]
            found += [file_name(name, (part, *(0,) * n)) for name, n in axes.items()]
        return found

    def _draw_part(self, index: int) -> int | None:
        """The range of draws that is written with this chunk: the first chunk of a range writes it."""
        dims: list[str] = self.attributes["dimensions"]
        place = dict(zip(dims, self.chunks.place(index), strict=True))
        part = place.pop(DRAW, None)
        return None if any(place.values()) else part

    def _draws(self, index: int, output: Output, study: Study) -> Iterator[tuple[str, tuple[slice, ...], np.ndarray]]:
        """Name, range and values of the random variables that are written with a chunk."""
        if self._draw_part(index) is None:
            return
        bounds = self.chunks.region(index)[list(study.grid.sizes).index(DRAW)]
        for variable in study.grid.variables.values():
            if variable.distribution is not None:
                values = output.draws.get(variable.name)  # a chunk that was given up has none
                yield variable.name, (bounds,), study.grid.own_values(variable, [bounds]) if values is None else values

    def reopen(self, indices: Iterable[int]) -> None:
        """Remove the marks of chunks, so that they are computed again."""
        put(self.path, {file_name("done", (index,)): None for index in indices}, self.path / "done")

    def tidy(self) -> None:
        """Remove temporary files of writers that were killed."""
        sweep_leftovers(self.path / "done")


def zarr_module() -> Any:
    """Import zarr, or raise a SweepError that says how to install it."""
    try:
        import zarr
    except ImportError:
        raise SweepError("a sweep with a store needs zarr: pip install 'heavytop[cluster]'.") from None
    return zarr


def seal_of(files: Mapping[str, bytes | None], mark: int) -> int:
    """Digest and mark of a chunk as one number."""
    return digest({**files, "mark": bytes([mark])}) << 2 | mark


def write_checksums(root: Path) -> None:
    """Write the digests of all files of a new store."""
    names = [path.relative_to(root).as_posix() for path in sorted(root.rglob("*")) if path.is_file()]
    (root / "done" / CHECKSUMS).write_text(json.dumps({n: digest({n: (root / n).read_bytes()}) for n in names}))


def _attributes(study: Study) -> dict[str, Any]:
    layout = {n: {"dims": e.dims, "shape": e.shape, "dtype": e.dtype, "unit": e.unit} for n, e in study.layout.items()}
    variables = study.grid.variables
    return {
        "format": FORMAT,
        "study": list(study.lines),
        "shape": list(study.chunks.shape),
        "chunk": list(study.chunks.size),
        "layout": layout,
        "varied": list(variables),
        "drawn": {v.name: len(v.shape) for v in variables.values() if v.distribution is not None},
        "dimensions": list(study.grid.sizes),
    }


def _make_arrays(group: Any, study: Study) -> None:
    """Make the arrays of a store: measures, outcomes, marks, coordinates and draws."""
    from zarr.codecs import ZstdCodec

    zstd = ZstdCodec(level=LEVEL, checksum=True)
    grid, chunks = study.grid, study.chunks

    def make(name: str, shape: Any, dims: Any, dtype: Any, chunk: Any, fill: Any = None, **attributes: Any) -> Any:
        about = {key: value for key, value in attributes.items() if value}
        options: dict[str, Any] = {
            "dimension_names": dims,
            "attributes": about,
            "compressors": zstd,
            "fill_value": fill,
        }
        chunk = tuple(max(n, 1) for n in chunk)
        return group.create_array(name, shape=shape, chunks=chunk, dtype=dtype, **options)

    dims = tuple(grid.sizes)
    for name, e in study.layout.items():
        shape, chunk = (*chunks.shape, *e.shape), (*chunks.size, *e.shape)
        make(name, shape, (*dims, *e.dims), e.dtype, chunk, missing(np.dtype(e.dtype)).item(), units=e.unit)
    about: dict[str, dict[str, Any]] = {"outcome": {"meaning": list(OUTCOMES)}, "end_time": {"units": "s"}}
    for name, (dtype, fill) in _ALWAYS.items():
        make(name, chunks.shape, dims, dtype, chunks.size, fill, **about.get(name, {}))
    group.create_array(
        "done", shape=(len(chunks),), chunks=(1,), dtype="uint64", compressors=None, dimension_names=("chunk",)
    )
    for name, values, names, unit in coordinates(study, study.layout):
        text = values.dtype.kind in "UO"
        made = make(name, values.shape, names, str if text else values.dtype, values.shape, units=unit)
        made[...] = values.astype(object) if text else values
    size = dict(zip(dims, chunks.size, strict=True))
    for v in grid.variables.values():  # draws may be many: they are written with the chunks
        if v.distribution is not None:
            dtype = grid.own_values(v, [slice(0, 1)]).dtype
            names = (DRAW, *(f"{v.name}_{k}" for k in range(len(v.shape))))
            shape, chunk = (grid.sizes[DRAW], *v.shape), (size[DRAW], *v.shape)
            make(v.name, shape, names, str if dtype.kind == "U" else dtype, chunk, units=v.unit)


def coordinates(
    study: Study, layout: Mapping[str, StoredVariable]
) -> Iterator[tuple[str, np.ndarray, tuple[str, ...], str]]:
    """Name, values, dimensions and unit of every coordinate but the random ones."""
    taken = set()
    for name, variable in study.grid.variables.items():
        if variable.values is None:
            continue
        values = np.asarray(variable.values)
        if values.dtype.kind == "O":
            values = np.array([label(v) for v in values.reshape(-1)]).reshape(values.shape)
        further = tuple(f"{name}_{k}" for k in range(values.ndim - len(variable.dims)))
        taken.add(name)
        yield name, values, (*variable.dims, *further), variable.unit
    for name, values in study.grid.labels.items():
        if name not in taken:
            taken.add(name)
            yield name, np.asarray(values), (name,), ""
    for entry in layout.values():
        for name, labels in entry.labels.items():
            if name not in taken:
                taken.add(name)
                yield name, np.asarray(labels), (name,), "s" if name == TIME else ""


def label(value: Any) -> str:
    """A short name of an object that is varied."""
    name = getattr(value, "name", None) or getattr(value, "__name__", None)
    return name if isinstance(name, str) else str(value)


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
            found[index] = f"chunk {index} was changed" + (f" ({', '.join(lost)}: no file)" if lost else "")
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
    """Raise a SweepError that names the damage."""
    check_frame(store)
    found = list(damaged_chunks(store).values())
    if found:
        raise SweepError(
            f"{str(store.path)!r} is damaged: {_some(found)}. Run the same sweep again to redo these chunks; "
            "open_result(path, check=False) reads the rest."
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


# --- files --------------------------------------------------------------------------------------------------------------------
# zarr encodes chunks in memory; files are put in place whole or not at all, and are on the disk before they are marked as done. zarr would write
# them one by one, without waiting for the disk, and a killed process would leave partial files.


def encoded(array: Any, region: tuple[slice, ...], values: np.ndarray) -> dict[str, bytes]:
    """Name -> content of the files of a zarr array with values in a region; chunks that hold only the fill value have none."""
    from zarr import Array, AsyncArray
    from zarr.storage import MemoryStore, StorePath

    files: dict[str, Any] = {}
    memory = Array(AsyncArray(array.metadata, StorePath(MemoryStore(files), array.path)))
    memory[region] = values
    return {name: buffer.to_bytes() for name, buffer in files.items()}


def digest(files: Mapping[str, bytes | None]) -> int:
    """62 bits that change with the names and contents of files; None: the file does not exist."""
    made = blake2b(digest_size=8)
    for name, content in sorted(files.items()):
        checksum = "none" if content is None else f"{len(content)} {crc32(content)}"  # fast: it delays the sweep
        made.update(f"{name} {checksum}\n".encode())
    return int.from_bytes(made.digest(), "little") >> 2


def content_of(path: Path) -> bytes | None:
    """The content of a file; None if it does not exist."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def file_name(array: str, place: Sequence[int]) -> str:
    """Name of the file of a chunk in the store."""
    return "/".join((array, "c", *map(str, place)))


def put(root: Path, files: Mapping[str, bytes | None], temporary: Path) -> None:
    """Put files in place below ``root``; None removes a file. On return all of it is on the disk.

    ``temporary`` : a folder of the same file system in which the files are written before they get their names.
    """
    folders: dict[Path, None] = {}
    with work_folder(temporary, "chunk") as work:
        written = {work / str(k): item for k, item in enumerate(files.items()) if item[1] is not None}
        for path, (_, content) in written.items():
            path.write_bytes(content or b"")
        _sync(written)
        for path, (name, _) in written.items():
            folders |= dict.fromkeys(_make((root / name).parent))
            path.replace(root / name)
            folders[(root / name).parent] = None
    for name, content in files.items():
        if content is None and (root / name).exists():
            (root / name).unlink()
            folders[(root / name).parent] = None
    _sync(folders)


def _make(folder: Path) -> list[Path]:
    """Make a folder; return the folders that have a new entry."""
    if folder.is_dir():
        return []
    above = _make(folder.parent)
    folder.mkdir(exist_ok=True)
    return [*above, folder.parent]


def sync_folder(folder: Path) -> None:
    """Wait until all files of a folder are on the disk."""
    _sync([*folder.rglob("*"), folder])


def _sync(paths: Iterable[Path]) -> None:
    for path in paths:
        if os.name != "posix" and path.is_dir():
            continue
        handle = os.open(path, os.O_RDONLY if os.name == "posix" else os.O_RDWR)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
