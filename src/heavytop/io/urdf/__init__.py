"""URDF: robots as links and joints."""

from heavytop.io.urdf.reader import read_urdf as read_urdf
