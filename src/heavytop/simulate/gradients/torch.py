"""Runs, steps, forward dynamics and laws as differentiable functions of PyTorch (extra ``torch``), float64 on the processor.

Tensors are shared with the native code, not copied. Gradients by a configuration q are in the space of q, along the tangent of the manifold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np

from heavytop.errors import HeavytopError, ShapeError
from heavytop.simulate.dynamics import as_dynamics
from heavytop.simulate.gradients.run_function import RunFunction, TracedFunction
from heavytop.simulate.inputs import plan_inputs
from heavytop.simulate.spec import RunSpec, prepare as prepare_spec

Tensor = Any
"""A tensor of PyTorch, which is imported by the functions only."""


class MissingTorchError(HeavytopError):
    """PyTorch is not installed.

    >>> issubclass(MissingTorchError, HeavytopError)
    True
    """


def _torch() -> Any:
    try:
        import torch  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise MissingTorchError("ht.torch needs PyTorch: pip install 'heavytop[torch]'.") from None
    return torch


def simulate(
    model: Any,
    start: tuple[Tensor, Tensor],
    until: float,
    step: float,
    *,
    inputs: Tensor | None = None,
    parameters: Mapping[str, Tensor] | None = None,
    gains: Mapping[str, Tensor] | None = None,
    memory: float | None = None,
    **options: Any,
) -> tuple[Tensor, Tensor]:
    """As :func:`heavytop.simulate`, on tensors: q (n, *batch, nq) and v (n, *batch, nv) at the records, differentiable by all tensors.

    Parameters
    ----------
    start, inputs, parameters, gains : tensors of float64. options : integrator, control, hold, ... of :func:`heavytop.simulate`.
    memory : as in :func:`heavytop.gradient`.

    Examples
    --------
    >>> from importlib.util import find_spec
    >>> import heavytop as ht
    >>> if find_spec("torch"):
    ...     import torch
    ...     q, v = torch.tensor([1.0], dtype=torch.float64, requires_grad=True), torch.zeros(1, dtype=torch.float64)
    ...     q_n, v_n = ht.torch.simulate(ht.library.pendulum().derive(), (q, v), until=0.5, step=0.01)
    ...     q_n[-1, 0].backward()
    ...     assert abs(float(q.grad[0]) - 0.145) < 1e-4
    """
    return prepare(model, until, step, memory=memory, **options)(*start, inputs, parameters, gains)


def prepare(
    model: Any, until: float, step: float, *, memory: float | None = None, **options: Any
) -> Callable[..., Any]:
    """A run as a function ``(q, v, inputs=None, parameters=None, gains=None) -> (q, v)`` of tensors, prepared once.

    Examples
    --------
    >>> from importlib.util import find_spec
    >>> import heavytop as ht
    >>> if find_spec("torch"):
    ...     import torch
    ...     run = ht.torch.prepare(ht.library.pendulum().derive(), until=0.5, step=0.01)
    ...     q, v = run(torch.ones(1, dtype=torch.float64), torch.zeros(1, dtype=torch.float64))
    ...     assert q.shape == (51, 1)
    """
    spec = prepare_spec(model, until, step, **options)
    return _PreparedRun(spec, memory)


class _PreparedRun:
    def __init__(self, spec: RunSpec, memory: float | None) -> None:
        self.spec, self.memory = spec, memory
        self._functions: dict[tuple[Any, ...], RunFunction] = {}

    def __call__(
        self,
        q: Tensor,
        v: Tensor,
        inputs: Tensor | None = None,
        parameters: Mapping[str, Tensor] | None = None,
        gains: Mapping[str, Tensor] | None = None,
    ) -> tuple[Tensor, Tensor]:
        given: dict[Any, Any] = {"q": q, "v": v}
        if inputs is not None:
            given["inputs"] = inputs
        given |= {("parameters", name): x for name, x in (parameters or {}).items()}
        given |= {("gains", name): x for name, x in (gains or {}).items()}
        names = tuple(given)
        if names not in self._functions:
            self._functions[names] = RunFunction(self.spec, names, self.memory)
        return _run_class().apply(self._functions[names], *given.values())


@cache
def _run_class() -> Any:
    torch = _torch()
    from torch.autograd.function import once_differentiable  # pyright: ignore[reportMissingImports]

    class Run(torch.autograd.Function):
        """A run: tensors of its arguments to tensors of its records."""

        @staticmethod
        def forward(ctx: Any, function: RunFunction, *tensors: Any) -> Any:
            ctx.function = function
            ctx.arrays = dict(zip(function.arguments, map(_array, tensors), strict=True))
            ctx.path = function.run(ctx.arrays)
            return tuple(torch.from_numpy(np.ascontiguousarray(x)) for x in function.records(ctx.path))

        @staticmethod
        @once_differentiable
        def backward(ctx: Any, q_bar: Any, v_bar: Any) -> Any:
            bars = ctx.function.vjp(ctx.path, ctx.arrays, _array(q_bar), _array(v_bar))
            return None, *(torch.from_numpy(np.asarray(bars[name])) for name in ctx.function.arguments)

        @staticmethod
        def jvp(ctx: Any, _: None, *tangents: Any) -> Any:
            given = zip(ctx.function.arguments, tangents, strict=True)
            dots = {name: _array(t) for name, t in given if t is not None}
            return tuple(
                torch.from_numpy(np.ascontiguousarray(x)) for x in ctx.function.jvp(ctx.path, ctx.arrays, dots)
            )

    return Run


def step(model: Any, size: float, **options: Any) -> Callable[..., Any]:
    """One step of size ``size`` in s as a function ``(q, v, u=None, parameters=None) -> (q, v)`` of tensors (*batch, n).

    Parameters
    ----------
    options : integrator, control, hold, ... of :func:`heavytop.simulate`.

    Examples
    --------
    >>> from importlib.util import find_spec
    >>> import heavytop as ht
    >>> if find_spec("torch"):
    ...     import torch
    ...     advance = ht.torch.step(ht.library.pendulum().derive(), 0.01)
    ...     q, v = advance(torch.ones(3, 1, dtype=torch.float64), torch.zeros(3, 1, dtype=torch.float64))
    ...     assert q.shape == (3, 1)
    """
    run = prepare(model, size, size, **options)

    def advance(q: Any, v: Any, u: Any = None, parameters: Any = None) -> tuple[Any, Any]:
        q_n, v_n = run(q, v, None if u is None else u[None], parameters)
        return q_n[-1], v_n[-1]

    return advance


def forward_dynamics(model: Any) -> Callable[..., Any]:
    """Accelerations as a function ``(q, v, u) -> a`` (*batch, nv) of tensors.

    Examples
    --------
    >>> from importlib.util import find_spec
    >>> import heavytop as ht
    >>> if find_spec("torch"):
    ...     import torch
    ...     acceleration = ht.torch.forward_dynamics(ht.library.pendulum().derive())
    ...     a = acceleration(*(torch.zeros(n, dtype=torch.float64) for n in (1, 1, 1)))
    ...     assert float(a[0]) == 0.0
    """
    dynamics = as_dynamics(model)
    traced = dynamics.motion()
    function = TracedFunction(traced, (0, 1, 2), [list(traced.outputs)[1]])
    p = dynamics.parameter_vector()
    return lambda q, v, u: _traced_class().apply(function, (None, None, None, p), q, v, u)[0]


def law(model: Any, control: Any, reference: Any = None) -> Callable[..., Any]:
    """A static law as a function ``(t, q, v) -> u`` (*batch, nu) of tensors.

    Examples
    --------
    >>> from importlib.util import find_spec
    >>> import heavytop as ht
    >>> cart = ht.System()
    >>> cart.body("cart", joint=ht.Prismatic("x"), inertia=ht.Inertia(1.0))
    >>> cart.input("motor", ht.JointForce("cart"))
    >>> if find_spec("torch"):
    ...     import torch
    ...     brake = ht.torch.law(cart.derive(), ht.Feedback(lambda v: -2 * v, ("v",)))
    ...     u = brake(torch.zeros((), dtype=torch.float64), *(torch.ones(1, dtype=torch.float64),) * 2)
    ...     assert float(u[0]) == -2.0
    """
    dynamics = as_dynamics(model)
    subject = getattr(dynamics, "model", model)
    plan = plan_inputs(
        dynamics, subject, inputs=None, control=control, reference=reference, hold="zero-order", control_step=None,
        step=1.0, steps=1, given=1.0,
    )  # fmt: skip
    bound = plan.control.law
    if bound is None or bound.state_size or bound.signal_size:
        raise ShapeError(
            "ht.torch.law takes a law without memory whose reference is constant or a function of the time."
        )
    known = {"t": None, "q": None, "v": None, "p": dynamics.parameter_vector()}
    known["gains"] = np.concatenate([x.reshape(-1) for x in bound.gains.values()]) if bound.gains else None
    bound.need_no_contacts("a law alone")
    given = [name for name in bound.takes if name in ("t", "q", "v")]
    fixed = tuple(known[name] for name in bound.takes)
    function = TracedFunction(bound.traced, [k for k, name in enumerate(bound.takes) if name in given], ["u"])

    def inputs(t: Any, q: Any, v: Any) -> Any:
        values = {"t": t, "q": q, "v": v}
        return _traced_class().apply(function, fixed, *(values[name] for name in given))[0]

    return inputs


@cache
def _traced_class() -> Any:
    torch = _torch()
    from torch.autograd.function import once_differentiable  # pyright: ignore[reportMissingImports]

    class Function(torch.autograd.Function):
        """A traced function on tensors; arguments without derivatives are given as arrays."""

        @staticmethod
        def forward(ctx: Any, function: TracedFunction, fixed: tuple[Any, ...], *tensors: Any) -> Any:
            rest = iter([_array(t) for t in tensors])
            ctx.function, ctx.arguments = function, [next(rest) if x is None else x for x in fixed]
            return tuple(torch.from_numpy(np.asarray(x)) for x in function.values(ctx.arguments))

        @staticmethod
        @once_differentiable
        def backward(ctx: Any, *bars: Any) -> Any:
            found = ctx.function.vjp(ctx.arguments, [_array(b) for b in bars])
            return None, None, *(torch.from_numpy(found[k]) for k in ctx.function.by)

        @staticmethod
        def jvp(ctx: Any, _: None, __: None, *tangents: Any) -> Any:
            dots = [
                np.zeros_like(ctx.arguments[k]) if t is None else _array(t)
                for k, t in zip(ctx.function.by, tangents, strict=True)
            ]
            return tuple(torch.from_numpy(np.asarray(x)) for x in ctx.function.jvp(ctx.arguments, dots))

    return Function


def _array(tensor: Any) -> np.ndarray:
    """The numbers of a tensor, shared with it."""
    try:
        array = tensor.detach().numpy()
    except AttributeError:
        raise ShapeError(f"ht.torch takes tensors, got {type(tensor).__name__}.") from None
    except TypeError:
        raise ShapeError(f"ht.torch takes CPU tensors, got one on {tensor.device}: use tensor.cpu().") from None
    if array.dtype != np.float64:
        raise ShapeError(f"ht.torch takes tensors of float64, got {tensor.dtype}: convert them with tensor.double().")
    return array
