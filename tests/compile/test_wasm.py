"""WebAssembly: the object becomes a module, and its own elementary functions are accurate."""

from __future__ import annotations

import ctypes
import itertools
import json
import math
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

from heavytop.compile import Call, Schedule, trace, wasm_functions, wasm_step
from heavytop.compile.backends.elementary import elementary_functions
from heavytop.compile.backends.lanes import Lanes
from heavytop.compile.backends.vector_math import BRANCH_WEIGHTS, LIBM
from heavytop.compile.backends.wasm_object import Reader, module_from_object, read_object, unsigned
from heavytop.compile.jit import Library, compile_text
from heavytop.compile.program import Op
from heavytop.errors import CompileError

BOUNDS = dict.fromkeys(map(str, LIBM), 2.0) | {"sin": 1.0, "cos": 1.0, "exp": 1.0, "log": 1.0, "pow": 1.0, "erf": 4.0}
"""Largest errors in units in the last place."""


@pytest.fixture(scope="module")
def own() -> Callable[[str], Callable[..., float]]:
    """The elementary functions of the module, here as native code: the same operations, so the same bits."""
    text = elementary_functions([*LIBM, Op.SIN], Lanes(1)) + BRANCH_WEIGHTS
    for op, arity in LIBM.items():
        head = ", ".join(f"double %x{i}" for i in range(arity))
        text += f"define double @own_{op}({head}) {{\n  %y = call double @each_{op}({head})\n  ret double %y\n}}\n"
    for k, name in enumerate(("sin", "cos")):
        text += (
            f"define double @own_{name}(double %x) {{\n  %a = call double @reduced(double %x)\n"
            "  %y = call {double, double} @sincos(double %a)\n"
            f"  %s = extractvalue {{double, double}} %y, {k}\n  ret double %s\n}}\n"
        )
    library = Library(compile_text(text).data, [])

    def function(name: str) -> Callable[..., float]:
        arity = 2 if Op(name) in LIBM and LIBM[Op(name)] == 2 else 1
        made = ctypes.CFUNCTYPE(ctypes.c_double, *[ctypes.c_double] * arity)(library.address(f"own_{name}"))
        return lambda *x: (library, made(*x))[1]

    return function


def samples(name: str, rng: np.random.Generator, n: int) -> np.ndarray:
    sizes = rng.choice([-1.0, 1.0], n) * 10.0 ** rng.uniform(-12, 2, n)
    one = np.r_[rng.uniform(-1, 1, n), 1 - 10.0 ** rng.uniform(-15, 0, n)]
    return {
        "sin": np.r_[sizes, rng.uniform(-1e6, 1e6, n), np.arange(1, 50) * math.pi / 2],
        "cos": np.r_[sizes, rng.uniform(-1e6, 1e6, n), np.arange(1, 50) * math.pi / 2],
        "tan": np.r_[sizes, rng.uniform(-1e4, 1e4, n)],
        "asin": one,
        "acos": np.r_[one, -one],
        "atanh": one[np.abs(one) < 1],
        "acosh": np.r_[1 + np.abs(sizes), 10.0 ** rng.uniform(0, 300, n)],
        "exp": np.r_[sizes, rng.uniform(-700, 709, n)],
        "expm1": np.r_[sizes, rng.uniform(-50, 709, n)],
        "sinh": np.r_[sizes, rng.uniform(-709, 709, n)],
        "cosh": np.r_[sizes, rng.uniform(-709, 709, n)],
        "log": np.r_[10.0 ** rng.uniform(-300, 300, n), rng.uniform(0.3, 3, n)],
        "log1p": np.r_[10.0 ** rng.uniform(-300, 300, n), rng.uniform(-0.99, 3, n)],
        "erf": np.r_[0.1 * sizes, rng.uniform(-6, 6, n)],
    }.get(name, np.r_[sizes, rng.uniform(-3, 3, n)])


def off(value: float, exact: Any) -> float:
    return float(abs(value - exact) / math.ulp(float(exact)))


@pytest.mark.parametrize("name", [*(str(op) for op, arity in LIBM.items() if arity == 1), "sin", "cos"])
def test_functions_of_one_number(own, name: str) -> None:
    function, exact = own(name), getattr(mpmath, name)
    with mpmath.workprec(140):
        errors = [off(function(x), exact(mpmath.mpf(x))) for x in samples(name, np.random.default_rng(1), 60)]
    assert max(errors) < BOUNDS[name]


def test_functions_of_two_numbers(own) -> None:
    rng = np.random.default_rng(2)
    a, b = (rng.choice([-1.0, 1.0], 200) * 10.0 ** rng.uniform(-9, 9, 200) for _ in range(2))
    power, exponent = 10.0 ** rng.uniform(-4, 4, 200), rng.uniform(-70, 70, 200)
    with mpmath.workprec(140):
        for x, y in zip(a, b, strict=True):
            p, q = mpmath.mpf(x), mpmath.mpf(y)
            assert off(own("atan2")(x, y), mpmath.atan2(p, q)) < BOUNDS["atan2"]
            assert off(own("hypot")(x, y), mpmath.sqrt(p * p + q * q)) < BOUNDS["hypot"]
            assert own("fmod")(x, y) == math.fmod(x, y)
            assert own("remainder")(x, y) == math.remainder(x, y)
        for x, y in zip(power, exponent, strict=True):
            assert off(own("pow")(x, y), mpmath.mpf(x) ** mpmath.mpf(y)) < BOUNDS["pow"]


def test_special_values(own) -> None:
    values = [0.0, -0.0, 1.0, -1.0, 0.5, 3.0, -3.0, math.inf, -math.inf, math.nan, 5e-324, 1.7e308]
    known = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2", "pow": "power"}
    known |= {"asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh"}
    differ = [("pow", (-0.0, 0.5)), ("pow", (-math.inf, 0.5))]  # C defines both as positive, NumPy takes a square root
    with np.errstate(all="ignore"):
        for op, arity in LIBM.items():
            reference = getattr(np, known.get(str(op), str(op)), None)
            if op in (Op.ERF, Op.REMAINDER) or reference is None:
                continue
            for x in itertools.product(values, repeat=arity):
                wanted, got = float(reference(*map(np.float64, x))), own(str(op))(*x)
                if (str(op), x) in differ:
                    continue
                same = got == wanted and math.copysign(1, got) == math.copysign(1, wanted)
                close = math.isfinite(wanted) and wanted != 0 and abs(got / wanted - 1) < 1e-15
                assert (math.isnan(wanted) and math.isnan(got)) or same or close, (op, x, got, wanted)


def test_large_angles(own) -> None:
    rng = np.random.default_rng(3)
    for x in rng.uniform(-1, 1, 100) * 10.0 ** rng.uniform(6.1, 308, 100):
        assert own("sin")(x) == pytest.approx(math.sin(x), abs=6e-16)
        assert own("cos")(x) == pytest.approx(math.cos(x), abs=6e-16)
    assert math.isnan(own("sin")(math.inf))


def test_numbers_of_the_format() -> None:
    for value in (0, 1, 127, 128, 300, 2**31):
        assert Reader(unsigned(value)).unsigned() == value == Reader(unsigned(value, 5)).unsigned()
    assert Reader(b"\x7f").signed() == -1
    assert Reader(b"\x80\x7f").signed() == -128


def test_other_bytes_are_rejected() -> None:
    with pytest.raises(CompileError, match="WebAssembly object"):
        read_object(b"\x7fELF....")
    with pytest.raises(CompileError, match="1 or 2 lanes"):
        wasm_step(_falling(), lanes=4)


def test_calls_of_missing_functions_are_reported() -> None:
    from heavytop.compile.jit import Machine, host

    machine = Machine("generic", "", "wasm32-unknown-unknown", host().llvm)
    text = "declare double @gamma(double)\ndefine double @f(double %x) {\n  %y = call double @gamma(double %x)\n  ret double %y\n}\n"
    with pytest.raises(CompileError, match="calls gamma"):
        module_from_object(compile_text(text, machine).data)


def _falling() -> Schedule:
    fall = trace(lambda z, v, h: (z + h * v, v - 9.81 * h), {"z": (), "v": (), "h": ()}, name="fall")
    step = Call("fall", ("z", "v", "h"), ("z", "v"))
    return Schedule({"fall": fall}, {"z": (), "v": (), "h": ()}, ("z", "v"), [step], constants=("h",))


@pytest.mark.thorough
def test_modules_import_nothing_and_compute() -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs node (Debian: apt-get install nodejs)")
    long = trace(
        lambda x: np.stack([(x[k % 3] + k) * x[0] + np.sin(x[k % 3]) for k in range(1500)]), {"x": (3,)}, name="long"
    )
    functions = {"long": long, "power": trace(lambda x: x**1.5 + np.arctan2(x, 2.0), {"x": (3,)}, name="power")}
    module = wasm_functions(functions)
    program = """
      const { bytes, free, scratch } = JSON.parse(require("fs").readFileSync(0));
      const module = new WebAssembly.Module(Buffer.from(bytes, "hex")), { exports } = new WebAssembly.Instance(module);
      exports.memory.grow(4);
      const at = Math.ceil(free / 16) * 16, all = new Float64Array(exports.memory.buffer, at, 20000);
      all.set([0.3, 0.4, 0.5]);
      exports.long(at, at + 64, at + 20000); exports.power(at, at + 16000, at + 20000);
      const imports = WebAssembly.Module.imports(module).length;
      console.log(JSON.stringify({ imports, long: [...all.slice(8, 1508)], power: [...all.slice(2000, 2003)] }));"""
    given = json.dumps({"bytes": module.data.hex(), "free": module.free, "scratch": module.scratch})
    done = subprocess.run([node, "-e", program], input=given, capture_output=True, text=True, check=True)
    result = json.loads(done.stdout)
    x = np.array([0.3, 0.4, 0.5])
    assert result["imports"] == 0
    assert result["long"] == pytest.approx(
        [(x[k % 3] + k) * x[0] + math.sin(x[k % 3]) for k in range(1500)], rel=1e-15, abs=1e-16
    )
    assert result["power"] == pytest.approx(x**1.5 + np.arctan2(x, 2.0), rel=1e-15)
