"""Excitation: inputs within limits that make the information on parameters large."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from heavytop._arrays import numbers
from heavytop._format import Brief
from heavytop.errors import IdentificationError, SimulationError, wrong_shape
from heavytop.geometry import quaternion, se3
from heavytop.identify.fit import WEAK, eliminate
from heavytop.identify.outputs import Outputs, free_body
from heavytop.identify.shooting import SearchPoint, WindowShooting, cut
from heavytop.identify.trials import Trial, samples_of
from heavytop.identify.unknowns import Unknowns
from heavytop.ocp import input_bounds, named_limits
from heavytop.simulate import Run, as_dynamics, prepare

FIRST = 16
"""Random inputs of which the best one begins the search."""
NUDGE = 1e-4
"""Change of an input for differences of the information, relative to its range."""
MARGIN = 0.02
"""Share of the range of a limited state by which the search stays inside."""
PENALTIES = (1e2, 1e4, 1e6)
"""Weights of squared violations of limited states, relative to their ranges."""


@dataclass(frozen=True, eq=False, repr=False)
class Excitation(Brief):
    """Inputs that make parameters visible. Made by :func:`excitation`.

    Attributes
    ----------
    t : (n + 1,) s. u : (n, nu) inputs, held from sample to sample. run : the motion with them.
    information : (k, k) Fisher information of the unknowns, unknown starts of the windows taken into account. gain : log det of the information less
        that of the inputs from which the search began.
    values : name -> value for which the inputs were designed. deviations : name -> standard deviation that an identification from these inputs has.

    Examples
    --------
    >>> import heavytop as ht
    >>> model = ht.library.pendulum().derive()
    >>> angle = ht.identify.MeasuredOutput("q", noise=0.002)
    >>> made = ht.identify.excitation(model, ([0.0], [0.0]), 2.0, ["m", "l"], [angle], limits=(-1.0, 1.0), step=0.02, knots=8, iterations=5)
    >>> made.u.shape, made.gain >= 0
    ((100, 1), True)
    """

    t: np.ndarray
    u: np.ndarray
    information: np.ndarray
    gain: float
    values: dict[str, float]
    deviations: dict[str, float]
    run: Run = field(repr=False)

    @property
    def covariance(self) -> np.ndarray:
        """(k, k) of the unknowns, the inverse of the information."""
        return np.linalg.inv(self.information)


def excitation(
    model: Any,
    start: Any,
    duration: float,
    parameters: Sequence[Any],
    outputs: Sequence[Any],
    *,
    limits: Any,
    step: float = 0.01,
    window: float | None = 0.5,
    free_starts: bool = True,
    knots: int = 20,
    guess: Any = None,
    iterations: int = 60,
    seed: int = 0,
    integrator: Any = "rkmk4",
) -> Excitation:
    """Design inputs within limits whose log determines parameters best: the log det of their Fisher information is maximised.

    The information is that of :func:`identify` with the same windows, from the exact sensitivities of the simulated steps; it depends on the values
    of the parameters, so give the best known ones (of :class:`UnknownParameter`, else of the model).

    Parameters
    ----------
    model : a derived model. start : state (q, v). duration : of the motion, s.
    parameters : as of :func:`identify`; priors count. outputs : as of :func:`identify`, all with a noise: ``MeasuredOutput("q", noise=0.002)``.
    limits : pair (lower, upper) of the inputs, or mapping from names of inputs, velocities and coordinates to pairs; inputs must be limited.
    step : between samples, s. window, free_starts, integrator : as of :func:`identify`.
    knots : number of values of each input, which is linear in time between them: duration / knots limits the bandwidth.
    guess : (n, nu) inputs from which to begin, of a plan or a law in closed loop for unstable systems; None: the best of 16 random ones.
    iterations : of the search for each weight of limited states. seed : of the random inputs.

    Raises
    ------
    IdentificationError
        A noise or limits are missing, the parameters cannot be determined from the outputs, or limits of states cannot be kept.

    Examples
    --------
    >>> import heavytop as ht
    >>> model = ht.library.pendulum().derive()
    >>> angle = ht.identify.MeasuredOutput("q", noise=0.002)
    >>> keep = {"tau": (-1.0, 1.0), "theta.angle": (-0.5, 0.5)}
    >>> made = ht.identify.excitation(model, ([0.0], [0.0]), 2.0, ["m", "l"], [angle], limits=keep, step=0.02, knots=8, iterations=5)
    >>> bool(abs(made.run.q).max() <= 0.5), sorted(made.deviations)
    (True, ['l', 'm'])
    """
    design = _Design(model, start, duration, parameters, outputs, limits, step, window, free_starts, knots, integrator)
    x = design.first(guess, np.random.default_rng(seed))
    before = design.log_det(x[None])[0]
    from scipy.optimize import minimize

    for weight in PENALTIES if design.limited else (0.0,):
        found = minimize(
            lambda x, weight=weight: design.cost_and_slope(x, weight),
            x,
            jac=True,
            method="L-BFGS-B",
            bounds=[(0.0, 1.0)] * len(x),
            options={"maxiter": int(iterations)},
        )
        x = found.x
    return design.result(x, before)


class _Design:
    """The information of inputs given by knots x (knots * nu,), 0 to 1 within their limits; of many at a time."""

    def __init__(
        self, model: Any, start: Any, duration: float, parameters: Any, outputs: Any, limits: Any, step: float,
        window: float | None, free_starts: bool, knots: int, integrator: Any,
    ) -> None:  # fmt: skip
        self.dynamics, self.body = as_dynamics(model), free_body(model)
        d = self.dynamics
        self.model, self.step, self.free_starts, self.integrator = model, step, free_starts, integrator
        if not d.nu:
            raise IdentificationError(f"{d.name!r} has no inputs to design.")
        if not (np.isfinite(step) and step > 0):
            raise IdentificationError(f"step of excitation() must be positive, got {step!r}.")
        self.count = samples_of(duration, step, "duration of excitation()")
        self.length = self.count if window is None else samples_of(window, step, "window of excitation()")
        if self.length > self.count:
            raise IdentificationError(
                f"window of excitation() must be at most the duration {duration:g} s, got {window} s."
            )
        if not 2 <= knots <= self.count:
            raise IdentificationError(
                f"knots of excitation() must be between 2 and the {self.count} samples, got {knots!r}."
            )
        self.outputs = Outputs(outputs, d, self.body)
        for item in self.outputs.items:
            if item.noise is None:
                raise IdentificationError(
                    f"the information of {item.signal!r} needs its noise, got None. Give MeasuredOutput({item.signal!r}, noise=...)."
                )
        sizes = self.outputs.sizes
        self.noise = np.concatenate([np.full(n, i.noise) for i, n in zip(self.outputs.items, sizes, strict=True)])
        values = dict(zip(d.parameter_names, d.parameter_vector().tolist(), strict=True))
        own = dict(zip(self.outputs.signals, sizes, strict=True))
        self.unknowns = Unknowns(parameters, values, own, 1, d.u_names)
        self.z = self.unknowns.start
        scales = np.maximum(self.unknowns.scales, np.abs(self.z))
        self.scale = np.where(scales > 0, scales, 1.0)
        self.low, self.high, self.limited = self._limits(limits)
        q, v = (numbers(x, "start") for x in start)
        self.start = d.coordinates.check(q, f"start q of {d.name!r}"), v
        if v.shape != (d.nv,):
            raise wrong_shape(f"start v of {d.name!r}", (d.nv,), v.shape)
        places = np.linspace(0, knots - 1, self.count)
        left = np.minimum(places.astype(int), knots - 2)
        self.weights = np.zeros((self.count, knots))
        self.weights[np.arange(self.count), left] = 1 - (places - left)
        self.weights[np.arange(self.count), left + 1] += places - left
        self.simulate = prepare(
            model, until=self.count * step, step=step, integrator=integrator, inputs=np.zeros((1, d.nu)), balance=False
        )

    def _limits(self, limits: Any) -> tuple[np.ndarray, np.ndarray, list[tuple[str, int, float, float]]]:
        d = self.dynamics
        states: list[tuple[str, int, float, float]] = []
        if isinstance(limits, Mapping):
            low, high = np.full(d.nu, -np.inf), np.full(d.nu, np.inf)
            subject = getattr(d, "model", self.model)
            names = (*d.u_names, *d.v_names, *d.q_names)
            for name, (a, b) in named_limits(subject, limits, names, error=IdentificationError).items():
                if name in d.u_names:
                    k = d.u_names.index(name)
                    low[k], high[k] = a, b
                else:
                    which, entries = ("v", d.v_names) if name in d.v_names else ("q", d.q_names)
                    states.append((which, list(entries).index(name), a, b))
        else:
            pair = input_bounds(getattr(d, "model", self.model), limits, error=IdentificationError)
            low, high = (np.full(d.nu, -np.inf), np.full(d.nu, np.inf)) if pair is None else pair
        if not np.isfinite(low).all() or not np.isfinite(high).all():
            free = [n for n, a, b in zip(d.u_names, low, high, strict=True) if not (np.isfinite(a) and np.isfinite(b))]
            raise IdentificationError(
                f"limits of excitation() must bound every input, missing: {', '.join(free)}. More input always gives more information."
            )
        return np.asarray(low), np.asarray(high), states

    def inputs(self, x: np.ndarray) -> np.ndarray:
        """(n, b, nu) of knots (b, knots * nu)."""
        knots = x.reshape(len(x), -1, self.dynamics.nu)
        return self.low + (self.high - self.low) * np.swapaxes(np.matmul(self.weights, knots), 0, 1)

    def first(self, guess: Any, rng: np.random.Generator) -> np.ndarray:
        """Knots from which to begin."""
        shape = (self.weights.shape[1], self.dynamics.nu)
        if guess is not None:
            u = numbers(guess, "guess")
            if u.shape != (self.count, shape[1]):
                raise wrong_shape("guess", (self.count, shape[1]), u.shape, "One row of inputs for each step.")
            x = np.linalg.lstsq(self.weights, (u - self.low) / (self.high - self.low), rcond=None)[0]
            return np.clip(x, 0.0, 1.0).reshape(-1)
        x = rng.uniform(0.1, 0.9, (FIRST, shape[0] * shape[1]))
        with np.errstate(all="ignore"):
            scores = self.log_det(x) - (PENALTIES[0] * self.violation(x)[0] if self.limited else 0.0)
        if not np.isfinite(scores).any():
            self._undetermined(x[:1])
        return x[np.nanargmax(np.where(np.isfinite(scores), scores, -np.inf))]

    def _undetermined(self, x: np.ndarray) -> None:
        names = ", ".join(e.name for e in self.unknowns.entries)
        raise IdentificationError(
            f"no input determines all of {names} from {', '.join(self.outputs.signals)}: some change no output or share a scale, or the motion "
            "diverges. Leave one out, measure more, give a prior, a guess= or a shorter duration."
        )

    def motion(self, x: np.ndarray) -> Run:
        """Runs (n + 1, b, ...)."""
        q, v = (np.broadcast_to(s, (len(x), s.shape[-1])) for s in self.start)
        run = self.simulate((q, v), self.unknowns.parameters(self.z), inputs=self.inputs(x))
        if not (np.isfinite(run.q).all() and np.isfinite(run.v).all()):
            raise SimulationError("a motion diverges.")
        return run

    def violation(self, x: np.ndarray, run: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """(b,) mean squares and largest of the distances beyond limits of states, relative to their ranges; the mean with a margin."""
        run = self.motion(x) if run is None else run
        square, largest = np.zeros(len(x)), np.zeros(len(x))
        for which, k, a, b in self.limited:
            y = getattr(run, which)[..., k]
            size = b - a if np.isfinite(b - a) else 1.0
            inner = np.maximum(0.0, np.maximum(a + MARGIN * size - y, y - b + MARGIN * size)) / size
            square += (inner**2).mean(axis=0)
            largest = np.maximum(largest, np.maximum(0.0, np.maximum(a - y, y - b)).max(axis=0))
        return square, largest

    def information(self, x: np.ndarray, run: Any = None) -> np.ndarray:
        """(b, nz, nz), unknowns in their scales, starts eliminated."""
        run = self.motion(x) if run is None else run
        u = self.inputs(x)
        trials = []
        for b in range(len(x)):
            held = np.concatenate([u[:, b], u[-1:, b]])
            trials.append(Trial(f"motion {b}", self.step, held, self._signals(run.q[:, b], run.v[:, b])))
        windows = cut(trials, self.outputs, self.length)
        subject = getattr(self.dynamics, "model", self.model)
        shooting = WindowShooting(
            self.dynamics, subject, trials, self.outputs, self.unknowns, windows, 1, self.integrator
        )
        point = SearchPoint(self.z, run.q[windows.first, windows.log], run.v[windows.first, windows.log])
        Jx, Jz = shooting.shoot(point).slopes(shooting.basis(point))
        Jx = (Jx / self.noise[:, None]).reshape(len(windows), -1, Jx.shape[-1])
        Jz = (Jz / self.noise[:, None] * self.scale).reshape(len(windows), -1, Jz.shape[-1])
        if self.free_starts:
            Q = eliminate(Jx)[1]
            Jz = Jz - Q @ (np.swapaxes(Q, -1, -2) @ Jz)
        F = np.zeros((len(x), Jz.shape[-1], Jz.shape[-1]))
        np.add.at(F, windows.log, np.swapaxes(Jz, -1, -2) @ Jz)
        prior = [
            0.0 if e.prior is None else (s / e.prior[1]) ** 2
            for e, s in zip(self.unknowns.entries, self.scale, strict=True)
        ]
        return F + np.diag(prior)

    def _signals(self, q: np.ndarray, v: np.ndarray) -> dict[str, np.ndarray]:
        """Measured values of a motion as far as the derivative of a residual depends on them: attitudes and configurations."""
        found = {}
        for item, size in zip(self.outputs.items, self.outputs.measured, strict=True):
            found[item.signal] = np.zeros((len(q), size))
            if item.function is None and item.signal == "q":
                found["q"] = q
            elif item.function is None and item.signal == "attitude":
                joint = self.body.description.joints[0].joint
                pose = joint.pose(q[:, : joint.coordinates.nq])
                found["attitude"] = quaternion.quaternion_from_rotation(se3.rotation(pose))
        return found

    def log_det(self, x: np.ndarray, run: Any = None) -> np.ndarray:
        """(b,), minus infinity where the information has no full rank."""
        values = np.linalg.eigvalsh(self.information(x, run))
        good = values[:, 0] > WEAK**2 * values[:, -1]
        return np.where(good, np.log(np.where(values > 0, values, 1.0)).sum(axis=1), -np.inf)

    def cost_and_slope(self, x: np.ndarray, weight: float) -> tuple[float, np.ndarray]:
        """Minus log det with the penalty, and its derivative from central differences (within 0 to 1) of exact sensitivities."""
        n = len(x)
        ahead, behind = np.minimum(x + NUDGE, 1.0), np.maximum(x - NUDGE, 0.0)
        points = np.concatenate([x[None], np.where(np.eye(n) > 0, ahead, x), np.where(np.eye(n) > 0, behind, x)])
        try:
            run = self.motion(points)
            cost = -self.log_det(points, run)
            if self.limited:
                cost = cost + weight * self.violation(points, run)[0]
        except SimulationError:
            return 1e12, np.zeros(n)
        if not np.isfinite(cost).all():
            return 1e12, np.zeros(n)
        return float(cost[0]), (cost[1 : n + 1] - cost[n + 1 :]) / (ahead - behind)

    def result(self, x: np.ndarray, before: float) -> Excitation:
        run = self.motion(x[None])
        after = self.log_det(x[None], run)[0]
        if not np.isfinite(after):
            self._undetermined(x[None])
        beyond = float(self.violation(x[None], run)[1][0])
        if beyond > 0:
            raise IdentificationError(
                f"no input was found that keeps the limits of the states: they are exceeded by {beyond:.3g}. Give a guess= that keeps them, more "
                "iterations= or knots=, or wider limits."
            )
        T = self.unknowns.slopes(self.z)
        F = self.information(x[None], run)[0] / np.outer(self.scale, self.scale)
        deviations = np.sqrt(np.diag(T @ np.linalg.inv(F) @ T.T))
        names = self.unknowns.reported()
        u = self.inputs(x[None])[:, 0]
        single = self.simulate(self.start, self.unknowns.parameters(self.z), inputs=u)
        return Excitation(
            single.t,
            u,
            F,
            float(after - before),
            dict(zip(names, self.unknowns.values(self.z).tolist(), strict=True)),
            dict(zip(names, deviations.tolist(), strict=True)),
            single,
        )
