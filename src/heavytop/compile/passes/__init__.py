"""Passes over a program before code is written: ordering, tiling, loop rolling, branches, buffers."""
