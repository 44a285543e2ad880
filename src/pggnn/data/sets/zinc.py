"""ZINC-12k: molecules, atom and bond types, and their constrained solubility."""

from pathlib import Path

import numpy as np
import torch

from pggnn.data.dataset import GraphDataset, Transform, load_graphs
from pggnn.data.formats.archives import need, read_npz
from pggnn.data.graphs import Graphs, compact
from pggnn.data.schema import Schema

FILE = "zinc/zinc12k.npz"
VERSION = "zinc 1"
ATOM_TYPES = tuple(range(28))
BOND_TYPES = (1, 2, 3)


class ZINC(GraphDataset):
    """12,000 molecules; ``x`` has 28 one-hot atom types, ``edge_attr`` 3 one-hot bond types, ``y`` one number each.

    Args:
        root, split, transform, pre_transform: See :class:`GraphDataset`; 10,000 / 1,000 / 1,000 graphs.
    """

    def __init__(
        self,
        root: str | Path | None = None,
        split: str | None = None,
        transform: Transform = None,
        pre_transform: Transform = None,
    ) -> None:
        super().__init__(load_graphs(FILE, root, VERSION, read_zinc), FILE, root, split, transform, pre_transform)


def read_zinc(path: Path) -> Graphs:
    """Reads the arrays ``train_x``, ``train_n``, …: atoms, sizes, edges in both directions, bonds (1 to 3), targets."""
    arrays = read_npz(path)
    parts = ("train", "val", "test")
    for part in parts:
        need(
            arrays,
            path,
            **{f"{part}_{name}": "i1" for name in ("x", "n", "m", "src", "dst", "bond")},
            **{f"{part}_y": "f1"},
        )
    x, n, m, src, dst, bond, y = (
        np.concatenate([arrays[f"{part}_{name}"].reshape(-1) for part in parts])
        for name in ("x", "n", "m", "src", "dst", "bond", "y")
    )
    ends = np.cumsum([len(arrays[f"{part}_n"]) for part in parts])
    if not len(src) == len(dst) == len(bond):
        raise ValueError(f"{path}: {len(src)} sources, {len(dst)} targets and {len(bond)} bonds")
    if bond.size and bond.min() < 1:
        raise ValueError(f"{path}: bond types must be 1 to {len(BOND_TYPES)}, got {bond.min()}")
    return Graphs(
        torch.from_numpy(n.astype(np.int64)),
        torch.from_numpy(m.astype(np.int64)),
        compact(np.stack([src, dst])),
        {"x": compact(x)},
        {"edge_attr": compact(bond - 1)},
        {"y": torch.from_numpy(y.astype(np.float32))},
        Schema("graph", "regression", node_labels=ATOM_TYPES, edge_labels=BOND_TYPES),
        {
            part: torch.arange(end - len(arrays[f"{part}_n"]), end)
            for part, end in zip(parts, ends.tolist(), strict=True)
        },
    )
