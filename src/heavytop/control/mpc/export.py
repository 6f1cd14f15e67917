"""Export of predictive control as C99: the prediction as straight-line code, in the program of the folder ``c99``.

Condensing, the quadratic program and the restarts are loops of bounded length over arrays of constant size, in two structures of the caller.
The quadratic program is solved by block pivoting, which might cycle; after a few rounds the primal active-set method continues, whose cost
decreases in every round.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from heavytop._files import typed_errors, write_set
from heavytop._format import safe_name
from heavytop.compile import literal
from heavytop.control.mpc import controller
from heavytop.errors import ControlError

if TYPE_CHECKING:
    from heavytop.control.mpc.controller import Predictive

SAMPLES = 24
"""Samples of the exported test."""
START = 1.5
"""Distance of its start from the reference, m or rad."""
TOLERANCE = 1e-6
"""Tolerance of its inputs, relative to one plus the largest."""
BLOCK_ROUNDS = 8
"""Rounds of block pivoting."""
ROUNDS_EACH = 5
"""Largest number of single exchanges of active bounds per variable."""


def export_predictive(ahead: Predictive, folder: str | Path, name: str = "predictive") -> list[Path]:
    """Write the controller: ``NAME.c`` (prediction), ``NAME_mpc.c`` (the controller), headers, tests of both, README, Makefile.

    Raises
    ------
    ControlError
        It has soft bounds of states, which the exported quadratic program does not support.
    """
    from heavytop.compile import MARK, c_texts, check_replaceable

    if ahead._ahead.bounds is not None:
        raise ControlError(
            f"{ahead!r} has soft bounds of states ({', '.join(dict.fromkeys(ahead._ahead.bounds.labels))}), which the exported quadratic program "
            "does not support. Export a controller without speeds, states and within."
        )
    label = safe_name(safe_name(name, "c"), "file")
    with typed_errors(folder):
        check_replaceable(Path(folder), [f"{label}_mpc.h", f"{label}_mpc.c", f"test_{label}_mpc.c"])
    p = ahead._ahead
    functions = {
        f"{label}_{key}": p.trace(key)
        for key in ("prediction", "straight", "move", *(["recovery"] if p.recovery else []))
    }
    rows = _samples(ahead)
    vectors = dict(zip(functions, _vectors(ahead, rows), strict=True))
    _, texts = c_texts(folder, functions, name=label, vectors=vectors)
    program = {f"{label}_mpc.h": "mpc.h", f"{label}_mpc.c": "mpc.c", f"test_{label}_mpc.c": "test_mpc.c"}
    texts |= {file: (Path(__file__).parent / "c99" / name).read_text("utf-8") for file, name in program.items()}
    texts[f"{label}_mpc.c"] = texts[f"{label}_mpc.c"].replace("@TABLES@", _tables(ahead))
    texts[f"test_{label}_mpc.c"] = texts[f"test_{label}_mpc.c"].replace("@TABLES@", _test_tables(ahead, rows))
    m, straight = ahead.model, functions[f"{label}_straight"]
    speeds = straight.outputs["w"][0]
    values = {
        "MARK": MARK, "LABEL": label, "L": label, "GUARD": label.upper(), "N": ahead.horizon, "NQ": m.nq, "NV": m.nv, "NU": m.nu,
        "NX": ahead.rates.nx, "NE": ahead.rates.ne, "MORE": controller.MORE, "PATIENCE": controller.PATIENCE, "SETTLING": controller.SETTLING,
        "LOST": controller.LOST,
        "BLOCK_ROUNDS": BLOCK_ROUNDS, "ROUNDS": ROUNDS_EACH * ahead.horizon * m.nu,
        "SPEEDS": speeds, "SPEED": "moved[i]" if speeds == m.nv else "v_R[k * NV + i]",
        "PREDICTION": f"{label}_prediction", "STRAIGHT": f"{label}_straight", "MOVE": f"{label}_move", "RECOVERY": f"{label}_recovery",
        "ITERATIONS": ahead.iterations,
        "COUNT": len(rows), "EACH": "0" if ahead._constant else "k", "TOLERANCE": TOLERANCE,
    }  # fmt: skip
    for file in program:
        for key, value in values.items():
            texts[file] = texts[file].replace(f"@{key}@", str(value))
    texts["Makefile"] = _makefile(texts["Makefile"], label)
    texts["README.md"] += _readme(ahead, label)
    return write_set(folder, texts, last=f"{label}.h")


def _samples(ahead: Predictive) -> list[tuple[np.ndarray, ...]]:
    """(q, v, q_R, v_R, u_R, u) of the samples of a motion from a random start, by the controller's own prediction."""
    from copy import deepcopy

    own, model, rng = deepcopy(ahead), ahead.model, np.random.default_rng(0)
    own.reset()
    begin = ahead.reference.start_time
    q_R, v_R, _ = own._wanted(begin)
    turn = rng.standard_normal(model.coordinates.nv)
    q = own._ahead.moved(q_R[0], START * turn / np.linalg.norm(turn))
    v, rows = v_R[0].copy(), []
    for k in range(SAMPLES):
        t = begin + k * own.step
        q_R, v_R, u_R = (x.copy() for x in own._wanted(t))
        u = own(t, q, v)
        rows.append((q, v, q_R, v_R, u_R, u))
        # the next state is the end of the move: a guess moved by its defect
        nodes = np.stack([q, q]), np.stack([v, v])
        for _ in range(3):
            linear = own._ahead.linear(*nodes, u[None], q_R[:1], v_R[:1])
            ne = own.rates.ne
            nodes[0][1] = own._ahead.moved(nodes[0][1], linear.defect[0, :ne])
            nodes[1][1] += linear.defect[0, ne:]
        q, v = nodes[0][1].copy(), nodes[1][1].copy()
    return rows


def _vectors(ahead: Predictive, rows: Sequence[tuple[np.ndarray, ...]]) -> tuple[list[np.ndarray], ...]:
    """Test vectors of prediction, straight path, move and law of recovery."""
    q, v, u = (np.array([row[k] for row in rows[:-1]]) for k in (0, 1, 5))
    q_1, v_1 = (np.array([row[k] for row in rows[1:]]) for k in (0, 1))
    q_R, v_R = (np.array([row[k][0] for row in rows[:-1]]) for k in (2, 3))
    count, rng = len(q), np.random.default_rng(1)
    h = np.full(count, ahead.step)
    p = np.broadcast_to(ahead._ahead._p, (count, len(ahead._ahead._p)))
    left = np.linspace(0.0, 0.9, count)
    e = 0.5 * rng.standard_normal((count, ahead.rates.ne))
    vectors = [q, v, u, q_1, v_1, q_R, v_R, h, p], [q, q_R, left, left + 0.1, h], [q, e]
    return vectors if ahead._ahead.recovery is None else (*vectors, [q, v, q_R, v_R, 0 * v_R, h, p])


def _row(name: str, values: np.ndarray, kind: str = "double") -> str:
    flat = np.asarray(values).reshape(-1)
    texts = [str(int(x)) for x in flat] if kind == "int" else [literal(float(np.clip(x, -1e300, 1e300))) for x in flat]
    return f"static const {kind} {name}[{max(len(flat), 1)}] = {{{', '.join(texts) or '0'}}};"


def _tables(ahead: Predictive) -> str:
    program, nx = ahead._program, ahead.rates.nx
    angles, turns = np.zeros(nx), np.zeros(nx)
    angles[ahead._angles], turns[ahead._turns] = 1, 1
    names = ("TRUST_LOW", "TRUST_HIGH", "LARGE_GAP", "FAR_TURN", "HOPELESS_GAP", "CLOSED", "BACK")
    numbers = (*controller.TRUST, *(getattr(controller, name) for name in names[2:]))
    lines = [f"#define {name} {float(number)!r}" for name, number in zip(names, numbers, strict=True)]
    lines += [
        f"#define HAS_RECOVERY {int(ahead._ahead.recovery is not None)}",
        f"static const double step = {literal(ahead.step)};",
        _row("parameters", ahead._ahead._p),
        _row("lowest", ahead._limits[0]),
        _row("highest", ahead._limits[1]),
        _row("root", np.diag(program._root[0])),
        _row("last_root", program._root[-1]),
        _row("effort", program._effort[: ahead.model.nu]),
        _row("is_angle", angles, "int"),
        _row("is_turn", turns, "int"),
    ]
    return "\n".join(lines)


def _test_tables(ahead: Predictive, rows: Sequence[tuple[np.ndarray, ...]]) -> str:
    states = np.array([np.concatenate([row[0], row[1]]) for row in rows])
    wanted = np.array([np.concatenate([row[k].reshape(-1) for k in (2, 3, 4)]) for row in rows])
    tables = (
        ("states", states),
        ("references", wanted[:1] if ahead._constant else wanted),
        ("answers", np.array([r[5] for r in rows])),
    )
    lines = []
    for name, values in tables:
        lines.append(f"static const double {name}[{len(values)}][{values.shape[1]}] = {{")
        lines += [f"    {{{', '.join(literal(x) for x in row)}}}," for row in values]
        lines.append("};")
    return "\n".join(lines)


def _makefile(text: str, label: str) -> str:
    text = text.replace(
        f"test: test_{label}\n\t./test_{label}\n",
        f"test: test_{label} test_{label}_mpc\n\t./test_{label}\n\t./test_{label}_mpc\n",
    )
    rule = (
        f"test_{label}_mpc: test_{label}_mpc.c {label}_mpc.c {label}_mpc.h {label}.c {label}.h\n"
        f"\t$(CC) $(CFLAGS) -o $@ test_{label}_mpc.c {label}_mpc.c {label}.c -lm\n\n"
    )
    text = text.replace("# code and stack size", rule + "# code and stack size")
    return text.replace(f"rm -f test_{label} ", f"rm -f test_{label} test_{label}_mpc ")


def _readme(ahead: Predictive, label: str) -> str:
    size, n, nx = ahead.horizon * ahead.model.nu, ahead.horizon, ahead.rates.nx
    room = 8 * (n * nx * (2 * nx + ahead.model.nu + 4) + nx * size * (n + 1) + 2 * size**2 + 4 * size)
    return f"""
## The controller

`{label}_sample` in `{label}_mpc.h` is one sample of the predictive controller with {n} moves of {ahead.step:g} s: it linearises the
predicted motion, solves a quadratic program in {size} inputs and returns the first of them. No allocation, no global data:
`{label}_memory` is its state, `{label}_room` (about {room / 1000:.0f} kB) its workspace. A sample takes one to eight factorisations of
{size} x {size} typically, a hundred if many active limits change, at most {BLOCK_ROUNDS + ROUNDS_EACH * size}. Without a solution the
previously planned inputs are used. The caller supplies the reference and the inputs it requires.

`make test` also runs {SAMPLES} samples of a motion from a random start and compares the inputs with those of the Python controller.
"""
