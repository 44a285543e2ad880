"""Memory of models on pairs of nodes, estimated before they start: sets that are too large for them are refused."""

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from pggnn.data.graphs import Graphs
from pggnn.data.schema import Schema
from pggnn.nn.model import Network
from pggnn.plan import Plan
from pggnn.seeds import derived_seed
from pggnn.train.config import Config, ModelConfig
from pggnn.train.engine.memory import available
from pggnn.train.engine.models import Committee, build_network
from pggnn.train.runs.pool import uses_gpu

NODES = 16
"""Nodes of the graph that memory is measured on."""
DRAWS = 1000
"""Batches that are drawn to see how large one becomes."""


def most_pairs(config: Config, graphs: Graphs) -> int:
    """Pairs of the largest of many random batches, which has at least those of the largest graph."""
    pairs = graphs.nodes.cpu() ** 2
    size = min(config.optim.batch_size, len(pairs))
    if size == 0:
        return 0
    generator = torch.Generator().manual_seed(derived_seed(0, 0))
    drawn = pairs[torch.randint(len(pairs), (DRAWS, size), generator=generator)].sum(1).max()
    usual = float(pairs.max()) + (size - 1) * float(pairs.double().mean())
    return int(min(max(float(drawn), usual), float(pairs.topk(size).values.sum())))


def bytes_of_pair(model: ModelConfig, schema: Schema) -> float:
    """Bytes that a training step keeps for each pair of nodes, measured: what the network saves for its gradient, and
    three tensors of a layer, which the way back holds at a time."""
    with torch.random.fork_rng([]):
        network = build_network(model, schema).train()
    kept: dict[int, int] = {}
    saved: list[Tensor] = []

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        saved.append(tensor)  # so that it is not freed, and its address used again
        return tensor

    weights = {weight.untyped_storage().data_ptr() for weight in network.parameters()}
    plan = Plan.build(torch.empty(2, 0, dtype=torch.long), NODES, network.flow)
    x = torch.zeros(NODES, max(schema.in_channels, 1))
    edge_attr = torch.zeros(0, schema.edge_dim) if model.edge_features else None
    with saved_tensors_hooks(keep, lambda tensor: tensor):
        network(x, plan, None, edge_attr)
    total = sum(size for address, size in kept.items() if address not in weights)
    return total / NODES**2 + 3 * 4 * model.hidden


def check_pairs(config: Config, graphs: Graphs, network: Network | Committee, jobs: int) -> None:
    """Refuses graphs whose pairs would not fit in memory, where a network reads them.

    Args:
        config: The run.
        graphs: Its graphs.
        network: The network, or the committee.
        jobs: Trainings side by side.
    """
    if not any(one.reads_pairs for one in network.modules() if isinstance(one, Network)):
        return
    pairs, nodes = most_pairs(config, graphs), int(graphs.nodes.max()) if len(graphs) else 0
    wide = 2 if config.run.precision == "64" else 1
    need = pairs * bytes_of_pair(config.model, graphs.schema) * config.model.committee * wide * jobs
    there = torch.cuda.get_device_properties(0).total_memory if uses_gpu(config) else available()
    if need > there:
        beside = f" in {jobs} trainings side by side" * (jobs > 1)
        raise ValueError(
            f"{config.model.name} has features of all pairs of a graph's nodes: a batch of {config.optim.batch_size} "
            f"graphs, the largest of {nodes:,} nodes, has about {pairs:,} pairs, which take {need / 2**30:,.1f} GiB"
            f"{beside}, and {there / 2**30:,.1f} GiB are there; choose a smaller optim.batch_size, model.hidden or "
            f"model.layers{', or run.jobs 1' * (jobs > 1)}, or a model that reads edges alone"
        )
