"""A run as a function of named arrays with both derivatives: the basis of the bridges to PyTorch and JAX.

Arguments are "q", "v", "inputs", and pairs ("parameters", name) and ("gains", name); results are the records q (n, *batch, nq) and v (n, *batch, nv).
A derivative with respect to q is a vector of the space of q in the tangent of the manifold: ``A (A^T A)^-1 w`` for the derivative w with respect to
velocity coordinates.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from heavytop.compile import Kernel, Traced, adjoint, tangent
from heavytop.errors import SimulationError
from heavytop.simulate.controller import split_gains
from heavytop.simulate.gradients.rollout import Bars, Directions, Path, Rollout, Segment, Weights
from heavytop.simulate.spec import RunSpec

Argument = Hashable
Arrays = Mapping[Argument, np.ndarray]


class RunFunction:
    """A prepared run as a function.

    Parameters
    ----------
    spec : the run without its start. arguments : what is given at every call and differentiated by; "q" and "v" among them.
    memory : bytes for records, as of :func:`heavytop.gradient`.
    """

    def __init__(self, spec: RunSpec, arguments: Sequence[Argument], memory: float | None = None) -> None:
        self.arguments = tuple(arguments)
        kinds = {name[0] for name in self.arguments if isinstance(name, tuple)}
        kinds |= {"inputs"} & set(self.arguments)
        self.rollout = Rollout(spec, ("start", *sorted(kinds)), memory)

    def run(self, arrays: Arrays) -> Path:
        """Simulate."""
        given: dict[str, dict[str, np.ndarray]] = {"parameters": {}, "gains": {}}
        for name, array in arrays.items():
            if isinstance(name, tuple):
                given[name[0]][name[1]] = array
        return self.rollout.run(
            (arrays["q"], arrays["v"]), given["parameters"] or None, given["gains"] or None, arrays.get("inputs")
        )

    def records(self, path: Path) -> tuple[np.ndarray, np.ndarray]:
        """q and v at the records."""
        return self._batched(path, path.records["q"]), self._batched(path, path.records["v"])

    def _batched(self, path: Path, array: np.ndarray) -> np.ndarray:
        return array.reshape((len(array), *path.problem.batch, array.shape[-1]))

    def vjp(self, path: Path, arrays: Arrays, q_bar: np.ndarray, v_bar: np.ndarray) -> dict[Argument, np.ndarray]:
        """Weights of all arguments from weights of the records, each in the shape of its argument."""
        n, count, parts = len(q_bar), path.count, path.plan.parts
        bars = {"q": q_bar.reshape(n, count, -1), "v": v_bar.reshape(n, count, -1)}

        def between(segment: Segment) -> Weights:
            first, m = segment.first // parts, (segment.after - segment.first) // parts
            weights = {x: np.zeros((m * parts + 1, *bars[x].shape[1:])) for x in "qv"}
            for x in "qv":
                # the record between two segments belongs to the later one
                weights[x][:-1:parts] = bars[x][first : first + m]
            return weights

        found = path.pull({x: bars[x][-1] for x in "qv"}, between if q_bar[:-1].any() or v_bar[:-1].any() else None)
        return {name: self._bar(path, found, name, arrays[name]) for name in self.arguments}

    def _bar(self, path: Path, bars: Bars, name: Argument, array: np.ndarray) -> np.ndarray:
        problem, batch = path.problem, path.problem.batch
        if name == "q":
            value = bars.q.reshape((*batch, -1))
        elif name == "v":
            value = bars.v.reshape((*batch, -1))
        elif name == "inputs":
            u = np.zeros((len(problem.plan.table), path.count, problem.dynamics.nu)) if bars.u is None else bars.u
            value = u.reshape((len(u), *batch, u.shape[-1]))
            if array.ndim == 1:
                return _summed(value[0], array.shape)
            # (samples, ..., nu): the axes of the batch are between both
            inner = _summed(np.moveaxis(value, 0, -2), (*array.shape[1:-1], len(u), array.shape[-1]))
            return np.ascontiguousarray(np.moveaxis(inner, -2, 0))
        else:
            kind, label = name  # type: ignore[misc]
            if kind == "parameters":
                k = problem.dynamics.parameter_names.index(label)
                value = np.zeros(batch) if bars.p is None else bars.p[:, k].reshape(batch)
            else:
                law = problem.plan.control.law
                if law is None or bars.gains is None:
                    raise SimulationError(f"there is no gain {label!r}.")
                value = split_gains(law.gains, bars.gains.reshape((*batch, -1)))[label]
        return _summed(value, array.shape)

    def jvp(self, path: Path, arrays: Arrays, dots: Arrays) -> tuple[np.ndarray, np.ndarray]:
        """Directions of the records from directions of the arguments."""
        problem, batch, count = path.problem, path.problem.batch, path.count
        coordinates, names = problem.dynamics.coordinates, problem.dynamics.parameter_names

        def rows(array: np.ndarray, size: int) -> np.ndarray:
            return np.broadcast_to(array, (*batch, size)).reshape(1, count, size)

        given: dict[str, np.ndarray] = {}
        if "q" in dots:
            left = coordinates.left_inverse(problem.rows(problem.q))
            given["w"] = np.matvec(left, rows(dots["q"], problem.dynamics.nq))
        if "v" in dots:
            given["v"] = rows(dots["v"], problem.dynamics.nv)
        if "inputs" in dots:
            table = problem.plan.table
            u = np.broadcast_to(np.zeros(table.shape) + dots["inputs"], table.shape)
            spread = u.reshape(len(u), *(1,) * (len(batch) + 2 - u.ndim), *u.shape[1:])
            given["u"] = np.broadcast_to(spread, (len(u), *batch, u.shape[-1])).reshape(len(u), 1, count, -1)
        parts = {name: dot for name, dot in dots.items() if isinstance(name, tuple)}
        if any(name[0] == "parameters" for name in parts):
            given["p"] = np.zeros((1, count, len(names)))
            for name, dot in parts.items():
                if name[0] == "parameters":
                    given["p"][0, :, names.index(name[1])] = np.broadcast_to(dot, batch).reshape(count)
        law = problem.plan.control.law
        if law is not None and any(name[0] == "gains" for name in parts):
            flat = []
            for label, value in law.gains.items():
                dot = parts.get(("gains", label), np.zeros(value.shape))
                flat.append(np.broadcast_to(dot, (*batch, *value.shape)).reshape(1, count, value.size))
            given["gains"] = np.concatenate(flat, axis=-1)
        moved = path.push(Directions(1, **given))
        return self._batched(path, moved["q"][:, 0]), self._batched(path, moved["v"][:, 0])


class TracedFunction:
    """A traced function with native code of its values and of both derivatives.

    Parameters
    ----------
    by : numbers of the inputs that it is differentiated by. outputs : names of the results.
    """

    def __init__(self, traced: Traced, by: Sequence[int], outputs: Sequence[str]) -> None:
        self.traced, self.by = traced, tuple(by)
        self.results = tuple(list(traced.outputs).index(name) for name in outputs)
        self.kernel = Kernel(traced)
        back, self.reached = adjoint(traced, self.by, self.results)
        self.back = Kernel(back)
        along, self.moved = tangent(traced, self.by)
        self.along = Kernel(along)

    def values(self, arguments: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        """The results."""
        found = self.kernel(*arguments)
        return tuple(found[k] for k in self.results)

    def vjp(self, arguments: Sequence[np.ndarray], bars: Sequence[np.ndarray]) -> dict[int, np.ndarray]:
        """Weights of the inputs, by their numbers."""
        found = dict(zip(self.reached, self.back(*arguments, *bars), strict=True))
        return {
            k: _summed(found[k], arguments[k].shape) if k in found else np.zeros_like(arguments[k]) for k in self.by
        }

    def jvp(self, arguments: Sequence[np.ndarray], dots: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        """Directions of the results."""
        count = len(self.traced.outputs)
        found = self.along(*arguments, *dots)
        moved = dict(zip(self.moved, found[count:], strict=True))
        return tuple(moved.get(k, np.zeros_like(found[k])) for k in self.results)


def _summed(value: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """A sum over the axes along which an argument of this shape was broadcast."""
    extra = value.ndim - len(shape)
    value = value.sum(axis=tuple(range(extra))) if extra > 0 else value
    axes = tuple(k for k, n in enumerate(shape) if n == 1 and value.shape[k] != 1)
    value = value.sum(axis=axes, keepdims=True) if axes else value
    return np.array(np.broadcast_to(value, shape))
