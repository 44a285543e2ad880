import pytest
import torch

from pggnn.cli import main
from pggnn.data.classic import complete
from pggnn.data.counting import erdos_renyi
from pggnn.data.counts import four_cliques, triangles
from pggnn.groups import CyclicGroup, Permutation
from pggnn.lab import theorems
from pggnn.lab.construction import CountingConv
from pggnn.lab.walks import EgoNet
from pggnn.testing import renumbered


def rotation(n):
    return Permutation(tuple((i + 1) % n for i in range(n)))


def test_theorem_1(monkeypatch):
    assert theorems.theorem_1().holds
    monkeypatch.setattr(theorems, "sigma", rotation)
    assert not theorems.theorem_1(8).holds, "a plain rotation covers no new pair"


def test_lemma_2(monkeypatch):
    assert theorems.lemma_2().holds
    monkeypatch.setattr(theorems, "group", lambda n: CyclicGroup(rotation(n)))
    assert not theorems.lemma_2(9).holds, "for odd n a plain rotation has order n"


def test_corollary_3():
    assert theorems.corollary_3().holds


def test_equation_6(monkeypatch):
    assert theorems.equation_6().holds
    monkeypatch.setattr(theorems, "triangles", lambda edge_index, nodes: torch.zeros(nodes, dtype=torch.long))
    assert not theorems.equation_6(4).holds


def test_trace(monkeypatch):
    assert theorems.trace().holds
    monkeypatch.setattr(theorems, "triangles", lambda edge_index, nodes: torch.zeros(nodes, dtype=torch.long))
    assert not theorems.trace(4).holds


def test_theorem_4(monkeypatch):
    check = theorems.theorem_4(walks=20, graphs=(complete(3),))
    assert check.holds
    assert "572,957 samples" in check.what
    letter = theorems.estimate
    monkeypatch.setattr(theorems, "estimate", lambda *args, **kwargs: letter(*args, **{**kwargs, "rooted": False}))
    monkeypatch.setattr(EgoNet, "samples_needed", lambda *args: 3000)
    assert not theorems.theorem_4(walks=20, graphs=(complete(3),)).holds, "the estimator as written tends to 2τ + κ"


def test_proposition_5(monkeypatch):
    assert theorems.gin_difference() < 1e-5
    assert theorems.proposition_5().holds
    monkeypatch.setattr(theorems, "shrikhande", theorems.rook)
    assert not theorems.proposition_5(1, 1).holds


@pytest.mark.parametrize("probability", [0.0, 0.3, 0.6, 1.0])
def test_constructed_weights_count_triangles_and_4_cliques(probability):
    layer = CountingConv(8)
    for seed, graph in enumerate(erdos_renyi(10, 8, probability)):
        graph.edge_index = renumbered(graph.edge_index, seed)
        counted = [count.tolist() for count in layer(graph)]
        assert counted == [count(graph.edge_index, 8).tolist() for count in (triangles, four_cliques)]


def test_the_command_passes_or_fails(capsys, monkeypatch):
    quick = {"Theorem 1": lambda: theorems.theorem_1(20), "Corollary 3": lambda: theorems.corollary_3(5)}
    monkeypatch.setattr(theorems, "CLAIMS", quick)
    assert main(["lab", "theorems"]) == 0
    assert capsys.readouterr().out.startswith("pass  Theorem 1        n = 4…20: ⌊(n−1)/2⌋ arrangements")
    wrong = theorems.Check(False, "nothing", "It is wrong.")
    monkeypatch.setattr(theorems, "CLAIMS", {**quick, "Theorem 0": lambda: wrong})
    assert main(["lab", "theorems"]) == 2
    printed = capsys.readouterr()
    assert "FAIL  Theorem 0*1" in printed.out and "*1 Theorem 0: It is wrong." in printed.out
    assert "does not hold: Theorem 0" in printed.err
