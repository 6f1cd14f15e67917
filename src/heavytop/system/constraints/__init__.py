"""Constraints: loops, holonomic and velocity constraints, assembly, scaling, friction by reaction."""
