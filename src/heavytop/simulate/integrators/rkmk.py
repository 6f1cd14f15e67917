"""Explicit Munthe-Kaas methods: Runge-Kutta in the Lie algebra, so that ``q`` never leaves its manifold.

With ``q(t) = q_n o exp(theta(t))`` the motion ``q' = A(q) w`` becomes ``theta' = T^-1(theta) w`` (doc 002, eqs 11, 12,
72-87). theta restarts at zero in every step and the stages evaluate forces at ``q_n o exp(theta_i)`` (errata 2.14-2.16);
with the exact ``T^-1`` the order is that of the tableau. Up to order four ``T^-1`` is cut after its second bracket.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from heavytop._arrays import Array
from heavytop.compile import Call
from heavytop.simulate.assembly import Method, Plant
from heavytop.simulate.integrators.base import (
    Integrator,
    carried,
    declare_sums,
    keep_rests,
    need_group,
    nonzero,
    project,
    stage_names,
    summed,
    weighted,
)
from heavytop.simulate.integrators.tableaus import BUTCHER6, COOPER_VERNER8, RK4, Tableau


class MuntheKaas(Integrator):
    """The method of any explicit tableau."""

    tableau: ClassVar[Tableau]

    def build(self, plant: Plant) -> Method:
        need_group(plant, type(self).__name__)
        calls = [*munthe_kaas_stages(plant, self.tableau), keep_rests(plant), *project(plant)]
        return Method(calls, state=carried(plant))


class RKMK4(MuntheKaas):
    """Order 4, four evaluations a step: the default."""

    name = "rkmk4"
    order = 4
    stable_up_to = 2.785
    tableau = RK4


class RKMK6(MuntheKaas):
    """Order 6, seven evaluations a step (Butcher 1964)."""

    name = "rkmk6"
    order = 6
    stable_up_to = 3.39
    tableau = BUTCHER6


class RKMK8(MuntheKaas):
    """Order 8, eleven evaluations a step (Cooper and Verner 1972): for errors near rounding."""

    name = "rkmk8"
    order = 8
    stable_up_to = 3.5
    tableau = COOPER_VERNER8


def munthe_kaas_stages(plant: Plant, tableau: Tableau, keep: bool = False) -> list[Call]:
    """Calls of all stages; the last one writes ``q`` and, for each flat part, its new value and what was added.

    With ``keep`` the state stays as it is: the end is written to ``q_end``, ``theta_end`` and ``{flat}_step``, and every ``k{i}`` is
    kept.

    Buffers of stage i: ``theta{i}``, ``q{i}``, flats ``v{i}``; ``w{i}`` and the rates come from the plant, ``k{i}`` is the rate
    of theta. Stage 0 is the state itself, theta = 0 and k = w.
    """
    calls: list[Call] = []
    s = tableau.stages
    for i in range(s):
        q, flats = ("q", {}) if i == 0 else (f"q{i}", stage_names(plant.flats, str(i)))
        calls += plant.rates(str(i), tableau.c[i], q, flats)
        calls.append(_next_stage(plant, tableau, i, keep))
    return calls


def _next_stage(plant: Plant, tableau: Tableau, i: int, keep: bool) -> Call:
    """From the rates of stage i to the point of stage i + 1, or to the end of the step."""
    last = i == tableau.stages - 1
    weights = tableau.b if last else tableau.a[i + 1]
    later = [*tableau.a[i + 2 :], tableau.b] if not last else []
    used = nonzero(weights)
    keep_k = i > 0 and (keep or any(i < len(row) and row[i] != 0.0 for row in later))
    k_names = [f"w{j}" if j == 0 else f"k{j}" for j in used if j != i]
    flat_rates = {flat.name: [f"{flat.rate}{j}" for j in used] for flat in plant.flats}
    inputs = ["q", "h", *(["theta" + str(i)] if i else []), f"w{i}", *k_names]
    if last and not keep:
        inputs += declare_sums(plant)
    inputs += [] if last else [f.name for f in plant.flats]
    for names in flat_rates.values():
        inputs += names
    inputs = list(dict.fromkeys(inputs))
    suffix = ("_end" if keep else "") if last else str(i + 1)
    shapes = {f"{f.name}{'_step' if last else suffix}": (f.size,) for f in plant.flats} | {f"q{suffix}": (plant.nq,)}
    if keep_k:
        shapes[f"k{i}"] = (plant.nw,)
    if not last or keep:
        shapes[f"theta{suffix}"] = (plant.nw,)

    c = plant.coordinates
    tangent_inverse = c.tangent_inverse_truncated if tableau.order <= 4 else c.tangent_inverse

    def advance(*values: Array) -> Mapping[str, Array]:
        at = dict(zip(inputs, values, strict=True))
        rate = at[f"w{i}"]
        if i:
            rate = tangent_inverse(at[f"theta{i}"], rate)
        ks = {j: rate if j == i else at[f"w{j}" if j == 0 else f"k{j}"] for j in used}
        h = at["h"]
        theta = weighted([h * weights[j] for j in used], [ks[j] for j in used])
        result = {f"k{i}": rate} if keep_k else {}
        if not last or keep:
            result[f"theta{suffix}"] = theta
        result[f"q{suffix}"] = c.retract(at["q"], theta)
        for flat in plant.flats:
            rates = [at[name] for name in flat_rates[flat.name]]
            step = weighted([h * weights[j] for j in used], rates)
            if last:
                result |= {f"{flat.name}_step": step} if keep else summed(flat, at, step)
            else:
                result[f"{flat.name}{suffix}"] = at[flat.name] + step
        return result

    return plant.function(f"stage{i}", advance, inputs, **shapes)
