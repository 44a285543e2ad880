"""The linear cell, on a GPU if there is one: the whole group against a single ordering, large graphs, and GIN."""

import math

import torch
from torch import Tensor
from torch_geometric.nn.models import GIN

from benchmarks.timing import DEVICE, ON_GPU, Figures, Task, gpu_peak, in_turns, milliseconds, peak_memory
from pggnn import PGGNN, PGConv, Plan

HIDDEN, EDGES, NODES = 64, 40_000, 1000


def arcs() -> Figures:
    """Training steps (forward and backward), float32."""
    yield from by_degree()
    yield from by_size()
    yield from large()
    yield from beside_gin()


def by_degree() -> Figures:
    """One layer, hidden 64, about 40,000 edges at nodes of one degree, which read any of 1,000 nodes."""
    for degree in (8, 64, 491, 10_000):
        readers = EDGES // degree
        edges = torch.stack(
            [torch.randint(NODES, (readers * degree,)), torch.arange(readers).repeat_interleave(degree)]
        )
        nodes = max(NODES, readers)
        plan, x = Plan.build(edges, nodes).to(DEVICE), torch.randn(nodes, HIDDEN, device=DEVICE)
        times = in_turns(
            {
                kind: step(PGConv(HIDDEN, HIDDEN, "linear", orderings=kind).to(DEVICE), x, plan)
                for kind in ("single", "group")
            },
            rounds=5,
        )
        case = f"degree {degree:,}"
        yield case, "single, ms", times["single"]
        yield case, "group, ms", times["group"]
        yield case, "group / single", times["group"] / times["single"]
        if degree == 64:
            lstm = PGConv(HIDDEN, HIDDEN, "lstm", num_layers=1).to(DEVICE)
            yield case, "LSTM's group / group", milliseconds(step(lstm, x, plan)) / times["group"]


def by_size() -> Figures:
    """A star with the whole group: how its time grows with its leaves."""
    times, sizes = [], (100, 1000, 10_000, 100_000, 1_000_000)
    for leaves in sizes:
        plan, x = star(leaves), torch.randn(leaves + 1, 32, device=DEVICE)
        times.append(milliseconds(step(PGConv(32, 32, "linear").to(DEVICE), x, plan)))
        yield f"star of {leaves:,}", "ms", times[-1]
    for first, last in ((0, 4), (2, 4)):
        slope = math.log(times[last] / times[first]) / math.log(sizes[last] / sizes[first])
        yield f"stars of {sizes[first]:,} to {sizes[last]:,}", "exponent of the time", slope


def large() -> Figures:
    """Memory of one layer, hidden 32, with the whole group; the plan is built within."""
    nodes, edges = 100_000, 10_000_000
    for case, edge_index in {
        "star of 1,000,000": torch.stack([torch.arange(1, 1_000_001), torch.zeros(1_000_000, dtype=torch.long)]),
        "10,000,000 edges": torch.stack([torch.randint(nodes, (edges,)), torch.arange(nodes).repeat(edges // nodes)]),
    }.items():
        x = torch.randn(int(edge_index.max()) + 1, 32, device=DEVICE)
        task = step(PGConv(32, 32, "linear").to(DEVICE), x, edge_index.to(DEVICE))
        yield case, "extra memory, MiB", gpu_peak(task) if ON_GPU else peak_memory(task) / 2**20


def beside_gin() -> Figures:
    """A batch of 32 graphs, each with a hub of 2,000 to 3,000 neighbours, as in REDDIT's threads. PG-GNN has as many
    layers and channels as PyG's GIN, and builds its plan within the step."""
    sizes = torch.linspace(2000, 3000, 32).long()
    starts = (sizes.cumsum(0) - sizes + torch.arange(32)).tolist()
    edges = torch.cat([hub(leaves) + start for leaves, start in zip(sizes.tolist(), starts, strict=True)], 1).to(DEVICE)
    x = torch.randn(int(sizes.sum()) + 32, HIDDEN, device=DEVICE)
    models = {
        "PG-GNN": PGGNN(HIDDEN, HIDDEN, 2, num_layers=3, cell="linear", level="node"),
        "GIN": GIN(HIDDEN, HIDDEN, 3, 2, norm="batch_norm", jk="cat"),
    }
    times = in_turns({name: step(model.to(DEVICE), x, edges) for name, model in models.items()}, rounds=3, runs=2)
    for name, value in times.items():
        yield "32 graphs with hubs", f"{name}, ms", value
    yield "32 graphs with hubs", "PG-GNN / GIN", times["PG-GNN"] / times["GIN"]


def hub(leaves: int) -> Tensor:
    """Edges of a graph, both ways: node 0 has all others as neighbours, and there are half as many edges elsewhere."""
    edges = torch.stack([torch.zeros(leaves, dtype=torch.long), torch.arange(1, leaves + 1)])
    edges = torch.cat([edges, torch.randint(1, leaves + 1, (2, leaves // 2))], 1)
    return torch.cat([edges, edges.flip(0)], 1)


def star(leaves: int) -> Plan:
    """The plan of a star, whose centre is node 0."""
    edges = torch.stack([torch.arange(1, leaves + 1), torch.zeros(leaves, dtype=torch.long)])
    return Plan.build(edges, leaves + 1).to(DEVICE)


def step(model: torch.nn.Module, x: Tensor, edges: Plan | Tensor) -> Task:
    """Forward and backward, without an optimizer."""

    def run() -> None:
        model.zero_grad()
        model(x, edges).sum().backward()

    return run
