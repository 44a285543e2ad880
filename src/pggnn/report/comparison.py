"""Runs beside each other and beside the paper's figures."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pggnn.data.catalogue import CATALOGUE
from pggnn.paper.expected import RESULTS, per_seed, results
from pggnn.report.charts import draw_figures
from pggnn.train.runs.protocol import CROSS_VALIDATION, figure
from pggnn.train.runs.stored import Run


def compare(runs: Iterable[tuple[Run, str]]) -> list[dict[str, Any]]:
    """Runs on the same data beside each other and beside the paper's figures, for the page.

    Args:
        runs: Each with its protocol, with ``"auto"`` resolved where that is known.
    """
    groups: dict[tuple[str, str, str], list[tuple[Run, str]]] = {}
    for run, kind in runs:
        groups.setdefault((run.data, run.counted, run.metric), []).append((run, kind))
    return [_comparison(ours[0][0], ours) for ours in groups.values()]


def count_digits(table: str, metric: str) -> int:
    """Digits after the point of a figure, as that table of the paper has them."""
    return (2 if table == "table4" else 1) if metric == "accuracy" else 3


def signed(difference: float, digits: int) -> str:
    """A difference with its sign; without one where it rounds to nothing."""
    rounded = round(difference, digits)
    return f"{rounded:{'+' if rounded else ''}z.{digits}f}"


def tone(difference: float, deviation: float, lower_is_better: bool) -> str:
    """``"better"`` or ``"worse"``; nothing within the deviation, and where that is not known."""
    if not deviation or abs(difference) <= deviation:
        return ""
    return "better" if (difference < 0) == lower_is_better else "worse"


def _comparison(first: Run, ours: list[tuple[Run, str]]) -> dict[str, Any]:
    table, theirs = results(first.data, first.counted)
    digits = count_digits(table, first.metric)
    rows: list[dict[str, Any]] = [
        {"name": model, "figure": figure(paper.mean, paper.std, digits), "seconds": paper.seconds}
        for model, paper in theirs.items()
    ]
    drawn = [(model, paper.mean, paper.std, False) for model, paper in theirs.items()]
    if (guessed := first.baseline()) is not None:
        rows.append({"name": first.beside().partition(":")[0], "figure": figure(guessed * first.scale, None, digits)})
        drawn.append((rows[-1]["name"], guessed * first.scale, None, False))
    notes = []
    for run, kind in ours:
        if run.figures is None:
            continue
        mean, std = run.figures.mean * run.scale, run.figures.std * run.scale
        row = {"run": run, "name": run.name, "figure": run.figures.figure(run.scale, digits), "seconds": run.seconds}
        if run.model in theirs:
            paper = theirs[run.model]
            row["difference"] = signed(mean - paper.mean, digits).replace("-", "−")
            row["tone"] = tone(mean - paper.mean, std + (paper.std or 0), run.lower_is_better)
        rows.append(row)
        drawn.append((run.name, mean, std, True))
        notes += _caveats(run, kind, table)
    return {
        "name": Path(first.data).name,
        "known": first.data in CATALOGUE,
        "table": RESULTS.get(table, ""),
        "rows": rows,
        "notes": list(dict.fromkeys(notes)),
        "authors": _describe_seeds(table, first.data, digits),
        "unit": first.unit,
        "timed": any(figure.seconds for figure in theirs.values()),
        "better": "lower is better" if first.lower_is_better else "higher is better",
        "chart": draw_figures(drawn, first.unit) if len(drawn) > 1 else "",
    }


def _describe_seeds(table: str, data: str, digits: int) -> str:
    found = per_seed(table, data)
    if not found:
        return ""
    seeds = f" with seeds {', '.join(map(str, found['seeds']))}" if found["seeds"] else ""
    return f"The authors list for PG-GNN {', '.join(f'{value:.{digits}f}' for value in found['values'])}{seeds}."


def _caveats(run: Run, kind: str, table: str) -> list[str]:
    """Why a figure of ours is not directly comparable with the paper's."""
    if not table:
        return []
    found, config = [], run.config
    if config.data.options.get("seed") is not None:
        found.append(f"{run.name}: its graphs were generated from a seed; they are not the paper's.")
    if run.model == "PG-GNN" and table in ("table3", "table4") and config.model.orderings != "single":
        found.append(
            f"The published figures of PG-GNN in {RESULTS[table]} were made with a single ordering of each node's "
            f"neighbours; {run.name} reads {'the whole group' if config.model.orderings == 'group' else 'other ones'}."
        )
    paper = ("folds", 10) if table == "table3" else ("splits", "last" if table == "table4" else "best")
    ours = kind, config.protocol.folds if kind in CROSS_VALIDATION else config.protocol.report
    if ours != paper or config.protocol.only:
        how = {
            "table3": "10-fold cross-validation at the best common epoch",
            "table4": "the data set's splits, tested after the last epoch",
        }.get(table, "the data set's splits, tested at the best validation")
        found.append(f"{run.name} was not measured as the paper's figures were ({how}).")
    if not run.complete:
        found.append(f"{run.name} is not finished.")
    return found
