import json
from collections import Counter
from itertools import combinations, pairwise

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.utils import from_networkx, to_networkx

from pggnn.cli import main
from pggnn.data.sets.brec import BREC
from pggnn.data.sets.classic import adjacency_matrix, coloured_pair, cycle, rook, shrikhande
from pggnn.lab.families import canonical, covers
from pggnn.lab.named_graphs import SRG, isomorphic, read_graph, read_graphs
from pggnn.lab.refinement.ladder import LADDER, climb, see_cycles
from pggnn.lab.refinement.wl import colour_refinement, k_fwl

COUNTS = {
    "neighbours": 0, "pairs": 4, "triples": 11, "ego net": 13, "rows": 15,
    "rings to 4": 10, "rings to 5": 13, "rings to 6": 14, "cycles to 4": 12, "cycles to 5": 14,
}  # fmt: skip
"""Of every twentieth pair of BREC, from the tenth on. All 400 give 0, 106, 209, 246 and 298; 210, 242, 259 and 264
(to 8); 243, 276 and 293 (to 6), as ``pggnn lab ladder`` prints in many minutes."""
ORDERED = (("neighbours", "pairs", "triples", "ego net", "rows"), ("neighbours", *(f"rings to {n}" for n in (4, 5, 6))))
ORDERED += (("neighbours", "cycles to 4", "cycles to 5"),)


def test_every_twentieth_pair_of_brec(data_root):
    dataset = BREC(data_root)
    pairs = [(dataset[2 * p], dataset[2 * p + 1]) for p in range(10, 400, 20)]
    apart = {rung: {p for p, (a, b) in enumerate(pairs) if climb(a, b, rung).apart} for rung in COUNTS}
    assert {rung: len(told) for rung, told in apart.items()} == COUNTS
    for rungs in ORDERED:
        for lower, higher in pairwise(rungs):
            assert apart[lower] <= apart[higher], f"{higher} sees less than {lower}"
    for most in (4, 5):
        assert apart[f"rings to {most}"] <= apart[f"cycles to {most}"]


def test_small_pairs():
    for (a, b), blind in (
        ((read_graph("cycle:3+cycle:3"), cycle(6)), {"neighbours"}),
        (coloured_pair(), {"neighbours"}),
        ((rook(), shrikhande()), {"neighbours", "pairs"}),
    ):
        assert {rung for rung in LADDER if not climb(a, b, rung).apart} == blind


@pytest.mark.parametrize("chords", [False, True])
def test_cycles_are_those_that_are_listed_one_by_one(chords):
    """Nodes see the same where, and only where, NetworkX lists the same coloured cycles at them."""
    joined = nx.disjoint_union_all([nx.gnp_random_graph(7, 0.5, seed=s) for s in range(4)] + [nx.petersen_graph()])
    adjacency, colours = nx.to_numpy_array(joined, range(len(joined)), dtype=bool), np.arange(len(joined)) % 2
    expected = [Counter() for _ in joined]
    for nodes in nx.simple_cycles(joined, 6) if chords else nx.chordless_cycles(joined, 6):
        for start in range(len(nodes)):
            for way in (1, -1):
                read = [nodes[(start + way * place) % len(nodes)] for place in range(len(nodes))]
                bits = tuple(adjacency[np.ix_(read, read)].ravel())
                expected[read[0]][(*colours[read].tolist(), bits)] += 1
    near = [(frozenset(Counter(colours[row].tolist()).items())) for row in adjacency]
    known = [(around, frozenset(counter.items())) for around, counter in zip(near, expected, strict=True)]
    seen = see_cycles(adjacency, 6, chords)(colours)
    assert len(set(known)) > 10
    assert len(set(known)) == len(set(seen.tolist())) == len({*zip(known, seen.tolist(), strict=True)})


def test_what_rings_cannot_see():
    """Without short cycles there is nothing to read; a ring of 7 shows where it may."""
    a, b = cycle(14), read_graph("cycle:7+cycle:7")
    assert [rung for rung in LADDER if climb(a, b, rung).apart] == ["rings to 8", "rings to 10"]


def test_numbering_does_not_matter_and_the_first_rung_is_1_wl(shuffled):
    for seed in range(6):
        graph, other = (from_networkx(nx.gnp_random_graph(14, 0.35, seed=s)) for s in (seed, seed + 100))
        for rung in LADDER:
            same = climb(graph, shuffled(graph, seed), rung)
            assert not same.apart, f"{rung} depends on the numbering"
        assert climb(graph, other, "neighbours").parted == colour_refinement(graph, other).parted
    assert climb(cycle(6), cycle(7), "rows").parted == 0


def test_an_unknown_rung_is_refused():
    with pytest.raises(ValueError, match=r"the rungs are neighbours, pairs, .*cycles to 6; got 'sky'"):
        climb(cycle(6), cycle(6), "sky")


def test_the_command(capsys, data_root):
    assert main(["lab", "ladder", "rook", "shrikhande"]) == 0
    assert "pairs         never" in capsys.readouterr().out
    assert main(["lab", "ladder", "rook"]) == 2
    assert "give two graphs or more, or none for the pairs of BREC; got 1" in capsys.readouterr().err
    assert main(["lab", "ladder", "--quick", "--rungs", "pairs", "--data-root", str(data_root)]) == 0
    assert [line.split()[-1] for line in capsys.readouterr().out.splitlines()] == ["all", "40", "9", "27"]
    assert main(["lab", "ladder", "--rungs", "sky"]) == 2
    assert "the rungs are neighbours" in capsys.readouterr().err


@pytest.mark.parametrize("suffix", ["g6", "jsonl"])
def test_all_pairs_of_a_file(suffix, tmp_path, capsys):
    file, graphs = tmp_path / f"own.{suffix}", [cycle(6), read_graph("cycle:3+cycle:3"), cycle(6)]
    lines = [nx.to_graph6_bytes(to_networkx(g, to_undirected=True), header=False).decode() for g in graphs]
    if suffix == "jsonl":
        lines = [
            json.dumps({"edges": g.edge_index.t().tolist(), "directed": True, "num_nodes": 6}) + "\n" for g in graphs
        ]
    file.write_text("".join(lines))
    assert main(["lab", "ladder", str(file), "csl:6,1", "--rungs", "neighbours", "rings to 4"]) == 0
    rows = [line.split(maxsplit=6) for line in capsys.readouterr().out.splitlines()]
    assert rows[1] == ["neighbours", "0", "6", "#0", "=", "#1", "= #2 = csl:6,1"]
    assert " ".join(rows[2]) == "rings to 4 3 6 #0 = #2 = csl:6,1"
    assert " ".join(rows[3]) == "isomorphism 3 6 #0 = #2 = csl:6,1"


@pytest.mark.parametrize("parameters", SRG)
def test_strongly_regular_graphs(parameters):
    v, k, both, neither = map(int, parameters.split(","))
    named = read_graphs(f"srg:{parameters}")
    for name, graph in named:
        adjacency = adjacency_matrix(graph).long()
        expected = k * torch.eye(v) + both * adjacency + neither * (1 - adjacency - torch.eye(v))
        assert torch.equal((adjacency @ adjacency).float(), expected), name
    for (_, a), (_, b) in combinations(named[:3], 2):
        assert not isomorphic(a, b) and not k_fwl(a, b, 2).apart
        assert climb(a, b, "cycles to 4").apart
    for text in ("srg:9,9", "chang:4", "latin:6,1"):
        with pytest.raises(ValueError, match=r"srg:16,6,2,2|numbered 1 to 3|number 0 or"):
            read_graphs(text)


def test_families_are_whole(tmp_path):
    """As many strongly regular graphs as there are, no two of them isomorphic, and what # chooses of them."""
    for text, count in (("srg:25,12,5,6", 15), ("srg:26,10,3,4", 10), ("srg:36,14,4,6", 4)):
        named = read_graphs(text)
        assert len({canonical(adjacency_matrix(graph).numpy()) for _, graph in named}) == len(named) == count
        assert [name for name, _ in read_graphs(f"{text}#1-2")] == [f"{text}#1", f"{text}#2"]
        assert isomorphic(named[3][1], read_graphs(f"{text}#3")[0][1])
    shrikhande = adjacency_matrix(read_graph("shrikhande")).numpy()
    renumbered = torch.randperm(16, generator=torch.Generator().manual_seed(0))
    assert canonical(shrikhande) == canonical(shrikhande[renumbered][:, renumbered])
    for text in ("srg:16,6,2,2#2", "srg:16,6,2,2#1-0", "srg:16,6,2,2#x", "covers:3", "covers:9,3", "covers:1,2"):
        with pytest.raises(
            ValueError, match=r"has 2 graphs, counted|from 0, or a range|for example covers|ask for|3 to"
        ):
            read_graphs(text)


def test_covers_are_alike_to_1_wl_alone():
    named = read_graphs("covers:4,9,1")
    assert [graph.num_nodes for _, graph in named] == [18] * 4
    told = [k_fwl(a, b, 2).apart for (_, a), (_, b) in combinations(named, 2)]
    assert any(told)
    for (_, a), (_, b) in combinations(named, 2):
        assert not isomorphic(a, b) and not climb(a, b, "neighbours").apart
    assert all(torch.equal(a.edge_index, b.edge_index) for a, (_, b) in zip(covers(4, 9, 1), named, strict=True))
