"""The idx files in which MNIST and its likes are published: an array with its type and shape in front."""

import gzip
import zlib
from math import prod
from pathlib import Path

import numpy as np

TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
MOST_BYTES = 2 * 2**30


def load_idx(path: str | Path) -> np.ndarray:
    """The array of an idx file, compressed with gzip or not. No more is read than its header says."""
    with open(path, "rb") as probe:
        compressed = probe.read(2) == b"\x1f\x8b"
    try:
        with gzip.open(path) if compressed else open(path, "rb") as file:
            head = file.read(4)
            if len(head) < 4 or head[:2] != b"\0\0" or head[2] not in TYPES or not 1 <= head[3] <= 4:
                raise ValueError(f"{path} is no idx file: it begins with {head.hex(' ') or 'nothing'}")
            dtype, dimensions = np.dtype(TYPES[head[2]]), head[3]
            sizes = file.read(4 * dimensions)
            if len(sizes) < 4 * dimensions:
                raise ValueError(f"{path} ends within its header of {dimensions} sizes")
            shape = tuple(np.frombuffer(sizes, ">u4").tolist())
            expected = prod(shape) * dtype.itemsize
            if expected > MOST_BYTES:
                raise ValueError(
                    f"{path} says it holds {shape}, {expected} bytes; the most that is read is {MOST_BYTES}"
                )
            content = bytearray()
            while len(content) <= expected and (piece := file.read(min(2**20, expected + 1 - len(content)))):
                content += piece
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{path} is damaged: {error}") from None
    if len(content) != expected:
        found = f"{len(content)} bytes" if len(content) < expected else "more"
        raise ValueError(f"{path} says it holds {shape}, {expected} bytes, but there are {found}")
    return np.frombuffer(content, dtype).reshape(shape).astype(dtype.newbyteorder("="))
