"""Processes for trainings: what they say, and how they end."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest
import torch

from pggnn.train.runs.pool import WorkerPool, last_error


@pytest.fixture(scope="module")
def real_workers():
    """For tests that ask how a process is started, which takes seconds."""
    made = WorkerPool()
    yield made
    made.close()


@pytest.fixture
def workers(forked_workers):
    made = WorkerPool()
    yield made
    made.close()


def code(worker):
    end = time.monotonic() + 600
    while worker.poll() is None and time.monotonic() < end:
        time.sleep(0.05)
    return worker.poll()


def fail(workers, path, name):
    return workers.start([str(path / name), "0", "None", "new", "inf"], path / f"{name}.txt")


def test_each_training_says_why_it_fails_and_the_process_takes_the_next(real_workers, tmp_path):
    for name in ("nowhere", "elsewhere"):
        assert code(fail(real_workers, tmp_path, name)) == 1
        assert (tmp_path / f"{name}.txt").read_text().count("does not exist: expected a YAML file") == 1
        assert name in (tmp_path / f"{name}.txt").read_text()
    assert len(real_workers._workers) == 1


def test_two_at_once_have_a_process_each(workers, tmp_path):
    first, second = (fail(workers, tmp_path, name) for name in ("nowhere", "elsewhere"))
    assert first.process.pid != second.process.pid
    assert code(first) == code(second) == 1


def test_a_process_that_is_killed_is_given_nothing_any_more(workers, tmp_path):
    first, second = (fail(workers, tmp_path, name) for name in ("nowhere", "elsewhere"))
    assert code(first) == 1
    os.kill(first.process.pid, signal.SIGKILL)
    first.process.wait()
    assert code(second) == 1
    third = fail(workers, tmp_path, "nowhere")
    assert third.process is second.process
    assert code(third) == 1


def test_an_error_that_nobody_foresaw_ends_the_process(workers, tmp_path):
    worker = workers.start(["too", "few"], tmp_path / "errors.txt")
    assert code(worker) == 1
    assert "TypeError" in (tmp_path / "errors.txt").read_text()
    assert worker.process.wait(600) == 1


def test_a_process_that_is_killed_ends_its_training(workers, tmp_path):
    worker = fail(workers, tmp_path, "nowhere")
    os.kill(worker.process.pid, signal.SIGKILL)
    assert code(worker) == -signal.SIGKILL


def test_control_c_is_left_to_the_process_that_started_it(real_workers, tmp_path):
    worker = fail(real_workers, tmp_path, "nowhere")
    process = worker.process
    os.kill(process.pid, signal.SIGINT)
    assert code(worker) == 1
    os.kill(process.pid, signal.SIGINT)
    again = fail(real_workers, tmp_path, "elsewhere")
    assert code(again) == 1 and again.process is process
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, set()), "this process hears of it"


def environment(process):
    """Linux shows none for a moment while a process starts."""
    end = time.monotonic() + 60
    while not (found := Path(f"/proc/{process}/environ").read_bytes()) and time.monotonic() < end:
        time.sleep(0.01)
    return found.split(b"\0")


@pytest.mark.skipif(sys.platform != "linux", reason="looks at what Linux tells of processes")
@pytest.mark.parametrize("named, seen", [(None, "010"), ("3,5", "353"), ("3,5,7", "353"), ("3", "333")])
def test_several_gpus_take_turns(named, seen, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if named is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", named)
    workers = WorkerPool()
    try:
        processes = [fail(workers, tmp_path, name).process.pid for name in "abc"]
        around = [environment(process) for process in processes]
    finally:
        workers.close()
    assert [f"CUDA_VISIBLE_DEVICES={gpu}".encode() in given for gpu, given in zip(seen, around, strict=True)] == [
        True
    ] * 3


@pytest.mark.parametrize(
    "output, error",
    [
        ("", ""),
        ("pggnn: error: no such file\n", "pggnn: error: no such file"),
        (
            "Traceback (most recent call last):\n  File\n    cause()\nKeyError: 1\n\nDuring handling of it:\n\n"
            "Traceback (most recent call last):\n  File\n    run()\nAcceleratorError: CUDA error: device busy\n"
            "For debugging consider passing CUDA_LAUNCH_BLOCKING=1\n  and more\nCompile with TORCH_USE_CUDA_DSA.\n",
            "AcceleratorError: CUDA error: device busy",
        ),
    ],
)
def test_of_a_failure_the_line_that_names_it_is_shown(output, error):
    assert last_error(output) == error
