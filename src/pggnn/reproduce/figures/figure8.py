"""Figure 8: how the aggregation comes about for n = 5 and n = 6: action, arrangement, RNN, sum."""

from pathlib import Path
from typing import Any

from pggnn.groups import coverage, group
from pggnn.report.figures import FAINT, INK, circle, colours_of, draw_ring, drawing, power

SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def draw(out: Path) -> Path:
    """Draws a row of columns for n = 5, one for each element of the group, and one for n = 6."""
    with drawing(out, (16, 10), 9, layout=None) as figure:
        for n, top in ((5, 0.95), (6, 0.45)):
            figure.text(0.01, top, f"n = {n}", fontsize=14, fontweight="bold", color=INK)
            _draw_process(figure, n, {"left": 0.0, "right": 1.0, "top": top - 0.03, "bottom": top - 0.4})
    return out


def _draw_process(figure: Any, n: int, box: dict[str, float]) -> None:
    g = group(n)
    half = n // 2
    colours = colours_of(half)
    widths = [*[1] * g.order, 1.25]
    grid = figure.add_gridspec(3, g.order + 1, height_ratios=[0.75, 2.4, 0.3], width_ratios=widths, **box)
    for k, element in enumerate(g):
        colour, dashed = colours[k % half], k >= half
        axes = figure.add_subplot(grid[0, k])
        _draw_action(axes, element.images, colour)
        axes.set_title(power(k), color=colour, fontsize=13)
        axes = figure.add_subplot(grid[1, k])
        _draw_ring(axes, n, [(element.images, colour, dashed)])
        if k + 1 < g.order:
            style = {"arrowstyle": "-|>", "color": FAINT, "linewidth": 1.6}
            axes.annotate("", (1.78, 1.1), (1.22, 1.1), arrowprops=style, annotation_clip=False)
            axes.text(1.5, 1.22, "σ", ha="center", color=INK, clip_on=False)
        read = "".join(f"u{i + 1}".translate(SUBSCRIPTS) + " " for i in (*element.images, element.images[0]))
        _write(figure.add_subplot(grid[2, k]), f"RNN({read.strip()})", colour)
    total = figure.add_subplot(grid[1, g.order])
    both = [(element.images, colours[k % half], False) for k, element in enumerate(g) if k < half]
    _draw_ring(total, n, both, arrows=False)
    counts = coverage(g.arrangements)
    total.set_title(f"together: all {n * (n - 1) // 2} pairs,\n{len(counts)} ordered ones", color=INK)
    _write(figure.add_subplot(grid[2, g.order]), "$h_v$ = sum of all  +  $W_{self}\\,h_v$", INK)


def _draw_action(axes: Any, images: tuple[int, ...], colour: Any) -> None:
    """The numbers above, what the element makes of each below, and a line between them."""
    for i, j in enumerate(images):
        for height, number in ((1, i), (0, j)):
            text = f"u{number + 1}".translate(SUBSCRIPTS)
            axes.text(i, height, text, ha="center", va="center", color=INK if height else colour, fontsize=11)
        axes.annotate("", (i, 0.2), (i, 0.8), arrowprops={"arrowstyle": "->", "color": FAINT})
    axes.set(xlim=(-0.6, len(images) - 0.4), ylim=(-0.3, 1.3))
    axes.axis("off")


def _draw_ring(axes: Any, n: int, rings: list[tuple[tuple[int, ...], Any, bool]], arrows: bool = True) -> None:
    places, head = circle(n), "-|>" if arrows else "<|-|>"
    for arrangement, colour, dashed in rings:
        style = {"linewidth": 1.5, "shrinkA": 10, "shrinkB": 10, "linestyle": (0, (4, 2)) if dashed else "-"}
        draw_ring(axes, places, arrangement, arrowstyle=head, color=colour, **style)
    for i, (x, y) in enumerate(places):
        axes.scatter([x], [y], s=280, color="white", edgecolors=FAINT, zorder=3)
        axes.text(x, y, f"u{i + 1}".translate(SUBSCRIPTS), ha="center", va="center", color=INK, zorder=4)
    axes.set(xlim=(-1.3, 1.3), ylim=(-1.3, 1.3), aspect="equal")
    axes.axis("off")


def _write(axes: Any, text: str, colour: Any) -> None:
    axes.text(0.5, 0.5, text, ha="center", va="center", color=colour, fontsize=10.5, transform=axes.transAxes)
    axes.axis("off")
