"""Tracking laws: particle, body, energy, computed torque; prototypes, wrappers, references in use."""
