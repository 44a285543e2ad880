from itertools import pairwise, product

import networkx as nx
import pytest
import torch
from torch_geometric.utils import from_networkx, to_dense_adj

from pggnn.cli import main
from pggnn.data.sets.brec import BREC
from pggnn.data.sets.classic import CSL_NODES, CSL_SKIPS, cfi, coloured_pair, complete, csl, cycle, rook, shrikhande
from pggnn.lab.named_graphs import isomorphic, read_graph
from pggnn.lab.refinement import wl
from pggnn.lab.refinement.colours import Verdict
from pggnn.lab.refinement.wl import colour_refinement, k_fwl, k_wl

TWO_TRIANGLES = read_graph("cycle:3+cycle:3")


def by_definition(a, b, k, folklore):
    """The same tests in loops, with tuples and sorted lists for colours."""
    adjacencies = [to_dense_adj(g.edge_index, max_num_nodes=g.num_nodes)[0].int().tolist() for g in (a, b)]
    nodes = range(a.num_nodes)
    colours = [
        {s: tuple((i == j, m[i][j]) for i in s for j in s) for s in product(nodes, repeat=k)} for m in adjacencies
    ]
    known = 0
    for iteration in range(100):
        names = {c: i for i, c in enumerate(sorted({c for table in colours for c in table.values()}))}
        colours = [{s: names[c] for s, c in table.items()} for table in colours]
        if sorted(colours[0].values()) != sorted(colours[1].values()):
            return iteration
        if len(names) == known:
            return None
        known = len(names)
        finer = []
        for table in colours:
            around = {s: [[table[(*s[:j], u, *s[j + 1 :])] for j in range(k)] for u in nodes] for s in table}
            if folklore:
                seen = {s: tuple(sorted(map(tuple, rows))) for s, rows in around.items()}
            else:
                seen = {
                    s: tuple(tuple(sorted(place)) for place in zip(*rows, strict=True)) for s, rows in around.items()
                }
            finer.append({s: (table[s], seen[s]) for s in table})
        colours = finer
    raise AssertionError("it should have been stable long ago")


@pytest.mark.parametrize(("k", "folklore"), [(2, False), (3, False), (2, True)])
def test_tests_are_those_of_the_definition(k, folklore, shuffled):
    pairs = [(from_networkx(nx.gnm_random_graph(6, 7, seed=i)), from_networkx(nx.gnm_random_graph(6, 7, seed=i + 50)))
             for i in range(12)]  # fmt: skip
    pairs += [(TWO_TRIANGLES, cycle(6)), (cycle(7), csl(7, 1)), (csl(8, 2), csl(8, 3))]
    pairs += [(graph, shuffled(graph)) for graph, _ in pairs[:3]]
    expected = [by_definition(a, b, k, folklore) for a, b in pairs]
    assert [(k_fwl if folklore else k_wl)(a, b, k).parted for a, b in pairs] == expected
    assert None in expected and len(set(expected)) > 1


def test_two_triangles_and_a_hexagon():
    assert colour_refinement(TWO_TRIANGLES, cycle(6)) == Verdict("1-WL", None, 0, 1)
    assert not k_wl(TWO_TRIANGLES, cycle(6), 2).apart
    assert k_wl(TWO_TRIANGLES, cycle(6), 3).apart
    assert k_fwl(TWO_TRIANGLES, cycle(6), 2).apart


def test_the_pair_of_figure_3():
    squares, triangles = coloured_pair()
    assert not k_wl(squares, triangles, 1).apart
    assert not k_wl(squares, triangles, 2).apart
    assert k_wl(squares, triangles, 3).apart
    other = triangles.clone()
    other.x = triangles.x.flip(0).roll(1, 0)
    assert k_wl(triangles, other, 1).apart, "features are part of the atomic type"


def test_circular_skip_links():
    graphs = [csl(CSL_NODES, skip) for skip in CSL_SKIPS]
    for a, b in pairwise(graphs):
        assert not k_wl(a, b, 1).apart
        assert not k_wl(a, b, 2).apart
        assert k_fwl(a, b, 2).apart


def test_rook_and_shrikhande(shuffled):
    assert not k_wl(rook(), shrikhande(), 3).apart
    assert not k_fwl(rook(), shrikhande(), 2).apart
    assert k_fwl(rook(), shrikhande(), 3).parted == 1
    assert not k_fwl(rook(), shuffled(rook()), 3).apart


def test_cfi_graphs_part_one_step_later():
    pair = cfi(complete(4)), cfi(complete(4), twisted=True)
    assert [k_fwl(*pair, k).apart for k in (1, 2)] == [False, False]
    assert [k_fwl(cfi(complete(3)), cfi(complete(3), True), k).apart for k in (1, 2)] == [False, True]


@pytest.mark.slow
def test_2_fwl_tells_270_pairs_of_brec_apart(data_root):
    dataset = BREC(data_root)
    pairs = [(dataset[2 * p], dataset[2 * p + 1]) for p in range(len(dataset) // 2)]
    apart = [k_fwl(a, b, 2).apart for a, b in pairs]
    assert sum(apart) == 270
    for (a, b), told in [*zip(pairs, apart, strict=True)][::10]:
        assert not colour_refinement(a, b).apart
        assert a.num_nodes > 60 or k_wl(a, b, 3).apart == told, "3-WL and 2-FWL see the same"


def test_numbering_does_not_matter_and_size_does(shuffled):
    graph = from_networkx(nx.gnp_random_graph(20, 0.3, seed=1))
    for test in wl.TESTS.values():
        assert not test(graph, shuffled(graph)).apart
        assert test(graph, cycle(6)).parted == 0
        assert test(graph, graph).iterations == test(graph, shuffled(graph)).iterations


def test_larger_graphs_are_refused_and_features_must_fit(monkeypatch):
    monkeypatch.setattr(wl, "MOST_TUPLES", 900)
    with pytest.raises(ValueError, match="3-WL takes graphs of up to 9 nodes, got 16"):
        k_wl(rook(), shrikhande(), 3)
    squares, triangles = coloured_pair()
    with pytest.raises(ValueError, match="one graph has node features and the other has none"):
        k_wl(squares, cycle(6), 2)
    triangles.x = torch.ones(6, 3)
    with pytest.raises(ValueError, match=r"of one shape, got \[6, 2\] and \[6, 3\]"):
        k_wl(squares, triangles, 2)


def test_graphs_are_read_from_names_files_and_graph6(tmp_path, data_root, monkeypatch):
    monkeypatch.setenv("PGGNN_DATA", str(data_root))
    (tmp_path / "two.g6").write_text("C~\nEhEG\n")
    (tmp_path / "one.jsonl").write_text('{"num_nodes": 3, "edges": [[0, 1]]}\n')
    assert read_graph("csl:41,3").num_edges == 4 * 41
    assert read_graph("cycle:3+cycle:3").num_nodes == 6
    assert read_graph("EhEG").num_edges == 12
    assert read_graph(f"{tmp_path}/two.g6").num_nodes == 4
    assert read_graph(f"{tmp_path}/two.g6#1").num_nodes == 6
    assert read_graph(f"{tmp_path}/one.jsonl").num_nodes == 3
    assert read_graph("BREC#799").num_nodes > 0
    for text, message in (
        ("nothing", "is no file, none of cycle, complete"),
        ("rook:4,4,4", "cannot make 'rook:4,4,4'"),
        ("paley:7", "needs a prime of the form 4k"),
        (f"{tmp_path}/two.g6#2", "has 2 graphs, counted from 0"),
        (f"{tmp_path}/two.g6#x", "expected a number, from 0, after #"),
        ("NOSET#1", "no data set or file is named"),
        ("squares+cycle:3", "joins graphs that have colours to some that have none"),
        ("cycle:3+squares", "joins graphs that have colours to some that have none"),
    ):
        with pytest.raises(ValueError, match=message):
            read_graph(text)


def test_isomorphism(shuffled):
    assert isomorphic(rook(), shuffled(rook()))
    assert not isomorphic(rook(), shrikhande())
    assert not isomorphic(rook(), cycle(6))
    squares, _ = coloured_pair()
    assert isomorphic(squares, shuffled(squares))
    other = squares.clone()
    other.x = squares.x[[2, 0, 1, 3, 4, 5]]
    assert not isomorphic(squares, other)


def test_the_command(capsys):
    assert main(["lab", "wl", "rook", "shrikhande"]) == 0
    out = capsys.readouterr().out
    assert "rook: 16 nodes, 48 edges" in out
    assert [line.split()[:2] for line in out.splitlines()[4:7]] == [
        ["1-WL", "never"],
        ["2-WL", "never"],
        ["3-WL", "never"],
    ]
    assert "3-FWL  at iteration 1" in out
    assert "The graphs are not isomorphic." in out
    assert main(["lab", "wl", "rook", "EhEG!"]) == 2
    assert "no graph6 either" in capsys.readouterr().err
    assert main(["lab", "wl", "cycle:2000", "csl:2000,2"]) == 0
    assert "takes graphs of up to" in capsys.readouterr().out


def test_names_of_files_are_escaped(tmp_path, capsys):
    path = tmp_path / "\x1b[31mred.g6"
    path.write_text("Bw\n")
    assert main(["lab", "wl", f"{path}#0", "complete:3"]) == 0
    said = capsys.readouterr().out
    assert "\x1b" not in said and "\\x1b[31mred.g6#0: 3 nodes" in said
