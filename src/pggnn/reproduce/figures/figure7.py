"""Figure 7: the 4 × 4 rook's graph with its 4-cliques, the Shrikhande graph without any, and one neighbourhood each."""

from collections import defaultdict
from itertools import combinations
from math import cos, pi, sin
from pathlib import Path
from typing import Any

import numpy as np

from pggnn.data.features.motifs import four_cliques
from pggnn.data.sets.classic import adjacency_matrix, rook, shrikhande
from pggnn.report.figures import BLUE, FAINT, INK, colours_of, drawing

GREY = "#8a8a8a"
Colours = dict[tuple[int, int], Any]


def draw(out: Path) -> Path:
    """Draws the rook's graph on its board, the Shrikhande graph on a torus, and below what a node's neighbours form."""
    with drawing(out, (11, 8)) as figure:
        grid = figure.add_gridspec(2, 2, height_ratios=[2.3, 1])
        panels = ((rook(), "4 × 4 rook's graph", _draw_board), (shrikhande(), "Shrikhande graph", _draw_torus))
        for column, (graph, name, draw_graph) in enumerate(panels):
            adjacency = adjacency_matrix(graph).numpy()
            colour = _colour_of_edges(list_cliques(adjacency))
            axes = figure.add_subplot(grid[0, column])
            draw_graph(axes, adjacency, colour)
            at_node = set(four_cliques(graph.edge_index, 16).tolist())
            found = {(2,): "two 4-cliques at each node", (0,): "no 4-clique at any node"}[tuple(at_node)]
            axes.set_title(f"{name}: {found}", fontsize=12)
            _draw_neighbours(figure.add_subplot(grid[1, column]), adjacency, colour)
    return out


def list_cliques(adjacency: np.ndarray) -> list[tuple[int, ...]]:
    """All sets of four nodes that are adjacent to each other."""
    fours = combinations(range(len(adjacency)), 4)
    return [four for four in fours if all(adjacency[u, v] for u, v in combinations(four, 2))]


def _draw_board(axes: Any, adjacency: np.ndarray, colour: Colours) -> None:
    """Cells of a board; each row and each column is a 4-clique of its own colour, its longer edges as arcs."""
    place = [(node % 4, -(node // 4)) for node in range(16)]
    for u, v in zip(*np.triu(adjacency).nonzero(), strict=True):
        length = abs(place[u][0] - place[v][0]) + abs(place[u][1] - place[v][1])
        upright = place[u][0] == place[v][0]
        bend = {1: 0.0, 2: 0.28, 3: 0.32}[length] * (1 if upright else -1)
        line = {"arrowstyle": "-", "connectionstyle": f"arc3,rad={bend}", "shrinkA": 0, "shrinkB": 0}
        axes.annotate(
            "", place[v], place[u], arrowprops={**line, "color": colour[int(u), int(v)], "linewidth": 2.2}, zorder=1
        )  # fmt: skip
    _draw_nodes(axes, place)
    axes.text(1.5, -3.55, "each row and each column is a 4-clique", ha="center", color=INK)
    axes.set(xlim=(-1.8, 4.4), ylim=(-3.72, 0.67), aspect="equal")


def _draw_torus(axes: Any, adjacency: np.ndarray, colour: Colours) -> None:
    """A triangular lattice whose opposite sides are glued: edges across a side are drawn as two dotted ends."""

    def at(row: float, column: float) -> np.ndarray:
        return np.array([column - row / 2, -row * 3**0.5 / 2])

    for node in range(16):
        for step in ((0, 1), (1, 0), (1, 1)):
            row, column = node // 4 + step[0], node % 4 + step[1]
            other = row % 4 * 4 + column % 4
            assert adjacency[node, other]
            begin, end = at(node // 4, node % 4), at(row, column)
            if row < 4 and column < 4:
                axes.plot(*np.stack([begin, end], axis=1), color=GREY, linewidth=1.8, zorder=1)
            else:
                target = at(other // 4, other % 4)
                for first, last in ((begin, (begin + end) / 2), (target, target + (begin - end) / 2)):
                    axes.plot(*np.stack([first, last], axis=1), color=GREY, linewidth=1.5, linestyle=":", zorder=1)
    middle = [(1, 1), (1, 2), (2, 3), (3, 3), (3, 2), (2, 1), (1, 1)]
    axes.plot(*np.stack([at(*cell) for cell in middle], axis=1), color=BLUE, linewidth=3, zorder=2)
    _draw_nodes(axes, [tuple(at(node // 4, node % 4)) for node in range(16)])
    axes.text(0.75, -3.45, "opposite sides are glued; around each node is a hexagon", ha="center", color=INK)
    axes.set(xlim=(-2.4, 3.6), ylim=(-3.6, 0.65), aspect="equal")


def _draw_neighbours(axes: Any, adjacency: np.ndarray, colour: Colours) -> None:
    """Node 0 in the middle, its neighbours around it along their cycles."""
    near = _along_cycles(adjacency, adjacency[0].nonzero()[0].tolist())
    place = {node: (sin(2 * pi * (i + 0.5) / 6), cos(2 * pi * (i + 0.5) / 6)) for i, node in enumerate(near)}
    place[0] = (0.0, 0.0)
    for u, v in combinations(sorted(place), 2):
        if adjacency[u, v]:
            style = {"color": FAINT, "linewidth": 1.0} if u == 0 else {"color": colour[u, v], "linewidth": 3}
            axes.plot(*zip(place[u], place[v], strict=True), solid_capstyle="round", zorder=1, **style)
    _draw_nodes(axes, [*place.values()])
    triangles = all(adjacency[u, v] for u, v in combinations(near[:3], 2))
    shape = "two triangles, so two 4-cliques" if triangles else "a hexagon, so no 4-clique"
    axes.set_title(f"the six neighbours of a node: {shape}", color=INK, fontsize=10)
    axes.set(xlim=(-2.6, 2.6), ylim=(-1.15, 1.15), aspect="equal")


def _draw_nodes(axes: Any, places: list[Any]) -> None:
    axes.scatter(*zip(*places, strict=True), s=110, color="white", edgecolors=INK, zorder=3)
    axes.axis("off")


def _along_cycles(adjacency: np.ndarray, nodes: list[int]) -> list[int]:
    ordered: list[int] = []
    while len(ordered) < len(nodes):
        left = [node for node in nodes if node not in ordered]
        joined = [node for node in left if ordered and adjacency[node, ordered[-1]]]
        ordered.append((joined or left)[0])
    return ordered


def _colour_of_edges(cliques: list[tuple[int, ...]]) -> Colours:
    """The colour of each edge: that of its 4-clique, blue if it is in none."""
    colours = colours_of(max(len(cliques), 1))
    found: Colours = defaultdict(lambda: BLUE)
    found.update({pair: colours[k] for k, clique in enumerate(cliques) for pair in combinations(clique, 2)})
    return found
