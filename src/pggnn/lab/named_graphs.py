"""Graphs by name, as ``pggnn lab`` takes them."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from torch_geometric.data import Batch, Data
from torch_geometric.utils import coalesce

from pggnn.data.formats.graph6 import decode, load_graph6
from pggnn.data.loading import load
from pggnn.data.sets import classic
from pggnn.lab import families
from pggnn.lab.refinement.colours import node_labels

NAMED: dict[str, Callable[..., Data]] = {
    "cycle": classic.cycle,
    "complete": classic.complete,
    "csl": classic.csl,
    "rook": classic.rook,
    "shrikhande": classic.shrikhande,
    "triangular": classic.triangular,
    "paley": classic.paley,
    "chang": classic.chang,
    "latin": classic.latin,
    "cfi": lambda n=3: classic.cfi(classic.complete(n)),
    "cfi-twisted": lambda n=3: classic.cfi(classic.complete(n), twisted=True),
    "squares": lambda: classic.coloured_pair()[0],
    "triangles": lambda: classic.coloured_pair()[1],
}


SRG: dict[str, tuple[str, ...] | Callable[[], list[Data]]] = {
    "16,6,2,2": ("rook", "shrikhande"),
    "25,12,5,6": families.paulus,
    "26,10,3,4": families.paulus_26,
    "28,12,6,4": ("triangular:8", "chang:1", "chang:2", "chang:3"),
    "36,14,4,6": families.latin_36,
    "64,21,8,6": ("latin:8", "latin:8,1"),
}
"""Strongly regular graphs of the same parameters: all there are of the first four."""


def read_graphs(text: str) -> list[tuple[str, Data]]:
    """The graphs that a text names, each with a name: all of a family or a file, some of them as in
    ``BREC#220-249``, or one."""
    whole = Path(text).is_file()
    name, _, numbers = (text, "", "") if whole else text.partition("#")
    if whole or "-" in numbers or name.partition(":")[0] in ("srg", "covers"):
        named = read_family(name)
        span = re.fullmatch(r"(\d+)(?:-(\d+))?", numbers or f"0-{len(named) - 1}")
        if span is None:
            raise ValueError(f"expected a number from 0, or a range such as 0-9, after # in {text!r}")
        first, last = int(span[1]), int(span[2] or span[1])
        if not first <= last < len(named):
            raise ValueError(f"{name} has {len(named)} graphs, counted from 0; got {text!r}")
        return named[first : last + 1]
    return [(text, read_graph(text))]


def read_family(name: str) -> list[tuple[str, Data]]:
    """All graphs of ``srg:28,12,6,4``, of ``covers:6,12`` or of a file, each with its name."""
    kind, _, numbers = name.partition(":")
    if kind == "covers":
        try:
            graphs = families.covers(*map(int, numbers.split(",")))
        except TypeError as error:
            raise ValueError(f"cannot make {name!r}: {error}; for example covers:6,12 or covers:6,12,3") from None
    elif kind == "srg":
        if numbers not in SRG:
            raise ValueError(f"there are srg:{', srg:'.join(SRG)}; got {name!r}")
        family = SRG[numbers]
        if isinstance(family, tuple):
            return [(one, read_graph(one)) for one in family]
        graphs = family()
    else:
        graphs, name = [*_read_file(name)], "" if Path(name).is_file() else name
    return [(f"{name}#{number}", graph) for number, graph in enumerate(graphs)]


def _read_file(name: str) -> Sequence[Data]:
    """The graphs of a file, or of a data set."""
    return load_graph6(name) if Path(name).suffix.lower() in (".g6", ".graph6") else load(name)


def read_graph(text: str) -> Data:
    """The graph that a text names.

    ``rook``, ``csl:41,3`` or ``cycle:3+cycle:3`` (side by side) are classic graphs; ``graphs.g6#4`` and
    ``graphs.jsonl#4`` the fifth graph of a file, ``BREC#4`` that of a data set; anything else is graph6.
    """
    name, marked, number = text.partition("#")
    if marked or Path(name).is_file():
        if not number.isdigit() and marked:
            raise ValueError(f"expected a number, from 0, after # in {text!r}")
        graphs = _read_file(name)
        if int(number or 0) >= len(graphs):
            raise ValueError(f"{name} has {len(graphs)} graphs, counted from 0; got {text!r}")
        return graphs[int(number or 0)]
    parts = text.split("+")
    if all(part.partition(":")[0] in NAMED for part in parts):
        graphs = [_build(part) for part in parts]
        if len({graph.x is None for graph in graphs}) > 1:
            raise ValueError(f"{text!r} joins graphs that have colours to some that have none: join those of one kind")
        return graphs[0] if len(graphs) == 1 else Batch.from_data_list(graphs)
    try:
        return decode(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is no file, none of {', '.join(NAMED)}, and no graph6 either: {error}") from None


def _build(text: str) -> Data:
    name, _, numbers = text.partition(":")
    try:
        return NAMED[name](*map(int, filter(None, numbers.split(","))))
    except (TypeError, ValueError) as error:
        raise ValueError(f"cannot make {text!r}: {error}; for example rook:4, csl:41,3 or cycle:6") from None


def isomorphic(a: Data, b: Data) -> bool:
    """Whether there is a one-to-one map of nodes that keeps edges and node features, found with igraph."""
    from igraph import Graph

    if a.num_nodes != b.num_nodes:
        return False
    graphs = [Graph(g.num_nodes, coalesce(g.edge_index).t().tolist(), directed=True) for g in (a, b)]
    labels = node_labels(a, b).tolist()
    return graphs[0].isomorphic_bliss(graphs[1], color1=labels[0], color2=labels[1])
