"""A linearly implicit, L-stable method of order 2: stiff modes are damped, and no equations are solved by iteration.

With ``x = (theta, v)``, ``q = q0 o exp(theta)`` and ``x' = f(x) = (T^-1(theta) w, a)`` a step of ROS2 (Verwer, Spee, Blom and Hundsdorfer 1999) is

    (1 - g J) k1 = f(x0),     (1 - g J) k2 = f(x0 + h k1) - 2 k1,     x1 = x0 + h (3 k1 + k2) / 2,     g = gamma h,  gamma = 1 - 1/sqrt(2).

It has order 2 for any matrix J, and is L-stable if J is the derivative of f. Where f depends on the time, g f_t is added to the right side of k1 and
subtracted from that of k2, with f_t as a difference over the step, so that stiff elements follow a driver. J is taken half way, at
``q0 o exp(h w0 / 2)``, so that a step that ends in a stop or contact knows it, and exact but for the nonstiff derivatives of T^-1 and of w by q.
Friction enters with its derivative and ``SURE`` times its secant S (:meth:`.ForceElement.secant`): where it holds, this is the same method with the
other gamma = 1 + 1/sqrt(2) of L-stable ones, whose stages do not overshoot; where it slides, S = friction / speed stops the motion. With
the residual r(q, v, a) = M a + ... - Phi^T lam = 0 of the motion, the acceleration s(q, v, a) = 0 of loops and constraints, and w_v = dw/dv, the
equation for the part kv of v is

    [M + g r_v + g^2 r_delta w_v   -Phi^T] [kv]   [M f_v - g r_delta f_w    ]
    [Phi + g s_v + g^2 s_delta w_v   eps ] [mu] = [Phi f_v - g s_delta f_w  ],     kw = f_w + g w_v kv,

sparse as the mass matrix is, eliminated once per step for both stages. A continuous law is part of r if its program is short.

Where drivers work, only powers P(x) are known: their integrals are further unknowns of the method, h/2 (P(x0) + P(x2) + P' g (k1 + k2)).

The work of a generalised force F is that of its share I of the change of v along the mean velocity v_m:

    v1 - v0 = h/2 (f(x0) + f(x2) + g J (k1 + k2))_v,     I = h/2 (F(x0) + F(x2) + F' g (k1 + k2)),     W = I . v_m,  v_m = (v0 + v1)/2.

It is bounded however stiff F is, where a sum of powers is not: a damper that stops a body in one step takes its kinetic energy. Weights and held
inputs do their work along the displacement, with the velocity v_d = (v0 + v2 + g (kv1 + kv2))/2; v_m - v_d is of order h^2 in smooth motions, and
where fast modes decay within the step the rest (v_m - v_d) . I goes to the resisting forces. The energy that springs lose by numerical damping is
not accounted for: the balance of energy shows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from heavytop._arrays import (
    Array,
    concatenate,
    directional,
    from_sx,
    jacobian,
    symbol,
    to_sx,
    vector,
)
from heavytop.compile import Traced, trace_of
from heavytop.simulate.controller import BoundLaw
from heavytop.simulate.dynamics import Dynamics, along_velocities
from heavytop.simulate.integrators.base import Integrator
from heavytop.simulate.integrators.newton import Kept, SparseRows, factorised, least_degree, row_lifts
from heavytop.simulate.plant import Plant, PlantState
from heavytop.simulate.tape import Slot

GAMMA = 1 - 0.5**0.5
SURE = (2 - GAMMA) / GAMMA - 1
SHORT = 2000
"""Most instructions of a continuous law that is differentiated."""


class ROS2(Integrator):
    """Order 2, L-stable, linearly implicit: for stiff springs, dampers, friction, stops and contacts at steps that do not resolve them.

    Modes faster than the step are damped. Fast oscillations lose energy, which the energy balance reports. A step evaluates the
    motion twice and its derivatives once, and solves two systems of linear equations.

    Examples
    --------
    A damper of 1e6 1/s at a step of 10 ms:

    >>> import heavytop as ht
    >>> system = ht.System()
    >>> system.body("slider", joint=ht.Prismatic("z"), inertia=ht.Inertia(1.0))
    >>> system.damper("world", "slider", ht.Damping(1e6))
    >>> run = ht.simulate(system.derive(), ([0.0], [1.0]), until=1.0, step=0.01, integrator="ros2")
    >>> run.outcome.ok, float(run.v[-1, 0].round(9))
    (True, -9.81e-06)
    """

    name = "ros2"
    order = 2
    integrates_work = True
    damps_fast_modes = True

    def step(self, plant: Plant, state: PlantState, h: Array) -> PlantState:
        plant.need_group()
        f = _functions(plant)
        memory = plant.memory if plant.memory in plant.flats else None
        still = {flat: np.zeros(flat.shape) for flat in plant.flats if flat in (plant.work, plant.flow)}

        def moved(w: Array, v: Array, z: Array | None) -> Any:
            return plant.rates(w, {plant.v: v, **still} | ({} if memory is None else {memory: z}))

        p = plant.p_at(0.0)
        u, z_rate = plant.input_at(state, 0.0)
        w, a = plant.motion_at(state.q, state.v, u, p)
        lam = [] if f.multipliers is None else plant.call(f.multipliers, state.q, state.v, u, p)
        slopes = [] if f.law is None else plant.call(f.law_slopes, *plant.law_arguments(f.law, state, 0.0))
        (ahead,) = plant.kept(plant.need_group().retract(state.q, 0.5 * h * w))
        (factors,) = plant.call(f.factors, ahead, state.v, u, p, a, h, *lam, *slopes)
        p_end = plant.p_at(1.0)
        dw, da = 0.0, 0.0
        if plant.dynamics.has_time:
            later_w, later_a = plant.motion_at(state.q, state.v, u, p_end)
            dw, da = GAMMA * (later_w - w), GAMMA * (later_a - a)
        kw, kv = plant.call(f.solution, factors, h, w + dw, a + da)
        # second stage, at the end of a step along k1
        step = moved(h * kw, h * kv, None if z_rate is None else h * z_rate)
        end = plant.retract(state, step)
        u_end, z_rate_end = plant.input_at(end, 1.0)
        w_end, a_end = plant.motion_at(end.q, end.v, u_end, p_end)
        z_end = None if z_rate_end is None else h * z_rate_end
        w_end = plant.pulled_back(step, moved(w_end, a_end, z_end), exact=False).w
        kw_end, kv_end = plant.call(f.solution, factors, h, w_end - 2 * kw - dw, a_end - 2 * kv - da)
        dv = h * (1.5 * kv + 0.5 * kv_end)
        z = None if z_rate is None else 0.5 * h * (z_rate + z_rate_end)
        parts = {plant.v: dv, **still} | ({} if memory is None else {memory: z})
        if plant.power is not None and still:
            begin, last = (state.q, state.v, u, p), (end.q, end.v, u_end, p_end)
            change = (kw + kw_end, kv + kv_end)
            mean, along = state.v + 0.5 * dv, 0.5 * (state.v + end.v + GAMMA * h * change[1])
            parts |= _works(plant, f, h, begin, last, ahead, change, slopes, mean, along)
        return plant.advance(state, plant.rates(h * (1.5 * kw + 0.5 * kw_end), parts))


def _works(
    plant: Plant,
    f: _LinearStep,
    h: Array,
    begin: Sequence[Array],
    end: Sequence[Array],
    ahead: Array,
    change: Sequence[Array],
    slopes: Sequence[Array],
    mean: Array,
    along: Array,
) -> dict[Slot, Array]:
    """What the work and the flow grow by in a step, from the forces at both stages."""
    if f.forces is None:  # drivers: only their power is known, and its integral is one more unknown of the method
        ends = [plant.call(plant.power, *stage) for stage in (begin, end)]  # type: ignore[arg-type]
        more = plant.call(f.power_slopes, ahead, *begin[1:], h, *change, *slopes)
        works = [0.5 * h * sum(power) for power in zip(*ends, more, strict=True)]
    else:
        ends = [plant.call(f.forces, *stage) for stage in (begin, end)]
        shares = (*ends, plant.call(f.force_slopes, ahead, *begin[1:], h, *change, *slopes))
        given, supplied, resisting, weight = (0.5 * h * sum(force) for force in zip(*shares, strict=True))
        # forces that resist at both ends take energy in between: a step in which they give some is wrong, and the balance shows it
        powers = [np.vecdot(stage[1], forces[2]) for stage, forces in zip((begin, end), ends, strict=True)]
        lost = np.maximum(np.vecdot(resisting, mean), h * np.minimum(np.minimum(powers[0], powers[1]), 0.0))
        held = plant.control.kind != "continuous"
        steady = weight + given if held else weight
        entering = np.vecdot(given, along if held else mean) + np.vecdot(supplied, mean)
        works = [entering, lost - np.vecdot(steady, mean - along)]
    return {slot: vector(*works) for slot in (plant.work, plant.flow) if slot is not None}


def _functions(plant: Plant) -> _LinearStep:
    """The functions of a step; those without a law are kept with the dynamics."""
    law = plant.control.law if plant.control.kind == "continuous" else None
    if law is not None and law.traced.instructions <= SHORT:
        return _LinearStep(plant.dynamics, law)
    return plant.dynamics.functions.get(_LinearStep, lambda: _LinearStep(plant.dynamics))


class _LinearStep:
    """The linear equations of a step as traced functions; with the derivatives of a law if it is part of them."""

    def __init__(self, dynamics: Dynamics, law: BoundLaw | None = None) -> None:
        self.dynamics, self.law = dynamics, law
        self.nv, self.nw, self.nu = dynamics.nv, dynamics.coordinates.nv, dynamics.nu
        sizes = {"q": dynamics.nq, "v": self.nv, "u": self.nu, "p": len(dynamics.parameter_names)}
        self.s: dict[str, Array] = {name: symbol(name, size) for name, size in sizes.items()}
        self.h = symbol("h")
        self.multipliers, self.forces, self.secant = dynamics.multipliers(), dynamics.power_forces(), dynamics.secant()

    # --- the law --------------------------------------------------------------------------------------------------------------

    @cached_property
    def _law_matrices(self) -> tuple[dict[str, Array], SparseRows, SparseRows]:
        """Arguments of the law as symbols, and the derivatives of its input with respect to theta and v."""
        assert self.law is not None
        s = {name: symbol(name, *size) for name, size in self.law.traced.inputs.items()}
        u = dict(zip(self.law.traced.outputs, self.law.traced.expressions(*s.values()), strict=True))["u"]
        by_theta, by_v = np.zeros((self.nu, self.nw)), np.zeros((self.nu, self.nv))
        if "q" in s:
            by_theta = along_velocities(self.dynamics.coordinates, u, s["q"])
        if "v" in s:
            by_v = jacobian(u, s["v"])
        return s, SparseRows.of(by_theta), SparseRows.of(by_v)

    @cached_property
    def _law_entries(self) -> tuple[Kept, SparseRows, SparseRows]:
        """The same derivatives as symbols."""
        kept, (_, by_theta, by_v) = Kept("law_slope"), self._law_matrices
        return kept, by_theta.mapped(kept), by_v.mapped(kept)

    @property
    def _law_inputs(self) -> dict[str, Array]:
        return {} if self.law is None else {"law_slopes": self._law_entries[0].symbols}

    @cached_property
    def law_slopes(self) -> Traced:
        """(arguments of the law) -> derivatives of the input with respect to theta and v that are not constant."""
        return trace_of("law_slopes", self._law_matrices[0], {"law_slopes": self._law_entries[0].values})

    # --- the linear equations ---------------------------------------------------------------------------------------------------

    @property
    def factors(self) -> Traced:
        """(q, v, u, p, a, h, multipliers, derivatives of the law) -> numbers of the eliminated equations."""
        return self._equations[0]

    @property
    def solution(self) -> Traced:
        """(factors, h, f_w, f_v) -> k = (kw, kv)."""
        return self._equations[1]

    @cached_property
    def _equations(self) -> tuple[Traced, Traced]:
        import casadi

        s, nv, a, g = self.s, self.nv, symbol("a", self.nv), GAMMA * to_sx(self.h)
        held = 0 if self.multipliers is None else next(iter(self.multipliers.outputs.values()))[0]
        lam = symbol("lam", held)
        found = self.dynamics.slopes().expressions(*s.values(), a, lam)
        M, r_delta, r_v, r_u, w_v, Phi, s_delta, s_v = map(SparseRows.of, found)
        if self.secant is not None:
            dv = symbol("dv", nv)
            more = jacobian(self.secant.expressions(s["q"], s["v"], s["p"], dv)[0], dv)
            r_v = r_v.plus(SparseRows.of(more), SURE)
        if self.law is not None:
            _, u_theta, u_v = self._law_entries
            r_delta, r_v = r_delta.plus(r_u.times(u_theta)), r_v.plus(r_u.times(u_v))
        rows = M.plus(r_v, g).plus(r_delta.times(w_v), g * g).rows
        bound = Phi.plus(s_v, g).plus(s_delta.times(w_v), g * g).rows
        lift = row_lifts(found[5], found[0], self.dynamics.row_groups) if held else []
        for k, row in enumerate(bound):
            for j, value in Phi.rows[k].items():
                rows[j][nv + k] = -value
            row[nv + k] = to_sx(lift[k])
        rows = [*rows, *bound]
        order = [*least_degree(rows, range(nv)), *range(nv, len(rows))]
        kept = Kept("factor")
        elimination = factorised(rows, order).mapped(kept)
        f_w, f_v = symbol("f_w", self.nw), symbol("f_v", nv)
        fw, fv = to_sx(f_w), to_sx(f_v)
        forces = [*M.mapped(kept).applied(fv), *Phi.mapped(kept).applied(fv)]
        bent = [*r_delta.mapped(lambda x: kept(g * x)).applied(fw), *s_delta.mapped(lambda x: kept(g * x)).applied(fw)]
        solved = elimination.solve([one - two for one, two in zip(forces, bent, strict=True)])
        kv = casadi.vertcat(*solved[:nv])
        kw = fw + GAMMA * to_sx(self.h) * casadi.vertcat(*w_v.mapped(kept).applied(kv))
        inputs = {**s, "a": a, "h": self.h} | ({"lam": lam} if held else {}) | self._law_inputs
        first = trace_of("ros2_factors", inputs, {"factors": kept.values})
        outputs = {"kw": from_sx(kw, (self.nw,)), "kv": from_sx(kv, (nv,))}
        known = {"factors": kept.symbols, "h": self.h, "f_w": f_w, "f_v": f_v}
        return first, trace_of("ros2_solution", known, outputs)

    # --- work -----------------------------------------------------------------------------------------------------------------

    @cached_property
    def power_slopes(self) -> Traced:
        """(q, v, u, p, h, kw, kv, derivatives of the law) -> P' g k for the powers P of :meth:`.Dynamics.power`."""
        power = self.dynamics.power()
        assert power is not None
        return self._slopes_of(power)

    @cached_property
    def force_slopes(self) -> Traced:
        """(q, v, u, p, h, kw, kv, derivatives of the law) -> F' g k for the forces F of :meth:`.Dynamics.power_forces`."""
        assert self.forces is not None
        return self._slopes_of(self.forces, resisting=True)

    def _slopes_of(self, found: Traced, resisting: bool = False) -> Traced:
        """Derivatives of quantities along g k; of ``resisting`` forces with the secants of friction."""
        import casadi

        s, kw, kv = self.s, symbol("kw", self.nw), symbol("kv", self.nv)
        ku = np.zeros(self.nu)
        if self.law is not None and self.nu:
            _, u_theta, u_v = self._law_entries
            ku = from_sx(
                casadi.vertcat(*u_theta.applied(to_sx(kw))) + casadi.vertcat(*u_v.applied(to_sx(kv))), (self.nu,)
            )
        along = concatenate(self.dynamics.coordinates.rate(s["q"], kw), kv, ku)
        where = concatenate(s["q"], s["v"], s["u"])
        values = dict(zip(found.outputs, found.expressions(*s.values()), strict=True))
        outputs = {k: GAMMA * self.h * directional(x, where, along) for k, x in values.items()}
        if resisting and self.secant is not None:
            more = self.secant.expressions(s["q"], s["v"], s["p"], kv)[0]
            outputs["resisting"] = outputs["resisting"] + SURE * GAMMA * self.h * more
        return trace_of(
            "force_slopes" if resisting else "power_slopes",
            {**s, "h": self.h, "kw": kw, "kv": kv} | self._law_inputs,
            outputs,
        )
