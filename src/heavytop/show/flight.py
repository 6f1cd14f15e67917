"""The report of a flight: the vehicle with spinning, tilting propellers, its reference, paths, forces, curves and numbers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from heavytop._format import format_vector
from heavytop.copters import BATTERY, ROBUST, STICKS, Flight, Rotor, tuned_run, typical_propulsion
from heavytop.errors import SimulationError
from heavytop.geometry import se3, so3
from heavytop.show.airframes import airframe, link, slung_load
from heavytop.show.live_page import live_report
from heavytop.show.live_program import flight_program
from heavytop.show.meshes import Surface, cylinder, propeller
from heavytop.show.page import write_page
from heavytop.show.run_report import report_of
from heavytop.show.scene import Arrow, Body, Marker, Panel, Report, Scene, Spin, Table, Trail

LEAST = 1e-9
"""Errors below this, in m or degrees, are rounding errors."""
ROUNDING = 1e-12
"""Share of the largest thrust below which a force is a rounding error."""
FRAMES = 2400
"""Most samples of a motion in a report."""
SPEED = 210.0
"""Angular velocity of a drawn propeller per root of its thrust, rad/s/sqrt(N)."""
MOST_ROTORS = 4
"""Rotors in one panel."""
LAWS = {
    "energy": "energy-based",
    "particle": "particle-based",
    "body": "body-based",
    "robust": "robust energy-based",
    "energy_se3": "energy-based (SE(3))",
}


def flight_report(flight: Flight) -> Report:
    """The contents of the page of a flight.

    Raises
    ------
    SimulationError
        The flight ended before its first step: its outcome states why.
    """
    if len(flight.t) < 2:
        raise SimulationError(f"the flight ended before its first step, so that it has no page: {flight.outcome}")
    keep = np.unique(np.linspace(0, len(flight.t) - 1, min(FRAMES, len(flight.t))).astype(int))
    vehicle, maneuver = flight.vehicle, flight.maneuver
    title = f"{_spoken(vehicle.name)}, {_spoken(maneuver.name).lower()}"
    return Report(
        title=title[0].upper() + title[1:],
        subtitle=_subtitle(flight),
        scene=_scene(flight, keep),
        panels=_panels(flight, keep),
        highlights=_highlights(flight),
        tables=(
            *_numbers(flight),
            _feasibility(flight),
            *_margins(flight),
            Table("Vehicle", list(vehicle.parameters.items())),
            *(
                [Table(f"Last lines of {flight.law}", [(str(k), line) for k, line in enumerate(flight.log, 1)])]
                if flight.log
                else []
            ),
        ),
        notes=_notes(flight),
        markers=[Marker(t, label) for t, label in maneuver.moments if t <= flight.t[-1]],
    )


def live_flight_report(flight: Flight) -> Report:
    """The contents of the live page of a flight.

    Raises
    ------
    SimulationError
        Firmware flew it, or it has rotor dynamics.
    """
    if STICKS in flight.run.channels:
        raise SimulationError(
            f"{flight.law} is a program, which a live page cannot run. Write a page that replays the flight (omit live), or fly a law."
        )
    if flight.rotors and flight.vehicle.full is None:
        raise SimulationError(
            "a live page has no rotor dynamics. Write a page that replays the flight (omit live), or fly with rotors=False."
        )
    run, gains = tuned_run(flight)
    title = f"{_spoken(flight.vehicle.name)}, {_spoken(flight.maneuver.name).lower()}"
    report = report_of(run)
    places = flight.vehicle.model.pose("world", "hull", flight.maneuver(report.scene.times)[0])[:, :3, 3]
    wanted = {"reference": Trail(places, role="reference", dashed=True)} if np.ptp(places, axis=0).max() > 0 else {}
    made = live_report(
        run, replace(report, scene=replace(report.scene, trails=wanted)), gains, program=flight_program(flight)
    )
    law = f"{LAWS.get(flight.law, flight.law)} law"
    return replace(made, title=title[0].upper() + title[1:], subtitle=f"{made.subtitle}, {law}")


def write_flight(flight: Flight, path: Any) -> Path:
    """Write the page of a flight."""
    return write_page(flight_report(flight), path)


def _spoken(name: str) -> str:
    return name.replace("_", " ").replace("-", " ").strip()


def _wind(wind: Any) -> str:
    return format_vector(wind, 6) if isinstance(wind, tuple) else f"{wind:g}"


def _subtitle(flight: Flight) -> str:
    c = flight.conditions
    parts = [
        f"{LAWS.get(flight.law, flight.law)} law" if STICKS not in flight.run.channels else f"flown by {flight.law}"
    ]
    parts += ["inputs limited" if flight.limits or STICKS in flight.run.channels else "inputs not limited"]
    parts += ["integral action"] if flight.integral else []
    parts += [f"wind {_wind(c.wind)} m/s with gusts"] if c.wind else []
    if c.sensors is not None:
        parts.append("its own sensors" + ("" if c.noise == 1 else f", their noise times {c.noise:g}"))
    elif c.noise:
        parts.append(f"measurement noise {c.noise:g}")
    parts += [f"unknown payload {1000 * c.payload:g} g"] if c.payload else []
    parts += [f"measurements {1000 * c.delay:g} ms late"] if c.delay else []
    return f"{flight.t[-1]:.3g} s of flight: " + ", ".join(parts)


def _margins(flight: Flight) -> list[Table]:
    """Stability margins of the law without wrappers."""
    return [] if flight.margins is None else [Table("Margins of the law at rest", flight.margins.rows())]


# --- the scene ------------------------------------------------------------------------------------------------------------


def _scene(flight: Flight, keep: np.ndarray) -> Scene:
    shape = flight.vehicle.airframe
    t, poses, ghost = flight.t[keep], flight.pose()[keep], flight.pose(desired=True)[keep]
    tips, is_tilting = [part.at for part in shape.rotors], shape.rotors[0].tilt is not None
    # the motors of tilting propellers belong to their pods
    frame = airframe(tips, shape.rotors[0].radius, shape.front, bare=is_tilting)
    bodies = {"hull": Body(frame, poses)}
    ghosts = {"hull": Body(frame, ghost)}
    arrows: dict[str, Arrow] = {}
    forces, thrusts = shape.forces(flight.u)[keep], flight.thrusts
    spins = np.cumsum(_spin_rates(thrusts) * np.gradient(flight.t)[:, None], axis=0)[keep]
    scale = 0.7 * shape.reach / max(float(np.percentile(np.abs(thrusts), 90)), 1e-9) * 2
    for k, part in enumerate(shape.rotors):
        blades = [propeller(part.radius, clockwise=part.spin < 0)]
        name = f"propeller {k + 1}"
        if part.tilt is None:
            bodies[name] = Body(blades, Spin("hull", _mount(part), part.spin * spins[:, k]))
        else:
            pod = f"pod {k + 1}"
            bodies[pod] = Body(_pod(part), poses @ _tilted(part, forces[:, k]))
            bodies[name] = Body(blades, Spin(pod, np.eye(4), part.spin * spins[:, k]))
        origin = poses[:, :3, 3] + poses[:, :3, :3] @ part.at
        arrows[f"thrust {k + 1}"] = Arrow(origin, np.matvec(poses[:, :3, :3], forces[:, k]), scale=scale, unit="N")
    trails = {"path": Trail(poses[:, :3, 3]), "reference": Trail(ghost[:, :3, 3], role="reference", dashed=True)}
    if shape.load is not None:
        load = slung_load(shape.load.cable, shape.load.size)
        at, wanted = flight.pose(shape.load.body)[keep], flight.pose(shape.load.body, desired=True)[keep]
        bodies["load"], ghosts["load"] = Body(load, at), Body(load, wanted)
        trails["path of the load"] = Trail(at[:, :3, 3] - shape.load.cable * at[:, :3, 2], role="load path")
    limbs = flight.vehicle.limbs
    for limb in limbs:
        at, wanted = flight.pose(limb.name)[keep], flight.pose(limb.name, desired=True)[keep]
        bodies[limb.name], ghosts[limb.name] = Body(link(limb.tip), at), Body(link(limb.tip), wanted)
        if all(other.parent != limb.name for other in limbs):
            role = f"path {4 + (len(trails) - 2) % 4}"  # blue, vermilion, green and purple are taken
            trails[f"tip of {limb.name}"] = Trail(at[:, :3, 3] + at[:, :3, :3] @ limb.tip, role=role)
    lowest = min(float(np.min(poses[:, 2, 3])), float(np.min(ghost[:, 2, 3])))
    below = shape.load.cable + shape.load.size if shape.load is not None else 0.0
    below += sum(float(np.linalg.norm(limb.tip)) for limb in limbs)
    ground = lowest - below - 0.6
    if flight.maneuver.grounded:
        ground = 0.0
        for k, point in enumerate(flight.vehicle.landing_gear.points):
            bodies[f"skid {k + 1}"] = Body(link(point), poses)
        if "skids" in flight.run.contacts:
            contact = flight.run.contacts["skids"]
            arrows["skids"] = Arrow(contact.point[keep], contact.force[keep], scale=scale, unit="N")
    return Scene(t, bodies, ghosts=ghosts, trails=trails, arrows=arrows, ground=ground, follow="hull")


def _spin_rates(thrusts: np.ndarray) -> np.ndarray:
    return SPEED * np.sqrt(np.maximum(np.abs(thrusts), 0.05)) * np.where(thrusts < 0, -1.0, 1.0)


def _mount(part: Rotor) -> np.ndarray:
    """Pose with z along the axis of the rotor and x near that of the hull."""
    x = (1.0, 0.0, 0.0) if abs(part.axis[0]) < 1 - 1e-9 else (0.0, 0.0, -1.0)
    return se3.pose(so3.rotation_with_z(part.axis, x), part.at)


def _tilted(part: Rotor, forces: np.ndarray) -> np.ndarray:
    """Poses (T, 4, 4) of the pod in the hull: z along the force, turned about ``axis x tilt``; kept where the force vanishes."""
    size = np.linalg.norm(forces, axis=-1)
    valid = np.flatnonzero(size > 1e-6 * max(float(size.max()), 1e-12))
    index = np.clip(np.searchsorted(valid, np.arange(len(forces)), side="right") - 1, 0, None)
    chosen = forces[valid[index]] if len(valid) else np.tile(part.axis, (len(forces), 1))
    z = chosen / np.linalg.norm(chosen, axis=-1, keepdims=True)
    x = np.broadcast_to(np.cross(part.tilt, part.axis), z.shape)
    return se3.pose(np.stack([x, np.cross(z, x), z], axis=-1), np.broadcast_to(part.at, z.shape))


def _pod(part: Rotor) -> tuple[Surface, ...]:
    """The motor below a tilting propeller."""
    r = part.radius
    return (
        cylinder(0.15 * r, 0.3 * r, "body", 20).moved(at=(0.0, 0.0, -0.17 * r)),
        cylinder(0.1 * r, 0.5 * r, "accent", 16).moved(at=(0.0, 0.0, -0.1 * r)),
    )


# --- curves and tables ----------------------------------------------------------------------------------------------------


def _panels(flight: Flight, keep: np.ndarray) -> list[Panel]:
    place, wanted = flight.pose()[keep, :3, 3], flight.pose(desired=True)[keep, :3, 3]
    t = flight.t[keep]
    panels = [
        Panel("Position", "m", dict(zip("xyz", place.T, strict=True)), dict(zip("xyz", wanted.T, strict=True))),
        Panel("Distance from the reference", "m", {"distance": flight.position_error[keep]}),
        Panel("Attitude error", "°", {"angle": np.degrees(flight.attitude_error[keep])}),
    ]
    if flight.swing_error is not None:
        panels.append(Panel("Swing of the load", "°", {"error": np.degrees(flight.swing_error[keep])}))
    if flight.vehicle.limbs:
        angles, aims = flight.joints(), flight.joints(desired=True)
        panels.append(
            Panel("Joints", "rad or m", {n: y[keep] for n, y in angles.items()}, {n: y[keep] for n, y in aims.items()})
        )
    shape = flight.vehicle.airframe
    # inputs at full rate: the page keeps the extremes when it thins them out
    panels += _thrust_panels("Thrusts", flight.thrusts, shape.thrust_range if flight.limits else None, flight.t)
    if flight.lags:
        panels += _thrust_panels("Commanded thrusts", flight.commanded_thrusts, shape.thrust_range, flight.t)
    if STICKS in flight.run.channels:
        names = ("roll", "pitch", "yaw", "throttle")
        sticks: dict[str, np.ndarray] = dict(zip(names, flight.run.channels[STICKS].T, strict=True))
        panels.append(Panel("Sticks", "share of full deflection", sticks, limits=(-1.0, 1.0), times=flight.t))
    if BATTERY in flight.run.channels:
        panels.append(Panel("Battery", "V", {"voltage": flight.run.channels[BATTERY][:, 0]}, times=flight.t))
    if any(part.tilt is not None for part in shape.rotors):
        tilts = np.degrees(np.unwrap(shape.tilts(flight.u), axis=0))
        panels.append(
            Panel("Tilt of the propellers", "°", {f"rotor {k + 1}": y for k, y in enumerate(tilts.T)}, times=flight.t)
        )
    run = flight.run
    if not run.has_energy:
        return panels
    energies = {"kinetic": run.kinetic_energy, "potential": run.potential_energy, "total": run.energy}
    if run.work is not None:
        energies["work of the inputs"] = run.work[:, 0]
        energies |= {"dissipated": run.work[:, 1]} if np.any(run.work[:, 1]) else {}
    panels.append(Panel("Energies", "J", {name: y[keep] for name, y in energies.items()}, times=t))
    return panels


def _highlights(flight: Flight) -> list[tuple[str, str]]:
    n = flight.numbers()
    return [
        ("RMS distance", length(n["position error rms [m]"])),
        ("largest distance", length(n["position error max [m]"])),
        ("largest attitude error", f"{n['attitude error max [deg]']:.3g}°"),
        ("largest thrust", f"{n['thrust largest [N]']:.3g} N"),
        ("relative to real time", f"{n['times real time']:.3g} ×"),
    ]


def length(metres: float) -> str:
    """A length with a suitable unit; rounding errors are 0.

    >>> length(0.0123), length(3.1), length(2e-5), length(3e-15)
    ('1.23 cm', '3.1 m', '0.02 mm', '0 mm')
    """
    if metres < LEAST:
        return "0 mm"
    if metres >= 1.0:
        return f"{metres:.3g} m"
    return f"{100 * metres:.3g} cm" if metres >= 0.01 else f"{1000 * metres:.3g} mm"


def angle(degrees: float) -> str:
    """An angle; rounding errors are 0.

    >>> angle(0.123456), angle(3e-14)
    ('0.123°', '0°')
    """
    return f"{0.0 if degrees < LEAST else degrees:.3g}°"


def _thrust_panels(title: str, thrusts: np.ndarray, limits: Any, times: np.ndarray) -> list[Panel]:
    """Thrusts (n, rotors), a few rotors in each panel."""
    count = thrusts.shape[1]
    parts = np.array_split(np.arange(count), -(-count // MOST_ROTORS))
    return [
        Panel(
            title if len(parts) == 1 else f"{title} of rotors {part[0] + 1} to {part[-1] + 1}",
            "N",
            {f"rotor {k + 1}": thrusts[:, k] for k in part},
            limits=limits,
            times=times,
        )
        for part in parts
    ]


def rows_of(flight: Flight) -> list[tuple[str, str, str]]:
    """Errors and thrusts of a flight as rows (name, largest, RMS)."""
    n = flight.numbers()
    rows = [
        ("distance from the reference", length(n["position error max [m]"]), length(n["position error rms [m]"])),
        ("attitude error", angle(n["attitude error max [deg]"]), angle(n["attitude error rms [deg]"])),
    ]
    if flight.swing_error is not None:
        swing = np.degrees(flight.swing_error)
        rows.append(("swing error of the load", angle(swing.max()), angle(np.sqrt(np.mean(swing**2)))))
    thrust = np.sqrt(np.mean(flight.thrusts**2))
    rows.append(("thrust of a rotor", f"{n['thrust largest [N]']:.3g} N", f"{thrust:.3g} N"))
    if flight.lags:
        command = np.sqrt(np.mean(flight.commanded_thrusts**2))
        rows.append(("commanded thrust of a rotor", f"{n['command largest [N]']:.3g} N", f"{command:.3g} N"))
    return rows


def single_rows(flight: Flight) -> list[tuple[str, str]]:
    """Numbers of a flight that have one value."""
    n = flight.numbers()
    rows = [("distance at the end", length(n["position error end [m]"]))]
    if flight.swing_error is not None:
        rows.append(("swing error at the end", angle(n["swing error end [deg]"])))
    limited = flight.limits or flight.lags
    rows.append(
        ("commands at their limits", f"{n['time at limits [%]']:.3g} % of the time" if limited else "not limited")
    )
    rows.append(("mean change of a command", f"{n['command change per sample [N]']:.3g} N per sample"))
    if flight.vehicle.full is None:
        rows.append(("rotors", "with lag and drag" if flight.rotors else "ideal (--rotors: with lag and drag)"))
    if flight.conditions.wind or flight.rotors:
        rows.append(("air drag", _drag(flight)))
    if "energy balance [J]" in n:
        rows.append(("energy balance closes within", f"{n['energy balance [J]']:.2g} J"))
    if "drift off the manifold" in n:
        rows.append(("drift off the manifold", f"{n['drift off the manifold']:.2g}"))
    rows.append(("speed", f"{n['times real time']:.3g} times real time"))
    return rows


def _drag(flight: Flight) -> str:
    """The air drag that acts."""
    if not flight.rotors or flight.vehicle.full is not None:
        return f"linear, {flight.vehicle.drag:.3g} N/(m/s)"
    p = flight.vehicle.propulsion or typical_propulsion(flight.vehicle)
    parts = [f"{p.rotor_drag:.3g} N/(m/s)/(rad/s) at each rotor"] if p.rotor_drag else []
    if any(p.parasitic_drag):
        parts.append(f"({', '.join(f'{c:.3g}' for c in p.parasitic_drag)}) N/(m/s)^2 at the frame")
    return "; ".join(parts) or "none"


def _numbers(flight: Flight) -> tuple[Table, Table]:
    return (Table("Errors", rows_of(flight), columns=("", "largest", "RMS")), Table("Numbers", single_rows(flight)))


def _feasibility(flight: Flight) -> Table:
    check = flight.maneuver.check()
    low, high = flight.maneuver.thrusts()
    rows = [(f"rotor {k + 1}", f"{a:.3g} to {b:.3g} N") for k, (a, b) in enumerate(zip(low, high, strict=True))]
    missing = check.largest_residual
    rows.append(("missing force", f"{0 if missing < ROUNDING * float(np.max(high, initial=1.0)) else missing:.2g} N"))
    rows.append(("within the limits", "yes" if not check.outside else "no: " + ", ".join(check.outside)))
    return Table("Requirements of the maneuver", rows)


def _sampling(flight: Flight) -> str:
    if STICKS in flight.run.channels and flight.period is not None:
        return f"{flight.law} in lock-step, sampled every {1000 * flight.period:.4g} ms."
    return "the controller sampled every 5 ms." if flight.law == ROBUST else "the law sampled in every step."


def _notes(flight: Flight) -> list[str]:
    notes = [
        "The translucent vehicle is the reference; the dashed line is its path. Arrows are the forces of the propellers. "
        f"Integrated by {flight.run.integrator} on the manifold with a step of {1000 * flight.run.settings.step:.4g} ms, "
        + _sampling(flight)
    ]
    if not flight.outcome.ok:
        notes.insert(0, f"The flight failed: {flight.outcome}")
    elif flight.motor_failures:
        notes.insert(0, f"The flight {flight.outcome}.")
    return notes
