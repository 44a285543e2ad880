"""Figure 6: an artificial node joined to all; without it a star has no triangle for the walk of Theorem 4 to find."""

from pathlib import Path
from typing import Any

from pggnn.report.figures import FAINT, INK, RED, circle, drawing

N = 6
JOINED = ((0, 1), (1, 2), (3, 4))
"""Pairs of neighbours that are joined in the general case."""


def draw(out: Path) -> Path:
    """Draws a star and a graph with some triangles, each with the artificial node above."""
    with drawing(out, (10, 4.4), 11) as figure:
        for axes, joined, name in zip(figure.subplots(1, 2), ((), JOINED), ("star graph", "general case"), strict=True):
            _draw_panel(axes, joined)
            now = triangles(joined)
            axes.set_title(f"{name}: τ = {len(joined)}, with v$_a$ it is {now} = d + τ", color=INK, fontsize=11)
    return out


def triangles(joined: tuple[tuple[int, int], ...]) -> int:
    """Triangles at the centre once the artificial node is joined to it and to all of its neighbours."""
    edges = {frozenset(pair) for pair in joined} | {frozenset((i, N)) for i in range(N)}
    return len(edges)  # each edge among the neighbours, of which the artificial node is now one, is a triangle


def _draw_panel(axes: Any, joined: tuple[tuple[int, int], ...]) -> None:
    places = [(1.25 * x, 0.55 * y) for x, y in circle(2 * N)[1::2]]
    above = (0.0, 1.55)
    for x, y in places:
        axes.plot([0, x], [0, y], color=INK, linewidth=1.5, zorder=1)
    for i, j in joined:
        axes.plot(*zip(places[i], places[j], strict=True), color=INK, linewidth=1.5, zorder=1)
    for x, y in [*places, (0.0, 0.0)]:
        axes.plot([above[0], x], [above[1], y], color=RED, linewidth=1.1, linestyle=(0, (4, 3)), zorder=0)
    for number, (x, y) in enumerate(places):
        axes.scatter([x], [y], s=380, color="white", edgecolors=FAINT, zorder=2)
        axes.text(x, y, f"v$_{number + 1}$", ha="center", va="center", color=INK, zorder=3)
    for (x, y), text, colour in (((0.0, 0.0), "v$_0$", "#f6d55c"), (above, "v$_a$", "#f4c7c3")):
        axes.scatter([x], [y], s=420, color=colour, edgecolors=INK, zorder=2)
        axes.text(x, y, text, ha="center", va="center", color=INK, zorder=3)
    axes.set(xlim=(-1.6, 1.6), ylim=(-0.85, 1.85), aspect="equal")
    axes.axis("off")
