"""Graphs in McKay's graph6 text format: one undirected graph per line, its upper triangle six bits to a character.

>>> decode("C~").num_edges  # the complete graph on four nodes, each edge in both directions
12
"""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from pggnn.files import replacing

MOST_NODES = 258047
"""The largest graph of the format's four-character size field."""
HEADER = b">>graph6<<"
OTHER_FORMATS = {ord(":"): "sparse6", ord(";"): "incremental sparse6", ord("&"): "digraph6"}


def decode(text: str | bytes) -> Data:
    """The graph of one line, with ``edge_index`` in both directions, sorted, and ``num_nodes``.

    Errors name the place as a position in the line, from 1. Memory is in proportion to the line and the edges.
    """
    line = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else bytes(text)
    line = line.rstrip(b"\r\n")
    begin = len(HEADER) if line.startswith(HEADER) else 0
    if len(line) == begin:
        raise ValueError(f"position {begin + 1}: the line ends where the number of nodes was expected")
    if line[begin] in OTHER_FORMATS:
        raise ValueError(f"position {begin + 1}: this is {OTHER_FORMATS[line[begin]]}; only graph6 is read")
    values = np.frombuffer(line, np.uint8, offset=begin) - np.uint8(63)
    wrong = values > 63  # characters below '?' wrap around
    if wrong.any():
        at = begin + int(wrong.argmax())
        raise ValueError(f"position {at + 1}: {bytes([line[at]])!r} is no graph6 character (they are '?' to '~')")
    nodes, field = _read_size(values, begin)
    pairs = nodes * (nodes - 1) // 2
    body = values[field:]
    if len(body) != (pairs + 5) // 6:
        raise ValueError(
            f"position {begin + field + 1}: {nodes} nodes need {(pairs + 5) // 6} characters from here, "
            f"but there are {len(body)}"
        )
    used = np.flatnonzero(body)
    bits = np.unpackbits(np.left_shift(body[used, None], np.uint8(2)), axis=1, count=6)
    row, bit = np.nonzero(bits)
    position = used[row] * 6 + bit
    if len(position) and position[-1] >= pairs:
        raise ValueError(f"position {len(line)}: the bits after the last pair of nodes must be zero")
    high = ((np.sqrt(8.0 * position + 1.0) + 1.0) / 2.0).astype(np.int64)  # exact: 8 · position < 2⁵³
    low = position - high * (high - 1) // 2
    source, target = np.concatenate([low, high]), np.concatenate([high, low])
    order = np.lexsort((target, source))
    return Data(edge_index=torch.from_numpy(np.stack([source[order], target[order]])), num_nodes=nodes)


def _read_size(values: np.ndarray, begin: int) -> tuple[int, int]:
    """The number of nodes, and how many characters say it."""
    if values[0] < 63:
        return int(values[0]), 1
    if len(values) > 1 and values[1] == 63:
        raise ValueError(f"position {begin + 1}: graphs of more than {MOST_NODES} nodes are not read")
    if len(values) < 4:
        raise ValueError(f"position {begin + 1}: '~' must be followed by three characters of the number of nodes")
    return int(values[1]) << 12 | int(values[2]) << 6 | int(values[3]), 4


def encode(edge_index: Tensor, num_nodes: int) -> str:
    """One line, without its end, for an undirected graph whose edges may be given once or in both directions."""
    if not 0 <= num_nodes <= MOST_NODES:
        raise ValueError(f"graph6 holds graphs of 0 to {MOST_NODES} nodes, got {num_nodes}")
    if edge_index.dim() != 2 or edge_index.size(0) != 2 or edge_index.is_floating_point():
        got = f"{edge_index.dtype} {list(edge_index.shape)}"
        raise ValueError(f"edge_index must be of whole numbers and have shape [2, E], got {got}")
    source, target = edge_index.cpu().numpy().astype(np.int64)
    low, high = np.minimum(source, target), np.maximum(source, target)
    if len(low) and (low.min() < 0 or high.max() >= num_nodes):
        bad = low.min() if low.min() < 0 else high.max()
        raise ValueError(f"edge_index refers to node {bad}, but the graph has {num_nodes} nodes")
    if (low == high).any():
        raise ValueError(f"graph6 has no self-loops, but node {low[low == high][0]} has one; remove them first")
    position = np.unique(high * (high - 1) // 2 + low)
    body = np.zeros((num_nodes * (num_nodes - 1) // 2 + 5) // 6, np.uint8)
    np.bitwise_or.at(body, position // 6, (32 >> position % 6).astype(np.uint8))
    size = [num_nodes] if num_nodes < 63 else [63, num_nodes >> 12, num_nodes >> 6 & 63, num_nodes & 63]
    return (np.array(size, np.uint8) + np.uint8(63)).tobytes().decode() + (body + np.uint8(63)).tobytes().decode()


def load_graph6(path: str | Path) -> list[Data]:
    """All graphs of a file, one per line; blank lines are skipped."""
    graphs = []
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            if line.strip() in (b"", HEADER):
                continue
            try:
                graphs.append(decode(line))
            except ValueError as error:
                raise ValueError(f"{path}, line {number}, {error}") from None
    return graphs


def save_graph6(graphs: Iterable[Data], path: str | Path) -> Path:
    """Writes the graphs one per line, all or nothing; directions, features and labels are not part of the format."""
    with replacing(path) as unfinished, open(unfinished, "w", encoding="ascii", newline="\n") as file:
        for graph in graphs:
            file.write(encode(graph.edge_index, int(graph.num_nodes or 0)) + "\n")
    return Path(path)
