"""The size that batches are padded to, so that one recording serves them all."""

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from pggnn.orderings import Reading
from pggnn.plan import profile_of

SPARE = 1.25
"""Capacity grows to this multiple of what a batch needs: a larger one may follow."""


@dataclass(frozen=True)
class Capacity:
    """Nodes by degree, enough for every batch so far.

    By default an upper bound, for :class:`~pggnn.plan.PaddedPlan`: a batch has at most as many nodes of each degree *or
    more*. A batch is padded with nodes without neighbours, one at least. If ``exact``, all batches have the same number
    of nodes of each degree, for any :class:`~pggnn.plan.Plan`: a batch is padded with nodes of every degree.
    """

    degrees: np.ndarray
    """``[D]`` rising from 0."""
    counts: np.ndarray
    """``[D]`` nodes of this degree or more; of exactly this degree if ``exact``."""
    exact: bool = False

    @classmethod
    def of(cls, degrees: np.ndarray, nodes: np.ndarray, exact: bool = False) -> "Capacity":
        """What the largest of several batches needs, from their ``[batches, D]`` nodes of each degree."""
        if exact:
            return cls(degrees, nodes.max(0), True)
        counts = nodes[:, ::-1].cumsum(1)[:, ::-1].max(0)
        counts[0] += 1
        return cls(degrees, counts)

    @classmethod
    def of_profile(cls, profile: Tensor) -> "Capacity":
        """What one batch needs, from its :attr:`~pggnn.plan.Plan.profile`."""
        falling, nodes = profile.numpy().T
        degrees = np.union1d(0, falling)
        histogram = np.zeros((1, len(degrees)), np.int64)
        histogram[0, np.searchsorted(degrees, falling)] = nodes
        return cls.of(degrees, histogram)

    def holds(self, other: "Capacity") -> bool:
        """Whether a batch that needs the other fits."""
        return bool((self._at(other.degrees) >= other.counts).all())

    def grown(self, other: "Capacity") -> "Capacity":
        """Enough for both, with some to spare for more like the other."""
        degrees = np.union1d(self.degrees, other.degrees)
        needed = other._at(degrees)
        if not self.exact:
            needed = np.ceil(SPARE * needed).astype(np.int64)
        return Capacity(degrees, np.maximum(self._at(degrees), needed), self.exact)

    def _at(self, degrees: np.ndarray) -> np.ndarray:
        """:attr:`counts` at other degrees."""
        place = np.searchsorted(self.degrees, degrees)
        counts = np.append(self.counts, 0)[place]
        return np.where(np.append(self.degrees, -1)[place] == degrees, counts, 0) if self.exact else counts

    @property
    def by_degree(self) -> np.ndarray:
        """``[D]`` nodes of each degree in the profile that all batches share."""
        return self.counts if self.exact else self.counts - np.append(self.counts[1:], 0)

    @property
    def nodes(self) -> int:
        return int(self.by_degree.sum())

    @property
    def edges(self) -> int:
        return int(self.by_degree @ self.degrees)

    def steps(self, reading: Reading) -> int:
        """Steps of the sequences that are read."""
        return int(self.by_degree @ reading.work(self.degrees))

    @property
    def profile(self) -> Tensor:
        """:attr:`pggnn.plan.Plan.profile` of every batch."""
        return profile_of(self.degrees, self.by_degree)
