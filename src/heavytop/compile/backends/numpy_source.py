"""Program -> NumPy or JAX source: the reference back end, one line per shared value, batch axes leading."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from heavytop._format import safe_name, safe_names
from heavytop.compile.program import Op, Program
from heavytop.compile.signature import Shape, Signature
from heavytop.compile.trace import Traced
from heavytop.errors import ModelError

Library = Literal["numpy", "jax"]
_INFIX = {Op.ADD: "+", Op.SUB: "-", Op.MUL: "*", Op.DIV: "/", Op.LT: "<", Op.LE: "<=", Op.EQ: "==", Op.NE: "!="}
_NAMES = {op: f"arc{op[1:]}" for op in (Op.ASIN, Op.ACOS, Op.ATAN, Op.ATAN2, Op.ASINH, Op.ACOSH, Op.ATANH)} | {
    Op.POW: "power",
    Op.FMIN: "minimum",
    Op.FMAX: "maximum",
    Op.AND: "logical_and",
    Op.OR: "logical_or",
    Op.NOT: "logical_not",
    Op.SELECT: "where",
}
_LOGIC = (Op.AND, Op.OR, Op.NOT)
_RELATIONS = (Op.LT, Op.LE, Op.EQ, Op.NE)
_WIDTH = 70


def numpy_source(traced: Traced, name: str | None = None, library: Library = "numpy") -> str:
    """Source text of ``traced`` as a function of arrays (..., *shape).

    Values used once are written where they are used, as long as the line stays readable. With ``library="jax"`` the text imports
    ``jax.numpy`` and does not write into arrays, so that it works with ``jax.jit``, ``jax.grad``, ``jax.vmap`` and graphics processors.

    Examples
    --------
    >>> from heavytop.compile.trace import trace
    >>> print(numpy_source(trace(lambda x: np.sin(x[0]) * x[1] + 1, {"x": (2,)}, name="f")))
    import numpy as np
    <BLANKLINE>
    <BLANKLINE>
    def f(x):
        x = np.asarray(x, dtype=float)
        batch = np.broadcast_shapes(x.shape[:-1])
        out = np.empty(batch)
        out[...] = np.sin(x[..., 0]) * x[..., 1] + 1.0
        return (out,)
    """
    program, signature = Program.from_traced(traced), traced.signature
    label = safe_name(name or traced.name, "python")
    names = safe_names([*signature.inputs, *signature.outputs], "python")
    inputs, outputs = names[: len(signature.inputs)], names[len(signature.inputs) :]
    if library not in ("numpy", "jax"):
        raise ModelError(f"library must be 'numpy' or 'jax', got {library!r}.")
    in_place = library == "numpy"
    imports = ["import numpy as np" if in_place else "import jax.numpy as np"]
    if any(instruction.op is Op.ERF for instruction in program.code):
        imports.append(f"from {'scipy' if in_place else 'jax.scipy'}.special import erf")
    lines = [*imports, "", "", f"def {label}({', '.join(inputs)}):"]
    lines += [f"    {n} = np.asarray({n}, dtype=float)" for n in inputs]
    batches = [
        f"{n}.shape[:-{len(shape)}]" if shape else f"{n}.shape"
        for n, shape in zip(inputs, signature.inputs.values(), strict=True)
    ]
    lines.append(f"    batch = np.broadcast_shapes({', '.join(batches)})")
    if in_place:
        for n, shape in zip(outputs, signature.outputs.values(), strict=True):
            lines.append(f"    {n} = np.empty(batch{f' + {shape}' if shape else ''})")
    lines += _body(program, signature, inputs, outputs, in_place)
    lines.append(f"    return ({', '.join(outputs)}{',' if len(outputs) == 1 else ''})")
    return "\n".join(lines) + "\n"


def numpy_function(traced: Traced) -> Callable[..., tuple[np.ndarray, ...]]:
    """The function of :func:`numpy_source`, ready to call.

    >>> from heavytop.compile import trace
    >>> square = numpy_function(trace(lambda x: x * x, {"x": (3,)}, name="square"))
    >>> square(np.arange(3.0))
    (array([0., 1., 4.]),)
    """
    namespace: dict[str, Any] = {}
    exec(compile(numpy_source(traced, "function"), f"<{safe_name(traced.name, 'python')}>", "exec"), namespace)
    return namespace["function"]


def _body(
    program: Program, signature: Signature, inputs: list[str], outputs: list[str], in_place: bool = True
) -> list[str]:
    uses = program.uses + Counter(v for values in program.outputs for v in values)
    shapes = list(signature.inputs.values())
    lines: list[str] = []
    texts: list[str] = []  # each value as it is written where it is used
    atomic: list[bool] = []  # whether it needs no parentheses
    truth: list[bool] = []  # whether it is a truth value, which NumPy distinguishes from numbers
    for k, (op, args, value) in enumerate(program.code):
        if op is Op.CONST:
            text = repr(float(value)) if np.isfinite(value) else f"np.{'nan' if np.isnan(value) else 'inf'}"
            text = "-np.inf" if value == -np.inf else text
            texts.append(text)
            atomic.append(not text.startswith("-"))
            truth.append(False)
            continue
        if op is Op.INPUT:
            texts.append(inputs[args[0]] + _index(shapes[args[0]], args[1]))
            atomic.append(True)
            truth.append(False)
            continue
        operands = [_operand(op, i, texts[a], atomic[a], truth[a]) for i, a in enumerate(args)]
        text, single = _expression(op, [o[0] for o in operands], [o[1] for o in operands])
        if uses[k] != 1 or len(text) > _WIDTH:
            lines.append(f"    t{k} = {text}")
            text, single = f"t{k}", True
        texts.append(text)
        atomic.append(single)
        truth.append(op in _LOGIC or op in _RELATIONS)
    for label, shape, values in zip(outputs, signature.outputs.values(), program.outputs, strict=True):
        if in_place:
            lines += [f"    {label}{_index(shape, j) or '[...]'} = {texts[v]}" for j, v in enumerate(values)]
        elif values:
            lines.append(f"    {label} = np.stack([")
            lines += [f"        np.broadcast_to(np.asarray({texts[v]}, dtype=float), batch)," for v in values]
            lines.append(f"    ], axis=-1).reshape(batch + {shape})")
        else:
            lines.append(f"    {label} = np.zeros(batch + {shape})")
    return lines


def _operand(op: Op, place: int, text: str, atomic: bool, truth: bool) -> tuple[str, bool]:
    """An argument as the operation needs it: a truth value as a number or vice versa."""
    wants_truth = op in _LOGIC or (op is Op.SELECT and place == 0)
    closed = text if atomic else f"({text})"
    if truth and not wants_truth:
        return f"np.multiply({text}, 1.0)", True
    if wants_truth and not truth:
        return f"{closed} != 0.0", False
    return text, atomic


def _index(shape: Shape, flat: int) -> str:
    """``[..., i, j]`` of a flat index; empty for a scalar."""
    if not shape:
        return ""
    return f"[..., {', '.join(str(int(i)) for i in np.unravel_index(flat, shape))}]"


def _expression(op: Op, texts: list[str], atomic: list[bool]) -> tuple[str, bool]:
    """The text of an operation and whether it needs no parentheses."""
    closed = [t if single else f"({t})" for t, single in zip(texts, atomic, strict=True)]
    if op in (Op.ADD, Op.SUB):  # products bind tighter than sums
        first = texts[0] if _is_product(texts[0]) else closed[0]
        second = texts[1] if _is_product(texts[1]) else closed[1]
        return f"{first} {_INFIX[op]} {second}", False
    if op in _INFIX:
        return f"{closed[0]} {_INFIX[op]} {closed[1]}", False
    if op is Op.NEG:
        return f"-{closed[0]}", False
    if op is Op.SELECT:
        return f"np.where({', '.join(texts)})", True
    if op is Op.REMAINDER:  # to the nearest multiple, as in C
        return f"{closed[0]} - {closed[1]} * np.rint({closed[0]} / {closed[1]})", False
    if op is Op.ERF:
        return f"erf({texts[0]})", True
    return f"np.{_NAMES.get(op, str(op))}({', '.join(texts)})", True


def _is_product(text: str) -> bool:
    """Whether the outermost operators of an infix text are only * and /."""
    depth, operators = 0, []
    for before, character, after in zip(" " + text, text, text[1:] + " ", strict=False):
        depth += (character in "([") - (character in ")]")
        if depth == 0 and character in "+-*/<>=!" and before == " " and after in " =":
            operators.append(character)
    return bool(operators) and not text.startswith("-") and set(operators) <= set("*/")
