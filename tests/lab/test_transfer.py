import json
from dataclasses import replace
from itertools import count

import pytest
import torch

from pggnn.cli import main
from pggnn.data.batching.collate import Collater
from pggnn.data.schema import Schema
from pggnn.data.sets.counting import TASKS
from pggnn.lab import transfer
from pggnn.lab.transfer import CASES, DRAW, TESTED, Budget, choose, draw_caves, draw_geometric, draw_sets, run
from pggnn.train.config import ModelConfig
from pggnn.train.engine.checkpoint import Checkpoint
from pggnn.train.engine.loop import BEST, LAST, Callback, Split, Training

TINY = Budget(graphs=64, tests=8, epochs=1, hidden=4)
MODEL = ModelConfig(hidden=4, layers=1, cell="srn", structure=2)
TESTS = ["10 nodes", "20 nodes, same degree", "30 nodes, same degree", "20 nodes, same p", "30 nodes, same p",
         "30 nodes, 5-regular"]  # fmt: skip
CLUSTERED = ["10 nodes", "30 nodes, same degree", "30 nodes, geometric", "30 nodes, caves"]


def test_the_table_has_all_rows(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(transfer, "QUICK", TINY)
    assert main(["lab", "transfer", "--quick", "--out", str(tmp_path)]) == 0
    rows = json.loads((tmp_path / "sparse.json").read_text())
    assert [(row["task"], row["features"], row["structure"], row["numberings"], row["tested_on"]) for row in rows] == [
        (*case, numberings, test) for case in CASES["sparse"] for numberings in TESTED[case[-1]] for test in TESTS
    ]
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 1 + len(rows) + 3
    for row, line in zip(rows, printed[1:], strict=False):
        figures = ["nan" if row[key] is None else f"{row[key]:.4f}" for key in ("error", "error_where", "mean")]
        assert line.split()[-4:] == [*figures, str(row["largest"])]
    first = list(run(TINY, 0, tmp_path / "again", lambda name, epochs: Callback()))
    assert [row.error for row in first] == [row["error"] for row in rows]


def test_several_seeds_and_clustered_graphs(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(transfer, "QUICK", TINY)
    command = ["lab", "transfer", "--clustered", "--quick", "--seeds", "0", "3", "--out", str(tmp_path)]
    assert main(command) == 0
    rows = json.loads((tmp_path / "clustered.json").read_text())
    assert [(row["seed"], row["numberings"], row["tested_on"]) for row in rows] == [
        (seed, numberings, test) for seed in (0, 3) for numberings in TESTED[2] for test in CLUSTERED
    ]
    printed = capsys.readouterr().out
    assert "graphs of 10 nodes (p = 0.5)" in printed
    assert "seeds 0, 3." in printed
    first, second = (row["error"] for row in (rows[0], rows[len(rows) // 2]))
    assert first != second
    assert f"{(first + second) / 2:.4f} ± {abs(first - second) / 2:.4f}" in printed.splitlines()[1]


def test_clustered_graphs_have_the_degree_and_many_cliques():
    budget = Budget(graphs=400, tests=400)
    assert list(DRAW["clustered"](budget, 0)) == ["train", "val", *CLUSTERED]
    graphs, numbers = draw_sets(budget, 0, "clustered")
    cliques = graphs.node["cliques"].double().split(graphs.nodes.tolist())
    mean = {name: float(torch.cat([cliques[i] for i in index]).mean()) for name, index in numbers.items()}
    for name, index in numbers.items():
        assert float(graphs.edges[index].sum() / graphs.nodes[index].sum()) == pytest.approx(4.5, abs=0.1), name
    assert mean["30 nodes, same degree"] < 0.1 < 1 < mean["train"]
    assert min(mean["30 nodes, geometric"], mean["30 nodes, caves"]) > mean["train"]
    for draw in (draw_geometric, draw_caves):
        adjacency, nodes = draw(20, 30, 4.5, 1)
        assert torch.equal(adjacency, adjacency.transpose(1, 2))
        assert not adjacency.diagonal(dim1=1, dim2=2).any()
        assert nodes.tolist() == [30] * 20


def test_sets_are_what_they_are_called():
    graphs, numbers = draw_sets(Budget(graphs=400, tests=200), seed=0)
    assert list(numbers) == ["train", "val", *TESTS]
    assert torch.equal(torch.cat(list(numbers.values())), torch.arange(len(graphs)))
    edge_index, ptr = graphs.batched_edges()
    for task, counted in TASKS.items():
        assert torch.equal(graphs.node[task], counted(edge_index, ptr))
    degree = {name: float(graphs.edges[index].sum() / graphs.nodes[index].sum()) for name, index in numbers.items()}
    for name in ("train", "val", "10 nodes", "20 nodes, same degree", "30 nodes, same degree"):
        assert degree[name] == pytest.approx(2.7, abs=0.15), name
    assert degree["20 nodes, same p"] == pytest.approx(0.3 * 19, abs=0.2)
    assert degree["30 nodes, same p"] == pytest.approx(0.3 * 29, abs=0.2)
    assert graphs.edges[numbers["30 nodes, 5-regular"]].unique().tolist() == [150]
    for name, index in numbers.items():
        assert graphs.nodes[index].unique().tolist() == [int(name[:2]) if name[0].isdigit() else 10]
    small, large = (Collater(graphs).collate(numbers[name]).x for name in ("train", "30 nodes, same p"))
    assert small.size(1) == large.size(1) == 30
    assert not small[:, 10:].any()
    assert large[:, 10:].any()


def test_constant_features_know_nothing_of_the_size(tmp_path):
    """Isolated nodes around a graph, which change its size alone, leave the answers as they were."""
    graphs, numbers = draw_sets(TINY, seed=0)
    constant = choose(graphs, "triangles", "constant")
    assert "x" not in constant.node
    assert constant.schema == Schema("node", "regression")
    split = Split(numbers["train"], numbers["val"], numbers["10 nodes"])
    training = transfer.train(constant, split, MODEL, 1, 0, tmp_path, Callback())
    scorer = training.scorer.eval()
    tested = numbers["10 nodes"][:1]
    larger = replace(
        graphs.chunk(int(tested), int(tested) + 1), nodes=torch.tensor([30]), node={"y": torch.zeros(30)},
        schema=constant.schema,
    )  # fmt: skip
    with torch.no_grad():
        here = scorer(Collater(constant).collate(tested))
        there = scorer(Collater(larger).collate(torch.tensor([0])))
    assert len(here) == 10
    assert len(there) == 30
    torch.testing.assert_close(there[:10], here)


def test_validation_chooses_the_weights(tmp_path, monkeypatch):
    graphs, numbers = draw_sets(TINY, seed=0)
    worse = count()
    monkeypatch.setattr(Training, "measure", lambda self, index: {"MAE": float(next(worse)), "nonfinite": 0})
    split = Split(numbers["train"], numbers["val"], numbers["10 nodes"])
    training = transfer.train(choose(graphs, "cliques", "constant"), split, MODEL, 3, 0, tmp_path, Callback())
    weights = training.network.state_dict()
    best, last = (Checkpoint.load(tmp_path / name) for name in (BEST, LAST))
    assert (best.state["epoch"], last.state["epoch"]) == (1, 3)
    assert all(torch.equal(weights[name], value) for name, value in best.weights.items())
    assert not all(torch.equal(weights[name], value) for name, value in last.weights.items())


def test_each_stage_goes_on_from_the_one_before(tmp_path, monkeypatch):
    graphs, numbers = draw_sets(TINY, seed=0)
    split = Split(numbers["train"], numbers["val"], numbers["10 nodes"])
    began, told, original = [], [], Training.run

    def begin(self, callback):
        weights = {name: value.clone() for name, value in self.network.state_dict().items()}
        began.append((self.network.convs[0].numberings, self.config.optim.lr, weights))
        return original(self, callback)

    def callback(name, epochs):
        told.append((name, epochs))
        return Callback()

    monkeypatch.setattr(Training, "run", begin)
    cliques = choose(graphs, "cliques", "constant")
    training = transfer.train_stages(cliques, split, MODEL, 4, 0, tmp_path / "two", callback)
    assert told == [("two-2", 4), ("two-8", 1)]
    assert [stage[:2] for stage in began] == [(2, 0.01), (8, 0.0025)]
    before, after = Checkpoint.load(tmp_path / "two-2" / BEST).weights, training.network.state_dict()
    assert all(torch.equal(before[name], value) for name, value in began[1][2].items())
    assert not all(torch.equal(before[name], value) for name, value in after.items())


def test_bad_input_is_refused(tmp_path, capsys):
    assert main(["lab", "transfer", "--quick", "--seed", "-1", "--out", str(tmp_path)]) == 2
    assert "a seed of 0 or more, got -1" in capsys.readouterr().err
    with pytest.raises(ValueError, match="1 or more epochs, got 0"):
        Budget(epochs=0)
    (tmp_path / "file").touch()
    assert main(["lab", "transfer", "--quick", "--out", str(tmp_path / "file")]) == 2
    assert "Not a directory" in capsys.readouterr().err
