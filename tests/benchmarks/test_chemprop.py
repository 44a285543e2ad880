"""Molecules beside Chemprop: the files that all programs read, the control, and the table of the page."""

import json
from pathlib import Path

import pytest

from benchmarks import gine, molecules

ROOT = Path(__file__).parents[2]


def test_the_page_has_the_table_of_the_file():
    lines = [json.loads(line) for line in (ROOT / "benchmarks" / "molecules.jsonl").read_text().splitlines()]
    assert molecules.table(lines) in (ROOT / "docs" / "molecules.md").read_text()
    assert len({(one["set"], one["seed"], one["program"]) for one in lines}) == len(lines)


@pytest.mark.parametrize(("name", "cell"), [("freesolv", "1.5"), ("bbbp", "1")])
def test_the_control_learns_from_the_files(tmp_path, name, cell):
    pytest.importorskip("rdkit")
    metric, (target,) = molecules.SETS[name]
    rows = [f"{'C' * (1 + i % 9)}{'O' * (i % 2)},{cell if i % 2 else '0'}" for i in range(60)]
    source = tmp_path / "some.csv"
    source.write_text("\n".join([f"SMILES,{target}", *rows, f"CCO,{cell if metric == 'AUROC' else ''}", "C(,1"]))
    files = molecules.write_files(source, [target], 3, tmp_path / "made")
    assert [path.read_text() for path in molecules.write_files(source, [target], 3, tmp_path / "again")] == [
        path.read_text() for path in files
    ]
    all_rows, test_rows = (path.read_text().splitlines()[1:] for path in files)
    assert len(all_rows) == 61 and [row for row in all_rows if row.endswith("test")] == test_rows
    model, unit = gine.train(str(files[0]), [target], 0, epochs=40)
    answers = gine.answer(model, unit, str(files[1]))
    found = molecules.measure(metric, {target: answers[:, 0].tolist()}, files[1])
    assert found < 0.5 if metric == "RMSE" else found > 0.9  # 0.75 and 0.5 are those of one answer for all
