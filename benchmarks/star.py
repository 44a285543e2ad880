"""A hub on a CPU: a star whose centre reads all leaves, forward and backward, hidden 64, 2-layer LSTM."""

import torch

from benchmarks.timing import Figures, peak_memory, seconds
from pggnn.nn import PGConv

HIDDEN = 64


def star(leaves: int = 2000) -> Figures:
    """Time and peak memory with 16 orderings and with the whole group."""
    edge_index = torch.stack([torch.arange(1, leaves + 1), torch.zeros(leaves, dtype=torch.long)])
    x = torch.randn(leaves + 1, HIDDEN)
    memory, times = [], []
    for case, conv in {
        "16 orderings": PGConv(HIDDEN, HIDDEN, orderings=16), "whole group": PGConv(HIDDEN, HIDDEN),
    }.items():  # fmt: skip

        def step(conv: PGConv = conv) -> None:
            conv(x, edge_index)[0].sum().backward()

        first = seconds(lambda: memory.append(peak_memory(step)))
        times.append(first if case == "whole group" else seconds(step))  # long enough to need no second run
        yield case, "seconds", times[-1]
        yield case, "extra memory, MiB", memory[-1] / 2**20
    yield "whole group", "seconds / those of 16 orderings", times[1] / times[0]
