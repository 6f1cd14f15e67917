"""The store: marked chunks are complete, the rest is computed again with the same bits, another study raises."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from sweep import studies

import heavytop as ht
from heavytop.errors import SweepError
from heavytop.sweep import DONE, DamagedStoreWarning, Store

pytest.importorskip("zarr")


def same_files(a: Path, b: Path) -> bool:
    """Whether two stores are equal, byte for byte."""
    names = [sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_file()) for root in (a, b)]
    return names[0] == names[1] and all((a / n).read_bytes() == (b / n).read_bytes() for n in names[0])


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "pendulums.zarr"
    ht.sweep.run_study(studies.pendulums(), path)
    return path


@pytest.mark.thorough
def test_a_store_equals_the_result_in_memory(whole: Path) -> None:
    stored = ht.sweep.open_result(whole).data.load()
    memory = ht.sweep.run_study(studies.pendulums()).data
    for name in memory.variables:
        assert np.array_equal(stored[name].values.astype(memory[name].dtype), memory[name].values), name
        assert stored[name].dims == memory[name].dims
    assert set(stored.coords) == set(memory.coords)
    assert stored.attrs["done"] == stored.attrs["chunks"] > 3


def test_xarray_opens_it_alone(whole: Path) -> None:
    import xarray

    data = xarray.open_zarr(whole, consolidated=False, chunks=None)
    assert data.q.dims == ("theta_1.angle", "g", "draw", "coordinate")
    assert data.q.sel(coordinate="theta_2.angle", g=1.6).shape == (6, 8)
    assert data.end_time.attrs["units"] == "s"


@pytest.mark.parametrize("stop", [0, 1, 4])
def test_an_interrupted_sweep_resumes_with_the_same_bits(
    whole: Path, tmp_path: Path, stop: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "pendulums.zarr"
    write, written = Store.write, []

    def interrupted(self: Store, index: int, *more: object) -> None:
        if len(written) == stop:
            raise KeyboardInterrupt
        written.append(index)
        write(self, index, *more)  # pyright: ignore

    monkeypatch.setattr(Store, "write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ht.sweep.run_study(studies.pendulums(), path)
    monkeypatch.undo()
    assert np.sum(Store(path).marks() == DONE) == stop
    partial = ht.sweep.open_result(path)
    assert partial.outcomes().get("open", 0) > 0
    done: list[int] = []
    monkeypatch.setattr(Store, "write", lambda self, index, *more: (done.append(index), write(self, index, *more))[1])
    ht.sweep.run_study(studies.pendulums(), path)
    assert len(done) == len(Store(path).marks()) - stop  # only the rest
    assert same_files(path, whole)


def test_partial_chunks_are_computed_again(whole: Path, tmp_path: Path) -> None:
    path = tmp_path / "x.zarr"
    shutil.copytree(whole, path)
    store = Store(path)
    (path / "done" / "c" / "2").unlink()
    torn = sorted((path / "q" / "c").rglob("*"))[-1]
    torn.write_bytes(torn.read_bytes()[:10])  # the chunk of the last region
    (path / "done" / "c" / str(len(store.marks()) - 1)).unlink()
    ht.sweep.run_study(studies.pendulums(), path)
    assert same_files(path, whole)


def _lose(store: Path) -> None:
    (store / "q" / "c" / "1" / "0" / "0" / "0").unlink()


def _exchange(store: Path) -> None:
    one, other = (store / "q" / "c" / k / "0" / "0" / "0" for k in "01")
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)


def _forge(store: Path) -> None:
    """A chunk that zarr reads without complaint, with other numbers."""
    import zarr

    array = zarr.open_array(store / "end_time")
    array[2, 0, 0] = array[2, 0, 0] + 1.0


def _mark(store: Path) -> None:
    (store / "done" / "c" / "1").write_bytes(b"nonsense")


@pytest.mark.parametrize("damage", [_lose, _exchange, _forge, _mark])
def test_damage_is_reported_and_repaired(whole: Path, tmp_path: Path, damage: Callable[[Path], None]) -> None:
    path = tmp_path / "x.zarr"
    shutil.copytree(whole, path)
    damage(path)
    with pytest.raises(SweepError, match=r"is damaged: .*chunk \d.*Run the same sweep again"):
        ht.sweep.open_result(path)
    if damage is not _mark:
        ht.sweep.open_result(path, check=False)
    with pytest.warns(DamagedStoreWarning, match="chunk"):
        ht.sweep.run_study(studies.pendulums(), path)
    assert same_files(path, whole)
    ht.sweep.open_result(path)


@pytest.mark.parametrize("name", ["g/zarr.json", "g/c/0", "zarr.json", "done/checksums.json"])
def test_a_damaged_frame_raises(whole: Path, tmp_path: Path, name: str) -> None:
    path = tmp_path / "x.zarr"
    shutil.copytree(whole, path)
    content = (path / name).read_bytes()
    (path / name).write_bytes(content[:-3] + bytes([content[-3] ^ 1]) + content[-2:])
    for use in (ht.sweep.open_result, lambda p: ht.sweep.run_study(studies.pendulums(), p)):
        with pytest.raises(SweepError, match="damaged|no store"):
            use(path)


def test_another_study_raises_with_the_difference(whole: Path) -> None:
    model = ht.library.load("double-pendulum").derive()
    options = {"until": 0.5, "step": 0.01}
    before = [p.read_bytes() for p in sorted(whole.rglob("*")) if p.is_file()]
    with pytest.raises(SweepError, match=r"(?s)another study.*- seed = 3\n\+ seed = 4"):
        ht.sweep(model, studies.POINTS, studies.DRAWS, seed=4, store=whole, **options)
    with pytest.raises(SweepError, match=r"(?s)- step = 0\.01.*\+ step = 0\.02"):
        ht.sweep(model, studies.POINTS, studies.DRAWS, seed=3, store=whole, until=0.5, step=0.02)
    with pytest.raises(SweepError, match=r"(?s)- over g .*1\.6, 3\.7, 9\.81.*\+ over g .*1\.7, 3\.7, 9\.81"):
        ht.sweep(
            model, {**studies.POINTS, "g": np.array([1.7, 3.7, 9.81])}, studies.DRAWS, seed=3, store=whole, **options
        )
    other = ht.library.load("double-pendulum")
    other.damper("world", other.describe().graph.frames[1], ht.Damping(0.1))
    with pytest.raises(SweepError, match=r"(?s)- make = .*\+ make ="):
        ht.sweep(other.derive(), studies.POINTS, studies.DRAWS, seed=3, store=whole, **options)
    with pytest.raises(SweepError, match=r"(?s)\+ measure"):
        ht.sweep(model, studies.POINTS, studies.DRAWS, seed=3, store=whole, measure=["theta_1.angle"], **options)
    assert [p.read_bytes() for p in sorted(whole.rglob("*")) if p.is_file()] == before
    ht.sweep(model, studies.POINTS, studies.DRAWS, seed=3, store=whole, chunk=16, **options)  # the same one is welcome


def test_laws_and_their_references_are_described() -> None:
    """The lines of two equal studies are equal, those of another reference or gain are not."""
    from heavytop.copters import quadcopter

    def lines(height: float, agility: float = 1.0) -> tuple[str, ...]:
        quad = quadcopter(mass=0.9 * agility)
        q = quad.model.neutral()
        q[2] = height
        law = quad.law("energy").with_reference(q)
        return ht.sweep.make_study(quad.model, {"hull.x": [0.0, 1.0]}, control=law, until=0.1, step=0.01).lines

    assert lines(0.0) == lines(0.0)
    assert lines(0.0) != lines(1.0)
    assert lines(0.0) != lines(0.0, 1.1)


def test_a_changed_function_is_another_study(tmp_path: Path) -> None:
    path = tmp_path / "f.zarr"
    factor = 2.0
    ht.sweep(lambda x: {"y": factor * x}, over={"x": [1.0, 2.0]}, store=path)
    ht.sweep(lambda x: {"y": factor * x}, over={"x": [1.0, 2.0]}, store=path)
    with pytest.raises(SweepError, match="another study"):
        ht.sweep(lambda x: {"y": factor + x}, over={"x": [1.0, 2.0]}, store=path)
    factor = 3.0
    with pytest.raises(SweepError, match="another study"):
        ht.sweep(lambda x: {"y": factor * x}, over={"x": [1.0, 2.0]}, store=path)


SETTINGS = {"factor": 2.0}
PENDULUM = ht.library.load("pendulum").derive()


def helper(x: float) -> float:
    return SETTINGS["factor"] * x


def uses_globals(x: float) -> dict[str, float]:
    return {"y": (lambda z: helper(z))(x), "n": float(PENDULUM.nq)}


def test_variables_of_a_function_belong_to_the_study(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dictionary, a model, a function that is called in a function inside: all of it may change the results."""

    def lines() -> tuple[str, ...]:
        return ht.sweep.make_study(uses_globals, {"x": [1.0]}).lines

    first = lines()
    assert lines() == first
    with monkeypatch.context() as changed:
        changed.setitem(SETTINGS, "factor", 3.0)
        assert lines() != first
    with monkeypatch.context() as changed:
        changed.setitem(globals(), "PENDULUM", ht.library.load("double-pendulum").derive())
        assert lines() != first
    with monkeypatch.context() as changed:
        changed.setitem(globals(), "helper", lambda x: x)
        assert lines() != first
    assert lines() == first


def test_a_store_without_dimensions(tmp_path: Path) -> None:
    result = ht.sweep(lambda: {"y": 1.0}, {}, store=tmp_path / "s.zarr")
    assert (result.outcomes(), result.causes(), float(result.y)) == ({"finished": 1}, {}, 1.0)


def test_numbers_of_a_store_are_read_box_by_box(tmp_path: Path) -> None:
    """Means, shares, extremes and samples of a store are those of memory."""
    from heavytop.sweep import statistics as boxes

    def point(x: float, y: float, z: float) -> dict[str, float]:
        if x == 1:
            raise ArithmeticError
        return {"r": x * y + z, "ok": y > 1}

    over = {"x": np.arange(4.0), "y": np.arange(5.0), "z": ht.normal()}
    memory = ht.sweep(point, over, 6)
    stored = ht.sweep(point, over, 6, store=tmp_path / "s.zarr", chunk=7)
    assert len(list(boxes.boxes(stored, "r"))) == 20
    for name, kept in (("r", ["y", "x"]), ("ok", ["draw"]), ("r", [])):
        for here, there in zip(boxes.sums(memory, name, kept), boxes.sums(stored, name, kept), strict=True):
            assert np.allclose(here, there, rtol=1e-14)
    total, count = boxes.sums(stored, "r", ["x", "y"], most=2)
    whole = memory.r.values.reshape(2, 2, 5, 6)
    assert np.allclose(total[:, 0], np.nansum(whole[:, :, :3], axis=(1, 2, 3)))
    assert count.tolist() == [[18, 12], [36, 24]]
    assert boxes.extremes(memory, "r", 3) == boxes.extremes(stored, "r", 3)
    best = np.unravel_index(boxes.extremes(stored, "r", 1)[0][0], (4, 5, 6))
    assert memory.r.values[best] == np.nanmax(memory.r.values)
    here, there = boxes.spread(memory, "r"), boxes.spread(stored, "r")
    assert here is not None
    assert there is not None
    assert here.count == there.count == 90
    assert np.allclose([here.least, here.median, here.largest], [there.least, there.median, there.largest])
    some = boxes.points(stored, 50)
    assert len(some) == len(set(some.tolist())) == 50
    assert np.array_equal(boxes.pick(stored, "r", some), memory.r.values.reshape(-1)[some], equal_nan=True)


@pytest.mark.parametrize("stored", [False, True])
def test_integers_of_failed_and_open_points_do_not_count(stored: bool, tmp_path: Path) -> None:
    """Integers have no NaN: the least one means a missing value."""
    from heavytop.sweep import statistics as boxes

    def point(x: float) -> dict[str, object]:
        if x == 1:
            raise ArithmeticError
        return {"n": int(x) + 3, "ok": x > 1, "r": np.inf if x == 4 else x}

    result = ht.sweep(point, {"x": np.arange(6.0)}, store=tmp_path / "s.zarr" if stored else None, chunk=1)
    if not stored:
        result.data["outcome"].values[5], result.data["n"].values[5] = -1, np.iinfo(np.int64).min
    valid = [3, 5, 6, 7, 8] if stored else [3, 5, 6, 7]
    found = boxes.spread(result, "n")
    assert found is not None
    assert (found.least, found.largest, found.count) == (3, valid[-1], len(valid))
    assert (found.median, found.mean) == (np.median(valid), np.mean(valid))
    assert boxes.sample(result, "n").tolist() == valid
    assert [float(x) for x in boxes.sums(result, "n", [])] == [sum(valid), len(valid)]
    assert boxes.sums(result, "n", ["x"])[1].tolist() == [1, 0, 1, 1, 1, int(stored)]
    assert boxes.extremes(result, "n", 9) == ([*range(len(valid), 1, -1), 0], 0)
    assert boxes.sums(result, "ok", ["x"])[1].tolist() == [1, 1, 1, 1, 1, int(stored)]  # what failed is not ok
    assert boxes.sums(result, "r", ["x"])[1].tolist() == [1, 0, 1, 1, 0, int(stored)]
    assert float(result.share("n").share) == len(valid) / (len(valid) + 1)


def test_other_folders_are_not_touched(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(SweepError, match="not the store of a sweep"):
        ht.sweep(lambda x: {"y": x}, over={"x": [1]}, store=tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years of work"
    with pytest.raises(SweepError, match="does not exist"):
        ht.sweep(lambda x: {"y": x}, over={"x": [1]}, store=tmp_path / "no" / "x.zarr")
    assert not list(tmp_path.glob("*.part"))


def test_texts_and_objects_are_labels(tmp_path: Path) -> None:
    result = ht.sweep(
        lambda law, n, side: {"y": len(law) + n},
        over={"law": ["energy", "body"], "n": [1, 2], "side": ht.choice(["left", "right"])},
        draws=3,
        store=tmp_path / "t.zarr",
    )
    assert result.y.sel(law="body", n=2).values.tolist() == [6, 6, 6]
    assert set(result.data.side.values) <= {"left", "right"}
    assert np.array_equal(result.data.side.values.astype(object), ht.choice(["left", "right"]).draw(0, "side", 0, 3))


def test_memory_stays_bounded(tmp_path: Path) -> None:
    """What this process holds grows with the chunk, not with the number of points."""
    import tracemalloc

    peaks = []
    for count in (20_000, 200_000):
        study = ht.sweep.make_study(lambda x: {"y": 2 * x}, {"x": ht.uniform()}, count, batched=True, chunk=10_000)
        tracemalloc.start()
        ht.sweep.run_study(study, tmp_path / f"{count}.zarr")
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 2e6
