"""Colours of nodes as 64-bit hashes, and what a node sees of its neighbours' colours: colour refinement (1-WL).

Multisets are hashed by their sum, tuples in their order; that two of a million different ones collide has probability
3·10⁻⁸. A collision can only hide a difference.
"""

import numpy as np

ODD = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


def number(keys: np.ndarray) -> tuple[np.ndarray, int]:
    """Equal keys as equal numbers from 0, and how many there are."""
    values, numbers = np.unique(keys, return_inverse=True)
    return numbers.reshape(keys.shape), len(values)


def scramble(keys: np.ndarray) -> np.ndarray:
    """A hash of each key, one to one (the finaliser of splitmix64). Sums of hashes stand for multisets of keys."""
    hashed = keys.astype(np.uint64) + ODD[0]
    for shift, factor in ((30, ODD[1]), (27, ODD[2])):
        hashed ^= hashed >> np.uint64(shift)
        hashed *= factor
    return hashed ^ (hashed >> np.uint64(31))


def combine(*parts: np.ndarray) -> np.ndarray:
    """A hash of tuples, entry by entry of the arrays, which are broadcast."""
    hashed = scramble(parts[0])
    for part in parts[1:]:
        hashed = scramble(hashed * ODD[0] + part.astype(np.uint64))
    return hashed


def see_neighbours(colours: np.ndarray, source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """``[N]`` a hash of the multiset of each node's neighbours' colours; with directed edges, both ways."""
    hashed = scramble(colours)
    seen = np.zeros((2, len(colours)), np.uint64)
    np.add.at(seen[0], target, hashed[source])
    np.add.at(seen[1], source, hashed[target])
    return combine(*seen)


def number_rows(rows: np.ndarray) -> np.ndarray:
    """Equal rows as equal numbers from 0."""
    return np.unique(rows, axis=0, return_inverse=True)[1].reshape(len(rows))
