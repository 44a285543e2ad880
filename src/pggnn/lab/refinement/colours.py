"""Colours, those of :mod:`pggnn.baselines.fitted.colours`, refined until two graphs differ or nothing changes."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

import numpy as np
from torch_geometric.data import Data

from pggnn.baselines.fitted.colours import combine, number, number_rows

Step = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Verdict:
    """What a test says of two graphs."""

    test: str
    parted: int | None
    """The first iteration at which the graphs' colours differ; None if they never do."""
    iterations: int
    """Iterations that were run: up to the parting, or until the colours were stable."""
    colours: int
    """Different colours at the end, in both graphs together."""

    @property
    def apart(self) -> bool:
        return self.parted is not None

    def __str__(self) -> str:
        verdict = f"parts them at iteration {self.parted}" if self.apart else f"never, stable after {self.iterations}"
        return f"{self.test}: {verdict}, {self.colours} colours"


def refine(test: str, keys: np.ndarray, step: Step) -> Verdict:
    """Refines colours until the two graphs part or no colour splits.

    Args:
        test: Name of the test.
        keys: ``[2, …]`` what the colours are at first, a row for each graph.
        step: Given colours ``[2, …]``, what each of them sees around it, as keys of the same shape.
    """
    colours, known = number(keys)
    for iteration in count():
        first, second = (np.bincount(row.ravel(), minlength=known) for row in colours)
        if (first != second).any():
            return Verdict(test, iteration, iteration, known)
        finer, found = number(combine(colours, step(colours)))
        if found == known:
            return Verdict(test, None, iteration, known)
        colours, known = finer, found
    raise AssertionError("colours split only as often as there are some")


def node_labels(a: Data, b: Data) -> np.ndarray:
    """``[2, n]`` nodes of two graphs of n nodes, numbered by their features ``x``; 0 where there are none."""
    if (a.x is None) != (b.x is None):
        raise ValueError("one graph has node features and the other has none: give both some, or remove them")
    if a.x is None or b.x is None:
        return np.zeros((2, int(a.num_nodes or 0)), np.int64)
    if a.x.shape != b.x.shape:
        raise ValueError(f"node features must be of one shape, got {list(a.x.shape)} and {list(b.x.shape)}")
    rows = np.stack([a.x.numpy(), b.x.numpy()])
    return number_rows(rows.reshape(-1, rows.shape[-1])).reshape(rows.shape[:2])
