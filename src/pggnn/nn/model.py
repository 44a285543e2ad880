"""``PGGNN``: the paper's network for node-level and graph-level tasks, and the frame it shares with its rivals."""

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.functional import dropout
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.nn.norm import BatchNorm
from torch_geometric.typing import OptTensor

from pggnn.nn.conv import PGConv, SequenceConv
from pggnn.nn.labels import permute, permute_columns
from pggnn.nn.norm import GraphNorm, RowNorm, counting
from pggnn.nn.readout import READOUTS, SIDE_BY_SIDE, check_batch, check_graphs, read_out
from pggnn.nn.variants import ChainConv, PairConv, TrioConv, TripletConv
from pggnn.ops.operator import without_autocast
from pggnn.plan import Plan, as_plan

Level = Literal["graph", "node"]
Readout = Literal["sum", "mean", "both", "log"]
Scores = Literal["all", "last"]
Norm = Literal["batch", "graph"]
AGGREGATIONS: dict[str, type[SequenceConv]] = {
    "arrangements": PGConv, "pairs": PairConv, "triplets": TripletConv, "trios": TrioConv, "chain": ChainConv,
}  # fmt: skip


class Network(torch.nn.Module):
    r"""Aggregations, each with normalisation and ReLU, and a score from every layer, the input included (Eq. 5).

    The base of :class:`PGGNN` and of the models it is compared with, which differ in their aggregations.

    Args:
        convs: The aggregations, called as ``conv(x, plan, edge_attr)`` with a :class:`~pggnn.plan.Plan`.
        widths: Size of the features before each aggregation and after the last.
        out_channels: Number of scores: classes, or targets of a regression.
        level: ``"graph"`` for a score per graph, ``"node"`` for one per node.
        readout: ``"sum"`` or ``"mean"`` over the nodes of a graph, or ``"both"``, side by side; ``"log"`` is both, with
            the sum on a logarithmic scale (asinh).
        dropout: Dropout on the scores of each layer.
        flow: Which side of an edge is the neighbour, where plans are built here.
        scores: ``"all"`` for a score from every layer, ``"last"`` for one from the last alone.
        norm: ``"batch"`` for batch normalisation, ``"graph"`` for PyG's ``GraphNorm``, over the nodes of each graph.
    """

    def __init__(
        self,
        convs: Sequence[torch.nn.Module],
        widths: Sequence[int],
        out_channels: int,
        level: Level = "graph",
        readout: Readout = "sum",
        dropout: float = 0.0,
        flow: str = "source_to_target",
        scores: Scores = "all",
        norm: Norm = "batch",
    ) -> None:
        super().__init__()
        if len(convs) < 1 or out_channels < 1:
            raise ValueError(f"num_layers and out_channels must be at least 1, got {len(convs)} and {out_channels}")
        if level not in ("graph", "node"):
            raise ValueError(f'level must be "graph" or "node", got {level!r}')
        if readout not in READOUTS:
            raise ValueError(f"readout must be one of {', '.join(map(repr, READOUTS))}, got {readout!r}")
        if scores not in ("all", "last"):
            raise ValueError(f'scores must be "all" or "last", got {scores!r}')
        if norm not in ("batch", "graph"):
            raise ValueError(f'norm must be "batch" or "graph", got {norm!r}')
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout must be in [0, 1), got {dropout}")
        self.level, self.readout, self.dropout, self.flow = level, readout, dropout, flow
        self.convs = torch.nn.ModuleList(convs)
        self.norm = norm
        self.norms = torch.nn.ModuleList(GraphNorm(w) if norm == "graph" else _batch_norm(w) for w in widths[1:])
        readouts = 2 if level == "graph" and readout in SIDE_BY_SIDE else 1
        self.scores = torch.nn.ModuleList(
            Linear(
                readouts * width if width > 0 else -1,
                out_channels,
                weight_initializer="glorot",
                bias_initializer="zeros",
            )
            for width in (widths if scores == "all" else widths[-1:])
        )

    def reset_parameters(self) -> None:
        for module in (*self.convs, *self.norms, *self.scores):
            module.reset_parameters()

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor | Plan,
        batch: OptTensor = None,
        edge_attr: OptTensor = None,
        batch_size: int | None = None,
        real: OptTensor = None,
    ) -> Tensor:
        """Scores each graph or node.

        Args:
            x: Node features.
            edge_index: The edges, or the :class:`~pggnn.plan.Plan` built from them, which all layers share.
            batch: The graph that each node belongs to; one graph by default. A number that is negative or not below
                ``batch_size`` is an error, which on a GPU is looked for only where ``batch_size`` is not given.
            edge_attr: Edge features, if the model was made with ``edge_dim``.
            batch_size: Number of graphs, where it is known: saves a host synchronisation.
            real: Which nodes batch normalisation is to take its statistics from; all by default.
        """
        check_batch(batch, x)
        check_graphs(batch, batch_size)
        plan = as_plan(edge_index, x.size(0), self.flow)
        states, graphs = [x], (batch, batch_size) if self.norm == "graph" else ()
        with counting(self, real):
            for conv, norm in zip(self.convs, self.norms, strict=True):
                states.append(norm(conv(states[-1], plan, edge_attr), *graphs).relu())
        with without_autocast(x):  # scores are differences of large sums, which 16 bits have too few digits for
            dtype = next(self.scores[-1].parameters()).dtype
            states = [state.to(dtype) for state in states[-len(self.scores) :]]
            if self.level == "graph":  # of all layers at once
                pooled = read_out(torch.cat(states, dim=1), batch, batch_size, self.readout)
                sizes = [state.size(1) for state in states]
                by_readout = pooled.unflatten(1, (-1, sum(sizes)))
                states = [state.flatten(1) for state in by_readout.split(sizes, dim=2)]
            total, *others = (
                dropout(score(state), self.dropout, self.training)
                for score, state in zip(self.scores, states, strict=True)
            )
            for other in others:
                total = total + other
        return total


def _batch_norm(width: int) -> BatchNorm:
    """PyG's, of the rows that count."""
    norm = BatchNorm(width, allow_single_element=True)
    norm.module = RowNorm(width)
    return norm


class PGGNN(Network):
    r"""PG-GNN: :class:`PGConv`, batch normalisation and ReLU, repeated, and a score from every layer (Eq. 5).

    .. math::
        \mathbf{s} = \sum_{k=0}^{K} \mathbf{W}^{(k)} \mathbf{h}^{(k)}_G, \qquad
        \mathbf{h}^{(k)}_G = \mathrm{readout}_{v \in \mathcal{V}}\, \mathbf{h}^{(k)}_v

    The input features are layer 0. With ``level="node"`` each node is scored on its own, without a readout.

    Args:
        in_channels: Size of each node's features, ``-1`` to take it from the first input.
        hidden_channels: Size of each hidden layer.
        out_channels: Number of scores: classes, or targets of a regression.
        num_layers: Number of aggregations K. The paper counts the input as a layer too: its 5 layers are ``4`` here.
        level: ``"graph"`` for a score per graph, ``"node"`` for one per node.
        readout: ``"sum"`` or ``"mean"`` over the nodes of a graph, or ``"both"``, side by side; ``"log"`` is both, with
            the sum on a logarithmic scale (asinh).
        dropout: Dropout on the scores of each layer.
        rnn_layers: Stacked layers of each RNN.
        flow: ``"source_to_target"`` (the sources of incoming edges are the neighbours) or ``"target_to_source"``.
        aggregation: ``"arrangements"`` for :class:`PGConv`, or one of the paper's variants: ``"pairs"``,
            ``"triplets"``, ``"chain"``; or ``"trios"``.
        scores: ``"all"`` for the sum over all layers above, ``"last"`` for its last term alone.
        norm: ``"batch"`` for batch normalisation, ``"graph"`` for PyG's ``GraphNorm``, over the nodes of each graph.
        relabellings: For features that are rows of the adjacency matrix: relabel the nodes of each graph at random in
            each training step, which permutes the columns, and score by the mean over this many relabellings. Then
            the network cannot memorise the labels. 0 leaves them as they are.
        renumberings: Renumber the neighbours at random in each training step and layer, and score by the mean over this
            many renumberings. 0 leaves that to ``numbering``.
        **kwargs: Further arguments of :class:`PGConv`: ``cell``, ``orderings``, ``root``, ``numbering``, ``edge_dim`` …

    Shapes:
        - **input:** node features :math:`(|\mathcal{V}|, F_{in})`,
          edge indices :math:`(2, |\mathcal{E}|)` or a :class:`~pggnn.plan.Plan`,
          batch vector :math:`(|\mathcal{V}|)` *(optional)*, edge features :math:`(|\mathcal{E}|, D)` *(optional)*
        - **output:** scores :math:`(|\mathcal{G}|, C)`, or :math:`(|\mathcal{V}|, C)` with ``level="node"``
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        num_layers: int = 4,
        level: Level = "graph",
        readout: Readout = "sum",
        dropout: float = 0.0,
        rnn_layers: int = 2,
        flow: str = "source_to_target",
        aggregation: str = "arrangements",
        scores: Scores = "all",
        norm: Norm = "batch",
        relabellings: int = 0,
        renumberings: int = 0,
        **kwargs: Any,
    ) -> None:
        if min(relabellings, renumberings) < 0:
            raise ValueError(f"relabellings and renumberings must be 0 or more, got {relabellings} and {renumberings}")
        if renumberings > 0:
            kwargs["numbering"] = "random"
        if aggregation not in AGGREGATIONS:
            raise ValueError(f"aggregation must be one of {', '.join(map(repr, AGGREGATIONS))}, got {aggregation!r}")
        layer: Any = AGGREGATIONS[aggregation]
        widths = [in_channels, *[hidden_channels] * num_layers]
        convs = [layer(width, hidden_channels, num_layers=rnn_layers, flow=flow, **kwargs) for width in widths[:-1]]
        super().__init__(convs, widths, out_channels, level, readout, dropout, flow, scores, norm)
        self.relabellings, self.renumberings = relabellings, renumberings

    def forward(
        self, x: Tensor, edge_index: Tensor | Plan, batch: OptTensor = None, *args: Any, **kwargs: Any
    ) -> Tensor:
        """Scores each graph or node; arguments as in :class:`Network`."""
        times = self.relabellings if self.training else max(self.relabellings, self.renumberings)
        if times == 0:  # layers number neighbours themselves in training
            return super().forward(x, edge_index, batch, *args, **kwargs)
        check_batch(batch, x)
        plan = as_plan(edge_index, x.size(0), self.flow)
        graph = x.new_zeros(x.size(0), dtype=torch.long) if batch is None else batch
        scores = []
        for _ in range(1 if self.training else times):
            rows = permute_columns(x, graph, permute(graph)) if self.relabellings > 0 else x
            numbered = plan.renumbered() if self.renumberings > 0 and not self.training else plan
            scores.append(super().forward(rows, numbered, batch, *args, **kwargs))
        return torch.stack(scores).mean(0)
