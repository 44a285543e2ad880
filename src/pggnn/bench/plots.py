"""Pictures of ``pggnn bench kernel``, drawn from its file: time against work, and the roofline."""

import re
from pathlib import Path
from typing import Any

from pggnn.bench import record
from pggnn.bench.roofline import COUNTED, PEAK, intensity
from pggnn.report.figures import BLUE, FAINT, INK, RED, drawing

COLOURS = {"forward": BLUE, "training": RED}
MARKERS = {"degree 8": "o", "Erdős–Rényi": "s", "power law": "^"}
FLOP = {"forward": 24 * 64**2, "training": 72 * 64**2}
"""Of a step with 2 layers of an LSTM, hidden 64."""


def draw(path: Path, folder: Path, suffix: str = "svg") -> list[Path]:
    """All pictures that the file has figures for."""
    _, figures = record.load(path)
    functions = {"linear": draw_linear, "roofline": draw_roofline}
    return [
        functions[name](figures[part], folder / f"{path.stem}-{name}.{suffix}")
        for name, (part, _) in record.PICTURES.items()
        if part in figures
    ]


def draw_linear(cases: dict[str, dict[str, float]], path: Path) -> Path:
    """Time against steps on logarithmic scales, with lines of slope 1, and the rate that it comes to."""
    with drawing(path, (9.6, 4.2)) as figure:
        time, rate = figure.subplots(1, 2)
        for name, colour in COLOURS.items():
            for mix, marker in MARKERS.items():
                points = _points(cases, mix, name)
                steps, values = [x for x, _ in points], [y for _, y in points]
                look = {
                    "color": colour,
                    "marker": marker,
                    "markersize": 4.5,
                    "linewidth": 1,
                    "markerfacecolor": "white",
                }
                time.plot(steps, values, **look)
                rate.plot(steps, [FLOP[name] * x / y / 1e9 for x, y in points], **look)
            points = sorted(point for mix in MARKERS for point in _points(cases, mix, name))
            if points:
                _draw_ideal(time, points, name)
                most, took = points[-1]
                end = most, FLOP[name] * most / took / 1e9
                rate.annotate(name, end, (8, 0), textcoords="offset points", color=colour, va="center")
        for axes, label in ((time, "milliseconds"), (rate, "TFLOP/s")):
            axes.set(xscale="log", xlabel="work: steps of all sequences, Σ |G| (n + 2)", ylabel=label)
            _tidy(axes)
        time.set_yscale("log")
        rate.set_ylim(bottom=0)
        rate.margins(x=0.14)
        time.set_title("time, and lines of slope 1", color=INK, fontsize=10)
        rate.set_title("rate", color=INK, fontsize=10)
        for mix, marker in MARKERS.items():
            if not _points(cases, mix, "forward"):
                continue
            time.plot([], [], marker, color=INK, markerfacecolor="white", label=mix)
        time.legend(frameon=False, loc="upper left", handletextpad=0.2)
    return path


def _points(cases: dict[str, dict[str, float]], mix: str, name: str) -> list[tuple[float, float]]:
    """Steps and milliseconds of all sizes of a mix."""
    found = [values for case, values in cases.items() if re.fullmatch(rf"{mix}, 10\^\d+ steps", case)]
    return sorted((values["steps"], values[f"{name}, ms"]) for values in found)


def _draw_ideal(axes: Any, points: list[tuple[float, float]], name: str) -> None:
    """The line of slope 1 through the largest graph, labelled with what it stands for."""
    (low, _), (high, at_high) = points[0], points[-1]
    axes.plot([low, high], [at_high * low / high, at_high], color=COLOURS[name], linewidth=0.8, linestyle=(0, (4, 3)))
    axes.annotate(name, (high, at_high), (7, 0), textcoords="offset points", color=COLOURS[name], va="center")
    axes.margins(x=0.16)


def draw_roofline(cases: dict[str, dict[str, float]], path: Path) -> Path:
    """Rates against operations for each byte moved, under the roofs of an H200: as specified, and as measured."""
    ceilings = cases.get("ceilings", {})
    product, copy = ceilings.get("matrix product 8192³, TFLOP/s"), ceilings.get("copy, TB/s")
    with drawing(path, (7.2, 4.8)) as figure:
        axes = figure.subplots()
        axes.set(xscale="log", yscale="log", xlim=(8, 1200), ylim=(10, 1500))
        _draw_roof(axes, *PEAK, INK, "-", "as specified: {:.0f} TFLOP/s, {:.1f} TB/s")
        if product is not None and copy is not None:
            _draw_roof(axes, product, copy, FAINT, "--", "measured: {:.0f} TFLOP/s, {:.1f} TB/s")
        for name, colour in COLOURS.items():
            for whose, marker in (("ours ", "o"), ("cuDNN ", "x")):
                rates = {
                    hidden: cases.get(f"hidden {hidden}, bf16", {}).get(f"{whose.removeprefix('ours ')}{name}, TFLOP/s")
                    for hidden in (64, 128)
                }
                found = {hidden: rate for hidden, rate in rates.items() if rate is not None}
                for hidden, rate in found.items():
                    place = intensity(hidden, whose + name), rate
                    side = 2 if rate == max(found.values()) else -9  # keeps labels of points at one height apart
                    axes.plot(*place, marker, color=colour, markersize=7)
                    axes.annotate(
                        f"{whose}{name}, {hidden}", place, (8, side), textcoords="offset points", color=colour
                    )
        axes.set_xlabel("operations for each byte moved, counted from the algorithm", color=INK)
        axes.set_ylabel("TFLOP/s", color=INK)
        _tidy(axes)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter("{x:g}")
        figure.text(0.01, -0.02, COUNTED, fontsize=8, color=INK, va="top")
    return path


def _draw_roof(axes: Any, peak: float, bandwidth: float, colour: str, style: str, label: str) -> None:
    ridge = peak / bandwidth
    axes.plot([1, ridge, 1e4], [bandwidth, peak, peak], style, color=colour, linewidth=1.4)
    above = 4 if style == "-" else -12
    axes.annotate(
        label.format(peak, bandwidth), (1150, peak), (0, above), textcoords="offset points", color=INK, ha="right"
    )


def _tidy(axes: Any) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color=FAINT, linewidth=0.5, alpha=0.5)
    axes.tick_params(which="both", color=FAINT)
