"""A car with four tyres brakes from 15 m/s on a slope of 8 degrees, stops and holds: suspension, tyres that relax, brakes that stick."""

import numpy as np
from _example import figure, finish, folder, page

import heavytop as ht

out = folder(__doc__)
G, SLOPE, SPEED, R = 9.81, np.deg2rad(8.0), 15.0, 0.32

system = ht.System(gravity=(G * np.sin(SLOPE), 0, -G * np.cos(SLOPE)), name="car on a slope")  # x is downhill
system.body("chassis", joint=ht.Free(), inertia=ht.Inertia(1200.0, moment_at_com=(400.0, 1500.0, 1700.0)))
system.shape("chassis", ht.Box((4.0, 1.6, 0.5)), (0, 0, 0.1), "#0072b2")
system.ground(friction=0.95)
system.shape("world", ht.Box((30.0, 5.0, 0.1)), (11.0, 0.0, -0.05), "#b8b8b0")  # the road, for the picture only
for name, x, y in (("fl", 1.3, 0.75), ("fr", 1.3, -0.75), ("rl", -1.3, 0.75), ("rr", -1.3, -0.75)):
    system.body(f"{name} hub", parent="chassis", at=(x, y, -0.25), joint=ht.Prismatic("z"), inertia=ht.Inertia(25.0))
    system.joint_spring(f"{name} hub", stiffness=3e4, rest=-0.098)
    system.joint_damper(f"{name} hub", damping=3e3)
    system.body(
        name, parent=f"{name} hub", joint=ht.Revolute("y"), inertia=ht.Inertia(15.0, moment_at_com=(0.5, 0.9, 0.5))
    )
    system.shape(
        name,
        ht.Cylinder(R, 0.2),
        ht.geometry.se3.pose(ht.geometry.so3.rotation_about("x", np.pi / 2), (0, 0, 0)),
        "#333333",
    )
    system.tyre(name, radius=R, stiffness=2e5, damping=500.0, slip=8e4, cornering=6e4, rolling=0.012, relaxation=0.3)
    brake = 1000.0 if name.startswith("f") else 500.0  # N m: dry friction in the wheel bearing
    system.joint_friction(name, coulomb=brake, bristles=1e-3)
model = system.derive()

q, v = model.neutral(), np.zeros(model.nv)
q[2] = R + 0.25 - 1360.0 * G * np.cos(SLOPE) / 4 / 2e5
v[0] = SPEED
v[[k for k, name in enumerate(model.v_names) if name.split(".")[0] in ("fl", "fr", "rl", "rr")]] = SPEED / R
run = ht.simulate(model, (q, v), until=6.0, step=5e-4, integrator="ros2", record_every=20)
print(run.outcome)
stopped = run.t[np.argmax(np.abs(run.v[:, 0]) < 0.05)]
print(f"stops after {run.q[-1, 0]:.1f} m in {stopped:.2f} s, then creeps at {run.v[-1, 0]:.1e} m/s")

fig, (upper, lower) = figure(nrows=2, figsize=(8, 6), sharex=True)
upper.plot(run.t, run.v[:, 0], color="#0072b2", label="car")
for name in ("fl", "rl"):
    column = model.v_names.index(next(n for n in model.v_names if n.split(".")[0] == name))
    upper.plot(run.t, R * run.v[:, column], lw=0.9, label=f"wheel {name}, radius times rate")
upper.set(ylabel="speed in m/s")
upper.legend()
pitch = np.degrees(np.arcsin(-run.q[:, 5]))
lower.plot(run.t, pitch, color="#d55e00")
lower.set(xlabel="t in s", ylabel="pitch in degrees")
finish(fig, out / "car_brakes_on_slope.png")
page(run, out / "car_brakes_on_slope.html")
