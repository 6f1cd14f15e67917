"""Instruments and levers of the cockpit: a viser panel that sends commands to a flight and displays its numbers."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from heavytop.control import ConstantWind, VonKarman, Wind
from heavytop.copters import HOVER, LAWS, SPEEDS, LiveFlight, Snapshot, Vehicle, vehicle_names
from heavytop.copters.maneuvers import suited
from heavytop.show.palette import BLUE, ROLES, VERMILION

DIRECTIONS = {"+x": (1, 0, 0), "-x": (-1, 0, 0), "+y": (0, 1, 0), "-y": (0, -1, 0), "up": (0, 0, 1), "down": (0, 0, -1)}
SIDEWAYS, VERTICAL = ("+x", "-x", "+y", "-y"), ("up", "down")
TURNS = {"roll": (1, 0, 0), "pitch": (0, 1, 0), "yaw": (0, 0, 1)}
TURN = 3.0
"""Change of the angular velocity by a twist in rad/s, per 1 m/s of a push."""
PAUSE, GO_ON = "Pause", "Go on"
WINDS = ("off", "steady", "gusty")


class Levers:
    """All levers and numbers."""

    def __init__(self, gui: Any, flight: LiveFlight) -> None:
        self._gui, self._flight = gui, flight
        self._vehicle: Vehicle | None = None
        self._sliders: dict[str, Any] = {}
        self.numbers = gui.add_html("")
        self._make_flight()
        self._make_pushes()
        self._make_wind()
        self._gains = gui.add_folder("Gains")
        self.follow = gui.add_checkbox("Camera follows", False)

    # --- levers -----------------------------------------------------------------------------------------------------------------

    def _make_flight(self) -> None:
        gui, flight, now = self._gui, self._flight, self._flight.snapshot
        names = list(vehicle_names())
        first = now.vehicle.name.replace("_", "-")
        names = names if first in names else [first, *names]
        with gui.add_folder("Flight"):
            vehicle = gui.add_dropdown("Vehicle", names, initial_value=first)
            law = gui.add_dropdown("Law", list(LAWS), initial_value=now.law)
            self._maneuver = gui.add_dropdown("Maneuver", list(suited(now.vehicle)), initial_value=HOVER)
            fly = gui.add_button("Fly the maneuver", color="green")
            self._heading = gui.add_slider("Heading (°)", -180, 180, 5, 0)
            self._pause = gui.add_button(PAUSE)
            speed = gui.add_dropdown("Speed", [f"{s:g}" for s in SPEEDS], initial_value="1")
            reset = gui.add_button("Reset")
        vehicle.on_update(lambda _: flight.choose(vehicle=vehicle.value))
        law.on_update(lambda _: flight.choose(law=law.value))
        fly.on_click(lambda _: flight.fly(self._maneuver.value))
        self._heading.on_update(lambda _: self._turn())
        self._pause.on_click(lambda _: flight.pause(not flight.snapshot.paused))
        speed.on_update(lambda _: flight.speed(float(speed.value)))
        reset.on_click(lambda _: self._reset())

    def _make_pushes(self) -> None:
        gui = self._gui
        with gui.add_folder("Push"):
            self._strength = gui.add_slider(
                "Strength (m/s)", 0.1, 4.0, 0.1, 1.5, hint="change of velocity; a twist: 3 rad/s each"
            )
            rows = (("Sideways", SIDEWAYS), ("Vertical", VERTICAL), ("Twist", tuple(TURNS)))
            groups = [gui.add_button_group(label, names) for label, names in rows]
        for group in groups:
            group.on_click(lambda _, g=group: self._flight.push(*self.impulses(g.value)))

    def impulses(self, label: str) -> tuple[np.ndarray, np.ndarray]:
        """Impulse (3,) N s and rotational impulse (3,) N m s of a button: scaled by the mass and the inertia of the hull."""
        vehicle, strength = self._flight.snapshot.vehicle, float(self._strength.value)
        if label in DIRECTIONS:
            return vehicle.mass * strength * np.array(DIRECTIONS[label]), np.zeros(3)
        inertia = np.asarray(vehicle.model.description.inertias["hull"].moment_at_center, dtype=float)
        return np.zeros(3), TURN * strength * inertia @ np.array(TURNS[label])

    def _make_wind(self) -> None:
        gui = self._gui
        with gui.add_folder("Wind"):
            self._wind = gui.add_dropdown("Wind", list(WINDS), initial_value="off")
            self._wind_speed = gui.add_slider("Speed (m/s)", 0.5, 12.0, 0.5, 4.0)
            self._wind_from = gui.add_slider("Towards (°)", -180, 180, 15, 0)
        for lever in (self._wind, self._wind_speed, self._wind_from):
            lever.on_update(lambda _: self._flight.wind(self.chosen_wind()))

    def chosen_wind(self) -> Wind | None:
        """The wind set by the levers."""
        angle, size = np.deg2rad(self._wind_from.value), float(self._wind_speed.value)
        velocity = size * np.array([np.cos(angle), np.sin(angle), 0.0])
        if self._wind.value == "gusty":
            return VonKarman(velocity, intensity=0.25 * size, length=20.0, waves=120)
        return ConstantWind(velocity) if self._wind.value == "steady" else None

    def _turn(self) -> None:
        self._flight.set_point(self._flight.snapshot.set_point, np.deg2rad(self._heading.value))

    def dragged(self, position: np.ndarray) -> None:
        """Move the set point."""
        self._flight.set_point(position)

    def _reset(self) -> None:
        self._flight.reset()
        for name, slider in self._sliders.items():
            slider.value = self._flight.recipe.defaults[name]

    def _make_gains(self) -> None:
        """Replace the sliders by those of the present vehicle."""
        for slider in self._sliders.values():
            slider.remove()
        self._sliders = {}
        with self._gains:
            for gain in self._flight.recipe.gains:
                label = f"{gain.name} ({gain.unit})" if gain.unit != "1" else gain.name
                slider = self._gui.add_slider(
                    label, gain.low, gain.high, 0.01, float(np.clip(gain.value, gain.low, gain.high))
                )
                slider.on_update(lambda _, n=gain.name, s=slider: self._flight.gains({n: s.value}))
                self._sliders[gain.name] = slider

    # --- numbers ----------------------------------------------------------------------------------------------------------------

    def show(self, snapshot: Snapshot) -> None:
        """Update the numbers, and the levers if the vehicle has changed."""
        if snapshot.vehicle is not self._vehicle:
            self._vehicle = snapshot.vehicle
            self._make_gains()
            self._maneuver.options = list(suited(snapshot.vehicle))
        label = GO_ON if snapshot.paused else PAUSE
        if self._pause.label != label:
            self._pause.label = label
        self.numbers.content = numbers_html(snapshot)


def numbers_html(s: Snapshot) -> str:
    """The instruments as HTML: numbers with units, inputs as bars between their limits, notes as text."""
    rows = [
        ("vehicle", "vehicle", f"{s.vehicle.name}, {s.law} law"),
        ("flying", "maneuver", f"{s.maneuver}{' (paused)' if s.paused else ''}"),
        ("time", "time", f"{s.time:.2f} s"),
        ("tracking error", "error", f"{s.tracking_error:.3f} m"),
        ("attitude error", "attitude", f"{np.rad2deg(s.attitude_error):.1f}°"),
        ("wind", "wind", f"{np.linalg.norm(s.wind):.1f} m/s"),
        ("real time", "pace", f"× {s.real_time:.2f} (could do × {s.capacity:.0f})"),
    ]
    cells = "".join(
        f'<tr><td style="opacity:.7;padding-right:.8em">{label}</td><td data-number="{key}">{escape(text)}</td></tr>'
        for label, key, text in rows
    )
    note = (s.preparing and f"⏳ {s.preparing} …") or (s.note and f"⚠ {s.note}")
    line = f'<div data-number="note" style="color:{VERMILION};margin-top:.3em">{escape(note)}</div>' if note else ""
    return (
        '<div style="font-size:.8em;padding:.4em .9em;font-variant-numeric:tabular-nums">'
        f'<table style="border-spacing:0">{cells}</table>{_bars(s)}{line}</div>'
    )


def _bars(s: Snapshot) -> str:
    """One bar per input, from its lower to its upper limit; full ones are coloured and labelled."""
    nu = len(s.u)
    limits = s.vehicle.limits
    if limits is None:
        low, high = np.full(nu, -np.inf), np.full(nu, np.inf)
    else:
        low, high = limits.bounds(s.vehicle.model)
    grid = ROLES["grid"][0]
    lines = []
    for name, u, a, b in zip(s.vehicle.model.u_names, s.u, low, high, strict=True):
        at_limit = bool(u <= a + 1e-9 or u >= b - 1e-9)
        bounded = bool(np.isfinite(a) and np.isfinite(b))
        share = float(np.clip((u - a) / (b - a), 0, 1)) if bounded else 0.0
        bar = f'<div style="width:{100 * share:.0f}%;height:100%;background:{VERMILION if at_limit else BLUE}"></div>'
        span = f"{a:g} … {b:g} N" if bounded else "not limited"
        lines.append(
            f'<tr><td style="opacity:.7">{escape(name)}</td><td style="text-align:right;padding:0 .5em">{u:.2f} N</td>'
            f'<td><div style="width:5.5em;height:.6em;background:{grid}">{bar if bounded else ""}</div></td>'
            f'<td style="opacity:.7;padding-left:.5em">{span}{" ■ limit" if at_limit else ""}</td></tr>'
        )
    return f'<table data-number="inputs" style="border-spacing:0;margin-top:.3em">{"".join(lines)}</table>'
