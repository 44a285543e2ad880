"""Networks from their config and the schema of the data."""

from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any, cast

import torch
from rich.console import Console
from torch import Tensor
from torch_geometric.data import Batch

from pggnn.baselines.options import MODELS
from pggnn.data.features.lists import GraphLists, find_lists
from pggnn.data.graphs import Graphs
from pggnn.data.schema import Schema
from pggnn.lists import LISTS
from pggnn.nn.conv import SequenceConv
from pggnn.nn.init import accumulate_init, scaled_init, start_scores, torch_init
from pggnn.nn.model import Network
from pggnn.ops.workspace import SHARES
from pggnn.search import TooMany
from pggnn.train.config import Config, ModelConfig
from pggnn.train.engine.checkpoint import Unit
from pggnn.train.engine.memory import available

ARRANGED = ("orderings", "root", "reduce", "group")
"""Options of PG-GNN where it reads arrangements."""
STARTS = {"torch": torch_init, "accumulate": accumulate_init, "guess": scaled_init}
"""Other starts than the layers' own, which is Glorot's."""


class Committee(torch.nn.Module):
    """Several networks with the same input; called like one of them."""

    def __init__(self, networks: Sequence[Network]) -> None:
        super().__init__()
        self.networks = torch.nn.ModuleList(networks)

    @property
    def convs(self) -> list[torch.nn.Module]:
        """The aggregations of all."""
        return [conv for network in self.networks for conv in cast(Network, network).convs]

    @property
    def recordable(self) -> bool:
        """Whether a GPU may record their steps."""
        return all(cast(Network, network).recordable for network in self.networks)

    def forward(self, *args: Any) -> Tensor:
        """The scores of each, ``[M, N, C]``. :class:`~pggnn.train.engine.task.Task` averages their answers."""
        return torch.stack([network(*args) for network in self.networks])


MOST_WEIGHTS = 2**60
COPIES = 4
"""Numbers for each weight while it is trained: itself, its gradient and the two moments of Adam."""


def build(config: ModelConfig, schema: Schema, copies: int = 1) -> Network | Committee:
    """The network that the config describes, for graphs of this schema, or the committee of such.

    Args:
        config: The options.
        schema: That of the graphs.
        copies: How many numbers there must be memory for, for each weight: 1 to answer, :data:`COPIES` to train.
    """
    weights = count_weights(config, schema)
    if weights * copies * 4 > (there := available()):
        least, how = "at least " * (weights >= MOST_WEIGHTS), ", with what training adds," * (copies > 1)
        raise ValueError(
            f"the network would have {least}{weights:,} weights: they{how} take {weights * copies / 2**28:,.1f} GiB of "
            f"memory, and {there / 2**30:,.1f} GiB are there; choose a smaller model.hidden, model.layers, "
            "model.rnn_layers or model.committee, or fewer features"
        )
    if config.committee > 1:
        return Committee([build_network(config, schema) for _ in range(config.committee)])
    return build_network(config, schema)


def count_weights(config: ModelConfig, schema: Schema) -> int:
    """How many weights the network, or the committee, has: none is made for it. With two and three of the layers, which
    are alike from the third on, all numbers of them are known."""

    def count(layers: int, rnn_layers: int) -> int:
        try:
            small = outline(replace(config, layers=layers, rnn_layers=rnn_layers), schema)
        except RuntimeError:  # its tensors have more bytes than 64 bits can count
            return MOST_WEIGHTS
        return sum(weight.numel() for weight in small.parameters())

    rnn_layers = config.rnn_layers or 1
    layers, inner = min(config.layers, 3), min(rnn_layers, 2)
    one, more = config.layers - layers, rnn_layers - inner
    known = count(layers, inner)
    for_layer = known - count(layers - 1, inner) if one else 0
    for_inner = known - count(layers, inner - 1) if more else 0
    for_both = for_layer - count(layers, inner - 1) + count(layers - 1, inner - 1) if one and more else 0
    return (known + one * for_layer + more * for_inner + one * more * for_both) * config.committee


def outline(config: ModelConfig, schema: Schema) -> Network:
    """One network whose weights have shapes and no memory."""
    with torch.random.fork_rng([]), torch.device("meta"):
        return build_network(config, schema)


def build_network(config: ModelConfig, schema: Schema) -> Network:
    """One network as the config describes it, without the committee."""
    if config.edge_features and not schema.edge_dim:
        raise ValueError("model.edge_features is set, but the edges of this data set have no features")
    model = MODELS[config.name]
    own = model.own(config)
    if config.name == "pggnn" and config.aggregation != "arrangements":
        for name in ARRANGED:
            if (given := own.pop(name)) != getattr(ModelConfig, name):
                raise ValueError(
                    f"model.aggregation {config.aggregation} has no choice of {name}, got {given!r}; "
                    "leave it out, or choose arrangements"
                )
    network: Network = model.load()(
        max(schema.in_channels, 1), config.hidden, schema.out_channels, config.layers, level=schema.level,
        readout=config.readout, dropout=config.dropout, flow=schema.flow,
        edge_dim=schema.edge_dim if config.edge_features else None, scores=config.scores, norm=config.norm,
        block=config.block, numbering=config.numbering, numberings=config.numberings, **own,
    )  # fmt: skip
    return network.apply(STARTS[config.init]) if config.init in STARTS else network


def guess_first(scorer: "Scorer", guess: Tensor, batch: Batch) -> None:
    """Starts the scores of a network, or of each in a committee, at a guess; ``batch`` holds some training graphs."""
    network = scorer.network
    for one in network.networks if isinstance(network, Committee) else [network]:
        start_scores(cast(Network, one), guess, lambda copied: Scorer(copied, scorer.edge_features)(batch))


def allot_workspace(network: Network | Committee, device: torch.device) -> None:
    """Lets each layer keep one part in :data:`~pggnn.ops.SHARES` of a GPU's memory for its states."""
    for module in network.modules():
        if isinstance(module, SequenceConv) and device.type == "cuda":
            module.workspace = torch.cuda.get_device_properties(device).total_memory // SHARES


def clip_gradients(network: Network | Committee, most: float) -> None:
    """Clips the norm of the gradient, in a committee that of each network."""
    networks = [*network.networks] if isinstance(network, Committee) else [network]
    for one in networks:
        torch.nn.utils.clip_grad_norm_(one.parameters(), most)


def unit_of(targets: Tensor) -> Unit:
    """Mean and deviation of the known targets in each column, ``[N, C]``; a column that is constant has deviation 1."""
    mean = targets.double().nanmean(0).nan_to_num(0)
    deviation = (targets.double() - mean).square().nanmean(0).sqrt().nan_to_num(0)
    return {"deviation": deviation.where(deviation > 0, 1).tolist(), "mean": mean.tolist()}


class Scorer(torch.nn.Module):
    """A network that takes batches; nodes without features all have the feature 1. Its scores are in the given unit."""

    def __init__(self, network: Network | Committee, edge_features: bool = False, unit: Unit | None = None) -> None:
        super().__init__()
        self.network, self.edge_features = network, edge_features
        self.deviation: Tensor | None
        self.mean: Tensor | None
        self.register_buffer("deviation", None if unit is None else torch.tensor(unit["deviation"]))
        self.register_buffer("mean", None if unit is None else torch.tensor(unit["mean"]))

    def forward(self, batch: Batch) -> Tensor:
        """The network's scores, for each graph or node, or those of each in a committee; of nodes that a batch names as
        its ``rows``, for these alone."""
        dtype = next(self.network.parameters()).dtype
        x = (
            batch.x.to(dtype)
            if "x" in batch
            else torch.ones(batch.num_nodes, 1, dtype=dtype, device=batch.batch.device)
        )
        edge_attr = batch.edge_attr.to(dtype) if self.edge_features else None
        real, lists = (getattr(batch, name, None) for name in ("real", "lists"))
        scores: Tensor = self.network(x, batch.plan, batch.batch, edge_attr, batch.num_graphs, real, lists)
        if self.deviation is not None and self.mean is not None:
            scores = scores * self.deviation + self.mean
        return scores.index_select(-2, batch.rows) if "rows" in batch else scores


MOST_CELLS = 100_000
"""Rings or triangles of a graph that may have features."""
SIZES = {"rings": ("data.rings", 6), "paths": ("data.paths", 2), "hops": ("model.hops", 1)}
"""Of each kind of lists the option that says how large they may be, and what to give where a graph has too many."""


def lists_read(model: ModelConfig) -> list[str]:
    """The kinds of lists that a network reads beside the edges."""
    read = model.reads if model.name == "pggnn" else getattr(MODELS[model.name].load(), "lists", ())
    return [kind for kind in read if kind in LISTS]


def lists_for(config: Config, graphs: Graphs, console: Console | None = None) -> dict[str, GraphLists]:
    """What the network reads beside the edges, by name, from the cache or found, with progress on the console."""
    found: dict[str, GraphLists] = {}
    for kind in lists_read(config.model):
        search = LISTS[kind].search
        option, less = SIZES.get(search, ("", 3))
        most = attrgetter(option)(config) if option else less
        limit = MOST_CELLS if kind.endswith("-cells") else None
        try:
            found[kind] = find_lists(graphs, search, most, console, config.data.chords and search == "rings", limit)
        except TooMany as error:
            leave = f"leave {kind} out of --model.reads" if config.model.name == "pggnn" else "choose another model"
            how = f"--{option} {less} searches less" if most > less else leave
            raise TooMany(error.found, how) from None
    return found
