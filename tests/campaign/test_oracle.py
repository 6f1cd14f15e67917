"""Random systems of up to twelve bodies against the oracle of ``tests/oracle``; the seeds change every day and are printed.

``HEAVYTOP_ORACLE_SEED`` draws the systems of another day again.
"""

from __future__ import annotations

import os
import traceback
from datetime import UTC, datetime

import pytest
from oracle.compare import ALWAYS, SOMETIMES, Case, Compared, compare
from oracle.generate import random_system

SEED = int(os.environ.get("HEAVYTOP_ORACLE_SEED", f"{datetime.now(UTC):%Y%m%d}"))
PARTS = 50


def checked(seed: list[int], further: tuple[str, ...]) -> tuple[list[str], list[Compared]]:
    """Deviations and crashes of one system, and everything that was compared."""
    try:
        compared = compare(Case(*random_system(seed)), (*ALWAYS, *further))
    except Exception:
        return [f"system {seed}, {further}: {traceback.format_exc(limit=-3)}"], []
    return [f"system {seed}: {one}" for one in compared if one.is_deviation], compared


@pytest.mark.parametrize("part", range(PARTS))
def test_random_systems(part: int, record, size) -> None:
    """Accelerations, energies and two further comparisons of each system."""
    count = size(200, 6)
    print(f"seeds [{SEED}, {part * count}] to [{SEED}, {(part + 1) * count - 1}]")
    failures: list[str] = []
    for k in range(part * count, (part + 1) * count):
        further = (SOMETIMES[k % len(SOMETIMES)], SOMETIMES[(k // len(SOMETIMES)) % len(SOMETIMES)])
        failures += checked([SEED, k], further if further[0] != further[1] else further[:1])[0]
    record("systems against the oracle", count, failures)
