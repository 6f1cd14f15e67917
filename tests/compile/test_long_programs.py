"""Long programs: parts that repeat are compiled once, products of matrices go in blocks; the numbers stay."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from heavytop_bench.trees import chain

from heavytop._arrays import symbol
from heavytop.compile import Cache, Instruction, Kernel, Op, Program, Traced, jit, loader as code, trace_of
from heavytop.compile.backends.kernel_loops import kernel_module
from heavytop.compile.backends.lanes import Lanes
from heavytop.compile.passes import matmul_tiling as blocks, ordering as repeats
from heavytop.compile.passes.matmul_tiling import in_blocks
from heavytop.compile.passes.ordering import waiting, with_few_waiting
from heavytop.system.dynamics.solve import product


def texts(program: Program, lanes: int) -> tuple[int, int]:
    """Different texts, and parts that share them."""
    ir = kernel_module(program, Lanes(lanes), fma=True).text
    return len(re.findall(r"define internal void @f_text\d+", ir)), len(
        re.findall(r"^@f_places\d+ =", ir, re.MULTILINE)
    )


@pytest.mark.parametrize("lanes", [pytest.param(1, marks=pytest.mark.thorough), 8])
@pytest.mark.thorough
def test_links_that_are_alike_share_their_code(lanes: int, monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    n = 24
    model = chain(n).derive()
    traced = model.traced("acceleration")
    monkeypatch.setattr(repeats, "ROLL_ABOVE", 1000)
    different, parts = texts(Program.from_traced(traced), lanes)
    assert 2 * different <= parts
    rolled = Kernel(traced, lanes, cache=Cache(tmp_path))
    rng = np.random.default_rng(0)
    q, v, u, p = model.random(0, (11,)), rng.standard_normal((11, n)), np.ones(model.nu), model.parameter_vector()
    q[3, 5] = 1e12  # an angle that is brought into range first
    plain = traced.interpret(*(np.broadcast_to(x, (11, len(x.T))) for x in (q, v, u, p)))[0]
    ours, theirs = rolled(q, v, u, p)[0], plain
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12 * np.max(np.abs(theirs)))
    np.testing.assert_array_equal(ours[4:6], rolled(q[4:6], v[4:6], u, p)[0])


def test_a_program_that_repeats_nothing_is_cut_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    code = [Instruction(Op.INPUT, (0, 0)), Instruction(Op.CONST, (), 0.3)]
    for k in range(2, 4000):
        op = (Op.ADD, Op.MUL, Op.SUB, Op.SIN)[rng.integers(4)]
        code.append(Instruction(op, tuple(int(a) for a in rng.integers(max(k - 40, 0), k, 1 if op is Op.SIN else 2))))
    program = Program("f", tuple(code), (1,), ((len(code) - 1,),))
    before = kernel_module(program, Lanes(4), fma=True).text
    monkeypatch.setattr(repeats, "ROLL_ABOVE", 1000)
    assert kernel_module(program, Lanes(4), fma=True).text == before


def matrices(n: int) -> Traced:
    A, B = symbol("A", n * n), symbol("B", n * n)
    C = product(np.reshape(A, (n, n)), np.reshape(B, (n, n)))
    return trace_of("product", {"A": A, "B": B}, {"C": C})


def test_products_go_in_blocks_and_keep_their_bits() -> None:
    program = Program.from_traced(matrices(9))
    ordered = in_blocks(program)
    assert ordered is not program
    assert sorted(map(str, (i.op for i in ordered.code))) == sorted(map(str, (i.op for i in program.code)))
    rng = np.random.default_rng(0)
    given = rng.standard_normal((2, 81))
    results = [interpreted(p, given) for p in (program, ordered)]
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_allclose(results[0].reshape(9, 9), given[0].reshape(9, 9) @ given[1].reshape(9, 9), rtol=1e-12)
    # the first sums advance together: sixteen of them have begun before one is finished
    finished = min(k for k in ordered.homes)
    begun = sum(i.op is Op.ADD for i in ordered.code[:finished])
    assert begun == 16 * (9 - 2)


def test_sums_that_wait_for_each_other_stay_in_order() -> None:
    # A (A B): the second product has the rows of the first and columns that are its results
    n = 8
    A, B = symbol("A", n * n), symbol("B", n * n)
    first = product(np.reshape(A, (n, n)), np.reshape(B, (n, n)))
    second = product(np.reshape(A, (n, n)), first)
    program = Program.from_traced(trace_of("twice", {"A": A, "B": B}, {"C": second}))
    ordered = in_blocks(program)
    given = np.random.default_rng(1).standard_normal((2, n * n))
    np.testing.assert_array_equal(interpreted(program, given), interpreted(ordered, given))
    for k, (op, args, _) in enumerate(ordered.code):
        assert op is Op.INPUT or all(a < k for a in args)


def test_blocks_that_wait_for_each_other_through_others_are_given_up() -> None:
    program = Program.from_traced(matrices(6))
    first, second, *_ = blocks._chains(program).values()
    last = len(program.code)
    # the second sum gets a factor that is made from the first one
    code = [*program.code, Instruction(Op.NEG, (first[-1],))]
    changed = second[0] if code[second[0]].op is Op.MUL else second[1]
    code[changed] = Instruction(Op.MUL, (last, code[changed].args[1]))
    assert blocks._order(code, [[first, second]]) is None
    assert blocks._order(program.code, [[first, second]]) is not None


def interpreted(program: Program, given: np.ndarray) -> np.ndarray:
    """The program by plain arithmetic."""
    values: list[float] = []
    for op, args, value in program.code:
        x = [values[a] for a in args] if op is not Op.INPUT else []
        if op is Op.INPUT:
            values.append(float(given[args[0], args[1]]))
        elif op is Op.CONST:
            values.append(value)
        else:
            values.append(x[0] * x[1] if op is Op.MUL else x[0] + x[1] if op is Op.ADD else x[0] - x[1])
    return np.array([values[v] for v in program.outputs[0]])


@pytest.mark.thorough
def test_a_cut_program_keeps_few_values_waiting() -> None:
    program = Program.from_traced(chain(20).derive().traced("acceleration"))
    ordered = with_few_waiting(program)
    assert max(waiting(ordered)) < 0.6 * max(waiting(program))
    assert sorted(ordered.histogram.items()) == sorted(program.histogram.items())
    assert all(a < k for k, i in enumerate(ordered.code) if i.op is not Op.INPUT for a in i.args)
    sines = [k for k, i in enumerate(ordered.code) if i.op is Op.SIN]
    assert all(ordered.code[k + 1] == Instruction(Op.COS, ordered.code[k].args) for k in sines)


@pytest.mark.parametrize("name", ["acceleration", pytest.param("acceleration_derivatives", marks=pytest.mark.thorough)])
@pytest.mark.thorough
def test_neither_cuts_nor_lanes_change_a_bit(name: str, tmp_path) -> None:
    model = chain(6).derive()
    traced, rng = model.traced(name), np.random.default_rng(1)
    states = (
        model.random(0, (11,)),
        rng.standard_normal((11, 6)),
        rng.standard_normal((11, 6)),
        model.parameter_vector(),
    )
    whole = Kernel(traced, 4, chunk=10**6, cache=Cache(tmp_path))
    for lanes, chunk in ((4, 150), (1, 400), (8, 250)):
        cut = Kernel(traced, lanes, chunk=chunk, cache=Cache(tmp_path))
        assert cut.stats().chunks > 2 > whole.stats().chunks
        for ours, theirs in zip(cut(*states), whole(*states), strict=True):
            np.testing.assert_array_equal(ours, theirs)


@pytest.fixture(scope="module")
def long_text() -> str:
    """A module of more than ten parts with sines."""
    return kernel_module(Program.from_traced(chain(40).derive().traced("acceleration")), Lanes(4), fma=True).text


@pytest.mark.thorough
def test_modules_side_by_side_are_the_same_object_code_whoever_makes_them(long_text, monkeypatch) -> None:
    many = jit.compile_side_by_side(long_text)
    assert len(many.sizes) > 3
    assert many.data == jit.compile_side_by_side(long_text).data
    monkeypatch.setattr(jit, "thread_count", lambda _: 1)
    assert many.data == jit.compile_side_by_side(long_text).data


@pytest.mark.thorough
def test_threads_that_compile_at_the_same_time_do_not_disturb_each_other(long_text) -> None:
    with ThreadPoolExecutor(4) as pool:
        found = set(pool.map(lambda _: jit.compile_side_by_side(long_text).data, range(4)))
    assert len(found) == 1


@pytest.mark.thorough
def test_modules_side_by_side_have_the_bits_of_one(tmp_path, monkeypatch) -> None:
    model = chain(40).derive()
    traced, rng = model.traced("acceleration"), np.random.default_rng(1)
    q, v, u, p = model.random(0, (7,)), rng.standard_normal((7, 40)), np.ones(40), model.parameter_vector()
    q[3, 5] = 1e12  # through the helpers that the modules share
    first = Kernel(traced, 4, fingerprint="cut", cache=Cache(tmp_path / "a"))
    cached = Kernel.from_cache("cut", 4, cache=Cache(tmp_path / "a"))
    monkeypatch.setattr(code, "compile_side_by_side", jit.compile_text)
    whole = Kernel(traced, 4, cache=Cache(tmp_path / "b"))
    assert cached is not None
    assert cached.stats().cache_hit
    assert cached.stats().object_bytes == first.stats().object_bytes > whole.stats().object_bytes
    for kernel in (first, cached):
        np.testing.assert_array_equal(kernel(q, v, u, p)[0], whole(q, v, u, p)[0])
