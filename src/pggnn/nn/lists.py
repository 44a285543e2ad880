"""Layers that read lists: ``RingConv``, ``PathConv``, ``HopConv`` and ``ListConv``, on the base of ``PGConv``."""

from typing import Any, ClassVar

import torch
from torch import Tensor
from torch_geometric.typing import OptTensor

from pggnn.cells import CELLS, is_integer
from pggnn.lists import ListPlan
from pggnn.nn.conv import SequenceConv, check_type
from pggnn.nn.readout import edge_rows, read_out, unpool
from pggnn.ops import group_recurrence
from pggnn.orderings import Orderings, Reading, Reduce, read
from pggnn.plan import Plan, as_plan


class ListConv(SequenceConv):
    r"""Reads each node's lists with an RNN, and adds up what it has read:

    .. math::
        \mathbf{x}^{\prime}_v = \sum_{(v, u_1, \ldots, u_n)} \mathrm{RNN}(\mathbf{x}_v, \mathbf{x}_{u_1}, \ldots,
        \mathbf{x}_{u_n}) + \mathbf{W}_{\mathrm{root}} \mathbf{x}_v

    The lists are :func:`pggnn.lists.read_lists` of a graph or batch. Where two consecutive nodes are joined by an edge,
    its features enter the gates of the step from one to the other.

    Args:
        in_channels: Size of each node's features, ``-1`` to take it from the first input.
        out_channels: Size of each output, the RNN's hidden size.
        cell, num_layers, edge_dim, backend, workspace, flow: As in :class:`~pggnn.nn.PGConv`.
        structure: Number of bits that tell the RNN, at each step, which of the nodes read just before are adjacent to
            this one: the chords of a ring. Bit 1 is about the place before, which an edge leads from anyway.

    Shapes:
        - **input:** node features :math:`(|\mathcal{V}|, F_{in})`, a :class:`~pggnn.lists.ListPlan`,
          edge features :math:`(|\mathcal{E}|, D)` *(optional)*
        - **output:** node features :math:`(|\mathcal{V}|, F_{out})`

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from pggnn.lists import read_lists
        >>> from pggnn.nn import ListConv
        >>> data = Data(x=torch.randn(4, 8), edge_index=torch.tensor([[0, 1, 2], [1, 2, 3]]))
        >>> # node 0 reads nodes 2 and 3, node 1 reads node 3
        >>> data.list_index, data.list_size = torch.tensor([0, 2, 3, 1, 3]), torch.tensor([3, 2])
        >>> ListConv(8, 16)(data.x, read_lists("lists", data)).shape
        torch.Size([4, 16])
    """

    kind: ClassVar[str] = "lists"

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        cell: str = "lstm",
        num_layers: int | None = None,
        edge_dim: int | None = None,
        backend: str = "auto",
        workspace: int | None = None,
        flow: str = "source_to_target",
        structure: int = 0,
        reading: Reading | None = None,
    ) -> None:
        if isinstance(in_channels, (tuple, list)):
            raise ValueError(f"in_channels must be one number: lists have nodes of one kind, got {in_channels!r}")
        super().__init__(
            in_channels, out_channels, Reading("trivial", "open") if reading is None else reading, cell, num_layers,
            edge_dim=edge_dim, backend=backend, workspace=workspace, flow=flow, structure=structure,
        )  # fmt: skip

    def forward(  # type: ignore[override]
        self, x: Tensor, lists: ListPlan, edge_attr: OptTensor = None, adjacency: Plan | None = None
    ) -> Tensor:
        """Runs the layer.

        Args:
            x: Node features.
            lists: What is read.
            edge_attr: Edge features, if the layer has an ``edge_dim``.
            adjacency: The plan of the graph's edges, if the layer has structural bits.
        """
        self._check(x, lists, edge_attr, adjacency)
        if self.training and self.numbering == "random":
            lists = lists._replace(plan=lists.plan.renumbered())
        gates, rows, root = self._list_rows(self.rnn(x), lists, edge_attr)
        center = None if self.lin_center is None else unpool(self.lin_center(x), lists.owner, lists)
        found = group_recurrence(
            gates, self.rnn.recurrent_weights, lists.plan, rows=rows, root=root, reading=self.reading,
            cell=self.cell, workspace=self.workspace, backend=self.backend, structure=self._structure_rows(),
            adjacency=adjacency, center=center,
        )  # fmt: skip
        if self.reading.rescale or self.reading.mean:
            found = found * self.reading.scale(lists.plan.degree, found.dtype).unsqueeze(-1)
        if lists.times is None:
            out = read_out(found, lists.owner, x.size(0), "sum", lists)
        else:
            out = torch.sparse.mm(lists.times.to(found.dtype), found)
        return out if self.lin_root is None else out + self.lin_root(x)

    def _list_rows(self, gates: Tensor, lists: ListPlan, edge_attr: OptTensor) -> tuple[Tensor, Tensor, int]:
        """The rows the RNN reads: where there are edge features of each edge, with those of the node that it leads to,
        then of each node; the row of each place; and the first owner's row."""
        if self.lin_edge is None or edge_attr is None:
            return gates, lists.plan.neighbor, 0
        rows = edge_rows(gates, self.lin_edge(edge_attr), lists.head, lists)
        return rows, lists.plan.derived(_rows_of_edges, len(edge_attr)), len(edge_attr)

    def _check(self, x: Tensor, lists: ListPlan, edge_attr: OptTensor, adjacency: Plan | None) -> None:
        """Refuses what does not fit."""
        if not isinstance(lists, ListPlan):
            raise TypeError(
                f"{type(self).__name__} reads a ListPlan, got {type(lists).__name__}: "
                f'use pggnn.lists.read_lists("{self.kind}", data)'
            )
        plan, weights, channels = lists.plan, self.rnn.weight_ih_l0.dtype, self.rnn.input_size
        if plan.flow != self.flow:
            raise ValueError(
                f"the lists were read with flow={plan.flow!r}, but the layer has flow={self.flow!r}; "
                f'use read_lists("{self.kind}", data, flow={self.flow!r})'
            )
        if plan.degree.device != x.device:
            raise ValueError(f"lists are on {plan.degree.device}, but features on {x.device}; use .to()")
        if x.dim() != 2 or x.size(0) != plan.num_neighbors or (channels != -1 and x.size(1) != channels):
            wanted = f"[{plan.num_neighbors}, {'channels' if channels == -1 else channels}]"
            raise ValueError(f"x must have shape {wanted}, got {list(x.shape)}")
        check_type("node features", x, weights)
        if (self.edge_dim is None) != (edge_attr is None):
            given = "missing" if edge_attr is None else "given"
            raise ValueError(f"edge_attr is {given}, but the layer was made with edge_dim={self.edge_dim}")
        if edge_attr is not None:
            if list(edge_attr.shape) != [len(lists.head), self.edge_dim]:
                raise ValueError(
                    f"edge_attr must have shape [{len(lists.head)}, {self.edge_dim}], got {list(edge_attr.shape)}"
                )
            check_type("edge features", edge_attr, weights)
        if not self.structure:
            return
        if not isinstance(adjacency, Plan):
            given = "none" if adjacency is None else type(adjacency).__name__
            raise ValueError(
                f"structural bits need the plan of the graph's edges: give adjacency=Plan.build(edge_index, "
                f"num_nodes, flow={self.flow!r}), got {given}"
            )
        as_plan(adjacency, x.size(0), self.flow)  # an error where flows differ
        if adjacency.num_nodes != x.size(0):
            raise ValueError(f"adjacency must be the plan of {x.size(0)} nodes, got {adjacency}")


class RingConv(ListConv):
    r"""Reads each ring of a node in both directions, from the node round to itself:

    .. math::
        \mathbf{x}^{\prime}_v = \sum_{(v, u_1, \ldots, u_n) \in \mathrm{rings}(v)}
        \mathrm{RNN}(\mathbf{x}_v, \mathbf{x}_{u_1}, \ldots, \mathbf{x}_{u_n}, \mathbf{x}_v) +
        \mathrm{RNN}(\mathbf{x}_v, \mathbf{x}_{u_n}, \ldots, \mathbf{x}_{u_1}, \mathbf{x}_v)
        + \mathbf{W}_{\mathrm{root}} \mathbf{x}_v

    Over all members of a ring these are the rotations and reflections of the dihedral group: where a stored ring begins
    and which way it goes does not matter. Arguments as in :class:`ListConv`.

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from pggnn import AddRings
        >>> from pggnn.lists import read_lists
        >>> from pggnn.nn import RingConv
        >>> data = AddRings()(Data(x=torch.randn(4, 8), edge_index=torch.tensor([[0, 1, 2, 2], [1, 2, 0, 3]])))
        >>> RingConv(8, 16)(data.x, read_lists("rings", data)).shape
        torch.Size([4, 16])
    """

    kind = "rings"


class OneWayRingConv(ListConv):
    """:class:`RingConv` with one of the two directions, that in which a ring is stored. A control."""

    kind = "rings-one-way"


class RingSetConv(ListConv):
    """:class:`RingConv` with as many steps and weights, which reads at each step but the first the mean over the ring:
    the order of its members cannot matter. A control."""

    kind = "ring-sets"

    def _list_rows(self, gates: Tensor, lists: ListPlan, edge_attr: OptTensor) -> tuple[Tensor, Tensor, int]:
        """Rows of nodes, and behind them the mean of each sequence."""
        rows, places, _ = super()._list_rows(gates, lists, edge_attr)
        plan = lists.plan
        read, first = unpool(rows, places, plan), plan.derived(_is_first).unsqueeze(-1)
        total = read_out(read * ~first, plan.center, plan.num_nodes, "sum", plan)
        mean = total / (plan.degree - 1).clamp(min=1).to(total.dtype).unsqueeze(-1)
        return torch.cat([gates, mean]), plan.derived(_sequence_rows), 0


class PathConv(ListConv):
    r"""Reads each path that ends at a node, from its other end to that node. Every path is read both ways, once for
    each end, so which way it was stored does not matter. Arguments as in :class:`ListConv`.

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from pggnn import AddPaths
        >>> from pggnn.lists import read_lists
        >>> from pggnn.nn import PathConv
        >>> data = AddPaths(length=2)(Data(x=torch.randn(4, 8), edge_index=torch.tensor([[0, 1, 2], [1, 2, 3]])))
        >>> PathConv(8, 16)(data.x, read_lists("paths", data)).shape
        torch.Size([4, 16])
    """

    kind = "paths"


class HopConv(ListConv):
    r"""Reads the nodes at each distance from a node as :class:`~pggnn.nn.PGConv` reads neighbours, and adds them up:

    .. math::
        \mathbf{x}^{\prime}_v = \sum_{d=1}^{D} \sum_{g \in \mathfrak{G}} \mathrm{RNN}(\mathbf{x}_v,
        \mathbf{x}_{g u_1} + \mathbf{e}_d, \ldots, \mathbf{x}_{g u_n} + \mathbf{e}_d, \mathbf{x}_v)

    where :math:`u_1, \ldots, u_n` are the nodes at distance d. The vector of a distance enters the gates; all beyond D
    have that of D.

    Args:
        in_channels, out_channels: As in :class:`ListConv`.
        hops: The largest distance D.
        orderings, reduce, group: As in :class:`~pggnn.nn.PGConv`.
        **kwargs: Further arguments of :class:`ListConv`, without ``edge_dim``.

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from pggnn import AddHops
        >>> from pggnn.lists import read_lists
        >>> from pggnn.nn import HopConv
        >>> data = AddHops(hops=2)(Data(x=torch.randn(3, 8), edge_index=torch.tensor([[0, 1], [1, 2]])))
        >>> HopConv(8, 16, hops=2)(data.x, read_lists("hops", data)).shape
        torch.Size([3, 16])
    """

    kind = "hops"

    def __init__(
        self, in_channels: int, out_channels: int, hops: int = 2, orderings: Orderings = "group",
        reduce: Reduce = "sum", group: str = "pairs", **kwargs: Any,
    ) -> None:  # fmt: skip
        if not is_integer(hops, 1):
            raise ValueError(f"hops must be an integer ≥ 1, got {hops!r}")
        if kwargs.get("edge_dim") is not None:
            raise ValueError(f"no edge leads to a node at a distance: leave edge_dim out, got {kwargs['edge_dim']}")
        super().__init__(in_channels, out_channels, reading=read(orderings, group, "merged", reduce), **kwargs)
        if orderings == "random":
            self.numbering = "random"
        self.hops = hops
        self.distance = torch.nn.Parameter(torch.empty(hops, CELLS[self.cell].gates * out_channels))
        torch.nn.init.normal_(self.distance, std=0.1)

    def reset_parameters(self) -> None:
        super().reset_parameters()
        torch.nn.init.normal_(self.distance, std=0.1)

    def _list_rows(self, gates: Tensor, lists: ListPlan, edge_attr: OptTensor) -> tuple[Tensor, Tensor, int]:
        """A row of each node at each distance, then those of the owners."""
        at = (gates + self.distance.unsqueeze(1)).flatten(0, 1)
        rows = lists.plan.derived(_distance_rows, self.hops)
        return torch.cat([at, unpool(gates, lists.owner, lists)]), rows, len(at)


def _rows_of_edges(plan: Plan, edges: int) -> Tensor:
    """The row of each place: rows of edges come first, and behind them those of nodes."""
    return torch.where(plan.edge < edges, plan.edge, edges + plan.neighbor)


def _is_first(plan: Plan) -> Tensor:
    """Whether a place is the first of its sequence."""
    return torch.arange(plan.num_edges, device=plan.center.device) == plan.start.index_select(0, plan.center)


def _sequence_rows(plan: Plan) -> Tensor:
    """The row of each place: that of its node at the first places, that of its sequence, behind those, at others."""
    return torch.where(_is_first(plan), plan.neighbor, plan.num_neighbors + plan.center)


def _distance_rows(plan: Plan, hops: int) -> Tensor:
    """The row of each place: rows of nodes at distance 1 come first, behind them those at distance 2, and so on."""
    return plan.edge.clamp(max=hops - 1) * plan.num_neighbors + plan.neighbor
