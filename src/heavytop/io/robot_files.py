"""Robot files: URDF, MJCF and SDF, loaded by content; URDF and MJCF saved."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from heavytop._files import write_whole
from heavytop.errors import FileFormatError, HeavytopError, ModelError
from heavytop.geometry import se3
from heavytop.io.asset_paths import AssetPaths
from heavytop.io.build_system import LoadedSystem, build_system
from heavytop.io.from_system import robot_from
from heavytop.io.import_report import TransferReport
from heavytop.io.mesh_files import MeshFiles
from heavytop.io.robot import JointKind, Robot
from heavytop.io.urdf.reader import robot_of as urdf_robot
from heavytop.io.urdf.writer import free_root, urdf_text
from heavytop.io.urdf.xacro_files import expanded_xacro
from heavytop.io.xml_elements import Element, parse_xml, read_xml
from heavytop.system import WORLD, Description, JointLimits, Model, at_defaults


def read_robot(
    path: str | Path,
    packages: Mapping[str, str | Path] | None = None,
    root: str | Path | None = None,
    with_collision: bool = False,
) -> Robot:
    """The neutral description of the robot in a file."""
    file = Path(path)
    if file.suffix.lower() == ".toml":
        raise FileFormatError(
            f"{file}: a robot is a URDF, MJCF or SDF file. Airframes are read by heavytop.copters.load({str(file)!r})."
        )
    content = expanded_xacro(file) if file.suffix == ".xacro" else read_xml(file)
    paths = AssetPaths(file, packages or {}, root)
    if content.tag == "robot":
        return urdf_robot(content, paths, with_collision)
    if content.tag == "mujoco":
        from heavytop.io.mjcf.reader import robot_of as mjcf_robot  # takes a while to import

        return mjcf_robot(content, paths)
    if content.tag == "sdf":
        from heavytop.io.sdf.reader import robot_of as sdf_robot

        return sdf_robot(content, paths, with_collision)
    raise content.error("a robot file begins with <robot> (URDF), <mujoco> (MJCF) or <sdf>.")


def load(
    path: str | Path,
    base: str = "fixed",
    *,
    strict: bool = False,
    packages: Mapping[str, str | Path] | None = None,
    root: str | Path | None = None,
    shapes: str = "visual",
    contacts: str | Sequence[str] | None = None,
    contact: Mapping[str, Any] | None = None,
) -> LoadedSystem:
    """Load a robot from a URDF, MJCF or SDF file as a system.

    Parameters
    ----------
    path : the file. Entities and external references in it are rejected. A xacro file is expanded by the package xacro, if it is installed,
        which evaluates the expressions in it: load only xacro files you trust.
    base : "fixed" or "free": whether the root link of a URDF is welded to the world or moves freely. MJCF and SDF specify it themselves.
    strict : raise a FileFormatError if anything in the file cannot be represented.
    packages : package name -> folder, for ``package://`` paths of meshes that are not found above the file.
    root : folder inside which includes and meshes are read, for files that name ``../common/...``. Default: the nearest folder above the file
        with a ``package.xml`` or ``.git``, else the highest one, at most six levels above, that is the user's own. Nothing outside is opened.
    shapes : "visual" or "collision": which geometry of the file is drawn. Geoms of MJCF in the groups 3, 4 and 5 are collision geometry.
    contacts : which links touch the ground with the collision geometry of the file: "feet" (those whose descendants have none), "all", or names;
        None: no link does. The ground is the first plane in the world of an MJCF file, else z = 0. Friction is that of the file (MJCF), else 0.8.
    contact : keywords of :meth:`heavytop.System.contact` for all of them, such as ``{"stiffness": 1e5, "friction": 0.6}``; rigid by default.

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
    if shapes not in ("visual", "collision"):
        raise ModelError(f"shapes must be 'visual' or 'collision', got {shapes!r}.")
    if contacts is None and contact is not None:
        raise ModelError("contact= has the properties of contacts: choose the links, contacts='feet', 'all' or names.")
    robot = read_robot(path, packages, root, shapes == "collision" or contacts is not None)
    system = build_system(robot, base, shapes, contacts, contact)
    system.report.check(strict)
    return system


def save_urdf(
    description: Description, path: str | Path, limits: Mapping[str, JointLimits] | None = None, strict: bool = False
) -> TransferReport:
    """Write a described system as URDF and report the losses."""
    file = Path(path)

    def read(root: Element) -> LoadedSystem:
        return build_system(urdf_robot(root, AssetPaths(file)), "free" if free_root(robot) else "fixed")

    robot = robot_from(description, dict(description.limits if limits is None else limits))
    meshes = MeshFiles(file)
    return _save(urdf_text(robot, meshes), read, robot, meshes, description, file, strict, "robot.urdf")


def save_mjcf(
    description: Description, path: str | Path, limits: Mapping[str, JointLimits] | None = None, strict: bool = False
) -> TransferReport:
    """Write a described system as MJCF and report the losses."""
    from heavytop.io.mjcf.reader import robot_of as mjcf_robot
    from heavytop.io.mjcf.writer import MUJOCO_MESHES, mjcf_text

    file = Path(path)
    robot = robot_from(description, dict(description.limits if limits is None else limits))
    meshes = MeshFiles(file, MUJOCO_MESHES)

    def read(root: Element) -> LoadedSystem:
        return build_system(mjcf_robot(root, AssetPaths(file)))

    return _save(mjcf_text(robot, meshes), read, robot, meshes, description, file, strict, "robot.xml")


def _save(
    content: str,
    read: Callable[[Element], LoadedSystem],
    robot: Robot,
    meshes: MeshFiles,
    description: Description,
    path: Path,
    strict: bool,
    example: str,
) -> TransferReport:
    _read_back(content, read, robot, description, path)
    robot.report.check(strict)
    meshes.write()
    write_whole(path, content.encode("utf-8"), example)
    return robot.report


# --- written files are read again -------------------------------------------------------------------------------------------

UNSEEN = ("mesh", "visual", "contact geometry", "collision geometry")
"""Losses of a reader that do not concern the motion."""
STATES, SAME = 2, 1e-9
"""Random states at which accelerations are compared, and the relative deviation allowed."""


def _read_back(
    content: str, read: Callable[[Element], LoadedSystem], robot: Robot, description: Description, path: Path
) -> None:
    """Report a text that cannot be read, parts that are lost in reading, bodies and accelerations that differ."""
    report, where = robot.report, str(path)
    had_losses = bool(report.losses)
    try:
        system = read(parse_xml(content.encode("utf-8"), where))
        again = system.describe()
        for item in system.report.losses:
            if item.what not in UNSEEN:
                report.lost(item.what, item.name, where, f"not read again: {item.note}")
        for name, body in description.inertias.items():
            there = again.inertias.get(name)
            given = np.append(at_defaults(body.center, description.parameters), robot.links[name].mass or 0.0)
            if there is None and (np.any(robot.links[name].moment) or robot.links[name].mass):
                report.lost("body", name, where, "not read again")
            elif there is not None and not np.allclose(np.append(there.center, there.total), given, SAME, SAME):
                report.lost("body", name, where, f"read with another mass or centre: {there.total} kg, {there.center}")
        if had_losses or report.losses:
            return
        deviation = _deviation(Model(description, False), Model(again, False), robot)
    except HeavytopError as error:
        report.lost("file", "", where, f"it cannot be read again: {error}")
        return
    if deviation > SAME:
        note = f"accelerations at random states differ by {deviation:.1e} of the largest one"
        (report.changed if report.changes else report.lost)("motion", "", where, note)


def _deviation(model: Model, again: Model, robot: Robot) -> float:
    """The largest relative deviation of accelerations of the same joints, inf if they do not have the same inputs."""
    if model.nu != again.nu:
        return float("inf")
    rng, worst = np.random.default_rng(0), 0.0
    for _ in range(STATES):
        q, v, u = model.random(rng), rng.standard_normal(model.nv), rng.standard_normal(model.nu)
        try:
            q, v = model.assemble(q, v) if model.is_constrained else (q, v)
            a = model.acceleration(q, v, u)
        except HeavytopError:  # the system itself has no acceleration there
            continue
        there_q, there_v, places = _same_state(model, again, robot, q, v)
        there = again.acceleration(there_q, there_v, u)
        pairs = [(a[here], there[place]) for here, place in places]
        if pairs:
            first, second = (np.concatenate(part) for part in zip(*pairs, strict=True))
            worst = max(worst, float(np.max(np.abs(first - second)) / max(np.max(np.abs(a)), 1e-300)))
    return worst


def _same_state(
    model: Model, again: Model, robot: Robot, q: np.ndarray, v: np.ndarray
) -> tuple[np.ndarray, np.ndarray, list[tuple[Any, Any]]]:
    """The state of the system that was read again, and the velocities of both that mean the same, as pairs of indices."""
    from_q, from_v, to_q, to_v = (
        getattr(m.coordinates, part) for m in (model, again) for part in ("q_slice", "v_slice")
    )
    there_q, there_v, places = again.neutral(), np.zeros(again.nv), []
    labels = {edge.label for edge in again.description.joints}

    def copy(label: str, x: np.ndarray, w: np.ndarray) -> None:
        there_q[to_q(label)], there_v[to_v(label)] = x, w

    for edge in model.description.joints:
        x, w, rows = q[from_q(edge.label)], v[from_v(edge.label)], np.arange(model.nv)[from_v(edge.label)]
        joint, label = robot.joints[edge.label], edge.label
        if label not in labels and joint.parent == WORLD and joint.child in labels:  # the free root of a URDF
            label = joint.child
        if label in labels:
            copy(label, x, w)
            places.append((rows, to_v(label)))
        elif joint.kind == JointKind.PLANAR:
            for k, part in enumerate(("x", "y", "angle")):
                copy(f"{label}.{part}", x[k : k + 1], w[k : k + 1])
                places.append((rows[k : k + 1], to_v(f"{label}.{part}")))
        elif joint.kind == JointKind.FLOATING:  # three slides and a ball: p' = R v
            rate = se3.rotation(edge.joint.pose(x)) @ w[:3]
            for k, part in enumerate("xyz"):
                copy(f"{label}.{part}", x[k : k + 1], rate[k : k + 1])
            copy(f"{label}.ball", x[3:], w[3:])
            places.append((rows[3:], to_v(f"{label}.ball")))
    for name, joint in robot.joints.items():
        if joint.mimic is not None and name in labels:
            source = joint.mimic.source
            copy(
                name,
                joint.mimic.ratio * there_q[to_q(source)] + joint.mimic.offset,
                joint.mimic.ratio * there_v[to_v(source)],
            )
    return there_q, there_v, places
