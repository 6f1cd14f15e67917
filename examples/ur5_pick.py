"""A UR5 with a gripper picks a part and puts it down: inverse kinematics, lines, fast joint motions, tracked with masses 15 % too large."""

import numpy as np
from _example import folder, page, robot

import heavytop as ht
from heavytop import control
from heavytop.geometry import se3, so3

out = folder(__doc__)
LIMITS = control.MotionLimits(acceleration=6.0, jerk=60.0)  # velocities: those of the files
PICK, PLACE, UP = np.array([0.45, 0.15, 0.06]), np.array([0.25, -0.45, 0.06]), np.array([0, 0, 0.2])
DOWN, TOOL = so3.rotation_about("x", np.pi), "hand/grip"  # the gripper points to the table


def cell(masses: float, part: float) -> ht.Model:
    """Arm, gripper and table; with a part of this mass in the gripper, or on the table."""
    system = ht.scene({"arm": robot("ur5.urdf", masses)}, name="cell")
    system.attach(robot("gripper.urdf", masses), parent="arm/tool0", prefix="hand/")
    if part:
        inertia = ht.Inertia(masses * part, moment_at_com=(4e-4,) * 3)
        system.body("part", parent=TOOL, joint=ht.Fixed(), inertia=inertia)
    system.shape("part" if part else "world", ht.Box((0.04, 0.06, 0.06)), None if part else PICK, color="#4c8c4a")
    system.shape("world", ht.Box((1.0, 1.3, 0.03)), (0.3, 0, -0.02), color="#c8b89a")
    for joint in [name for name in system.limits if name != "hand/second_opening"]:  # that finger follows the other
        system.input(joint.replace("/", "_"), ht.JointForce(joint))
    return system.derive()


def line(model: ht.Model, start: np.ndarray, goal: np.ndarray, q0: np.ndarray) -> control.Reference:
    path = control.line(se3.pose(DOWN, start), se3.pose(DOWN, goal))
    return control.path_reference(model, TOOL, path, LIMITS, q0=q0, speed=0.4)


def track(title: str, part: float, *legs: control.Reference) -> np.ndarray:
    """Follow the legs with masses 15 % too large; the configuration at the end of the reference."""
    reference, plant = control.sequence(*legs), cell(1.15, part)
    reference.feasibility(plant.description.limits).require()  # torques within the efforts of the files
    law = control.computed_torque(legs[0].model, stiffness=900.0, damping=60.0).with_reference(reference)
    run = ht.simulate(plant, reference(0.0)[:2], until=reference.duration + 0.2, step=1e-3, control=law)
    off = (plant.pose("world", TOOL, run.q) - plant.pose("world", TOOL, reference(run.t)[0]))[:, :3, 3]
    worst = 1000 * np.linalg.norm(off, axis=1).max()
    print(f"{title}: {reference.duration:.2f} s, tool at most {worst:.1f} mm off its path")
    page(run, out / f"ur5_{title}.html")
    return reference(reference.duration)[0]


arm, home = cell(1.0, 0.0), np.array([0.0, -1.6, 1.8, -1.8, -1.57, 0.0, 0.04])
above = arm.inverse_kinematics({TOOL: se3.pose(DOWN, PICK + UP)}, home).require()
lower = line(arm, PICK + UP, PICK, above)
last, fast = lower(lower.duration)[0], control.joint_reference(arm, [home, above], LIMITS)
closed = track("approach", 0.0, fast, lower, control.joint_reference(arm, [last, [*last[:6], 0.02]], LIMITS))

arm = cell(1.0, 0.8)
lift = line(arm, PICK, PICK + UP, closed)
there = arm.inverse_kinematics({TOOL: se3.pose(DOWN, PLACE + UP)}, lift(lift.duration)[0]).require()
swing = control.joint_reference(arm, [lift(lift.duration)[0], there], LIMITS)
track("carry", 0.8, lift, swing, line(arm, PLACE + UP, PLACE, there))
