"""From points of a sweep to results: functions of one point, functions of arrays, and the base of models and flights."""

from __future__ import annotations

import inspect
import itertools
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from types import FunctionType, MethodType
from typing import Any

import numpy as np

from heavytop.errors import HeavytopError, SweepError, unknown_name
from heavytop.functions import Value, key
from heavytop.simulate import Ending, Run
from heavytop.sweep.measure import FAILED, Measured, Measures, as_measures, endings

Values = Mapping[str, np.ndarray]


@dataclass
class Output:
    """Results of points: measures by name, codes and times of the ends, causes by index, and the drawn values."""

    measured: dict[str, Measured]
    outcome: np.ndarray
    end_time: np.ndarray
    causes: dict[int, str] = field(default_factory=dict)
    draws: dict[str, np.ndarray] = field(default_factory=dict)

    @classmethod
    def failed(cls, count: int, cause: str) -> Output:
        """Points without a result, each with the cause."""
        codes = np.full(count, FAILED, dtype=np.int8)
        return cls({}, codes, np.full(count, np.nan), dict.fromkeys(range(count), cause))


def missing(dtype: np.dtype) -> Any:
    """The value of missing entries: NaN, False, or the least integer."""
    if dtype.kind == "f":
        return np.array(np.nan, dtype)
    return np.array(False) if dtype.kind == "b" else np.array(np.iinfo(dtype).min, dtype)


def as_type(name: str, values: np.ndarray, dtype: np.dtype, failed: np.ndarray, why: str) -> np.ndarray:
    """Numbers of a measure in another type; an error where they do not fit in, as no number is rounded silently."""
    with np.errstate(invalid="ignore", over="ignore"):
        cast = values.astype(dtype)
        lost = (cast != values) | (cast.astype(values.dtype) != values)  # comparisons of integers with floats round
        for whole, number in ((values, cast), (cast, values)):
            if whole.dtype.kind in "iu" and number.dtype.kind == "f":  # the largest integers round up beyond their type
                lost |= number >= float(np.iinfo(whole.dtype).max) + 1.0
        lost &= ~(np.isnan(values) & (cast != cast))  # NaN stays NaN
    cast[failed] = missing(dtype)
    lost[failed] = False
    if np.any(lost):
        raise SweepError(
            f"the measure {name!r} {why}, and {values[lost][0]} does not fit: give numbers of one type at all points, float(...) for "
            "instance."
        )
    return cast


def join(outputs: Sequence[tuple[np.ndarray, Output]], count: int) -> Output:
    """Outputs at their places among ``count`` points."""
    if len(outputs) == 1 and np.array_equal(outputs[0][0], np.arange(count)):
        return outputs[0][1]
    measured: dict[str, Measured] = {}
    for name, like in next((output.measured for _, output in outputs if output.measured), {}).items():
        found = [np.asarray(output.measured[name].values) for _, output in outputs if name in output.measured]
        shape = (count, *found[0].shape[1:])
        measured[name] = replace(like, values=np.full(shape, missing(np.result_type(*{a.dtype for a in found}))))
    whole = Output(measured, np.full(count, FAILED, dtype=np.int8), np.full(count, np.nan))
    for rows, output in outputs:
        place = places(rows)
        whole.outcome[place], whole.end_time[place] = output.outcome, output.end_time
        whole.causes |= {int(rows[k]): text for k, text in output.causes.items()}
        if output.measured:
            same_names(output.measured, measured)
        for name, value in output.measured.items():
            into, values = measured[name].values, np.asarray(value.values)
            if values.shape[1:] != into.shape[1:]:
                raise SweepError(
                    f"the measure {name!r} has the shape {values.shape[1:]} at one point and {into.shape[1:]} at another; a sweep keeps one "
                    "shape."
                )
            if values.dtype != into.dtype:
                why = f"needs {into.dtype} for all points"
                values = as_type(name, values, into.dtype, output.outcome == FAILED, why)
            into[place] = values
    return whole


def places(rows: np.ndarray) -> Any:
    """What picks rows of an array, without a copy where they follow one another.

    >>> places(np.array([3, 4, 5])), places(np.array([3, 5]))
    (slice(3, 6, None), array([3, 5]))
    """
    in_line = len(rows) > 0 and np.all(rows[1:] - rows[:-1] == 1)
    return slice(int(rows[0]), int(rows[-1]) + 1) if in_line else rows


def same_names(found: Mapping[str, Any], first: Mapping[str, Any]) -> None:
    """Raise a SweepError if the measures at some point are others than those at the first."""
    if found.keys() != first.keys():
        differences = [
            f"{text} {', '.join(map(repr, sorted(names)))}"
            for text, names in (("lacks", first.keys() - found.keys()), ("has also", found.keys() - first.keys()))
            if names
        ]
        raise SweepError(
            f"measures must be the same at all points: one point {' and '.join(differences)}. Give NaN where there is no number."
        )


class Cases(Value):
    """Evaluates the points of a sweep."""

    measures: Measures

    @property
    @abstractmethod
    def apart(self) -> tuple[str, ...]:
        """Variables that change the structure."""

    @property
    @abstractmethod
    def target(self) -> int:
        """Points of a usual chunk."""

    @property
    def least(self) -> int:
        """Points of a chunk below which it does not pay to cut."""
        return 1

    def unit(self, name: str) -> str:
        """Unit of a variable; empty if it has none, or none is known."""
        return ""

    @abstractmethod
    def evaluate(self, values: Values) -> Output:
        """The points whose values are given (count, ...)."""

    @abstractmethod
    def run(self, values: Values) -> Run | Any:
        """The run of the single point whose values are given (1, ...), with all records."""

    @abstractmethod
    def check(self) -> None:
        """Raise an error if a variable of the sweep has no effect."""


# --- functions of named values ------------------------------------------------------------------------------------------------------


def is_function(value: Any) -> bool:
    """Whether a value is a plain function, not an object (a law, say) that can be called."""
    return isinstance(value, FunctionType | MethodType | partial)


@dataclass(frozen=True)
class Arguments:
    """Names of the arguments of a function, those that must be given, and whether it takes any other."""

    names: tuple[str, ...]
    needed: tuple[str, ...]
    any_other: bool


def arguments_of(function: Callable[..., Any]) -> Arguments:
    """The arguments of a function; it must take them by name."""
    try:
        return _arguments_of(function)
    except TypeError:  # no key, such as a part of a function with a list
        return _arguments_of.__wrapped__(function)


@lru_cache(maxsize=64)
def _arguments_of(function: Callable[..., Any]) -> Arguments:
    parameters = inspect.signature(function).parameters.values()
    kinds = {p.kind for p in parameters}
    any_other = inspect.Parameter.VAR_KEYWORD in kinds
    if inspect.Parameter.POSITIONAL_ONLY in kinds or (inspect.Parameter.VAR_POSITIONAL in kinds and not any_other):
        raise SweepError(f"{getattr(function, '__name__', function)} must take the variables of the sweep by name.")
    named = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    return Arguments(tuple(p.name for p in named), tuple(p.name for p in named if p.default is p.empty), any_other)


def names_of(function: Callable[..., Any]) -> tuple[str, ...]:
    """Names of the arguments of a function that are variables of the sweep."""
    return arguments_of(function).names


def taken(function: Callable[..., Any], names: Sequence[str]) -> list[str]:
    """Those of the named variables that a function takes: all of them by ``**others``.

    >>> taken(lambda mass: mass, ["mass", "arm"]), taken(lambda **others: others, ["mass", "arm"])
    (['mass'], ['mass', 'arm'])
    """
    arguments = arguments_of(function)
    return [name for name in names if arguments.any_other or name in arguments.names]


def call(function: Callable[..., Any], values: Mapping[str, Any]) -> Any:
    """A function with those of the named values that it takes."""
    arguments = arguments_of(function)
    lacking = [name for name in arguments.needed if name not in values]
    if lacking:
        raise unknown_name(
            f"variable of the sweep (argument of {getattr(function, '__name__', 'the function')})", lacking[0], values
        )
    if arguments.any_other:
        return function(**values)
    return function(**{name: values[name] for name in arguments.names if name in values})


def single(values: Values, row: int) -> dict[str, Any]:
    """The values of one point: numbers, texts, arrays or objects."""
    found = {}
    for name, array in values.items():
        value = array[row]
        found[name] = value.item() if isinstance(value, np.generic) else value
    return found


def groups(values: Values, names: Sequence[str]) -> Iterator[tuple[dict[str, Any], np.ndarray]]:
    """Rows that agree in the named values: these values, and the rows in order."""
    count = len(next(iter(values.values()))) if values else 1
    if not names:
        yield {}, np.arange(count)
        return
    codes = np.stack([_codes(values[name]) for name in names])
    if np.all(codes == codes[:, :1]):
        numbers = np.zeros(count, dtype=int)
    else:
        numbers = np.unique(codes, axis=1, return_inverse=True)[1].reshape(-1)
    for number in range(numbers.max() + 1):
        rows = np.flatnonzero(numbers == number)
        yield {name: value for name, value in single(values, rows[0]).items() if name in names}, rows


def _codes(values: np.ndarray) -> np.ndarray:
    """Whole numbers (count,) that are equal where the values are."""
    if values.ndim == 1 and values.dtype.kind in "fiubU":
        return (
            np.zeros(len(values), dtype=int)
            if np.all(values == values[0])
            else np.unique(values, return_inverse=True)[1]
        )
    known: dict[Any, int] = {}
    return np.array([known.setdefault(_identity(value), len(known)) for value in values])


def _identity(value: Any) -> Any:
    """The key of a value; itself, if it has none (a function), or nothing that is equal to anything else."""
    found = key(value)
    try:
        hash(value)
    except TypeError:
        value = object()
    return value if found is None else found


def call_rows(
    option: str,
    function: Callable[..., Any],
    values: Values,
    count: int,
    unpack: Callable[[Any], Sequence[Any]],
    shapes: Sequence[tuple[int, ...]] | None,
    samples: bool = False,
) -> list[np.ndarray]:
    """Call a function among the options with arrays of values; point by point if it does not return one row for each point, or mixes points.

    Parameters
    ----------
    option : its name. count : number of points.
    unpack : from the result to its parts. shapes : shapes of the parts at one point; None: numbers, any number of them.
    samples : whether the parts may have one more axis in front.

    Returns
    -------
    list
        The parts, of shapes (..., count, *shape), or of their own shape if they are the same at all points.
    """
    sizes = {n for shape in shapes or () for n in shape}

    def together(points: np.ndarray) -> list[np.ndarray]:
        rows = next(n for n in itertools.count(max(len(points), 2)) if n not in sizes)  # recognised by their number
        padded = np.append(points, np.repeat(points[-1:], rows - len(points)))
        found = _parts(unpack(call(function, {name: v[padded] for name, v in values.items()})), shapes)
        if not all(lead == () or (lead[-1] == rows and len(lead) <= 1 + samples) for _, lead in found):
            raise ValueError("not one row for each point")
        return [np.take(a, range(len(points)), axis=len(lead) - 1) if lead else a for a, lead in found]

    def at(point: int, parts: list[np.ndarray]) -> list[np.ndarray]:
        ends = [a.ndim - len(shape) for a, shape in zip(parts, shapes or [()] * len(parts), strict=True)]
        return [np.take(a, point, axis=end - 1) if end else a for a, end in zip(parts, ends, strict=True)]

    try:
        found = together(np.arange(count))
        # a function that mixes its points (a mean, a branch on one of them) gives other numbers for one of them alone
        for point in {0, count // 2, count - 1}:
            for a, b in zip(at(point, found), at(0, together(np.array([point]))), strict=True):
                if not np.allclose(a, b, rtol=1e-9, atol=1e-12 * np.max(np.abs(b), initial=0.0), equal_nan=True):
                    raise ValueError("points are mixed")
        return found
    except Exception:  # written for the numbers of one point
        pass
    made = []
    for row in range(count):
        result = call(function, single(values, row))
        try:
            made.append(_parts(unpack(result), shapes))
            right = all(len(lead) <= samples for _, lead in made[-1])
        except (TypeError, ValueError, AttributeError):
            right = False
        if not right:
            shown = "numbers" if shapes is None else "arrays of shape " + " and ".join(map(str, shapes))
            raise SweepError(
                f"{option}= must return {shown} for one point, or one row for each point when it is called with arrays of points; got {result!r} "
                f"for {single(values, row)}."
            )
    return [np.stack([parts[k][0] for parts in made], axis=len(made[0][k][1])) for k in range(len(made[0]))]


def _parts(found: Sequence[Any], shapes: Sequence[tuple[int, ...]] | None) -> list[tuple[np.ndarray, tuple[int, ...]]]:
    """Arrays with their axes in front of the shape at one point."""
    made = []
    for part, shape in zip(found, [()] * len(found) if shapes is None else shapes, strict=True):
        array = np.asarray(part, dtype=float)
        if array.ndim == 0:  # one number for all entries
            array = np.full(shape, array)
        lead = array.shape[: array.ndim - len(shape)]
        if array.shape != (*lead, *shape):
            raise ValueError(f"expected the shape {shape}")
        made.append((array, lead))
    return made


# --- functions of one point ---------------------------------------------------------------------------------------------------------

FEW = 200
"""Points of a chunk of a function that is called point by point."""
MANY, LEAST = 100_000, 10_000
"""Points of a chunk that runs in native batches: some seconds of work, so that a twentieth of a second of writing is small."""


class FunctionCases(Cases):
    """A function of one point that returns numbers by name, a run, or an object with a run; if ``batched``, a function of arrays (count, ...)."""

    def __init__(
        self, function: Callable[..., Any], measures: Measures | None, names: Sequence[str] = (), batched: bool = False
    ) -> None:
        self.function, self.names, self.given, self.batched = function, tuple(names), measures is not None, batched
        self.measures = measures or as_measures(None)

    @property
    def apart(self) -> tuple[str, ...]:
        return ()

    @property
    def target(self) -> int:
        return MANY if self.batched else FEW

    def check(self) -> None:
        label, arguments = getattr(self.function, "__name__", "the function"), arguments_of(self.function)
        for name in self.names:
            if name not in arguments.names and not arguments.any_other:
                raise unknown_name(
                    f"argument of {label} (it does not use this variable of the sweep)", name, arguments.names
                )
        if lacking := [name for name in arguments.needed if name not in self.names]:
            raise SweepError(f"{label} takes {lacking[0]!r}, which is not a variable of the sweep: add it to over.")

    def evaluate(self, values: Values) -> Output:
        count = len(next(iter(values.values()))) if values else 1
        if self.batched:
            return self._output(call(self.function, values), count)
        return join([(np.array([k]), self._one(single(values, k))) for k in range(count)], count)

    def _one(self, values: dict[str, Any]) -> Output:
        try:
            result = call(self.function, values)
        except (KeyboardInterrupt, MemoryError, SweepError):
            raise
        except Exception as error:
            return Output.failed(1, f"{type(error).__name__}: {error}")
        return self._output(result, 0)

    def _output(self, result: Any, count: int) -> Output:
        """Measures of the result of a batch, or of one point with count 0."""
        run = result if isinstance(result, Run) else getattr(result, "run", None)
        if not isinstance(run, Run):
            numbers = dict(result) if isinstance(result, Mapping) else {"value": result}
            measured = Measures({"": lambda _: numbers})(run, count)  # pyright: ignore
            return Output(measured, np.zeros(max(count, 1), dtype=np.int8), np.full(max(count, 1), np.nan))
        if run.outcome.ending is Ending.interrupted:
            raise KeyboardInterrupt
        codes, times, causes = endings(run)
        if not count and len(codes) != 1:
            raise SweepError(f"a function of one point must return one trajectory, got a batch {run.batch}.")
        # measures of a flight take the flight, not its run
        return Output(self.measures(result if self.given else run, count), codes, times, causes)

    def run(self, values: Values) -> Any:
        return call(self.function, values if self.batched else single(values, 0))


def reason(error: BaseException) -> str:
    """An error in one line."""
    text = " ".join(str(error).split())
    return text if isinstance(error, HeavytopError) else f"{type(error).__name__}: {text}"
