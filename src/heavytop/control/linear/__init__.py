"""Linear design and analysis: equilibria, poles, margins, linear-quadratic regulators."""
