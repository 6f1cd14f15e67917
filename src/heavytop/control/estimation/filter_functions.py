"""The error-state Kalman filter as traced functions of one memory vector: predict, update by a sensor, copy the state for a late sensor.

The memory is z = (x, b, copies, P, i, t): state, biases, copies of (x, b) at the sampling times of late readings, covariance (upper triangle), last
inputs, time. The error is e_z = (e, e_b, errors of the copies), and with F, G the slopes of the step and H that of an output

    P <- F P F^T + G W G^T,      S = H P H^T + R,      K = P H^T S^-1,      delta = K r,
    P <- J ((I - K H) P (I - K H)^T + K R K^T) J^T,    x <- retract(x, delta),

where J = Y(x) d retract(x_hat, delta) / d delta takes errors about the old estimate to errors about the new one. A late reading is compared with the
copy that was made when it was taken: exact, and its correction reaches the present state by the correlation of both.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from heavytop._arrays import (
    Array,
    block,
    concatenate,
    from_sx,
    is_symbolic,
    jacobian,
    part,
    sparse,
    split,
    substitute,
    symbol,
    to_sx,
    transpose,
)
from heavytop.compile import Kernel, Traced, trace_of
from heavytop.control.estimation.model_sensors import ModelSensor
from heavytop.control.estimation.process import Process
from heavytop.functions import Value
from heavytop.system import half_solve, solve_definite, symmetric


def packed(P: Array) -> Array:
    """The upper triangle (n (n + 1) / 2,) of symmetric matrices (..., n, n), row by row.

    >>> packed(np.array([[1.0, 2.0], [2.0, 3.0]]))
    array([1., 2., 3.])
    """
    rows, columns = np.triu_indices(P.shape[-1])
    if is_symbolic(P):
        flat = to_sx(P)
        return from_sx(flat[(rows * P.shape[-1] + columns).tolist()], (len(rows),))
    return P[..., rows, columns]


def unpacked(x: Array, n: int) -> Array:
    """Symmetric matrices (..., n, n) of their upper triangles.

    >>> unpacked(np.array([1.0, 2.0, 3.0]), 2)
    array([[1., 2.],
           [2., 3.]])
    """
    places = np.zeros((n, n), dtype=int)
    rows, columns = np.triu_indices(n)
    places[rows, columns] = places[columns, rows] = np.arange(len(rows))
    if is_symbolic(x):
        return from_sx(to_sx(x)[places.reshape(-1).tolist()], (n, n))
    return x[..., places]


class Memory(NamedTuple):
    """Parts of z: state, biases, copies of both, covariance (n, n), last inputs, time (1,)."""

    x: Array
    b: Array
    copies: tuple[Array, ...]
    P: Array
    i: Array
    t: Array


@dataclass(frozen=True, eq=False)
class FilterFunctions(Value):
    """Traced functions of the filter.

    Parameters
    ----------
    process : process of the state. sensors : their order is that of the biases; those of the inputs of the process first.
    period : length of a step, s. parameters : (np,) of the model.
    """

    process: Process
    sensors: tuple[ModelSensor, ...]
    inputs: tuple[ModelSensor, ...]
    period: float
    parameters: tuple[float, ...]

    # --- sizes -----------------------------------------------------------------------------------------------------------------

    @cached_property
    def biased(self) -> tuple[ModelSensor, ...]:
        """Sensors with an estimated bias."""
        return tuple(s for s in (*self.inputs, *self.sensors) if s.has_bias)

    @cached_property
    def nb(self) -> int:
        """Number of biases."""
        return sum(s.size for s in self.biased)

    @property
    def ne(self) -> int:
        """Entries of the error without copies."""
        return self.process.ne + self.nb

    def steps_of(self, sensor: ModelSensor) -> tuple[int, int]:
        """Period and delay of a sensor in steps."""
        period = self.period if sensor.period is None else sensor.period
        return max(round(period / self.period), 1), round(sensor.delay / self.period)

    @cached_property
    def copy_slots(self) -> tuple[tuple[ModelSensor, int], ...]:
        """Late sensors and the number of their copies, newest first."""
        found = []
        for s in self.sensors:
            every, late = self.steps_of(s)
            if late:
                found.append((s, -(-late // every)))
        return tuple(found)

    @cached_property
    def copied(self) -> tuple[tuple[int, ...], ...]:
        """For each copy the entries of the error that it holds: those that the output depends on."""
        return tuple(self._needed(s) for s, count in self.copy_slots for _ in range(count))

    def _needed(self, sensor: ModelSensor) -> tuple[int, ...]:
        import casadi

        x, b = symbol("x", self.process.nx), symbol("b", self.nb)
        H, _ = self._slope(sensor, x, b, symbol("i", self.process.ni), symbol("t"))
        used = np.array(casadi.DM(sparse(H).to_casadi().sparsity(), 1).full(), dtype=bool).any(axis=0)
        J = self._transport(x, b, symbol("e", self.ne))
        mixes = np.array(casadi.DM(sparse(J).to_casadi().sparsity(), 1).full(), dtype=bool)
        while True:
            more = used | mixes[used].any(axis=0)
            if (more == used).all():
                return tuple(int(k) for k in np.flatnonzero(used))
            used = more

    @cached_property
    def n(self) -> int:
        """Entries of the whole error."""
        return self.ne + sum(map(len, self.copied))

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Sizes of the parts of z."""
        nx = self.process.nx
        copies = (nx + self.nb,) * len(self.copied)
        return (nx, self.nb, *copies, self.n * (self.n + 1) // 2, self.process.ni, 1)

    @property
    def size(self) -> int:
        """Length of z."""
        return sum(self.sizes)

    def parts(self, z: Array) -> Memory:
        """z by parts."""
        x, b, *copies, P, i, t = split(z, self.sizes)
        return Memory(x, b, tuple(copies), unpacked(P, self.n), i, t)

    @staticmethod
    def joined(m: Memory) -> Array:
        """The inverse of :meth:`parts`."""
        return concatenate(m.x, m.b, *m.copies, packed(m.P), m.i, m.t)

    # --- pieces ----------------------------------------------------------------------------------------------------------------

    def input_bias(self, b: Array) -> Array:
        """Biases (ni,) of the inputs of the process; zero where none is estimated."""
        parts, place = [], 0
        for s in self.inputs:
            parts.append(part(b, place, place + s.size) if s.has_bias else np.zeros(s.size))
            place += s.size if s.has_bias else 0
        return concatenate(*parts) if parts else np.zeros(0)

    def _own_bias(self, sensor: ModelSensor) -> int | None:
        """Place of the bias of a sensor among the biases."""
        place = 0
        for s in self.biased:
            if s is sensor:
                return place
            place += s.size
        return None

    def _p(self, t: Array) -> Array:
        p = np.asarray(self.parameters)
        return p if self.process.model.description.time is None else concatenate(p[:-1], np.reshape(t, (1,)))

    def output(self, sensor: ModelSensor, x: Array, b: Array, i: Array, t: Array, w: Array | None = None) -> Array:
        """The expected reading (reading_size,)."""
        m = self.process.model
        q, v = self.process.state(x, self.input_bias(b), i)
        u = np.zeros(m.nu) if self.inputs else i
        y = sensor.traced(m).expressions(t, q, v, u, np.zeros(m.nv) if w is None else w, self._p(t))[0]
        place = self._own_bias(sensor)
        return y if place is None else y + part(b, place, place + sensor.size)

    def _slope(self, sensor: ModelSensor, x: Array, b: Array, i: Array, t: Array) -> tuple[Array, Array]:
        """H (size, ne) and the covariance (size, size) of a reading, with that of disturbances which the sensor measures."""
        m = self.process.model
        w = symbol("w", m.nv)
        y = self.output(sensor, x, b, i, t, w)
        up = sparse(sensor.lift(y))
        H = block([[up @ sparse(jacobian(y, x)) @ sparse(self.process.A(x)), up @ sparse(jacobian(y, b))]])
        none = lambda value: substitute(value, w, np.zeros(m.nv))  # noqa: E731
        R = np.diag(sensor.deviations("noise") ** 2)
        if not self.inputs:
            felt = sparse(none(up @ sparse(jacobian(y, w))))
            R = felt @ sparse(np.diag(self.process.deviations() ** 2)) @ transpose(felt) + sparse(R)
        return sparse(none(H)), sparse(R)

    def _retract(self, x: Array, b: Array, e: Array) -> tuple[Array, Array]:
        return self.process.retract(x, part(e, 0, self.process.ne)), b + part(e, self.process.ne, self.ne)

    def _transport(self, x: Array, b: Array, delta: Array) -> Array:
        """J (ne, ne) from errors about an estimate to errors about the corrected one."""
        return _diagonal([sparse(self.process.transport(x, part(delta, 0, self.process.ne))), sparse(np.eye(self.nb))])

    def _walks(self) -> np.ndarray:
        """Variances (nb,) by which biases grow in a step."""
        return np.concatenate([s.deviations("walk") ** 2 * self.period for s in self.biased] or [np.zeros(0)])

    def linear_step(self, x: Array, b: Array, i: Array, t: Array) -> tuple[Array, Array, Array]:
        """The next state (nx,), F (ne, ne) and the covariance (ne, ne) that a step adds."""
        p = self.process
        w = symbol("w", p.nw)
        own = symbol("own", self.nb)
        moved = p.step(x, self.input_bias(own), i, w, t)
        still = lambda value: substitute(substitute(value, w, np.zeros(p.nw)), own, b)  # noqa: E731
        following = still(moved)
        Y = sparse(p.Y(following))
        F = Y @ sparse(still(jacobian(moved, x))) @ sparse(p.A(x))
        G = Y @ sparse(still(jacobian(moved, w)))
        Q = G @ sparse(np.diag(p.deviations() ** 2)) @ transpose(G)
        if not self.nb:
            return following, sparse(F), sparse(Q)
        by_bias = Y @ sparse(still(jacobian(moved, own)))
        zero = np.zeros((self.nb, p.ne))
        F = block([[F, by_bias], [sparse(zero), sparse(np.eye(self.nb))]])
        return following, sparse(F), _diagonal([sparse(Q), sparse(np.diag(self._walks()))])

    # --- functions -------------------------------------------------------------------------------------------------------------

    @cached_property
    def predict(self) -> Traced:
        """(z, i) -> z one step later."""
        z, i = symbol("z", self.size), symbol("i", self.process.ni)
        m = self.parts(z)
        x, F, Q = self.linear_step(m.x, m.b, i, m.t[0])
        ne, n = self.ne, self.n
        own = F @ m.P[:ne, :ne] @ transpose(F) + Q
        P = own
        if n > ne:
            across = F @ m.P[:ne, ne:]
            P = block([[own, across], [transpose(across), m.P[ne:, ne:]]])
        following = m._replace(x=x, P=symmetric(P), i=i, t=m.t + self.period)
        return trace_of("predict", {"z": z, "i": i}, {"z_next": self.joined(following)})

    @cached_property
    def slopes(self) -> Traced:
        """(x, b, i, t) -> next x, F and Q, for smoothers."""
        s = {
            "x": symbol("x", self.process.nx),
            "b": symbol("b", self.nb),
            "i": symbol("i", self.process.ni),
            "t": symbol("t"),
        }
        x, F, Q = self.linear_step(*s.values())
        return trace_of("slopes", s, {"x_next": x, "F": _dense(F), "Q": _dense(Q)})

    def outputs(self, sensor: ModelSensor) -> Traced:
        """(x, b, i, t) -> expected reading, H and R."""
        s = {
            "x": symbol("x", self.process.nx),
            "b": symbol("b", self.nb),
            "i": symbol("i", self.process.ni),
            "t": symbol("t"),
        }
        H, R = self._slope(sensor, *s.values())
        return trace_of("output", s, {"y": self.output(sensor, *s.values()), "H": _dense(H), "R": _dense(R)})

    @cached_property
    def updates(self) -> dict[str, Traced]:
        """:meth:`update` by sensor."""
        return {s.label: self.update(s) for s in self.sensors}

    @cached_property
    def copies(self) -> dict[str, Traced]:
        """:meth:`copy` by late sensor."""
        return {s.label: self.copy(s) for s, _ in self.copy_slots}

    def update(self, sensor: ModelSensor) -> Traced:
        """(z, y, use) -> z after a reading y, unless ``use`` is zero or the gate rejects it; residual, its squared length, whether it was used."""
        z, y, use = symbol("z", self.size), symbol("y", sensor.reading_size), symbol("use")
        following, r, nis, used = self._updated(self.parts(z), sensor, y, use)
        outputs = {"z_next": self.joined(following), "r": r, "nis": nis, "used": used}
        return trace_of(f"update {sensor.label}", {"z": z, "y": y, "use": use}, outputs)

    def _updated(self, m: Memory, sensor: ModelSensor, y: Array, use: Array) -> tuple[Memory, Array, Array, Array]:
        """The memory after a reading, the residual, its normalised square and whether it was used."""
        slot = self._oldest(sensor)
        nx, _, late = self.process.nx, *self.steps_of(sensor)
        seen = concatenate(m.x, m.b) if slot is None else m.copies[slot]
        at = part(seen, 0, nx), part(seen, nx, nx + self.nb), m.i, m.t[0] - late * self.period
        r = sensor.residual(y, self.output(sensor, *at))
        H, R = self._slope(sensor, *at)
        H = sparse(H @ sparse(self._selection(slot)))
        PH = m.P @ transpose(H)
        S = symmetric(H @ PH + R)
        both = np.concatenate([transpose(PH), np.reshape(r, (sensor.size, 1))], axis=1)
        halves, weighted = half_solve(S, both)  # K H P = Y^T W and K r = Y^T w
        Y, W, w = halves[:, : self.n], weighted[:, : self.n], weighted[:, self.n]
        nis = np.vecdot(halves[:, self.n], w)
        accepted = np.where(use > 0.5, 1.0, 0.0)
        if sensor.gate is not None:
            from scipy.stats import chi2

            accepted = accepted * np.where(nis <= float(chi2.ppf(sensor.gate, sensor.size)), 1.0, 0.0)
        choose = lambda new, old: np.where(accepted > 0.5, new, old)  # noqa: E731
        # without a gain the covariance stays as it is, to the last bit
        delta = np.matvec(transpose(Y), choose(w, 0.0))
        moved, J = self._corrected(m, delta, slot)
        if slot is None:
            K = choose(transpose(solve_definite(S, transpose(PH))), 0.0)
            P = self._joseph(m.P, J, K, H, R)
        else:
            P = self._reduced(m.P, J, Y, choose(W, 0.0), self._live(slot))
        x, b = choose(moved.x, m.x), choose(moved.b, m.b) if self.nb else m.b
        copies = tuple(choose(new, old) for new, old in zip(moved.copies, m.copies, strict=True))
        return m._replace(x=x, b=b, copies=copies, P=P), r, nis, accepted

    def _live(self, slot: int) -> list[int]:
        """Entries of the error that are used after an update by a copy: that copy itself is not."""
        start = self.ne + sum(map(len, self.copied[:slot]))
        return [k for k in range(self.n) if not start <= k < start + len(self.copied[slot])]

    @staticmethod
    def _joseph(P: Array, J: Array, K: Array, H: Array, R: Array) -> Array:
        """The covariance (n, n) after a correction."""
        JK = sparse(J @ K)
        kept = J - JK @ H
        return symmetric(kept @ P @ transpose(kept) + JK @ R @ transpose(JK))

    @staticmethod
    def _reduced(P: Array, J: Array, Y: Array, W: Array, live: list[int]) -> Array:
        """J (P - Y^T W) J^T in the live rows and columns, where H is zero: Joseph's form rounds in the same way there and takes twice the time."""
        import casadi

        J, Y, W = _array(J.to_casadi()[live, live]), Y.to_casadi()[:, live], W.to_casadi()[:, live]
        full = casadi.SX(P.to_casadi())
        full[live, live] = symmetric(J @ symmetric(_array(full[live, live] - Y.T @ W)) @ transpose(J)).to_casadi()
        return _array(full)

    def _oldest(self, sensor: ModelSensor) -> int | None:
        """Number of the oldest copy of a late sensor."""
        place = 0
        for s, count in self.copy_slots:
            if s is sensor:
                return place + count - 1
            place += count
        return None

    def _selection(self, slot: int | None) -> np.ndarray:
        """The matrix (ne, n) that takes the whole error to that of the state, or of a copy."""
        chosen = np.zeros((self.ne, self.n))
        if slot is None:
            chosen[:, : self.ne] = np.eye(self.ne)
            return chosen
        place = self.ne + sum(map(len, self.copied[:slot]))
        for k, entry in enumerate(self.copied[slot]):
            chosen[entry, place + k] = 1.0
        return chosen

    def _corrected(self, m: Memory, delta: Array, spent: int | None) -> tuple[Memory, Array]:
        """State and copies moved by the correction (n,), except the spent copy, and J (n, n)."""
        own = part(delta, 0, self.ne)
        x, b = self._retract(m.x, m.b, own)
        blocks, copies, nx = [self._transport(m.x, m.b, own)], [], self.process.nx
        for slot, copy in enumerate(m.copies):
            if slot == spent:
                copies.append(copy)
                blocks.append(sparse(np.eye(len(self.copied[slot]))))
                continue
            e = np.matvec(self._selection(slot), delta)
            at = part(copy, 0, nx), part(copy, nx, nx + self.nb)
            copies.append(concatenate(*self._retract(*at, e)))
            chosen = list(self.copied[slot])
            J = self._transport(*at, e).to_casadi()
            blocks.append(_array(J[chosen, chosen]))
        return m._replace(x=x, b=b, copies=tuple(copies)), _diagonal(blocks)

    def copy(self, sensor: ModelSensor) -> Traced:
        """(z, use) -> z with a new copy of the state for a late sensor; the oldest one is dropped."""
        z, use = symbol("z", self.size), symbol("use")
        return trace_of(
            f"copy {sensor.label}",
            {"z": z, "use": use},
            {"z_next": self.joined(self._copied_at(self.parts(z), sensor, use))},
        )

    def _copied_at(self, m: Memory, sensor: ModelSensor, use: Array) -> Memory:
        """The memory with a new copy, unless ``use`` is zero."""
        newest = next(k for k in range(len(self.copied)) if self._owner(k) is sensor)
        last = self._oldest(sensor)
        assert last is not None
        T = np.eye(self.n)
        copies = list(m.copies)
        place = self.ne + sum(map(len, self.copied[:newest]))
        width = len(self.copied[newest])
        for k in range(last - newest, -1, -1):  # oldest first
            rows = slice(place + k * width, place + (k + 1) * width)
            T[rows] = 0.0
            if k == 0:
                T[rows, list(self.copied[newest])] = np.eye(width)
                copies[newest] = concatenate(m.x, m.b)
            else:
                T[rows, place + (k - 1) * width : place + k * width] = np.eye(width)
                copies[newest + k] = m.copies[newest + k - 1]
        S = sparse(T)
        P = symmetric(S @ m.P @ transpose(S))
        choose = lambda new, old: np.where(use > 0.5, new, old)  # noqa: E731
        chosen = tuple(choose(new, old) for new, old in zip(copies, m.copies, strict=True))
        return m._replace(copies=chosen, P=choose(P, m.P))

    def _owner(self, slot: int) -> ModelSensor:
        owners = [s for s, count in self.copy_slots for _ in range(count)]
        return owners[slot]

    # --- native ----------------------------------------------------------------------------------------------------------------

    @cached_property
    def predict_kernel(self) -> Kernel:
        """Native code of :attr:`predict`."""
        return Kernel(self.predict)

    @cached_property
    def slopes_kernel(self) -> Kernel:
        """Native code of :attr:`slopes`."""
        return Kernel(self.slopes)

    @cached_property
    def update_kernels(self) -> dict[str, Kernel]:
        """Native code of :meth:`update` by sensor."""
        return {name: Kernel(traced) for name, traced in self.updates.items()}

    @cached_property
    def output_kernels(self) -> dict[str, Kernel]:
        """Native code of :meth:`outputs` by sensor."""
        return {s.label: Kernel(self.outputs(s)) for s in self.sensors}

    @cached_property
    def copy_kernels(self) -> dict[str, Kernel]:
        """Native code of :meth:`copy` by late sensor."""
        return {name: Kernel(traced) for name, traced in self.copies.items()}


def _array(value: object) -> Array:
    import casadi

    return casadi.ArrayInterface(value, 2)


def _dense(matrix: Array) -> Array:
    import casadi

    return _array(casadi.densify(matrix.to_casadi()))


def _diagonal(blocks: list[Array]) -> Array:
    """Block-diagonal matrix with structural zeros."""
    import casadi

    return _array(casadi.diagcat(*(b.to_casadi() for b in blocks)))
