"""A quadcopter with an arm from a URDF file: attached, flown from hover to hover while the arm reaches for a target, and shown."""

import numpy as np
from _example import folder, page, robot

import heavytop as ht
from heavytop import control, copters
from heavytop.geometry import se3

out = folder(__doc__)
GOAL, TARGET, TIME = np.array([2.0, 0.0, 1.5]), np.array([2.18, 0.03, 1.25]), 4.0

quad = copters.quadcopter(mass=1.4, moment=(0.015, 0.015, 0.025), thrust=(0.0, 10.0))
system = quad.describe()
system.attach(robot("drone_arm.urdf"), parent="hull", at=(0, 0, -0.03), prefix="arm/")
system.shape("world", ht.Sphere(0.02), TARGET, color="#cc3311")
model = system.derive()
print(f"{model.nv} degrees of freedom, {model.nu} inputs: {', '.join(model.u_names)}")

# the configuration at the goal: level hull there, tip of the arm at the target
hover = ht.PoseTask("hull", se3.pose(np.eye(3), GOAL))
found = model.inverse_kinematics({"arm/tip": TARGET}, tasks=hover)
q = found.require()
reach = {joint: float(q[model.coordinates.q_slice(joint)][0]) for joint in ("arm/shoulder", "arm/elbow", "arm/wrist")}
print("reached with " + ", ".join(f"{joint} {np.degrees(angle):.0f} degrees" for joint, angle in reach.items()))

# the centre of mass of all bodies goes straight to its place at the goal while the joints go to theirs
start = model.neutral()
joints = {joint: lambda t, a=angle: a * control.smoothstep((t - 1.0) / (TIME - 1.0)) for joint, angle in reach.items()}
path = control.rest_to_rest(model.center_of_mass(start), model.center_of_mass(q), TIME)
reference = control.tree_reference(model, path, joints, heading=(1, 0, 0), duration=TIME)
limits = dict.fromkeys(quad.model.u_names, (0.0, 10.0)) | dict.fromkeys(model.u_names[4:], (-1.5, 1.5))
reference.feasibility(limits).require()

law = control.lqr(model, reference, limits=limits)
first, rest, _ = reference(0.0)
first[:3] += (0.0, 0.3, -0.2)  # it does not start where it should
run = ht.simulate(model, (first, rest), until=TIME + 1.0, step=1e-3, control=law)
tip = model.pose("world", "arm/tip", run.q[-1])[:3, 3]
print(f"the tip ends {1000 * np.linalg.norm(tip - TARGET):.2f} mm from the target")
page(run, out / "drone_arm.html")
