"""Meshes of a written robot file: those outside its folder are copied next to it, so that the folder can be moved."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from heavytop._files import typed_errors, write_whole
from heavytop._format import safe_name
from heavytop.errors import HeavytopError
from heavytop.io.import_report import TransferReport
from heavytop.io.renaming import unused_name
from heavytop.system import Mesh, Triangles

Content = Path | tuple[np.ndarray, np.ndarray]


class MeshFiles:
    """Names of meshes relative to a robot file; :meth:`write` copies them. Existing meshes keep their names.

    Parameters
    ----------
    file : the robot file to be written.
    formats : endings supported by its readers; other meshes become STL. None: all.
    """

    def __init__(self, file: Path, formats: tuple[str, ...] | None = None) -> None:
        self.folder, self.formats = file.resolve().parent, formats
        self.subfolder = f"{safe_name(file.stem, 'file')}_meshes"
        self.copies: dict[str, Content] = {}
        self._names: dict[str | int, str | None] = {}

    def name(self, shape: Mesh | Triangles, report: TransferReport, where: str) -> str | None:
        """The path of a mesh relative to the robot file; None, with a line in the report, if it cannot be read."""
        key = shape.path if isinstance(shape, Mesh) else id(shape)
        if key not in self._names:
            place = (
                self._place(shape, report, where)
                if isinstance(shape, Mesh)
                else self._copy("mesh", ".stl", shape.triangles)
            )
            self._names[key] = place
        return self._names[key]

    def _place(self, shape: Mesh, report: TransferReport, where: str) -> str | None:
        source = Path(shape.path).resolve()
        known = self.formats is None or source.suffix.lower() in self.formats
        if known and source.is_relative_to(self.folder):
            return source.relative_to(self.folder).as_posix()
        content: Content = source
        try:
            if not known:
                content = Mesh(shape.path).triangles
            elif not source.is_file():
                raise HeavytopError(f"there is no file {str(source)!r}")
        except HeavytopError as error:
            report.lost("mesh", shape.path, where, str(error))
            return None
        return self._copy(safe_name(source.stem, "file"), source.suffix if known else ".stl", content)

    def _copy(self, stem: str, ending: str, content: Content) -> str:
        stem = unused_name(f"{self.subfolder}/{stem}", lambda stem: self._is_taken(f"{stem}{ending}", content))
        name = f"{stem}{ending}"
        self.copies[name] = content
        return name

    def _is_taken(self, name: str, content: Content) -> bool:
        """Whether another mesh, of this file or of one written before, has the name."""
        path = self.folder / name
        with typed_errors(path):
            return name in self.copies or (
                path.exists() and (not path.is_file() or path.read_bytes() != _bytes(content))
            )

    def write(self) -> None:
        """Write the copies."""
        for name, content in self.copies.items():
            path = self.folder / name
            with typed_errors(path):
                path.parent.mkdir(exist_ok=True)
                data = _bytes(content)
            write_whole(path, data, "robot_meshes/mesh.stl")


def _bytes(content: Content) -> bytes:
    return content.read_bytes() if isinstance(content, Path) else stl(*content)


def stl(vertices: np.ndarray, faces: np.ndarray) -> bytes:
    """Binary STL of triangles.

    >>> len(stl(np.eye(3), np.array([[0, 1, 2]])))
    134
    """
    corners = vertices[faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    sizes = np.linalg.norm(normals, axis=1, keepdims=True)
    normals = np.divide(normals, sizes, out=np.zeros_like(normals), where=sizes > 0)
    record = np.zeros(len(faces), dtype=[("numbers", "<f4", (4, 3)), ("attribute", "<u2")])
    record["numbers"][:, 0], record["numbers"][:, 1:] = normals, corners
    return b"\0" * 80 + np.uint32(len(faces)).astype("<u4").tobytes() + record.tobytes()
