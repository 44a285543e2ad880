"""Training epochs of the engine, steps recorded, beside PyG's GIN on the same graphs."""

import statistics
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GIN, global_add_pool

from pggnn.bench.timing import DEVICE, Figures, seconds, settings
from pggnn.data.catalogue import CATALOGUE, load
from pggnn.data.graphs import Graphs
from pggnn.data.schema import Schema
from pggnn.data.store import data_root
from pggnn.train.config import Config, RunConfig
from pggnn.train.loop import Training
from pggnn.train.options import CONFIGS
from pggnn.train.options import load as load_config
from pggnn.train.progress import Silence
from pggnn.train.run import first_training
from pggnn.train.task import Task

MOST_GIN_STEPS = {"MNIST": 100}
"""Steps of GIN after which its epoch is scaled from them."""


def epochs() -> Figures:
    """ZINC and MNIST, batch 64, hidden 128, whole group, in bfloat16; an epoch that is not counted comes first."""
    for name, counted in (("ZINC", 3), ("MNIST", 1)):
        if is_there(name):
            yield from epoch(shipped(name.lower()), counted, MOST_GIN_STEPS.get(name))


def epoch(config: Config, counted: int, most_gin_steps: int | None) -> Figures:
    """An epoch of the engine; GIN with PyG's ``DataLoader``, and with batches that lie on the GPU already.

    GIN's graphs are ``Data`` objects made beforehand, so that its loader has nothing to do but collate them.
    """
    dataset = load(config.data.name, config.data.root, **config.data.options)
    graphs, case = Graphs.of(dataset), config.data.name
    with tempfile.TemporaryDirectory() as folder:
        training = first_training(config, graphs, Path(folder))
        ours = epoch_seconds(training, counted)
        steps, index, recorded = len(training.batches), training.parts.train, training._replay is not None
    yield case, "ours, s", ours
    yield case, "steps", steps
    if not recorded:
        print(f"{case}: the steps of this training are not recorded", file=sys.stderr)
    taken = min(steps, most_gin_steps or steps)
    size = config.optim.batch_size
    loader = DataLoader([dataset[i] for i in index[: taken * size].tolist()], size, shuffle=True)
    network = Gin(graphs.schema, config.model.hidden, config.model.layers).to(DEVICE)
    run = partial(train_gin, network, Task(graphs.schema))
    ready = [batch.to(DEVICE) for batch in loader]
    yield case, "steps of GIN measured", taken
    for name, batches in (("PyG's DataLoader", loader), ("batches on the GPU", ready)):
        with settings():  # the engine's repeatable results would cost GIN time
            run(ready[:5])
            theirs = seconds(partial(run, batches)) * steps / len(loader)
        yield case, f"GIN with {name}, s", theirs
        yield case, f"GIN with {name} / ours", theirs / ours


class Gin(torch.nn.Module):
    """PyG's GIN with a sum over the nodes and a linear map."""

    def __init__(self, schema: Schema, hidden: int, layers: int) -> None:
        super().__init__()
        self.gin = GIN(schema.in_channels, hidden, layers)
        self.linear = torch.nn.Linear(hidden, schema.out_channels)

    def forward(self, batch: Any) -> Tensor:
        """Scores of each graph."""
        scores: Tensor = self.linear(global_add_pool(self.gin(batch.x, batch.edge_index), batch.batch))
        return scores


def train_gin(network: Gin, task: Task, batches: Iterable[Any]) -> None:
    """The steps of an epoch in float32, as one would write them."""
    optimizer = torch.optim.Adam(network.parameters(), fused=True)
    for batch in batches:
        batch = batch.to(DEVICE)
        optimizer.zero_grad()
        (task.loss(network(batch), task.targets(batch.y)) / len(batch.y)).backward()
        optimizer.step()


def shipped(name: str) -> Config:
    """A config of the paper, in bfloat16."""
    return replace(load_config(CONFIGS / f"{name}.yaml"), run=RunConfig(precision="bf16", tensorboard=False))


def epoch_seconds(training: Training, counted: int) -> float:
    """Median of some epochs after a first one, in which kernels are compiled and the steps recorded."""
    times = []
    for _ in range(1 + counted):
        training.state["epoch"] += 1
        times.append(seconds(partial(training.train_epoch, Silence())))
    return statistics.median(times[1:])


def is_there(name: str) -> bool:
    """Whether the file of a data set is; says where it is missing."""
    path = data_root() / CATALOGUE[name].file
    if not path.exists():
        print(f"{name} is left out: {path} is not there (set PGGNN_DATA to the folder of the data)", file=sys.stderr)
    return path.exists()
