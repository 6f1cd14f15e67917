"""Damage to files: bytes and words exchanged, cut and repeated."""

from __future__ import annotations

import re

import numpy as np


def damaged(content: bytes, rng: np.random.Generator) -> bytes:
    """A cut, flipped, repeated or overwritten copy."""
    data = bytearray(content)
    for _ in range(int(rng.integers(1, 4))):
        place = int(rng.integers(len(data))) if data else 0
        match rng.integers(5):
            case 0:
                data = data[:place]
            case 1 if data:
                data[place] ^= 1 << int(rng.integers(8))
            case 2:
                data[place : place + 8] = rng.bytes(8)
            case 3:
                del data[place : place + int(rng.integers(1, 64))]
            case _:
                data[place:place] = data[place : place + 32]
    return bytes(data)


def mutated(text: str, rng: np.random.Generator) -> str:
    """A text with numbers, words, lines and characters exchanged."""
    pieces = [
        "nan",
        "inf",
        "-1",
        "0",
        "1e400",
        "1e-320",
        "99999999999999999999",
        '""',
        "[]",
        "{}",
        "true",
        "'x'",
        "\x00",
        "é",
        "<",
        "]",
    ]
    for _ in range(int(rng.integers(1, 4))):
        lines = text.split("\n")
        k = int(rng.integers(len(lines)))
        words = lines[k].split(" ")
        j = int(rng.integers(len(words)))
        match rng.integers(6):
            case 0:
                words[j] = pieces[rng.integers(len(pieces))]
            case 1:
                del words[j]
            case 2:
                lines[k] = lines[rng.integers(len(lines))]
                words = lines[k].split(" ")
            case 3 if words[j]:
                place = int(rng.integers(len(words[j])))
                words[j] = words[j][:place] + pieces[rng.integers(len(pieces))] + words[j][place + 1 :]
            case 4:
                words = []
            case _:
                words[j] = words[j] * 2
        lines[k] = " ".join(words)
        text = "\n".join(lines)
    return text


VALUES = (
    "nan", "inf", "-inf", "-1", "0", "-0.0", "1", "2", "7", "0.3", "-1.5", "1e308", "-1e300", "1e-320", "9223372036854775807", "1000",
    '""', '"x"', '"free"', '"world"', "[]", "{}", "true", "[1.0]", "[0.0, 0.0]", "[1.0, -1.0]", "[nan, 1.0]", "[[1.0]]", '["x"]', "{ x = 1.0 }",
    "1979-05-27", "[1.0, 2.0, 3.0]",
)  # fmt: skip
"""Values of TOML."""
_VALUE = re.compile(r'(?<![\w".])-?\d+(?:\.\d+)?(?:e-?\d+)?(?![\w".])|(?<=[=\[,] )"[^"]*"|(?<== )\[[^\[\]]*\]')


def revalued(text: str, rng: np.random.Generator) -> str:
    """A TOML text with one to three of its values exchanged for others: the file stays TOML, so that whoever reads it must look at what it says."""
    for _ in range(int(rng.integers(1, 4))):
        found = list(_VALUE.finditer(text))
        if found:
            chosen = found[rng.integers(len(found))]
            text = text[: chosen.start()] + VALUES[rng.integers(len(VALUES))] + text[chosen.end() :]
    return text
