"""CIN and SIN, networks on cells, of Bodnar, Frasca, Otter, Wang, Liò, Montúfar and Bronstein, 2021."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch_geometric.typing import OptTensor

from pggnn.baselines.baseline import refuse_block
from pggnn.lists import ListPlan
from pggnn.neighbourhoods import Lists
from pggnn.nn.blocks import ListPlans, glorot_linear
from pggnn.nn.model import Level, Network, Norm
from pggnn.nn.norm import masked_rows, norm_layer
from pggnn.nn.readout import read_out, unpool
from pggnn.ops.operator import without_autocast
from pggnn.plan import Plan

DIMENSIONS = 3
"""Cells are nodes, edges, and rings or triangles."""


@dataclass(frozen=True)
class Complex:
    """The cells of a batch. An edge is one cell, however often and in which directions it is given; loops are none."""

    counts: tuple[int, int, int]
    """Cells of each dimension."""
    graph: list[Tensor]
    """Of each dimension the graph of each cell."""
    ends: Plan
    """Each edge's two nodes, the lower number first."""
    sides: Plan
    """Each ring's edges."""
    cell_of: Tensor
    """``[S]`` the edge in each of the plan's slots that is no loop, and …"""
    slot: Tensor
    """``[S]`` … which slot that is."""

    @classmethod
    def build(cls, plan: Plan, rings: ListPlan, batch: OptTensor = None) -> "Complex":
        """The cells of a batch; asks a GPU how many there are.

        Args:
            plan: The edges.
            rings: Each ring once, as :func:`pggnn.lists.read_lists` gives ``"ring-cells"``.
            batch: The graph that each node belongs to; one graph by default.
        """
        nodes = plan.num_nodes
        batch = plan.degree.new_zeros(nodes) if batch is None else batch
        low, high = torch.minimum(plan.center, plan.neighbor), torch.maximum(plan.center, plan.neighbor)
        slot = (low < high).nonzero().view(-1)
        keys, cell_of = torch.unique(low[slot] * nodes + high[slot], return_inverse=True)
        ends = torch.stack([keys // max(nodes, 1), keys % max(nodes, 1)], dim=1)
        member = rings.plan.neighbor
        before, inner = member.roll(1), torch.ones_like(member, dtype=torch.bool)
        inner = inner.index_fill(0, rings.plan.start, False)  # no edge leads to the first place of a ring
        sides = (torch.minimum(member, before) * nodes + torch.maximum(member, before))[inner]
        return cls(
            (nodes, len(keys), rings.plan.num_nodes), [batch, batch[ends[:, 0]], batch[rings.owner]],
            _bounded_by(ends.flatten(), torch.full_like(keys, 2), nodes),
            _bounded_by(torch.searchsorted(keys, sides), rings.plan.degree - 1, len(keys)), cell_of, slot,
        )  # fmt: skip

    def features(self, x: Tensor, plan: Plan, edge_attr: OptTensor = None) -> list[Tensor]:
        """The input of each dimension: node features, summed over the nodes of an edge and of a ring. Behind them are
        edge features, the mean over the ways that an edge is given, and their sum over a ring; zeros for nodes."""
        edges = x[self.ends.neighbor].unflatten(0, (-1, 2)).sum(1)
        rings = self.round(edges) / 2  # a node of a ring is on two of its edges
        found = [x, edges, rings]
        if edge_attr is not None:
            given = edge_attr.index_select(0, plan.edge[self.slot])
            own = read_out(given, self.cell_of, self.counts[1], "mean")
            more = [edge_attr.new_zeros(len(x), own.size(1)), own, self.round(own)]
            found = [torch.cat([one, other], dim=1) for one, other in zip(found, more, strict=True)]
        return found

    def round(self, edges: Tensor) -> Tensor:
        """``[R, C]`` the sum over the edges of each ring."""
        return self.sum_sides(unpool(edges, self.sides.neighbor, self.sides))

    def sum_sides(self, values: Tensor) -> Tensor:
        """``[R, C]`` the sum over the sides of each ring, of one value for each."""
        return read_out(values, self.sides.center, self.counts[2], "sum", self.sides)


def _bounded_by(member: Tensor, size: Tensor, cells: int) -> Plan:
    """The plan of cells with so many ``size`` of the cells of one dimension less, one after the other. Layers on it
    share what sums need."""
    reader = torch.repeat_interleave(size, output_size=len(member))
    return Plan.read_by(Lists(member, reader, torch.arange(len(member), device=member.device), size), cells)


class CIN(Network):
    """Messages between nodes, edges and rings (CW networks): each has features of its own in every layer.

    Edges are cells of dimension 1, and rings, the chordless cycles of up to ``data.rings`` nodes, of dimension 2. Cells
    hear from their boundary (an edge from its ends, a ring from its edges) and from those that they share a coface with
    (nodes along an edge, edges round a ring), see :class:`CellConv`. Scores are made from the three dimensions side by
    side, after each layer and of the input, which is this comparison's frame. Features of edges and rings start as the
    sums of those of their nodes, as its authors have it for molecules.

    Args:
        in_channels, hidden_channels, out_channels, num_layers, norm, edge_dim: As in
            :class:`~pggnn.baselines.baseline.Baseline`.
        level: With ``"node"`` only nodes are scored.
        **frame: As there, without a choice of ``block``.

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from pggnn import AddRings
        >>> from pggnn.baselines import CIN
        >>> from pggnn.lists import read_lists
        >>> edges = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
        >>> square = AddRings(max_size=6)(Data(x=torch.ones(4, 1), edge_index=edges))
        >>> lists = {"ring-cells": read_lists("ring-cells", square)}
        >>> CIN(1, 8, 2, num_layers=1).eval()(square.x, square.edge_index, lists=lists).shape
        torch.Size([1, 2])
    """

    recordable = False
    lists = ("ring-cells",)

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        num_layers: int = 4,
        level: Level = "graph",
        norm: Norm = "batch",
        edge_dim: int | None = None,
        **frame: Any,
    ) -> None:
        refuse_block(self, frame)
        widths = [in_channels + (edge_dim or 0), *[hidden_channels] * num_layers]
        convs = [CellConv(width, hidden_channels) for width in widths[:-1]]
        parts = DIMENSIONS if level == "graph" else 1
        super().__init__(convs, widths, out_channels, level, norm=norm, parts=parts, **frame)
        self.edge_dim = edge_dim
        self.norms = torch.nn.ModuleList(
            torch.nn.ModuleList(norm_layer(norm, hidden_channels) for _ in range(DIMENSIONS)) for _ in widths[1:]
        )

    def score(
        self, x: Tensor, plan: Plan, batch: OptTensor, edge_attr: OptTensor, batch_size: int | None, real: OptTensor,
        lists: ListPlans | None = None,
    ) -> Tensor:  # fmt: skip
        """The scores in one numbering; arguments as in :meth:`forward`."""
        (kind,) = self.lists
        if lists is None or kind not in lists:
            raise ValueError(f"{type(self).__name__} reads {kind}, which are missing: give lists={{{kind!r}: …}}")
        if (self.edge_dim is None) != (edge_attr is None):
            given = "missing" if edge_attr is None else "given"
            raise ValueError(f"edge_attr is {given}, but the network was made with edge_dim={self.edge_dim}")
        cells = Complex.build(plan, lists[kind], batch)
        size = 1 if batch is None else batch_size
        graphs = [(graph, size) if self.norm == "graph" else () for graph in cells.graph]
        layers = [cells.features(x, plan, edge_attr)]
        with masked_rows(self, real):
            for conv, norms in zip(self.convs, self.norms, strict=True):
                assert isinstance(norms, torch.nn.ModuleList)
                found = zip(norms, conv(layers[-1], cells), graphs, strict=True)
                layers.append([norm(one, *where).relu() for norm, one, where in found])
        with without_autocast(x):
            if self.level == "node":
                return self.add_up(self.scored([nodes for nodes, _, _ in layers]))
            size = _graphs(batch) if size is None else size
            cells_of_all = zip(zip(*layers, strict=True), cells.graph, strict=True)
            pooled = [self.read_all(states, graph, size) for states, graph in cells_of_all]
            return self.add_up([torch.cat(one, dim=1) for one in zip(*pooled, strict=True)])


class SIN(CIN):
    """The same network on triangles instead of rings (message passing simplicial networks): cliques up to dimension 2.

    Args: see :class:`CIN`; the lists are of the kind ``"triangle-cells"``, whose attributes are ``triangle_index`` and
        ``triangle_size``, as :func:`pggnn.search.find_rings` gives those of ``max_size=3``.

    Example:
        >>> from pggnn.baselines import SIN
        >>> from pggnn.data.sets.classic import coloured_pair
        >>> from pggnn.lists import read_lists
        >>> from pggnn.search import find_rings
        >>> _, graph = coloured_pair()
        >>> graph.triangle_index, graph.triangle_size = find_rings(graph.edge_index, graph.num_nodes, max_size=3)
        >>> lists = {"triangle-cells": read_lists("triangle-cells", graph)}
        >>> SIN(2, 8, 1, num_layers=1).eval()(graph.x, graph.edge_index, lists=lists).shape
        torch.Size([1, 1])
    """

    lists = ("triangle-cells",)


class CellConv(torch.nn.Module):
    r"""One layer on cells (Section 4 of the paper on CW networks), with weights of its own for each dimension:

    .. math::
        \mathbf{h}'_\sigma = \mathbf{W} \left[
        m_\mathcal{B}\left(\mathbf{h}_\sigma + \sum_{\tau \in \mathcal{B}(\sigma)} \mathbf{h}_\tau\right) \,\Vert\,
        m_\uparrow\left(\mathbf{h}_\sigma + \sum_{\tau \in \mathcal{N}_\uparrow(\sigma)} \sum_{\delta \in
        \mathcal{C}(\sigma, \tau)} \mathrm{ReLU}(\mathbf{V} [\mathbf{h}_\tau \,\Vert\, \mathbf{h}_\delta])\right)
        \right] + \mathbf{b}

    over the boundary of a cell, and over the cells that share a coface with it. A ring of k edges has k messages, one
    from each edge: an edge hears their sum without its own, so k² pairs take the time of k.

    Args:
        in_channels, out_channels: Size of each cell's features before and after.
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.message = torch.nn.ModuleList(
            torch.nn.Sequential(glorot_linear(2 * in_channels, in_channels), torch.nn.ReLU())
            for _ in range(DIMENSIONS - 1)
        )
        self.boundary, self.upper = (
            torch.nn.ModuleList(_mlp(in_channels, out_channels) for _ in range(DIMENSIONS)) for _ in range(2)
        )
        self.combine = torch.nn.ModuleList(glorot_linear(2 * out_channels, out_channels) for _ in range(DIMENSIONS))

    def forward(self, states: Sequence[Tensor], cells: Complex) -> list[Tensor]:
        """New features of nodes, edges and rings."""
        nodes, edges, rings = states
        (along, around), ends, sides = self.message, cells.ends, cells.sides
        at_ends = unpool(nodes, ends.neighbor, ends).unflatten(0, (-1, 2))
        sent = along(torch.cat([at_ends, edges.unsqueeze(1).expand(-1, 2, -1)], dim=2)).flip(1)  # to the other end
        heard = nodes + read_out(sent.flatten(0, 1), ends.neighbor, len(nodes), "sum", ends)
        at_sides = unpool(edges, sides.neighbor, sides)
        told = around(torch.cat([at_sides, unpool(rings, sides.center, sides)], dim=1))
        others = unpool(cells.sum_sides(told), sides.center, sides) - told
        around_edges = edges + read_out(others, sides.neighbor, len(edges), "sum", sides)
        below = [nodes, edges + at_ends.sum(1), rings + cells.sum_sides(at_sides)]
        above = [heard, around_edges, rings]
        parts = zip(self.boundary, below, self.upper, above, self.combine, strict=True)
        return [join(torch.cat([one(lower), other(upper)], dim=1)) for one, lower, other, upper, join in parts]


def _mlp(in_channels: int, out_channels: int) -> torch.nn.Sequential:
    """Two layers, each normalised and with a ReLU."""
    layers: list[torch.nn.Module] = []
    for width in (in_channels, out_channels):
        layers += [glorot_linear(width, out_channels), norm_layer("batch", out_channels), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers)


def _graphs(batch: OptTensor) -> int:
    """Number of graphs, where nobody says it."""
    return 1 if batch is None or len(batch) == 0 else int(batch.max()) + 1
