"""Processes for trainings: what they say, and how they end."""

import time

import pytest

from pggnn.train.nursery import Nursery, Processes


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
