"""Splits that are the same on every machine: the paper's stratified folds, GIN's fold files, seeded random ones."""

import warnings
from pathlib import Path, PurePosixPath

import numpy as np
import torch
from torch import Tensor

from pggnn.data.formats.archives import read_file, read_zip
from pggnn.data.formats.text import parse_numbers, whole

Fold = tuple[Tensor, Tensor]
SMALL = 1000


def stratified_folds(y: Tensor, seed: int = 0, folds: int = 10) -> list[Fold]:
    """Indices for training and testing of the paper's folds: scikit-learn's ``StratifiedKFold``, shuffled.

    With 1,000 graphs or fewer the seed is always 0, as in the authors' code.

    Args:
        y: ``[G]`` class of each graph.
        seed: Seed of the shuffle.
        folds: Number of folds, at least 2.
    """
    from sklearn.model_selection import StratifiedKFold

    if y.dim() != 1 or y.is_floating_point():
        raise ValueError(f"folds need one integer class for each graph, got {y.dtype} of shape {list(y.shape)}")
    try:
        kfold = StratifiedKFold(folds, shuffle=True, random_state=0 if len(y) <= SMALL else seed)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The least populated class")  # some folds have none of it
            found = list(kfold.split(y, y.cpu().numpy()))
    except ValueError as error:
        raise ValueError(f"{folds} folds cannot be made: {error}") from None
    return [(torch.from_numpy(train), torch.from_numpy(test)) for train, test in found]


def gin_folds(path: Path, graphs: int) -> list[Fold]:
    """The ten folds of ``10fold_idx/train_idx-K.txt`` and ``test_idx-K.txt`` in GIN's archive (zip or folder).

    Those of MUTAG and PROTEINS never test 8 and 3 of the graphs.
    """
    if path.is_dir():
        texts = {file.name: read_file(file) for file in sorted((path / "10fold_idx").glob("*.txt"))}
    else:
        members = {PurePosixPath(name): text for name, text in read_zip(path, ".txt").items()}
        texts = {name.name: bytes(text) for name, text in members.items() if name.parent.name == "10fold_idx"}
    return [
        (_read_fold(path, texts, f"train_idx-{k}.txt", graphs), _read_fold(path, texts, f"test_idx-{k}.txt", graphs))
        for k in range(1, 11)
    ]


def random_split(graphs: int, seed: int = 0, fractions: tuple[float, ...] = (0.8, 0.1, 0.1)) -> list[Tensor]:
    """Disjoint random parts of ``0 … graphs − 1``, of the given fractions of the whole; by default train, val, test."""
    if min(fractions) < 0 or not 0 < sum(fractions) < 1 + 1e-9:
        raise ValueError(f"fractions must not be negative and sum to 1 at most, got {fractions}")
    order = torch.from_numpy(np.random.RandomState(seed).permutation(graphs))
    ends = [round(end * graphs) for end in np.cumsum(fractions)]
    return [order[first:last] for first, last in zip([0, *ends], ends, strict=False)]


def _read_fold(path: Path, texts: dict[str, bytes], name: str, graphs: int) -> Tensor:
    place = f"{path}: 10fold_idx/{name}"
    if name not in texts:
        raise ValueError(f"{place} is missing")
    values, counts = parse_numbers(place, texts[name])
    index = whole(place, values, np.repeat(np.arange(len(counts)), counts))
    if len(np.unique(index)) < len(index) or index.min(initial=0) < 0 or index.max(initial=0) >= graphs:
        raise ValueError(f"{place} must name graphs of 0 to {graphs - 1}, each once")
    return torch.from_numpy(index)
