"""FMUs in FMPy: valid descriptions, co-simulation equal to own runs, model exchange with CVode, FMUs as inputs of a run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import heavytop as ht
from heavytop.errors import FileFormatError, UnknownNameError

pytestmark = pytest.mark.peers
fmpy = pytest.importorskip("fmpy")
validation = pytest.importorskip("fmpy.validation")

SYSTEMS = [n.replace(":N", ":3") for n in ht.library.names(contact=False)]
ROBOTS = [
    "ur_description/urdf/ur5_robot.urdf",
    "solo_description/robots/solo12.urdf",
    "panda_description/urdf/panda.urdf",
    "talos_data/robots/talos_left_arm.urdf",
    "double_pendulum_description/urdf/double_pendulum.urdf",
]


def inner(model: ht.Model, name: str) -> tuple[np.ndarray, np.ndarray]:
    """A start: the published one, or a random state."""
    found = ht.library.start(name, model)
    if found is not None:
        return found
    if model.is_constrained:
        return model.assemble()
    rng = np.random.default_rng(0)
    return model.random(rng), 0.3 * rng.normal(size=model.nv)


@pytest.mark.parametrize("version", ["2.0", "3.0"])
@pytest.mark.parametrize("name", SYSTEMS)
def test_library(tmp_path: Path, name: str, version: str) -> None:
    """No finding of the validator; 100 steps of co-simulation equal the run."""
    model = ht.library.load(name).derive()
    start, step = inner(model, name), ht.library.step(name)
    path = model.export_fmu(tmp_path / "a.fmu", version=version, start=start, step=step)
    assert validation.validate_fmu(str(path)) == []
    u = np.linspace(0.1, 0.2, model.nu)
    run = ht.simulate(model, start, until=100 * step, step=step, inputs=u if model.nu else None, balance=False)
    names = [*run.q_names, *run.v_names]
    values = dict(zip(model.u_names, u, strict=True))
    result = fmpy.simulate_fmu(
        str(path),
        fmi_type="CoSimulation",
        stop_time=100 * step,
        output_interval=10 * step,
        start_values=values,
        output=names,
    )
    expected = np.concatenate([run.q, run.v], axis=1)[::10]
    got = np.array([result[n] for n in names]).T
    assert np.abs(got - expected).max() < 1e-12 * (1 + np.abs(expected).max())


@pytest.mark.parametrize("name", ROBOTS)
def test_robots(tmp_path: Path, name: str) -> None:
    """With joint limits as event indicators, fixed and free bases."""
    pin = pytest.importorskip("pinocchio")
    folder = Path(pin.__file__).parents[4] / "share" / "example-robot-data" / "robots"
    model = ht.load(folder / name, base="free" if "solo" in name else "fixed").derive()
    for version in ("2.0", "3.0"):
        path = model.export_fmu(tmp_path / "a.fmu", version=version, binary=False)
        assert validation.validate_fmu(str(path)) == []


@pytest.mark.parametrize("version", ["2.0", "3.0"])
def test_model_exchange_with_cvode(tmp_path: Path, version: str) -> None:
    """A tumbling quadcopter: CVode integrates the redundant coordinates, the FMU keeps them on their manifold."""
    model = ht.library.quadcopter().derive()
    start = model.neutral(), np.array([0.1, 0.2, 0.3, 1.0, -2.0, 3.0])
    path = model.export_fmu(tmp_path / "a.fmu", version=version, start=start)
    exact = ht.simulate(model, start, until=5.0, step=1e-3, integrator="rkmk8", inputs=[2.0, 2.1, 2.2, 2.3])
    names = list(model.q_names)
    for tolerance, allowed in ((1e-6, 2e-3), (1e-9, 2e-5)):
        result = fmpy.simulate_fmu(
            str(path), fmi_type="ModelExchange", stop_time=5.0, output_interval=0.01, output=names, relative_tolerance=tolerance,
            start_values=dict(zip(model.u_names, (2.0, 2.1, 2.2, 2.3), strict=True)),
        )  # fmt: skip
        got = np.array([result[n] for n in names]).T
        assert np.abs(got[-1] - exact.q[-1]).max() < allowed * (1 + np.abs(exact.q[-1]).max())
        assert np.abs(model.coordinates.constraints(got)).max() < 2e-6 + 100 * tolerance


def test_limit_stops_cvode_at_the_crossing(tmp_path: Path) -> None:
    system = ht.System(name="flap")
    system.body("flap", joint=ht.Revolute("y", limits=(-0.5, 1.0)), inertia=ht.Inertia(1.0, com=(0, 0, -1)))
    model = system.derive()
    path = model.export_fmu(tmp_path / "flap.fmu", start=([0.2], [3.0]))
    run = ht.simulate(model, ([0.2], [3.0]), until=1.0, step=1e-3, events=ht.simulate.limit_events(model))
    upper = "flap at its upper limit 1"
    result = fmpy.simulate_fmu(
        str(path),
        fmi_type="ModelExchange",
        stop_time=0.5,
        output_interval=0.1,
        relative_tolerance=1e-9,
        output=["flap.angle", upper],
        record_events=True,
    )
    crossing = result["time"][np.argmax(result[upper])]
    assert crossing == pytest.approx(run.events[0].time, abs=1e-6)


def test_fmu_as_controller(tmp_path: Path) -> None:
    """A closed loop of two FMUs' worth: an exported spring-damper law drives a cart as inputs of a run."""
    system = ht.System(name="spring")
    system.body("slider", joint=ht.Prismatic("x"), inertia=ht.Inertia(0.01))
    system.input("push", ht.JointForce("slider"))
    system.damper("world", "slider", ht.Damping(1.0))
    actuator = system.derive().export_fmu(tmp_path / "spring.fmu", step=1e-4)
    cart = ht.System(name="cart")
    cart.body("cart", joint=ht.Prismatic("x"), inertia=ht.Inertia(1.0))
    cart.input("force", ht.JointForce("cart"))
    model = cart.derive()
    with ht.load_fmu(actuator) as fmu:
        assert fmu.input_names == ("push",)
        feedback = fmu.inputs(model, sees={"push": "cart.x"}, gives=["slider.v_x"])
        runs = [
            ht.simulate(model, ([1.0], [0.0]), until=1.0, step=1e-3, inputs=feedback, control_step=1e-2)
            for _ in range(2)
        ]
        assert (runs[0].q == runs[1].q).all()  # it starts again with each run
        # m v' + d v = x: the slider's velocity follows x with a lag of 10 ms, and pushes the cart away
        assert runs[0].q[-1, 0] == pytest.approx(np.cosh(1.0), abs=0.03)
        with pytest.raises(UnknownNameError, match="cart.y"):
            fmu.inputs(model, sees={"push": "cart.y"}, gives=["slider.v_x"])


def test_damaged_fmus(tmp_path: Path) -> None:
    path = ht.library.pendulum().derive().export_fmu(tmp_path / "a.fmu")
    content = path.read_bytes()
    for name, data in (("cut", content[: len(content) // 2]), ("noise", bytes(range(256))), ("empty", b"")):
        broken = tmp_path / f"{name}.fmu"
        broken.write_bytes(data)
        with pytest.raises(FileFormatError):
            ht.load_fmu(broken)
    with pytest.raises(FileFormatError, match="no file"):
        ht.load_fmu(tmp_path / "nothing.fmu")
    source_only = ht.library.pendulum().derive().export_fmu(tmp_path / "b.fmu", binary=False)
    with pytest.raises(FileFormatError, match="does not run|not an FMU that runs"):
        ht.load_fmu(source_only)
    with ht.load_fmu(path, {"m": 2.0}) as fmu:
        assert fmu.read(["m"])[0] == 2.0
    with pytest.raises(UnknownNameError):
        ht.load_fmu(path, {"mm": 2.0})
