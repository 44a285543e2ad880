"""What is published of the GPU's benchmarks is what was measured."""

import json
from pathlib import Path

import pytest

from pggnn.bench import plots, record, roofline, tables
from pggnn.cli import main

FOLDER = Path(__file__).parents[2] / "benchmarks"
FILE = FOLDER / "kernel-h200.json"


def test_the_page_has_the_tables_of_the_file():
    text = (FOLDER / "README.md").read_text()
    assert tables.BEGIN + "\n" + tables.tables(FILE) + "\n" + tables.END in text, (
        f"run: pggnn bench table {FILE.name} --into README.md"
    )


def test_every_picture_of_the_file_is_there(tmp_path):
    for made in plots.draw(FILE, tmp_path):
        assert (FOLDER / made.name).exists(), f"run: pggnn bench plot {FILE.name}"


@pytest.fixture
def invented(tmp_path):
    """A file with every figure that has a goal, and sizes of a power law; half of the goals are missed."""
    figures: record.Record = {}
    for number, ((part, case, what), goal) in enumerate(record.GOALS.items()):
        good = record.more_is_better(what)
        figures.setdefault(part, {}).setdefault(case, {})[what] = goal * (2 if good == (number % 2 == 0) else 0.5)
    figures["epochs"]["ZINC"] |= {"steps": 157, "steps of GIN measured": 100}
    figures["epochs"]["MNIST"]["steps"] = 860
    figures["linear"] = {
        f"power law, 10^{k} steps": {
            "steps": 10**k, "largest degree": 9, "forward, ms": 10.0 ** (k - 6), "training, ms": 10.0 ** (k - 5)
        }
        for k in range(4, 7)
    }  # fmt: skip
    figures["linear"]["power law"] = {"exponent of forward from 10^6 steps on": 1.0}
    record.save(tmp_path / "kernel.json", "a machine", figures)
    return tmp_path / "kernel.json"


def test_tables(invented, capsys):
    assert main(["bench", "table", str(invented)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Measured in one run of `pggnn bench kernel` on a machine")
    assert "| 64, bfloat16 | forward | **0.700** | 1.4 |" in out
    assert "| 64, bfloat16 | training | 15.0 | 7.5, **missed** |" in out
    assert "| ZINC (GIN from its first 100 steps) | 157 |" in out
    assert "| power law | 1,000,000 | 9 | 1.00 |" in out
    assert "| power law | 1.00 |  |" in out
    assert "](kernel-linear.svg)" in out and "](kernel-roofline.svg)" in out
    assert out.count("**missed**") == sum(
        not record.is_met(part, case, what, value)
        for part, cases in record.load(invented)[1].items()
        for case, quantities in cases.items()
        for what, value in quantities.items()
        if (part, case, what) in record.GOALS and "/ ours" not in what
    )


def test_tables_go_into_a_page(invented, tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text(f"before\n{tables.BEGIN}old\n{tables.END}after\n")
    for _ in range(2):
        assert main(["bench", "table", str(invented), "--into", str(page)]) == 0
    assert page.read_text() == f"before\n{tables.BEGIN}\n{tables.tables(invented)}\n{tables.END}after\n"
    page.write_text("no marks")
    assert main(["bench", "table", str(invented), "--into", str(page)]) == 2
    assert "must have the lines <!-- pggnn bench table -->" in capsys.readouterr().err


def test_pictures(invented, tmp_path, capsys):
    assert main(["bench", "plot", str(invented), "--out", str(tmp_path / "pictures")]) == 0
    made = sorted(file.name for file in (tmp_path / "pictures").iterdir())
    assert made == ["kernel-linear.svg", "kernel-roofline.svg"]
    points = plots._points(record.load(invented)[1]["linear"], "power law", "forward")
    assert points == [(1e4, 0.01), (1e5, 0.1), (1e6, 1.0)]


def test_other_files_are_refused(tmp_path, capsys):
    path = tmp_path / "star.json"
    path.write_text(json.dumps({"benchmark": "star", "figures": {"whole group, seconds": 28.0}}))
    for command in ("table", "plot"):
        assert main(["bench", command, str(path)]) == 2
        assert "was not written by pggnn bench kernel" in capsys.readouterr().err
    path.write_text("")
    assert main(["bench", "table", str(path)]) == 2
    assert "star.json is not valid JSON" in capsys.readouterr().err
    path.unlink()
    assert main(["bench", "table", str(path)]) == 2
    assert "No such file" in capsys.readouterr().err


def test_bytes():
    assert roofline.bytes_moved(64, "ours forward") == pytest.approx(64 * 4.8)
    assert roofline.bytes_moved(128, "ours forward") == pytest.approx(128 * 20.8)
    for hidden in (64, 128):
        assert roofline.bytes_moved(hidden, "ours training") > 5 * roofline.bytes_moved(hidden, "ours forward")
        assert roofline.intensity(hidden, "cuDNN forward") < roofline.intensity(hidden, "ours forward")
