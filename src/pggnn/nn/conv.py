"""``PGConv``: the permutation-group aggregator as a PyTorch Geometric layer."""

from typing import Literal

import torch
from torch import Tensor
from torch_geometric.nn.conv import MessagePassing
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.typing import OptPairTensor, OptTensor, Size

from pggnn.cells import CELLS, LazyRecurrence, Recurrence, is_integer
from pggnn.nn.readout import edge_rows, unpool
from pggnn.ops import check_backend, group_recurrence
from pggnn.ops.structure import MOST_BITS
from pggnn.orderings import STRUCTURED, Frame, Orderings, Reading, Reduce, read
from pggnn.plan import Plan, as_plan, slot_numbers


class SequenceConv(MessagePassing):
    """A layer that reads sequences of neighbours with an RNN and sums its last hidden states.

    The base of :class:`PGConv` and of the paper's variants, which differ in the sequences they read.
    """

    def __init__(
        self,
        in_channels: int | tuple[int, int],
        out_channels: int,
        reading: Reading,
        cell: str = "lstm",
        num_layers: int | None = None,
        numbering: Literal["given", "random"] = "given",
        edge_dim: int | None = None,
        max_degree: int | None = None,
        backend: str = "auto",
        workspace: int | None = None,
        flow: str = "source_to_target",
        structure: int = 0,
        numberings: int = 1,
    ) -> None:
        super().__init__(aggr=None, flow=flow)
        if numbering not in ("given", "random"):
            raise ValueError(f'numbering must be "given" or "random", got {numbering!r}')
        check_backend(backend, workspace)
        for name, number in (("max_degree", max_degree), ("edge_dim", edge_dim)):
            if number is not None and not is_integer(number, 1):
                raise ValueError(f"{name} must be None or an integer ≥ 1, got {number!r}")
        if not is_integer(numberings, 1):
            raise ValueError(f"numberings must be an integer ≥ 1, got {numberings!r}")
        if not is_integer(structure, 0) or structure > MOST_BITS:
            raise ValueError(f"structure must be a number of earlier neighbours, 0 to {MOST_BITS}, got {structure!r}")
        if structure > 0 and reading.frame not in STRUCTURED:
            raise ValueError(f"structure is for the frames {', '.join(STRUCTURED)}, got {reading.frame!r}")
        channels = in_channels if isinstance(in_channels, tuple) else (in_channels, in_channels)
        if len(channels) != 2 or not all(is_integer(size, 1) or size == -1 for size in channels):
            raise ValueError(
                "in_channels must be at least 1, or -1 to take it from the first input, or a pair of such numbers, "
                f"got {in_channels!r}"
            )
        neighbors, centers = channels
        if reading.reads_root and neighbors != centers:
            raise ValueError(
                f"one RNN reads neighbours and centre, so both need the same number of channels, got {in_channels}; "
                'use root="linear" for different ones'
            )
        if num_layers is None:
            num_layers = 1 if cell == "linear" else 2
        self.in_channels, self.out_channels, self.reading = in_channels, out_channels, reading
        self.cell, self.num_layers, self.numbering = cell, num_layers, numbering
        self.edge_dim, self.max_degree, self.backend, self.workspace = edge_dim, max_degree, backend, workspace
        self.structure, self.numberings = structure, numberings
        self.rnn: Recurrence = (
            LazyRecurrence(out_channels, num_layers, cell)
            if neighbors == -1
            else Recurrence(neighbors, out_channels, num_layers, cell)
        )
        gate_channels, is_affine = CELLS[cell].gates * out_channels, CELLS[cell].affine is not None
        glorot = {"bias": False, "weight_initializer": "glorot"}
        self.lin_edge = None if edge_dim is None else Linear(edge_dim, gate_channels, **glorot)
        self.lin_center = Linear(centers, gate_channels, **glorot) if is_affine else None
        bit_channels = out_channels if is_affine else gate_channels
        self.lin_structure = None if structure == 0 else Linear(structure, bit_channels, **glorot)
        self.lin_root = None if reading.reads_root else Linear(centers, out_channels, **glorot)

    def reset_parameters(self) -> None:
        super().reset_parameters()
        self.rnn.reset_parameters()
        for linear in (self.lin_edge, self.lin_center, self.lin_structure, self.lin_root):
            if linear is not None:
                linear.reset_parameters()

    def forward(
        self, x: Tensor | OptPairTensor, edge_index: Tensor | Plan, edge_attr: OptTensor = None, size: Size = None
    ) -> Tensor:
        """Runs the layer.

        Args:
            x: Node features; a pair on bipartite graphs, in the order of the rows of ``edge_index``.
            edge_index: The edges, or the :class:`~pggnn.plan.Plan` built from them, with the same ``flow``.
            edge_attr: Edge features, if the layer has an ``edge_dim``.
            size: Numbers of nodes on bipartite graphs, where they do not follow from ``x``.
        """
        if self.explain:
            raise ValueError("there are no messages here for an explainer to mask: let it mask node features only")
        neighbor_x, center_x = self._split(x)
        plan = self._plan(edge_index, x, size)
        self.check(plan, neighbor_x, center_x, edge_attr)
        nodes = plan.num_nodes
        if self.numberings > 1:
            plan = plan.derived(Plan.repeated, self.numberings)
        if self.numberings > 1 or (self.training and self.numbering == "random"):
            plan = plan.renumbered()
        if self.max_degree is not None:
            plan = plan.derived(Plan.truncated, self.max_degree)
        gates, rows, root = self._gate_rows(plan, neighbor_x, center_x, edge_attr)
        out = group_recurrence(
            gates, self.rnn.recurrent_weights, plan, rows=rows, root=root, reading=self.reading,
            cell=self.cell, workspace=self.workspace, backend=self.backend,
            structure=self._structure_rows(), center=self._center_rows(center_x),
        )  # fmt: skip
        if self.numberings > 1:
            out = out.view(self.numberings, nodes, out.size(1)).mean(0)
        if self.reading.rescale or self.reading.mean:
            out = out * self.reading.scale(plan.degree[:nodes], out.dtype).unsqueeze(-1)
        if self.lin_root is not None and center_x is not None:
            out = out + self.lin_root(center_x)
        return out

    def _center_rows(self, center_x: Tensor | None) -> Tensor | None:
        """What each centre adds to the gates of its neighbours, where the cell is linear."""
        if self.lin_center is None or center_x is None:
            return None
        rows: Tensor = self.lin_center(center_x)
        return rows if self.numberings == 1 else rows.repeat(self.numberings, 1)

    def _structure_rows(self) -> Tensor | None:
        """What each structural bit adds to the gates; where the cell is linear, to its input b alone."""
        return None if self.lin_structure is None else self.lin_structure.weight.t()

    def _gate_rows(
        self, plan: Plan, neighbor_x: Tensor, center_x: Tensor | None, edge_attr: OptTensor
    ) -> tuple[Tensor, Tensor, int]:
        """The rows the RNN reads, the row of each slot, and the first centre's row: one row per node or, where edge
        features enter the gates of a neighbour, one per edge followed by one per centre."""
        gates: Tensor = self.rnn(neighbor_x)
        needs_root = self.reading.reads_root and center_x is not None
        centers = self.rnn(center_x) if needs_root and center_x is not neighbor_x else gates
        if needs_root and self.numberings > 1:
            centers = centers.repeat(self.numberings, 1)
        if self.lin_edge is not None and edge_attr is not None:
            features, rows = self.lin_edge(edge_attr.index_select(0, plan.edge)), plan.derived(slot_numbers)
            if needs_root and centers is gates:
                return edge_rows(gates, features, plan.neighbor, plan), rows, plan.num_edges
            edges = unpool(gates, plan.neighbor, plan) + features
            return (torch.cat([edges, centers]), rows, plan.num_edges) if needs_root else (edges, rows, 0)
        if centers is not gates:
            return torch.cat([gates, centers]), plan.neighbor, gates.size(0)
        return gates, plan.neighbor, 0

    def _split(self, x: Tensor | OptPairTensor) -> tuple[Tensor, Tensor | None]:
        """Features of the neighbours and of the centres."""
        if isinstance(x, Tensor):
            return x, x
        if not isinstance(x, (tuple, list)) or len(x) != 2:
            raise TypeError(f"x must be a tensor or a pair of tensors, got {type(x).__name__}")
        neighbor_x, center_x = x if self.flow == "source_to_target" else reversed(x)
        if neighbor_x is None:
            raise ValueError("the features of the neighbours are missing: give both tensors of the pair")
        if center_x is None and self.reading.reads_root:
            raise ValueError(
                "the features of the centre nodes are missing, and this layer reads them; "
                'give both tensors of the pair, or use root="linear"'
            )
        return neighbor_x, center_x

    def _plan(self, edge_index: Tensor | Plan, x: Tensor | OptPairTensor, size: Size) -> Plan:
        num_nodes: int | tuple[int, int] = 0
        if isinstance(edge_index, Plan):
            pass
        elif isinstance(x, Tensor):
            num_nodes = x.size(0) if size is None else (size[0], size[1])
        elif size is not None:
            num_nodes = size[0], size[1]
        elif x[0] is None or x[1] is None:
            raise ValueError("size is needed where one tensor of the pair is None")
        else:
            num_nodes = x[0].size(0), x[1].size(0)
        return as_plan(edge_index, num_nodes, self.flow)

    def check(self, plan: Plan, neighbor_x: Tensor, center_x: Tensor | None, edge_attr: OptTensor) -> None:
        """Refuses what does not fit the layer or the plan, and says what would."""
        weights = self.rnn.weight_ih_l0.dtype
        if plan.degree.device != neighbor_x.device:
            raise ValueError(f"edges are on {plan.degree.device}, but features on {neighbor_x.device}; use .to()")
        for name, tensor, nodes, channels in (
            ("neighbours", neighbor_x, plan.num_neighbors, self.rnn.input_size),
            ("centre nodes", center_x, plan.num_nodes, self.lin_root.in_channels if self.lin_root else -1),
        ):
            if tensor is None:
                continue
            if tensor.dim() != 2 or tensor.size(0) != nodes or (channels != -1 and tensor.size(1) != channels):
                wanted = f"[{nodes}, {'channels' if channels == -1 else channels}]"
                raise ValueError(f"features of the {name} must have shape {wanted}, got {list(tensor.shape)}")
            check_type(f"features of the {name}", tensor, weights)
        if self.lin_root is None and center_x is not None and center_x.size(1) != neighbor_x.size(1):
            raise ValueError(
                "one RNN reads neighbours and centre, so both need the same number of channels, got "
                f'{neighbor_x.size(1)} and {center_x.size(1)}; use root="linear" for different ones'
            )
        if self.structure > 0 and neighbor_x is not center_x:
            raise ValueError(
                "structure asks which neighbours are neighbours of each other, so they must be the nodes of x, got "
                "features of neighbours and of centres apart (a bipartite graph); give one tensor, or use structure=0"
            )
        if self.edge_dim is None:
            if edge_attr is not None:
                raise ValueError("edge_attr was given, but the layer was made without edge_dim; set edge_dim to use it")
        elif edge_attr is None:
            raise ValueError(f"edge_attr is missing: the layer was made with edge_dim={self.edge_dim}")
        elif list(edge_attr.shape) != [plan.num_edges, self.edge_dim]:
            raise ValueError(
                f"edge_attr must have shape [{plan.num_edges}, {self.edge_dim}], got {list(edge_attr.shape)}"
            )
        else:
            check_type("features of the edges", edge_attr, weights)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.in_channels}, {self.out_channels}, cell={self.cell!r})"


def check_type(what: str, tensor: Tensor, weights: torch.dtype) -> None:
    """Refuses what cannot be multiplied by the weights: autocast leaves float64 as it is."""
    if not tensor.is_floating_point():
        raise TypeError(f"{what} must be floating-point, got {tensor.dtype}; use .float()")
    wide = torch.double in (tensor.dtype, weights)
    if tensor.dtype != weights and (wide or not torch.is_autocast_enabled(tensor.device.type)):
        raise TypeError(
            f"{what} are {tensor.dtype}, but the layer's weights {weights}; "
            f"turn one of them into the other's type{'' if wide else ', or use torch.autocast'}"
        )


class PGConv(SequenceConv):
    r"""The permutation-group aggregator of `"Going Deeper into Permutation-Sensitive Graph Neural Networks"
    <https://arxiv.org/abs/2205.14368>`_, which sees how a node's neighbours relate to each other.

    For a node :math:`v` with neighbours :math:`u_1, \ldots, u_n`, an RNN reads them in every arrangement of the cyclic
    group :math:`\mathfrak{G} = \langle\sigma\rangle` (Eq. 2), which brings each pair of neighbours next to each other
    with the fewest arrangements possible, and its last hidden states are summed:

    .. math::
        \mathbf{x}^{\prime}_v = \sum_{g \in \mathfrak{G}}
        \mathrm{RNN}(\mathbf{x}_v, \mathbf{x}_{g u_1}, \ldots, \mathbf{x}_{g u_n}, \mathbf{x}_v)

    or, with ``root="linear"`` (Eq. 3),

    .. math::
        \mathbf{x}^{\prime}_v = \sum_{g \in \mathfrak{G}}
        \mathrm{RNN}(\mathbf{x}_{g u_1}, \ldots, \mathbf{x}_{g u_n}, \mathbf{x}_{g u_1})
        + \mathbf{W}_{\mathrm{root}} \mathbf{x}_v

    The neighbours' numbering is the order of the node's edges in ``edge_index``, and the output depends on it.
    Duplicate edges are read as neighbours of their own; a self-loop makes :math:`v` one of its own neighbours; neither
    is added or removed. A node without neighbours reads :math:`(\mathbf{x}_v, \mathbf{x}_v)`, or nothing with
    ``root="linear"``.

    Args:
        in_channels: Size of each node's features, ``-1`` to take it from the first input; with ``root="linear"`` a
            tuple for (neighbours, centres).
        out_channels: Size of each output, the RNN's hidden size.
        cell: ``"lstm"``, ``"gru"`` or ``"srn"``; also ``"srn-relu"`` and ``"srn-identity"``. ``"linear"`` is
            :math:`h \leftarrow a \odot h + b`. Its gate :math:`a` (sigmoid) and input :math:`b` (ReLU) come from the
            neighbour, its edge and the centre (``lin_center``). The sum over the whole group then takes O(n) steps
            instead of O(n²), with ``root="merged"`` and at most one structural bit; see ``docs/linear.md``.
        num_layers: Number of stacked RNN layers: 2 by default. The cell ``"linear"`` has 1.
        orderings: ``"group"``, the paper's sum over the whole group; ``"single"``, one pass in the given numbering; an
            integer K for K evenly spaced elements of the group, their sum scaled by :math:`|\mathfrak{G}| / K` (exact
            where :math:`|\mathfrak{G}| \leq K`, and unbiased over random numberings otherwise); ``"random"``, one pass
            in a fresh random order each training step (π-SGD), the same as ``"single"`` with ``numbering="random"``.
        root: ``"merged"`` or ``"linear"``, see above.
        numbering: ``"given"``, or ``"random"`` to draw a fresh numbering each training step.
        edge_dim: Size of the edge features, which then enter the gates of the step that reads the neighbour.
        max_degree: Read at most this many neighbours of each node, the first by their numbering; together with
            ``numbering="random"`` that is a fresh sample each training step.
        backend: ``"auto"``, ``"triton"``, ``"packed"`` or ``"reference"``, see :func:`pggnn.ops.group_recurrence`.
        workspace: Bytes that a call may use for intermediate states, see :func:`pggnn.ops.group_recurrence`.
        flow: ``"source_to_target"`` (the sources of incoming edges are the neighbours) or ``"target_to_source"``.
        structure: Number of bits that tell the RNN, at each step, which of the neighbours read just before this one
            are adjacent to it. They enter the gates (``lin_structure``), of the cell ``"linear"`` only :math:`b`: 1 for
            pairs of neighbours (triangles), 2 for triples (4-cliques), up to 32. Raw adjacency, no node identities; see
            :mod:`pggnn.ops.structure`.
        numberings: Take the mean over this many random numberings K, in training and evaluation alike: K times the
            work, and 1/K of the variance that the numbering causes.
        reduce: ``"sum"`` over the arrangements, as above, or ``"mean"``: what a node gives then does not grow with its
            degree, but does not count either.
        group: In which orders: ``"pairs"``, 𝔊 of Eq. 2; ``"dihedral"``, the rotations of the neighbours in their
            numbering, and back; ``"all"``, every order, for at most 5 neighbours: the output then does not depend on
            their numbering; ``"trivial"``, the given order alone.

    Shapes:
        - **input:** node features :math:`(|\mathcal{V}|, F_{in})` or
          :math:`((|\mathcal{V}_s|, F_s), (|\mathcal{V}_t|, F_t))` if bipartite,
          edge indices :math:`(2, |\mathcal{E}|)` or a :class:`~pggnn.plan.Plan`,
          edge features :math:`(|\mathcal{E}|, D)` *(optional)*
        - **output:** node features :math:`(|\mathcal{V}|, F_{out})` or :math:`(|\mathcal{V}_t|, F_{out})` if bipartite

    The recurrent weights are in ``conv.rnn``, whose state dict is that of ``torch.nn.LSTM``, ``GRU`` or ``RNN``; of
    the cell ``"linear"`` it has the input weights alone.

    Example:
        >>> import torch
        >>> from pggnn import PGConv
        >>> edges = torch.tensor([[0, 1, 1, 2, 2, 0, 2, 3], [1, 0, 2, 1, 0, 2, 3, 2]])  # a triangle, and node 3
        >>> conv = PGConv(8, 16, cell="gru")
        >>> conv(torch.randn(4, 8), edges).shape
        torch.Size([4, 16])
        >>> conv
        PGConv(8, 16, cell='gru', num_layers=2, orderings='group', root='merged')
    """

    def __init__(
        self,
        in_channels: int | tuple[int, int],
        out_channels: int,
        cell: str = "lstm",
        num_layers: int | None = None,
        orderings: Orderings = "group",
        root: Literal["merged", "linear"] = "merged",
        numbering: Literal["given", "random"] = "given",
        edge_dim: int | None = None,
        max_degree: int | None = None,
        backend: str = "auto",
        workspace: int | None = None,
        flow: str = "source_to_target",
        structure: int = 0,
        numberings: int = 1,
        reduce: Reduce = "sum",
        group: str = "pairs",
    ) -> None:
        frames: dict[str, Frame] = {"merged": "merged", "linear": "closed"}
        if not isinstance(root, str) or root not in frames:
            raise ValueError(f'root must be "merged" or "linear", got {root!r}')
        super().__init__(
            in_channels, out_channels, read(orderings, group, frames[root], reduce), cell, num_layers, numbering,
            edge_dim, max_degree, backend, workspace, flow, structure, numberings,
        )  # fmt: skip
        if orderings == "random":
            self.numbering = "random"
        self.orderings, self.root, self.reduce, self.group = orderings, root, reduce, group

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.in_channels}, {self.out_channels}, cell={self.cell!r}, "
            f"num_layers={self.num_layers}, orderings={self.orderings!r}, root={self.root!r}"
            + (f", structure={self.structure}" if self.structure else "")
            + (f", reduce={self.reduce!r}" if self.reduce != "sum" else "")
            + (f", group={self.group!r})" if self.group != "pairs" else ")")
        )
