"""ogbg-molhiv and Peptides-func: molecules with OGB's features of atoms and bonds, and yes-or-no targets."""

from pathlib import Path

import numpy as np
import torch

from pggnn.data.dataset import GraphDataset, Transform, load_graphs
from pggnn.data.formats.archives import need, read_npz
from pggnn.data.graphs import Graphs, compact
from pggnn.data.schema import Schema

FILES = {"molhiv": "more/ogbg_molhiv.npz", "peptides": "more/peptides_func.npz"}
VERSION = "ogb 1"


class OGBMolecules(GraphDataset):
    """Molecules with OGB's features; ``y`` is a row of yes-or-no targets each.

    ``x`` has a one-hot column for each value that one of the 9 features of atoms takes, ``edge_attr`` for each value of
    the 3 features of bonds.

    Args:
        name: ``"molhiv"``: 41,127 molecules, whether they inhibit HIV. ``"peptides"``: 15,535 peptides and 10 functions
            that they may have.
        root, split, transform, pre_transform: See :class:`GraphDataset`; the splits are the published ones.
    """

    def __init__(
        self,
        name: str,
        root: str | Path | None = None,
        split: str | None = None,
        transform: Transform = None,
        pre_transform: Transform = None,
    ) -> None:
        if name not in FILES:
            raise ValueError(f"name must be one of {', '.join(map(repr, FILES))}, got {name!r}")
        file = FILES[name]
        super().__init__(load_graphs(file, root, VERSION, read_molecules), file, root, split, transform, pre_transform)


def read_molecules(path: Path) -> Graphs:
    """Reads sizes ``n``, ``m``, bonds ``src``, ``dst`` (each once), features ``x``, ``bond``, targets ``y``, splits."""
    arrays = read_npz(path)
    splits = ("train", "val", "test")
    targets = "i1" if arrays["y"].ndim == 1 else "i2"
    need(
        arrays, path, x="i2", n="i1", m="i1", src="i1", dst="i1", bond="i2", y=targets,
        **{f"split_{name}": "i1" for name in splits},
    )  # fmt: skip
    src, dst, bond, y = (arrays[name] for name in ("src", "dst", "bond", "y"))
    if not len(src) == len(dst) == len(bond):
        raise ValueError(f"{path}: {len(src)} sources, {len(dst)} targets and {len(bond)} bonds")
    if y.size and not 0 <= y.min() <= y.max() <= 1:
        raise ValueError(f"{path}: y must be 0 or 1, got {y.min()} to {y.max()}")
    x, edge_attr = one_hot(arrays["x"]), one_hot(bond)
    both_ways = np.stack([np.stack([src, dst], 1).reshape(-1), np.stack([dst, src], 1).reshape(-1)])
    return Graphs(
        torch.from_numpy(arrays["n"].astype(np.int64)),
        torch.from_numpy(2 * arrays["m"].astype(np.int64)),
        compact(both_ways),
        {"x": torch.from_numpy(x)},
        {"edge_attr": torch.from_numpy(edge_attr.repeat(2, axis=0))},
        {"y": torch.from_numpy(y.reshape(len(y), -1).astype(np.int64))},
        Schema("graph", "multilabel", y.size // max(len(y), 1), x.shape[1], edge_attr.shape[1]),
        {name: torch.from_numpy(arrays[f"split_{name}"].astype(np.int64)) for name in splits},
    )


def one_hot(columns: np.ndarray) -> np.ndarray:
    """``[N, C]`` bytes: of each column of whole numbers a column for each value in it, in ascending order."""
    return np.concatenate([column[:, None] == np.unique(column) for column in columns.T], axis=1).astype(np.uint8)
