"""Steps of an aggregation, and what is recommended to take fewer."""

from dataclasses import replace

import pytest
import torch
from torch_geometric.data import Data, InMemoryDataset

from pggnn.data.cost import SAVING, Aggregation, count_list_steps, measure_work
from pggnn.data.features.lists import search_lists
from pggnn.data.graphs import Graphs
from pggnn.data.schema import Schema
from pggnn.groups import group
from pggnn.lists import read_lists
from pggnn.nn.blocks import LIST_LAYERS
from pggnn.orderings import Reading
from pggnn.transforms import AddHops, AddPaths, AddRings

CELL, SIXTEEN, FOUR = ("cell", "linear"), ("orderings", 16), ("orderings", 4)


def make(*graphs, flow="source_to_target"):
    """Graphs of edges and numbers of nodes."""
    nodes, edges = torch.tensor([count for count, _ in graphs]), [edges for _, edges in graphs]
    sizes = torch.tensor([edge.size(1) for edge in edges])
    return Graphs(nodes, sizes, torch.cat(edges, dim=1), schema=Schema(flow=flow))


def star(leaves):
    out = torch.stack([torch.zeros(leaves, dtype=torch.long), torch.arange(1, leaves + 1)])
    return leaves + 1, torch.cat([out, out.flip(0)], dim=1)


def complete(nodes):
    return nodes, (1 - torch.eye(nodes, dtype=torch.long)).nonzero().t()


ADD = {"rings": AddRings(), "paths": AddPaths(), "hops": AddHops()}


@pytest.mark.parametrize("kind, most", [("rings", 18), ("paths", 3), ("hops", 2)])
def test_steps_of_lists_are_those_of_the_layer(kind, most):
    """Counted from the plans that the layers read."""
    drawn = [complete(4), (3, torch.empty(2, 0, dtype=torch.long)), star(5)]
    aggregation = Aggregation(LIST_LAYERS[kind](2, 3).reading)
    plans = [read_lists(kind, ADD[kind](Data(edge_index=edges, num_nodes=nodes))).plan for nodes, edges in drawn]
    found = search_lists(make(*drawn), kind, most, range(3))
    steps = count_list_steps(kind, found, aggregation).tolist()
    assert steps == [int(aggregation.work(plan.degree).sum()) for plan in plans]
    if kind == "rings":
        assert steps == count_list_steps(kind, found).tolist() == [4 * 6 * 4, 0, 0], "triangles, both ways and back"


def test_steps_are_counted_for_each_graph():
    """Those of nodes without neighbours too, and by incoming or outgoing edges."""
    lonely, arrows = (3, torch.empty(2, 0, dtype=torch.long)), (4, torch.tensor([[0, 0, 0], [1, 2, 3]]))
    for flow, degrees in (("source_to_target", [0, 1, 1, 1]), ("target_to_source", [3, 0, 0, 0])):
        work = measure_work(make(star(7), lonely, arrows, flow=flow), Aggregation())
        every = [[7, *[1] * 7], [0] * 3, degrees]
        assert work.group.tolist() == [sum(group(n).order * (n + 2) for n in some) for some in every]
        assert work.single.tolist() == [sum(n + 2 for n in some) for some in every]
        assert work.steps is not work.single and work.steps.equal(work.group)
    chosen = measure_work(make(star(7), lonely, arrows), Aggregation(), torch.tensor([2, 0]))
    assert chosen.single.tolist() == [11, 30]


def test_options_of_the_layer_count():
    graphs = make(star(20))

    def steps(**options):
        return measure_work(graphs, Aggregation(**options)).steps.tolist()

    assert steps() == [20 * 22 + 60]
    assert steps(reading=Reading(limit=5)) == [5 * 22 + 60]
    assert steps(max_degree=6) == [6 * 8 + 60]
    assert steps(reading=Reading("twos", "open")) == [2 * 20 * 19]
    assert steps(cell="linear") == [22 + 60], "the whole group at the cost of a single ordering"
    assert steps(cell="linear", reading=Reading(limit=5)) == [5 * 22 + 60]
    assert steps(cell="linear", structure=2) == [20 * 22 + 60]
    assert steps(cell="linear", reading=Reading(frame="closed")) == [20 * 21 + 40]


@pytest.mark.parametrize(
    "graph, options, expected",
    [
        (star(40), {}, {CELL, SIXTEEN}),
        (star(3000), {}, {CELL, SIXTEEN}),
        (complete(25), {}, {CELL, FOUR}),  # 16 of 24 orderings save a third
        (complete(10), {}, {CELL, FOUR}),  # 16 are all there are
        (complete(3), {}, {CELL}),
        (star(3), {}, set()),
        (star(40), {"structure": 2}, {SIXTEEN}),  # with two bits the linear cell reads one sequence after another
        (star(40), {"reading": Reading(frame="closed")}, {SIXTEEN}),  # and rings
        (star(40), {"cell": "linear"}, set()),
        (star(40), {"cell": "linear", "structure": 2}, {SIXTEEN}),
        (star(40), {"cell": "gru", "max_degree": 2}, set()),
        (star(400), {"reading": Reading(limit=64)}, {SIXTEEN}),
        (star(400), {"reading": Reading(limit=4)}, set()),
        (star(400), {"reading": Reading(limit=1)}, set()),
        (star(40), {"reading": Reading("twos", "after")}, set()),
        (star(40), {"reading": Reading("pairs", "chain")}, set()),
    ],
)
def test_only_what_saves_steps_is_recommended(graph, options, expected):
    aggregation = Aggregation(**options)
    work = measure_work(make(graph), aggregation)
    assert set(work.cheaper) == expected
    for (name, value), steps in work.cheaper.items():
        changed = replace(aggregation, cell=value) if name == "cell" else aggregation.limited(value)
        assert measure_work(make(graph), changed).steps.equal(steps)
        assert int(steps) <= int(work.steps) / SAVING


def test_no_graphs_cost_nothing():
    class Empty(InMemoryDataset):
        def __init__(self):
            super().__init__(None)
            self.data, self.slices = self.collate([Data(edge_index=torch.empty(2, 0, dtype=torch.long), num_nodes=0)])

    work = measure_work(Graphs.of(Empty()), Aggregation())
    assert (work.ratio, work.steps.tolist()) == (0.0, [0])
