"""URDF: robots as links and joints."""
