"""Errors of angular velocity and attitude of the unstable rotation, with the scheme of document 002 and with that of Terze."""

import numpy as np
from common import BLUE, GREY, RED, plt, save
from heavytop_mechanics import bodies

import heavytop as ht
from heavytop.coordinates import UnifiedPose
from heavytop.geometry import quaternion

moments, omega = (5.2988, 1.1775, 4.3568), np.array([0.01, 0.0, 100.0])
pose = UnifiedPose("hexahedral")
unified = bodies.unified_body(pose, 1.0, moments)
system = ht.System(gravity=(0, 0, 0))
system.body("box", joint=ht.Spherical("quaternion"), inertia=ht.Inertia(1.0, moment_at_com=moments))
box = system.derive()
start = pose.neutral(), pose.unified_velocity(np.concatenate([np.zeros(3), omega]))


def ends(h, method="terze"):
    """Omega and R after 0.5 s by both schemes."""
    one = ht.simulate(unified, start, until=0.5, step=h, record_every=10**6)
    two = ht.simulate(box, (box.neutral(), omega), until=0.5, step=h, integrator=method, record_every=10**6)
    first = pose.body_velocity(one.v[-1])[3:], pose.pose(one.q[-1])[:3, :3]
    return first, (two.v[-1], quaternion.rotation_from_quaternion(two.q[-1]))


exact = ends(2e-4, "rkmk8")[1]
sizes = 1 / np.array([80, 160, 320, 640, 1280])
errors = np.array([[[np.linalg.norm(x - y) for x, y in zip(e, exact, strict=True)] for e in ends(h)] for h in sizes])
figure, axes = plt.subplots(1, 2, figsize=(9, 3))
for k, (axis, what) in enumerate(zip(axes, ("error of $\\Omega$(0.5 s) in rad/s", "error of R(0.5 s)"), strict=True)):
    axis.loglog(sizes, errors[:, 0, k], "o-", color=BLUE, label="unified velocities, rkmk4")
    axis.loglog(sizes, errors[:, 1, k], "s--", color=RED, label="quaternions, Terze")
    axis.loglog(sizes, errors[2, 0, k] * (sizes / sizes[2]) ** 4, ":", color=GREY, label="order 4")
    axis.set(xlabel="step in s", ylabel=what)
axes[0].legend(fontsize=8)
figure.tight_layout()
save(figure, "lie_group_steps")
