"""CIN and SIN: features of nodes, edges, and rings or triangles."""

import pytest
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.utils import to_undirected

from pggnn.baselines import CIN, SIN
from pggnn.baselines.cin import CellConv, Complex
from pggnn.data.batching.collate import Collater
from pggnn.data.features.lists import find_lists
from pggnn.data.features.motifs import find_triangles
from pggnn.data.graphs import Graphs
from pggnn.data.schema import Schema
from pggnn.data.sets.classic import complete, cycle, rook
from pggnn.lists import read_lists
from pggnn.nn import readout
from pggnn.ops import HAS_TRITON
from pggnn.plan import Plan
from pggnn.search import TooMany, find_rings
from pggnn.train.config import Config, DataConfig, ModelConfig
from pggnn.train.engine.models import Scorer, build, lists_for

MODELS = [CIN, SIN]
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def lifted(data, size=6):
    """The graph with what both read."""
    data.ring_index, data.ring_size = find_rings(data.edge_index, data.num_nodes, size)
    data.triangle_index, data.triangle_size = find_triangles(data.edge_index, data.num_nodes)
    return data


def lists_of(data):
    return {kind: read_lists(kind, data) for kind in ("ring-cells", "triangle-cells")}


def cells_of(data, kind="ring-cells"):
    plan = Plan.build(data.edge_index, data.num_nodes)
    return plan, Complex.build(plan, read_lists(kind, data), getattr(data, "batch", None))


def ends_of(cells):
    return cells.ends.neighbor.view(-1, 2)


def sides_of(cells, ring):
    return cells.sides.neighbor[cells.sides.center == ring]


def graph(nodes, edges, seed=0):
    generator = torch.Generator().manual_seed(seed)
    edge_index = torch.tensor(edges).reshape(-1, 2).t() if edges else torch.empty(2, 0, dtype=torch.long)
    x = torch.randn(nodes, 3, generator=generator, dtype=torch.double)
    return lifted(Data(x=x, edge_index=to_undirected(edge_index)))


HOUSE = [(0, 1), (1, 2), (2, 3), (3, 0), (2, 4), (3, 4)]
"""A square with a triangle on it."""


@pytest.fixture
def batch():
    return Batch.from_data_list(
        [graph(5, HOUSE), graph(0, []), graph(3, [(0, 1), (1, 2), (0, 2)], 1), graph(1, []), graph(2, [(0, 1)], 2)]
    )


def test_edges_are_cells_once_however_they_are_given():
    """In one direction, both, twice, and with loops."""
    whole = graph(5, HOUSE)
    once = lifted(Data(x=whole.x, edge_index=torch.tensor([[*pair] for pair in [*HOUSE, (1, 0), (2, 2), (0, 1)]]).t()))
    for data in (whole, once):
        plan, cells = cells_of(data)
        assert cells.counts == (5, 6, 2)
        ends = ends_of(cells)
        assert sorted(map(tuple, ends.tolist())) == sorted((min(pair), max(pair)) for pair in HOUSE)
        sides = {}
        for side, ring in zip(cells.sides.neighbor.tolist(), cells.sides.center.tolist(), strict=True):
            sides.setdefault(ring, set()).add(tuple(ends[side].tolist()))
        assert sorted(map(sorted, sides.values())) == [[(0, 1), (0, 3), (1, 2), (2, 3)], [(2, 3), (2, 4), (3, 4)]]
    nodes, edges, rings = cells.features(once.x, plan)
    torch.testing.assert_close(edges, once.x[ends].sum(1))
    of_rings = [{*ends[sides_of(cells, ring)].flatten().tolist()} for ring in range(2)]
    torch.testing.assert_close(rings, torch.stack([once.x[[*members]].sum(0) for members in of_rings]))
    assert nodes is once.x


def test_a_layer_is_its_definition():
    """Every pair of cells with a shared coface, one by one, in float64."""
    torch.manual_seed(0)
    data = graph(5, HOUSE)
    _, cells = cells_of(data)
    conv = CellConv(3, 4).double().eval()
    states = [torch.randn(count, 3, dtype=torch.double) for count in cells.counts]
    nodes, edges, rings = states
    ends, sides = ends_of(cells).tolist(), [sides_of(cells, ring).tolist() for ring in range(2)]
    below, above = [one.clone() for one in states], [one.clone() for one in states]
    for number, (one, other) in enumerate(ends):
        below[1][number] += nodes[one] + nodes[other]
        above[0][one] += conv.message[0](torch.cat([nodes[other], edges[number]]))
        above[0][other] += conv.message[0](torch.cat([nodes[one], edges[number]]))
    for ring, own in enumerate(sides):
        for side in own:
            below[2][ring] += edges[side]
            for other in set(own) - {side}:
                above[1][side] += conv.message[1](torch.cat([edges[other], rings[ring]]))
    for place, found in enumerate(conv(states, cells)):
        both = torch.cat([conv.boundary[place](below[place]), conv.upper[place](above[place])], dim=1)
        torch.testing.assert_close(found, conv.combine[place](both), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("level", ["graph", "node"])
@pytest.mark.parametrize("model", MODELS)
def test_a_graph_is_the_same_alone_and_in_a_batch(model, level, batch):
    torch.manual_seed(0)
    network = model(3, 5, 2, 2, level=level).double().eval()
    together = network(batch.x, batch.edge_index, batch.batch, batch_size=5, lists=lists_of(batch))
    alone = [network(one.x, one.edge_index, lists=lists_of(one)) for one in batch.to_data_list()]
    torch.testing.assert_close(together, torch.cat(alone), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("options", [{}, {"readout": "log"}, {"norm": "graph"}, {"scores": "last"}, {"edge_dim": 2}])
@pytest.mark.parametrize("model", MODELS)
def test_nodes_and_edges_have_no_order(model, options):
    torch.manual_seed(0)
    data, order = graph(5, HOUSE), torch.randperm(5)
    network = model(3, 5, 2, 2, **options).double().eval()
    ends = data.edge_index.min(0).values + 10.0 * data.edge_index.max(0).values
    attributes = torch.stack([ends, ends.cos()], dim=1).double()
    shuffle = torch.randperm(data.edge_index.size(1))
    moved = lifted(Data(x=data.x[order], edge_index=order.argsort()[data.edge_index][:, shuffle]))
    given = [attributes, attributes[shuffle]] if "edge_dim" in options else [None, None]
    out, other = (
        network(one.x, one.edge_index, edge_attr=edge_attr, lists=lists_of(one))
        for one, edge_attr in zip((data, moved), given, strict=True)
    )
    torch.testing.assert_close(out, other, rtol=1e-10, atol=1e-10)
    if "edge_dim" in options:
        doubled = network(data.x, data.edge_index, edge_attr=2 * attributes, lists=lists_of(data))
        assert not torch.allclose(out, doubled)


def gap(model, one, other):
    """The largest difference of the scores of two graphs whose nodes are alike, relative to the scores."""
    torch.manual_seed(0)
    network = model(1, 8, 4, 2).double().eval()
    scores = [
        network(torch.ones(data.num_nodes, 1, dtype=torch.double), data.edge_index, lists=lists_of(lifted(data)))
        for data in (one, other)
    ]
    return float(((scores[0] - scores[1]).abs().max() / scores[0].abs().max()).detach())


def twice(data):
    both = torch.cat([data.edge_index, data.edge_index + data.num_nodes], dim=1)
    return Data(edge_index=both, num_nodes=2 * data.num_nodes)


@pytest.mark.parametrize("model", MODELS)
def test_what_1_wl_cannot_tell(model):
    """Two triangles from a hexagon both tell; two squares from a ring of eight, which has no ring of six or less and
    no triangle, CIN alone; two rings of seven from one of fourteen, which are too large, neither."""
    assert gap(model, twice(cycle(3)), cycle(6)) > 1e-3
    squares = gap(model, twice(cycle(4)), cycle(8))
    assert squares > 1e-3 if model is CIN else squares < 1e-12
    assert gap(model, twice(cycle(7)), cycle(14)) < 1e-12


def test_it_counts_rings():
    """The sum over rings of the input says how many there are of each size, in all kinds of graphs."""
    for data, expected in ((rook(), {3: 32, 4: 36}), (complete(5), {3: 10}), (cycle(5), {5: 1}), (cycle(7), {})):
        _, cells = cells_of(lifted(data, 4 if data.num_nodes == 16 else 6))
        _, _, rings = cells.features(torch.ones(data.num_nodes, 1), Plan.build(data.edge_index, data.num_nodes))
        sizes, counts = rings.flatten().unique(return_counts=True)
        assert dict(zip(sizes.long().tolist(), counts.tolist(), strict=True)) == expected


@pytest.mark.parametrize("graph_of", [rook, lambda: complete(6), lambda: cycle(5), lambda: Data(
    edge_index=torch.tensor([[0, 1, 2, 2, 3, 3, 0], [1, 2, 0, 3, 3, 0, 1]]), num_nodes=5)])  # fmt: skip
def test_triangles_are_the_rings_of_three(graph_of):
    data = graph_of()
    found, sizes = find_triangles(data.edge_index, data.num_nodes)
    rings, lengths = find_rings(data.edge_index, data.num_nodes, 3)
    assert torch.equal(sizes, lengths)
    assert sorted(map(tuple, found.view(-1, 3).tolist())) == sorted(
        tuple(sorted(r)) for r in rings.view(-1, 3).tolist()
    )


def test_too_many_triangles_are_refused():
    with pytest.raises(TooMany, match="a graph of 9 nodes has more than 83 triangles; choose a model without them"):
        find_triangles(complete(9).edge_index, 9, limit=83)
    assert len(find_triangles(complete(9).edge_index, 9, limit=84)[1]) == 84


@pytest.mark.parametrize("name", ["cin", "sin"])
def test_batches_of_a_run_are_those_of_pyg(name, tmp_path, monkeypatch):
    """Gathered from what was found for all graphs before, in any order."""
    monkeypatch.setenv("PGGNN_CACHE", str(tmp_path))
    parts = [lifted(complete(4)), lifted(cycle(6)), lifted(rook()), lifted(cycle(9))]
    schema = Schema("graph", "classification", classes=("a", "b"))
    graphs = Graphs(
        torch.tensor([one.num_nodes for one in parts]), torch.tensor([one.num_edges for one in parts]),
        torch.cat([one.edge_index for one in parts], dim=1), graph={"y": torch.tensor([0, 1, 0, 1])}, schema=schema,
    )  # fmt: skip
    config = Config(DataConfig("graphs", rings=6), ModelConfig(name, hidden=4, layers=2))
    lists = lists_for(config, graphs)
    (kind,) = lists
    network = build(config.model, schema).double().eval()
    batch = Collater(graphs, lists=lists).collate(torch.tensor([2, 0, 3, 1]))
    found = Scorer(network)(batch)
    for number, place in ((2, 0), (0, 1), (3, 2), (1, 3)):
        one = parts[number]
        expected = network(
            torch.ones(one.num_nodes, 1, dtype=torch.double), one.edge_index, lists={kind: read_lists(kind, one)}
        )
        torch.testing.assert_close(found[place], expected[0], rtol=1e-10, atol=1e-10)
    assert find_lists(graphs, "triangles", 3).counts.tolist() == [4, 0, 32, 0]


@pytest.mark.parametrize("model", MODELS)
def test_what_is_missing_is_named(model):
    with pytest.raises(ValueError, match="-cells, which are missing: give lists="):
        model(3, 4, 2)(torch.randn(3, 3), torch.empty(2, 0, dtype=torch.long))
    with pytest.raises(ValueError, match=f'{model.__name__} has no block but "plain"'):
        model(3, 4, 2, block="residual")


@pytest.mark.parametrize("model", MODELS)
def test_one_ring_or_none_can_be_trained_on(model):
    for data in (cycle(3), cycle(9), Data(edge_index=torch.empty(2, 0, dtype=torch.long), num_nodes=2)):
        network = model(1, 4, 2, 2).train()
        out = network(torch.ones(data.num_nodes, 1), data.edge_index, lists=lists_of(lifted(data)))
        out.sum().backward()
        assert out.isfinite().all()


@pytest.mark.skipif(not HAS_TRITON, reason="Triton is not installed")
@pytest.mark.parametrize("model", MODELS)
def test_layers_share_what_sums_on_a_gpu_need(model, batch, monkeypatch):
    """More layers sort no more numbers, and the kernel's sums are PyTorch's."""
    from pggnn.ops.fused import sum as sums

    sorted_numbers = []
    monkeypatch.setattr(sums, "readers", lambda *args, sort=sums.readers: sorted_numbers.append(args) or sort(*args))
    counts = []
    for layers in (1, 3):
        torch.manual_seed(0)
        network = model(3, 8, 2, layers).to(DEVICE)
        data = batch.to(DEVICE)
        found = []
        for kernel in (False, True):
            monkeypatch.setattr(readout, "_has_kernel", lambda _, kernel=kernel: kernel)
            sorted_numbers.clear()
            network.zero_grad()
            scores = network(data.x.float(), data.edge_index, data.batch, batch_size=5, lists=lists_of(data))
            scores.square().sum().backward()
            found.append([scores, *(weight.grad for weight in network.parameters())])
        torch.testing.assert_close(*found, rtol=1e-3, atol=1e-3)
        counts.append(len(sorted_numbers))
    assert counts[0] == counts[1] > 0
