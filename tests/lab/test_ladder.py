from itertools import pairwise

import networkx as nx
import pytest
from torch_geometric.utils import from_networkx

from pggnn.cli import main
from pggnn.data.sets.brec import BREC
from pggnn.data.sets.classic import coloured_pair, cycle, rook, shrikhande
from pggnn.lab.ladder import LADDER, climb
from pggnn.lab.named_graphs import read_graph
from pggnn.lab.wl import colour_refinement


def test_every_tenth_pair_of_brec(data_root):
    """All 400 pairs give 0, 106, 209, 246 and 298, as ``pggnn lab ladder`` prints in half a minute."""
    dataset = BREC(data_root)
    pairs = [(dataset[2 * p], dataset[2 * p + 1]) for p in range(0, 400, 10)]
    apart = [{p for p, (a, b) in enumerate(pairs) if climb(a, b, rung).apart} for rung in LADDER]
    assert [len(told) for told in apart] == [0, 9, 22, 26, 29]
    for lower, higher in pairwise(apart):
        assert lower <= higher, "a rung sees less than the one below it"


def test_small_pairs():
    for (a, b), first in (
        ((read_graph("cycle:3+cycle:3"), cycle(6)), "pairs"),
        (coloured_pair(), "pairs"),
        ((rook(), shrikhande()), "triples"),
    ):
        told = [rung for rung in LADDER if climb(a, b, rung).apart]
        assert told == [*LADDER][[*LADDER].index(first) :]


def test_numbering_does_not_matter_and_the_first_rung_is_1_wl(shuffled):
    for seed in range(6):
        graph, other = (from_networkx(nx.gnp_random_graph(14, 0.35, seed=s)) for s in (seed, seed + 100))
        for rung in LADDER:
            same = climb(graph, shuffled(graph, seed), rung)
            assert not same.apart, f"{rung} depends on the numbering"
        assert climb(graph, other, "neighbours").parted == colour_refinement(graph, other).parted
    assert climb(cycle(6), cycle(7), "rows").parted == 0


def test_an_unknown_rung_is_refused():
    with pytest.raises(ValueError, match="the rungs are neighbours, pairs, triples, ego net, rows; got 'sky'"):
        climb(cycle(6), cycle(6), "sky")


def test_the_command(capsys, data_root):
    assert main(["lab", "ladder", "rook", "shrikhande"]) == 0
    assert "pairs         never" in capsys.readouterr().out
    assert main(["lab", "ladder", "rook"]) == 2
    assert "give two graphs, or none for the pairs of BREC; got 1" in capsys.readouterr().err
