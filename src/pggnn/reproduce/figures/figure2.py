"""Figure 2: all pairs of n neighbours, for n = 5 to 8, as arcs of σ, as arrangements and as Hamiltonian cycles."""

from pathlib import Path
from typing import Any

from pggnn.groups import CyclicGroup, group
from pggnn.report.figures import INK, colours_of, draw_arcs, draw_rings, drawing, power


def draw(out: Path) -> Path:
    """Draws n = 5 … 8, one panel each."""
    with drawing(out, (15, 13), 9, layout=None) as figure:
        for n, left, top in ((5, 0.0, 0.97), (6, 0.52, 0.97), (7, 0.0, 0.47), (8, 0.52, 0.47)):
            figure.text(left + 0.24, top + 0.005, f"n = {n}", ha="center", fontsize=13, fontweight="bold", color=INK)
            _draw_panel(figure, group(n), {"left": left, "right": left + 0.48, "top": top - 0.02, "bottom": top - 0.43})
    return out


def _draw_panel(figure: Any, g: CyclicGroup, box: dict[str, float]) -> None:
    n, half = g.degree, g.degree // 2
    grid = figure.add_gridspec(3, half + 1, height_ratios=[1, 0.26 * g.order, 2.2], hspace=0.12, wspace=0.05, **box)
    draw_arcs(figure.add_subplot(grid[0, :]), g)
    _draw_arrangements(figure.add_subplot(grid[1, :]), g)
    colours = colours_of(half)
    for k in range(half):
        axes = figure.add_subplot(grid[2, k])
        draw_rings(axes, n, [g.arrangements[k]], [colours[k]])
        axes.set_title(power(k), color=colours[k])
    axes = figure.add_subplot(grid[2, half])
    draw_rings(axes, n, g.arrangements[:half], colours, arrows=False)
    axes.set_title(f"all {n * (n - 1) // 2} pairs", color=INK)


def _draw_arrangements(axes: Any, g: CyclicGroup) -> None:
    """One line each; those of the second half run the rings of the first backwards, and are dashed."""
    n, half = g.degree, g.degree // 2
    for k, arrangement in enumerate(g.arrangements):
        colour, style = colours_of(half)[k % half], "-" if k < half else (0, (2, 1.6))
        axes.text(-0.9, -k, power(k), ha="right", va="center", color=colour)
        for place, i in enumerate((*arrangement, arrangement[0])):
            axes.text(place, -k, str(i + 1), ha="center", va="center", color=INK, fontsize=9)
            if place < n:
                axes.plot([place + 0.2, place + 0.8], [-k, -k], color=colour, linestyle=style, linewidth=1.8)
    axes.set(xlim=(-2.2, n + 1), ylim=(-g.order + 0.4, 0.6))
    axes.axis("off")
