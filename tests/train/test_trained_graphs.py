"""Runs know which graphs they were trained on, and read others as they read those."""

import json

import pytest
import torch

from pggnn.cli import main
from pggnn.data.loading import load
from pggnn.train.runs.predict import Trained, evaluate, predict
from pggnn.train.runs.run import load_graphs


def rewrite(path, change):
    lines = path.read_text().splitlines()
    path.write_text("\n".join(change(lines)) + "\n")


@pytest.mark.parametrize(
    "change",
    [
        lambda lines: lines[1:],
        lambda lines: [*lines, lines[0]],
        lambda lines: [line.replace('"path"', '"way"') for line in lines],
        lambda lines: [line.replace('"a"', '"z"') for line in lines],
        lambda lines: [lines[1], lines[0], *lines[2:]],
    ],
    ids=["one less", "one more", "other classes", "other labels", "another order"],
)
def test_other_graphs_than_a_runs_own_are_refused(change, small, fit, classes):
    """Which of them train and which test is drawn from them: a test graph would be one that was trained on."""
    config = small(data_name=str(classes), data_options={}, data_walks=3)
    before, schema = fit(config), (config.folder / "schema.json").read_bytes()
    text = classes.read_text()
    rewrite(classes, change)
    for again in (lambda: fit(config, "last"), lambda: list(evaluate(config.folder))):
        with pytest.raises(ValueError, match=r"has other graphs than those|is not among the known"):
            again()
    assert (config.folder / "schema.json").read_bytes() == schema
    classes.write_text(text)
    assert fit(config, "last") == before
    assert len(list(evaluate(config.folder))) == 1


def test_a_run_that_does_not_say_what_its_graphs_were_is_told(small, fit, classes):
    config = small(data_name=str(classes), data_options={})
    before = fit(config)
    (config.folder / "graphs.json").unlink()  # as runs from before it was kept
    assert fit(config, "last") == before
    assert json.loads((config.folder / "graphs.json").read_text())["graphs"] == 40


def test_a_split_of_the_data_is_no_data_set_to_train_on(small, classes):
    rewrite(
        classes, lambda lines: [f'{line[:-1]}, "split": "{["train", "test"][i % 2]}"}}' for i, line in enumerate(lines)]
    )
    with pytest.raises(ValueError, match=r"split leaves out graphs of .*; --protocol\.kind says"):
        load_graphs(small(data_name=str(classes), data_options={"split": "train"}))


def write_tu(folder, labels, edge_labels, classes=(0, 1), targets=None):
    """Paths of three nodes in TU's format, labels given for the three nodes and the two edges of each graph."""
    folder.mkdir()
    count = len(labels)
    edges = [(3 * i + a, 3 * i + b) for i in range(count) for a, b in ((1, 2), (2, 3))]
    files = {
        "A": [f"{a}, {b}" for edge in edges for a, b in (edge, edge[::-1])],
        "graph_indicator": [str(i + 1) for i in range(count) for _ in range(3)],
        "node_labels": [str(label) for graph in labels for label in graph],
        "edge_labels": [str(label) for graph in edge_labels for label in graph for _ in range(2)],
        "graph_labels": [str(classes[i % 2]) for i in range(count)],
    }
    if targets is not None:
        files["graph_attributes"] = [", ".join(map(str, row)) for row in targets]
    for name, lines in files.items():
        (folder / f"{folder.name}_{name}.txt").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture
def folders(small, fit, tmp_path):
    """A run on a folder in TU's format whose nodes have labels 1, 2, 3, as the degrees of others, and edges 0 and 1."""
    labels = [(1, 2, 3) if i % 2 else (3, 1, 2) for i in range(20)]
    data = write_tu(tmp_path / "train", labels, [(0, 1)] * 20, (5, 7))
    config = small(data_name=str(data), data_options={}, model_edge_features=True)
    fit(config)
    return Trained.load(config.folder), tmp_path


def test_labels_of_a_folder_are_those_of_the_training(folders):
    """All nodes of one label, which says nothing in a file of its own, and some of the edges' labels alone."""
    trained, place = folders
    assert len(list(evaluate(trained.config.folder))) == 1, "its own graphs are the same read that way"
    some = trained.read(write_tu(place / "some", [(1, 1, 1), (1, 1, 1)], [(1, 1), (1, 1)], (7, 7)))
    assert some.schema == trained.schema
    assert some[0].x.tolist() == [[1, 0, 0]] * 3 and some[0].edge_attr.tolist() == [[0, 1]] * 4
    assert some[0].y.item() == 1, "class 7 is the second of two"
    both = trained.read(write_tu(place / "both", [(1, 1, 1), (1, 2, 3)], [(1, 1), (0, 1)], (7, 5)))
    ours, theirs = (next(predict(trained, dataset)) for dataset in (some, both))
    assert ours == theirs
    assert load(place / "some")[0].x.shape == (3, 2), "degrees 1 and 2, without a run to tell"


def test_a_folder_may_leave_out_targets(folders):
    trained, place = folders
    new = write_tu(place / "new", [(1, 2, 3), (3, 1, 2)], [(0, 1), (1, 0)])
    rows = list(predict(trained, trained.read(new)))
    (new / "new_graph_labels.txt").unlink()
    assert trained.read(new).schema == trained.schema and list(predict(trained, trained.read(new))) == rows
    with pytest.raises(ValueError, match="new: the graphs have no targets to evaluate against"):
        list(evaluate(trained.config.folder, str(new)))


def test_labels_that_were_never_seen_are_refused(folders):
    trained, place = folders
    with pytest.raises(ValueError, match="x: label 4 is none of those known: 1, 2, 3"):
        trained.read(write_tu(place / "nodes", [(1, 2, 4)], [(0, 1)]))
    with pytest.raises(ValueError, match="edge_attr: label 2 is none of those known: 0, 1"):
        trained.read(write_tu(place / "edges", [(1, 2, 3)], [(1, 2)]))
    strange = write_tu(place / "classes", [(1, 2, 3)], [(0, 1)], (6, 6))
    assert len(list(predict(trained, trained.read(strange)))) == 1, "classes do not matter here"
    with pytest.raises(ValueError, match="classes 6, but the networks were trained with 5, 7"):
        list(evaluate(trained.config.folder, str(strange)))
    own = place / "train" / "train_graph_labels.txt"
    own.write_text(own.read_text().replace("5", "6"))
    with pytest.raises(ValueError, match=r"^\S+train: classes 6, 7, but the networks were trained with 5, 7"):
        list(evaluate(trained.config.folder))


def test_another_number_of_targets_is_refused(small, fit, tmp_path):
    labels, edges = [(1, 2, 3)] * 20, [(0, 1)] * 20
    data = write_tu(tmp_path / "two", labels, edges, targets=[(i, -i) for i in range(20)])
    config = small(data_name=str(data), data_options={})
    fit(config)
    other = write_tu(tmp_path / "one", labels, edges, targets=[(i,) for i in range(20)])
    with pytest.raises(ValueError, match="one: 1 targets each, but the networks were trained with 2"):
        list(evaluate(config.folder, str(other)))


def test_weights_of_64_bits_answer_in_64_bits(small, fit):
    config = small(run_precision="64")
    fit(config)
    (scorer,) = Trained.load(config.folder).scorers.values()
    assert {parameter.dtype for parameter in scorer.parameters()} == {torch.double}


@pytest.mark.parametrize(("file", "command"), [("schema.json", "evaluate"), ("seed0/result.json", "train")])
def test_damaged_files_are_named(file, command, small, fit, capsys):
    config = small(optim_epochs=1)
    fit(config)
    (config.folder / file).write_text('{"level": "no')
    words = ["--config", str(config.folder / "config.yaml"), "--resume"] if command == "train" else [str(config.folder)]
    assert main([command, *words]) == 2
    assert f"{config.folder / file} is not valid JSON" in capsys.readouterr().err
