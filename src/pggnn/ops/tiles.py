"""Cuts a graph's sequences, sorted by falling length, into the tiles that the fused kernels read, without asking the
device anything: what the host needs to know follows from :attr:`pggnn.plan.Plan.profile`."""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import torch
from torch import Tensor

from pggnn.ops.schedule import Graph
from pggnn.orderings import Reading
from pggnn.plan import Plan


@dataclass(frozen=True)
class Tiles:
    """Where each sequence and each slot belongs, on the device; a node's centre counts as one more slot."""

    extent: "Extent"
    """How many there are, on the host."""
    node_of: Tensor
    """``[S]`` node of each sequence, by falling length."""
    first: Tensor
    """``[N]`` first sequence of each node."""
    counts: Tensor
    """``[N]`` number of its sequences."""
    slot_node: Tensor
    """``[E + N]`` node of each slot, in the order of the sequences."""
    slot_first: Tensor
    """``[N]`` first of a node's slots in that order."""
    offset: Tensor
    """``[tiles + 1]`` row of memory where each tile's states begin."""

    @classmethod
    def build(cls, plan: Plan | Graph, reading: Reading, block: int) -> "Tiles":
        """Lays the sequences out in tiles of ``block``."""
        extent = Extent(plan.profile, reading, block)
        degree = plan.degree.index_select(0, plan.order)
        count, slots = reading.count(degree), degree + 1
        order = plan.order.to(torch.int32)
        node_of = order.repeat_interleave(count, output_size=extent.sequences)
        slot_node = order.repeat_interleave(slots, output_size=extent.slots)
        first, slot_first = torch.empty_like(degree, dtype=torch.int32), torch.empty_like(degree, dtype=torch.int32)
        first[plan.order] = (count.cumsum(0) - count).to(torch.int32)
        slot_first[plan.order] = (slots.cumsum(0) - slots).to(torch.int32)
        longest = reading.length(plan.degree.index_select(0, node_of[::block].long()))
        offset = torch.nn.functional.pad(((longest + 1) * block).cumsum(0), (1, 0))
        return cls(extent, node_of, first, reading.count(plan.degree).to(torch.int32), slot_node, slot_first, offset)


@dataclass(frozen=True)
class Chunk:
    """Consecutive tiles whose states fit the workspace together; ``slab`` steps at a time if even one's do not."""

    first_tile: int
    tiles: int
    first_sequence: int
    end_sequence: int
    first_slot: int
    end_slot: int
    rows: int
    longest: int
    slab: int | None


class Extent:
    """How many sequences, slots and tiles there are, from the profile alone."""

    def __init__(self, profile: Tensor, reading: Reading, block: int) -> None:
        self.block = block
        self._chunks: dict[tuple[int, int], list[Chunk]] = {}
        groups = [(n, nodes, reading.count(n), reading.length(n)) for n, nodes in profile.tolist()]
        self.slots = sum(nodes * (n + 1) for n, nodes, _, _ in groups)
        self.groups = [group for group in groups if group[2] > 0]
        self.ends = list(accumulate(nodes * count for _, nodes, count, _ in self.groups))
        self.slot_ends = list(accumulate(nodes * (n + 1) for n, nodes, _, _ in self.groups))
        self.sequences = self.ends[-1] if self.ends else 0

    @property
    def tiles(self) -> int:
        return -(-self.sequences // self.block)

    @cached_property
    def rows(self) -> int:
        """Rows of memory that the states of all tiles take."""
        return sum(tiles * (length + 1) * self.block for tiles, length in self._runs())

    def chunks(self, most_rows: int, wave: int = 1) -> list[Chunk]:
        """Chunks of at most ``most_rows`` rows, of whole multiples of ``wave`` tiles where there is room for one."""
        if (most_rows, wave) not in self._chunks:
            self._chunks[most_rows, wave] = list(self._cut(most_rows, wave))
        return self._chunks[most_rows, wave]

    def _cut(self, most_rows: int, wave: int) -> Iterator[Chunk]:
        runs = list(self._runs())
        tile = 0
        while runs:
            taken, rows, longest = 0, 0, runs[0][1]
            if (longest + 1) * self.block > most_rows:
                taken = max(1, min(runs[0][0], wave, most_rows // (FEWEST_STEPS * self.block)))
                slab = max(1, most_rows // (taken * self.block) - 1)
                runs[0] = runs[0][0] - taken, longest
                yield self._chunk(tile, taken, taken * (slab + 1) * self.block, longest, slab)
            else:
                room = most_rows
                for index, (tiles, length) in enumerate(runs):
                    fits = min(tiles, room // ((length + 1) * self.block))
                    taken, room = taken + fits, room - fits * (length + 1) * self.block
                    if fits < tiles and taken > wave:
                        surplus = taken % wave
                        cut = min(fits, surplus)
                        fits, taken, room = fits - cut, taken - cut, room + cut * (length + 1) * self.block
                    runs[index] = tiles - fits, length
                    if fits < tiles:
                        break
                rows = most_rows - room
                yield self._chunk(tile, taken, rows, longest, None)
            tile += taken
            runs = [run for run in runs if run[0] > 0]

    def _runs(self) -> Iterator[tuple[int, int]]:
        """(how many tiles, steps of their longest sequence), by falling length."""
        begin = 0
        for end, (_, _, _, length) in zip(self.ends, self.groups, strict=True):
            tiles = -(-end // self.block)
            if tiles > begin:
                yield tiles - begin, length
            begin = tiles

    def _chunk(self, tile: int, tiles: int, rows: int, longest: int, slab: int | None) -> Chunk:
        begin, end = tile * self.block, min((tile + tiles) * self.block, self.sequences)
        return Chunk(
            tile, tiles, begin, end, self._slots_before(begin), self._slots_before(end - 1, 1), rows, longest, slab
        )

    def _slots_before(self, sequence: int, more: int = 0) -> int:
        """Slots of all nodes before that of ``sequence``, and of so many ``more`` nodes."""
        group = bisect_right(self.ends, sequence)
        n, _, count, _ = self.groups[group]
        before = sequence - (self.ends[group - 1] if group else 0)
        return (self.slot_ends[group - 1] if group else 0) + (before // count + more) * (n + 1)


FEWEST_STEPS = 64
"""Where sequences are too long to be kept whole, so many steps are kept at a time if memory allows."""
