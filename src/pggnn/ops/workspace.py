"""How much memory a call may use for intermediate states."""

DEFAULT_WORKSPACE = {"cpu": 256 * 2**20, "cuda": 888 * 2**20}
"""Bytes for intermediate states, by device."""
SHARES = 64
"""Each layer of a network may keep 1/64 of a GPU's memory for its states."""
