"""The equations of motion as readable SymPy matrices, text and LaTeX."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytop.compile import Program, trace_of
from heavytop.equations.polynomial import COORDINATE, PARAMETER, VELOCITY
from heavytop.equations.readable import Readable, readable
from heavytop.equations.symbol_names import rotations, symbol_names
from heavytop.errors import ModelError, unknown_name
from heavytop.functions import Portable

if TYPE_CHECKING:
    from heavytop.system import Model

QUANTITIES = ("M", "c", "D", "fK", "fG", "B", "A", "f", "Phi", "b", "F", "P")


def _quantity(name: str, doc: str) -> property:
    return property(lambda self: self._complete[name], doc=doc)


class Equations(Portable):
    """The equations ``M a + c + D v + fK + fG = B u + f`` with ``q' = A v`` and ``phi(q) = 0``.

    Loops and velocity constraints that the velocity coordinates do not satisfy identically add ``Phi^T lam`` to the right-hand side
    and require ``Phi v + b = 0``. Friction that depends on reactions adds ``F N`` with the sizes ``N_k = |P_k lam|``.

    Entries are simplified with trigonometric identities and with the constraints of the coordinates, and collected by
    velocities. The expressions of large systems share named subexpressions (:attr:`definitions`) in text and LaTeX.

    Parameters
    ----------
    model : a derived model.
    names : other names for symbols, ``{"w_1": "u"}``.

    Attributes
    ----------
    q, v, u, p : SymPy columns of coordinates, velocities, inputs and parameters.
    M, c, D, fK, fG, B, A, f, Phi, b, F, P, phi : SymPy matrices and columns, without named subexpressions. ``f`` contains the
        user-defined forces on the right-hand side: ``force(q, v)``, ``work(q, v)`` of constraints and dissipation that is not quadratic in v.
    friction_rows : number of rows of P of each friction: P_1 are the first ones, and so on.

    Examples
    --------
    >>> import heavytop as ht
    >>> system = ht.System()
    >>> m, l = system.parameter("m", 1.0), system.parameter("l", 0.5)
    >>> system.body("bob", inertia=ht.Inertia(m, com=(0, 0, -l)))
    >>> system.connect("world", "bob", ht.Revolute("y"), name="theta")
    >>> equations = system.derive().equations()
    >>> equations.M, equations.fG
    (Matrix([[l**2*m]]), Matrix([[9.81*l*m*sin(theta)]]))
    """

    def __init__(self, model: Model, names: Mapping[str, str] | None = None) -> None:
        import sympy

        e = model.expressions
        if e.has_moving_rates or e.has_drift:
            raise ModelError(
                f"the equations of {model.name!r} cannot be written as q' = A v: q' depends on the time explicitly or does not vanish with v. "
                "Use relative joint velocities; omit a basis with a drift."
            )
        self.model = model
        self.name = model.name
        groups = symbol_names(model)
        known = [name for group in groups for name in group]
        for name in names or {}:
            if name not in known:
                raise unknown_name("symbol of the equations", name, known)
        columns: list[Any] = [
            sympy.Matrix([sympy.Symbol((names or {}).get(name, name)) for name in group]) for group in groups
        ]
        self.q, self.v, self.u, self.p = columns

    @cached_property
    def shapes(self) -> dict[str, tuple[int, int]]:
        """Shape of each quantity."""
        shapes = {name: (value.shape[0], (*value.shape, 1)[1]) for name, value in self._values.items()}
        return shapes | {"B": (self.model.nv, self.model.nu), "Phi": (shapes["Phi"][0], self.model.nv)}

    @cached_property
    def _values(self) -> dict[str, Any]:
        """The quantities as traced expressions."""
        e = self.model.expressions
        d, c = e.dynamics, e.constrained if e.is_constrained else None
        return {
            "M": d.mass_matrix,
            "c": d.bias,
            "D": d.damping_matrix,
            "fK": d.stiffness_force,
            "fG": d.gravity_force,
            "B": d.input_matrix,
            "A": e.kinematics.kinematics_matrix,
            "f": d.supplied_force - d.nonlinear_dissipation_force,
            "Phi": c.Phi if c else np.zeros((0, e.nv)),
            "b": c.drift if c else np.zeros(0),
            "F": c.friction_forces if c else np.zeros((e.nv, 0)),
            "P": c.friction_reactions if c else np.zeros((0, 0)),
        }

    @property
    def friction_rows(self) -> list[int]:
        """Number of rows of P of each friction that depends on reactions."""
        e = self.model.expressions
        return e.constrained.friction_rows if e.is_constrained else []

    @cached_property
    def instructions(self) -> int:
        """Number of scalar operations of all quantities before simplification."""
        return self._program.operations

    @cached_property
    def _program(self) -> Program:
        e, values = self.model.expressions, self._values
        symbols = {"q": e.q, "v": e.v, "p": e.p}
        return Program.from_traced(trace_of("equations", symbols, values))

    @cached_property
    def readable(self) -> Readable:
        """The entries of all quantities, row by row, then phi; with their named subexpressions."""
        e = self.model.expressions
        inputs = [
            [(symbol, level) for symbol in column]
            for column, level in ((self.q, COORDINATE), (self.v, VELOCITY), (self.p, PARAMETER))
        ]
        phi = Program.from_traced(trace_of("constraints", {"q": e.q}, {"phi": e.coordinates.constraints(e.q)}))
        return readable(self._program, inputs, phi, rotations(self.model))

    @property
    def definitions(self) -> list[tuple[Any, Any]]:
        """Named subexpressions (symbol, expression) that :attr:`compact` uses, each in terms of earlier ones."""
        return self.readable.definitions

    @cached_property
    def compact(self) -> dict[str, Any]:
        """The quantities as SymPy matrices in terms of the named subexpressions."""
        return self._matrices(self.readable.outputs)

    @cached_property
    def _complete(self) -> dict[str, Any]:
        return self._matrices(self.readable.complete())

    def _matrices(self, outputs: list[list[Any]]) -> dict[str, Any]:
        import sympy

        result = {
            name: sympy.Matrix(*self.shapes[name], entries) for name, entries in zip(QUANTITIES, outputs, strict=False)
        }
        return {**result, "phi": sympy.Matrix(len(outputs[-1]), 1, outputs[-1])}

    # --- quantities -----------------------------------------------------------------------------------------------------------

    M = _quantity("M", "Mass matrix (nv, nv).")
    c = _quantity("c", "Coriolis and gyroscopic forces (nv, 1).")
    D = _quantity("D", "Damping matrix (nv, nv).")
    fK = _quantity("fK", "Forces of springs and potentials (nv, 1).")
    fG = _quantity("fG", "Forces of gravity (nv, 1), on the left-hand side.")
    B = _quantity("B", "Input matrix (nv, nu).")
    A = _quantity("A", "Kinematics matrix (nq, nv): q' = A v.")
    f = _quantity("f", "User-defined forces (nv, 1), on the right-hand side.")
    Phi = _quantity(
        "Phi", "Rows (m, nv) of loops and constraints: Phi v + b = 0, with reactions Phi^T lam on the right-hand side."
    )
    b = _quantity("b", "Drift (m, 1) of loops and constraints that move by themselves.")
    F = _quantity("F", "Friction (nv, k) per unit of the reactions N, on the right-hand side: F N.")
    P = _quantity("P", "Rows (r, m) that take lam to the reactions N_k = |P_k lam| of friction.")
    phi = _quantity("phi", "Constraints of the coordinates (m, 1), zero on the manifold.")

    # --- output -----------------------------------------------------------------------------------------------------------------

    def sympy(self) -> dict[str, Any]:
        """All quantities by name, as SymPy matrices without named subexpressions."""
        return {name: getattr(self, name) for name in ("q", "v", "u", "p", *QUANTITIES, "phi")}

    def text(self, unicode: bool = True, width: int = 100) -> str:
        """The equations as text: one line per entry that is not zero; ``unicode`` False gives plain Python expressions."""
        from heavytop.equations.typeset import text

        return text(self, unicode, width)

    def latex(self) -> str:
        """The equations as LaTeX, an ``aligned`` environment for display mathematics (amsmath)."""
        from heavytop.equations.typeset import aligned, latex_parts

        return aligned(line for part in latex_parts(self) for line in part)

    def latex_parts(self) -> list[str]:
        """The same in several environments, so that page breaks are possible: the form, rates, definitions, then one per quantity."""
        from heavytop.equations.typeset import aligned, latex_parts

        return [aligned(part) for part in latex_parts(self)]

    def latex_document(self) -> str:
        """A complete LaTeX document (amsmath) with the equations and the values of the parameters.

        Long equations break over pages. Write it to a file and compile it with pdflatex.
        """
        from heavytop.equations.typeset import latex_document

        return latex_document(self)

    def _repr_latex_(self) -> str:
        return "\n\n".join(f"$\\displaystyle {part}$" for part in self.latex_parts())

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"Equations({self.name!r}: nq={self.model.nq}, nv={self.model.nv}, nu={self.model.nu})"

    def to_dict(self) -> dict[str, Any]:
        """The equations as plain data: names, values of parameters, and Python expressions as strings."""
        from heavytop.equations.typeset import line

        plain = lambda expression: line(expression, unicode=False)  # noqa: E731
        compact = self.compact
        return {
            "name": self.name,
            "q": [str(s) for s in self.q],
            "v": [str(s) for s in self.v],
            "u": [str(s) for s in self.u],
            "parameters": {str(s): p.value for s, p in zip(self.p, self.model.description.parameters, strict=True)},
            "form": "M a + c + D v + fK + fG = B u + f + Phi^T lam + F N, q' = A v, phi(q) = 0, Phi v + b = 0, N_k = |P_k lam|",
            "friction_rows": self.friction_rows,
            "definitions": [[symbol.name, plain(expression)] for symbol, expression in self.definitions],
            **{
                name: [[plain(entry) for entry in row] for row in compact[name].tolist()]
                for name in (*QUANTITIES, "phi")
            },
        }
