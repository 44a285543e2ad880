"""Figure 1: which pairs of seven neighbours four kinds of layers read one after the other."""

import random
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

from pggnn.groups import group
from pggnn.report.figures import FAINT, INK, RED, circle, drawing

N, SAMPLE, SEED = 7, 5, 3
GREY = "#707070"
Reads = list[tuple[Any, list[tuple[int, int]]]]


def draw(out: Path) -> Path:
    """Draws four panels: no pairs, those of two samples, of two permutations, and of the group."""
    with drawing(out, (13, 3.9)) as figure:
        for axes, (title, reads) in zip(figure.subplots(1, 4), panels().items(), strict=True):
            _draw_panel(axes, reads)
            pairs = {frozenset(pair) for _, some in reads for pair in some}
            axes.set_title(f"{title}\n{len(pairs)} of {N * (N - 1) // 2} pairs", fontsize=11, color=INK)
    return out


def panels() -> dict[str, Reads]:
    """Of each kind of layer the pairs that stand side by side, with the colour of the sequence that they are in."""
    numbers = random.Random(SEED)
    samples = [numbers.sample(range(N), SAMPLE) for _ in range(2)]
    orders = [numbers.sample(range(N), N) for _ in range(2)]
    colours = (GREY, RED)
    arrangements = group(N).arrangements[: N // 2]
    return {
        "message passing: a sum": [],
        f"GraphSAGE, LSTM: two samples of {SAMPLE}": [
            (c, [*pairwise(s)]) for c, s in zip(colours, samples, strict=True)
        ],
        "Janossy pooling, π-SGD: two orders": [(c, [*pairwise(s)]) for c, s in zip(colours, orders, strict=True)],
        "the group: three arrangements": [(RED, [pair for one in arrangements for pair in _ring(one)])],
    }


def _ring(arrangement: Iterable[int]) -> list[tuple[int, int]]:
    members = [*arrangement]
    return [*pairwise([*members, members[0]])]


def _draw_panel(axes: Any, reads: Reads) -> None:
    places = circle(N)
    for x, y in places:
        axes.plot([0, x], [0, y], color=INK, linewidth=1.4, zorder=1)
    for shift, (colour, pairs) in enumerate(reads):
        for i, j in pairs:
            (x, y), (u, v) = places[min(i, j)], places[max(i, j)]
            axes.annotate(
                "", (u, v), (x, y), zorder=2,
                arrowprops={
                    "arrowstyle": "-", "color": colour, "linestyle": (0, (4, 2)), "linewidth": 1.4,
                    "connectionstyle": f"arc3,rad={0.07 * (2 * shift - 1) if len(reads) > 1 else 0}",
                },
            )  # fmt: skip
    axes.scatter(*zip(*places, strict=True), s=230, color="white", edgecolors=FAINT, zorder=3)
    axes.scatter([0], [0], s=230, color="#f6d55c", edgecolors=INK, zorder=3)
    for text, (x, y) in zip(["v", *(f"u$_{i + 1}$" for i in range(N))], [(0.0, 0.0), *places], strict=True):
        axes.text(x, y, text, ha="center", va="center", fontsize=9, color=INK, zorder=4)
    axes.set(xlim=(-1.3, 1.3), ylim=(-1.25, 1.25), aspect="equal")
    axes.axis("off")
