"""Timings and memory on this machine; what is compared is measured in one run, turn by turn."""

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pack_padded_sequence
from torch_geometric.data import Batch, Data

from pggnn.groups import group
from pggnn.nn import PGGNN, PGConv
from pggnn.plan import Plan

HIDDEN = 64
BATCH = 16


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


def peak_memory(task: Callable[[], Any]) -> int:
    """Bytes by which a task raises this process's resident memory at its peak (Linux)."""
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak to what is resident now
    before = _status("VmRSS")
    task()
    return _status("VmHWM") - before


def _status(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(field))
