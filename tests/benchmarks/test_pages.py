"""What the page shows is what was measured."""

import json
from pathlib import Path

import pytest

from benchmarks import plots, record, roofline, tables
from benchmarks.__main__ import main

FOLDER = Path(__file__).parents[2] / "benchmarks"
FILES = sorted(FOLDER.glob("*.json"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_the_page_has_the_tables_and_pictures_of_the_file(file, tmp_path):
    text, (begin, end) = (FOLDER / "README.md").read_text(), tables.marks(file)
    missing = f"run: python -m benchmarks table benchmarks/{file.name} --into benchmarks/README.md"
    assert f"{begin}\n{tables.tables(file)}\n{end}" in text, missing
    for made in plots.draw(file, tmp_path):
        assert (FOLDER / made.name).exists(), missing


@pytest.fixture
def invented(tmp_path):
    """A file with every figure that has a goal, and sizes of a power law; half of the goals are missed."""
    figures: record.Record = {}
    for part, cases in record.GOALS.items():
        for case, goals in cases.items():
            for number, (what, goal) in enumerate(goals.items()):
                sign, value = goal.split()
                good = 2 if sign == "≥" else 0.5
                figures.setdefault(part, {}).setdefault(case, {})[what] = float(value) * good ** (-1) ** number
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
    assert main(["table", str(invented)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Measured in one run on a machine.")
    assert "| hidden 64, bf16 | **0.700** | ≤ 1.4 |" in out
    assert "| hidden 64, bf16 | 15.0 | ≤ 7.5 |" in out
    assert "| ZINC | 100 |" in out
    assert "| power law, 10^6 steps | 1,000,000 | 9 | 1.00 |" in out
    assert "| power law | exponent of forward from 10^6 steps on | 1.00 |\n" in out
    assert "](kernel-linear.svg)" in out and "](kernel-roofline.svg)" in out
    figures = [
        (record.goal(part, case, what), value)
        for part, cases in record.load(invented)[1].items()
        for case, values in cases.items()
        for what, value in values.items()
    ]
    assert out.count("**") / 2 == sum(bool(goal) and record.is_met(goal, value) for goal, value in figures)
    assert out.count("≤") + out.count("≥") == sum(bool(goal) for goal, _ in figures)


def test_tables_and_pictures_go_into_a_page(invented, tmp_path, capsys):
    page, (begin, end) = tmp_path / "page.md", tables.marks(invented)
    page.write_text(f"before\n{begin}old\n{end}after\n")
    for _ in range(2):
        assert main(["table", str(invented), "--into", str(page)]) == 0
    assert page.read_text() == f"before\n{begin}\n{tables.tables(invented)}\n{end}after\n"
    assert sorted(file.name for file in tmp_path.glob("*.svg")) == ["kernel-linear.svg", "kernel-roofline.svg"]
    points = plots.points(record.load(invented)[1]["linear"], "power law", "forward")
    assert points == [(1e4, 0.01), (1e5, 0.1), (1e6, 1.0)]
    page.write_text("no marks")
    assert main(["table", str(invented), "--into", str(page)]) == 2
    assert "must have the lines <!-- tables of kernel.json -->" in capsys.readouterr().err


def test_other_files_are_refused(tmp_path, capsys):
    path = tmp_path / "star.json"
    for content, message in (
        (json.dumps({"figures": {"unknown": {}}}), "was not written by python -m benchmarks"),
        ("", "star.json is not valid JSON"),
        (None, "No such file"),
    ):
        path.unlink() if content is None else path.write_text(content)
        assert main(["table", str(path)]) == 2
        error = capsys.readouterr().err
        assert message in error and len(error.splitlines()) == 1


def test_bytes():
    assert roofline.bytes_moved(64, "ours forward") == pytest.approx(64 * 4.8)
    assert roofline.bytes_moved(128, "ours forward") == pytest.approx(128 * 20.8)
    for hidden in (64, 128):
        assert roofline.bytes_moved(hidden, "ours training") > 5 * roofline.bytes_moved(hidden, "ours forward")
        assert roofline.intensity(hidden, "cuDNN forward") < roofline.intensity(hidden, "ours forward")
