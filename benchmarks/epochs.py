"""Training epochs of the engine, steps recorded, beside PyG's GIN on the same graphs."""

import statistics
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from torch_geometric.data import InMemoryDataset
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GIN, global_add_pool

from benchmarks.data import is_there
from benchmarks.timing import DEVICE, Figures, seconds, settings
from pggnn.data.graphs import Graphs
from pggnn.data.loading import load
from pggnn.train.config import Config, RunConfig
from pggnn.train.engine.loop import Callback, Training
from pggnn.train.engine.task import Task
from pggnn.train.options import CONFIGS
from pggnn.train.options import load as load_config
from pggnn.train.runs.run import first_training

MOST_GIN_STEPS = {"MNIST": 100}
"""Steps of GIN from which its epoch is scaled up."""


def epochs() -> Figures:
    """ZINC and MNIST, batch 64, hidden 128, whole group, bfloat16. A first epoch is not counted."""
    for name, counted in (("ZINC", 3), ("MNIST", 1)):
        if is_there(name):
            config = shipped(name.lower())
            dataset = load(name, config.data.root, **config.data.options)
            yield from epoch(name, config, dataset, counted, MOST_GIN_STEPS.get(name))


def epoch(case: str, config: Config, dataset: InMemoryDataset, counted: int, most_gin_steps: int | None) -> Figures:
    """An epoch of the engine; then GIN in float32 with PyG's ``DataLoader``, and with batches already on the GPU.

    GIN's graphs are ``Data`` objects made beforehand: its loader only collates them.
    """
    graphs, size = Graphs.of(dataset), config.optim.batch_size
    with tempfile.TemporaryDirectory() as folder:
        training = first_training(config, graphs, Path(folder))
        ours = epoch_seconds(training, counted)
        steps, index, recorded = len(training.batches), training.split.train, training._replay is not None
    yield case, "ours, s", ours
    yield case, "steps", steps
    if not recorded:
        print(f"{case}: the steps of this training are not recorded", file=sys.stderr)
    taken = min(steps, most_gin_steps or steps)
    loader = DataLoader([dataset[i] for i in index[: taken * size].tolist()], size, shuffle=True)
    gin = GIN(graphs.schema.in_channels, config.model.hidden, config.model.layers).to(DEVICE)
    linear = torch.nn.Linear(config.model.hidden, graphs.schema.out_channels, device=DEVICE)
    optimizer = torch.optim.Adam([*gin.parameters(), *linear.parameters()], fused=True)
    task = Task(graphs.schema)

    def train_gin(batches: Iterable[Any]) -> None:
        for batch in batches:
            batch = batch.to(DEVICE)
            optimizer.zero_grad()
            scores = linear(global_add_pool(gin(batch.x, batch.edge_index), batch.batch))
            (task.loss(scores, task.targets(batch.y)) / len(batch.y)).backward()
            optimizer.step()

    ready = [batch.to(DEVICE) for batch in loader]
    yield case, "steps of GIN measured", taken
    for name, batches in (("PyG's DataLoader", loader), ("batches on the GPU", ready)):
        with settings():  # the engine's repeatable results would cost GIN time
            train_gin(ready[:5])
            theirs = seconds(partial(train_gin, batches)) * steps / len(loader)
        yield case, f"GIN with {name}, s", theirs
        yield case, f"GIN with {name} / ours", theirs / ours


def shipped(name: str, precision: Literal["bf16", "32"] = "bf16") -> Config:
    """A config of the paper."""
    return replace(load_config(CONFIGS / f"{name}.yaml"), run=RunConfig(precision=precision, tensorboard=False))


def epoch_seconds(training: Training, counted: int) -> float:
    """Median of some epochs after a first one, in which kernels are compiled and the steps recorded."""
    times = []
    for _ in range(1 + counted):
        training.state["epoch"] += 1
        times.append(seconds(partial(training.train_epoch, Callback())))
    return statistics.median(times[1:])
