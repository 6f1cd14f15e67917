"""Necessary conditions for a plan to exist, and the most violated constraint where none was found."""
