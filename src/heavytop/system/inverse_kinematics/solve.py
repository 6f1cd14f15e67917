"""Inverse kinematics of a model: starts, rounds of native iterations, lower priorities, and the obstacles where targets are not reached."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from heavytop._arrays import Floats, concatenate, numbers
from heavytop.coordinates import Angle
from heavytop.errors import ModelError, ShapeError, unknown_name, wrong_shape
from heavytop.functions import store
from heavytop.system.description.description import at_defaults
from heavytop.system.inverse_kinematics.program import FIRST_ALPHA, REACHED, STATE, TaskProgram
from heavytop.system.inverse_kinematics.result import LIMITS, REACHED as IS_REACHED, UNREACHABLE, InverseKinematics
from heavytop.system.inverse_kinematics.tasks import KinematicTask, PoseTask, PositionTask, PostureTask, axes_of
from heavytop.system.joints.base import JointLimits

if TYPE_CHECKING:
    from heavytop.system.model import Model

ROUNDS = 5
"""Rounds of native iterations of one start."""
SEEDS = 1024
"""Random configurations of which the nearest to a target are its starts."""
NEAR = 8
"""Number of nearest seeds before others follow: all of them may lie beyond the same limit."""
CHUNK = 4096
"""Targets that are compared with the seeds together."""
AT_LIMIT = 1e-9
"""Distance in rad or m from a limit at which a joint counts as held by it."""
RANK = 1e-6
"""Singular values below this share of the largest one count as zero."""


def inverse_kinematics(
    model: Model,
    targets: Mapping[str, Any] | None,
    q0: Any,
    limits: Any,
    tasks: KinematicTask | Sequence[KinematicTask],
    parameters: Any,
    tolerance: float,
    restarts: int,
    seed: int,
    threads: int | None,
) -> InverseKinematics:
    """See :meth:`.Model.inverse_kinematics`."""
    workspace = model.functions.get("inverse kinematics", lambda: Workspace(model))
    if not 0 < tolerance < 1:
        raise ModelError(
            f"tolerance of inverse kinematics must be a small positive number in m and rad, got {tolerance!r}."
        )
    if restarts < 0:
        raise ModelError(f"restarts of inverse kinematics must not be negative, got {restarts!r}.")
    wanted = workspace.tasks(targets, tasks)
    lower, upper = workspace.limits(limits)
    p = model.parameter_vector(parameters)
    levels = sorted({task.priority for task in wanted})
    first = wanted if len(levels) == 1 else [task for task in wanted if task.priority == levels[0]]
    batch = _common([*(task.data().shape[:-1] for task in wanted), p.shape[:-1]])
    start = None
    if q0 is None:
        q0 = next((task.q for task in wanted if isinstance(task, PostureTask)), None)
    if q0 is not None:
        start = model.coordinates.check(numbers(q0, "q0"), f"q0 of {model.name!r}")
        batch = _common([batch, start.shape[:-1]])
    count = prod(batch)
    search = Search(workspace, first, batch, (lower, upper), p, tolerance, threads)
    if start is not None:
        start = np.broadcast_to(start, (*batch, model.nq)).reshape(count, model.nq)
    found = search.run(np.arange(count), start, restarts, seed)
    if not np.all(found.reached):
        search.refine_unreached(found)
    done = [*first]
    for level in levels[1:]:
        own = [task for task in wanted if task.priority == level]
        search.lower_priority(found, done, own)
        done += own
    if start is not None:
        workspace.unwind(found.q, start, lower, upper, wanted)
    outcome, blocking, rank = search.obstacles(found, restarts, seed)
    residuals, units = search.residuals(found.q, wanted)
    shaped = {name: x.reshape(batch) for name, x in residuals.items()}
    rows = int(np.count_nonzero(search.weight))
    return InverseKinematics(
        found.q.reshape(*batch, model.nq), found.reached.reshape(batch), outcome.reshape(batch), shaped, blocking.reshape(batch),
        rank.reshape(batch), rows, found.starts.reshape(batch), found.iterations.reshape(batch), tolerance, units,
    )  # fmt: skip


class Workspace:
    """Everything of a model that its inverse kinematics uses again: places of joints, limits, programs, seeds."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.axes = axes_of(model.expressions)

    def tasks(
        self, targets: Mapping[str, Any] | None, tasks: KinematicTask | Sequence[KinematicTask]
    ) -> list[KinematicTask]:
        """All tasks: those of the targets, then the others."""
        found: list[KinematicTask] = []
        if targets is not None and not isinstance(targets, Mapping):
            raise ModelError(
                "targets of inverse kinematics map frames to poses (..., 4, 4) or points (..., 3), such as {'tool': G}; others are tasks=."
            )
        for frame, given in (targets or {}).items():
            array = numbers(given, f"target of {frame!r}")
            if array.shape[-2:] == (4, 4):
                found.append(PoseTask(frame, array))
            elif array.shape[-1:] == (3,):
                found.append(PositionTask(frame, array))
            else:
                raise wrong_shape(
                    f"target of {frame!r}", ("...", 4, 4), array.shape, "Give a pose (..., 4, 4) or a point (..., 3)."
                )
        for task in [tasks] if isinstance(tasks, KinematicTask) else tasks:
            if not isinstance(task, KinematicTask):
                raise ModelError(
                    f"tasks of inverse kinematics are tasks such as ht.PoseTask(frame, pose), got {task!r}."
                )
            if isinstance(task, PostureTask):
                if task.q.shape[-1] != self.model.nq:
                    raise wrong_shape("q of a posture", ("...", self.model.nq), task.q.shape)
                task = replace(task, places=tuple(at for at, _ in self.axes.values()))
            found.append(task)
        if not found:
            raise ModelError("inverse kinematics needs a target, such as {'tool': pose}, or a task.")
        return found

    def limits(self, limits: Any) -> tuple[Floats, Floats]:
        """Lower and upper limits (n,) of the velocities' coordinates, infinite where there are none."""
        if limits is None:
            return self._own_limits
        return self._limits(limits)

    @cached_property
    def _own_limits(self) -> tuple[Floats, Floats]:
        return self._limits(self.model.description.limits)

    def _limits(self, limits: Mapping[str, Any]) -> tuple[Floats, Floats]:
        nv = self.model.coordinates.nv
        lower, upper = np.full(nv, -np.inf), np.full(nv, np.inf)
        edges = {edge.label: edge.joint for edge in self.model.description.graph.edges if not edge.joint.is_fixed}
        for name, given in limits.items():
            if name not in edges:
                raise unknown_name(f"joint of {self.model.name!r} (in limits)", name, edges)
            low, high = (given.lower, given.upper) if isinstance(given, JointLimits) else given
            low, high = -np.inf if low is None else low, np.inf if high is None else high
            if not low <= high:
                raise ModelError(f"limits of joint {name!r} are empty: lower {low:g}, upper {high:g}.")
            # a joint that follows another one, ratio q + offset, limits the coordinate of that one
            joint = edges[name]
            offset, ratio = (
                float(at_defaults(x, self.model.description.parameters)[0])
                for x in joint.follow(np.zeros(1), np.ones(1))
            )
            source = joint.follows or name
            if source not in self.axes or ratio == 0.0:
                continue
            low, high = sorted(((low - offset) / ratio, (high - offset) / ratio))
            at = self.axes[source][1]
            lower[at], upper[at] = max(lower[at], low), min(upper[at], high)
            if not lower[at] <= upper[at]:
                raise ModelError(f"limits of joint {source!r} are empty: lower {lower[at]:g}, upper {upper[at]:g}.")
        return lower, upper

    def program(self, hard: Sequence[KinematicTask], soft: Sequence[KinematicTask]) -> TaskProgram:
        """The program of some tasks."""
        key = "inverse kinematics", tuple(task.structure for task in hard), tuple(task.structure for task in soft)
        model = self.model
        return model.functions.get(key, lambda: TaskProgram(model.expressions, model.functions, hard, soft))

    def clipped(self, q: Floats, lower: Floats, upper: Floats) -> Floats:
        """q (..., nq) within the limits."""
        q = q.copy()
        for k, i in self.axes.values():
            q[..., k] = np.clip(q[..., k], lower[i], upper[i])
        return q

    def random(self, rng: np.random.Generator, count: int, lower: Floats, upper: Floats) -> Floats:
        """Random configurations (count, nq) within the limits."""
        c = self.model.coordinates
        # free bodies and ball joints: anywhere around their neutral place
        q = c.retract(np.broadcast_to(c.neutral(), (count, c.nq)), rng.uniform(-1.5, 1.5, (count, c.nv)))
        for label, (k, i) in self.axes.items():
            turns = isinstance(c.blocks[list(c.names or ()).index(label)], Angle)
            low, high = (
                (lower[i], upper[i]) if np.isfinite(upper[i] - lower[i]) else (-np.pi, np.pi) if turns else (-1.0, 1.0)
            )
            if not turns and np.isfinite(lower[i]) != np.isfinite(upper[i]):
                low, high = (lower[i], lower[i] + 1.0) if np.isfinite(lower[i]) else (upper[i] - 1.0, upper[i])
            q[:, k] = np.clip(rng.uniform(low, high, count), lower[i], upper[i])
        return q

    def seeds(
        self,
        program: TaskProgram,
        tasks: Sequence[KinematicTask],
        data: Floats,
        limits: tuple[Floats, Floats],
        p: Floats,
        seed: int,
    ) -> Seeds:
        """Random configurations and the values that come near to targets."""
        with_value = [task for task in tasks if _has_value(task)]
        weights = np.concatenate([task.value_weights() for task in with_value]) if with_value else np.zeros(0)

        def build() -> Seeds:
            q = self.random(np.random.default_rng(seed), SEEDS, *limits)
            near = program.values(q, data, p)[0] * weights
            return Seeds(q, near, np.vecdot(near, near), weights)

        fixed = [task.fixed().tobytes() for task in with_value]
        key = program.name, limits[0].tobytes(), limits[1].tobytes(), p.tobytes(), seed, weights.tobytes(), *fixed
        return store.get(None if program.name is None else key, build)

    def unwind(self, q: Floats, start: Floats, lower: Floats, upper: Floats, tasks: Sequence[KinematicTask]) -> None:
        """Shift angles by full turns towards the start, where this changes nothing else."""
        d = self.model.description
        if d.constraints or any(task.target is KinematicTask.target or isinstance(task, PostureTask) for task in tasks):
            return
        followed = {edge.joint.follows for edge in d.graph.edges}
        for edge in d.joints:
            if edge.label in self.axes and isinstance(edge.joint.coordinates, Angle) and edge.label not in followed:
                k, i = self.axes[edge.label]
                turned = q[:, k] - 2 * np.pi * np.round((q[:, k] - start[:, k]) / (2 * np.pi))
                inside = (turned >= lower[i]) & (turned <= upper[i])
                q[:, k] = np.where(inside, turned, q[:, k])


class Seeds(NamedTuple):
    """Random configurations (SEEDS, nq), the weighted values (SEEDS, k) that come near to targets, their squares, and the weights (k,)."""

    q: Floats
    near: Floats
    square: Floats
    weights: Floats


def _has_value(task: KinematicTask) -> bool:
    return type(task).target is not KinematicTask.target


def _targets(tasks: Sequence[KinematicTask]) -> Floats:
    """Targets (..., k) of the tasks that have a value."""
    found = [task.target() for task in tasks if _has_value(task)]
    return found[0] if len(found) == 1 else concatenate(*found)


def _common(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The batch to which shapes broadcast; mostly they are empty."""
    try:
        return np.broadcast_shapes(*shapes) if any(shapes) else ()
    except ValueError:
        listed = ", ".join(str(shape) for shape in shapes)
        raise ShapeError(f"the batches of targets, q0 and parameters do not broadcast: {listed}.") from None


def _weights(tasks: Sequence[KinematicTask]) -> Floats:
    """Weights (1, m) of all rows."""
    return tasks[0].weights()[None] if len(tasks) == 1 else np.concatenate([task.weights() for task in tasks])[None]


@dataclass
class Found:
    """Best configurations of the problems so far: q (b, nq), squared residuals, whether they reach their targets, work done."""

    q: Floats
    cost: Floats
    reached: np.ndarray
    starts: np.ndarray
    iterations: np.ndarray


class Search:
    """The problems of one call, flattened to (b, ...)."""

    def __init__(
        self,
        workspace: Workspace,
        tasks: Sequence[KinematicTask],
        batch: tuple[int, ...],
        limits: tuple[Floats, Floats],
        p: Floats,
        tolerance: float,
        threads: int | None,
    ) -> None:
        self.workspace, self.tasks, self.batch, self.limits, self.threads = workspace, tasks, batch, limits, threads
        self.count = prod(batch)
        self.program = workspace.program((), tasks)
        self.p = self._flat(p)
        self.data, self.weight = self._data(tasks), _weights(tasks)
        self._found_seeds: Seeds | None = None
        self.tolerance = np.array([tolerance])

    def _flat(self, x: Floats) -> Floats:
        """TaskRows (b, k), or one row (1, k) for all."""
        if x.ndim == 1:
            return x[None]
        return np.broadcast_to(x, (*self.batch, x.shape[-1])).reshape(self.count, x.shape[-1])

    def _data(self, tasks: Sequence[KinematicTask]) -> Floats:
        """Data (b, d) or (1, d) of tasks."""
        if len(tasks) == 1:
            return self._flat(tasks[0].data())
        parts = [self._flat(task.data()) for task in tasks]
        rows = max(len(x) for x in parts) if parts else 1
        return (
            np.ascontiguousarray(np.concatenate([np.broadcast_to(x, (rows, x.shape[1])) for x in parts], axis=1))
            if parts
            else np.zeros((1, 0))
        )

    def _constants(
        self,
        tasks: Sequence[KinematicTask],
        limits: tuple[Floats, Floats],
        rows: np.ndarray,
        wanted: Floats | None = None,
    ) -> dict[str, Floats]:
        """Constants of the iterations of the problems ``rows``."""
        own = tasks is self.tasks
        given = {
            "data": self.data if own else self._data(tasks),
            "weight": self.weight if own else _weights(tasks),
            "lower": limits[0][None],
            "upper": limits[1][None],
            "p": self.p,
        }
        picked = {name: x if len(x) == 1 else x[rows] for name, x in given.items()}
        return picked | {"tolerance": self.tolerance} | ({} if wanted is None else {"wanted": wanted[rows]})

    def _iterate(self, program: TaskProgram, kind: str, q: Floats, constants: dict[str, Floats]) -> dict[str, Floats]:
        """The state after at most ROUNDS rounds from q (b, nq); problems that are done leave the batch."""
        stepper = program.stepper(kind, self.threads)
        b = len(q)
        alpha = FIRST_ALPHA if kind == "reach" else 1e-3
        state = {"q": q, "alpha": np.full(b, alpha)} | {name: np.zeros(b) for name in STATE[2:]}
        result = state if b == 0 else stepper.run(state, constants, steps=1, record_every=0).state
        for _ in range(ROUNDS - 1):
            left = np.flatnonzero(result["done"] == 0.0)
            if not len(left):
                break
            own = {name: x[left] for name, x in result.items()}
            picked = {name: x if len(x) == 1 else x[left] for name, x in constants.items()}
            more = stepper.run(own, picked, steps=1, record_every=0).state
            for name, x in more.items():
                result[name][left] = x
        return result

    def run(self, rows: np.ndarray, start: Floats | None, restarts: int, seed: int, limits: Any = None) -> Found:
        """Search from the start (b, nq), then from the seeds nearest to the targets."""
        limits = self.limits if limits is None else limits
        b, nq = len(rows), self.workspace.model.nq
        found = Found(
            np.zeros((b, nq)),
            np.full(b, np.inf),
            np.zeros(b, dtype=bool),
            np.zeros(b, dtype=int),
            np.zeros(b, dtype=int),
        )
        if not b:
            return found
        if start is not None:
            self._try(found, np.arange(b), rows, self.workspace.clipped(start, *limits)[:, None], limits)
        total = min(restarts + (start is None), SEEDS)
        used = self._one_by_one(found, rows, min(NEAR, total), limits, seed) if b == 1 and not found.reached[0] else 0
        each = min(1 if used == 0 else NEAR, total - used)
        while used < total and not found.reached.all():
            left = np.flatnonzero(~found.reached)
            near = self._nearest(rows[left], used + each, seed)[:, used:]
            self._try(found, left, rows[left], self._seeds(seed).q[near], limits)
            used, each = used + each, min(2 * each, 16, total - used - each)
        return found

    def _one_by_one(self, found: Found, rows: np.ndarray, count: int, limits: tuple[Floats, Floats], seed: int) -> int:
        """Start a single problem from the nearest seeds, one after the other, until it is solved; the number of starts."""
        if count == 0:
            return 0
        constants, q = self._constants(self.tasks, limits, rows), self._seeds(seed).q
        near = self._nearest(rows, 1, seed)[0]
        for n in range(count):
            if n == 1:
                near = self._nearest(rows, count, seed)[0]
            k = near[n]
            state = self._iterate(self.program, "reach", q[k : k + 1], constants)
            reached = state["done"][0] == REACHED
            found.starts[0] += 1
            found.iterations[0] += int(state["count"][0])
            if reached or state["cost"][0] < found.cost[0]:
                found.q[0], found.cost[0] = state["q"][0], state["cost"][0]
            if reached:
                found.reached[0] = True
                break
        return count

    def _seeds(self, seed: int) -> Seeds:
        if self._found_seeds is None:
            self._found_seeds = self.workspace.seeds(
                self.program, self.tasks, self.data[:1], self.limits, self.p[:1], seed
            )
        return self._found_seeds

    def _nearest(self, rows: np.ndarray, most: int, seed: int) -> np.ndarray:
        """Numbers (b, most) of seeds: first those nearest to the targets, then any."""
        seeds = self._seeds(seed)
        nearest = min(NEAR, most) if seeds.near.shape[1] else 0  # gaze and functions have no place that could be near
        if nearest < most:
            others = np.random.default_rng(seed).permutation(SEEDS)[: most - nearest]
            first = self._nearest(rows, nearest, seed) if nearest else np.zeros((len(rows), 0), dtype=int)
            return np.concatenate([first, np.tile(others, (len(rows), 1))], axis=1)
        target = self._flat(_targets(self.tasks)) * seeds.weights
        if len(target) > 1:
            target = target[rows]
        elif len(rows) > 1:
            target = np.broadcast_to(target, (len(rows), target.shape[1]))
        order = np.empty((len(rows), most), dtype=int)
        for begin in range(0, len(rows), CHUNK):
            distance = seeds.square - 2.0 * (target[begin : begin + CHUNK] @ seeds.near.T)
            if most == 1:
                order[begin : begin + CHUNK, 0] = np.argmin(distance, axis=1)
                continue
            nearest = np.argpartition(distance, most - 1, axis=1)[:, :most]
            ranked = np.argsort(np.take_along_axis(distance, nearest, axis=1), axis=1)
            order[begin : begin + CHUNK] = np.take_along_axis(nearest, ranked, axis=1)
        return order

    def _try(self, found: Found, at: np.ndarray, rows: np.ndarray, q: Floats, limits: tuple[Floats, Floats]) -> None:
        """Start the problems ``rows`` from q (b, s, nq) and keep the best results at the places ``at``."""
        b, s = q.shape[:2]
        constants = self._constants(self.tasks, limits, np.repeat(rows, s) if s > 1 else rows)
        state = self._iterate(self.program, "reach", q.reshape(b * s, -1), constants)
        reached = (state["done"] == REACHED).reshape(b, s)
        cost = np.where(reached, -1.0, state["cost"].reshape(b, s))
        best = np.argmin(cost, axis=1)
        one = np.arange(b)
        better = cost[one, best] < found.cost[at]
        found.q[at[better]] = state["q"].reshape(b, s, -1)[one, best][better]
        found.cost[at[better]] = cost[one, best][better]
        found.reached[at] |= reached[one, best]
        found.starts[at] += s
        found.iterations[at] += state["count"].reshape(b, s).sum(axis=1).astype(int)

    # --- after the search -----------------------------------------------------------------------------------------------------

    def refine_unreached(self, found: Found) -> None:
        """The least residual near the best configuration, to second order, with closed loops."""
        left = np.flatnonzero(~found.reached)
        constants = self._constants(self.tasks, self.limits, left, np.zeros((self.count, 0)))
        state = self._iterate(self.program, "refine", found.q[left], constants)
        found.q[left] = state["q"]
        found.iterations[left] += state["count"].astype(int)
        found.reached[left] = self._largest(found.q[left], left) <= self.tolerance[0]

    def lower_priority(self, found: Found, hard: Sequence[KinematicTask], soft: Sequence[KinematicTask]) -> None:
        """Minimise the residuals of ``soft`` without changing those of ``hard``."""
        program = self.workspace.program(hard, soft)
        rows = np.arange(self.count)
        wanted = self._rows(found.q, rows, hard)[0]
        state = self._iterate(program, "refine", found.q, self._constants([*hard, *soft], self.limits, rows, wanted))
        found.iterations[:] += state["count"].astype(int)
        # steps that ended before the first priority held again are finished, or not taken
        off = found.reached & ~(self._largest(state["q"], rows) <= self.tolerance[0])
        if np.any(off):
            at = np.flatnonzero(off)
            state["q"][at] = self._iterate(
                self.program, "reach", state["q"][at], self._constants(self.tasks, self.limits, at)
            )["q"]
            off[at] = ~(self._largest(state["q"][at], at) <= self.tolerance[0])
        found.q[~off] = state["q"][~off]

    def _rows(self, q: Floats, rows: np.ndarray, tasks: Sequence[KinematicTask]) -> tuple[Floats, ...]:
        """Residual, Jacobian, residual and Jacobian of closures, and branches at q (b, nq) of the problems ``rows``."""
        data = self.data if tasks is self.tasks else self._data(tasks)
        p = self.p if len(self.p) == 1 else self.p[rows]
        kernel = self.program.rows if tasks is self.tasks else self.workspace.program((), tasks).rows
        if len(q) == 1:
            found = kernel(q[0], data[0 if len(data) == 1 else rows[0]], p[0])
            return tuple([x[None] for x in found])
        return kernel(q, data if len(data) == 1 else data[rows], p)

    def _largest(self, q: Floats, rows: np.ndarray) -> Floats:
        """Largest residual (b,) of the rows that count."""
        r, _, phi, _, branches = self._rows(q, rows, self.tasks)
        counts = np.concatenate([task.weights() > 0.0 for task in self.tasks])
        left = np.maximum(np.max(np.abs(r[:, counts]), axis=1), np.max(np.abs(phi), axis=1, initial=0.0))
        return np.where(np.all(branches > 0.0, axis=1), left, np.inf)

    def residuals(self, q: Floats, tasks: Sequence[KinematicTask]) -> tuple[dict[str, Floats], dict[str, str]]:
        """Length (b,) of the residual of each part of each task, and its unit."""
        r = self._rows(q, np.arange(self.count), tasks)[0]
        found: dict[str, Floats] = {}
        units: dict[str, str] = {}
        start = 0
        for task in tasks:
            for item in task.parts:
                own = r[:, start + item.rows.start : start + item.rows.stop]
                own = own * (task.weights()[item.rows] > 0.0)
                label, number = item.noun, 1
                while label in found:
                    number += 1
                    label = f"{item.noun} ({number})"
                found[label], units[label] = np.sqrt(np.vecdot(own, own)), item.unit
            start += task.count
        return found, units

    def obstacles(self, found: Found, restarts: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Outcome, joints that block, and rank of the Jacobian (b,)."""
        outcome = np.full(self.count, IS_REACHED, dtype=object)
        blocking = np.full(self.count, None, dtype=object)
        blocking[:] = [()] * self.count
        rank = np.full(self.count, -1)
        if found.reached.all():
            return outcome, blocking, rank
        left = np.flatnonzero(~found.reached)
        outcome[left] = UNREACHABLE
        rank[left] = self._rank(found.q[left], left)
        lower, upper = self.limits
        if not np.any(np.isfinite(np.concatenate([lower, upper]))):
            return outcome, blocking, rank
        free = np.full_like(lower, -np.inf), np.full_like(upper, np.inf)
        beyond = self.run(left, found.q[left], restarts, seed, free)
        for at, q, reached in zip(left, beyond.q, beyond.reached, strict=True):
            if reached:
                outcome[at] = LIMITS
                blocking[at] = tuple(
                    name
                    for name, (k, i) in self.workspace.axes.items()
                    if not lower[i] - AT_LIMIT <= q[k] <= upper[i] + AT_LIMIT
                )
        return outcome, blocking, rank

    def _rank(self, q: Floats, rows: np.ndarray) -> np.ndarray:
        """Rank (b,) of the Jacobian of the tasks, with the joints at their limits held."""
        _, J, _, _, _ = self._rows(q, rows, self.tasks)
        J = J[:, np.concatenate([task.weights() > 0.0 for task in self.tasks])]
        for k, i in self.workspace.axes.values():
            held = (q[:, k] <= self.limits[0][i] + AT_LIMIT) | (q[:, k] >= self.limits[1][i] - AT_LIMIT)
            J[held, :, i] = 0.0
        values = np.linalg.svd(J, compute_uv=False)
        return np.count_nonzero(values > RANK * np.max(values, axis=1, keepdims=True), axis=1)
