"""Graphs that tests of shards and of streaming share; ``y`` of a graph is its number."""

import numpy as np
import torch
from torch_geometric.data import Data

from pggnn.data.graphs import Graphs
from pggnn.data.schema import Schema
from pggnn.plan import TENSORS

LABELS = {"node_labels": ("C", "H", "O"), "edge_labels": ("-", "=")}


def made(count, flow="source_to_target", seed=0):
    """Graphs of 0 to 7 nodes, their edges in no order, with labels; ``y`` is the number of the graph."""
    random = np.random.default_rng(seed)
    nodes = random.integers(8, size=count)
    edges = np.where(nodes > 0, random.integers(12, size=count), 0)
    of_edge = np.repeat(nodes, edges)
    return Graphs(
        torch.from_numpy(nodes), torch.from_numpy(edges),
        torch.from_numpy(random.integers(of_edge, size=(2, len(of_edge)))),
        {"x": torch.from_numpy(random.integers(3, size=nodes.sum(), dtype=np.uint8))},
        {"edge_attr": torch.from_numpy(random.integers(2, size=edges.sum(), dtype=np.uint8))},
        {"y": torch.arange(count).float(), "weight": torch.rand(count, 2)},
        Schema("graph", "regression", flow=flow, **LABELS),
    )  # fmt: skip


def one(number, **more):
    """A graph of two nodes."""
    edges, y = torch.tensor([[0, 1], [1, 0]]), torch.tensor([float(number)])
    return Data(**{"x": torch.ones(2, 3), "edge_index": edges, "y": y} | more)


def numbers(batches):
    return [batch.y.long().tolist() for batch in batches]


def assert_equal(ours, theirs):
    assert set(ours.keys()) == set(theirs.keys()) and ours.num_graphs == theirs.num_graphs
    for key in set(theirs.keys()) - {"plan", "num_nodes"}:
        assert torch.equal(ours[key], theirs[key]) and ours[key].dtype == theirs[key].dtype, key
    assert ours.num_nodes == theirs.num_nodes and ours.plan.flow == theirs.plan.flow
    assert all(torch.equal(getattr(ours.plan, name), getattr(theirs.plan, name)) for name in TENSORS)
    for one, other in zip(ours.to_data_list(), theirs.to_data_list(), strict=True):
        assert all(torch.equal(one[key], other[key]) for key in ("edge_index", "y"))
