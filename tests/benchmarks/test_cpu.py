"""The benchmarks of the CPU and the comparison of two checkouts, with sizes that say nothing."""

import json
import shutil
import subprocess
import sys
from itertools import groupby
from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks import compare, cpu, data, engine, record, star, timing

ROOT = Path(__file__).parents[2]


def collect(figures):
    found = {}
    for case, what, value in figures:
        assert value > 0
        found.setdefault(case, {})[what] = value
    return found


def test_every_benchmark_is_there(capsys):
    for name in record.ALL:
        assert callable(getattr(__import__(f"benchmarks.{name}", fromlist=[name]), name))
    with pytest.raises(SystemExit):
        command.main(["--help"])
    out = capsys.readouterr().out
    assert all(f"    {name} " in out for name in ("gpu", "table", *record.ALL))


def test_a_benchmark_writes_what_it_prints(capsys, tmp_path, monkeypatch):
    whole = star.star
    monkeypatch.setattr(star, "star", lambda: whole(leaves=40))
    assert command.main(["star", "--json", str(tmp_path / "star.json")]) == 0
    figures = json.loads((tmp_path / "star.json").read_text())["figures"]["star"]
    out = capsys.readouterr().out
    assert sum(map(len, figures.values())) == 5
    assert all(
        record.line("star", case, what, figures[case][what]) in out for case in figures for what in figures[case]
    )
    for case, goals in record.GOALS["star"].items():
        assert set(goals) <= set(figures[case])


def test_cpu_compares_equal_models(monkeypatch):
    monkeypatch.setattr(cpu, "BATCH", 2)
    monkeypatch.setattr(cpu.shutil, "which", lambda name: None)  # with a compiler it takes half a minute more
    found = collect(cpu.cpu(rounds=1, nodes=64))
    assert len({case for case in found if ", " in case and "sequences" not in case}) == 6, "three cells, two sets"
    for case in record.GOALS["cpu"].keys() - {"8,192 sequences of degree 8"}:
        assert set(record.GOALS["cpu"][case]) <= set(found[case])
        ratio = found[case]["straightforward, ms"] / found[case]["ours, ms"]
        assert found[case]["straightforward / ours"] == pytest.approx(ratio)
    rates = found["512 sequences of degree 8"]
    ratio = rates["forward, GFLOP/s"] / rates["matrix product of its shape, GFLOP/s"]
    assert rates["forward / matrix product"] == pytest.approx(ratio)
    assert set(found["answer for one graph"]) == {
        *(f"PG-GNN, {cell}, ms" for cell in ("lstm", "gru", "srn", "linear")), "GIN, ms",
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("c++"), reason="needs a C++ compiler")
def test_answers_of_compiled_networks():
    (found,) = collect(cpu.answer(rounds=1)).values()
    assert {"PG-GNN, linear, compiled, ms", "GIN, compiled, ms"} < set(found)


def test_engine():
    (found,) = collect(engine.engine(steps=2, rounds=1)).values()
    ratio = found["engine, ms a step"] / found["bare loop, ms a step"]
    assert found["engine / bare loop"] == pytest.approx(ratio)


@pytest.mark.slow
def test_stream(tmp_path, capsys):
    """Two processes are started, which takes a while."""
    assert (
        command.main(["stream", "--graphs", "3000", "--folder", str(tmp_path), "--json", str(tmp_path / "json")]) == 0
    )
    (found,) = json.loads((tmp_path / "json").read_text())["figures"]["stream"].values()
    assert found["graphs"] == 3000 and 400 < found["folder, GiB"] * 2**30 / 3000 < 600
    ratio = found["streamed, graphs/s"] / found["in memory, graphs/s"]
    assert found["streamed / in memory"] == pytest.approx(ratio)
    assert 100 < found["its peak before the first shard, MiB"] <= found["peak of the process, MiB"]
    assert [path.name for path in tmp_path.iterdir()] == ["json"]
    assert set(record.GOALS["stream"]["PGGNN, linear cell, hidden 16, batch 512"]) <= set(found)


def test_data_measures_what_is_there(data_root, monkeypatch, capsys):
    monkeypatch.setenv("PGGNN_DATA", str(data_root))
    exists = data.is_there
    monkeypatch.setattr(data, "is_there", lambda name: name != "MNIST" and exists(name))
    found = collect(data.data(rounds=1))
    assert set(found) == {"ER", "ZINC"}


def test_tasks_take_turns():
    taken = []
    times = timing.in_turns({"a": lambda: taken.append("a"), "b": lambda: taken.append("b")}, rounds=2, runs=2)
    assert "".join(taken) == "aaabbbaaabbb" and set(times) == {"a", "b"}


LIBRARY = """
import torch

class Plan:
    @classmethod
    def build(cls, edge_index, num_nodes):
        with open({log!r}, "a") as file:
            file.write({name!r})
        plan = cls()
        plan.num_nodes = num_nodes
        return plan

class PGConv(torch.nn.Linear):
    def forward(self, x, plan):
        return super().forward(x)

class PGGNN(PGConv):
    def __init__(self, in_channels, hidden, out_channels, level):
        super().__init__(in_channels, out_channels)
"""


def run_compare(*arguments):
    command = [sys.executable, str(ROOT / "benchmarks" / "compare.py"), *map(str, arguments)]
    return subprocess.run(command, cwd="/", capture_output=True, text=True)


def test_compare_measures_both_checkouts_in_turns(tmp_path):
    for name in "AB":
        (tmp_path / name / "pggnn").mkdir(parents=True)
        library = LIBRARY.format(log=str(tmp_path / "log"), name=name)
        (tmp_path / name / "pggnn" / "__init__.py").write_text(library)
    done = run_compare(tmp_path / "A", tmp_path / "B", "--rounds", 2)
    assert done.returncode == 0, done.stderr
    built = [(name, len([*calls])) for name, calls in groupby((tmp_path / "log").read_text())]
    (first, some), (second, more), (third, others) = built[-3:]
    assert first + second + third == "ABA", "the new one is first in every other round"
    assert min(some, more / 2, others) >= 4
    _, _, *rows = [line.strip("| ").split(" | ") for line in done.stdout.splitlines()]
    assert [row[0] for row in rows] == list(compare.tasks(nodes=8))
    for _, _, _, ratio, smallest, largest in rows:
        assert 0 < float(smallest) <= float(ratio) <= float(largest)


def test_compare_runs_on_this_library():
    made = compare.tasks(nodes=8)
    assert any(name.startswith("CPU") for name in made)
    for task in made.values():
        task()


def test_compare_refuses_other_folders(tmp_path):
    done = run_compare(ROOT / "src", tmp_path)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("compare: error: expected the src folder of a checkout")
    assert str(tmp_path) in done.stderr and len(done.stderr.splitlines()) == 1
