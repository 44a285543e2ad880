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


def grouped_split(groups: Tensor, seed: int = 0, fractions: tuple[float, ...] = (0.8, 0.1, 0.1)) -> list[Tensor]:
    """Disjoint parts of about the given fractions, none of which shares a group with another. Groups come in random
    order, but those that would fill half of the smallest part or more come first, and so to the first part.

    Args:
        groups: ``[G]`` number of each graph's group, from 0.
        seed: Seed of the order.
        fractions: Those of the whole, which must sum to 1.
    """
    sizes = torch.bincount(groups).numpy()
    order = np.random.RandomState(seed).permutation(len(sizes))
    large = sizes[order] > min(fractions) * len(groups) / 2
    part_of = np.empty(len(sizes), np.int64)
    room = np.array(fractions) * len(groups)
    for group in np.concatenate([order[large], order[~large]]):
        fits = np.flatnonzero(room + 1e-9 >= sizes[group])
        part = fits[0] if len(fits) else int(room.argmax())
        part_of[group] = part
        room[part] -= sizes[group]
    member = torch.from_numpy(part_of)[groups]
    return [(member == part).nonzero().view(-1) for part in range(len(fractions))]
