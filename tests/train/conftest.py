import json
import os
from dataclasses import replace

import pytest
import torch
from rich.console import Console

from pggnn.train.config import Config, DataConfig, ModelConfig, OptimConfig, ProtocolConfig, RunConfig
from pggnn.train.engine.checkpoint import Checkpoint
from pggnn.train.engine.log import read
from pggnn.train.runs.run import train

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
def surroundings():
    """Runs keep to one thread: more of them only get in each other's way."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # a process that is forked from one with more may wait for them for ever
        yield
    torch.set_num_threads(threads)


@pytest.fixture
def small(tmp_path):
    """A config in a folder of its own, with the given options changed."""
    return lambda folder="run", **options: changed(SMALL, run_out=str(tmp_path / folder), **options)


@pytest.fixture
def fit():
    """Trains without a word."""
    return lambda config, resume=None: train(config, resume, Console(quiet=True))


@pytest.fixture
def fork():
    """``os.fork``, for a child that trains."""
    if torch.cuda.is_available():
        pytest.skip("where PyTorch sees a GPU, a process forked from one that has trained cannot train")
    with torch.backends.mkldnn.flags(enabled=False):  # on ARM its threads do not survive a fork: the child would wait
        yield os.fork


@pytest.fixture
def classes(tmp_path):
    """A file of 40 small graphs of two classes, triangles and paths, with node labels and edge features."""
    path = tmp_path / "classes.jsonl"
    with open(path, "w") as file:
        for i in range(40):
            edges = [[0, 1], [1, 2]] + [[2, 0]] * (i % 2)
            graph = {"num_nodes": 3, "node_labels": ["a", "b", "cd"[i % 2]], "edges": edges}
            graph |= {"edge_attr": [[0.5 * i, 1]] * len(edges), "y": ["path", "ring"][i % 2]}
            file.write(json.dumps(graph) + "\n")
    return path


@pytest.fixture
def assert_same():
    """Asserts that two trainings came to the same end, bit for bit: weights, best and last, and log but its seconds."""

    def assert_same(one, other):
        ours, theirs = ([record | {"seconds": 0} for record in read(folder)] for folder in (one, other))
        assert ours == theirs
        for which in ("best", "last"):
            ours, theirs = (Checkpoint.load(folder / f"{which}.safetensors").weights for folder in (one, other))
            assert ours.keys() == theirs.keys()
            for name, value in ours.items():
                assert torch.equal(value, theirs[name]), f"{which}: {name}"

    return assert_same
