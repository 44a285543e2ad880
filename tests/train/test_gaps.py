"""Targets that are not known: they have no part in losses and metrics."""

import json
import math

import pytest
import torch
from sklearn.metrics import roc_auc_score

from pggnn.cli import main
from pggnn.data.formats.export import save_jsonl
from pggnn.data.formats.jsonl import InvalidFile, load_jsonl
from pggnn.data.graphs import Graphs
from pggnn.data.loading import load
from pggnn.data.schema import UNKNOWN, Schema
from pggnn.train.engine.task import Task
from pggnn.train.runs.run import first_training, load_graphs

NAN = math.nan


def write(path, targets, key="y", **more):
    lines = [{"num_nodes": 3, "edges": [[0, 1], [1, 2]], key: y} | {k: v[i] for k, v in more.items()} for i, y in
             enumerate(targets)]  # fmt: skip
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.mark.parametrize(
    "key, targets, task, y",
    [
        ("y", [None, "b", "a", NAN], "classification", [UNKNOWN, 1, 0, UNKNOWN]),
        ("y", [3, None, 7], "classification", [0, UNKNOWN, 1]),
        ("y", [None, 1.5, NAN], "regression", [NAN, 1.5, NAN]),
        ("y", [None, [1, 0], [None, 1]], "multilabel", [[NAN, NAN], [1, 0], [NAN, 1]]),
        ("y", [[0.5, None], NAN], "regression", [[0.5, NAN], [NAN, NAN]]),
        ("node_y", [[None] * 3, ["a", None, "b"]], "classification", [UNKNOWN] * 3 + [0, UNKNOWN, 1]),
        ("node_y", [[None, [1.0, NAN], [2.0, 3.0]]], "regression", [[NAN, NAN], [1, NAN], [2, 3]]),
        ("y", [None, NAN], None, None),
    ],
)
def test_null_and_nan_are_read_and_written(key, targets, task, y, tmp_path):
    dataset = load_jsonl(write(tmp_path / "mine.jsonl", targets, key))
    again = load_jsonl(save_jsonl(dataset, tmp_path / "again.jsonl"))
    for read in (dataset, again):
        assert read.schema.task == task
        if y is not None:
            torch.testing.assert_close(read._data.y, torch.tensor(y), equal_nan=True, check_dtype=False)
    assert "NaN" not in (tmp_path / "again.jsonl").read_text()
    if task:
        later = load_jsonl(write(tmp_path / "later.jsonl", [None] if key == "y" else [[None] * 3], key), dataset.schema)
        assert int(Graphs.of(later).known_targets().sum()) == 0


def test_tus_format_has_gaps_too(tmp_path):
    files = {"A": "1, 2\n", "graph_indicator": "1\n1\n2\n", "graph_attributes": "0.5, nan\n1.5, 2\n"}
    for kind, text in files.items():
        (tmp_path / f"SET_{kind}.txt").write_text(text)
    dataset = load(tmp_path)
    torch.testing.assert_close(dataset._data.y, torch.tensor([[0.5, NAN], [1.5, 2]]), equal_nan=True)


@pytest.mark.parametrize("targets, said", [
    ([1, None, "a"], "y: found text, but line 1 has numbers"),
    ([None, [1, None], [1, 2, 3]], "y: found lists of 3, but line 2 has lists of 2"),
    ([None, [None, "a"]], "y[1]: expected a number, found 'a'"),
    ([None, math.inf], "y: expected a number up to 3.4e38, found inf"),
])  # fmt: skip
def test_what_is_not_a_gap_is_still_checked(targets, said, tmp_path):
    with pytest.raises(InvalidFile) as caught:
        load_jsonl(write(tmp_path / "mine.jsonl", targets))
    assert said in str(caught.value)


@pytest.mark.parametrize("counts", [None, torch.tensor([1.0, 1, 1, 0])])
@pytest.mark.parametrize(
    "schema, y, gap",
    [
        (Schema("graph", "regression"), [0.5, 1.5, 2.5, 3.5], NAN),
        (Schema("graph", "regression", 2), [[0.5, 1], [2, 3], [4, 5], [6, 7]], NAN),
        (Schema("graph", "multilabel", 2), [[0.0, 1], [1, 0], [1, 1], [0, 0]], NAN),
        (Schema("graph", "classification", classes=("a", "b", "c")), [0, 2, 1, 1], UNKNOWN),
    ],
)
def test_loss_and_gradient_are_those_of_the_known_targets(schema, y, gap, counts):
    task, y = Task(schema), torch.tensor(y)
    scores = torch.randn(4, schema.out_channels, generator=torch.Generator().manual_seed(0)).requires_grad_()
    y[1] = gap
    kept = torch.tensor([0, 2, 3])
    known = task.loss(scores[kept], task.targets(y[kept]), None if counts is None else counts[kept])
    (expected,) = torch.autograd.grad(known, scores)
    loss = task.loss(scores, task.targets(y), counts)
    (gradient,) = torch.autograd.grad(loss, scores)
    torch.testing.assert_close(loss, known)
    torch.testing.assert_close(gradient, expected)
    outputs = task.outputs(scores.detach())
    assert task.measure(outputs, task.targets(y)) == pytest.approx(
        task.measure(outputs[kept], task.targets(y[kept])), nan_ok=True
    )


def test_each_label_has_its_own_gaps():
    random = torch.Generator().manual_seed(0)
    answers, truth = torch.rand(40, 3, generator=random), torch.randint(2, (40, 3), generator=random).float()
    truth[torch.rand(40, 3, generator=random) < 0.4] = NAN
    truth[:, 2] = NAN
    known = ~truth.isnan()
    found = Task(Schema("graph", "multilabel", 3)).measure(answers, truth)
    expected = [roc_auc_score(truth[known[:, i], i], answers[known[:, i], i]) for i in (0, 1)]
    assert found["AUROC"] == pytest.approx(sum(expected) / 2)


def test_batches_are_divided_by_their_known_targets(tmp_path, small):
    """A step with gaps is the step without the graphs that have them."""
    split = [*["train"] * 4, "val", "test"]
    gaps = write(tmp_path / "gaps.jsonl", [1.0, None, 3.0, None, 1.0, 2.0], split=split)
    config = small(data_name=str(gaps), data_options={}, optim_batch_size=4)
    training = first_training(config, load_graphs(config), tmp_path)
    assert training.split.train.tolist() == [0, 2] and training._targets(training.split.train) == 2
    rows = write(
        tmp_path / "rows.jsonl", [[1.0, None], [None, None], [3.0, 1.0], [0.5, None]] * 2, split=split + split[-2:]
    )
    config = small(data_name=str(rows), data_options={})
    training = first_training(config, load_graphs(config), tmp_path)
    assert training._targets(training.split.train) == 4 / 2


def test_a_run_with_gaps_trains_and_says_where_nothing_is_known(tmp_path, small, fit, capsys):
    targets = [None if i % 3 == 0 else i % 2 for i in range(30)]
    data = write(tmp_path / "mine.jsonl", targets)
    config = small(data_name=str(data), data_options={}, optim_epochs=2)
    assert math.isfinite(fit(config).mean)
    assert main(["evaluate", str(config.folder)]) == 0
    assert main(["predict", str(config.folder), str(data)]) == 0
    assert main(["data", "check", str(data)]) == 0
    assert "10 of 30 targets are not known" in " ".join(capsys.readouterr().out.split())
    unknown = write(tmp_path / "unknown.jsonl", [None, None])
    assert main(["evaluate", str(config.folder), "--data", str(unknown)]) == 2
    assert "no target is known" in capsys.readouterr().err
    split = ["train" if i < 20 else "val" if i < 25 else "test" for i in range(30)]
    some = write(tmp_path / "some.jsonl", [None if 20 <= i < 25 else i % 2 for i in range(30)], split=split)
    with pytest.raises(
        ValueError, match=r"25 of 30 graphs have known targets.*: 20 to train, 0 to validate, 5 to test"
    ):
        fit(small(data_name=str(some), data_options={}))
