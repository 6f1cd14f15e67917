"""Writing systems as robot files: URDF and MJCF."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from heavytop._files import write_whole
from heavytop.io.from_system import robot_from
from heavytop.io.import_report import TransferReport
from heavytop.io.mesh_files import MeshFiles
from heavytop.io.mjcf.writer import MUJOCO_MESHES, mjcf_text
from heavytop.io.urdf.writer import urdf_text
from heavytop.system import JointLimits
from heavytop.system.description.description import Description


def save_urdf(
    description: Description, path: str | Path, limits: Mapping[str, JointLimits] | None = None, strict: bool = False
) -> TransferReport:
    """Write a described system as URDF; the report says what the format cannot hold."""
    return _save(urdf_text, None, description, path, limits, strict, "robot.urdf")


def save_mjcf(
    description: Description, path: str | Path, limits: Mapping[str, JointLimits] | None = None, strict: bool = False
) -> TransferReport:
    """Write a described system as MJCF; the report says what the format cannot hold."""
    return _save(mjcf_text, MUJOCO_MESHES, description, path, limits, strict, "robot.xml")


def _save(
    writer: Any,
    formats: tuple[str, ...] | None,
    description: Description,
    path: str | Path,
    limits: Any,
    strict: bool,
    example: str,
) -> TransferReport:
    robot = robot_from(description, dict(description.limits if limits is None else limits))
    meshes = MeshFiles(Path(path), formats)
    content = writer(robot, meshes)
    robot.report.check(strict)
    meshes.write()
    write_whole(path, content.encode("utf-8"), example)
    return robot.report
