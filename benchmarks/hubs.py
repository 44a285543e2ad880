"""Training epochs with the whole group of the linear cell, steps recorded, beside PyG's GIN on the same graphs."""

from dataclasses import replace

import torch
from torch_geometric.data import Data, InMemoryDataset

from benchmarks.arcs import hub
from benchmarks.data import is_there
from benchmarks.epochs import MOST_GIN_STEPS, epoch, shipped
from benchmarks.timing import Figures
from pggnn.data.loading import load
from pggnn.train.config import Config


class Threads(InMemoryDataset):
    """Graphs like threads of REDDIT: each has a hub of 2,000 to 3,000 neighbours, and half as many edges elsewhere."""

    def __init__(self, count: int) -> None:
        super().__init__()
        sizes = torch.randint(2000, 3001, (count,)).tolist()
        self.data, self.slices = self.collate(
            [Data(torch.ones(n + 1, 1), hub(n), y=torch.tensor([i % 2])) for i, n in enumerate(sizes)]
        )


def hubs() -> Figures:
    """COLLAB, MNIST and graphs with hubs, each with the depth, width and batches of its config; in float32."""
    for name in ("COLLAB", "MNIST"):
        if is_there(name):
            config = with_linear_cell(name.lower())
            yield from epoch(name, config, load(name, config.data.root), 3, MOST_GIN_STEPS.get(name))
    yield from epoch("graphs with hubs", with_linear_cell("collab"), Threads(200), 3, None)


def with_linear_cell(name: str) -> Config:
    """A config of the paper, in float32, with this cell."""
    config = shipped(name, "32")
    return replace(config, model=replace(config.model, cell="linear", rnn_layers=None))
