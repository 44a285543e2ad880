"""Several processes that train one network get what one process gets."""

import os
import signal
import socket
import subprocess
import sys
import time
import traceback
from contextlib import redirect_stdout

import pytest
import torch
from rich.console import Console
from torch import distributed

from pggnn.cli import main
from pggnn.nn.norm import RowNorm
from pggnn.train.config import save
from pggnn.train.engine import log
from pggnn.train.engine.checkpoint import Checkpoint
from pggnn.train.engine.distributed import share_norms
from pggnn.train.runs.protocol import load_result
from pggnn.train.runs.run import train

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs fork and gloo")


@pytest.fixture
def together(fork, tmp_path):
    """Runs a function of rank and number of processes in so many of them, as ``torchrun`` would start them."""

    def together(function, processes):
        with socket.socket() as free:
            free.bind(("localhost", 0))
            port = free.getsockname()[1]
        children = []
        for rank in range(processes):
            children.append(fork())
            if children[-1] == 0:
                code = 1
                try:
                    os.environ |= {
                        "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(processes), "NODE_RANK": "0",
                        "GROUP_RANK": "0", "LOCAL_WORLD_SIZE": str(processes), "MASTER_ADDR": "localhost",
                        "MASTER_PORT": str(port), "TORCHELASTIC_RUN_ID": "test",
                    }  # fmt: skip
                    function(rank, processes)
                    code = 0
                except BaseException:
                    traceback.print_exc(file=sys.__stderr__)
                finally:
                    os._exit(code)
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        assert codes == [0] * processes

    return together


def assert_equal_to(alone, shared):
    """Losses and metrics of each epoch, and the last weights, are those of one process."""
    ours, theirs = log.read(shared), log.read(alone)
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        assert one.keys() == other.keys()
        for key in one.keys() - {"seconds"}:
            assert one[key] == pytest.approx(other[key], rel=1e-5, abs=1e-5), (one, other)
    mine, single = (Checkpoint.load(folder / "last.safetensors").weights for folder in (shared, alone))
    for name, value in mine.items():
        torch.testing.assert_close(value, single[name], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("processes", "options"),
    [
        (2, {}),
        (3, {"optim_batch_size": 3, "optim_sampling": "draws", "optim_average": 0.8}),
        # GIN's biases before a norm have no gradient but rounding errors, which Adam blows up in float32
        (2, {"model_name": "gin", "run_precision": "64"}),
    ],
    ids=["two", "three, draws, averaged", "gin"],
)
def test_losses_of_nodes(processes, options, small, fit, together):
    alone, shared = small("alone", **options), small("shared", **options)
    expected = fit(alone)
    together(lambda *_: fit(shared), processes)
    assert_equal_to(alone.folder / "seed0", shared.folder / "seed0")
    assert load_result(shared.folder / "seed0")["test"] == pytest.approx(expected.mean, abs=1e-5)


def test_gradients_are_those_of_one_process(small, fit, together, monkeypatch):
    """Not a multiple of them, which Adam would hide."""
    monkeypatch.setattr(torch.optim, "AdamW", lambda weights, lr, **_: torch.optim.SGD(weights, lr))
    alone, shared = (small(name, optim_lr=1e-3, run_precision="64") for name in ("alone", "shared"))
    fit(alone)
    together(lambda *_: fit(shared), 2)
    assert_equal_to(alone.folder / "seed0", shared.folder / "seed0")


def test_metrics_are_those_of_the_whole_set(small, fit, together, classes):
    # 18 training graphs in batches of 17: the last leaves one process without a graph
    options = {"data_name": str(classes), "data_options": {}, "protocol_kind": "nested", "protocol_folds": 2}
    options |= {"optim_batch_size": 17, "model_edge_features": True}
    alone, shared = small("alone", **options), small("shared", **options)
    summaries = [fit(alone)]
    together(lambda *_: fit(shared), 2)
    summaries.append(fit(shared, "last"))
    assert summaries[0].each == pytest.approx(summaries[1].each)
    for fold in ("fold0", "fold1"):
        assert_equal_to(alone.folder / "seed0" / fold, shared.folder / "seed0" / fold)


@pytest.mark.parametrize("sizes", [(5, 3), (4, 0), (1, 1), (2, 6, 0)])
def test_norms_are_shared(sizes, together, tmp_path):
    rows = torch.randn(sum(sizes), 4)
    target = torch.randn(sum(sizes), 4)
    norm = torch.nn.BatchNorm1d(4)
    x = rows.clone().requires_grad_()
    out = norm(x)
    (out * target).sum().backward()

    def share(rank, processes):
        distributed.init_process_group("gloo", f"file://{tmp_path}/meeting", rank=rank, world_size=processes)
        shared = RowNorm(4)
        share_norms(shared)
        part = rows.split(list(sizes))[rank].clone().requires_grad_()
        found = shared(part)
        (found * target.split(list(sizes))[rank]).sum().backward()
        torch.testing.assert_close(found, out.split(list(sizes))[rank])
        torch.testing.assert_close(part.grad, x.grad.split(list(sizes))[rank], rtol=1e-4, atol=1e-5)
        for parameter, single in zip(shared.parameters(), norm.parameters(), strict=True):
            distributed.all_reduce(parameter.grad)
            torch.testing.assert_close(parameter.grad, single.grad)
        for name, buffer in shared.named_buffers():
            torch.testing.assert_close(buffer, norm.state_dict()[name])
        torch.testing.assert_close(shared.eval()(part), norm.eval()(part))

    together(share, len(sizes))


def children(parent):
    """The processes that a process has started."""
    with open(f"/proc/{parent}/task/{parent}/children") as file:
        return [int(number) for number in file.read().split()]


def test_one_of_several_says_what_it_costs_and_how_long_it_takes(small, together, tmp_path):
    def work(rank, _):
        with open(tmp_path / f"said{rank}", "w") as file:
            train(small("shared"), None, Console(file=file, width=200))

    together(work, 2)
    first, second = ((tmp_path / f"said{rank}").read_text() for rank in range(2))
    assert (first.count("A batch of 4 graphs takes "), first.count("An epoch takes about "), second) == (1, 1, "")


def test_torchrun_with_a_worker_that_is_killed(small, fit, together, tmp_path):
    alone, shared = small("alone", optim_epochs=30), small("shared", optim_epochs=30)
    expected = fit(alone)
    save(shared, tmp_path)
    folder = shared.folder / "seed0"
    words = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "pggnn"]
    words += ["train", "--config", str(tmp_path / "config.yaml")]
    job = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    while len(log.read(folder)) < 2 and job.poll() is None:
        time.sleep(0.01)
    victim = children(job.pid)[-1]
    os.kill(victim, signal.SIGKILL)
    out, _ = job.communicate(timeout=600)
    assert job.returncode != 0, out
    assert str(victim) in out, "the job does not say which process died"
    assert not (folder / "result.json").exists()
    assert Checkpoint.load(folder / "last.safetensors").state["epoch"] >= 1

    def resume(rank, _):
        with open(tmp_path / f"said{rank}", "w") as said, redirect_stdout(said):
            assert main(["train", "--config", str(tmp_path / "config.yaml"), "--resume"]) == 0

    together(resume, 2)
    said = [(tmp_path / f"said{rank}").read_text() for rank in (0, 1)]
    assert f"{shared.folder}: MAE {expected}" in said[0] and not said[1], "one process speaks for all"
    assert_equal_to(alone.folder / "seed0", folder)
