"""Figure 4: the arrangements that the proof of Theorem 1 begins with, for odd and even n, and the paper's revision."""

from math import cos, pi, sin
from pathlib import Path
from typing import Any

from pggnn.groups import cycle
from pggnn.report.figures import FAINT, INK, RED, drawing

ODD, EVEN = 9, 10


def draw(out: Path) -> Path:
    """Draws the three panels, each with its rotation as an arrow."""
    with drawing(out, (12, 4.6)) as figure:
        titles = (f"n = {ODD} (odd)", f"n = {EVEN} (even), σ′", f"n = {EVEN} (even), the revision: σ")
        for axes, (order, inside), title in zip(figure.subplots(1, 3), initial(), titles, strict=True):
            _draw_panel(axes, order, inside)
            axes.set_title(title, color=INK)
    return out


def initial() -> list[tuple[list[int], int]]:
    """Of each panel the numbers on the circle, clockwise, and the one at its centre.

    A turn by one place moves each number to the place of the next: that is the cycle of the permutation, σ′ of all
    numbers but 1, or σ of all, with a virtual 0 at the centre.
    """
    return [
        ([2 * k for k in range(1, ODD // 2 + 1)] + [2 * k + 1 for k in range(ODD // 2, 0, -1)], 1),
        ([2 * k for k in range(1, EVEN // 2 + 1)] + [2 * k + 1 for k in range(EVEN // 2 - 1, 0, -1)], 1),
        ([i + 1 for i in cycle(EVEN)], 0),
    ]


def _draw_panel(axes: Any, order: list[int], inside: int) -> None:
    places = {
        number: (sin(2 * pi * (k + 0.5) / len(order)), cos(2 * pi * (k + 0.5) / len(order)))
        for k, number in enumerate(order)
    }
    places[inside] = (0.0, 0.0)
    path = sorted(places)  # 1, 2, 3 … as they are numbered, and back
    for a, b in zip(path, [*path[1:], path[0]], strict=True):
        opposite = inside not in (a, b) and max(abs(p + q) for p, q in zip(places[a], places[b], strict=True)) < 0.1
        line = {"arrowstyle": "-", "color": FAINT, "linewidth": 2, "shrinkA": 0, "shrinkB": 0}
        line["linestyle"] = (0, (4, 3)) if inside == 0 and 0 in (a, b) else "-"
        line["connectionstyle"] = f"arc3,rad={-0.22 * opposite}"  # not through the number at the centre
        axes.annotate("", places[b], places[a], arrowprops=line, zorder=1)
    for number, (x, y) in places.items():
        axes.scatter([x], [y], s=330, color="#eeeeee" if number == 0 else "white", edgecolors=INK, zorder=2)
        axes.text(x, y, str(number), ha="center", va="center", color=INK, fontsize=10, zorder=3)
    turn = {"arrowstyle": "-|>", "color": RED, "linewidth": 1.6, "connectionstyle": "arc3,rad=-0.28"}
    axes.annotate("", (1.24 * sin(0.45), 1.24 * cos(0.45)), (-1.24 * sin(0.45), 1.24 * cos(0.45)), arrowprops=turn)
    axes.text(0, 1.47, f"360° / {len(order)}", ha="center", color=RED, fontsize=10)
    axes.set(xlim=(-1.4, 1.4), ylim=(-1.25, 1.65), aspect="equal")
    axes.axis("off")
