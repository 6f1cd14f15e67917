"""Shapes: their moments against a sum over random points, meshes against primitives, and their look on pages."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from numpy.testing import assert_allclose

import heavytop as ht
from heavytop.geometry import se3, so3
from heavytop.show.linkage import Linkage
from heavytop.show.shape_meshes import shape_meshes, simplified, with_normals
from heavytop.system import PlacedShape
from heavytop.system.description.shapes import mesh_moments

INSIDE = {
    "box": (ht.Box((0.4, 0.6, 0.8)), (0.4, 0.6, 0.8), lambda x, y, z: (abs(x) < 0.2) & (abs(y) < 0.3) & (abs(z) < 0.4)),
    "sphere": (ht.Sphere(0.45), (0.9, 0.9, 0.9), lambda x, y, z: x**2 + y**2 + z**2 < 0.45**2),
    "ellipsoid": (
        ht.Ellipsoid((0.3, 0.4, 0.5)),
        (0.6, 0.8, 1.0),
        lambda x, y, z: (x / 0.3) ** 2 + (y / 0.4) ** 2 + (z / 0.5) ** 2 < 1,
    ),
    "cylinder": (ht.Cylinder(0.3, 0.9), (0.6, 0.6, 0.9), lambda x, y, z: (x**2 + y**2 < 0.3**2) & (abs(z) < 0.45)),
    "capsule": (
        ht.Capsule(0.2, 0.6),
        (0.4, 0.4, 1.0),
        lambda x, y, z: x**2 + y**2 + np.maximum(abs(z) - 0.3, 0) ** 2 < 0.2**2,
    ),
}


@pytest.mark.parametrize("name", INSIDE)
def test_moments_equal_a_sum_over_a_fine_grid(name) -> None:
    shape, size, inside = INSIDE[name]
    n = 64
    axis = (np.arange(n) + 0.5) / n - 0.5
    points = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), -1).reshape(-1, 3) * size
    points = points[inside(*points.T)]
    weights = np.full(len(points), np.prod(size) / n**3)
    numeric, exact = ht.Inertia.from_particles(weights, points), ht.Inertia.of(shape, density=1.0)
    assert_allclose(exact.mass, numeric.mass, rtol=0.03)
    assert_allclose(exact.moment_at_com, numeric.moment_at_com, rtol=0.05, atol=3e-4)


def test_mass_and_place() -> None:
    pose = se3.pose(so3.exp(np.array([0.3, 0.2, -0.1])), np.array([1.0, 2.0, 3.0]))
    inertia = ht.Inertia.of(ht.Box((1, 2, 3)), mass=6.0, at=pose)
    R = pose[:3, :3]
    assert_allclose(inertia.moment_at_com, R @ np.diag([6.5, 5.0, 2.5]) @ R.T, atol=1e-14)
    assert_allclose(inertia.com, [1, 2, 3])
    with pytest.raises(ht.errors.ModelError, match="give either density or mass"):
        ht.Inertia.of(ht.Sphere(1.0))


def cube(size: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    corners = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)], dtype=float) * size
    quads = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
    return corners, np.array([t for a, b, c, d in quads for t in ((a, b, c), (a, c, d))])


def stl(path, vertices, faces) -> str:
    with open(path, "wb") as file:
        file.write(b"\0" * 80 + struct.pack("<I", len(faces)))
        for face in faces:
            file.write(struct.pack("<12fH", 0, 0, 0, *vertices[face].reshape(-1), 0))
    return str(path)


def test_mesh_of_a_cube_has_the_moments_of_a_box(tmp_path) -> None:
    vertices, faces = cube(0.5)
    mesh = ht.Mesh(stl(tmp_path / "cube.stl", vertices, faces), (1.0, 2.0, 1.0))
    ours, box = ht.Inertia.of(mesh, density=3.0), ht.Inertia.of(ht.Box((0.5, 1.0, 0.5)), density=3.0)
    assert_allclose(ours.com, [0.25, 0.5, 0.25], atol=1e-12)
    assert_allclose(ours.moment_at_com, box.moment_at_com, atol=1e-12)
    mirrored = ht.Mesh(str(tmp_path / "cube.stl"), (-1.0, 1.0, 1.0))
    assert_allclose(ht.Inertia.of(mirrored, density=3.0).mass, 3.0 / 8)


def test_open_and_damaged_meshes_are_rejected(tmp_path) -> None:
    vertices, faces = cube()
    opened = ht.Mesh(stl(tmp_path / "open.stl", vertices, faces[:-2]))
    with pytest.raises(ht.errors.ModelError, match="is not closed"):
        ht.Inertia.of(opened, density=1.0)
    for name, content in (
        ("bad.stl", b"not a mesh"),
        ("bad.dae", b"<!DOCTYPE x><a/>"),
        ("bad.obj", b"v nan nan nan\n"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ht.errors.FileFormatError, match="mesh"):
            _ = ht.Mesh(str(tmp_path / name)).triangles
    with pytest.raises(ht.errors.FileFormatError, match=r"none\.stl"):
        _ = ht.Mesh(str(tmp_path / "none.stl")).triangles
    with pytest.raises(ht.errors.ModelError, match="positive number"):
        ht.Sphere(-1.0)
    with pytest.raises(ht.errors.ModelError, match="size.*positive"):
        ht.Box((1, 0, 1))


def test_simplified_mesh_keeps_its_volume() -> None:
    angle = np.linspace(0, 2 * np.pi, 200, endpoint=False)
    height = np.linspace(-1, 1, 100)
    ring = np.stack([np.cos(angle), np.sin(angle)], -1)
    grid = np.concatenate([np.column_stack([np.sqrt(1 - h * h) * ring, np.full(200, h)]) for h in height])
    i, j = np.meshgrid(np.arange(99), np.arange(200), indexing="ij")
    a, b = i * 200 + j, i * 200 + (j + 1) % 200
    faces = np.concatenate(
        [np.stack([a, b, b + 200], -1).reshape(-1, 3), np.stack([a, b + 200, a + 200], -1).reshape(-1, 3)]
    )
    vertices, few = simplified(grid, faces, 2000)
    assert 300 < len(few) <= 2000
    assert_allclose(mesh_moments(vertices, few)[0], 4 / 3 * np.pi, rtol=0.05)
    drawn = with_normals(vertices, few, "body")
    assert np.mean(np.vecdot(drawn.normals, drawn.vertices)) > 0.97  # normals of a ball point outwards


def test_shapes_replace_the_solids_of_equal_inertia() -> None:
    system = ht.System()
    box = ht.Box((0.4, 0.2, 0.1))
    system.body("brick", joint=ht.Revolute("z"), inertia=ht.Inertia.of(box, density=1000.0))
    system.shape("brick", box, at=(0.1, 0.0, 0.0), color="#ff0000")
    system.shape("world", ht.Sphere(0.05), color=(0, 0, 1, 0.5))
    model = system.derive(native=False)
    linkage = Linkage(model, np.array([0.0, 1.0]), np.array([[0.0], [0.5]]), np.zeros((2, 0)))
    assert [mesh.role for mesh in linkage.meshes["brick"]] == ["#ff0000"]
    assert_allclose(linkage.meshes["brick"][0].vertices.max(axis=0), [0.3, 0.1, 0.05])
    assert [mesh.role for mesh in linkage.meshes["world"]] == ["#0000ff80"]
    assert "brick" in linkage.scene().bodies
    plain = ht.System()
    plain.body("brick", joint=ht.Revolute("z"), inertia=ht.Inertia.of(box, density=1000.0))
    assert plain.derive(native=False).description.equations_key == model.description.equations_key


def test_shapes_of_unknown_bodies_and_invalid_colors() -> None:
    system = ht.System()
    system.body("a", joint=ht.Revolute("z"), inertia=ht.Inertia(1.0, (1, 0, 0)))
    with pytest.raises(ht.errors.ModelError, match="'#3366cc'"):
        system.shape("a", ht.Sphere(1.0), color="red")
    with pytest.raises(ht.errors.ShapeError, match="0 to 1"):
        system.shape("a", ht.Sphere(1.0), color=(1, 2, 3))
    with pytest.raises(ht.errors.ModelError, match=r"ht\.Box"):
        system.shape("a", "box")
    system.shape("b", ht.Sphere(1.0))
    with pytest.raises(ht.errors.UnknownNameError, match=r"unknown body or frame \(with a shape\) 'b'"):
        system.derive()


def test_unreadable_meshes_are_reported_and_the_rest_is_drawn(tmp_path) -> None:
    placed = [
        PlacedShape("a", ht.Mesh(str(tmp_path / "x.stl")), np.eye(4)),
        PlacedShape("a", ht.Sphere(1.0), np.eye(4)),
    ]
    meshes, problems = shape_meshes(placed)
    assert len(meshes["a"]) == 1
    assert "x.stl" in problems[0]


def test_a_tube_without_ends_is_not_closed(tmp_path) -> None:
    """Its faces add up to nothing, as those of a closed mesh do."""
    vertices, faces = cube()
    sides = [f for f in faces if len(set(vertices[f][:, 2])) > 1]
    lines = [f"v {x} {y} {z}" for x, y, z in vertices] + [f"f {a + 1} {b + 1} {c + 1}" for a, b, c in sides]
    (tmp_path / "tube.obj").write_text("\n".join(lines))
    with pytest.raises(ht.errors.ModelError, match="is not closed"):
        ht.Inertia.of(ht.Mesh(str(tmp_path / "tube.obj")), density=1.0)


def test_collada_files_have_a_unit_and_may_lack_materials(tmp_path) -> None:
    """As files of other programs: 1 unit is 0.01 m, and the material that the triangles name has no texture."""
    trimesh = pytest.importorskip("trimesh")
    pytest.importorskip("collada")
    vertices, faces = cube(30.0)
    text = trimesh.Trimesh(vertices, faces, process=False).export(file_type="dae").decode()
    assert "<bind_material>" in text
    text = text.replace('target="#', 'target="#gone')
    text = text.replace("<up_axis>Y_UP", '<unit name="centimeter" meter="0.01"/><up_axis>Z_UP')
    assert 'meter="0.01"' in text
    (tmp_path / "cube.dae").write_text(text)
    found, _ = ht.Mesh(str(tmp_path / "cube.dae")).triangles
    assert_allclose([found.min(axis=0), found.max(axis=0)], [[0, 0, 0], [0.3, 0.3, 0.3]], atol=1e-12)
    part = '<library_geometries><asset><unit name="inch" meter="0.0254"/></asset>'
    assert "<library_geometries>" in text
    (tmp_path / "part.dae").write_text(text.replace("<library_geometries>", part))
    assert_allclose(ht.Mesh(str(tmp_path / "part.dae")).triangles[0].max(axis=0), [0.3, 0.3, 0.3], atol=1e-12)


@pytest.mark.parametrize(
    ("up", "tool", "turned"),
    [
        ("X_UP", "", [-2, -3, 1]),
        ("Y_UP", "", [1, -3, 2]),
        ("Z_UP", "", [1, 2, 3]),
        ("Y_UP", "VCGLib | MeshLab", [1, 2, 3]),  # it calls all files so
    ],
)
def test_up_axis_of_collada_files_points_up(tmp_path, up: str, tool: str, turned) -> None:
    trimesh = pytest.importorskip("trimesh")
    pytest.importorskip("collada")
    triangle = trimesh.Trimesh([[0, 0, 0], [1, 2, 3], [0, 1, 0]], [[0, 1, 2]], process=False)
    text = triangle.export(file_type="dae").decode().replace("<up_axis>Y_UP", f"<up_axis>{up}")
    tag = f"<contributor><authoring_tool>{tool}</authoring_tool></contributor>"
    (tmp_path / "part.dae").write_text(text.replace("<created>", f"{tag if tool else ''}<created>"))
    vertices, _ = ht.Mesh(str(tmp_path / "part.dae")).triangles
    assert np.min(np.max(np.abs(vertices - turned), axis=1)) < 1e-12


def test_copies_of_faces_do_not_count_twice(tmp_path) -> None:
    vertices, faces = cube()
    twice = np.concatenate([faces, np.roll(faces, 1, axis=1)])
    once = ht.Inertia.of(ht.Mesh(stl(tmp_path / "once.stl", vertices, faces)), density=2.0)
    again = ht.Inertia.of(ht.Mesh(stl(tmp_path / "twice.stl", vertices, twice)), density=2.0)
    assert_allclose(float(again.mass), float(once.mass), rtol=1e-12)


@pytest.mark.parametrize("last", ["", '<instance_node url="#n0"/>'], ids=("nested", "circular"))
def test_copies_of_copies_in_a_collada_file_are_bounded(tmp_path, last: str) -> None:
    """40 nodes that each contain the next one twice stand for 10^12."""
    twice = '<instance_node url="#n{0}"/><instance_node url="#n{0}"/>'
    nodes = "".join(f'<node id="n{k}">{twice.format(k + 1)}</node>' for k in range(40 if not last else 2))
    nodes += f'<node id="n{40 if not last else 2}">{last}</node>'
    scene = '<visual_scene id="s"><node><instance_node url="#n0"/></node></visual_scene>'
    path = tmp_path / "nested.dae"
    path.write_text(
        '<COLLADA xmlns="http://www.collada.org/2005/11/COLLADASchema" version="1.4.1"><asset><unit meter="1"/></asset>'
        f"<library_nodes>{nodes}</library_nodes><library_visual_scenes>{scene}</library_visual_scenes>"
        '<scene><instance_visual_scene url="#s"/></scene></COLLADA>'
    )
    with pytest.raises(ht.errors.FileFormatError, match="copies"):
        ht.Inertia.of(ht.Mesh(str(path)), density=1.0)
