"""Program -> LLVM IR: one straight-line function over W lanes.

The function of a program ``f`` has the signature ``void f(inputs..., outputs..., scratch)``; every argument points
to aligned vectors ``[variable][lane]``. A large program becomes a sequence of functions of about a thousand
instructions that pass the values still needed through the scratch area: compile time stays proportional to the
number of instructions. Where a long program repeats itself (:mod:`heavytop.compile.passes.ordering`) its parts share their text and differ
only in tables of places and constants.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from heavytop.compile.backends.elementary import elementary_functions
from heavytop.compile.backends.lanes import Lanes, Writer, any_lane
from heavytop.compile.backends.vector_math import (
    BRANCH_WEIGHTS,
    LIBM,
    each_lane,
    libm_name,
    reduce_angle,
    sincos,
    sincos_plain,
    some_large,
)
from heavytop.compile.passes.lazy_branches import LazySide, lazy_sides
from heavytop.compile.passes.matmul_tiling import in_blocks
from heavytop.compile.passes.ordering import repeating_bounds, waiting, with_few_waiting
from heavytop.compile.program import LEAVES, Op, Program

_ARITHMETIC = {Op.ADD: "fadd", Op.SUB: "fsub", Op.MUL: "fmul", Op.DIV: "fdiv"}
_COMPARE = {Op.LT: "olt", Op.LE: "ole", Op.EQ: "oeq", Op.NE: "une"}
_INTRINSIC = {Op.SQRT: "sqrt", Op.FABS: "fabs", Op.FLOOR: "floor", Op.CEIL: "ceil", Op.COPYSIGN: "copysign"}


@dataclass(frozen=True)
class Emitted:
    """IR text of a function.

    Attributes
    ----------
    scratch : number of scratch vectors it needs.
    chunks : number of parts ``@name_part0``, ``@name_part1``, ... that make up the function.
    guarded : whether the parts must not be called if ``i1 @name_large(inputs...)`` is true.
    rolled : whether parts share their text; then ``@name_parts`` holds for each part its function and two tables, its last arguments.
    """

    name: str
    text: str
    scratch: int
    chunks: int
    guarded: bool = False
    rolled: bool = False

    def call_parts(self, w: Writer, each: Callable[[Callable[[str], None]], None]) -> None:
        """Call all parts in order; ``each`` gets a function that calls one part with arguments ``ptr a, ptr b, ...``."""
        if not self.rolled:
            for k in range(self.chunks):
                each(lambda places, k=k: w.do(f"call void @{self.name}_part{k}({places})"))
            return

        def part(k: str) -> None:
            entry = [w.let(f"getelementptr [3 x ptr], ptr @{self.name}_parts, i64 {k}, i64 {i}") for i in range(3)]
            function, *tables = (w.let(f"load ptr, ptr {place}") for place in entry)
            each(lambda places: w.do(f"call void {function}({places}, ptr {tables[0]}, ptr {tables[1]})"))

        w.loop("0", 1, lambda k: w.test("sge", k, self.chunks), part)


def emit(program: Program, name: str, lanes: Lanes, chunk: int, *, fma: bool, exported: bool = True) -> Emitted:
    """The IR of ``name`` for a program.

    ``chunk`` is the number of instructions per function; only an ``exported`` function can be called from outside the module. With
    ``fma`` products are fused with sums (:func:`fused_products`).
    """
    parts, texts, scratch, rolled = _in_parts(program, lanes, chunk, fma)
    program, turned = parts[0].program, sorted(parts[0].moderate)
    inputs = [f"%in{i}" for i in range(len(program.input_sizes))]
    outputs = [f"%out{i}" for i in range(len(program.outputs))]
    head = ", ".join([f"ptr noalias {'readonly ' if p in inputs else ''}{p}" for p in [*inputs, *outputs, "%scratch"]])
    # spilled vectors must not straddle cache lines: without the attribute the stack is aligned to 16 bytes only
    attributes = f"nounwind noinline alignstack({max(lanes.alignment, 16)})"
    linkage = "" if exported else "internal "
    made = Emitted(name, "", scratch, len(parts), bool(turned), rolled)
    if rolled:
        text = _rolled(name, texts, parts, f"({head}, {_TABLES}) {attributes}")
    else:
        text = "".join(
            f"define internal void @{name}_part{k}({head}) {attributes} {{\n{body}\n}}\n"
            for k, body in enumerate(texts)
        )
    if len(parts) == 1 and not turned:
        text = text.replace(f"internal void @{name}_part0", f"{linkage}void @{name}", 1)
    else:
        w = Writer()
        if turned:
            inputs = _with_moderate_angles(w, program, lanes, turned, scratch)
            scratch += sum(program.input_sizes[i] for i in {program.code[a].args[0] for a in turned})
        call = ", ".join(f"ptr {p}" for p in [*inputs, *outputs, "%scratch"])
        made.call_parts(w, lambda part: part(call))
        w.do("ret void")
        text += f"define {linkage}void @{name}({head}) nounwind noinline {{\n{w.text()}\n}}\n"
    if turned and len(parts) > 1:
        text += _large_angles(program, name, lanes, turned)
    return replace(made, text=text, scratch=scratch)


def _in_parts(program: Program, lanes: Lanes, chunk: int, fma: bool) -> tuple[list[_Body], list[str], int, bool]:
    """The parts of a program with their texts, the number of scratch vectors, and whether the parts share their texts."""

    def cut(program: Program, repeats: Sequence[int] | None) -> tuple[list[_Body], list[str], int]:
        fused = fused_products(program) if fma else {}
        last, turned = _last_readers(program, fused), _pure_angles(program)
        bounds = repeats or _bounds(program, chunk, last)
        slots, scratch = _scratch_slots(program, bounds, last, fused.values())
        parts = [_Body(program, lanes, slots, turned, fused, tabled=repeats is not None) for _ in bounds[1:]]
        texts = [part.emit(start, stop) for part, (start, stop) in zip(parts, pairwise(bounds), strict=True)]
        return parts, texts, scratch

    in_order = in_blocks(program)
    repeats = repeating_bounds(in_order, chunk)
    if repeats is not None:
        parts, texts, scratch = cut(in_order, repeats)
        if len(set(texts)) <= len(texts) / 2:  # otherwise tables only cost time
            return parts, texts, scratch, True
    if len(program.code) > chunk:
        in_order = in_blocks(with_few_waiting(program))
    return *cut(in_order, None), False


def fused_products(program: Program) -> dict[int, int]:
    """Sum or difference -> the product that it absorbs in a fused multiply-add.

    A product is absorbed if nothing else reads it and it is not an output; of two products the first is taken. The choice is not left to LLVM,
    which chooses differently for scalars and for vectors, and does not depend on the order of instructions or on cuts: the bits are the same for
    every number of lanes.
    """
    uses, homes, code = program.uses, program.homes, program.code
    found: dict[int, int] = {}
    for k, (op, args, _) in enumerate(code):
        if op is Op.ADD or op is Op.SUB:
            for m in args:
                if code[m].op is Op.MUL and uses[m] == 1 and m not in homes:
                    found[k] = m
                    break
    return found


def _last_readers(program: Program, fused: Mapping[int, int]) -> list[int]:
    """:attr:`.Program.last_use`, where a sum that absorbs a product reads its factors."""
    last = list(program.last_use)
    for k, product in fused.items():
        for a in program.code[product].args:
            last[a] = max(last[a], k)
    return last


_TABLES = "ptr noalias readonly %places, ptr noalias readonly %numbers"


def _rolled(name: str, texts: Sequence[str], parts: Sequence[_Body], head: str) -> str:
    """IR of each different text of the parts, of the tables of each part, and of the list of all parts."""
    number: dict[str, int] = {}
    lines, entries = [], []
    for k, (text, part) in enumerate(zip(texts, parts, strict=True)):
        if text not in number:
            number[text] = len(number)
            lines.append(f"define internal void @{name}_text{number[text]}{head} {{\n{text}\n}}\n")
        lines.append(
            _table(f"{name}_places{k}", "i32", part.places) + _table(f"{name}_numbers{k}", "double", part.numbers)
        )
        entries.append(f"[ptr @{name}_text{number[text]}, ptr @{name}_places{k}, ptr @{name}_numbers{k}]")
    return "".join(lines) + _table(f"{name}_parts", "[3 x ptr]", entries)


def _table(name: str, kind: str, entries: Sequence[str]) -> str:
    """A constant array of the module."""
    return f"@{name} = internal constant [{len(entries)} x {kind}] [{', '.join(f'{kind} {x}' for x in entries)}]\n"


def _bounds(program: Program, chunk: int, last: Sequence[int]) -> list[int]:
    """Cuts of a program into equal parts of at most about ``chunk`` instructions, with few values alive at each cut."""
    total = len(program.code)
    parts = max(-(-total // chunk), 1)
    alive = waiting(program, last)
    window = total // parts // 6
    cuts = [total * j // parts for j in range(1, parts)]
    return [0, *(min(range(c - window, c + window + 1), key=lambda i: (alive[i], i)) for c in cuts), total]


def _large_angles(program: Program, name: str, lanes: Lanes, turned: Sequence[int]) -> str:
    """IR of ``i1 @name_large(inputs...)``: whether an angle is too large for :func:`.sincos`."""
    w = Writer()
    angles = []
    for a in turned:
        i, j = program.code[a].args
        place = w.let(f"getelementptr {lanes.real}, ptr %in{i}, i64 {j}")
        angles.append(w.let(f"load {lanes.real}, ptr {place}, align {lanes.alignment}"))
    w.do(f"ret i1 {some_large(w, lanes, angles)}")
    head = ", ".join(f"ptr noalias readonly %in{i}" for i in range(len(program.input_sizes)))
    return f"define internal i1 @{name}_large({head}) nounwind noinline {{\n{w.text()}\n}}\n"


def _pure_angles(program: Program) -> list[int]:
    """Inputs that are used only for sines and cosines."""
    turned = {i.args[0] for i in program.code if i.op in (Op.SIN, Op.COS) and program.code[i.args[0]].op is Op.INPUT}
    for op, args, _ in program.code:
        if op not in (Op.SIN, Op.COS, Op.INPUT):
            turned.difference_update(args)
    return sorted(turned.difference(program.homes))


def _with_moderate_angles(w: Writer, program: Program, lanes: Lanes, turned: Sequence[int], scratch: int) -> list[str]:
    """The inputs, or copies of them after the scratch area if an angle is too large for :func:`.sincos`.

    One check for all angles before the program starts keeps its code one block.
    """
    t, alignment = lanes.real, lanes.alignment

    def load(base: str, index: int) -> str:
        place = w.let(f"getelementptr {t}, ptr {base}, i64 {index}")
        return w.let(f"load {t}, ptr {place}, align {alignment}")

    angles = {program.code[a].args: load(f"%in{program.code[a].args[0]}", program.code[a].args[1]) for a in turned}
    here, rare, usual = w.fresh("here"), w.fresh("rare"), w.fresh("usual")
    some = some_large(w, lanes, list(angles.values()))
    w.label(here)
    w.do(f"br i1 {some}, label %{rare}, label %{usual}, !prof !0")
    w.start(rare)
    copies: dict[int, str] = {}
    for i in sorted({i for i, _ in angles}):
        copies[i] = w.let(f"getelementptr {t}, ptr %scratch, i64 {scratch}")
        scratch += program.input_sizes[i]
        for j in range(program.input_sizes[i]):
            value = load(f"%in{i}", j)
            value = w.let(f"call {t} @reduced({t} {value})") if (i, j) in angles else value
            place = w.let(f"getelementptr {t}, ptr {copies[i]}, i64 {j}")
            w.do(f"store {t} {value}, ptr {place}, align {alignment}")
    w.label(usual)
    return [
        w.let(f"phi ptr [ %in{i}, %{here} ], [ {copies[i]}, %{rare} ]") if i in copies else f"%in{i}"
        for i in range(len(program.input_sizes))
    ]


def _scratch_slots(
    program: Program, bounds: Sequence[int], last: Sequence[int], absorbed: Collection[int]
) -> tuple[dict[int, int], int]:
    """Scratch places of the values that outlive their chunk; a place is reused when its value is dead; ``absorbed`` products need none."""
    slots: dict[int, int] = {}
    free: list[int] = []
    size = 0
    expiring: dict[int, list[int]] = {}
    nowhere = set(absorbed)
    for start, stop in pairwise(bounds):
        for k in range(start, stop):
            # inputs and constants are loaded again; an output is stored where it is computed, so only later readers count
            if last[k] < stop or program.code[k].op in LEAVES or k in nowhere:
                continue
            if free:
                slots[k] = free.pop()
            else:
                slots[k], size = size, size + 1
            expiring.setdefault(last[k], []).append(slots[k])
        for k in range(start, stop):
            free.extend(expiring.pop(k, ()))
    return slots, size


class _Body:
    """Emits one chunk of a program.

    If it is ``tabled``, the addresses of loads and stores and the constants come from the tables ``places`` and ``numbers``, in the order of use.
    """

    def __init__(
        self,
        program: Program,
        lanes: Lanes,
        slots: dict[int, int],
        moderate: Sequence[int],
        fused: Mapping[int, int],
        *,
        tabled: bool = False,
    ) -> None:
        self.tabled = tabled
        self.places: list[str] = []
        self.numbers: list[str] = []
        self.program, self.lanes, self.slots, self.fused = program, lanes, slots, fused
        self.absorbed = frozenset(fused.values())
        self.moderate = frozenset(moderate)  # angles already brought into range
        self.w = Writer()
        self.names: dict[int, str] = {}
        self.sincos: dict[int, str] = {}

    def emit(self, start: int, stop: int) -> str:
        t, alignment, w = self.lanes.real, self.lanes.alignment, self.w
        homes = self.program.homes
        sides = lazy_sides(self.program, start, stop, homes.keys() | self.slots.keys())
        lazy = {k for side in sides for k in side.nodes}
        for k in range(start, stop):
            for side in sides:
                if side.at == k:
                    self._when_needed(side)
            if k in lazy or k in self.absorbed:
                continue
            if self.program.code[k].op not in LEAVES:
                self._operation(k)
                if k in self.slots:
                    place = self._address("%scratch", self.slots[k])
                    w.do(f"store {t} {self.names[k]}, ptr {place}, align {alignment}")
            for i, j in homes.get(k, ()):
                w.do(f"store {t} {self._value(k)}, ptr {self._address(f'%out{i}', j)}, align {alignment}")
        w.do("ret void")
        return w.text()

    def _when_needed(self, side: LazySide) -> None:
        """Compute the values of a side if it is chosen in any lane."""
        w, t, code = self.w, self.lanes.real, self.program.code
        for k in side.nodes:  # values from outside are loaded before the block: the code after it can use them too
            product = self.fused.get(k)
            for a in (*code[k].args, *(() if product is None else code[product].args)):
                if a not in side.nodes and a != product:
                    self._value(a)
        relation = "une" if side.when else "oeq"
        chosen = w.let(f"fcmp {relation} {t} {self._value(side.condition)}, {self.lanes.constant(0.0)}")
        needed = any_lane(w, self.lanes, chosen)
        here, block, done, after = (w.fresh(name) for name in ("here", "needed", "done", "after"))
        pairs = dict(self.sincos)
        w.label(here)
        w.do(f"br i1 {needed}, label %{block}, label %{after}")
        w.start(block)
        for k in side.nodes:
            if k not in self.absorbed:
                self._operation(k)
        w.label(done)
        w.label(after)
        self.sincos = pairs
        made = {k: self.names.pop(k) for k in side.nodes if k not in self.absorbed}
        for k in side.results:
            self.names[k] = w.let(f"phi {t} [ poison, %{here} ], [ {made[k]}, %{done} ]")

    def _address(self, base: str, index: int) -> str:
        place: str | int = index
        if self.tabled:
            place = self.w.let(f"zext i32 {self._entry('i32', '%places', self.places, str(index))} to i64")
        return self.w.let(f"getelementptr {self.lanes.real}, ptr {base}, i64 {place}")

    def _entry(self, kind: str, table: str, entries: list[str], value: str) -> str:
        """Add a value to a table and load it from there."""
        at = self.w.let(f"getelementptr {kind}, ptr {table}, i64 {len(entries)}")
        entries.append(value)
        return self.w.let(f"load {kind}, ptr {at}")

    def _constant(self, value: float) -> str:
        if not self.tabled:
            return self.lanes.constant(value)
        number = self._entry("double", "%numbers", self.numbers, Lanes(1).constant(value))
        if self.lanes.count == 1:
            return number
        t = self.lanes.real
        one = self.w.let(f"insertelement {t} poison, double {number}, i64 0")
        return self.w.let(f"shufflevector {t} {one}, {t} poison, <{self.lanes.count} x i32> zeroinitializer")

    def _value(self, k: int) -> str:
        """The IR name of value ``k``, loading it where this chunk did not compute it."""
        if k not in self.names:
            op, args, value = self.program.code[k]
            if op is Op.CONST:
                self.names[k] = self._constant(value)
                return self.names[k]
            base, index = (f"%in{args[0]}", args[1]) if op is Op.INPUT else ("%scratch", self.slots[k])
            place = self._address(base, index)
            self.names[k] = self.w.let(f"load {self.lanes.real}, ptr {place}, align {self.lanes.alignment}")
        return self.names[k]

    def _sine_and_cosine(self, angle: int) -> str:
        """The pair for an angle, computed once."""
        if angle not in self.sincos:
            t = self.lanes.real
            x = self._value(angle)
            if angle not in self.moderate:
                x = reduce_angle(self.w, self.lanes, x)
            self.sincos[angle] = self.w.let(f"call {{{t}, {t}}} @sincos({t} {x})")
        return self.sincos[angle]

    def _fused(self, k: int) -> str:
        """x y + z, x y - z or z - x y with one rounding."""
        t, let = self.lanes.real, self.w.let
        op, args, _ = self.program.code[k]
        product = self.fused[k]
        x, y = (self._value(j) for j in self.program.code[product].args)
        first = args[0] == product
        z = self._value(args[1] if first else args[0])
        if op is Op.SUB and first:
            z = let(f"fneg {t} {z}")
        elif op is Op.SUB:
            x = let(f"fneg {t} {x}")
        return let(f"call {t} @llvm.fma.{self.lanes.suffix}({t} {x}, {t} {y}, {t} {z})")

    def _operation(self, k: int) -> None:
        op, args, _ = self.program.code[k]
        lanes, let = self.lanes, self.w.let
        t, bits = lanes.real, lanes.bits
        if op in (Op.SIN, Op.COS):
            pair = self._sine_and_cosine(args[0])
            self.names[k] = let(f"extractvalue {{{t}, {t}}} {pair}, {0 if op is Op.SIN else 1}")
            return
        if k in self.fused:
            self.names[k] = self._fused(k)
            return
        a = [self._value(j) for j in args]
        if op in _ARITHMETIC:
            self.names[k] = let(f"{_ARITHMETIC[op]} {t} {a[0]}, {a[1]}")
            return
        zero = lanes.constant(0.0)

        def truth(value: str) -> str:
            return let(f"fcmp une {t} {value}, {zero}")

        def number(mask: str) -> str:
            return let(f"uitofp {bits} {mask} to {t}")

        if op is Op.NEG:
            name = let(f"fneg {t} {a[0]}")
        elif op in _INTRINSIC:
            name = let(f"call {t} @llvm.{_INTRINSIC[op]}.{lanes.suffix}({', '.join(f'{t} {x}' for x in a)})")
        elif op in (Op.FMIN, Op.FMAX):  # NaN in either gives NaN, as np.minimum does; a comparison with NaN is false
            first = let(f"fcmp {'olt' if op is Op.FMIN else 'ogt'} {t} {a[0]}, {a[1]}")
            chosen = let(f"select {bits} {first}, {t} {a[0]}, {t} {a[1]}")
            name = let(f"select {bits} {let(f'fcmp uno {t} {a[0]}, {zero}')}, {t} {a[0]}, {t} {chosen}")
        elif op in LIBM:
            name = let(f"call {t} @{libm_name(op)}({', '.join(f'{t} {x}' for x in a)})")
        elif op in _COMPARE:
            name = number(let(f"fcmp {_COMPARE[op]} {t} {a[0]}, {a[1]}"))
        elif op in (Op.AND, Op.OR):
            name = number(let(f"{op} {bits} {truth(a[0])}, {truth(a[1])}"))
        elif op is Op.NOT:
            name = number(let(f"fcmp oeq {t} {a[0]}, {zero}"))
        elif op is Op.SELECT:
            name = let(f"select {bits} {truth(a[0])}, {t} {a[1]}, {t} {a[2]}")
        else:  # sign: -1, 1, or the argument itself (zero without a sign, NaN)
            positive, negative = (let(f"fcmp {relation} {t} {a[0]}, {zero}") for relation in ("ogt", "olt"))
            plain = let(f"fadd {t} {a[0]}, {zero}")
            upper = let(f"select {bits} {positive}, {t} {lanes.constant(1.0)}, {t} {plain}")
            name = let(f"select {bits} {negative}, {t} {lanes.constant(-1.0)}, {t} {upper}")
        self.names[k] = name


def support(programs: Sequence[Program], lanes: Lanes, *, fma: bool, libm: bool = True) -> str:
    """IR of the library functions that the programs call: those of the C library, or own ones where there is no such library."""
    used = {instruction.op for program in programs for instruction in program.code}
    if not libm:
        return elementary_functions(used, lanes) + BRANCH_WEIGHTS
    names = {str(op): arity for op, arity in LIBM.items() if op in used}
    text = ""
    if used & {Op.SIN, Op.COS}:
        names |= {"sin": 1, "cos": 1, "atan2": 2}
        text = (sincos(lanes) if fma else sincos_plain(lanes)) + BRANCH_WEIGHTS
    return text + "".join(each_lane(name, arity, lanes) for name, arity in sorted(names.items()))


def load_words(w: Writer, count: int, pointers: Sequence[int]) -> list[str]:
    """Read the words of an argument block ``%args``; those listed in ``pointers`` as addresses."""
    names = []
    for k in range(count):
        place = w.let(f"getelementptr i64, ptr %args, i64 {k}")
        names.append(w.let(f"load {'ptr' if k in pointers else 'i64'}, ptr {place}"))
    return names


def row_addresses(w: Writer, base: str, stride: str, rows: Sequence[str]) -> str:
    """The argument list ``ptr a, ptr b, ...`` of the given rows."""
    places = [w.let(f"getelementptr i8, ptr {base}, i64 {w.integer('mul', r, stride)}") for r in rows]
    return ", ".join(f"ptr {p}" for p in places)


def lane_rows(w: Writer, lanes: Lanes, first: str, last: str) -> list[str]:
    """Row numbers of the lanes from ``first``; the lanes beyond the end repeat the last row, so they compute and
    write the same numbers once more."""
    return [w.smaller(w.integer("add", first, l), last) for l in range(lanes.count)]
