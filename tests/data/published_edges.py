"""How the published edges of MNIST's graphs hang on rounding: ``python tests/data/published_edges.py DATA STEP``.

Makes the edges of every STEP-th test image again, by the partial sort that the published ones come from, and prints,
for centres of superpixels in single and in double precision: the share of edges that are the published ones, how many
graphs have another number of directed 3-cycles, and mean and maximum of that number, beside those of the published.
NumPy's sort for newer processors leaves elements in another order, so this starts itself again without it.
"""

import json
import os
import sys
from pathlib import Path

import numpy as np
from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

if __name__ == "__main__" and (newer := [feature for feature in __cpu_dispatch__ if __cpu_features__[feature]]):
    os.environ["NPY_DISABLE_CPU_FEATURES"] = " ".join(newer)
    os.execv(sys.executable, [sys.executable, *sys.argv])

from scipy.spatial.distance import cdist

from pggnn.data.sets.idx import load_idx
from pggnn.data.sets.superpixels import superpixels

NEIGHBORS, SIDE = 8, 28


def centres(image: np.ndarray) -> np.ndarray:
    """Mean row and column of each superpixel."""
    labels = superpixels(image)
    size = np.bincount(labels.ravel())
    return np.stack([np.bincount(labels.ravel(), axis.ravel()) / size for axis in np.indices(labels.shape)], axis=1)


def published_way(place: np.ndarray) -> np.ndarray:
    """Eight of the nine most similar nodes: whichever the partial sort has put last is lost."""
    distance = cdist(place, place)
    scale = np.partition(distance, NEIGHBORS)[:, NEIGHBORS::-1].sum(1, keepdims=True) / NEIGHBORS + 1e-8
    similarity = np.exp(-((distance / scale) ** 2))
    similarity = 0.5 * (similarity + similarity.T)
    np.fill_diagonal(similarity, 0)
    first = len(place) - NEIGHBORS - 1
    return np.argpartition(similarity, first - 1)[:, first:-1]


def cycles(neighbors: np.ndarray) -> int:
    """Directed 3-cycles, tr(A³)/3."""
    adjacency = np.zeros((len(neighbors),) * 2)
    np.put_along_axis(adjacency, neighbors, 1, axis=1)
    return round(np.trace(adjacency @ adjacency @ adjacency) / 3)


def main(root: Path, step: int) -> None:
    images = load_idx(root / "mnist" / "t10k-images-idx3-ubyte.gz")
    with np.load(root / "mnist" / "mnist75sp.npz", allow_pickle=False) as file:
        n, x, published = (file[key] for key in ("n", "x", "nbr"))
    begins = np.append(0, n.astype(np.int64).cumsum())[-len(images) - 1 :]
    same, counts = {"single": [], "double": []}, {"single": [], "double": [], "published": []}
    for number in range(0, len(images), step):
        part = slice(begins[number], begins[number + 1])
        centre, theirs = centres(images[number]), published[part].astype(np.int64)
        apart = np.abs(x[part, None, 1:].astype(np.float64) - centre / SIDE).max(2)
        centre = centre[apart.argmin(1)]  # published nodes are in random order
        counts["published"].append(cycles(theirs))
        for precision, ours in (("single", centre.astype(np.float32)), ("double", centre)):
            again = published_way(ours / ours.dtype.type(SIDE))
            same[precision].append((again[:, :, None] == theirs[:, None]).any(2).mean())
            counts[precision].append(cycles(again))
    figures = {key: {"mean": float(np.mean(each)), "most": max(each)} for key, each in counts.items()}
    for precision, shares in same.items():
        others = sum(a != b for a, b in zip(counts[precision], counts["published"], strict=True))
        figures[precision] |= {"same edges": float(np.mean(shares)), "graphs with another number": others}
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
