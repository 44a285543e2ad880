"""``pggnn report``: one self-contained HTML page about one or several runs."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import pggnn
from pggnn.files import write_text
from pggnn.report import predictions
from pggnn.report.charts import draw_answers, number_charts
from pggnn.report.comparison import compare
from pggnn.report.curves import draw_learning
from pggnn.report.predictions import Predictions
from pggnn.report.protocols import describe_protocol, describe_spread, guess_kind
from pggnn.train.runs.protocol import RunSummary
from pggnn.train.runs.stored import Run, as_seconds, as_text, read_runs

if TYPE_CHECKING:
    from markupsafe import Markup

MOST_CLASSES = 16
"""Classes that a confusion matrix shows; of more, the most frequent confusions are listed."""
MOST_TARGETS = 4
"""Values per graph that are drawn against the truth."""


def write(folders: Sequence[str | Path], out: Path, compute: bool = True) -> list[str]:
    """Writes the page; returns what is missing on it, in sentences.

    Args:
        folders: Those of the runs.
        out: The HTML file.
        compute: Whether to have the networks answer for the test graphs where no file has their answers.
    """
    runs = read_runs(folders)
    found = [predictions.find(run, compute) for run in runs]
    sections = [_section(run, answers, reason) for run, (answers, reason) in zip(runs, found, strict=True)]
    comparisons = compare((section["run"], section["kind"]) for section in sections)
    title = " · ".join(run.name for run in runs)
    render("page.html", out, title=title, sections=sections, comparisons=comparisons)
    return [f"{section['run'].name}: {sentence}" for section in sections for sentence in section["missing"]]


def render(template: str, out: Path, **values: Any) -> None:
    """Fills in a template and writes the page."""
    from jinja2 import Environment, PackageLoader

    jinja = Environment(
        loader=PackageLoader("pggnn.report", "."), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    jinja.filters |= {"code": _code, "seconds": as_seconds, "spread": describe_spread, "epochs": _list_epochs}
    style = (Path(__file__).parent / "page.css").read_text(encoding="utf-8")
    text = jinja.get_template(template).render(version=pggnn.__version__, style=style, **values)
    write_text(out, number_charts(text))


def _code(text: str) -> "Markup":
    """What stands between backticks as code."""
    from markupsafe import Markup, escape

    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def _section(run: Run, answers: Predictions | None, reason: str) -> dict[str, Any]:
    """All that the page says about one run."""
    kind = answers.kind if answers else guess_kind(run)
    figures, config = run.figures, run.config
    if reason and answers is None:
        reason = f"Test answers are missing: {reason}"
    return {
        "run": run,
        "data": Path(run.data).name,
        "kind": kind,
        "figure": _number(figures.mean, run) if figures else None,
        "spread": _number(figures.std, run) if figures and len(figures.each) > 1 else None,
        "unit": " %" if run.scale == 100 else "",
        "each": [_number(value, run) for value in figures.each] if figures and len(figures.each) > 1 else [],
        "protocol": f"{describe_protocol(config, kind)} {run.had_others_chosen}".rstrip(),
        "missing": run.lacks + ([f"{reason.rstrip('.')}."] if reason else []),
        "curves": draw_learning(run),
        "answers": show_answers(run, answers) if answers else None,
        "trainings": [_training(run, trial) for trial in run.logs],
        "options": [(key, as_text(value), as_text(usual)) for key, (value, usual) in run.options.items()],
        "machine": [(key, "none" if value is None else as_text(value)) for key, value in run.machine.items()],
    }


def _training(run: Run, trial: Any) -> dict[str, Any]:
    records, result = run.logs[trial], run.results.get(trial, {})
    tested = [record for record in records if "test" in record]
    last = {"test": tested[-1]["test"], "best_epoch": tested[-1]["epoch"]} if tested and not result else result
    shown = {key: _number(last[key], run) if last.get(key) is not None else "—" for key in ("val", "test")}
    ended = {"epochs": "all epochs done", "learning rate": "learning rate low enough", "fit": "fitted at once"}
    return shown | {
        "name": trial.name,
        "epochs": records[-1]["epoch"] if records else result.get("epoch", 0),
        "best": last.get("best_epoch", "—"),
        "seconds": sum(record["seconds"] for record in records),
        "ended": ended[result["ended"]] if result else "not ended",
    }


def show_answers(run: Run, answers: Predictions, limits: tuple[float, float] | None = None) -> dict[str, Any]:
    """Predicted against true values, or a confusion matrix, and how they go with the headline.

    Args:
        run: Whose answers they are.
        answers: The answers.
        limits: Of a small picture's axes.
    """
    true, predicted = answers.true, answers.predicted
    note = ""
    if run.config.protocol.kind == "folds" and run.complete:
        note = (
            "The network kept of each fold is that of the fold's own best test, not of the common epoch: "
            "these answers flatter still more than the figure above."
        )
    if predicted.dtype.kind == "f":
        columns = range(min(true.shape[1], MOST_TARGETS))
        error = float(np.abs(true - predicted)[~np.isnan(true)].mean())
        charts = [(f"Target {i + 1}" if true.shape[1] > 1 else "", draw_answers(true[:, i], predicted[:, i], limits))
                  for i in columns]  # fmt: skip
        return {
            "charts": charts,
            "summary": f"{len(true):,} {f'of {answers.total:,} ' * (answers.total > len(true))}answers, "
            f"mean absolute error {_number(error, run)}.",
            "note": note,
        }
    names: list[Any] = ["no", "yes"]
    if predicted.dtype.kind != "b":
        names = list(run.schema.classes) if run.schema else [*range(max(true.max(), predicted.max()) + 1)]
    counts = np.zeros((len(names), len(names)), int)
    np.add.at(counts, (true.ravel().astype(int), predicted.ravel().astype(int)), 1)
    every = answers.total * (true.shape[1] if true.ndim > 1 else 1)
    summary = f"{every:,} answers, {100 * counts.trace() / max(1, every):.1f} % of them right."
    if lost := every - counts.sum():
        summary += f" {lost:,} are not finite, and not shown."
    if len(names) > MOST_CLASSES:
        wrong = counts - np.diag(np.diag(counts))
        first = np.argsort(-wrong, axis=None, kind="stable")[:MOST_CLASSES]
        pairs = [(names[i], names[j], wrong[i, j]) for i, j in zip(*np.unravel_index(first, wrong.shape), strict=True)]
        return {"pairs": [pair for pair in pairs if pair[2]], "summary": summary, "note": note}
    shares = counts / counts.sum(1, keepdims=True).clip(1)
    rows = [(name, list(zip(row, share, strict=True))) for name, row, share in
            zip(names, counts.tolist(), shares.tolist(), strict=True)]  # fmt: skip
    return {"names": names, "rows": rows, "summary": summary, "note": note}


def _number(value: float, run: Run) -> str:
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value * run.scale:.{1 if run.scale == 100 else 3}f}"


def _list_epochs(figures: RunSummary | None) -> str:
    """The chosen epochs in few words."""
    epochs = figures.epochs if figures else ["—"]
    if len(set(epochs)) == 1:
        return str(epochs[0])
    return ", ".join(map(str, epochs)) if len(epochs) <= 3 else f"{min(epochs)} to {max(epochs)}"
