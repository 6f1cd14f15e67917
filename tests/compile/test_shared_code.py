"""Functions with equal code but other shapes share the code, not the shapes."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from heavytop.compile import Cache, Kernel, trace


def test_shapes_belong_to_the_fingerprint(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    flat = trace(lambda x: 2 * x, {"x": (4,)}, name="double")
    square = trace(lambda x: np.reshape(2 * x, (2, 2)), {"x": (4,)}, name="double")
    for fingerprint, traced in (("flat", flat), ("square", square)):
        Kernel(traced, fingerprint=fingerprint, cache=cache)
    for fingerprint, shape in (("flat", (4,)), ("square", (2, 2))):
        kernel = Kernel.from_cache(fingerprint, cache=cache)
        assert kernel is not None
        assert kernel([1.0, 2.0, 3.0, 4.0])[0].shape == shape
