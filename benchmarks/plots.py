"""Pictures of a file's figures: time against work, and the roofline."""

import re
from pathlib import Path
from typing import Any

from benchmarks import record
from benchmarks.linear import HIDDEN, MIXES
from benchmarks.roofline import COUNTED, FLOP, PEAK, intensity
from pggnn.report.figures import BLUE, FAINT, INK, RED, drawing

COLOURS = {"forward": BLUE, "training": RED}
MARKERS = dict(zip(MIXES, "os^", strict=True))
Cases = dict[str, dict[str, float]]


def draw(path: Path, folder: Path) -> list[Path]:
    """All pictures that the file has figures for."""
    _, figures = record.load(path)
    made = []
    for name, (part, _) in record.PICTURES.items():
        if part in figures:
            made.append(folder / f"{path.stem}-{name}.svg")
            (draw_linear if name == "linear" else draw_roofline)(figures[part], made[-1])
    return made


def draw_linear(cases: Cases, path: Path) -> None:
    """Time against steps on logarithmic scales, with lines of slope 1, and the rate that it comes to."""
    look: dict[str, Any] = {"markersize": 4.5, "linewidth": 1, "markerfacecolor": "white"}
    with drawing(path, (9.6, 4.2)) as figure:
        time, rate = figure.subplots(1, 2)
        for name, colour in COLOURS.items():
            everything = []
            for mix, marker in MARKERS.items():
                drawn = [(x, y, FLOP[name] * HIDDEN**2 * x / y / 1e9) for x, y in points(cases, mix, name)]
                steps, values, rates = zip(*drawn, strict=True) if drawn else ((), (), ())
                time.plot(steps, values, color=colour, marker=marker, **look)
                rate.plot(steps, rates, color=colour, marker=marker, **look)
                everything += drawn
            low, (high, at_high, end) = min(everything)[0], max(everything)
            line = [at_high * low / high, at_high]
            time.plot([low, high], line, color=colour, linewidth=0.8, linestyle=(0, (4, 3)))
            for axes, height in ((time, at_high), (rate, end)):
                axes.annotate(name, (high, height), (8, 0), textcoords="offset points", color=colour, va="center")
        for axes, label, title in ((time, "milliseconds", "time, and lines of slope 1"), (rate, "TFLOP/s", "rate")):
            axes.set(xscale="log", xlabel="work: steps of all sequences, Σ |G| (n + 2)", ylabel=label)
            axes.set_title(title, color=INK, fontsize=10)
            axes.margins(x=0.16)
            tidy(axes)
        time.set_yscale("log")
        rate.set_ylim(bottom=0)
        for mix, marker in MARKERS.items():
            if points(cases, mix, "forward"):
                time.plot([], [], marker, color=INK, markerfacecolor="white", label=mix)
        time.legend(frameon=False, loc="upper left", handletextpad=0.2)


def points(cases: Cases, mix: str, name: str) -> list[tuple[float, float]]:
    """Steps and milliseconds of all sizes of a mix."""
    found = [values for case, values in cases.items() if re.fullmatch(rf"{mix}, 10\^\d+ steps", case)]
    return sorted((values["steps"], values[f"{name}, ms"]) for values in found)


def draw_roofline(cases: Cases, path: Path) -> None:
    """Rates against operations for each byte moved, under the roofs of an H200: as specified, and as measured."""
    ceilings = cases.get("ceilings", {})
    with drawing(path, (7.2, 4.8)) as figure:
        axes = figure.subplots()
        axes.set(xscale="log", yscale="log", xlim=(8, 1200), ylim=(10, 1500))
        draw_roof(axes, PEAK, INK, "-", "as specified")
        if len(ceilings) == 2:
            draw_roof(axes, tuple(ceilings.values()), FAINT, "--", "measured")
        for name, colour in COLOURS.items():
            for whose, marker in (("ours", "o"), ("cuDNN", "x")):
                what = f"{'' if whose == 'ours' else 'cuDNN '}{name}, TFLOP/s"
                rates = {hidden: cases.get(f"hidden {hidden}, bf16", {}).get(what) for hidden in (64, 128)}
                found = {hidden: rate for hidden, rate in rates.items() if rate is not None}
                for hidden, rate in found.items():
                    place = intensity(hidden, f"{whose} {name}"), rate
                    side = 2 if rate == max(found.values()) else -9  # keeps labels of points at one height apart
                    axes.plot(*place, marker, color=colour, markersize=7)
                    label = f"{whose} {name}, {hidden}"
                    axes.annotate(label, place, (8, side), textcoords="offset points", color=colour)
        axes.set_xlabel("operations for each byte moved, counted from the algorithm", color=INK)
        axes.set_ylabel("TFLOP/s", color=INK)
        tidy(axes)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter("{x:g}")
        figure.text(0.01, -0.02, COUNTED, fontsize=8, color=INK, va="top")


def draw_roof(axes: Any, roof: tuple[float, ...], colour: str, style: str, label: str) -> None:
    """The rate that a GPU of that peak and bandwidth could reach."""
    peak, bandwidth = roof
    axes.plot([1, peak / bandwidth, 1e4], [bandwidth, peak, peak], style, color=colour, linewidth=1.4)
    label, place = f"{label}: {peak:.0f} TFLOP/s, {bandwidth:.1f} TB/s", (0, 4 if style == "-" else -12)
    axes.annotate(label, (1150, peak), place, textcoords="offset points", color=INK, ha="right")


def tidy(axes: Any) -> None:
    """A faint grid and no frame."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color=FAINT, linewidth=0.5, alpha=0.5)
    axes.tick_params(which="both", color=FAINT)
