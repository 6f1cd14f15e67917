"""Every package that offers names to users ends with the gate that types the errors they may meet."""

from pathlib import Path

import pytest

import heavytop as ht
from heavytop.errors import ArgumentError

PACKAGE = Path(__file__).parents[2] / "src" / "heavytop"
WITHOUT = {"cli", "bench"}  # commands, which report errors themselves
PACKAGES = sorted(p.parent.name for p in PACKAGE.glob("*/__init__.py") if p.parent.name not in WITHOUT)


@pytest.mark.parametrize("name", PACKAGES)
def test_the_package_is_gated(name: str) -> None:
    text = (PACKAGE / name / "__init__.py").read_text(encoding="utf-8")
    offered = [line for line in text.splitlines() if " as " in line and "as _" not in line]
    assert not offered or "\n_gate(__name__" in text


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            lambda m: ht.control.lqr(m, [0.0, 0.0], weights=1.0),
            "'weights'. Did you mean 'cost'? Accepted: model, reference, cost, inputs",
        ),
        (lambda m: ht.control.mpc(m, state={}), "'state'. Did you mean 'states'? Accepted: model, reference, "),
        (lambda m: m.mass_matrix([0.0, 0.0], parameter={}), "Did you mean 'parameters'? Accepted: q, parameters."),
        (lambda m: m.neutral(q=0), "Accepted: no keyword."),
    ],
)
def test_an_unknown_keyword_is_told_with_those_that_are_accepted(wrong, message) -> None:
    with pytest.raises(ArgumentError, match="unexpected keyword argument") as caught:
        wrong(ht.library.cart_pole().derive())
    assert message in str(caught.value)


def test_a_name_in_place_of_a_vehicle_is_told_how_one_is_made() -> None:
    with pytest.raises(
        ArgumentError, match=r"must be of class Vehicle, got 'own.toml'. ht.copters.load\(NAME or FILE.toml\) makes"
    ):
        ht.copters.fly("own.toml")  # type: ignore[arg-type]


def test_a_missing_argument_is_not_told_as_an_unknown_keyword() -> None:
    with pytest.raises(ArgumentError, match="missing 1 required") as caught:
        ht.control.lqr(reference=[0.0, 0.0])
    assert "Accepted" not in str(caught.value)


@pytest.mark.parametrize(
    ("wrong", "told", "untold"),
    [
        (
            lambda m: m.jacobian("pole", [0.0, 0.0]),
            "missing 1 required positional argument: 'q'. It takes (a, b, q, parameters=None). Given: a='pole', b=[0.0, 0.0].",
            "Answers.jacobian()",
        ),
        (lambda m: m.mass_matrix(), "It takes (q, parameters=None). Given: nothing.", "Given: Model"),
        (lambda m: ht.Inertia(), "It takes (mass, com=(0.0, 0.0, 0.0), moment_at_com=", "do not fit"),
        (
            lambda m: ht.System().body("rod", ht.Fixed()),
            "It takes (name, *, parent='world', at=None, joint=None, inertia=None). Given: name='rod', ",
            "Given: System",
        ),
    ],
)
def test_a_call_with_too_few_or_too_many_arguments_is_told_with_what_it_takes(wrong, told, untold) -> None:
    with pytest.raises(ArgumentError) as caught:
        wrong(ht.library.cart_pole().derive())
    assert told in str(caught.value)
    assert untold not in str(caught.value)
