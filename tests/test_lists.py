"""Which sequences are read of rings, paths, distances and lists of one's own."""

import copy
import pickle

import pytest
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.loader import DataLoader

from pggnn.lists import LISTS, read_lists

EDGES = torch.tensor([[0, 1, 2, 3, 1, 2, 3, 0, 4, 0], [1, 2, 3, 0, 0, 1, 2, 3, 0, 4]])


def graph(**attributes):
    """A ring 0 1 2 3 with 4 attached to 0, and 5 alone."""
    return Data(x=torch.eye(6), edge_index=EDGES, **{name: torch.tensor(value) for name, value in attributes.items()})


def sequences(lists):
    """``(owner, nodes, edges)`` of each sequence; None where no edge leads to a node."""
    plan, owner, head, _ = lists
    found = []
    for reader, (start, size) in enumerate(zip(plan.start.tolist(), plan.degree.tolist(), strict=True)):
        places = slice(start, start + size)
        edges = [None if edge == len(head) else edge for edge in plan.edge[places].tolist()]
        found.append((owner[reader].item(), plan.neighbor[places].tolist(), edges))
    return found


def test_a_ring_is_read_from_each_member_both_ways():
    found = sequences(read_lists("rings", graph(ring_index=[0, 1, 2, 3], ring_size=[4])))
    assert [nodes for _, nodes, _ in found] == [
        [0, 1, 2, 3, 0], [1, 2, 3, 0, 1], [2, 3, 0, 1, 2], [3, 0, 1, 2, 3],
        [0, 3, 2, 1, 0], [1, 0, 3, 2, 1], [2, 1, 0, 3, 2], [3, 2, 1, 0, 3],
    ]  # fmt: skip
    assert_edges_lead_there(found)
    assert all(owner == nodes[0] and edges[0] is None for owner, nodes, edges in found)


def test_a_path_is_read_towards_both_ends():
    found = sequences(read_lists("paths", graph(path_index=[4, 0, 1, 3, 0], path_size=[3, 2])))
    assert [(owner, nodes) for owner, nodes, _ in found] == [(1, [4, 0, 1]), (4, [1, 0, 4]), (0, [3, 0]), (3, [0, 3])]
    assert_edges_lead_there(found)


def assert_edges_lead_there(found):
    for _, nodes, edges in found:
        for before, node, edge in zip(nodes, nodes[1:], edges[1:], strict=False):
            assert EDGES[:, edge].tolist() == [node, before], "the node is the neighbour of the one before"


def test_nodes_at_a_distance_are_read_for_the_first():
    lists = read_lists("hops", graph(hop_index=[4, 0, 4, 1, 3], hop_size=[2, 3], hop_distance=[1, 2]))
    assert sequences(lists) == [(4, [0], [0]), (4, [1, 3], [1, 1])]


def test_lists_of_ones_own_need_no_edges():
    found = sequences(read_lists("lists", graph(list_index=[5, 2, 1, 4], list_size=[3, 1])))
    assert found == [(5, [5, 2, 1], [None, None, 1]), (4, [4], [None])]


@pytest.mark.parametrize("flow", ["source_to_target", "target_to_source"])
def test_edges_lead_to_the_neighbour(flow):
    lists = read_lists("rings", graph(ring_index=[0, 1, 2, 3], ring_size=[4]), flow)
    row = 0 if flow == "source_to_target" else 1
    there = lists.plan.edge < EDGES.size(1)
    assert torch.equal(EDGES[row][lists.plan.edge[there]], lists.plan.neighbor[there])
    assert torch.equal(lists.head, EDGES[row])


def test_pyg_batches_lists():
    one = graph(ring_index=[0, 1, 2, 3], ring_size=[4])
    none = graph(ring_index=[], ring_size=[])
    none.ring_index, none.ring_size = none.ring_index.long(), none.ring_size.long()
    (batch,) = DataLoader([one, none, one], 3)
    alone, found = sequences(read_lists("rings", one)), sequences(read_lists("rings", batch))
    shifted = [
        (owner + 12, [node + 12 for node in nodes], [None if e is None else e + 20 for e in edges])
        for owner, nodes, edges in alone
    ]
    assert found == alone + shifted
    assert read_lists("rings", none).plan.num_nodes == 0


def test_what_is_read_can_be_saved(tmp_path):
    lists = read_lists("rings", graph(ring_index=[0, 1, 2, 3], ring_size=[4]))
    torch.save({"rings": lists}, tmp_path / "lists.pt")
    loaded = torch.load(tmp_path / "lists.pt")["rings"]  # weights_only, as is PyTorch's default
    for found in (loaded, copy.deepcopy(lists), pickle.loads(pickle.dumps(lists))):
        assert sequences(found) == sequences(lists) and found.plan.flow == lists.plan.flow


def test_graphs_without_edges():
    data = Data(x=torch.eye(3), edge_index=torch.empty(2, 0, dtype=torch.long))
    data.list_index, data.list_size = torch.tensor([0, 1]), torch.tensor([2])
    assert sequences(read_lists("lists", data)) == [(0, [0, 1], [None, None])]


@pytest.mark.parametrize(
    ("kind", "attributes", "message"),
    [
        ("cliques", {}, "of the kind 'rings', 'paths', 'hops', 'lists', .*, got 'cliques'"),
        ("rings", {}, "needs ring_index, ring_size"),
        ("rings", {"ring_index": [0, 1], "ring_size": [2]}, "at least 3 nodes, got one of 2"),
        ("paths", {"path_index": [0], "path_size": [1]}, "at least 2 nodes"),
        ("rings", {"ring_index": [0, 1, 2], "ring_size": [4]}, "sum to the 3 members"),
        ("rings", {"ring_index": [0, 1, 6], "ring_size": [3]}, "node 6, but there are 6 nodes"),
        ("hops", {"hop_index": [0, 1], "hop_size": [2]}, "needs hop_distance"),
        ("hops", {"hop_index": [0, 1], "hop_size": [2], "hop_distance": [0]}, "one number from 1 on .*, got one of 0"),
        ("hops", {"hop_index": [0, 1], "hop_size": [2], "hop_distance": [1, 1]}, "for each of 1 lists, got shape \\[2"),
        ("hops", {"hop_index": [0, 1], "hop_size": [2], "hop_distance": [1.0]}, "of int64, got torch.float32"),
    ],
)
def test_what_is_refused(kind, attributes, message):
    with pytest.raises((ValueError, IndexError, TypeError), match=message):
        read_lists(kind, graph(**attributes))


def test_graphs_that_are_refused():
    rings = {"ring_index": [0, 1, 2, 3], "ring_size": [4]}
    with pytest.raises(ValueError, match=r"flow must be .*, got 'target'"):
        read_lists("rings", graph(**rings), "target")
    with pytest.raises(ValueError, match=r"to read rings a graph needs edge_index$"):
        read_lists("rings", Data(x=torch.eye(6), **{name: torch.tensor(value) for name, value in rings.items()}))
    with pytest.raises(IndexError, match="refers to node 4, but there are 4 nodes"):
        read_lists("rings", Data(x=torch.eye(4), edge_index=EDGES, ring_index=EDGES[0, :3], ring_size=EDGES[1, 2:3]))
    with pytest.raises(TypeError, match="Data of one kind of nodes, got HeteroData"):
        read_lists("rings", HeteroData())


def test_kinds_have_layers():
    from pggnn.nn.blocks import LIST_LAYERS

    read = [name for name in LISTS if not name.endswith("-cells")]  # which no RNN reads
    assert {name: layer.kind for name, layer in LIST_LAYERS.items()} == {name: name for name in read}
