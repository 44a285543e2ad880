"""Charts as SVG inside a page, whose colours and font they take: they are right in the light and in the dark."""

import hashlib
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from pggnn.report.figures import BLUE, FAINT, INK, RED

VARIABLES = {INK: "var(--ink)", FAINT: "var(--faint)", BLUE: "var(--blue)", RED: "var(--red)"}
SIZE = 4.3, 2.9
"""Inches. Text is legible where a chart is as wide as a phone."""
MOST_POINTS = 1500
"""Points that are drawn one by one; of more, how many lie in each cell of a grid is shown."""
GRID = 56
GAP = 0.085
"""Least distance of two labels, as a share of the height."""


@dataclass(frozen=True)
class Series:
    """Lines of one colour: one for each training, and their mean."""

    label: str
    """Of the mean, which is not drawn without one."""
    colour: str
    lines: Sequence[np.ndarray]
    """A value for each epoch; NaN where there is none."""
    marks: Sequence[tuple[float, float]] = ()
    """Points to stress."""
    steps: bool = False
    """Whether values jump from one epoch to the next."""

    @property
    def mean(self) -> np.ndarray:
        """Over the epochs that all trainings have."""
        epochs = min(map(len, self.lines))
        return np.mean([line[:epochs] for line in self.lines], axis=0)


def draw_curves(series: Sequence[Series], what: str, chosen: Sequence[int] = ()) -> str:
    """Learning curves: each training thin, the mean thick, labelled where they end.

    The scale is logarithmic where values differ twentyfold.

    Args:
        series: The lines.
        what: What is drawn, for readers who do not see it.
        chosen: Epochs to point out.
    """
    with _chart(what) as chart:
        axes = chart.axes
        several = max(len(one.lines) for one in series) > 1
        for one in series:
            style = "steps-post" if one.steps else "default"
            for line in one.lines:
                axes.plot(
                    np.arange(1, len(line) + 1), line, color=one.colour, drawstyle=style,
                    linewidth=0.7 if several else 1.8, alpha=0.4 if several else 1,
                    marker="o" if len(line) == 1 else None, markersize=4,
                )  # fmt: skip
            if several and one.label:
                axes.plot(np.arange(1, len(one.mean) + 1), one.mean, color=one.colour, drawstyle=style, linewidth=2.2)
            for epoch, value in one.marks:
                axes.plot([epoch], [value], "o", color=one.colour, markersize=4.5, clip_on=False)
        values = np.concatenate([line for one in series for line in one.lines])
        values = values[np.isfinite(values)]
        if len(values) and values.min() > 0 and values.max() > 20 * values.min():
            _make_logarithmic(axes, "y")
        elif len(values) and values.min() == values.max() > 0:
            axes.set_ylim(0, 1.25 * values.max())
        last = max(len(line) for one in series for line in one.lines)
        axes.set_xlim(min(1, last - 1), last)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.set_xlabel("epoch", color=INK)
        for epoch in chosen:
            axes.axvline(epoch, color=INK, linewidth=0.9, linestyle=(0, (1, 2)))
        if len(series) > 1 or several:
            _label_ends(axes, series, last)
    return chart.svg


def draw_figures(rows: Sequence[tuple[str, float, float | None, bool]], unit: str) -> str:
    """Means with their deviations, one below the other.

    Args:
        rows: Name, mean, deviation, and whether it is ours.
        unit: What is measured.
    """
    with _chart(f"{unit} of each model", (4.4, 0.75 + 0.27 * len(rows))) as chart:
        axes = chart.axes
        for place, (_, mean, std, ours) in enumerate(rows):
            colour = BLUE if ours else INK
            if std:
                axes.plot([mean - std, mean + std], [place, place], color=colour, linewidth=1.6, alpha=0.6)
            axes.plot([mean], [place], "o", color=colour, markersize=6 if ours else 4.5)
        axes.set_yticks(range(len(rows)), [_short(name) for name, *_ in rows])
        for tick, (*_, ours) in zip(axes.get_yticklabels(), rows, strict=True):
            tick.set(color=BLUE if ours else INK, parse_math=False)
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.set_xlabel(unit, color=INK)
        axes.grid(axis="x", color=FAINT, linewidth=0.5, alpha=0.6)
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        lows, highs = [mean - (std or 0) for _, mean, std, _ in rows], [mean for _, mean, *_ in rows]
        if min(lows) > 0 and max(highs) > 20 * min(highs):
            _make_logarithmic(axes, "x")
    return chart.svg


def draw_answers(true: np.ndarray, predicted: np.ndarray) -> str:
    """Predicted against true values; the closer to the diagonal, the better."""
    with _chart("predicted against true values", (3.9, 3.6)) as chart:
        axes = chart.axes
        finite = np.isfinite(true) & np.isfinite(predicted)
        true, predicted = true[finite].astype(float), predicted[finite].astype(float)
        low, high = (float(f([f(true), f(predicted)])) for f in (np.min, np.max)) if len(true) else (0.0, 1.0)
        pad = 0.04 * (high - low) or 1.0
        low, high = low - pad, high + pad
        axes.plot([low, high], [low, high], color=INK, linewidth=0.9, alpha=0.6)
        if len(true) <= MOST_POINTS:
            axes.scatter(true, predicted, s=12, alpha=0.45, color=BLUE, linewidths=0)
        else:
            counts = np.histogram2d(true, predicted, GRID, [[low, high], [low, high]])[0]
            edges = np.linspace(low, high, GRID + 1)
            shade = 0.15 + 0.85 * np.log1p(counts) / np.log1p(counts.max())
            for i, j in zip(*counts.nonzero(), strict=True):
                axes.fill(
                    edges[[i, i + 1, i + 1, i]], edges[[j, j, j + 1, j + 1]], color=BLUE, alpha=shade[i, j], linewidth=0
                )
        axes.set(xlim=(low, high), ylim=(low, high), aspect="equal")
        axes.set_xlabel("true", color=INK)
        axes.set_ylabel("predicted", color=INK)
    return chart.svg


class _Chart:
    axes: Any
    svg = ""


@contextmanager
def _chart(what: str, size: tuple[float, float] = SIZE) -> Iterator[_Chart]:
    """Axes to draw on; their SVG is there when the block has ended."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    chart = _Chart()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": what, "font.size": 11}):
        figure = Figure(figsize=size, layout="constrained")
        chart.axes = figure.subplots()
        chart.axes.spines[["top", "right"]].set_visible(False)
        chart.axes.spines[["left", "bottom"]].set_color(FAINT)
        chart.axes.tick_params(which="both", color=FAINT, labelcolor=INK)
        yield chart
        file = io.StringIO()
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    chart.svg = _inlined(file.getvalue(), what)


def _inlined(svg: str, what: str) -> str:
    """Matplotlib's SVG for use inside a page: no prologue, no names that two charts could share, the page's colours."""
    svg = re.sub(
        r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", svg[svg.index("<svg") :], flags=re.DOTALL
    )
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)
    own = hashlib.sha256(svg.encode()).hexdigest()[:8]
    svg = re.sub(r'( id="|"#|url\(#)', rf"\1c{own}-", svg)
    svg = re.sub(r"font-family: [^;\"]*;? ?| ?\n *", " ", svg)
    svg = re.sub(r' (?:d|x|y|transform)="[^"]*"', lambda found: re.sub(r"(\.\d\d)\d+", r"\1", found[0]), svg)
    for colour, variable in VARIABLES.items():
        svg = svg.replace(colour, variable)
    box = re.search(r'viewBox="[^"]*"', svg)
    assert box is not None
    return re.sub(r"<svg[^>]*>", f'<svg {box[0]} role="img" aria-label="{escape(what)}">', svg, count=1)


def _label_ends(axes: Any, series: Sequence[Series], last: int) -> None:
    """Names each mean where it ends, and keeps names from lying on each other."""
    axes.get_ylim()  # settles the limits, on which the places depend
    ends = []
    for one in series:
        known = one.mean[np.isfinite(one.mean)]
        height = axes.transData.transform((last, known[-1]))[1] if len(known) else 0.0
        ends.append((axes.transAxes.inverted().transform((0, height))[1], one))
    floor = -1.0
    for height, one in sorted(ends, key=lambda end: end[0]):
        floor = max(height, floor + GAP)
        axes.text(1.02, floor, one.label, transform=axes.transAxes, color=one.colour, va="center", clip_on=False)


def _make_logarithmic(axes: Any, which: str) -> None:
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axes.set(**{f"{which}scale": "log"})
    axis = getattr(axes, f"{which}axis")
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.9f}".rstrip("0").rstrip(".")))
    axis.set_minor_formatter(NullFormatter())


def _short(name: str, most: int = 22) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"
