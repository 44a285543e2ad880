"""Reading graph6, the text format for small undirected graphs (one printable line each)."""

import numpy as np

from pggnn.data.archives import MOST_BYTES


def read_graph6(line: bytes | str, place: str = "graph6") -> tuple[int, np.ndarray]:
    """Number of nodes and ``[2, E]`` edges, each in both directions, sorted.

    Args:
        line: One graph, with or without the header ``>>graph6<<``.
        place: Named in errors.
    """
    text = line.encode() if isinstance(line, str) else line
    codes = np.frombuffer(text.strip().removeprefix(b">>graph6<<"), np.uint8).astype(np.int64) - 63
    if codes.size == 0 or codes.min() < 0 or codes.max() > 63:
        raise ValueError(f"{place}: not a graph6 line: {text[:40]!r}")
    head = 1 if codes[0] < 63 else 4 if codes[1:2].tolist() != [63] else 8
    digits = codes[:head] if head == 1 else codes[head // 4 : head]
    nodes = int(digits @ 64 ** np.arange(len(digits))[::-1])
    pairs = nodes * (nodes - 1) // 2
    if codes.size < head or codes.size - head != -(-pairs // 6):
        raise ValueError(f"{place}: {nodes} nodes need {-(-pairs // 6)} characters of edges, got {codes.size - head}")
    if nodes * nodes > MOST_BYTES:
        raise ValueError(f"{place}: {nodes} nodes are too many for a graph6 line")
    bits = np.unpackbits(codes[head:].astype(np.uint8)[:, None], axis=1)[:, 2:].reshape(-1)[:pairs]
    adjacency = np.zeros((nodes, nodes), bool)
    adjacency.T[np.tril_indices(nodes, -1)] = bits  # the upper triangle, column by column
    return nodes, np.stack(np.nonzero(adjacency | adjacency.T))
