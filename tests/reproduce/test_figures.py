import re
from pathlib import Path

import numpy as np
import pytest

from pggnn.cli import main
from pggnn.data.sets.classic import coloured_pair, rook, shrikhande
from pggnn.groups import sigma
from pggnn.reproduce import FIGURES, SUMMARIES, TRAINED, gallery
from pggnn.reproduce.figures import figure1, figure3, figure4, figure6, figure7, figure9


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


def test_figure_1_shows_the_pairs_that_are_read():
    found = [{frozenset(pair) for _, some in reads for pair in some} for reads in figure1.panels().values()]
    assert [len(pairs) for pairs in found][::3] == [0, 21], "a sum reads none, the group all of 7 · 6 / 2"
    assert len(found[1]) <= 2 * 4 and len(found[2]) <= 2 * 6


def test_figure_3_writes_what_is_read():
    assert (figure3.weights("bgb"), figure3.weights("bbg")) == ("(k² + 1)b + kg", "(k² + k)b + g")
    for graph, (node, order) in zip(coloured_pair(), figure3.ORDERS, strict=True):
        source, target = graph.edge_index
        assert sorted(source[target == node].tolist()) == [*order]


def test_figure_4_turns_into_the_permutations():
    """A turn by one place takes each number to the next one's place: σ′ fixes 1, σ is the library's."""
    (odd, _), (even, _), (revised, _) = figure4.initial()
    assert odd == [2, 4, 6, 8, 9, 7, 5, 3] and even == [2, 4, 6, 8, 10, 9, 7, 5, 3]
    for order, n in ((odd, 9), (revised, 10)):
        turned = dict(zip(order, [*order[1:], order[0]], strict=True))
        images = [turned.get(i, i) for i in range(1, n + 1)]
        assert images == [i + 1 for i in sigma(n).images]


def test_figure_6_counts():
    assert [figure6.triangles(joined) for joined in ((), figure6.JOINED)] == [6, 9]


def test_the_gallery_shows_all(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(gallery, "FIGURES", ("figure3", "figure4"))
    assert main(["reproduce", "gallery", "--out", str(tmp_path)]) == 0
    page = (tmp_path / "gallery.md").read_text()
    pictures = re.findall(r"!\[.+\]\((.+)\)", page)
    assert pictures == ["gallery/figure3.svg", "gallery/figure4.svg"]
    assert all((tmp_path / picture).exists() for picture in pictures)


def test_the_gallery_of_the_docs_is_the_commands():
    docs = Path(__file__).parents[2] / "docs"
    assert (docs / "gallery.md").read_text() == gallery.page("svg")
    assert all((docs / "gallery" / f"{name}.svg").exists() for name in FIGURES)


def test_every_figure_has_a_summary_and_bad_input_is_refused(capsys):
    assert {*FIGURES, *TRAINED, "gallery", "search", "table1", "table5", "table6", "table7"} == SUMMARIES.keys()
    with pytest.raises(SystemExit, match="2"):
        main(["reproduce", "figure10"])
    with pytest.raises(SystemExit, match="2"):
        main(["reproduce", "figure2", "--format", "txt"])
