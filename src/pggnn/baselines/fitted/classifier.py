"""What fitted models have in common: options chosen by cross-validation inside the training graphs."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from torch_geometric.data import Data

FOLDS = 3
"""Folds of the cross-validation inside the training graphs."""


class FittedClassifier(ABC):
    """Classifies graphs after a fit to some of them. A subclass says what it tries, and how one try answers.

    Args:
        seed: Of everything random.
    """

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.chosen: dict[str, Any] = {}
        """What cross-validation chose, and its accuracy there; after :meth:`classify`."""

    @abstractmethod
    def read(self, graphs: Data) -> None:
        """Takes in all graphs, without their classes.

        Args:
            graphs: Graphs end to end: ``edge_index``, ``batch`` (each node's graph) and ``x``: numbers ``[N]`` of
                labels or rows ``[N, C]`` of features, or None.
        """

    @abstractmethod
    def tries(self, train: np.ndarray) -> Iterator[dict[str, Any]]:
        """The options to try, given the numbers of all graphs that may be learnt from, the simplest first."""

    @abstractmethod
    def answer(self, options: dict[str, Any], y: np.ndarray, train: np.ndarray, asked: np.ndarray) -> np.ndarray:
        """The classes of the graphs that are ``asked`` for, learnt from those in ``train``; ``y`` are the classes."""

    def classify(self, y: np.ndarray, train: np.ndarray, asked: Iterable[np.ndarray]) -> list[np.ndarray]:
        """The classes of graphs, learnt from the graphs in ``train``, whose classes alone are read in ``y``."""
        from sklearn.model_selection import StratifiedKFold

        folds = min(FOLDS, int(np.unique(y[train], return_counts=True)[1].min()))
        parts = StratifiedKFold(max(folds, 2), shuffle=True, random_state=self.seed).split(train, y[train])
        inner = [(train[one], train[other]) for one, other in parts]
        best = -1.0
        for options in self.tries(train):
            found = [float((self.answer(options, y, one, other) == y[other]).mean()) for one, other in inner]
            if (mean := float(np.mean(found))) > best:
                best, self.chosen = mean, {**options, "accuracy": mean}
        options = {name: value for name, value in self.chosen.items() if name != "accuracy"}
        return [self.answer(options, y, train, one) for one in asked]
