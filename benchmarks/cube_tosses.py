"""Real tosses of a cube on a table, predicted by heavytop, MuJoCo and Drake with parameters fitted in the same way.

    python benchmarks/cube_tosses.py [--data ../shared/data/cube_toss] [--trials 256] [--splits 5] [heavytop mujoco drake ...]

Tosses of an acrylic cube with an edge of 104.8 mm at 148 Hz (ContactNets, Pfrommer, Halm and Posa 2020). 50 of them, drawn at random, are known, the
others are predicted; several draws give the spread. The known ones give

- the set-up, the same for all engines: height of the table, radius of the corners, gravity in the units of the data, and the mass centre, which
  is 5 mm away from the centre of the cube: without it no engine predicts a toss to better than 9 mm;
- friction, moment of inertia and the one or two numbers that an engine has for the impact (restitution; stiffness and damping): the same measure
  (mean logarithm of the errors of place and angle), the same number of trials, the same search (Sobol points, then Nelder and Mead).

Every engine starts a toss from the same state, the least-squares ballistic motion of the samples before the cube touches the table, and predicts the
rest. Needs MuJoCo (extra ``peers``) and Drake (``pip install drake``) for their rows.
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
MASS, RATE = 0.37, 148.0
SUBSTEPS = 8
"""Steps of all engines per sample."""
BATCH = 10
"""Tosses of about the same length that heavytop simulates together."""
CORNERS = np.array(list(product((-1.0, 1.0), repeat=3)))
FLIGHT = 0.1 * HALF
"""Height in m of the lowest corner above the table down to which a cube is in free flight."""
RELEASE = 6
"""Samples at the start of a toss, in which the hand may still touch the cube."""
DATA = Path(__file__).parents[2] / "shared/data/cube_toss"

Ranges = Mapping[str, tuple[float, float]]
"""Least and largest value of each parameter, searched on a logarithmic scale."""
MOMENT = (0.5, 3.0)
"""Range of the moment of inertia over that of a solid cube; 3 if all mass were in the corners."""
SOLID = MASS * (2.0 * HALF) ** 2 / 6.0


@dataclass(frozen=True, eq=False)
class Toss:
    """One toss: positions (n, 3) in m of the centre of the cube, attitudes (n, 3, 3)."""

    x: np.ndarray
    R: np.ndarray

    def lowest(self, radius: float = 0.0) -> np.ndarray:
        """Height of the lowest corner, rounded with a radius (n,)."""
        corners = np.einsum("nj,kj->nk", self.R[:, 2], (HALF - radius) * CORNERS)
        return self.x[:, 2] + np.min(corners, axis=1) - radius

    def flight(self, table: float) -> int:
        """Number of samples before the cube touches the table."""
        return int(np.argmax(self.lowest() - table < FLIGHT))


def load(folder: Path = DATA) -> list[Toss]:
    """All tosses of a folder."""
    arrays = np.load(folder / "tosses_even.npz")
    raw = [arrays[name] for name in sorted(arrays.files, key=lambda name: int(name.split("_")[1]))]
    return [Toss(HALF * rows[:, :3], rotation_from_quaternion(rows[:, 3:7])) for rows in raw]


State = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""Position of the mass centre above the table, attitude, velocity, angular velocity in body axes."""


@dataclass(frozen=True, eq=False)
class Setup:
    """The table at a height in m, the radius of the corners in m, gravity (3,), and the mass centre (3,) in body axes from the centre of the cube."""

    table: float
    radius: float
    gravity: np.ndarray
    mass_centre: np.ndarray

    @classmethod
    def of(cls, tosses: Sequence[Toss]) -> Setup:
        """The set-up in which tosses were measured."""
        table = float(np.median([toss.x[-1, 2] for toss in tosses])) - HALF
        late = [Toss(toss.x[toss.flight(table) :], toss.R[toss.flight(table) :]) for toss in tosses]

        def levels(radius: float) -> np.ndarray:
            return np.concatenate([toss.lowest(radius) for toss in late])

        def spread(radius: float) -> float:  # mostly the cube touches the table; heights without contact are cut off
            level = levels(radius)
            return float(np.mean(np.minimum(np.abs(level - np.median(level)), 3e-3)))

        radius = float(min(np.arange(0.0, 5e-3, 1e-4), key=spread))
        table = float(np.median(levels(radius)))
        # in flight x = x_0 + v_0 t + g t^2/2 - R r for the mass centre r: linear in x_0 and v_0 of all tosses, g and r
        rows, values = [], []
        for k, toss in enumerate(tosses):
            for i in range(RELEASE, toss.flight(table)):
                row, t = np.zeros((3, 6 + 6 * len(tosses))), i / RATE
                row[:, :3], row[:, 3:6] = 0.5 * t * t * np.eye(3), -toss.R[i]
                row[:, 6 + 6 * k : 9 + 6 * k], row[:, 9 + 6 * k : 12 + 6 * k] = np.eye(3), t * np.eye(3)
                rows.append(row)
                values.append(toss.x[i])
        found = np.linalg.lstsq(np.concatenate(rows), np.concatenate(values), rcond=None)[0]
        return cls(table, radius, found[:3], found[3:6])

    @property
    def corners(self) -> np.ndarray:
        """Centres of the rounded corners from the mass centre (8, 3)."""
        return (HALF - self.radius) * CORNERS - self.mass_centre

    def start(self, toss: Toss) -> State:
        """The ballistic motion through the samples of the flight, at its start."""
        n = toss.flight(self.table)
        t, attitudes = np.arange(n) / RATE, toss.R[:n]
        line = np.stack([np.ones(n), t], axis=1)
        fall = 0.5 * self.gravity * t[:, None] ** 2 + [0.0, 0.0, self.table]
        (x, v), *_ = np.linalg.lstsq(line, toss.x[:n] + attitudes @ self.mass_centre - fall, rcond=None)
        R, omega = attitudes[0], np.zeros(3)
        for _ in range(4):  # constant angular velocity: all moments are equal
            turned = np.stack(
                [so3.log((R @ so3.exp(omega * s)).T @ measured) for s, measured in zip(t, attitudes, strict=True)]
            )
            (turn, more), *_ = np.linalg.lstsq(line, turned, rcond=None)
            R, omega = R @ so3.exp(turn), omega + more
        return x, R, v, omega

    def place(self, x: np.ndarray, R: np.ndarray) -> np.ndarray:
        """Positions of the centre of the cube in the data from those of the mass centre above the table (n, 3)."""
        return x - R @ self.mass_centre + [0.0, 0.0, self.table]


class Engine(Protocol):
    """An engine with its free parameters."""

    ranges: ClassVar[Ranges]
    setup: Setup

    def predict(self, parameters: Mapping[str, float], tosses: Sequence[Toss]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Positions (n, 3) of the mass centre and attitudes (n, 3, 3) at the samples of every toss."""
        ...


def errors(engine: Engine, parameters: Mapping[str, float], tosses: Sequence[Toss]) -> np.ndarray:
    """Errors of position (m) and angle (rad), each the mean over a toss: (tosses, 2)."""
    found = []
    for toss, (x, R) in zip(tosses, engine.predict(parameters, tosses), strict=True):
        if len(x) < len(toss.x) or not np.isfinite(x).all():
            found.append((1.0, np.pi))  # the run failed
            continue
        cosine = 0.5 * (np.einsum("nij,nij->n", R, toss.R) - 1.0)
        away = np.linalg.norm(engine.setup.place(x, R) - toss.x, axis=1)
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

    substeps = SUBSTEPS

    def __init__(self, setup: Setup) -> None:
        self.setup = setup

    @cached_property
    def model(self) -> ht.Model:
        system = ht.System(gravity=self.setup.gravity, name="cube")
        named = {name: system.parameter(name, 1.0 if name == "moment" else 0.1) for name in self.ranges}
        moment = SOLID * named.pop("moment")
        inertia = ht.Inertia(MASS, moment_at_com=(moment, moment, moment))
        system.body("cube", joint=ht.Free(velocity="mixed"), inertia=inertia)
        system.ground()
        corners = ht.Points(self.setup.corners, radius=self.setup.radius)
        system.contact("cube", "ground", corners, **named, **self.fixed)
        return system.derive()

    fixed: ClassVar[Mapping[str, Any]] = {}

    def predict(self, parameters: Mapping[str, float], tosses: Sequence[Toss]) -> list[tuple[np.ndarray, np.ndarray]]:
        found: list[Any] = [None] * len(tosses)
        by_length = np.argsort([len(toss.x) for toss in tosses])
        for some in np.array_split(by_length, -(-len(tosses) // BATCH)):
            starts = [self.setup.start(tosses[k]) for k in some]
            longest = max(len(tosses[k].x) for k in some)
            run = ht.simulate(
                self.model,
                (
                    np.stack([np.concatenate([x, R.T.ravel()]) for x, R, _, _ in starts]),
                    np.stack([np.concatenate([v, omega]) for _, _, v, omega in starts]),
                ),
                until=(longest - 1) / RATE,
                step=1.0 / (RATE * self.substeps),
                integrator=self.integrator,
                parameters=dict(parameters),
                record_every=self.substeps,
            )
            x, R = run.q[:, :, :3], np.swapaxes(run.q[:, :, 3:].reshape(*run.q.shape[:2], 3, 3), 2, 3)
            for place, k in enumerate(some):
                samples = len(tosses[k].x)
                found[k] = (x[:samples, place], R[:samples, place])
        return found


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
    substeps = 8 * SUBSTEPS


class Mujoco:
    """Spheres in the corners on MuJoCo's plane: elliptic cone, spring and damper of the impact by ``solref``."""

    ranges: ClassVar[Ranges] = {
        "friction": (0.05, 0.6),
        "stiffness": (1e2, 1e5),
        "damping": (1.0, 1e3),
        "moment": MOMENT,
    }
    xml = """<mujoco><option timestep="{step}" gravity="{gravity}" cone="elliptic" impratio="10"/><worldbody>
    <geom name="table" type="plane" size="5 5 1"/><body><freejoint/><inertial pos="0 0 0" mass="{mass}" diaginertia="1 1 1"/>{corners}</body>
    </worldbody></mujoco>"""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup

    @cached_property
    def model(self) -> Any:
        import mujoco

        def text(values: np.ndarray) -> str:
            return " ".join(map(str, values.tolist()))

        size = max(self.setup.radius, 1e-4)
        corners = "".join(f'<geom type="sphere" size="{size}" pos="{text(corner)}"/>' for corner in self.setup.corners)
        step = 1.0 / (RATE * SUBSTEPS)
        return mujoco.MjModel.from_xml_string(
            self.xml.format(step=step, gravity=text(self.setup.gravity), mass=MASS, corners=corners)
        )

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
            x, R, v, omega = self.setup.start(toss)
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

    def __init__(self, setup: Setup) -> None:
        self.setup = setup

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
        for k, corner in enumerate(self.setup.corners):
            sphere = Sphere(self.setup.radius)
            plant.RegisterCollisionGeometry(cube, RigidTransform(corner), sphere, f"corner {k}", material)
        table = ProximityProperties()
        AddContactMaterial(0.0, 1e15, friction, table)
        plant.RegisterCollisionGeometry(plant.world_body(), RigidTransform(), HalfSpace(), "table", table)
        plant.mutable_gravity_field().set_gravity_vector(self.setup.gravity)
        plant.Finalize()
        simulator = Simulator(builder.Build())
        context = simulator.get_mutable_context()
        inner = plant.GetMyMutableContextFromRoot(context)
        found = []
        for toss in tosses:
            x, R, v, omega = self.setup.start(toss)
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
"""Known tosses, which the set-up and parameters are fitted on."""


def split(tosses: Sequence[Toss], seed: int = 0) -> tuple[list[Toss], list[Toss]]:
    """The known tosses, drawn with a seed, and the others."""
    chosen = set(np.random.default_rng(seed).choice(len(tosses), FITTED, replace=False).tolist())
    return [toss for k, toss in enumerate(tosses) if k in chosen], [
        toss for k, toss in enumerate(tosses) if k not in chosen
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description="Predict real tosses of a cube.")
    parser.add_argument("engines", nargs="*", default=list(ENGINES), help=", ".join(ENGINES))
    parser.add_argument("--data", type=Path, default=DATA, help="folder with tosses_even.npz")
    parser.add_argument("--trials", type=int, default=256, help="trials of the fit")
    parser.add_argument("--splits", type=int, default=5, help="draws of the known tosses")
    arguments = parser.parse_args()
    tosses = load(arguments.data)
    rows: dict[str, list[np.ndarray]] = {name: [] for name in arguments.engines}
    for seed in range(arguments.splits):
        known, others = split(tosses, seed)
        setup = Setup.of(known)
        for name in arguments.engines:
            engine, begin = ENGINES[name](setup), time.process_time()
            parameters = fit(engine, known, arguments.trials)
            found = [errors(engine, parameters, some) * [1e3, np.rad2deg(1.0)] for some in (known, others)]
            medians, means = ([f(some) for some in found] for f in (_median, _geometric_mean))
            rows[name].append(np.concatenate([medians[1], means[1]]))
            row: dict[str, Any] = {"engine": name, "split": seed}
            for k, what in enumerate(("known", "others")):
                row[what] = {
                    "median mm, deg": medians[k].round(2).tolist(),
                    "geometric mean": means[k].round(2).tolist(),
                }
            row["parameters"] = {key: float(f"{value:.4g}") for key, value in parameters.items()}
            row["processor s"] = round(time.process_time() - begin, 1)
            print(json.dumps(row), flush=True)
    for name, values in rows.items():
        mean, spread = np.mean(values, axis=0).round(2).tolist(), np.std(values, axis=0).round(2).tolist()
        print(json.dumps({"engine": name, "others, median mm, deg, geometric mean mm, deg": mean, "spread": spread}))


def _median(found: np.ndarray) -> np.ndarray:
    return np.median(found, axis=0)


def _geometric_mean(found: np.ndarray) -> np.ndarray:
    return np.exp(np.mean(np.log(found), axis=0))


if __name__ == "__main__":
    main()
