"""The operation for cells that are linear in their state, h ← a ⊙ h + b: the whole group in O(n) steps, not O(n²).

The last state of a sequence is the sum of its inputs b, each times the gates a of all that is read later. On the cycle
of 𝔊, and in the rotations of a ring, what is read later is an arc next to the input's own place. So the sum over the
group is a sum over arcs, and :class:`Arcs` of neighbouring stretches can be joined: ``docs/linear.md``.

Neighbours are joined in pairs, log₂ n times, for all nodes at once. All terms are positive: products and sums of gates
and inputs. Plain PyTorch on any device, which autograd differentiates any number of times. Memory is O(E · channels);
what is not such a sum (the closed frame of 𝔊, structural bits, other groups) is read sequence by sequence.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from pggnn.cells import CELLS
from pggnn.groups import GROUPS
from pggnn.ops.graph import Graph, shared
from pggnn.ops.packed.operation import state_dtype
from pggnn.ops.structure import first_steps, read_bits
from pggnn.orderings import ROOT, Reading
from pggnn.plan import Plan


class Arcs(NamedTuple):
    """What a stretch of a cycle, or several, contributes to the sum over its arcs. An arc is worth the product of its
    gates, times the input next to it."""

    product: Tensor
    """``[S, H]`` product of all gates."""
    heads: Tensor
    """``[C, S, H]`` sums over the parts of arcs that begin where the stretch begins, for C kinds of arcs. An arc's
    input is either in the part that a stretch has in ``heads`` or in that of the other stretch, in ``tails``."""
    tails: Tensor
    """``[C, S, H]`` the same of the parts that end where the stretch ends."""
    inside: Tensor
    """``[S, H]`` sum over the arcs within the stretch."""
    around: Tensor
    """``[S, H]`` sum over the arcs that leave it at its end and come back at its beginning, gates in between aside."""


class Steps(NamedTuple):
    """The composition of consecutive steps: h ← gate ⊙ h + added."""

    gate: Tensor
    added: Tensor


T = TypeVar("T", Arcs, Steps)


def join_arcs(left: Arcs, right: Arcs) -> Arcs:
    """Two neighbouring stretches as one."""
    return Arcs(
        left.product * right.product,
        left.heads + left.product * right.heads,
        left.tails * right.product + right.tails,
        left.inside + right.inside + (left.tails * right.heads).sum(0),
        left.around * right.product + left.product * right.around + (left.heads * right.tails).sum(0),
    )


def join_steps(left: Steps, right: Steps) -> Steps:
    """First the left ones, then the right ones."""
    return Steps(left.gate * right.gate, left.added * right.gate + right.added)


def fold(parts: T, join: Callable[[T, T], T], counts: tuple[int, ...]) -> T:
    """Joins the parts of each segment, in their order. ``counts[k]`` segments have 2ᵏ parts; the longest come first."""
    kind: Any = type(parts)
    ended: list[T] = []
    for finished in counts[:-1]:
        if finished:
            sizes = [parts[0].size(-2) - finished, finished]
            parts, one = (kind(*half) for half in zip(*(part.split(sizes, -2) for part in parts), strict=True))
            ended.append(one)
        halves = zip(*(part.unflatten(-2, (-1, 2)).unbind(-2) for part in parts), strict=True)
        parts = join(*(kind(*half) for half in halves))
    together = zip(parts, *reversed(ended), strict=True)
    return kind(*(torch.cat(pieces, -2) for pieces in together)) if ended else parts


class Layout(NamedTuple):
    """What stands at each place of the segments, which are filled up to powers of two. The longest come first.

    Numbers below E are slots of the plan. E is a step that changes nothing, and E + 1 + v reads centre v.
    """

    slot: Tensor
    """``[…, S]``."""
    owner: Tensor
    """``[S]`` the node that each place belongs to."""
    node: Tensor
    """``[M]`` the node that each segment belongs to."""
    step: Tensor
    """``[S]`` number of the step among all of the graph, for structural bits."""
    counts: tuple[int, ...]
    """How many segments have 1, 2, 4, 8 … places."""


def recurrence(
    gates: Tensor, weights: list[Tensor], graph: Graph, reading: Reading, cell: str, plan: Plan | None = None
) -> Tensor:
    """The sum over each node's sequences of the last hidden state. After the two weights of a hidden part, which are
    empty, comes what each centre adds to its slots (``[0, 2H]`` for nothing); the last belongs to ``graph.codes``.

    ``plan`` keeps what depends on degrees alone for the next call.
    """
    reading.check(graph.profile)
    dtype, hidden, affine = state_dtype(gates, weights), weights[0].size(1), CELLS[cell].affine
    assert affine is not None
    nodes, edges = graph.degree.size(0), graph.rows.size(0)
    table, center = gates.to(dtype), weights[2].to(dtype)
    # The empty sum connects the result to its inputs where there is nothing to read.
    out = table.new_zeros(nodes, hidden) + table[:0].sum() + center[:0].sum()
    centers = torch.arange(graph.root, graph.root + nodes, device=gates.device)
    row = torch.cat([graph.rows, graph.rows.new_zeros(1), centers])

    def read(slot: Tensor, node: Tensor, bits: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Gate and input of slots of any shape, and of the nodes they belong to."""
        x = table.index_select(0, row.index_select(0, slot.flatten()))
        if center.size(0) > 0:
            seen = x + center.index_select(0, node.expand_as(slot).flatten())
            x = torch.where((slot < edges).flatten().unsqueeze(-1), seen, x)
        a, b = affine(x if bits is None else x + bits.to(dtype) @ weights[-1].to(dtype))
        real = (slot != edges).flatten().unsqueeze(-1)
        a, b = torch.where(real, a, 1), torch.where(real, b, 0)
        return a.unflatten(0, slot.shape), b.unflatten(0, slot.shape)

    arcs = graph.codes is None and is_sum_of_arcs(reading)
    build: Callable[..., Layout] = _stretches if arcs else _sequences
    layout = shared(graph, plan, build, reading, edges)
    if layout.node.size(0) == 0 or table.size(0) == 0:
        return out.to(gates.dtype)
    if arcs:
        last = _whole_group(read, layout, graph, reading)
    else:
        bits = None if graph.codes is None else read_bits(graph.codes, layout.step, weights[-1].size(0))
        last = fold(Steps(*read(layout.slot, layout.owner, bits)), join_steps, layout.counts).added
    return out.index_add(0, layout.node, last).to(gates.dtype)


ARCS = {("pairs", "merged"), ("pairs", "open"), ("dihedral", "merged"), ("dihedral", "open"), ("dihedral", "closed")}
"""Groups and frames whose sum is one over arcs. A closed arrangement of 𝔊 reads its first neighbour again, the middle
of what it has read, which is not next to the arc."""


def is_sum_of_arcs(reading: Reading) -> bool:
    """Whether all of such a group is read."""
    return reading.limit is None and (reading.group, reading.frame) in ARCS


def takes_linear_time(reading: Reading, cell: str, structure: int = 0) -> bool:
    """Whether the whole group takes as many steps as a single ordering."""
    few_bits = structure == 0 or (structure == 1 and reading.group == "pairs")
    return is_sum_of_arcs(reading) and CELLS[cell].affine is not None and few_bits


Read = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


def _whole_group(read: Read, layout: Layout, graph: Graph, reading: Reading) -> Tensor:
    """``[N, H]`` the sum over the sequences of each segment's node."""
    edges, node = graph.rows.size(0), layout.node
    n = graph.degree.index_select(0, node)
    parts = (_pairs if reading.group == "pairs" else _ring)(*read(layout.slot, layout.owner), layout, edges)
    product, _, _, inside, around = fold(parts, join_arcs, layout.counts)
    total = inside + around
    order = reading.orders.order(n).unsqueeze(-1)
    if reading.frame == "closed":  # each rotation ends with its first member: its arcs are longer by one
        inputs = fold(Steps(torch.ones_like(parts.inside), parts.inside), join_steps, layout.counts).added
        return total + product * inputs
    center_a, center_b = read(edges + 1 + node, node) if reading.frame == "merged" else (total * 0 + 1, total * 0)
    start = center_b
    if reading.group == "pairs":  # the fixed point of odd n is read before the cycle
        fixed_a, fixed_b = read(torch.where(n % 2 == 1, graph.start.index_select(0, node), edges), node)
        start = fixed_a * start + fixed_b
    return center_a * (total + order * product * start) + order * center_b


def _pairs(a: Tensor, b: Tensor, layout: Layout, edges: int) -> Arcs:
    """Stretches of two places of 𝔊's cycle. Its arcs have an odd length after their input, or an even one before it;
    the kinds are: after the first or second of a stretch, before the first or second."""
    (a_0, a_1), (b_0, b_1) = a, b
    product = a_0 * a_1
    real = (layout.slot[0] != edges).unsqueeze(-1)  # no arc ends where there is nothing
    end_0, end_1, ends = a_0 * real, a_1 * real, product * real
    return Arcs(
        product,
        torch.stack([end_0, ends, b_0, a_0 * b_1]),
        torch.stack([b_1, b_0 * a_1, ends, end_1]),
        b_0 + b_0 * a_1 + b_1,
        a_0 * b_1,
    )


def _ring(a: Tensor, b: Tensor, layout: Layout, edges: int) -> Arcs:
    """Single places of a ring, which is read from each of them on; back, too, if it has more than two."""
    a, b = a[0], b[0]
    end = a * (layout.slot[0] != edges).unsqueeze(-1)
    short = sum(count << k for k, count in enumerate(layout.counts[:2]))
    back = torch.cat([b[: len(b) - short], torch.zeros_like(b[len(b) - short :])])
    return Arcs(a, torch.stack([end, back]), torch.stack([b, end]), b + back, torch.zeros_like(b))


def _stretches(graph: Graph | Plan, reading: Reading, edges: int) -> Layout:
    """Each node's cycle: its places two by two for 𝔊, one by one for a ring."""
    width = 2 if reading.group == "pairs" else 1
    node, _, segment, place, counts = _segments(graph, lambda n: n * 0 + 1, lambda n: n // width)
    owner = node.index_select(0, segment)
    n, start = (one.index_select(0, owner) for one in (graph.degree, graph.start))
    real = place < n // width
    places = (width * place + torch.arange(width, device=place.device).unsqueeze(-1)) * real
    slot = GROUPS["pairs"].slot(places, n % 2, n) if width == 2 else places
    return Layout(torch.where(real, start + slot, edges), owner, node, place[:0], counts)


def _sequences(graph: Graph | Plan, reading: Reading, edges: int) -> Layout:
    """Each sequence, step by step."""
    node, number, segment, place, counts = _segments(graph, reading.count, reading.length)
    owner = node.index_select(0, segment)
    n, start = graph.degree.index_select(0, owner), graph.start.index_select(0, owner)
    number = number.index_select(0, segment)
    real = place < reading.length(n)
    place = place * real
    slot = reading.slot(number, place, n)
    slot = torch.where(slot == ROOT, edges + 1 + owner, start + slot) if reading.reads_root else start + slot
    step = first_steps(graph.degree, reading).index_select(0, owner) + number * reading.length(n) + place
    return Layout(torch.where(real, slot, edges), owner, node, step, counts)


Number = Callable[[Any], Any]
"""A function of the number of members, for integers and tensors."""


def _segments(
    graph: Graph | Plan, count: Number, length: Number
) -> tuple[Tensor, Tensor, Tensor, Tensor, tuple[int, ...]]:
    """``count(n)`` segments of ``length(n)`` places for each node, from the largest degree to the smallest: the node
    and the number of each segment, the segment and the number of each place, and :attr:`Layout.counts`."""
    found: Counter[int] = Counter()
    for n, nodes in graph.profile.tolist():
        found[(max(length(n), 1) - 1).bit_length()] += nodes * count(n)
    counts = tuple(found[k] for k in range(max((k for k in found if found[k]), default=-1) + 1))
    times = count(graph.degree.index_select(0, graph.order))
    node, number = spread(times, sum(counts))
    node = graph.order.index_select(0, node)
    sizes = length(graph.degree.index_select(0, node)).clamp(min=1) - 1
    segment, place = spread(1 << torch.frexp(sizes.double()).exponent.long(), sum(c << k for k, c in enumerate(counts)))
    return node, number, segment, place, counts


def spread(times: Tensor, total: int) -> tuple[Tensor, Tensor]:
    """0, 1, 2, … each repeated so often, and the number of each repetition."""
    which = torch.repeat_interleave(times, output_size=total)
    return which, torch.arange(total, device=times.device) - (times.cumsum(0) - times).index_select(0, which)
