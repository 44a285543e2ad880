"""Random graphs on which each node's triangles, 4-cliques or cycles are counted: the published sets, and seeded
generators."""

from dataclasses import replace
from pathlib import Path
from random import Random

import networkx as nx
import numpy as np
import torch
from rich.console import Console
from torch import Tensor
from torch_geometric.data import Data

from pggnn.data.dataset import GraphDataset, Transform, load_graphs
from pggnn.data.features.lists import find_lists
from pggnn.data.features.motifs import four_cliques, triangles
from pggnn.data.formats.archives import MOST_BYTES, need, read_npz
from pggnn.data.graphs import Graphs, compact, starts
from pggnn.data.schema import Schema

REGULAR = ((10, 6), (15, 6), (20, 5), (30, 5))
"""The (nodes, degree) pairs of the paper's random regular graphs."""
FILES = {"er": "counting/er.npz", "regular": "counting/regular.npz"}
TASKS = {"triangles": triangles, "cliques": four_cliques}
CYCLES = {**{f"cycles{size}": size for size in (3, 4, 5, 6)}, "chordal": 4}
"""The size of the cycles that are counted: those with a chord once for each, in the last."""
FRACTIONS = {"train": (0.0, 0.3), "val": (0.3, 0.5), "test": (0.5, 1.0)}
VERSION = "counting 1"


class Counting(GraphDataset):
    """Graphs whose nodes have their rows of the adjacency matrix as features and their counts as labels.

    Args:
        name: ``"er"`` (Erdős–Rényi, 10 nodes) or ``"regular"`` (random regular, up to 30 nodes).
        task: What is counted at each node: ``"triangles"``, ``"cliques"`` (4-cliques), ``"cycles3"`` to ``"cycles6"``
            (simple cycles of that size), or ``"chordal"`` (4-cycles with a chord, which need not be induced).
        root, split, transform, pre_transform: See :class:`GraphDataset`; 30 % / 20 % / 50 % of the graphs.
        seed: Generate graphs from this seed instead of reading the published ones. From the published regular graphs
            as many edges as they have nodes were taken out at random; generated ones are regular, as the paper says.
        graphs: How many to generate.
        rows: Whether nodes have their rows of the adjacency matrix as features; else all have the constant 1.
        standardize: Whether counts have mean 0 and deviation 1 over the nodes of training and validation graphs, as in
            "Boosting the Cycle Counting Power of Graph Neural Networks with I²-GNNs" (Huang et al. 2023).
    """

    def __init__(
        self,
        name: str = "er",
        task: str = "triangles",
        root: str | Path | None = None,
        split: str | None = None,
        transform: Transform = None,
        pre_transform: Transform = None,
        seed: int | None = None,
        graphs: int = 5000,
        rows: bool = True,
        standardize: bool = False,
    ) -> None:
        tasks = [*TASKS, *CYCLES]
        if name not in FILES or task not in tasks:
            raise ValueError(f"expected one of {[*FILES]} and one of {tasks}, got {name!r} and {task!r}")
        if seed is not None and (type(seed) is not int or not 0 <= seed < 2**63):
            raise ValueError(f"seed must be a whole number of 0 or more, below 2⁶³, got {seed!r}")
        if seed is None:
            stored = load_graphs(FILES[name], root, VERSION, read_counting)
        else:
            stored = generate(name, graphs, seed)
        file = None if seed is not None else FILES[name]
        counted = with_target(stored, task)
        if standardize:
            counted = replace(counted, node=counted.node | {"y": standardized(counted)})
        if not rows:
            constant = {"x": torch.ones(int(counted.nodes.sum()), 1, dtype=torch.uint8)}
            counted = replace(counted, node=counted.node | constant, schema=replace(counted.schema, features=1))
        super().__init__(counted, file, root, split, transform, pre_transform)


def read_counting(path: Path) -> Graphs:
    """Reads ``n``, ``m``, ``src``, ``dst`` (each undirected edge once) and ``split_train``, ``_val``, ``_test``."""
    arrays = read_npz(path)
    need(arrays, path, **dict.fromkeys(("n", "m", "src", "dst", "split_train", "split_val", "split_test"), "i1"))
    n, m = (torch.from_numpy(arrays[name].astype(np.int64)) for name in "nm")
    if arrays["src"].shape != arrays["dst"].shape or len(n) != len(m):
        raise ValueError(f"{path}: src and dst, and n and m, must be of equal length")
    once = Graphs(n, m, compact(np.stack([arrays["src"], arrays["dst"]]))).checked(str(path))
    width = int(n.max()) if len(n) else 0
    if len(n) * width**2 > MOST_BYTES:
        raise ValueError(
            f"{path}: {len(n)} graphs of up to {width} nodes are too large to have adjacency rows as features"
        )
    adjacency = torch.zeros(len(n), width, width, dtype=torch.bool)
    graph, (u, v) = torch.arange(len(n)).repeat_interleave(m), once.edge_index.long()
    adjacency[graph, u, v] = adjacency[graph, v, u] = True
    splits = {name: torch.from_numpy(arrays[f"split_{name}"].astype(np.int64)) for name in FRACTIONS}
    return from_adjacency(adjacency, n, splits)


def generate(name: str, graphs: int, seed: int = 0) -> Graphs:
    """``"er"`` or ``"regular"`` graphs from a seed; the first 30 % train, the next 20 % validate, the others test."""
    if graphs < 1:
        raise ValueError(f"expected 1 graph or more to generate, got {graphs}")
    adjacency, nodes = draw_er(graphs, 10, 0.3, seed) if name == "er" else draw_regular(graphs, seed)
    bounds = {part: (round(a * graphs), round(b * graphs)) for part, (a, b) in FRACTIONS.items()}
    return from_adjacency(adjacency, nodes, {part: torch.arange(*pair) for part, pair in bounds.items()})


def from_adjacency(adjacency: Tensor, nodes: Tensor, splits: dict[str, Tensor] | None = None) -> Graphs:
    """Graphs of ``[G, width, width]`` symmetric adjacency matrices, with rows as features and all counts as labels."""
    graph, u, v = adjacency.nonzero(as_tuple=True)
    ptr = starts(nodes)
    edge_index = torch.stack([u, v])
    inside = torch.arange(adjacency.size(1)) < nodes[:, None]
    counts = {name: count(edge_index + ptr[graph], ptr) for name, count in TASKS.items()}
    return Graphs(
        nodes, torch.bincount(graph, minlength=len(nodes)), edge_index.to(torch.uint8),
        {"x": adjacency[inside].to(torch.uint8), **counts},
        schema=Schema("node", "regression", features=adjacency.size(1)), splits=splits or {},
    )  # fmt: skip


def with_target(graphs: Graphs, task: str) -> Graphs:
    """The same graphs with one of the counts, a key of :data:`TASKS` or :data:`CYCLES`, as targets ``y`` instead of all
    counts."""
    others = {name: value for name, value in graphs.node.items() if name not in TASKS}
    count = graphs.node[task] if task in TASKS else count_cycles(graphs, CYCLES[task], task == "chordal")
    return replace(graphs, node=others | {"y": count.float()})


def standardized(graphs: Graphs) -> Tensor:
    """Targets with mean 0 and deviation 1 over the nodes of training and validation graphs."""
    seen = torch.zeros(len(graphs), dtype=torch.bool)
    seen[torch.cat([graphs.splits["train"], graphs.splits["val"]])] = True
    y = graphs.node["y"]
    known = y[seen.repeat_interleave(graphs.nodes)]
    return (y - known.mean(0)) / known.std(0)


def count_cycles(graphs: Graphs, size: int, chordal: bool = False) -> Tensor:
    """``[N]`` simple cycles of this size at each node; or, of size 4, each as often as it has chords."""
    lists = find_lists(graphs, "rings", size, Console(stderr=True), chords=True)
    graph = torch.arange(len(graphs)).repeat_interleave(lists.counts)
    chosen = lists.size == size
    edge_index, ptr = graphs.batched_edges()
    places = lists.index.long()[chosen.repeat_interleave(lists.size)].view(-1, size)
    nodes = places + ptr[graph[chosen]].unsqueeze(1)
    times = torch.ones(len(nodes), dtype=torch.long)
    if chordal:
        total = int(ptr[-1])
        diagonals = nodes[:, [0, 1]] * total + nodes[:, [2, 3]]
        times = torch.isin(diagonals, edge_index[0] * total + edge_index[1]).sum(1)
    return torch.zeros(int(ptr[-1]), dtype=torch.long).index_add(0, nodes.view(-1), times.repeat_interleave(size))


def erdos_renyi(graphs: int, nodes: int = 10, probability: float = 0.3, seed: int = 0) -> list[Data]:
    """Erdős–Rényi graphs, each node labelled with its triangles; the defaults are the paper's.

    Example:
        >>> from pggnn.data.sets.counting import erdos_renyi
        >>> erdos_renyi(2, nodes=6, probability=0.5)[0].y.flatten()
        tensor([1., 1., 0., 1., 2., 1.])
    """
    return list(GraphDataset(with_target(from_adjacency(*draw_er(graphs, nodes, probability, seed)), "triangles")))


def draw_er(graphs: int, nodes: int, probability: float, seed: int) -> tuple[Tensor, Tensor]:
    """``[G, nodes, nodes]`` adjacency matrices of Erdős–Rényi graphs, and the number of nodes of each."""
    generator = torch.Generator().manual_seed(seed)
    draws = torch.rand(graphs, nodes, nodes, generator=generator)
    upper = (draws < probability).triu(diagonal=1)
    return upper | upper.transpose(1, 2), torch.full((graphs,), nodes)


def draw_regular(graphs: int, seed: int) -> tuple[Tensor, Tensor]:
    """``[G, 30, 30]`` adjacency matrices of random regular graphs, and the number of nodes of each."""
    random, width = Random(seed), max(nodes for nodes, _ in REGULAR)
    adjacency, sizes = torch.zeros(graphs, width, width, dtype=torch.bool), torch.empty(graphs, dtype=torch.long)
    for graph in range(graphs):
        nodes, degree = random.choice(REGULAR)
        drawn = nx.to_numpy_array(nx.random_regular_graph(degree, nodes, random), range(nodes), dtype=bool)
        adjacency[graph, :nodes, :nodes], sizes[graph] = torch.from_numpy(drawn), nodes
    return adjacency, sizes
