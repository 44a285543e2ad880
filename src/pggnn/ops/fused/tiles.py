"""Cuts a graph's sequences, sorted by falling length, into the tiles that the fused kernels read, without asking the
device anything: what the host needs to know follows from :attr:`pggnn.plan.Plan.profile`."""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from functools import cached_property
from itertools import accumulate
from math import isqrt

import torch
from torch import Tensor

from pggnn.ops.graph import Graph
from pggnn.orderings import Reading
from pggnn.plan import PaddedPlan, Plan, hosted


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
    """``[tiles + 1]`` row of memory where the states of each tile begin, one for each of its sequences at each step and
    one more, and where the last one's end. A tile that no sequence is left for has no steps."""
    total: Tensor
    """``[1]`` how many sequences there are: fewer than :attr:`extent` has room for if the plan's profile is that of a
    larger graph, whose k-th longest sequence is nowhere shorter."""
    _slabs: dict[tuple["Chunk", int], Tensor] = field(default_factory=dict)

    @classmethod
    @hosted
    def build(cls, plan: Plan | Graph, reading: Reading, block: int) -> "Tiles":
        """Lays the sequences out in tiles of ``block``."""
        extent = Extent(plan.profile, reading, block, isinstance(plan, PaddedPlan))
        degree = plan.degree.index_select(0, plan.order)
        count, slots = reading.count(degree), degree + 1
        ends, slot_ends = count.cumsum(0), slots.cumsum(0)
        order, rank = plan.order.to(torch.int32), plan.order.argsort()
        node_of = _repeated(order, ends, extent.sequences)
        slot_node = _repeated(order, slot_ends, extent.slots)
        first, slot_first, counts = (
            one.index_select(0, rank).to(torch.int32) for one in (ends - count, slot_ends - slots, count)
        )
        total = count.sum(0, keepdim=True).to(torch.int32)
        lengths = reading.length(plan.degree.index_select(0, node_of[::block].long()))
        lengths = lengths * (torch.arange(0, extent.sequences, block, device=total.device) < total)
        return cls(extent, node_of, first, counts, slot_node, slot_first, _rows(lengths, block), total)

    def offsets(self, chunk: "Chunk", begin: int) -> Tensor:
        """:attr:`offset` of a chunk's tiles, if steps from ``begin`` on are kept; made once."""
        if chunk.slab is None and chunk.tiles == self.extent.tiles:
            return self.offset
        whole = self.offset[chunk.first_tile : chunk.first_tile + chunk.tiles + 1]
        if chunk.slab is None:
            return whole
        if (chunk, begin) not in self._slabs:
            steps = whole.diff() // self.extent.block - 1
            self._slabs[chunk, begin] = _rows((steps - begin).clamp(0, chunk.slab), self.extent.block)
        return self._slabs[chunk, begin]


def _flatten(tiles: Tiles) -> tuple[list[Tensor], "Extent"]:
    return [getattr(tiles, one.name) for one in fields(Tiles)[1:-1]], tiles.extent


torch.utils._pytree.register_pytree_node(Tiles, _flatten, lambda tensors, extent: Tiles(extent, *tensors))


def _rows(steps: Tensor, block: int) -> Tensor:
    """Where the rows of each tile begin, given its number of steps, and where the last one's end."""
    return torch.nn.functional.pad(((steps + 1) * block).cumsum(0), (1, 0))


def _repeated(values: Tensor, ends: Tensor, size: int) -> Tensor:
    """Each value repeated until one of ``ends``, ``size`` values in all; the last one fills up the rest."""
    place = torch.arange(size, device=values.device)
    at = torch.searchsorted(ends, place, right=True).clamp(max=max(values.size(0) - 1, 0))
    return values.index_select(0, at)


@dataclass(frozen=True)
class Chunk:
    """Consecutive tiles whose states fit the workspace together; ``slab`` steps at a time if only few tiles' do."""

    first_tile: int
    tiles: int
    first_sequence: int
    end_sequence: int
    first_slot: int
    end_slot: int
    rows: int
    longest: int
    slab: int | None

    @property
    def begins(self) -> range:
        """The first step of each slab."""
        return range(0, self.longest, self.slab or self.longest)


class Extent:
    """How many sequences, slots and tiles there are, or at most if ``padded``, from the profile alone."""

    def __init__(self, profile: Tensor, reading: Reading, block: int, padded: bool = False) -> None:
        self.block, self.padded = block, padded
        self._chunks: dict[tuple[int, int, int], list[Chunk]] = {}
        groups = [(n, nodes, reading.count(n), reading.length(n)) for n, nodes in profile.tolist()]
        slot_ends = list(accumulate(nodes * (n + 1) for n, nodes, _, _ in groups))
        self.slots = slot_ends[-1] if slot_ends else 0
        self.slot_begins = [
            end - nodes * (n + 1) for end, (n, nodes, count, _) in zip(slot_ends, groups, strict=True) if count > 0
        ]
        self.groups = [group for group in groups if group[2] > 0]
        self.ends = list(accumulate(nodes * count for _, nodes, count, _ in self.groups))
        self.sequences = self.ends[-1] if self.ends else 0

    @property
    def tiles(self) -> int:
        return -(-self.sequences // self.block)

    @cached_property
    def rows(self) -> int:
        """Rows of memory that the states of all tiles take."""
        return sum(tiles * (length + 1) * self.block for tiles, length in self._runs())

    def chunks(self, most_rows: int, wave: int = 1, tile: int = 0) -> list[Chunk]:
        """Chunks of at most ``most_rows`` rows, of whole multiples of ``wave`` tiles where there is room for one; from
        ``tile`` on."""
        if (most_rows, wave, tile) not in self._chunks:
            self._chunks[most_rows, wave, tile] = list(self._cut(most_rows, wave, tile))
        return self._chunks[most_rows, wave, tile]

    def _cut(self, most_rows: int, wave: int, tile: int) -> Iterator[Chunk]:
        runs, taken = list(self._runs()), tile
        while True:
            while runs and taken > 0:
                tiles, length = runs.pop(0)
                if tiles > taken:
                    runs.insert(0, (tiles - taken, length))
                taken = max(0, taken - tiles)
            if not runs:
                return
            longest, room, taken = runs[0][1], most_rows, 0
            for tiles, length in runs:
                fits = min(tiles, room // ((length + 1) * self.block))
                if fits < tiles and taken + fits > wave:
                    fits -= min(fits, (taken + fits) % wave)
                taken, room = taken + fits, room - fits * (length + 1) * self.block
                if fits < tiles:
                    break
            left = sum(tiles for tiles, _ in runs)
            if 2 * taken >= min(wave, left) > 0 and taken > 0:
                yield self._chunk(tile, taken, most_rows - room, longest, None)
            else:
                # Too few to keep the processors busy: take more tiles, in slabs of steps. A slab is as long as memory
                # allows: the states between slabs take no more than those of one slab.
                taken = max(1, min(wave, left, most_rows // ((isqrt(longest) + 1) * self.block)))
                slab = max(1, most_rows // (taken * self.block) - 1)
                yield self._chunk(tile, taken, taken * (slab + 1) * self.block, longest, slab)
            tile += taken

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
        first, last = (0, self.slots) if self.padded else (self._slots_before(begin), self._slots_before(end - 1, 1))
        return Chunk(tile, tiles, begin, end, first, last, rows, longest, slab)

    def _slots_before(self, sequence: int, more: int = 0) -> int:
        """Slots of all nodes before that of ``sequence``, and of ``more`` nodes from there on."""
        group = bisect_right(self.ends, sequence)
        n, _, count, _ = self.groups[group]
        before = sequence - (self.ends[group - 1] if group else 0)
        return self.slot_begins[group] + (before // count + more) * (n + 1)
