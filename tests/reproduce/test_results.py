"""``pggnn reproduce table2`` on generated graphs, small enough for a test."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from functools import cache
from types import SimpleNamespace

import pytest
from rich.console import Console

from pggnn.baselines.options import MODELS
from pggnn.cli import main
from pggnn.data.catalogue import lookup
from pggnn.paper.expected import results
from pggnn.paper.tables import TABLES, cells, nested_row, runs
from pggnn.report.pack import pack
from pggnn.reproduce import memory
from pggnn.reproduce.results import TableCell, markdown, reproduce
from pggnn.train.config import difference
from pggnn.train.engine import log
from pggnn.train.engine.checkpoint import Checkpoint
from pggnn.train.runs.folder import ENVIRONMENT
from pggnn.train.runs.protocol import RunSummary
from pggnn.train.runs.run import train
from pggnn.train.sweeps.keys import select_runs
from pggnn.train.sweeps.sweep import Sweep

TINY = (
    *("--data.options", "{task: triangles, seed: 0, graphs: 40}", "--model.hidden", "4", "--model.layers", "1"),
    *("--optim.epochs", "3", "--run.device", "cpu", "--run.tensorboard", "false"),
)
ONLY = ["gcn", "er triangles"]


def reproduced(out, only=ONLY, more=TINY, **options):
    return reproduce("table2", out, Sweep(only, 2, more, Console(quiet=True)), quick=True, **options)


@pytest.fixture(scope="module")
def runs_of(tmp_path_factory):
    """The runs of a whole table, whose options are read once."""
    folder = tmp_path_factory.mktemp("runs")
    return cache(lambda table: runs(table, folder))


@pytest.mark.parametrize("table", TABLES)
def test_every_cell_is_a_run_and_has_a_published_figure(table, runs_of):
    configs = runs_of(table)
    assert len({config.folder for config in configs.values()}) == len(configs)
    assert list(configs) == cells(table)
    for model, data in configs:
        theirs = TABLES[table].rows[model].published
        if theirs is not None and (theirs == "PG-GNN" or "4-cliques" not in data):  # given for PG-GNN only
            name, _, counted = data.partition(" ")
            known = results(lookup(name)[0], counted.removeprefix("4-") or "triangles")[1]
            assert theirs in known, (model, data)
        if table == "ablation":
            assert (theirs is None) == (model != "PG-GNN (group)")


@pytest.mark.parametrize("table", ["table3", "table4"])
def test_rows_are_what_their_names_say(table, runs_of):
    configs = runs_of(table)
    for (model, data), config in configs.items():
        label = {"3-WL-GNN": "PPGN", "WL kernel": "WL", "GraphSAGE": "SAGE"}.get(model, model.partition(" (")[0])
        assert MODELS[config.model.name].label == label
        assert (config.protocol.kind == "nested") == ("nested" in model)
        assert config.model.edge_features == ("bonds" in model)
        assert config.protocol.only == ((0,) if "fold 0" in model else ())
        for name, orderings in {"group": "group", "single": "single", "K = 4": 4, "K = 16": 16}.items():
            assert name not in model or config.model.orderings == orderings, (model, data)
    models = {"PG-GNN (group)", "PG-GNN (single)", "GIN"}
    sets = set(TABLES[table].columns)
    assert {key for key in configs if key[0] in models} >= {(m, d) for m in models for d in sets - {"COLLAB"}}
    quick = {model for model, _ in cells(table, quick=True)}
    assert models <= quick and not any("nested" in model for model in quick)


def test_rivals_are_trained_as_where_their_figures_are_from(runs_of):
    """On ZINC by the absolute error; with the widths, rates and readouts of benchmarking-gnns and of LRP's authors."""
    rows = {
        "3-WL-GNN": (82, 79, 1e-3, 1e-3), "Ring-GNN": (45, 34, 1e-4, 1e-3), "GraphSAGE": (90, 90, 1e-3, 1e-3),
        "GatedGCN": (70, 70, 1e-3, 1e-3), "PNA": (75, 75, 1e-3, 1e-3), "GIN (100k)": (110, 110, 1e-3, 1e-3),
        "Deep-LRP": (None, 128, None, 1e-3), "PPGN": (None, 400, None, 1e-4),
    }  # fmt: skip
    readouts = {"Ring-GNN": "sum", "PNA": "sum", "GIN (100k)": "sum"}
    configs = runs_of("table4")
    for model, figures in rows.items():
        for data, hidden, lr in zip(("MNIST", "ZINC"), figures[:2], figures[2:], strict=True):
            if hidden is None:
                assert (model, data) not in configs
                continue
            config = configs[model, data]
            assert (config.model.hidden, config.optim.lr, config.optim.sampling) == (hidden, lr, "shuffle")
            assert config.optim.loss == ("mae" if data == "ZINC" else "auto")
            assert (config.protocol.report, config.model.init) == ("last", "guess")
            if config.model.pool == "max":
                assert model in ("3-WL-GNN", "PPGN")
            else:
                assert config.model.readout == readouts.get(model, "mean")


def test_rivals_start_at_a_guess(runs_of):
    """Sums over all nodes, cells or pairs are large, and so would be the first losses."""
    rivals = ("IGN", "PPGN", "SIN", "CIN", "DGCNN", "CLIP")
    starts = [config.model.init for (model, _), config in runs_of("table3").items() if model in rivals]
    assert len(starts) > 20 and set(starts) == {"guess"}


def test_the_linear_cell_and_the_control_differ_from_the_group_in_nothing_else(tmp_path):
    """In every column of Table 2, and in the smaller experiment."""
    changed = {
        "PG-GNN (linear, group)": {"model.cell", "model.rnn_layers"},
        "PG-GNN (linear, single)": {"model.cell", "model.rnn_layers", "model.orderings"},
        "both ends": {"model.name"},
    }
    for quick in (False, True):
        configs = runs("table2", tmp_path, quick, only=["PG-GNN (group)", *changed])
        for row, keys in changed.items():
            for column in TABLES["table2"].columns:
                found = difference(configs["PG-GNN (group)", column], configs[row, column], ("run.out",))
                assert {text.partition(":")[0] for text in found} == keys


def test_only_takes_names_of_rows_and_columns():
    every = cells("table3")
    assert select_runs("table3", every, ["PG-GNN (single)", "proteins"]) == [("PG-GNN (single)", "PROTEINS")]
    assert {data for _, data in select_runs("table3", every, ["gin"])} == set(TABLES["table3"].columns), "whole rows"
    assert {model for model, _ in select_runs("table3", every, ["gin"])} == {"GIN"}, "and not GIN (nested)"
    assert {model for model, _ in select_runs("table3", every, ["gin*", "proteins"])} == {
        "GIN", "GIN (best)", "GIN (nested)", "GIN (best, nested)",
    }  # fmt: skip
    assert {data for _, data in select_runs("table3", every, ["imdb-*"])} == {"IMDB-B", "IMDB-M"}
    assert select_runs("table3", every, []) == every
    with pytest.raises(ValueError, match=r"no row or column 'mnist'; its rows are 'PG-GNN .group.', .* are 'PROTEINS'"):
        select_runs("table3", every, ["gin", "mnist"])
    with pytest.raises(ValueError, match=r"no figure for pg-gnn .group. and collab"):
        select_runs("table3", every, ["pg-gnn (group)", "collab"])


def test_a_table_in_slices(tmp_path, monkeypatch, in_this_process):
    """Each slice has time to start a training, and no more; other cells that are complete stay in the table."""
    more = (*TINY, "--optim.epochs", "2")
    reproduced(tmp_path, ["gin", "er triangles"], more)
    ahead = SimpleNamespace(time=lambda: time.time() + 3600)  # by a training's clock the time is up after an epoch
    monkeypatch.setattr("pggnn.train.runs.worker.time", ahead)
    models, epochs = [], []
    with open(tmp_path / "said", "w") as said:
        for _ in range(2):
            console = Console(file=said, width=200)
            shown, _ = reproduce("table2", tmp_path, Sweep(ONLY, 2, more, console, time.time() + 3000), True)
            models.append([cell.model for cell in shown])
            epochs += [len(log.read(folder)) for folder in tmp_path.glob("**/gcn/**/seed0")]
    assert epochs == [1, 2], "an epoch each time"
    assert models == [["GIN"], ["GIN", "GCN"]]
    said = (tmp_path / "said").read_text()
    assert "table2: the time is up. 0 of 1 trainings have ended; still to do:" in said
    assert "GCN on ER triangles: 1 of 1 at epoch 1 of 2" in said
    assert said.count("The same command goes on.") == 1


def test_no_training_is_started_without_time_for_an_epoch(tmp_path, monkeypatch, in_this_process):
    read, more = log.read, (*TINY, "--optim.epochs", "1")
    monkeypatch.setattr(log, "read", lambda folder: [{**record, "seconds": 1e4} for record in read(folder)])
    sweep = Sweep(ONLY, 1, more, Console(quiet=True), time.time() + 3000)
    reproduce("table2", tmp_path, sweep, True, [0, 2])
    assert [folder.name for folder in tmp_path.glob("**/gcn/**/seed*")] == ["seed0"]
    begun = list(tmp_path.glob("**/config.yaml"))
    with open(tmp_path / "said", "w") as said:
        sweep = Sweep(["er triangles"], 1, more, Console(file=said), time.time())
        reproduce("table2", tmp_path, sweep, True)
    assert list(tmp_path.glob("**/config.yaml")) == begun, "the other rows have no folders"
    assert "GIN on ER triangles: 1 of 1" in (tmp_path / "said").read_text(), "but are still to do"


@pytest.mark.parametrize("table", ["ablation", "gcn", "graphsage", "rp"])
def test_every_row_is_another_network_and_learns(table, tmp_path):
    more = (*TINY, "--optim.epochs", "1", "--run.jobs", "1")
    losses = {}
    for (model, _), config in runs(table, tmp_path, quick=True, more=more, only=["ER triangles"]).items():
        train(config, console=Console(quiet=True))
        (losses[model],) = (record["loss"] for record in log.read(config.folder / "seed0"))
    assert len(losses) == len(set(losses.values())) == sum(data == "ER triangles" for _, data in cells(table))
    assert all(0 < loss < 100 for loss in losses.values())


def test_ours_stand_beside_the_papers_and_nothing_is_run_twice(tmp_path, monkeypatch, in_this_process):
    (cell,), page = reproduced(tmp_path)
    assert (cell.model, cell.data, cell.metric, cell.seeds) == ("GCN", "ER triangles", "MAE", [0])
    assert cell.paper == results("ER")[1]["GCN"]
    text = page.read_text()
    assert f"| GCN | ER triangles | {cell.mean:.3f} | best on validation | {cell.paper.mean:.3f}" in text
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
    assert "optim.epochs: 3, not 800" in page.with_suffix(".html").read_text(), "the page says how it is smaller"

    pack(tmp_path / "table2", tmp_path / "compact" / "table2")
    files = {path: path.read_bytes() for path in (tmp_path / "compact" / "table2").rglob("*.*")}
    monkeypatch.setattr("pggnn.train.sweeps.sweep.load_graphs", None)
    (again,), page = reproduced(tmp_path / "compact")
    assert (again.mean, again.each, again.paper) == (cell.mean, cell.each, cell.paper)
    assert page.with_suffix(".html").exists()
    assert files == {path: path.read_bytes() for path in files}, "a published run stays as it is"


def test_the_rule_and_the_nested_figure_stand_beside_the_figure():
    def cell(model, mean, rule, others=None):
        figures = ("accuracy", mean, 0.01, [mean] * 2, [1])
        return TableCell(model, "NCI1", *figures, rule, others, [0], "", 1, 1.0, "", None, "")

    cells = [
        cell("GIN", 0.8, "best on test folds"),
        cell("GIN (best)", 0.9, "best on test folds"),
        cell("GIN (nested)", 0.7, "best on validation"),
    ]
    lines = markdown("table3", "", cells, []).splitlines()
    assert lines[2].startswith("| model | data | ours | epoch | nested | paper |")
    assert lines[4].startswith("| GIN | NCI1 | 80.0 ± 1.0 | best on test folds | 70.0 ± 1.0 |")
    assert lines[5].startswith("| GIN (best) | NCI1 | 90.0 ± 1.0 | best on test folds |  |"), "it has no nested one"
    assert "nested" not in markdown("table3", "", cells[:2], [])
    assert "by other folds" not in "\n".join(lines).lower()
    others = RunSummary("accuracy", 0.75, 0.02, [0.77, 0.73], [3, 4])
    lines = markdown("table3", "", [cell("GIN", 0.8, "best on test folds", others), *cells[1:]], []).splitlines()
    assert lines[2].startswith("| model | data | ours | epoch | by other folds | nested | paper |")
    assert lines[4].startswith("| GIN | NCI1 | 80.0 ± 1.0 | best on test folds | 75.0 ± 2.0 | 70.0 ± 1.0 |")
    assert lines[5].startswith("| GIN (best) | NCI1 | 90.0 ± 1.0 | best on test folds |  |  |")
    assert lines[-1].startswith("- By other folds: ")
    assert {nested_row(row) for row in TABLES["table3"].rows} >= {
        row for row in TABLES["table3"].rows if "nested" in row
    }


def test_what_is_not_shown_is_not_explained():
    said = TABLES["table3"].notes_on(["PG-GNN (single)", "PG-GNN (single, nested)", "GIN (nested)"])
    assert [note.partition(":")[0] for note in said[len(TABLES["table3"].notes) :]] == ["Nested"]


def test_what_was_run_otherwise_is_said_below_the_table(tmp_path, in_this_process):
    reproduced(tmp_path, ["gin", "er triangles"])
    _, page = reproduced(tmp_path, more=(*TINY, "--optim.epochs", "4"))
    said = page.read_text()
    assert "- Not the table's own experiment; in all rows " in said and "model.hidden: 4, not 64" in said
    notes = {line.partition(":")[0]: line for line in said.splitlines()}
    assert "optim.epochs: 3, not 800" in notes["- GIN"] and "optim.epochs: 4, not 800" in notes["- GCN"]


def test_a_published_run_is_shown_however_it_was_made_unless_options_say_otherwise(tmp_path, in_this_process):
    (cell,), _ = reproduced(tmp_path)
    with pytest.raises(ValueError, match=r"holds a run with other options: .*optim\.epochs: 4, not 3"):
        reproduced(tmp_path, more=(*TINY, "--optim.epochs", "4", "--optim.schedule", "cosine"))
    pack(tmp_path / "table2", tmp_path / "compact" / "table2")
    (again,), page = reproduce("table2", tmp_path / "compact", Sweep(ONLY, 1, (), Console(quiet=True)), True)
    assert (again.mean, again.seeds) == (cell.mean, cell.seeds)
    assert "optim.epochs: 3, not 800" in page.read_text()
    with pytest.raises(ValueError, match=r"holds a run with other options: .*model\.hidden: 5, not 4"):
        reproduced(tmp_path / "compact", more=(*TINY, "--model.hidden", "5"))


def test_published_runs_are_found_where_they_are(tmp_path):
    (tmp_path / "table2" / "gcn" / "er_triangles").mkdir(parents=True)
    only = ["GCN", "GIN", "ER triangles"]
    found = runs("table2", tmp_path, only=only)
    assert found["GCN", "ER triangles"].folder == tmp_path / "table2/gcn/er_triangles"
    assert found["GIN", "ER triangles"].folder == tmp_path / "table2/full/gin/er_triangles"
    assert runs("table2", tmp_path, True, only=only)["GCN", "ER triangles"].folder.parts[-3] == "quick"


def test_runs_of_table_2_are_not_trained_again_for_the_tables_that_explain_it(tmp_path):
    (tmp_path / "table2" / "gcn" / "er_triangles").mkdir(parents=True)
    key, other, columns = ("GCN", "ER triangles"), ("GCN (mean)", "ER triangles"), ["ER triangles"]
    found = runs("gcn", tmp_path, only=columns)
    assert found[key].folder == tmp_path / "table2/gcn/er_triangles"
    assert found[other].folder == tmp_path / "gcn/full/gcn-mean/er_triangles", "that is another network"
    assert runs("gcn", tmp_path, quick=True, only=columns)[key].folder == tmp_path / "gcn/quick/gcn/er_triangles"
    (tmp_path / "gcn" / "full" / "gcn" / "er_triangles").mkdir(parents=True)
    assert runs("gcn", tmp_path, only=columns)[key].folder == tmp_path / "gcn/full/gcn/er_triangles", (
        "its own come first"
    )


def test_time_that_is_too_short_for_an_epoch_leaves_nothing_and_says_so(data_root, tmp_path, capsys):
    given = ["--quick", "--only", "GIN", "PROTEINS", "--minutes", "1e-6", "--jobs", "1", "--data.root", str(data_root)]
    assert main(["reproduce", "table3", *given, "--out", str(tmp_path)]) == 0
    said = capsys.readouterr()
    assert "That is 3 of unknown length. The same command goes on." in said.err
    assert "No run has ended yet" in said.out and not list(tmp_path.glob("*.html"))


@pytest.mark.parametrize("minutes", ["0", "-1", "nan"])
@pytest.mark.parametrize("name", ["table3", "search"])
def test_no_time_is_refused(name, minutes, tmp_path, capsys):
    assert main(["reproduce", name, "--minutes", minutes, "--out", str(tmp_path / "out")]) == 2
    assert f"--minutes must be a number greater than 0, got {minutes}" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def killed(out, seconds):
    """Starts the table in a process of its own and kills it after so long; returns whether it had ended before."""
    command = ["reproduce", "table2", "--quick", "--only", *ONLY, "--jobs", "2", "--out", str(out), *TINY]
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
    runs = {("GIN", "PROTEINS"): ("er_triangles", "--model.name", "gin", *TINY)}  # a set that can be generated
    monkeypatch.setattr(memory, "commands", lambda: runs)
    (cell,) = memory.reproduce_memory("table5", tmp_path, console=Console(quiet=True))
    assert 100 < cell["mib"] < 4000 and cell["batches"] == memory.STEPS
    assert f"| GIN | PROTEINS | {cell['mib']:,.0f} | 2,338 | {memory.STEPS} |" in (tmp_path / "table5.md").read_text()
    monkeypatch.setattr(memory, "_measured", lambda *_: pytest.fail("measured again"))
    assert memory.reproduce_memory("table5", tmp_path, console=Console(quiet=True)) == [cell]


def test_memory_is_measured_of_what_the_tables_train():
    found = memory.commands()
    assert len(found) == 3 * 7 + 2 * 5, "the paper has CIN on five of the seven sets"
    assert {data for model, data in found if "CIN" in model} == {"PROTEINS", "NCI1", "IMDB-B", "IMDB-M", "ZINC"}
    assert found["CIN", "NCI1"] == found[memory.PREPARATION, "NCI1"] != found["CIN", "ZINC"]
    assert found["PG-GNN (group)", "COLLAB"] == ("collab", "--model.orderings", "group")
    assert "--optim.lr" in found["GIN", "PROTEINS"] and found["GIN", "ZINC"] == ("zinc", "--model.name", "gin")


def test_memory_of_finding_rings_is_a_row_of_its_own(tmp_path, monkeypatch):
    """Beside the paper's figure, and in an empty cache: what it finds is not what an earlier search has left."""
    runs = {(memory.PREPARATION, "PROTEINS"): ("er_triangles", "--model.name", "cin", "--data.rings", "6", *TINY)}
    monkeypatch.setattr(memory, "commands", lambda: runs)
    (cell,) = memory.reproduce_memory("table5", tmp_path, console=Console(quiet=True))
    assert cell["paper"] == 561 and cell["batches"] == 0 and cell["mib"] > 100
    monkeypatch.setenv("PGGNN_CACHE", str(tmp_path / "kept"))
    config, *options = runs[memory.PREPARATION, "PROTEINS"]
    memory.measure_preparation(config, *options)
    assert not (tmp_path / "kept" / "lists").exists()


def test_memory_of_batches_that_take_long():
    clock = memory.Clock()
    clock.step(1)
    clock.begin -= memory.SECONDS
    with pytest.raises(TimeoutError):
        clock.step(2)
    assert clock.batches == 2


def test_what_is_not_there_is_said(capsys, tmp_path):
    for arguments, message in (
        (["reproduce", "table2", "--only", "transformer", "--out", str(tmp_path)], "no row or column 'transformer'"),
        (["reproduce", "table2", "--out", str(tmp_path), "--model.hiden", "3"], "did you mean model.hidden?"),
        (["reproduce", "table6", "--out", str(tmp_path)], "finds none here"),
    ):
        assert main(arguments) == 2
        assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
