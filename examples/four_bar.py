"""A crank and rocker with a motor at the crank: the energy-based law on a closed loop turns it smoothly, from disturbed starts."""

import numpy as np
from _example import figure, finish, folder, page

import heavytop as ht
from heavytop import control

out = folder(__doc__)
GROUND, CRANK, COUPLER, ROCKER = 1.5, 0.5, 1.4, 1.0

system = ht.System(gravity=(0, -9.81, 0), name="crank and rocker")
for name, parent, at, length in (
    ("crank", "world", 0.0, CRANK),
    ("coupler", "crank", CRANK, COUPLER),
    ("rocker", "world", GROUND, ROCKER),
):
    rod = ht.Inertia(length, com=(length / 2, 0, 0), moment_at_com=np.array([0.01, 1, 1]) * length**3 / 12)
    system.body(name, parent=parent, at=(at, 0, 0), joint=ht.Revolute("z"), inertia=rod)
system.loop("coupler", "rocker", ht.Revolute("z"), at_a=(COUPLER, 0, 0), at_b=(ROCKER, 0, 0))
system.input("motor", ht.JointForce("crank"))
model = system.derive()


def closed(crank):
    """All three angles, by the law of cosines."""
    x, y = GROUND - CRANK * np.cos(crank), -CRANK * np.sin(crank)
    distance = np.sqrt(x * x + y * y)
    coupler = np.arctan2(y, x) + np.arccos((distance**2 + COUPLER**2 - ROCKER**2) / (2 * distance * COUPLER))
    tip = COUPLER * np.cos(coupler) - x, COUPLER * np.sin(coupler) - y
    return ht.vector(crank, coupler - crank, np.arctan2(tip[1], tip[0]))


rest = closed(0.5)
print(control.equilibrium(model, rest).report())
prototype = control.Prototype.for_model(model, rest, poles=[-6, -8])
print(prototype.design.report())
law = control.energy_law(model, prototype, blocks=[control.JointBlock("crank")], at=rest)
reference = control.Reference.from_function(model, lambda t: closed(0.5 + 2.0 * t))

starts = [
    model.assemble(closed(0.5 + error), [2 + 5 * error, 0, 0], fixed=("crank",)) for error in (-0.6, -0.3, 0, 0.3, 0.6)
]
q, v = (np.array(part) for part in zip(*starts, strict=True))
run = ht.simulate(model, (q, v), until=4.0, step=2e-3, control=law, reference=reference, record_every=5)
error = run.q[:, :, 0] - reference(run.t)[0][:, None, 0]
print(f"largest error of the crank after 4 s: {np.abs(error[-1]).max():.1e} rad")

fig, (left, right) = figure(ncols=2, figsize=(10, 4))
for crank, coupler, _ in run.q[::40, 2]:
    knee = CRANK * np.array([np.cos(crank), np.sin(crank)])
    tip = knee + COUPLER * np.array([np.cos(crank + coupler), np.sin(crank + coupler)])
    left.plot([0, knee[0], tip[0], GROUND], [0, knee[1], tip[1], 0], "o-", color="#0072b2", lw=0.8, ms=2, alpha=0.5)
left.set(aspect="equal", title="crank, coupler, rocker", xlabel="x in m", ylabel="y in m")
right.plot(run.t, error, lw=1)
right.set(xlabel="t in s", ylabel="error of the crank in rad", title="five starts")
finish(fig, out / "four_bar.png")
page(run, out / "four_bar.html", index=4)
