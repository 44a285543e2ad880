import pickle
from itertools import product

import numpy as np
import pytest
import torch
from torch.utils._pytree import tree_leaves
from torch_geometric import EdgeIndex
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader

from pggnn import PGGNN, PGConv, Plan
from pggnn import plan as plans
from pggnn.cells import Recurrence
from pggnn.ops import group_recurrence
from pggnn.orderings import Reading
from pggnn.plan import plans_of
from pggnn.testing import DEGREES, interleaved, random_graph


def neighbourhoods(plan):
    slots = [range(s, s + d) for s, d in zip(plan.start.tolist(), plan.degree.tolist(), strict=True)]
    return [[int(plan.neighbor[slot]) for slot in node] for node in slots]


def test_neighbourhoods_keep_the_order_of_edges():
    edge_index = torch.tensor([[3, 0, 1, 3, 2, 2], [0, 2, 0, 2, 0, 0]])
    plan = Plan.build(edge_index, 4)
    assert neighbourhoods(plan) == [[3, 1, 2, 2], [], [0, 3], []]
    assert plan.order.tolist() == [0, 2, 1, 3]
    assert plan.profile.tolist() == [[4, 1], [2, 1], [0, 2]]
    assert torch.equal(edge_index[0, plan.edge], plan.neighbor)
    assert torch.equal(edge_index[1, plan.edge], plan.center)
    reverse = Plan.build(edge_index.flip(0), 4, flow="target_to_source")
    assert neighbourhoods(reverse) == neighbourhoods(plan)


def test_interleaving_of_edges_does_not_matter():
    edge_index = random_graph()
    plan, other = (Plan.build(edges, len(DEGREES)) for edges in (edge_index, interleaved(edge_index)))
    assert not torch.equal(edge_index, interleaved(edge_index))
    assert torch.equal(plan.neighbor, other.neighbor)
    assert plan.degree.tolist() == list(DEGREES)


@pytest.mark.parametrize("make", [lambda flow: PGConv(2, 3, flow=flow), lambda flow: PGGNN(2, 4, 1, flow=flow)])
def test_a_plan_of_the_other_flow_is_refused(make):
    """Its neighbourhoods are the reversed ones."""
    edge_index, x = torch.tensor([[0, 1, 2], [1, 2, 0]]), torch.randn(3, 2)
    flows = ("source_to_target", "target_to_source")
    for flow, other in (flows, flows[::-1]):
        network, plan = make(flow), Plan.build(edge_index, 3, flow)
        assert torch.equal(network(x, plan), network(x, edge_index))
        for kept in (plan, plan.renumbered(), plan.truncated(2), plan.to("cpu"), pickle.loads(pickle.dumps(plan))):
            with pytest.raises(ValueError, match=rf"built with flow='{flow}'.*flow='{other}'"):
                make(other)(x, kept)


def test_bipartite_sizes():
    plan = Plan.build(torch.tensor([[4, 0], [1, 1]]), (5, 2))
    assert (plan.num_neighbors, plan.num_nodes, plan.num_edges) == (5, 2, 2)


@pytest.mark.parametrize("number", [5, np.int64(5), torch.tensor(5)], ids=["int", "numpy", "tensor"])
def test_sizes_of_other_types(number):
    plan = Plan.build(torch.tensor([[4, 0], [1, 1]]), number)
    assert (plan.num_neighbors, plan.num_nodes) == (5, 5)


def test_renumbering_is_uniform_and_keeps_neighbourhoods():
    edge_index = torch.stack([torch.arange(1, 7), torch.tensor([0, 0, 0, 1, 1, 1])])
    plan = Plan.build(edge_index, 7)
    seen: dict[tuple[int, ...], int] = {}
    for _ in range(600):
        fresh = plan.renumbered()
        first, second = neighbourhoods(fresh)[:2]
        assert (sorted(first), sorted(second)) == ([1, 2, 3], [4, 5, 6])
        assert torch.equal(edge_index[0, fresh.edge], fresh.neighbor)
        seen[tuple(first)] = seen.get(tuple(first), 0) + 1
    assert len(seen) == 6
    assert min(seen.values()) > 60


def test_renumberings_share_what_follows_from_degrees():
    plan = Plan.build(random_graph(), len(DEGREES))
    fresh = plan.renumbered().renumbered()
    assert fresh.shape is plan
    assert plan.shape is plan
    assert fresh.truncated(4).shape is not plan, "these have other degrees"
    assert fresh.shape.derived(_largest) is plan.derived(_largest)
    assert not fresh.known, "neighbours have changed places: nothing else is shared"


def _largest(plan: Plan) -> torch.Tensor:
    return plan.degree.max()


def test_truncation_keeps_the_first_neighbours():
    plan = Plan.build(random_graph(), len(DEGREES))
    short = plan.truncated(4)
    assert neighbourhoods(short) == [around[:4] for around in neighbourhoods(plan)]
    assert int((short.profile[:, 0] * short.profile[:, 1]).sum()) == int(short.degree.sum())


def test_draws_with_replacement_are_uniform():
    edge_index = torch.tensor([[3, 1, 2, 0], [0, 0, 0, 2]])
    plan = Plan.build(edge_index, 4)
    seen: dict[tuple[int, ...], int] = {}
    for _ in range(600):
        drawn = plan.drawn(2)
        first, *others = neighbourhoods(drawn)
        assert others == [[], [0, 0], []]
        read = drawn.center[:2], drawn.center[4:6]
        assert torch.equal(torch.cat(read), torch.tensor([0, 0, 2, 2]))
        assert torch.equal(edge_index[0, drawn.edge], drawn.neighbor)
        seen[tuple(first)] = seen.get(tuple(first), 0) + 1
    assert set(seen) == set(product((1, 2, 3), repeat=2))
    assert min(seen.values()) > 35
    assert (drawn.order.tolist(), drawn.profile.tolist()) == ([0, 2, 1, 3], [[2, 1], [2, 1], [0, 2]])
    empty = Plan.build(torch.empty(2, 0, dtype=torch.long), 3)
    assert neighbourhoods(empty.drawn(2)) == [[]] * 3


def test_a_plan_is_a_pytree_and_moves():
    plan = Plan.build(random_graph(), len(DEGREES))
    leaves, spec = torch.utils._pytree.tree_flatten(plan)
    assert len(leaves) == 8
    again = torch.utils._pytree.tree_unflatten(leaves, spec)
    assert torch.equal(again.neighbor, plan.neighbor) and again.flow == plan.flow
    moved = plan.to("meta")
    assert moved.neighbor.device.type == "meta"
    assert moved.profile.device.type == "cpu"


def test_a_plan_moves_with_its_batch(monkeypatch):
    """PyG moves what has the method asked for, and leaves all else where it is without a word."""
    monkeypatch.setattr(torch.Tensor, "cuda", lambda tensor, *_, **__: tensor.to("meta"))
    batch = Data(plan=Plan.build(random_graph(), len(DEGREES)))
    assert batch.cuda().plan.neighbor.device.type == "meta"
    assert batch.plan.profile.device.type == "cpu"
    assert Plan.build(random_graph(), len(DEGREES)).cpu().neighbor.device.type == "cpu"


def test_few_edges_are_sorted_on_the_host(monkeypatch):
    """With all that layers derive from degrees: the same tensors, brought by one copy each, where kernels like them."""
    sum_of, tiles = (pytest.importorskip(f"pggnn.ops.fused.{name}") for name in ("sum", "tiles"))
    edges, reading, moved = random_graph(), Reading(), []
    usual = Plan.build(edges, len(DEGREES))
    assert not plans._are_few(edges, len(DEGREES))
    monkeypatch.setattr(plans, "_are_few", lambda *_: True)
    monkeypatch.setattr(plans, "brought", lambda *args, real=plans.brought: moved.append(1) or real(*args))
    plan = Plan.build(edges, len(DEGREES))

    def derived(plan):
        build, name = tiles.Tiles.build, (plans.slot_numbers, ())
        return [
            plan.derived(build, reading, 16), plan.derived(sum_of.named_readers, "neighbor", plan.num_nodes),
            plan.derived(sum_of.named_readers, name, plan.num_edges), plan.derived(plans.slot_numbers),
            plan.derived(sum_of.step_readers, "neighbor", plan.num_nodes, Reading("trivial", "open"), 16),
        ]  # fmt: skip

    for first, second in ((plan, usual), (derived(plan), derived(usual))):
        for found, expected in zip(tree_leaves(first), tree_leaves(second), strict=True):
            assert found.dtype == expected.dtype and found.shape == expected.shape and found.equal(expected)
    assert plan.profile.equal(usual.profile) and len(moved) == 5
    assert derived(plan)[0] is derived(plan)[0] and len(moved) == 5
    packed = [tensor for tensor in tree_leaves([plan, derived(plan)]) if tensor is not plan.profile]
    assert all(tensor.storage_offset() * tensor.itemsize % 16 == 0 and tensor.is_contiguous() for tensor in packed)
    assert "_host" not in plan.to("cpu").__dict__ | pickle.loads(pickle.dumps(plan)).__dict__


def test_a_plan_is_found_among_others():
    plans = [Plan.build(random_graph(), len(DEGREES)) for _ in range(3)]
    assert [plans.index(plan) for plan in plans] == [0, 1, 2]


def test_a_plan_prints_briefly():
    plan = Plan.build(random_graph(), len(DEGREES))
    sizes = f"nodes={len(DEGREES)}, edges={sum(DEGREES)}"
    assert repr(plan) == f"Plan({sizes}, max_degree={max(DEGREES)})"
    assert repr(plan.truncated(4)) == f"Plan({sizes}, max_degree=4)"
    assert repr(Plan.build(torch.empty(2, 0, dtype=torch.long), 0)) == "Plan(nodes=0, edges=0, max_degree=0)"
    assert "Plan object" in repr(torch.utils._pytree.tree_map(lambda tensor: tensor.shape, plan))


def test_empty_graphs():
    plan = Plan.build(torch.empty(2, 0, dtype=torch.long), 0)
    assert (plan.num_nodes, plan.num_edges, plan.profile.shape) == (0, 0, (0, 2))
    assert Plan.build(torch.empty(2, 0, dtype=torch.long), 3).profile.tolist() == [[0, 3]]


def test_pyg_edge_index_is_accepted():
    edge_index = EdgeIndex([[0, 1], [1, 0]], sparse_size=(2, 2))
    assert type(Plan.build(edge_index, 2).neighbor) is torch.Tensor


@pytest.mark.parametrize(
    ("edge_index", "error", "message"),
    [
        (torch.tensor([[0, 9], [1, 1]]), IndexError, r"edge_index\[0\] refers to node 9, but there are 3 nodes"),
        (torch.tensor([[0, 1], [1, -2]]), IndexError, r"edge_index\[1\] refers to node -2"),
        (torch.tensor([[0.0, 1.0], [1.0, 2.0]]), TypeError, "must be int64, got torch.float32"),
        (torch.tensor([0, 1]), ValueError, r"shape \[2, E\], got \[2\]"),
        (torch.tensor([[0], [1], [2]]), ValueError, r"shape \[2, E\], got \[3, 1\]"),
        (torch.eye(3).to_sparse(), TypeError, r"dense tensor .* got torch.sparse_coo; "),
        ([[0], [1]], TypeError, "got list"),
    ],
)
def test_bad_edges_are_refused(edge_index, error, message):
    with pytest.raises(error, match=message):
        Plan.build(edge_index, 3)


def test_bad_sizes_and_flow_are_refused():
    edges = torch.tensor([[0], [1]])
    with pytest.raises(ValueError, match="flow must be"):
        Plan.build(edges, 2, flow="sideways")
    with pytest.raises(ValueError, match="must not be negative"):
        Plan.build(edges, -1)
    with pytest.raises(IndexError, match=r"edge_index\[1\] refers to node 1, but there are 1 nodes"):
        Plan.build(edges, (5, 1))


def with_rings(nodes, edges, rings):
    edge_index = torch.tensor(edges, dtype=torch.long).view(-1, 2).t()
    members = torch.tensor([node for ring in rings for node in ring], dtype=torch.long)
    sizes = torch.tensor([len(ring) for ring in rings], dtype=torch.long)
    return Data(x=torch.randn(nodes, 3), edge_index=edge_index, ring_index=members, ring_size=sizes)


def test_several_kinds_of_neighbourhoods_lie_side_by_side_in_a_batch():
    """Each kind is read as it is alone, whatever else is in the batch."""
    graphs = [
        with_rings(4, [(0, 1), (1, 2), (2, 0), (3, 2)], [[0, 1, 2], [2, 1, 0, 3]]),
        with_rings(2, [(0, 1)], []),
        with_rings(5, [(4, 0), (0, 3), (1, 3)], [[4], [], [1, 3, 0]]),
    ]
    (batch,) = DataLoader(graphs, batch_size=3)
    rnn = Recurrence(3, 5)
    readings = {"star": Reading(), "ring": Reading("dihedral", "open")}

    def read(data):
        gates, plans = rnn(data.x), plans_of(data)
        assert list(plans) == ["star", "ring"]
        return {
            kind: group_recurrence(gates, rnn.recurrent_weights, plans[kind], reading=reading, cell="lstm")
            for kind, reading in readings.items()
        }

    together, alone = read(batch), [read(graph) for graph in graphs]
    for kind in readings:
        torch.testing.assert_close(together[kind], torch.cat([one[kind] for one in alone]))
    ring = plans_of(batch)["ring"]
    assert ring.neighbor.tolist() == [0, 1, 2, 2, 1, 0, 3, 10, 7, 9, 6]
    assert ring.center.tolist() == [0, 0, 0, 1, 1, 1, 1, 2, 4, 4, 4]
    assert together["ring"].shape == (5, 5)
    assert together["ring"][3].abs().max() == 0, "an empty list is read as nothing"


@pytest.mark.parametrize(
    ("index", "size", "message"),
    [
        ([0, 1, 7], [3], "ring: node 7, but there are 4 nodes"),
        ([0, -1], [2], "ring: node -1, but there are 4 nodes"),
        ([0, 1, 2], [2], "ring: sizes must be 0 or more and sum to the 3 members, got a sum of 2"),
        ([0, 1, 2], [4, -1], "ring: sizes must be 0 or more .* least -1"),
        ([0.0, 1.0], [2], "ring: index must be a tensor of one dimension, int64, got torch.float32"),
        ([[0, 1]], [2], "ring: index must be a tensor of one dimension"),
    ],
)
def test_bad_lists_are_refused(index, size, message):
    data = with_rings(4, [(0, 1)], [])
    data.ring_index, data.ring_size = torch.tensor(index), torch.tensor(size)
    with pytest.raises((ValueError, TypeError, IndexError), match=message):
        plans_of(data)
