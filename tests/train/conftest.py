import json
import os
import signal
import sys
import threading
import time
import traceback
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from rich.console import Console

from pggnn.train.config import Config, DataConfig, ModelConfig, OptimConfig, ProtocolConfig, RunConfig
from pggnn.train.engine.checkpoint import Checkpoint
from pggnn.train.engine.log import read
from pggnn.train.runs.run import train
from pggnn.train.runs.worker import serve

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


class Forked:
    """A process of workers that shares what this one has imported, instead of seconds of imports of its own."""

    def __init__(self, fork, *_, **__):
        (read, stdin), (stdout, write) = os.pipe(), os.pipe()
        self.returncode, self._lock, self.pid = None, threading.Lock(), fork()
        if self.pid == 0:
            code = 1
            try:
                os.dup2(read, 0)
                os.dup2(write, 1)
                os.closerange(3, os.sysconf("SC_OPEN_MAX"))  # as for any process that Python starts
                sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w", 1)
                serve()
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        for end in (read, write):
            os.close(end)
        self.stdin, self.stdout = os.fdopen(stdin, "wb", 0), os.fdopen(stdout, "rb", 0)

    def poll(self):
        with self._lock:
            if self.returncode is None and (ended := os.waitpid(self.pid, os.WNOHANG))[0]:
                self.returncode = os.waitstatus_to_exitcode(ended[1])
        return self.returncode

    def wait(self, timeout=600):
        end = time.monotonic() + timeout
        while self.poll() is None and time.monotonic() < end:
            time.sleep(0.01)
        return self.returncode

    def terminate(self, number=signal.SIGTERM):
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self):
        self.terminate(signal.SIGKILL)


@pytest.fixture
def forked_workers(fork, monkeypatch):
    """Trainings side by side are those of processes that start at once; ``test_workers.py`` has real ones."""
    started = SimpleNamespace(Popen=partial(Forked, fork), PIPE=None)
    monkeypatch.setattr("pggnn.train.runs.pool.subprocess", started)


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
