"""The linear-quadratic regulator as C, and descriptions of arrays in exported laws."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from processes import GUARD

import heavytop as ht
from heavytop import control
from heavytop.control import Prototype
from heavytop.errors import ControlError

needs_compiler = pytest.mark.skipif(shutil.which("make") is None or shutil.which("cc") is None, reason="needs make, cc")


def made(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["make", "-C", str(folder), "test", "CC=cc"], capture_output=True, text=True, timeout=GUARD)


@pytest.fixture(scope="module")
def cart() -> ht.Model:
    return ht.library.cart_pole().derive()


@needs_compiler
def test_a_regulator_at_a_set_point_as_c(cart: ht.Model, tmp_path: Path) -> None:
    law = control.lqr(cart, [0.3, 0.0], limits=(-15.0, 15.0))
    law.export_c(tmp_path)
    header, source = (tmp_path / "lqr.h").read_text(), tmp_path / "lqr.c"
    assert "q 2, v 2 -> u 1;" in header
    assert "q: x.x [m], theta.angle [rad]\n" in header
    done = made(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    changed = re.sub(r"\b15\.0", "14.0", source.read_text())
    assert changed != source.read_text()
    source.write_text(changed)
    assert made(tmp_path).returncode != 0  # a changed limit is detected


@pytest.mark.thorough
@needs_compiler
def test_along_a_motion_reference_and_gains_are_arguments(cart: ht.Model, tmp_path: Path) -> None:
    plan = ht.plan(cart, [0, 0], [0.5, 0], 1.5, limits=(-20, 20), steps=20, tolerance=1e-4)
    law = control.lqr(cart, plan.reference, inputs=plan.inputs, step=0.05)
    law.export_c(tmp_path, name="along")
    assert "q 2, v 2, q_R 2, v_R 2, u_R 1, K 4 -> u 1;" in (tmp_path / "along.h").read_text()
    done = made(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_export_controller_names_the_export_of_the_regulator(cart: ht.Model, tmp_path: Path) -> None:
    with pytest.raises(ControlError, match=r"controller\.export_c\(folder\)"):
        control.export_controller(control.lqr(cart, [0.0, 0.0]), tmp_path, 0.01)


@pytest.mark.thorough
def test_the_exported_law_describes_its_arrays(cart: ht.Model, tmp_path: Path) -> None:
    law = control.energy_law(cart, Prototype.for_model(cart, [0.0, 0.0], weights=control.Weights()))
    law.export_c(tmp_path)
    readme, header = (tmp_path / "README.md").read_text(), (tmp_path / "energy_law.h").read_text()
    assert "void energy_law(" in header  # named as its file
    pairs = list(zip(cart.parameter_names, cart.parameter_vector(), strict=True))
    assert f"p: {', '.join(f'{n} = {x:.12g}' for n, x in pairs)}\n" in header
    assert f"Nominal values of `p`: {', '.join(f'`{n}` = {x:.12g}' for n, x in pairs)}." in readme
    assert re.search(r"\benergy_law\(", header)
    units = {"q_R": ("m", "rad"), "v": ("m/s", "rad/s"), "a_R": ("m/s^2", "rad/s^2"), "u": ("N",)}
    rates = tuple(f"d/dt {n}" for n in cart.v_names)
    for label, entries in (("q_R", cart.q_names), ("v", cart.v_names), ("a_R", rates), ("u", cart.u_names)):
        names = [f"{n} [{unit}]" for n, unit in zip(entries, units[label], strict=True)]
        assert f"| `{label}` | {', '.join(f'`{n}`' for n in names)} |" in readme
        assert f" {label}: {', '.join(names)}\n" in header
