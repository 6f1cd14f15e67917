"""Build hook: wheels contain K3D's viewer, taken from the package that the build installs; pages need none of K3D's notebook packages."""

import shutil
import tempfile
import zlib
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDER = "heavytop/show/k3d"


class ViewerHook(BuildHookInterface):
    """Adds the compressed viewer and its licences to the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":  # the checkout has no such folder: the extra `test` installs k3d
            return
        k3d = distribution("k3d")
        viewer = Path(str(k3d.locate_file("k3d/static/standalone.js")))
        [licence] = [file for file in k3d.files or () if file.name == "LICENSE.txt" and ".dist-info" in str(file)]
        texts = (Path(str(licence.locate())), viewer.with_name(f"{viewer.name}.LICENSE.txt"))
        self.folder = Path(tempfile.mkdtemp())
        (self.folder / "viewer.js.z").write_bytes(zlib.compress(viewer.read_bytes(), 9))
        (self.folder / "LICENSE.txt").write_text(
            f"viewer.js.z is the standalone viewer of K3D {k3d.version}.\n\n" + "\n".join(map(Path.read_text, texts))
        )
        build_data["force_include"] |= {str(file): f"{FOLDER}/{file.name}" for file in self.folder.iterdir()}

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if version != "editable":
            shutil.rmtree(self.folder)
