"""How much memory a call may use for intermediate states."""

DEFAULT_WORKSPACE = {"cpu": 256 * 2**20, "cuda": 888 * 2**20}
"""Bytes for intermediate states, by device."""
SHARES = 64
"""The part of a GPU's memory, one in so many, that each layer of a network may hold on to for its states."""
