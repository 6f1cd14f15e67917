"""Real tosses of a cube on a table, predicted by heavytop, MuJoCo and Drake with parameters fitted in the same way.

    python benchmarks/cube_tosses.py [--data ../shared/data/cube_toss] [--trials 256] [heavytop mujoco drake ...]

Tosses of an acrylic cube with an edge of 104.8 mm at 148 Hz (ContactNets, Pfrommer, Halm and Posa 2020). Every engine starts from the same state,
the least-squares ballistic motion of the samples before the cube touches the table, and predicts the rest of the toss. Friction, moment of inertia
and the one or two numbers that an engine has for the impact (restitution; stiffness and damping) are fitted on 50 tosses: the same measure (mean
logarithm of the errors of place and angle), the same number of trials, the same search (Sobol points, then Nelder and Mead). Median errors are those
of the other tosses. Needs MuJoCo (extra ``peers``) and Drake (``pip install drake``) for their rows.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
from scipy.optimize import minimize
from scipy.stats import qmc

import heavytop as ht
from heavytop.geometry import so3
from heavytop.geometry.quaternion import quaternion_from_rotation, rotation_from_quaternion

HALF = 0.0524
"""Half the edge of the cube in m, the unit of length of the data."""
MASS, GRAVITY, RATE = 0.37, 9.81, 148.0
SUBSTEPS = 8
"""Steps of all engines per sample."""
CORNERS = HALF * np.array(list(product((-1.0, 1.0), repeat=3)))
FLIGHT = 0.1 * HALF
"""Height in m of the lowest corner above the table down to which a cube is in free flight."""
DATA = Path(__file__).parents[2] / "shared/data/cube_toss"

Ranges = Mapping[str, tuple[float, float]]
"""Least and largest value of each parameter, searched on a logarithmic scale."""
MOMENT = (0.5, 3.0)
"""Range of the moment of inertia over that of a solid cube; 3 if all mass were in the corners."""
SOLID = MASS * (2.0 * HALF) ** 2 / 6.0


@dataclass(frozen=True, eq=False)
class Toss:
    """One toss: positions (n, 3) in m above the table, attitudes (n, 3, 3) and the state at its start; angular velocity in body axes."""

    x: np.ndarray
    R: np.ndarray

    @cached_property
    def flight(self) -> int:
        """Number of samples before the cube touches the table."""
        lowest = np.min(self.x[:, None, 2] + np.einsum("nij,kj->nki", self.R, CORNERS)[:, :, 2], axis=1)
        return int(np.argmax(lowest < FLIGHT))

    @cached_property
    def start(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Position, attitude, velocity and angular velocity of the ballistic motion through the samples of the flight."""
        n = self.flight
        t = np.arange(n) / RATE
        fall = np.array([0.0, 0.0, -0.5 * GRAVITY]) * t[:, None] ** 2
        (x, v), *_ = np.linalg.lstsq(np.stack([np.ones(n), t], axis=1), self.x[:n] - fall, rcond=None)
        turned = np.stack(
            [so3.log(self.R[0].T @ R) for R in self.R[1:n]]
        )  # constant angular velocity: all moments are equal
        return x, self.R[0], v, t[1:] @ turned / (t[1:] @ t[1:])


def load(folder: Path = DATA) -> list[Toss]:
    """All tosses of a folder, with heights above the table: the median of the resting cubes."""
    arrays = np.load(folder / "tosses_even.npz")
    raw = [arrays[name] for name in sorted(arrays.files, key=lambda name: int(name.split("_")[1]))]
    table = HALF * float(np.median([rows[-1, 2] for rows in raw]) - 1.0)
    return [Toss(HALF * rows[:, :3] - [0.0, 0.0, table], rotation_from_quaternion(rows[:, 3:7])) for rows in raw]


class Engine(Protocol):
    """An engine with its free parameters."""

    ranges: ClassVar[Ranges]

    def predict(self, parameters: Mapping[str, float], tosses: Sequence[Toss]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Positions (n, 3) and attitudes (n, 3, 3) at the samples of every toss."""
        ...


def errors(engine: Engine, parameters: Mapping[str, float], tosses: Sequence[Toss]) -> np.ndarray:
    """Errors of position (m) and angle (rad), each the mean over a toss: (tosses, 2)."""
    found = []
    for toss, (x, R) in zip(tosses, engine.predict(parameters, tosses), strict=True):
        if len(x) < len(toss.x) or not np.isfinite(x).all():
            found.append((1.0, np.pi))  # the run failed
            continue
        cosine = 0.5 * (np.einsum("nij,nij->n", R, toss.R) - 1.0)
        away = np.linalg.norm(x - toss.x, axis=1)
        found.append((np.mean(away), np.mean(np.arccos(np.clip(cosine, -1.0, 1.0)))))
    return np.array(found)


def fit(engine: Engine, tosses: Sequence[Toss], trials: int) -> dict[str, float]:
    """Parameters with the least mean logarithm of the errors: half of the trials at Sobol points, the others by Nelder and Mead from the best."""
    names = list(engine.ranges)
    low, high = (np.log([engine.ranges[name][k] for name in names]) for k in (0, 1))

    def named(place: np.ndarray) -> dict[str, float]:
        values = np.exp(low + (high - low) * np.clip(place, 0.0, 1.0))
        return {name: float(value) for name, value in zip(names, values, strict=True)}

    def measure(place: np.ndarray) -> float:
        outside = np.sum(np.maximum(np.abs(place - 0.5) - 0.5, 0.0))
        return float(np.mean(np.log(errors(engine, named(place), tosses))) + outside)

    places = qmc.Sobol(len(names), rng=0).random(trials // 2)
    values = [measure(place) for place in places]
    best = places[int(np.argmin(values))]
    simplex = np.stack([best, *(best + 0.1 * np.where(best < 0.5, 1.0, -1.0) * row for row in np.eye(len(names)))])
    found = minimize(
        measure, best, method="Nelder-Mead", options={"maxfev": trials - trials // 2, "initial_simplex": simplex}
    )
    return named(found.x)


class Heavytop:
    """Rigid contact, ``integrator="moreau"``."""

    ranges: ClassVar[Ranges] = {"friction": (0.05, 0.6), "restitution": (0.01, 0.6), "moment": MOMENT}
    integrator = "moreau"

    def __init__(self, substeps: int = SUBSTEPS) -> None:
        self.substeps = substeps

    @cached_property
    def model(self) -> ht.Model:
        system = ht.System(name="cube")
        named = {name: system.parameter(name, 1.0 if name == "moment" else 0.1) for name in self.ranges}
        moment = SOLID * named.pop("moment")
        inertia = ht.Inertia(MASS, moment_at_com=(moment, moment, moment))
        system.body("cube", joint=ht.Free(velocity="mixed"), inertia=inertia)
        system.ground()
        system.contact("cube", "ground", ht.Box((2.0 * HALF, 2.0 * HALF, 2.0 * HALF)), **named, **self.fixed)
        return system.derive()

    fixed: ClassVar[Mapping[str, Any]] = {}

    def predict(self, parameters: Mapping[str, float], tosses: Sequence[Toss]) -> list[tuple[np.ndarray, np.ndarray]]:
        q = np.stack([np.concatenate([toss.start[0], toss.start[1].T.ravel()]) for toss in tosses])
        v = np.stack([np.concatenate([toss.start[2], toss.start[3]]) for toss in tosses])
        longest = max(len(toss.x) for toss in tosses)
        run = ht.simulate(
            self.model,
            (q, v),
            until=(longest - 1) / RATE,
            step=1.0 / (RATE * self.substeps),
            integrator=self.integrator,
            parameters=dict(parameters),
            record_every=self.substeps,
        )
        x, R = run.q[:, :, :3], np.swapaxes(run.q[:, :, 3:].reshape(*run.q.shape[:2], 3, 3), 2, 3)
        return [(x[: len(toss.x), k], R[: len(toss.x), k]) for k, toss in enumerate(tosses)]


class HeavytopCompliant(Heavytop):
    """Compliant contact, Hunt and Crossley's force with a linear spring, ``integrator="rkmk4"``."""

    ranges: ClassVar[Ranges] = {
        "friction": (0.05, 0.6),
        "stiffness": (3e3, 3e5),
        "hysteresis": (0.1, 30.0),
        "moment": MOMENT,
    }
    fixed: ClassVar[Mapping[str, Any]] = {"exponent": 1.0, "slip_speed": 0.02}
    integrator = "rkmk4"

    def __init__(self, substeps: int = 8 * SUBSTEPS) -> None:
        super().__init__(substeps)


class Mujoco:
    """MuJoCo's box on a plane: elliptic cone, spring and damper of the impact by ``solref``."""

    ranges: ClassVar[Ranges] = {
        "friction": (0.05, 0.6),
        "stiffness": (1e2, 1e5),
        "damping": (1.0, 1e3),
        "moment": MOMENT,
    }
    xml = """<mujoco><option timestep="{step}" gravity="0 0 -{gravity}" cone="elliptic" impratio="10"/><worldbody>
    <geom name="table" type="plane" size="5 5 1"/><body><freejoint/><inertial pos="0 0 0" mass="{mass}" diaginertia="1 1 1"/>
    <geom name="cube" type="box" size="{half} {half} {half}"/></body></worldbody></mujoco>"""

    @cached_property
    def model(self) -> Any:
        import mujoco

        step = 1.0 / (RATE * SUBSTEPS)
        return mujoco.MjModel.from_xml_string(self.xml.format(step=step, gravity=GRAVITY, mass=MASS, half=HALF))

    def predict(self, parameters: Mapping[str, float], tosses: Sequence[Toss]) -> list[tuple[np.ndarray, np.ndarray]]:
        import mujoco

        model = self.model
        model.body_inertia[1] = SOLID * parameters["moment"]
        model.geom_friction[:, 0] = parameters["friction"]
        model.geom_solref[:] = [-parameters["stiffness"], -parameters["damping"]]
        mujoco.mj_setConst(model, mujoco.MjData(model))
        found = []
        for toss in tosses:
            data = mujoco.MjData(model)
            x, R, v, omega = toss.start
            data.qpos[:3], data.qpos[3:], data.qvel[:3], data.qvel[3:] = x, quaternion_from_rotation(R), v, omega
            places = [data.qpos.copy()]
            for _ in range(len(toss.x) - 1):
                mujoco.mj_step(model, data, SUBSTEPS)
                places.append(data.qpos.copy())
            rows = np.array(places)
            found.append((rows[:, :3], rotation_from_quaternion(rows[:, 3:])))
        return found


class Drake:
    """Drake's discrete plant, point contact of the eight corners: Hunt and Crossley's force, lagged convex approximation."""

    ranges: ClassVar[Ranges] = {
        "friction": (0.05, 0.6),
        "stiffness": (1e3, 1e6),
        "dissipation": (0.01, 30.0),
        "moment": MOMENT,
    }

    def predict(self, parameters: Mapping[str, float], tosses: Sequence[Toss]) -> list[tuple[np.ndarray, np.ndarray]]:
        from pydrake.all import (
            AddContactMaterial,
            AddMultibodyPlantSceneGraph,
            CoulombFriction,
            DiagramBuilder,
            DiscreteContactApproximation,
            HalfSpace,
            ProximityProperties,
            Quaternion,
            RigidTransform,
            RotationalInertia,
            Simulator,
            SpatialInertia,
            SpatialVelocity,
            Sphere,
        )

        builder = DiagramBuilder()
        plant, _ = AddMultibodyPlantSceneGraph(builder, 1.0 / (RATE * SUBSTEPS))
        plant.set_discrete_contact_approximation(DiscreteContactApproximation.kLagged)
        moment = SOLID * parameters["moment"]
        inertia = SpatialInertia.MakeFromCentralInertia(MASS, np.zeros(3), RotationalInertia(moment, moment, moment))
        cube = plant.AddRigidBody("cube", inertia)
        friction = CoulombFriction(parameters["friction"], parameters["friction"])
        material = ProximityProperties()
        AddContactMaterial(parameters["dissipation"], parameters["stiffness"], friction, material)
        for k, corner in enumerate(CORNERS):
            plant.RegisterCollisionGeometry(cube, RigidTransform(corner), Sphere(0.0), f"corner {k}", material)
        table = ProximityProperties()
        AddContactMaterial(0.0, 1e15, friction, table)
        plant.RegisterCollisionGeometry(plant.world_body(), RigidTransform(), HalfSpace(), "table", table)
        plant.mutable_gravity_field().set_gravity_vector([0.0, 0.0, -GRAVITY])
        plant.Finalize()
        simulator = Simulator(builder.Build())
        context = simulator.get_mutable_context()
        inner = plant.GetMyMutableContextFromRoot(context)
        found = []
        for toss in tosses:
            x, R, v, omega = toss.start
            context.SetTime(0.0)
            plant.SetFreeBodyPose(inner, cube, RigidTransform(Quaternion(quaternion_from_rotation(R)), x))
            plant.SetFreeBodySpatialVelocity(inner, cube, SpatialVelocity(w=R @ omega, v=v))
            simulator.Initialize()
            places = [plant.GetPositions(inner)]
            for k in range(1, len(toss.x)):
                simulator.AdvanceTo(k / RATE)
                places.append(plant.GetPositions(inner))
            rows = np.array(places)
            found.append(
                (rows[:, 4:], rotation_from_quaternion(rows[:, :4] / np.linalg.norm(rows[:, :4], axis=1)[:, None]))
            )
        return found


ENGINES: dict[str, type] = {
    "heavytop": Heavytop,
    "heavytop-compliant": HeavytopCompliant,
    "mujoco": Mujoco,
    "drake": Drake,
}
FITTED = 50
"""Tosses that parameters are fitted on, drawn with seed 0."""


def split(tosses: Sequence[Toss]) -> tuple[list[Toss], list[Toss]]:
    """The tosses that parameters are fitted on, and the others."""
    chosen = set(np.random.default_rng(0).choice(len(tosses), FITTED, replace=False).tolist())
    return [toss for k, toss in enumerate(tosses) if k in chosen], [
        toss for k, toss in enumerate(tosses) if k not in chosen
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description="Predict real tosses of a cube.")
    parser.add_argument("engines", nargs="*", default=list(ENGINES), help=", ".join(ENGINES))
    parser.add_argument("--data", type=Path, default=DATA, help="folder with tosses_even.npz")
    parser.add_argument("--trials", type=int, default=256, help="trials of the fit")
    arguments = parser.parse_args()
    known, others = split(load(arguments.data))
    for name in arguments.engines:
        engine, begin = ENGINES[name](), time.process_time()
        parameters = fit(engine, known, arguments.trials)
        row: dict[str, Any] = {"engine": name}
        for what, tosses in (("fitted", known), ("others", others)):
            found = errors(engine, parameters, tosses) * [1e3, np.rad2deg(1.0)]
            drawn = np.random.default_rng(0).integers(0, len(found), (1000, len(found)))
            spread = np.std(np.median(found[drawn], axis=1), axis=0)
            for column, unit in enumerate(("position mm", "angle deg")):
                row[f"{what}, {unit}"] = {
                    "median": round(float(np.median(found[:, column])), 2),
                    "standard error": round(float(spread[column]), 2),
                    "geometric mean": round(float(np.exp(np.mean(np.log(found[:, column])))), 2),
                }
        row["parameters"] = {key: float(f"{value:.4g}") for key, value in parameters.items()}
        row["processor s"] = round(time.process_time() - begin, 1)
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
