"""The equations of motion of a model to read: short SymPy expressions, text and LaTeX."""

from heavytop.equations.equations import Equations as Equations
