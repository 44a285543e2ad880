"""The graphs that come with the explorer, and what each test tells of two of them, computed ahead.

``python -m pggnn.explore.bundled`` writes them to ``graphs.json`` again; the page reads that file alone.
"""

import json
from collections.abc import Callable, Sequence
from itertools import combinations
from math import cos, pi, sin
from pathlib import Path
from typing import Any

from pggnn.files import write_text

FILE = Path(__file__).parent / "graphs.json"
GRAPHS: dict[str, tuple[str, str, str]] = {
    "triangles": ("Two triangles", "cycle:3+cycle:3", "side by side"),
    "hexagon": ("Hexagon", "cycle:6", "circle"),
    "rook": ("Rook's graph", "rook", "circle"),
    "shrikhande": ("Shrikhande graph", "shrikhande", "circle"),
    "skip2": ("Skip links of 2", "csl:11,2", "circle"),
    "skip3": ("Skip links of 3", "csl:11,3", "circle"),
    "decalin": ("Decalin, a molecule", "C1CCC2CCCCC2C1", "molecule"),
    "bicyclopentyl": ("Bicyclopentyl, a molecule", "C1CCCC1C1CCCC1", "molecule"),
    "petersen": ("Petersen graph", "IheA@GUAo", "two circles"),
    "prism": ("Pentagonal prism", "", "two circles"),
    "caffeine": ("Caffeine, a molecule", "CN1C=NC2=C1C(=O)N(C)C(=O)N2C", "molecule"),
    "wheel": ("Wheel", "", "wheel"),
}
"""Name, how it is made and how it is laid out, of each graph."""
Edges = list[tuple[int, int]]
Places = list[tuple[float, float]]


def describe() -> dict[str, Any]:
    """All graphs, and the verdicts of all pairs of one size."""
    from pggnn.lab.named_graphs import isomorphic
    from pggnn.lab.refinement.ladder import LADDER, climb
    from pggnn.lab.refinement.wl import TESTS

    graphs = {key: _read(key) for key in GRAPHS}
    pairs = {}
    for one, other in combinations(GRAPHS, 2):
        if graphs[one]["n"] != graphs[other]["n"]:
            continue
        a, b = (_as_data(graphs[key]) for key in (one, other))
        verdicts = [test(a, b) for test in TESTS.values()] + [climb(a, b, rung) for rung in LADDER]
        pairs[f"{one} {other}"] = {
            "isomorphic": isomorphic(a, b),
            "parted": [found.parted for found in verdicts],
            "colours": [found.colours for found in verdicts],
        }
    return {"graphs": graphs, "tests": [*TESTS], "rungs": [*LADDER], "pairs": pairs}


def _read(key: str) -> dict[str, Any]:
    from pggnn.lab.named_graphs import read_graph

    name, made, layout = GRAPHS[key]
    labels: list[str] = []
    if layout == "molecule":
        edges, places, labels = _read_molecule(made)
    else:
        own = {"prism": _prism, "wheel": _wheel}
        edges = own[key]() if key in own else _pairs(read_graph(made).edge_index.tolist())
        places = LAYOUTS[layout](1 + max(max(edge) for edge in edges), edges)
    rounded = [[round(x, 3), round(y, 3)] for x, y in places]
    return {"name": name, "n": len(places), "edges": [list(edge) for edge in edges], "places": rounded} | (
        {"labels": labels} if labels else {}
    )


def _read_molecule(smiles: str) -> tuple[Edges, Places, list[str]]:
    """Bonds, a chemist's drawing and the elements of all atoms."""
    from rdkit import Chem
    from rdkit.Chem.rdDepictor import Compute2DCoords

    molecule = Chem.MolFromSmiles(smiles)
    Compute2DCoords(molecule)
    points = molecule.GetConformer().GetPositions()
    bonds = [(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in molecule.GetBonds()]
    edges = sorted((min(bond), max(bond)) for bond in bonds)
    return edges, [(x, -y) for x, y, _ in points], [atom.GetSymbol() for atom in molecule.GetAtoms()]


def _as_data(graph: dict[str, Any]) -> Any:
    import torch
    from torch_geometric.data import Data
    from torch_geometric.utils import to_undirected

    return Data(edge_index=to_undirected(torch.tensor(graph["edges"]).t()), num_nodes=graph["n"])


def _pairs(edge_index: Sequence[Sequence[int]]) -> Edges:
    return sorted({(u, v) for u, v in zip(*edge_index, strict=True) if u < v})


def _prism() -> Edges:
    """Two pentagons, each node joined to its twin."""
    rings = [(first + i, first + (i + 1) % 5) for first in (0, 5) for i in range(5)]
    return sorted({(min(edge), max(edge)) for edge in rings} | {(i, i + 5) for i in range(5)})


def _wheel() -> Edges:
    """A ring of seven around a node."""
    return sorted([(0, i) for i in range(1, 8)] + [(i, i + 1) for i in range(1, 7)] + [(1, 7)])


def _circle(n: int, edges: Edges, radius: float = 1, turn: float = 0) -> Places:
    return [(radius * sin(2 * pi * (i + turn) / n), -radius * cos(2 * pi * (i + turn) / n)) for i in range(n)]


def _side_by_side(n: int, edges: Edges) -> Places:
    half = n // 2
    return [(x + side, y) for side in (-1.3, 1.3) for x, y in _circle(half, edges)]


def _two_circles(n: int, edges: Edges) -> Places:
    return _circle(n // 2, edges, 2) + _circle(n // 2, edges, 1)


def _around(n: int, edges: Edges) -> Places:
    return [(0.0, 0.0), *_circle(n - 1, edges)]


LAYOUTS: dict[str, Callable[[int, Edges], Places]] = {
    "circle": _circle, "side by side": _side_by_side, "two circles": _two_circles, "wheel": _around
}  # fmt: skip


if __name__ == "__main__":
    write_text(FILE, json.dumps(describe(), separators=(",", ":")) + "\n")
