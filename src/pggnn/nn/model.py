"""``PGGNN``: the paper's network for node-level and graph-level tasks, and the frame it shares with the baselines."""

from collections.abc import Sequence
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Literal, get_args

import torch
from torch import Tensor
from torch.nn.functional import dropout
from torch_geometric.nn.inits import reset
from torch_geometric.typing import OptTensor

from pggnn.cells import is_integer
from pggnn.nn.blocks import (
    FeedForward,
    ListPlans,
    Reads,
    Scale,
    SumConv,
    check_reads,
    glorot_linear,
    list_layer,
    two_layers,
)
from pggnn.nn.conv import PGConv, SequenceConv
from pggnn.nn.labels import permute, permute_columns
from pggnn.nn.norm import masked_rows, norm_layer
from pggnn.nn.readout import READOUTS, SIDE_BY_SIDE, check_batch, check_graphs, read_out
from pggnn.nn.variants import ChainConv, PairConv, TrioConv, TripletConv
from pggnn.ops.operator import without_autocast
from pggnn.plan import Plan, as_plan

Level = Literal["graph", "node"]
Readout = Literal["sum", "mean", "both", "log"]
Scores = Literal["all", "last"]
Norm = Literal["batch", "graph", "none"]
Block = Literal["plain", "residual"]
Numbering = Literal["given", "random", "labels", "both"]
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
        dropout: Dropout on the scores of each layer; with residual blocks, inside these instead, on what they add.
        flow: Which side of an edge is the neighbour, where plans are built here.
        scores: ``"all"`` for a score from every layer, ``"last"`` for one from the last alone.
        norm: ``"batch"`` for batch normalisation, ``"graph"`` for PyG's ``GraphNorm``, over the nodes of each graph;
            ``"none"`` for neither.
        numbering: ``"given"``: nodes and neighbours are numbered as in the data. ``"labels"``: in each training step
            the nodes of each graph are relabelled at random, for features that are rows of the adjacency matrix: their
            columns are permuted. ``"random"``: in each training step each node's neighbours are renumbered at random,
            which the layers do. ``"both"``: both. A network then cannot memorise labels or numberings.
        numberings: Scores in evaluation are the mean over this many random numberings, of the kind that ``numbering``
            names; 1 evaluates with the numbering of the data.
        block: ``"plain"``: normalisation and ReLU follow each aggregation, as in the paper. ``"residual"``: what they
            give is added to what there was, and so is that of a feed-forward network of twice the width, which is then
            normalised; features first go through a linear map, and scores come from networks of two layers.
        in_channels: Size of the input of that linear map, where the block is residual.
        parts: How many vectors of features a graph or node has after each layer, such as those of nodes and of edges.
    """

    reads_order = False
    """Whether the scores depend on the order of each node's neighbours."""
    skips = False
    """Whether what a layer gives is added to what there was, where both are as wide."""
    recordable = True
    """Whether a GPU may record its steps on padded batches: it then asks the device nothing."""
    reads_pairs = False
    """Whether there are features of every pair of nodes: memory grows with the square of a graph's size."""
    lists: tuple[str, ...] = ()
    """The lists that it must be given, of :data:`pggnn.lists.LISTS`, where no option says so."""

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
        numbering: Numbering = "given",
        numberings: int = 1,
        block: Block = "plain",
        in_channels: int | None = None,
        parts: int = 1,
    ) -> None:
        super().__init__()
        if block not in ("plain", "residual"):
            raise ValueError(f'block must be "plain" or "residual", got {block!r}')
        if len(convs) < 1 or out_channels < 1:
            raise ValueError(f"num_layers and out_channels must be at least 1, got {len(convs)} and {out_channels}")
        if level not in ("graph", "node"):
            raise ValueError(f'level must be "graph" or "node", got {level!r}')
        if readout not in READOUTS:
            raise ValueError(f"readout must be one of {', '.join(map(repr, READOUTS))}, got {readout!r}")
        if scores not in ("all", "last"):
            raise ValueError(f'scores must be "all" or "last", got {scores!r}')
        if norm not in get_args(Norm):
            raise ValueError(f"norm must be one of {', '.join(map(repr, get_args(Norm)))}, got {norm!r}")
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout must be in [0, 1), got {dropout}")
        check_numbering(numbering, numberings)
        self.level, self.readout, self.dropout, self.flow = level, readout, dropout, flow
        self.convs = torch.nn.ModuleList(convs)
        self.norm, self.numbering, self.numberings = norm, numbering, numberings
        self.norms = torch.nn.ModuleList(norm_layer(norm, width) for width in widths[1:])
        self.encoder: torch.nn.Module | None = None
        if block == "residual":
            self.encoder = glorot_linear(in_channels or -1, widths[0])
            self.feeds = torch.nn.ModuleList(FeedForward(width, norm, dropout) for width in widths[1:])
        readouts = parts * (2 if level == "graph" and readout in SIDE_BY_SIDE else 1)
        self.scores = torch.nn.ModuleList(
            two_layers(readouts * width, width, out_channels, dropout)
            if block == "residual"
            else glorot_linear(readouts * width if width > 0 else -1, out_channels)
            for width in (widths if scores == "all" else widths[-1:])
        )
        self.scales = torch.nn.ModuleList(Scale() for _ in self.scores)

    def reset_parameters(self) -> None:
        for module in self.children():
            reset(module)

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor | Plan,
        batch: OptTensor = None,
        edge_attr: OptTensor = None,
        batch_size: int | None = None,
        real: OptTensor = None,
        lists: ListPlans | None = None,
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
            lists: What the network reads beside the edges, by name: see :func:`pggnn.lists.read_lists`.
        """
        check_batch(batch, x)
        check_graphs(batch, batch_size)
        plan, rest = as_plan(edge_index, x.size(0), self.flow), (batch, edge_attr, batch_size, real, lists)
        fresh = self.training or self.numberings > 1
        relabel = fresh and self.numbering in ("labels", "both")
        renumber = fresh and not self.training and self.reads_order and self.numbering in ("random", "both")
        if not relabel and not renumber:
            return self.score(x, plan, *rest)
        graph = x.new_zeros(x.size(0), dtype=torch.long) if batch is None else batch
        scores = []
        for _ in range(1 if self.training else self.numberings):
            rows = permute_columns(x, graph, permute(graph)) if relabel else x
            scores.append(self.score(rows, plan.renumbered() if renumber else plan, *rest))
        return torch.stack(scores).mean(0)

    def score(
        self, x: Tensor, plan: Plan, batch: OptTensor, edge_attr: OptTensor, batch_size: int | None, real: OptTensor,
        lists: ListPlans | None = None,
    ) -> Tensor:  # fmt: skip
        """The scores in one numbering; arguments as in :meth:`forward`."""
        pooled = self.pooled(x, plan, batch, edge_attr, batch_size, real, lists)
        with without_autocast(x):
            return self.add_up(pooled)

    def pooled(
        self, x: Tensor, plan: Plan, batch: OptTensor, edge_attr: OptTensor, batch_size: int | None, real: OptTensor,
        lists: ListPlans | None = None,
    ) -> list[Tensor]:  # fmt: skip
        """What is read out of each layer that has scores; arguments as in :meth:`forward`."""
        with masked_rows(self, real):
            states = self.states(x, plan, batch, edge_attr, batch_size, lists)
        with without_autocast(x):  # scores are differences of large sums, which 16 bits have too few digits for
            return self.read_all(states, batch, batch_size) if self.level == "graph" else self.scored(states)

    def read_all(self, states: Sequence[Tensor], batch: OptTensor, size: int | None) -> list[Tensor]:
        """What is read out of each of the layers' states that has scores, of all at once."""
        states = self.scored(states)
        widths = [state.size(1) for state in states]
        by_readout = read_out(torch.cat(states, dim=1), batch, size, self.readout).unflatten(1, (-1, sum(widths)))
        return [part.flatten(1) for part in by_readout.split(widths, dim=2)]

    def scored(self, states: Sequence[Tensor]) -> list[Tensor]:
        """Those of the layers' states that have scores, in the precision of the weights."""
        dtype = next(self.scores[-1].parameters()).dtype
        return [state.to(dtype) for state in states[-len(self.scores) :]]

    def add_up(self, pooled: Sequence[Tensor]) -> Tensor:
        """The sum of the scores of all layers, given what is read out of each."""
        share = self.dropout if self.encoder is None else 0.0
        total, *others = (
            dropout(score(scale(state)), share, self.training)
            for score, scale, state in zip(self.scores, self.scales, pooled, strict=True)
        )
        for other in others:
            total = total + other
        return total

    def states(
        self, x: Tensor, plan: Plan, batch: OptTensor, edge_attr: OptTensor, batch_size: int | None,
        lists: ListPlans | None = None,
    ) -> list[Tensor]:  # fmt: skip
        """What the nodes are before the first layer, and after each."""
        states, graphs = [x], (batch, batch_size) if self.norm == "graph" else ()
        if self.encoder is not None:
            states = [self.encoder(x)]
        for number, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True)):
            read = conv(states[-1], plan, edge_attr, *([lists] if isinstance(conv, Reads) else []))
            states.append(self.follow(number, states[-1], norm(read, *graphs).relu(), *graphs))
        return states

    def follow(self, number: int, before: Tensor, read: Tensor, *graphs: Any) -> Tensor:
        """The state after a block, from that before it and what its layer has read."""
        if self.encoder is not None:
            after: Tensor = self.feeds[number](before, read, *graphs)
            return after
        return before + read if self.skips and read.shape == before.shape else read


def check_numbering(numbering: str, numberings: int) -> None:
    """Raises an error if the two options are not valid together."""
    kinds = get_args(Numbering)
    if numbering not in kinds:
        raise ValueError(f"numbering must be one of {', '.join(map(repr, kinds))}, got {numbering!r}")
    if not is_integer(numberings, 1):
        raise ValueError(f"numberings must be an integer ≥ 1, got {numberings!r}")
    if numbering == "given" and numberings > 1:
        raise ValueError(f'numberings must be 1 with numbering "given", got {numberings}; choose another numbering')


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
        rnn_layers: Stacked layers of each RNN: 2 by default. The cell ``"linear"`` has 1.
        flow: ``"source_to_target"`` (the sources of incoming edges are the neighbours) or ``"target_to_source"``.
        aggregation: ``"arrangements"`` for :class:`PGConv`, or one of the paper's variants: ``"pairs"``,
            ``"triplets"``, ``"chain"``; or ``"trios"``.
        scores: ``"all"`` for the sum over all layers above, ``"last"`` for its last term alone.
        norm: ``"batch"`` for batch normalisation, ``"graph"`` for PyG's ``GraphNorm``, over the nodes of each graph;
            ``"none"`` for neither.
        numbering: ``"given"``: nodes and neighbours are numbered as in the data. ``"random"``: in each training step
            each layer renumbers every node's neighbours at random. ``"labels"``: in each training step the nodes of
            each graph are relabelled at random, for features that are rows of the adjacency matrix: their columns are
            permuted. ``"both"``: both. The network then cannot memorise labels or numberings.
        numberings: Scores in evaluation are the mean over this many random numberings, of the kind that ``numbering``
            names; 1 evaluates with the numbering of the data.
        reads: What each layer reads; it is added up. ``"star"``: the neighbours, as above. ``"sum"``: their plain sum,
            as in GIN. ``"rings"``, ``"paths"``, ``"hops"``, ``"lists"``: see :data:`pggnn.lists.LISTS`; these are
            given to :meth:`forward` as ``lists``.
        block: ``"plain"``, as above, or ``"residual"``, see :class:`Network`.
        ring_structure: ``structure`` of the layers that read rings: bits for their chords, up to the size of a ring
            less 2.
        hops: The largest distance, where ``reads`` has ``"hops"``.
        **kwargs: Further arguments of :class:`PGConv`: ``cell``, ``orderings``, ``root``, ``edge_dim`` …

    Shapes:
        - **input:** node features :math:`(|\mathcal{V}|, F_{in})`,
          edge indices :math:`(2, |\mathcal{E}|)` or a :class:`~pggnn.plan.Plan`,
          batch vector :math:`(|\mathcal{V}|)` *(optional)*, edge features :math:`(|\mathcal{E}|, D)` *(optional)*
        - **output:** scores :math:`(|\mathcal{G}|, C)`, or :math:`(|\mathcal{V}|, C)` with ``level="node"``

    Example:
        >>> import torch
        >>> from pggnn import PGGNN
        >>> edges = torch.tensor([[0, 1, 1, 2, 2, 0, 2, 3], [1, 0, 2, 1, 0, 2, 3, 2]])  # a triangle, and node 3
        >>> model = PGGNN(8, 16, 3, num_layers=2)
        >>> model(torch.randn(4, 8), edges).shape
        torch.Size([1, 3])
        >>> PGGNN(8, 16, 3, num_layers=2, level="node")(torch.randn(4, 8), edges).shape
        torch.Size([4, 3])
    """

    reads_order = True
    card: dict[str, str] | None = None
    """What the model card says of data, protocol and figures, where it is known."""

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        num_layers: int = 4,
        level: Level = "graph",
        readout: Readout = "sum",
        dropout: float = 0.0,
        rnn_layers: int | None = None,
        flow: str = "source_to_target",
        aggregation: str = "arrangements",
        scores: Scores = "all",
        norm: Norm = "batch",
        numbering: Numbering = "given",
        numberings: int = 1,
        reads: Sequence[str] = ("star",),
        block: Block = "plain",
        ring_structure: int = 0,
        hops: int = 2,
        **kwargs: Any,
    ) -> None:
        arguments = {name: value for name, value in locals().items() if name not in ("self", "kwargs", "__class__")}
        check_numbering(numbering, numberings)
        self.reads = check_reads(reads)
        if ring_structure and "rings" not in self.reads:
            raise ValueError(
                f"ring_structure={ring_structure} is for rings, and the network reads none: add them to reads"
            )
        kwargs["numbering"] = "random" if numbering in ("random", "both") else "given"
        if aggregation not in AGGREGATIONS:
            raise ValueError(f"aggregation must be one of {', '.join(map(repr, AGGREGATIONS))}, got {aggregation!r}")
        if aggregation != "arrangements" and "star" not in self.reads:
            raise ValueError(f'aggregation {aggregation!r} is how the star is read: add "star" to reads, got {reads!r}')
        star: Any = AGGREGATIONS[aggregation]
        if "star" not in self.reads:
            with torch.device("meta"):  # what the star's options may be does not depend on whether it is read
                star(1, 1, num_layers=rnn_layers, flow=flow, **kwargs)
        shared = {"num_layers": rnn_layers, "flow": flow, "cell": kwargs.get("cell", "lstm")}
        shared |= {name: kwargs[name] for name in ("backend", "workspace") if name in kwargs}

        def layer(name: str, width: int) -> torch.nn.Module:
            if name == "star":
                return star(width, hidden_channels, num_layers=rnn_layers, flow=flow, **kwargs)
            if name == "sum":
                return SumConv(width, hidden_channels, kwargs.get("edge_dim"))
            own = {"rings": {"structure": ring_structure}, "hops": {"hops": hops}}.get(name, {})
            return list_layer(name, width, hidden_channels, kwargs.get("edge_dim"), shared | own)

        widths = block_widths(in_channels, hidden_channels, num_layers, block)
        convs = [
            layer("star", width)
            if self.reads == ("star",)
            else Reads({name: layer(name, width) for name in self.reads})
            for width in widths[:-1]
        ]
        super().__init__(
            convs, widths, out_channels, level, readout, dropout, flow, scores, norm, numbering, numberings, block,
            in_channels,
        )  # fmt: skip
        self.arguments = kwargs | arguments | {"reads": [*reads]}
        """What it was made with."""

    def save_pretrained(self, folder: str | Path, **kwargs: Any) -> Any:
        """Writes weights (safetensors), arguments and a model card to a folder; see :class:`pggnn.nn.hub.HubPGGNN`."""
        return _hub().of(self).save_pretrained(folder, **kwargs)

    def push_to_hub(self, repo_id: str, **kwargs: Any) -> Any:
        """The same, to a repository of the Hugging Face Hub."""
        return _hub().of(self).push_to_hub(repo_id, **kwargs)

    @classmethod
    def from_pretrained(cls, name: str | Path, **kwargs: Any) -> "PGGNN":
        """The network of such a folder, or of a repository of the Hugging Face Hub."""
        found: PGGNN = _hub().from_pretrained(name, **kwargs)
        return found


def _hub() -> Any:
    """:class:`pggnn.nn.hub.HubPGGNN`, which is above this module, and needs what few users have."""
    try:
        return resolve_name("pggnn.nn.hub:HubPGGNN")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"{error.name} is missing; install it with: pip install 'pggnn[hub]'") from None


def block_widths(in_channels: int, hidden_channels: int, num_layers: int, block: str) -> list[int]:
    """Size of the features before each aggregation and after the last."""
    return [hidden_channels if block == "residual" else in_channels, *[hidden_channels] * num_layers]
