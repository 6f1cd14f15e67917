"""What a file says that a system represents, and what it does not: by name and line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from heavytop.errors import FileFormatError

REPRESENTED, CHANGED, LOST = "represented", "changed", "lost"


@dataclass(frozen=True)
class Item:
    """One thing of a file: what it is, its name, where it stands, what became of it and why."""

    fate: str
    """"represented", "changed" (represented in another form, said in ``note``) or "lost"."""
    what: str
    name: str
    where: str
    note: str = ""

    def __str__(self) -> str:
        name = f" {self.name!r}" if self.name else ""
        return f"{self.where}: {self.what}{name} is {self.fate}" + (f": {self.note}" if self.note else "")


@dataclass(eq=False)
class TransferReport:
    """The account of an import or export.

    >>> report = TransferReport()
    >>> report.represented("link", "base", "arm.urdf:2")
    >>> report.lost("sensor", "imu", "arm.urdf:9", "sensors do not act on the motion")
    >>> print(report)
    1 represented, 0 changed, 1 lost
    arm.urdf:9: sensor 'imu' is lost: sensors do not act on the motion
    """

    items: list[Item] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"TransferReport({str(self).partition(chr(10))[0]})"

    def represented(self, what: str, name: str, where: str, note: str = "") -> None:
        """Note something that is in the system as it was in the file."""
        self.items.append(Item(REPRESENTED, what, name, where, note))

    def changed(self, what: str, name: str, where: str, note: str) -> None:
        """Note something that is represented in another form."""
        self.items.append(Item(CHANGED, what, name, where, note))

    def lost(self, what: str, name: str, where: str, note: str) -> None:
        """Note something that is not represented."""
        self.items.append(Item(LOST, what, name, where, note))

    @property
    def losses(self) -> tuple[Item, ...]:
        """What is not represented."""
        return tuple(item for item in self.items if item.fate == LOST)

    @property
    def changes(self) -> tuple[Item, ...]:
        """What is represented in another form."""
        return tuple(item for item in self.items if item.fate == CHANGED)

    def check(self, strict: bool) -> None:
        """Raise a FileFormatError that lists the losses if ``strict`` and there are any."""
        if strict and self.losses:
            shown = "\n".join(f"  {item}" for item in self.losses[:20])
            more = f"\n  ... and {len(self.losses) - 20} more" if len(self.losses) > 20 else ""
            raise FileFormatError(
                f"strict=True, but {len(self.losses)} things cannot be represented:\n{shown}{more}\n"
                "Omit strict to go on without them."
            )

    def summary(self) -> str:
        """One line: how many things of each fate."""
        counts = Counter(item.fate for item in self.items)
        return ", ".join(f"{counts[fate]} {fate}" for fate in (REPRESENTED, CHANGED, LOST))

    def _lines(self) -> Iterator[str]:
        yield self.summary()
        yield from (str(item) for item in self.items if item.fate != REPRESENTED)

    def __str__(self) -> str:
        return "\n".join(self._lines())
