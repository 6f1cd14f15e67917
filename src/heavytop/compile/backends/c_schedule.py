"""A schedule as C99: its functions, a structure with its buffers, and the phases of a step as calls on them.

The same calls in the same order as the native loop (:mod:`heavytop.compile.backends.step_loop`), for one trajectory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from heavytop.compile.backends.c99 import c_function
from heavytop.compile.program import Program
from heavytop.compile.schedule import Call, Item, Schedule, in_order


@dataclass(frozen=True)
class ScheduleText:
    """C text of a schedule, buffer -> member of its structure, and function of the schedule -> function in C.

    ``text`` defines the type ``NAME_buffers`` and the functions ``NAME_sample(b, k)`` and ``NAME_advance(b, k)`` for step ``k``.
    """

    text: str
    members: Mapping[str, str]
    functions: Mapping[str, str]


def c_schedule(schedule: Schedule, name: str = "step") -> ScheduleText:
    """The C text of the phases ``sample`` and ``advance``.

    Examples
    --------
    >>> from heavytop.compile import trace
    >>> fall = trace(lambda z, v, h: (z + h * v, v - 9.81 * h), {"z": (), "v": (), "h": ()}, name="fall")
    >>> step = Call("fall", ("z", "v", "h"), ("z", "v"))
    >>> made = c_schedule(Schedule({"fall": fall}, {"z": (), "v": (), "h": ()}, ("z", "v"), [step], constants=("h",)))
    >>> sorted(made.members)
    ['h', 'step', 'time', 'v', 'z']
    """
    calls = in_order((*schedule.sample, *schedule.advance))
    functions = {label: f"{name}_f{k}" for k, label in enumerate(dict.fromkeys(call.function for call in calls))}
    layout = schedule.layout
    members = {buffer: f"b{k}" for k, buffer in enumerate(layout.shapes)}
    copied = max((sum(layout.size(n) for n in call.outputs if n in call.inputs) for call in calls), default=0)
    lines = []
    for label, made in functions.items():
        traced = schedule.functions[label]
        lines.append("static " + c_function(Program.from_traced(traced), traced.signature, made))
    lines.append("typedef struct {")
    lines += [f"    double {members[n]}[{max(layout.size(n), 1)}]; /* {_plain(n)} */" for n in layout.shapes]
    lines += [f"    double copied[{max(copied, 1)}];", f"}} {name}_buffers;", ""]
    for phase, items in (("sample", schedule.sample), ("advance", schedule.advance)):
        body = _body(items, functions, members, schedule, 1)
        lines += [
            f"static void {name}_{phase}({name}_buffers *b, long k)",
            "{",
            "    (void)b; (void)k;",
            *body,
            "}",
            "",
        ]
    return ScheduleText("\n".join(lines), members, functions)


def _plain(text: str) -> str:
    return "".join(c if c.isalnum() or c in " ._" else "_" for c in text)


def _body(
    items: Sequence[Item], functions: Mapping[str, str], members: Mapping[str, str], schedule: Schedule, depth: int
) -> list[str]:
    pad, lines = "    " * depth, []
    for item in items:
        if isinstance(item, Call):
            conditions = [f"k % {item.every} == 0"] if item.every > 1 else []
            if item.when is not None:
                conditions.append(f"b->{members[item.inputs[item.when]]}[0] != 0.0")
            calls = _call(item, functions, members, schedule)
            if conditions:
                lines += [
                    f"{pad}if ({' && '.join(conditions)}) {{",
                    *(f"{pad}    {line}" for line in calls),
                    f"{pad}}}",
                ]
            else:
                lines += [f"{pad}{line}" for line in calls]
            continue
        going = "" if item.done is None else f" && b->{members[item.done]}[0] == 0.0"
        lines.append(f"{pad}for (int i{depth} = 0; i{depth} < {item.times}{going}; i{depth}++) {{")
        lines += _body(item.body, functions, members, schedule, depth + 1)
        lines.append(f"{pad}}}")
    return lines


def _call(call: Call, functions: Mapping[str, str], members: Mapping[str, str], schedule: Schedule) -> list[str]:
    """The call; outputs that are inputs too are written to a copy first, since the arrays of a function must not overlap."""
    outputs, after, at = [], [], 0
    for name in call.outputs:
        if name not in call.inputs:
            outputs.append(f"b->{members[name]}")
            continue
        size = schedule.layout.size(name)
        outputs.append(f"b->copied + {at}")
        after.append(f"memcpy(b->{members[name]}, b->copied + {at}, {size} * sizeof(double));")
        at += size
    arguments = ", ".join([*(f"b->{members[n]}" for n in call.inputs), *outputs])
    return [f"{functions[call.function]}({arguments});", *after]
