"""The formalisms of mechanics, one module each, for any coordinates and energies written in NumPy notation.

Each traces the given functions once and returns a function of (q, v, t) for the accelerations. They agree (docs/theory).
"""

from heavytop.mechanics import action as action
from heavytop.mechanics import balance as balance
from heavytop.mechanics import euler_lagrange as euler_lagrange
from heavytop.mechanics import functions as functions
from heavytop.mechanics import gauss as gauss
from heavytop.mechanics import gibbs_appell as gibbs_appell
from heavytop.mechanics import hamilton as hamilton
from heavytop.mechanics import lagrange_dalembert as lagrange_dalembert
from heavytop.mechanics import levi_civita as levi_civita
from heavytop.mechanics import minimal as minimal
from heavytop.mechanics import moving_frame as moving_frame
from heavytop.mechanics import moving_frame_examples as moving_frame_examples
from heavytop.mechanics import multipliers as multipliers
from heavytop.mechanics import particles as particles
from heavytop.mechanics import quasi as quasi
from heavytop.mechanics import rayleigh as rayleigh
from heavytop.mechanics import rigid_body as rigid_body
from heavytop.mechanics import scalable_body as scalable_body
from heavytop.mechanics import spatial_newton_euler as spatial_newton_euler
from heavytop.mechanics import unified as unified
from heavytop.mechanics.functions import lagrangian as lagrangian
from heavytop.mechanics.particles import Drag as Drag
from heavytop.mechanics.particles import ParticleSpring as ParticleSpring
from heavytop.mechanics.particles import ParticleSystem as ParticleSystem
from heavytop.mechanics.quasi import QuasiCoordinates as QuasiCoordinates
