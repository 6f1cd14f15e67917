"""Vehicles, laws and measures of flights that the control tests share."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest

from heavytop import copters
from heavytop.control import (
    ClosedLoop,
    Law,
    Limits,
    Reference,
    body_law,
    energy_law,
    figure_eight,
    flat_reference,
    flip,
    looping,
    particle_law,
)
from heavytop.copters import Vehicle
from heavytop.geometry import so3
from heavytop.system import Model

LAWS: dict[str, Callable[..., Law]] = {
    "P": particle_law,
    "B": body_law,
    "E": lambda *args, **options: energy_law(*args, transport="se3", **options),
    "Ed": energy_law,
}


@cache
def vehicle(name: str) -> Vehicle:
    return getattr(copters, name)()


@cache
def law(name: str, kind: str, limits: tuple[float, float, float | None] | None = None) -> Law:
    craft = vehicle(name)
    return LAWS[kind](craft.model, craft.prototype, None if limits is None else Limits(*limits))


@cache
def disturbed(name: str, gain: float = 1.0) -> Model:
    """The true vehicle of the robustness tests: mass + 10 %, moments of inertia - 10 %, thrust gain."""
    defaults = {
        "quadcopter": (0.9, (0.008, 0.008, 0.014)),
        "tricopter": (1.2, (0.013, 0.013, 0.024)),
        "bicopter": (1.0, (0.020, 0.006, 0.022)),
    }
    mass, moment = defaults[name]
    changed = tuple(0.9 * m for m in moment)
    return getattr(copters, name)(mass=1.1 * mass, moment=changed, thrust_gain=gain).model


@cache
def manoeuvre(name: str) -> tuple[Reference, float]:
    """Quadcopter references of the tracking table and their durations."""
    model = vehicle("quadcopter").model
    if name == "loop":
        return flat_reference(model, looping(1.5, 3.6), side=(0, 1, 0), duration=6.0), 6.0
    if name == "flip":
        return flip(model), 5.0
    rate = float(name.removeprefix("eight"))
    period = 2 * np.pi / rate
    return flat_reference(model, figure_eight(rate), heading=(1, 0, 0), period=period), 2 * period


def configuration(r=(0.0, 0.0, 0.0), R=None) -> np.ndarray:
    """q of a free body with rotation matrix."""
    rotation = np.eye(3) if R is None else np.asarray(R)
    return np.concatenate([np.asarray(r, dtype=float), rotation.T.ravel()])


def turned(q: np.ndarray, offset: float, degrees: float) -> np.ndarray:
    """q moved by ``offset`` along each axis and turned about its x axis."""
    R = q[3:12].reshape(3, 3).T @ so3.exp(np.deg2rad([degrees, 0.0, 0.0]))
    return configuration(q[:3] + offset, R)


def errors(flight, reference: Reference) -> np.ndarray:
    """Largest and rms position error (m), largest and rms attitude error (degrees)."""
    q, _, _ = reference(flight.t)
    distance = np.linalg.norm(flight.q[:, :3] - q[:, :3], axis=1)
    R, R_R = (x[:, 3:12].reshape(-1, 3, 3).swapaxes(1, 2) for x in (flight.q, q))
    angle = np.rad2deg(so3.angle(R.swapaxes(1, 2) @ R_R))
    return np.array([distance.max(), np.sqrt(np.mean(distance**2)), angle.max(), np.sqrt(np.mean(angle**2))])


def track(plant: Model, law: Law, reference: Reference, until: float, start=None) -> np.ndarray:
    """Errors of one flight; it starts on the reference unless a start is given."""
    q, v, _ = reference(0.0)
    controller = law.with_reference(reference)
    flight = ClosedLoop(plant, controller).fly((q if start is None else start, v), until)
    return errors(flight, reference)


def settle(flight, index: int, limit: float = 0.05) -> float:
    """First time after which the distance from the origin stays below the limit."""
    distance = np.linalg.norm(flight.q[:, index, :3], axis=-1)
    return float(flight.t[np.nonzero(distance > limit)[0][-1] + 1])


@pytest.fixture(scope="session")
def lab() -> SimpleNamespace:
    """The helpers above."""
    return SimpleNamespace(
        LAWS=LAWS,
        vehicle=vehicle,
        law=law,
        disturbed=disturbed,
        manoeuvre=manoeuvre,
        configuration=configuration,
        turned=turned,
        errors=errors,
        track=track,
        settle=settle,
    )
