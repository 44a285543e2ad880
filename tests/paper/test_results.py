"""``pggnn reproduce table2`` on generated graphs, small enough for a test."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest
from rich.console import Console

from pggnn.cli import main
from pggnn.paper import memory
from pggnn.paper.expected import published
from pggnn.paper.results import reproduce
from pggnn.paper.tables import TABLES, Row, runs
from pggnn.train import log
from pggnn.train.checkpoint import Checkpoint
from pggnn.train.folder import ENVIRONMENT

TINY = (
    *("--data.options", "{task: triangles, seed: 0, graphs: 40}", "--model.hidden", "4", "--model.layers", "1"),
    *("--optim.epochs", "3", "--run.device", "cpu", "--run.tensorboard", "false"),
)
ONLY = "gcn er triangles"


def reproduced(out, only=ONLY):
    return reproduce("table2", out, quick=True, only=only, jobs=2, more=TINY, console=Console(quiet=True))


@pytest.mark.parametrize("table", TABLES)
def test_every_cell_is_a_run_and_has_a_published_figure(table, tmp_path):
    configs = runs(table, tmp_path)
    assert len({config.folder for config in configs.values()}) == len(configs)
    assert set(configs) == {(model, data) for model in TABLES[table].rows for data in TABLES[table].columns}
    for model, data in configs:
        rival = TABLES[table].rows[model].published != "PG-GNN"
        if not (rival and "4-cliques" in data):  # which the paper gives for PG-GNN only
            assert published(table, TABLES[table].rows[model].published, data) is not None, (model, data)


def test_ours_stand_beside_the_papers_and_nothing_is_run_twice(tmp_path):
    (cell,), page = reproduced(tmp_path)
    assert (cell.model, cell.data, cell.metric, cell.seeds) == ("GCN", "ER triangles", "MAE", [0])
    assert cell.paper == published("table2", "GCN", "ER triangles")
    text = page.read_text()
    assert f"| GCN | ER triangles | {cell.mean:.3f} ± 0.000 | {cell.paper.mean:.3f}" in text
    assert f"{cell.mean - cell.paper.mean:+.3f}" in text
    assert "a quick, smaller experiment" in text
    assert json.loads(page.with_suffix(".json").read_text())[0]["mean"] == cell.mean
    for path in tmp_path.glob("**/*.safetensors"):
        path.unlink()  # as published runs come
    kept = {
        path: path.stat().st_mtime_ns for name in ("log.jsonl", ENVIRONMENT) for path in tmp_path.glob(f"**/{name}")
    }
    assert len(kept) == 2
    assert reproduced(tmp_path)[0] == [cell]
    assert kept == {path: path.stat().st_mtime_ns for path in kept}


def killed(out, seconds):
    """Starts the table in a process of its own and kills it after so long; returns whether it had ended before."""
    command = ["reproduce", "table2", "--quick", "--only", ONLY, "--jobs", "2", "--out", str(out), *TINY]
    process = subprocess.Popen(
        [sys.executable, "-m", "pggnn", *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    return process.wait() == 0


def assert_same_end(one, other):
    (ours, _), (theirs, _) = reproduced(one), reproduced(other)
    assert [cell.mean for cell in ours] == [cell.mean for cell in theirs]
    for folder in one.glob("**/seed*"):
        twin = other / folder.relative_to(one)
        assert [r["loss"] for r in log.read(folder)] == [r["loss"] for r in log.read(twin)]
        mine, its = (Checkpoint.load(path / "last.safetensors").weights for path in (folder, twin))
        assert all(value.equal(its[name]) for name, value in mine.items())


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no kill -9")
def test_a_table_killed_at_random_moments(tmp_path):
    begin = time.monotonic()
    reproduced(tmp_path / "alone")
    duration, moments, kills = time.monotonic() - begin, random.Random(0), 0
    while kills < 20:
        folder = tmp_path / f"killed{kills // 4}"
        if not killed(folder, moments.uniform(0, duration)):
            kills += 1
    for number in range(5):
        assert_same_end(tmp_path / "alone", tmp_path / f"killed{number}")
    print(f"{kills} kills of five sweeps: each ended bitwise as the one left alone")


def test_memory_stands_beside_the_papers(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "DATA", {"PROTEINS": "er_triangles"})  # a set that can be generated
    row = Row(("--model.name", "gin", *TINY), "GIN")
    monkeypatch.setattr(memory, "MODELS", {"GIN": row})
    (cell,) = memory.reproduce_memory("table5", tmp_path, console=Console(quiet=True))
    assert 100 < cell["mib"] < 4000
    assert f"| GIN | PROTEINS | {cell['mib']:,.0f} | 2338 |" in (tmp_path / "table5.md").read_text()


def test_what_is_not_there_is_said(capsys, tmp_path):
    for arguments, message in (
        (["reproduce", "table2", "--only", "transformer", "--out", str(tmp_path)], "no row or column 'transformer'"),
        (["reproduce", "table2", "--out", str(tmp_path), "--model.hiden", "3"], "did you mean model.hidden?"),
        (["reproduce", "table6", "--out", str(tmp_path)], "finds none here"),
    ):
        assert main(arguments) == 2
        assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
