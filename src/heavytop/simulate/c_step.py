"""A time step as C99: the program of the native loop with its loops, so that rigid contact runs on other machines too."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from heavytop._files import typed_errors, write_set
from heavytop._format import safe_name
from heavytop.compile import MARK, TIME, Call, c_schedule, check_replaceable, literal
from heavytop.errors import ModelError
from heavytop.simulate.controller import bind, flat_gains
from heavytop.simulate.dynamics import as_dynamics
from heavytop.simulate.integrators import Integrator, as_integrator
from heavytop.simulate.plant import Control
from heavytop.simulate.run_builder import PARADOX_STEP, UNSOLVED_STEP
from heavytop.simulate.spec import simulate
from heavytop.simulate.step_assembly import Terminals, step_schedule


def export_step(
    folder: str | Path,
    model: Any,
    start: tuple[Any, Any],
    step: float,
    *,
    integrator: Any = "moreau",
    control: Any = None,
    parameters: Mapping[str, Any] | None = None,
    steps: int = 200,
    tolerance: float = 1e-9,
    name: str = "step",
) -> list[Path]:
    """Write a step of a model in C99: ``NAME.h``, ``NAME.c``, ``test_NAME.c``, which compares a run with that of :func:`simulate`, and a Makefile.

    ``NAME_start`` fills a state, ``NAME_step`` moves it on by ``step`` s and returns 0, or 1 where the state is not finite, 2 where the contact
    problem is not solved, 3 in Painleve's paradox. No memory is allocated and nothing is global: each state is a trajectory.

    Parameters
    ----------
    folder : created if it does not exist; files that were not written by an export are never replaced.
    start : (q, v) of the test. parameters : those of the test.
    step : s. integrator : name or object with a fixed step, except ``energy_momentum`` and ``variational``.
    control : a law without a reference, which becomes part of the step; None: ``NAME_step`` takes the inputs u.
    steps : steps of the test. tolerance : largest difference that it accepts, relative to one plus the largest number.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import heavytop as ht
    >>> system = ht.System(name="ball")
    >>> system.body("ball", joint=ht.Prismatic("z"), inertia=ht.Inertia(1.0))
    >>> system.ground(friction=0.0)
    >>> system.contact("ball", "ground", ht.Sphere(0.1), restitution=0.5)
    >>> with TemporaryDirectory() as folder:
    ...     files = ht.simulate.export_step(folder, system.derive(), ([1.0], [0.0]), 1e-3, name="ball")
    ...     print(sorted(file.name for file in files))
    ...
    ['Makefile', 'ball.c', 'ball.h', 'test_ball.c']
    """
    dynamics, method = as_dynamics(model), as_integrator(integrator)
    if method.chooses_step:
        raise ModelError(
            f"{method.name} chooses its steps, but an exported step is fixed: use another integrator, such as 'rkmk4' or 'moreau'."
        )
    if type(method).start is not Integrator.start:
        raise ModelError(
            f"{method.name} begins with quantities that depend on the start of the run, which C does not compute: use another integrator, such as "
            "'rkmk4' or 'moreau'."
        )
    law = None if control is None else bind(control, dynamics, model, None, step)
    if law is not None and (law.host is not None or law.signal_size):
        raise ModelError(f"{law.law!r} has a reference or is computed in Python, and cannot be part of a step in C.")
    schedule = step_schedule(
        dynamics, Control("table") if law is None else Control("sampled", law), method, balance=False
    )
    at = Terminals.of(schedule)
    kept = [item for item in schedule.advance if not (isinstance(item, Call) and item.outputs == (at.watch,))]
    run = simulate(model, start, steps * step, step, method, control=control, parameters=parameters, balance=False)
    if not run.outcome.ok:
        raise ModelError(f"the run of the test does not finish, {run.outcome}. Choose another start, or fewer steps.")
    label = safe_name(safe_name(name, "c"), "file")
    made = c_schedule(replace(schedule, advance=kept), label)
    first: dict[str, np.ndarray] = {}
    if law is not None and at.memory is not None:
        first[at.memory] = law.initial_state()
    if law is not None and at.gains is not None:
        first[at.gains] = flat_gains(law.gains, None, "the law")
    p = dynamics.parameter_vector(parameters)
    texts = _texts(label, made.text, made.members, at, dynamics, law is not None, first, step)
    texts |= {
        f"test_{label}.c": _test(label, run.q, run.v, p, dynamics.nu, tolerance, law is None and dynamics.nu > 0),
        "Makefile": _makefile(label),
    }
    with typed_errors(folder):
        check_replaceable(Path(folder), list(texts))
    return write_set(folder, texts, last=f"{label}.h")


def _texts(
    label: str,
    text: str,
    members: Mapping[str, str],
    at: Terminals,
    dynamics: Any,
    has_law: bool,
    first: Mapping[str, np.ndarray],
    step: float,
) -> dict[str, str]:
    """Header and source."""
    found = re.search(rf"typedef struct {{.*?}} {label}_buffers;\n", text, re.DOTALL)
    assert found is not None
    sizes = {"q": dynamics.nq, "v": dynamics.nv, "p": len(dynamics.parameter_names)}
    given = "" if has_law or not dynamics.nu else ", const double *u"
    signatures = (
        f"void {label}_start({label}_state *s, const double *q, const double *v, const double *p)",
        f"int {label}_step({label}_state *s{given})",
    )
    header = [
        f"/* {MARK} */",
        f"#ifndef {label.upper()}_H",
        f"#define {label.upper()}_H",
        "",
        found[0],
        f"typedef struct {{ {label}_buffers b; long k; }} {label}_state;",
        "",
        f"/* q: {', '.join(dynamics.coordinates.q_names)} */",
        f"/* v: {', '.join(dynamics.v_names)} */",
        f"/* p: {', '.join(dynamics.parameter_names) or 'nothing'}; u: {', '.join(dynamics.u_names) or 'nothing'} */",
        *(f"#define {label.upper()}_{x.upper()}(s) ((s)->b.{members[getattr(at, x)]})" for x in ("q", "v", "u")),
        *(f"{signature};" for signature in signatures),
        "#endif",
        "",
    ]

    def place(buffer: str) -> str:
        return f"s->b.{members[buffer]}"

    lines = [
        f"/* {MARK} */",
        f'#include "{label}.h"',
        "#include <math.h>",
        "#include <string.h>",
        "",
        text.replace(found[0], ""),
    ]
    lines += [signatures[0], "{", "    memset(s, 0, sizeof *s);", "    (void)q; (void)v; (void)p;"]
    lines += [f"    memcpy({place(getattr(at, x))}, {x}, {n} * sizeof(double));" for x, n in sizes.items() if n]
    lines.append(f"    {place(at.h)}[0] = {literal(step)};")
    lines += [
        f"    {place(k)}[{i}] = {literal(x)};" for k, values in first.items() for i, x in enumerate(values.ravel())
    ]
    lines += ["}", "", signatures[1], "{", "    int i, bad = 0;"]
    lines += [f"    {place(TIME)}[0] = s->k * {literal(step)};", f"    {place('step')}[0] = (double)s->k;"]
    lines += [f"    memcpy({place(at.u)}, u, {dynamics.nu} * sizeof(double));"] if given else []
    lines += [f"    {label}_sample(&s->b, s->k);", f"    {label}_advance(&s->b, s->k);", "    s->k++;"]
    for x, n in (("q", dynamics.nq), ("v", dynamics.nv)):
        lines.append(f"    for (i = 0; i < {n}; i++) bad |= !isfinite({place(getattr(at, x))}[i]);")
    lines.append("    if (bad) return 1;")
    for code, key in ((2, UNSOLVED_STEP), (3, PARADOX_STEP)):
        lines += [f"    if ({place(at.own[key])}[0] != 0.0) return {code};"] if key in at.own else []
    return {f"{label}.h": "\n".join(header), f"{label}.c": "\n".join([*lines, "    return 0;", "}", ""])}


def _test(label: str, q: np.ndarray, v: np.ndarray, p: np.ndarray, nu: int, tolerance: float, takes_u: bool) -> str:
    """A program that compares all states of a run."""

    def table(name: str, values: np.ndarray) -> str:
        rows = ["{" + ", ".join(literal(float(x)) for x in row) + "}" for row in values]
        return f"static const double {name}[{len(values)}][{values.shape[1]}] = {{\n" + ",\n".join(rows) + "};"

    macro = label.upper()
    size = float(1.0 + max(np.max(np.abs(q)), np.max(np.abs(v))))
    lines = [
        f"/* {MARK} */",
        f'#include "{label}.h"',
        "#include <math.h>",
        "#include <stdio.h>",
        "",
        table("q", q),
        table("v", v),
    ]
    lines += [
        f"static const double p[{max(len(p), 1)}] = {{{', '.join(map(literal, p)) or '0.0'}}};",
        f"static {label}_state s;",
        "int main(void)",
        "{",
        f"    const double u[{max(nu, 1)}] = {{0.0}};",
        "    double worst = 0.0;",
        "    int k, i;",
        "    (void)u;",
        f"    {label}_start(&s, q[0], v[0], p);",
        f"    for (k = 1; k < {len(q)}; k++) {{",
        f"        int code = {label}_step(&s{', u' if takes_u else ''});",
        '        if (code) { printf("step %d returns %d\\n", k, code); return 1; }',
        f"        for (i = 0; i < {q.shape[1]}; i++) worst = fmax(worst, fabs({macro}_Q(&s)[i] - q[k][i]));",
        f"        for (i = 0; i < {v.shape[1]}; i++) worst = fmax(worst, fabs({macro}_V(&s)[i] - v[k][i]));",
        "    }",
        f'    printf("{label}: largest difference %g (allowed {tolerance:.2g})\\n", worst / {literal(size)});',
        f"    return !(worst <= {literal(tolerance * size)});",
        "}",
        "",
    ]
    return "\n".join(lines)


def _makefile(label: str) -> str:
    return f"""# {MARK}
CC ?= gcc
CFLAGS ?= -std=c99 -Wall -Wextra -pedantic -O2

test: test_{label}
\t./test_{label}

test_{label}: test_{label}.c {label}.c {label}.h
\t$(CC) $(CFLAGS) -o $@ test_{label}.c {label}.c -lm

clean:
\trm -f test_{label}

.PHONY: test clean
"""
