"""The example of the paper's Appendix D, as programs; its theorems are in tests/lab/test_theorems.py."""

import torch
from torch_geometric.nn import SimpleConv

from pggnn import PGConv

BLUE, GREEN = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])
COLOURS = torch.stack([BLUE, BLUE, GREEN, GREEN, BLUE, BLUE])
# Figure 3, each node's neighbours in the order the appendix reads them: two squares sharing an edge, two triangles
# joined by an edge.
SQUARES = [[1, 2], [0, 3], [0, 3, 4], [1, 2, 5], [2, 5], [4, 3]]
TRIANGLES = [[1, 2], [0, 2], [0, 1, 3], [4, 5, 2], [3, 5], [4, 3]]


def edges(neighbours):
    return torch.tensor([[u, v] for v, around in enumerate(neighbours) for u in around]).t()


def multiset(rows):
    return sorted(tuple(round(value, 4) for value in row) for row in rows.tolist())


def linear_recurrence(k, **kwargs):
    """h ← k·h + x, the appendix's generic permutation-sensitive aggregator."""
    conv = PGConv(2, 2, cell="srn-identity", num_layers=1, **kwargs)
    conv.rnn.weight_ih_l0.data = torch.eye(2)
    conv.rnn.weight_hh_l0.data = k * torch.eye(2)
    return conv


def test_appendix_d_the_sum_sees_no_difference():
    squares, triangles = (SimpleConv(aggr="sum")(COLOURS, edges(graph)) for graph in (SQUARES, TRIANGLES))
    expected = [BLUE + GREEN] * 4 + [2 * BLUE + GREEN] * 2
    assert multiset(squares) == multiset(triangles) == multiset(torch.stack(expected))


def test_appendix_d_the_sensitive_aggregator_does():
    k = 2.0
    conv = linear_recurrence(k, orderings="single", root="linear")
    conv.lin_root.weight.data.zero_()
    squares, triangles = (conv(COLOURS, edges(graph)) for graph in (SQUARES, TRIANGLES))
    # The appendix's h⁽³⁾ of u₃ and v₃; the layer then reads u₁ once more, to close the ring.
    torch.testing.assert_close(squares[2], k * ((k**2 + 1) * BLUE + k * GREEN) + BLUE)
    torch.testing.assert_close(triangles[2], k * ((k**2 + k) * BLUE + GREEN) + BLUE)
    assert multiset(squares) != multiset(triangles)
    degenerate = linear_recurrence(1.0, orderings="single")
    assert multiset(degenerate(COLOURS, edges(SQUARES))) == multiset(degenerate(COLOURS, edges(TRIANGLES)))


def test_appendix_d_needs_distinguishable_nodes_with_the_whole_group():
    """With two colours the group covers the same pairs of colours in both graphs; with identities it does not."""
    conv = PGConv(2, 8)
    assert multiset(conv(COLOURS, edges(SQUARES))) == multiset(conv(COLOURS, edges(TRIANGLES)))
    aware = PGConv(8, 8)
    rows = []
    for graph in (SQUARES, TRIANGLES):
        adjacency = torch.zeros(6, 6).index_put((edges(graph)[0], edges(graph)[1]), torch.tensor(1.0))
        rows.append(multiset(aware(torch.cat([COLOURS, adjacency], dim=1), edges(graph))))
    assert rows[0] != rows[1]
