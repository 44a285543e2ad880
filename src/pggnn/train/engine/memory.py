"""Peak memory of this process, how much memory there is, and what of it is kept."""

import ctypes
import math
import os
import re
import sys
from contextlib import suppress
from pathlib import Path

import torch

KEPT = 2**30
"""Bytes of freed memory that a process keeps for its next tensors."""


def peak_memory() -> dict[str, float]:
    """Peak memory in MiB, 0 where unknown.

    ``ram`` includes libraries. ``gpu`` is what PyTorch reserved, without the context of CUDA, ``gpu_used`` what tensors
    took of that; with batches of many sizes it may be much less.
    """
    gpu = used = 0
    if torch.cuda.is_initialized():
        gpu, used = torch.cuda.max_memory_reserved(), torch.cuda.max_memory_allocated()
    return {"ram": _resident(), "gpu": gpu / 2**20, "gpu_used": used / 2**20}


def available() -> float:
    """Bytes of RAM that there are for all processes; infinity where unknown."""
    found = [math.inf]
    with suppress(OSError, ValueError, AttributeError):  # Windows
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    with suppress(OSError, ValueError):  # no container, or none with a limit: "max"
        found.append(int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return min(found)


def keep_freed_memory() -> None:
    """Has glibc keep up to :data:`KEPT` bytes of freed memory, where it is the C library. By default it gives large
    tensors back to the system at once, and a CPU spends a fifth of each step on fetching the same pages again."""
    with suppress(AttributeError, OSError, TypeError):  # other systems
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(-3, KEPT)  # M_MMAP_THRESHOLD
        mallopt(-1, KEPT)  # M_TRIM_THRESHOLD


def _resident() -> float:
    try:
        # resource's figure starts from the memory of the parent process
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
