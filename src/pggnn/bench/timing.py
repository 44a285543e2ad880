"""Time and memory on the GPU; on a machine without one the CPU's clock stands in, so that benchmarks can be tried."""

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

ON_GPU = torch.cuda.is_available()
DEVICE = "cuda" if ON_GPU else "cpu"
BUDGET = 0.6
"""Seconds for which a measurement is repeated, :data:`MOST_ROUNDS` times at most; what takes longer is run once."""
MOST_ROUNDS = 20
Figures = Iterator[tuple[str, str, float]]
"""What was measured, which quantity of it with its unit, and the value."""


def wait() -> None:
    """Until the GPU has done all it was told."""
    if ON_GPU:
        torch.cuda.synchronize()


def seconds(task: Callable[[], Any]) -> float:
    """How long one run of ``task`` takes from beginning to end, the GPU's work included."""
    wait()
    begin = time.perf_counter()
    task()
    wait()
    return time.perf_counter() - begin


def milliseconds(task: Callable[[], Any]) -> float:
    """What ``task`` takes on the GPU, the median over some rounds after a first that does not count."""
    task()
    once = seconds(task)
    if once > BUDGET:
        return 1e3 * once
    rounds = max(2, min(MOST_ROUNDS, int(BUDGET / once)))
    if not ON_GPU:
        return 1e3 * statistics.median(seconds(task) for _ in range(rounds))
    events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(rounds)]
    for begin, end in events:
        begin.record()
        task()
        end.record()
    wait()
    return statistics.median(begin.elapsed_time(end) for begin, end in events)


def peak_mebibytes(task: Callable[[], Any]) -> float:
    """All that lies on the GPU while ``task`` runs, at most."""
    if not ON_GPU:
        return float("nan")
    wait()
    torch.cuda.reset_peak_memory_stats()
    task()
    wait()
    return torch.cuda.max_memory_allocated() / 2**20


def extra_mebibytes(task: Callable[[], Any]) -> float:
    """What ``task`` takes at its peak beyond what was there before."""
    before = torch.cuda.memory_allocated() / 2**20
    return peak_mebibytes(task) - before


def autocast(precision: str = "bf16") -> torch.autocast:
    """The forward pass in bfloat16 where that is the precision."""
    return torch.autocast(DEVICE, torch.bfloat16, enabled=precision == "bf16")


def train(run: Callable[[], Tensor], leaves: list[Tensor], precision: str = "bf16") -> None:
    """Forward and backward, without an optimizer."""
    for leaf in leaves:
        leaf.grad = None
    with autocast(precision):
        out = run()
    out.float().sum().backward()


@contextmanager
def settings(deterministic: bool = False, precision: str = "bf16") -> Iterator[None]:
    """PyTorch's switches for repeatable results and TF32, set for a while."""
    before = torch.are_deterministic_algorithms_enabled()
    filled = torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    products = torch.get_float32_matmul_precision()
    torch.use_deterministic_algorithms(deterministic)
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)
        torch.utils.deterministic.fill_uninitialized_memory = filled  # type: ignore[attr-defined]
        torch.set_float32_matmul_precision(products)
