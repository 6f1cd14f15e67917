"""IPOPT through its C interface, with native callbacks. The library is the one in CasADi's wheel."""

from __future__ import annotations

import ctypes as ct
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from heavytop.errors import PlanError
from heavytop.ocp.solvers.nonlinear_program import WARM, Solution, SolveRequest, Status

_INT, _REAL, _BOOL, _ANY = ct.c_int, ct.c_double, ct.c_bool, ct.c_void_p
_REALS = _INTS = _ANY  # addresses: pointers of ctypes take longer to become arrays
_OBJECTIVE = ct.CFUNCTYPE(_BOOL, _INT, _REALS, _BOOL, _REALS, _ANY)
_ROWS = ct.CFUNCTYPE(_BOOL, _INT, _REALS, _BOOL, _INT, _REALS, _ANY)
_JACOBIAN = ct.CFUNCTYPE(_BOOL, _INT, _REALS, _BOOL, _INT, _INT, _INTS, _INTS, _REALS, _ANY)
_HESSIAN = ct.CFUNCTYPE(_BOOL, _INT, _REALS, _BOOL, _REAL, _INT, _REALS, _BOOL, _INT, _INTS, _INTS, _REALS, _ANY)
_PROGRESS = ct.CFUNCTYPE(_BOOL, _INT, _INT, *[_REAL] * 8, _INT, _ANY)

_ENDINGS = {
    0: (Status.SOLVED, "solved"),
    1: (Status.ACCEPTABLE, "solved to an acceptable level"),
    2: (Status.INFEASIBLE, "locally infeasible"),
    3: (Status.FAILED, "the search direction became too small"),
    4: (Status.FAILED, "the iterates diverge"),
    5: (Status.STOPPED, "stopped by the user"),
    6: (Status.SOLVED, "a feasible point was found"),
    -1: (Status.LIMIT, "out of iterations"),
    -2: (Status.INFEASIBLE, "the search for a feasible point failed"),
    -3: (Status.FAILED, "an error in the computation of the step"),
    -4: (Status.LIMIT, "out of time"),
    -10: (Status.FAILED, "there are more equations than variables"),
    -13: (Status.FAILED, "a function is not a number"),
}
_FAR = 2e19
"""Infinity of IPOPT."""
_STEEP = 100.0
"""Derivative beyond which IPOPT scales a cost or row (its option nlp_scaling_max_gradient)."""


@cache
def library() -> Any:
    """The loaded library, or None if CasADi's wheel lacks it."""
    import casadi

    folder = Path(str(casadi.__file__)).parent
    for pattern in ("libipopt.so", "libipopt.so.*", "libipopt*.dylib", "libipopt*.dll", "ipopt*.dll"):
        for path in sorted(folder.glob(pattern)):
            try:
                loaded = ct.CDLL(str(path))
            except OSError:
                continue
            loaded.CreateIpoptProblem.restype = _ANY
            loaded.IpoptSolve.restype = _INT
            return loaded
    return None


class Ipopt:
    """The interior-point method with native callbacks.

    Parameters
    ----------
    options : further options of IPOPT by their names.

    Examples
    --------
    >>> Ipopt(max_iter=200)
    Ipopt()
    """

    name = "ipopt"

    def __init__(self, **options: Any) -> None:
        self.options = options

    def __repr__(self) -> str:
        return "Ipopt()"

    def solve(self, request: SolveRequest) -> Solution:
        """Solve the program of the request from its starting point."""
        return _Run(request).solve(self.options)


class _Run:
    """One problem inside IPOPT: its callbacks and their state."""

    def __init__(self, request: SolveRequest) -> None:
        self.request, self.program = request, request.program
        self.interrupted: BaseException | None = None
        self.iterations, self.callback_seconds = 0, 0.0
        self.accepted: np.ndarray | None = None
        self.best: tuple[float, float, np.ndarray] | None = None
        self.rows, self.columns = self.program.jacobian_structure
        self.hessian_rows, self.hessian_columns = self.program.hessian_structure

    def _guarded(self, function: Callable[..., bool]) -> Callable[..., bool]:
        """Keep an exception, which must not cross C code, and stop IPOPT."""

        def call(*arguments: Any) -> bool:
            if self.interrupted is not None:
                return False
            begin = time.perf_counter()
            try:
                return function(*arguments)
            except BaseException as error:
                self.interrupted = error
                return False
            finally:
                self.callback_seconds += time.perf_counter() - begin

        return call

    def _objective(self, n: int, x: Any, new: bool, out: Any, user: Any) -> bool:
        return _fill(out, np.array([self.program.objective(_array(x, n))]))

    def _gradient(self, n: int, x: Any, new: bool, out: Any, user: Any) -> bool:
        self.accepted = _array(x, n).copy()
        return _fill(out, self.program.gradient(self.accepted))

    def _rows(self, n: int, x: Any, new: bool, m: int, out: Any, user: Any) -> bool:
        return _fill(out, self.program.values(_array(x, n)))

    def _jacobian(
        self, n: int, x: Any, new: bool, m: int, count: int, rows: Any, columns: Any, out: Any, user: Any
    ) -> bool:
        if rows:
            return _fill(rows, self.rows, _INT) and _fill(columns, self.columns, _INT)
        return _fill(out, self.program.jacobian(_array(x, n)))

    def _hessian(
        self, n: int, x: Any, new: bool, weight: float, m: int, lam: Any, new_lam: bool, count: int, rows: Any,
        columns: Any, out: Any, user: Any,
    ) -> bool:  # fmt: skip
        if rows:
            return _fill(rows, self.hessian_rows, _INT) and _fill(columns, self.hessian_columns, _INT)
        return _fill(out, self.program.hessian(_array(x, n), _array(lam, m), weight))

    def _progress(self, mode: int, iteration: int, cost: float, violation: float, *rest: Any) -> bool:
        self.iterations = iteration
        if self.accepted is not None and (self.best is None or (violation, cost) <= self.best[:2]):
            self.best = (violation, cost, self.accepted)
        if self.request.callback is not None:
            self.request.callback(iteration, cost, violation)
        return True

    def _scales(self, x: np.ndarray, units: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Factors of cost, variables and rows: variables in their units, derivatives above 100 as IPOPT's own scaling."""
        with np.errstate(all="ignore"):
            gradient, slopes = self.program.gradient(x) * units, np.abs(self.program.jacobian(x) * units[self.columns])
        rows = np.zeros(len(self.program.row_bounds[0]))
        np.maximum.at(rows, self.rows, slopes)
        cost = float(np.max(np.abs(gradient), initial=0.0))
        return (
            _STEEP / cost if _STEEP < cost < np.inf else 1.0,
            1.0 / units,
            np.where(np.isfinite(rows), _STEEP / np.maximum(rows, _STEEP), 1.0),
        )

    def solve(self, options: dict[str, Any]) -> Solution:
        lib, program, request, warm = library(), self.program, self.request, self.request.warm
        x = np.ascontiguousarray(request.x, dtype=float).copy()
        n = len(x)
        lower, upper = (np.clip(side, -_FAR, _FAR) for side in (program.lower, program.upper))
        row_lower, row_upper = (np.clip(side, -_FAR, _FAR) for side in program.row_bounds)
        m = len(row_lower)
        callbacks = (
            _OBJECTIVE(self._guarded(self._objective)),
            _ROWS(self._guarded(self._rows)),
            _OBJECTIVE(self._guarded(self._gradient)),
            _JACOBIAN(self._guarded(self._jacobian)),
            _HESSIAN(self._guarded(self._hessian)),
        )
        progress = _PROGRESS(self._guarded(self._progress))
        problem = lib.CreateIpoptProblem(
            _INT(n), _pointer(lower), _pointer(upper), _INT(m), _pointer(row_lower), _pointer(row_upper),
            _INT(len(self.rows)), _INT(len(self.hessian_rows)), _INT(0), *callbacks,
        )  # fmt: skip
        handle = _ANY(problem)
        try:
            settings: dict[str, Any] = {
                "print_level": 0, "sb": "yes", "mumps_mem_percent": 1000, "honor_original_bounds": "yes",
                "max_iter": request.iterations, "tol": request.tolerance, "constr_viol_tol": min(request.tolerance, 1e-8),
            }  # fmt: skip
            if warm is None:
                settings["mu_strategy"] = "adaptive"  # a third fewer iterations over the gallery, never a worse optimum
            else:
                settings |= WARM
            if request.feasible:
                settings |= {
                    "theta_max_fact": 1.0,
                    "alpha_red_factor": 0.2,
                }  # the largest sum of violations (default 1e4)
            scales = None if program.units is None else self._scales(x, program.units)
            if scales is not None:
                settings["nlp_scaling_method"] = "user-scaling"
                lib.SetIpoptProblemScaling(handle, _REAL(scales[0]), *map(_pointer, scales[1:]))
            for name, value in (settings | options).items():
                _set(lib, handle, name, value)
            lib.SetIntermediateCallback(handle, progress)
            if warm is None:
                lam, low, high = np.zeros(m), np.zeros(n), np.zeros(n)
            else:
                lam, low, high = (np.array(side) for side in (warm.lam, warm.lower_lam, warm.upper_lam))
            cost, begin, cpu = _REAL(0.0), time.perf_counter(), time.process_time()
            rows = np.zeros(m)
            code = lib.IpoptSolve(
                handle, _pointer(x), _pointer(rows), ct.byref(cost), _pointer(lam), _pointer(low), _pointer(high), None
            )
            seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
        finally:
            lib.FreeIpoptProblem(handle)
        status, message = _ENDINGS.get(code, (Status.FAILED, f"code {code}"))
        if self.interrupted is not None:
            if not isinstance(self.interrupted, KeyboardInterrupt):
                raise self.interrupted
            status, message = Status.STOPPED, "stopped by the user"
        if status is Status.STOPPED and self.best is not None:
            x = self.best[2]
        value = float(program.objective(x))
        inside = self.callback_seconds
        return Solution(x, lam, low, high, value, self.iterations, status, message, seconds, inside, cpu)


def _set(lib: Any, handle: Any, name: str, value: Any) -> None:
    key = ct.c_char_p(name.encode())
    if isinstance(value, str):
        ok = lib.AddIpoptStrOption(handle, key, ct.c_char_p(value.encode()))
    elif isinstance(value, int):
        ok = lib.AddIpoptIntOption(handle, key, _INT(value))
    else:
        ok = lib.AddIpoptNumOption(handle, key, _REAL(value))
    if not ok & 1:
        raise PlanError(f"IPOPT rejects the option {name!r} with the value {value!r}.")


def _array(address: int | None, size: int, kind: Any = _REAL) -> np.ndarray:
    return np.frombuffer((kind * size).from_address(address), dtype=kind) if address and size else np.zeros(0)


def _fill(address: int, values: np.ndarray, kind: Any = _REAL) -> bool:
    """Write values to an address; return whether they are finite."""
    _array(address, len(values), kind)[:] = values
    return bool(np.all(np.isfinite(values)))


def _pointer(array: np.ndarray) -> Any:
    return array.ctypes.data_as(_ANY)
