"""Native code compiled by tests stays in the checkout, and random examples are the same in every run.

``HYPOTHESIS_PROFILE=explore`` draws new examples instead.
"""

import os
from pathlib import Path

from hypothesis import settings

collect_ignore = ["tests/doubles"]  # programs that tests start

os.environ.setdefault(
    "OPENBLAS_NUM_THREADS", "1"
)  # small matrices: waiting threads of BLAS slow the other workers down
os.environ.setdefault("HEAVYTOP_CACHE", str(Path(__file__).parent / ".pytest_cache" / "kernels"))
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))
