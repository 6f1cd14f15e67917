"""Runs, steps and forward dynamics as differentiable functions of JAX (extra ``jax``), float64 on the processor, inside ``jit`` and ``vmap`` too.

They call the native code back from the compiled program (``jax.pure_callback``). JAX must be switched to 64 bits first
(``jax.config.update("jax_enable_x64", True)``). Reverse mode simulates once more in the backward pass, so that nothing is kept between both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from heavytop.errors import HeavytopError, ShapeError, SimulationError
from heavytop.simulate.dynamics import as_dynamics
from heavytop.simulate.gradients.run_function import RunFunction, TracedFunction
from heavytop.simulate.spec import prepare as prepare_spec


class MissingJaxError(HeavytopError):
    """JAX is not installed, or computes with 32 bits.

    >>> issubclass(MissingJaxError, HeavytopError)
    True
    """


def _jax() -> Any:
    try:
        jax: Any = import_module("jax")
    except ImportError:
        raise MissingJaxError("ht.jax needs JAX: pip install 'heavytop[jax]'.") from None
    if not jax.config.read("jax_enable_x64"):
        raise MissingJaxError("ht.jax computes with float64: call jax.config.update('jax_enable_x64', True) first.")
    return jax


MODES = ("reverse", "forward")


def simulate(
    model: Any,
    start: tuple[Any, Any],
    until: float,
    step: float,
    *,
    inputs: Any = None,
    parameters: Mapping[str, Any] | None = None,
    gains: Mapping[str, Any] | None = None,
    mode: str = "reverse",
    **options: Any,
) -> tuple[Any, Any]:
    """As :func:`heavytop.simulate`, on arrays of JAX: q (n, *batch, nq) and v (n, *batch, nv) at the records.

    Parameters
    ----------
    mode : "reverse" for ``jax.grad`` and ``jax.vjp`` (``custom_vjp``), "forward" for ``jax.jvp`` and ``jax.jacfwd`` (``custom_jvp``).
    options : integrator, control, hold, memory, ... of :func:`heavytop.simulate` and :func:`heavytop.gradient`.

    Examples
    --------
    >>> from importlib.util import find_spec
    >>> import heavytop as ht
    >>> if find_spec("jax"):
    ...     import jax
    ...     jax.config.update("jax_enable_x64", True)
    ...     run = ht.jax.prepare(ht.library.pendulum().derive(), until=0.5, step=0.01)
    ...     slope = jax.grad(lambda q: run(q, jax.numpy.zeros(1))[0][-1, 0])(jax.numpy.ones(1))
    ...     assert abs(float(slope[0]) - 0.145) < 1e-4
    """
    return prepare(model, until, step, mode=mode, **options)(*start, inputs, parameters, gains)


def prepare(
    model: Any, until: float, step: float, *, mode: str = "reverse", memory: float | None = None, **options: Any
) -> Callable[..., Any]:
    """A run as a function ``(q, v, inputs=None, parameters=None, gains=None) -> (q, v)`` of arrays, prepared once.

    Examples
    --------
    >>> from importlib.util import find_spec
    >>> import heavytop as ht
    >>> if find_spec("jax"):
    ...     import jax
    ...     jax.config.update("jax_enable_x64", True)
    ...     run = ht.jax.prepare(ht.library.pendulum().derive(), until=0.5, step=0.01)
    ...     assert jax.jit(run)(jax.numpy.ones(1), jax.numpy.zeros(1))[0].shape == (51, 1)
    """
    _jax()
    if mode not in MODES:
        raise SimulationError(f"mode must be 'reverse' or 'forward', got {mode!r}.")
    spec = prepare_spec(model, until, step, **options)
    steps = spec.parts(*spec.dynamics_and_subject()).steps
    functions: dict[tuple[Any, ...], Any] = {}

    def run(q: Any, v: Any, inputs: Any = None, parameters: Any = None, gains: Any = None) -> tuple[Any, Any]:
        given: dict[Any, Any] = {"q": q, "v": v}
        if inputs is not None:
            given["inputs"] = inputs
        given |= {("parameters", name): x for name, x in (parameters or {}).items()}
        given |= {("gains", name): x for name, x in (gains or {}).items()}
        names = tuple(given)
        if names not in functions:
            functions[names] = _differentiable(_Calls(RunFunction(spec, names, memory), steps + 1), mode)
        return functions[names](*(_checked(x) for x in given.values()))

    return run


def step(model: Any, size: float, **options: Any) -> Callable[..., Any]:
    """One step of size ``size`` in s as a function ``(q, v, u=None, parameters=None) -> (q, v)`` of arrays (*batch, n).

    Examples
    --------
    >>> from importlib.util import find_spec
    >>> import heavytop as ht
    >>> if find_spec("jax"):
    ...     import jax
    ...     jax.config.update("jax_enable_x64", True)
    ...     advance = ht.jax.step(ht.library.pendulum().derive(), 0.01)
    ...     assert advance(jax.numpy.ones((3, 1)), jax.numpy.zeros((3, 1)))[0].shape == (3, 1)
    """
    run = prepare(model, size, size, **options)

    def advance(q: Any, v: Any, u: Any = None, parameters: Any = None) -> tuple[Any, Any]:
        q_n, v_n = run(q, v, None if u is None else u[None], parameters)
        return q_n[-1], v_n[-1]

    return advance


def forward_dynamics(model: Any, mode: str = "reverse") -> Callable[..., Any]:
    """Accelerations as a function ``(q, v, u) -> a`` (*batch, nv) of arrays.

    Examples
    --------
    >>> from importlib.util import find_spec
    >>> import heavytop as ht
    >>> if find_spec("jax"):
    ...     import jax
    ...     jax.config.update("jax_enable_x64", True)
    ...     acceleration = ht.jax.forward_dynamics(ht.library.pendulum().derive())
    ...     assert float(acceleration(*(jax.numpy.zeros(1),) * 3)[0]) == 0.0
    """
    _jax()
    dynamics = as_dynamics(model)
    traced = dynamics.motion()
    function = TracedFunction(traced, (0, 1, 2), [list(traced.outputs)[1]])
    calls = _TracedCalls(function, dynamics.parameter_vector(), dynamics.nv)
    run = _differentiable(calls, mode)
    return lambda q, v, u: run(*(_checked(x) for x in (q, v, u)))[0]


class _Calls:
    """What JAX calls back for a run: NumPy arrays in, NumPy arrays out; leading axes that ``vmap`` adds are batch axes."""

    def __init__(self, function: RunFunction, records: int) -> None:
        self.function, self.records = function, records

    def shapes(self, *arguments: Any) -> tuple[tuple[int, ...], ...]:
        """Shapes of the results."""
        given = dict(zip(self.function.arguments, arguments, strict=True))
        batches = [given[x].shape[:-1] for x in ("q", "v")]
        if "inputs" in given and given["inputs"].ndim > 2:
            batches.append(given["inputs"].shape[1:-1])
        batches += [x.shape for name, x in given.items() if isinstance(name, tuple) and name[0] == "parameters"]
        batch = np.broadcast_shapes(*batches)
        return tuple((self.records, *batch, given[x].shape[-1]) for x in ("q", "v"))

    def _arrays(self, arguments: Any) -> dict[Any, np.ndarray]:
        return {name: np.asarray(x) for name, x in zip(self.function.arguments, arguments, strict=True)}

    def values(self, *arguments: Any) -> tuple[np.ndarray, ...]:
        return self.function.records(self.function.run(self._arrays(arguments)))

    def vjp(self, arguments: Any, bars: Any) -> tuple[np.ndarray, ...]:
        arrays = self._arrays(arguments)
        found = self.function.vjp(self.function.run(arrays), arrays, *(np.asarray(b) for b in bars))
        return tuple(found[name] for name in self.function.arguments)

    def jvp(self, arguments: Any, dots: Any) -> tuple[np.ndarray, ...]:
        arrays = self._arrays(arguments)
        return self.function.jvp(self.function.run(arrays), arrays, self._arrays(dots))


class _TracedCalls:
    """The same for a traced function of (q, v, u) and parameters."""

    def __init__(self, function: TracedFunction, p: np.ndarray, size: int) -> None:
        self.function, self.p, self.size = function, p, size

    def shapes(self, *arguments: Any) -> tuple[tuple[int, ...], ...]:
        return ((*np.broadcast_shapes(*(x.shape[:-1] for x in arguments)), self.size),)

    def values(self, *arguments: Any) -> tuple[np.ndarray, ...]:
        return self.function.values([*(np.asarray(x) for x in arguments), self.p])

    def vjp(self, arguments: Any, bars: Any) -> tuple[np.ndarray, ...]:
        given = [np.asarray(x) for x in arguments]
        found = self.function.vjp([*given, self.p], [np.asarray(b) for b in bars])
        return tuple(found[k] for k in range(len(given)))

    def jvp(self, arguments: Any, dots: Any) -> tuple[np.ndarray, ...]:
        return self.function.jvp([*(np.asarray(x) for x in arguments), self.p], [np.asarray(d) for d in dots])


def _differentiable(calls: Any, mode: str) -> Callable[..., Any]:
    """A function of JAX arrays with the derivative of a mode."""
    jax = _jax()
    call_back = partial(jax.pure_callback, vmap_method="sequential")

    def like(shapes: Any) -> Any:
        return tuple(jax.ShapeDtypeStruct(shape, np.float64) for shape in shapes)

    def values(*arguments: Any) -> Any:
        return call_back(calls.values, like(calls.shapes(*arguments)), *arguments)

    if mode == "forward":
        function = jax.custom_jvp(values)

        def forward(primals: Any, tangents: Any) -> Any:
            result = values(*primals)
            return result, call_back(calls.jvp, like(x.shape for x in result), primals, tangents)

        function.defjvp(forward)
        return function
    function = jax.custom_vjp(values)

    def backward(arguments: Any, bars: Any) -> Any:
        return call_back(calls.vjp, like(x.shape for x in arguments), arguments, bars)

    function.defvjp(lambda *arguments: (values(*arguments), arguments), backward)
    return function


def _checked(x: Any) -> Any:
    """An array of float64."""
    import jax.numpy as jnp  # pyright: ignore[reportMissingImports]

    array = jnp.asarray(x)
    if array.dtype != jnp.float64:
        raise ShapeError(f"ht.jax takes arrays of float64, got {array.dtype}.")
    return array
