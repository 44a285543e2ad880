import subprocess
import sys
import time

import pytest
import torch

from pggnn import console
from pggnn.cli import main, parser
from pggnn.console import loading
from pggnn.report.figures import draw_counts, draw_group
from pggnn.train import options


def test_groups_prints_sigma_group_and_arrangements(capsys):
    assert main(["groups", "7"]) == 0
    out = capsys.readouterr().out
    assert "( 1 4 2 6 3 7 5 )" in out
    assert "= (2 4 6 7 5 3)" in out
    assert "≅ Z_6, 6 arrangements of 7 neighbours" in out
    assert "σ^2  1 6 4 7 2 5 3     7" in out
    assert "The first 3 arrangements cover 21 of 21 pairs" in out
    assert "42 of 42 ordered pairs, each once" in out


@pytest.mark.parametrize("n", [0, 1, 2, 3, 30, 200])
def test_groups_of_any_size(n, capsys):
    assert main(["groups", str(n)]) == 0
    out = capsys.readouterr().out
    assert ("more (--all prints them)" in out) == (n > 25)
    assert len(out.splitlines()) < 40


@pytest.mark.parametrize(("n", "name"), [(2, "a.svg"), (7, "b.png"), (8, "c.svg"), (16, "d.pdf")])
def test_group_figures(n, name, tmp_path):
    path = draw_group(n, tmp_path / "new" / name)
    assert path.stat().st_size > 2000
    assert [file.name for file in path.parent.iterdir()] == [name], "something was left beside the figure"
    if path.suffix == ".svg":
        assert path.read_bytes() == draw_group(n, tmp_path / "again.svg").read_bytes()


def test_bad_input_is_one_line_and_not_zero(capsys, tmp_path):
    for arguments, message in (
        (["groups", "--", "-3"], "expected a number of neighbours n ≥ 0, got -3"),
        (["groups", "1000000"], "groups of up to 1000 neighbours can be listed, got 1000000"),
        (["groups", "1", "--figure", str(tmp_path / "a.svg")], "no pairs to draw with n = 1"),
        (["groups", "5", "--figure", str(tmp_path / "a.txt")], "must end in .svg, .png or .pdf"),
        (["demo", "--epochs", "0"], "at least 1 epoch and 16 graphs, got 0"),
    ):
        assert main(arguments) == 2
        error = capsys.readouterr().err
        assert error.startswith("pggnn: error: ")
        assert message in error
        assert len(error.splitlines()) == 1
    assert not list(tmp_path.iterdir())
    for arguments in ([], ["groups", "seven"], ["unknown"]):
        with pytest.raises(SystemExit, match="2"):
            main(arguments)


def test_what_the_system_refuses_is_named_without_its_number(capsys, tmp_path):
    (tmp_path / "file").touch()
    assert main(["groups", "5", "--figure", str(tmp_path / "file" / "a.svg")]) == 2
    error = capsys.readouterr().err
    assert error == f"pggnn: error: {tmp_path / 'file'}: File exists\n" or error.endswith(": Not a directory\n")


@pytest.mark.parametrize("command", [["tune"], ["reproduce", "table2"], ["reproduce", "search"]])
def test_control_c_says_how_to_go_on_with_a_sweep(command, capsys, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    for place in ("train.sweeps.tune.tune", "reproduce.results.reproduce", "reproduce.search.search"):
        monkeypatch.setattr(f"pggnn.{place}", interrupt)
    assert main(command) == 130
    assert capsys.readouterr().err == (
        "pggnn: interrupted: what has ended is kept; the same command goes on from the last whole epochs\n"
    )


@pytest.mark.parametrize(
    "command",
    [
        [],
        ["demo"],
        ["groups"],
        ["data"],
        ["data", "stats"],
        ["data", "check"],
        ["lab"],
        ["lab", "wl"],
        ["reproduce"],
        ["reproduce", "figure9"],
        ["report"],
    ],
)
def test_help_teaches_and_does_not_wait_for_torch(command):
    run = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "pggnn", *command, "--help"], capture_output=True, text=True
    )
    assert run.returncode == 0
    assert " torch" not in run.stderr, "--help waits for torch"
    assert ("commands:" if not command else "examples:") in run.stdout


def commands(parser, before=()):
    """Each command, with its parser."""
    yield before, parser
    for action in parser._subparsers._group_actions if parser._subparsers else ():
        for name, sub in action.choices.items():
            yield from commands(sub, (*before, name))


def test_help_is_80_columns_wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    found = {" ".join(name): sub.format_help() for name, sub in commands(parser())}
    found["train"] = options.parser().format_help()
    assert len(found) > 30 and "best/zinc_bonds" in found["train"], "--config names what there is"
    wide = {name: [line for line in text.splitlines() if len(line) > 80] for name, text in found.items()}
    assert {name: lines for name, lines in wide.items() if lines} == {}


@pytest.mark.parametrize(
    ("given", "meant"),
    [("trian", "train"), ("data chek", "check"), ("reproduce table33", "table3"), ("evaluate run --which bst", "best")],
)
def test_the_nearest_command_is_named(given, meant, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(given.split())
    assert f"; did you mean {meant}?" in capsys.readouterr().err


def test_a_terminal_and_a_pipe_say_what_takes_seconds(monkeypatch, capsys):
    with loading():
        pass
    assert capsys.readouterr().err == "", "it took no time"
    monkeypatch.setattr(console, "PATIENCE", 0.01)
    with loading():
        time.sleep(0.5)
    assert capsys.readouterr().err == "Loading PyTorch …\n", "a pipe has it once, in a line"
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with loading():
        said = capsys.readouterr().err
    assert said == "Loading PyTorch …"
    assert capsys.readouterr().err == f"\r{' ' * len(said)}\r", "and is gone when it is done"


@pytest.mark.parametrize("command", [["groups", "300", "--all"], ["data", "list"]])
def test_a_reader_that_leaves_is_no_error(command):
    pggnn = subprocess.Popen(
        [sys.executable, "-m", "pggnn", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    if command[0] == "groups":  # more than a pipe holds
        assert pggnn.stdout.readline().startswith("σ")
    pggnn.stdout.close()
    assert pggnn.stderr.read() == ""
    assert pggnn.wait() == 141


def test_demo(capsys, tmp_path):
    torch.use_deterministic_algorithms(False)
    assert main(["demo", "--epochs", "2", "--graphs", "32", "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    for word in ("PG-GNN", "GIN", "test MAE", "parameters", "time", "triangles.png"):
        assert word in out
    assert [file.name for file in tmp_path.iterdir()] == ["triangles.png"]


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB."),
        RuntimeError("Triton Error [CUDA]: out of memory"),
        RuntimeError("CUDA error: an illegal memory access was encountered"),
    ],
)
def test_a_gpu_that_is_full(error, capsys, monkeypatch):
    def fail(*_):
        raise error

    monkeypatch.setattr("pggnn.reproduce.demo.run", fail)
    if "illegal" in str(error):
        with pytest.raises(RuntimeError, match="illegal"):
            main(["demo"])
        return
    assert main(["demo"]) == 2
    assert capsys.readouterr().err.startswith("pggnn: error: the GPU has too little memory")


def test_counts_figure(tmp_path):
    path = draw_counts([0, 1, 2], {"a": ([0, 1, 2], 0.0), "b": ([1, 1, 1], 0.7)}, tmp_path / "counts.svg")
    assert "mean absolute error 0.700" in path.read_text() or path.stat().st_size > 2000
