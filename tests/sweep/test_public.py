"""Every public class: an object of it arrives in another process with the same content, or says why it cannot."""

from __future__ import annotations

import inspect
import os
import pickle
import subprocess
import sys
from enum import Enum
from pathlib import Path

import pytest
from processes import GUARD
from sweep import portable, public

from heavytop import compile as compiling
from heavytop.errors import RecipeError
from heavytop.functions import stable_key

HERE = Path(__file__).parent
NATIVE = (compiling.Bound, compiling.Kernel, compiling.Packed, compiling.Stepper)


@pytest.mark.slow
def test_every_public_class_is_pickled_or_states_why_not() -> None:
    wanted = {cls: path for cls, path in public.public_classes().items() if not path.startswith("heavytop_bench")}
    found = public.examples(wanted)
    for value in portable.samples().values():
        if type(value) in wanted:
            found.setdefault(wanted[type(value)], value)
    lacking = [path for cls, path in wanted.items() if path not in found and not _is_base(cls, found.values())]
    assert len(found) > 200
    assert lacking == []
    sent, rejected = {}, {}
    for path, value in found.items():
        try:
            sent[path] = pickle.dumps(value)
        except Exception as error:
            rejected[path] = value, error
    for path, (value, error) in rejected.items():
        assert isinstance(value, NATIVE), f"{path}: {error}"
        assert isinstance(error, RecipeError), path
        assert "native code" in str(error)
    arrived = elsewhere(sent)
    assert [path for path in sent if stable_key(found[path]) != arrived[path]] == []


def _is_base(cls: type, others: object) -> bool:
    """Whether a class is there to be derived from, or a set of names."""
    return inspect.isabstract(cls) or issubclass(cls, Enum) or any(isinstance(o, cls) for o in others)  # pyright: ignore


def elsewhere(sent: dict[str, bytes]) -> dict[str, str]:
    """Digests of pickled objects, made in another process."""
    paths = os.pathsep.join(
        str(p) for p in (*(HERE.parents[1] / folder for folder in ("src", "benchmarks", "theory")), HERE.parent)
    )
    done = subprocess.run(
        [sys.executable, "-c", "from sweep import public; public.answer()"],
        input=pickle.dumps(sent),
        capture_output=True,
        env={**os.environ, "PYTHONPATH": paths},
        timeout=GUARD,
    )
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    return pickle.loads(done.stdout)
