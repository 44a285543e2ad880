"""Rings that a network cannot tell apart are read once and counted: that has to be the same as reading all of them."""

from collections import Counter

import networkx as nx
import numpy as np
import pytest
import torch

from pggnn.data.sets.classic import adjacency_matrix, complete, cycle, rook, shrikhande
from pggnn.lab.paired_comparison import Pair, Protocol, RingGraph, compare, parts, with_rings
from pggnn.lab.refinement.readings import count_readings
from pggnn.nn import RingConv
from pggnn.train.config import ModelConfig


def counted(**model):
    return Protocol(
        ModelConfig(hidden=8, layers=1, cell="srn", rnn_layers=1, reads=["sum", "rings"], **model), epochs=1
    )


@pytest.mark.parametrize("seed", range(3))
def test_sequences_are_those_that_are_listed_one_by_one(seed):
    """How often each node reads each sequence of bits, NetworkX's cycles one by one and ours."""
    graph = nx.gnp_random_graph(9, 0.5, seed=seed)
    adjacency = nx.to_numpy_array(graph, range(9), dtype=bool)

    def bits(read):
        return adjacency[np.ix_(read, read)].tobytes()

    expected = Counter()
    for nodes in nx.simple_cycles(graph, 6):
        for start in range(len(nodes)):
            for way in (1, -1):
                read = [nodes[(start + way * place) % len(nodes)] for place in range(len(nodes))]
                expected[read[0], bits(read)] += 1
    found = count_readings(adjacency, 6, 10**6, 6)
    examples = [example.tolist() for example in found.examples.split(found.size.tolist())]
    assert all(example[0] == example[-1] for example in examples)
    patterns = [bits(example[:-1]) for example in examples]
    assert len(set(patterns)) == len(patterns) > 20
    rows = zip(found.node.tolist(), found.pattern.tolist(), found.times.tolist(), strict=True)
    assert {(node, patterns[pattern]): times for node, pattern, times in rows} == expected


@pytest.mark.parametrize(
    "graphs",
    [pytest.param((rook(), shrikhande()), marks=pytest.mark.slow), (cycle(5), complete(6)), (cycle(7), cycle(7))],
)
def test_counted_is_as_if_all_were_read(graphs):
    """Values and gradients of a layer over a batch of both graphs; cycles of seven have nothing to read."""
    two = [RingGraph(data.edge_index, data.num_nodes) for data in graphs]
    layer = RingConv(1, 8, structure=4, cell="gru").double()
    found = []
    for layers in (1, 2):
        protocol = Protocol(ModelConfig(hidden=8, layers=layers, reads=["sum", "rings"], ring_structure=4))
        assert protocol.counted == (layers == 1)
        ringed, size = with_rings(two, protocol)
        assert size == 6
        part = parts(ringed, protocol, torch.Generator().manual_seed(0), torch.device("cpu"))[0]
        assert (part.lists["rings"].times is not None) == protocol.counted
        out = layer(torch.ones(len(part.batch), 1).double(), part.lists["rings"], adjacency=part.plan)
        pooled = torch.zeros(part.graphs, 8).double().index_add(0, part.batch, out.tanh())
        layer.zero_grad()
        (pooled[0::2].square() + pooled[1::2]).sum().backward()
        found.append([pooled[:2].detach(), *(weight.grad.clone() for weight in layer.parameters())])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-9)


@pytest.mark.parametrize("bits", range(5))
def test_what_a_network_sees_alike_is_one_sequence(bits):
    """Else rounding would tell graphs apart whose sums are the same: sums of other numbers round otherwise."""
    for graph in (rook(), shrikhande()):
        adjacency = adjacency_matrix(graph).numpy()
        found = count_readings(adjacency, 5, 10**6, bits)
        seen = set()
        for read in found.examples.split(found.size.tolist()):
            nodes = read.tolist()
            rows = [tuple(adjacency[nodes[t], nodes[max(t - bits, 0) : t]]) for t in range(len(nodes))]
            seen.add((len(nodes), *rows))
        assert len(seen) == len(found.key)


def test_shared_sequences_are_few():
    ringed, _ = with_rings([RingGraph(graph.edge_index, 16) for graph in (rook(), shrikhande())], counted())
    part = parts(ringed, counted(), torch.Generator(), torch.device("cpu"))[0]
    read = part.lists["rings"]
    assert read.plan.num_nodes < 200 < 16 * 380 * 8
    assert read.to("cpu").times is read.times


def test_a_pair_is_told_apart_by_what_its_largest_rings_show():
    pair = Pair(0, (rook(), shrikhande()), "StronglyRegular")
    outcome = compare(pair, counted(ring_structure=4))
    assert outcome.apart and outcome.reliable and outcome.rings == 6
    outcome = compare(Pair(0, (rook(), rook()), "StronglyRegular"), counted(ring_structure=4))
    assert not outcome.apart and outcome.reliable


def test_more_than_the_limit():
    """A complete graph of eight has 56 triangles, read six times each, and 210 cycles of four, eight times."""
    adjacency = ~np.eye(8, dtype=bool)
    assert int(count_readings(adjacency, 4, 336 + 1680, 6).times.sum()) == 336 + 1680
    with pytest.raises(ValueError, match=r"more than 2,015 readings of cycles of up to 4 nodes"):
        count_readings(adjacency, 4, 336 + 1680 - 1, 6)
    assert len(count_readings(np.zeros((3, 3), bool), 4, 1, 6).key) == 0
