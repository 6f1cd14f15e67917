"""Figures of docs/control: flights before and after each wrapper. ``python scripts/robust_figures.py [name ...]``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from heavytop_bench import reality
from heavytop_bench.hummingbird import courses, level_start

from heavytop import control
from heavytop.control import Compensated, ForceObserver, Governed, OnPart, Sensed, Sensors, ThrustScale, Windy
from heavytop.copters import Failover, RotorPlant, agile_law, load, quadcopter, robust_controller
from heavytop.simulate import simulate

FOLDER = Path(__file__).parents[1] / "docs" / "images" / "control"
Curves = dict[str, tuple[np.ndarray, np.ndarray]]


def _distance(run: Any) -> tuple[np.ndarray, np.ndarray]:
    return run.t, np.linalg.norm(run.q[:, :3], axis=-1)


def _hummingbird(controller: Any, seconds: float, start: Any = None, step: float = 5e-3, **parameters: float) -> Any:
    craft = load("hummingbird")
    plant = RotorPlant(craft, uncertain=True)
    q = craft.model.neutral()
    q[:3] = (1.0, 0.0, 0.0) if start is None else start
    flown = controller.with_reference(craft.model.neutral())
    begin = plant.start(q, np.zeros(6))
    return simulate(
        plant,
        begin,
        seconds,
        step,
        control=flown,
        control_step=5e-3,
        parameters=parameters,
        balance=False,
        progress=False,
    )


def _bare(sensors: Sensors, law: Any = None) -> Any:
    craft = load("hummingbird")
    return Sensed(OnPart(law or agile_law(craft), craft.model), craft.model, sensors)


def observers() -> Curves:
    """A quadcopter in 3 m/s of wind with a fifth of its thrust missing."""
    weak, craft = quadcopter(thrust_gain=0.8).describe(), quadcopter()
    control.add_wind(weak, "hull", 0.2)
    plant, model, wind = weak.derive(), craft.model, control.ConstantWind((3.0, 0.0, 0.0))
    law = craft.law()
    observed: Any = ForceObserver(Compensated(OnPart(law, model), model), model, 0.1)
    observed = ThrustScale(observed, model)
    found = {}
    for name, one in (("law alone", law), ("with observers", observed)):
        flown = Windy(one.with_reference(model.neutral()), wind)
        found[name] = _distance(
            simulate(plant, (model.neutral(), np.zeros(6)), 6.0, 5e-3, control=flown, balance=False, progress=False)
        )
    return found


def delay() -> Curves:
    """Measurements 30 ms late."""
    late = Sensors().late(0.03)
    craft = load("hummingbird")
    return {
        "law alone": _distance(_hummingbird(_bare(late), 3.0)),
        "delay specified": _distance(_hummingbird(robust_controller(craft, late, delay=0.03), 3.0)),
        "delay identified": _distance(_hummingbird(robust_controller(craft, late), 3.0)),
    }


def lag() -> Curves:
    """Motors of 80 ms instead of 5 ms."""
    craft = load("hummingbird")
    return {
        "law alone": _distance(_hummingbird(_bare(Sensors()), 3.0, lag=0.08)),
        "lag identified and inverted": _distance(_hummingbird(robust_controller(craft, Sensors()), 3.0, lag=0.08)),
    }


def drag() -> Curves:
    """The circle of 1.5 m at 4.7 m/s."""
    craft, course = load("hummingbird"), courses()["circle 1.5 m 0.5 Hz"]
    plant = RotorPlant(craft)
    reference = control.flat_reference(craft.model, course.curve, None, (1, 0, 0), 6.0)
    found = {}
    for name, one in (
        ("law alone", _bare(Sensors())),
        ("observers, drag unknown", robust_controller(craft, Sensors(), drag=False)),
        ("drag known", robust_controller(craft, Sensors())),
    ):
        run = simulate(
            plant,
            plant.start(*level_start(reference)),
            6.0,
            5e-3,
            control=one.with_reference(reference),
            balance=False,
            progress=False,
        )
        found[name] = run.t, np.linalg.norm(run.q[:, :3] - reference(run.t)[0][:, :3], axis=-1)
    return found


def governor() -> Curves:
    """100 starts from 20 m at any attitude, 5 m/s, 10 rad/s, without drag: the share that is not home yet."""
    craft, plant = load("hummingbird"), RotorPlant(load("hummingbird"), uncertain=True)
    model, law = craft.model, agile_law(craft, 6.0, 18.0)
    start = plant.start(*reality.starts(100, reality.FAR))
    found = {}
    for name, one in (("law alone", OnPart(law, model)), ("with governor", Governed(OnPart(law, model), model))):
        flown = Sensed(one, model, Sensors()).with_reference(model.neutral())
        run = simulate(
            plant,
            start,
            20.0,
            5e-3,
            control=flown,
            parameters={"drag_factor": 0.0},
            balance=False,
            record_every=10,
            progress=False,
        )
        near = np.linalg.norm(run.q[..., :3], axis=-1) < 1.0
        found[name] = run.t, 1.0 - np.mean(near, axis=-1)
    return found


def dead_rotor() -> Curves:
    """A rotor fails at the start, unknown to the controller."""
    craft = load("hummingbird")
    survivor = robust_controller(craft, Sensors(), law=Failover(OnPart(agile_law(craft), craft.model), craft))
    return {
        "robust, no failover": _distance(
            _hummingbird(robust_controller(craft, Sensors()), 4.0, (0, 0, 0), rotor0_health=0.0)
        ),
        "with failover": _distance(_hummingbird(survivor, 4.0, (0, 0, 0), rotor0_health=0.0)),
    }


def sensors() -> Curves:
    """Noise three times that of the Hummingbird's sensors."""
    craft = load("hummingbird")
    noisy = (craft.sensors or Sensors()).scaled(3.0)
    return {
        "law alone": _distance(_hummingbird(_bare(noisy), 4.0)),
        "robust": _distance(_hummingbird(robust_controller(craft, noisy), 4.0)),
        "law alone, perfect sensors": _distance(_hummingbird(_bare(Sensors()), 4.0)),
    }


def margins() -> Curves:
    """The bare law without rotors, with delays above, at and below its margin."""
    craft = load("hummingbird")
    law, model = agile_law(craft), craft.model
    most = law.margins().delay
    found = {}
    for share in (1.15, 0.9, 0.5):
        flown = _bare(Sensors(accelerometer=None, rotor_speeds=None).late(share * most), law).with_reference(
            model.neutral()
        )
        q = model.neutral()
        q[0] = 0.1
        run = simulate(model, (q, np.zeros(6)), 3.0, 1e-3, control=flown, balance=False, progress=False)
        found[f"delay {1e3 * share * most:.0f} ms of {1e3 * most:.0f} ms"] = _distance(run)
    return found


def robust() -> Curves:
    """All combined: mass +10 %, moments -10 %, 10 ms, lag 20 ms, gusts, noise."""
    case = reality.ROUGH[2]
    found, craft = {}, load("hummingbird")
    q, v = reality.starts(1, reality.SPREAD)
    plant = reality.plant(True)
    for name, kind in (("RotorPy's controller", "rotorpy"), ("robust", "ours")):
        flown = Windy(
            reality.controller(kind, (case,), 1).with_reference(craft.model.neutral()), reality.Gusts(np.ones(1))
        )
        run = simulate(
            plant,
            plant.start(q, v),
            8.0,
            5e-3,
            control=flown,
            parameters=reality.parameters((case,), 1),
            balance=False,
            progress=False,
        )
        found[name] = run.t, np.linalg.norm(run.q[:, 0, :3], axis=-1)
    return found


LABELS = {"governor": "share beyond 1 m"}
FIGURES: dict[str, Callable[[], Curves]] = {
    f.__name__: f for f in (observers, delay, lag, drag, governor, dead_rotor, sensors, margins, robust)
}


def draw(name: str) -> None:
    """Write one figure."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    curves = FIGURES[name]()
    figure, axes = plt.subplots(figsize=(7.0, 2.8), layout="constrained")
    for k, (label, (t, y)) in enumerate(curves.items()):
        axes.plot(
            t,
            np.where(np.isfinite(y), y, np.nan),
            label=label,
            color=("#b03a2e", "#7d8a97", "#1f6fb2")[k if len(curves) == 3 else 2 * k],
            lw=1.6,
        )
    calm = max(float(np.nanmax(np.where(np.isfinite(y), y, np.nan))) for _, y in list(curves.values())[-1:])
    axes.set(xlabel="t in s", ylabel=LABELS.get(name, "distance in m"), ylim=(0, None))
    axes.set_ylim(0, min(axes.get_ylim()[1], 4 * max(calm, 0.02)))
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    FOLDER.mkdir(parents=True, exist_ok=True)
    figure.savefig(FOLDER / f"{name}.png", dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    for chosen in sys.argv[1:] or FIGURES:
        draw(chosen)
        print(chosen, flush=True)
