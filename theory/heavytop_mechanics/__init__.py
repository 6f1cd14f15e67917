"""The formalisms of mechanics, one module each, for any coordinates and energies written in NumPy notation.

Each traces the given functions once and returns a function of (q, v, t) for the accelerations. They agree (docs/theory).
"""

from heavytop_mechanics import (
    action as action,
    balance as balance,
    bodies as bodies,
    calculus as calculus,
    euler_lagrange as euler_lagrange,
    functions as functions,
    gauss as gauss,
    gibbs_appell as gibbs_appell,
    hamilton as hamilton,
    lagrange_dalembert as lagrange_dalembert,
    levi_civita as levi_civita,
    minimal as minimal,
    moving_frame as moving_frame,
    moving_frame_examples as moving_frame_examples,
    multipliers as multipliers,
    particles as particles,
    quasi as quasi,
    rayleigh as rayleigh,
    rigid_body as rigid_body,
    scalable_body as scalable_body,
    spatial_newton_euler as spatial_newton_euler,
    unified as unified,
)
from heavytop_mechanics.functions import lagrangian as lagrangian
from heavytop_mechanics.particles import (
    Drag as Drag,
    ParticleSpring as ParticleSpring,
    ParticleSystem as ParticleSystem,
)
from heavytop_mechanics.quasi import QuasiCoordinates as QuasiCoordinates
from heavytop_mechanics.scalable_pose import ScalablePose as ScalablePose
