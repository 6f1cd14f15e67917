"""Native code and everything that made it are released with the object that owns it."""

import gc
import sys
import weakref

import numpy as np
import pytest
from processes import finish

import heavytop as ht
from heavytop.compile import jit
from heavytop.functions import store

GROWTH = """
import gc, os
from pathlib import Path
import numpy as np
from heavytop.compile import Kernel, trace

def resident():
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

def compile_one(k):
    Kernel(trace(lambda x: np.sin(x) * (1.0 + k) + x[0] * np.cos(x), {"x": (3,)}, name="f"))(np.ones(3))

for k in range(15):
    compile_one(k)
before = resident()
for k in range(15, 65):
    compile_one(k)
print((resident() - before) / 50)
"""


@pytest.mark.thorough
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc")
def test_compiling_does_not_collect_memory(tmp_path) -> None:
    """LLVM's pass managers leaked 80 kB with every compiled function."""
    done = finish(GROWTH, HEAVYTOP_CACHE=str(tmp_path / "cache"))
    assert done.returncode == 0, done.stderr[-1500:]
    assert float(done.stdout) < 15e3


@pytest.mark.thorough
def test_code_goes_with_its_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """No engine of LLVM outlives the last model, run or kernel that uses it, but for the store of functions."""
    alive: list[weakref.ref] = []
    load = jit.Library.__init__

    def watched(self: jit.Library, *arguments) -> None:
        load(self, *arguments)
        alive.append(weakref.ref(self._engine))

    monkeypatch.setattr(jit.Library, "__init__", watched)
    system = ht.System(name="leak")
    system.body("rod", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=(0, 0, -1.0)))
    model = system.derive()
    model.acceleration([0.1], [0.0])
    run = ht.simulate(model, ([0.1], [0.0]), 0.1, 0.01)
    assert run.energy.shape == (11,)
    assert len(alive) >= 3
    del system, model, run
    store.clear()
    gc.collect()
    assert sum(ref() is not None for ref in alive) == 0


def test_a_failed_compilation_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from heavytop.errors import CompileError

    for _ in range(3):
        with pytest.raises(CompileError, match="LLVM rejects"):
            jit.compile_text("define double @f(double %x) { ret double %y }")
    text = "define double @f(double %x) { ret double %x }"
    assert len(jit.compile_text(text).data) > 0
    assert np.isfinite(jit.compile_text(text).seconds)
