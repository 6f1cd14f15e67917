"""MJCF: MuJoCo's robot files."""

from heavytop.io.mjcf.reader import robot_of as robot_of
