"""Least squares by Gauss-Newton with damping: starts of windows eliminated one by one, noise levels and outliers reweighted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from heavytop.errors import IdentificationError, ModelError, SimulationError
from heavytop.identify.shooting import SearchPoint, Shot, WindowShooting

CONVERGED = 0.01
"""The last step, in standard deviations of the unknowns."""
WEAK = 1e-7
"""Singular values below this share of the largest one are null."""
DEAD = 1e-9
"""Unknowns whose whole value changes the outputs by less than this share of the others' change no output."""
NOISE_FLOOR = 1e-10
"""Least noise level relative to the size of a signal."""


@dataclass(frozen=True, eq=False)
class Fit:
    """The end of a search.

    Attributes
    ----------
    point : unknowns and starts. shot : the windows from there. noise : (m,) standard deviation of each channel.
    J : (rows, nz) derivatives of all weighted residuals, priors last, without what the starts explain. weights : (w, length + 1, m) of the
        robust loss. scores : (w, nz) gradient of each window.
    free, dead : (nz,) unknowns that are not at a bound; that change no output. steps : accepted ones. converged : whether the last step was small.
    """

    point: SearchPoint
    shot: Shot
    noise: np.ndarray
    J: np.ndarray
    weights: np.ndarray
    scores: np.ndarray
    free: np.ndarray
    dead: np.ndarray
    steps: int
    converged: bool


@dataclass(frozen=True)
class FitSettings:
    """How to search.

    Attributes
    ----------
    huber : residuals beyond this multiple of their noise count linearly; None: squares.
    most_steps : largest number of steps of the search. free_starts : whether the starts of windows are also unknown.
    """

    huber: float | None = None
    most_steps: int = 60
    free_starts: bool = True


MEDIAN = 1.482602218505602
"""Standard deviation of a normal distribution per median of the absolute values."""


class LeastSquares:
    """Gauss-Newton steps with damping on a :class:`WindowShooting`."""

    def __init__(self, shooting: WindowShooting, noise: list[float | None], settings: FitSettings) -> None:
        self.shooting, self.settings = shooting, settings
        self.fixed = np.array([np.nan if n is None else n for n in noise])
        entries = shooting.unknowns.entries
        self.low, self.high = np.array([e.low for e in entries]), np.array([e.high for e in entries])
        own = [(k, *e.prior) for k, e in enumerate(entries) if e.prior is not None]
        self.prior = [(int(k), float(mean), float(sd)) for k, mean, sd in own]
        self.sizes = self._sizes()

    def _sizes(self) -> np.ndarray:
        """(m,) size of each channel, for the least noise level."""
        s = self.shooting
        y = np.concatenate([np.ones((*s.windows.y.shape[:2], 1)), s.windows.y], axis=-1)
        return np.full(s.outputs.count, float(np.sqrt(np.mean(y**2))))

    def run(self, point: SearchPoint) -> Fit:
        """Search from a point."""
        shot = self.shooting.shoot(point)
        noise = self._noise(shot, None)
        damping, steps, converged = 1e-3, 0, False
        system = _System(self, shot, noise)
        for _ in range(self.settings.most_steps):
            found = self._step(system, damping)
            if found is None:
                damping *= 10
                if damping > 1e8:
                    break
                continue
            shot, size = found
            steps += 1
            converged = size < CONVERGED
            settled = _System(self, shot, noise)
            fresh = self._noise(shot, settled)
            quiet = np.max(np.abs(np.log(fresh / noise))) < 0.02
            # a noise level that falls too fast locks in a far point: at most tenfold per step
            noise = np.maximum(fresh, 0.1 * noise)
            damping = max(damping / 10, 1e-12)
            system = _System(self, shot, noise)
            if converged and quiet:
                break
        return Fit(
            shot.point,
            shot,
            noise,
            system.rows,
            system.weights,
            system.scores,
            system.free,
            system.dead,
            steps,
            converged,
        )

    def _step(self, system: _System, damping: float) -> tuple[Shot, float] | None:
        """The shot after a step that lowers the cost, and the size of the step in standard deviations; None if it does not."""
        s = self.shooting
        before = system.cost
        dz, dx, size = system.solve(damping)
        z = np.clip(system.shot.point.z + dz, self.low, self.high)
        try:
            point = s.moved(system.shot.point, z - system.shot.point.z, dx, system.basis)
            shot = s.shoot(point)
        except (SimulationError, IdentificationError, ModelError):
            return None
        after = self.cost(shot, system.noise)
        if not np.isfinite(after) or after > before * (1 + 1e-12) + 1e-9:
            return None
        return shot, size

    def robust(self, scaled: np.ndarray) -> np.ndarray:
        """Weights of residuals in units of their noise."""
        if self.settings.huber is None:
            return np.ones_like(scaled)
        return np.minimum(1.0, self.settings.huber / np.maximum(np.abs(scaled), 1e-300))

    def cost(self, shot: Shot, noise: np.ndarray) -> float:
        """Sum of squares (or Huber's loss), priors included."""
        x = np.abs(shot.residuals / noise)
        k = self.settings.huber
        loss = x * x if k is None else np.where(x <= k, x * x, 2 * k * x - k * k)
        return float(loss.sum() + sum(((shot.point.z[i] - mean) / sd) ** 2 for i, mean, sd in self.prior))

    def _noise(self, shot: Shot, system: _System | None) -> np.ndarray:
        """Noise level of each channel from the residuals, with the degrees of freedom that unknowns and starts take."""
        r, seen = shot.residuals, self.shooting.windows.seen
        count = seen.sum(axis=(0, 1)).astype(float)
        taken = np.zeros(r.shape[-1]) if system is None else system.leverage
        freedom = np.maximum(count - taken, 1.0)
        if self.settings.huber is None:
            estimate = np.sqrt((r * r).sum(axis=(0, 1)) / freedom)
        else:  # the median is not moved by outliers
            middle = np.nanmedian(np.where(seen, np.abs(r), np.nan).reshape(-1, r.shape[-1]), axis=0)
            estimate = MEDIAN * middle * np.sqrt(count / freedom)
        estimate = np.maximum(estimate, NOISE_FLOOR * self.sizes)
        return np.where(np.isnan(self.fixed), estimate, self.fixed)


class _System:
    """The linear least-squares problem at a shot."""

    def __init__(self, search: LeastSquares, shot: Shot, noise: np.ndarray) -> None:
        self.search, self.shot, self.noise = search, shot, noise
        s = search.shooting
        self.basis = s.basis(shot.point)
        Jx, Jz = shot.slopes(self.basis)
        count, nx, nz = len(s.windows), Jx.shape[-1], Jz.shape[-1]
        r = np.moveaxis(shot.residuals, 0, 1) / noise  # (w, records, m)
        self.weights = search.robust(r)
        root = np.sqrt(self.weights) / noise
        self.r = (root * noise * r).reshape(count, -1)
        Jx = (Jx * root[..., None]).reshape(count, -1, nx)
        Jz = (Jz * root[..., None]).reshape(count, -1, nz)
        if not search.settings.free_starts:
            Jx = Jx[..., :0]
        self.x_scale, self.Q, self.inverse = eliminate(Jx)
        self.Jz_full = Jz
        self.local = np.matmul(np.swapaxes(self.Q, -1, -2), Jz)
        Jp = Jz - np.matmul(self.Q, self.local)
        rp = self.r - np.matvec(self.Q, np.matvec(np.swapaxes(self.Q, -1, -2), self.r))
        self.scores = np.einsum("wri,wr->wi", Jp, rp)
        prior = np.zeros((len(search.prior), nz))
        offset = np.zeros(len(search.prior))
        for row, (k, mean, sd) in enumerate(search.prior):
            prior[row, k], offset[row] = 1.0 / sd, (shot.point.z[k] - mean) / sd
        self.rows = np.concatenate([Jp.reshape(-1, nz), prior])
        self.target = np.concatenate([rp.reshape(-1), offset])
        z = shot.point.z
        gradient = self.rows.T @ self.target
        self.free = ~(((z <= search.low) & (gradient > 0)) | ((z >= search.high) & (gradient < 0)))
        norms = np.linalg.norm(self.rows, axis=0)
        self.dead = dead_columns(norms, self._sizes())
        self.scale = np.where(self.dead, 0.0, 1.0 / np.where(self.dead, 1.0, norms)) * self.free
        self.R = _triangle(self.rows * self.scale)

    def _sizes(self) -> np.ndarray:
        """(nz,) typical size of each unknown; that of a bias is the noise."""
        s = self.search.shooting
        sizes = np.maximum(s.unknowns.scales, np.abs(self.shot.point.z))
        for k in s.unknowns.indices("bias"):
            e = s.unknowns.entries[k]
            sizes[k] = self.noise[s.outputs.offset(e.signal) + e.place]
        return np.where(sizes > 0, sizes, 1.0)

    @property
    def cost(self) -> float:
        return self.search.cost(self.shot, self.noise)

    @property
    def leverage(self) -> np.ndarray:
        """(m,) degrees of freedom that the starts and the unknowns take from each channel."""
        s = self.search.shooting
        m = s.outputs.count
        shape = (len(s.windows), -1, m)
        local = (self.Q**2).sum(axis=-1).reshape(shape).sum(axis=(0, 1))
        _, sv, Vt = np.linalg.svd(self.R, full_matrices=False)
        good = sv > WEAK * max(sv.max(initial=0.0), 1e-300)
        W = (self.rows * self.scale) @ (Vt[good].T / sv[good])
        rows = len(self.rows) - len(self.search.prior)
        return local + (W[:rows] ** 2).sum(axis=1).reshape(shape).sum(axis=(0, 1))

    def solve(self, damping: float) -> tuple[np.ndarray, np.ndarray, float]:
        """Step (nz,) of the unknowns, (w, nx) of the starts, and its size in standard deviations."""
        z, search = self.shot.point.z, self.search
        dz = np.zeros_like(z)
        held = np.zeros(len(z), dtype=bool)
        for _ in range(4):  # unknowns that would leave their bounds stop there, the others take it into account
            scale = np.where(held, 0.0, self.scale)
            R = _triangle(self.rows * scale)
            _, sv, Vt = np.linalg.svd(R, full_matrices=False)
            good = sv > WEAK * max(sv.max(initial=0.0), 1e-300)
            g = scale * (self.rows.T @ (self.target + self.rows @ np.where(held, dz, 0.0)))
            weights = 1.0 / (sv**2 + damping * np.max(sv**2, initial=0.0) + 1e-300)
            dz = np.where(held, dz, -scale * (Vt.T @ (np.where(good, weights, 0.0) * (Vt @ g))))
            beyond = ~held & ((z + dz < search.low) | (z + dz > search.high))
            if not beyond.any():
                break
            dz = np.where(beyond, np.clip(z + dz, search.low, search.high) - z, dz)
            held |= beyond
        size = float(np.linalg.norm(self.rows @ dz)) / np.sqrt(max(len(dz), 1))
        lead = np.swapaxes(self.Q, -1, -2)
        dx = -np.matvec(self.inverse, np.matvec(lead, self.r) + np.matvec(self.local, dz)) * self.x_scale
        if not self.search.settings.free_starts:
            dx = np.zeros((len(self.r), self.basis.shape[-1]))
        else:
            size = max(size, float(np.sqrt(np.mean(np.matvec(lead, self.r) ** 2))) if lead.size else 0.0)
        return dz, dx, size


def dead_columns(norms: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """(nz,) whether an unknown of this size changes nothing."""
    effects = norms * sizes
    return effects <= DEAD * effects.max(initial=0.0)


def eliminate(Jx: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scales (w, nx), orthonormal columns Q (w, rows, nx) of the space of Jx, and ``inverse`` with dx = scale * inverse (Q^T b); null directions
    have zero columns."""
    norms = np.linalg.norm(Jx, axis=1)
    scale = np.where(norms > 0, 1.0 / np.where(norms > 0, norms, 1.0), 0.0)
    A = Jx * scale[:, None, :]
    H = np.matmul(np.swapaxes(A, -1, -2), A)
    values, vectors = np.linalg.eigh(H)
    good = values > 1e-11 * np.maximum(values[:, -1:] if values.shape[-1] else 1.0, 1e-300)
    root = np.where(good, 1.0 / np.sqrt(np.where(good, values, 1.0)), 0.0)
    W = vectors * root[:, None, :]
    return scale, np.matmul(A, W), W


def _triangle(A: np.ndarray) -> np.ndarray:
    return np.asarray(np.linalg.qr(A, mode="r")) if len(A) >= A.shape[1] else A
