"""Runs that are killed, really and at any moment, and gone on with: they must end as if left alone."""

import io
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch
from lightning.fabric.plugins.precision.amp import MixedPrecision
from rich.console import Console

from pggnn.cli import main
from pggnn.train.engine import log
from pggnn.train.engine.checkpoint import Checkpoint
from pggnn.train.runs import run
from pggnn.train.runs.pool import WorkerPool
from pggnn.train.runs.protocol import best_common_epoch, choose_by_others

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no kill -9")


def die():
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture
def start(fit, fork):
    """Trains in a process that shares what this one has imported; returns its number."""

    def start(config, resume=None, prepare=lambda: None):
        child = fork()
        if child == 0:
            code = 1
            try:
                prepare()
                fit(config, resume)
                code = 0
            finally:
                os._exit(code)
        return child

    return start


def kill(child, seconds):
    """Kills a process after so long; returns whether it had come to its end before."""
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.waitstatus_to_exitcode(status) == 0
    return not os.WIFSIGNALED(status)


def test_killed_again_and_again_at_random_moments(small, fit, start, assert_same):
    options = {"optim_epochs": 12, "model_dropout": 0.5, "model_numbering": "random", "run_tensorboard": True}
    alone = small("alone", **options)
    fit(small("before"))  # imports and compiles what takes longer than all that is timed
    begin = time.monotonic()
    expected = fit(alone)
    moments = random.Random(0)
    duration, kills = time.monotonic() - begin, 0
    for attempt in range(8):
        killed = small(f"killed{attempt}", **options)
        while kills < 8 and not kill(start(killed, "last"), moments.uniform(0, 0.7 * duration)):
            kills += 1
        if kills:
            break
        duration /= 2  # it ended before the first kill: this time it took far less than when it was timed
    assert kills >= 1
    assert fit(killed, "last") == expected
    assert_same(alone.folder / "seed0", killed.folder / "seed0")
    assert not list(killed.folder.glob("**/.*")), "what was cut off is still there"


def at(function, calls):
    """Makes a function of ``os`` kill its process, when it is called for the given time."""

    def prepare():
        real, left = getattr(os, function), [calls]

        def deadly(*args, **kwargs):
            left[0] -= 1
            if not left[0]:
                die()
            return real(*args, **kwargs)

        setattr(os, function, deadly)

    return prepare


def in_half_a_file():
    """Makes the fourth checkpoint end in its middle, with its process."""
    left = [4]

    def deadly(file):
        left[0] -= 1
        if not left[0]:
            os.ftruncate(file, os.fstat(file).st_size // 2)
            die()

    os.fsync = deadly


@pytest.mark.parametrize(
    "moment",
    [in_half_a_file, at("fsync", 1), at("fsync", 4), at("link", 1), *(at("replace", n) for n in (1, 2, 4, 5, 6, 8, 9))],
)
def test_killed_while_it_writes(moment, small, start, fit, assert_same):
    alone, killed = small("alone", optim_epochs=4), small("killed", optim_epochs=4)
    child = start(killed, prepare=moment)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), "it was not killed"
    for path in killed.folder.glob("*/[blp]*.safetensors"):
        Checkpoint.load(path)
    assert fit(killed, "last") == fit(alone)
    assert_same(alone.folder / "seed0", killed.folder / "seed0")


def test_the_one_before_is_used_when_asked(small, fit, assert_same, capsys):
    alone, damaged = small("alone"), small("damaged")
    fit(alone)
    fit(damaged)
    folder = damaged.folder / "seed0"
    (folder / "result.json").unlink()
    (folder / "last.safetensors").write_bytes((folder / "last.safetensors").read_bytes()[:-9])
    with pytest.raises(ValueError, match=r"is truncated .* --resume previous goes on from the checkpoint before it"):
        fit(damaged, "last")
    fit(damaged, "previous")
    assert_same(alone.folder / "seed0", folder)
    assert Checkpoint.load(folder / "previous.safetensors").state["epoch"] == 2, "the damaged one took its place"
    (folder / "result.json").unlink()
    (folder / "last.safetensors").unlink()
    with pytest.raises(ValueError, match=r"there is no checkpoint at .*last.safetensors; --resume previous goes on"):
        fit(damaged, "last")
    fit(damaged, "previous")
    assert_same(alone.folder / "seed0", folder)


@pytest.fixture
def sixteen_bits(monkeypatch):
    """Has a CPU train in float16 with scaled gradients, as GPUs do."""
    made = run.make_fabric

    def make_fabric(config):
        fabric = made(config)
        fabric.strategy.precision = MixedPrecision("16-mixed", "cpu", torch.amp.GradScaler("cpu"))
        return fabric

    monkeypatch.setattr(run, "make_fabric", make_fabric)


def test_gradients_are_scaled_as_before(sixteen_bits, small, fit, assert_same):
    """Whatever was trained before in the same process, and wherever a training was cut off."""
    options = {"optim_epochs": 4, "optim_loss": "mse", "model_init": "glorot"}
    both = small("both", protocol_seeds=(1, 0), **options)
    fit(both)
    alone = small("alone", protocol_seeds=(0,), **options)
    fit(alone)
    scale = Checkpoint.load(alone.folder / "seed0" / "last.safetensors").state["scaler"]["scale"]
    assert scale < 2**16, "no gradient was too large"
    assert_same(alone.folder / "seed0", both.folder / "seed0")
    (both.folder / "seed0" / "result.json").unlink()
    fit(both, "previous")
    assert_same(alone.folder / "seed0", both.folder / "seed0")


def workers(folder):
    """The processes that train in a folder, as Linux lists them: each holds the lock of its training."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            held = entry.readlink()
            if held.name == "lock" and folder in held.parent.parents:  # and their parent that of the run
                found.append(int(entry.parts[2]))
        except OSError:
            continue
    return found


def test_a_sweep_whose_parent_is_killed(small, fit, start, classes, assert_same, request, forked_workers):
    options = {"data_name": str(classes), "data_options": {}, "protocol_kind": "folds", "protocol_folds": 2}
    for epochs in (20, 80, 320):  # more, where the first fold comes to its end before the second one begins
        options |= {"optim_epochs": epochs, "model_dropout": 0.5}
        killed = small(f"killed{epochs}", run_jobs=2, **options)
        child = start(killed)
        folds = [killed.folder / "seed0" / f"fold{fold}" for fold in (0, 1)]
        while not all(len(log.read(fold)) > 2 for fold in folds):
            time.sleep(0.05)
        at_work = set(workers(killed.folder))
        if not kill(child, 0) and len(at_work) == 2:
            break
    assert len(at_work) == 2
    alone = small("alone", **options)
    expected = fit(alone)
    end = time.monotonic() + 600
    while workers(killed.folder) and time.monotonic() < end:
        time.sleep(0.1)
    assert not workers(killed.folder), "they train on without their parent"
    assert not all((fold / "result.json").exists() for fold in folds)
    request.getfixturevalue("in_this_process")  # from here on
    assert fit(killed, "last") == expected
    for fold in (0, 1):
        assert_same(alone.folder / "seed0" / f"fold{fold}", folds[fold])


@pytest.mark.slow
def test_a_hundred_random_kills(small, fit, start, assert_same):
    """Runs are killed up to eight times each, at any moment, until a hundred kills have hit one that was at work."""
    options = {"optim_epochs": 12, "optim_average": 0.9, "model_dropout": 0.5, "model_numbering": "random"}
    alone = small("alone", **options)
    fit(small("before"))
    begin = time.monotonic()
    expected = fit(alone)
    duration = time.monotonic() - begin
    seed = int(os.environ.get("PGGNN_FUZZ_SEED") or random.randrange(10**6))
    print(f"PGGNN_FUZZ_SEED={seed}, {duration:.1f} s left alone")
    moments, kills, runs, reached = random.Random(seed), 0, 0, set()
    while kills < 100:
        killed = small(f"killed{runs}", **options)
        for _ in range(8):
            if kill(start(killed, "last"), moments.uniform(0, duration)):
                break
            kills += 1
            reached.add(len(log.read(killed.folder / "seed0")))
        assert fit(killed, "last") == expected
        assert_same(alone.folder / "seed0", killed.folder / "seed0")
        runs += 1
    print(f"{kills} kills in {runs} runs, after {sorted(reached)} epochs: each ended bitwise as the one left alone")
    assert len(reached) > 4, "the kills did not spread over the training"


@pytest.mark.slow
@pytest.mark.parametrize("sweep", [False, True], ids=["one training", "folds side by side"])
def test_twenty_random_moments(sweep, small, fit, classes, assert_same):
    """Ten moments of each kind, some while the command starts, most while it trains."""
    options = {"optim_epochs": 300, "model_dropout": 0.5}
    if sweep:
        options |= {"data_name": str(classes), "data_options": {}, "protocol_kind": "folds", "protocol_folds": 4}
    alone, killed = small("alone", **options), small("killed", run_jobs=2, **options)
    expected = fit(alone)
    text = (alone.folder / "config.yaml").read_text().replace("jobs: 1", "jobs: 2")
    killed.folder.with_suffix(".yaml").write_text(text)
    words = [sys.executable, "-m", "pggnn", "train", "--config", str(killed.folder.with_suffix(".yaml")), "--resume"]
    words += ["--run.out", str(killed.folder)]
    moments = random.Random(1)

    def epochs():
        return [len(log.read(path.parent)) for path in sorted(killed.folder.glob("**/log.jsonl"))]

    for number in range(1, 11):
        before, begin = epochs(), time.monotonic()
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if number % 4:
            while epochs() <= before and process.poll() is None:
                time.sleep(0.01)
            time.sleep(moments.uniform(0, 1.5))
        else:
            time.sleep(moments.uniform(0, 10))
        process.kill()
        assert process.wait() == -signal.SIGKILL, "it had ended"
        print(f"kill {number}: {time.monotonic() - begin:.1f} s after its start, epochs {before} to {epochs()}")
    assert fit(killed, "last") == expected
    for result in alone.folder.glob("**/result.json"):
        assert_same(result.parent, killed.folder / result.parent.relative_to(alone.folder))
    print("ended bitwise as the one left alone")


@pytest.mark.parametrize("kills", [1, pytest.param(4, marks=pytest.mark.slow)])
def test_a_process_that_is_ended_by_a_signal_is_started_again(
    kills, small, fit, assert_same, monkeypatch, forked_workers
):
    """Three times at most, from the last checkpoint; the training beside it goes on."""
    options = {"protocol_seeds": (0, 1), "optim_epochs": 50 * kills, "model_dropout": 0.5, "run_jobs": 2}
    alone, killed = small("alone", **options | {"run_jobs": 1}), small("killed", **options)
    hit, said, start = killed.folder / "seed1", io.StringIO(), WorkerPool.start

    def kill(process):
        before = len(log.read(hit))
        while len(log.read(hit)) < before + 3:
            time.sleep(0.01)
        process.kill()
        process.wait()
        cut[:] = log.read(hit)

    def start_and_kill(pool, arguments, errors):
        worker = start(pool, arguments, errors)
        if errors.parent == hit and len(killers) < kills:
            killers.append(threading.Thread(target=kill, args=(worker.process,)))
            killers[-1].start()
        return worker

    killers: list[threading.Thread] = []
    cut: list[dict] = []
    with monkeypatch.context() as patch:
        patch.setattr(WorkerPool, "start", start_and_kill)
        console = Console(file=said, width=1000)
        if kills > run.MOST_LOST:
            with pytest.raises(ValueError, match="seed1: its process was ended by SIGKILL"):
                run.train(killed, None, console)
        else:
            run.train(killed, None, console)
    assert len(killers) == kills
    assert len(cut) >= 3 * kills and log.read(hit)[: len(cut) - 1] == cut[:-1], "seconds, too: none is trained twice"
    again = "seed1: its process was ended by SIGKILL; it is started again, from its last checkpoint"
    assert said.getvalue().count(again) == min(kills, run.MOST_LOST)
    fit(alone)
    if kills > run.MOST_LOST:
        assert [trial.seed for trial in run.missing(killed)] == [1]
        fit(killed, "last")
    for name in ("seed0", "seed1"):
        assert_same(alone.folder / name, killed.folder / name)


def test_resume_from_the_command_line(small, fit, capsys):
    config = small()
    fit(config)
    words = ["train", "--config", str(config.folder / "config.yaml")]
    assert main(words) == 2
    assert "holds a run already: go on with --resume, or choose another folder by --run.out" in capsys.readouterr().err
    assert main([*words, "--resume", "--optim.epochs", "4"]) == 0
    assert len(log.read(config.folder / "seed0")) == 4
    assert main([*words, "--resume", "--optim.epochs", "3"]) == 2
    assert "trained for 4 epochs, which cannot be taken back: optim.epochs must be 4 or more" in capsys.readouterr().err
    assert main([*words, "--resume", "--model.hidden", "5"]) == 2
    assert "holds a run with other options: model.hidden: 5, not 4" in capsys.readouterr().err


def test_cross_validation_is_read_by_epochs():
    """A log may lack epochs, where a run was copied while it was cut off."""
    whole, lacking = {1: 0.5, 2: 0.6, 3: 0.9, 4: 0.7}, {1: 0.5, 3: 0.9, 4: 0.8}
    assert best_common_epoch([whole, lacking]) == (3, [0.9, 0.9])
    assert best_common_epoch([{1: 0.5, 2: 0.5}]) == (1, [0.5])
    with pytest.raises(ValueError, match="no epoch in common"):
        best_common_epoch([{1: 0.5}, {2: 0.5}])


def test_a_fold_has_no_say_in_the_epoch_that_the_others_choose():
    one, two, three = {1: 0.9, 2: 0.1, 3: 0.2}, {1: 0.1, 2: 0.8, 3: 0.7}, {1: 0.1, 2: 0.5, 3: 0.7}
    assert choose_by_others([one, two, three]) == ([3, 1, 1], [0.2, 0.1, 0.1])
    assert choose_by_others([dict.fromkeys(one, 1.0) | {2: 5.0}, two, three])[0][0] == 3, "its own figures are not read"
    assert choose_by_others([one, {1: 0.1, 3: 0.7}, three])[0] == [3, 1, 1], "an epoch that one lacks is left out"
