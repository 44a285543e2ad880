"""What docs/lab.md shows must be what is printed."""

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from pggnn.cli import main
from pggnn.lab.brec import summarise
from pggnn.lab.paired_comparison import PairResult
from pggnn.lab.transfer import CASES, TESTED

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "lab.md").read_text()
SHOWN = dict(re.findall(r"```\n\$ pggnn (.*?)\n(.*?)```", TEXT, re.DOTALL))
LADDER = "lab ladder --rungs neighbours pairs triples 'ego net' rows"
SLOW = (LADDER, "lab theorems", "lab transfer", "lab transfer --clustered", "lab sensitivity")


@pytest.mark.parametrize("command", [command for command in SHOWN if command not in SLOW])
def test_commands_print_what_is_shown(command, capsys):
    assert main(shlex.split(command)) == 0
    assert capsys.readouterr().out == SHOWN[command]


def test_figures_of_cycles_are_those_of_the_runs():
    section = TEXT.split("\n## Does it count cycles?\n")[1].split("\n## ")[0]
    heading, _, *rows = (line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("|"))
    found = {(cell["model"], cell["data"]): cell for cell in json.loads((ROOT / "results" / "cycles.json").read_text())}
    names = ["PG-GNN (sum, rings)", *heading[2:]]
    for name, *shown in rows:
        cells = [found[model, re.search("`(.*)`", name)[1]] for model in names]
        assert all(cell["seeds"] == [0, 1, 2] for cell in cells)
        assert shown == [f"{cell['mean']:.3f} ± {cell['std']:.3f}" for cell in cells]
    assert {cell["parameters"] for cell in found.values()} == {675, 739, 355, 457, 67}
    assert len(rows) * len(names) == len(found)


def test_the_code_runs(capsys):
    names: dict = {}
    for code in re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL):
        exec(code, names)
    assert capsys.readouterr().out == "3-WL: never, stable after 0, 15 colours\n1\n[6.0] [2.0]\n"


def test_slow_commands_are_shown_and_pictures_exist():
    assert set(SLOW) < set(SHOWN)
    assert SHOWN["lab theorems"].count("pass  ") == 10
    shown = [line.replace("adjacency rows", "rows").split()[:4] for line in SHOWN["lab transfer"].splitlines()[1:-3]]
    assert shown[::6] == [
        [task, features.split()[-1], str(bits), str(numberings)]
        for task, features, bits in CASES["sparse"]
        for numberings in TESTED[bits]
    ]
    for path in re.findall(r"\]\((?!https?:)([^)]+)\)", TEXT):
        assert (ROOT / "docs" / path.partition("#")[0]).exists(), path


@pytest.mark.parametrize(("folder", "column"), [("structure0", 2), ("structure1", 3), ("trios", 4)])
def test_brec_figures_are_those_of_the_outcomes(folder, column):
    lines = (ROOT / "results" / "brec" / folder / "pairs.jsonl").read_text().splitlines()
    outcomes = sorted((PairResult(**json.loads(line)) for line in lines), key=lambda outcome: outcome.pair)
    assert [outcome.pair for outcome in outcomes] == list(range(400)) and all(one.reliable for one in outcomes)
    rows = [row.split(" | ") for row in re.findall(r"^\| (.+) \|$", TEXT, re.MULTILINE)]
    shown = {cells[0]: cells[column].strip("*") for cells in rows if len(cells) == 7}
    for family, apart, *_ in summarise(outcomes)[1:]:
        assert shown[family] == apart


@pytest.mark.parametrize(("folder", "column"), [("rings6", 3), ("gin", 5)])
def test_figures_of_rings_and_gin_are_those_of_the_outcomes(folder, column):
    lines = (ROOT / "results" / "brec" / folder / "pairs.jsonl").read_text().splitlines()
    outcomes = [PairResult(**json.loads(line)) for line in lines]
    assert sorted(one.pair for one in outcomes) == list(range(400))
    if folder == "rings6":
        far = [one.distance for one in outcomes if one.apart]
        assert min(far) > 2e8 and all(one.reliability < 2e-3 for one in outcomes)
        assert all(one.distance < 2e-3 for one in outcomes if not one.apart)
    rows = [row.split(" | ") for row in re.findall(r"^\| (.+) \|$", TEXT, re.MULTILINE)]
    shown = {cells[0]: [cells[2], cells[column].strip("*")] for cells in rows if len(cells) == 6}
    for family, apart, compared, unreliable, _ in summarise(outcomes)[1:]:
        assert shown[family] == [compared, apart] and unreliable == "0"


def test_figures_of_ppgn_are_those_of_the_outcomes():
    lines = (ROOT / "results" / "brec" / "ppgn" / "pairs.jsonl").read_text().splitlines()
    outcomes = [PairResult(**json.loads(line)) for line in lines]
    assert len({one.pair for one in outcomes}) == len(outcomes)
    text = (ROOT / "docs" / "rivals.md").read_text()
    rows = [row.split(" | ") for row in re.findall(r"^\| (.+) \|$", text, re.MULTILINE)]
    shown = {cells[0]: [cell.strip("*") for cell in cells[2:]] for cells in rows if len(cells) == 5}
    for family, apart, compared, unreliable, _ in summarise(outcomes)[1:]:
        assert shown[family] == [compared, apart, unreliable]


@pytest.mark.parametrize(
    ("folder", "column", "apart"),
    [("structure0", "no bits", 0), ("structure1", "one bit", 118), ("trios", "trios", 209)],
)
def test_brec_commands_print_the_outcomes_without_training(folder, column, apart, data_root, tmp_path, capsys):
    """Options may have come since these protocols were written."""
    made = tmp_path / folder
    shutil.copytree(ROOT / "results" / "brec" / folder, made)
    before = {file.name: file.read_bytes() for file in made.iterdir()}
    command = re.findall(rf"^\| {column}.* \| `pggnn (lab brec .*)` \|$", TEXT, re.MULTILINE)[0].split()
    assert main([*command, "--data-root", str(data_root), "--out", str(made)]) == 0
    printed = capsys.readouterr().out
    assert "pair" not in printed.partition("\n\n")[0]
    assert [line.split()[:4] for line in printed.splitlines()][-3] == ["all", str(apart), "400", "0"]
    assert {name: (made / name).read_bytes() for name in before} == before
    assert main([*command, "--data-root", str(data_root), "--out", str(made), "--hidden", "8"]) == 2
    assert "is of another run" in capsys.readouterr().err
