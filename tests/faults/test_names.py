"""Names from users cannot leave the place they are written to."""

import keyword
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import heavytop as ht
from heavytop._format import html_text, latex_text, safe_names
from heavytop.compile import export_c, numpy_function, numpy_source, trace

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs a C compiler")
INJECTION = "x */ int injected(void){return 1;} /*"
HOSTILE = [
    "sin", "worst", "difference", "NAN", "main", "int", "class", "w0", "k", "d", "y0", "table0_in0", "printf", "fmaxf", "HEAVYTOP_MODEL_H",
    "a b", "a_b", "a-b", "", "0", "é", "\n#define double int", "\\", "??/", '"; system("x"); //', INJECTION, "model", "index", "j1",
]  # fmt: skip


@needs_gcc
@pytest.mark.thorough
def test_hostile_names_build(tmp_path: Path) -> None:
    """Functions, inputs and outputs of any name: the C code compiles, is right and holds nothing of the names but letters."""
    functions = {}
    for k, name in enumerate(HOSTILE):
        other = HOSTILE[(k + 7) % len(HOSTILE)] or "other"

        def compute(a, b, other=other):
            return {other: np.sin(a) + b[0], "out": b}

        functions[name] = trace(compute, {name: (), f"{name} ": (2,)}, name=name or "f")
    for precision in ("double", "float"):
        folder = tmp_path / precision
        export_c(folder, functions, precision=precision, name="model")
        done = subprocess.run(["make", "-C", str(folder), "test"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-3000:]
        header = (folder / "model.h").read_text()
        assert "injected(void)" not in header
        assert "system(" not in header
        assert header.isascii()
        cpp = subprocess.run(
            ["gcc", "-x", "c++", "-fsyntax-only", str(folder / "model.h")], capture_output=True, text=True
        )
        assert cpp.returncode == 0 or "cc1plus" in cpp.stderr, cpp.stderr[-2000:]


def test_names_of_models_are_no_paths(tmp_path: Path) -> None:
    f = {"f": trace(lambda x: 2 * x, {"x": ()}, name="f")}
    files = export_c(tmp_path / "out", f, name="../../escape")
    assert all(path.parent == tmp_path / "out" for path in files)
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize(
    "name", [*HOSTILE, "np", "batch", "lambda", "class", "match", "t0", "t1", "erf", "float", "None"]
)
def test_numpy_source_takes_any_name(name: str) -> None:
    traced = trace(
        lambda a, b: {name or "o": np.sin(a) * 3 + np.sin(a), "r": a - b}, {name: (), f"{name} ": ()}, name=name or "f"
    )
    expected = traced.interpret(0.5, 0.25)
    got = numpy_function(traced)(0.5, 0.25)
    np.testing.assert_allclose(got, expected, rtol=1e-15)
    assert INJECTION not in numpy_source(traced)


def test_names_stay_distinct() -> None:
    names = ["a b", "a_b", "a-b", "a_b", "a_b_", "a_b_2", "for", "for_"]
    for target in ("c", "python", "symbol", "file"):
        made = safe_names(names, target)
        assert len(set(made)) == len(names), target
        assert safe_names(["x"], target, taken=["x"]) != ["x"]
    for name in safe_names([*keyword.kwlist, *HOSTILE], "python"):
        assert name.isidentifier()
        assert not keyword.iskeyword(name)


def test_markup_and_paths() -> None:
    text = html_text("<script>alert('x')</script>\0")
    assert "<" not in text
    assert "\0" not in text
    assert latex_text(r"\input{/etc/passwd}%$") == r"\textbackslash{}input\{/etc/passwd\}\%\$"
    for name in ("..", ".", "a/b", "con", "NUL.txt", "", "x" * 500, "a\0b"):
        (text,) = safe_names([name], "file")
        assert Path(text).name == text
        assert text not in (".", "..")
        assert len(text) < 200
        assert text.lower() not in ("con", "nul.txt")


def test_equations_of_hostile_names() -> None:
    """Symbols stay distinct (two names were one symbol before), and LaTeX holds no command but those of the typesetter."""
    system = ht.System(name="$\\input{x}")
    for k, name in enumerate(["a b", "a_b", "a_b_2", "2x_a_b", "é", "lambda", "a+b"]):
        system.body(name, joint=ht.Prismatic("x"), inertia=ht.Inertia(1.0 + k))
        system.input(f"u{k}-_2_3", ht.JointForce(name))
    equations = system.derive(native=False).equations()
    symbols = [s.name for column in (equations.q, equations.v, equations.u) for s in column]
    assert len(set(symbols)) == len(symbols) == 21
    text = equations.latex()
    assert "$" not in text
    assert "\\input" not in text
    assert "a_b" not in text  # an index of an index would not be typeset


def test_pages_of_hostile_names(tmp_path: Path) -> None:
    name = "</title><script>alert(1)</script>\u202e\0"
    system = ht.System(name=name)
    system.body("rod", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=(0, 0, -1)))
    run = ht.simulate(system.derive(native=False), ([0.1], [0.0]), 0.1, 0.01)
    run.show(tmp_path / "run.html")
    text = (tmp_path / "run.html").read_text(encoding="utf-8")
    assert "<script>alert" not in text
    assert "\0" not in text
    run.save(tmp_path / "run.nc")
    assert ht.Run.load(tmp_path / "run.nc").q_names == run.q_names
