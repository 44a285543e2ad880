"""Figure 3: two graphs that sums over neighbours do not tell apart, and what h ← k·h + x reads of a node of each."""

from pathlib import Path
from typing import Any

from torch_geometric.data import Data

from pggnn.data.sets.classic import coloured_pair
from pggnn.report.figures import BLUE, INK, drawing

GREEN = "#2e8b57"
PLACES = (
    ((0.0, 1.0), (0.0, 0.0), (1.2, 1.0), (1.2, 0.0), (2.4, 1.0), (2.4, 0.0)),
    ((0.0, 1.0), (0.0, 0.0), (0.8, 0.5), (1.8, 0.5), (2.6, 1.0), (2.6, 0.0)),
)
ORDERS = ((2, (0, 3, 4)), (2, (0, 1, 3)))
"""Of each graph a green node, and its neighbours in the paper's order."""
SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def draw(out: Path) -> Path:
    """Draws both graphs, and below each what the node reads and what comes of it."""
    with drawing(out, (11, 4.3), 11) as figure:
        for axes, graph, places, (node, order), name in zip(
            figure.subplots(1, 2), coloured_pair(), PLACES, ORDERS, "uv", strict=True
        ):
            _draw_graph(axes, graph, places, name)
            letters = "".join("gb"[int(graph.x[i, 0])] for i in order)
            who = f"{name}{node + 1}".translate(SUBSCRIPTS)
            axes.text(
                1.25, -0.52, f"{who} reads {' → '.join(letters)}:  h = {weights(letters)}", ha="center", color=INK
            )
            axes.text(
                1.25,
                -0.82,
                "sum: " + " + ".join(_times(letters.count(one), one) for one in "bg"),
                ha="center",
                color=INK,
            )
            axes.set_title({"u": "G₁: two squares", "v": "G₂: two triangles"}[name], color=INK)
    return out


def _times(number: int, letter: str) -> str:
    return letter if number == 1 else f"{number}{letter}"


def weights(letters: str) -> str:
    """What h ← k·h + x makes of a sequence, as a polynomial in k for each letter."""
    powers = {
        letter: [len(letters) - 1 - place for place, other in enumerate(letters) if other == letter]
        for letter in dict.fromkeys("bg")
    }
    written = {0: "1", 1: "k", 2: "k²"}
    parts = []
    for letter, found in powers.items():
        terms = " + ".join(written[power] for power in found)
        parts.append(f"({terms}){letter}" if len(found) > 1 else letter if terms == "1" else f"{terms}{letter}")
    return " + ".join(parts)


def _draw_graph(axes: Any, graph: Data, places: tuple[tuple[float, float], ...], name: str) -> None:
    for u, v in graph.edge_index.t().tolist():
        if u < v:
            axes.plot(*zip(places[u], places[v], strict=True), color=INK, linewidth=1.6, zorder=1)
    for number, (x, y) in enumerate(places):
        axes.scatter([x], [y], s=520, color=BLUE if graph.x[number, 0] else GREEN, zorder=2)
        label = f"{name}{number + 1}".translate(SUBSCRIPTS)
        axes.text(x, y, label, ha="center", va="center", color="white", fontsize=11, zorder=3)
    axes.set(xlim=(-0.5, 3.1), ylim=(-1.0, 1.3), aspect="equal")
    axes.axis("off")
