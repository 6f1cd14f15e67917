"""Mutated studies of sweeps and plans, damaged recipes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from campaign.mutations import damaged, revalued
from campaign.test_damage import survive

import heavytop as ht
from heavytop.errors import HeavytopError
from heavytop.io.recipe import load_recipe, save_recipe
from heavytop.plan.study import read_study as read_plan
from heavytop.sweep.study_file import load_study

SWEEPS = [
    """title = "falls"
system = "pendulum"
draws = 4
seed = 1
chunk = 8
[options]
until = 0.05
step = 0.01
integrator = "rkmk4"
record_every = 2
start = [[0.5], [0.0]]
parameters = { l = 1.0 }
[over]
"theta.angle" = { uniform = [-3.0, 3.0] }
g = { from = 1.6, to = 9.81, count = 3 }
m = [1.0, 2.0]
[measure]
last = "theta.angle"
worst = { of = "theta.angle", take = "max" }
""",
    """vehicle = "quadcopter"
draws = 2
[options]
maneuver = "hover"
until = 0.05
step = 0.005
[over]
law = ["energy", "body"]
delay = { from = 0.0, to = 0.1, count = 2 }
tilt = { normal = [0.0, 3.0] }
[measure]
miss = "position_error"
worst = { of = "position_error", take = "max" }
""",
]
PLANS = [
    """system = "quadcopter"
steps = 20
duration = "free"
limits = [0.0, 7.0]
rates = [-90.0, 90.0]
reserve = 0.1
cost = { time = 1.0, effort = 1e-4 }
guesses = 2
tolerance = 1e-4
[start]
position = [0.0, 0.0, 1.0]
[goal]
position = [12.0, 0.0, 1.0]
[[gate]]
frame = "hull"
at = [3.0, 2.0, 1.0]
[[keep_out]]
center = [1.0, 1.0, 1.0]
radius = 0.5
frame = "hull"
[[box]]
lower = [-1.0, -9.0, 0.0]
upper = [20.0, 9.0, 3.0]
frame = "hull"
[[half_space]]
normal = [0.0, 0.0, 1.0]
distance = -1.0
frame = "hull"
[[cone]]
frame = "hull"
degrees = 60
[[between]]
name = "hull.v_x"
lower = -3.0
upper = 9.0
""",
    """system = "cart-pole"
duration = [0.5, 2.0]
limits = { F = [-20.0, 20.0], "x.x" = [-2.0, 2.0] }
cost = { effort = 1.0, speed = 0.1 }
[goal]
q = [0.0, 3.14]
v = [0.0, 0.0]
""",
]


@pytest.mark.parametrize("kind", ["sweep", "plan"])
def test_studies(kind: str, tmp_path: Path, record, size) -> None:
    tries = size(500, 20)
    texts, load = (SWEEPS, lambda p: load_study(p).check()) if kind == "sweep" else (PLANS, read_plan)
    for text in texts:  # without a mutation they are studies
        (tmp_path / "study.toml").write_text(text)
        load(tmp_path / "study.toml")
    path = tmp_path / "study.toml"
    part = size(100, 5)  # what stays TOML goes deeper, and delays of hundreds of samples take their time
    failures = [*survive(load, path, texts, tries, 7), *survive(load, path, texts, part, 8, revalued)]
    record("mutated studies of sweeps and plans", tries + part, failures)


DONE = [
    """system = "pendulum"
draws = 4
chunk = 8
[options]
until = 0.05
step = 0.01
[over]
"theta.angle" = { uniform = [-3.0, 3.0] }
g = [1.6, 9.81]
[measure]
last = "theta.angle"
worst = { of = "theta.angle", take = "max" }
""",
    """system = "cart-pole"
steps = 8
duration = [0.5, 2.0]
tolerance = 0.5
reserve = 0.1
limits = { F = [-40.0, 40.0], "x.x" = [-2.0, 2.0] }
rates = [-900.0, 900.0]
cost = { effort = 1.0, time = 0.1 }
[start]
q = [0.0, 0.0]
[goal]
q = [0.1, 0.2]
v = [0.0, 0.0]
""",
]


@pytest.mark.parametrize("kind", ["sweep", "plan"])
def test_studies_that_are_done(kind: str, tmp_path: Path, record, size) -> None:
    """What is read without a word is also done, or refused with one."""
    text, tries = DONE[kind == "plan"], size(100, 4)

    def do(path: Path) -> object:
        return (
            ht.sweep.run_study(load_study(path).study, progress=False)
            if kind == "sweep"
            else read_plan(path).plan(iterations=20)
        )

    (tmp_path / "study.toml").write_text(text)
    do(tmp_path / "study.toml")
    path = tmp_path / "study.toml"
    failures = [*survive(do, path, [text], tries, 11), *survive(do, path, [text], 4 * tries, 12, revalued)]
    record("mutated studies that are done", 5 * tries, failures)


@pytest.mark.parametrize("kind", ["system", "plan"])
def test_recipes(kind: str, tmp_path: Path, record, size) -> None:
    """A damaged recipe crashed the process: neither pickle nor CasADi survives every byte."""
    if kind == "plan":
        ht.plan.problems.swing_up_cart_pole(steps=10).plan(tolerance=0.1).save(tmp_path / "top.recipe")
    else:
        save_recipe(ht.library.load("heavy-top"), tmp_path / "top.recipe")
    content = (tmp_path / "top.recipe").read_bytes()
    rng, failures, tries = np.random.default_rng(0), [], size(500 if kind == "system" else 200, 40)
    load = load_recipe if kind == "system" else ht.plan.Plan.load
    load(tmp_path / "top.recipe", trust=True)
    for k in range(tries):
        changed = damaged(content, rng)
        (tmp_path / "damaged.recipe").write_bytes(changed)
        try:
            load(tmp_path / "damaged.recipe", trust=True)
            if changed != content:
                failures.append(f"try {k}: loaded")
        except HeavytopError:
            pass
        except BaseException as error:
            failures.append(f"try {k}: {error!r}")
    record("damaged recipes", tries, failures)
