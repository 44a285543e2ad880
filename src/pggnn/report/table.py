"""A page of many runs: one of the paper's tables, with curves and answers of each cell."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pggnn.paper.tables import TABLES, nested_row
from pggnn.report import predictions
from pggnn.report.comparison import count_digits, signed, tone
from pggnn.report.curves import draw_rivals
from pggnn.report.grid import Column, Grid, arrange
from pggnn.report.orderings import compare_orderings
from pggnn.report.page import render, show_answers
from pggnn.report.predictions import Predictions
from pggnn.report.protocols import describe_epoch, describe_protocol, describe_spread, guess_kind
from pggnn.train.runs.protocol import CROSS_VALIDATION, figure
from pggnn.train.runs.stored import Run

WIDE_CLASSES = 4
"""Classes from which on a confusion matrix takes the whole width."""


def write_table(folders: Sequence[Path], out: Path, compute: bool = True) -> list[str]:
    """Writes the page; returns what is missing on it, in sentences.

    Args:
        folders: Those of the runs.
        out: The HTML file.
        compute: Whether to have the networks answer for the test graphs where no file has their answers.
    """
    grid = arrange([Run.read(folder) for folder in folders])
    found = {(row, label): predictions.find(run, compute) for row, label, run in grid.runs}
    known = {key: answers for key, (answers, _) in found.items() if answers is not None}
    answers = [shown for column in grid.columns if (shown := _answers(grid, column, known))]
    curves = [(one.label, *draw_rivals({row: cells.get(one.label) for row, cells in grid.rows.items()}))
              for one in grid.columns]  # fmt: skip
    cut = [run for *_, run in grid.runs if not run.complete]
    rows = [{"name": row, "cells": [_cell(grid, row, one) for one in grid.columns]} for row in grid.rows]
    notes = TABLES[grid.name].notes_on(grid.rows) if grid.name else []
    over = {describe_spread(run) for *_, run in grid.runs}
    render(
        "table.html", out,
        title=TABLES[grid.name].title if grid.name else " and ".join(dict.fromkeys(c.label for c in grid.columns)),
        spread=any(run.figures and len(run.figures.each) > 1 for *_, run in grid.runs),
        unfinished=f"{len(cut)} of {len(grid.runs)} runs have not ended: their figures are those so far." * bool(cut),
        columns=grid.columns, better=_better(grid),
        compared=any(one.published[1] for one in grid.columns), rows=rows, guesses=_guesses(grid),
        published=_published(grid), notes=notes,
        warnings=describe_departures(grid),
        ordering_costs=compare_orderings(grid), curves=[one for one in curves if one[-1]], answers=answers,
        drawn=any(one["form"] == "" for one in answers), protocols=_protocols(grid, known),
        command=f"pggnn reproduce {grid.name}" if grid.name else "",
        details=[_detail(*one) for one in grid.runs], over=over.pop() if len(over) == 1 else "",
        machines=list(dict.fromkeys(run.hardware for *_, run in grid.runs)),
    )  # fmt: skip
    lacks = [f"{row}, {label}: {text}" for row, label, run in grid.runs for text in run.lacks]
    without = {reason for answers, reason in found.values() if answers is None}
    missing = [key for key, (answers, _) in found.items() if answers is None]
    if missing:
        lacks.append(f"Test answers are missing for {len(missing)} of {len(found)} runs: {min(without)}")
    return lacks


def _better(grid: Grid) -> str:
    named = {one.label: "lower is better" if one.run.lower_is_better else "higher is better" for one in grid.columns}
    if len(set(named.values())) == 1:
        return f"{next(iter(named.values())).capitalize()}."
    return "; ".join(f"{label}: {how}" for label, how in named.items()) + "."


def _cell(grid: Grid, row: str, column: Column) -> dict[str, Any]:
    """A run's figure beside the paper's."""
    run = grid.rows[row].get(column.label)
    table, theirs = column.published
    digits, paper = count_digits(table, column.run.metric), theirs.get(grid.model(row) or "")
    shown: dict[str, Any] = {"state": "", "paper": figure(paper.mean, paper.std, digits) if paper else ""}
    if run is None or run.figures is None:
        return shown | {"state": "not run" if run is None else "no figure yet"}
    ours = run.figures
    mean = ours.mean * column.run.scale
    shown["figure"] = f"{mean:.{digits}f}"
    shown["spread"] = f"{ours.std * column.run.scale:.{digits}f}" if len(ours.each) > 1 else ""
    if run.config.protocol.kind in CROSS_VALIDATION:
        nested = grid.rows.get(nested_row(row), {}).get(column.label)
        beside = {"by other folds": run.by_others, "nested": nested.figures if nested else None}
        shown["rules"] = [f"epoch: {describe_epoch(run.config)}"]
        shown["rules"] += [f"{by} {one.figure(column.run.scale, digits)}" for by, one in beside.items() if one]
    if paper:
        difference = mean - paper.mean
        deviation = ours.std * column.run.scale + (paper.std or 0)
        shown["difference"] = signed(difference, digits).replace("-", "−")
        shown["tone"] = tone(difference, deviation, column.run.lower_is_better)
    return shown if run.complete else shown | {"state": "so far", "tone": "unfinished"}


def _guesses(grid: Grid) -> list[str]:
    """By column, what one answer for all has: the most frequent class, or the mean; from least to most where runs have
    other test graphs. Nothing where no run measured it."""
    found = []
    for column in grid.columns:
        digits = count_digits(column.published[0], column.run.metric)
        known = [run.baseline() for _, label, run in grid.runs if label == column.label]
        values = sorted(value * column.run.scale for value in known if value is not None)
        found.append(" to ".join(dict.fromkeys(f"{value:.{digits}f}" for value in values[:1] + values[-1:])))
    return found if any(found) else []


def _published(grid: Grid) -> list[tuple[str, list[str]]]:
    """The paper's figures of models that were not run."""
    ours = {grid.model(row) for row in grid.rows}
    models = dict.fromkeys(model for column in grid.columns for model in column.published[1] if model not in ours)
    rows = []
    for model in models:
        cells = []
        for column in grid.columns:
            table, theirs = column.published
            paper = theirs.get(model)
            cells.append(figure(paper.mean, paper.std, count_digits(table, column.run.metric)) if paper else "")
        rows.append((model, cells))
    return rows


def describe_departures(grid: Grid) -> list[str]:
    """How the runs are not those that the table is made of."""
    rows = {row: texts for row, texts in grid.departures.items() if texts}
    every = grid.departures.values()
    common = [text for text in next(iter(rows.values()), []) if all(text in texts for texts in every)]
    found = [f"Not the table's own experiment; in all rows {'; '.join(common)}."] if common else []
    own: dict[str, list[str]] = {}
    for row, texts in rows.items():
        rest = "; ".join(text for text in texts if text not in common)
        if rest:
            own.setdefault(rest, []).append(row)
    return found + [f"{', '.join(names)}: {rest}." for rest, names in own.items()]


def _answers(grid: Grid, column: Column, known: dict[tuple[str, str], Predictions]) -> dict[str, Any] | None:
    """Small pictures of one column's answers, on the same axes, or its confusion matrices."""
    found = {row: known[row, column.label] for row in grid.rows if (row, column.label) in known}
    if not found:
        return None
    first = next(iter(found.values()))
    limits, form = None, "classes"
    if first.predicted.dtype.kind == "f":
        true = np.concatenate([one.true.ravel() for one in found.values()])
        true = true[np.isfinite(true)]
        limits, form = (float(true.min()), float(true.max())) if len(true) else (0.0, 1.0), ""
    elif first.predicted.dtype.kind != "b" and max(one.true.max() for one in found.values()) >= WIDE_CLASSES:
        form = "many"
    shown = {row: show_answers(grid.rows[row][column.label], one, limits) for row, one in found.items()}
    return {"label": column.label, "form": form, "shown": list(shown.items())}


def _protocols(grid: Grid, known: dict[tuple[str, str], Predictions]) -> list[tuple[str, str]]:
    """Each way figures came about, and the columns it holds for."""
    found: dict[str, list[str]] = {}
    for row, label, run in grid.runs:
        kind = known[row, label].kind if (row, label) in known else guess_kind(run)
        labels = found.setdefault(describe_protocol(run.config, kind), [])
        labels += [label] * (label not in labels)
    return [(", ".join(labels), sentence) for sentence, labels in found.items()]


def _detail(row: str, label: str, run: Run) -> dict[str, Any]:
    figures, digits = run.figures, 2 if run.scale == 100 else 4
    return {
        "row": row, "label": label, "run": run, "figure": figures.figure(run.scale, digits) if figures else "—",
    }  # fmt: skip
