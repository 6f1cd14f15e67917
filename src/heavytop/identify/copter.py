"""Multicopters from logs of flights: a plant with motor commands, its unknowns, and the airframe with the values found."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from heavytop.copters import CommandPlant, Vehicle
from heavytop.errors import IdentificationError, unknown_name
from heavytop.geometry import quaternion
from heavytop.identify.api import identify
from heavytop.identify.result import Identification
from heavytop.identify.trials import LogWarning
from heavytop.identify.unknowns import Delay, Lag, UnknownParameter

OUTPUTS = ("position", "velocity", "attitude", "angular_velocity")
INPUTS = ("motors", "battery")
AIRBORNE = 0.02
"""Height in m above the place where the motors are off beyond which a vehicle flies."""
LEAST_COMMAND = 0.1
"""Command below which a motor is off."""
STANDING = 5.0
"""Time in s of flight for which the attitude on the ground counts in the mean vertical."""
STEEPEST = 0.3
"""Largest inclination in rad of a ground from which vehicles take off."""
MOST_COMMAND = 1.5
"""Command beyond which the scale of the motors is wrong."""
MARGIN = 0.5
"""Time in s after take-off and before landing that is left out."""
MODELS: dict[str, tuple[str, ...]] = {
    "quadratic": (),
    "lag": ("exponents", "actuators"),
    "drag": ("exponents", "actuators", "drag"),
    "full": ("exponents", "actuators", "drag", "damping", "tilt", "com"),
    "trim": ("exponents", "actuators", "drag", "damping", "tilt", "trim"),
    "spin": ("exponents", "actuators", "drag", "damping", "tilt", "trim", "spin"),
}
"""Models of increasing detail. "quadratic": thrust by the square of the command, without lag and drag. "trim": instead of the centre of mass, mean
moments and forces of the flight so far are removed, for rotors, batteries and sensors that differ from flight to flight. "spin": also moments of
inertia of the rotors."""
CANDIDATES = ("quadratic", "full", "trim", "spin")
"""Models that are compared to find the best."""


def airborne(log: Any) -> Any:
    """The part of a log in flight: from take-off to the last landing, measured signals NaN half a second around times on the ground.

    Parameters
    ----------
    log : a dataset of ``ht.load_log`` with ``position`` and ``motors`` at one time.

    Raises
    ------
    IdentificationError
        The vehicle never flies.
    UnknownNameError
        A signal is missing.

    Examples
    --------
    >>> import xarray
    >>> n = 600
    >>> height = np.interp(np.arange(n), [0, 100, 200, 500, 550], [0.0, 0.0, 1.0, 1.0, 0.0])
    >>> position = np.stack([0 * height, 0 * height, height], axis=-1)
    >>> log = xarray.Dataset(
    ...     {"position": (("time", "axis"), position), "motors": (("time", "rotor"), np.where(height > 0, 0.5, 0.0)[:, None].repeat(4, axis=1))},
    ...     {"time": 0.01 * np.arange(n)},
    ... )
    >>> airborne(log).sizes["time"]
    347
    """
    import xarray

    for signal in ("position", "motors", "time"):
        if signal not in getattr(log, "variables", ()):
            raise unknown_name("signal of a flight", signal, [str(name) for name in getattr(log, "variables", ())])
    if log.sizes["time"] < 2:
        raise IdentificationError(f"{log.attrs.get('source', 'the log')!r} has fewer than two samples.")
    height, motors = log["position"].values[:, 2], log["motors"].values
    if np.nanmax(motors, initial=0.0) > MOST_COMMAND:
        raise IdentificationError(
            f"{log.attrs.get('source', 'the log')!r}: 'motors' must be commands from 0 to 1, got {np.nanmax(motors):.6g}. Give their scale in "
            "the map (scale = 1.5259e-05 for PWM of 16 bits)."
        )
    off = motors.max(axis=1) < LEAST_COMMAND
    margin = round(MARGIN / float(np.median(np.diff(log["time"].values))))
    flies = _flies(height, off, margin)
    parts = np.flatnonzero(flies)
    if not len(parts):
        remedy = (
            "'position' is below the ground while the motors run: its z axis points down. Set frame = \"NED\" of the signals in the map."
            if _flies(-height, off, margin).any()
            else "Check the units of 'position' (m) and 'motors' (0 to 1) in the map."
        )
        raise IdentificationError(
            f"{log.attrs.get('source', 'the log')!r} has no flight of more than {2 * MARGIN:g} s: the position must be {AIRBORNE} m above the ground "
            f"with a motor above {LEAST_COMMAND} of its range. {remedy}"
        )
    part = slice(parts[0], parts[-1] + 1)
    if not off.any() and np.nanmax(height[part]) < 0.0:
        warnings.warn(
            f"{log.attrs.get('source', 'the log')!r} begins in flight and stays below z = 0: if the z axis of 'position' points down, set "
            'frame = "NED" of the signals in the map.',
            LogWarning,
            stacklevel=2,
        )
    here = xarray.DataArray(flies, dims="time")
    kept = {name: x if name in INPUTS or "time" not in x.dims else x.where(here) for name, x in log.data_vars.items()}
    return log.assign(kept | _mean_vertical(log, flies, off)).isel(time=part)


def _flies(height: np.ndarray, off: np.ndarray, margin: int) -> np.ndarray:
    """(n,) samples in flight, without ``margin`` samples next to times on the ground."""
    ground = np.nanmin(height[off], initial=np.inf) if off.any() else -np.inf
    flies = ~off & ~(height <= ground + AIRBORNE)
    for k in np.flatnonzero(~flies):
        flies[max(k - margin, 0) : k + margin + 1] = False
    return flies


def _mean_vertical(log: Any, flies: np.ndarray, stands: np.ndarray) -> dict[str, Any]:
    """ "lean" (n, 2): means of x and y of the vertical in body axes over the flight so far; they begin with those on the ground, else with zero."""
    if "attitude" not in log:
        return {}
    q = log["attitude"].values
    known = np.isfinite(q).all(axis=1)
    vertical = quaternion.rotation_from_quaternion(np.where(known[:, None], q, [1.0, 0.0, 0.0, 0.0]))[:, 2, :2]
    before = stands & known & (np.arange(len(q)) < np.argmax(flies)) & (np.linalg.norm(vertical, axis=1) < STEEPEST)
    first = vertical[before].mean(axis=0) if before.any() else np.zeros(2)
    count, used = STANDING / float(np.median(np.diff(log["time"].values))), known & flies
    mean = (count * first + np.cumsum(used[:, None] * vertical, axis=0)) / (count + np.cumsum(used))[:, None]
    return {"lean": (("time", "lean_axis"), mean)}


def identify_copter(
    vehicle: Vehicle,
    logs: Any,
    *,
    model: str = "",
    voltage: float | None = None,
    horizon: float = 0.5,
    huber: float | None = None,
    outputs: Sequence[Any] = OUTPUTS,
) -> Identification:
    """Identify a multicopter from logs of flights: the parameters that predict the motion best over a horizon.

    The mass is taken from the airframe: mass, thrust and moments of inertia share a scale. The moment about z is only visible together with the
    torque of the rotors, so it is kept as well.

    Parameters
    ----------
    vehicle : an airframe, for its rotors and first values. logs : datasets of ``ht.load_log`` with ``position``, ``velocity``, ``attitude``,
        ``angular_velocity``, ``motors`` (0 to 1) and, if the voltage matters, ``battery``.
    model : one of :data:`MODELS`, or "best": whichever of :data:`CANDIDATES` best predicts logs it was not fitted to. Default: "best" with
        several logs, "full" with one.
    voltage : nominal battery voltage, V; default: the mean of the logs.

    Returns
    -------
    Identification
        Of a :class:`~heavytop.copters.CommandPlant`; :meth:`~Identification.save` writes the airframe.

    Examples
    --------
    ``heavytop.identify.copter.MODELS`` lists the models; ``examples/identify_quadcopter.py`` is a complete study.

    >>> import heavytop as ht
    >>> from heavytop.identify.copter import MODELS
    >>> list(MODELS)
    ['quadratic', 'lag', 'drag', 'full', 'trim', 'spin']
    """
    several = [airborne(log) for log in (logs if isinstance(logs, list | tuple) else [logs])]
    with_battery = all("battery" in log for log in several)
    if voltage is None and with_battery:
        voltage = float(np.mean([log["battery"].mean() for log in several]))
    if voltage is not None and not voltage > 0:
        raise IdentificationError(
            f"the nominal voltage of the battery must be positive, got {voltage:g} V. Give voltage=, or leave 'battery' out of the map."
        )
    arguments = (vehicle, voltage if with_battery else None, horizon, huber, outputs)
    if not model:
        model = "best" if len(several) > 1 else "full"
    if model == "best":
        model = _best(several, arguments)
    elif model not in MODELS:
        raise unknown_name("model of a multicopter", model, (*MODELS, "best"))
    return _fit(model, several, *arguments)


def _best(logs: Sequence[Any], arguments: tuple[Any, ...]) -> str:
    """The model with the least mean error of predictions of left-out logs, relative to the simplest one."""
    if len(logs) < 2:
        raise IdentificationError(
            f"model='best' compares predictions of logs that were left out, and needs two logs, got {len(logs)}."
        )
    folds = 2
    scores: dict[str, float] = {}
    first: list[dict[str, float]] = []
    for name in CANDIDATES:
        errors = []
        for k in range(folds):
            kept = [log for i, log in enumerate(logs) if i % folds != k]
            left = [log for i, log in enumerate(logs) if i % folds == k]
            with warnings.catch_warnings():  # the last fit has all logs and repeats the warnings
                warnings.simplefilter("ignore", LogWarning)
                errors.append(_fit(name, kept, *arguments).predict(left, arguments[2]).mean())
        first = first or errors
        ratios = [e[s] / f[s] for e, f in zip(errors, first, strict=True) for s in e]
        scores[name] = float(np.mean(ratios))
    return min(scores, key=lambda name: scores[name])


def _fit(
    model: str,
    logs: Sequence[Any],
    vehicle: Vehicle,
    voltage: float | None,
    horizon: float,
    huber: float | None,
    outputs: Sequence[Any],
) -> Identification:
    simple, trim, spin = model == "quadratic", "trim" in MODELS[model], "spin" in MODELS[model]
    plant = CommandPlant(vehicle, None if simple else voltage, trim, spin)
    count = len(vehicle.airframe.rotors)
    values = dict(zip(plant.parameter_names, plant.parameter_vector().tolist(), strict=True))
    unknowns = _unknowns(
        MODELS[model], values, plant.u_names[:count], plant.u_names[len(plant.u_names) - count :], voltage
    )
    if simple:
        # thrust of hovering at the mean command, so that the search begins near the flight
        unknowns = [*unknowns, UnknownParameter("command_exponent", 2.0, prior=(2.0, 1e-6))]
    battery = [] if simple or voltage is None else ["battery"]
    inputs = ["motors", *battery, *(["motors"] if spin else []), *(["lean", "motors"] if trim else [])]
    level = float(np.mean([log["motors"].mean() for log in logs]))
    hover = vehicle.weight / count / level ** (2.0 if simple else 1.0)
    unknowns[0] = UnknownParameter("thrust", hover, low=0.05 * hover, high=20 * hover)
    options: dict[str, Any] = {
        "inputs": inputs,
        "window": horizon,
        "free_starts": False,
        "huber": huber,
        "most_steps": 40,
    }
    return replace(identify(plant, list(logs), unknowns, outputs, **options), flown=airborne)


def _unknowns(
    parts: Sequence[str], values: dict[str, float], commands: Sequence[str], trims: Sequence[str], voltage: float | None
) -> list[Any]:
    def positive(name: str, start: float | None = None, reach: float = 50.0) -> UnknownParameter:
        value = values[name] if start is None else start
        return UnknownParameter(name, value, low=value / reach, high=value * reach)

    def resisting(name: str, scale: float) -> UnknownParameter:
        return UnknownParameter(name, scale, low=0.0, high=1e4 * scale)

    found: list[Any] = [positive("thrust"), positive("moment_x"), positive("moment_y")]
    ratio = values["torque_ratio"]
    found.append(UnknownParameter("torque_ratio", ratio, low=-20 * ratio, high=20 * ratio))
    if "exponents" in parts:
        found.append(UnknownParameter("command_exponent", 1.0, low=0.3, high=3.0))
        if voltage is not None:
            found.append(UnknownParameter("voltage_exponent", 1.0, low=0.0, high=3.0))
    if "actuators" in parts:
        found += [
            Delay(value=0.05, high=0.15),
            Lag(value=0.05, low=2e-3, high=0.5, inputs=tuple(commands)),
        ]
    if "trim" in parts:
        found.append(Lag("trim_time", value=2.0, low=0.3, high=30.0, inputs=tuple(trims)))
        found.append(UnknownParameter("lift", 0.5, low=0.0, high=1.0))
    mass = values["mass"]
    if "drag" in parts:
        found += [resisting(f"drag_{axis}", 0.3 * mass) for axis in "xyz"]
        found.append(UnknownParameter("drag_height", 0.02, low=-0.2, high=0.2))
    if "damping" in parts:
        found += [resisting(f"damping_{axis}", 5 * values[f"moment_{axis}"]) for axis in "xyz"]
    if "spin" in parts:
        torque = 0.1 * abs(ratio) * values["thrust"]
        found += [resisting("spin_torque", torque), resisting("spin_momentum", 0.05 * torque)]
    if "com" in parts:
        found += [UnknownParameter(f"com_{axis}", 1e-5, low=-0.05, high=0.05) for axis in "xy"]
    if "tilt" in parts:
        found += [UnknownParameter(f"tilt_{axis}", 0.001, low=-0.2, high=0.2) for axis in "xy"]
    return found
