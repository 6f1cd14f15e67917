"""Solvers of ``casadi.nlpsol``: the fallback without IPOPT's library, and the baseline in CasADi's virtual machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from heavytop.errors import PlanError
from heavytop.ocp.solvers.nonlinear_program import WARM, NonlinearProgram, Solution, SolveRequest, Status


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

        from heavytop.ocp.solvers.symbolic import symbolic

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
