"""Targets of the nodes of one large graph: masks, sampled neighbourhoods, inductive training."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader

from pggnn.cli import main
from pggnn.data.batching.collate import Collater
from pggnn.data.batching.nodes import NodeBatches, PlanSampler
from pggnn.data.formats.export import save_jsonl
from pggnn.data.graphs import Graphs
from pggnn.data.loading import load
from pggnn.train.engine.loop import Callback, Training
from pggnn.train.runs.run import first_training, load_graphs

NODES, CLASSES = 60, 3


@pytest.fixture
def arrays():
    """A planted partition, its edges listed once."""
    rng = np.random.default_rng(0)
    y = rng.integers(CLASSES, size=NODES)
    likely = np.where(y[:, None] == y, 0.3, 0.03)
    edges = np.argwhere(np.triu(rng.random((NODES, NODES)) < likely, 1))
    x = rng.normal(size=(NODES, 4)).astype(np.float32)
    x[np.arange(NODES), y] += 2
    part = rng.permutation(NODES)
    masks = {"train_mask": part < 36, "val_mask": (part >= 36) & (part < 46), "test_mask": part >= 46}
    return {"n": NODES, "edges": edges, "x": x, "y": y, **masks}


@pytest.fixture
def graph(arrays, tmp_path):
    path = tmp_path / "graph.npz"
    np.savez(path, **arrays)
    return str(path)


@pytest.fixture
def training(graph, small, tmp_path):
    def training(data_name=graph, **options) -> Training:
        config = small(data_name=data_name, data_options={}, model_layers=2, **options)
        return first_training(config, load_graphs(config), tmp_path)

    return training


def numbers(mask):
    return torch.from_numpy(mask).nonzero().view(-1).tolist()


def test_masks_split_the_nodes(training, arrays):
    split = training().split
    assert split.by_node
    for part in ("train", "val", "test"):
        assert getattr(split, part).tolist() == numbers(arrays[f"{part}_mask"])


def test_without_masks_a_seed_splits_them(training, arrays, tmp_path):
    bare = tmp_path / "bare.npz"
    np.savez(bare, **{name: value for name, value in arrays.items() if "mask" not in name})
    split = training(str(bare)).split
    assert split.by_node and [len(part) for part in (split.train, split.val, split.test)] == [48, 6, 6]
    assert torch.cat([split.train, split.val, split.test]).sort()[0].tolist() == [*range(NODES)]


def test_the_loss_is_that_of_the_training_nodes(training, arrays):
    """And a node of the test set has no part in it, whatever its target."""
    one = training()
    (batch,) = one.batches
    one.scorer.eval()
    scores, y = one.scorer(batch), torch.from_numpy(arrays["y"])
    train = torch.tensor(numbers(arrays["train_mask"]))
    expected = torch.nn.functional.cross_entropy(one.network(batch.x, batch.plan, batch.batch)[train], y[train])
    assert one._targets(one.batches.chosen()[0]) == len(train)
    torch.testing.assert_close(one.task.loss(scores, one.task.targets(batch.y)) / len(train), expected)


@pytest.mark.parametrize("cell", ["lstm", "linear"])
def test_all_neighbours_sampled_are_the_whole_graph(cell, training):
    """Answers and metrics of sampled neighbourhoods, with as many neighbours as there are, are those of the graph."""
    whole = training(model_cell=cell)
    sampled = training(model_cell=cell, data_neighbours=(NODES,), optim_batch_size=7)
    sampled.network.load_state_dict(whole.network.state_dict())
    for part in ("val", "test"):
        assert whole.measure(part) == pytest.approx(sampled.measure(part), abs=1e-5)
        (one, y), (other, again) = (a.answers(getattr(whole.split, part)) for a in (whole, sampled))
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
        assert torch.equal(y, again)


def test_neighbours_keep_their_order_with_any_sampler(graph, monkeypatch):
    """PyG's sampler gives them in any order."""
    collater = Collater(Graphs.of(load(graph)))
    shuffled = PlanSampler(collater.whole_plan, [4, 2])
    plain = shuffled.sample_from_nodes

    def sample(inputs):
        found = plain(inputs)
        order = torch.randperm(len(found.edge))
        found.row, found.col, found.edge = (one[order] for one in (found.row, found.col, found.edge))
        return found

    collater.samplers[4, 2] = shuffled
    expected = list(NodeBatches(collater, 16, [4, 2]))
    monkeypatch.setattr(shuffled, "sample_from_nodes", sample)
    for one, other in zip(NodeBatches(collater, 16, [4, 2]), expected, strict=True):
        assert torch.equal(one.plan.neighbor, other.plan.neighbor)
        assert torch.equal(one.edge_index, other.edge_index)


@pytest.mark.parametrize("flow", ["source_to_target", "target_to_source"])
def test_sampled_batches_are_parts_of_the_graph(flow, tmp_path):
    edges = torch.tensor([[0, 1, 2, 3, 4, 4], [1, 2, 0, 4, 0, 1]])
    first = Data(edge_index=edges, x=torch.arange(5.0).view(5, 1), y=torch.arange(5.0), num_nodes=5)
    first.edge_attr = torch.arange(6.0).view(6, 1)
    graphs = Graphs.of(load(save_jsonl([first, first], tmp_path / "two.jsonl")))
    graphs = replace(graphs, schema=replace(graphs.schema, flow=flow))
    (batch,) = NodeBatches(Collater(graphs), 10, [2], torch.tensor([7, 1]))
    center = 1 if flow == "source_to_target" else 0
    every = {(int(a), int(b)): float(w) for a, b, w in zip(*edges, range(6), strict=True)}
    x = batch.x.view(-1).long()
    for (a, b), weight in zip(batch.edge_index.t().tolist(), batch.edge_attr.view(-1).tolist(), strict=True):
        assert every[int(x[a]), int(x[b])] == weight
        assert (a, b)[center] in (0, 1), "edges lead to the nodes that were asked for"
    assert batch.y.tolist() == [2, 1] and x[:2].tolist() == [2, 1] and batch.batch[:2].tolist() == [1, 0]


def test_inductive_training_never_sees_the_others(training, arrays, tmp_path):
    """Neither their features nor their edges nor their targets: its graph is the one without them."""
    seen = arrays["train_mask"]
    place = np.cumsum(seen) - 1
    inner = seen[arrays["edges"]].all(1)
    alone = {"n": int(seen.sum()), "edges": place[arrays["edges"][inner]]} | {k: arrays[k][seen] for k in ("x", "y")}
    graphs = training(protocol_inductive=True).batches.collater.graphs
    np.savez(tmp_path / "alone.npz", **alone)
    expected = Graphs.of(load(tmp_path / "alone.npz"))
    assert torch.equal(graphs.nodes, expected.nodes) and torch.equal(graphs.edges, expected.edges)
    assert torch.equal(graphs.edge_index.long(), expected.edge_index.long())
    for name in ("x", "y"):
        assert torch.equal(graphs.node[name], expected.node[name])
    both = [training(protocol_inductive=True, data_neighbours=given, optim_batch_size=8) for given in ((), (3,))]
    assert all(one.batches.collater is not one.collater for one in both)
    assert [len(one.batches) for one in both] == [1, 5]


def test_induced_graphs_of_several(tmp_path):
    ring = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
    data = [Data(edge_index=ring, x=torch.arange(4.0).view(4, 1) + 10 * i, y=torch.ones(4)) for i in range(2)]
    graphs = Graphs.of(load(save_jsonl(data, tmp_path / "rings.jsonl"))).induced(torch.tensor([0, 1, 5, 6, 7]))
    assert graphs.nodes.tolist() == [2, 3] and graphs.edges.tolist() == [1, 2]
    assert graphs.edge_index.tolist() == [[0, 0, 1], [1, 1, 2]]
    assert graphs.checked("here").node["x"].view(-1).tolist() == [0, 1, 11, 12, 13]


def test_the_same_seed_samples_the_same_neighbours(training):
    def weights():
        one = training(data_neighbours=(3, 2), optim_batch_size=8)
        torch.rand(5)
        one.state["epoch"] = 1
        one.train_epoch(Callback())
        return one.network.state_dict()

    first, second = weights(), weights()
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("neighbours", [(), (3,)])
def test_other_targets_have_no_part_in_training(neighbours, training, arrays, tmp_path):
    def weights(y):
        np.savez(tmp_path / "graph.npz", **arrays | {"y": y})
        one = training(data_neighbours=neighbours, optim_batch_size=8)
        one.train_epoch(Callback())
        return one.network.state_dict()

    y = arrays["y"]
    first, second = (weights(np.where(arrays["train_mask"], y, other)) for other in (y, (y + 1) % CLASSES))
    assert all(torch.equal(first[name], second[name]) for name in first)
    third = weights((y + 1) % CLASSES)
    assert not all(torch.equal(first[name], third[name]) for name in first)


def test_masks_of_several_graphs(training, tmp_path):
    masks = {"train_mask": [True, False, False], "val_mask": [False, True, False], "test_mask": [False, False, True]}
    line = {"x": [[0.5], [1.0], [2.0]], "edges": [[0, 1], [1, 2]], **masks}
    path = tmp_path / "mine.jsonl"
    path.write_text("".join(json.dumps(line | {"node_y": [0.5, y, 1.5]}) + "\n" for y in (1.0, None)))
    one = training(str(path))
    assert [part.tolist() for part in (one.split.train, one.split.val, one.split.test)] == [[0, 3], [1], [2, 5]]
    again = load(save_jsonl(load(path), tmp_path / "again.jsonl"))
    assert again[1].test_mask.tolist() == masks["test_mask"]


@pytest.mark.parametrize("options, said", [
    ({"data_neighbours": (3, 3, 3)}, "one for each of the 2 aggregations"),
    ({"data_neighbours": (0,)}, "data.neighbours must be 1 or more"),
    ({"model_reads": ("star", "rings"), "data_neighbours": (3,)}, "model.reads rings needs the whole graph"),
])  # fmt: skip
def test_options_that_do_not_fit(options, said, graph, small, fit):
    with pytest.raises(ValueError, match=said):
        fit(small(data_name=graph, data_options={}, model_layers=2, **options))


def test_masks_that_do_not_fit(arrays, tmp_path, small, fit):
    def read(**change):
        np.savez(tmp_path / "bad.npz", **{k: v for k, v in (arrays | change).items() if v is not None})
        return load(tmp_path / "bad.npz")

    with pytest.raises(ValueError, match=r"node \d+ is in train_mask and in test_mask"):
        read(test_mask=arrays["train_mask"])
    with pytest.raises(ValueError, match="train_mask: found 3 entries, but there are 60 nodes"):
        read(train_mask=np.ones(3, bool))
    read(val_mask=None)
    with pytest.raises(ValueError, match=r'no split val: choose --protocol\.kind random, or write "val_mask"'):
        fit(small(data_name=str(tmp_path / "bad.npz"), data_options={}))


def test_pyg_takes_the_sampler(graph):
    data, collater = load(graph)[0], Collater(Graphs.of(load(graph)))
    sampler = PlanSampler(collater.whole_plan, [3])
    batch = next(iter(NeighborLoader(data, [3], torch.arange(5), neighbor_sampler=sampler, batch_size=5)))
    assert torch.equal(batch.x[:5], data.x[:5]) and batch.batch_size == 5


def test_the_researcher(arrays, tmp_path, monkeypatch, capsys):
    """From an empty folder, with commands of the docs: a large graph, a network, predictions for nodes."""
    monkeypatch.chdir(tmp_path)
    arrays["y"] = np.array(["red", "green", "blue"])[arrays["y"]]
    np.savez("graph.npz", **arrays)
    assert main(["data", "check", "graph.npz"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "60 in all (train 36, val 10, test 14)" in said and "node classification, 3 classes" in said
    command = (
        "train --data.name graph.npz --data.neighbours [8] --optim.batch_size 16 --model.cell linear --model.layers 2 "
        "--model.hidden 16 --optim.epochs 12 --optim.lr 0.01 --run.out runs/mine"
    )
    assert main(command.split()) == 0
    assert main(["evaluate", "runs/mine", "--json", "figures.json"]) == 0
    assert json.loads((tmp_path / "figures.json").read_text())["seed0"]["accuracy"] > 0.6
    del arrays["y"]
    np.savez("later.npz", **arrays)
    assert main(["predict", "runs/mine", "later.npz", "--out", "nodes.csv"]) == 0
    header, *rows = (tmp_path / "nodes.csv").read_text().splitlines()
    assert header == "graph,node,prediction,p(blue),p(green),p(red),note" and len(rows) == NODES
    assert main(["report", "runs/mine"]) == 0
