"""Runge and Kutta's method in the redundant coordinates, projected back onto the manifold after each step.

It needs nothing but ``A`` and ``phi``, so it runs for coordinates that are no group. With ``dphi/dq A = 0`` the
defect of one step is of order h^5 and so is what the projection moves: the order stays four.
"""

from __future__ import annotations

from collections.abc import Mapping

from heavytop._arrays import Array
from heavytop.compile import Call
from heavytop.simulate.assembly import Method, Plant
from heavytop.simulate.integrators.base import (
    Integrator,
    carried,
    declare_sums,
    keep_rests,
    nonzero,
    project,
    stage_names,
    summed,
    weighted,
)
from heavytop.simulate.integrators.tableaus import RK4


class ProjectedRK4(Integrator):
    """Order 4 for any ``q' = A(q) w``, ``phi(q) = 0``."""

    name = "projected_rk4"
    order = 4
    stable_up_to = 2.785

    def build(self, plant: Plant) -> Method:
        calls: list[Call] = []
        for i in range(4):
            q, flats = ("q", {}) if i == 0 else (f"q{i}", stage_names(plant.flats, str(i)))
            calls += plant.rates(str(i), RK4.c[i], q, flats)
            calls.append(self._rate(plant, i, q))
            calls.append(self._next(plant, i))
        return Method([*calls, keep_rests(plant), *project(plant, 1)], state=carried(plant))

    def _rate(self, plant: Plant, i: int, q: str) -> Call:
        """q' = A(q) w at stage i."""
        plant.buffers[f"q_rate{i}"] = (plant.nq,)
        if "rate" not in plant.functions:
            from heavytop.compile import trace

            plant.functions["rate"] = trace(plant.coordinates.rate, {"q": (plant.nq,), "w": (plant.nw,)}, name="rate")
        return Call("rate", (q, f"w{i}"), (f"q_rate{i}",))

    def _next(self, plant: Plant, i: int) -> Call:
        weights = RK4.b if i == 3 else RK4.a[i + 1]
        used = nonzero(weights)
        last = i == 3
        suffix = "" if last else str(i + 1)
        names = ["q", *(f.name for f in plant.flats)]
        sources = {name: [f"{name}_rate{j}" for j in used] for name in names}
        needed: list[str] = ["h", *names, *(rate for rates in sources.values() for rate in rates)]
        needed += declare_sums(plant) if last else []
        inputs = list(dict.fromkeys(needed))
        shapes = {f"{f.name}{suffix}": (f.size,) for f in plant.flats} | {f"q{suffix}": (plant.nq,)}

        def advance(*values: Array) -> Mapping[str, Array]:
            at = dict(zip(inputs, values, strict=True))
            steps = {
                name: weighted([at["h"] * weights[j] for j in used], [at[rate] for rate in sources[name]])
                for name in names
            }
            result = {f"q{suffix}": at["q"] + steps["q"]}
            for f in plant.flats:
                moved = summed(f, at, steps[f.name]) if last else {f"{f.name}{suffix}": at[f.name] + steps[f.name]}
                result |= moved
            return result

        return plant.function(f"stage{i}", advance, inputs, **shapes)
