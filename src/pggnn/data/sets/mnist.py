"""MNIST as graphs of superpixels, each joined to its 8 nearest."""

from pathlib import Path

import numpy as np
import torch

from pggnn.data.dataset import GraphDataset, Transform, load_graphs
from pggnn.data.formats.archives import need, read_npz
from pggnn.data.graphs import Graphs, compact
from pggnn.data.schema import Schema

FILE = "mnist/mnist75sp.npz"
VERSION = "mnist 1"
VALIDATION, TRAINING = 5_000, 60_000


class MNIST(GraphDataset):
    """70,000 digits; ``x`` is mean intensity, row and column of a superpixel, scaled to 0 … 1.

    Graphs are directed. A node's neighbours are the heads of its 8 outgoing edges, so layers and plans need
    ``flow="target_to_source"``, which the schema says.

    Args:
        root, split, transform, pre_transform: See :class:`GraphDataset`; the first 5,000 graphs validate, the next
            55,000 train, the last 10,000 test.
    """

    def __init__(
        self,
        root: str | Path | None = None,
        split: str | None = None,
        transform: Transform = None,
        pre_transform: Transform = None,
    ) -> None:
        super().__init__(load_graphs(FILE, root, VERSION, read_mnist), FILE, root, split, transform, pre_transform)


def read_mnist(path: Path) -> Graphs:
    """Reads ``n``, ``x``, ``nbr`` (``[N, 8]``, each node's neighbours in their order) and ``y``."""
    arrays = read_npz(path)
    need(arrays, path, n="i1", x="f2", nbr="i2", y="i1")
    n, x, neighbours, y = (arrays[name] for name in ("n", "x", "nbr", "y"))
    sizes = n.astype(np.int64)
    if sizes.min(initial=0) < 0 or sizes.sum() != len(neighbours):
        raise ValueError(f"{path}: n adds up to {sizes.sum()} nodes, nbr has {len(neighbours)} rows")
    first = np.cumsum(sizes) - sizes
    local = (np.arange(sizes.sum()) - np.repeat(first, sizes)).astype(np.int32)
    edge_index = torch.stack(
        [compact(array) for array in (np.repeat(local, neighbours.shape[1]), neighbours.reshape(-1))]
    )
    count = len(sizes)
    bounds = {"train": (VALIDATION, TRAINING), "val": (0, VALIDATION), "test": (TRAINING, count)}
    return Graphs(
        torch.from_numpy(sizes),
        torch.from_numpy(sizes * neighbours.shape[1]),
        edge_index,
        {"x": torch.from_numpy(x)},
        graph={"y": torch.from_numpy(y.astype(np.int64))},
        schema=Schema(
            "graph", "classification", features=x.shape[1], classes=tuple(range(10)), flow="target_to_source"
        ),
        splits={name: torch.arange(min(a, count), min(max(a, b), count)) for name, (a, b) in bounds.items()},
    )
