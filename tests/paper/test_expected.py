import os
import re
import statistics
from pathlib import Path

import pytest

from pggnn.data.catalogue import CATALOGUE
from pggnn.paper.expected import RESULTS, Figure, load, per_seed, results

TU = ["PROTEINS", "NCI1", "IMDBBINARY", "IMDBMULTI", "COLLAB"]
REAL = [*TU, "MNIST", "ZINC"]
LABELS = {
    "table2": ("tab:substruc", ["ER", "REGULAR"]),
    "table3": ("tab:tud", TU),
    "table4": ("tab:bench", ["MNIST", "MNIST", "ZINC", "ZINC"]),
    "table5": ("tab:RAM", REAL),
    "table6": ("tab:memory", REAL),
    "table7": ("tab:realstats", REAL),
}


@pytest.fixture(scope="module")
def paper():
    data = Path(os.environ.get("PGGNN_DATA") or Path(__file__).parents[3] / "shared" / "data")
    path = data.parent / "paper.tex"
    if not path.exists():
        pytest.skip(f"the paper's source is not at {path}, beside the folder of the data sets")
    return path.read_text()


def rows_of(paper, label):
    """Each row of a table: its name, and its cells without markup."""
    body = paper.partition(rf"\label{{{label}}}")[2].partition(r"\midrule")[2].partition(r"\end{tabular}")[0]
    for line in re.sub(r"\\(midrule|bottomrule)", "", body).split(r"\\"):
        plain = re.sub(r"\\cite\{\w+\}|\\textbf|\\textcolor\{gray\}|\(Ours\)|[{}$\s]", "", line)
        if plain:
            name, *cells = plain.split("&")
            yield name.replace("pre-proc.", "pre-processing"), cells


def written(cell):
    """A cell of ours as the numbers that the paper prints, in its order."""
    if cell is None:
        return []
    return [float("nan") if value is True else value for value in cell.values()]


@pytest.mark.parametrize("table", LABELS)
def test_every_number_is_the_papers(table, paper):
    label, columns = LABELS[table]
    ours = load()[table]
    rows = dict(rows_of(paper, label))
    assert [re.sub(r"\s", "", name) for name in ours] == list(rows), "other models, or in another order"
    for (model, found), cells in zip(ours.items(), rows.values(), strict=True):
        printed = {}
        for name, cell in zip(columns, cells, strict=True):
            numbers = [float(number.replace(",", "")) for number in re.findall(r"\d[\d,.]*", cell)]
            printed.setdefault(name, []).extend([float("nan")] if cell == "OOM" else numbers)
        for name, numbers in printed.items():
            assert written(found.get(name)) == pytest.approx(numbers, nan_ok=True), (model, name)


def test_cliques_are_those_of_the_text(paper):
    found = re.search(r"are ([\d.]+) \$\\pm\$ ([\d.]+) and ([\d.]+) \$\\pm\$ ([\d.]+) for incidence 4-clique", paper)
    cells = load()["cliques"]["PG-GNN"]
    assert [*cells["ER"].values(), *cells["REGULAR"].values()] == [float(number) for number in found.groups()]


def test_names_are_those_of_the_catalogue():
    tables = load()
    for table in LABELS:
        for cells in tables[table].values():
            assert cells.keys() <= CATALOGUE.keys()


@pytest.mark.parametrize("table", ["table2", "cliques", "table4"])
def test_seeds_give_the_published_mean_and_deviation(table):
    for name, cell in load()[table]["PG-GNN"].items():
        values = per_seed(table, name)["values"]
        scale = 0.1 if name == "MNIST" else 0.001
        assert statistics.fmean(values) == pytest.approx(cell["mean"], abs=scale)
        assert statistics.pstdev(values) == pytest.approx(cell["std"], abs=scale)


@pytest.mark.parametrize("name", TU)
def test_cross_validation_publishes_seed_7(name):
    found = per_seed("table3", name)
    assert found["values"][found["seeds"].index(7)] == load()["table3"]["PG-GNN"][name]["mean"]


def test_results_on_a_data_set():
    assert results("ER")[1]["PG-GNN"] == Figure(0.019, 0.002)
    assert results("REGULAR", "cliques") == ("cliques", {"PG-GNN": Figure(0.023, 0.001)})
    assert results("IMDBBINARY")[1]["GIN"] == Figure(75.1, 5.1)
    assert results("ZINC")[0] == "table4" and results("ZINC")[1]["PG-GNN"] == Figure(0.282, 0.011, 6.92)
    assert "CLIP" not in results("NCI1")[1] and results("MUTAG") == ("", {})


def test_results_of_a_data_set():
    assert results("ER")[0] == "table2" and "LRP" in results("ER")[1]
    assert results("ER", "cliques") == ("cliques", {"PG-GNN": Figure(0.029, 0.002)})
    assert results("MUTAG") == ("", {})
    assert {results(name)[0] for name in REAL} == {"table3", "table4"} <= RESULTS.keys()
