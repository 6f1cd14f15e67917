"""An edited program is another study, and the same program is the same study in every process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from processes import GUARD

import heavytop as ht
from heavytop.errors import SweepError

CASES: dict[str, str] = {
    "class attribute": "class P:\n    k = K\ndef f(x): return {'y': P.k * x}",
    "inherited class attribute": "class B:\n    k = K\nclass P(B): pass\ndef f(x): return {'y': P.k * x}",
    "attribute of an object": "class P: pass\np = P(); p.k = K\ndef f(x): return {'y': p.k * x}",
    "object in a class": (
        "class Q: pass\nq = Q(); q.k = K\nclass P:\n    inner = q\ndef f(x): return {'y': P.inner.k * x}"
    ),
    "list in a class": "class P:\n    ks = [K]\ndef f(x): return {'y': P.ks[0] * x}",
    "array in a class": (
        "import numpy as np\nclass P:\n    ks = np.array([0.0]*2000 + [K] + [0.0]*2000)\n"
        "def f(x): return {'y': P.ks[2000] * x}"
    ),
    "code of a method": "class P:\n    def m(self, x): return <K> * x\np = P()\ndef f(x): return {'y': p.m(x)}",
    "code of a callable": "class P:\n    def __call__(self, x): return {'y': <K> * x}\nf = P()",
    "slots": (
        "class P:\n    __slots__ = ('k',)\n    def __init__(self, k): self.k = k\np = P(K)\n"
        "def f(x): return {'y': p.k * x}"
    ),
    "property": "class P:\n    @property\n    def k(self): return <K>\np = P()\ndef f(x): return {'y': p.k * x}",
    "cached property": (
        "from functools import cached_property\nclass P:\n    @cached_property\n    def k(self): return <K>\n"
        "p = P()\ndef f(x): return {'y': p.k * x}"
    ),
    "staticmethod": "class P:\n    @staticmethod\n    def m(x): return <K> * x\ndef f(x): return {'y': P.m(x)}",
    "classmethod": "class P:\n    @classmethod\n    def m(cls, x): return <K> * x\ndef f(x): return {'y': P.m(x)}",
    "deque": "from collections import deque\nd = deque([K])\ndef f(x): return {'y': d[0] * x}",
    "poly1d": "import numpy as np\nd = np.poly1d([K, 0.0])\ndef f(x): return {'y': float(d(x))}",
    "polynomial": "import numpy as np\nd = np.polynomial.Polynomial([0.0, K])\ndef f(x): return {'y': float(d(x))}",
    "interp1d": (
        "from scipy.interpolate import interp1d\nd = interp1d([0, 10], [0, K])\ndef f(x): return {'y': float(d(x))}"
    ),
    "cubic spline": (
        "from scipy.interpolate import CubicSpline\nd = CubicSpline([0, 5, 10], [0, K, 1])\n"
        "def f(x): return {'y': float(d(x))}"
    ),
    "number": "k = K\ndef f(x): return {'y': k * x}",
    "list": "k = [K]\ndef f(x): return {'y': k[0] * x}",
    "dict": "k = {'a': K}\ndef f(x): return {'y': k['a'] * x}",
    "ordered dict": "from collections import OrderedDict\nk = OrderedDict(a=K)\ndef f(x): return {'y': k['a'] * x}",
    "set": "k = {K}\ndef f(x): return {'y': max(k) * x}",
    "array": "import numpy as np\nk = np.array([K])\ndef f(x): return {'y': float(k[0] * x)}",
    "default": "def f(x, k=K): return {'y': k * x}",
    "keyword default": "def f(x, *, k=K): return {'y': k * x}",
    "closure": "def g():\n    k = K\n    def f(x): return {'y': k * x}\n    return f\nf = g()",
    "partial": "from functools import partial\ndef g(x, k): return {'y': k * x}\nf = partial(g, k=K)",
    "helper": "def h(x): return <K> * x\ndef f(x): return {'y': h(x)}",
    "function in a function": "def h(x): return <K> * x\ndef f(x): return {'y': (lambda z: h(z))(x)}",
    "lru_cache": "from functools import lru_cache\n@lru_cache\ndef h(x): return <K> * x\ndef f(x): return {'y': h(x)}",
    "wraps": (
        "from functools import wraps\ndef deco(g):\n    @wraps(g)\n    def run(*a, **k): return g(*a, **k)\n"
        "    return run\n@deco\ndef f(x): return {'y': <K> * x}"
    ),
    "dataclass": (
        "from dataclasses import dataclass\n@dataclass\nclass P:\n    k: float\np = P(K)\n"
        "def f(x): return {'y': p.k * x}"
    ),
    "dataclass method": (
        "from dataclasses import dataclass\n@dataclass\nclass P:\n    k: float\n    def m(self, x): return <K> * x\n"
        "p = P(1.0)\ndef f(x): return {'y': p.m(x)}"
    ),
    "frozen slots dataclass": (
        "from dataclasses import dataclass\n@dataclass(slots=True, frozen=True)\nclass P:\n    k: float\np = P(K)\n"
        "def f(x): return {'y': p.k * x}"
    ),
    "named tuple": (
        "from collections import namedtuple\nP = namedtuple('P', 'k')\np = P(K)\ndef f(x): return {'y': p.k * x}"
    ),
    "typed named tuple method": (
        "from typing import NamedTuple\nclass P(NamedTuple):\n    k: float = 1.0\n"
        "    def m(self, x): return <K> * x\np = P()\ndef f(x): return {'y': p.m(x)}"
    ),
    "enum": "from enum import Enum\nclass P(Enum):\n    a = K\ndef f(x): return {'y': P.a.value * x}",
    "enum member": "from enum import Enum\nclass P(Enum):\n    a = K\np = P.a\ndef f(x): return {'y': p.value * x}",
    "simple namespace": "from types import SimpleNamespace\np = SimpleNamespace(k=K)\ndef f(x): return {'y': p.k * x}",
    "generator": "import numpy as np\nr = np.random.default_rng(int(K))\ndef f(x): return {'y': r.random() * x}",
    "data frame": "import pandas\nd = pandas.DataFrame({'a': [K]})\ndef f(x): return {'y': float(d.a[0] * x)}",
    "data array": "import xarray\nd = xarray.DataArray([K], dims='t')\ndef f(x): return {'y': float(d[0] * x)}",
    "dataset": "import xarray\nd = xarray.Dataset({'a': ('t', [K])})\ndef f(x): return {'y': float(d.a[0] * x)}",
    "own module": (
        "import types\nhelpers = types.ModuleType('helpers'); helpers.k = K\ndef f(x): return {'y': helpers.k * x}"
    ),
    "path": "from pathlib import Path\np = Path(f'/{K}')\ndef f(x): return {'y': float(p.name) * x}",
    "fraction": "from fractions import Fraction\np = Fraction(int(K))\ndef f(x): return {'y': float(p) * x}",
    "decimal": "from decimal import Decimal\np = Decimal(int(K))\ndef f(x): return {'y': float(p) * x}",
    "datetime": (
        "from datetime import timedelta\np = timedelta(seconds=K)\ndef f(x): return {'y': p.total_seconds() * x}"
    ),
    "defaultdict": (
        "from collections import defaultdict\nd = defaultdict(float); d['a'] = K\ndef f(x): return {'y': d['a'] * x}"
    ),
    "nested class": "class P:\n    class Q:\n        k = K\ndef f(x): return {'y': P.Q.k * x}",
    "method of an instance": (
        "class P:\n    def __init__(self, k): self.k = k\n    def m(self, x): return {'y': self.k * x}\nf = P(K).m"
    ),
    "slots with dict parent": (
        "class B: pass\nclass P(B):\n    __slots__ = ('k',)\np = P(); p.k = K\ndef f(x): return {'y': p.k * x}"
    ),
    "lambda in a list": "fs = [lambda x: <K> * x]\ndef f(x): return {'y': fs[0](x)}",
    "recursive": "def h(x): return <K> if x < 1 else h(x - 1)\ndef f(x): return {'y': h(x)}",
    "list subclass": "class L(list): pass\nl = L([K])\ndef f(x): return {'y': l[0] * x}",
    "dict subclass attribute": "class L(dict): pass\nl = L(); l.k = K\ndef f(x): return {'y': l.k * x}",
    "float subclass attribute": "class L(float): pass\nl = L(1.0); l.k = K\ndef f(x): return {'y': l.k * x}",
    "descriptor": (
        "class D:\n    def __init__(self, k): self.k = k\n    def __get__(self, o, t): return self.k\nclass P:\n"
        "    k = D(K)\ndef f(x): return {'y': P().k * x}"
    ),
    "metaclass": (
        "class M(type):\n    @property\n    def k(cls): return <K>\nclass P(metaclass=M): pass\n"
        "def f(x): return {'y': P.k * x}"
    ),
    "partialmethod": (
        "from functools import partialmethod\nclass P:\n    def m(self, x, k): return k * x\n"
        "    n = partialmethod(m, k=K)\np = P()\ndef f(x): return {'y': p.n(x)}"
    ),
    "singledispatch": (
        "from functools import singledispatch\n@singledispatch\ndef h(x): return 0.0\n@h.register\n"
        "def _(x: float): return <K> * x\ndef f(x): return {'y': h(x)}"
    ),
    "method of a dict": "get = {'a': K}.get\ndef f(x): return {'y': get('a') * x}",
    "method of an array": "import numpy as np\ndot = np.array([K]).dot\ndef f(x): return {'y': float(dot([x]))}",
    "regular expression": "import re\np = re.compile(str(K))\ndef f(x): return {'y': x if p.match('1.0') else 0.0}",
    "array subclass attribute": (
        "import numpy as np\nclass A(np.ndarray): pass\na = np.zeros(1).view(A); a.k = K\ndef f(x): return {'y': a.k * x}"
    ),
    "global by text": "k = K\ndef f(x): return {'y': globals()['k'] * x}",
    "attribute of a module by text": (
        "import types\nhelpers = types.ModuleType('helpers'); helpers.k = K\n"
        "def f(x): return {'y': getattr(helpers, 'k') * x}"
    ),
    "dict with attributes": (
        "class A(dict): __getattr__ = dict.__getitem__\na = A(k=K)\ndef f(x): return {'y': a.k * x}"
    ),
    "every attribute": "class A:\n    def __getattr__(self, name): return <K>\na = A()\ndef f(x): return {'y': a.k * x}",
}
"""Programs with a function ``f`` of one point. ``K`` is a variable, <K> a literal: both stand for an edit."""


HIDDEN = {
    "frompyfunc": "import numpy as np\nu = np.frompyfunc(lambda x: <K> * x, 1, 1)\ndef f(x): return {'y': float(u(x))}",
    "generator expression": "g = (k for k in [K])\ndef f(x): return {'y': next(g) * x}",
}
"""Programs with code that Python does not show."""


def lines_of(name: str, k: float) -> tuple[str, ...]:
    """The study of the function of a program."""
    module = ModuleType("program")
    module.K = k  # pyright: ignore
    sys.modules["program"] = module
    try:
        exec(compile((CASES | HIDDEN)[name].replace("<K>", repr(k)), "/home/user/program.py", "exec"), vars(module))
        return ht.sweep.make_study(module.f, {"x": [3.0]}).lines
    finally:
        del sys.modules["program"]


@pytest.mark.parametrize("name", CASES)
def test_an_edit_makes_another_study(name: str) -> None:
    first = lines_of(name, 1.0)
    assert lines_of(name, 1.0) == first
    assert lines_of(name, 2.0) != first


@pytest.mark.parametrize("name", HIDDEN)
def test_hidden_code_is_never_the_same_study(name: str) -> None:
    assert lines_of(name, 1.0) != lines_of(name, 1.0)


def test_calls_do_not_make_another_study() -> None:
    """Neither caches of functions nor cached properties count."""
    from functools import cached_property, lru_cache

    class Plant:
        def __init__(self, k: float) -> None:
            self.k = k

        @cached_property
        def double(self) -> float:
            return 2 * self.k

    @lru_cache
    def helper(x: float) -> float:
        return x + 1

    plant = Plant(2.0)

    def point(x: float) -> dict[str, float]:
        return {"y": plant.double * helper(x)}

    first = ht.sweep.make_study(point, {"x": [3.0]}).lines
    point(3.0)
    assert ht.sweep.make_study(point, {"x": [3.0]}).lines == first


def test_comments_and_docstrings_do_not_make_another_study(tmp_path: Path) -> None:
    texts = (
        "def f(x):\n    return {'y': x}",
        'def f(x):\n    """Explained."""\n    # at length\n    return {\'y\': x}',
    )
    found = []
    for text in texts:
        namespace: dict[str, Any] = {"__name__": "program"}
        exec(text, namespace)
        found.append(ht.sweep.make_study(namespace["f"], {"x": [3.0]}).lines)
    assert found[0] == found[1]


@pytest.mark.thorough
def test_the_same_program_is_the_same_study_in_every_process() -> None:
    """Sets have another order in every process."""
    code = "import json; from sweep.test_stale_stores import *; print(json.dumps({n: lines_of(n, 1.0) for n in CASES}))"
    here = Path(__file__).parents[1]
    paths = os.pathsep.join([str(here.parent / "src"), str(here)])

    def elsewhere(seed: str) -> Any:
        variables = {**os.environ, "PYTHONPATH": paths, "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", code], env=variables, capture_output=True, text=True, timeout=GUARD, check=True
        )
        return json.loads(done.stdout.splitlines()[-1])

    assert elsewhere("1") == elsewhere("2")


PROGRAM = """
import sys
import numpy as np
import heavytop as ht
K = float(sys.argv[1])
class Plant:
    k = K
plant = Plant(); plant.j = K
table = np.poly1d([K, 0.0])
def f(x): return {"a": Plant.k * x, "b": plant.j * x, "c": float(table(x))}
if __name__ == "__main__":
    result = ht.sweep(f, over={"x": [3.0]}, store=sys.argv[2])
    print(*(result.data[n].values[0] for n in "abc"))
"""


@pytest.mark.thorough
def test_a_store_is_not_used_for_an_edited_program(tmp_path: Path) -> None:
    pytest.importorskip("zarr")
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(PROGRAM))

    def run(k: int) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(path), str(k), str(tmp_path / "store.zarr")]
        return subprocess.run(command, capture_output=True, text=True, timeout=GUARD, check=False)

    assert run(1).stdout.split() == run(1).stdout.split() == ["3.0", "3.0", "3.0"]
    assert "was made for another study" in run(2).stderr


def test_a_store_of_another_version_is_rejected(tmp_path: Path) -> None:
    pytest.importorskip("zarr")
    point: Callable[[float], dict[str, float]] = lambda x: {"y": x}  # noqa: E731
    store = tmp_path / "old.zarr"
    ht.sweep(point, {"x": [1.0]}, store=store)
    file = store / "zarr.json"
    file.write_text(file.read_text().replace("heavytop sweep 2", "heavytop sweep 1"))
    for use in (ht.sweep.open_result, lambda path: ht.sweep(point, {"x": [1.0]}, store=path)):
        with pytest.raises(SweepError, match="another version of heavytop.*'heavytop sweep 1'.*'heavytop sweep 2'"):
            use(store)
