"""The linear cell on one thread of a CPU: whole group against single ordering, and against the LSTM's whole group."""

import torch

from benchmarks.timing import Figures, milliseconds
from pggnn import PGConv, Plan

HIDDEN, EDGES, NODES = 64, 40_000, 1000


def arcs() -> Figures:
    """A training step of one layer, float32, hidden 64, about 40,000 edges at nodes of one degree."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for degree in (8, 64, 491, 10_000):
            readers = EDGES // degree
            edges = torch.stack(
                [torch.randint(NODES, (readers * degree,)), torch.arange(readers).repeat_interleave(degree)]
            )
            plan, x = Plan.build(edges, max(NODES, readers)), torch.randn(max(NODES, readers), HIDDEN)
            case = f"degree {degree:,}"

            def step(conv: PGConv, x: torch.Tensor = x, plan: Plan = plan) -> float:
                return milliseconds(lambda: conv(x, plan).sum().backward(), on_gpu=False)

            single, group = (step(PGConv(HIDDEN, HIDDEN, "linear", orderings=kind)) for kind in ("single", "group"))
            yield case, "single, ms", single
            yield case, "group, ms", group
            yield case, "group / single", group / single
            if degree == 64:
                yield case, "LSTM's group / group", step(PGConv(HIDDEN, HIDDEN, "lstm", num_layers=1)) / group
    finally:
        torch.set_num_threads(threads)
