"""The networks by name: their labels, their classes, and the options that only they have. Imports no PyTorch."""

from dataclasses import dataclass, field, fields
from importlib import import_module
from typing import Any, Literal

from pggnn.ranges import whole


@dataclass(frozen=True)
class NoOptions:
    """Of a network that has no options of its own."""


@dataclass(frozen=True)
class PGGNNOptions:
    """Of PG-GNN."""

    aggregation: Literal["arrangements", "pairs", "triplets", "trios", "chain"] = "arrangements"
    """PG-GNN: what its RNN reads. arrangements: all neighbours, in the group's orders. The paper's variants: pairs:
    ordered pairs of neighbours; triplets: pairs followed by the centre; chain: the arrangements as one long sequence.
    trios: every ordered three of them."""
    orderings: Literal["group", "single", "random"] | int = whole("group", 1)
    """PG-GNN: the orders in which neighbours are read: the whole group, a single one, K of the group (an integer), or a
    random one."""
    cell: Literal["lstm", "gru", "srn", "linear"] = "lstm"
    """PG-GNN: the recurrent cell. linear: reads the whole group in time linear in the number of neighbours."""
    rnn_layers: int | None = whole(None, 1)
    """PG-GNN: stacked layers of each RNN; by default 2, and 1 for the linear cell, which has no more."""
    root: Literal["merged", "linear"] = "merged"
    """PG-GNN: the centre stands at both ends of each sequence, or is added by a linear map (Eq. 3)."""
    max_degree: int | None = whole(None, 1)
    """PG-GNN: most neighbours to read of a node."""
    structure: int = whole(0, 0)
    """PG-GNN: number of bits that tell the RNN, at each neighbour, which of those read just before it are adjacent to
    it."""
    reduce: Literal["sum", "mean"] = "sum"
    """PG-GNN: the sum over the arrangements of a node's neighbours, or their mean."""
    group: Literal["pairs", "all", "dihedral", "trivial"] = "pairs"
    """PG-GNN: the orders of a node's neighbours: the paper's group (pairs), every order (all, at most 5), the
    rotations and reflections of their numbering (dihedral), or that numbering alone (trivial)."""
    reads: list[Literal["star", "sum", "rings", "paths", "hops", "rings-one-way", "ring-sets"]] = field(
        default_factory=lambda: ["star"]
    )
    """PG-GNN: what each layer reads, added up: neighbours by the RNN (star) or by a plain sum (sum), rings, paths, and
    the nodes at each distance (hops). To compare with rings: rings-one-way, and ring-sets, without their order."""
    hops: int = whole(2, 1, 100)
    """PG-GNN: the largest distance, where model.reads has hops; each distance has a vector of its own."""
    ring_structure: int = whole(0, 0)
    """PG-GNN: number of bits that tell the RNN, at each node of a ring, which of those read just before it are adjacent
    to it: its chords."""


@dataclass(frozen=True)
class GCNOptions:
    """Of GCN."""

    weighting: Literal["symmetric", "mean"] = "symmetric"
    """GCN: neighbours are weighted by the roots of degrees, as in its paper, or equally, as in Kipf's later code."""


@dataclass(frozen=True)
class RPOptions:
    """Of RP."""

    inputs: Literal["features", "rows", "nothing"] = "features"
    """RP: what a node reads in addition to its number: its features; those as rows of the adjacency matrix, whose
    columns are permuted with the numbers; or nothing, as in its authors' code."""
    ids: int = whole(10, 1)
    """RP: how many numbers there are for nodes; in larger graphs several nodes share one."""


@dataclass(frozen=True)
class SAGEOptions:
    """Of GraphSAGE."""

    aggregator: Literal["lstm", "pool"] = "lstm"
    """GraphSAGE: an LSTM over five neighbours, drawn in random order, or the maximum over all of them, with layers
    added to their input, as in benchmarking-gnns."""
    replace: bool = False
    """GraphSAGE: draws neighbours with replacement, as its authors do; by default each at most once."""


@dataclass(frozen=True)
class DGCNNOptions:
    """Of DGCNN."""

    kept: int = whole(30, 10, 10**5)
    """DGCNN: nodes of a graph that its convolutions see. Its paper takes so many that 60 % of the graphs have more."""


@dataclass(frozen=True)
class PNAOptions:
    """Of PNA."""

    towers: int = whole(1, 1)
    """PNA: parts of the channels that have maps of their own; it must divide model.hidden."""


@dataclass(frozen=True)
class CLIPOptions:
    """Of CLIP."""

    colours: int = whole(16, 1)
    """CLIP: how many colours there are for nodes that look alike; in larger groups several nodes share one."""
    draws: int = whole(4, 1)
    """CLIP: draws of the colours; the maximum of the readouts over them is scored."""


@dataclass(frozen=True)
class DeepLRPOptions:
    """Of Deep-LRP."""

    depth: int = whole(7, 1, 12)
    """Deep-LRP: edges of the paths that it reads."""


@dataclass(frozen=True)
class WLOptions:
    """Of the WL kernel."""

    iterations: int = whole(10, 0, 1000)
    """WL kernel: the most iterations of colour refinement that are tried."""


@dataclass(frozen=True)
class WEGLOptions:
    """Of WEGL."""

    diffusions: int = whole(6, 2, 1000)
    """WEGL: the most diffusions of the features that are tried, of 2, 4, 6 …"""
    trees: int = whole(200, 1)
    """WEGL: trees of its forest."""


@dataclass(frozen=True)
class DenseOptions:
    """Of models on pairs of nodes."""

    pool: Literal["readout", "max"] = "readout"
    """IGN, PPGN, Ring-GNN: what a graph's score is made of: model.readout of its nodes' own pairs and of the others, or
    the maximum of each, as in the code of PPGN's authors."""


@dataclass(frozen=True)
class Model:
    """A network that can be trained, or another model that can be fitted."""

    label: str
    """As the tables name it."""
    path: str
    """Module and class."""
    options: type = NoOptions
    """The options that only this network has: a dataclass, whose fields are keyword arguments of the class."""
    fitted: bool = False
    """Whether it is fitted at once to all training graphs, not trained by gradient."""

    def own(self, config: Any) -> dict[str, Any]:
        """The values of these options in a config of the model."""
        return {key.name: getattr(config, key.name) for key in fields(self.options)}

    def load(self) -> Any:
        """The class."""
        module, _, name = self.path.rpartition(".")
        return getattr(import_module(module), name)


MODELS = {
    "pggnn": Model("PG-GNN", "pggnn.nn.model.PGGNN", PGGNNOptions),
    "gin": Model("GIN", "pggnn.baselines.gin.GIN"),
    "gcn": Model("GCN", "pggnn.baselines.gcn.GCN", GCNOptions),
    "sage": Model("SAGE", "pggnn.baselines.sage.SAGE", SAGEOptions),
    "rgin": Model("rGIN", "pggnn.baselines.rgin.RGIN"),
    "rp": Model("RP", "pggnn.baselines.rp.RP", RPOptions),
    "lrp": Model("LRP", "pggnn.baselines.lrp.LRP"),
    "ign": Model("IGN", "pggnn.baselines.dense.ign.IGN", DenseOptions),
    "ppgn": Model("PPGN", "pggnn.baselines.dense.ppgn.PPGN", DenseOptions),
    "ringgnn": Model("Ring-GNN", "pggnn.baselines.dense.ring_gnn.RingGNN", DenseOptions),
    "sin": Model("SIN", "pggnn.baselines.cin.SIN"),
    "cin": Model("CIN", "pggnn.baselines.cin.CIN"),
    "both-ends": Model("both ends", "pggnn.baselines.both_ends.BothEnds"),
    "dgcnn": Model("DGCNN", "pggnn.baselines.dgcnn.DGCNN", DGCNNOptions),
    "gatedgcn": Model("GatedGCN", "pggnn.baselines.gated_gcn.GatedGCN"),
    "pna": Model("PNA", "pggnn.baselines.pna.PNA", PNAOptions),
    "clip": Model("CLIP", "pggnn.baselines.clip.CLIP", CLIPOptions),
    "deep-lrp": Model("Deep-LRP", "pggnn.baselines.deep_lrp.DeepLRP", DeepLRPOptions),
    "wl": Model("WL", "pggnn.baselines.fitted.wl.WLKernel", WLOptions, fitted=True),
    "wegl": Model("WEGL", "pggnn.baselines.fitted.wegl.WEGL", WEGLOptions, fitted=True),
}
"""By the name in the config."""
NETWORKS = {name: model for name, model in MODELS.items() if not model.fitted}
"""Those that are trained by gradient."""
