"""Toys that live by contact: a woodpecker pecks down its pole, a tippe top turns over, billiard balls share a shot."""

import numpy as np
from _example import figure, finish, folder, page

import heavytop as ht

out = folder(__doc__)
fig, (left, middle, right) = figure(ncols=3, figsize=(13, 4))


def play(name: str, until: float, integrator: str, every: int) -> ht.Run:
    """The built-in system of this name from its start."""
    model = ht.library.load(name).derive()
    run = ht.simulate(
        model, ht.library.start(name, model), until, ht.library.step(name), integrator, record_every=every
    )
    print(f"{name}: {run.outcome}, balance of energy to {run.invariants['energy'].relative:.0e}")
    return run


woodpecker = play("woodpecker", 0.8, "moreau", 1)
pecks = woodpecker.contacts["beak"].touchdowns
print(f"pecks every {np.diff(pecks)[-1]:.4f} s")
left.plot(woodpecker.t, 1e3 * woodpecker.q[:, 0], label="height of the sleeve in mm")
left.plot(woodpecker.t, np.rad2deg(woodpecker.q[:, 1] + woodpecker.q[:, 2]), label="angle of the bird in degrees")
left.plot(pecks, np.zeros_like(pecks), "k|", label="pecks")
left.set(xlabel="t in s", title="Woodpecker")
left.legend()

top = play("tippe-top", 3.0, "rkmk4", 100)
middle.plot(top.t, np.rad2deg(np.arccos(np.clip(top.q[:, 11], -1, 1))), label="tilt in degrees")
middle.plot(top.t, top.v[:, 5], label="spin in body axes in rad/s")
middle.set(xlabel="t in s", title="Tippe top")
middle.legend()

shot = play("billiard", 2.0, "moreau", 5)
balls = shot.q.reshape(-1, 4, 12)
for k, (name, color) in enumerate((("cue", "k"), ("one", "#e69f00"), ("two", "#0072b2"), ("three", "#d55e00"))):
    right.plot(balls[:, k, 0], balls[:, k, 1], color=color, label=name)
right.set(xlabel="x in m", ylabel="y in m", title="Billiard", aspect="equal")
right.legend()

finish(fig, out / "contact_toys.png")
page(woodpecker, out / "woodpecker.html")
page(top, out / "tippe_top.html")
page(shot, out / "billiard.html")
