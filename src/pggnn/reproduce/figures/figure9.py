"""Figure 9: how many random orders it takes until all pairs have met, simulated and in closed form, and the group."""

from pathlib import Path
from typing import Any

from pggnn.console import tracked
from pggnn.groups import order
from pggnn.lab.sampling import Covering, compare, coupon_collector
from pggnn.report.figures import BLUE, INK, RED, drawing

LARGEST = 1000
SIMULATED = 6000
"""Simulations are run in numbers of 6000 / n, but 10 at least."""


def draw(out: Path, largest: int = LARGEST) -> Path:
    """Draws covering times to n = ``largest``, and how many times fewer arrangements the group takes."""
    sizes = [largest * i // 10 for i in range(1, 11)]
    work = {n: n * n * max(10, SIMULATED // n) for n in sizes}
    cases = [
        compare(n, max(10, SIMULATED // n)) for n in tracked(sizes, "simulating", sum(work.values()), work.__getitem__)
    ]
    with drawing(out, (12, 5.2)) as figure:
        times, ratio = figure.subplots(1, 2, width_ratios=[1.7, 1])
        for kind, name, colour in ((1, "ordered", RED), (0, "unordered", BLUE)):
            _draw_case(times, ratio, kind, name, colour, [case[kind] for case in cases], largest)
        times.set(xlabel="number of neighbours n", ylabel="orders until all pairs have met", xlim=(0, largest * 1.02))
        times.set_ylim(bottom=0)
        times.legend(frameon=False, loc="upper left", fontsize=9)
        ratio.set(
            xlabel="number of neighbours n", ylabel="times as many orders as the group needs", xlim=(0, largest * 1.02)
        )  # fmt: skip
        ratio.set_ylim(bottom=0)
        ratio.legend(frameon=False, loc="lower right", fontsize=9)
        for axes in (times, ratio):
            axes.spines[["top", "right"]].set_visible(False)
            axes.tick_params(colors=INK)
    return out


def _draw_case(times: Any, ratio: Any, kind: int, name: str, colour: str, cases: list[Covering], largest: int) -> None:
    curve = [*range(2, min(30, largest)), *range(30, largest + 1, max(largest // 100, 1))]
    pairs = [n * (n - 1) // (2 - kind) for n in curve]
    closed = [coupon_collector(m, n - 1) for m, n in zip(pairs, curve, strict=True)]
    ours = [order(n) if kind else n // 2 for n in curve]
    sizes = [case.neighbours for case in cases]
    needs = "|$\\mathfrak{G}$|" if kind else "⌊n/2⌋"
    times.plot(curve, closed, color=colour, linewidth=1.4, label=f"{name} pairs: k-coupon collector, closed form")
    times.errorbar(
        sizes, [case.simulated for case in cases], [2 * case.deviation for case in cases], fmt="^", color=colour,
        markersize=6, capsize=3, linewidth=1, label=f"{name} pairs: π-SGD, simulated (± 2 standard errors)",
    )  # fmt: skip
    times.plot(
        curve, ours, color=colour, linewidth=1.6, linestyle=(0, (5, 2)), label=f"{name} pairs: the group, {needs}"
    )
    ratio.plot(
        curve, [a / b for a, b in zip(closed, ours, strict=True)], color=colour, linewidth=1.4, label=f"{name} pairs"
    )  # fmt: skip
    for n in {100, largest} & set(curve):
        value = closed[curve.index(n)] / ours[curve.index(n)]
        offset = (-6, 2) if kind else (6, -12)
        side = "right" if kind else "left"
        if n == largest:
            offset, side = (0, 8) if kind else (0, -16), "center"
        ratio.annotate(f"{value:.1f}", (n, value), offset, textcoords="offset points", ha=side, color=colour)
        ratio.plot([n], [value], "o", color=colour, markersize=4)
