"""Figures, drawn with matplotlib to SVG, PNG or PDF by the file's suffix."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import ceil, cos, pi, sin
from pathlib import Path
from typing import Any, Literal

from pggnn.files import replacing
from pggnn.groups import CyclicGroup, group, ring_pairs

MOST_RINGS = 12
"""Arrangements that are drawn one by one; of a larger group, the first ones."""
INK, FAINT, BLUE, RED = "#222222", "#b8b8b8", "#2166ac", "#c0392b"


@contextmanager
def drawing(
    path: str | Path,
    size: tuple[float, float],
    font_size: float = 10,
    layout: Literal["constrained"] | None = "constrained",
) -> Iterator[Any]:
    """A figure to draw on, its size in inches. It is written when the block ends without an error, whole or not at all,
    and is the same to the byte each time."""
    path = Path(path)
    undated = {".svg": {"Date": None}, ".png": {}, ".pdf": {"CreationDate": None}}
    if path.suffix.lower() not in undated:
        raise ValueError(f"the figure's file must end in .svg, .png or .pdf, got {str(path)!r}")
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context({"svg.hashsalt": "pggnn", "font.size": font_size}):
        figure = Figure(figsize=size, layout=layout)
        yield figure
        with replacing(path) as unfinished:
            metadata = undated[path.suffix.lower()]
            figure.savefig(unfinished, dpi=160, bbox_inches="tight", facecolor="white", metadata=metadata)


def draw_group(n: int, path: str | Path) -> Path:
    """Figure 2 of the paper for any n ≥ 2: σ as arcs, then each arrangement's Hamiltonian cycle, then all of them."""
    if n < 2:
        raise ValueError(f"there are no pairs to draw with n = {n}: give n ≥ 2")
    g = group(n)
    half = n // 2
    shown = min(half, MOST_RINGS)
    columns = min(shown + 1, 5)
    rows = ceil((shown + 1) / columns)
    with drawing(path, (2.3 * columns, 1.5 + 2.5 * rows), 9) as figure:
        grid = figure.add_gridspec(rows + 1, columns, height_ratios=[1.25, *[2.5] * rows])
        draw_arcs(figure.add_subplot(grid[0, :]), g)
        colours = colours_of(shown)
        for k in range(shown):
            axes = figure.add_subplot(grid[1 + k // columns, k % columns])
            draw_rings(axes, n, [g.arrangements[k]], [colours[k]])
            axes.set_title(power(k), color=colours[k])
        axes = figure.add_subplot(grid[1 + shown // columns, shown % columns])
        draw_rings(axes, n, g.arrangements[:half], colours_of(half), arrows=False)
        axes.set_title(f"the first {half}: all {n * (n - 1) // 2} pairs" if half > 1 else "all pairs")
        if shown < half:
            figure.text(0.5, -0.02, f"{shown} of the first {half} arrangements are drawn", ha="center", color=INK)
    return Path(path)


def draw_counts(
    truth: Sequence[float], predictions: Mapping[str, tuple[Sequence[float], float]], path: str | Path
) -> Path:
    """Predicted against true counts, a panel for each model, given its predictions and its mean absolute error."""
    import numpy as np

    true = np.asarray(truth)
    jitter = np.random.default_rng(0).uniform(-0.25, 0.25, true.shape)
    with drawing(path, (4.2 * len(predictions), 4.4)) as figure:
        panels = figure.subplots(1, len(predictions), sharex=True, sharey=True, squeeze=False)[0]
        for axes, (name, (predicted, error)), colour in zip(panels, predictions.items(), (BLUE, RED), strict=False):
            low, high = -0.75, true.max() + 0.75
            axes.plot([low, high], [low, high], color=FAINT, linewidth=1, zorder=0)
            axes.scatter(true + jitter, predicted, s=5, alpha=0.25, color=colour, linewidths=0)
            axes.set(title=f"{name}: mean absolute error {error:.3f}", xlabel="true number of triangles at the node")
            axes.set_xlim(low, high)
            axes.spines[["top", "right"]].set_visible(False)
        panels[0].set_ylabel("predicted")
    return Path(path)


def draw_arcs(axes: Any, g: CyclicGroup) -> None:
    """σ as arcs from each number to the one whose place it takes."""
    n = g.degree
    for i, j in enumerate(g.generator.images):
        if i != j:
            side, bend = (0.16 if j > i else -0.16), (-0.45 if abs(i - j) > 1 else -0.8)
            arc = {"connectionstyle": f"arc3,rad={bend}", "shrinkA": 4, "shrinkB": 4}
            axes.annotate("", (j, side), (i, side), arrowprops={"arrowstyle": "-|>", "color": FAINT, **arc})
    for i in range(n):
        axes.text(i, 0, str(i + 1), ha="center", va="center", color=INK, fontsize=9 if n <= 40 else 6)
    axes.set(xlim=(-1, n), ylim=(-1.1, 1.35))
    axes.set_title(f"σ = {g.generator!r}" if n <= 24 else f"σ on {n} neighbours", color=INK)
    axes.axis("off")


def draw_rings(
    axes: Any, n: int, arrangements: Sequence[Sequence[int]], colours: Sequence[Any], arrows: bool = True
) -> None:
    """Arrangements as rings on a circle of n neighbours, the first on top."""
    places, gap = circle(n), 7 if n <= 16 else 3
    for arrangement, colour in zip(arrangements, colours, strict=True):
        if arrows:
            draw_ring(axes, places, arrangement, color=colour, shrinkA=gap, shrinkB=gap, linewidth=1.1)
            continue
        for i, j in ring_pairs(arrangement):
            axes.plot(*zip(places[i], places[j], strict=True), color=colour, linewidth=1.0, zorder=0)
    for i, (x, y) in enumerate(places):
        axes.scatter([x], [y], s=150 if n <= 16 else 40, color="white", edgecolors=FAINT, zorder=3)
        if n <= 16:
            axes.text(x, y, str(i + 1), ha="center", va="center", fontsize=8, color=INK, zorder=4)
    axes.set(xlim=(-1.25, 1.25), ylim=(-1.25, 1.25), aspect="equal")
    axes.axis("off")


def draw_ring(axes: Any, places: Sequence[tuple[float, float]], arrangement: Sequence[int], **style: Any) -> None:
    """An arrangement as a ring of arrows between the places of its neighbours, in matplotlib's ``arrowprops``."""
    for i, j in ring_pairs(arrangement):
        axes.annotate("", places[j], places[i], arrowprops={"arrowstyle": "-|>", **style})


def circle(n: int, radius: float = 1.0, centre: tuple[float, float] = (0.0, 0.0)) -> list[tuple[float, float]]:
    """n places on a circle, clockwise from the top."""
    turns = [2 * pi * i / n for i in range(n)]
    return [(centre[0] + radius * sin(turn), centre[1] + radius * cos(turn)) for turn in turns]


def colours_of(count: int) -> list[Any]:
    """Distinct colours."""
    from matplotlib import colormaps

    if count <= 10:
        return [colormaps["tab10"](k) for k in range(count)]
    return [colormaps["turbo"](0.05 + 0.9 * k / (count - 1)) for k in range(count)]


def power(k: int) -> str:
    """σᵏ as it is written."""
    return {0: "e", 1: "σ"}.get(k, f"σ$^{{{k}}}$")
