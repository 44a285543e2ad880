"""``pggnn.fit``, ``pggnn.load`` and ``PGGNN.save_pretrained``."""

import json
import shutil
import sys
from types import SimpleNamespace

import pytest
import torch
from torch_geometric.data import Data

import pggnn
from pggnn.cli import main
from pggnn.data.formats.export import save_jsonl
from pggnn.data.formats.jsonl import load_jsonl

QUICK = {"model": {"hidden": 4, "layers": 1, "rnn_layers": 1}, "run": {"device": "cpu"}, "epochs": 2}


def ring(i, x=None):
    nodes = 4 + i % 3
    around = torch.tensor([[v, (v + 1) % nodes] for v in range(nodes)])
    edges = torch.cat([around, around.flip(1)]).t()
    x = torch.full((nodes, 2), float(i % 2)) if x is None else x(nodes)
    return Data(x=x, edge_index=edges, y=torch.tensor([i % 2]))


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def rings():
    return [ring(i) for i in range(30)]


def test_what_is_fitted_answers_as_the_command_does(here, rings, capfd):
    run = pggnn.fit(rings, **QUICK | {"epochs": 12}, optim={"lr": 0.03})
    assert "epoch 12/12" in capfd.readouterr().err, "progress is shown"
    assert run.folder == here / "runs/fit" and run.schema.classes == (0, 1)
    assert run.score(rings) == 1 == run.metrics["mean"] and 0 <= run.metrics["baseline"] < 1
    rows = run.predict(rings[:7])
    assert [row["prediction"] for row in rows] == [i % 2 for i in range(7)]
    save_jsonl(rings[:7], "new.jsonl")
    assert main(["predict", "runs/fit", "new.jsonl", "--out", "new.out.jsonl"]) == 0
    assert rows == [json.loads(line) for line in (here / "new.out.jsonl").read_text().splitlines()]
    assert rows == pggnn.load("runs/fit").predict("new.jsonl") == run.predict(load_jsonl("new.jsonl"))
    assert pggnn.fit(rings, **QUICK).folder == here / "runs/fit-2"


def test_training_stops_early(here, rings):
    run = pggnn.fit(rings, **QUICK | {"epochs": 500}, patience=0, out="early", optim={"lr": 1e-5})
    result = json.loads((here / "early/seed0/result.json").read_text())
    assert (
        result["ended"] == "learning rate" and result["epoch"] < 10 and run.config.optim.min_lr == pytest.approx(1e-6)
    )


def test_labels_are_looked_up_and_added_features_computed(here):
    graphs = [ring(i, lambda nodes, i=i: torch.full((nodes, 1), 5 + 3 * (i % 2))) for i in range(30)]
    run = pggnn.fit(graphs, **QUICK | {"epochs": 12}, optim={"lr": 0.03}, data={"walks": 3})
    assert run.schema.node_labels == (5, 8) and run.schema.features == 3
    assert run.score(graphs) == 1
    one_hot = [ring(i, lambda nodes, i=i: torch.eye(2)[[i % 2] * nodes]) for i in range(6)]
    assert run.predict(one_hot) == run.predict(graphs[:6])
    with pytest.raises(ValueError, match="9"):
        run.predict([ring(0, lambda nodes: torch.full((nodes, 1), 9))])


@pytest.mark.parametrize("task, metric", [("regression", "MAE"), ("classification", "accuracy")])
def test_the_task_is_the_one_that_was_asked_for(here, rings, task, metric):
    for graph in rings:
        graph.y = graph.y.float() if task == "classification" else graph.y
    run = pggnn.fit(rings, task, **QUICK)
    assert run.metrics["metric"] == metric and run.task.kind == task


def test_mistakes(here, rings):
    with pytest.raises(ValueError, match=r"there is no option model.hiden; did you mean model.hidden\?"):
        pggnn.fit(rings, model={"hiden": 3})
    pggnn.fit(rings, **QUICK | {"run": {"jobs": 1}}, out="twice", protocol={"seeds": [0, 1]})
    with pytest.raises(ValueError, match=r"twice holds a run already: .* load\('twice'\)"):
        pggnn.fit(rings, **QUICK, out="twice")
    with pytest.raises(ValueError, match=r"has 2 networks: choose one, such as load\('.*twice/seed0'\)"):
        _ = pggnn.load("twice").model
    run = pggnn.load("twice/seed1")
    assert isinstance(run.model, pggnn.PGGNN)
    with pytest.raises(ValueError, match="read 2 features of each node in x, got Data"):
        run.predict([Data(edge_index=rings[0].edge_index, num_nodes=4)])
    with pytest.raises(ValueError, match="there are no graphs"):
        run.predict([])
    with pytest.raises(ValueError, match="no targets y"):
        run.score([Data(x=rings[0].x, edge_index=rings[0].edge_index)])
    with pytest.raises(ValueError, match="whole numbers in y"):
        pggnn.fit([Data(x=torch.ones(1, 1), edge_index=torch.empty(2, 0).long(), y=torch.tensor([0.5]))], "multilabel")


def test_a_network_is_a_folder_that_loads_in_one_line(here, rings):
    run = pggnn.fit(rings, **QUICK, data={"walks": 2})
    assert next(iter(run.scorers.values())).network.scales[0].size is not None
    run.model.save_pretrained("shared")
    assert {path.name for path in (here / "shared").iterdir()} == {"README.md", "config.json", "model.safetensors"}
    found = pggnn.PGGNN.from_pretrained("shared").eval()
    x, edges = torch.rand(4, 4), rings[0].edge_index
    torch.testing.assert_close(found(x, edges), run.model(x, edges))
    card = (here / "shared/README.md").read_text()
    figure = f"Test accuracy {100 * run.metrics['mean']:.1f} %; always the most frequent class"
    assert figure in card and "trained on fit.jsonl" in card and "--model.hidden 4" in card
    assert "computed columns of `x`, which come first: walks 2" in card
    assert "another seed may have another figure" in card and "library_name: pggnn" in card
    assert str(here) not in card
    with pytest.raises(ValueError, match="pickled are not read"):
        type(found)._load_as_pickle(found, "pytorch_model.bin", "cpu", True)


def test_a_repository_gets_the_same_files(here, rings, monkeypatch):
    """Up to what is sent: the Hub's two calls are answered by a folder."""
    sent = {}

    def upload(api, *, repo_id, folder_path, **_):
        sent[repo_id] = shutil.copytree(folder_path, here / "hub" / repo_id)

    monkeypatch.setattr("huggingface_hub.HfApi.create_repo", lambda api, **given: SimpleNamespace(**given))
    monkeypatch.setattr("huggingface_hub.HfApi.upload_folder", upload)
    model = pggnn.PGGNN(2, 4, 2, 1).eval()
    model.push_to_hub("me/mine")
    found = pggnn.PGGNN.from_pretrained(sent["me/mine"]).eval()
    assert torch.equal(found(rings[0].x, rings[0].edge_index), model(rings[0].x, rings[0].edge_index))
    assert "Nothing is recorded" in (sent["me/mine"] / "README.md").read_text()


def test_its_scores_are_in_the_unit_of_the_targets(here, rings):
    for i, graph in enumerate(rings):
        graph.y = torch.tensor([500.0 + i % 3])
    run = pggnn.fit(rings, **QUICK, optim={"standardize": True})
    (row,) = run.predict(rings[:1])
    run.model.save_pretrained("values")
    found = pggnn.PGGNN.from_pretrained("values").eval()
    assert (
        found(rings[0].x, rings[0].edge_index).item() == pytest.approx(row["prediction"], rel=1e-4)
        and row["prediction"] > 400
    )


def test_so_is_one_that_no_run_has_trained(here, monkeypatch):
    model = pggnn.PGGNN(3, 4, 2, 1, numbering="both", numberings=2, cell="gru", reads=("star", "sum"), block="residual")
    model.save_pretrained("own")
    found = pggnn.PGGNN.from_pretrained("own")
    assert found.arguments == model.arguments and found.state_dict().keys() == model.state_dict().keys()
    assert "Nothing is recorded" in (here / "own/README.md").read_text()
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    monkeypatch.delitem(sys.modules, "pggnn.nn.hub")
    with pytest.raises(ModuleNotFoundError, match=r"huggingface_hub is missing; .* 'pggnn\[hub\]'"):
        model.save_pretrained("own")
