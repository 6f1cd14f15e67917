"""The iterations of inverse kinematics as native code: one traced function each, repeated natively for many problems.

``reach`` is the method of Levenberg and Marquardt on all rows r of the first priority and of loops, with damping proportional to the squared
residual (Sugihara 2011), so that it converges quadratically where the residual vanishes:

    d = -J_f^T (J_f J_f^T + mu I)^-1 r,        mu = alpha |r|^2,

or the equal form with J_f^T J_f if there are more rows than velocities. J_f has zero columns for joints that are at a limit and that -J^T r would
push beyond it; a step is clipped at the limits. alpha falls after steps that reduce |r| and grows after others, which are not taken.

``refine`` minimises the rows s of a lower priority (or all of them where the first cannot be reached) subject to h(q) = h* of the hard rows, by
Newton's method on the manifold h = h*: with the multipliers l of the hard rows, the exact Hessian

    H = d/dq (J_s^T s + J_h^T l),        (H + mu I) d + J_h^T dl = -J_s^T s - J_h^T l,        J_h d = h* - h,

followed by corrections -J_h^+ (h - h*), so that hard rows hold after every step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from heavytop._arrays import Array, concatenate, from_sx, part, shape, symbol, to_sx
from heavytop.compile import Call, Functions, Kernel, Repeat, Schedule, Stepper, Traced, trace_of
from heavytop.functions import store
from heavytop.system.constraints.constraints import function_rows, loop_rows
from heavytop.system.expressions import Expressions
from heavytop.system.inverse_kinematics.tasks import FunctionTask, Kinematic, KinematicTask, TaskRows

ROUND = 12
"""Iterations in a row of native code; then the problems that are done leave the batch."""
FLOOR = 1e-13
"""Least damping relative to the squared Jacobian, for rows that depend on each other."""
LONGEST = 1.0
"""Longest step of a joint, rad or m."""
FIRST_ALPHA = 0.3
LEAST_ALPHA, MOST_ALPHA = 1e-4, 1e10
SLOW, PATIENCE = 0.1, 4
"""A start is given up after this number of steps in a row that reduce the squared residual by less than this share,"""
CLOSE, LONG_PATIENCE = 1e-4, 24
"""or, where the squared residual is below this one, after this number: convergence to singular configurations is slow."""
EXACT_UP_TO = 24
"""Number of velocities up to which the Hessian is exact; beyond it is Gauss' and Newton's."""
FLAT = 1e-11
"""Slope of the squared residual that counts as none."""
RESTORED, LAST = 2, 12
"""Corrections of the hard rows after each step of ``refine``, and its steps without progress before it ends."""
STATE = ("q", "alpha", "slow", "done", "count", "cost")
REACHED, STALLED = 1.0, 2.0
"""Values of ``done``."""


T = TypeVar("T")


class TaskProgram:
    """Functions of a set of tasks of one description: ``hard`` ones, which hold, and ``soft`` ones, whose rows are minimised."""

    def __init__(
        self,
        expressions: Expressions,
        functions: Functions,
        hard: Sequence[KinematicTask],
        soft: Sequence[KinematicTask],
    ) -> None:
        self._expressions, self._functions, self._key = expressions, functions, functions.key
        self.hard, self.soft = tuple(hard), tuple(soft)
        self.sizes = tuple(np.shape(task.data())[-1] for task in (*hard, *soft))

    @cached_property
    def name(self) -> str | None:
        """Text that determines the functions; None if user-defined functions take part."""
        parts = [repr(_plain(task.structure)) for task in (*self.hard, *self.soft)]
        is_own = any(isinstance(task, FunctionTask) for task in (*self.hard, *self.soft))
        return (
            None
            if self._key is None or is_own
            else f"{self._key} inverse kinematics {len(self.hard)} {' '.join(parts)}"
        )

    @cached_property
    def kinematic(self) -> Kinematic:
        """Kinematics on symbols."""
        return Kinematic(self._expressions)

    @cached_property
    def symbols(self) -> dict[str, Array]:
        """Symbols of all inputs."""
        k, count = self.kinematic, sum(task.count for task in (*self.hard, *self.soft))
        return {
            "q": k.q, "alpha": symbol("alpha"), "slow": symbol("slow"), "done": symbol("done"), "count": symbol("count"),
            "cost": symbol("cost"),
            "data": symbol("data", sum(self.sizes)), "weight": symbol("weight", count), "lower": symbol("lower", k.nv),
            "upper": symbol("upper", k.nv), "p": k.p, "tolerance": symbol("tolerance"),
            "wanted": symbol("wanted", sum(task.count for task in self.hard)),
        }  # fmt: skip

    @cached_property
    def _task_rows(self) -> list[TaskRows]:
        starts = np.cumsum([0, *self.sizes])
        data = self.symbols["data"]
        return [
            task.rows(self.kinematic, part(data, int(a), int(b)))
            for task, a, b in zip((*self.hard, *self.soft), starts, starts[1:], strict=False)
        ]

    @cached_property
    def _closures(self) -> list[Any]:
        """TaskRows of loops and holonomic constraints."""
        d, tree = self._expressions.description, self.kinematic.tree
        rows = [loop_rows(loop, tree) for loop in d.loops]
        return rows + [function_rows(c, tree, self.kinematic.q, tree.v) for c in d.constraints if c.holonomic]

    @cached_property
    def closure_count(self) -> int:
        """Number of rows of loops and constraints."""
        return sum(shape(rows.phi)[0] for rows in self._closures)

    def _stacked(self, tasks: Sequence[TaskRows], weights: Array | None, closures: bool) -> tuple[Any, Any, Any]:
        """r, J and weights of rows of tasks and, first, of closures, as CasADi columns and matrices."""
        import casadi

        r = [to_sx(rows.phi) for rows in self._closures] if closures else []
        J = [casadi.SX(rows.Phi.to_casadi()) for rows in self._closures] if closures else []
        own = sum(x.shape[0] for x in r)
        r += [to_sx(rows.r) for rows in tasks]
        J += [casadi.SX(rows.J.to_casadi()) for rows in tasks]
        w = casadi.vertcat(casadi.SX.ones(own), casadi.SX(0, 1) if weights is None else to_sx(weights))
        if not r:
            return casadi.SX(0, 1), casadi.SX(0, self.kinematic.nv), w
        return casadi.vertcat(*r), casadi.vertcat(*J), w

    @cached_property
    def rows(self) -> Kernel:
        """(q, data, p) -> residual (m,), Jacobian (m, n) of the tasks, residual of closures (k,) and their branches."""
        return self._kernel("rows", self._traced_rows)

    def _traced_rows(self) -> Traced:
        s = self.symbols
        r, J, _ = self._stacked(self._task_rows, None, False)
        phi, Phi, _ = self._stacked((), None, True)
        outputs = {"r": from_sx(r, (r.shape[0],)), "J": from_sx(_rowwise(J), tuple(J.shape))}
        outputs |= {
            "phi": from_sx(phi, (phi.shape[0],)),
            "Phi": from_sx(_rowwise(Phi), tuple(Phi.shape)),
            "branches": self._branches,
        }
        return trace_of("rows", {name: s[name] for name in ("q", "data", "p")}, outputs)

    @property
    def _branches(self) -> Array:
        found = [rows.branch for rows in self._closures if rows.branch is not None]
        return concatenate(*found) if found else np.zeros(0)

    @cached_property
    def values(self) -> Kernel:
        """(q, data, p) -> values (k,) that come near to the targets of the tasks."""
        return self._kernel("values", self._traced_values)

    def _traced_values(self) -> Traced:
        s = self.symbols
        found = [rows.value for rows in self._task_rows if rows.value is not None]
        value = concatenate(*found) if found else np.zeros(0)
        return trace_of("values", {name: s[name] for name in ("q", "data", "p")}, {"value": value})

    def _kernel(self, label: str, build: Callable[[], Traced]) -> Kernel:
        return self._kept(label, 1, lambda text: Kernel.cached(text, build), lambda: Kernel(build()))

    def _kept(self, label: str, threads: int | None, cached: Callable[[str], T], fresh: Callable[[], T]) -> T:
        """Native code, from the store where a text determines it."""

        def find() -> T:
            text = f"{self.name} {label}"
            return (
                fresh() if self.name is None else store.get(("inverse kinematics", text, threads), lambda: cached(text))
            )

        return self._functions.get((id(self), label, threads), find)

    def stepper(self, kind: str, threads: int | None) -> Stepper:
        """The native loop of :meth:`reach` or :meth:`refine`."""
        build = {"reach": self._reach_schedule, "refine": self._refine_schedule}[kind]
        return self._kept(
            kind,
            threads,
            lambda text: Stepper.cached(text, build, threads=threads),
            lambda: Stepper(build(), threads=threads),
        )

    # --- steps within limits ----------------------------------------------------------------------------------------------------

    def _free(self, g: Any) -> Any:
        """1 for velocities that may move along -g, 0 for joints at a limit that would leave it (n,)."""
        import casadi

        free = casadi.SX.ones(self.kinematic.nv)
        q, lower, upper = (to_sx(self.symbols[name]) for name in ("q", "lower", "upper"))
        for k, i in self.kinematic.axes.values():
            held = casadi.logic_or(
                casadi.logic_and(q[k] <= lower[i], g[i] > 0), casadi.logic_and(q[k] >= upper[i], g[i] < 0)
            )
            free[i] = casadi.if_else(held, 0.0, 1.0)
        return free

    def _moved(self, q: Any, step: Any) -> Any:
        """q displaced by a step, clipped at the limits."""
        import casadi

        there = to_sx(self.kinematic.displaced(from_sx(step, (self.kinematic.nv,))))
        there = casadi.substitute(there, to_sx(self.symbols["q"]), q)
        lower, upper = to_sx(self.symbols["lower"]), to_sx(self.symbols["upper"])
        for k, i in self.kinematic.axes.values():
            there[k] = casadi.fmin(casadi.fmax(there[k], lower[i]), upper[i])
        return there

    # --- the first priority -----------------------------------------------------------------------------------------------------

    def _reach_schedule(self) -> Schedule:
        traced = self._reach()
        constants = tuple(name for name in traced.inputs if name not in STATE)
        loop = Repeat((Call("iterate", tuple(traced.inputs), STATE),), ROUND, "done")
        return Schedule({"iterate": traced}, dict(traced.inputs), STATE, [loop], constants=constants)

    def _reach(self) -> Traced:
        """One iteration of ``reach``."""
        import casadi

        s, sx = self.symbols, {name: to_sx(x) for name, x in self.symbols.items()}
        plain, J, w = self._stacked(self._task_rows, s["weight"], True)
        r, J = w * plain, casadi.mtimes(casadi.diag(w), J)
        square = casadi.dot(r, r)
        Jf = casadi.mtimes(J, casadi.diag(self._free(casadi.mtimes(J.T, r))))
        mu = sx["alpha"] * square
        if J.shape[0] <= J.shape[1]:
            K = casadi.mtimes(Jf, Jf.T)
            step = -casadi.mtimes(Jf.T, _solve(K, mu, r))
        else:
            step = -_solve(casadi.mtimes(Jf.T, Jf), mu, casadi.mtimes(Jf.T, r))
        step = step * casadi.fmin(1.0, LONGEST / casadi.fmax(casadi.mmax(casadi.fabs(step)), 1e-300))
        there = self._moved(sx["q"], step)
        new = casadi.substitute(plain, sx["q"], there)
        new_square = casadi.sumsqr(w * new)
        better = new_square < square
        q = casadi.if_else(better, there, sx["q"])
        alpha = casadi.if_else(
            better, casadi.fmax(0.3 * sx["alpha"], LEAST_ALPHA), casadi.fmin(6.0 * sx["alpha"], MOST_ALPHA)
        )
        slow = casadi.if_else(new_square > (1.0 - SLOW) * square, sx["slow"] + 1.0, 0.0)
        left = casadi.mmax(casadi.fabs(casadi.if_else(w > 0, casadi.if_else(better, new, plain), 0.0)))
        if shape(self._branches)[0]:
            branches = casadi.substitute(to_sx(self._branches), sx["q"], q)
            left = casadi.if_else(casadi.mmin(branches) > 0, left, 1e300)
        patience = casadi.if_else(square < CLOSE, LONG_PATIENCE, PATIENCE)
        over = casadi.if_else(left <= sx["tolerance"], REACHED, casadi.if_else(slow >= patience, STALLED, 0.0))
        after = {
            "q": q, "alpha": alpha, "slow": slow, "done": over, "cost": casadi.fmin(square, new_square), "count": sx["count"] + 1.0,
        }  # fmt: skip
        # problems that are done stay as they are
        outputs = {
            name: from_sx(casadi.if_else(sx["done"] > 0, sx[name], after[name]), shape(s[name])) for name in STATE
        }
        return trace_of("iterate", {name: x for name, x in s.items() if name != "wanted"}, outputs)

    # --- lower priorities, and least residuals ------------------------------------------------------------------------------------

    def _refine_schedule(self) -> Schedule:
        """One iteration of ``refine`` as calls: rows, multipliers, Hessian, step, restored hard rows, decision."""
        traced = {name: build() for name, build in self._refine_calls.items()}
        calls = [Call(name, tuple(f.inputs), tuple(f.outputs)) for name, f in traced.items()]
        items: list[Any] = [call for call in calls if call.function != "restore"]
        if "restore" in traced:
            items.insert(-1, Repeat((next(call for call in calls if call.function == "restore"),), RESTORED))
        buffers: dict[str, Any] = {}
        for f in traced.values():
            buffers |= f.inputs | f.outputs
        inner = {name for f in traced.values() for name in f.outputs} - set(STATE)
        constants = tuple(name for name in buffers if name not in inner and name not in STATE)
        return Schedule(traced, buffers, STATE, [Repeat(tuple(items), ROUND, "done")], constants=constants)

    @property
    def _refine_calls(self) -> dict[str, Any]:
        calls = {
            "rows": self._refine_rows, "multipliers": self._multipliers, "hessian": self._hessian, "step": self._newton_step,
            "restore": self._restore, "decide": self._decide,
        }  # fmt: skip
        if not shape(self._hard_rows["h"])[0]:
            del calls["restore"]
        return calls

    @cached_property
    def _hard_rows(self) -> dict[str, Array]:
        """Weighted rows h - h* with their Jacobian, and the weighted rows s with theirs."""
        import casadi

        weight, wanted = self.symbols["weight"], to_sx(self.symbols["wanted"])
        split = sum(task.count for task in self.hard)
        h, Jh, wh = self._stacked(self._task_rows[: len(self.hard)], part(weight, 0, split), True)
        h = wh * (h - casadi.vertcat(casadi.SX.zeros(h.shape[0] - split), wanted))
        soft, Js, ws = self._stacked(self._task_rows[len(self.hard) :], part(weight, split, shape(weight)[0]), False)
        matrices = {"Jh": casadi.mtimes(casadi.diag(wh), Jh), "Js": casadi.mtimes(casadi.diag(ws), Js)}
        columns = {"h": h, "s": ws * soft}
        made = {name: from_sx(x, (x.shape[0],)) for name, x in columns.items()}
        return made | {name: from_sx(_rowwise(x), tuple(x.shape)) for name, x in matrices.items()}

    @cached_property
    def _inner(self) -> dict[str, Array]:
        """Symbols of the buffers between the calls."""
        n, m, soft = self.kinematic.nv, shape(self._hard_rows["h"])[0], shape(self._hard_rows["s"])[0]
        sizes = {
            "h": (m,), "Jh": (m, n), "s": (soft,), "Js": (soft, n), "l": (m,), "free": (n,), "slope": (n,), "H": (n, n), "move": (n,),
            "there": (self.kinematic.nq,),
        }  # fmt: skip
        return {name: np.reshape(symbol(name, int(np.prod(size))), size) for name, size in sizes.items()}

    def _matrix(self, name: str) -> Any:
        """The symbol of Jh or Js with the structural zeros of its expression."""
        import casadi

        pattern = casadi.sparsify(_sx(self._hard_rows[name])).sparsity()
        return casadi.project(_sx(self._inner[name]), pattern)

    def _call(self, name: str, inputs: Sequence[str], outputs: dict[str, Array]) -> Traced:
        known = self.symbols | self._inner
        traced = trace_of(
            name, {label: np.reshape(known[label], (int(np.prod(shape(known[label]))),)) for label in inputs}, outputs
        )
        return replace(traced, inputs={label: shape(known[label]) for label in inputs})

    @property
    def _given(self) -> tuple[str, ...]:
        return "data", "weight", "p", "wanted"

    def _refine_rows(self) -> Traced:
        return self._call("rows", ("q", *self._given), self._hard_rows)

    def _multipliers(self) -> Traced:
        """Least multipliers l of the hard rows, joints that limits leave free, slope of the Lagrangian along these."""
        import casadi

        Jh, Js, s = self._matrix("Jh"), self._matrix("Js"), to_sx(self._inner["s"])
        g = casadi.mtimes(Js.T, s)
        least = lambda J: -_solve(casadi.mtimes(J, J.T), 0.0, casadi.mtimes(J, g))  # noqa: E731
        free = self._free(g + casadi.mtimes(Jh.T, least(Jh)))
        l = least(casadi.mtimes(Jh, casadi.diag(free)))
        slope = free * (g + casadi.mtimes(Jh.T, l))
        outputs = {name: from_sx(x, (x.shape[0],)) for name, x in (("l", l), ("free", free), ("slope", slope))}
        return self._call("multipliers", ("q", "lower", "upper", "Jh", "Js", "s"), outputs)

    def _hessian(self) -> Traced:
        """H = d/dq (J_s^T s + J_h^T l) along the velocities, symmetric; J_s^T J_s for many velocities."""
        import casadi

        rows, l, n = self._hard_rows, _sx(self._inner["l"]), self.kinematic.nv
        Js, Jh = (casadi.sparsify(_sx(rows[name])) for name in ("Js", "Jh"))
        if n > EXACT_UP_TO:
            H = casadi.mtimes(Js.T, Js)
        else:
            g = casadi.mtimes(Js.T, _sx(rows["s"])) + casadi.mtimes(Jh.T, l)
            A = casadi.SX(self.kinematic.tree.joint_kinematics_matrix.to_casadi())
            H = casadi.mtimes(casadi.jacobian(g, to_sx(self.symbols["q"])), A)
            H = 0.5 * (H + H.T)
        return self._call("hessian", ("q", "l", *self._given), {"H": from_sx(_rowwise(H), (n, n))})

    def _newton_step(self) -> Traced:
        """d and its place: H d + J^T dl = -slope, J d = -h, with joints at limits held."""
        import casadi

        inner, n = {name: _sx(x) for name, x in self._inner.items()}, self.kinematic.nv
        mask = casadi.diag(inner["free"])
        J = casadi.mtimes(self._matrix("Jh"), mask)
        H = casadi.mtimes(casadi.mtimes(mask, inner["H"]), mask) + casadi.SX.eye(n) - mask
        both = _solve(H, to_sx(self.symbols["alpha"]), casadi.horzcat(inner["slope"], J.T))
        down, across = both[:, 0], both[:, 1:]
        dl = _solve(casadi.mtimes(J, across), 0.0, inner["h"] - casadi.mtimes(J, down))
        step = -down - casadi.mtimes(across, dl)
        step = step * casadi.fmin(1.0, LONGEST / casadi.fmax(casadi.mmax(casadi.fabs(step)), 1e-300))
        there = self._moved(to_sx(self.symbols["q"]), step)
        outputs = {"move": from_sx(step, (n,)), "there": from_sx(there, (there.shape[0],))}
        return self._call("step", ("q", "alpha", "lower", "upper", "h", "Jh", "H", "free", "slope"), outputs)

    def _restore(self) -> Traced:
        """The configuration moved by -J_h^+ (h - h*)."""
        import casadi

        there, q = to_sx(self._inner["there"]), to_sx(self.symbols["q"])
        J = casadi.mtimes(casadi.sparsify(_sx(self._hard_rows["Jh"])), casadi.diag(to_sx(self._inner["free"])))
        back = -casadi.mtimes(J.T, _solve(casadi.mtimes(J, J.T), 0.0, to_sx(self._hard_rows["h"])))
        moved = casadi.substitute(self._moved(q, back), q, there)
        inputs = ("there", "free", "lower", "upper", *self._given)
        return self._call("restore", inputs, {"there": from_sx(moved, (moved.shape[0],))})

    def _decide(self) -> Traced:
        """Take the step if it reduces |s|^2 / 2 + (1 + 2 |l|) |h|, an exact penalty, which falls along the step whatever is left of h."""
        import casadi

        sx = {name: to_sx(x) for name, x in self.symbols.items()} | {name: to_sx(x) for name, x in self._inner.items()}
        factor, square, hold = 1.0 + 2.0 * _largest(sx["l"]), casadi.sumsqr(sx["s"]), _largest(sx["h"])
        h, s = (casadi.substitute(to_sx(self._hard_rows[name]), sx["q"], sx["there"]) for name in ("h", "s"))
        new_square = casadi.sumsqr(s)
        before, after = 0.5 * square + factor * _total(sx["h"]), 0.5 * new_square + factor * _total(h)
        slope = casadi.sumsqr(sx["slope"])
        downhill = casadi.logic_or(casadi.dot(sx["move"], sx["slope"]) < 0, hold > sx["tolerance"])
        better = casadi.logic_and(after < before, downhill)
        flat = casadi.logic_and(
            casadi.logic_and(slope <= FLAT**2 * (1.0 + square), hold <= sx["tolerance"]), casadi.logic_not(better)
        )
        alpha = casadi.if_else(better, 0.1 * sx["alpha"], casadi.fmin(10.0 * sx["alpha"] + 1e-6, MOST_ALPHA))
        slow = casadi.if_else(after > (1.0 - 1e-12) * before, sx["slow"] + 1.0, 0.0)
        over = casadi.if_else(flat, REACHED, casadi.if_else(slow >= LAST, STALLED, 0.0))
        after_state = {
            "q": casadi.if_else(better, sx["there"], sx["q"]), "alpha": alpha, "slow": slow, "done": over,
            "cost": casadi.if_else(better, new_square, square), "count": sx["count"] + 1.0,
        }  # fmt: skip
        outputs = {
            name: from_sx(casadi.if_else(sx["done"] > 0, sx[name], after_state[name]), shape(self.symbols[name]))
            for name in STATE
        }
        inputs = (*STATE, *self._given, "tolerance", "h", "s", "l", "slope", "move", "there")
        return self._call("decide", inputs, outputs)


def _solve(K: Any, mu: Any, right: Any) -> Any:
    """(K + mu I + rounding)^-1 right for a positive semidefinite matrix of symbols."""
    import casadi

    n = K.shape[0]
    if n == 0:
        return casadi.SX(0, right.shape[1])
    lifted = casadi.sparsify(K) + casadi.SX.eye(n) * (mu + FLOOR * casadi.trace(K) + 1e-300)
    D, LT, order = casadi.ldl(lifted)
    return casadi.ldl_solve(casadi.densify(right), D, LT, order)


def _sx(x: Array) -> Any:
    """The CasADi matrix or column behind an array."""
    import casadi

    return casadi.SX(x.to_casadi()) if len(shape(x)) == 2 else to_sx(x)


def _largest(r: Any) -> Any:
    """Largest entry of a column, 0 if it is empty."""
    import casadi

    return casadi.mmax(casadi.fabs(r)) if r.shape[0] else casadi.SX(0.0)


def _total(r: Any) -> Any:
    """Sum of the sizes of the entries of a column."""
    import casadi

    return casadi.sum1(casadi.fabs(r)) if r.shape[0] else casadi.SX(0.0)


def _rowwise(M: Any) -> Any:
    """A matrix as a column, row by row."""
    import casadi

    return casadi.densify(casadi.vec(M.T))


def _plain(structure: Any) -> Any:
    """A structure with classes by their names."""
    return tuple(item.__name__ if isinstance(item, type) else item for item in structure)
