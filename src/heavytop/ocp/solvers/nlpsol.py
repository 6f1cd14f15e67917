"""Solvers of ``casadi.nlpsol``, and a transcription as CasADi expressions: the fallback without IPOPT's library, and the baseline."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from heavytop._arrays import symbol
from heavytop.compile import trace_of
from heavytop.errors import PlanError
from heavytop.ocp.charts import chart, place
from heavytop.ocp.solvers.nonlinear_program import WARM, NonlinearProgram, Solution, SolveRequest, Status
from heavytop.ocp.transcription import Transcription


class Nlpsol:
    """CasADi's interface to IPOPT (or another of its solvers), functions and derivatives in its virtual machine.

    Parameters
    ----------
    plugin : name of the solver in CasADi. expand : whether all functions become one program of scalar operations, which runs faster
        and takes longer to build. options : options of the solver.

    Examples
    --------
    >>> Nlpsol("ipopt", max_iter=200)
    Nlpsol('ipopt')
    """

    name = "nlpsol"

    def __init__(self, plugin: str = "ipopt", expand: bool = False, **options: Any) -> None:
        self.plugin, self.expand, self.options = plugin, expand, options

    def __repr__(self) -> str:
        return f"Nlpsol({self.plugin!r})"

    def solve(self, request: SolveRequest) -> Solution:
        """Solve the program of the request from its starting point."""
        return self.prepared(request)(request.x)

    def prepared(self, request: SolveRequest) -> Callable[[np.ndarray], Solution]:
        """Build the program in CasADi once; return a function that solves it from a point x."""
        import casadi

        program, warm = request.program, request.warm
        own_form = getattr(program, "symbolic", None)
        built = symbolic(program) if own_form is None else own_form()
        options: dict[str, Any] = {"print_time": False, "error_on_fail": False, "expand": self.expand}
        settings: dict[str, Any] = {"max_iter": request.iterations, "tol": request.tolerance, **self.options}
        if self.plugin == "ipopt":
            settings = {
                "print_level": 0, "sb": "yes", "mumps_mem_percent": 1000, "constr_viol_tol": 1e-8,
                **({"mu_strategy": "adaptive"} if warm is None else WARM), **settings,
            }  # fmt: skip
        progress = None if request.callback is None else _progress(program, request.callback)
        if progress is not None:
            options["iteration_callback"] = progress
        try:
            solver = casadi.nlpsol("plan", self.plugin, built, options | {self.plugin: settings})
        except RuntimeError as error:
            raise PlanError(f"CasADi has no solver {self.plugin!r} here: {error}") from None
        return lambda x: _solved(solver, program, x, warm, progress)


def _progress(program: NonlinearProgram, callback: Callable[[int, float, float], None]) -> Any:
    """CasADi's iteration callback; an interrupt or error of ``callback`` is kept in ``.interrupted`` and stops the solver."""
    import casadi

    low, high = program.row_bounds
    places = {name: k for k, name in enumerate(casadi.nlpsol_out())}
    sizes = {"f": 1, "x": len(program.lower), "lam_x": len(program.lower), "g": len(low), "lam_g": len(low)}

    class Progress(casadi.Callback):
        def __init__(self) -> None:
            casadi.Callback.__init__(self)
            self.count, self.interrupted = 0, None
            self.construct("progress", {})

        def get_n_in(self) -> int:
            return len(places)

        def get_n_out(self) -> int:
            return 1

        def get_sparsity_in(self, i: int) -> Any:
            return casadi.Sparsity.dense(sizes.get(casadi.nlpsol_out(i), 0))

        def eval(self, given: Any) -> list[Any]:
            rows = np.asarray(given[places["g"]]).ravel()
            violation = float(np.max(np.maximum(np.maximum(low - rows, rows - high), 0.0), initial=0.0))
            try:
                callback(self.count, float(given[places["f"]]), violation)
            except BaseException as error:
                self.interrupted = error
            self.count += 1
            return [int(self.interrupted is not None)]

    return Progress()


def timed_call(solver: Any, **arguments: Any) -> tuple[dict[str, np.ndarray], dict[str, Any], tuple[float, ...]]:
    """Call a solver of CasADi: its results, its statistics, and seconds in the solver, in the functions and of the processor."""
    begin, cpu = time.perf_counter(), time.process_time()
    result = solver(**arguments)
    seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
    stats = solver.stats()
    inside = sum(value for name, value in stats.items() if name.startswith("t_wall_nlp"))
    found = {name: np.asarray(result[name]).ravel() for name in ("x", "f", "lam_g", "lam_x")}
    return found, stats, (seconds, float(inside), cpu)


def _solved(solver: Any, program: NonlinearProgram, x: np.ndarray, warm: Solution | None, progress: Any) -> Solution:
    low, high = program.row_bounds
    known = {} if warm is None else {"lam_g0": warm.lam, "lam_x0": warm.upper_lam - warm.lower_lam}
    found, stats, times = timed_call(solver, x0=x, lbx=program.lower, ubx=program.upper, lbg=low, ubg=high, **known)
    interrupted = None if progress is None else progress.interrupted
    if interrupted is not None and not isinstance(interrupted, KeyboardInterrupt):
        raise interrupted
    text = str(stats.get("return_status", stats.get("unified_return_status", "")))
    status = Status.SOLVED if stats.get("success") else status_of(text)
    if interrupted is not None:
        status, text = Status.STOPPED, "stopped by the user"
    lam = found["lam_x"]
    return Solution(
        found["x"], found["lam_g"], np.maximum(-lam, 0.0), np.maximum(lam, 0.0), float(found["f"][0]),
        int(stats.get("iter_count", 0)), status, text, *times,
    )  # fmt: skip


def status_of(text: str) -> Status:
    """Status that a message of CasADi stands for."""
    for part, status in (
        ("Infeasible", Status.INFEASIBLE),
        ("Restoration", Status.INFEASIBLE),
        ("Maximum", Status.LIMIT),
        ("Acceptable", Status.ACCEPTABLE),
        ("User", Status.STOPPED),
    ):
        if part in text:
            return status
    return Status.FAILED


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
