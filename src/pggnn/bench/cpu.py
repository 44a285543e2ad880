"""The packed operation, and loading of data, on a CPU; what is compared is measured in one run, turn by turn."""

import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pack_padded_sequence
from torch_geometric.data import Batch, Data

from pggnn.data import mnist
from pggnn.data.batches import Batches
from pggnn.data.catalogue import CATALOGUE, load
from pggnn.data.counting import erdos_renyi, random_regular
from pggnn.data.store import data_root
from pggnn.groups import group
from pggnn.nn import PGGNN, PGConv
from pggnn.orderings import Orderings
from pggnn.plan import Plan

HIDDEN = 64
BATCH = 16
CLEAR_REFS = Path("/proc/self/clear_refs")
Figures = Iterator[tuple[str, float]]
"""What was measured, with its unit, and the value."""


class StraightforwardConv(torch.nn.Module):
    """What one would write first: a packed ``torch.nn.LSTM`` call for each arrangement, over all nodes that have it."""

    def __init__(self, conv: PGConv) -> None:
        super().__init__()
        self.rnn = torch.nn.LSTM(conv.rnn.input_size, conv.out_channels, conv.num_layers)
        self.rnn.load_state_dict(conv.rnn.state_dict())

    def forward(self, x: Tensor, arrangements: list[tuple[Tensor, Tensor, Tensor]]) -> Tensor:
        out = x.new_zeros(x.size(0), self.rnn.hidden_size)
        for nodes, index, lengths in arrangements:
            packed = pack_padded_sequence(x[index], lengths, enforce_sorted=False)
            out = out.index_add(0, nodes, self.rnn(packed)[1][0][-1])
        return out


def index_arrangements(edge_index: Tensor, num_nodes: int) -> list[tuple[Tensor, Tensor, Tensor]]:
    """For each k: the nodes with a k-th arrangement, what they read (``[steps, nodes]``, padded), and the lengths."""
    neighbors: list[list[int]] = [[] for _ in range(num_nodes)]
    for source, target in edge_index.t().tolist():
        neighbors[target].append(source)
    sequences: dict[int, list[tuple[int, list[int]]]] = {}
    for v, around in enumerate(neighbors):
        for k, arrangement in enumerate(group(len(around)).arrangements):
            sequences.setdefault(k, []).append((v, [v, *(around[i] for i in arrangement), v]))
    indexed = []
    for rows in sequences.values():
        lengths = [len(sequence) for _, sequence in rows]
        padded = [sequence + [0] * (max(lengths) - len(sequence)) for _, sequence in rows]
        indexed.append((torch.tensor([v for v, _ in rows]), torch.tensor(padded).t(), torch.tensor(lengths)))
    return indexed


def median_times(tasks: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Median seconds of each task, run in turns of a few so that a noisy moment hits them all."""
    times: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(rounds):
        for name, task in tasks.items():
            task()
            for _ in range(4):
                begin = time.perf_counter()
                task()
                times[name].append(time.perf_counter() - begin)
    return {name: statistics.median(values) for name, values in times.items()}


def training_step(graphs: list[Data], rounds: int) -> dict[str, float]:
    """A training step of counting, 4 aggregations, against the straightforward implementation with equal weights."""
    batch = Batch.from_data_list(graphs)
    width = batch.x.size(1)
    ours = PGGNN(width, HIDDEN, 1, level="node")
    theirs = PGGNN(width, HIDDEN, 1, level="node")
    theirs.load_state_dict(ours.state_dict())
    theirs.convs = torch.nn.ModuleList(StraightforwardConv(conv) for conv in ours.convs)  # type: ignore[arg-type]

    def forward_theirs() -> Tensor:
        arrangements = index_arrangements(batch.edge_index, batch.num_nodes)
        total, x = theirs.scores[0](batch.x), batch.x
        for conv, norm, score in zip(theirs.convs, theirs.norms, theirs.scores[1:], strict=True):
            x = norm(conv(x, arrangements)).relu()
            total = total + score(x)
        return total

    def forward_ours() -> Tensor:
        return ours(batch.x, Plan.build(batch.edge_index, batch.num_nodes))

    torch.testing.assert_close(forward_ours(), forward_theirs(), rtol=1e-3, atol=1e-3)

    def train(model: torch.nn.Module, forward: Callable[[], Tensor]) -> Callable[[], None]:
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)

        def step() -> None:
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(forward().squeeze(-1), batch.y).backward()
            optimizer.step()

        return step

    return median_times(
        {
            "ours": train(ours, forward_ours),
            "straightforward": train(theirs, forward_theirs),
            "plan": lambda: Plan.build(batch.edge_index, batch.num_nodes),
        },
        rounds,
    )


def forward_rate(rounds: int, nodes: int = 1024) -> dict[str, float]:
    """GFLOP/s of the forward pass over sequences of degree 8, and of the matrix product of the same shape."""
    sequences = 8 * nodes
    center = torch.arange(nodes).repeat_interleave(8)
    plan = Plan.build(torch.stack([torch.randint(nodes, center.shape), center]), nodes)
    conv, x = PGConv(HIDDEN, HIDDEN), torch.randn(nodes, HIDDEN)
    h, weight = torch.randn(sequences, HIDDEN), torch.randn(HIDDEN, 4 * HIDDEN)
    gates = torch.empty(sequences, 4 * HIDDEN)
    with torch.no_grad():
        times = median_times(
            {"ours": lambda: conv(x, plan), "matrix product": lambda: torch.mm(h, weight, out=gates)}, rounds
        )
    return {
        "ours": sequences * 10 * 24 * HIDDEN**2 / times["ours"] / 1e9,
        "matrix product": sequences * 8 * HIDDEN**2 / times["matrix product"] / 1e9,
    }


def star(leaves: int = 2000) -> Figures:
    """Time and peak memory of forward and backward on a star, with 16 orderings and with the whole group."""
    edge_index = torch.stack([torch.arange(1, leaves + 1), torch.zeros(leaves, dtype=torch.long)])
    x = torch.randn(leaves + 1, HIDDEN)
    seconds: dict[Orderings, float] = {}
    choices: tuple[Orderings, ...] = (16, "group")
    for orderings in choices:
        conv = PGConv(HIDDEN, HIDDEN, orderings=orderings)

        def step(conv: PGConv = conv) -> None:
            conv(x, edge_index)[0].sum().backward()

        begin = time.perf_counter()
        memory = peak_memory(step)
        if orderings != "group":  # long enough to need no second run
            begin = time.perf_counter()
            step()
        seconds[orderings] = time.perf_counter() - begin
        name = f"{orderings} orderings" if isinstance(orderings, int) else "whole group"
        yield f"{name}, seconds", seconds[orderings]
        yield f"{name}, peak MiB above the inputs", memory / 2**20
    yield "16 orderings are faster by a factor of (goal: 50 or more)", seconds["group"] / seconds[16]


def peak_memory(task: Callable[[], Any]) -> int:
    """Bytes by which a task raises this process's resident memory at its peak (Linux)."""
    if not CLEAR_REFS.exists():
        raise OSError("peak memory is read from /proc, which only Linux has")
    CLEAR_REFS.write_text("5")  # resets the peak to what is resident now
    before = _status("VmRSS")
    task()
    return _status("VmHWM") - before


def _status(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(field))


def layer(rounds: int = 8) -> Figures:
    """Training steps against the straightforward implementation, plan building, and the forward rate."""
    for name, graphs, goal in (("ER", erdos_renyi(BATCH), 4), ("regular", random_regular(BATCH), 2.5)):
        times = training_step(graphs, rounds)
        yield f"{name}: straightforward, ms", 1e3 * times["straightforward"]
        yield f"{name}: ours, ms", 1e3 * times["ours"]
        yield f"{name}: ratio (goal: {goal} or more)", times["straightforward"] / times["ours"]
        yield f"{name}: building the plan / step (goal: under 0.1)", times["plan"] / times["ours"]
    rates = forward_rate(rounds)
    yield "forward, 8,192 sequences of degree 8, GFLOP/s", rates["ours"]
    yield "matrix product 8,192×64 · 64×256, GFLOP/s", rates["matrix product"]
    yield "forward / matrix product (goal: 0.4 or more)", rates["ours"] / rates["matrix product"]


def data(rounds: int = 3) -> Figures:
    """Loading to batches with plans, and the memory that MNIST takes; sets whose files are missing are left out."""
    for name, batch_size in (("ER", 16), ("ZINC", 64)):
        if (data_root() / CATALOGUE[name].file).exists():
            times = median_times({name: partial(_load_and_batch, name, batch_size)}, rounds)
            rate = len(load(name, split="train")) / times[name]
            yield f"{name}, batch {batch_size}, graphs/s (goal: 20,000 or more)", rate
    path = data_root() / mnist.FILE
    if path.exists():
        begin = time.perf_counter()
        memory = peak_memory(lambda: mnist.read_mnist(path).checked(str(path)))
        yield "MNIST: reading and checking the raw file, seconds", time.perf_counter() - begin
        yield "MNIST: peak of that, MiB above the start", memory / 2**20
        process = _status("VmHWM")
        begin = time.perf_counter()
        memory = peak_memory(lambda: _load_and_batch("MNIST", 64))
        yield "MNIST, batch 64, graphs/s", 55_000 / (time.perf_counter() - begin)
        yield "MNIST: peak of a pass in batches, MiB above the start", memory / 2**20
        yield "MNIST: peak of the process, MiB (goal: under 3,000)", max(process, _status("VmHWM")) / 2**20


def _load_and_batch(name: str, batch_size: int) -> None:
    for _ in Batches(load(name, split="train"), batch_size, "shuffle"):
        pass
