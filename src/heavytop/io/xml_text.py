"""Writing XML: tags with attributes, text and children; numbers that read back as they were."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import numpy as np


def numbers(values: Any) -> str:
    """Numbers separated by blanks, in the shortest form that reads back as the same.

    >>> numbers([1.0, 0.1, -0.0])
    '1 0.1 0'
    """
    return " ".join(repr(float(x) + 0.0).removesuffix(".0") for x in np.reshape(values, -1))


@dataclass(init=False, eq=False)
class Tag:
    """An element to write.

    >>> root = Tag("robot", name="a<b")
    >>> _ = root.add("link", name="base")
    >>> print(root.document())
    <?xml version="1.0" encoding="utf-8"?>
    <robot name="a&lt;b">
      <link name="base"/>
    </robot>
    <BLANKLINE>
    """

    name: str
    attributes: dict[str, str]
    children: list[Tag] = field(default_factory=list)
    text: str = ""

    def __init__(self, tag: str, /, **attributes: str) -> None:
        self.name, self.attributes, self.children, self.text = tag, attributes, [], ""

    def add(self, tag: str, /, **attributes: str) -> Tag:
        """Append a child and return it."""
        self.children.append(Tag(tag, **attributes))
        return self.children[-1]

    def document(self) -> str:
        """The whole file."""
        lines = ['<?xml version="1.0" encoding="utf-8"?>']
        stack: list[tuple[Tag | str, int]] = [(self, 0)]
        while stack:
            item, depth = stack.pop()
            indent = "  " * depth
            if isinstance(item, str):
                lines.append(f"{indent}{item}")
                continue
            opening = item.name + "".join(f" {key}={quoteattr(value)}" for key, value in item.attributes.items())
            if item.children:
                lines.append(f"{indent}<{opening}>")
                stack.append((f"</{item.name}>", depth))
                stack += [(child, depth + 1) for child in reversed(item.children)]
            elif item.text:
                lines.append(f"{indent}<{opening}>{escape(item.text)}</{item.name}>")
            else:
                lines.append(f"{indent}<{opening}/>")
        return "\n".join(lines) + "\n"
