"""Cuts a graph's sequences, sorted by falling length, into blocks, and looks up what each step of a block reads."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from pggnn.ops.graph import Graph
from pggnn.ops.structure import read_bits
from pggnn.orderings import ROOT, Reading
from pggnn.plan import Plan

MOST_SEQUENCES = 4096
"""Sequences per block: enough to make the cost of starting an operation negligible."""
FEWEST_SEQUENCES = 512
"""Rather than reading fewer sequences at a time, long ones are cut into slabs of steps."""


@dataclass(frozen=True)
class Block:
    """Sequences ``first``, ``first + 1``, …, of which ``sizes[t]`` are still running at step t."""

    first: int
    sizes: tuple[int, ...]

    def slabs(self, most_rows: int) -> Iterator[tuple[int, int]]:
        """Cuts the steps into ranges of at most ``most_rows`` rows, or one step."""
        begin, rows = 0, 0
        for step, size in enumerate(self.sizes):
            if rows + size > most_rows and step > begin:
                yield begin, step
                begin, rows = step, 0
            rows += size
        yield begin, len(self.sizes)


def blocks(profile: Tensor, reading: Reading, most_rows: int) -> Iterator[Block]:
    """Cuts the sequences into blocks of a good size whose steps, if possible, number at most ``most_rows``."""
    groups = [(nodes * reading.count(n), reading.length(n)) for n, nodes in profile.tolist()]
    groups = [(count, length) for count, length in groups if count > 0]
    first = 0
    while groups:
        longest = groups[0][1]
        room = max(1, min(MOST_SEQUENCES, max(FEWEST_SEQUENCES, most_rows // longest), most_rows))
        lengths: list[tuple[int, int]] = []
        while groups and room > 0:
            count, length = groups.pop(0)
            taken = min(count, room)
            lengths.append((taken, length))
            room -= taken
            if taken < count:
                groups.insert(0, (count - taken, length))
        block = Block(first, tuple(active(lengths)))
        first += block.sizes[0]
        yield block


def active(lengths: list[tuple[int, int]]) -> list[int]:
    """How many sequences run at each step, from (how many, how long) by falling length."""
    running = sum(count for count, _ in lengths)
    sizes: list[int] = []
    for count, length in reversed(lengths):
        sizes += [running] * (length - len(sizes))
        running -= count
    return sizes


def row_of_slot(graph: Graph, reading: Reading) -> Tensor:
    """The gate row of each slot and, where centres are read, behind them of each centre."""
    return with_centers(graph.rows, graph.root, graph.degree.size(0)) if reading.reads_root else graph.rows


def with_centers(rows: Tensor, root: int, centers: int) -> Tensor:
    """``rows``, and behind them those of centres, which begin at ``root``."""
    return torch.cat([rows, torch.arange(root, root + centers, device=rows.device)])


def neighbors_and_centers(plan: Plan, root: int) -> Tensor:
    """For :meth:`Plan.derived`: :func:`with_centers` where each slot's row is that of its neighbour."""
    return with_centers(plan.neighbor, root, plan.num_nodes)


class BlockIndex:
    """Which node each sequence of a block belongs to, and which slot each of its steps reads. Depends on degrees alone.

    Args:
        graph: Its degrees.
        block: The block.
        reading: Which sequences are read.
        slots: How many slots there are; a node's centre is the slot so far behind its number.
    """

    def __init__(self, graph: Graph | Plan, block: Block, reading: Reading, slots: int) -> None:
        ends = reading.count(graph.degree.index_select(0, graph.order)).cumsum(0)
        ids = torch.arange(block.first, block.first + block.sizes[0], device=ends.device)
        rank = torch.searchsorted(ends, ids, right=True)
        self.reading, self.sizes, self.centers = reading, block.sizes, slots
        self.node = graph.order.index_select(0, rank)
        self.n = graph.degree.index_select(0, self.node)
        self.i = ids - ends.index_select(0, rank) + reading.count(self.n)
        self.start = graph.start.index_select(0, self.node)
        self.lengths = reading.length(self.n).flip(0)

    def steps(self, begin: int, end: int) -> tuple[Tensor, Tensor]:
        """Sequence and step of each row of the steps ``begin`` … ``end − 1`` of the block, one step after the other."""
        # Counted on the device: what is copied from here while a CUDA graph is recorded would not be there later.
        ended = torch.searchsorted(self.lengths, torch.arange(begin, end, device=self.n.device), right=True)
        total, per_step = sum(self.sizes[begin:end]), self.sizes[0] - ended
        step = torch.repeat_interleave(per_step, output_size=total)
        sequence = torch.arange(total, device=self.n.device) - (per_step.cumsum(0) - per_step).index_select(0, step)
        return sequence, step + begin

    @cached_property
    def all_slots(self) -> Tensor:
        """The slots read at all steps."""
        return self.slots(0, len(self.sizes))

    def slots(self, begin: int, end: int) -> Tensor:
        """The slots read at steps ``begin`` … ``end − 1``, as :func:`row_of_slot` counts them."""
        sequence, step = self.steps(begin, end)
        n, i, start = (tensor.index_select(0, sequence) for tensor in (self.n, self.i, self.start))
        slot = self.reading.slot(i, step, n)
        if not self.reading.reads_root:
            return start + slot
        return torch.where(slot == ROOT, self.centers + self.node.index_select(0, sequence), start + slot)

    def bits(self, begin: int, end: int, first: Tensor, codes: Tensor, width: int) -> Tensor:
        """``[rows, width]`` structural bits of the steps ``begin`` … ``end − 1``, given where each node's begin."""
        sequence, step = self.steps(begin, end)
        first = first.index_select(0, self.node) + self.i * self.reading.length(self.n)
        return read_bits(codes, first.index_select(0, sequence) + step, width)
