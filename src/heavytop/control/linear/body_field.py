"""The closed loop of a regulator of one free body, x' = S(x) x, and a proof that x^T P x decreases along it.

Deviations x from the set point (r_R, R_R) at rest: position r (3,) in world axes, velocity w (3,) of the body in the axes of R_R, angular
velocity omega (3,) in body axes, rotation vector phi (3,). With E = exp(phi), the force F_R that carries the body, and inputs
u = u_R - K (r, phi, E^T w, omega) that make forces W_f u and moments W_m u in body axes:

    r' = R_R w,    m w' = (E - I) F_R - E W_f (u_R - u),    J omega' = (J - j I) omega x omega - W_m (u_R - u),    phi' = T^-1(phi) omega

for any number j, and (E - I) F = -V(phi) [F] phi with V = int_0^1 exp(s phi) ds. Hence S depends on phi and on zeta = (J - j I) omega only; zeta
has one component if J has an axis of symmetry. Let T T^T = P and M = T^T S T^-T + (T^T S T^-T)^T. M is affine in zeta, and in a box of phi = B y it
differs from a mean of its values at the corners by at most the sum of h_k^2 / 2 |d^2 M / dy_k^2| (multilinear interpolation, half widths
h_k). The largest eigenvalue, also after addition of a constant form, is convex, so that it is negative in the box if those at the corners are less
than minus this sum. Bounds of the second derivatives along a unit direction: 1 for E, 1/3 for V, and with
|phi| <= t, x = t^2 / (2 pi)^2 and T^-1 = I + [phi] / 2 + c(t^2) [phi]^2,

    2 c + 10 t^2 c' + 4 t^4 c'' <= (1 / 6 + 10 x / (12 (1 - x)) + 8 x^2 / (12 (1 - x)^2)) / (1 - x),

as c(s) = sum_k 2 Z_k s^(k - 1) / (2 pi)^(2 k) with Z_k = sum_n n^(-2 k) <= pi^2 / 6.

Limits leave u_R - u = Theta K (r, phi, E^T w, omega) with diagonal Theta, in every box between bounds of its entries and 1. M is affine in them,
so that the vertices suffice.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from heavytop.control.observers.hull import Hull
from heavytop.errors import ControlError
from heavytop.geometry import so3
from heavytop.ocp import chart, place

if TYPE_CHECKING:
    from heavytop.control.linear.certificate import Enclosure
    from heavytop.control.linear.lqr import LinearQuadratic

AGREES = 1e-7
"""Largest relative difference between S(x) x and the rates of the model."""
R, W, OMEGA, PHI = (slice(k, k + 3) for k in (0, 3, 6, 9))
FROM_PLACES = np.r_[0:3, 6:9, 9:12, 3:6]
"""Entries of (r, w, omega, phi) in (places, velocities)."""
MARGIN = 1e-9
"""Margin for rounding errors of eigenvalues, per largest one."""
CORNERS = np.array(list(product((-1.0, 1.0), repeat=3)))


class BodyField:
    """The closed loop of a regulator that holds a free body with its origin at the centre of mass, nominal parameters."""

    nx, boxes = 12, 40_000
    boxed = np.arange(9, 12)
    method = "corners of boxes of the rotation vector and bounds of the second derivatives"
    names = tuple(f"{name}_{axis}" for name in ("position", "velocity", "omega", "turn") for axis in "xyz")

    def __init__(self, law: LinearQuadratic) -> None:
        self.law, self.model, self.hull = law, law.model, Hull.of(law.model)
        if not self.hull.is_centred or self.hull.joint.velocity != "body":
            raise ControlError(
                "no region is proven, because the origin of the body is not its centre of mass, or its velocities are not those in body axes: "
                "law.region(sizes) samples it."
            )
        hull, (self.q_R, _, _) = self.hull, law.reference(0.0)
        self.turn_R = hull.motion(self.q_R, np.zeros(6)).R
        u_R, self.K = law._inputs(np.zeros(1))[0], law.gains[0]
        self.carrying = hull.wrenches[:3] @ u_R
        self.below = self.above = np.full(len(u_R), np.inf)
        if law._bounds is not None:
            self.below, self.above = u_R - law._bounds[0], law._bounds[1] - u_R
        self.room = np.minimum(self.below, self.above)
        principal = np.linalg.eigvalsh(hull.moment)
        self.gyration = hull.moment - principal[1] * np.eye(3)
        self.cost_rate = law.cost_rate[np.ix_(FROM_PLACES, FROM_PLACES)]
        self.nominal = self.model.parameter_vector()
        self.cell = self.nominal, self.nominal
        self._check()

    def _check(self) -> None:
        """Compare S(x) x with the rates of the model at random states whose inputs are within their limits."""
        x = 0.3 * np.random.default_rng(0).standard_normal((20, 12)) * np.repeat([1.0, 1.0, 3.0, 1.0], 3)
        most = np.max(np.abs(x) @ np.abs(self.K[:, FROM_PLACES]).T, axis=0)
        x *= min(1.0, 0.5 * float(np.min(self.room / np.maximum(most, 1e-12))))
        expected, found = np.matvec(self.matrix(x[:, PHI], x[:, OMEGA] @ self.gyration), x), self.rates(x)
        if not np.allclose(found, expected, rtol=AGREES, atol=AGREES * np.max(np.abs(expected))):
            raise ControlError(
                f"no region is proven, because further forces than gravity and those of the inputs act on {self.model.name!r}: "
                "law.region(sizes) samples it."
            )

    # --- states -----------------------------------------------------------------------------------------------------------------

    def states(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """q and v of deviations (rows, 12)."""
        q = chart(self.model.coordinates, np.tile(self.q_R, (len(x), 1)), np.concatenate([x[:, R], x[:, PHI]], axis=1))
        velocity = np.matvec(so3.exp(x[:, PHI]).swapaxes(1, 2), x[:, W])
        return q, np.concatenate([velocity, x[:, OMEGA]], axis=1)

    def deviations(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Deviations (rows, 12) of states."""
        e = place(self.model.coordinates, np.broadcast_to(self.q_R, q.shape), q)
        w = np.matvec(so3.exp(e[:, 3:]), v[:, :3])
        return np.concatenate([e[:, :3], w, v[:, 3:], e[:, 3:]], axis=1)

    def exists(self, x: np.ndarray) -> bool:
        """Whether all rotation vectors are the shortest ones."""
        return bool(np.all(np.linalg.norm(x[:, PHI], axis=1) < np.pi))

    def rates(self, x: np.ndarray) -> np.ndarray:
        """f (rows, 12) at deviations, by the law and the accelerations of the model."""
        q, v = self.states(x)
        a = self.model.acceleration(q, v, self.law(0.0, q, v))
        E, phi, omega = so3.exp(x[:, PHI]), x[:, PHI], x[:, OMEGA]
        pushed = np.matvec(E, a[:, :3] + np.cross(omega, v[:, :3]))
        turning = np.matvec(so3.tangent_inverse(phi), omega)
        return np.concatenate([np.matvec(self.turn_R, x[:, W]), pushed, a[:, 3:], turning], axis=1)

    # --- proof ----------------------------------------------------------------------------------------------------------------

    def gains(self, phi: np.ndarray) -> np.ndarray:
        """Gains (rows, nu, 12) for deviations x."""
        K = self.K[:, FROM_PLACES]
        gains = np.tile(K, (len(phi), 1, 1))
        gains[:, :, W] = K[:, W] @ so3.exp(phi).swapaxes(1, 2)
        return gains

    def matrix(self, phi: np.ndarray, zeta: np.ndarray, share: float = 1.0) -> np.ndarray:
        """S (rows, 12, 12) for phi and zeta (rows, 3), with a share of the gains."""
        hull, E, gains = self.hull, so3.exp(phi), share * self.gains(phi)
        M = np.zeros((len(phi), 12, 12))
        M[:, R, W] = self.turn_R
        M[:, W] = -E @ (hull.wrenches[:3] @ gains) / hull.mass
        M[:, W, PHI] -= so3.tangent(phi).swapaxes(1, 2) @ so3.wed(self.carrying) / hull.mass
        inverse = np.linalg.inv(hull.moment)
        M[:, OMEGA] = -inverse @ hull.wrenches[3:] @ gains
        M[:, OMEGA, OMEGA] += inverse @ so3.wed(zeta)
        M[:, PHI, OMEGA] = so3.tangent_inverse(phi)
        return M

    def linear(self, share: float = 1.0) -> np.ndarray:
        """S (12, 12) at the set point, with a share of the gains."""
        return self.matrix(np.zeros((1, 3)), np.zeros((1, 3)), share)[0]

    def _kept(self, to_x: np.ndarray, radius: float, c: np.ndarray, h: np.ndarray) -> np.ndarray:
        """Least shares (rows, nu) of the demands K x that the limits leave for y in the ball and in boxes with centres c and half widths h.

        A demand is its value at c up to the extent of the box, of the other coordinates in the ball and of E^T w as E changes by no more than phi.
        """
        back, speed = to_x[PHI, PHI], self.K[:, FROM_PLACES][:, W]
        gains = self.gains(c @ back.T) @ to_x
        inner = np.sum(np.maximum(np.abs(c) - h, 0.0) ** 2, axis=1)
        left = np.sqrt(np.maximum(radius**2 * (1 + 1e-6) - inner, 0.0))
        turned = radius * np.linalg.norm(h @ np.abs(back.T), axis=1) * float(np.linalg.norm(to_x[W], 2)) * (1 + 1e-6)
        value = np.matvec(gains[:, :, PHI], c)
        extent = (
            np.matvec(np.abs(gains[:, :, PHI]), h) + np.linalg.norm(gains[:, :, : PHI.start], axis=2) * left[:, None]
        )
        extent += np.linalg.norm(speed, axis=1) * turned[:, None]
        down, up = np.maximum(extent + value, 1e-300), np.maximum(extent - value, 1e-300)
        return np.minimum(1.0, np.minimum(self.below / down, self.above / up) * (1 - 1e-9))

    def _bend(self, to_y: np.ndarray, to_x: np.ndarray, turn: float) -> float:
        """Bound of the second derivative of M along a unit direction of phi, up to |phi| = turn, for all shares of the demands."""
        hull, K = self.hull, self.K[:, FROM_PLACES].copy()
        x = (turn / (2 * np.pi)) ** 2
        rate = (1 / 6 + 10 * x / (12 * (1 - x)) + 8 * x * x / (12 * (1 - x) ** 2)) / (1 - x)
        speed = K[:, W].copy()
        K[:, W] = 0.0

        def size(rows: slice, block: np.ndarray, columns: slice = slice(None)) -> float:
            """Norm of to_y block to_x for a block of S."""
            return float(np.linalg.norm(to_y[:, rows], 2) * np.linalg.norm(block @ to_x[columns], 2))

        pushing, turning = hull.wrenches[:3] / hull.mass, np.linalg.solve(hull.moment, hull.wrenches[3:])
        most = 0.0
        for shares in product(*((1.0,) if room == np.inf else (0.0, 1.0) for room in self.room)):  # norms are convex
            pushed, turned = pushing * shares, turning * shares
            found = size(W, pushed @ K) + 4 * float(np.linalg.norm(pushed @ speed, 2)) * size(W, np.eye(3), W)
            found += float(np.linalg.norm(to_y[:, OMEGA] @ turned @ speed, 2) * np.linalg.norm(to_x[W], 2))
            most = max(most, found)
        most += size(W, so3.wed(self.carrying) / (3 * hull.mass), PHI)
        return 2 * (most + rate * size(PHI, np.eye(3), OMEGA))

    def enclosure(self, to_y: np.ndarray, to_x: np.ndarray, radius: float, cell: object) -> Enclosure | None:
        """M at the corners of boxes for all vertices of zeta and of the shares of demands, and bounds of the errors between them."""
        back = to_x[PHI, PHI]  # phi = back y, in a cube around the ball
        turn = radius * float(np.linalg.norm(back, 2)) * (1 + 1e-6)
        if turn >= np.pi or not np.all(self.room > 0):
            return None
        curved = 0.5 * self._bend(to_y, to_x, np.sqrt(3) * turn) * np.sum(back**2, axis=0) * (1 + 1e-9)
        spins = radius * np.linalg.norm(self.gyration @ to_x[OMEGA], axis=1) * (1 + 1e-6)
        moving = spins > 1e-9 * np.max(spins, initial=1e-300)
        ends = np.array([signs for signs in CORNERS if np.all(signs[~moving] > 0)]) * np.where(moving, spins, 0.0)
        spread = np.array([to_y @ (self.matrix(np.zeros((1, 3)), z[None])[0] - self.linear()) @ to_x for z in ends])
        spread = spread + spread.swapaxes(1, 2)
        hull = self.hull
        turning = to_y[:, OMEGA] @ np.linalg.solve(hull.moment, hull.wrenches[3:])

        def at(c: np.ndarray, h: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            corners = (c[:, None] + CORNERS * h[:, None]).reshape(-1, 3) @ back.T
            M = to_y @ self.matrix(corners, np.zeros_like(corners)) @ to_x
            M = (M + M.swapaxes(1, 2)).reshape(len(c), 1, len(CORNERS), 12, 12)
            lost = 1.0 - self._kept(to_x, radius, c, h)
            limited = np.flatnonzero(np.any(lost > 0, axis=0))
            if len(limited):
                gains = (self.gains(corners) @ to_x)[:, limited]
                effects = (to_y[:, W] @ (so3.exp(corners) @ hull.wrenches[:3] / hull.mass) + turning)[:, :, limited]
                parts = effects.swapaxes(1, 2)[:, :, :, None] * gains[:, :, None]
                parts = (parts + parts.swapaxes(2, 3)).reshape(len(c), len(CORNERS), -1, 144)
                chosen = np.array(list(product((0.0, 1.0), repeat=len(limited)))) * lost[:, None, limited]
                M = M + (chosen[:, None] @ parts).swapaxes(1, 2).reshape(len(c), -1, len(CORNERS), 12, 12)
            M = (M[:, :, :, None] + spread).reshape(len(c), -1, 12, 12)
            return M, h**2 @ curved + MARGIN * np.max(np.sum(np.abs(M), axis=3), axis=(1, 2))

        return at

    def reach(self, to_x: np.ndarray) -> np.ndarray:
        """Bounds (nu,) of the deviation of every input in the region, per unit of its radius."""
        gains = self.K[:, FROM_PLACES].copy()
        speed = np.linalg.norm(gains[:, W], axis=1) * np.linalg.norm(to_x[W], 2)
        gains[:, W] = 0.0
        return np.linalg.norm(gains @ to_x, axis=1) + speed
