"""Graphs in McKay's graph6 text format, one undirected graph per line, read with networkx.

>>> decode("C~").num_edges  # the complete graph on four nodes, each edge in both directions
12
"""

from pathlib import Path

import networkx as nx
import torch
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

HEADER = b">>graph6<<"


def decode(text: str | bytes) -> Data:
    """The graph of one line, with ``num_nodes`` and a sorted ``edge_index`` in both directions.

    Example:
        >>> from pggnn.data.formats.graph6 import decode
        >>> decode("C~").num_edges  # the complete graph on four nodes, each edge in both directions
        12
    """
    line = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else bytes(text)
    line = line.rstrip(b"\r\n").removeprefix(HEADER)
    strange = bytes(byte for byte in line if not 63 <= byte <= 126)  # networkx misreads those below 63
    if strange:
        raise ValueError(f"{strange[:1]!r} is no graph6 character: they are '?' to '~'")
    try:
        graph = nx.from_graph6_bytes(line)
    except IndexError:
        raise ValueError("the graph6 line ends before the number of nodes") from None
    except nx.NetworkXError as error:
        raise ValueError(f"not graph6: {error}") from None
    once = torch.tensor([*graph.edges], dtype=torch.long).view(-1, 2).t()
    return Data(edge_index=to_undirected(once, num_nodes=len(graph)), num_nodes=len(graph))


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
                raise ValueError(f"{path}, line {number}: {error}") from None
    return graphs
