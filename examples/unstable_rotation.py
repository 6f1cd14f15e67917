"""The unstable rotation of document 002, its figures 7 to 12, with both schemes: unified velocities and the quaternions of Terze."""

import numpy as np
from _example import figure, finish, folder
from heavytop_mechanics import bodies

import heavytop as ht
from heavytop.coordinates import UnifiedPose
from heavytop.geometry import quaternion

out = folder(__doc__)
moments, omega_0 = (5.2988, 1.1775, 4.3568), np.array([0.01, 0.0, 100.0])
pose = UnifiedPose("hexahedral")
unified = bodies.unified_body(pose, 1.0, moments)
system = ht.System(gravity=(0, 0, 0), name="box")
system.body("box", joint=ht.Spherical("quaternion"), inertia=ht.Inertia(1.0, moment_at_com=moments))
box = system.derive()


def ulvc(h):
    """Times, attitudes and angular velocities in unified local velocity coordinates."""
    start = pose.neutral(), pose.unified_velocity(np.concatenate([np.zeros(3), omega_0]))
    run = ht.simulate(unified, start, until=1.0, step=h, balance=False)
    return run, pose.pose(run.q)[:, :3, :3], pose.body_velocity(run.v)[:, 3:]


def f1(h):
    """The same with the scheme of Terze et al. on unit quaternions."""
    run = ht.simulate(box, (box.neutral(), omega_0), until=1.0, step=h, integrator="terze", balance=False)
    return run, quaternion.rotation_from_quaternion(run.q), run.v


fig, axes = figure(nrows=2, ncols=3, figsize=(14, 8))
axes[0, 0].remove()
axes[0, 0] = fig.add_subplot(2, 3, 1, projection="3d")
sizes, errors = 1 / np.array([10, 40, 80, 160, 320, 640, 1280, 2560, 5120]), {}
for scheme, style in ((ulvc, "-"), (f1, "--")):
    name = scheme.__name__
    run, R, exact = scheme(1e-5)
    t, path = run.t[::50], R[::50, :, 2]
    axes[0, 0].plot(*path.T, style, label=name)
    axes[0, 1].plot(t, path, style, label=[f"{name} {axis}" for axis in "xyz"])
    axes[0, 2].plot(t, exact[::50], style, label=[f"{name} {k}" for k in (1, 2, 3)])
    axes[1, 0].plot(t, np.abs(np.linalg.det(R[::50]) - 1), style, label=name)
    errors[name], dets = np.full(len(sizes), np.nan), np.full(len(sizes), np.nan)
    for k, h in enumerate(sizes):
        run, R, omega = scheme(h)
        if run.outcome.ok:
            errors[name][k], dets[k] = np.linalg.norm(omega[-1] - exact[-1]), np.max(np.abs(np.linalg.det(R) - 1))
        print(f"{name:5} h = 1/{1 / h:.0f}: error of Omega(1 s) {errors[name][k]:.3g} ({run.outcome.ending.value})")
    axes[1, 1].loglog(sizes, errors[name], "o" + style, label=name)
    axes[1, 2].loglog(sizes, dets, "o" + style, label=name)
titles = "7: path of p", "8: p", "9: Omega", "10: |det R - 1|", "11: error of Omega(1 s)", "12: |det R - 1|"
for ax, title in zip(axes.flat, titles, strict=True):
    ax.set(title=title, xlabel={"7": "x", "11": "h in s", "12": "h in s"}.get(title.split(":")[0], "t in s"))
    ax.legend(fontsize=7)
gap = np.nanmax(np.abs(errors["ulvc"] - errors["f1"]))
print(f"the errors differ by {gap:.1e}; the printed 0.0581, h = 1/10 and 1/40 (RK4 overflows) cannot be reproduced")
finish(fig, out / "unstable_rotation.png")
