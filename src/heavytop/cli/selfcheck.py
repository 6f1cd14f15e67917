"""Checks of an installation, in seconds.

Three compare with stored reference data (exponential map, rotary pendulum, tricopter), two with a closed formula (heavy top,
pendulum), one with the interpreter (native code).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np


class Check(NamedTuple):
    """A check, its deviation from the reference, and the deviation allowed."""

    what: str
    deviation: float
    allowed: float

    @property
    def passed(self) -> bool:
        """Whether the deviation is a number within the limit."""
        return self.deviation <= self.allowed


def _largest(difference: np.ndarray) -> float:
    return float(np.max(np.abs(difference)))


def exponential_map() -> Check:
    """exp of a screw of 2.5 rad."""
    from heavytop.geometry import se3

    G = se3.exp(np.array([0.3, -1.1, 0.7, 2.5 / 3, 5 / 3, -5 / 3]))
    reference = [
        [-0.60101654715283, 0.7992355661908451, -0.0012727073855699036, -0.3991960805639513],
        [0.0012727073855699036, -0.0006353419705187673, -0.9999989882777338, -1.1333074744967155],
        [-0.7992355661908451, -0.6010175588750962, -0.0006353419705187673, 0.31709448522130895],
        [0.0, 0.0, 0.0, 1.0],
    ]
    return Check("exponential map on SE(3)", _largest(G - reference), 1e-14)


def rotary_pendulum() -> Check:
    """Acceleration of the rotary pendulum of document 004."""
    from heavytop import library

    q, v = [1.830017542472281, 1.8476447384189623], [-0.7450848662857457, 1.2613357141965644]
    a = library.furuta().derive().acceleration(q, v, [0.01], parameters={"J_p2": 0.00125})
    reference = np.array([-3.5337548602823867, 42.17351924193401])
    return Check("acceleration of the rotary pendulum", _largest(a / reference - 1), 1e-12)


def heavy_top() -> Check:
    """First acceleration of the heavy top benchmark: J omega' = J omega x omega + X x R^T m g."""
    from heavytop import library

    model = library.heavy_top().derive()
    a = model.acceleration(model.neutral(), [0.0, 150.0, -4.61538])
    reference = np.array([(15.234375 - 0.46875) * 150.0 * 4.61538 - 15 * 9.81, 0.0, 0.0]) / 15.234375
    return Check("acceleration of the heavy top", _largest(a - reference) / 671.0, 1e-13)


def tricopter() -> Check:
    """Kinetic energy of the tricopter with load."""
    from heavytop import library

    q = [0.0, 0.0, 1.0, 0.9689383464018653, 0.190137281779517, 0.15813378813370513, -0.20504687550662168]
    q += [0.9751506771214922, 0.08388644559443, -0.1382543298308989, -0.11370563304863936, 0.9838479401289699]
    q += [0.9900499001070715, -0.08905289582492666, -0.10895309561078374, 0.10895309561078374, 0.9751247502676786]
    q += [0.19303094148924613, 0.08905289582492666, -0.20298104138217468, 0.9751247502676786, 0.1, -0.2, 0.15]
    q += [1.0, 0.0, 0.8775825618903728, 0.479425538604203, 0.5403023058681398, 0.8414709848078965]
    v = [0.3, -0.2, 0.1, 0.2, -0.3, 0.4, -0.2, 0.3, 0.1, 0.1, -0.2, 0.1, 60.0, -50.0, 70.0]
    energy = library.tricopter_load().derive().kinetic_energy(q, v)
    return Check("energy of the tricopter with load", abs(float(energy) / 0.29599552923631456 - 1), 1e-12)


def native_code() -> Check:
    """Compiled against interpreted accelerations of 100 states."""
    from heavytop import library

    model = library.chain(6).derive()
    rng = np.random.default_rng(0)
    q, v = model.random(rng, (100,)), rng.standard_normal((100, model.nv))
    compiled = model.acceleration(q, v)
    (interpreted,) = model.traced("acceleration").interpret(q, v, np.zeros((100, 0)), np.zeros((100, 0)))
    return Check("compiled against interpreted code", _largest(compiled - interpreted) / _largest(compiled), 1e-11)


def equations() -> Check:
    """Symbolic equations of the pendulum."""
    import sympy

    from heavytop import library

    found = library.pendulum().derive().equations()
    expected = sympy.sympify("m*l**2"), sympy.sympify("m*g*l*sin(theta)")
    return Check("equations of the pendulum", 0.0 if (found.M[0], found.fG[0]) == expected else 1.0, 0.0)


CHECKS: tuple[Callable[[], Check], ...] = (
    exponential_map,
    rotary_pendulum,
    heavy_top,
    tricopter,
    native_code,
    equations,
)
