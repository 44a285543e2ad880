"""Processes for trainings: what they say, how they end, and that their common parent leaves the GPU to them."""

import subprocess
import sys
import time

import pytest

from pggnn.train.nursery import IMPORTED, Nursery, Processes

WATCHED = """
import sys
from importlib import import_module
import torch
def refuse(*args):
    raise AssertionError("the GPU was asked for")
for name in ("is_available", "device_count", "init", "current_device", "_lazy_init"):
    setattr(torch.cuda, name, refuse)
for name in sys.argv[1:]:
    import_module(name)
assert "pggnn.train.loop" in sys.modules
"""


def code(processes, number):
    end = time.monotonic() + 120
    while processes.code(number) is None and time.monotonic() < end:
        time.sleep(0.05)
    return processes.code(number)


@pytest.mark.parametrize(
    "kind", [Processes, pytest.param(Nursery, marks=pytest.mark.skipif("sys.platform != 'linux'"))]
)
def test_what_fails_says_why(kind, tmp_path):
    processes = kind()
    number = processes.start([str(tmp_path / "nowhere"), "0", "None", "new", "inf"], tmp_path / "errors.txt")
    assert code(processes, number) == 1
    assert "nowhere does not exist: expected a YAML file" in (tmp_path / "errors.txt").read_text()
    processes.close()


@pytest.mark.skipif("sys.platform != 'linux'")
def test_a_nursery_that_is_no_more(tmp_path):
    nursery = Nursery()
    nursery._process.kill()
    nursery._process.wait()
    with pytest.raises(ValueError, match="the process that starts trainings has ended, with code -9"):
        number = nursery.start([], tmp_path / "errors.txt")
        code(nursery, number)


def test_imports_leave_the_gpu_alone():
    """A process that has begun to use a GPU has no copies that can."""
    subprocess.run([sys.executable, "-c", WATCHED, *IMPORTED], check=True)
