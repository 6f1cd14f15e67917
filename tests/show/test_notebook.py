"""Notebooks: overviews, inline pages, tables."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest

import heavytop as ht
from heavytop import control, library
from heavytop._format import Overview, matrix_latex
from heavytop.copters import fly, quadcopter


def pendulum_run(**options):
    return ht.simulate(library.pendulum().derive(), ([1.0], [0.0]), until=0.1, step=0.01, **options)


def hostile_system():
    system = ht.System(name="<b>&_%")
    system.body("rod", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=(0, 0, -1)))
    return system


def law():
    craft = quadcopter()
    return control.energy_law(craft.model, craft.prototype)


SHOWN = {
    "system": (hostile_system, "rod"),
    "model": (lambda: library.load("furuta").derive(), "q (2)"),
    "loops": (lambda: library.load("four-bars:1").derive(), r"\Phi(q)^T"),
    "run": (pendulum_run, "finished"),
    "law": (law, "inputs"),
    "inertia": (lambda: ht.Inertia(2.0, com=(0, 0, 0.5), moment_at_com=(1, 1, 1)), "mass"),
    "vehicle": (quadcopter, "kg"),
    "flight": (lambda: fly(quadcopter(), "hover", until=0.1), "position error max [m]"),
    "sweep": (lambda: ht.sweep(lambda x: {"double": 2 * x}, over={"x": [1.0, 2.0]}), "double"),
}


class Balanced(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.mark.parametrize("name", SHOWN)
def test_overviews(name):
    make, says = SHOWN[name]
    shown = make()
    html, latex = shown._repr_html_(), shown._repr_latex_()
    assert says in html
    parser = Balanced()
    parser.feed(html)
    assert parser.open == []
    assert latex.startswith("$")
    assert latex.endswith("$")
    assert latex.count("{") - latex.count(r"\{") == latex.count("}") - latex.count(r"\}")
    assert not re.search(r"(?<!\\)[%#]", latex)
    assert len(repr(shown)) < 300
    assert "object at" not in repr(shown)


def test_names_are_escaped():
    shown = hostile_system()
    assert "<b>" not in shown._repr_html_()
    assert r"<b>\&\_\%" in shown._repr_latex_()


def test_repr_of_an_inertia_evaluates_to_it():
    rod = ht.Inertia(2.0, com=(0, 0, 0.5), moment_at_com=(1, 1, 0.5))
    assert repr(rod) == "Inertia(mass=2, com=(0, 0, 0.5), moment_at_com=(1, 1, 0.5))"
    again = eval(repr(rod), {"Inertia": ht.Inertia})
    np.testing.assert_array_equal(again.moments, rod.moments)
    m = ht.System().parameter("m", 1.0)
    assert "mass=m" in repr(ht.Inertia(m))
    assert "m" in ht.Inertia(m)._repr_html_()


def test_matrix_of_numbers():
    assert matrix_latex(np.eye(1)) == r"\begin{bmatrix}1\end{bmatrix}"
    assert Overview("a", (), "x<y").html().endswith("$$\\displaystyle x&lt;y$$</div>")


@pytest.mark.thorough
def test_inline_pages(tmp_path):
    shown = pendulum_run().show()
    html = shown._repr_html_()
    assert html.startswith('<iframe srcdoc="')
    assert html.count("<") == 2  # everything inside is escaped
    assert shown.save(tmp_path / "run.html").read_text() == shown.html
    assert pendulum_run().show(tmp_path / "other.html").exists()
    flight = fly(quadcopter(), "hover", until=0.1)
    for other in (flight, ht.library.pendulum().derive()):
        assert other.show()._repr_html_().startswith('<iframe srcdoc="')
    sweep = ht.sweep(lambda x: {"double": 2 * x}, over={"x": [1.0, 2.0]})
    for write in (shown.save, flight.show, sweep.show):
        with pytest.raises(ht.errors.FileFormatError, match="must end with .html or .htm"):
            write(tmp_path / "x")


def test_completion_finds_public_names_only():
    assert not [name for name in dir(ht) if name.startswith("_") and not name.startswith("__")]
    assert {"simulate", "plan", "Free"} <= {*dir(ht)}
    assert {"double", "x", "rerun"} <= {*dir(ht.sweep(lambda x: {"double": 2 * x}, over={"x": [1.0]}))}
    with pytest.raises(AttributeError, match=r"has no attribute 'simluate'\. Did you mean 'simulate'\?"):
        ht.simluate  # noqa: B018


def test_tables():
    run = pendulum_run()
    table = run.to_dataframe()
    np.testing.assert_array_equal(table["theta.angle"], run.q[:, 0])
    np.testing.assert_array_equal(table.index, run.t)
    model = library.pendulum().derive()
    batch = ht.simulate(model, (np.array([[1.0], [2.0]]), np.zeros((2, 1))), until=0.1, step=0.01)
    table = batch.to_dataframe()
    assert table.index.names == ["trajectory", "time"]
    np.testing.assert_array_equal(table.loc[1]["theta.angle"], batch.q[:, 1, 0])
    assert table.attrs["units"]["kinetic_energy"] == "J"
