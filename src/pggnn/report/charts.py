"""Charts as SVG inside a page, whose colours and font they take: they are right in the light and in the dark."""

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from itertools import count
from typing import Any

import numpy as np

from pggnn.report.figures import BLUE, FAINT, INK, RED

PALETTE = (BLUE, RED, "#1b7f4b", "#8250b8", "#b8680a", "#0e7c86", "#c2378d", "#6b7a14")
"""Colours of models in one chart."""
DASHES = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)))
"""Lines, for the models after those that have a colour of their own."""
VARIABLES = {INK: "var(--ink)", FAINT: "var(--faint)", BLUE: "var(--blue)", RED: "var(--red)"}
VARIABLES |= {colour: f"var(--colour{i})" for i, colour in enumerate(PALETTE) if i > 1}
SIZE = 4.3, 2.9
"""Inches. Text is legible where a chart is as wide as a phone."""
LARGE, SMALL = (6.2, 4.2), (2.3, 2.2)
MOST_EPOCHS = 250
"""Most points of a line. Longer lines are drawn as means over some epochs."""
MOST_POINTS = 1500
"""Most points that are drawn one by one. More are drawn as a histogram."""
GRID, SHADES = 56, 6
MOST_DECADES = 1000
"""Range up to which a logarithmic scale has ticks between the powers of ten."""
GAP = 0.085
"""Least distance of two labels, as a share of the height."""
LINE = 11.0
"""The same in points, where labels stand beside points."""
LEAST = 0.02
"""Least range of figures, as a share of them: what differs by less is drawn as equal."""


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
    dash: int = 0
    """Key of :data:`DASHES`."""

    @property
    def mean(self) -> np.ndarray:
        """Over the epochs that all trainings have."""
        epochs = min(map(len, self.lines))
        return np.mean([line[:epochs] for line in self.lines], axis=0)


def draw_curves(
    series: Sequence[Series],
    what: str,
    chosen: Sequence[int] = (),
    size: tuple[float, float] = SIZE,
    every: int = 1,
) -> str:
    """Learning curves: each training thin, the mean thick, labelled where they end.

    The scale is logarithmic where values differ twentyfold.

    Args:
        series: The lines.
        what: What is drawn, for readers who do not see it.
        chosen: Epochs to point out.
        size: Of the chart, in inches.
        every: Epochs per point, which is their mean.
    """
    with _chart(what, size) as chart:
        axes = chart.axes
        several = max(len(one.lines) for one in series) > 1
        for one in series:
            style = {"drawstyle": "steps-post" if one.steps else "default", "linestyle": DASHES[one.dash % len(DASHES)]}
            for line in one.lines:
                axes.plot(
                    *_points(line, every), color=one.colour, linewidth=0.7 if several else 1.8,
                    alpha=0.4 if several else 1, marker="o" if len(line) == 1 else None, markersize=4, **style,
                )  # fmt: skip
            if several and one.label:
                axes.plot(*_points(one.mean, every), color=one.colour, linewidth=2.2, **style)
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
        names = [name.removeprefix("always the ") for name, *_ in rows]
        axes.set_yticks(range(len(rows)), [name if len(name) <= 22 else f"{name[:21]}…" for name in names])
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
        left, right = axes.get_xlim()
        if right - left < (least := LEAST * max(map(abs, highs))):
            axes.set_xlim((left + right - least) / 2, (left + right + least) / 2)
    return chart.svg


def draw_answers(true: np.ndarray, predicted: np.ndarray, limits: tuple[float, float] | None = None) -> str:
    """Predicted against true values; the closer to the diagonal, the better.

    Args:
        true: The targets.
        predicted: What was said.
        limits: Of both axes, for a small picture among others; what lies beyond is drawn at the edge.
    """
    with _chart("predicted against true values", SMALL if limits else (3.9, 3.6)) as chart:
        axes = chart.axes
        finite = np.isfinite(true) & np.isfinite(predicted)
        true, predicted = true[finite].astype(float), predicted[finite].astype(float)
        low, high = (float(f([f(true), f(predicted)])) for f in (np.min, np.max)) if len(true) else (0.0, 1.0)
        low, high = limits or (low, high)
        pad = 0.04 * (high - low) or 1.0
        low, high = low - pad, high + pad
        axes.plot([low, high], [low, high], color=INK, linewidth=0.9, alpha=0.6)
        if len(true) <= MOST_POINTS and limits is None:
            axes.scatter(true, predicted, s=12, alpha=0.45, color=BLUE, linewidths=0)
        else:
            _shade(axes, true.clip(low, high), predicted.clip(low, high), (low, high), GRID // 2 if limits else GRID)
        axes.set(xlim=(low, high), ylim=(low, high), aspect="equal")
        if limits is None:
            axes.set_xlabel("true", color=INK)
            axes.set_ylabel("predicted", color=INK)
    return chart.svg


def draw_costs(points: Sequence[tuple[str, float, float, float]], unit: str) -> str:
    """What is reached against what it takes.

    Args:
        points: Name, seconds per epoch, mean and deviation.
        unit: What is measured.
    """
    with _chart(f"{unit} against seconds per epoch") as chart:
        axes = chart.axes
        times = [seconds for _, seconds, *_ in points]
        first, last = min(times), max(times)
        widely = last > 20 * first > 0
        for (_, seconds, mean, std), colour in zip(points, PALETTE * len(points), strict=False):
            axes.errorbar([seconds], [mean], [std] if std else None, fmt="o", color=colour, capsize=3, linewidth=1.4)
        if widely:
            _make_logarithmic(axes, "x")
            axes.set_xlim(first / 1.5, last * 4)
        else:
            axes.set_xlim(0, 1.45 * last)
        axes.margins(y=0.2)
        axes.set_xlabel("seconds per epoch", color=INK)
        axes.set_ylabel(unit, color=INK)
        named: list[tuple[bool, float]] = []
        coloured = zip(points, PALETTE * len(points), strict=False)
        for (name, seconds, mean, _), colour in sorted(coloured, key=lambda one: one[0][2]):
            left = not widely and seconds == first < last and first > 0.45 * last  # where there is more room
            height = axes.transData.transform((seconds, mean))[1] * 72 / axes.figure.dpi + 4
            below = [other for side, other in named if side == left]
            up = max([0.0, *(other + LINE - height for other in below)])  # names must not lie on each other
            named.append((left, height + up))
            axes.annotate(
                name, (seconds, mean), (-7 if left else 7, 4 + up), textcoords="offset points", color=colour,
                ha="right" if left else "left", parse_math=False, fontsize=10,
            )  # fmt: skip
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
    style: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": what, "font.size": 11}
    with rc_context(style | {"axes.formatter.useoffset": False}):
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
    """Matplotlib's SVG for use inside a page: no prologue, the page's colours."""
    svg = re.sub(
        r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", svg[svg.index("<svg") :], flags=re.DOTALL
    )
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)
    svg = re.sub(r"font-family: [^;\"]*;? ?| ?\n *", " ", svg)
    svg = re.sub(r' (?:d|x|y|transform)="[^"]*"', lambda found: re.sub(r"(\.\d\d)\d+", r"\1", found[0]), svg)
    for colour, variable in VARIABLES.items():
        svg = svg.replace(colour, variable)
    box = re.search(r'viewBox="[^"]*"', svg)
    assert box is not None
    return re.sub(r"<svg[^>]*>", f'<svg {box[0]} role="img" aria-label="{escape(what)}">', svg, count=1)


def _points(line: np.ndarray, every: int) -> tuple[np.ndarray, np.ndarray]:
    """Epochs and values to draw: means over ``every`` epochs, at their middle."""
    if every == 1:
        return np.arange(1, len(line) + 1), line
    parts = [line[i : i + every] for i in range(0, len(line), every)]
    middles = [i * every + (len(part) + 1) / 2 for i, part in enumerate(parts)]
    return np.array(middles), np.array([part.mean() for part in parts])


def _shade(axes: Any, x: np.ndarray, y: np.ndarray, limits: tuple[float, float], grid: int) -> None:
    """How many points lie in each cell of a grid, in some shades; a path for each of them keeps the page small."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    counts = np.histogram2d(x, y, grid, [limits, limits])[0]
    edges = np.linspace(*limits, grid + 1)
    level = np.ceil(SHADES * np.log1p(counts) / np.log1p(max(1, counts.max()))).astype(int)
    for shade in range(1, SHADES + 1):
        i, j = (level == shade).nonzero()
        corners = np.stack(
            [np.stack([edges[i + a], edges[j + b]], 1) for a, b in ((0, 0), (1, 0), (1, 1), (0, 1), (0, 0))], 1
        )
        if len(i):
            codes = [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY] * len(i)
            alpha = 0.15 + 0.85 * shade / SHADES
            axes.add_patch(PathPatch(Path(corners.reshape(-1, 2), codes), facecolor=BLUE, alpha=alpha, linewidth=0))


def number_charts(page: str) -> str:
    """The page with names in each chart that no other has, even if it is the same chart twice."""
    numbers = count(1)

    def rename(chart: re.Match[str]) -> str:
        return re.sub(r'( id="|"#|url\(#)', rf"\1c{next(numbers)}-", chart[0])

    return re.sub(r"<svg.*?</svg>", rename, page, flags=re.DOTALL)


def _label_ends(axes: Any, series: Sequence[Series], last: int) -> None:
    """Names each mean where it ends, and keeps names from lying on each other."""
    axes.get_ylim()  # settles the limits, on which the places depend
    ends = []
    for one in series:
        known = one.mean[np.isfinite(one.mean)]
        height = axes.transData.transform((last, known[-1]))[1] if len(known) else 0.0
        ends.append((axes.transAxes.inverted().transform((0, height))[1], one))
    ends.sort(key=lambda end: end[0])
    gap = min(GAP * SIZE[1] / axes.figure.get_figheight(), 1.1 / len(ends))
    places = [height for height, _ in ends]
    for i in range(1, len(places)):
        places[i] = max(places[i], places[i - 1] + gap)
    for i, ceiling in enumerate(1.05 - gap * np.arange(len(places))):
        places[-1 - i] = min(places[-1 - i], ceiling)
    for place, (_, one) in zip(places, ends, strict=True):
        style = {"transform": axes.transAxes, "color": one.colour, "clip_on": False}
        dashed = any(other.dash for other in series)
        if dashed:
            axes.plot([1.02, 1.09], [place, place], linewidth=1.8, linestyle=DASHES[one.dash % len(DASHES)], **style)
        axes.text(1.11 if dashed else 1.02, place, one.label, va="center", **style)


def _make_logarithmic(axes: Any, which: str) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set(**{f"{which}scale": "log"})
    axis = getattr(axes, f"{which}axis")
    low, high = axis.get_data_interval()
    if 0 < high < MOST_DECADES * low:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.9f}".rstrip("0").rstrip(".")))
    axis.set_minor_formatter(NullFormatter())
