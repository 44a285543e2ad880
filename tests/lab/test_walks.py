import networkx as nx
import numpy as np
import pytest
from torch_geometric.utils import from_networkx

from pggnn.cli import main
from pggnn.data.features.motifs import four_cliques
from pggnn.data.sets.classic import complete, cycle, rook, shrikhande
from pggnn.lab.walks import ego_net, estimate

GRAPHS = [complete(3), complete(5), rook(), shrikhande(), cycle(5), from_networkx(nx.gnp_random_graph(12, 0.5, seed=0))]


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("artificial", [True, False])
def test_estimates_tend_to_the_exact_count(graph, artificial):
    net = ego_net(graph, 0, artificial)
    found = estimate(net, [100, 3000], walks=100)
    spread = found.std(1)
    assert abs(found[1].mean() - net.triangles) <= 4 * spread[1] / 10 + 0.02
    assert spread[1] == pytest.approx(spread[0] / 30**0.5, rel=0.4, abs=1e-9), "errors fall as 1 / √samples"


@pytest.mark.parametrize("graph", GRAPHS)
def test_the_letter_of_the_proof_counts_other_triangles_too(graph):
    cliques = int(four_cliques(graph.edge_index, graph.num_nodes)[0])
    for artificial in (True, False):
        net = ego_net(graph, 0, artificial)
        limit = (2 if artificial else 1) * net.triangles + cliques
        found = estimate(net, [3000], walks=100, rooted=False)
        assert abs(found.mean() - limit) <= 4 * found.std() / 10 + 0.03


def test_ego_nets():
    net = ego_net(from_networkx(nx.star_graph(6)), 0)
    assert (net.degree, net.triangles, len(net.adjacency)) == (6, 0, 8)
    assert net.adjacency[-1].tolist() == [True] * 7 + [False]
    assert net.stationary.sum() == pytest.approx(1)
    with pytest.raises(ValueError, match="does not mix"):
        ego_net(from_networkx(nx.star_graph(6)), 0, artificial=False).mixing_time()
    lonely = ego_net(from_networkx(nx.empty_graph(2)), 1)
    assert (estimate(lonely, [3, 5], walks=2) == 0).all()
    with pytest.raises(ValueError, match="nodes 0 to 4, got 5"):
        ego_net(cycle(5), 5)
    with pytest.raises(ValueError, match="at least 3 samples and 1 walk, got 2 and 100"):
        estimate(net, [2])


def test_mixing_time_is_that_of_the_definition():
    net = ego_net(rook(), 0)
    transition = net.adjacency / net.adjacency.sum(1, keepdims=True)
    distance = [
        max(np.abs(np.linalg.matrix_power(transition, t)[i] - net.stationary).sum() / 2 for i in range(len(transition)))
        for t in range(10)
    ]
    assert net.mixing_time(1 / 8) == next(t for t in range(10) if distance[t] < 1 / 8) > 1


def test_samples_in_any_order_and_in_pieces(monkeypatch):
    from pggnn.lab import walks

    net = ego_net(complete(4), 0)
    expected = estimate(net, [50, 300], walks=3)
    assert (estimate(net, [300, 50], walks=3)[::-1] == expected).all()
    monkeypatch.setattr(walks, "CHUNK", 7)
    in_pieces = estimate(net, [300], walks=3, seed=0)
    assert np.isfinite(in_pieces).all() and abs(in_pieces.mean() - 3) < 1


def test_the_command(capsys):
    assert main(["lab", "walks", "complete:5", "0", "--samples", "100", "2000"]) == 0
    out = capsys.readouterr().out
    assert "4 neighbours, 6 triangles, exactly" in out
    assert "mixing time 𝔱(1/8) = 2" in out
    assert main(["lab", "walks", "complete:5", "9"]) == 2
