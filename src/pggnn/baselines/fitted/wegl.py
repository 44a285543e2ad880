"""WEGL, Wasserstein embedding for graph learning of Kolouri et al., 2021, with a random forest."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from torch_geometric.data import Data

from pggnn.baselines.fitted.classifier import FittedClassifier

COMPONENTS = 20
"""Principal components that are left where nodes are embedded in fewer dimensions."""
MOST_POINTS = 4_000
"""Embedded nodes that the template is made of at most."""


class WEGL(FittedClassifier):
    r"""Node embeddings by diffusion, the optimal transport of each graph's to a template, and a random forest.

    .. math::
        \mathbf{X}^{(l)} = \tilde{\mathbf{D}}^{-1/2} (\mathbf{A} + \mathbf{I}) \tilde{\mathbf{D}}^{-1/2}
        \mathbf{X}^{(l-1)}, \qquad \mathbf{Z} = [\mathbf{X}^{(0)}, \ldots, \mathbf{X}^{(L)}], \qquad
        \phi(G) = (M \boldsymbol{\gamma}^* \mathbf{Z} - \mathbf{Z}_0) / \sqrt{M}

    The template :math:`\mathbf{Z}_0` has M points, the mean number of nodes: k-means over nodes of the training
    graphs. :math:`\boldsymbol{\gamma}^*` is the plan of least squared distance from the template's points to the
    graph's nodes, all of equal weight (POT's exact solver), so that
    :math:`\|\phi(G) - \phi(G')\|` approximates the Wasserstein distance. How many diffusions L, and whether embeddings
    are cut to 20 principal components first, are chosen by cross-validation inside the training graphs.

    Its paper also tries the last diffusion or their mean instead of all side by side, other weights of the node itself,
    and other classifiers.

    Args:
        seed: As in :class:`~pggnn.baselines.fitted.classifier.FittedClassifier`.
        diffusions: The most diffusions that are tried, of 2, 4, 6 …
        trees: Of the forest.
    """

    def __init__(self, seed: int = 0, diffusions: int = 6, trees: int = 200) -> None:
        super().__init__(seed)
        self.diffusions, self.trees = diffusions, trees
        self._mapped: dict[tuple[int, int], np.ndarray] = {}

    def read(self, graphs: Data) -> None:
        from scipy.sparse import coo_matrix, identity

        source, target = graphs.edge_index.numpy()
        nodes, self.sizes = len(graphs.batch), np.bincount(graphs.batch.numpy(), minlength=int(graphs.num_graphs))
        linked = coo_matrix((np.ones(len(source)), (target, source)), (nodes, nodes)).tocsr()
        linked.data[:] = 1  # edges that occur several times count once
        linked = linked + identity(nodes, format="csr")
        root = np.asarray(linked.sum(1)).ravel() ** -0.5
        linked = linked.multiply(root[:, None]).multiply(root[None]).tocsr()
        labels = np.zeros(nodes, np.int64) if graphs.x is None else graphs.x.numpy()
        rows = labels if labels.ndim > 1 else np.eye(int(labels.max(initial=0)) + 1)[labels]
        self.states = [rows.astype(np.float64)]
        for _ in range(self.diffusions):
            self.states.append(linked @ self.states[-1])

    def tries(self, train: np.ndarray) -> Iterator[dict[str, Any]]:
        self._mapped = {}
        for diffusions in range(2, self.diffusions + 1, 2):
            for components in (0, COMPONENTS):
                self._mapped[diffusions, components] = self.embed(diffusions, components, train)
                yield {"diffusions": diffusions, "components": components}

    def embed(self, diffusions: int, components: int, train: np.ndarray) -> np.ndarray:
        """``[G, M · C]`` the transport of each graph, to a template of the nodes of the graphs in ``train``."""
        import ot
        from sklearn.cluster import KMeans
        from sklearn.decomposition import PCA

        states = np.concatenate(self.states[: diffusions + 1], axis=1)
        of_train = states[np.isin(np.arange(len(self.sizes)), train).repeat(self.sizes)]
        chosen = np.random.default_rng(self.seed).permutation(len(of_train))[:MOST_POINTS]
        points = of_train[chosen]
        if 0 < components < states.shape[1]:
            fitted = PCA(components, random_state=self.seed).fit(points)
            states, points = fitted.transform(states), fitted.transform(points)
        size = max(1, min(round(float(self.sizes[train].mean())), len(np.unique(points, axis=0))))
        template = KMeans(size, n_init=1, random_state=self.seed).fit(points).cluster_centers_
        uniform, found = np.full(size, 1 / size), np.zeros((len(self.sizes), size, states.shape[1]))
        for row, own in zip(found, np.split(states, self.sizes.cumsum()[:-1]), strict=True):
            if len(own):
                plan = ot.emd(uniform, np.full(len(own), 1 / len(own)), ot.dist(template, own))
                row[:] = (size * plan @ own - template) / np.sqrt(size)
        return found.reshape(len(found), -1).astype(np.float32)

    def answer(self, options: dict[str, Any], y: np.ndarray, train: np.ndarray, asked: np.ndarray) -> np.ndarray:
        from sklearn.ensemble import RandomForestClassifier

        mapped = self._mapped[options["diffusions"], options["components"]]
        forest = RandomForestClassifier(self.trees, random_state=self.seed).fit(mapped[train], y[train])
        found: np.ndarray = forest.predict(mapped[asked])
        return found
