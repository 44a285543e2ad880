"""The figures in ``results/`` and the text about them say what the packed runs there give."""

import json
import re
import shutil
from pathlib import Path
from statistics import fmean

from rich.console import Console

from pggnn.paper.tables import TABLES
from pggnn.reproduce.results import reproduce
from pggnn.train.engine import log
from pggnn.train.runs.stored import Run, find_runs
from pggnn.train.sweeps.sweep import Sweep

RESULTS = Path(__file__).parents[2] / "results"
TEXT = (RESULTS.parent / "docs" / "results.md").read_text()


def test_published_tables_are_what_their_runs_say(tmp_path, monkeypatch):
    """And are made without data, weights or a GPU."""
    monkeypatch.setattr("pggnn.reproduce.results.write_table", lambda *_: None)  # a page: that of GCN is made below
    shutil.copytree(RESULTS / "table2", tmp_path / "results" / "table2")
    chosen = Sweep(["PG-GNN (group)"], more=("--run.precision", "tf32"), console=Console(quiet=True))
    shown, page = reproduce("table2", tmp_path / "results", chosen)
    made, expected = (path.read_text().splitlines() for path in (page, RESULTS / "table2.md"))
    assert made[:-1] == expected[:-1], "the last line is the command"
    said = re.sub(r"\*\*| \(0[\d.]+\)", "", TEXT)  # what is bold, and validation
    rows = "`table2/pg-gnn-group`", "`table2/pg-gnn-group-shuffled`", "`table2/pg-gnn-group-renumbered`"
    for first, row in enumerate(rows):
        figures = " | ".join(f"{cell.mean:.4f} ± {cell.std:.4f}" for cell in shown[4 * first : 4 * first + 4])
        assert f"({row}) | {figures} |" in said
    for cell, column in zip(shown[8:12], TABLES["table2"].columns.values(), strict=True):
        for seed, found in zip(cell.seeds, cell.each, strict=True):
            records = log.read(RESULTS / "table2" / "pg-gnn-group-renumbered" / column / f"seed{seed}")
            assert min(records, key=lambda record: record["val"])["test"] == found
        assert cell.paper is not None and cell.mean <= cell.paper.mean, "no figure is worse than the paper's"


def test_published_runs_are_few_files_and_hold_what_the_text_names():
    files = [path for path in RESULTS.rglob("*") if path.is_file() and path.suffix != ".html"]
    assert len(files) < 80 and sum(path.stat().st_size for path in files) < 8e6
    named = set(re.findall(r"`((?:table[234]|ablation|gcn|rp|graphsage|search|more)/[\w/-]+)`", TEXT))
    assert len(named) > 25
    for name in named:
        assert find_runs(RESULTS / name), name


def test_published_frames_of_gcn_are_what_their_runs_say(tmp_path):
    shutil.copytree(RESULTS / "gcn", tmp_path / "gcn")
    both = "GCN (mean, last layer)"
    shown, page = reproduce("gcn", tmp_path, Sweep([both], console=Console(quiet=True)))
    assert page.read_text().splitlines()[:-1] == (RESULTS / "gcn.md").read_text().splitlines()[:-1]
    assert "<svg" in page.with_suffix(".html").read_text(encoding="utf-8")
    assert {cell.model for cell in shown} == set(TABLES["gcn"].rows)
    for cell in shown:
        near = abs(cell.mean - cell.paper.mean) < 3 * cell.paper.std
        assert near == (cell.model == both), "the paper's figures are met with both changes and with both only"


def test_what_counts_give_is_what_the_text_says():
    text = " ".join(TEXT.split("**Counts of cliques and cycles**")[1].split("\n\n")[0].split())
    for of, them, neither in (("", "gin-counts", "gin"), ("Nested it ", "gin-counts-nested", "gin-nested")):
        ours, without = (
            [Run.read(RESULTS / "table3" / row / data).figures.figure(100, 1) for data in ("imdb_b", "imdb_m")]
            for row in (them, neither)
        )
        with_them = (
            f"{of}has {ours[0]} and {ours[1]} with them" if of else f"{ours[0]} on IMDB-B and {ours[1]} on IMDB-M"
        )
        assert with_them in text and f"{without[0]} and {without[1]} without" in text


def test_what_other_folds_would_have_chosen_is_what_the_text_says():
    cells = {(cell["model"], cell["data"]): cell for cell in json.loads((RESULTS / "table3.json").read_text())}
    text = TEXT.split("| the other folds chose the epoch |")[1].split("\n\n")[0]
    heading, _, *rows = (line.strip().strip("|").split("|") for line in text.splitlines())
    sets = [name.strip() for name in heading]
    models = (
        "PG-GNN (group)", "PG-GNN (linear, group)", "PG-GNN (K = 4)", "PG-GNN (K = 4, mean)", "PG-GNN (single)",
        "PG-GNN (best)", "GIN", "GIN (best)",
    )  # fmt: skip
    gaps = []
    for model, (_, *shown) in zip(models, rows, strict=True):
        for data, figure in zip(sets, shown, strict=True):
            cell = cells.get((model, data))
            others = cell and cell["by_others"]
            assert figure.strip() == (f"{100 * others['mean']:.1f} ± {100 * others['std']:.1f}" if others else "")
            gaps += [100 * (cell["mean"] - others["mean"])] if cell and others else []
    assert f"It is {sum(gaps) / len(gaps):.1f} points less on average" in TEXT


def test_figures_of_other_groups_are_those_of_their_runs():
    section = (RESULTS.parent / "docs" / "rivals.md").read_text().split("\n## Other groups\n")[1]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")][2:]
    names = {"the paper's": "pairs", "all (Sₙ)": "all"}
    packed = map(Run.read, find_runs(RESULTS / "groups"))
    found = {run.folder.parent.name.removeprefix("pg-gnn-"): run for run in packed}
    assert sorted(names.get(name, name) for name, *_ in rows) == sorted(found)
    for name, _, _, test, loss in rows:
        run = found[names.get(name, name)]
        assert run.complete and run.figures.figure(1, 3) == test and len(run.logs) == 2 and run.parameters == 5740
        assert {len(records) for records in run.logs.values()} == {60}
        assert loss == f"{fmean(records[-1]['loss'] for records in run.logs.values()):.3f}"
