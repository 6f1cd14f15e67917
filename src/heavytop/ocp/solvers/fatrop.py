"""fatrop, an interior-point method for stage-wise problems: its linear algebra is a Riccati recursion, linear in the number of steps.

It comes with CasADi's wheel and runs through ``casadi.nlpsol``. Variables are ordered node by node already; rows are reordered to those that lead
from node k to the next one, then the constraints at node k.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from heavytop.errors import PlanError
from heavytop.ocp.solvers.nlpsol import status_of, timed_call
from heavytop.ocp.solvers.nonlinear_program import Solution, SolveRequest, Status, default_solver
from heavytop.ocp.transcription import Transcription


class Fatrop:
    """The solver fatrop, functions and derivatives in CasADi's virtual machine.

    It solves stage-wise problems: no periodic motions, no bounds on the sum of several durations.

    Parameters
    ----------
    options : options of fatrop by their names.

    Examples
    --------
    >>> Fatrop(mu_init=0.1)
    Fatrop()
    """

    name = "fatrop"

    def __init__(self, **options: Any) -> None:
        self.options = options

    def __repr__(self) -> str:
        return "Fatrop()"

    def solve(self, request: SolveRequest) -> Solution:
        """Solve the program of the request from its starting point; fatrop ignores ``warm`` and ``callback``."""
        if not isinstance(request.program, Transcription):
            return default_solver().solve(request)
        return _Staged(request.program).solve(request, self.options)


class _Staged:
    """The rows of a transcription stage by stage; fixed variables are equations of their stage."""

    def __init__(self, program: Transcription) -> None:
        self.program = t = program
        if t.shooting.tableau.implicit:
            raise PlanError(
                "fatrop takes explicit steps only, and this motion is collocated: use Ipopt(), or method='shooting'."
            )
        if t.problem.periodic:
            raise PlanError("fatrop solves stage by stage, and a periodic motion ties its ends together: use Ipopt().")
        if t.bounded_total:
            raise PlanError(
                "fatrop solves stage by stage, and a bound on the sum of several durations ties them together: use Ipopt()."
            )
        # the last node has neither input nor duration: its variables after the state are constants, and omitted
        self.kept = t.count * t.size + t.layout.s.stop
        self.fixed = np.nonzero((t.lower == t.upper)[: self.kept])[0]
        self.steps, self.sizes, self.gap = self._order()

    def _order(self) -> tuple[np.ndarray, dict[str, list[int]], np.ndarray]:
        """Rows stage by stage (those of fixed variables come after the others), sizes of the stages, which rows are gaps."""
        t, layout = self.program, self.program.layout
        first = set(np.r_[0, t.problem.ends[:-1]].tolist())
        gaps: list[list[int]] = [[] for _ in range(t.count + 1)]
        constraints: list[list[int]] = [[] for _ in range(t.count + 1)]
        for row, (_, node) in enumerate(t.row_labels):
            (gaps if row < t.offsets["rates"] else constraints)[node].append(row)
        for j, variable in enumerate(self.fixed):
            constraints[variable // t.size].append(t.rows + j)
        # a duration is a state within its phase; at its first node it is chosen, like an input
        states = [layout.tau + int(k not in first) if layout.free else layout.s.stop for k in range(t.count)]
        sizes = {
            "nx": [*states, layout.s.stop], "nu": [*(t.size - n for n in states), 0], "ng": [*map(len, constraints)]
        }  # fmt: skip
        stages = list(zip(gaps, constraints, strict=True))
        order = [row for stage in stages for rows in stage for row in rows]
        gap = [is_gap for stage in stages for rows, is_gap in zip(stage, (True, False), strict=True) for _ in rows]
        return np.array(order), sizes, np.array(gap)

    def solve(self, request: SolveRequest, given: dict[str, Any]) -> Solution:
        import casadi as ca

        from heavytop.ocp.solvers.nlpsol import symbolic

        t, fixed, kept = self.program, self.fixed, self.kept
        built = symbolic(t, explicit=True)
        X = ca.MX.sym("x", kept)
        whole = ca.Function("whole", [built["x"]], [built["f"], built["g"]])
        cost, values = whole(ca.vertcat(X, ca.DM(t.lower[kept:])))
        low, high = (np.concatenate([side, t.lower[fixed]]) for side in t.row_bounds)
        sign = np.where(self.gap, -1.0, 1.0)  # fatrop wants x_{k+1} - F(x_k, u_k)
        rows = ca.DM(sign) * ca.vertcat(values, X[fixed.tolist()])[self.steps.tolist()]
        lower, upper = t.lower[:kept].copy(), t.upper[:kept].copy()
        lower[fixed], upper[fixed] = -np.inf, np.inf
        options: dict[str, Any] = {
            "print_time": False, "error_on_fail": False, "expand": True, "structure_detection": "manual", "N": t.count,
            **self.sizes, "equality": (low == high)[self.steps].tolist(),
            "fatrop": {"print_level": 0, "max_iter": request.iterations, "tol": request.tolerance, **given},
        }  # fmt: skip
        try:
            solver = ca.nlpsol("plan", "fatrop", {"x": X, "f": cost, "g": rows}, options)
        except RuntimeError as error:
            raise PlanError(f"CasADi's fatrop rejects this program: {error}") from None
        bounds = {"lbx": lower, "ubx": upper, "lbg": low[self.steps], "ubg": high[self.steps]}
        found, stats, times = timed_call(solver, x0=request.x[:kept], **bounds)
        solved = bool(stats.get("success"))
        text = "solved" if solved else str(stats.get("unified_return_status", "failed"))
        status = Status.SOLVED if solved else status_of(text)
        lam = np.zeros(t.rows + len(fixed))
        lam[self.steps] = sign * found["lam_g"]
        last = np.zeros(t.variables - kept)
        of_bounds, point = np.concatenate([found["lam_x"], last]), np.concatenate([found["x"], t.lower[kept:]])
        of_bounds[fixed] = lam[t.rows :]
        return Solution(
            point, self._multipliers(point, lam[: t.rows]), np.maximum(-of_bounds, 0.0), np.maximum(of_bounds, 0.0),
            float(found["f"][0]), int(stats.get("iter_count", 0)), status, text, *times,
        )  # fmt: skip

    def _multipliers(self, x: np.ndarray, lam: np.ndarray) -> np.ndarray:
        """Multipliers of the rows of the transcription: ``lam = T^T lam'`` with the Jacobian T of the residual with respect to chart coordinates."""
        t, n, ne = self.program, self.program.rates.nx, self.program.rates.ne
        slope = t._run(x)[2][:, :, ne:]
        dynamics = lam[: t.count * n].reshape(t.count, n).copy()
        dynamics[:, :ne] = np.linalg.solve(-np.swapaxes(slope, 1, 2), dynamics[:, :ne, None])[:, :, 0]
        return np.concatenate([dynamics.ravel(), lam[t.count * n :]])
