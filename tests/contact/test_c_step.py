"""Steps with rigid contact as C99: compiled by gcc and compared with the native run, through impacts, sliding, sticking and laws."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import heavytop as ht
from heavytop.errors import ModelError

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler")


def compiled(folder: Path) -> float:
    """Largest difference that the exported test prints; it must pass without a warning."""
    flags = "-std=c99 -Wall -Wextra -Werror -pedantic -O1 -ffp-contract=off"
    done = subprocess.run(
        ["make", "-C", str(folder), "test", f"CFLAGS={flags}"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    print(done.stdout)
    return float(done.stdout.split("largest difference ")[1].split()[0])


@pytest.mark.thorough
def test_a_box_lands_on_three_feet_and_comes_to_rest(tmp_path: Path) -> None:
    system = ht.System(name="box")
    mu = system.parameter("mu", 0.4)
    system.body("box", joint=ht.Free(), inertia=ht.Inertia.of(ht.Box((0.2, 0.3, 0.1)), density=200.0))
    system.ground(friction=mu)
    feet = ht.Points([(0.1, 0.0, -0.05), (-0.1, 0.1, -0.05), (-0.1, -0.1, -0.05)])
    system.contact("box", "ground", feet, restitution=0.3)
    model = system.derive()
    q, v = model.neutral(), np.array([0.3, 0.1, 0.0, 0.3, 0.4, 0.5])
    q[2] = 0.15
    ht.simulate.export_step(tmp_path, model, (q, v), 1e-3, parameters={"mu": 0.5}, steps=1000, name="box")
    assert compiled(tmp_path) < 1e-9


@pytest.mark.thorough
def test_a_law_that_reads_its_foot(tmp_path: Path) -> None:
    system = ht.System(name="leg")
    system.body("hull", joint=ht.Prismatic("z"), inertia=ht.Inertia(2.0))
    system.body("shank", parent="hull", joint=ht.Prismatic("z"), inertia=ht.Inertia(0.2))
    system.ground(friction=0.6)
    system.contact("shank", "ground", ht.Sphere(0.02), at=(0, 0, -0.5), name="foot")
    system.input("motor", ht.JointForce("shank"))

    def law(q, v, z, contacts):
        return {
            "u": -60 * q[1:] - 6 * v[1:] - 4.0 * z,
            "z_next": 0.9 * z + 0.1 * np.where(contacts[2:] > 0.5, 1.0, 0.0),
        }

    feedback = ht.Feedback(law, ("q", "v", "z", "contacts"), memory=np.zeros(1))
    ht.simulate.export_step(tmp_path, system.derive(), ([0.6, 0.0], [0.0, 0.0]), 1e-3, control=feedback, steps=600)
    assert compiled(tmp_path) < 1e-12


def test_other_integrators_inputs_and_mistakes(tmp_path: Path) -> None:
    model, start = ht.library.cart_pole().derive(), ([0.0, 0.3], [0.0, 0.0])
    ht.simulate.export_step(tmp_path / "a", model, start, 1e-2, integrator="rkmk4", name="cart")
    assert compiled(tmp_path / "a") < 1e-12
    for name in ("rkmk45", "energy_momentum", "variational"):
        with pytest.raises(ModelError, match=name):
            ht.simulate.export_step(tmp_path / "b", model, start, 1e-2, integrator=name)


def test_gains_of_a_law_are_part_of_the_start(tmp_path: Path) -> None:
    model = ht.library.cart_pole().derive()
    law = ht.Feedback(lambda q, v, gains: -gains["k"] * q[:1] - v[:1], ("q", "v", "gains"), gains={"k": 3.0})
    ht.simulate.export_step(tmp_path, model, ([1.0, 0.3], [0.0, 0.0]), 1e-2, integrator="rkmk4", control=law)
    assert compiled(tmp_path) < 1e-12
