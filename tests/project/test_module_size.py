"""One idea per module: none above 600 lines."""

from pathlib import Path

LIMIT = 600
PACKAGE = Path(__file__).parents[2] / "src" / "heavytop"


def test_no_module_is_too_long() -> None:
    lengths = {
        str(path.relative_to(PACKAGE)): len(path.read_text(encoding="utf-8").splitlines())
        for path in PACKAGE.rglob("*.py")
    }
    assert lengths, f"no module found below {PACKAGE}"
    assert {name: length for name, length in lengths.items() if length > LIMIT} == {}
