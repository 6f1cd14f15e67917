"""Tracking laws of larger systems with limits: how long one is prepared, and how long a call takes inside native code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytop.geometry import se3
from heavytop.library import panda
from heavytop.system import BodyWrench, Damping, Free, Inertia, JointForce, Revolute, Stiffness, System, Thruster
from heavytop_bench.measure import BenchEffort
from heavytop_bench.peers import Peer
from heavytop_bench.report import BenchReport

if TYPE_CHECKING:
    from heavytop.control import Prototype
    from heavytop.system import Kinematics, Model

TITLE = "laws with limits on all inputs: seconds to prepare one, microseconds a call"
PREPARED = 10.0
"""Seconds within which the law of a vehicle with an arm is ready."""


@dataclass(frozen=True)
class StrutForce:
    """Force along the line from a point in the world to a point of a body: a strut without mass."""

    body: str
    base: tuple[float, float, float]
    at: tuple[float, float, float]

    def actions(self, kinematics: Kinematics) -> tuple[BodyWrench, ...]:
        """Per unit, in axes of the body."""
        pose = kinematics.pose("world", self.body)
        line = se3.transform(pose, np.array(self.at)) - np.array(self.base)
        push = np.matvec(np.swapaxes(se3.rotation(pose), -1, -2), line) / np.sqrt(np.vecdot(line, line))
        return (BodyWrench(self.body, np.concatenate([push, np.cross(np.array(self.at), push)])),)


def rotors(system: System, count: int, coaxial: bool) -> None:
    """Rotors on a ring of 0.25 m; coaxial: in pairs."""
    arms = count // 2 if coaxial else count
    for k in range(count):
        angle = 2 * np.pi * (k % arms) / arms
        height = 0.03 if coaxial and k >= arms else 0.0
        spin = -1 if (k >= arms if coaxial else k % 2) else 1
        at = (0.25 * np.cos(angle), 0.25 * np.sin(angle), height)
        system.input(f"rotor{k}", Thruster("hull", at=at, drag_ratio=0.018 * spin))


def hexacopter() -> System:
    """Six rotors on one hull: two more than independent."""
    system = System(name="hexacopter")
    system.body("hull", joint=Free(), inertia=Inertia(1.5, moment_at_com=(0.02, 0.02, 0.035)))
    rotors(system, 6, coaxial=False)
    return system


def y6_with_arm() -> System:
    """Three pairs of rotors, and two links with motors below the hull."""
    system = System(name="Y6 with arm")
    system.body("hull", joint=Free(), inertia=Inertia(2.0, moment_at_com=(0.03, 0.03, 0.05)))
    rotors(system, 6, coaxial=True)
    link = Inertia(0.15, com=(0, 0, -0.1), moment_at_com=(6e-4, 6e-4, 8e-5))
    system.body("upper", parent="hull", at=(0, 0, -0.05), joint=Revolute("y"), inertia=link)
    system.body("lower", parent="upper", at=(0, 0, -0.2), joint=Revolute("y"), inertia=link)
    for name in ("upper", "lower"):
        system.input(name, JointForce(name))
    return system


def stewart() -> System:
    """A platform on six struts."""
    system = System(name="Stewart platform")
    system.body("platform", joint=Free(), inertia=Inertia(20.0, moment_at_com=(1.0, 1.0, 2.0)))
    for k in range(6):
        # pairs of joints near each other, below at 0, 120 and 240 degrees, above in between
        low = np.deg2rad(120 * (k // 2) + (15 if k % 2 else -15))
        high = np.deg2rad(120 * (k // 2) + (45 if k % 2 else -45))
        base = (np.cos(low), np.sin(low), -1.0)
        at = (0.6 * np.cos(high), 0.6 * np.sin(high), 0.0)
        system.input(f"strut{k}", StrutForce("platform", base, at))
    return system


def arm() -> System:
    """The Panda arm with a motor in each of its seven joints."""
    system = panda()
    if not system.describe().inputs:
        for joint in system.describe().joints:
            if joint.joint.coordinates.nv:
                system.input(joint.label, JointForce(joint.label))
    return system


SYSTEMS: dict[str, tuple[Callable[[], System], float]] = {
    "arm, 7 joints": (arm, 100.0),
    "hexacopter, 6 rotors": (hexacopter, 8.0),
    "Stewart platform, 6 struts": (stewart, 300.0),
    "Y6 with arm, 8 inputs": (y6_with_arm, 12.0),
}


def prototype_of(model: Model, frequency: float = 4.0) -> Prototype:
    """The model's own inertia, critically damped in every direction; enough to measure with."""
    from heavytop.control import DesiredInertia, Prototype

    parts: list[dict[Any, Any]] = [{}, {}, {}]
    for name, inertia in model.description.inertias.items():
        mass, com, moment = float(inertia.mass), inertia.com, np.asarray(inertia.moment_at_com) + 1e-4 * np.eye(3)
        parts[0][name] = DesiredInertia(mass, com, moment)
        parts[1][name] = Damping(2 * frequency * mass, com, 2 * frequency * moment)
        parts[2][name] = Stiffness(frequency**2 * mass, com, frequency**2 * moment)
    return Prototype(parts[0], parts[1], parts[2])


def run(effort: BenchEffort, peers: Sequence[Peer] | None = None) -> BenchReport:
    """Prepare the law of each system with all inputs limited and call it. No peer takes part."""
    import warnings

    from heavytop.control import UnstableWarning, energy_law

    report = BenchReport("laws", TITLE)
    calls = 200 if effort.seconds == 0 else 20_000
    for name, (build, bound) in SYSTEMS.items():
        model = build().derive()
        prototype = prototype_of(model)
        clock = perf_counter()
        with warnings.catch_warnings():
            # a hull that tilts to move sideways needs a special prototype; for the time of a call any suffices
            warnings.simplefilter("ignore", UnstableWarning)
            law = energy_law(model, prototype, limits=(-bound, bound))
        law(model.neutral(), np.zeros(model.nv), model.neutral())
        prepared = perf_counter() - clock
        report.row(
            system=name,
            inputs=model.nu,
            instructions=law.traced_law.instructions,
            prepared_s=prepared,
            call_us=1e6 * law.call_seconds(calls),
        )
        if "arm, 8" in name:
            report.limit(name, prepared, PREPARED, "s")
    report.notes.append(
        "prepared: from the model to the first input, compiled afresh unless the cache knows the code. One state at a time."
    )
    return report
