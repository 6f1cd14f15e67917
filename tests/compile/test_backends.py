"""C, NumPy source and SymPy agree with the interpreter on every operation and on a large function."""

import os
import shutil
import subprocess
import sys
import types

import casadi
import numpy as np
import pytest
import scipy.special
import sympy
from compile.chain import chain

from heavytop._arrays import from_sx, to_sx
from heavytop._format import safe_names
from heavytop.compile import Op, Program, export_c, literal, numpy_function, numpy_source, sympy_expressions, trace
from heavytop.compile.backends.c99 import allocate
from heavytop.compile.backends.c_export import FLAGS, measure_cortex_m7
from heavytop.errors import FileFormatError, ModelError, UnknownNameError

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")


UNARY = {Op.NEG, Op.NOT, Op.FABS, Op.SIGN, Op.FLOOR, Op.CEIL, Op.SQRT, Op.ERF, Op.EXP, Op.EXPM1, Op.LOG, Op.LOG1P}
UNARY |= {Op.SIN, Op.COS, Op.TAN, Op.ASIN, Op.ACOS, Op.ATAN, Op.SINH, Op.COSH, Op.TANH, Op.ASINH, Op.ACOSH, Op.ATANH}


def all_operations():
    """One output per operation, with every operation used."""

    def function(x, y, flag):
        a, b = to_sx(x), to_sx(y)
        results = []
        for op in Op:
            number = getattr(casadi, f"OP_{op.name}", None)
            if op in (Op.INPUT, Op.CONST, Op.SELECT):
                continue
            unary = op in UNARY
            shift = 1.0 if op is Op.ACOSH else 0.0
            results.append(casadi.SX.unary(number, a + shift) if unary else casadi.SX.binary(number, a, b))
        return from_sx(casadi.vertcat(*results), (len(results),)), np.where(flag > 0, x, -y), np.zeros((2, 2))

    return trace(function, {"x": (), "y": (), "flag": ()}, name="everything")


VECTORS = [np.array([0.3, 0.7, 0.1, 0.9]), np.array([0.5, 0.23, 0.1, -0.4]), np.array([1.0, -1.0, 0.0, 2.0])]


@pytest.fixture(scope="module")
def everything():
    return all_operations()


def check(folder):
    environment = {**os.environ, "CC": "gcc"}
    done = subprocess.run(["make", "-C", str(folder), "test"], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@needs_gcc
@pytest.mark.parametrize("precision", ["double", "float"])
def test_c_reproduces_the_vectors(tmp_path, everything, precision):
    functions = {"everything": everything, "arm": chain(3), "for": trace(lambda w0: w0 * 2, {"w0": (2, 2)}, name="x")}
    files = export_c(tmp_path / "out", functions, precision=precision, name="plant", vectors={"everything": VECTORS})
    assert sorted(f.name for f in files) == ["Makefile", "README.md", "plant.c", "plant.h", "test_plant.c"]
    assert "largest difference" in check(tmp_path / "out")
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
    source = (tmp_path / "out" / "plant.c").read_text()
    assert "malloc" not in source
    assert "static" not in source
    assert ("sinf(" in source) == (precision == "float")


@needs_gcc
def test_the_test_can_fail(tmp_path):
    export_c(tmp_path, {"f": trace(lambda x: np.sin(x), {"x": (2,)}, name="f")})
    source = tmp_path / "model.c"
    source.write_text(source.read_text().replace("sin(", "cos("))
    done = subprocess.run(["make", "-C", str(tmp_path), "test"], capture_output=True, text=True)
    assert done.returncode != 0


@needs_gcc
def test_the_test_allows_what_the_last_bits_of_its_inputs_do(tmp_path):
    nearly_equal = np.array([[1.0, 1.0 + 3e-9], [0.7, 0.7 - 1e-9]])
    steep = trace(lambda x: 1e7 * (x[0] - x[1]), {"x": (2,)}, name="steep")
    jump = trace(lambda x: np.where(x > 1.0, 1.0, 0.0), {"x": ()}, name="jump")
    export_c(tmp_path, {"steep": steep, "jump": jump}, vectors={"steep": [nearly_equal], "jump": [np.array([1.0])]})
    text = check(tmp_path)
    allowed = [float(line.split("(allowed ")[1].rstrip(")")) for line in text.splitlines() if "(allowed" in line]
    assert 1e7 * np.finfo(float).eps < allowed[0] < 1e3 * 1e7 * np.finfo(float).eps
    assert allowed[1] == 1e-6  # and never more
    export_c(tmp_path, {"steep": steep}, vectors={"steep": [nearly_equal]}, tolerance=1e-13)
    assert "(allowed 1e-13)" in check(tmp_path)
    source = tmp_path / "model.c"
    source.write_text(source.read_text().replace("10000000", "10001000"))
    export_c(tmp_path / "again", {"steep": steep}, vectors={"steep": [nearly_equal]})
    shutil.copy(source, tmp_path / "again" / "model.c")
    assert subprocess.run(["make", "-C", str(tmp_path / "again"), "test"], capture_output=True).returncode != 0


def test_existing_files(tmp_path):
    f = {"f": trace(lambda x: 2 * x, {"x": (2,)}, name="f")}
    (tmp_path / "Makefile").write_text("all:\n\ttrue\n")
    with pytest.raises(FileFormatError, match=r"Makefile was not written by this export"):
        export_c(tmp_path, f)
    assert [p.name for p in tmp_path.iterdir()] == ["Makefile"]
    (tmp_path / "Makefile").unlink()
    (tmp_path / "notes.txt").write_text("mine")
    export_c(tmp_path, f)
    export_c(tmp_path, f)
    assert (tmp_path / "notes.txt").read_text() == "mine"
    with pytest.raises(FileFormatError, match="is a file"):
        export_c(tmp_path / "notes.txt", f)


@needs_gcc
def test_names_of_entries_stay_inside_their_comment(tmp_path):
    f = {"f": trace(lambda x: 2 * x, {"x": (4,)}, name="f")}
    names = ["a*/ int b;", "/* c", "d??/", "e\\\nf"]
    export_c(tmp_path, f, entries={"x": names}, nominal={"x": [1.5, 2.0]})
    assert "x: a_/ int b; = 1.5, /_ c = 2, d__/, e__f\n" in (tmp_path / "model.h").read_text()
    assert "largest difference" in check(tmp_path)


def test_the_folder_of_another_export_is_rejected(tmp_path):
    f = {"f": trace(lambda x: 2 * x, {"x": (2,)}, name="f")}
    export_c(tmp_path, f, name="arm")
    before = {p.name: p.read_text() for p in tmp_path.iterdir()}
    with pytest.raises(
        FileFormatError, match=r"holds the export of 'arm', .*that of 'leg' would replace; choose another"
    ):
        export_c(tmp_path, f, name="leg")
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == before
    export_c(tmp_path, f, precision="float", name="arm")
    assert (tmp_path / "arm.c").read_text() != before["arm.c"]


def test_a_failing_export_leaves_nothing(tmp_path, monkeypatch):
    from heavytop.compile.backends import c_export as export

    def broken(*_):
        raise OSError("disk full")

    monkeypatch.setattr(export, "_readme", broken)
    with pytest.raises(OSError, match="disk full"):
        export_c(tmp_path / "out", {"f": trace(lambda x: 2 * x, {"x": ()}, name="f")})
    assert list(tmp_path.iterdir()) == []


def test_export_errors(tmp_path):
    f = trace(lambda x: 2 * x, {"x": ()}, name="f")
    with pytest.raises(ModelError, match="precision must be 'double' or 'float', got 'half'"):
        export_c(tmp_path, {"f": f}, precision="half")
    with pytest.raises(ModelError, match="no function to export"):
        export_c(tmp_path, {})
    with pytest.raises(UnknownNameError, match="unknown function 'g'"):
        export_c(tmp_path, {"f": f}, vectors={"g": [[1.0]]})
    with pytest.raises(ModelError, match="exactly one leading axis"):
        export_c(tmp_path, {"f": f}, vectors={"f": [1.0]})


def test_local_variables_are_few():
    """The stack grows with the width of the program, not with its length."""
    program = Program.from_traced(chain(12))
    assert allocate(program).count < program.operations / 15
    long = trace(lambda x: _long(x), {"x": ()}, name="long")
    assert allocate(Program.from_traced(long)).count <= 3


def _long(x):
    y = x
    for k in range(300):
        y = np.sin(y) * x + k
    return y


def test_literals_read_back():
    for value in (0.1, -1e-300, 1e300, 3.0, 1 / 3, 2.0**-1074):
        assert float(literal(value)) == value
    for value in (0.1, 3.0, 1 / 3, 1e-40, 3e38):
        assert np.float32(literal(value, "float")[:-1]) == np.float32(value)
    assert literal(-1e300, "float") == "(-INFINITY)"
    assert safe_names(["w0", "w0", "f"], "c", taken=["f"]) == ["w0_", "w0__", "f_"]


@pytest.mark.embedded
def test_cortex_m7(tmp_path):
    export_c(tmp_path, {"arm": chain(7)}, precision="float", footprint=True)
    size = measure_cortex_m7(tmp_path / "model.c")
    assert 0 < size.code < 100_000
    assert 0 < size.stack < 4096
    assert f"{size.code} bytes of code, {size.stack} bytes of stack" in (tmp_path / "README.md").read_text()
    assert "-Werror" in FLAGS


def test_numpy_source_agrees(everything):
    for traced, arguments in (
        (everything, VECTORS),
        (chain(4), list(np.random.default_rng(0).normal(size=(3, 5, 4)))),
    ):
        for a, b in zip(numpy_function(traced)(*arguments), traced.interpret(*arguments), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12)


class Unwritable(np.ndarray):
    """An array that, like those of JAX, cannot be written to."""

    def __setitem__(self, key, value):
        raise TypeError("immutable")


def test_jax_source_agrees_and_writes_to_no_array(everything, monkeypatch):
    """With NumPy in the place of jax.numpy; tests/peers runs it with JAX."""
    jax_numpy = types.ModuleType("jax.numpy")
    vars(jax_numpy).update(vars(np))
    jax_numpy.asarray = lambda x, dtype=None: np.asarray(x, dtype).view(Unwritable)
    special = types.ModuleType("jax.scipy.special")
    special.erf = scipy.special.erf
    for name, module in {"jax": types.ModuleType("jax"), "jax.numpy": jax_numpy, "jax.scipy.special": special}.items():
        monkeypatch.setitem(sys.modules, name, module)
    sys.modules["jax"].numpy = jax_numpy
    for traced, arguments in ((everything, VECTORS), (chain(4), list(np.random.default_rng(0).normal(size=(3, 5, 4))))):
        text = numpy_source(traced, "f", library="jax")
        assert "import numpy" not in text
        assert "import scipy" not in text
        names = {}
        exec(text, names)
        for a, b in zip(names["f"](*arguments), traced.interpret(*arguments), strict=True):
            assert a.shape == b.shape
            np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12)
    with pytest.raises(ModelError, match="library must be 'numpy' or 'jax', got 'torch'"):
        numpy_source(everything, library="torch")


def test_numpy_source_broadcasts_and_reads_well():
    f = trace(
        lambda R, x: {"y": R @ x, "s": x[0] - (x[1] - x[2]) - x[0] / (x[1] / x[2])}, {"R": (3, 3), "x": (3,)}, name="f"
    )
    rng = np.random.default_rng(0)
    R, x = rng.normal(size=(4, 1, 3, 3)), rng.normal(size=(5, 3))
    for a, b in zip(numpy_function(f)(R, x), f(R, x), strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-13)
    assert "R[..., 0, 1] * x[..., 1]" in numpy_source(f)


def test_sympy_agrees(everything):
    symbols = sympy.symbols("x y flag", real=True)
    result = sympy_expressions(everything, [[s] for s in symbols])
    expected = everything.interpret(*VECTORS)
    for k in range(4):
        values = {s: sympy.Float(v[k]) for s, v in zip(symbols, VECTORS, strict=True)}
        got = [complex(sympy.N(e.subs(values))) for e in result["out0"]]
        want = expected[0][k]
        finite = np.isfinite(want)
        np.testing.assert_allclose(np.array(got)[finite], want[finite], rtol=1e-12, atol=1e-14)
        assert float(result["out1"].subs(values)) == pytest.approx(expected[1][k])
    assert result["out2"].shape == (2, 2)


def test_sympy_is_readable():
    f = trace(lambda x, m: {"T": 0.5 * m * x[1] ** 2, "V": m * 9.81 * np.sin(x[0])}, {"x": (2,), "m": ()}, name="f")
    assert {k: str(v) for k, v in sympy_expressions(f).items()} == {"T": "m*x1**2/2", "V": "9.81*m*sin(x0)"}
