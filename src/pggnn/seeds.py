"""Seeds for parts of a run, so that each part's randomness depends on nothing that happened before it."""

import numpy as np


def derived_seed(*parts: int) -> int:
    """A seed of 63 bits for the given numbers: equal numbers, equal seed, on every machine."""
    return int(np.random.SeedSequence(parts).generate_state(1, np.uint64)[0] >> 1)
