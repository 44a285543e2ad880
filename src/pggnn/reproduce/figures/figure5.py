"""Figure 5: the Cayley diagrams of 𝔊 ≅ Z₆ (n = 7) and Z₈ (n = 8), and what each element makes of 1 … n."""

from pathlib import Path
from typing import Any

from pggnn.groups import group
from pggnn.report.figures import FAINT, INK, circle, colours_of, draw_ring, drawing, power

CYAN, SHADE, DARK = "#1aa6b7", "#f0f0f0", "#555555"
ARROW = {"arrowstyle": "-|>,head_width=0.4,head_length=0.8", "color": CYAN, "linewidth": 2.2, "shrinkA": 1,
         "shrinkB": 1}  # fmt: skip
LABEL = {"boxstyle": "round,pad=0.15", "facecolor": SHADE, "edgecolor": "none", "alpha": 0.85}


def draw(out: Path) -> Path:
    """Draws both groups side by side."""
    with drawing(out, (14, 7.4), 9) as figure:
        for n, axes in zip((7, 8), figure.subplots(1, 2), strict=True):
            _draw_diagram(axes, n)
    return out


def _draw_diagram(axes: Any, n: int) -> None:
    from matplotlib.patches import Circle

    g = group(n)
    radius = 0.72 if g.order <= 6 else 0.62
    places = circle(g.order, 2)
    for k, (x, y) in enumerate(places):
        follower = places[(k + 1) % g.order]
        start, end = _between((x, y), follower, radius)
        axes.annotate("", end, start, arrowprops=ARROW)
        axes.add_patch(Circle((x, y), radius, facecolor=SHADE, edgecolor=FAINT))
        colour = colours_of(n // 2)[k % (n // 2)]
        _draw_ring(axes, (x, y), radius, g.arrangements[k], colour, dashed=k >= n // 2)
        axes.text(x, y, power(k), ha="center", va="center", fontsize=13, color=INK, zorder=5, bbox=LABEL)
        images = " ".join(str(i + 1) for i in g.arrangements[k])
        away = 1 + (radius + 0.16) / 2
        align = "center" if abs(x) < 0.3 else ("left" if x > 0 else "right")
        axes.text(x * away, y * away, images, ha=align, va="center", color=colour, fontsize=11, fontweight="bold")
    axes.text(0, 0.16, "σ =", ha="center", va="center", fontsize=12, color=INK)
    axes.text(0, -0.12, repr(g.generator), ha="center", va="center", fontsize=12, color=INK)
    axes.set(xlim=(-3.9, 3.9), ylim=(-3.05, 3.05), aspect="equal")
    axes.set_title(
        f"n = {n}:  $\\mathfrak{{G}}$ = {{e, σ, …, σ$^{{{g.order - 1}}}$}} ≅ $\\mathbb{{Z}}_{g.order}$", fontsize=13
    )
    axes.axis("off")


def _between(here: tuple[float, float], there: tuple[float, float], radius: float) -> list[tuple[float, float]]:
    """The ends of the arrow from the rim of one circle to that of the next."""
    length = ((there[0] - here[0]) ** 2 + (there[1] - here[1]) ** 2) ** 0.5
    step = [(b - a) / length * radius for a, b in zip(here, there, strict=True)]
    return [(here[0] + step[0], here[1] + step[1]), (there[0] - step[0], there[1] - step[1])]


def _draw_ring(
    axes: Any, centre: tuple[float, float], radius: float, arrangement: tuple[int, ...], colour: Any, dashed: bool
) -> None:
    places = circle(len(arrangement), 0.76 * radius, centre)
    draw_ring(
        axes, places, arrangement, arrowstyle="-|>,head_width=0.15,head_length=0.3", color=colour, shrinkA=4, shrinkB=4,
        linewidth=1.1, linestyle="--" if dashed else "-",
    )  # fmt: skip
    for i, (x, y) in enumerate(places):
        axes.scatter([x], [y], s=85, color=DARK, zorder=4)
        axes.text(x, y, str(i + 1), ha="center", va="center", fontsize=7, color="white", zorder=5)
