"""What docs/beyond.md shows must run, and be what is printed."""

import re
import shlex
from operator import itemgetter
from pathlib import Path
from statistics import fmean

import pytest
import torch

from pggnn.cli import main
from pggnn.lists import LISTS, read_lists
from pggnn.train.engine.models import lists_for
from pggnn.train.options import parse
from pggnn.train.runs import protocol
from pggnn.train.runs.run import load_graphs
from pggnn.train.runs.stored import Run
from pggnn.train.runs.work import describe_work
from pggnn.transforms import AddHops, AddPaths

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
TEXT = (DOCS / "beyond.md").read_text()
LONG = {
    "neighbours by a sum, rings in both directions, walks": "pg-gnn-sum-rings-walks",
    "the same, four times as long": "pg-gnn-sum-rings-walks-long",
    "the same, 100,000 parameters": "pg-gnn-sum-rings-walks-100k",
    "the same, 100,000 parameters, without walks": "pg-gnn-sum-rings-100k",
    "the same without walks and bonds": "pg-gnn-sum-rings-no-bonds",
    "GIN with walks": "gin-walks",
}
"""The rows of the first table of "What it gives", and their runs in ``results/rings``."""
SHORT = {
    "neighbours by a sum, rings in both directions, walks": "pg-gnn-sum-rings-walks-short",
    "neighbours by a sum, rings in both directions": "pg-gnn-sum-rings-short",
    "neighbours by a sum, rings in one direction": "pg-gnn-sum-rings-one-way-short",
    "neighbours by a sum, rings as sets": "pg-gnn-sum-ring-sets-short",
    "neighbours in every order, rings in both directions": "pg-gnn-all-rings-short",
    "neighbours by the group, rings in both directions": "pg-gnn-star-rings-short",
    "neighbours by the group": "pg-gnn-star-short",
    "GIN with walks": "gin-walks-short",
    "GIN": "gin-short",
}
"""Those of the second."""
OTHERS = {"neighbours by a sum, rings in both directions": "pg-gnn-sum-rings", "GIN": "gin"}
"""Those of the third, of molhiv, and of the fourth, of Peptides-func."""
CUT_OFF = ROOT / "results" / "more" / "short" / "rings" / "pg-gnn-sum-rings" / "zinc_rings"
SMALL = {
    "neighbours by a sum, rings in both directions": "pg-gnn-sum-rings",
    "neighbours by a sum, rings in one direction": "pg-gnn-sum-rings-one-way",
    "neighbours by a sum, rings as sets": "pg-gnn-sum-ring-sets",
    "GIN with random walks": "gin-walks",
    "GIN": "gin",
}
"""Those of "In a small network"."""


def _section(name):
    return TEXT.split(f"\n## {name}\n")[1].split("\n## ")[0]


def _tables(section):
    """The rows of each of a section's tables, with its heading and the line below it."""
    found = [re.findall(r"^\| (.+) \|$", part, re.MULTILINE) for part in _section(section).split("\n\n")]
    return [[line.split(" | ") for line in lines] for lines in found if lines]


def test_code_and_commands_run_in_order(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PGGNN_CACHE", str(tmp_path / "cache"))
    torch.manual_seed(0)
    names: dict = {}
    for language, block in re.findall(r"```(python|sh)\n(.*?)```", TEXT, re.DOTALL):
        if language == "python":
            exec(block, names)
        for line in block.splitlines() if language == "sh" else ():
            assert main(shlex.split(line)[1:]) == 0, line
    said = " ".join(capsys.readouterr().out.split())
    assert "55 % of the nodes lie on one" in said and "hint" in said and "120 predictions" in said
    assert float(re.search(r"accuracy ([\d.]+) %", said)[1]) > 90
    assert names["out"].shape == (10, 64) and names["scores"].shape == (4, 1)


def test_the_picture_shows_what_atom_5_reads():
    names: dict = {}
    exec(re.search(r"```python\n(.*?)```", TEXT, re.DOTALL)[1], names)
    molecule = AddHops()(AddPaths(2)(names["molecule"]))
    shown = [text.split(": ")[-1] for text in re.findall(r">([^<>]+)</text>", (DOCS / "beyond.svg").read_text())]
    shown = {text for text in shown if re.fullmatch(r"\d( \d)+", text)}
    read = {"5 0 4 6 5"}
    for kind in ("rings", "paths", "hops"):
        plan, owner, *_ = read_lists(kind, molecule)
        for sequence in (owner == 5).nonzero().view(-1).tolist():
            members = plan.neighbor[plan.center == sequence].tolist()
            read.add(" ".join(map(str, [5, *members, 5] if LISTS[kind].apart else members)))
    assert shown == read


def _ended(row, data="zinc_rings", seeds=4):
    run = Run.read(ROOT / "results" / "rings" / row / data)
    assert run.complete and [trial.seed for trial in run.logs] == [*range(seeds)]
    (epochs,) = {len(records) for records in run.logs.values()}
    return run, epochs


def test_figures_of_zinc_are_those_of_the_runs_that_ended():
    (heading, _, *rows), *_ = _tables("What it gives")
    assert heading[1:] == ["parameters", "epochs", "seeds", "test MAE"] and [row[0] for row in rows] == list(LONG)
    for name, parameters, number, seeds, figure in rows:
        run, epochs = _ended(LONG[name], seeds=int(seeds))
        assert (parameters, number, figure) == (f"{run.parameters:,}", str(epochs), run.figures.figure(1, 3))


def test_the_figure_in_half_precision_is_that_of_its_run():
    run = Run.read(ROOT / "results/more/bf16/rings/pg-gnn-sum-rings-walks-short/zinc_rings")
    assert run.complete and f"{run.figures.figure(1, 3)} with `--run.precision bf16`" in _section("What it gives")


def test_the_readme_has_the_best_of_them_and_its_control():
    ours, control = (_ended(LONG[name])[0].figures.figure(1, 3) for name in (next(iter(LONG)), "GIN with walks"))
    mean, deviation = ours.split(" ± ")
    row = f"| ZINC with bonds, rings | MAE | **{mean}** ± {deviation} | {control} | – | 4 | validation |"
    assert row in (ROOT / "README.md").read_text()


def test_the_readme_says_where_rings_lose():
    ours, control = (_ended(run, "peptides")[0].figures.figure(100, 1) for run in OTHERS.values())
    assert f"{control} to {ours} % average precision" in (ROOT / "README.md").read_text()


def test_figures_of_short_trainings_are_those_of_their_runs():
    _, (heading, _, *rows), *_ = _tables("What it gives")
    assert heading[1:] == ["epochs", "test MAE"] and [row[0] for row in rows] == list(SHORT)
    for name, epochs, figure in rows:
        run, number = _ended(SHORT[name])
        assert (epochs, figure) == (str(number), run.figures.figure(1, 3)) and 446_000 < run.parameters < 450_000


@pytest.mark.parametrize(("table", "data", "metric"), [(2, "molhiv", "AUROC"), (3, "peptides", "average precision")])
def test_figures_of_other_molecules_are_those_of_their_runs(table, data, metric):
    heading, _, *rows = _tables("What it gives")[table]
    assert heading[1:] == ["parameters", metric] and [row[0] for row in rows] == list(OTHERS)
    for name, parameters, figure in rows:
        run, epochs = _ended(OTHERS[name], data)
        assert epochs == 40 and (parameters, figure) == (f"{run.parameters:,}", run.figures.figure(100, 1))


def test_the_choice_of_walks_and_what_was_cut_off_are_those_of_the_logs():
    section = _section("What it gives")
    with_walks, without = (
        fmean(min(record["val"] for record in records) for records in _ended(row)[0].logs.values())
        for row in ("pg-gnn-sum-rings-walks-short", "pg-gnn-sum-rings-short")
    )
    assert f"{with_walks:.4f} with them, {without:.4f} without" in section
    logs = Run.read(CUT_OFF).logs
    epochs = [len(records) for records in logs.values()]
    found = [min(records, key=itemgetter("val"))["test"] for records in logs.values()]
    assert f"{min(epochs)} to {max(epochs)} of the 500 epochs" in " ".join(section.split())
    assert f"{fmean(found):.3f} ± {protocol.deviation(found):.3f}" in section


def test_figures_of_the_small_network_are_those_of_its_runs():
    ((heading, _, *rows),) = _tables("In a small network")
    assert [row[0] for row in rows] == list(SMALL) and heading[1:] == ["parameters", "test MAE"]
    for name, parameters, figure in rows:
        run = Run.read(ROOT / "results" / "more" / "small" / "rings" / SMALL[name] / "zinc_rings")
        assert run.complete and {len(records) for records in run.logs.values()} == {50}
        assert (parameters, figure) == (f"{run.parameters:,}", run.figures.figure(1, 3))


@pytest.mark.slow
def test_the_steps_are_those_of_zinc(data_root):
    ((command, said),) = re.findall(r"```\n\$ pggnn train (.*?)\n(.*?)```", TEXT, re.DOTALL)
    config = parse([*shlex.split(command), "--data.root", str(data_root)])[0]
    graphs = load_graphs(config)
    split = protocol.split(config, graphs, protocol.trials(config)[0])
    assert describe_work(config, graphs, split, lists_for(config, graphs)) == said.splitlines()
