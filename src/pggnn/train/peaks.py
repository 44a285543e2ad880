"""The most memory that this process has taken."""

import re
import sys
from pathlib import Path

import torch


def peaks() -> dict[str, float]:
    """MiB of RAM, libraries included, and of the GPU as PyTorch reserved it, without its context; 0 where unknown."""
    gpu = torch.cuda.max_memory_reserved() / 2**20 if torch.cuda.is_initialized() else 0.0
    return {"ram": _resident(), "gpu": gpu}


def _resident() -> float:
    try:
        # What resource tells of begins with the memory of the process that started this one.
        found = re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())
    except OSError:  # not Linux
        found = None
    if found is not None:
        return int(found[1]) / 1024
    try:
        import resource
    except ImportError:  # Windows
        return 0.0
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20
