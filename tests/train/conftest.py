import json
from dataclasses import replace

import pytest
import torch
from rich.console import Console

from pggnn.train.checkpoint import Checkpoint
from pggnn.train.config import Config, DataConfig, ModelConfig, OptimConfig, ProtocolConfig, RunConfig
from pggnn.train.log import read
from pggnn.train.run import train

SMALL = Config(
    DataConfig("ER", options={"seed": 0, "graphs": 24}),
    ModelConfig(hidden=4, layers=2, rnn_layers=1),
    OptimConfig(batch_size=4, epochs=3, lr=0.01),
    ProtocolConfig(),
    RunConfig(device="cpu", jobs=1, tensorboard=False),
)
"""A run of a second."""


def changed(config, **options):
    """The config with other options, given as ``model_hidden=8``."""
    for key, value in options.items():
        part, _, name = key.partition("_")
        config = replace(config, **{part: replace(getattr(config, part), **{name: value})})
    return config


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory):
    """Tests keep their caches to themselves."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PGGNN_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def small(tmp_path):
    """A config in a folder of its own, with the given options changed."""
    return lambda folder="run", **options: changed(SMALL, run_out=str(tmp_path / folder), **options)


@pytest.fixture
def fit():
    """Trains without a word."""
    return lambda config, resume=None: train(config, resume, Console(quiet=True))


@pytest.fixture
def classes(tmp_path):
    """A file of 40 small graphs of two classes, triangles and paths, with node labels and edge features."""
    path = tmp_path / "classes.jsonl"
    with open(path, "w") as file:
        for i in range(40):
            edges = [[0, 1], [1, 2]] + [[2, 0]] * (i % 2)
            graph = {"num_nodes": 3, "node_labels": ["a", "b", "ab"[i % 3 % 2]], "edges": edges}
            graph |= {"edge_attr": [[0.5 * i, 1]] * len(edges), "y": ["path", "ring"][i % 2]}
            file.write(json.dumps(graph) + "\n")
    return path


def outcome(folder):
    """All that must be the same of two trainings: weights, best and last, and the log but for its seconds."""
    weights = {name: Checkpoint.load(folder / f"{name}.safetensors").weights for name in ("best", "last")}
    records = [{key: value for key, value in record.items() if key != "seconds"} for record in read(folder)]
    return weights, records


def assert_same(one, other):
    """Two trainings came to the same end, bit for bit."""
    (ours, our_log), (theirs, their_log) = outcome(one), outcome(other)
    assert our_log == their_log
    for which in ours:
        assert ours[which].keys() == theirs[which].keys()
        for name, value in ours[which].items():
            assert torch.equal(value, theirs[which][name]), f"{which}: {name}"
