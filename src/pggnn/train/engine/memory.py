"""The most memory that this process has taken, and how much there is."""

import math
import os
import re
import sys
from contextlib import suppress
from pathlib import Path

import torch


def peak_memory() -> dict[str, float]:
    """MiB of RAM, libraries included, and of the GPU as PyTorch reserved it, without its context, and as tensors used
    it: of what is reserved for batches of many sizes much may lie idle. 0 where unknown."""
    gpu = used = 0
    if torch.cuda.is_initialized():
        gpu, used = torch.cuda.max_memory_reserved(), torch.cuda.max_memory_allocated()
    return {"ram": _resident(), "gpu": gpu / 2**20, "gpu_used": used / 2**20}


def available() -> float:
    """Bytes of RAM that processes here may have in all; infinity where unknown."""
    found = [math.inf]
    with suppress(OSError, ValueError, AttributeError):  # Windows
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    with suppress(OSError, ValueError):  # no container, or none with a limit: "max"
        found.append(int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return min(found)


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
