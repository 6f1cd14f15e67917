"""Kernels over batches: any layout of the arguments, tails, threads, chunks; the same bits in every case."""

import threading

import numpy as np
import pytest
from compile.chain import chain

from heavytop.compile import Kernel, NativeCodeWarning, kernel as kernel_module, trace
from heavytop.compile.passes.tiles import PART
from heavytop.errors import CompileError, ShapeError


def function(q, v, p):
    y = np.sin(q) * p[0] + np.cos(q) * v
    return {"y": y, "e": v @ v * p[1] + q[0], "M": np.outer(q, v[:2])}


@pytest.fixture(scope="module")
def traced():
    return trace(function, {"q": (5,), "v": (5,), "p": (2,)}, name="sample")


@pytest.fixture(scope="module")
def kernel(traced):
    return Kernel(traced)


def arguments(count, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(count, 5)), rng.normal(size=(count, 5)), rng.normal(size=2)


def same(a, b):
    for x, y in zip(a, b, strict=True):
        np.testing.assert_array_equal(x, y)


def close(a, b):
    for x, y in zip(a, b, strict=True):
        assert x.shape == y.shape
        np.testing.assert_allclose(x, y, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("lanes", [1, 2, 4, 8])
def test_agrees_with_the_interpreter(traced, lanes):
    q, v, p = arguments(21)
    native = Kernel(traced, lanes)
    assert native.lanes == lanes
    close(native(q, v, p), traced.interpret(q, v, p))


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 7, 8, 9, 33])
def test_tails(kernel, count):
    q, v, p = arguments(33)
    whole = kernel(q, v, p)
    part = kernel(q[:count], v[:count], p)
    assert part[2].shape == (count, 5, 2)
    same(part, [w[:count] for w in whole])


def test_single_state_has_the_bits_of_the_batch(kernel):
    q, v, p = arguments(9)
    whole = kernel(q, v, p)
    for k in range(9):
        same(kernel(q[k], v[k], p), [w[k] for w in whole])


def test_layouts(kernel):
    q, v, p = arguments(40)
    expected = kernel(q, v, p)

    def unaligned(a):
        raw = np.zeros(a.nbytes + 3, dtype=np.uint8)
        view = raw[3:].view()
        view = np.frombuffer(raw.data, dtype=float, offset=3, count=a.size).reshape(a.shape)
        view[...] = a
        assert not view.flags.aligned
        return view

    def shifted(a):
        raw = np.zeros(a.size + 1)
        raw[1:] = a.ravel()
        return raw[1:].reshape(a.shape)

    def wide(a):
        big = np.full((a.shape[0] * 2, *a.shape[1:-1], a.shape[-1] * 3), np.nan)
        big[::2, ..., ::3] = a
        return big[::2, ..., ::3]

    def frozen(a):
        b = a.copy()
        b.setflags(write=False)
        return b

    def swapped(a):
        return a.astype(a.dtype.newbyteorder())

    def reversed_rows(a):
        return a[::-1].copy()[::-1]

    for change in (unaligned, shifted, wide, np.asfortranarray, frozen, swapped, reversed_rows, np.ndarray.tolist):
        same(kernel(change(q), change(v), p), expected)
    same(kernel(q, v, wide(np.stack([p, p]))[0]), expected)
    same(kernel(q.astype(np.float32).astype(float), v, p)[0][:1], kernel(q.astype(np.float32), v, p)[0][:1])


def test_integers_and_row_strides(kernel):
    q = np.arange(20).reshape(4, 5)
    same(kernel(q, q, [1, 2]), kernel(q.astype(float), q.astype(float), [1.0, 2.0]))
    big = np.random.default_rng(0).normal(size=(50, 12))
    same(
        kernel(big[::3, :5], big[::3, 6:11], [1.0, 2.0]), kernel(big[::3, :5].copy(), big[::3, 6:11].copy(), [1.0, 2.0])
    )


def test_arguments_are_not_changed(kernel):
    q, v, p = arguments(6)
    copies = [a.copy() for a in (q, v, p)]
    kernel(q, v, p)
    kernel(q[0], v[0], p)
    same((q, v, p), copies)


def test_results_are_our_own(kernel):
    q, v, p = arguments(2)
    first = kernel(q[0], v[0], p)
    kept = [a.copy() for a in first]
    kernel(q[1], v[1], p)
    same(first, kept)


def test_broadcasting(kernel):
    q, v, _ = arguments(12)
    p = np.random.default_rng(4).normal(size=(4, 1, 2))
    result = kernel(q.reshape(4, 3, 5), v[:3], p)
    assert result[0].shape == (4, 3, 5)
    assert result[1].shape == (4, 3)
    same([r[2, 1] for r in result], kernel(q[7], v[1], p[2, 0]))
    shared = kernel(q[0], v[0], np.random.default_rng(4).normal(size=(7, 2)))
    assert shared[2].shape == (7, 5, 2)


def test_size_one_batch_axes(kernel):
    q, v, p = arguments(1)
    assert kernel(q, v, p)[0].shape == (1, 5)
    assert kernel(q[None], v, p)[1].shape == (1, 1)
    assert kernel(np.zeros((0, 5)), np.zeros((1, 5)), p)[1].shape == (0,)


def test_nan_stays_in_its_lane(kernel):
    q, v, p = arguments(10)
    expected = kernel(q, v, p)
    q[3] = np.nan
    v[6] = np.inf
    result = kernel(q, v, p)
    keep = [0, 1, 2, 4, 5, 7, 8, 9]
    same([r[keep] for r in result], [e[keep] for e in expected])
    assert np.isnan(result[0][3]).all()


def test_threads_give_the_same_bits(traced, monkeypatch):
    monkeypatch.setattr(kernel_module, "THREAD_BUDGET", 1)
    monkeypatch.setattr(kernel_module, "CALL_BUDGET", 500)
    q, v, p = arguments(1001)
    expected = Kernel(traced)(q, v, p)
    for threads in (2, 3, None):
        same(Kernel(traced, threads=threads)(q, v, p), expected)


def test_one_kernel_in_many_threads(kernel):
    q, v, p = arguments(50)
    expected = kernel(q, v, p)
    wrong = []

    def work(k):
        for _ in range(200):
            single = kernel(q[k], v[k], p)
            if not all(np.array_equal(a, b[k]) for a, b in zip(single, expected, strict=True)):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


def test_interrupt_reaches_the_caller(traced, monkeypatch):
    native = Kernel(traced)
    monkeypatch.setattr(kernel_module, "CALL_BUDGET", 500)

    def interrupted(_):
        raise KeyboardInterrupt

    native._rows = interrupted
    with pytest.raises(KeyboardInterrupt):
        native(*arguments(100))


def test_packed_form(kernel):
    q, v, p = arguments(3 * kernel.lanes)
    packed = kernel.packed(3)
    packed.fill(q, v, p)
    packed.run()
    expected = kernel(q, v, p)
    for a, b in zip(packed.results(), expected, strict=True):
        np.testing.assert_array_equal(a, b.reshape(len(q), -1))
    assert len({kernel.address(e) for e in ("f", "rows", "packed")}) == 3
    for wrong in ("g", "", "\x01", "\u00e9"):  # LLVM itself would end the process
        with pytest.raises(CompileError, match="has no function"):
            kernel.address(wrong)


@pytest.mark.thorough
def test_chunks_agree():
    arm = chain(4)
    a = np.random.default_rng(0).normal(size=(3, 11, 4))
    whole, pieces = Kernel(arm, chunk=1_000_000), Kernel(arm, chunk=150)
    assert whole.stats().chunks == 1
    assert pieces.stats().chunks > 10
    reference = arm.interpret(*a)[0]
    for kernel in (whole, pieces, Kernel(arm, 1, chunk=151)):
        np.testing.assert_allclose(kernel(*a)[0], reference, rtol=1e-10, atol=1e-10)


@pytest.mark.slow
def test_large_programs_are_cut():
    arm = chain(40)
    kernel = Kernel(arm)
    stats = kernel.stats()
    assert stats.instructions > 20_000
    assert stats.chunks >= stats.instructions // PART
    a = np.random.default_rng(0).normal(size=(3, 5, 40))
    np.testing.assert_allclose(kernel(*a)[0], arm.interpret(*a)[0], rtol=1e-7, atol=1e-7)


def test_no_inputs_and_empty_arrays():
    constant = Kernel(trace(lambda: np.array([1.0, 2.0]), {}, name="constant"))
    np.testing.assert_array_equal(constant()[0], [1, 2])
    empty = Kernel(trace(lambda x, u: 2 * x, {"x": (2,), "u": (0,)}, name="empty"))
    np.testing.assert_array_equal(empty(np.ones((3, 2)), np.zeros((3, 0)))[0], 2 * np.ones((3, 2)))
    np.testing.assert_array_equal(empty([1.0, 2.0], [])[0], [2.0, 4.0])


def test_wrong_arguments(kernel):
    q, v, p = arguments(3)
    with pytest.raises(ShapeError, match=r"sample\(q, v, p\) takes 3 arrays, got 2"):
        kernel(q, v)
    with pytest.raises(ShapeError, match=r"v of sample must have shape \(..., 5\), got \(3, 4\)"):
        kernel(q, v[:, :4], p)
    with pytest.raises(ShapeError, match="do not broadcast"):
        kernel(q, v[:2], p)


def test_stats(traced, kernel):
    stats = Kernel(traced).stats()
    assert stats.cache_hit
    assert stats.native
    assert stats.instructions == kernel.stats().instructions > 20
    assert stats.object_bytes > 1000
    assert stats.compile_seconds > 0


def test_unknown_operation_is_interpreted_with_one_warning(fresh_warnings):
    import casadi

    from heavytop._arrays import from_sx, to_sx

    def unsupported(x):
        return from_sx(casadi.erfinv(to_sx(x)), ())

    traced = trace(unsupported, {"x": ()}, name="unsupported")
    with pytest.warns(NativeCodeWarning, match="unsupported.*OP_ERFINV"):
        kernel = Kernel(traced)
    assert not kernel.native
    assert not kernel.stats().native
    np.testing.assert_allclose(kernel([0.0, 0.5])[0], [0.0, 0.4769362762044699])
    with pytest.raises(CompileError, match="has no packed form"):
        kernel.packed(1)
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Kernel(traced)


@pytest.mark.parametrize("fault", ["llvmlite", "memory"])
def test_fallback(traced, kernel, monkeypatch, fresh_warnings, fault):
    from heavytop.compile import jit

    if fault == "llvmlite":
        import sys

        monkeypatch.setitem(sys.modules, "llvmlite.binding", None)
        jit.host.cache_clear()
        expected = "llvmlite cannot be imported"
    else:
        monkeypatch.setattr(jit, "executable_memory", lambda: False)
        expected = "may not make memory executable"
    with pytest.warns(NativeCodeWarning, match=expected):
        slow = Kernel(traced)
    jit.host.cache_clear()
    assert not slow.native
    q, v, p = arguments(7)
    close(slow(q, v, p), kernel(q, v, p))


def test_environment_forces_the_interpreter(traced, monkeypatch, recwarn):
    monkeypatch.setenv("HEAVYTOP_NATIVE", "0")
    assert not Kernel(traced).native
    assert Kernel.from_cache("anything") is None
    assert not recwarn.list
