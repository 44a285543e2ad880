"""BREC: 400 pairs of graphs that are not isomorphic but alike to the 1-WL test."""

from pathlib import Path

import numpy as np
import torch

from pggnn.data.dataset import GraphDataset, Transform, load_graphs
from pggnn.data.formats.archives import read_file
from pggnn.data.formats.graph6 import decode
from pggnn.data.graphs import Graphs, compact
from pggnn.data.schema import Schema

FILE = "brec/brec_pairs.tsv"
VERSION = "brec 1"
FAMILIES = ("Basic", "Regular", "StronglyRegular", "Extension", "CFI", "4-Vertex_Condition", "Distance_Regular")


class BREC(GraphDataset):
    """800 graphs: pair ``p`` is ``dataset[2 * p]`` and ``dataset[2 * p + 1]``; ``family`` indexes :data:`FAMILIES`.

    Nodes have the constant feature 1.

    Args:
        root, split, transform, pre_transform: See :class:`GraphDataset`; there are no splits.
    """

    def __init__(
        self,
        root: str | Path | None = None,
        split: str | None = None,
        transform: Transform = None,
        pre_transform: Transform = None,
    ) -> None:
        super().__init__(load_graphs(FILE, root, VERSION, read_brec), FILE, root, split, transform, pre_transform)


def read_brec(path: Path) -> Graphs:
    """Reads lines ``id, family, graph6, graph6``, separated by tabs."""
    graphs, family = [], []
    for number, line in enumerate(read_file(path).split(b"\n"), 1):
        fields = line.strip(b"\r").split(b"\t")
        if fields == [b""]:
            continue
        place = f"{path}, line {number}"
        if len(fields) != 4:
            raise ValueError(f"{place}: expected id, family and two graphs separated by tabs, got {len(fields)} fields")
        name = fields[1].decode(errors="replace")
        if name not in FAMILIES:
            raise ValueError(f"{place}: {name!r} is not a family of BREC; they are {', '.join(FAMILIES)}")
        family += 2 * [FAMILIES.index(name)]
        for text in fields[2:]:
            try:
                graphs.append(decode(text))
            except ValueError as error:
                raise ValueError(f"{place}: graph {text[:40]!r}: {error}") from None
    nodes = torch.tensor([graph.num_nodes for graph in graphs], dtype=torch.long)
    return Graphs(
        nodes,
        torch.tensor([graph.num_edges for graph in graphs], dtype=torch.long),
        compact(np.concatenate([np.empty((2, 0), np.int64), *(graph.edge_index.numpy() for graph in graphs)], axis=1)),
        {"x": torch.ones(int(nodes.sum()), 1, dtype=torch.uint8)},
        schema=Schema(features=1),
        graph={"family": torch.tensor(family, dtype=torch.long)},
    )
