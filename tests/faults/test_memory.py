"""Recordings and files that do not fit into memory are rejected with the number and the remedy."""

import pytest
from processes import finish

import heavytop as ht
from heavytop.errors import FileFormatError, SimulationError


def test_a_recording_beyond_the_memory_is_rejected(model: ht.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heavytop.simulate.recording.available_memory", lambda: 1e5)
    monkeypatch.setattr("heavytop.simulate.recording.SMALL", 0.0)
    with pytest.raises(
        SimulationError, match=r"GB of memory are available.*Raise record_every \(now 1\) to \d+ or more"
    ) as caught:
        ht.simulate(model, ([0.1], [0.0]), 1000.0, 0.01)
    least = int(str(caught.value).partition(") to ")[2].partition(" or")[0])
    assert ht.simulate(model, ([0.1], [0.0]), 1000.0, 0.01, record_every=least + 1).outcome.ok


@pytest.mark.parametrize("integrator", ["rkmk4", "rkmk45"])
@pytest.mark.thorough
def test_a_limit_of_the_process_counts(integrator: str) -> None:
    """16 GB under a limit of 6 GB raised a MemoryError; with error control already the times of the records did."""
    code = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (6 * 2**30, 6 * 2**30))
import heavytop as ht
from heavytop.errors import SimulationError
system = ht.System(name="pendulum")
system.body("rod", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=(0, 0, -1)))
try:
    ht.simulate(system.derive(), ([0.1], [0.0]), 1e7, 0.01, sys.argv[1])
except SimulationError as error:
    print("rejected", error)
"""
    done = finish(code, integrator)
    assert done.stdout.startswith("rejected"), done.stderr[-1500:]
    assert "GB of memory are available" in done.stdout


def test_saving_what_does_not_fit(run: ht.Run, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heavytop.io.netcdf.available_memory", lambda: 100.0)
    with pytest.raises(FileFormatError, match="record_every"):
        run.save(tmp_path / "run.nc")
    assert list(tmp_path.iterdir()) == []
