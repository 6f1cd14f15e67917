"""The equations of motion of a model to read: short SymPy expressions, text and LaTeX."""

from heavytop._gate import gate as _gate
from heavytop.equations.equations import Equations as Equations

_gate(__name__)
