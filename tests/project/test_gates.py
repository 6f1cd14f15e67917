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


def test_a_missing_argument_is_not_told_as_an_unknown_keyword() -> None:
    with pytest.raises(ArgumentError, match="missing 1 required") as caught:
        ht.control.lqr(reference=[0.0, 0.0])
    assert "Accepted" not in str(caught.value)
