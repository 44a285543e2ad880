"""Table 1: what a layer costs as degrees grow, measured in both of the paper's modes, with fitted exponents."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from math import log
from pathlib import Path

import torch
from torch import Tensor
from torch_geometric.nn import GINConv

from pggnn.console import tracked
from pggnn.files import markdown_table, write_json, write_text
from pggnn.nn import PGConv
from pggnn.orderings import Reading
from pggnn.plan import Plan

NODES, CHANNELS = 64, 64
DEGREES = (8, 12, 16, 24, 32, 48, 63)
FITTED = 16
"""Degrees from here on have a part in the exponents."""
REPEATS, SECONDS = 5, 1.0
"""Each figure is the least of so many runs, or of as many as so much time allows, but of one at least."""
STATE_BYTES = 80
"""Bytes for each channel of a step: the LSTM's states and gates, and what computing them takes."""


@dataclass(frozen=True)
class Mode:
    """A layer as it is run, and the orders that the paper gives it."""

    memory: str
    time: str
    memory_exponent: float
    """Of the degree, in the paper's order."""
    time_exponent: float
    at_once: Callable[[int], int] | None = None
    """Sequences that are read at once, given the degree; None for a layer without sequences."""


MODES = {
    "GIN": Mode("Θ(Nc)", "Θ(Mc + Nc²)", 0, 1),
    "PG-GNN (serial)": Mode("Θ(Nc)", "Θ(NΔ²c²)", 0, 2, lambda degree: NODES),
    "PG-GNN (parallel)": Mode("Θ(NΔc)", "Θ(NΔc²)", 1, 1, lambda degree: NODES * Reading().count(degree)),
}
NOTES = (
    f"One layer forward on random graphs of {NODES} nodes, all of degree Δ; {CHANNELS} channels, one LSTM. Serial: the "
    " arrangements one after the other; parallel: all at once. Peak memory is that of the tensors of a call, inputs "
    "not counted.",
    f"Exponents are slopes of straight lines through the logarithms, from Δ = {FITTED} on. In the paper M, the number "
    "of edges, is NΔ.",
    "Steps in a row: RNN steps that wait for each other. The paper's time of the parallel mode counts these: it needs "
    "a processor for each arrangement. Measured time is that of this machine, whose processors share the work, "
    "Θ(NΔ²c²) in both modes.",
)


@dataclass(frozen=True)
class Cost:
    """What a layer took."""

    mode: str
    degree: int
    seconds: float
    bytes: float
    steps: int | None
    """RNN steps that wait for each other."""
    machine: str


def reproduce_costs(out: Path, degrees: tuple[int, ...] = DEGREES) -> list[Cost]:
    """Measures all modes at all degrees, and writes ``table1.md`` and ``table1.json``."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    keys = [(mode, degree) for mode in MODES for degree in degrees]
    found = [
        measure(*key, device) for key in tracked(keys, "measuring", sum(d * d for _, d in keys), lambda k: k[1] ** 2)
    ]
    write_text(out / "table1.md", markdown(found))
    write_json(out / "table1.json", [asdict(cost) for cost in found], 1)
    return found


@torch.no_grad()
def measure(mode: str, degree: int, device: torch.device) -> Cost:
    """Time and memory of a layer at a degree."""
    torch.manual_seed(0)
    at_once, layer = MODES[mode].at_once, torch.nn.Module()
    if at_once is None:
        layer = GINConv(torch.nn.Linear(CHANNELS, CHANNELS)).to(device)
    else:
        rows = at_once(degree)
        workspace = rows * (degree + 2 if rows > NODES else 1) * STATE_BYTES * CHANNELS
        layer = PGConv(CHANNELS, CHANNELS, num_layers=1, workspace=workspace).to(device)
    x, plan = torch.randn(NODES, CHANNELS, device=device), regular(degree).to(device)
    edges: Plan | Tensor = plan if at_once is not None else torch.stack([plan.neighbor, plan.center])
    layer(x, edges)
    memory = peak_bytes(lambda: layer(x, edges), device)
    times: list[float] = []
    begin = time.perf_counter()
    while len(times) < REPEATS and (not times or time.perf_counter() - begin < SECONDS):
        start = time.perf_counter()
        layer(x, edges)
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    steps = None
    if at_once is not None:
        steps = -(-NODES * Reading().count(degree) // at_once(degree)) * Reading().length(degree)
    machine = torch.cuda.get_device_name() if device.type == "cuda" else f"CPU, threads: {torch.get_num_threads()}"
    return Cost(mode, degree, min(times), memory, steps, machine)


def regular(degree: int) -> Plan:
    """A random graph in which each node has so many neighbours."""
    order = torch.rand(NODES, NODES).fill_diagonal_(2).argsort(1)[:, :degree]
    return Plan.build(torch.stack([order.flatten(), torch.arange(NODES).repeat_interleave(degree)]), NODES)


def peak_bytes(run: Callable[[], object], device: torch.device) -> float:
    """The most memory that the tensors of a call take at once, beyond those that were there."""
    if device.type == "cuda":
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        run()
        return float(torch.cuda.max_memory_allocated() - before)
    was = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)  # memory is then not kept from call to call
    try:
        with (
            silent(),
            torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile,
        ):
            run()
    finally:
        torch.use_deterministic_algorithms(was)
    taken = most = 0
    for event in sorted(profile.profiler.kineto_results.events(), key=lambda event: event.start_ns()):
        if event.name() == "[memory]":
            taken += event.nbytes()
            most = max(most, taken)
    return float(most)


@contextmanager
def silent() -> Iterator[None]:
    """Keeps what the profiler's own library prints from standard error."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def exponent(costs: list[Cost], what: str) -> float:
    """The power of the degree that a figure grows with."""
    points = [(log(cost.degree), log(max(getattr(cost, what), 1e-12))) for cost in costs if cost.degree >= FITTED]
    mean = [sum(values) / len(points) for values in zip(*points, strict=True)]
    return sum((x - mean[0]) * (y - mean[1]) for x, y in points) / sum((x - mean[0]) ** 2 for x, _ in points)


def markdown(found: list[Cost]) -> str:
    """Exponents of each mode beside the paper's, then all figures."""
    rows: list[list[object]] = []
    for name, mode in MODES.items():
        costs = [cost for cost in found if cost.mode == name]
        steps = f"{exponent(costs, 'steps'):.2f}" if mode.at_once else ""
        rows.append([
            name, mode.memory, f"{mode.memory_exponent:g}", f"{exponent(costs, 'bytes'):.2f}", mode.time,
            f"{mode.time_exponent:g}", f"{exponent(costs, 'seconds'):.2f}", steps,
        ])  # fmt: skip
    head = (
        "model",
        "memory (paper)",
        "power of Δ",
        "measured",
        "time (paper)",
        "power of Δ",
        "measured",
        "steps in a row",
    )
    lines = ["# Table 1: what a layer costs as degrees grow", "", *markdown_table(head, rows, head[:1] + head[1:2]), ""]
    each = [
        (
            cost.mode,
            cost.degree,
            f"{1000 * cost.seconds:.2f}",
            f"{cost.bytes / 2**20:.2f}",
            cost.steps or "",
            cost.machine,
        )
        for cost in found
    ]
    lines += markdown_table(("model", "Δ", "ms", "MiB", "steps in a row", "machine"), each, ("model", "machine"))
    return "\n".join([*lines, "", *(f"- {note}" for note in NOTES), "- Made by `pggnn reproduce table1`.", ""])
