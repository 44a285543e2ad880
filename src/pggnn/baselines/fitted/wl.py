"""The WL subtree kernel of Shervashidze et al., 2011, with a support vector machine."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from torch_geometric.data import Data

from pggnn.baselines.fitted.classifier import FittedClassifier
from pggnn.baselines.fitted.colours import combine, number, number_rows, see_neighbours

PENALTIES = (0.1, 1.0, 10.0, 100.0, 1000.0)
"""The values of the machine's C that are tried."""


class WLKernel(FittedClassifier):
    r"""Colour refinement (1-WL) on all graphs, and a support vector machine on how often each colour occurs in them.

    .. math::
        k(G, G') = \sum_{i=0}^{h} \langle \phi_i(G), \phi_i(G') \rangle, \qquad
        \phi_i(G)_c = |\{v : c^{(i)}_v = c\}|

    :math:`c^{(0)}_v` is the node's label, :math:`c^{(i+1)}_v` the pair of :math:`c^{(i)}_v` and the multiset of its
    neighbours' colours. The kernel is normalised, :math:`k(G, G') / \sqrt{k(G, G)\, k(G', G')}`. How many iterations
    h, and the machine's C, are chosen by cross-validation inside the training graphs.

    Args:
        seed: As in :class:`~pggnn.baselines.fitted.classifier.FittedClassifier`.
        iterations: The most iterations that are tried, from 0.
    """

    def __init__(self, seed: int = 0, iterations: int = 10) -> None:
        super().__init__(seed)
        self.iterations = iterations
        self.kernels: list[np.ndarray] = []
        """``[G, G]`` of 0, 1, … iterations."""

    def read(self, graphs: Data) -> None:
        from scipy.sparse import coo_matrix

        source, target = graphs.edge_index.numpy()
        graph = graphs.batch.numpy()
        size = int(graphs.num_graphs)
        labels = np.zeros(len(graph), np.int64) if graphs.x is None else graphs.x.numpy()
        colours = number_rows(labels) if labels.ndim > 1 else number(labels)[0]
        total = np.zeros((size, size))
        self.kernels, known = [], 0
        for iteration in range(self.iterations + 1):
            if iteration:
                colours = number(combine(colours, see_neighbours(colours, source, target)))[0]
            known = int(colours.max(initial=-1)) + 1
            counts = coo_matrix((np.ones(len(graph)), (graph, colours)), (size, max(known, 1))).tocsr()
            total = total + (counts @ counts.T).toarray()
            root = np.sqrt(total.diagonal().clip(min=1))
            self.kernels.append((total / root[:, None] / root).astype(np.float32))

    def tries(self, train: np.ndarray) -> Iterator[dict[str, Any]]:
        for iterations in range(len(self.kernels)):
            for penalty in PENALTIES:
                yield {"iterations": iterations, "C": penalty}

    def answer(self, options: dict[str, Any], y: np.ndarray, train: np.ndarray, asked: np.ndarray) -> np.ndarray:
        from sklearn.svm import SVC

        kernel = self.kernels[options["iterations"]]
        machine = SVC(C=options["C"], kernel="precomputed", max_iter=STEPS)
        machine.fit(kernel[np.ix_(train, train)], y[train])
        found: np.ndarray = machine.predict(kernel[np.ix_(asked, train)])
        return found


STEPS = 10**6
"""Of the machine's solver at most: with a large C it may not end."""
