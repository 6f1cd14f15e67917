"""MJCF files against MuJoCo: the models of gymnasium, and random trees with springs, dampers, rotor inertia, tendons and servos."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import heavytop as ht

pytestmark = pytest.mark.peers
mujoco = pytest.importorskip("mujoco")
gymnasium = pytest.importorskip("gymnasium")

FILES = sorted((Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets").glob("*.xml"))
TOLERANCE = 1e-9


def numbers(values) -> str:
    return " ".join(f"{x:.17g}" for x in np.atleast_1d(values))


class RandomTree:
    """A random MJCF file: every joint type, offsets, several joints per body, shapes, settings of the compiler."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.scalars: list[str] = []
        self.balls: list[str] = []
        self.sites: list[str] = []
        self.degrees = bool(self.rng.integers(2))
        self.count, self.roped = 0, False
        bodies = "".join(self.body(0) for _ in range(2))
        sequence = "".join(self.rng.permutation(list("xyzXYZ"))[:3])
        self.text = (
            f'<mujoco><compiler angle="{"degree" if self.degrees else "radian"}" eulerseq="{sequence}"/>'
            f'<option gravity="{self.vector(3, 5)}"/><default><default class="stiff"><joint stiffness="{self.positive()}"/></default>'
            f'<geom density="{numbers(self.rng.uniform(100, 900))}"/></default>'
            f"<worldbody>{bodies}</worldbody>{self.tendons()}{self.actuators()}</mujoco>"
        )

    def vector(self, n: int, size: float = 0.5) -> str:
        return numbers(size * self.rng.standard_normal(n))

    def positive(self) -> str:
        return numbers(self.rng.uniform(0.1, 2.0))

    def angle(self) -> str:
        value = self.rng.standard_normal()
        return numbers(np.rad2deg(value) if self.degrees else value)

    def turn(self) -> str:
        kind = self.rng.integers(5)
        if kind == 0:
            return f'quat="{self.vector(4)}"'
        if kind == 1:
            return f'euler="{self.angle()} {self.angle()} {self.angle()}"'
        if kind == 2:
            return f'axisangle="{self.vector(3)} {self.angle()}"'
        return f'xyaxes="{self.vector(6)}"' if kind == 3 else f'zaxis="{self.vector(3)}"'

    def body(self, depth: int) -> str:
        self.count += 1
        name = f"b{self.count}"
        inner = "".join(self.body(depth + 1) for _ in range(self.rng.integers(0, 3))) if depth < 2 else ""
        site = f'<site name="s_{name}" pos="{self.vector(3)}"/>'
        self.sites.append(f"s_{name}")
        held = f'gravcomp="{self.positive()}"' if self.rng.integers(3) == 0 else ""
        text = f'<body name="{name}" pos="{self.vector(3)}" {self.turn()} {held}>{self.joints(name, depth)}{self.geoms()}{site}{inner}</body>'
        if self.rng.integers(6) == 0 and depth:
            text = text.replace(site, "")
            self.sites = [s for s in self.sites if f'"{s}"' not in text and s != f"s_{name}"]
            inside = [j for j in (*self.scalars, *self.balls) if f'"{j}"' in text]
            self.scalars, self.balls = ([j for j in given if j not in inside] for given in (self.scalars, self.balls))
            text = f'<replicate count="2" offset="{self.vector(3)}" euler="{self.angle()} {self.angle()} {self.angle()}">{text}</replicate>'
        return text

    def joints(self, name: str, depth: int) -> str:
        kind = self.rng.integers(5)
        if kind == 0 and depth == 0:
            return f'<freejoint name="j_{name}"/>'
        if kind == 1:
            self.balls.append(f"j_{name}")
            return (
                f'<joint name="j_{name}" type="ball" pos="{self.vector(3)}" damping="{self.positive()}" armature="{self.positive()}" '
                f'stiffness="{self.positive()}"/>'
            )
        if kind == 2 and depth:
            return ""
        text = ""
        for k in range(self.rng.integers(1, 4)):
            label, hinge = f"j_{name}_{k}", bool(self.rng.integers(2))
            self.scalars.append(label)
            ref = self.angle() if hinge else self.vector(1)
            rest = self.angle() if hinge else self.vector(1)
            text += (
                f'<joint name="{label}" type="{"hinge" if hinge else "slide"}" axis="{self.vector(3)}" pos="{self.vector(3)}" '
                f'damping="{self.positive()}" armature="{self.positive()}" ref="{ref}" springref="{rest}" class="stiff"/>'
            )
        return text

    def geoms(self) -> str:
        kinds = (
            f'type="sphere" size="{self.positive()}"',
            f'type="capsule" size="{self.positive()} {self.positive()}"',
            f'type="cylinder" fromto="{self.vector(6)}" size="{self.positive()}"',
            f'type="box" size="{self.positive()} {self.positive()} {self.positive()}" mass="{self.positive()}"',
            f'type="ellipsoid" size="{self.positive()} {self.positive()} {self.positive()}"',
        )
        chosen = self.rng.choice(len(kinds), 2, replace=False)
        parts = []
        for k in chosen:
            turn = "" if "fromto" in kinds[k] else f'pos="{self.vector(3)}" {self.turn()}'
            parts.append(f"<geom {kinds[k]} {turn}/>")
        return f"<frame {self.turn()} pos='{self.vector(3)}'>{parts[0]}</frame>{parts[1]}"

    def tendons(self) -> str:
        if len(self.scalars) < 2:
            return ""
        joints = "".join(f'<joint joint="{j}" coef="{self.vector(1)}"/>' for j in self.scalars[:3])
        sites = "".join(f'<site site="{s}"/>' for s in dict.fromkeys(self.rng.choice(self.sites, 3)))
        spatial = ""
        self.roped = sites.count("<site") > 1
        if sites.count("<site") > 1:
            spatial = (
                f'<spatial name="rope" stiffness="{self.positive()}" damping="{self.positive()}">{sites}</spatial>'
                f'<spatial name="slack" stiffness="{self.positive()}" springlength="0.1 0.8">{sites}</spatial>'
            )
        return (
            f'<tendon><fixed name="couple" stiffness="{self.positive()}" damping="{self.positive()}">{joints}</fixed>'
            f'<fixed name="band" stiffness="{self.positive()}" springlength="0 0.3">{joints}</fixed>{spatial}</tendon>'
        )

    def actuators(self) -> str:
        if not self.scalars:
            return ""
        j, k = self.scalars[0], self.scalars[-1]
        ball = f'<motor name="ball" joint="{self.balls[0]}" gear="1 2 3"/>' if self.balls else ""
        tendon = ""
        if len(self.scalars) > 1:
            tendon = (
                f'<motor name="pull" tendon="couple" gear="2"/><position name="hold" tendon="band" kp="{self.positive()}" kv="0.3" gear="0.7"/>'
                f'<general name="weight" joint="{k}" gainprm="3" biastype="affine" biasprm="{self.positive()} 0 -0.2" gear="-1.5"/>'
                f'<general name="away" joint="{j}" biastype="affine" biasprm="0.3 {self.positive()} 0" gear="1.2"/>'
            )
        if self.roped:
            tendon += f'<motor name="winch" tendon="rope" gear="-3"/><position name="line" tendon="slack" kp="{self.positive()}" kv="0.4" gear="2"/>'
        return (
            f'<actuator><motor name="m" joint="{j}" gear="3"/><position name="p" joint="{k}" kp="2" kv="0.5" gear="1.5"/>'
            f'<velocity name="v" joint="{j}" kv="0.7"/><position name="d" joint="{k}" kp="3" dampratio="{self.positive()}" gear="0.7"/>'
            f'<general name="g" joint="{k}" gainprm="2" biastype="affine" biasprm="0.3 -2 -0.1"/>'
            f'<motor name="site" site="{self.sites[0]}" gear="1 2 3 4 5 6"/>{ball}{tendon}</actuator>'
        )


def worst_deviation(path: Path, states: int = 5) -> float:
    """Largest relative deviation of accelerations at random states and controls."""
    system = ht.load(path)
    model = system.derive(native=False)
    peer = mujoco.MjModel.from_xml_path(str(path))
    off = mujoco.mjtDisableBit
    peer.opt.disableflags |= off.mjDSBL_CONTACT | off.mjDSBL_LIMIT | off.mjDSBL_FRICTIONLOSS
    peer.opt.density = peer.opt.viscosity = 0.0  # listed as lost
    peer.actuator_ctrllimited[:] = 0
    data, rng, worst = mujoco.MjData(peer), np.random.default_rng(1), 0.0
    assert model.nv == peer.nv
    assert model.nu == peer.nu
    for _ in range(states):
        q, v, u = model.random(rng), rng.standard_normal(model.nv), rng.standard_normal(model.nu)
        there = ht.conventions.to_mujoco(model, q, v, model.acceleration(q, v, u), peer=peer)
        data.qpos[:], data.qvel[:], data.ctrl[:] = there.q, there.v, u
        mujoco.mj_forward(peer, data)
        worst = max(worst, float(np.max(np.abs(there.a - data.qacc)) / np.max(np.abs(data.qacc))))
        for body in range(1, peer.nbody):
            name = peer.body(body).name
            if name:
                traced = model.traced(f"pose:world:{name}")
                pose = traced(q, model.parameter_vector())[0]
                assert np.max(np.abs(pose[:3, 3] - data.xpos[body])) < TOLERANCE
                assert np.max(np.abs(pose[:3, :3] - data.xmat[body].reshape(3, 3))) < TOLERANCE
    return worst


def test_models_are_found() -> None:
    assert len(FILES) >= 10


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_gymnasium_model_equals_mujoco(file: Path) -> None:
    assert worst_deviation(file) < TOLERANCE


@pytest.mark.parametrize("seed", range(30))
def test_random_tree_equals_mujoco(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "tree.xml"
    path.write_text(RandomTree(seed).text)
    assert worst_deviation(path) < TOLERANCE


EQUALITIES = {
    "joint": '<joint joint1="j" joint2="k" polycoef="0.1 0.5 0.3 -0.2 0.1"/>',
    "one joint": '<joint joint1="k" polycoef="0.2 0 0 0 0"/>',
    "connect": '<connect body1="b" body2="d" anchor="0.1 0.2 0.3"/>',
    "connect to the world": '<connect body1="b" anchor="0.1 0.2 0.3"/>',
    "connect sites": '<connect site1="s" site2="t"/>',
    "weld": '<weld body1="b" body2="d"/>',
    "weld with a pose": '<weld body1="b" body2="d" relpose="1 0.1 0 0.9 0.1 0.2 -0.1"/>',
    "weld at an anchor": '<weld body1="b" body2="d" anchor="0.1 -0.2 0.3"/>',
    "weld with a pose at an anchor": '<weld body1="b" body2="d" relpose="1 0.1 0 0.9 0.1 0.2 -0.1" anchor="0.1 -0.2 0.3"/>',
    "weld sites": '<weld site1="s" site2="t"/>',
}


@pytest.mark.parametrize("case", EQUALITIES)
def test_equality_constraints_leave_the_motions_that_mujoco_leaves(tmp_path: Path, case: str) -> None:
    """Where our loop is closed, MuJoCo's residual vanishes, and both Jacobians have the same rows."""
    geom = '<geom type="box" size="0.1 0.2 0.3" pos="0.1 0 0.2"/>'
    text = (
        '<mujoco><compiler angle="radian"/><worldbody>'
        f'<body name="a" pos="0 0 1" euler="0.1 0.2 0.3"><freejoint name="f"/>{geom}<body name="b" pos="0 0.2 0.4" euler="0.2 0 0">'
        f'<joint name="j" axis="0 1 0.3" ref="0.3"/>{geom}<site name="s" pos="0.1 0 0" euler="0.3 0 0"/></body></body>'
        f'<body name="c" pos="1 0 0"><joint name="k" type="slide" axis="0 1 1" ref="-0.2"/>{geom}<body name="d" pos="0 0 0.3">'
        f'<joint name="l" type="ball"/>{geom}<site name="t" pos="0 0.1 0"/></body></body></worldbody><equality>{EQUALITIES[case]}</equality></mujoco>'
    )
    path = tmp_path / "loop.xml"
    path.write_text(text)
    model, peer = ht.load(path).derive(native=False), mujoco.MjModel.from_xml_path(str(path))
    peer.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
    data, rng = mujoco.MjData(peer), np.random.default_rng(5)
    q = model.assemble(model.integrate(model.neutral(), 0.3 * rng.standard_normal(model.nv), 1.0))[0]
    there = ht.conventions.to_mujoco(model, q, np.zeros(model.nv), peer=peer)
    data.qpos[:] = there.q
    mujoco.mj_forward(peer, data)
    assert data.nefc
    assert np.max(np.abs(data.efc_pos[: data.nefc])) < 1e-9
    batch = np.broadcast_to(q, (model.nv, model.nq))
    T = ht.conventions.to_mujoco(model, batch, np.eye(model.nv), peer=peer).v.T
    ours = model.constraint_jacobian(q)
    theirs = data.efc_J[: data.nefc * peer.nv].reshape(data.nefc, peer.nv) @ T
    ranks = [int(np.linalg.matrix_rank(J, tol=1e-7)) for J in (ours, theirs, np.concatenate([ours, theirs]))]
    assert ranks[0] == ranks[1] == ranks[2] == data.nefc


def test_sensors_equal_mujoco(tmp_path: Path) -> None:
    geom = '<geom type="box" size=".1 .2 .3" pos=".1 0 .2" euler="10 20 30"/>'
    frame = 'objtype="site" objname="s"'
    sensors = (
        '<accelerometer name="0" site="s"/><velocimeter site="s" name="1"/><gyro site="s" name="2"/>'
        f'<framepos {frame} name="3"/><framepos {frame} reftype="site" refname="i" name="4"/><framequat objtype="xbody" objname="b" name="5"/>'
        f'<framequat {frame} reftype="xbody" refname="c" name="6"/><framezaxis {frame} name="7"/><framelinvel objtype="body" objname="b" name="8"/>'
        f'<framelinvel {frame} reftype="site" refname="i" name="9"/><frameangvel objtype="xbody" objname="c" reftype="xbody" refname="a" name="10"/>'
        f'<framelinacc {frame} name="11"/><frameangacc objtype="xbody" objname="c" name="12"/><framepos objtype="body" objname="b" name="13"/>'
        '<subtreecom body="b" name="14"/><subtreelinvel body="b" name="15"/><subtreeangmom body="b" name="16"/><jointpos joint="k" name="17"/>'
        '<jointvel joint="k" name="18"/><ballquat joint="l" name="19"/><ballangvel joint="l" name="20"/><tendonpos tendon="t" name="21"/>'
        '<tendonvel tendon="t" name="22"/><actuatorpos actuator="p" name="23"/><actuatorvel actuator="m" name="24"/>'
        '<actuatorfrc actuator="p" name="25"/>'
        '<actuatorfrc actuator="m" name="26"/><jointactuatorfrc joint="k" name="27"/><e_kinetic name="28"/><gyro site="s" name="29" cutoff=".3"/>'
    )
    path = tmp_path / "sensors.xml"
    path.write_text(
        f'<mujoco><worldbody><body name="a"><freejoint name="f"/>{geom}<site name="i" pos=".1 .2 .3" euler="10 20 30"/><body name="b" pos="0 0 .5">'
        f'<joint name="k" axis="0 1 .2" ref="20"/>{geom}<site name="s" pos=".1 0 0" euler="0 40 0"/><body name="c" pos="0 0 .5">'
        f'<joint name="l" type="ball"/>{geom}</body></body></body></worldbody><tendon><fixed name="t"><joint joint="k" coef="2"/></fixed></tendon>'
        '<actuator><position name="p" joint="k" kp="3" kv=".2" gear="-2"/><motor name="m" tendon="t" gear="3"/></actuator>'
        f"<sensor>{sensors}</sensor></mujoco>"
    )
    system, peer = ht.load(path), mujoco.MjModel.from_xml_path(str(path))
    model, data, rng = system.derive(native=False), mujoco.MjData(peer), np.random.default_rng(0)
    peer.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
    for _ in range(3):
        q, v, u = model.random(rng), rng.standard_normal(model.nv), rng.standard_normal(model.nu)
        there = ht.conventions.to_mujoco(model, q, v, peer=peer)
        data.qpos[:], data.qvel[:], data.ctrl[:] = there.q, there.v, u
        mujoco.mj_forward(peer, data)
        assert len(system.sensors) == peer.nsensor == 30
        for name, sensor in system.sensors.items():
            ours, theirs = sensor(model, q, v, u), data.sensor(name).data
            sign = np.sign(ours @ theirs) if "quat" in sensor.kind else 1.0
            assert np.max(np.abs(sign * ours - theirs)) < TOLERANCE, (name, sensor.kind)
