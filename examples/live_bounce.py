"""A ball that bounces and spins on a plate: throw it with the mouse; the page notices every impact."""

from _example import folder

import heavytop as ht

out = folder(__doc__)
system = ht.System(name="bouncing ball")
system.ground()
ball = ht.Sphere(0.1)
system.body("ball", joint=ht.Free(), inertia=ht.Inertia.of(ball, density=500.0))
system.contact("ball", "ground", ball, friction=0.4, restitution=0.8)
model = system.derive()
q = model.neutral()
q[2] = 0.8
run = ht.simulate(
    model, (q, [0.4, 0.0, 0.0, 0.0, -20.0, 0.0]), until=4.0, step=1e-3, integrator="moreau", record_every=10
)
print(f"{run.outcome}; its spin carries it to x = {run.q[-1, 0]:.2f} m")
print(f"page: {run.show(out / 'live_bounce.html', live=True)}")
