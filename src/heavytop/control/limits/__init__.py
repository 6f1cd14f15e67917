"""Limits of inputs: allocation, box-constrained least squares, thrust sectors, input rank."""
