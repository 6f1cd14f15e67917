"""Unknowns of an identification: parameters, inertias, delays and lags of the inputs, biases of sensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from heavytop._arrays import matrix, vector
from heavytop.errors import IdentificationError, unknown_name
from heavytop.system import Inertia, System

INERTIA_ENTRIES = ("mass", "com_x", "com_y", "com_z", "xx", "yy", "zz", "xy", "xz", "yz")
"""Parameters of an unknown inertia: mass (kg), centre of mass (m), moments about it (kg m^2)."""


@dataclass(frozen=True)
class UnknownParameter:
    """A parameter of the model whose value is identified.

    Parameters
    ----------
    name : name of the parameter. value : initial value of the search; None: that of the model.
    low, high : bounds. prior : (mean, standard deviation) known from elsewhere, or None.

    Examples
    --------
    >>> UnknownParameter("m", low=0.0).low
    0.0
    """

    name: str
    value: float | None = None
    low: float = -np.inf
    high: float = np.inf
    prior: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise IdentificationError(
                f"bounds of {self.name!r} must be low < high, got {self.low:g} and {self.high:g}."
            )
        if self.prior is not None and not (
            np.shape(self.prior) == (2,) and np.isfinite(self.prior[0]) and self.prior[1] > 0
        ):
            raise IdentificationError(
                f"prior of {self.name!r} must be (mean, standard deviation > 0), got {self.prior}."
            )


@dataclass(frozen=True)
class Delay(UnknownParameter):
    """Time in s by which the inputs act later than logged; also the offset between two clocks.

    Parameters
    ----------
    name : name in the result. value, low, high, prior : as in :class:`UnknownParameter`, in s.

    Examples
    --------
    >>> Delay(value=0.01).high
    0.2
    """

    name: str = "delay"
    value: float | None = 0.0
    low: float = 0.0
    high: float = 0.2


@dataclass(frozen=True)
class Lag(UnknownParameter):
    """Time constant in s of first-order actuators between the logged inputs and those of the model.

    The actuator state is computed from the log before each window, so its initial value is not an unknown.

    Parameters
    ----------
    inputs : names of the inputs that lag; empty: all.

    Examples
    --------
    >>> Lag(value=0.05, inputs=("F_1",)).inputs
    ('F_1',)
    """

    name: str = "lag"
    value: float | None = 0.03
    low: float = 1e-4
    high: float = 1.0
    inputs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Bias(UnknownParameter):
    """Constant errors of a measured signal, one for each entry.

    Parameters
    ----------
    name : name of the signal. per_log : whether each log has its own errors; otherwise all logs share them.

    Examples
    --------
    >>> Bias("gyro").per_log
    True
    """

    value: float | None = 0.0
    per_log: bool = True


@dataclass(frozen=True)
class BodyInertia:
    """All ten inertial parameters of a body, kept physical: the pseudo-inertia is L L^T with a positive diagonal (log-Cholesky).

    The model must have been described with :func:`unknown_inertia`.

    Parameters
    ----------
    body : name. prior : standard deviation of the ten log-Cholesky numbers around their start; None: no prior.

    Examples
    --------
    >>> BodyInertia("hull").names[:2]
    ('hull_mass', 'hull_com_x')
    """

    body: str
    prior: float | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the ten parameters of the model."""
        return tuple(f"{self.body}_{entry}" for entry in INERTIA_ENTRIES)


def unknown_inertia(system: System, body: str, inertia: Inertia) -> Inertia:
    """The inertia of a body with ten parameters, declared in the system under ``body_mass``, ``body_com_x``, ..., ``body_yz``.

    Parameters
    ----------
    inertia : default values.

    Examples
    --------
    >>> import heavytop as ht
    >>> system = ht.System(name="brick")
    >>> inertia = ht.Inertia(2.0, moment_at_com=(0.1, 0.2, 0.25))
    >>> system.body("brick", joint=ht.Free(), inertia=ht.identify.unknown_inertia(system, "brick", inertia))
    >>> system.derive().parameter_names[:4]
    ('brick_mass', 'brick_com_x', 'brick_com_y', 'brick_com_z')
    """
    mass, com, moment = float(inertia.mass), np.asarray(inertia.com, float), np.asarray(inertia.moment_at_com, float)
    values = [mass, *com, *np.diag(moment), moment[0, 1], moment[0, 2], moment[1, 2]]
    names = BodyInertia(body).names
    m, cx, cy, cz, xx, yy, zz, xy, xz, yz = (
        system.parameter(name, float(value)) for name, value in zip(names, values, strict=True)
    )
    return Inertia(m, com=vector(cx, cy, cz), moment_at_com=matrix([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]))


def cholesky_from_inertia(values: np.ndarray) -> np.ndarray:
    """Log-Cholesky numbers (10,) of mass, centre of mass and moments about it, in the order of :data:`INERTIA_ENTRIES`.

    Raises an IdentificationError if the inertia is not that of a body: some principal moment exceeds the sum of the others.
    """
    m, com = values[0], values[1:4]
    xx, yy, zz, xy, xz, yz = values[4:]
    moment = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    second = 0.5 * np.trace(moment) * np.eye(3) - moment + m * np.outer(com, com)
    pseudo = np.zeros((4, 4))
    pseudo[0, 0], pseudo[0, 1:], pseudo[1:, 0], pseudo[1:, 1:] = m, m * com, m * com, second
    try:
        L = np.linalg.cholesky(pseudo)
    except np.linalg.LinAlgError:
        raise IdentificationError(
            f"mass {m:g} kg and moments {np.round(values[4:7], 9).tolist()} kg m^2 are not those of a body: the mass must be positive and each "
            "principal moment less than the sum of the other two. Start from a physical inertia."
        ) from None
    return np.concatenate([np.log(np.diag(L)), L[1:, 0] / L[0, 0], [L[2, 1], L[3, 1], L[3, 2]]])


def inertia_from_cholesky(z: np.ndarray) -> np.ndarray:
    """The inverse of :func:`cholesky_from_inertia`: always physical. ``z[4:7]`` is the centre of mass."""
    L = np.diag(np.exp(z[:4])).astype(z.dtype)
    L[1:, 0] = z[4:7] * L[0, 0]
    L[2, 1], L[3, 1], L[3, 2] = z[7:]
    pseudo = L @ L.T
    m = pseudo[0, 0]
    com = pseudo[0, 1:] / m
    second = pseudo[1:, 1:] - m * np.outer(com, com)
    moment = np.trace(second) * np.eye(3) - second
    return np.concatenate([[m], com, np.diag(moment), [moment[0, 1], moment[0, 2], moment[1, 2]]])


@dataclass(frozen=True)
class UnknownNumber:
    """One number of the search.

    Attributes
    ----------
    kind : "parameter", "inertia", "delay", "lag" or "bias". scale : typical size. log : index of the log of a bias, None: all.
    """

    name: str
    kind: str
    start: float
    scale: float
    low: float = -np.inf
    high: float = np.inf
    prior: tuple[float, float] | None = None
    signal: str = ""
    place: int = 0
    log: int | None = None
    inputs: tuple[str, ...] = ()


class Unknowns:
    """All numbers of a search, and the map from them to parameters of the model, delays, lags and biases.

    Parameters
    ----------
    given : names, :class:`UnknownParameter` and so on. defaults : values of the model's parameters.
    sizes : entries of each measured signal. logs : number of logs.
    """

    def __init__(
        self, given: Sequence[Any], defaults: dict[str, float], sizes: dict[str, int], logs: int, names: Sequence[str]
    ) -> None:
        self.defaults, self.entries, self.bodies = defaults, [], []
        for item in [UnknownParameter(x) if isinstance(x, str) else x for x in given]:
            if isinstance(item, BodyInertia):
                self._add_inertia(item)
            elif isinstance(item, Bias):
                if item.name not in sizes:
                    raise unknown_name("signal of a bias", item.name, sizes)
                for log in range(logs) if item.per_log and logs > 1 else (None,):
                    for k in range(sizes[item.name]):
                        suffix = "" if log is None else f" of log {log}"
                        name = f"bias {item.name}[{k}]{suffix}"
                        e = UnknownNumber(name, "bias", 0.0, 0.0, item.low, item.high, item.prior, item.name, k, log)
                        self.entries.append(e)
            elif isinstance(item, Delay | Lag):
                kind = "delay" if isinstance(item, Delay) else "lag"
                inputs = getattr(item, "inputs", ())
                for name in inputs:
                    if name not in names:
                        raise unknown_name("input", name, names)
                start = _within(item, float(item.value or 0.0))
                scale = 0.01 if kind == "delay" else max(start, 0.01)
                self.entries.append(
                    UnknownNumber(item.name, kind, start, scale, item.low, item.high, item.prior, inputs=inputs)
                )
            elif isinstance(item, UnknownParameter):
                if item.name not in defaults:
                    raise unknown_name("parameter", item.name, defaults)
                start = _within(item, defaults[item.name] if item.value is None else float(item.value))
                scale = abs(start) or (item.prior[1] if item.prior else 0.0)
                self.entries.append(
                    UnknownNumber(item.name, "parameter", start, scale, item.low, item.high, item.prior)
                )
            else:
                raise IdentificationError(
                    f"parameters= takes names, UnknownParameter, BodyInertia, Delay, Lag and Bias, got {type(item).__name__}."
                )
        twice = [e.name for e in self.entries if sum(o.name == e.name for o in self.entries) > 1]
        if twice:
            raise IdentificationError(f"{twice[0]!r} is in parameters= twice.")
        if not self.entries:
            raise IdentificationError("parameters= must name at least one unknown.")

    def _add_inertia(self, item: BodyInertia) -> None:
        for name in item.names:
            if name not in self.defaults:
                raise unknown_name("parameter of an unknown inertia (see unknown_inertia)", name, self.defaults)
        z = cholesky_from_inertia(np.array([self.defaults[name] for name in item.names]))
        length = np.exp(z[1:4] - z[0])
        sizes = np.concatenate([np.ones(4), length, np.full(3, np.exp(z[1:4]).mean())])
        first = len(self.entries)
        for k in range(10):
            prior = None if item.prior is None else (float(z[k]), item.prior * float(sizes[k]))
            self.entries.append(
                UnknownNumber(f"{item.body} inertia {k}", "inertia", float(z[k]), float(sizes[k]), prior=prior, place=k)
            )
        self.bodies.append((item, first))

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def start(self) -> np.ndarray:
        return np.array([e.start for e in self.entries])

    @property
    def scales(self) -> np.ndarray:
        return np.array([e.scale for e in self.entries])

    def indices(self, *kinds: str) -> list[int]:
        return [k for k, e in enumerate(self.entries) if e.kind in kinds]

    def parameters(self, z: np.ndarray) -> dict[str, float]:
        """Parameters of the model."""
        found = {e.name: float(z[k]) for k, e in enumerate(self.entries) if e.kind == "parameter"}
        for item, first in self.bodies:
            values = inertia_from_cholesky(z[first : first + 10])
            found |= dict(zip(item.names, values.tolist(), strict=True))
        return found

    def reported(self) -> list[str]:
        """Names of the numbers in a result: inertias as mass, centre and moments."""
        names: list[str] = []
        firsts = {first: item for item, first in self.bodies}
        for k, e in enumerate(self.entries):
            if k in firsts:
                names += firsts[k].names
            elif e.kind != "inertia":
                names.append(e.name)
        return names

    def values(self, z: np.ndarray) -> np.ndarray:
        """The numbers of a result."""
        known = self.parameters(z) | {e.name: z[k] for k, e in enumerate(self.entries) if e.kind != "inertia"}
        return np.array([known[name] for name in self.reported()])

    def slopes(self, z: np.ndarray) -> np.ndarray:
        """d values / d z, exact to rounding (complex step for the inertias)."""
        J = np.eye(len(z))
        for _, first in self.bodies:
            for k in range(10):
                turned = z[first : first + 10].astype(complex)
                turned[k] += 1e-30j
                J[first : first + 10, first + k] = np.imag(inertia_from_cholesky(turned)) / 1e-30
        return J


def _within(item: UnknownParameter, start: float) -> float:
    """The start of a search, within the bounds."""
    if not item.low <= start <= item.high:
        raise IdentificationError(
            f"{item.name!r} starts at {start:g}, outside its bounds {item.low:g} to {item.high:g}. Give value= within them."
        )
    return start
