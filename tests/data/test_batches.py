import pytest
import torch
from torch_geometric.data import Batch, Data, InMemoryDataset
from torch_geometric.datasets import FakeDataset

from pggnn import PGGNN, Plan
from pggnn.data.batching import collate
from pggnn.data.batching.batches import Batches
from pggnn.data.formats.jsonl import load_jsonl
from pggnn.data.graphs import Graphs
from pggnn.data.loading import load
from pggnn.data.schema import Schema
from pggnn.data.sets.counting import Counting
from pggnn.plan import TENSORS
from pggnn.seeds import derived_seed


def assert_equal(ours, theirs, flow="source_to_target"):
    assert set(ours.keys()) - {"plan"} == set(theirs.keys())
    for key in theirs.keys():  # noqa: SIM118
        if key == "num_nodes":
            assert ours[key] == theirs[key]
            continue
        assert torch.equal(ours[key], theirs[key]), key
        assert ours[key].dtype == theirs[key].dtype, key
    assert ours.num_graphs == theirs.num_graphs
    plan = Plan.build(theirs.edge_index, theirs.num_nodes, flow)
    assert all(torch.equal(getattr(ours.plan, name), getattr(plan, name)) for name in TENSORS)
    assert ours.plan.flow == plan.flow


@pytest.mark.parametrize(
    "name", ["ER", "REGULAR", "MUTAG", "IMDBMULTI", "ZINC", "BREC", pytest.param("MNIST", marks=pytest.mark.slow)]
)
def test_batches_equal_pygs(name, data_root):
    dataset = load(name, data_root)[5:78]
    for sampling in ("order", "shuffle"):
        batches = Batches(dataset, 16, sampling, seed=3)
        order = torch.arange(73)
        if sampling == "shuffle":
            order = torch.randperm(73, generator=torch.Generator().manual_seed(derived_seed(3, 0)))
        assert len(batches) == 5
        for batch, chosen in zip(batches, order.split(16), strict=True):
            theirs = Batch.from_data_list([dataset[i] for i in chosen.tolist()])
            assert_equal(batch, theirs, dataset.schema.flow)
    for ours, single in zip(batch.to_data_list(), theirs.to_data_list(), strict=True):
        assert all(torch.equal(ours[key], single[key]) for key in single.keys())  # noqa: SIM118


def test_splits_are_respected():
    whole, part = (Counting("er", split=split, seed=1, graphs=40) for split in (None, "val"))
    (batch,) = Batches(part, 100)
    assert torch.equal(batch.x, Batch.from_data_list([whole[i] for i in range(12, 20)]).x)


def test_passes_differ_and_repeat_with_the_seed():
    dataset = Counting("er", seed=1, graphs=40)
    one, other = Batches(dataset, 40, "shuffle", seed=5), Batches(dataset, 40, "shuffle", seed=5)
    first, second = next(iter(one)).x, next(iter(one)).x
    assert not torch.equal(first, second)
    assert torch.equal(first, next(iter(other)).x)
    assert torch.equal(second, next(iter(other)).x)


def test_any_in_memory_data_set_of_pyg_will_do():
    dataset = FakeDataset(num_graphs=9, avg_num_nodes=12, edge_dim=3, task="graph")
    for batch, theirs in zip(Batches(dataset, 4), (dataset[:4], dataset[4:8], dataset[8:]), strict=True):
        assert_equal(batch, Batch.from_data_list(list(theirs)))


WATER = {"node_labels": ["O", "H", "H"], "edges": [[0, 1], [0, 2]], "edge_labels": ["-", "="], "y": "wet"}
HYDROGEN = {"node_labels": ["H", "H"], "edges": [[1, 0]], "edge_labels": ["-"], "y": "dry"}
LOOP = {"node_labels": ["O"], "edges": [[0, 0]], "edge_labels": ["="], "y": "dry"}


@pytest.mark.parametrize(
    ("kept", "more"),
    [
        (WATER.keys(), {}),
        (["edges"], {}),
        (["node_labels", "edges"], {"x": [0.5, -1], "node_y": 2.5}),
        (["edges", "edge_labels"], {"node_y": "name", "edge_attr": [3]}),
    ],
)
def test_graphs_of_ones_own(kept, more, write):
    lines = []
    for graph in (WATER, HYDROGEN, LOOP):
        counts = {"edge_attr": len(graph["edges"])}
        line = {"num_nodes": len(graph["node_labels"])} | {key: graph[key] for key in kept}
        lines.append(line | {key: [row] * counts.get(key, line["num_nodes"]) for key, row in more.items()})
    dataset = load_jsonl(write(*lines))
    for batch, theirs in zip(Batches(dataset, 2), (dataset[:2], dataset[2:]), strict=True):
        expected = Batch.from_data_list(list(theirs))
        assert_equal(batch, expected)
        assert batch.num_nodes == expected.num_nodes
        for ours, single in zip(batch.to_data_list(), theirs, strict=True):
            assert ours.num_nodes == single.num_nodes
            assert all(torch.equal(ours[key], single[key]) for key in single.keys() if key != "num_nodes")  # noqa: SIM118


class Own(InMemoryDataset):
    def __init__(self, graphs):
        super().__init__()
        self.data, self.slices = self.collate(graphs)


def test_empty_and_single_graphs():
    def graph(nodes, edges):
        edge_index = torch.tensor(edges, dtype=torch.long).view(-1, 2).t().contiguous()
        return Data(x=torch.rand(nodes, 2), edge_index=edge_index, y=torch.rand(1))

    graphs = [graph(1, []), graph(0, []), graph(3, [(0, 1), (2, 1)]), graph(2, [])]
    (batch,) = Batches(Own(graphs), 4)
    assert_equal(batch, Batch.from_data_list(graphs))
    (batch,) = Batches(Own(graphs[2:3]), 4)
    assert_equal(batch, Batch.from_data_list(graphs[2:3]))


def test_a_model_reads_them_and_they_move():
    batch = next(iter(Batches(Counting("regular", seed=1, graphs=8), 4)))
    model = PGGNN(30, 8, 1, level="node").eval()
    with torch.no_grad():
        torch.testing.assert_close(model(batch.x, batch.plan), model(batch.x, batch.edge_index))
    assert f"plan=Plan(nodes={batch.num_nodes}, edges={batch.num_edges}, max_degree=6)" in str(batch)
    moved = batch.to("meta")
    assert moved.plan.neighbor.device.type == moved.x.device.type == "meta"


def test_graphs_can_be_drawn_by_number():
    dataset = Counting("er", seed=1, graphs=3)
    chosen = torch.tensor([2, 0, 2, 1, 1])
    batch = Batches(dataset).collater.collate(chosen)
    assert_equal(batch, Batch.from_data_list([dataset[i] for i in chosen.tolist()]))
    assert torch.equal(batch[4].x, dataset[1].x)


def test_bad_arguments_are_refused():
    dataset = Counting("er", seed=1, graphs=8)
    with pytest.raises(ValueError, match="batch_size must be 1 or more, got 0"):
        Batches(dataset, 0)
    with pytest.raises(ValueError, match="give it as pre_transform"):
        Batches(Counting("er", seed=1, graphs=8, transform=lambda data: data), 4)
    graphs = [Data(x=torch.rand(2, 1), edge_index=torch.empty(2, 0).long(), odd=torch.rand(5)) for _ in range(2)]
    with pytest.raises(ValueError, match=r"attribute 'odd' .* has one row for neither nodes, edges nor graphs"):
        Batches(Own(graphs))


def test_schemas_of_other_data_sets_are_inferred():
    def schema(**attributes):
        graphs = [Data(edge_index=torch.tensor([[0, 1], [1, 0]]), **attributes) for _ in range(3)]
        return Graphs.of(Own(graphs)).schema

    x = torch.rand(2, 4)
    assert schema(x=x) == Schema(features=4)
    assert schema(num_nodes=2, edge_attr=torch.rand(2)) == Schema(edge_features=1)
    assert schema(x=x, y=torch.tensor([1.5])) == Schema("graph", "regression", features=4)
    assert schema(x=x, y=torch.tensor([2, 0])) == Schema("node", "classification", features=4, classes=(0, 1, 2))
    assert schema(x=x, y=torch.tensor([[1, 0, 1]])) == Schema("graph", "multilabel", 3, 4)
    assert schema(x=x, y=torch.tensor([10**9])) == Schema("graph", "regression", features=4)
    assert schema(x=x, y=torch.rand(2, 5)) == Schema("node", "regression", 5, 4)


def test_draws_are_fresh_and_without_repetition_within_a_batch():
    dataset = Counting("er", seed=1, graphs=40)
    batches = Batches(dataset, 8, "draws", seed=2, steps=50)
    assert len(batches) == 50
    chosen = batches.chosen()
    assert all(len(set(numbers.tolist())) == 8 for numbers in chosen)
    assert len({number for numbers in chosen[:5] for number in numbers.tolist()}) < 40, "this is no pass over the set"
    assert {number for numbers in chosen for number in numbers.tolist()} == set(range(40))
    assert len(Batches(dataset, 16, "draws")) == 3


def test_an_epoch_depends_on_seed_and_number_alone():
    dataset = Counting("er", seed=1, graphs=40)
    through, jumped = Batches(dataset, 16, "shuffle"), Batches(dataset, 16, "shuffle")
    for _ in range(3):
        list(through)
    jumped.epoch = 3
    assert all(torch.equal(a.x, b.x) for a, b in zip(through, jumped, strict=True))


def test_processes_share_batches_without_overlap():
    dataset = Counting("er", seed=1, graphs=41)
    whole = Batches(dataset, 8, "shuffle", seed=4)
    parts = [Batches(dataset, 8, "shuffle", seed=4, shard=(rank, 3)) for rank in range(3)]
    for numbers, batch, *shares in zip(whole.chosen(), whole, *parts, strict=True):
        assert sum(share.num_graphs for share in shares) == batch.num_graphs == len(numbers)
        assert sorted(torch.cat([share.y for share in shares]).tolist()) == sorted(batch.y.tolist())
    assert batch.num_graphs == 1, "the last batch leaves two processes without a graph"
    assert shares[2].num_graphs == shares[2].plan.num_nodes == 0


def test_worker_processes_assemble_them_ahead():
    batches = Batches(Counting("er", seed=1, graphs=20), 8, "shuffle")
    loader = torch.utils.data.DataLoader(batches, batch_size=None, num_workers=1)
    for ours, theirs in zip(loader, [batches[i] for i in range(3)], strict=True):
        assert torch.equal(ours.x, theirs.x)
        assert torch.equal(ours.plan.order, theirs.plan.order)


def test_edges_in_any_order_and_flow_make_the_plans_of_build(monkeypatch):
    monkeypatch.setattr(collate, "CHUNK", 40)  # several chunks, and graphs larger than one
    graphs = []
    for nodes in (7, 1, 30, 0, 12, 3):
        edge_index = torch.randint(max(nodes, 1), (2, 4 * nodes))
        graphs.append(Data(x=torch.rand(nodes, 2), edge_index=edge_index, edge_attr=torch.rand(4 * nodes, 1)))
    dataset = Own(graphs)
    for flow in ("source_to_target", "target_to_source"):
        dataset.schema = Schema(features=2, edge_features=1, flow=flow)
        batch = Batches(dataset).collater.collate(torch.tensor([4, 2, 3, 0, 2]))
        assert_equal(batch, Batch.from_data_list([graphs[i] for i in (4, 2, 3, 0, 2)]), flow)


def test_edges_that_leave_their_graph_are_refused():
    graphs = [Data(x=torch.rand(2, 1), edge_index=torch.tensor([[0], [end]])) for end in (1, 5)]
    with pytest.raises(ValueError, match=r"graph 1 .* has 2 nodes, but an edge from 0 to 5"):
        Batches(Own(graphs))


def test_graphs_stay_on_the_host_where_a_gpu_has_no_room(monkeypatch):
    graphs = Graphs.of(Counting("er", seed=0, graphs=10))
    size = sum(value.nbytes for value in (graphs.edge_index, *(value for _, _, value in graphs.attributes())))
    for free, expected in ((3 * size, "cuda"), (3 * size - 1, "cpu")):
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _, free=free: (free, 2**40))
        assert collate.fitting(graphs, "cuda").type == expected
    assert collate.fitting(graphs, "cpu").type == "cpu"


def test_graphs_that_lie_on_a_device_already(monkeypatch):
    """Without a GPU, such are given that lie nowhere; neighbourhoods are found on the host."""
    host, move = Graphs.of(Counting("er", seed=0, graphs=10)), collate._to
    monkeypatch.setattr(collate, "_to", lambda graphs, device: host if device == "cpu" else move(graphs, device))
    found = collate.Collater(move(host, "meta"))
    assert found.device.type == found.collate(torch.arange(3)).plan.degree.device.type == "meta"
    assert (found.host_degree == collate.Collater(host).host_degree).all()
