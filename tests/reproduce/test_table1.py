import pytest
import torch

from pggnn.cli import main
from pggnn.files import read_json
from pggnn.reproduce import table1
from pggnn.reproduce.table1 import MODES, Cost, exponent, markdown, measure, peak_bytes, regular


def test_memory_is_the_peak_and_not_the_sum():
    def run():
        first = torch.empty(2**18)
        del first
        return torch.empty(2**17)

    run()
    assert peak_bytes(run, torch.device("cpu")) == pytest.approx(2**20, rel=0.01)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    for name, value in {"REPEATS": 1, "FITTED": 6, "NODES": 40}.items():
        monkeypatch.setattr(table1, name, value)


@pytest.mark.parametrize(
    ("mode", "low", "high"),
    [pytest.param("PG-GNN (serial)", 0, 0.3, marks=pytest.mark.slow), ("PG-GNN (parallel)", 0.7, 1.3)],
)
def test_memory_grows_as_the_paper_says(mode, low, high):
    costs = [measure(mode, degree, torch.device("cpu")) for degree in (12, 36)]
    assert low <= exponent(costs, "bytes") <= high
    assert exponent(costs, "steps") == pytest.approx(MODES[mode].time_exponent, abs=0.25)
    assert costs[0].steps == {"PG-GNN (serial)": 12 * 14, "PG-GNN (parallel)": 14}[mode]


def test_graphs_are_regular():
    plan = regular(7)
    assert (plan.degree == 7).all() and (plan.neighbor != plan.center).all()


def test_exponents_are_slopes():
    costs = [Cost("GIN", degree, 3 * degree**1.5, 5.0, None, "") for degree in (2, 16, 40, 60)]
    assert exponent(costs, "seconds") == pytest.approx(1.5) and exponent(costs, "bytes") == pytest.approx(0)
    costs[0] = Cost("GIN", 2, 1e9, 5.0, None, "")
    assert exponent(costs, "seconds") == pytest.approx(1.5), "small degrees have no part"


def test_the_command(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(table1.reproduce_costs, "__defaults__", ((6, 8),))
    assert main(["reproduce", "table1", "--out", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("# Table 1") and "| PG-GNN (parallel) | Θ(NΔc) | 1 |" in shown
    found = [Cost(**cost) for cost in read_json(tmp_path / "table1.json", list)]
    assert [(cost.mode, cost.degree) for cost in found] == [(mode, degree) for mode in MODES for degree in (6, 8)]
    assert (tmp_path / "table1.md").read_text() == markdown(found)
