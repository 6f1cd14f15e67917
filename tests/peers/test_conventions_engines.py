"""States, accelerations, forces and frames in the conventions of other programs, against the programs themselves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import heavytop as ht

pytestmark = pytest.mark.peers

MOMENT = np.array([[0.3, 0.01, -0.02], [0.01, 0.4, 0.03], [-0.02, 0.03, 0.5]])
COM = np.array([0.1, -0.2, 0.15])
BODY = ht.Inertia(1.5, COM, MOMENT)
INERTIAL = (
    '<inertial><origin xyz="0.1 -0.2 0.15"/><mass value="1.5"/>'
    '<inertia ixx="0.3" ixy="0.01" ixz="-0.02" iyy="0.4" iyz="0.03" izz="0.5"/></inertial>'
)
ROBOT = (
    f'<robot name="r"><link name="hull">{INERTIAL}</link><link name="arm">{INERTIAL}</link><link name="rod">{INERTIAL}</link>'
    '<joint name="slide" type="prismatic"><parent link="hull"/><child link="rod"/><origin xyz="0.3 0.1 0" rpy="0.3 -0.2 0.5"/>'
    '<axis xyz="0 0.6 0.8"/><limit lower="-9" upper="9" velocity="99" effort="99"/></joint>'
    '<joint name="elbow" type="continuous"><parent link="rod"/><child link="arm"/><origin xyz="0.1 0.2 0.3" rpy="0.3 0.2 0.1"/>'
    '<axis xyz="0.6 0 0.8"/></joint></robot>'
)


def free_body() -> ht.Model:
    system = ht.System()
    system.body("hull", joint=ht.Free("quaternion"), inertia=BODY)
    return system.derive(native=False)


def state(model: ht.Model) -> tuple[np.ndarray, ...]:
    """A random configuration, velocity, generalised force, and the acceleration that they give."""
    rng = np.random.default_rng(5)
    q, v, force = model.random(rng), rng.standard_normal(model.nv), rng.standard_normal(model.nv)
    a = np.linalg.solve(model.mass_matrix(q), force - model.bias(q, v) - model.gravity_force(q))
    return q, v, a, force


def test_drake(tmp_path: Path) -> None:
    pytest.importorskip("pydrake")
    from pydrake.multibody.parsing import Parser
    from pydrake.multibody.plant import MultibodyPlant
    from pydrake.multibody.tree import MultibodyForces

    path = tmp_path / "r.urdf"
    path.write_text(ROBOT)
    plant = MultibodyPlant(0.0)
    Parser(plant).AddModels(str(path))
    plant.Finalize()
    model = ht.load(path, base="free").derive(native=False)
    q, v, a, force = state(model)
    there = ht.conventions.to_drake(model, q, v, a, force, peer=plant)
    context = plant.CreateDefaultContext()
    plant.SetPositions(context, there.q)
    plant.SetVelocities(context, there.v)
    M, c = plant.CalcMassMatrixViaInverseDynamics(context), plant.CalcBiasTerm(context)
    rates = np.linalg.solve(M, there.force - c + plant.CalcGravityGeneralizedForces(context))
    gravity = plant.gravity_field().gravity_vector()
    assert_allclose(gravity, [0, 0, -9.81])
    assert_allclose(there.a, rates, rtol=1e-11, atol=1e-11)
    back = ht.conventions.from_drake(model, *there, peer=plant)
    for ours, again in zip((q, v, a, force), back, strict=True):
        assert_allclose(again, ours, atol=1e-13)
    forces = MultibodyForces(plant)
    assert_allclose(
        plant.CalcInverseDynamics(context, there.a, forces),
        there.force + plant.CalcGravityGeneralizedForces(context),
        atol=1e-11,
    )
    for name in ("hull", "rod", "arm"):  # frames: pose, velocity and acceleration of any body
        body = plant.GetBodyByName(name)
        pose, twist = model.pose("world", name, q), model.twist("world", name, q, v)
        frame = ht.conventions.frame_to("drake", pose, twist, model.twist_rate("world", name, q, v, a))
        X = plant.EvalBodyPoseInWorld(context, body)
        assert_allclose(X.GetAsMatrix4(), pose, atol=1e-13)
        quat = X.rotation().ToQuaternion().wxyz()
        assert_allclose(np.append(quat * np.sign(quat @ frame.q[:4]), X.translation()), frame.q, atol=1e-13)
        V = plant.EvalBodySpatialVelocityInWorld(context, body)
        assert_allclose(np.append(V.rotational(), V.translational()), frame.v, atol=1e-12)
        A = plant.CalcSpatialAccelerationsFromVdot(context, there.a)[int(body.index())]
        assert_allclose(np.append(A.rotational(), A.translational()), frame.a, atol=1e-11)


def test_exudyn() -> None:
    exu = pytest.importorskip("exudyn")
    utilities = pytest.importorskip("exudyn.utilities")
    model = free_body()
    q, v, a, force = state(model)
    there = ht.conventions.to_exudyn(model, q, v, a, force)
    container = exu.SystemContainer()
    mbs = container.AddSystem()
    turned = ht.conventions.frame_from("exudyn", there.q).pose[:3, :3]
    inertia = utilities.RigidBodyInertia(mass=1.5, inertiaTensor=MOMENT).Translated(COM)
    made = mbs.CreateRigidBody(
        inertia=inertia,
        nodeType=exu.NodeType.RotationEulerParameters,
        referencePosition=there.q[:3],
        referenceRotationMatrix=turned,
        initialVelocity=there.v[:3],
        initialAngularVelocity=turned @ there.v[3:],
        gravity=[0, 0, -9.81],
        returnDict=True,
    )
    node, body = made["nodeNumber"], made["bodyNumber"]
    mbs.CreateForce(itemNumber=body, loadVector=there.force[:3])
    mbs.CreateTorque(itemNumber=body, loadVector=there.force[3:], bodyFixed=True)
    mbs.Assemble()
    settings = exu.SimulationSettings()
    settings.solutionSettings.writeSolutionToFile = False
    time = settings.timeIntegration
    time.numberOfSteps, time.endTime, time.verboseMode = 1, 1e-9, 0
    mbs.SolveDynamic(settings)
    output = exu.OutputVariableType

    def read(kind) -> np.ndarray:
        return np.array(mbs.GetNodeOutput(node, kind))

    assert_allclose(read(output.Position), there.q[:3], atol=1e-8)
    assert_allclose(read(output.RotationMatrix).reshape(3, 3), turned, atol=1e-8)
    quat = np.array(mbs.GetNodeParameter(node, "referenceCoordinates"))[3:]
    assert_allclose(quat * np.sign(quat @ there.q[3:]), there.q[3:], atol=1e-12)
    assert_allclose(read(output.Velocity), there.v[:3], atol=1e-7)
    assert_allclose(read(output.AngularVelocityLocal), there.v[3:], atol=1e-7)
    assert_allclose(read(output.Acceleration), there.a[:3], atol=1e-5)
    assert_allclose(turned.T @ read(output.AngularAcceleration), there.a[3:], atol=1e-5)


def test_sympy() -> None:
    sympy = pytest.importorskip("sympy")
    import sympy.physics.mechanics as me

    model = free_body()
    q, v, a, force = state(model)
    there = ht.conventions.to_sympy(model, q, v, a, force)
    place, quat = me.dynamicsymbols("x:3"), me.dynamicsymbols("e:4")
    speed, spin = me.dynamicsymbols("u:3"), me.dynamicsymbols("w:3")
    push, turn = sympy.symbols("f:3"), sympy.symbols("m:3")
    N, B, O = me.ReferenceFrame("N"), me.ReferenceFrame("B"), me.Point("O")
    B.orient_quaternion(N, quat)
    inward = B.ang_vel_in(N).to_matrix(B)
    B.set_ang_vel(N, sum((w * axis for w, axis in zip(spin, B, strict=True)), me.Vector(0)))
    O.set_vel(N, 0)
    P, C = me.Point("P"), me.Point("C")
    P.set_pos(O, sum((x * axis for x, axis in zip(place, N, strict=True)), me.Vector(0)))
    P.set_vel(N, sum((u * axis for u, axis in zip(speed, N, strict=True)), me.Vector(0)))
    C.set_pos(P, sum((float(c) * axis for c, axis in zip(COM, B, strict=True)), me.Vector(0)))
    C.v2pt_theory(P, N, B)
    J = me.inertia(B, *(float(MOMENT[i, j]) for i, j in ((0, 0), (1, 1), (2, 2), (0, 1), (1, 2), (2, 0))))
    body = me.RigidBody("body", C, B, 1.5, (J, C))
    q_dot = [x.diff() - u for x, u in zip(place, speed, strict=True)]
    q_dot += [2 * e.diff() - r for e, r in zip(quat, _quaternion_rates(quat, spin), strict=True)]
    loads = [
        (P, sum((f * axis for f, axis in zip(push, N, strict=True)), me.Vector(0))),
        (B, sum((m * axis for m, axis in zip(turn, B, strict=True)), me.Vector(0))),
        (C, -1.5 * 9.81 * N.z),
    ]
    kane = me.KanesMethod(N, q_ind=[*place, *quat], u_ind=[*speed, *spin], kd_eqs=q_dot)
    kane.kanes_equations([body], loads)
    symbols = [*place, *quat, *speed, *spin, *push, *turn]
    numbers = dict(zip(symbols, [*there.q, *there.v, *there.force], strict=True))
    M = np.array(kane.mass_matrix.subs(numbers), dtype=float)
    rates = np.linalg.solve(M, np.array(kane.forcing.subs(numbers), dtype=float).ravel())
    assert_allclose(there.a, rates, rtol=1e-11, atol=1e-11)
    # frames: the quaternion and the angular velocity in B mean the same there
    values = dict(
        zip(
            [*quat, *(e.diff() for e in quat)],
            [*there.q[3:], *np.array(_quaternion_rates(there.q[3:], there.v[3:])) / 2],
            strict=True,
        )
    )
    assert_allclose(np.array(inward.subs(values), dtype=float).ravel(), there.v[3:], atol=1e-12)
    R = np.array(N.dcm(B).subs(values), dtype=float)
    assert_allclose(R, model.pose("world", "hull", q)[:3, :3], atol=1e-12)


def _quaternion_rates(e, w) -> list:
    """Twice the rates of wxyz at the body rates w."""
    return [
        -e[1] * w[0] - e[2] * w[1] - e[3] * w[2],
        e[0] * w[0] + e[2] * w[2] - e[3] * w[1],
        e[0] * w[1] - e[1] * w[2] + e[3] * w[0],
        e[0] * w[2] + e[1] * w[1] - e[2] * w[0],
    ]


def test_rotorpy() -> None:
    multirotor = pytest.importorskip("rotorpy.vehicles.multirotor")
    from rotorpy.vehicles.hummingbird_params import quad_params

    craft = multirotor.Multirotor(dict(quad_params), aero=False)
    p = quad_params
    system = ht.System()
    inertia = ht.Inertia(
        p["mass"],
        moment_at_com=[[p["Ixx"], p["Ixy"], p["Ixz"]], [p["Ixy"], p["Iyy"], p["Iyz"]], [p["Ixz"], p["Iyz"], p["Izz"]]],
    )
    system.body("hull", joint=ht.Free(), inertia=inertia)
    model = system.derive(native=False)
    q, v = model.random(2), np.linspace(-1.0, 1.5, 6)
    speeds = np.array([500.0, 520.0, 480.0, 510.0])
    total, moment = craft.compute_body_wrench(v[3:], speeds, np.zeros(3))
    force = np.concatenate([total, moment])
    a = np.linalg.solve(model.mass_matrix(q), force - model.bias(q, v) - model.gravity_force(q))
    there = ht.conventions.to_rotorpy(model, q, v, a, force)
    state = {
        "x": there.q[:3],
        "v": there.v[:3],
        "q": there.q[3:],
        "w": there.v[3:],
        "wind": np.zeros(3),
        "rotor_speeds": speeds,
    }
    rates = craft.statedot(state, {"cmd_motor_speeds": speeds}, 0.01)
    assert_allclose(rates["vdot"], there.a[:3], rtol=1e-9)
    assert_allclose(rates["wdot"], there.a[3:], rtol=1e-9)
    from rotorpy.vehicles.multirotor import Rotation  # SciPy's, as ROS writes quaternions

    for program in ("rotorpy", "ros"):
        R = Rotation.from_quat(getattr(ht.conventions, f"to_{program}")(model, q).q[3:]).as_matrix()
        assert_allclose(R, model.pose("world", "hull", q)[:3, :3], atol=1e-13)


def test_mujoco_and_pinocchio_frames(tmp_path: Path) -> None:
    """Poses and velocities of any body; whole states are compared in the tests of robot files."""
    mujoco, pin = pytest.importorskip("mujoco"), pytest.importorskip("pinocchio")
    path = tmp_path / "r.urdf"
    path.write_text(ROBOT)
    model = ht.load(path, base="free").derive(native=False)
    q, v, a, force = state(model)
    peer = pin.buildModelFromUrdf(str(path), pin.JointModelFreeFlyer())
    data = peer.createData()
    there = ht.conventions.to_pinocchio(model, q, v, a, force, peer=peer)
    assert_allclose(pin.aba(peer, data, there.q, there.v, there.force), there.a, rtol=1e-11, atol=1e-11)
    pin.forwardKinematics(peer, data, there.q, there.v, there.a)
    pin.updateFramePlacements(peer, data)
    model.to_mjcf(tmp_path / "r.xml")
    twin = mujoco.MjModel.from_xml_path(str(tmp_path / "r.xml"))
    moved = mujoco.MjData(twin)
    mj = ht.conventions.to_mujoco(model, q, v, a, force, peer=twin)
    moved.qpos[:], moved.qvel[:], moved.qfrc_applied[:] = mj.q, mj.v, mj.force
    mujoco.mj_forward(twin, moved)
    assert_allclose(moved.qacc, mj.a, rtol=1e-9, atol=1e-9)
    for name in ("hull", "arm"):
        pose, twist = model.pose("world", name, q), model.twist("world", name, q, v)
        rate = model.twist_rate("world", name, q, v, a)
        frame = peer.getFrameId(name, pin.FrameType.BODY)
        ours = ht.conventions.frame_to("pinocchio", pose, twist, rate)
        placed = pin.SE3ToXYZQUAT(data.oMf[frame])
        assert_allclose(
            placed * np.sign(np.append(np.ones(3), np.full(4, placed[3:] @ ours.q[3:]))), ours.q, atol=1e-12
        )
        assert_allclose(pin.getFrameVelocity(peer, data, frame, pin.LOCAL).vector, ours.v, atol=1e-11)
        assert_allclose(pin.getFrameAcceleration(peer, data, frame, pin.LOCAL).vector, ours.a, atol=1e-10)
        ours, body = ht.conventions.frame_to("mujoco", pose, twist), twin.body(name).id
        assert_allclose(moved.xpos[body], ours.q[:3], atol=1e-12)
        assert_allclose(moved.xquat[body] * np.sign(moved.xquat[body] @ ours.q[3:]), ours.q[3:], atol=1e-12)
        six = np.zeros(6)
        mujoco.mj_objectVelocity(twin, moved, mujoco.mjtObj.mjOBJ_XBODY, body, six, 0)
        world = ht.conventions.frame_to("drake", pose, twist).v  # (angular, linear) in world axes
        assert_allclose(six, world, atol=1e-11)


def test_pinocchio_with_free_and_planar_joints_between_bodies(tmp_path: Path) -> None:
    pin = pytest.importorskip("pinocchio")
    joints = (
        ("swing", "continuous", "hull", "arm"),
        ("float", "floating", "arm", "rod"),
        ("plane", "planar", "rod", "puck"),
    )
    text = "".join(f'<link name="{name}">{INERTIAL}</link>' for name in ("hull", "arm", "rod", "puck"))
    for name, kind, parent, child in joints:
        text += (
            f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>'
            '<origin xyz="0.3 0.1 0" rpy="0.3 -0.2 0.5"/><axis xyz="0 0 1"/></joint>'
        )
    path = tmp_path / "carried.urdf"
    path.write_text(f'<robot name="r">{text}</robot>')
    model = ht.load(path, base="free").derive(native=False)
    peer = pin.buildModelFromUrdf(str(path), pin.JointModelFreeFlyer())
    q, v, a, force = state(model)
    there = ht.conventions.to_pinocchio(model, q, v, a, force, peer=peer)
    data = peer.createData()
    assert_allclose(pin.aba(peer, data, there.q, there.v, there.force), there.a, rtol=1e-11, atol=1e-11)
    back = ht.conventions.from_pinocchio(model, *there, peer=peer)
    for ours, again in zip((q, v, a, force), back, strict=True):
        assert_allclose(again, ours, atol=1e-12)
