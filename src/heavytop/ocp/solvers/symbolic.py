"""A transcription as CasADi expressions: the same variables, charts, steps and rows, for solvers that differentiate themselves."""

from __future__ import annotations

from typing import Any

from heavytop._arrays import symbol
from heavytop.compile import trace_of
from heavytop.ocp.charts import chart, place
from heavytop.ocp.transcription import Transcription


def symbolic(program: Any, explicit: bool = False) -> dict[str, Any]:
    """{"x", "f", "g"} of a transcription.

    Parameters
    ----------
    explicit : whether the rows of chart coordinates are ``place(end) - e = 0``, linear in the next node, as stage-wise solvers
        require; otherwise the residuals of the transcription.
    """
    import casadi as ca

    t: Transcription = program
    layout, rates, shooting, N = t.layout, t.rates, t.shooting, t.count
    p = ca.DM(t.p)
    rho, link = rates.rho.traced_value.function, rates.link.traced_value.function
    integrand = None if shooting.integrand is None else shooting.integrand.traced_value.function
    constants = ca.DM(t.constants)

    # one interval as a function, mapped over all
    y, weight = ca.MX.sym("y", t.size), ca.MX.sym("w")
    q_bar = ca.MX.sym("q_bar", t.centres.shape[1])
    h = weight / shooting.substeps * (y[layout.tau] if layout.free else 1.0)
    x, cost, a, b = y[: rates.nx], ca.MX(0), shooting.tableau.matrix, shooting.tableau.b
    for step in range(shooting.substeps):
        if shooting.tableau.implicit:
            x, added = _collocated(t, step, x, y, h, q_bar, p, constants)
            cost += added
            continue
        k: list[Any] = []
        for i in range(shooting.tableau.stages):
            fraction = shooting._fraction(step, shooting.tableau.c[i])
            u = y[layout.s] + fraction * y[layout.c] if layout.linear else y[layout.c]
            z = ca.vertcat(x + h * sum((a[i, j] * k[j] for j in range(i) if a[i, j]), ca.MX.zeros(rates.nx)), u)
            k.append(rho(z, q_bar, p))
            if integrand is not None and b[i]:
                cost += h * b[i] * integrand(_cost_arguments(t, z, y, h), q_bar, p, constants)
        x = x + h * sum(b[i] * k[i] for i in range(shooting.tableau.stages) if b[i])
    interval = ca.Function("interval", [y, weight, q_bar], [x, cost])

    X = ca.MX.sym("x", t.variables)
    Y = ca.reshape(X, t.size, N + 1)
    centres = ca.DM(t.centres.T)
    ends, costs = interval.map(N)(Y[:, :-1], ca.DM(t.weights).T, centres[:, :-1])
    if explicit:
        c, e = rates.coordinates, symbol("e", rates.ne)
        here, there = (symbol(name, t.centres.shape[1]) for name in ("here", "there"))
        arrival = trace_of("arrival", {"e": e, "here": here, "there": there}, {"e": place(c, there, chart(c, here, e))})
        gaps = arrival.function.map(N)(ends[: rates.ne, :], centres[:, :-1], centres[:, 1:]) - Y[layout.e, 1:]
    else:
        gaps = link.map(N)(ca.vertcat(ends[: rates.ne, :], Y[layout.e, 1:]), centres[:, :-1], centres[:, 1:])
    rows = [ca.vec(ca.vertcat(gaps, ends[rates.ne :, :])), ca.DM.zeros(t.offsets["periodic"] - t.offsets["inputs"])]
    if t.problem.periodic:
        rows.append(link(ca.vertcat(Y[layout.e, -1], Y[layout.e, 0]), centres[:, -1], centres[:, 0]))
        rows.append(ca.DM.zeros(rates.nv))
    rows.append(ca.DM.zeros(int(t.bounded_total)))
    lengths = ca.DM(t.weights).T * (Y[layout.tau, :-1] if layout.free else 1.0)
    objective = ca.sum2(costs) + t.time_weight * ca.sum2(lengths)
    for block in (*t.constraints, *t.costs):
        nodes = block.nodes.tolist()
        function = block.function.traced_value.function.map(len(nodes))
        values = function(
            Y[block.columns.tolist(), nodes], centres[:, nodes], ca.repmat(p, 1, len(nodes)), ca.DM(block.constants.T)
        )
        if block.weights is None:
            rows.append(ca.vec(values))
        else:
            objective += ca.dot(ca.DM(block.weights), values)
    r, c, coefficients = (part.tolist() for part in t.linear_part)
    linear = ca.DM.triplet(r, c, ca.DM(coefficients), t.rows, t.variables)
    return {"x": X, "f": objective, "g": ca.vertcat(*rows) + linear @ X}


def _cost_arguments(t: Transcription, z: Any, y: Any, h: Any) -> Any:
    """Arguments of the cost per time: those of the rates, and the rates of the inputs if it depends on them."""
    import casadi as ca

    return ca.vertcat(z, y[t.layout.c] / (h * t.shooting.substeps)) if t.shooting.rated else z


def _collocated(
    t: Transcription, step: int, x: Any, y: Any, h: Any, q_bar: Any, p: Any, constants: Any
) -> tuple[Any, Any]:
    """End and cost of an implicit step: CasADi finds the rates of its stages by Newton's method."""
    import casadi as ca

    layout, shooting, n, nx = t.layout, t.shooting, t.shooting.tableau.stages, t.rates.nx
    a, b, c = ca.DM(shooting.tableau.matrix), shooting.tableau.b, shooting.tableau.c
    rho = t.rates.rho.traced_value.function

    def arguments(k: Any, x: Any, y: Any, h: Any) -> list[Any]:
        """z of all stages for rates k (nx, s)."""
        raised, inputs = ca.mtimes(k, a.T), []
        for i in range(n):
            fraction = shooting._fraction(step, c[i])
            u = y[layout.s] + fraction * y[layout.c] if layout.linear else y[layout.c]
            inputs.append(ca.vertcat(x + h * raised[:, i], u))
        return inputs

    k, given = ca.MX.sym("k", nx * n), [ca.MX.sym("x", nx), ca.MX.sym("y", t.size), ca.MX.sym("h")]
    centre = ca.MX.sym("q_bar", q_bar.shape[0])
    rates = [rho(z, centre, p) for z in arguments(ca.reshape(k, nx, n), *given)]
    residual = ca.Function("residual", [k, *given, centre], [k - ca.vertcat(*rates)])
    find = ca.rootfinder("stages", "newton", residual, {"abstol": 1e-13, "max_iter": 50, "error_on_fail": False})
    found = ca.reshape(find(ca.MX.zeros(nx * n), x, y, h, q_bar), nx, n)
    cost = ca.MX(0)
    if shooting.integrand is not None:
        integrand = shooting.integrand.traced_value.function
        cost = sum(
            h * b[i] * integrand(_cost_arguments(t, z, y, h), q_bar, p, constants)
            for i, z in enumerate(arguments(found, x, y, h))
        )
    return x + h * ca.mtimes(found, ca.DM(b)), cost
