"""``pggnn reproduce table2``: trains what is missing of a table, and shows ours beside the paper's figures."""

import json
import math
import shlex
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console

from pggnn.files import to_json, write_text
from pggnn.paper.expected import Figure, published
from pggnn.paper.tables import TABLES, cells, folder_of, nested_row, runs
from pggnn.report.comparison import count_digits, signed
from pggnn.report.grid import arrange
from pggnn.report.protocols import describe_epoch
from pggnn.report.runs import Run
from pggnn.report.table import describe_departures, write_table
from pggnn.train import packed
from pggnn.train.config import Config
from pggnn.train.engine import log
from pggnn.train.options import load
from pggnn.train.runs import protocol
from pggnn.train.runs.folder import ENVIRONMENT, conclude, is_run, missing
from pggnn.train.sweeps.keys import Arguments, RunKey
from pggnn.train.sweeps.sweep import keep_published, share_cores, train_missing


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
    seeds: list[int]
    orderings: str
    parameters: int
    seconds_per_epoch: float
    machine: str
    paper: Figure | None
    command: str


def reproduce(
    name: str,
    out: Path,
    quick: bool = False,
    seeds: list[int] | None = None,
    only: Sequence[str] = (),
    jobs: int = 0,
    more: Arguments = (),
    console: Console | None = None,
    until: float = math.inf,
) -> tuple[list[TableCell], Path]:
    """Trains what is missing of a table, and returns its cells and the Markdown file where they are shown.

    The same is in a JSON file beside it; both hold all that is complete, also what is not chosen this time. A page has
    all runs of the table, those that have not ended too.

    Args:
        name: ``"table2"``, ``"table3"``, ``"table4"``, ``"ablation"``, ``"gcn"``, ``"graphsage"`` or ``"rp"``.
        out: Folder of the runs; what is there already is not run again.
        quick: A smaller experiment, for a look on two cores.
        seeds: Instead of the configs' own.
        only: Rows and columns to run, see :func:`pggnn.train.sweeps.keys.select_runs`.
        jobs: Trainings at once; 0 for one per core.
        more: Further options of ``pggnn train``, for all runs.
        console: Where to show progress.
        until: When to stop, as ``time.time()`` counts, after whole epochs; the same call goes on.
    """
    console = console or Console(stderr=True)
    jobs, given = share_cores(jobs)
    seeded = () if seeds is None else ("--protocol.seeds", json.dumps(seeds))
    chosen = keep_published(runs(name, out, quick, (*given, *seeded, *more), only), (*seeded, *more))
    train_missing(name, chosen, jobs, console, until)
    complete: dict[RunKey, Config] = {}
    for key in cells(name, quick):
        folder = folder_of(name, out, key, quick)
        if key in chosen or is_run(folder):
            config = chosen.get(key) or load(folder)
            complete |= {} if missing(config) else {key: config}
    shown = [_cell(name, key, config) for key, config in complete.items()]
    ended = {key: Run.read(config.folder) for key, config in complete.items()}
    title = TABLES[name].title + (" (a quick, smaller experiment)" if quick else "")
    stem = out / (f"{name}-quick" if quick else name)
    command = shlex.join(["pggnn", "reproduce", name, *(["--quick"] if quick else []), "--out", str(out)])
    departures = describe_departures(arrange([*ended.values()])) if ended else []
    notes = [*TABLES[name].notes_on(row for row, _ in complete), *departures, f"Made by `{command}`."]
    write_text(stem.with_suffix(".md"), markdown(name, title, shown, notes))
    listed = to_json([asdict(cell) for cell in shown], indent=2)
    write_text(stem.with_suffix(".json"), listed + "\n")
    there = [folder for key in cells(name, quick) if is_run(folder := folder_of(name, out, key, quick))]
    write_table(there, stem.with_suffix(".html"))
    return shown, stem.with_suffix(".md")


def markdown(table: str, title: str, cells: list[TableCell], notes: list[str]) -> str:
    """The cells of the paper's ``table`` in Markdown, a line for each."""
    known = {(cell.model, cell.data): cell for cell in cells}
    some = any((nested_row(cell.model), cell.data) in known for cell in cells)
    head = f"ours | epoch {'| nested ' * some}| paper | difference | seeds | parameters | s/epoch | machine"
    lines = [f"# {title}", "", f"| model | data | {head} |"]
    lines.append(f"| --- | --- | --: | --- {'| --: ' * some}| --: | --: | --- | --: | --: | --- |")
    for cell in cells:
        scale, digits = 100 if cell.metric == "accuracy" else 1, count_digits(table, cell.metric)
        ours = f"{_figure(cell, scale, digits)} | {cell.rule}"
        if some:
            nested = known.get((nested_row(cell.model), cell.data))
            ours += f" | {_figure(nested, scale, digits) if nested else ''}"
        theirs, difference = "", ""
        if cell.paper is not None:
            theirs = protocol.figure(cell.paper.mean, cell.paper.std, digits)
            difference = signed(cell.mean * scale - cell.paper.mean, digits)
        seeds = ", ".join(map(str, cell.seeds))
        lines.append(
            f"| {cell.model} | {cell.data} | {ours} | {theirs} | {difference} | {seeds} | {cell.parameters:,} "
            f"| {cell.seconds_per_epoch:.2f} | {cell.machine} |"
        )
    return "\n".join([*lines, "", *(f"- {note}" for note in notes)]) + "\n"


def _figure(cell: TableCell, scale: float, digits: int) -> str:
    return protocol.figure(cell.mean * scale, cell.std * scale if len(cell.each) > 1 else None, digits)


def _cell(table: str, key: RunKey, config: Config) -> TableCell:
    summary, folder, theirs = conclude(config), config.folder, TABLES[table].rows[key[0]].published
    trials = [folder / trial.name for trial in protocol.trials(config)]
    results = [result for trial in trials if (result := protocol.load_result(trial)) is not None]
    machine = packed.read_json(folder / ENVIRONMENT, dict) or {}
    return TableCell(
        *key,
        metric=summary.metric,
        mean=summary.mean,
        std=summary.std,
        each=summary.each,
        epochs=summary.epochs,
        rule=describe_epoch(config),
        seeds=list(config.protocol.seeds),
        orderings=config.model.reads,
        parameters=results[0]["parameters"],
        seconds_per_epoch=statistics.median(record["seconds"] for trial in trials for record in log.read(trial)),
        machine=machine.get("gpu") or f"{machine.get('cores')} cores",
        paper=None if theirs is None else published(table, theirs, key[1]),
        command=f"pggnn train --config {folder}",
    )
