"""Robot files: URDF and MJCF, loaded by content and saved."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from heavytop._files import write_whole
from heavytop.errors import FileFormatError
from heavytop.io.build_system import LoadedSystem, build_system
from heavytop.io.from_system import robot_from
from heavytop.io.import_report import TransferReport
from heavytop.io.mesh_files import MeshFiles
from heavytop.io.mjcf.reader import robot_of as mjcf_robot
from heavytop.io.mjcf.writer import MUJOCO_MESHES, mjcf_text
from heavytop.io.robot import Robot
from heavytop.io.urdf.reader import XACRO, robot_of as urdf_robot
from heavytop.io.urdf.writer import urdf_text
from heavytop.io.xml_elements import read_xml
from heavytop.system import Description, JointLimits


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
    if root.tag == "robot":
        return urdf_robot(root, file, {name: Path(folder) for name, folder in (packages or {}).items()})
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
    path : the file. Entities and external references in it are rejected.
    base : "fixed" or "free": whether the root link of a URDF is welded to the world or moves freely. MJCF specifies it itself.
    strict : raise a FileFormatError if anything in the file cannot be represented.
    packages : package name -> folder, for ``package://`` paths of meshes that are not found above the file.

    Returns
    -------
    LoadedSystem : a :class:`heavytop.System` with ``report`` (parts represented, changed and lost, by name and line) and ``limits``.

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
    system = build_system(read_robot(path, packages), base)
    system.report.check(strict)
    return system


def save_urdf(
    description: Description, path: str | Path, limits: Mapping[str, JointLimits] | None = None, strict: bool = False
) -> TransferReport:
    """Write a described system as URDF and report the losses."""
    return _save(urdf_text, MeshFiles(Path(path)), description, path, limits, strict, "robot.urdf")


def save_mjcf(
    description: Description, path: str | Path, limits: Mapping[str, JointLimits] | None = None, strict: bool = False
) -> TransferReport:
    """Write a described system as MJCF and report the losses."""
    return _save(mjcf_text, MeshFiles(Path(path), MUJOCO_MESHES), description, path, limits, strict, "robot.xml")


def _save(
    text: Callable[[Robot, MeshFiles], str],
    meshes: MeshFiles,
    description: Description,
    path: str | Path,
    limits: Mapping[str, JointLimits] | None,
    strict: bool,
    example: str,
) -> TransferReport:
    robot = robot_from(description, dict(description.limits if limits is None else limits))
    content = text(robot, meshes)
    robot.report.check(strict)
    meshes.write()
    write_whole(path, content.encode("utf-8"), example)
    return robot.report
