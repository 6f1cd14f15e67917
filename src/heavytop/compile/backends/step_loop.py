"""The native loop of a schedule: trajectories in lanes outside, steps inside, records written where they belong.

``run(args)`` takes an array of 64-bit words; :func:`word_names` lists them. Trajectories are rows of the caller's
arrays, as in :mod:`heavytop.compile.backends.llvm`; the buffers of a group of W trajectories are adjacent in the scratch area. If a
step is long, a tile of several groups is processed together, call by call and part by part (:mod:`heavytop.compile.passes.tiles`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from heavytop.compile.backends.lanes import Lanes, Writer, any_lane, gather, scatter
from heavytop.compile.backends.llvm import Emitted, emit, lane_rows, row_addresses, support
from heavytop.compile.passes.buffers import Phases, copy_of, lasting_buffers, place_buffers, without_copies
from heavytop.compile.passes.lazy_branches import usual_size
from heavytop.compile.passes.tiles import TILE_ABOVE, evaluate_tile, group_size, groups_left, part_size, tile_size
from heavytop.compile.program import Program
from heavytop.compile.schedule import STEP, TIME, Call, Item, Layout, Repeat, Schedule, in_order

HEAD = ("count", "scratch", "first", "begin", "end", "final", "every", "start_time", "step_size", "failed")
USUAL_ROUNDS = 3
"""Rounds of a repetition that ends by itself, by which the length of native calls is chosen."""


def word_names(layout: Layout) -> list[str]:
    """Names of the argument words, in order.

    count : number of trajectories. scratch : address of the scratch area. first : number of the first step of the run.
    begin, end : this call does the steps begin .. end - 1; in step ``final`` only samples and records are taken.
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
    """IR of a driver, its scratch area in vectors, groups of W trajectories in a tile, and the scalar operations of one step."""

    text: str
    scratch: int
    tile: int
    operations: int


def driver_module(
    schedule: Schedule, lanes: Lanes, *, fma: bool, flush: bool, chunk: int | None = None, libm: bool = True
) -> DriverText:
    """The module with all functions of a schedule and their loop ``run``.

    ``flush`` (x86 only) makes numbers below 2.2e-308 zero while the loop runs: a state that decays to rest would
    otherwise slow it down by a quarter. Without ``libm`` the elementary functions are part of the module.
    """
    used = dict.fromkeys(call.function for call in in_order(schedule.items))
    programs = {name: Program.from_traced(schedule.functions[name]) for name in used}
    programs, calls = without_copies(programs, in_order(schedule.items, 2), lasting_buffers(schedule.layout))
    phases = Phases.cut(calls, schedule)
    emitted = {
        name: emit(program, f"f{k}", lanes, chunk or part_size(program, lanes), fma=fma, exported=False)
        for k, (name, program) in enumerate(programs.items())
    }
    long = sum(usual_size(program) for program in programs.values()) > TILE_ABOVE
    loop = _Loop(schedule.layout, phases, lanes, emitted, tiled=long and lanes.count > 1, flush=flush)
    parts = [
        support(list(programs.values()), lanes, fma=fma, libm=libm),
        gather(lanes),
        scatter(lanes),
        *(e.text for e in emitted.values()),
        loop.text(),
    ]
    operations = _operations((*phases.sample, *phases.advance), programs)
    return DriverText("".join(parts), loop.scratch, loop.tile, operations)


def _operations(items: Sequence[Item], programs: Mapping[str, Program]) -> int:
    """Scalar operations of calls, with all rounds of repetitions; of those that end by themselves with the usual ones."""
    total = 0
    for item in items:
        if isinstance(item, Call):
            total += programs[item.function].operations
        else:
            rounds = item.times if item.done is None else min(item.times, USUAL_ROUNDS)
            total += rounds * _operations(item.body, programs)
    return total


class _Loop:
    """Writes ``void run(args)``.

    The scratch area begins with the clocks, which all trajectories share, followed by the groups, each with its buffers and the
    scratch of the functions.
    """

    def __init__(
        self, layout: Layout, phases: Phases, lanes: Lanes, emitted: dict[str, Emitted], *, tiled: bool, flush: bool
    ) -> None:
        self.layout, self.phases, self.lanes, self.emitted, self.flush = layout, phases, lanes, emitted, flush
        self.w = Writer()
        read = {name for call in phases.calls for name in call.inputs}
        self.clocks = {TIME, STEP} & (read | set(self.layout.record))
        self.shared = {TIME: 0, STEP: 1}
        uses = Counter(call.function for call in in_order(phases.items))
        self.shared_functions = {name for name, n in uses.items() if n > 1}
        self.placed: list[str] = []
        self.offsets, self.own = place_buffers(layout, phases.calls)
        self.group = group_size(self.own + max((e.scratch for e in emitted.values()), default=0))
        self.tile = tile_size(self.group, lanes) if tiled else 1
        self.scratch = len(self.shared) + self.tile * self.group

    def _at(self, name: str, j: str) -> str:
        """Address of a buffer of group ``j``."""
        offset = self.shared[name] if name in self.shared else self.offsets[name]
        return self._place(offset, None if name in self.shared else j)

    def _place(self, offset: int, j: str | None) -> str:
        """Address of a vector in the area of group ``j``, or in the one shared by all."""
        w, t = self.w, self.lanes.real
        if j is None:
            return w.let(f"getelementptr {t}, ptr {self.words['scratch']}, i64 {offset}")
        area = w.let(f"getelementptr {t}, ptr {self.words['scratch']}, i64 {w.integer('mul', j, self.group)}")
        return w.let(f"getelementptr {t}, ptr {area}, i64 {len(self.shared) + offset}")

    def _every_group(self, body: Callable[[str], None]) -> None:
        """A loop over all groups of the tile."""
        self.w.loop("0", 1, lambda j: self.w.test("sge", j, self.groups), body)

    def text(self) -> str:
        w = self.w
        self.words: dict[str, str] = {}
        for k, name in enumerate(word_names(self.layout)):
            place = w.let(f"getelementptr i64, ptr %args, i64 {k}")
            kind = "ptr" if name in ("scratch", "failed") or name.endswith(".base") else "i64"
            kind = "double" if name in ("start_time", "step_size") else kind
            self.words[name] = w.let(f"load {kind}, ptr {place}")
        self.next_record = w.local("i64")
        self.next_sample = {name: w.local("i64") for name in self.layout.tables}
        self.last = w.integer("sub", self.words["count"], 1)
        mode = self._flush_subnormals() if self.flush else None
        per_tile = self.tile * self.lanes.count
        w.loop("0", per_tile, lambda i: w.test("sge", i, self.words["count"]), self._trajectories)
        if mode is not None:
            w.do(f"call void @llvm.x86.sse.ldmxcsr(ptr {mode})")
        w.do("ret void")
        return "".join(self.placed) + f"define void @run(ptr %args) nounwind {{\n{w.text()}\n}}\n"

    def _flush_subnormals(self) -> str:
        """Set the bits flush-to-zero (15) and denormals-are-zero (6) of MXCSR; return the place of the old mode."""
        w = self.w
        old, new = w.local("i32"), w.local("i32")
        w.do(f"call void @llvm.x86.sse.stmxcsr(ptr {old})")
        mode = w.let(f"load i32, ptr {old}")
        w.do(f"store i32 {w.let(f'or i32 {mode}, {0x8040}')}, ptr {new}")
        w.do(f"call void @llvm.x86.sse.ldmxcsr(ptr {new})")
        return old

    def _trajectories(self, first: str) -> None:
        """All steps of a tile of trajectories from number ``first`` on."""
        w, words, layout = self.w, self.words, self.layout
        self.first = first
        self.groups = groups_left(w, words["count"], first, self.tile, self.lanes) if self.tile > 1 else "1"
        at_start = w.test("eq", first, 0)

        def fetch(j: str) -> None:
            for name in layout.persistent:
                self._move("gather", name, words[f"{name}.base"], words[f"{name}.row"], j)
            for name in layout.constants:  # a row shared by all is loaded once
                own = w.test("ne", words[f"{name}.row"], 0)
                w.when(
                    w.let(f"or i1 {at_start}, {own}"),
                    lambda name=name: self._move("gather", name, words[f"{name}.base"], words[f"{name}.row"], j),
                )

        def deliver(j: str) -> None:
            for name in layout.persistent:
                self._move("scatter", name, words[f"{name}.base"], words[f"{name}.row"], j)

        self._every_group(fetch)
        # the next record is due a multiple of ``every`` after ``first``, but not before ``begin``
        every = words["every"]
        passed = w.integer("sub", words["begin"], words["first"])
        rounds = w.integer("sdiv", w.integer("add", passed, w.integer("sub", every, 1)), every)
        due = w.integer("add", words["first"], w.integer("mul", rounds, every))
        w.do(f"store i64 {due}, ptr {self.next_record}")
        for place in self.next_sample.values():
            w.do(f"store i64 {words['begin']}, ptr {place}")
        w.loop(words["begin"], 1, lambda k: w.test("sge", k, words["end"]), self._step)
        self._every_group(deliver)

    def _step(self, k: str) -> None:
        w, words = self.w, self.words
        self._clock(k)
        for name in self.layout.tables:
            due = w.test("eq", k, w.let(f"load i64, ptr {self.next_sample[name]}"))
            w.when(due, lambda name=name: self._fetch_sample(name, k))
        self._do(self.phases.sample, k)
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
            w.do(f"store {t} {value}, ptr {self._place(self.shared[name], None)}, align {self.lanes.alignment}")

    def _fetch_sample(self, name: str, k: str) -> None:
        """The sample k // hold, at most the last one; the next is due at the next multiple of hold."""
        w, words = self.w, self.words
        hold = words[f"{name}.hold"]
        number = w.integer("sdiv", k, hold)
        due = w.integer("mul", w.integer("add", number, 1), hold)
        w.do(f"store i64 {due}, ptr {self.next_sample[name]}")
        number = w.smaller(number, w.integer("sub", words[f"{name}.samples"], 1))
        offset = w.integer("mul", number, words[f"{name}.sample"])
        base = w.let(f"getelementptr i8, ptr {words[f'{name}.base']}, i64 {offset}")
        self._every_group(lambda j: self._move("gather", name, base, words[f"{name}.row"], j))

    def _take_record(self, k: str) -> None:
        w, words = self.w, self.words
        self._do(self.phases.observe, k)
        number = w.integer("sdiv", w.integer("sub", k, words["first"]), words["every"])

        def deliver(j: str) -> None:
            for name in self.layout.record:
                offset = w.integer("mul", number, words[f"{name}.record.step"])
                base = w.let(f"getelementptr i8, ptr {words[f'{name}.record.base']}, i64 {offset}")
                self._move("scatter", name, base, words[f"{name}.record.row"], j)

        self._every_group(deliver)
        w.do(f"store i64 {w.integer('add', k, words['every'])}, ptr {self.next_record}")

    def _advance(self, k: str) -> None:
        self._do(self.phases.advance, k)
        self._every_group(lambda j: self._check_finite(k, j))

    def _check_finite(self, k: str, j: str) -> None:
        """Find states that are not finite: only for those x * 0 is NaN."""
        w, t = self.w, self.lanes.real
        zero = self.lanes.constant(0.0)
        sums = [zero] * 4  # four sums, as each addition waits for the one before
        values = (self._load(name, i, j) for name in self.layout.state for i in range(self.layout.size(name)))
        for n, value in enumerate(values):
            product = w.let(f"fmul contract {t} {value}, {zero}")
            sums[n % 4] = w.let(f"fadd contract {t} {product}, {sums[n % 4]}")
        total = sums[0]
        for other in sums[1:]:
            total = w.let(f"fadd {t} {total}, {other}")
        bad = w.let(f"fcmp uno {t} {total}, {zero}")
        w.when(any_lane(w, self.lanes, bad), lambda: self._note_failure(bad, k, j))

    def _load(self, name: str, i: int, j: str) -> str:
        """Entry ``i`` of a buffer of group ``j``."""
        place = self.w.let(f"getelementptr {self.lanes.real}, ptr {self._at(name, j)}, i64 {i}")
        return self.w.let(f"load {self.lanes.real}, ptr {place}, align {self.lanes.alignment}")

    def _note_failure(self, bad: str, k: str, j: str) -> None:
        """Write the number of the step after which the state of a trajectory was first not finite."""
        w = self.w
        after = w.integer("add", k, 1)
        for l, row in enumerate(self._rows(j)):
            flag = bad if self.lanes.count == 1 else w.let(f"extractelement {self.lanes.bits} {bad}, i32 {l}")
            place = w.let(f"getelementptr i64, ptr {self.words['failed']}, i64 {row}")
            fresh = w.test("slt", w.let(f"load i64, ptr {place}, align 8"), 0)

            def note(place: str = place) -> None:
                w.do(f"store i64 {after}, ptr {place}, align 8")

            w.when(w.let(f"and i1 {flag}, {fresh}"), note)

    def _do(self, items: Sequence[Item], k: str) -> None:
        for item in items:
            if isinstance(item, Call):
                self._call(item, k)
            else:
                self._repeat(item, k)

    def _repeat(self, item: Repeat, k: str) -> None:
        """A loop over the body, which ends when every trajectory of the tile is done, also before its first round."""
        w, done = self.w, item.done
        if done is None:
            w.loop("0", 1, lambda i: w.test("sge", i, item.times), lambda i: self._do(item.body, k))
            return
        left = w.local("i1")

        def over(i: str) -> str:
            none_left = w.let(f"xor i1 {w.let(f'load i1, ptr {left}')}, true")
            return w.let(f"or i1 {w.test('sge', i, item.times)}, {none_left}")

        def check(j: str) -> None:
            going = w.let(f"fcmp oeq {self.lanes.real} {self._load(done, 0, j)}, {self.lanes.constant(0.0)}")
            w.when(any_lane(w, self.lanes, going), lambda: w.do(f"store i1 true, ptr {left}"))

        def look() -> None:
            w.do(f"store i1 false, ptr {left}")
            self._every_group(check)

        def once(i: str) -> None:
            self._do(item.body, k)
            look()

        look()
        w.loop("0", 1, over, once)

    def _call(self, call: Call, k: str) -> None:
        if call.every == 1:
            self._call_now(call)
            return
        rest = self.w.integer("srem", k, call.every)
        self.w.when(self.w.test("eq", rest, 0), lambda: self._call_now(call))

    def _call_now(self, call: Call) -> None:
        w, t = self.w, self.lanes.real
        copies = [name for name in call.outputs if name in call.inputs]
        buffers = [*call.inputs, *(copy_of(name) if name in copies else name for name in call.outputs)]

        def places(j: str) -> list[str]:
            return [f"ptr {p}" for p in (*(self._at(name, j) for name in buffers), self._place(self.own, j))]

        def copy_back(j: str) -> None:
            for name in copies:
                for i in range(self.layout.size(name)):
                    target = w.let(f"getelementptr {t}, ptr {self._at(name, j)}, i64 {i}")
                    value = self._load(copy_of(name), i, j)
                    w.do(f"store {t} {value}, ptr {target}, align {self.lanes.alignment}")

        emitted = self.emitted[call.function]
        if call.when is not None:
            self._every_group(lambda j: self._call_if_needed(call, emitted, places, copy_back, j))
            return
        if emitted.chunks == 1 and call.function not in self.shared_functions:
            name = self._with_fixed_places(emitted, buffers)
            self._every_group(
                lambda j: w.do(f"call void @{name}(ptr {self._place(0, j)}, ptr {self.words['scratch']})")
            )
        else:
            evaluate_tile(w, emitted, len(call.inputs), self.groups, places)
        if copies:
            self._every_group(copy_back)

    def _call_if_needed(
        self, call: Call, emitted: Emitted, places: Callable[[str], list[str]], copy_back: Callable[[str], None], j: str
    ) -> None:
        """A call that is skipped unless a lane of group ``j`` needs it."""
        w, t = self.w, self.lanes.real
        needs = w.let(f"fcmp une {t} {self._load(call.inputs[call.when or 0], 0, j)}, {self.lanes.constant(0.0)}")

        def do() -> None:
            w.do(f"call void @{emitted.name}({', '.join(places(j))})")
            copy_back(j)

        w.when(any_lane(w, self.lanes, needs), do)

    def _with_fixed_places(self, emitted: Emitted, buffers: list[str]) -> str:
        """A copy of a function with constant places of its buffers in the area of a group, so that no addresses are computed."""
        w, t = Writer(), self.lanes.real
        places = []
        for name in buffers:
            base, offset = ("%shared", self.shared[name]) if name in self.shared else ("%area", self.offsets[name])
            places.append(w.let(f"getelementptr {t}, ptr {base}, i64 {offset}"))
        places.append(w.let(f"getelementptr {t}, ptr %area, i64 {self.own}"))
        w.do(f"call void @{emitted.name}({', '.join(f'ptr {p}' for p in places)}) alwaysinline")
        w.do("ret void")
        name = f"{emitted.name}_placed"
        attributes = f"nounwind noinline alignstack({max(self.lanes.alignment, 16)})"
        self.placed.append(f"define internal void @{name}(ptr %area, ptr %shared) {attributes} {{\n{w.text()}\n}}\n")
        return name

    def _rows(self, j: str) -> list[str]:
        """Numbers of the trajectories in the lanes of group ``j``."""
        w = self.w
        begin = w.integer("add", self.first, w.integer("mul", j, self.lanes.count))
        return lane_rows(w, self.lanes, begin, self.last)

    def _move(self, kind: str, name: str, base: str, stride: str, j: str) -> None:
        rows = row_addresses(self.w, base, stride, self._rows(j))
        self.w.do(f"call void @{kind}(ptr {self._at(name, j)}, i64 {self.layout.size(name)}, {rows})")
