"""The random numbers of the authors' scripts: a seed then starts from their weights, and draws their batches.

Their figures are those of a few seeds, and all folds of a seed share its start. What is drawn on a GPU in the course of
a training, dropout, cannot be had again.
"""

from math import sqrt
from operator import attrgetter
from typing import cast

import numpy as np
import torch
from torch import Tensor
from torch.nn.init import uniform_
from torch_geometric.nn.dense.linear import Linear

from pggnn.data.batching.batches import Batches
from pggnn.nn.conv import SequenceConv
from pggnn.nn.model import Network
from pggnn.train.config import Config


def check(config: Config) -> None:
    """Refuses what their scripts do not have."""
    scripts = {"model.name": "pggnn", "model.init": "torch", "model.committee": 1, "optim.sampling": "draws"}
    for key, needed in scripts.items():
        given = attrgetter(key)(config)
        if given != needed:
            raise ValueError(f"protocol.random authors needs {key} {needed}, as their scripts have it, got {given}")


def start(network: Network, seed: int) -> None:
    """Gives a PG-GNN the weights that their scripts make of a seed, with PyTorch's own layers in their order."""
    generator = torch.Generator().manual_seed(seed)
    rnns = [cast(SequenceConv, conv).rnn for conv in network.convs]
    hidden = rnns[0].hidden_size
    if network.level == "graph":  # two linear maps for each layer come first there, which an RNN has no use for
        unused = sum(hidden * (rnn.input_size + 1) + hidden * (hidden + 1) for rnn in rnns)
        torch.rand(unused, generator=generator)
    drawn = [(rnn, hidden) for rnn in rnns] + [(score, cast(Linear, score).in_channels) for score in network.scores]
    for module, width in drawn:
        for parameter in module.parameters():
            uniform_(parameter, -1 / sqrt(width), 1 / sqrt(width), generator=generator)


class Draws(Batches):
    """The batches that their scripts draw with a seed; epochs count from 1, and are all one stream."""

    _random: tuple[int, np.random.RandomState] | None = None
    """The epoch that is next in the stream, and what draws it."""

    def _choose(self) -> list[Tensor]:
        following, random = self._random or (0, np.random.RandomState(self.seed))
        if following != self.epoch:
            random = np.random.RandomState(self.seed)
            for _ in range((self.epoch - 1) * self.steps):
                random.permutation(len(self.index))
        self._random = self.epoch + 1, random
        orders = [random.permutation(len(self.index))[: self.batch_size] for _ in range(self.steps)]
        return [self.index[torch.from_numpy(order)] for order in orders]
