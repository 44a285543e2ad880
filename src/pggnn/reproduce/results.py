"""``pggnn reproduce table2``: trains what is missing of a table, and shows ours beside the paper's figures."""

import json
import shlex
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from pggnn.files import markdown_table, write_json, write_text
from pggnn.paper.expected import Figure, results
from pggnn.paper.tables import TABLES, cells, folder_of, nested_row, runs
from pggnn.report.comparison import count_digits, signed
from pggnn.report.grid import arrange
from pggnn.report.protocols import describe_epoch
from pggnn.report.table import describe_departures, write_table
from pggnn.train.runs import protocol
from pggnn.train.runs.folder import is_run
from pggnn.train.runs.protocol import RunSummary
from pggnn.train.runs.stored import Run
from pggnn.train.sweeps.keys import RunKey
from pggnn.train.sweeps.sweep import Sweep, keep_published, read_ended, train_missing

OTHERS_NOTE = (
    "By other folds: each fold at the epoch where the mean over the *other* folds is best. Its own test figures have "
    "no say in its epoch, but its graphs trained the networks that chose it. From the same trainings."
)


@dataclass(frozen=True)
class TableCell:
    """A figure of ours, and how it was made."""

    model: str
    data: str
    metric: str
    mean: float
    std: float
    each: list[float]
    epochs: list[int]
    rule: str
    """Which epoch it is of."""
    by_others: RunSummary | None
    """Had the other folds chosen each fold's epoch."""
    seeds: list[int]
    orderings: str
    parameters: int
    seconds_per_epoch: float
    machine: str
    paper: Figure | None
    command: str


def reproduce(
    name: str, out: Path, sweep: Sweep, quick: bool = False, seeds: list[int] | None = None
) -> tuple[list[TableCell], Path]:
    """Trains what is missing of a table, and returns its cells and the Markdown file where they are shown.

    The same is in a JSON file beside it; both hold all that is complete, also what is not chosen this time. A page has
    all runs of the table, those that have not ended too.

    Args:
        name: ``"table2"``, ``"table3"``, ``"table4"``, ``"ablation"``, ``"gcn"``, ``"graphsage"`` or ``"rp"``.
        out: Folder of the runs; what is there already is not run again.
        sweep: Which rows and columns to run, and how.
        quick: A smaller experiment, for a look on two cores.
        seeds: Instead of the configs' own.
    """
    if seeds is not None:
        sweep = replace(sweep, more=("--protocol.seeds", json.dumps(seeds), *sweep.more))
    chosen = {key: sweep.share(config) for key, config in runs(name, out, quick, sweep.more, sweep.only).items()}
    train_missing(name, keep_published(chosen, sweep.more), sweep)
    folders = {key: folder_of(name, out, key, quick) for key in cells(name, quick)}
    ended = read_ended(folders)
    shown = [_cell(name, key, run) for key, run in ended.items()]
    title = TABLES[name].title + (" (a quick, smaller experiment)" if quick else "")
    stem = out / (f"{name}-quick" if quick else name)
    command = shlex.join(["pggnn", "reproduce", name, *(["--quick"] if quick else []), "--out", str(out)])
    departures = describe_departures(arrange([*ended.values()])) if ended else []
    notes = [*TABLES[name].notes_on(row for row, _ in ended), *departures, f"Made by `{command}`."]
    write_text(stem.with_suffix(".md"), markdown(name, title, shown, notes))
    write_json(stem.with_suffix(".json"), [asdict(cell) for cell in shown])
    if begun := [folder for folder in folders.values() if is_run(folder)]:
        write_table(begun, stem.with_suffix(".html"))
    return shown, stem.with_suffix(".md")


def markdown(table: str, title: str, cells: list[TableCell], notes: list[str]) -> str:
    """The cells of the paper's ``table`` in Markdown, a line for each."""
    known = {(cell.model, cell.data): cell for cell in cells}
    nested = {key: known[twin] for key in known if (twin := (nested_row(key[0]), key[1])) in known}
    others = any(cell.by_others for cell in cells)
    headings = ["model", "data", "ours", "epoch", *["by other folds"] * others, *["nested"] * bool(nested), "paper",
                "difference", "seeds", "parameters", "s/epoch", "machine"]  # fmt: skip
    if others:
        notes = [*notes, OTHERS_NOTE]
    rows = []
    for key, cell in known.items():
        scale, digits = 100 if cell.metric == "accuracy" else 1, count_digits(table, cell.metric)
        row = [*key, _figure(cell, scale, digits), cell.rule]
        if others:
            row.append(cell.by_others.figure(scale, digits) if cell.by_others else "")
        if nested:
            row.append(_figure(nested[key], scale, digits) if key in nested else "")
        paper = cell.paper
        row.append(protocol.figure(paper.mean, paper.std, digits) if paper else "")
        row.append(signed(cell.mean * scale - paper.mean, digits) if paper else "")
        row += [", ".join(map(str, cell.seeds)), f"{cell.parameters:,}", f"{cell.seconds_per_epoch:.2f}", cell.machine]
        rows.append(row)
    lines = markdown_table(headings, rows, ("model", "data", "epoch", "seeds", "machine"))
    return "\n".join([f"# {title}", "", *lines, "", *(f"- {note}" for note in notes)]) + "\n"


def _figure(cell: TableCell, scale: float, digits: int) -> str:
    return protocol.figure(cell.mean * scale, cell.std * scale if len(cell.each) > 1 else None, digits)


def _cell(table: str, key: RunKey, run: Run) -> TableCell:
    config, theirs = run.config, TABLES[table].rows[key[0]].published
    assert run.parameters is not None and run.seconds is not None
    return TableCell(
        *key,
        **asdict(run.conclude()),
        rule=describe_epoch(config),
        by_others=run.by_others,
        seeds=list(config.protocol.seeds),
        orderings=config.model.orders_read,
        parameters=run.parameters,
        seconds_per_epoch=run.seconds,
        machine=run.machine.get("gpu") or f"{run.machine.get('cores')} cores",
        paper=results(run.data, run.counted)[1].get(theirs or ""),
        command=f"pggnn train --config {config.folder}",
    )
