"""The learning curves of a run."""

from functools import partial
from math import ceil
from typing import Any

import numpy as np

from pggnn.report.charts import LARGE, MOST_EPOCHS, PALETTE, Series, draw_curves
from pggnn.report.figures import BLUE, INK, RED
from pggnn.train.engine.log import Record
from pggnn.train.runs.stored import Run

SEVERAL = " Thin: each training; thick: their mean."


def draw_learning(run: Run) -> list[tuple[str, str]]:
    """Captions and charts: loss, metric and learning rate over the epochs; none where nothing was logged."""
    logs = [records for records in run.logs.values() if records]
    if not logs:
        return []
    several = SEVERAL if len(logs) > 1 else ""
    rates = _lines(logs, "lr")
    if all(np.array_equal(rate, rates[0]) for rate in rates):
        rates = rates[:1]
    metric = run.unit[0].upper() + run.unit[1:]
    series, said = _metric(run, logs)
    chosen = run.figures.epochs if run.figures and run.config.protocol.kind == "folds" else []
    return [
        (f"Training loss.{several}", draw_curves([Series("mean", BLUE, _lines(logs, "loss"))], "loss")),
        (f"{metric}: {said}.", draw_curves(series, metric, chosen)),
        ("Learning rate.", draw_curves([Series("", INK, rates, steps=True)], "learning rate")),
    ]


def draw_rivals(runs: dict[str, Run | None]) -> tuple[str, str]:
    """Caption and chart of runs on the same data: validation, or test where nothing validates.

    Args:
        runs: By name; None where there is none, so that a name has the same colour in every chart.
    """
    series, longest, seen = [], 0, []
    for i, (name, run) in enumerate(runs.items()):
        logs = [records for records in run.logs.values() if records] if run else []
        key = "val" if any("val" in record for records in logs for record in records) else "test"
        lines = _lines(logs, key, run.scale if run else 1)
        if lines:
            series.append(Series(name, PALETTE[i % len(PALETTE)], lines, dash=i // len(PALETTE)))
            longest = max(longest, *map(len, lines))
            seen.append({"val": "validation", "test": "test"}[key])
    if not series:
        return "", ""
    every = ceil(longest / MOST_EPOCHS)
    what = " or ".join(dict.fromkeys(seen))
    thinned = f" Each point is the mean of {every} epochs." if every > 1 else ""
    several = SEVERAL if max(len(one.lines) for one in series) > 1 else ""
    said = what.capitalize() if len(series) > 1 else f"{series[0].label}: {what}"
    return f"{said}.{several}{thinned}", draw_curves(series, what, (), LARGE, every)


def _metric(run: Run, logs: list[list[Record]]) -> tuple[list[Series], str]:
    """Validation and test, as far as they were measured, and what is seen."""
    lines = partial(_lines, logs, scale=run.scale)
    if not any("val" in record for records in logs for record in records):
        return [Series("test", RED, lines("test"))], "test; the chosen epoch is dotted"
    better = min if run.lower_is_better else max
    best = [better(records, key=lambda record: record["val"]) for records in logs]
    marks = [(record["epoch"], record["val"] * run.scale) for record in best]
    validation = Series("validation", BLUE, lines("val"), marks)
    tested = lines("test", held=True)
    if not tested:
        return [validation], "validation, with its best epoch"
    test = Series("test", RED, tested, steps=True)
    return [validation, test], "validation, with its best epoch, and test at the best so far"


def _lines(logs: list[list[Record]], key: str, scale: float = 1, held: bool = False) -> list[np.ndarray]:
    """A value for each epoch of each training that has any; ``held`` ones stay until the next."""
    found = []
    for records in logs:
        line: Any = np.full(records[-1]["epoch"], np.nan)
        for record in records:
            if key in record:
                line[record["epoch"] - 1 : None if held else record["epoch"]] = record[key] * scale
        if not np.isnan(line).all():
            found.append(line)
    return found
