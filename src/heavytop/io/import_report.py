"""Report of an import or export: parts that are represented, changed or lost, by name and line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from heavytop.errors import FileFormatError

REPRESENTED, CHANGED, LOST = "represented", "changed", "lost"
MOST_SHOWN = 20
"""Lines on losses in an error message."""
MOST_NAMED = 4
"""Lines and names listed in a line on equal items."""


@dataclass(frozen=True)
class Item:
    """One part of a file: its fate, kind, name, place and a note on the reason."""

    fate: str
    """"represented", "changed" (represented in another form, given in ``note``) or "lost"."""
    what: str
    name: str
    where: str
    note: str = ""

    def __str__(self) -> str:
        name = f" {self.name!r}" if self.name else ""
        return f"{self.where}: {self.what}{name} is {self.fate}" + (f": {self.note}" if self.note else "")


@dataclass(eq=False)
class TransferReport:
    """The report of an import or export.

    >>> report = TransferReport()
    >>> report.represented("link", "base", "arm.urdf:2")
    >>> report.lost("sensor", "imu", "arm.urdf:9", "sensors do not act on the motion")
    >>> print(report)
    1 represented, 0 changed, 1 lost
    arm.urdf:9: sensor 'imu' is lost: sensors do not act on the motion
    """

    items: list[Item] = field(default_factory=list)

    def represented(self, what: str, name: str, where: str, note: str = "") -> None:
        """Add a part that is in the system as it was in the file."""
        self.items.append(Item(REPRESENTED, what, name, where, note))

    def changed(self, what: str, name: str, where: str, note: str) -> None:
        """Add a part that is represented in another form."""
        self.items.append(Item(CHANGED, what, name, where, note))

    def lost(self, what: str, name: str, where: str, note: str) -> None:
        """Add a part that is not represented."""
        self.items.append(Item(LOST, what, name, where, note))

    @property
    def losses(self) -> tuple[Item, ...]:
        """Parts that are not represented."""
        return tuple(item for item in self.items if item.fate == LOST)

    @property
    def changes(self) -> tuple[Item, ...]:
        """Parts that are represented in another form."""
        return tuple(item for item in self.items if item.fate == CHANGED)

    def check(self, strict: bool) -> None:
        """Raise a FileFormatError that lists the losses if ``strict`` and there are any."""
        if strict and self.losses:
            lines = grouped(self.losses)
            shown = "\n".join(f"  {line}" for line in lines[:MOST_SHOWN])
            more = f"\n  ... and {len(lines) - MOST_SHOWN} more" if len(lines) > MOST_SHOWN else ""
            raise FileFormatError(
                f"strict=True, but {len(self.losses)} parts cannot be represented:\n{shown}{more}\n"
                "Omit strict to continue without them."
            )

    def summary(self) -> str:
        """One line: the number of parts of each fate."""
        counts = Counter(item.fate for item in self.items)
        return ", ".join(f"{counts[fate]} {fate}" for fate in (REPRESENTED, CHANGED, LOST))

    def __repr__(self) -> str:
        return f"TransferReport({self.summary()})"

    def __str__(self) -> str:
        return "\n".join([self.summary(), *grouped(item for item in self.items if item.fate != REPRESENTED)])


def grouped(items: Iterable[Item]) -> list[str]:
    """One line for all items of the same kind, fate, note and file, with their lines and names.

    >>> grouped(Item(LOST, "collision geometry", name, f"a.urdf:{k}", "there are no contacts") for k, name in enumerate(("hip", "foot")))
    ["a.urdf:0, 1: 2 times collision geometry ('hip', 'foot') is lost: there are no contacts"]
    """
    groups: dict[tuple[str, ...], list[Item]] = {}
    for item in items:
        groups.setdefault((item.fate, item.what, item.note, item.where.rpartition(":")[0]), []).append(item)
    return [str(group[0]) if len(group) == 1 else _together(group) for group in groups.values()]


def _together(group: list[Item]) -> str:
    first, file = group[0], group[0].where.rpartition(":")[0]
    lines, names = ([*dict.fromkeys(x)] for x in ((i.where.rpartition(":")[2] for i in group), (i.name for i in group)))
    shown = ", ".join(lines[:MOST_NAMED]) + (", ..." if len(lines) > MOST_NAMED else "")
    called = ", ".join(map(repr, names[:MOST_NAMED])) + (", ..." if len(names) > MOST_NAMED else "")
    note = f": {first.note}" if first.note else ""
    return f"{file}:{shown}: {len(group)} times {first.what} ({called}) is {first.fate}{note}"
