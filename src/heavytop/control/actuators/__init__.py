"""Actuators: lag, its inverse, and the history of commands."""
