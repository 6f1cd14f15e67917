"""Disturbances of the plant: wind, drag, forces."""
