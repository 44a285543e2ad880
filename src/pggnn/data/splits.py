"""Splits that are the same on every machine: the paper's stratified folds, and seeded random ones."""

import warnings

import numpy as np
import torch
from torch import Tensor

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


def random_split(graphs: int, seed: int = 0, fractions: tuple[float, ...] = (0.8, 0.1, 0.1)) -> list[Tensor]:
    """Disjoint random parts of ``0 … graphs − 1``, of the given fractions of the whole; by default train, val, test."""
    if min(fractions) < 0 or not 0 < sum(fractions) < 1 + 1e-9:
        raise ValueError(f"fractions must not be negative and sum to 1 at most, got {fractions}")
    order = torch.from_numpy(np.random.RandomState(seed).permutation(graphs))
    ends = [round(end * graphs) for end in np.cumsum(fractions)]
    return [order[first:last] for first, last in zip([0, *ends], ends, strict=False)]
