"""The programs in examples/ run, and learn."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.loader import NeighborLoader
from torch_geometric.sampler import NodeSamplerInput

from pggnn import AddRings, Plan
from pggnn.data.sets.counting import erdos_renyi

EXAMPLES = Path(__file__).parents[1] / "examples"


def load(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def example():
    return load("neighbor_loader")


def test_sampled_neighbourhoods_are_parts_of_the_graph(example):
    data = example.planted(200)
    sampler = example.PlanSampler(Plan.build(data.edge_index, 200), [4, 2])
    for seeds in (torch.tensor([7, 3, 150]), torch.arange(200), torch.tensor([9])):
        out = sampler.sample_from_nodes(NodeSamplerInput(None, seeds))
        assert torch.equal(out.node[: len(seeds)], seeds)
        assert len(out.node.unique()) == len(out.node) == sum(out.num_sampled_nodes)
        assert torch.equal(data.edge_index[:, out.edge], torch.stack([out.node[out.row], out.node[out.col]]))
        assert len(out.edge.unique()) == len(out.edge), "an edge was sampled twice"
        first, second = out.col.split(out.num_sampled_edges)
        degree = torch.bincount(data.edge_index[1], minlength=200)
        assert torch.equal(torch.bincount(first, minlength=len(seeds)), degree[seeds].clamp(max=4))
        assert second.numel() == 0 or torch.bincount(second).max() <= 2
        assert (sampler._place == -1).all()


def test_every_neighbour_is_sampled_as_often_as_the_next(example):
    star = torch.stack([torch.arange(1, 7), torch.zeros(6, dtype=torch.long)])
    sampler = example.PlanSampler(Plan.build(star, 7), [2])
    drawn = [sampler.sample_from_nodes(NodeSamplerInput(None, torch.tensor([0]))).edge for _ in range(1200)]
    assert all(first < second for first, second in drawn), "neighbours keep their order"
    counts = torch.bincount(torch.cat(drawn), minlength=6)
    assert (counts - 400).abs().max() < 90  # 5.5 standard deviations


def test_blocks_with_all_neighbours_give_what_the_whole_graph_gives(example):
    data = example.planted(300)
    largest = int(torch.bincount(data.edge_index[1]).max())
    model = example.Net(5, 8, 5, 2).eval()
    with torch.no_grad():
        size = [data.num_nodes, 0, 0]
        whole = model(data.x, data.edge_index, size, [data.num_edges, 0])
        sampler = example.PlanSampler(Plan.build(data.edge_index, 300), [largest] * 2)
        loader = NeighborLoader(data, [largest] * 2, torch.arange(40, 90), neighbor_sampler=sampler, batch_size=20)
        for batch in loader:
            scores = model(batch.x, batch.edge_index, batch.num_sampled_nodes, batch.num_sampled_edges)
            torch.testing.assert_close(scores, whole[batch.n_id[: batch.batch_size]])
            assert len(scores) == batch.batch_size


def test_it_learns_from_neighbours(example, capsys):
    data = example.planted(1500)
    own = (data.x.argmax(-1) == data.y).float().mean()
    accuracy = example.run(data, [6, 3], 128, 16, 3)
    assert own < 0.55
    assert accuracy > 0.75
    assert f"test accuracy {accuracy:.1%}" in capsys.readouterr().out


def test_it_reads_graphs_of_ones_own(example, tmp_path):
    edges = example.planted(120).edge_index
    np.savez(tmp_path / "mine.npz", n=120, edges=edges[:, edges[0] < edges[1]].t().numpy().astype(np.int32))
    data = example.clustered(tmp_path / "mine.npz")
    assert torch.equal(data.edge_index, edges)
    assert set(data.y.tolist()) == {0, 1}
    assert example.run(data, [4], 32, 4, 1) > 0


def test_a_loop_of_ones_own_learns_to_count(capsys):
    graphs = erdos_renyi(150)
    train, test = graphs[:100], graphs[100:]
    counts = torch.cat([graph.y for graph in test]).float()
    error = load("own_loop").run(train, test, epochs=12, hidden=16)
    assert error < 0.8 * (counts - counts.median()).abs().mean()
    assert f"test MAE {error:.3f}" in capsys.readouterr().out


def test_links_are_predicted_better_than_by_features(capsys):
    example = load("link_prediction")
    data = example.planted(400, classes=5)
    joined, others = data.edge_index, torch.randint(400, (2, 3000), generator=torch.Generator().manual_seed(0))
    alike = (data.x @ data.x.t())[tuple(torch.cat([joined, others], 1))]
    own = example.roc_auc_score(torch.arange(len(alike)) < joined.size(1), alike)
    found = example.run(data, 16, 40)
    assert found > own + 0.1, f"{found:.3f} with the network, {own:.3f} by the features alone"
    assert f"test AUROC {found:.3f}" in capsys.readouterr().out


def test_molecules_with_rings(capsys):
    """Pairs that lie opposite each other are seen by who reads the ring."""
    example = load("molecules")
    train, test = ([AddRings()(graph) for graph in example.generate(150, seed)] for seed in (0, 1))
    assert all(len(graph.ring_size) in (2, 3) for graph in train)
    counts = torch.cat([graph.y for graph in test])
    error = example.run(train, test, epochs=15, hidden=16)
    assert error < 0.7 * (counts - counts.median()).abs().mean()
    assert f"test MAE {error:.3f}" in capsys.readouterr().out


def test_graphs_in_shards_are_learned_from(tmp_path, capsys):
    example = load("streamed")
    example.write(tmp_path, 400, shard_size=40)
    assert len([*(tmp_path / "train").iterdir()]) == 10
    counts = torch.cat([graph.y for graph in example.generate(100, seed=1)]).float()
    error = example.run(tmp_path, epochs=8, hidden=16, batch_size=8, buffer=3)
    assert error < 0.8 * (counts - counts.median()).abs().mean()
    assert f"epoch 8: 50 batches, validation MAE {error:.3f}" in capsys.readouterr().out


@pytest.mark.slow
def test_several_processes_learn_from_shards(tmp_path):
    """Each reads its own."""
    command = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    script = [EXAMPLES / "streamed.py", tmp_path / "shards", "--graphs", "400", "--epochs", "2"]
    ended = subprocess.run([sys.executable, *command, *script], capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    assert [line.partition(",")[0] for line in ended.stdout.splitlines()] == [
        "epoch 1: 13 batches",
        "epoch 2: 13 batches",
    ]
