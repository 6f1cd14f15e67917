"""Native code compiled by tests stays in the checkout, not in the cache folder of the user."""

import os
from pathlib import Path

os.environ.setdefault("HEAVYTOP_CACHE", str(Path(__file__).parent / ".pytest_cache" / "kernels"))
