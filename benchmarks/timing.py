"""Time and memory of a task. Without a GPU the CPU's clock is used, so that GPU benchmarks can be tried anywhere."""

import ctypes
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

ON_GPU = torch.cuda.is_available()
DEVICE = "cuda" if ON_GPU else "cpu"
BUDGET = 0.6
"""Seconds for which a task is repeated, :data:`MOST_ROUNDS` times at most. A task that takes longer is timed once."""
MOST_ROUNDS = 20
CLEAR_REFS = Path("/proc/self/clear_refs")
Task = Callable[[], Any]
Figures = Iterator[tuple[str, str, float]]
"""The case, the quantity with its unit, and the value."""


def wait() -> None:
    """Until the GPU has finished its work."""
    if ON_GPU:
        torch.cuda.synchronize()


def seconds(task: Task) -> float:
    """One run from beginning to end, the GPU's work included."""
    wait()
    begin = time.perf_counter()
    task()
    wait()
    return time.perf_counter() - begin


def milliseconds(task: Task, on_gpu: bool = ON_GPU) -> float:
    """Median of several runs after a first one; by the GPU's clock unless ``on_gpu`` is false."""
    task()
    once = seconds(task)
    if once > BUDGET:
        return 1e3 * once
    rounds = max(2, min(MOST_ROUNDS, int(BUDGET / once)))
    if not on_gpu:
        return 1e3 * statistics.median(seconds(task) for _ in range(rounds))
    events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(rounds)]
    for begin, end in events:
        begin.record()
        task()
        end.record()
    wait()
    return statistics.median(begin.elapsed_time(end) for begin, end in events)


def in_turns(tasks: dict[str, Task], rounds: int, runs: int = 4) -> dict[str, float]:
    """Median milliseconds of each task. Tasks take turns, so that other load on the machine slows all of them."""
    times: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(rounds):
        for name, task in tasks.items():
            task()
            times[name] += [1e3 * seconds(task) for _ in range(runs)]
    return {name: statistics.median(values) for name, values in times.items()}


def passes(run: Callable[[], Tensor], leaves: list[Tensor], precision: str = "bf16") -> dict[str, Task]:
    """The forward pass, and training: forward and backward, without an optimizer."""

    def forward() -> None:
        with autocast(precision), torch.no_grad():
            run()

    def training() -> None:
        for leaf in leaves:
            leaf.grad = None
        with autocast(precision):
            out = run()
        out.float().sum().backward()

    return {"forward": forward, "training": training}


def autocast(precision: str = "bf16") -> torch.autocast:
    """The forward pass in bfloat16, if that is the precision."""
    return torch.autocast(DEVICE, torch.bfloat16, enabled=precision == "bf16")


def gpu_peak(task: Task, extra: bool = True) -> float:
    """MiB allocated on the GPU at the peak of a task; ``extra``: beyond what was allocated before."""
    if not ON_GPU:
        return float("nan")
    wait()
    before = torch.cuda.memory_allocated() if extra else 0
    torch.cuda.reset_peak_memory_stats()
    task()
    wait()
    return (torch.cuda.max_memory_allocated() - before) / 2**20


def peak_memory(task: Task) -> int:
    """Bytes by which a task raises this process's resident memory at its peak (Linux)."""
    if not CLEAR_REFS.exists():
        raise OSError("peak memory is read from /proc, which only Linux has")

    def resident(field: str) -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(field))

    with suppress(AttributeError):  # another C library than glibc
        ctypes.CDLL(None).malloc_trim(0)  # a training may have had it keep freed memory
    CLEAR_REFS.write_text("5")  # resets the peak to what is resident now
    before = resident("VmRSS")
    task()
    return resident("VmHWM") - before


@contextmanager
def settings(deterministic: bool = False, precision: str = "bf16") -> Iterator[None]:
    """PyTorch's switches for repeatable results and TF32; put back at the end."""

    def switch(deterministic: bool, filled: bool, products: str) -> None:
        torch.use_deterministic_algorithms(deterministic)
        torch.utils.deterministic.fill_uninitialized_memory = filled  # type: ignore[attr-defined]
        torch.set_float32_matmul_precision(products)

    filled = torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    before = torch.are_deterministic_algorithms_enabled(), filled, torch.get_float32_matmul_precision()
    switch(deterministic, False, "high" if precision == "tf32" else "highest")
    try:
        yield
    finally:
        switch(*before)
