from dataclasses import replace

import numpy as np
import pytest
import torch

from pggnn import PGGNN
from pggnn.cli import main
from pggnn.data.batching.collate import Collater
from pggnn.data.graphs import Graphs
from pggnn.data.sets.counting import Counting
from pggnn.train.config import Config, DataConfig, ModelConfig, OptimConfig, ProtocolConfig
from pggnn.train.engine import authors
from pggnn.train.runs.folder import claimed


@pytest.mark.parametrize("level", ["graph", "node"])
def test_weights_are_those_of_pytorchs_layers_made_in_the_authors_order(level):
    network = PGGNN(5, 8, 3, num_layers=2, level=level)
    authors.start(network, 7)
    torch.manual_seed(7)
    if level == "graph":
        for width in (5, 8):
            torch.nn.Linear(width, 8), torch.nn.Linear(8, 8)
    rnns = [torch.nn.LSTM(width, 8, num_layers=2) for width in (5, 8)]
    scores = [torch.nn.Linear(width, 3) for width in (5, 8, 8)]
    for conv, rnn in zip(network.convs, rnns, strict=True):
        for name, weight in rnn.state_dict().items():
            assert torch.equal(conv.rnn.state_dict()[name], weight), name
    for score, theirs in zip(network.scores, scores, strict=True):
        torch.testing.assert_close(score.weight, theirs.weight, rtol=1e-6, atol=0)
        torch.testing.assert_close(score.bias, theirs.bias, rtol=1e-6, atol=0)


def test_batches_are_one_stream_that_can_be_entered_anywhere():
    index = torch.arange(3, 40)
    collater = Collater(Graphs.of(Counting("er", seed=1, graphs=40)))
    through, jumped = (authors.Draws(collater, 8, "draws", 7, 5, index) for _ in range(2))
    np.random.seed(7)
    for epoch in range(1, 4):
        through.epoch = epoch
        expected = [index[np.random.permutation(37)[:8]].tolist() for _ in range(5)]
        assert [numbers.tolist() for numbers in through.chosen()] == expected
    jumped.epoch = 3
    assert [numbers.tolist() for numbers in jumped.chosen()] == expected
    jumped.epoch = through.epoch = 1
    assert all(map(torch.equal, jumped.chosen(), through.chosen()))
    assert [numbers.tolist() for numbers in jumped.chosen()] != expected


def test_what_the_scripts_do_not_have_is_refused():
    optim = OptimConfig(sampling="draws")
    config = Config(DataConfig("ER"), ModelConfig(init="torch"), optim, ProtocolConfig(random="authors"))
    authors.check(config)
    for changed, message in (
        (replace(config, model=ModelConfig("gin", init="torch")), "needs model.name pggnn, .* got gin"),
        (replace(config, model=ModelConfig()), "needs model.init torch, .* got glorot"),
        (replace(config, optim=OptimConfig()), "needs optim.sampling draws, .* got shuffle"),
    ):
        with pytest.raises(ValueError, match=message):
            authors.check(changed)


def test_all_cells_of_a_table_are_checked_before_the_first_is_claimed(classes, tmp_path, capsys):
    """The second candidate is what their scripts do not have; nothing of the first is left."""
    options = ["--data.name", str(classes), "--model.init", "torch", "--optim.sampling", "draws"]
    options += ["--protocol.random", "authors", "--protocol.kind", "random", "--run.device", "cpu"]
    out = tmp_path / "new" / "runs"
    assert main(["tune", *options, "--only", "as given", "committee", "--jobs", "1", "--out", str(out)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("pggnn: error: committee on classes.jsonl: protocol.random authors needs model.committee 1")
    assert not (tmp_path / "new").exists()


def test_a_claim_that_comes_to_nothing_leaves_no_folders(tmp_path):
    (tmp_path / "old").mkdir()
    with claimed(tmp_path / "old" / "a" / "b" / "run"):
        pass
    assert [*tmp_path.iterdir()] == [tmp_path / "old"] and not [*(tmp_path / "old").iterdir()]
    with claimed(tmp_path / "old" / "a" / "run"):
        (tmp_path / "old" / "a" / "mine").touch()
    assert [*(tmp_path / "old" / "a").iterdir()] == [tmp_path / "old" / "a" / "mine"]
