"""Loading robots from files: URDF and MJCF, by content."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path

from heavytop.errors import FileFormatError, ModelError
from heavytop.io.build_system import LoadedSystem, build_system
from heavytop.io.mjcf.reader import robot_of as mjcf_robot
from heavytop.io.robot import Robot
from heavytop.io.urdf.reader import XACRO
from heavytop.io.urdf.reader import robot_of as urdf_robot
from heavytop.io.xml_source import read_xml


def read_robot(path: str | Path, packages: Mapping[str, str | Path] | None = None) -> Robot:
    """The neutral description of the robot in a file."""
    file = Path(path)
    if file.suffix == ".xacro":
        raise FileFormatError(f"{file}: {XACRO}")
    if file.suffix.lower() == ".toml":
        raise FileFormatError(
            f"{file}: a robot is a URDF or MJCF file. Airframes are read by heavytop.copters.load({str(file)!r})."
        )
    root = read_xml(file)
    folders = {name: Path(folder) for name, folder in (packages or {}).items()}
    if root.tag == "robot":
        return urdf_robot(root, file, folders)
    if root.tag == "mujoco":
        return mjcf_robot(root, file)
    raise root.error("a robot file begins with <robot> (URDF) or <mujoco> (MJCF).")


def load(
    path: str | Path,
    base: str = "fixed",
    *,
    strict: bool = False,
    packages: Mapping[str, str | Path] | None = None,
) -> LoadedSystem:
    """Load a robot from a URDF or MJCF file as a system.

    Parameters
    ----------
    path : the file. Entities and external references in it are refused.
    base : "fixed" or "free": whether the root link of a URDF is welded to the world or moves freely. MJCF says so itself.
    strict : raise a FileFormatError if anything in the file cannot be represented.
    packages : package name -> folder, for ``package://`` paths of meshes that are not found above the file.

    Returns
    -------
    LoadedSystem : a :class:`heavytop.System` with ``report`` (what is represented and what is not, by name and line) and ``limits``.

    Examples
    --------
    >>> import tempfile, heavytop as ht
    >>> text = '''<robot name="arm"><link name="base"/>
    ... <link name="rod"><inertial><origin xyz="0 0 -0.5"/><mass value="2"/></inertial></link>
    ... <joint name="elbow" type="continuous"><parent link="base"/><child link="rod"/><axis xyz="0 1 0"/></joint></robot>'''
    >>> with tempfile.NamedTemporaryFile("w", suffix=".urdf") as file:
    ...     _ = file.write(text), file.flush()
    ...     system = ht.load(file.name)
    >>> model = system.derive()
    >>> model.q_names, model.mass_matrix([0.0])
    (('elbow.angle',), array([[0.5]]))
    >>> system.report.summary()
    '3 represented, 0 changed, 0 lost'
    """
    if not isinstance(path, str | PathLike):
        raise FileFormatError(f"load needs the path of a file, such as 'robot.urdf', got {path!r}.")
    if base not in ("fixed", "free"):
        raise ModelError(f"base must be 'fixed' or 'free', got {base!r}.")
    if packages is not None and not (
        isinstance(packages, Mapping) and all(isinstance(x, str | PathLike) for x in (*packages, *packages.values()))
    ):
        raise ModelError(
            f"packages must map names to folders, such as {{'my_robot': '/robots/my_robot'}}, got {packages!r}."
        )
    robot = read_robot(path, packages)
    system = build_system(robot, base)
    system.report.check(strict)
    return system
