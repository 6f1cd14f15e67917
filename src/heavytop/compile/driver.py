"""The native loop of a schedule: trajectories in lanes outside, steps inside, records written where they belong.

``run(args)`` takes an array of 64-bit words; :func:`word_names` lists them. Trajectories are rows of the user's
arrays, as in :mod:`heavytop.compile.llvm`; all buffers of W trajectories live in the scratch area.
"""

from __future__ import annotations

from dataclasses import dataclass

from heavytop.compile.lanes import Lanes, Writer, any_lane
from heavytop.compile.llvm import emit, lane_rows, row_addresses, support
from heavytop.compile.moves import gather, scatter
from heavytop.compile.program import Program
from heavytop.compile.schedule import STEP, TIME, Call, Layout, Schedule

HEAD = ("count", "scratch", "first", "begin", "end", "final", "every", "start_time", "step_size", "failed")


def word_names(layout: Layout) -> list[str]:
    """Names of the argument words, in order.

    count : number of trajectories. scratch : address of the scratch area. first : number of the first step of the run.
    begin, end : steps begin .. end - 1 are done by this call; in step ``final`` only samples and records are taken.
    every : steps between records. failed : address of one integer per trajectory.
    Then for persistent buffers and constants: address, distance of rows in bytes; for tables: address, distance of
    rows, distance of samples, number of samples, steps per sample; for records: address, distance of rows, distance
    of records.
    """
    names: list[str] = list(HEAD)
    for name in (*layout.persistent, *layout.constants):
        names += [f"{name}.base", f"{name}.row"]
    for name in layout.tables:
        names += [f"{name}.base", f"{name}.row", f"{name}.sample", f"{name}.samples", f"{name}.hold"]
    for name in layout.record:
        names += [f"{name}.record.base", f"{name}.record.row", f"{name}.record.step"]
    return names


@dataclass(frozen=True)
class DriverText:
    """IR of a driver, its scratch area in vectors, and the scalar operations of one step."""

    text: str
    scratch: int
    operations: int


def driver_module(schedule: Schedule, lanes: Lanes, *, fma: bool, flush: bool, chunk: int | None = None) -> DriverText:
    """The module with all functions of a schedule and their loop ``run``.

    ``flush`` (x86 only) makes numbers below 2.2e-308 zero while the loop runs: a state that decays to rest would
    otherwise slow it down by a quarter.
    """
    used = dict.fromkeys(call.function for call in schedule.calls)
    programs = {name: Program.from_traced(schedule.functions[name]) for name in used}
    symbols = {name: f"f{k}" for k, name in enumerate(programs)}
    emitted = {name: emit(program, symbols[name], lanes, chunk) for name, program in programs.items()}
    loop = _Loop(schedule, lanes, symbols, flush=flush)
    parts = [
        support(list(programs.values()), lanes, fma=fma),
        gather(lanes),
        scatter(lanes),
        *(e.text for e in emitted.values()),
        loop.text(),
    ]
    scratch = loop.size + max((e.scratch for e in emitted.values()), default=0)
    operations = sum(programs[call.function].operations for call in (*schedule.sample, *schedule.advance))
    return DriverText("".join(parts), scratch, operations)


class _Loop:
    """Writes ``void run(args)``."""

    def __init__(self, schedule: Schedule, lanes: Lanes, symbols: dict[str, str], *, flush: bool) -> None:
        self.flush = flush
        self.schedule, self.layout, self.lanes, self.symbols = schedule, schedule.layout, lanes, symbols
        self.w = Writer()
        read = {name for call in schedule.calls for name in call.inputs}
        self.clocks = {TIME, STEP} & (read | set(self.layout.record))
        self.offsets: dict[str, int] = {}
        self.size = 0
        for name in self.layout.shapes:
            self._reserve(name)
        for call in schedule.calls:  # a call that overwrites what it reads works on a copy
            for name in set(call.inputs) & set(call.outputs):
                self._reserve(f"{name}'")

    def _reserve(self, name: str) -> None:
        if name not in self.offsets:
            self.offsets[name] = self.size
            self.size += self.layout.size(name.rstrip("'"))

    def text(self) -> str:
        w = self.w
        self.words: dict[str, str] = {}
        for k, name in enumerate(word_names(self.layout)):
            place = w.let(f"getelementptr i64, ptr %args, i64 {k}")
            kind = "ptr" if name in ("scratch", "failed") or name.endswith(".base") else "i64"
            kind = "double" if name in ("start_time", "step_size") else kind
            self.words[name] = w.let(f"load {kind}, ptr {place}")
        scratch = self.words["scratch"]
        at = {
            name: w.let(f"getelementptr {self.lanes.real}, ptr {scratch}, i64 {o}") for name, o in self.offsets.items()
        }
        self.at = at
        self.rest = w.let(f"getelementptr {self.lanes.real}, ptr {scratch}, i64 {self.size}")
        self.next_record = w.local("i64")
        self.next_sample = {name: w.local("i64") for name in self.layout.tables}
        self.last = w.integer("sub", self.words["count"], 1)
        mode = self._flush_subnormals() if self.flush else None
        w.loop("0", self.lanes.count, lambda i: w.test("sge", i, self.words["count"]), self._trajectories)
        if mode is not None:
            w.do(f"call void @llvm.x86.sse.ldmxcsr(ptr {mode})")
        w.do("ret void")
        return f"define void @run(ptr %args) nounwind {{\n{w.text()}\n}}\n"

    def _flush_subnormals(self) -> str:
        """Set the bits flush-to-zero (15) and denormals-are-zero (6) of MXCSR; return where the old mode is kept."""
        w = self.w
        old, new = w.local("i32"), w.local("i32")
        w.do(f"call void @llvm.x86.sse.stmxcsr(ptr {old})")
        mode = w.let(f"load i32, ptr {old}")
        w.do(f"store i32 {w.let(f'or i32 {mode}, {0x8040}')}, ptr {new}")
        w.do(f"call void @llvm.x86.sse.ldmxcsr(ptr {new})")
        return old

    def _trajectories(self, first: str) -> None:
        """All steps of W trajectories."""
        w, words, layout = self.w, self.words, self.layout
        self.rows = lane_rows(w, self.lanes, first, self.last)
        for name in layout.persistent:
            self._move("gather", name, words[f"{name}.base"], words[f"{name}.row"])
        at_start = w.test("eq", first, 0)
        for name in layout.constants:
            own = w.test("ne", words[f"{name}.row"], 0)
            w.when(
                w.let(f"or i1 {at_start}, {own}"),
                lambda name=name: self._move("gather", name, words[f"{name}.base"], words[f"{name}.row"]),
            )
        # the next record is due a multiple of ``every`` after ``first``, but not before ``begin``
        every = words["every"]
        passed = w.integer("sub", words["begin"], words["first"])
        rounds = w.integer("sdiv", w.integer("add", passed, w.integer("sub", every, 1)), every)
        due = w.integer("add", words["first"], w.integer("mul", rounds, every))
        w.do(f"store i64 {due}, ptr {self.next_record}")
        for place in self.next_sample.values():
            w.do(f"store i64 {words['begin']}, ptr {place}")
        w.loop(words["begin"], 1, lambda k: w.test("sge", k, words["end"]), self._step)
        for name in layout.persistent:
            self._move("scatter", name, words[f"{name}.base"], words[f"{name}.row"])

    def _step(self, k: str) -> None:
        w, words = self.w, self.words
        self._clock(k)
        for name in self.layout.tables:
            due = w.test("eq", k, w.let(f"load i64, ptr {self.next_sample[name]}"))
            w.when(due, lambda name=name: self._fetch_sample(name, k))
        for call in self.schedule.sample:
            self._call(call, k)
        recording = w.test("eq", k, w.let(f"load i64, ptr {self.next_record}"))
        w.when(recording, lambda: self._take_record(k))
        w.when(w.test("slt", k, words["final"]), lambda: self._advance(k))

    def _clock(self, k: str) -> None:
        """The step number and the time, start + k h (not accumulated)."""
        w, t = self.w, self.lanes.real
        number = w.let(f"sitofp i64 {k} to double")
        elapsed = w.let(f"fmul double {number}, {self.words['step_size']}")
        time = w.let(f"fadd double {self.words['start_time']}, {elapsed}")
        for name, value in ((STEP, number), (TIME, time)):
            if name not in self.clocks:
                continue
            if self.lanes.count > 1:
                single = w.let(f"insertelement {t} poison, double {value}, i32 0")
                value = w.let(f"shufflevector {t} {single}, {t} poison, <{self.lanes.count} x i32> zeroinitializer")
            w.do(f"store {t} {value}, ptr {self.at[name]}, align {self.lanes.alignment}")

    def _fetch_sample(self, name: str, k: str) -> None:
        """The sample k // hold, the last one when there is none; the next is due at the next multiple of hold."""
        w, words = self.w, self.words
        hold = words[f"{name}.hold"]
        number = w.integer("sdiv", k, hold)
        due = w.integer("mul", w.integer("add", number, 1), hold)
        w.do(f"store i64 {due}, ptr {self.next_sample[name]}")
        number = w.smaller(number, w.integer("sub", words[f"{name}.samples"], 1))
        offset = w.integer("mul", number, words[f"{name}.sample"])
        base = w.let(f"getelementptr i8, ptr {words[f'{name}.base']}, i64 {offset}")
        self._move("gather", name, base, words[f"{name}.row"])

    def _take_record(self, k: str) -> None:
        w, words = self.w, self.words
        for call in self.schedule.observe:
            self._call(call, k)
        number = w.integer("sdiv", w.integer("sub", k, words["first"]), words["every"])
        for name in self.layout.record:
            offset = w.integer("mul", number, words[f"{name}.record.step"])
            base = w.let(f"getelementptr i8, ptr {words[f'{name}.record.base']}, i64 {offset}")
            self._move("scatter", name, base, words[f"{name}.record.row"])
        w.do(f"store i64 {w.integer('add', k, words['every'])}, ptr {self.next_record}")

    def _advance(self, k: str) -> None:
        """The calls of the step, then a look for numbers that are not finite: x * 0 is NaN for those alone."""
        w, t = self.w, self.lanes.real
        for call in self.schedule.advance:
            self._call(call, k)
        zero = self.lanes.constant(0.0)
        terms = []
        for name in self.layout.state:
            for j in range(self.layout.size(name)):
                place = w.let(f"getelementptr {t}, ptr {self.at[name]}, i64 {j}")
                value = w.let(f"load {t}, ptr {place}, align {self.lanes.alignment}")
                terms.append(w.let(f"fmul {t} {value}, {zero}"))
        while len(terms) > 1:  # pairwise: a chain of additions would wait for each other
            pairs = [w.let(f"fadd {t} {a}, {b}") for a, b in zip(terms[::2], terms[1::2], strict=False)]
            terms = pairs + terms[2 * len(pairs) :]
        total = terms[0] if terms else zero
        bad = w.let(f"fcmp uno {t} {total}, {zero}")
        w.when(any_lane(w, self.lanes, bad), lambda: self._note_failure(bad, k))

    def _note_failure(self, bad: str, k: str) -> None:
        """Write the number of the step that first left each trajectory's state not finite."""
        w = self.w
        after = w.integer("add", k, 1)
        for l, row in enumerate(self.rows):
            flag = bad if self.lanes.count == 1 else w.let(f"extractelement {self.lanes.bits} {bad}, i32 {l}")
            place = w.let(f"getelementptr i64, ptr {self.words['failed']}, i64 {row}")
            fresh = w.test("slt", w.let(f"load i64, ptr {place}, align 8"), 0)

            def note(place: str = place) -> None:
                w.do(f"store i64 {after}, ptr {place}, align 8")

            w.when(w.let(f"and i1 {flag}, {fresh}"), note)

    def _call(self, call: Call, k: str) -> None:
        if call.every == 1:
            self._call_now(call)
            return
        rest = self.w.integer("srem", k, call.every)
        self.w.when(self.w.test("eq", rest, 0), lambda: self._call_now(call))

    def _call_now(self, call: Call) -> None:
        w, t = self.w, self.lanes.real
        copies = [name for name in call.outputs if name in call.inputs]
        places = [self.at[name] for name in call.inputs]
        places += [self.at[f"{name}'" if name in copies else name] for name in call.outputs]
        w.do(f"call void @{self.symbols[call.function]}({', '.join(f'ptr {p}' for p in [*places, self.rest])})")
        for name in copies:
            for j in range(self.layout.size(name)):
                source, target = (
                    w.let(f"getelementptr {t}, ptr {base}, i64 {j}") for base in (self.at[f"{name}'"], self.at[name])
                )
                value = w.let(f"load {t}, ptr {source}, align {self.lanes.alignment}")
                w.do(f"store {t} {value}, ptr {target}, align {self.lanes.alignment}")

    def _move(self, kind: str, name: str, base: str, stride: str) -> None:
        w = self.w
        rows = row_addresses(w, base, stride, self.rows)
        w.do(f"call void @{kind}(ptr {self.at[name]}, i64 {self.layout.size(name)}, {rows})")
