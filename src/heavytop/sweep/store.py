"""The store of a sweep: a zarr v3 group that xarray opens, one chunk of work in one chunk of every array, the done mark last."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from heavytop._files import sweep_leftovers, work_folder
from heavytop.errors import SweepError
from heavytop.sweep.cases import Output, missing
from heavytop.sweep.chunk_files import ChunkFormat, compressor, content_of, digest, file_of, put, settle
from heavytop.sweep.digest import difference
from heavytop.sweep.grid import DRAW, TIME, Chunks, Variable
from heavytop.sweep.measure import OUTCOMES
from heavytop.sweep.study import StoredVariable, Study, shaped

FORMAT = "heavytop sweep 1"
OPEN, DONE, GIVEN_UP, UNREADABLE = 0, 1, 2, 3
"""Marks of a chunk: the two lowest bits of a number whose other bits are the digest of the chunk's files."""
CHECKSUMS = "checksums.json"
"""File, beside the marks, with the digests of what is written once: names, shapes, coordinates."""


def zarr_module() -> Any:
    """zarr, or how to get it."""
    try:
        import zarr
    except ImportError:
        raise SweepError("a sweep with a store needs zarr: pip install 'heavytop[cluster]'.") from None
    return zarr


class StoreFull(SweepError):
    """The store cannot be written: no space, no permission, or it is gone."""


class Store:
    """The store of one study at a path."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).absolute()

    @cached_property
    def attributes(self) -> dict[str, Any]:
        """What the store says about itself."""
        if not self.path.exists():
            raise SweepError(
                f"there is no store {str(self.path)!r} yet: check the path, or start the study that writes it."
            )
        try:
            attributes = json.loads((self.path / "zarr.json").read_text(encoding="utf-8"))["attributes"]
        except (OSError, KeyError, TypeError, ValueError) as error:
            raise SweepError(f"{str(self.path)!r} is not the store of a sweep: {error}.") from error
        if attributes.get("format") != FORMAT:
            raise SweepError(
                f"{str(self.path)!r} is not the store of a sweep: its format is {attributes.get('format')!r}."
            )
        return attributes

    @property
    def exists(self) -> bool:
        """Whether something is there."""
        return self.path.exists()

    @cached_property
    def chunks(self) -> Chunks:
        """The cut of the store."""
        return Chunks(tuple(self.attributes["shape"]), tuple(self.attributes["chunk"]))

    @property
    def lines(self) -> tuple[str, ...]:
        """What the store was made for."""
        return tuple(self.attributes["study"])

    def marks(self) -> np.ndarray:
        """The mark of every chunk."""
        marks = (self.seals() & 3).astype(np.uint8)
        for index in np.flatnonzero(marks == UNREADABLE).tolist():
            raise SweepError(f"{str(self._mark(index))!r} is damaged. Run the same sweep again to redo this chunk.")
        return marks

    def seals(self) -> np.ndarray:
        """Mark and digest of every chunk, as one number each."""
        seals = np.full(len(self.chunks), OPEN, dtype=np.uint64)
        folder = self.path / "done" / "c"
        for name in os.listdir(folder) if folder.is_dir() else ():
            if name.isdecimal() and int(name) < len(seals):
                try:
                    seals[int(name)] = MARK.decoded((folder / name).read_bytes())[0]
                except (OSError, ValueError, RuntimeError):
                    seals[int(name)] = UNREADABLE
        return seals

    def values(self, name: str, index: int) -> np.ndarray:
        """An array of the result (``outcome``, ``cause``, a measure) on one chunk."""
        form = self.formats[name]
        box = tuple(slice(0, s.stop - s.start) for s in self.chunks.region(index))
        path = self._file(name, form, self.chunks.place(index))
        try:
            return form.decoded(content_of(path))[box]
        except (OSError, ValueError, RuntimeError) as error:
            raise SweepError(f"{str(path)!r} is damaged: {error}. Run the same sweep again to redo it.") from error

    @cached_property
    def entries(self) -> dict[str, StoredVariable]:
        """Variables of the result."""
        return {
            n: StoredVariable(tuple(e["dims"]), tuple(e["shape"]), e["dtype"], e["unit"])
            for n, e in self.attributes["layout"].items()
        }

    @cached_property
    def formats(self) -> dict[str, ChunkFormat]:
        """How the arrays of the result are written."""
        return _formats(self.chunks.size, self.entries)

    # --- making -----------------------------------------------------------------------------------------------------------------

    def create(self, study: Study) -> None:
        """Make the store; it appears under its name when all its arrays are there."""
        parent = self.path.parent
        if not parent.is_dir():
            raise SweepError(f"cannot make {str(self.path)!r}: the folder {str(parent)!r} does not exist.")
        chunks, layout = study.chunks, study.layout
        sweep_leftovers(parent)
        try:
            with work_folder(parent, self.path.name) as work:
                group = zarr_module().create_group(str(work / "new"), attributes=_attributes(study))
                self._fill(group, study, chunks, layout)
                write_checksums(work / "new")
                settle(work / "new")
                (work / "new").rename(self.path)
        except OSError as error:
            if self.exists:  # another process was quicker
                self.check(study)
                return
            raise StoreFull(f"cannot make the store {str(self.path)!r}: {error.strerror or error}.") from error

    def _fill(self, group: Any, study: Study, chunks: Chunks, layout: Mapping[str, StoredVariable]) -> None:
        dims, nothing = tuple(study.grid.sizes), StoredVariable((), (), "", "")
        about: dict[str, dict[str, Any]] = {"outcome": {"meaning": list(OUTCOMES)}, "end_time": {"units": "s"}}
        about |= {name: {"units": entry.unit} for name, entry in layout.items() if entry.unit}
        for name, form in _formats(chunks.size, layout).items():
            entry = layout.get(name, nothing)
            _array(group, name, form, (*chunks.shape, *entry.shape), (*dims, *entry.dims), about.get(name, {}))
        _array(group, "done", MARK, (len(chunks),), ("chunk",), {})
        self._coordinates(group, study, layout)

    @staticmethod
    def _coordinates(group: Any, study: Study, layout: Mapping[str, StoredVariable]) -> None:
        """Values of what varies, and labels; random values are written with the chunks, as they may be many."""
        for name, values, dims, unit in coordinates(study, layout):
            made = group.create_array(
                name,
                shape=values.shape,
                chunks=tuple(max(n, 1) for n in values.shape),
                dtype=str if values.dtype.kind in "UO" else values.dtype,
                dimension_names=dims,
                attributes={"units": unit} if unit else {},
            )
            made[...] = values.astype(object) if values.dtype.kind == "U" else values
        place = dict(zip(study.grid.sizes, study.chunks.size, strict=True))
        for variable in study.grid.variables.values():
            if variable.distribution is None:
                continue
            form = _draw_format(study, variable, place[DRAW])
            further = (f"{variable.name}_{k}" for k in range(len(variable.shape)))
            about = {"units": variable.unit} if variable.unit else {}
            _array(group, variable.name, form, (study.grid.sizes[DRAW], *variable.shape), (DRAW, *further), about)

    def check(self, study: Study) -> None:
        """Raise a SweepError that shows the difference if the store was made for another study."""
        if self.lines != study.lines:
            raise SweepError(
                f"{str(self.path)!r} was made for another study; - is what it holds, + what is asked for:\n"
                f"{difference(self.lines, study.lines)}\nTake another name for the new study, or remove the store."
            )

    # --- writing ----------------------------------------------------------------------------------------------------------------

    def write(self, index: int, output: Output, study: Study, mark: int = DONE) -> None:
        """Write a chunk, see it on the disk, then mark it."""
        files: dict[Path, bytes | None] = {}
        place = self.chunks.place(index)
        for name, form, number, values in self._draws(index, output, study):
            files[self._file(name, form, (number,))] = form.encoded(values)
        for name, values in self._values(index, output).items():
            form = self.formats[name]
            files[self._file(name, form, place)] = None if values is None else form.encoded(values)
        seal = digest({self._name(path): content for path, content in files.items()}) << 2 | mark
        done = {self._mark(index): MARK.encoded(np.array([seal], dtype=np.uint64))}
        try:
            for part in (files, done):
                self._put(part)
        except OSError as error:
            raise StoreFull(
                f"cannot write to {str(self.path)!r}: {error.strerror or error}. What was marked as done is safe; run the same sweep again "
                "to do the rest."
            ) from error

    def _name(self, path: Path) -> str:
        return path.relative_to(self.path).as_posix()

    def _mark(self, index: int) -> Path:
        return file_of(self.path, "done", (index,))

    def files(self, index: int) -> list[Path]:
        """Where the files of a chunk are; there are none for arrays that hold nothing."""
        place = self.chunks.place(index)
        found = [self._file(name, form, place) for name, form in self.formats.items()]
        dims: list[str] = self.attributes["dimensions"]
        axis = dims.index(DRAW) if DRAW in dims else -1
        if axis >= 0 and not any(k for a, k in enumerate(place) if a != axis):
            further: dict[str, int] = self.attributes["drawn"]
            found += [file_of(self.path, name, (place[axis], *(0,) * n)) for name, n in further.items()]
        return found

    def reopen(self, indices: Iterable[int]) -> None:
        """Take the marks of chunks away, so that they are done again."""
        put({self._mark(index): None for index in indices}, self.path / "done")

    def _put(self, files: Mapping[Path, bytes | None]) -> None:
        try:
            put(files, self.path / "done")
        except FileNotFoundError:  # a client that begins took the new folder for one that was left behind
            if not (self.path / "done").is_dir():
                raise
            put(files, self.path / "done")

    def _file(self, name: str, form: ChunkFormat, place: Sequence[int]) -> Path:
        """The file of a chunk; axes after those of the sweep are not cut."""
        return file_of(self.path, name, (*place, *(0,) * (len(form.shape) - len(place))))

    def _values(self, index: int, output: Output) -> dict[str, np.ndarray | None]:
        """Values of every array of the result on the box of a chunk; None for those that hold nothing."""
        counts = [s.stop - s.start for s in self.chunks.region(index)]
        found = dict(shaped(output, counts, self.entries))
        return {**{name: None for name in self.formats if name not in found}, **found}

    def _draws(self, index: int, output: Output, study: Study) -> Iterator[tuple[str, ChunkFormat, int, np.ndarray]]:
        """Name, format, chunk and values of the random variables on this range of draws, for the first chunk that has them."""
        if DRAW not in study.grid.sizes:
            return
        axis = list(study.grid.sizes).index(DRAW)
        place = self.chunks.place(index)
        if any(k for a, k in enumerate(place) if a != axis):
            return
        bounds = self.chunks.region(index)[axis]
        for variable in study.grid.variables.values():
            if variable.distribution is not None:
                values = output.draws.get(variable.name)
                if values is None:
                    values = study.grid.own_values(variable, [bounds])
                form = _draw_format(study, variable, self.chunks.size[axis])
                yield variable.name, form, place[axis], values

    def tidy(self) -> None:
        """Remove what writers that were killed have left behind."""
        sweep_leftovers(self.path / "done")


MARK = ChunkFormat((1,), np.dtype(np.uint64), OPEN)
"""Of the marks of chunks, one in a file."""


def write_checksums(root: Path) -> None:
    """Write down the digests of all files of a new store."""
    names = [path.relative_to(root).as_posix() for path in sorted(root.rglob("*")) if path.is_file()]
    (root / "done" / CHECKSUMS).write_text(json.dumps({n: digest({n: (root / n).read_bytes()}) for n in names}))


def _formats(size: Sequence[int], entries: Mapping[str, StoredVariable]) -> dict[str, ChunkFormat]:
    box = tuple(size)
    forms = {
        name: ChunkFormat(
            (*box, *(max(n, 1) for n in entry.shape)), np.dtype(entry.dtype), missing(np.dtype(entry.dtype)).item()
        )
        for name, entry in entries.items()
    }
    forms["outcome"] = ChunkFormat(box, np.dtype(np.int8), -1)
    forms["end_time"] = ChunkFormat(box, np.dtype(float), float("nan"))
    return {**forms, "cause": ChunkFormat(box, str, "")}


def _draw_format(study: Study, variable: Variable, count: int) -> ChunkFormat:
    kind = study.grid.own_values(variable, [slice(0, 1)]).dtype
    return ChunkFormat((count, *variable.shape), str if kind.kind == "U" else kind, "" if kind.kind == "U" else 0)


def _array(
    group: Any, name: str, form: ChunkFormat, shape: tuple[int, ...], dims: tuple[str, ...], about: dict[str, Any]
) -> None:
    """Make an array of the store."""
    group.create_array(
        name,
        shape=shape,
        chunks=form.shape,
        dtype=form.dtype,
        fill_value=form.fill,
        compressors=compressor(),
        dimension_names=dims,
        attributes=about,
    )


def _attributes(study: Study) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "study": list(study.lines),
        "shape": list(study.chunks.shape),
        "chunk": list(study.chunks.size),
        "layout": {
            n: {"dims": e.dims, "shape": e.shape, "dtype": e.dtype, "unit": e.unit} for n, e in study.layout.items()
        },
        "varied": list(study.grid.variables),
        "drawn": {v.name: len(v.shape) for v in study.grid.variables.values() if v.distribution is not None},
        "dimensions": list(study.grid.sizes),
    }


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
