"""Model predictive control on the manifold."""
