"""Inertias as files give them: many robots have moments that no distribution of mass has, and other programs compute with them."""

from __future__ import annotations

import numpy as np

from heavytop.errors import ModelError
from heavytop.io.import_report import TransferReport
from heavytop.io.robot import RobotLink
from heavytop.system.description.moments import Inertia


class GivenInertia(Inertia):
    """An inertia that is taken as it is, except that the mass must not be negative.

    It exists for files of robots, whose moments often break the triangle inequality; the import report names them. The mass matrix of
    such a robot may be indefinite.
    """

    @classmethod
    def check_physical(cls, moments: np.ndarray, where: str) -> None:
        """Raise a ModelError for a negative mass only."""
        if moments[3, 3] < 0:
            raise ModelError(f"{where}: the mass must not be negative, got {moments[3, 3]:g}.")


def inertia_of(link: RobotLink, report: TransferReport) -> Inertia | None:
    """The inertia of a link, or None for a link without mass and moment; an impossible one is kept and reported."""
    if link.mass is None or (link.mass == 0 and not np.any(link.moment)):
        return None
    if link.mass < 0:
        raise ModelError(f"{link.where}: link {link.name!r} has the mass {link.mass:g} kg, which must not be negative.")
    try:
        return Inertia(link.mass, link.com, link.moment)
    except ModelError:
        principal = np.linalg.eigvalsh(link.moment)
        note = (
            f"no body has these moments (principal ones {np.array2string(principal, precision=3)}, each must be at most the sum of the "
            "other two and none negative); used as given"
        )
        report.changed("inertia", link.name, link.where, note)
        return GivenInertia(link.mass, link.com, link.moment)
