"""The store of a sweep: a zarr v3 group that xarray opens, one chunk of work in one chunk of every array, the done mark last."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from heavytop._files import sweep_leftovers, work_folder
from heavytop.errors import SweepError
from heavytop.sweep.cases import Output, missing
from heavytop.sweep.chunk_files import compressor, encoded, file_of, put, settle
from heavytop.sweep.describe import difference
from heavytop.sweep.grid import DRAW, Chunks
from heavytop.sweep.measure import OUTCOMES
from heavytop.sweep.study import StoredVariable, Study, write_into

FORMAT = "heavytop sweep 1"
OPEN, DONE, GIVEN_UP = 0, 1, 2
"""Marks of a chunk."""


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
    def group(self) -> Any:
        """The open group."""
        try:
            group = zarr_module().open_group(str(self.path), mode="r+")
        except (OSError, KeyError, ValueError) as error:
            raise SweepError(f"{str(self.path)!r} is no store of a sweep: {error}.") from error
        if group.attrs.get("format") != FORMAT:
            raise SweepError(f"{str(self.path)!r} is no store of a sweep: its format is {group.attrs.get('format')!r}.")
        return group

    @property
    def exists(self) -> bool:
        """Whether something is there."""
        return self.path.exists()

    @cached_property
    def chunks(self) -> Chunks:
        """The cut of the store."""
        return Chunks(tuple(self.group.attrs["shape"]), tuple(self.group.attrs["chunk"]))

    @property
    def lines(self) -> tuple[str, ...]:
        """What the store was made for."""
        return tuple(self.group.attrs["study"])

    def marks(self) -> np.ndarray:
        """The mark of every chunk."""
        return np.asarray(self.arrays["done"][:])

    @cached_property
    def arrays(self) -> dict[str, Any]:
        """The arrays by name."""
        return dict(self.group.arrays())

    @cached_property
    def entries(self) -> dict[str, StoredVariable]:
        """Variables of the result."""
        return {
            n: StoredVariable(tuple(e["dims"]), tuple(e["shape"]), e["dtype"], e["unit"])
            for n, e in self.group.attrs["layout"].items()
        }

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
                settle(work / "new")
                (work / "new").rename(self.path)
        except OSError as error:
            if self.exists:  # another process was quicker
                self.check(study)
                return
            raise StoreFull(f"cannot make the store {str(self.path)!r}: {error.strerror or error}.") from error

    def _fill(self, group: Any, study: Study, chunks: Chunks, layout: Mapping[str, StoredVariable]) -> None:
        dims = tuple(study.grid.sizes)

        def array(name: str, entry: StoredVariable, dtype: Any, fill: Any, **attributes: Any) -> None:
            group.create_array(
                name,
                shape=(*chunks.shape, *entry.shape),
                chunks=(*chunks.size, *(max(n, 1) for n in entry.shape)),
                dtype=dtype,
                fill_value=fill,
                compressors=compressor(),
                dimension_names=(*dims, *entry.dims),
                attributes={"units": entry.unit, **attributes} if entry.unit else attributes,
            )

        plain = StoredVariable((), (), "", "")
        for name, entry in layout.items():
            array(name, entry, entry.dtype, missing(np.dtype(entry.dtype)).item())
        array("outcome", plain, "i1", -1, meaning=list(OUTCOMES))
        array("end_time", StoredVariable((), (), "", "s"), "f8", float("nan"))
        array("cause", plain, str, "")
        count = len(chunks)
        group.create_array(
            "done",
            shape=(count,),
            chunks=(1,),
            dtype="u1",
            fill_value=OPEN,
            compressors=compressor(),
            dimension_names=("chunk",),
        )
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
            sample = study.grid.own_values(variable, [slice(0, 1)])
            group.create_array(
                variable.name,
                shape=(study.grid.sizes["draw"], *variable.shape),
                chunks=(place["draw"], *variable.shape),
                dtype=str if sample.dtype.kind == "U" else sample.dtype,
                compressors=compressor(),
                dimension_names=("draw", *(f"{variable.name}_{k}" for k in range(len(variable.shape)))),
            )

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
        for name, values in self._values(index, output):
            files[self._file(name, self.chunks.place(index))] = encoded(self.arrays[name], values)
        for name, place, values in self._draws(index, output, study):
            files[self._file(name, place)] = encoded(self.arrays[name], values)
        done = {file_of(self.path, "done", (index,)): encoded(self.arrays["done"], np.array([mark], dtype=np.uint8))}
        try:
            for part in (files, done):
                self._put(part)
        except OSError as error:
            raise StoreFull(
                f"cannot write to {str(self.path)!r}: {error.strerror or error}. What was marked as done is safe; run the same sweep again "
                "to do the rest."
            ) from error

    def _put(self, files: Mapping[Path, bytes | None]) -> None:
        try:
            put(files, self.path / "done")
        except FileNotFoundError:  # a client that begins took the new folder for one that was left behind
            if not (self.path / "done").is_dir():
                raise
            put(files, self.path / "done")

    def _file(self, name: str, place: Sequence[int]) -> Path:
        """The file of a chunk; axes after those of the sweep are not cut."""
        return file_of(self.path, name, (*place, *(0,) * (self.arrays[name].ndim - len(place))))

    def _values(self, index: int, output: Output) -> Iterator[tuple[str, np.ndarray]]:
        """Name and values of every array of the result on the box of a chunk."""
        region = self.chunks.region(index)
        box = [slice(0, s.stop - s.start) for s in region]
        counts = tuple(s.stop for s in box)
        arrays = {
            n: np.full((*counts, *e.shape), missing(np.dtype(e.dtype)), dtype=e.dtype) for n, e in self.entries.items()
        }
        arrays |= {"outcome": np.empty(counts, dtype=np.int8), "end_time": np.empty(counts)}
        arrays["cause"] = np.full(counts, "", dtype=object)
        write_into(arrays, box, output, self.entries)
        yield from arrays.items()

    def _draws(self, index: int, output: Output, study: Study) -> Iterator[tuple[str, tuple[int, ...], np.ndarray]]:
        """Name, chunk and values of the random variables on this range of draws, for the first chunk that has them."""
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
                yield variable.name, (place[axis],), values

    def tidy(self) -> None:
        """Remove what writers that were killed have left behind."""
        sweep_leftovers(self.path / "done")


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
                yield name, np.asarray(labels), (name,), "s" if name == "time" else ""


def label(value: Any) -> str:
    """A short name of an object that is varied."""
    name = getattr(value, "name", None) or getattr(value, "__name__", None)
    return name if isinstance(name, str) else str(value)
