"""Which neighbours are adjacent: a few bits for each step of the sequences, packed in words.

Bit ``lag − 1`` of a step says whether the neighbour that it reads is adjacent to the one read ``lag`` steps earlier
(:meth:`pggnn.orderings.Reading.structure_pair` has the rule). *Adjacent* is meant as the plan means it: the earlier
one is among the neighbours of this one. In an undirected graph that is symmetric; in a directed one with the flow
``"source_to_target"`` there is an edge from the earlier to this one. A plan cut by ``max_degree`` reads fewer
neighbours, but knows all edges. The bits are looked up once per plan, reading and width, a bounded number of steps at
a time, and take Σ |𝔊| (n + 2) · w bits, w rounded up to a power of two.
"""

import torch
from torch import Tensor

from pggnn.orderings import Reading
from pggnn.plan import Plan

MOST_STEPS = {"cpu": 2**19, "cuda": 2**22}
"""Steps whose bits are looked up at a time."""
MOST_BITS = 32
"""Bits of a step, which share a word."""


def step_codes(plan: Plan, reading: Reading, width: int, adjacency: Plan | None = None) -> Tensor:
    """The packed bits of every step of a graph, which layers on the same plan share. Who is adjacent is looked up in
    ``adjacency``, by default in the plan itself: there the readers must be the nodes."""
    return plan.derived(_look_up, reading, width, adjacency)


def stride(width: int) -> int:
    """Bits that a step takes in the words."""
    return 1 << (width - 1).bit_length()


def first_steps(degree: Tensor, reading: Reading) -> Tensor:
    """``[N]`` number of steps before those of each node, whose sequences follow each other."""
    steps = reading.work(degree)
    return steps.cumsum(0) - steps


def read_bits(codes: Tensor, step: Tensor, width: int) -> Tensor:
    """``[…, width]``, the bits of the steps asked for, as integers."""
    at = step * stride(width)
    word = codes.index_select(0, at >> 5).long() >> (at & 31)
    return (word.unsqueeze(-1) >> torch.arange(width, device=step.device)) & 1


def _look_up(plan: Plan, reading: Reading, width: int, adjacency: Plan | None) -> Tensor:
    edges = (plan if adjacency is None else adjacency).derived(sorted_edges)
    return _step_codes(
        plan.start, plan.degree, plan.neighbor, edges, plan.profile, plan.num_neighbors, reading.spec, width
    )


def sorted_edges(plan: Plan) -> Tensor:
    """``[E]`` a number for each edge, rising."""
    return (plan.center * plan.num_neighbors + plan.neighbor).sort().values


@torch.library.custom_op("pggnn::step_codes", mutates_args=())
def _step_codes(
    start: Tensor, degree: Tensor, neighbor: Tensor, edges: Tensor, profile: Tensor, nodes: int, spec: str, width: int
) -> Tensor:
    """An operator, since how many words there are cannot be known to a compiler."""
    reading = Reading.parse(spec)
    steps = reading.steps(profile)
    per_word = 32 // stride(width)
    words = neighbor.new_zeros(-(-steps // per_word), dtype=torch.int32)
    if edges.numel() == 0:
        return words
    first = first_steps(degree, reading)
    place = torch.arange(per_word, device=neighbor.device) * stride(width)
    most = MOST_STEPS.get(neighbor.device.type, MOST_STEPS["cpu"])
    for begin in range(0, steps, most):
        end = min(begin + most, words.size(0) * per_word)
        step = torch.arange(begin, end, device=neighbor.device).clamp_(max=steps - 1)
        node = torch.searchsorted(first, step, right=True) - 1  # the last of those with equal firsts has the steps
        n = degree.index_select(0, node)
        i, t = _divided(step - first.index_select(0, node), reading.length(n))
        slots = start.index_select(0, node)
        code = torch.zeros_like(step)
        for lag in range(1, width + 1):
            this, earlier, exists = reading.structure_pair(i, t, lag, n)
            this, earlier = (
                neighbor.index_select(0, (slots + slot).clamp_(0, neighbor.numel() - 1)) for slot in (this, earlier)
            )
            pair = this * nodes + earlier
            found = edges.index_select(0, torch.searchsorted(edges, pair).clamp_(max=edges.numel() - 1))
            code |= ((found == pair) & exists).long() << (lag - 1)
        words[begin // per_word : end // per_word] = (code.view(-1, per_word) << place).sum(1).to(torch.int32)
    return words


@_step_codes.register_fake
def _(
    start: Tensor, degree: Tensor, neighbor: Tensor, edges: Tensor, profile: Tensor, nodes: int, spec: str, width: int
) -> Tensor:
    return neighbor.new_empty(torch.library.get_ctx().new_dynamic_size(), dtype=torch.int32)


def _divided(step: Tensor, length: Tensor) -> tuple[Tensor, Tensor]:
    quotient = torch.div(step, length, rounding_mode="floor")
    return quotient, step - quotient * length
