from dataclasses import replace

import pytest
import torch

from pggnn import groups
from pggnn.cli import main
from pggnn.data.features.motifs import four_cliques, triangles
from pggnn.data.sets.classic import complete
from pggnn.data.sets.counting import erdos_renyi
from pggnn.lab import appendix, theorems
from pggnn.lab.construction import CountingConv, WalkingConv
from pggnn.lab.walks import EgoNet
from pggnn.ops.linear import arcs
from pggnn.plan import Plan
from pggnn.testing import renumbered

QUICK = {
    "Theorem 1": lambda: theorems.theorem_1(12),
    "Lemma 2": lambda: theorems.lemma_2(12, 8),
    "Corollary 3": lambda: theorems.corollary_3(8, 6),
    "Eq. 6": lambda: theorems.equation_6(4),
    "tr(A³)/2": lambda: theorems.trace(4),
    "Theorem 4": lambda: theorems.theorem_4(20, (complete(3),)),
    "Proposition 5": lambda: theorems.proposition_5(2, 1),
    "Linear cell": lambda: theorems.linear_group(12),
    "Appendix D": appendix.appendix_d,
    "GraphSAGE": lambda: appendix.graphsage(2, 1000),
}


def read_as(name, function):
    """Makes every layer read by another ``slot`` or ``order``."""

    def patch(monkeypatch):
        monkeypatch.setattr(groups, name, function)
        monkeypatch.setitem(groups.GROUPS, "pairs", replace(groups.GROUPS["pairs"], **{name: function}))

    return patch


def in_theorems(name, function):
    return lambda monkeypatch: monkeypatch.setattr(theorems, name, function)


SLOT, ORDER = groups.slot, groups.order


def biased(monkeypatch):
    """The estimator as written, which tends to 2τ + κ."""
    letter = theorems.estimate
    monkeypatch.setattr(theorems, "estimate", lambda *args, **kwargs: letter(*args, **{**kwargs, "rooted": False}))
    monkeypatch.setattr(theorems, "rnn_difference", lambda: 0.0)


def forgetful(monkeypatch):
    """An RNN that loses the node before the last."""
    whole = WalkingConv.__init__

    def init(self, nodes):
        whole(self, nodes)
        self.conv.rnn.weight_hh_l0.data[self.at["before"]] = 0

    monkeypatch.setattr(WalkingConv, "__init__", init)


def no_triangles(edge_index, nodes, directed=False):
    return torch.zeros(nodes, dtype=torch.long)


def not_around(left, right):
    return JOIN(left, right)._replace(around=0 * left.around)


def in_appendix(name, function):
    return lambda monkeypatch: monkeypatch.setattr(appendix, name, function)


def unlimited(plan, most):
    return plan


PAIR, READER = appendix.coloured_pair, appendix.reader
JOIN = arcs.join_arcs
FALSE = {
    "one arrangement": read_as("slot", lambda k, t, n: t + 0 * k),
    "a rotation": read_as("slot", lambda k, t, n: t + k - n * (t + k >= n)),
    "powers of the inverse": read_as("slot", lambda k, t, n: SLOT((ORDER(n) - k) * (k > 0), t, n)),
    "not closed": read_as("slot", lambda k, t, n: SLOT(k * (k < ORDER(n) - 1), t, n)),
    "begins with σ": read_as("slot", lambda k, t, n: SLOT(k + 1 - ORDER(n) * (k + 1 >= ORDER(n)), t, n)),
    "one less": read_as("order", lambda n: ORDER(n) - (n > 2) * 1),
    "one more": read_as("order", lambda n: n + (n < 1) * 1),
    "no triangles": in_theorems("triangles", no_triangles),
    "no directions": in_theorems("triangles", lambda edge_index, nodes, directed=False: triangles(edge_index, nodes)),
    "self-loops": in_theorems("adjacency_matrix", lambda graph: torch.ones((graph.num_nodes,) * 2, dtype=torch.bool)),
    "biased estimator": biased,
    "forgetful RNN": forgetful,
    "equal graphs": in_theorems("shrikhande", theorems.rook),
    "no GIN": in_theorems("gin_difference", lambda: 1e-3),
    "the same graph twice": in_appendix("coloured_pair", lambda: PAIR()[:1] * 2),
    "a sum": in_appendix("reader", lambda k, group="trivial": READER(1.0, group)),
    "one order of all": in_appendix("reader", lambda k, group="trivial": READER(k)),
    "no triangles there": in_appendix("triangles", no_triangles),
    "all neighbours": lambda monkeypatch: monkeypatch.setattr(Plan, "truncated", unlimited),
    "first neighbours": lambda monkeypatch: monkeypatch.setattr(Plan, "renumbered", lambda plan: plan),
    "arcs that do not come back": lambda monkeypatch: monkeypatch.setattr(arcs, "join_arcs", not_around),
}


@pytest.mark.parametrize("claim", theorems.CLAIMS)
def test_claims_hold(claim):
    check = (QUICK if claim == "Theorem 4" else theorems.CLAIMS)[claim]()
    assert check.holds
    assert claim != "Theorem 4" or "572,957 samples" in check.what


@pytest.mark.parametrize(
    ("claim", "made_false"),
    [
        *(("Theorem 1", name) for name in ("one arrangement", "a rotation", "not closed", "one less")),
        *(("Lemma 2", name) for name in [*FALSE][:7]),
        *(("Corollary 3", name) for name in [*FALSE][:6]),
        *(("Eq. 6", name) for name in ("no triangles", "no directions", "self-loops")),
        *(("tr(A³)/2", name) for name in ("no triangles", "no directions", "self-loops")),
        *(("Theorem 4", name) for name in ("biased estimator", "forgetful RNN", "begins with σ")),
        *(("Proposition 5", name) for name in ("one arrangement", "a rotation", "not closed", "one less")),
        *(("Proposition 5", name) for name in ("equal graphs", "no GIN")),
        *(("Appendix D", name) for name in ("the same graph twice", "a sum", "one order of all")),
        *(("GraphSAGE", name) for name in ("no triangles there", "all neighbours", "first neighbours")),
        *(("Linear cell", name) for name in ("one arrangement", "one less", "arcs that do not come back")),
    ],
)
def test_a_claim_made_false_does_not_hold(claim, made_false, monkeypatch):
    monkeypatch.setattr(EgoNet, "samples_needed", lambda *args: 3000)
    assert QUICK[claim]().holds
    FALSE[made_false](monkeypatch)
    assert not QUICK[claim]().holds


@pytest.mark.parametrize("made_false", ["one arrangement", "a rotation", "not closed", "one less"])
def test_a_layer_that_reads_no_group_sees_numberings_of_the_group(made_false, monkeypatch):
    """The half of Corollary 3 that runs the layer, on its own."""
    assert all(theorems._changes_by_renumbering(n)[0] < 1e-10 for n in (4, 5))
    FALSE[made_false](monkeypatch)
    assert all(theorems._changes_by_renumbering(n)[0] > 1e-3 for n in (4, 5))


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
