"""How the velocities of a system and those of its coordinates' blocks are related: joint_velocity = W(q, p) v."""

from __future__ import annotations

import numpy as np

from heavytop._arrays import jacobian, shape, symbol, to_sx
from heavytop.compile import Traced, trace_of


def is_identity(velocity: Traced, nv: int) -> bool:
    """Whether (q, v, p) -> w gives v itself."""
    import casadi

    q, v, p = (symbol(name, *size) for name, size in velocity.inputs.items())
    w = velocity.expressions(q, v, p)[0]
    return shape(w) == (nv,) and casadi.is_equal(to_sx(w), to_sx(v), 2)


def velocity_map(motion: Traced, nq: int, nv: int) -> Traced | None:
    """W(q, p) (nv, nv) of ``joint_velocity = W v``; None if it is the identity."""
    import casadi

    q, v = symbol("q", nq), symbol("v", nv)
    u, p = (symbol(n, motion.inputs[n][0]) for n in ("u", "p"))
    matrix = jacobian(motion.expressions(q, v, u, p)[0], v)
    entries = to_sx(matrix)
    if entries.is_constant() and np.array_equal(
        np.asarray(casadi.DM(casadi.evalf(entries)).full()).reshape(nv, nv), np.eye(nv)
    ):
        return None
    return trace_of("velocity_map", {"q": q, "p": p}, {"W": matrix})
