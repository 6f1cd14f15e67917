"""Code for other processors: eight lanes on one without AVX-512, and an ARM processor, emulated."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from processes import GUARD

import heavytop as ht
from heavytop.compile import Kernel, NativeCodeWarning, Program, Stepper, Traced, host, trace
from heavytop.compile.backends.kernel_loops import kernel_module
from heavytop.compile.backends.lanes import Lanes
from heavytop.compile.jit import Library, Machine, compile_text, external_functions
from heavytop.control import Limits, energy_law
from heavytop.copters import quadcopter
from heavytop.simulate import RKMK4, Control, as_dynamics, step_schedule

AVX2 = Machine("haswell", "", host().triple, host().llvm)
ARM = Machine("generic", "+neon", "aarch64-unknown-linux-gnu", host().llvm)
COUNT = 37


def has_avx2() -> bool:
    features = host().features.split(",")
    return host().x86 and "+avx2" in features and "+fma" in features


@cache
def crane() -> ht.Model:
    """Angles, a free joint, friction that chooses, a spring."""
    system = ht.System(name="crane")
    system.body("trolley", joint=ht.Prismatic("x"), inertia=ht.Inertia(5.0))
    system.body("load", parent="trolley", joint=ht.Spherical(), inertia=ht.Inertia(2.0, com=(0, 0, -1.5)))
    system.body("arm", parent="load", joint=ht.Revolute((1, 2, 0)), inertia=ht.Inertia(0.5, com=(0.3, 0, 0.1)))
    system.input("push", ht.JointForce("trolley"))
    return system.derive()


@cache
def limited_law() -> Traced:
    craft = quadcopter()
    return (
        energy_law(craft.model, craft.prototype, Limits(0.0, 6.0))
        .with_reference(craft.model.neutral())
        .traced(craft.model)
    )


def acceleration() -> tuple[Traced, list[np.ndarray]]:
    model, rng = crane(), np.random.default_rng(0)
    # large angles too, as they are reduced differently
    q = model.random(rng, (COUNT,))
    q[::5, -1] = 1e6 * rng.standard_normal(len(q[::5]))
    return model.traced("acceleration"), [
        q,
        rng.standard_normal((COUNT, model.nv)),
        rng.standard_normal((COUNT, 1)),
        np.zeros(0),
    ]


def law() -> tuple[Traced, list[np.ndarray]]:
    traced, model, rng = limited_law(), quadcopter().model, np.random.default_rng(1)
    sources = {
        "q": model.random(rng, (COUNT,)),
        "v": rng.standard_normal((COUNT, model.nv)),
        "t": np.zeros(COUNT),
        "p": np.zeros(0),
    }
    sources["q"][::3] = model.neutral()
    sources["v"][::3] = 0.0
    return traced, [sources[name] for name in traced.inputs]


@pytest.mark.parametrize(("name", "value"), [("byteorder", "big"), ("maxsize", 2**31 - 1)])
def test_functions_are_interpreted_on_unsupported_machines(name, value, monkeypatch: pytest.MonkeyPatch) -> None:
    square = trace(lambda x: x * x, {"x": (2,)}, name="square")
    host.cache_clear()
    monkeypatch.setattr(f"sys.{name}", value)
    with pytest.warns(NativeCodeWarning, match="64-bit little-endian"):
        kernel = Kernel(square)
    monkeypatch.undo()
    host.cache_clear()
    assert not kernel.native
    np.testing.assert_array_equal(kernel([2.0, 3.0])[0], [4.0, 9.0])


@pytest.mark.skipif(not has_avx2(), reason="needs a processor with AVX2")
@pytest.mark.parametrize("make", [acceleration, pytest.param(law, marks=pytest.mark.thorough)])
def test_eight_lanes_without_avx512_give_the_same_bits(make) -> None:
    traced, arguments = make()
    kernel = Kernel(traced, lanes=8)
    expected = kernel(*arguments)
    text = kernel_module(Program.from_traced(traced), Lanes(8), fma=True).text
    other = Kernel(traced, lanes=8)
    library = Library(compile_text(text, AVX2).data, external_functions(text))
    other._rows = library.function("rows")
    for count in (COUNT, 8, 5, 1):
        for ours, theirs in zip(other(*(a[:count] for a in arguments)), expected, strict=True):
            np.testing.assert_array_equal(ours, theirs[:count])
    for lanes in (1, 4):
        for ours, theirs in zip(Kernel(traced, lanes=lanes)(*arguments), expected, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-10)


@pytest.mark.thorough
@pytest.mark.skipif(not has_avx2(), reason="needs a processor with AVX2")
def test_eight_lanes_of_a_time_loop_without_avx512_give_the_same_bits() -> None:
    model, rng = crane(), np.random.default_rng(2)
    schedule = step_schedule(as_dynamics(model), Control("table"), RKMK4(), balance=False, events=None)
    stepper, other = Stepper(schedule, lanes=8), Stepper(schedule, lanes=8)
    text, _ = Stepper._module_text(schedule, 8, None)
    other._run = (library := Library(compile_text(text, AVX2).data, external_functions(text))).function("run")
    assert library
    shapes = stepper.layout.shapes
    by_size = {(model.nq,): model.random(rng, (11,)), (model.nv,): rng.standard_normal((11, model.nv))}
    state = {name: by_size[shapes[name]] for name in stepper.layout.state}
    constants = {name: np.full(shapes[name], 0.01) for name in stepper.layout.constants}
    tables = {name: rng.standard_normal((20, 1)) for name in stepper.layout.tables}
    runs = [s.run(state, constants, tables, steps=20, step_size=0.01) for s in (stepper, other)]
    assert np.isfinite(runs[0].records[stepper.layout.state[0]]).all()
    for name in stepper.layout.record:
        np.testing.assert_array_equal(runs[0].records[name], runs[1].records[name])


PROGRAM = """
#include <stdint.h>
#include <stdio.h>
void rows(void *words);
{arrays}
static double scratch[{scratch}] __attribute__((aligned(64)));
int main(void) {{
  int64_t words[] = {{ {count}, (int64_t)scratch, {words} }};
  rows(words);
{prints}
  return 0;
}}
"""


def c_program(kernel: Kernel, traced: Traced, arguments: list[np.ndarray]) -> str:
    """A program that calls the loop over rows once and prints the results in hexadecimal."""
    arrays, words, prints = [], [], []
    for k, a in enumerate(arguments):
        flat = np.ascontiguousarray(a)
        values = ", ".join(float(x).hex() for x in flat.ravel()) or "0"
        arrays.append(f"static double in{k}[] = {{ {values} }};")
        words.append(f"(int64_t)in{k}, {flat.strides[0] if flat.ndim > 1 else 0}")
    for k, shape in enumerate(traced.outputs.values()):
        size = int(np.prod(shape))
        arrays.append(f"static double out{k}[{COUNT * size}];")
        words.append(f"(int64_t)out{k}, {8 * size}")
        prints.append(f'  for (int i = 0; i < {COUNT * size}; i++) printf("%a\\n", out{k}[i]);')
    code = kernel._code
    assert code is not None
    return PROGRAM.format(
        arrays="\n".join(arrays),
        scratch=(code.meta["scratch"] + 8) * kernel.lanes,
        count=COUNT,
        words=", ".join(words),
        prints="\n".join(prints),
    )


@pytest.mark.thorough
@pytest.mark.skipif(
    not (shutil.which("aarch64-linux-gnu-gcc") and shutil.which("qemu-aarch64")),
    reason="needs qemu-user and gcc-aarch64-linux-gnu",
)
@pytest.mark.parametrize("make", [acceleration, law])
@pytest.mark.parametrize("lanes", [2, 4])
def test_an_arm_processor_finds_the_same(make, lanes: int, tmp_path: Path) -> None:
    traced, arguments = make()
    assert ARM.fma
    text = kernel_module(Program.from_traced(traced), Lanes(lanes), fma=ARM.fma).text
    (tmp_path / "kernel.o").write_bytes(compile_text(text, ARM).data)
    kernel = Kernel(traced, lanes=lanes)
    (tmp_path / "main.c").write_text(c_program(kernel, traced, arguments))
    gcc = ["aarch64-linux-gnu-gcc", "-O1", "-static", "main.c", "kernel.o", "-lm", "-o", "main"]
    subprocess.run(gcc, cwd=tmp_path, check=True, timeout=GUARD)
    done = subprocess.run(
        ["qemu-aarch64", "./main"], cwd=tmp_path, check=True, timeout=GUARD, capture_output=True, text=True
    )
    found = np.array([float.fromhex(line) for line in done.stdout.split()])
    expected = np.concatenate([result.ravel() for result in kernel(*arguments)])
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-13)
