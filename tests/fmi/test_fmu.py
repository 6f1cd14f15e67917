"""FMUs: steps equal own runs, derivatives are exact, the manifold and the limits are kept, damage is reported.

The tests here drive the binary through the C interface of FMI 2.0; tests/peers/test_fmu_importers.py uses other importers.
"""

from __future__ import annotations

import ctypes
import shutil
import zipfile
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import heavytop as ht
from heavytop.errors import FileFormatError, ModelError, UnknownNameError

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


class Binary:
    """An instance of an FMU for FMI 2.0 through ctypes."""

    def __init__(self, path: Path, folder: Path, co_simulation: bool) -> None:
        with zipfile.ZipFile(path) as archive:
            root = ElementTree.fromstring(archive.read("modelDescription.xml"))
            name = next(n for n in archive.namelist() if n.startswith("binaries/"))
            archive.extract(name, folder)
        self.references = {v.get("name"): int(v.get("valueReference", "-1")) for v in root.iter("ScalarVariable")}
        self.lib = ctypes.CDLL(str(folder / name))
        self.lib.fmi2Instantiate.restype = ctypes.c_void_p
        self.c = ctypes.c_void_p(
            self.lib.fmi2Instantiate(b"m", int(co_simulation), str(root.get("guid")).encode(), b"", None, 0, 0)
        )
        assert self.c.value
        self("SetupExperiment", 0, ctypes.c_double(0), ctypes.c_double(0), 0, ctypes.c_double(0))
        self("EnterInitializationMode")

    def __call__(self, function: str, *arguments: Any) -> None:
        assert self.status(function, *arguments) == 0, function

    def status(self, function: str, *arguments: Any) -> int:
        return getattr(self.lib, f"fmi2{function}")(self.c, *arguments)

    def _ids(self, names: list[str]) -> Any:
        return (ctypes.c_uint * len(names))(*(self.references[n] for n in names))

    def get(self, names: list[str]) -> np.ndarray:
        values = (ctypes.c_double * len(names))()
        self("GetReal", self._ids(names), ctypes.c_size_t(len(names)), values)
        return np.array(values)

    def set(self, names: list[str], values: Any) -> None:
        self("SetReal", self._ids(names), ctypes.c_size_t(len(names)), (ctypes.c_double * len(names))(*values))

    def derivative(self, unknowns: list[str], knowns: list[str], seed: Any) -> np.ndarray:
        result = (ctypes.c_double * len(unknowns))()
        n, k = ctypes.c_size_t(len(unknowns)), ctypes.c_size_t(len(knowns))
        self(
            "GetDirectionalDerivative",
            self._ids(unknowns),
            n,
            self._ids(knowns),
            k,
            (ctypes.c_double * len(knowns))(*seed),
            result,
        )
        return np.array(result)

    def step(self, time: float, duration: float) -> None:
        self("DoStep", ctypes.c_double(time), ctypes.c_double(duration), 1)


@pytest.fixture(scope="module")
def quadcopter(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[ht.Model, Path, tuple[np.ndarray, np.ndarray]]:
    model = ht.library.quadcopter().derive()
    rng = np.random.default_rng(4)
    start = model.random(rng), rng.normal(size=6)
    folder = tmp_path_factory.mktemp("fmu")
    return model, model.export_fmu(folder / "quadcopter.fmu", start=start, step=2e-3), start


@needs_compiler
def test_steps_equal_a_run(quadcopter: tuple, tmp_path: Path) -> None:
    model, path, start = quadcopter
    run = ht.simulate(model, start, until=0.1, step=2e-3, inputs=[2.0, 2.5, 1.5, 2.2])
    fmu = Binary(path, tmp_path, co_simulation=True)
    fmu.set(list(model.u_names), [2.0, 2.5, 1.5, 2.2])
    fmu("ExitInitializationMode")
    names = [*model.q_names, *model.v_names]
    for k in range(5):
        fmu.step(0.02 * k, 0.02)
        expected = np.concatenate([run.q[10 * k + 10], run.v[10 * k + 10]])
        assert np.abs(fmu.get(names) - expected).max() < 1e-13
    assert fmu.get(["kinetic_energy"])[0] == pytest.approx(run.kinetic_energy[-1], rel=1e-12)
    assert np.abs(model.constraints(fmu.get(list(model.q_names)))).max() < 1e-14


@needs_compiler
def test_directional_derivatives_are_exact(quadcopter: tuple, tmp_path: Path) -> None:
    """Against central differences in all states and inputs at the same time."""
    model, path, start = quadcopter
    fmu = Binary(path, tmp_path, co_simulation=False)
    x, u = [*model.q_names, *model.v_names], list(model.u_names)
    fmu("ExitInitializationMode")
    dx = [f"der({name})" for name in x]
    rng = np.random.default_rng(5)
    seed = rng.normal(size=len(x) + len(u))
    exact = fmu.derivative([*dx, "kinetic_energy", "potential_energy"], [*x, *u], seed)
    state = np.concatenate(start)

    def rates(h: float) -> np.ndarray:
        moved = state + h * seed[: len(x)]
        fmu("SetContinuousStates", (ctypes.c_double * len(x))(*moved), ctypes.c_size_t(len(x)))
        fmu.set(u, h * seed[len(x) :])
        return fmu.get([*dx, "kinetic_energy", "potential_energy"])

    h = 1e-6
    assert np.allclose(exact, (rates(h) - rates(-h)) / (2 * h), rtol=1e-7, atol=1e-7)


@needs_compiler
def test_model_exchange_returns_to_the_manifold(quadcopter: tuple, tmp_path: Path) -> None:
    model, path, start = quadcopter
    fmu = Binary(path, tmp_path, co_simulation=False)
    fmu("ExitInitializationMode")
    n = model.nq + model.nv
    event, terminate = ctypes.c_int(), ctypes.c_int()

    def completed(x: np.ndarray) -> bool:
        fmu("SetContinuousStates", (ctypes.c_double * n)(*x), ctypes.c_size_t(n))
        fmu("CompletedIntegratorStep", 1, ctypes.byref(event), ctypes.byref(terminate))
        return bool(event.value)

    x = np.concatenate(start)
    assert not completed(x)
    x[3:12] *= 1.001  # the rotation matrix
    assert completed(x)
    info = (ctypes.c_int * 8)()
    fmu("EnterEventMode")
    fmu("NewDiscreteStates", info)
    assert info[3] == 1  # values of states changed
    assert np.abs(model.constraints(fmu.get(list(model.q_names)))).max() < 1e-14


@needs_compiler
def test_limits_are_event_indicators(tmp_path: Path) -> None:
    system = ht.System(name="flap")
    system.body("flap", joint=ht.Revolute("y", limits=(-0.5, 1.0)), inertia=ht.Inertia(1.0, com=(0, 0, -1)))
    model = system.derive()
    path = model.export_fmu(tmp_path / "flap.fmu", start=([0.2], [3.0]), step=1e-2)
    fmu = Binary(path, tmp_path, co_simulation=True)
    fmu("ExitInitializationMode")
    upper = "flap at its upper limit 1"
    ids, value, seen = (ctypes.c_uint * 1)(fmu.references[upper]), (ctypes.c_int * 1)(), []
    for k in range(60):
        fmu.step(0.01 * k, 0.01)
        fmu("GetBoolean", ids, ctypes.c_size_t(1), value)
        seen.append((value[0], fmu.get(["flap.angle"])[0] > 1.0, fmu.get([f"indicator of {upper}"])[0]))
    assert any(flag for flag, _, _ in seen)
    assert all(bool(flag) == beyond == (z > 0) for flag, beyond, z in seen)


@pytest.mark.thorough
@needs_compiler
def test_closed_loop_takes_its_reference_as_input(tmp_path: Path) -> None:
    """A law with its set point: after one second the vehicle is where the same run is, and it follows another set point."""
    quad = ht.copters.quadcopter()
    model, goal = quad.model, quad.model.neutral()
    goal[:3] = [0.5, 0.0, 1.0]
    start = model.neutral(), np.zeros(6)
    law = quad.law(limits=False)
    run = ht.simulate(quad, start, until=0.5, step=5e-3, control=law, reference=goal)
    path = model.export_fmu(tmp_path / "loop.fmu", control=law, step=5e-3)
    fmu = Binary(path, tmp_path, co_simulation=True)
    fmu.set(["reference.hull.x", "reference.hull.z"], [0.5, 1.0])
    fmu("ExitInitializationMode")
    fmu.step(0.0, 0.5)
    assert np.abs(fmu.get(list(model.q_names)) - run.q[-1]).max() < 1e-12
    fmu.set(["reference.hull.x"], [-0.5])
    for k in range(12):
        fmu.step(0.5 + 0.5 * k, 0.5)
    assert fmu.get(["hull.x", "hull.z"]) == pytest.approx([-0.5, 1.0], abs=1e-3)


@pytest.mark.thorough
@needs_compiler
def test_parameters_and_time(tmp_path: Path) -> None:
    system = ht.System(name="driven")
    mass = system.parameter("mass", 2.0)
    system.body("cart", joint=ht.Prismatic("x"), inertia=ht.Inertia(mass))
    drive = np.cos(3.0 * system.time)
    system.force(lambda q, v: ht.vector(drive))
    model = system.derive()
    fmu = Binary(model.export_fmu(tmp_path / "driven.fmu", step=1e-3), tmp_path, co_simulation=True)
    fmu.set(["mass"], [4.0])
    fmu("ExitInitializationMode")
    fmu.step(0.0, 1.0)
    assert fmu.get(["cart.v_x"])[0] == pytest.approx(np.sin(3.0) / 12.0, rel=1e-9)
    run = ht.simulate(model, ([0.0], [0.0]), until=1.0, step=1e-3, parameters={"mass": 4.0})
    assert fmu.get(["cart.x"])[0] == pytest.approx(run.q[-1, 0], abs=1e-14)


@needs_compiler
def test_wrong_values_are_rejected(quadcopter: tuple, tmp_path: Path) -> None:
    model, path, _ = quadcopter
    fmu = Binary(path, tmp_path, co_simulation=True)
    ids, nan = (ctypes.c_uint * 1)(fmu.references[model.u_names[0]]), (ctypes.c_double * 1)(np.nan)
    assert fmu.status("SetReal", ids, ctypes.c_size_t(1), nan) == 3
    fmu.set([model.q_names[3]], [5.0])  # off the manifold
    assert fmu.status("ExitInitializationMode") == 3


def test_mistakes_are_reported(tmp_path: Path) -> None:
    model = ht.library.pendulum().derive()
    with pytest.raises(FileFormatError, match="fmu"):
        model.export_fmu(tmp_path / "a.zip")
    with pytest.raises(UnknownNameError, match="version"):
        model.export_fmu(tmp_path / "a.fmu", version="1.0")
    with pytest.raises(ModelError, match="fixed steps"):
        model.export_fmu(tmp_path / "a.fmu", integrator="rkmk45")
    with pytest.raises(ModelError, match="positive"):
        model.export_fmu(tmp_path / "a.fmu", step=0.0)
    with pytest.raises(ModelError, match="one state"):
        model.export_fmu(tmp_path / "a.fmu", start=(np.zeros((2, 1)), np.zeros((2, 1))))
    law = ht.Feedback(lambda q, gains: -gains["k"] * q[:1], ("q", "gains"), gains={"k": 3.0})
    with pytest.raises(ModelError, match="gains"):
        ht.library.cart_pole().derive().export_fmu(tmp_path / "a.fmu", control=law)
    assert list(tmp_path.iterdir()) == []


def test_equal_models_give_equal_files(tmp_path: Path) -> None:
    paths = [ht.library.cart_pole().derive().export_fmu(tmp_path / f"{k}.fmu", binary=False) for k in range(2)]
    assert paths[0].read_bytes() == paths[1].read_bytes()


@pytest.mark.thorough
@needs_compiler
def test_law_alone_closes_the_loop_with_a_model(tmp_path: Path) -> None:
    """An FMU of a law with integral action drives an FMU of the plant as the law drives the run of ``ht.simulate``."""
    quad = ht.copters.quadcopter()
    model, goal = quad.model, quad.model.neutral()
    goal[:3] = [0.3, -0.2, 0.5]
    law = quad.law(limits=False, integral=ht.control.Integral("hull", gain=2.0))
    run = ht.simulate(quad, (model.neutral(), np.zeros(6)), until=0.3, step=5e-3, control=law, reference=goal)
    plant = Binary(model.export_fmu(tmp_path / "plant.fmu", step=5e-3), tmp_path / "a", co_simulation=True)
    pilot = Binary(ht.fmi.export_fmu(law, tmp_path / "law.fmu", step=5e-3), tmp_path / "b", co_simulation=True)
    names = [*model.q_names, *model.v_names]
    pilot.set([f"reference.{n}" for n in model.q_names], goal)
    for fmu in (plant, pilot):
        fmu("ExitInitializationMode")
    for k in range(60):
        pilot.set(names, plant.get(names))
        plant.set(list(model.u_names), pilot.get(list(model.u_names)))
        for fmu in (pilot, plant):
            fmu.step(5e-3 * k, 5e-3)
    assert np.abs(plant.get(list(model.q_names)) - run.q[-1]).max() < 1e-12
