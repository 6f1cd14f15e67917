"""The equations of motion of a model in readable form: short SymPy expressions, text and LaTeX."""

from heavytop.equations.equations import Equations as Equations
