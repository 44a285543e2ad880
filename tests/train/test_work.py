"""What ``pggnn train`` says of the work before the first epoch, and of the time it will take."""

import io
import json
import re
from queue import SimpleQueue
from types import SimpleNamespace

import pytest
import torch
from rich.console import Console

from pggnn import console
from pggnn.console import duration
from pggnn.train.engine.models import lists_for
from pggnn.train.runs import progress, protocol
from pggnn.train.runs.pool import Worker
from pggnn.train.runs.progress import Bars, Forecast, Pace
from pggnn.train.runs.run import load_graphs, train
from pggnn.train.runs.work import describe_work


@pytest.fixture
def stars(tmp_path):
    """A file of stars."""

    def write(leaves, count=20):
        path, edges = tmp_path / f"{leaves}.jsonl", [[0, i + 1] for i in range(leaves)]
        lines = [json.dumps({"num_nodes": leaves + 1, "edges": edges, "y": number % 2}) for number in range(count)]
        path.write_text("\n".join(lines) + "\n")
        return str(path)

    return write


def said(config, resume=None, **options):
    """What is printed, by line."""
    file = io.StringIO()
    train(config, resume, Console(file=file, width=200, **options))
    return file.getvalue().splitlines()


def described(config):
    graphs = load_graphs(config)
    split = protocol.split(config, graphs, protocol.trials(config)[0])
    return describe_work(config, graphs, split, lists_for(config, graphs))


GROUP = "42,000 RNN steps a layer (the whole group), 26 × a single ordering (1,610)."
SIXTEEN = "Fewer steps: 7,730 with --model.orderings 16."
SINGLE = "1,610 RNN steps a layer (a single ordering)"


@pytest.mark.parametrize(
    "options, expected",
    [
        ({}, [GROUP, "Fewer steps: 1,610 with --model.cell linear, 7,730 with --model.orderings 16."]),
        ({"cell": "gru", "structure": 2}, [GROUP, SIXTEEN]),
        ({"cell": "linear", "structure": 2}, [GROUP, SIXTEEN]),
        (
            {"cell": "linear"},
            ["1,610 RNN steps a layer (the whole group by the linear cell), as many as a single ordering."],
        ),
        ({"orderings": "single"}, [f"{SINGLE}; the whole group takes 42,000, 26 times as many."]),
        ({"cell": "linear", "orderings": "single"}, [f"{SINGLE}; the whole group takes as many."]),
        (
            {"orderings": 4},
            ["2,830 RNN steps a layer (4 orderings), 1.8 × a single ordering (1,610); the whole group takes 42,000."],
        ),
        (
            {"orderings": 200},
            [GROUP.replace("the whole group", "200 orderings, here the whole group"), SIXTEEN],
        ),
        ({"max_degree": 6}, ["1,390 RNN steps a layer (the whole group), 1.1 × a single ordering (1,230)."]),
        (
            {"aggregation": "pairs"},
            ["79,200 RNN steps a layer (pairs), 49 × a single ordering (1,610); the whole group takes 42,000."],
        ),
        ({"name": "gin"}, []),
        ({"name": "sage"}, []),
    ],
)
def test_the_work_of_a_batch(options, expected, small, stars):
    """Of four stars: a hub reads 100 × 102 steps in all orders, each of its leaves 3."""
    config = small(data_name=stars(100), data_options={}, **{f"model_{name}": value for name, value in options.items()})
    assert [line.removeprefix("A batch of 4 graphs takes ") for line in described(config)] == expected


@pytest.mark.parametrize(
    "reads, expected",
    [
        (["star", "rings"], ["96 RNN steps a layer (the whole group), 2.0 × a single ordering (48).",
                             "Beside the star it takes 96 RNN steps a layer (rings)."]),
        (["sum", "rings", "paths"], ["96 RNN steps a layer (rings), 72 RNN steps a layer (paths)."]),
        (["sum"], []),
    ],
)  # fmt: skip
def test_the_work_of_rings_is_told_too(reads, expected, small, tmp_path, monkeypatch):
    """Of four triangles."""
    monkeypatch.setenv("PGGNN_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "triangles.jsonl"
    path.write_text('{"num_nodes": 3, "edges": [[0, 1], [1, 2], [2, 0]], "y": 1.5}\n' * 20)
    config = small(data_name=str(path), data_options={}, model_reads=reads)
    assert [line.removeprefix("A batch of 4 graphs takes ") for line in described(config)] == expected


def test_what_is_recommended_can_be_trained_and_costs_what_was_said(small, stars, fit):
    config = small(data_name=stars(100, 10), data_options={}, model_layers=1, optim_epochs=1)
    named = re.findall(r"([\d,]+) with --model\.(\w+) (\w+)", described(config)[1])
    assert len(named) == 2
    for steps, name, value in named:
        cheaper = {f"model_{name}": int(value) if value.isdigit() else value}
        changed = small(name, data_name=config.data.name, data_options={}, model_layers=1, optim_epochs=1, **cheaper)
        assert described(changed)[0].startswith(f"A batch of 4 graphs takes {steps} RNN steps")
        fit(changed)


def test_large_numbers_are_words(small, stars):
    (line, more) = described(small(data_name=stars(3000, 10), data_options={}))
    assert "36.1 million RNN steps" in line and "228,000 with --model.orderings 16" in more


@pytest.mark.parametrize("terminal", [True, False])
def test_it_is_said_once_before_the_first_epoch_and_the_time_after(terminal, small):
    lines = said(small(protocol_seeds=(0, 1)), force_terminal=terminal)
    text = "\n".join(lines)
    assert text.count("A batch of 4 graphs takes") == text.count("An epoch takes about") == 1
    times = r"An epoch takes about [\d.e-]+ s, 3 epochs [\d.]+ s; 2 trainings [\d.]+ s\."
    assert re.search(times, text)
    if not terminal:
        assert lines[0].startswith("A batch of 4 graphs takes") and lines[1].startswith("seed0: epoch 1/3")
    assert said(small(protocol_seeds=(0, 1)), "last") == [], "there is nothing to do"


@pytest.mark.parametrize("found", [None, "ipywidgets"])
def test_a_notebook_shows_bars_or_else_lines(found, monkeypatch):
    monkeypatch.setattr(console, "find_spec", lambda name: found)
    assert console.is_live(Console(force_jupyter=True)) == (found is not None)


def test_nothing_is_said_of_others(small):
    assert all(" epoch " in line for line in said(small(model_name="gin"), force_terminal=False))


def test_after_the_first_batches(small, monkeypatch):
    """Before an epoch has ended, where it takes long."""
    monkeypatch.setattr(progress, "MEASURED", 0.0)
    lines = said(small(), force_terminal=False)
    assert [line.partition(" ")[0] for line in lines] == ["A", "An", "seed0:", "seed0:", "seed0:"]


def test_trainings_side_by_side_tell_too(small, monkeypatch, in_this_process):
    monkeypatch.setattr(progress, "MEASURED", 0.0)
    lines = said(small(protocol_seeds=(0, 1, 2), run_jobs=2), force_terminal=False)
    assert [line.partition(" ")[0] for line in lines] == ["A", "An", "seed0:", "seed1:", "seed2:"]
    assert re.fullmatch(r"An epoch takes about .*, 3 epochs .*; 3 trainings, 2 at once, .* s\.", lines[1])


def test_processes_answer_with_times_and_exit_codes():
    worker, codes = Worker.__new__(Worker), SimpleQueue()
    worker.process, worker._codes = SimpleNamespace(stdout=[b"1.5\n", b"75\n"], poll=lambda: None), codes
    worker._listen()
    assert (worker.expected, worker.poll(), codes.empty()) == (1.5, 75, True)


def test_the_pace_of_batches(monkeypatch):
    """The very first one does not count, nor do epochs that end before enough is known."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: clock.now))
    pace, found = Pace(), []
    for batch, seconds in [(1, 60.0), (2, 1.0), (3, 1.0), (1, 9.0), (2, 2.0), (3, 2.0), (4, 2.0)]:
        clock.now += seconds
        found.append(pace.measure(batch, 50, torch.zeros(())))
    assert found == [None] * 5 + [100.0, None]


def test_the_time_of_a_run_in_words():
    said = Forecast(epochs=300, trainings=1, jobs=1, evaluation=0.5)
    assert said.text(0.05) == "An epoch takes about 0.05 s, 300 epochs 15 s."
    said = Forecast(epochs=400, trainings=10, jobs=4, evaluation=0.5)
    assert said.text(100) == "An epoch takes about 100 s, 400 epochs 11 h; 10 trainings, 4 at once, 33 h."
    times = [duration(seconds) for seconds in (0.123, 9.94, 90, 150, 3600, 9000, 100_000, 400_000, 4e6)]
    assert times == ["0.12 s", "9.9 s", "90 s", "2.5 min", "60 min", "2.5 h", "28 h", "4.6 days", "46 days"]
    file = io.StringIO()
    bars = Bars(Console(file=file, width=200))
    bars.expect(10.0)
    bars.forecast = said
    for seconds in (None, 10.0, 20.0):
        bars.expect(seconds)
    assert file.getvalue().startswith("An epoch takes about 15 s") and file.getvalue().count("\n") == 1
