"""One structural bit for the linear cell in O(n + edges among neighbours) steps.

A bit changes the input of a single step: in 𝔊 each neighbour follows each other one in exactly one arrangement. So the
sum over the group without bits is corrected where there are any: by the change of the input, times the gates of what is
read later. That is an arc of the cycle between the two neighbours, whose product comes from sums of logarithms.
"""

import torch
from torch import Tensor

from pggnn.cells import CELLS
from pggnn.ops.linear.arcs import is_sum_of_arcs, spread
from pggnn.ops.linear.operation import cycles
from pggnn.ops.packed.operation import state_dtype
from pggnn.ops.structure import MOST_STEPS, sorted_edges
from pggnn.orderings import Reading
from pggnn.plan import Plan


def is_sparse(reading: Reading) -> bool:
    """Whether each bit belongs to one step of all; a compiler cannot look into what depends on their number."""
    return reading.group == "pairs" and is_sum_of_arcs(reading) and not torch.compiler.is_compiling()


def correction(
    gates: Tensor, weights: list[Tensor], row: Tensor, plan: Plan, rows: Tensor, root: int, reading: Reading, cell: str,
    adjacency: Plan | None,
) -> Tensor:  # fmt: skip
    """``[N, H]`` what the bits change in the sum over 𝔊, of which ``row`` is added to the gates where there is one."""
    dtype, affine = state_dtype(gates, weights), CELLS[cell].affine
    assert affine is not None
    gates, center, row = gates.to(dtype), weights[2].to(dtype), row.to(dtype)
    node, this, earlier = plan.derived(adjacent_pairs, adjacency).unbind()
    merged, hidden = reading.frame == "merged", weights[0].size(1)
    out = gates.new_zeros(plan.num_nodes, hidden) + gates[:0].sum() + center[:0].sum() + 0 * row[:hidden]

    def read(slot: Tensor, node: Tensor) -> Tensor:
        x = gates.index_select(0, rows.index_select(0, slot))
        return x + center.index_select(0, node) if center.size(0) > 0 else x

    def change(x: Tensor) -> Tensor:
        return affine(x + row)[1] - affine(x)[1]

    fixed = plan.degree.index_select(0, node) & 1
    closes = this < fixed  # the last step of the merged frame compares the last neighbour with the fixed point
    if merged:
        own = gates.narrow(0, root, plan.num_nodes)
        times = torch.zeros_like(plan.degree).index_add(0, node, closes.long())
        out = out + torch.where(times.unsqueeze(-1) > 0, change(own) * times.unsqueeze(-1), 0)
    node, this, earlier, fixed = (one[~closes] for one in (node, this, earlier, fixed))
    lists = plan.shape.derived(cycles, reading)
    owner, _ = spread(plan.degree, lists.slot.size(0))
    logs = affine(read(lists.slot, owner))[0].double().clamp(min=torch.finfo(torch.double).tiny).log()
    sums = torch.cat([logs.new_zeros(1, hidden), logs.cumsum(0)])
    size = plan.degree.index_select(0, node) - fixed
    first = lists.first.index_select(0, node) + fixed
    p, q = _place(earlier - fixed, size), _place(this - fixed, size)
    apart = (p - q) % size.clamp(min=1)
    # What is read later: all others after the fixed point, else an arc from one of the two to the other.
    begin = torch.where((earlier >= fixed) & (apart & 1 == 1), p, q) + 1
    length = torch.where(earlier < fixed, size - 1, torch.where(apart & 1 == 1, size - apart - 1, apart - 1))
    begin = begin % size.clamp(min=1)
    end = begin + length
    over = (end > size).unsqueeze(-1)
    total = sums.index_select(0, first + torch.minimum(end, size)) - sums.index_select(0, first + begin)
    again = sums.index_select(0, first + (end - size).clamp(min=0)) - sums.index_select(0, first)
    later = (total + torch.where(over, again, 0)).exp().to(dtype)
    slot = plan.start.index_select(0, node) + this
    added = torch.zeros_like(out).index_add(0, node, change(read(slot, node)) * later)
    if merged:
        added = affine(gates.narrow(0, root, plan.num_nodes))[0] * added
    return out + added


def _place(t: Tensor, size: Tensor) -> Tensor:
    """The place on the cycle of a member, counted without the fixed point, see :func:`pggnn.groups.slot`."""
    half = t >> 1
    return torch.where(t & 1 == 1, size - 1 - half, half)


def adjacent_pairs(plan: Plan, adjacency: Plan | None) -> Tensor:
    """``[3, P]`` node, member and earlier member, for all pairs of a node's members that are adjacent: the second is
    among the neighbours of the first. A member is compared with the others of its node; where its own neighbours are
    fewer, they are looked for among those."""
    start, degree, neighbor, center, nodes = plan.start, plan.degree, plan.neighbor, plan.center, plan.num_neighbors
    own, edges = plan.derived(sorted_edges), (plan if adjacency is None else adjacency).derived(sorted_edges)
    edges = torch.unique_consecutive(edges)
    by_key = torch.argsort(center * nodes + neighbor, stable=True)
    begins = torch.searchsorted(edges, torch.arange(nodes + 1, device=edges.device) * nodes)
    slot = torch.arange(neighbor.numel(), device=neighbor.device)
    number = slot - start.index_select(0, center)
    slot = slot[number < degree.index_select(0, center)]  # those that are read
    n = degree.index_select(0, center.index_select(0, slot))
    far = (begins[1:] - begins[:-1]).index_select(0, neighbor.index_select(0, slot))
    found = [slot.new_empty(3, 0)]
    most = MOST_STEPS.get(slot.device.type, MOST_STEPS["cpu"])
    for mine, count in ((n <= far, n), (n > far, far)):
        chosen, times = slot[mine], count[mine]
        for part, repeats in zip(*_parts(chosen, times, most), strict=True):
            which, turn = spread(repeats, int(repeats.sum()))
            this = part.index_select(0, which)
            node, u = center.index_select(0, this), neighbor.index_select(0, this)
            if count is n:
                other = start.index_select(0, node) + turn
                key = u * nodes + neighbor.index_select(0, other)
                place = torch.searchsorted(edges, key).clamp_(max=edges.numel() - 1)
                hit = edges.index_select(0, place) == key
            else:
                key = node * nodes + edges.index_select(0, begins.index_select(0, u) + turn) % nodes
                low, high = (torch.searchsorted(own, key, right=right) for right in (False, True))
                which, turn = spread(high - low, int((high - low).sum()))
                this, node = this.index_select(0, which), node.index_select(0, which)
                other = by_key.index_select(0, low.index_select(0, which) + turn)
                hit = other - start.index_select(0, node) < degree.index_select(0, node)
            hit &= other != this
            origin = start.index_select(0, node)
            found.append(torch.stack([node, this - origin, other - origin])[:, hit])
    return torch.cat(found, 1)


def _parts(chosen: Tensor, times: Tensor, most: int) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Slots with about so many repetitions at a time, and these."""
    total = times.cumsum(0)
    pieces = int(total[-1]) // most if len(total) > 0 else 0
    cuts = torch.searchsorted(total, most * torch.arange(1, pieces + 1, device=total.device)).cpu()
    return chosen.tensor_split(cuts), times.tensor_split(cuts)
