"""The problem of a step with rigid contacts: velocities and impulses in Coulomb's cones, by Newton's method on an augmented Lagrangian.

Wanted are v and the impulses lam in the rows u = J v + bias of contacts with

    M (v - v_free) = J^T lam,     lam = P(lam - u / r),

where P projects each unit: a normal impulse on lam_n >= 0, its friction on the disc |lam_t| <= mu lam_n, dry friction on its interval; rows that are
held keep their value. The second equation holds for any r > 0 if and only if u and lam obey Signorini's and Coulomb's laws (Alart and Curnier
1991).

Where there are no more rows than velocities, W = J M^-1 J^T is formed and tried first: rows that the last impulses show to act come to rest. If no
contact slides and W is regular there, its factorisation solves the problem, and the residual proves it (:attr:`ContactSolver.direct`). All others are
iterated. With the impulses of the last round lam_k on the right-hand side, the first equation is solved for v by Newton's method with the exact,
nonsymmetric Jacobian ``M + J^T D J``, D the derivative of P; then lam_k moves on. This converges to the rigid solution, not to a soft one, and where
the impulses are not unique it stays near the most even ones. The unknowns are the velocities; W is not needed.

r = eps w with the mean w of the diagonal of W in a unit. A small eps converges in few rounds of lam_k, a large one in few of Newton's: each
trajectory raises its own where the line search stalls, and lowers it where lam_k converges slowly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from heavytop._arrays import Array, as_array, from_sx, symbol, to_sx
from heavytop.compile import Traced, trace_of
from heavytop.simulate.integrators.newton import factorised, least_degree
from heavytop.system import DRY, HELD, POINT, ContactRows, RowUnit, SparseLDL, minimum_degree

EPS = 1e-2
"""Regularisation relative to the compliance of a unit, at the start of a step."""
LEAST_EPS, LARGEST_EPS = 1e-8, 64.0
"""Least and largest regularisation; with the largest, r exceeds what the impulses of all units do to one, and Newton's step always descends."""
SLOW = 0.1
"""Decrease of the change of the impulses from one round of lam_k to the next above which the regularisation is lowered."""
SEARCHED = (1.0, 0.5, 0.25, 0.125, 0.0625, 0.03125, 0.0078125, 0.001953125)
"""Fractions of Newton's step that are tried, the largest that lowers the residual first."""
STALLED = 0.1
"""Fraction of Newton's step below which the regularisation is raised."""
ENOUGH = 1e-4
"""Least decrease of the merit relative to the fraction of the step."""
FLOOR = 1e-12
"""Share of the sum of all compliances that is added to that of a unit, whose rows may vanish."""
HIT = 2.0
"""Multiple of the change of a velocity in a step by smooth forces above which an approach is an impact, and a contact slides on."""
SLIPS = 1.0 - 1e-6
"""Share of the cone from which a contact slides."""
TURNED = 1e-3
"""Share of a span below which sliding stops at its begin."""
AIM = 1e-4
"""Share of the tolerance that the iteration aims at."""
SINGULAR = 1e-9
"""Pivot of W relative to its entry of the diagonal from which contacts count as redundant."""
ROUNDING = 1e-14
"""Relative rounding of velocities in the rows."""


class ConeProjection(NamedTuple):
    """Projection of one unit: impulses in its rows, derivatives -r d lam/d u by (row, row), and whether it slips, for contacts with friction."""

    impulses: list[Any]
    slopes: dict[tuple[int, int], Any]
    slips: Any = None


class ContactSolver:
    """Traced functions of the steps of one system; ``units`` of ``rows`` are numbered in order.

    Attributes
    ----------
    geometry : (q, p) -> entries of :attr:`sizes`: gap, rows, drift, mass matrix and its factors, compliances of the units, coefficients.
    gaps : (q, v, p) -> gaps (k,) and their rates. velocities : (q, v, p) -> velocities in the rows (m,).
    renewed : (q, v, p, gap, rate, stale) -> the same where they are stale, else as given.
    approach : (q, v, p, w, a, bend, by) -> second derivatives of the gaps with the rates w of q and a of v where ``by`` is not zero, else ``bend``.
    kinetic_change : (q, v, later, p) -> kinetic energy with the velocities ``later`` less that with v.
    """

    def __init__(self, rows: ContactRows) -> None:
        import casadi

        self.SX = casadi.SX
        self.units: list[RowUnit] = rows.units
        e = rows.expressions
        self.nv, self.m, self.count = e.nv, rows.J.shape[0], len(rows.units)
        ldl = SparseLDL(e.mass_matrix)
        J = casadi.SX(rows.J.to_casadi())
        self._order, self._mass = ldl.order, [(i, j) for i in range(self.nv) for j in ldl.rows[i] if j >= i]
        self._lower = [(k, i) for k in ldl.order for i in ldl.factors[k]]
        self._entries = [(i, j) for i in range(self.m) for j in range(self.nv) if not J[i, j].is_zero()]
        self.dense = self.m <= self.nv
        """Whether all of W is formed: with fewer rows than velocities the impulses are unique unless contacts are redundant."""
        rows_of_J: list[dict[int, Any]] = [{} for _ in range(self.m)]
        for i, j in self._entries:
            rows_of_J[i][j] = J[i, j]
        factors = _Factors(ldl.order, ldl.factors, ldl.inverse_pivots)
        halves = [factors.forward(row) for row in rows_of_J]
        scaled = [{k: x * factors.inverse_pivots[k] for k, x in half.items()} for half in halves]
        own = [(a, b) for unit in self.units for a in unit.rows for b in unit.rows if a <= b]
        pairs = [(a, b) for a in range(self.m) for b in range(a, self.m)] if self.dense else own
        pairs = [(a, b) for a, b in pairs if not halves[a].keys().isdisjoint(halves[b])]
        self._places = {pair: k for k, pair in enumerate(pairs)}
        compliance = [
            sum((x * halves[b][k] for k, x in scaled[a].items() if k in halves[b]), self.SX(0.0)) for a, b in pairs
        ]
        outputs: dict[str, Array] = {
            "gap": rows.gaps,
            "J": self._column([J[i, j] for i, j in self._entries]),
            "drift": rows.drift,
            "M": self._column([ldl.rows[i][j] for i, j in self._mass]),
            "L": self._column([ldl.factors[k][i] for k, i in self._lower]),
            "D": self._column([ldl.inverse_pivots[k] for k in range(self.nv)]),
            "W": self._column(compliance),
            "mu": rows.friction,
            "e": rows.restitution,
        }
        self.geometry = trace_of("contact geometry", {"q": e.q, "p": e.p}, outputs)
        self.sizes = {name: size[0] for name, size in self.geometry.outputs.items()}
        inputs = {"q": e.q, "v": e.v, "p": e.p}
        w, a = symbol("w", e.coordinates.nv), symbol("a", e.nv)
        found = {"gap": rows.gaps, "rate": rows.gap_rates}
        size, stale = self.sizes["gap"], symbol("stale")
        old = {"gap": symbol("gap", size), "rate": symbol("rate", size)}
        self.gaps = trace_of("gaps", inputs, found)
        renewed = {name: np.where(stale > 0.0, x, old[name]) for name, x in found.items()}
        self.renewed = trace_of("gaps renewed", {**inputs, **old, "stale": stale}, renewed)
        self.velocities = trace_of("row velocities", inputs, {"u": rows.velocities})
        bend, by = symbol("bend", size), symbol("by")
        second = np.where(by > 0.0, rows.gap_accelerations(w, a), bend)
        self.approach = trace_of(
            "approach", {**inputs, "w": w, "a": a, "bend": bend, "by": by}, {"acceleration": second}
        )
        self.always = any(unit.kind != POINT for unit in self.units)
        """Whether there is something to solve even if nothing touches."""
        self.settles = self.dense and e.description.time is None and not any(unit.kind == DRY for unit in self.units)
        """Whether velocities in the rows can be corrected with the response half way (:attr:`settle`)."""
        later = symbol("later", self.nv)
        change = e.dynamics.kinetic_change(e.v, later)
        self.kinetic_change = trace_of("kinetic change", {"q": e.q, "v": e.v, "later": later, "p": e.p}, {"T": change})
        self.rests = to_sx(rows.drift).is_zero()
        """Whether nothing that may be touched is moved by time."""

    # --- symbols and sparse rows --------------------------------------------------------------------------------------------

    def _column(self, entries: Sequence[Any]) -> Array:
        import casadi

        return from_sx(casadi.vertcat(*entries) if entries else casadi.SX(0, 1), (len(entries),))

    def _symbols(self, *names: str, **more: int | None) -> tuple[dict[str, Array], Mapping[str, list[Any]]]:
        """Inputs of a function: parts of the geometry and others by size (None: a number); and their entries."""
        inputs = {name: symbol(name, self.sizes[name]) for name in names}
        inputs |= {name: symbol(name, size) for name, size in more.items()}
        return inputs, {name: _entries(x) for name, x in inputs.items()}

    def _rows(self, s: Mapping[str, list[Any]]) -> list[dict[int, Any]]:
        rows: list[dict[int, Any]] = [{} for _ in range(self.m)]
        for (i, j), value in zip(self._entries, s["J"], strict=True):
            rows[i][j] = value
        return rows

    def _masses(self, s: Mapping[str, list[Any]]) -> list[dict[int, Any]]:
        rows: list[dict[int, Any]] = [{} for _ in range(self.nv)]
        for (i, j), value in zip(self._mass, s["M"], strict=True):
            rows[i][j] = value
            rows[j][i] = value
        return rows

    def _factors(self, s: Mapping[str, list[Any]]) -> _Factors:
        factors: dict[int, dict[int, Any]] = {k: {} for k in self._order}
        for (k, i), value in zip(self._lower, s["L"], strict=True):
            factors[k][i] = value
        return _Factors(self._order, factors, dict(enumerate(s["D"])))

    def _coupling(self, s: Mapping[str, list[Any]], i: int, j: int) -> Any:
        """The entry of W in the rows i and j."""
        place = self._places.get((min(i, j), max(i, j)))
        return self.SX(0.0) if place is None else s["W"][place]

    def _coupled(self, s: Mapping[str, list[Any]], x: Sequence[Any]) -> list[Any]:
        """W x."""
        total = [self.SX(0.0)] * self.m
        for (i, j), place in self._places.items():
            total[i] = total[i] + s["W"][place] * x[j]
            if i != j:
                total[j] = total[j] + s["W"][place] * x[i]
        return total

    def _block(self, s: Mapping[str, list[Any]], unit: RowUnit, a: int, b: int) -> Any:
        """W between the rows a and b of a unit."""
        return self._coupling(s, unit.first + a, unit.first + b)

    def compliance(self, W: Array, unit: RowUnit) -> Array:
        """Mean diagonal entry of W in a unit."""
        own = [W[place] for i in unit.rows if (place := self._places.get((i, i))) is not None]
        return sum(own, as_array(0.0)) / unit.size

    def _compliances(self, s: Mapping[str, list[Any]]) -> list[Any]:
        """Mean diagonal entry w of W in each unit."""
        own = [
            sum((self._block(s, unit, a, a) for a in range(unit.size)), self.SX(0.0)) / unit.size for unit in self.units
        ]
        total = sum(own, self.SX(0.0))
        return [w + FLOOR * total for w in own]

    # --- projection on the cones ----------------------------------------------------------------------------------------------

    def _project(self, unit: RowUnit, y: list[Any], cone: Any, on: Any) -> ConeProjection:
        """P(y) of a unit and its derivatives; ``cone``: mu or the largest friction, ``on``: it may act."""
        import casadi

        choose, one, zero = casadi.if_else, self.SX(1.0), self.SX(0.0)
        if unit.kind == HELD:
            return ConeProjection([y[0]], {(0, 0): one})
        if unit.kind == DRY:
            most = cone * on
            inside = casadi.fabs(y[0]) < most
            return ConeProjection([choose(inside, y[0], casadi.sign(y[0]) * most)], {(0, 0): choose(inside, one, zero)})
        push = casadi.logic_and(on > 0.0, y[0] > 0.0)
        normal = choose(push, y[0], zero)
        active = choose(push, one, zero)
        if unit.size == 1:
            return ConeProjection([normal], {(0, 0): active})
        most = cone * normal
        square = y[1] * y[1] + y[2] * y[2]
        slips = square > most * most
        length = casadi.sqrt(choose(slips, square, one))
        share = choose(slips, most / length, one)
        d = y[1] / length, y[2] / length
        slopes = {(0, 0): active}
        for a in (0, 1):
            for b in (0, 1):
                unit_entry = 1.0 if a == b else 0.0
                slopes[1 + a, 1 + b] = active * choose(slips, share * (unit_entry - d[a] * d[b]), self.SX(unit_entry))
            slopes[1 + a, 0] = choose(casadi.logic_and(push, slips), cone * d[a], zero)
        impulses = [normal, share * y[1] * active, share * y[2] * active]
        return ConeProjection(impulses, slopes, casadi.logic_and(push, slips))

    def _forces(self, s: Mapping[str, list[Any]], u: list[Any], stiff: list[Any]) -> list[ConeProjection]:
        """P(lam - u / r) of all units, with ``stiff`` 1 / r."""
        found = []
        for k, unit in enumerate(self.units):
            y = [s["lam"][i] - u[i] * stiff[k] for i in unit.rows]
            found.append(self._project(unit, y, s["cone"][k], s["on"][k]))
        return found

    # --- functions of a step --------------------------------------------------------------------------------------------------

    @cached_property
    def respond(self) -> Traced:
        """(J, L, D, lam) -> M^-1 J^T lam (nv,)."""
        inputs, s = self._symbols("J", "L", "D", lam=self.m)
        change = self._factors(s).solve(_transposed_product(self._rows(s), s["lam"], self.nv))
        return trace_of("respond", inputs, {"change": self._column(change)})

    @cached_property
    def kinetic(self) -> Traced:
        """(M, v, fall) -> the kinetic energies of v and of ``fall``, J."""
        inputs, s = self._symbols("M", v=self.nv, fall=self.nv)
        zero, masses = self.SX(0.0), self._masses(s)
        both = {name: [_product(row, s[name], zero) for row in masses] for name in ("v", "fall")}
        sums = {name: sum((0.5 * a * b for a, b in zip(both[name], s[name], strict=True)), zero) for name in both}
        return trace_of("kinetic energies", inputs, {name: from_sx(x, ()) for name, x in sums.items()})

    @cached_property
    def moved(self) -> Traced:
        """(J, v) -> J v (m,): velocities in the rows."""
        inputs, s = self._symbols("J", v=self.nv)
        rows = [_product(row, s["v"], self.SX(0.0)) for row in self._rows(s)]
        return trace_of("velocities in rows", inputs, {"u": self._column(rows)})

    @cached_property
    def prepare(self) -> Traced:
        """(gap, J, drift, W, mu, v, gap_0, u_0, left, held, slid, steady, lag, tau, share) -> bias, cone, on, J v, in the middle of a span tau.

        v are the velocities before the impulses, gap_0 and u_0 gaps and velocities in the rows at the start of the span, whose change until now
        is taken to happen once more. So a contact ends the span on or in front of the surface with

            gap + tau^3 lag + tau/2 u+ + tau/4 (u- - u_0) >= 0,

        and with the velocity u+ + (u- - u_0) in its other rows, to which Coulomb's law applies; the faster it has ``slid``, relative to what changes
        in the span, the more it applies to u+ + u-, twice the mean. Units that are ``left`` do not act. The gap of those that were ``held`` before is
        closed in the course of a step, of which the span is a ``share``; others are not moved out of the surface. ``steady`` are the last forces.
        tau^3 ``lag`` is the error of the gap predicted for the end of the last span, which a closed contact repeats: without it, energy rises.
        """
        import casadi

        sizes = dict.fromkeys(("left", "held", "slid"), self.count)
        inputs, s = self._symbols(
            "gap",
            "J",
            "drift",
            "W",
            "mu",
            v=self.nv,
            gap_0=self.sizes["gap"],
            u_0=self.m,
            **sizes,
            steady=self.m,
            lag=self.sizes["gap"],
            tau=None,
            share=None,
        )
        choose, tau, zero, one = casadi.if_else, s["tau"][0], self.SX(0.0), self.SX(1.0)
        before = [_product(row, s["v"], zero) for row in self._rows(s)]
        change = [a + b - c for a, b, c in zip(before, s["drift"], s["u_0"], strict=True)]
        compliances, bias, cone, on = self._compliances(s), list(s["drift"]), [], []
        for k, unit in enumerate(self.units):
            first, mu = unit.first, s["mu"][k]
            cone.append(mu * tau if unit.kind == DRY else mu)
            on.append(choose(s["left"][k] > 0.0, zero, one) if unit.kind == POINT else one)
            if unit.gap is not None:
                first_gap, ahead = s["gap_0"][unit.gap], s["gap"][unit.gap] + tau**3 * s["lag"][unit.gap]
                kept = (1.0 - s["share"][0]) * first_gap
                if unit.kind == POINT:
                    kept = choose(s["held"][k] > 0.0, kept, casadi.fmin(first_gap, 0.0))
                bias[first] = bias[first] + (2.0 / tau) * (ahead - kept) + 0.5 * change[first]
            elif unit.kind == HELD:
                bias[first] = bias[first] + change[first]
            sideways = self.sideways(unit)
            if not sideways:
                continue
            push = cone[k] if unit.kind == DRY else mu * s["steady"][first] * tau
            speed = casadi.sqrt(sum((s["u_0"][i] ** 2 for i in sideways), zero))
            explained = 2.0 * casadi.sqrt(sum((change[i] ** 2 for i in sideways), zero)) + compliances[k] * push
            slides = speed > HIT * explained
            if unit.kind == POINT:
                slides = casadi.logic_and(slides, s["slid"][k] > 0.0)
            share = choose(slides, 1.0 - HIT * explained / choose(slides, speed, one), zero)
            for i in sideways:
                bias[i] = bias[i] + change[i] + share * s["u_0"][i]
        columns = {"bias": bias, "cone": cone, "on": on, "before": before}
        return trace_of("prepare contacts", inputs, {name: self._column(x) for name, x in columns.items()})

    def _problem(self, *names: str, **more: int | None) -> tuple[dict[str, Array], Mapping[str, list[Any]]]:
        """Inputs of functions that solve: the problem in v and lam."""
        units = dict.fromkeys(("cone", "on"), self.count)
        return self._symbols(*names, **{"bias": self.m, **units, **more})

    @cached_property
    def improve(self) -> Traced:
        """One round with the full step of Newton's method.

        (J, M, L, D, W, bias, cone, on, v_free, tolerance, done, v, lam, eps, waited, step, poor, going) -> the seven from done to poor.
        Where the step does not lower the residual it is ``poor``, and nothing else changes.
        """
        import casadi

        inputs, s = self._round()
        state = _Round(self, s)
        # Newton's direction: (M + J^T D J / r) dv = -missing
        matrix = [dict(row) for row in state.mass]
        for k, unit in enumerate(self.units):
            for a in range(unit.size):
                row: dict[int, Any] = {}
                for b in range(unit.size):
                    if (a, b) in state.forces[k].slopes:
                        slope = state.forces[k].slopes[a, b] * state.stiff[k]
                        for j, x in state.J[unit.first + b].items():
                            row[j] = row[j] + slope * x if j in row else slope * x
                for i, x in state.J[unit.first + a].items():
                    for j, y in row.items():
                        matrix[i][j] = matrix[i][j] + x * y if j in matrix[i] else x * y
        order = least_degree(matrix, range(self.nv))
        step = factorised(matrix, order).solve([-x for x in state.missing])
        along = state.along(step)
        best, found = along(SEARCHED[0])
        fine = casadi.logic_or(best <= (1.0 - ENOUGH) * state.square, best * state.largest <= state.aim * state.aim)
        going = s["going"][0] > 0.0
        results = state.concluded(casadi.logic_and(going, fine), step, self.SX(SEARCHED[0]), best, found)
        results["step"] = [casadi.if_else(going, new, old) for new, old in zip(step, s["step"], strict=True)]
        results["poor"] = [casadi.if_else(going, casadi.if_else(fine, self.SX(0.0), 1.0), 0.0)]
        return trace_of("improve contacts", inputs, self._outputs(results))

    @cached_property
    def search(self) -> Traced:
        """The largest fraction of a poor step that lowers the residual; arguments and results of :attr:`improve`, the step last."""
        import casadi

        inputs, s = self._round()
        state = _Round(self, s)
        along = state.along(s["step"])
        best, found = along(SEARCHED[1])
        chosen, fine = self.SX(SEARCHED[1]), best <= (1.0 - ENOUGH * SEARCHED[1]) * state.square
        for fraction in SEARCHED[2:]:
            value, made = along(fraction)
            best, chosen = casadi.if_else(fine, best, value), casadi.if_else(fine, chosen, fraction)
            found = [casadi.if_else(fine, old, new) for old, new in zip(found, made, strict=True)]
            fine = casadi.logic_or(fine, value <= (1.0 - ENOUGH * fraction) * state.square)
        results = state.concluded(s["going"][0] > 0.0, s["step"], chosen, best, found)
        results |= {name: list(s[name]) for name in ("step", "poor")}
        return trace_of("search contacts", inputs, self._outputs(results))

    def _round(self) -> tuple[dict[str, Array], Mapping[str, list[Any]]]:
        """Inputs of a round."""
        numbers = dict.fromkeys(("tolerance", "done"))
        state = {"v": self.nv, "lam": self.m, "eps": None, "waited": None, "step": self.nv, "poor": None, "going": None}
        return self._problem("J", "M", "L", "D", "W", v_free=self.nv, **numbers, **state)

    def _outputs(self, results: Mapping[str, list[Any]]) -> dict[str, Array]:
        numbers = ("done", "eps", "waited", "poor")
        return {name: from_sx(x[0], ()) if name in numbers else self._column(x) for name, x in results.items()}

    @cached_property
    def direct(self) -> Traced:
        """The solution if no contact slides and W is regular, without iteration; only where W is ``dense``.

        (J, L, D, W, bias, cone, on, before, lam, base, tolerance) -> (change, after, lam, residual, poor, acts, factors). The projection of the
        given lam shows which rows act; they come to rest. The result is ``poor`` where it does not solve the problem or a contact would slide.
        ``factors`` are those of W in the rows that act.
        """
        import casadi

        inputs, s = self._problem("J", "L", "D", "W", before=self.m, lam=self.m, base=self.m, tolerance=None)
        choose, zero, one = casadi.if_else, self.SX(0.0), self.SX(1.0)
        compliances = self._compliances(s)
        pushed = self._coupled(s, [a - b for a, b in zip(s["lam"], s["base"], strict=True)])
        u = [a + b + c for a, b, c in zip(s["before"], s["bias"], pushed, strict=True)]
        acts, target, poor = [], [], zero
        for unit, force in zip(self.units, self._forces(s, u, [1.0 / w for w in compliances]), strict=True):
            acts += [force.slopes.get((a, a), zero) for a in range(unit.size)]
            target += [x if unit.kind == DRY else zero for x in force.impulses]
            if force.slips is not None:
                poor = casadi.logic_or(poor, force.slips)
        acts = [on if (i, i) in self._places else zero for i, on in enumerate(acts)]
        change = [choose(on > 0.0, zero, x - y) for on, x, y in zip(acts, target, s["lam"], strict=True)]
        right = [choose(on > 0.0, -a - b, zero) for on, a, b in zip(acts, u, self._coupled(s, change), strict=True)]
        matrix: list[dict[int, Any]] = [{i: one} for i in range(self.m)]
        for (i, j), place in self._places.items():
            acting = acts[i] > 0.0 if i == j else casadi.logic_and(acts[i] > 0.0, acts[j] > 0.0)
            matrix[i][j] = matrix[j][i] = choose(acting, s["W"][place], one if i == j else zero)
        order = minimum_degree([set(row) - {i} for i, row in enumerate(matrix)], range(self.m))
        factors, regular = _definite_factors(matrix, order)
        self._response = order, [(k, i) for k in order for i in factors.factors[k]]
        solved = factors.solve(right)
        lam = [a + b + c for a, b, c in zip(s["lam"], change, solved, strict=True)]
        change, residual, after = self._finished({**s, "lam": lam})
        speed = zero
        for x, y in zip(s["before"], after, strict=True):
            speed = casadi.fmax(speed, casadi.fmax(casadi.fabs(x), casadi.fabs(y)))
        good = casadi.logic_and(residual <= AIM * s["tolerance"][0] + ROUNDING * speed, regular)
        numbers = {"residual": residual, "poor": choose(casadi.logic_and(good, casadi.logic_not(poor)), zero, one)}
        found = {"change": change, "after": after, "lam": lam}
        columns = {name: self._column(x) for name, x in found.items()} | {
            name: from_sx(x, ()) for name, x in numbers.items()
        }
        entries = [factors.factors[k][i] for k, i in self._response[1]]
        response = {"acts": acts, "factors": entries + [factors.inverse_pivots[k] for k in range(self.m)]}
        return trace_of("solve contacts", inputs, columns | {name: self._column(x) for name, x in response.items()})

    @cached_property
    def settle(self) -> Traced:
        """(J, L, D, acts, factors, v, lam, u, done) -> v and lam with which the rows that act, with velocities u, come to rest; to first order.

        The response is that half way (:attr:`direct`), which differs from the one at the end of a span by the motion in between.
        """
        import casadi

        order, lower = self.direct and self._response
        sizes = {"acts": self.m, "factors": len(lower) + self.m, "v": self.nv, "lam": self.m, "u": self.m, "done": None}
        inputs, s = self._symbols("J", "L", "D", **sizes)
        below: dict[int, dict[int, Any]] = {k: {} for k in order}
        for (k, i), value in zip(lower, s["factors"], strict=False):
            below[k][i] = value
        factors, zero = _Factors(order, below, dict(enumerate(s["factors"][len(lower) :]))), self.SX(0.0)
        open_ = s["done"][0] <= 0.0
        stops = [casadi.logic_and(open_, on > 0.0) for on in s["acts"]]
        more = factors.solve([casadi.if_else(on, -u, zero) for on, u in zip(stops, s["u"], strict=True)])
        change = self._factors(s).solve(_transposed_product(self._rows(s), more, self.nv))
        found = {
            "v": [a + b for a, b in zip(s["v"], change, strict=True)],
            "lam": [a + b for a, b in zip(s["lam"], more, strict=True)],
        }
        return trace_of("settle contacts", inputs, {name: self._column(x) for name, x in found.items()})

    @cached_property
    def finish(self) -> Traced:
        """(J, L, D, W, bias, cone, on, before, lam, base) -> (change, after, residual).

        ``change`` = M^-1 J^T (lam - base) exactly, so that momentum balances; it leads from the velocities J v = ``before`` in the rows to ``after``.
        ``residual`` is the natural map |lam - P(lam - u / w)| w in m/s.
        """
        inputs, s = self._problem("J", "L", "D", "W", before=self.m, lam=self.m, base=self.m)
        change, residual, after = self._finished(s)
        columns = {"change": self._column(change), "after": self._column(after)}
        return trace_of("finish contacts", inputs, {**columns, "residual": from_sx(residual, ())})

    def _finished(self, s: Mapping[str, list[Any]]) -> tuple[list[Any], Any, list[Any]]:
        """Change of v by lam - base, residual, and the velocities in the rows without bias."""
        import casadi

        J, compliances = self._rows(s), self._compliances(s)
        added = [a - b for a, b in zip(s["lam"], s["base"], strict=True)]
        change = self._factors(s).solve(_transposed_product(J, added, self.nv))
        after = [_product(row, change, x) for row, x in zip(J, s["before"], strict=True)]
        u = [x + b for x, b in zip(after, s["bias"], strict=True)]
        residual = self.SX(0.0)
        for k, force in enumerate(self._forces(s, u, [1.0 / w for w in compliances])):
            for a, i in enumerate(self.units[k].rows):
                residual = casadi.fmax(residual, casadi.fabs(s["lam"][i] - force.impulses[a]) * compliances[k])
        return change, residual, after

    @cached_property
    def turn(self) -> Traced:
        """(J, L, D, W, drift, before, after, u_0, lam, cone) -> the share of a span after which sliding first stops; 1 if it does not.

        Where a contact ends at rest or against its velocity u_0 at the start, its friction was less than the cone, or reversed. With all of the
        cone against u_0 it stops earlier: where the velocity, linear in time, is least.
        """
        import casadi

        inputs, s = self._symbols(
            "J", "L", "D", "W", "drift", before=self.m, after=self.m, u_0=self.m, lam=self.m, cone=self.count
        )
        J, one, zero = self._rows(s), self.SX(1.0), self.SX(0.0)
        columns = (s[name] for name in ("before", "after", "drift", "u_0"))
        end = [a + b + 2.0 * c - u for a, b, c, u in zip(*columns, strict=True)]
        turns, push, compliances = [], [zero] * self.m, self._compliances(s)
        for k, unit in enumerate(self.units):
            sideways = self.sideways(unit)
            if not sideways:
                continue
            most = s["cone"][k] if unit.kind == DRY else s["cone"][k] * s["lam"][unit.first]
            speed = casadi.sqrt(sum((s["u_0"][i] ** 2 for i in sideways), zero))
            size = casadi.sqrt(sum((s["lam"][i] ** 2 for i in sideways), zero))
            back = sum((s["u_0"][i] * end[i] for i in sideways), zero) < 0.0
            slid = casadi.logic_and(most > 0.0, speed > TURNED * compliances[k] * most)
            stops = casadi.logic_and(slid, casadi.logic_or(back, size < SLIPS * most))
            turns.append((sideways, stops))
            for i in sideways:
                against = -most * s["u_0"][i] / casadi.if_else(stops, speed, one)
                push[i] = casadi.if_else(stops, against - s["lam"][i], zero)
        if self.dense:
            pushed = self._coupled(s, push)
        else:
            dv = self._factors(s).solve(_transposed_product(J, push, self.nv))
            pushed = [_product(row, dv, zero) for row in J]
        share, some = one, zero
        for sideways, stops in turns:
            some = casadi.logic_or(some, stops)
            change = {i: pushed[i] + end[i] - s["u_0"][i] for i in sideways}
            square = sum((x * x for x in change.values()), zero)
            along = sum((-s["u_0"][i] * x for i, x in change.items()), zero)
            own = along / casadi.if_else(stops, square, one)
            inside = casadi.logic_and(stops, casadi.logic_and(own > TURNED, own < 1.0 - TURNED))
            share = casadi.fmin(share, casadi.if_else(inside, own, one))
        return trace_of("turn of contacts", inputs, {"share": from_sx(casadi.if_else(some, share, one), ())})

    @staticmethod
    def sideways(unit: RowUnit) -> list[int]:
        """The rows of a unit in which friction acts."""
        return [unit.first] if unit.kind == DRY else list(unit.rows)[1:]

    @cached_property
    def gain(self) -> Traced:
        """(W, drift, mu, u_0, before, lam, closed, share) -> the largest gain of Painleve among contacts that press and slide.

        With the unit velocity s of sliding it is mu W_nt s / W_nn: from 1 on, friction presses a contact together faster than the normal impulse
        separates it. It slides if its velocity u_0 at the start of the span is more than free acceleration, which leads to J v = ``before`` in half
        of it, explains in a step, of which the span is a ``share``: slower ones stop in it, as what lands does. Contacts that were not ``closed`` at
        the start touch down, and their impulses exist for any gain.
        """
        import casadi

        sizes = {"u_0": self.m, "before": self.m, "lam": self.m, "closed": self.count, "share": None}
        inputs, s = self._symbols("W", "drift", "mu", **sizes)
        gain = self.SX(0.0)
        for k, unit in enumerate(self.units):
            if unit.kind != POINT or unit.size != 3:
                continue
            u = [s["u_0"][i] for i in unit.rows][1:]
            change = [2.0 * (s["before"][i] + s["drift"][i] - s["u_0"][i]) / s["share"][0] for i in unit.rows]
            square = u[0] * u[0] + u[1] * u[1]
            slides = square > HIT**2 * sum((x * x for x in change), self.SX(0.0))
            presses = casadi.logic_and(s["closed"][k] > 0.0, s["lam"][unit.first] > 0.0)
            slides = casadi.logic_and(slides, presses)
            speed = casadi.sqrt(casadi.if_else(slides, square, 1.0))
            across = self._block(s, unit, 0, 1) * u[0] + self._block(s, unit, 0, 2) * u[1]
            own = s["mu"][k] * across / (speed * casadi.if_else(slides, self._block(s, unit, 0, 0), 1.0))
            gain = casadi.fmax(gain, casadi.if_else(slides, own, self.SX(0.0)))
        return trace_of("gain of contacts", inputs, {"gain": from_sx(gain, ())})


class _Round:
    """The residual of the problem at (v, lam) and along a step."""

    def __init__(self, solver: ContactSolver, s: Mapping[str, list[Any]]) -> None:
        import casadi

        self.solver, self.s, SX = solver, s, solver.SX
        self.J, self.mass, self.factors = solver._rows(s), solver._masses(s), solver._factors(s)
        self.regular = [s["eps"][0] * w for w in solver._compliances(s)]
        self.stiff = [1.0 / r for r in self.regular]
        self.u = [_product(row, s["v"], s["bias"][i]) for i, row in enumerate(self.J)]
        away = [a - b for a, b in zip(s["v"], s["v_free"], strict=True)]
        self.moved = [_product(row, away, SX(0.0)) for row in self.mass]
        self.forces = solver._forces(s, self.u, self.stiff)
        made = [x for force in self.forces for x in force.impulses]
        self.missing = [a - b for a, b in zip(self.moved, _transposed_product(self.J, made, solver.nv), strict=True)]
        self.square = self.factors.square(self.missing)
        self.largest, speed = SX(0.0), SX(0.0)
        for unit in solver.units:
            for a, i in enumerate(unit.rows):
                self.largest = casadi.fmax(self.largest, solver._block(s, unit, a, a))
                speed = casadi.fmax(speed, casadi.fabs(self.u[i] - s["bias"][i]))
        self.aim = AIM * s["tolerance"][0] + ROUNDING * speed

    def along(self, step: Sequence[Any]) -> Callable[[float], tuple[Any, list[Any]]]:
        """|missing|^2 in the metric of M^-1 and the impulses after a fraction of the step."""
        solver, zero = self.solver, self.solver.SX(0.0)
        step_u = [_product(row, step, zero) for row in self.J]
        step_moved = [_product(row, step, zero) for row in self.mass]

        def tried(fraction: float) -> tuple[Any, list[Any]]:
            u = [x + fraction * y for x, y in zip(self.u, step_u, strict=True)]
            made = [x for force in solver._forces(self.s, u, self.stiff) for x in force.impulses]
            right = _transposed_product(self.J, made, solver.nv)
            rest = [x + fraction * y - z for x, y, z in zip(self.moved, step_moved, right, strict=True)]
            return self.factors.square(rest), made

        return tried

    def concluded(
        self, going: Any, step: Sequence[Any], chosen: Any, best: Any, found: Sequence[Any]
    ) -> dict[str, list[Any]]:
        """The state of the iteration after a fraction ``chosen`` of the step, where ``going``."""
        import casadi

        solver, s, choose = self.solver, self.s, casadi.if_else
        aim, waiting = self.aim, solver.SX(0.0)
        for k, unit in enumerate(solver.units):
            for i in unit.rows:
                waiting = casadi.fmax(waiting, casadi.fabs(found[i] - s["lam"][i]) * self.regular[k])
        left, eps = casadi.sqrt(best * self.largest), s["eps"][0]
        inner = left <= casadi.fmax(0.1 * waiting, aim)
        done = casadi.logic_and(left <= aim, waiting <= aim)
        raised, lowered = casadi.fmin(4.0 * eps, LARGEST_EPS), casadi.fmax(0.1 * eps, LEAST_EPS)
        slow = casadi.logic_and(inner, waiting > SLOW * s["waited"][0])
        eps_new = choose(chosen < STALLED, raised, choose(slow, lowered, eps))
        moves = casadi.logic_and(going, inner)
        moved = [old + choose(going, chosen * y, solver.SX(0.0)) for old, y in zip(s["v"], step, strict=True)]
        lam = [choose(moves, new, old) for new, old in zip(found, s["lam"], strict=True)]
        return {
            "done": [choose(going, choose(done, solver.SX(1.0), 0.0), s["done"][0])],
            "v": moved,
            "lam": lam,
            "eps": [choose(going, eps_new, eps)],
            "waited": [choose(moves, waiting, s["waited"][0])],
        }


class _Factors:
    """M = L D L^T with unit columns of L below the pivots, in the order of elimination."""

    def __init__(
        self, order: Sequence[int], factors: dict[int, dict[int, Any]], inverse_pivots: dict[int, Any]
    ) -> None:
        self.order, self.factors, self.inverse_pivots = order, factors, inverse_pivots

    def forward(self, right: dict[int, Any]) -> dict[int, Any]:
        """L^-1 right, sparse."""
        x = dict(right)
        for k in self.order:
            if k in x:
                for i, factor in self.factors[k].items():
                    x[i] = x[i] - factor * x[k] if i in x else -factor * x[k]
        return x

    def square(self, right: list[Any]) -> Any:
        """right . M^-1 right."""
        half = self.forward(dict(enumerate(right)))
        return sum(x * x * self.inverse_pivots[k] for k, x in half.items())

    def solve(self, right: list[Any]) -> list[Any]:
        """M^-1 right (nv,)."""
        x = {k: value * self.inverse_pivots[k] for k, value in self.forward(dict(enumerate(right))).items()}
        for k in reversed(self.order):
            for i, factor in self.factors[k].items():
                x[k] = x[k] - factor * x[i]
        return [x[k] for k in range(len(right))]


def _definite_factors(rows: list[dict[int, Any]], order: Sequence[int]) -> tuple[_Factors, Any]:
    """Factors of a symmetric positive definite matrix, and whether its pivots are well above rounding; changes ``rows``."""
    import casadi

    one, regular = casadi.SX(1.0), casadi.SX(1.0)
    factors: dict[int, dict[int, Any]] = {}
    inverse: dict[int, Any] = {}
    scales, left = {k: SINGULAR * rows[k][k] for k in order}, set(order)
    for k in order:
        left.discard(k)
        fine = rows[k][k] > scales[k]
        regular = casadi.logic_and(regular, fine)
        inverse[k] = 1.0 / casadi.if_else(fine, rows[k][k], one)
        below = {i: x for i, x in rows[k].items() if i in left}
        factors[k] = {i: x * inverse[k] for i, x in below.items()}
        for i, factor in factors[k].items():
            for j, x in below.items():
                if j >= i:
                    rows[i][j] = rows[j][i] = rows[i][j] - factor * x if j in rows[i] else -factor * x
    return _Factors(order, factors, inverse), regular


def _entries(x: Array) -> list[Any]:
    column = to_sx(x)
    return [column[i] for i in range(column.shape[0])]


def _product(row: dict[int, Any], x: Sequence[Any], start: Any) -> Any:
    """start + row . x."""
    for j, value in row.items():
        start = start + value * x[j]
    return start


def _transposed_product(rows: Sequence[dict[int, Any]], x: Sequence[Any], n: int) -> list[Any]:
    """rows^T x (n,)."""
    import casadi

    total: list[Any] = [casadi.SX(0.0)] * n
    for row, factor in zip(rows, x, strict=True):
        for j, value in row.items():
            total[j] = total[j] + value * factor
    return total
