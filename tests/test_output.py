"""Names from files do not reach a terminal or a spreadsheet as commands."""

import csv
import io
import json
from types import SimpleNamespace

import pytest
from rich.console import Console

from pggnn.cli import main
from pggnn.console import print_table, say, tell, tracked, visible
from pggnn.files import csv_cell
from pggnn.train.runs.predict import write
from pggnn.train.runs.progress import Bars

RED = "\x1b[31mred"


@pytest.mark.parametrize(
    "text, cell",
    [
        ("=1+1", "'=1+1"), ("+SUM(A1)", "'+SUM(A1)"), ("-2+3", "'-2+3"), ("@x", "'@x"), ("－x", "'－x"), ("-", "'-"),
        ("-inf", "'-inf"), ("+1_000", "'+1_000"), ("-1", "-1"), ("+1.5e-3", "+1.5e-3"), ("-.5", "-.5"), ("a=b", "a=b"),
        ("-0,5", "-0,5"),
        ("-1\n", "'-1\\n"), ("\t=1", "\\t=1"), ("\r=1", "\\r=1"), (RED, "\\x1b[31mred"), ("a\nb", "a\\nb"),
        ("\u202ecsv", "\\u202ecsv"), ("Größe Σ", "Größe Σ"), ("", ""), (-3, -3), (-0.5, -0.5), (None, None),
    ],
)  # fmt: skip
def test_cells_of_a_csv_file(text, cell):
    assert csv_cell(text) == cell


def test_rows_and_headings_of_predictions():
    rows = [{"graph": "=cmd|' /C calc'!A0", "prediction": "+x", f"p({RED})": 0.5, "note": None}]
    file = io.StringIO()
    assert write(iter(rows), file, "csv") == (1, [])
    assert [*csv.reader(file.getvalue().splitlines())] == [
        ["graph", "prediction", "p(\\x1b[31mred)", "note"],
        ["'=cmd|' /C calc'!A0", "'+x", "0.5", ""],
    ]


@pytest.mark.parametrize(
    "text, shown",
    [(RED, "\\x1b[31mred"), ("a\x07\x9b\x7f\0", "a\\x07\\x9b\\x7f\\x00"), ("\u202e\u2066", "\\u202e\\u2066"),
     ("a\rb\tc", "a\\rb\\tc"), ("two\nlines", "two\nlines"), ("\udcff", "\\udcff"), ("Größe Σ 名前", "Größe Σ 名前")],
)  # fmt: skip
def test_control_characters_are_shown(text, shown, capsys):
    assert visible(text) == shown
    say(text)
    print_table([[text.replace("\n", " "), "x"]], set())
    said = capsys.readouterr().out
    assert said == f"{shown}\n{shown.replace(chr(10), ' ')}  x\n"


def test_brackets_are_no_markup_and_escapes_no_colours():
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=200)
    tell(console, f"[bold]{RED}[/] [/x]")
    assert file.getvalue() == "[bold]\\x1b[31mred[/] [/x]\n"
    with Bars(console, "") as bars:
        bars.add(f"[/x]{RED}", 3)
    assert "[/x]\\x1b[31mred" in file.getvalue() and RED not in file.getvalue()


@pytest.mark.parametrize("terminal", [False, True])
def test_progress_is_shown_at_once_and_goes_on(terminal, monkeypatch):
    clock, file, seen = SimpleNamespace(now=0.0), io.StringIO(), []
    monkeypatch.setattr("pggnn.console.time", SimpleNamespace(monotonic=lambda: clock.now))
    console = Console(file=file, force_terminal=terminal, width=100)
    for item in tracked(range(1000), "Counting", 1000, console=console):
        seen.append(item)
        clock.now += 0.0625
        assert item or "Counting" in file.getvalue(), "before the first is done"
    assert seen == [*range(1000)]
    if not terminal:
        first, *later = file.getvalue().splitlines()
        assert first == "Counting: 0 of 1,000"
        assert later == ["Counting: 480 of 1,000, about 33 s to go", "Counting: 960 of 1,000, about 2.5 s to go"]


def test_errors_and_tables_of_commands(tmp_path, capsys):
    folder = tmp_path / f"[bold]{RED}"
    folder.mkdir()
    path = folder / "mine.jsonl"
    graphs = [
        {"id": f"{RED}{i}", "num_nodes": 3, "edges": [[0, 1], [1, 2]], "y": ["=a", RED][i % 2]} for i in range(20)
    ]
    path.write_text("".join(json.dumps(graph) + "\n" for graph in graphs))
    run = folder / "run"
    small = [
        "--model.hidden",
        "4",
        "--model.layers",
        "1",
        "--optim.epochs",
        "1",
        "--run.jobs",
        "1",
        "--run.device",
        "cpu",
    ]
    for code, command in (
        (0, ["train", "--data.name", str(path), *small, "--run.tensorboard", "false", "--run.out", str(run)]),
        (2, ["train", "--data.name", str(path), *small, "--run.out", str(run)]),
        (0, ["evaluate", str(run)]),
        (0, ["predict", str(run), str(path)]),
        (0, ["report", str(run)]),
        (0, ["data", "check", str(path)]),
        (2, ["evaluate", str(folder / "none")]),
        (2, ["predict", str(run), f"{RED}.jsonl"]),
    ):
        capsys.readouterr()
        assert main(command) == code, command
        said = "".join(capsys.readouterr())
        assert "\x1b" not in said and "\\x1b[31mred" in said, (command, said)
    with pytest.raises(SystemExit):
        main(["groups", "3", f"--{RED}"])
    assert "\x1b" not in capsys.readouterr().err
