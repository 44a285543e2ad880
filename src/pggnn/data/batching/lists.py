"""Lists of the graphs of a data set, such as their rings, on a device, from which those of a batch are gathered."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pggnn.data.features.lists import GraphLists
from pggnn.data.graphs import Graphs, starts
from pggnn.lists import LISTS, ListPlan, expand_lists
from pggnn.plan import Plan, profile_of

CHUNK = 2**20
"""Edges of the graphs whose lists are turned into sequences at a time."""


@dataclass(frozen=True)
class StoredLists:
    """The sequences of one kind of lists, graph by graph; numbers of nodes and slots count from 0 in each graph."""

    kind: str
    counts: Tensor
    """``[2, G]`` on the CPU: sequences and places of each graph."""
    lengths: np.ndarray
    """``[S]`` of each sequence, on the host."""
    owner: Tensor
    """``[S]`` node that each is read for."""
    member: Tensor
    """``[P]`` node of each place."""
    slot: Tensor
    """``[P]`` slot of the edge that leads to it, −1 where there is none; with distances, the distance from 0 on."""

    @classmethod
    def build(
        cls, kind: str, lists: GraphLists, graphs: Graphs, edge: Tensor | None, device: torch.device
    ) -> "StoredLists":
        """The sequences of all lists.

        Args:
            kind: How they are read, one of :data:`pggnn.lists.LISTS`.
            lists: The lists.
            graphs: The graphs, on the CPU.
            edge: The edge of each slot, counted in its graph; None if edges lie in order.
            device: Where to keep them.
        """
        parts = [*_chunks(kind, lists, graphs, edge)]
        counts, length, owner, member, slot = (
            torch.cat([part[place] for part in parts], dim=-1) if parts else torch.zeros(2 - (place > 0), 0)
            for place in range(5)
        )
        kept = (tensor.to(torch.int32).to(device) for tensor in (owner, member, slot))
        return cls(kind, counts.long(), length.numpy().astype(np.int64), *kept)

    def gather(self, chosen: Tensor, plan: Plan, ptr: Tensor, edge_ptr: Tensor, head: Tensor) -> ListPlan:
        """What is read in a batch of the graphs with the given numbers.

        Args:
            chosen: The numbers, on the CPU.
            plan: The plan of the batch's edges.
            ptr, edge_ptr: The first node and edge of each graph of the batch, and their numbers.
            head: The node that each edge of the batch leads to.
        """
        device = self.owner.device
        counts = self.counts.index_select(1, chosen)
        shift = torch.stack([starts(row)[:-1] for row in self.counts]).index_select(1, chosen)
        shift = shift - torch.nn.functional.pad(counts.cumsum(1), (1, 0))[:, :-1]
        (sequences, places), table = counts.sum(1).tolist(), torch.cat([counts, shift]).to(device)
        graph = torch.repeat_interleave(table[0], output_size=sequences)
        place_graph = torch.repeat_interleave(table[1], output_size=places)
        rows = torch.arange(sequences, device=device) + table[2].index_select(0, graph)
        place_rows = torch.arange(places, device=device) + table[3].index_select(0, place_graph)
        owner = self.owner.index_select(0, rows) + ptr.index_select(0, graph)
        member = self.member.index_select(0, place_rows) + ptr.index_select(0, place_graph)
        edge = self.slot.index_select(0, place_rows).long()
        if not LISTS[self.kind].apart:
            there, edges = edge >= 0, plan.num_edges
            slot = (edge + edge_ptr.index_select(0, place_graph)).clamp(0, max(edges - 1, 0))
            edge = torch.where(there, plan.edge.index_select(0, slot), edges) if edges else edge + edges + 1
        begin, own = starts(self.counts[0])[chosen], counts[0]
        spans = [self.lengths[a : a + n] for a, n in zip(begin.tolist(), own.tolist(), strict=True)]
        lengths = np.concatenate(spans) if spans else np.zeros(0, np.int64)
        histogram = np.bincount(lengths)
        length = torch.from_numpy(lengths).to(device)
        reader = torch.repeat_interleave(length, output_size=places)
        profile = profile_of(np.arange(len(histogram)), histogram)
        return ListPlan(
            Plan.of_slots(
                member, reader, edge, length, profile, num_neighbors=plan.num_nodes, flow=plan.flow,
            ),
            owner, head,
        )  # fmt: skip


def _chunks(kind: str, lists: GraphLists, graphs: Graphs, edge: Tensor | None) -> Iterator[tuple[Tensor, ...]]:
    """Counts, lengths, owners, members and slots of some graphs at a time."""
    first = list_done = place_done = edge_done = 0
    head, tail = (0, 1) if graphs.schema.flow == "source_to_target" else (1, 0)
    for part in graphs.chunks(CHUNK):
        edge_index, ptr = part.batched_edges()
        edges, nodes = edge_index.size(1), int(ptr[-1])
        edge_start = starts(part.edges)
        if edge is not None:
            local = edge[edge_done : edge_done + edges].long()
            edge_index = edge_index[:, local + edge_start[:-1].repeat_interleave(part.edges)]
        count = lists.counts[first : first + len(part)]
        size = lists.size[list_done : list_done + int(count.sum())].long()
        graph = torch.arange(len(part)).repeat_interleave(count)
        places = int(size.sum())
        index = lists.index[place_done : place_done + places].long() + ptr[graph].repeat_interleave(size)
        distance = None if lists.distance is None else lists.distance[list_done : list_done + len(size)].long()
        plan, owner, *_ = expand_lists(
            kind, index, size, edge_index[[head, tail]], nodes, "source_to_target", distance
        )  # fmt: skip
        of_owner = torch.searchsorted(ptr, owner, right=True) - 1
        of_place = of_owner.repeat_interleave(plan.degree)
        slot = plan.edge if LISTS[kind].apart else torch.where(
            plan.edge < edges, plan.edge - edge_start[of_place], -1
        )  # fmt: skip
        counts = torch.stack(
            [torch.bincount(of_owner, minlength=len(part)), torch.bincount(of_place, minlength=len(part))]
        )
        yield counts, plan.degree, owner - ptr[of_owner], plan.neighbor - ptr[of_place], slot
        first, list_done, place_done, edge_done = (
            first + len(part), list_done + len(size), place_done + places, edge_done + edges,
        )  # fmt: skip
