import numpy as np
import pytest

from pggnn.cli import main
from pggnn.data.sets.classic import rook, shrikhande
from pggnn.reproduce import FIGURES, SUMMARIES, TRAINED
from pggnn.reproduce.figures import figure7, figure9


@pytest.mark.parametrize("name", [name for name in FIGURES if name != "figure9"])
def test_figures_are_drawn(name, tmp_path, capsys, caplog):
    assert main(["reproduce", name, "--out", str(tmp_path / "new")]) == 0
    path = tmp_path / "new" / f"{name}.svg"
    assert capsys.readouterr().out.strip() == str(path)
    assert path.stat().st_size > 20_000
    assert not caplog.records, "a glyph is missing"


def test_figures_are_the_same_each_time(tmp_path):
    assert figure7.draw(tmp_path / "a.svg").read_bytes() == figure7.draw(tmp_path / "b.svg").read_bytes()


def test_figure_9_simulates(tmp_path):
    path = figure9.draw(tmp_path / "figure9.png", largest=40)
    assert path.stat().st_size > 20_000


def test_figure_7_lists_the_cliques():
    found = []
    for graph in (rook(), shrikhande()):
        adjacency = np.zeros((16, 16), bool)
        adjacency[tuple(graph.edge_index.numpy())] = True
        found.append(figure7.list_cliques(adjacency))
    assert len(found[0]) == 8 and (0, 1, 2, 3) in found[0] and (0, 4, 8, 12) in found[0]
    assert found[1] == []


def test_every_figure_has_a_summary_and_bad_input_is_refused(capsys):
    assert {*FIGURES, *TRAINED, "search", "table5", "table6", "table7"} == SUMMARIES.keys()
    with pytest.raises(SystemExit, match="2"):
        main(["reproduce", "figure1"])
    with pytest.raises(SystemExit, match="2"):
        main(["reproduce", "figure2", "--format", "txt"])
