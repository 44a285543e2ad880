import json
import re
import shutil

import numpy as np
import pytest
from test_page import Page

from pggnn.cli import main
from pggnn.paper.expected import results
from pggnn.report.charts import Series, draw_costs, draw_curves
from pggnn.report.figures import BLUE
from pggnn.report.grid import arrange
from pggnn.report.orderings import compare_orderings
from pggnn.report.pack import pack
from pggnn.report.page import render
from pggnn.report.predictions import find
from pggnn.report.table import write_table
from pggnn.train.runs.stored import Run, find_runs

WEIGHTS = shutil.ignore_patterns("*.safetensors", "report.html")


@pytest.fixture(scope="module")
def whole(trained, tmp_path_factory):
    """Some cells of Table 2, with the figures of one run that was trained and the options that they would have."""
    tmp_path = tmp_path_factory.mktemp("table")
    find(Run.read(trained["er"]))
    for row, changes in {
        "pg-gnn-group": {},
        "pg-gnn-single": {"orderings: group": "orderings: single"},
        "my-own-four": {"orderings: group": "orderings: 4"},
        "gin": {"name: pggnn": "name: gin"},
    }.items():
        for column in ("er_triangles", "er_cliques"):
            config = shutil.copytree(trained["er"], tmp_path / "table2" / row / column, ignore=WEIGHTS) / "config.yaml"
            text = config.read_text()
            for old, new in (changes | ({"seed: 0": "task: cliques"} if column == "er_cliques" else {})).items():
                assert old in text
                text = text.replace(old, new)
            config.write_text(text)
    return tmp_path / "table2"


@pytest.fixture(scope="module")
def text(whole):
    """Its page."""
    assert main(["report", str(whole)]) == 0
    return (whole / "report.html").read_text()


@pytest.fixture
def table(whole, tmp_path):
    """A copy, to be changed."""
    return shutil.copytree(whole, tmp_path / "table2")


@pytest.fixture
def small_table(table):
    """Two rows of it."""
    for row in ("pg-gnn-single", "my-own-four"):
        shutil.rmtree(table / row)
    return table


def rows_of(text):
    """The cells of the main table, as text."""
    body = text[text.index('<table class="results">') : text.index("</table>")]
    return [
        [" ".join(re.sub(r"<[^>]*>|&nbsp;", " ", cell).split()) for cell in re.split("<t[hd][^>]*>", row)[1:]]
        for row in re.findall(r"<tr.*?</tr>", body, re.DOTALL)
    ]


def test_a_folder_of_runs_becomes_the_papers_table(whole, text):
    page = Page(text)
    assert "Counting triangles and 4-cliques at each node: mean absolute error" in page.text
    rows = rows_of(text)
    assert [row[0] for row in rows[1:5]] == ["PG-GNN (group)", "PG-GNN (single)", "GIN", "my-own-four"]
    mean = Run.read(whole / "gin" / "er_triangles").figures.mean
    ours = results("ER")[1]["GIN"].mean
    assert f"{mean:.3f}" in rows[3][1] and f"paper 0.219 ± 0.016 · {mean - ours:+.3f}" in rows[3][1]
    assert "paper" not in rows[3][2], "which the paper has for PG-GNN only"
    assert "paper 0.029 ± 0.002" in rows[1][2]


def test_packed_runs_have_the_same_page(whole, text, tmp_path):
    pack(whole, tmp_path / "table2", compute=False)
    assert main(["report", str(tmp_path / "table2"), "--no-predictions"]) == 0
    assert (tmp_path / "table2" / "report.html").read_text() == text


def test_what_was_not_run_is_shown_as_published(text):
    below = text[text.index("As the paper publishes them; not run here") : text.index("</table>")]
    assert all(f">{model}<" in below for model in ("GCN", "SAGE", "rGIN", "RP", "LRP"))
    assert ">GIN<" not in below and ">PG-GNN<" not in below and "0.599 ± 0.006" in below
    assert not re.search('class="(better|worse)"', below)


def test_departures_from_the_table_are_said(text):
    page = Page(text)
    assert "optim.epochs: 3, not 800" in page.text and "protocol.seeds: (0, 1), not (0, 2, 4, 6, 8)" in page.text


def test_departures_in_some_columns_name_them(small_table):
    config = small_table / "gin" / "er_cliques" / "config.yaml"
    config.write_text(config.read_text().replace("precision: '32'", "precision: bf16"))
    write_table(find_runs(small_table), small_table / "page.html", compute=False)
    said = Page((small_table / "page.html").read_text()).text
    assert "run.precision: bf16, not 32 (ER 4-cliques)" in said, said[said.index("Not the table") :][:900]


def test_notes_have_their_code(tmp_path):
    render("table.html", tmp_path / "page.html", notes=["as `pggnn train` <does>"], title="", columns=[], rows=[])
    assert "as <code>pggnn train</code> &lt;does&gt;" in (tmp_path / "page.html").read_text()


def test_is_the_whole_group_worth_it(table):
    grid = arrange([Run.read(folder) for folder in find_runs(table)])
    first, _ = compare_orderings(grid)
    assert [row["orderings"] for row in first["rows"]] == ["whole group", "4 of the group", "single ordering"]
    assert first["summary"] == "The whole group is as good as a single ordering, which is within their deviations; " \
        "an epoch takes as long." and not first["apart"]  # fmt: skip
    shutil.copytree(table / "pg-gnn-group" / "er_triangles", table / "pg-gnn-best" / "er_triangles")
    assert len(compare_orderings(arrange([Run.read(folder) for folder in find_runs(table)]))[0]["rows"]) == 3, (
        "the same once more"
    )
    shutil.rmtree(table / "pg-gnn-best")
    environment = table / "pg-gnn-group" / "er_triangles" / "environment.json"
    environment.write_text(json.dumps(json.loads(environment.read_text()) | {"gpu": "another one"}))
    first, _ = compare_orderings(arrange([Run.read(folder) for folder in find_runs(table)]))
    assert first["apart"] and not first["chart"] and {row["ratio"] for row in first["rows"]} == {"—"}
    assert first["summary"].endswith("within their deviations."), "times that cannot be compared are not"
    config = table / "pg-gnn-group" / "er_triangles" / "config.yaml"
    config.write_text(config.read_text().replace("hidden: 4", "hidden: 5"))
    assert len(compare_orderings(arrange([Run.read(folder) for folder in find_runs(table)]))[0]["rows"]) == 2, (
        "not alike any more"
    )


def test_no_difference_has_no_sign(small_table):
    for seed in ("seed0", "seed1"):
        result = small_table / "pg-gnn-group" / "er_triangles" / seed / "result.json"
        result.write_text(json.dumps(json.loads(result.read_text()) | {"test": 0.0189}))
    write_table(find_runs(small_table), small_table / "page.html", compute=False)
    assert rows_of((small_table / "page.html").read_text())[1][1].endswith("paper 0.019 ± 0.002 · 0.000")


def test_a_difference_within_the_deviations_is_neither_bold_nor_coloured(small_table):
    def shown(*tests):
        for seed, test in enumerate(tests):
            result = small_table / "pg-gnn-group" / "er_triangles" / f"seed{seed}" / "result.json"
            result.write_text(json.dumps(json.loads(result.read_text()) | {"test": test}))
        write_table(find_runs(small_table), small_table / "page.html", compute=False)
        text = (small_table / "page.html").read_text()
        return re.search(r"<td[^>]*>[^±]*", text[text.index('<table class="results">') :])[0]

    assert shown(0.010, 0.010) == '<td class="better"><b>0.010</b> '  # the paper's: 0.019 ± 0.002
    assert shown(0.010, 0.024) == "<td>0.017 "
    assert shown(0.018, 0.018) == "<td>0.018 "
    assert shown(0.030, 0.030) == '<td class="worse">0.030 '


def test_the_rule_that_chose_the_epoch_stands_beside_a_cross_validated_figure(trained, tmp_path):
    for row, kind in (("gin", "folds"), ("gin-nested", "nested")):
        folder = shutil.copytree(trained["folds"], tmp_path / "table3" / row / "proteins", ignore=WEIGHTS)
        config = folder / "config.yaml"
        config.write_text(
            re.sub(r"name: .*jsonl'?", "name: PROTEINS", config.read_text().replace("kind: folds", f"kind: {kind}"))
        )
    write_table(find_runs(tmp_path), tmp_path / "page.html", compute=False)
    rows = rows_of((tmp_path / "page.html").read_text())
    gin, nested = (row[1] for row in rows if row[0] in ("GIN", "GIN (nested)"))
    others = Run.read(tmp_path / "table3" / "gin" / "proteins").by_others.figure(100, 1)
    assert f"epoch: best on test folds by other folds {others} nested {nested.split(' epoch')[0]}" in gin
    assert "epoch: best on validation" in nested


def test_what_all_runs_have_in_common_is_said_once(table, text):
    details = text[text.index('<table class="runs cells">') :]
    assert "<th>over" not in details and "Over seeds 0, 1. Epoch:" in details
    config = table / "gin" / "er_cliques" / "config.yaml"
    config.write_text(re.sub(r"seeds:\n  - 0\n  - 1", "seeds:\n  - 0", config.read_text()))
    write_table(find_runs(table), table / "page.html", compute=False)
    details = (table / "page.html").read_text().split('<table class="runs cells">')[1]
    assert "<th>over" in details and "Over seeds" not in details and details.count("<td>seed 0<") == 1


def test_unfinished_cells_are_shown_as_such(table):
    (table / "gin" / "er_triangles" / "seed1" / "result.json").unlink()
    shutil.rmtree(table / "gin" / "er_cliques" / "seed0")
    shutil.rmtree(table / "gin" / "er_cliques" / "seed1")
    (table / "gin" / "er_cliques" / "summary.json").unlink()
    shutil.rmtree(table / "my-own-four" / "er_cliques")
    missing = write_table(find_runs(table), table / "page.html", compute=False)
    text = (table / "page.html").read_text()
    rows = rows_of(text)
    assert "so far" in rows[3][1] and "no figure yet" in rows[3][2] and "not run" in rows[4][2]
    assert "2 of 7 runs have not ended" in Page(text).text
    assert any("GIN, ER triangles: 1 of 2 trainings have not ended" in sentence for sentence in missing)


def test_runs_of_other_data_and_places(trained, tmp_path):
    for place in ("a", "b"):
        shutil.copytree(trained["folds"], tmp_path / place / "mine", ignore=shutil.ignore_patterns("*.safetensors"))
    write_table(find_runs(tmp_path), tmp_path / "page.html", compute=False)
    page = Page((tmp_path / "page.html").read_text())
    assert "mine, a" in page.text and "mine, b" in page.text and "a&b <script>.jsonl" in page.text
    guessed = next(row for row in rows_of((tmp_path / "page.html").read_text()) if row[0] == "one answer for all")
    assert guessed[1:] == [f"{100 * Run.read(tmp_path / 'a' / 'mine').baseline():.1f}"]
    assert "not run here" not in page.text and "the paper's figure" not in page.text


def test_charts_of_many_epochs_and_names():
    rng = np.random.default_rng(0)
    series = [Series(f"model {i}", BLUE, [rng.random(800), rng.random(790)]) for i in range(12)]
    assert len(draw_curves(series, "validation", every=4)) < 120_000
    assert "$a" in draw_costs([("$a", 0.1, 1.0, 0.0), ("b", 30.0, 1.2, 0.1)], "MAE")
