"""``pggnn reproduce table2``: trains what is missing of a table, and shows ours beside the paper's figures."""

import json
import os
import shlex
import statistics
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console

from pggnn.data.graphs import Graphs
from pggnn.files import replacing
from pggnn.paper.expected import Figure, published
from pggnn.paper.tables import TABLES, Options, runs
from pggnn.train import log, protocol
from pggnn.train.config import FILE, Config
from pggnn.train.folder import ENVIRONMENT, conclude, missing, prepare
from pggnn.train.progress import Bars
from pggnn.train.run import check, load_graphs, train_side_by_side


@dataclass(frozen=True)
class Cell:
    """A figure of ours, and how it was made."""

    model: str
    data: str
    metric: str
    mean: float
    std: float
    each: list[float]
    epochs: list[int]
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
    only: str | None = None,
    jobs: int = 0,
    more: Options = (),
    console: Console | None = None,
) -> tuple[list[Cell], Path]:
    """Trains what is missing of a table, and returns its cells and the Markdown file where they are shown.

    The same is in a JSON file beside it.

    Args:
        name: ``"table2"``, ``"table3"`` or ``"table4"``.
        out: Folder of the runs; what is there already is not run again.
        quick: A smaller experiment, for a look on two cores.
        seeds: Instead of the configs' own.
        only: Part of the names of the rows or columns to run.
        jobs: Trainings at once; 0 for one per core, or 4 on a GPU.
        more: Further options of ``pggnn train``, for all runs.
        console: Where to show progress.
    """
    console = console or Console(stderr=True)
    jobs = jobs or os.cpu_count() or 1
    given = ("--run.jobs", str(jobs), "--run.threads", str(max(1, (os.cpu_count() or 1) // jobs)))
    chosen = () if seeds is None else ("--protocol.seeds", json.dumps(seeds))
    configs = {
        key: config
        for key, config in runs(name, out, quick, (*given, *chosen, *more)).items()
        if only is None or only.lower() in " ".join(key).lower()
    }
    if not configs:
        raise ValueError(f"{name} has no row or column {only!r}")
    known: dict[str, Graphs] = {}
    for config in configs.values():
        data = json.dumps([config.data.name, config.data.options])
        graphs = known[data] = known.get(data) or load_graphs(config)
        check(config, graphs)
        prepare(config, graphs.schema, "last" if (config.folder / FILE).exists() else None)
    todo = [(config, member) for config in configs.values() for member in missing(config)]
    if todo:
        console.print(f"{name}: {len(todo)} trainings to do, {jobs} at once, in {out}")
    with Bars(console, "") as bars:
        train_side_by_side(todo, jobs, "last", bars)
    cells = [_cell(name, key, config) for key, config in configs.items()]
    title = TABLES[name].title + (" (a quick, smaller experiment)" if quick else "")
    stem = out / (f"{name}-quick" if quick else name)
    command = shlex.join(["pggnn", "reproduce", name, *(["--quick"] if quick else []), "--out", str(out)])
    with replacing(stem.with_suffix(".md")) as file:
        file.write_text(markdown(title, cells, [*TABLES[name].notes, f"Made by `{command}`."]))
    with replacing(stem.with_suffix(".json")) as file:
        file.write_text(json.dumps([asdict(cell) for cell in cells], indent=2, ensure_ascii=False) + "\n")
    return cells, stem.with_suffix(".md")


def markdown(title: str, cells: list[Cell], notes: list[str]) -> str:
    """The cells as a Markdown table, a line for each."""
    lines = [f"# {title}", "", "| model | data | ours | paper | difference | seeds | parameters | s/epoch | machine |"]
    lines.append("| --- | --- | --: | --: | --: | --- | --: | --: | --- |")
    for cell in cells:
        scale, digits = (100, 1) if cell.metric == "accuracy" else (1, 3)
        ours = f"{cell.mean * scale:.{digits}f} ± {cell.std * scale:.{digits}f}"
        theirs, difference = "", ""
        if cell.paper is not None:
            spread = "" if cell.paper.std is None else f" ± {cell.paper.std:.{digits}f}"
            theirs = f"{cell.paper.mean:.{digits}f}{spread}"
            difference = f"{cell.mean * scale - cell.paper.mean:+.{digits}f}"
        seeds = ", ".join(map(str, cell.seeds))
        lines.append(
            f"| {cell.model} | {cell.data} | {ours} | {theirs} | {difference} | {seeds} | {cell.parameters:,} "
            f"| {cell.seconds_per_epoch:.2f} | {cell.machine} |"
        )
    return "\n".join([*lines, "", *(f"- {note}" for note in notes)]) + "\n"


def _cell(table: str, key: tuple[str, str], config: Config) -> Cell:
    summary, folder = conclude(config), config.folder
    members = [folder / member.name for member in protocol.members(config)]
    results = [result for member in members if (result := protocol.load_result(member)) is not None]
    machine = json.loads((folder / ENVIRONMENT).read_text())
    return Cell(
        *key,
        metric=summary.metric,
        mean=summary.mean,
        std=summary.std,
        each=summary.each,
        epochs=summary.epochs,
        seeds=list(config.protocol.seeds),
        orderings=str(config.model.orderings) if config.model.name == "pggnn" else "",
        parameters=results[0]["parameters"],
        seconds_per_epoch=statistics.median(record["seconds"] for member in members for record in log.read(member)),
        machine=machine["gpu"] or f"{machine['cores']} cores",
        paper=published(table, TABLES[table].rows[key[0]].published, key[1]),
        command=f"pggnn train --config {folder / FILE}",
    )
