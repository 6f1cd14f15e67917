"""Xacro files, templates of URDF, expanded by the package xacro."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from heavytop.errors import FileFormatError
from heavytop.io.xml_elements import Element, parse_xml

MISSING = (
    "this is a xacro file, a template of a URDF. Install the package that expands it, `pip install xacro`, and load it again; or expand it "
    "where ROS is installed, `xacro robot.urdf.xacro > robot.urdf`, and load the result."
)


def expanded_xacro(path: Path) -> Element:
    """The root element of an expanded xacro file; its lines are those of the expanded text."""
    try:
        import xacro  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise FileFormatError(f"{path}: {MISSING}") from None
    if not path.is_file():
        raise FileFormatError(f"there is no file {str(path)!r}.")
    try:
        document: Any = xacro.process_file(str(path))
        text = document.toxml()
    except BaseException as error:  # xacro ends the process for some errors
        if isinstance(error, KeyboardInterrupt):
            raise
        raise FileFormatError(f"{path}: xacro cannot expand it: {type(error).__name__}: {error}.") from error
    return parse_xml(text.encode("utf-8"), str(path))
