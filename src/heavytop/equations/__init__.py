"""The equations of motion of a model in readable form: short SymPy expressions, text and LaTeX."""

from heavytop.equations.equations import Equations as Equations
from heavytop.equations.symbol_names import SymbolNames
from heavytop.equations.typeset import form, unicode_name
