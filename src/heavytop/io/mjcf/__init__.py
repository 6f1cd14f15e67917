"""MJCF: MuJoCo's robot files."""
