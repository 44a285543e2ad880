"""The outputs of networks, batch by batch: for validation, test, ``pggnn evaluate`` and ``pggnn predict``."""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor
from torch_geometric.data import Batch

from pggnn.data.batching.batches import Batches
from pggnn.data.batching.collate import Collater
from pggnn.data.batching.nodes import NodeBatches
from pggnn.train.engine.task import Task

TIMES_LARGER = {"cpu": 4, "cuda": 32}
"""How much larger batches are than in training: no activations are kept for gradients."""


def ordered_batches(
    collater: Collater, batch_size: int, index: Tensor | None = None, shard: tuple[int, int] = (0, 1),
    by_node: bool = False, neighbours: Sequence[int] = (),
) -> Batches:  # fmt: skip
    """The given graphs, or nodes, in their order, in batches for evaluation."""
    size = TIMES_LARGER[collater.device.type] * batch_size
    if by_node:
        return NodeBatches(collater, size, neighbours, index, shard=shard)
    return Batches(collater, size, index=index, shard=shard)


@torch.no_grad()
def compute_outputs(
    models: Sequence[torch.nn.Module], task: Task, batches: Iterable[Batch], device: torch.device, targets: bool = True
) -> tuple[Tensor, Tensor]:
    """Outputs of each model for each graph or node, ``[models, N, C]``, and the targets.

    Models that draw random numbers draw the same ones each time; the state of the generators is left as it was.

    Args:
        models: Each takes a batch and returns scores.
        task: Makes outputs of scores: probabilities, or values.
        batches: The graphs.
        device: Where the models are.
        targets: Whether the graphs have targets; without them the second tensor is empty.
    """
    for model in models:
        model.eval()
    outputs, found = [], []
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(0)
        for batch in batches:
            if batch.edge_index.device != device:
                batch = batch.to(device, non_blocking=True)
            outputs.append(torch.stack([task.outputs(model(batch)) for model in models]))
            found += [task.targets(batch.y)] if targets else []
    if not outputs:
        return torch.empty(len(models), 0, task.schema.out_channels), torch.empty(0)
    return torch.cat(outputs, dim=1), torch.cat(found) if targets else torch.empty(0)
