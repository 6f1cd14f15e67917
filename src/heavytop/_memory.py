"""Available memory: of the machine, of its container and of the limit of this process."""

from __future__ import annotations

import sys
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")
_CGROUP_FILES = (("memory.max", "memory.current"), ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"))


def available_memory() -> float:
    """Available memory in bytes.

    >>> available_memory() > 0
    True
    """
    import psutil

    bounds = [float(psutil.virtual_memory().available)]
    for limit, usage in _CGROUP_FILES:  # psutil reports the machine, not the container
        try:
            bounds.append(float((_CGROUP / limit).read_text()) - float((_CGROUP / usage).read_text()))
        except (OSError, ValueError):  # no such control group, or "max"
            continue
    if sys.platform != "win32":
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit != resource.RLIM_INFINITY:
            bounds.append(float(limit - psutil.Process().memory_info().vms))
    return max(min(bounds), 0.0)
