"""Tables 5 and 6: the most memory that training takes, each data set and model in a process of its own."""

import os
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console

from pggnn.data.catalogue import lookup
from pggnn.files import markdown_table, read_json, write_json, write_text
from pggnn.paper.expected import load
from pggnn.paper.tables import TABLES
from pggnn.train.engine.loop import Callback
from pggnn.train.sweeps.keys import Arguments, RunKey, select_runs

STEPS, SECONDS = 20, 300.0
"""Batches that are trained, or fewer where they take longer than so long: the whole group of COLLAB on a CPU does."""
PREPARATION = "CIN (pre-processing)"
"""The row of a process that finds rings, which the others find in the cache, and trains nothing."""
MODELS = {
    "PG-GNN (group)": "PG-GNN", "PG-GNN (single)": "PG-GNN", "GIN": "GIN", PREPARATION: "CIN, pre-processing",
    "CIN": "CIN, training",
}  # fmt: skip
"""Rows, and the models of the paper that they are compared with."""
CIN_ON_ZINC = ("--model.name", "cin", "--data.rings", "18", "--model.hidden", "128", "--model.layers", "4")
NOTE = (
    f"Peak of a process that loads the set, as it was cached, and trains for {STEPS} batches, or for {SECONDS:.0f} s: "
    "resident memory, libraries included, and what PyTorch has reserved on the GPU, without its context. "
    "Pre-processing is a process that finds the rings instead. The paper's figures are of the authors' own processes."
)


def reproduce_memory(
    table: str, out: Path, only: Sequence[str] = (), console: Console | None = None
) -> list[dict[str, Any]]:
    """Measures what is missing of Table 5 (RAM) or Table 6 (GPU), writes it as Markdown and JSON, returns its cells.

    Each cell is written as soon as it is measured, and not measured again.
    """
    import torch

    console = console or Console(stderr=True)
    kind = {"table5": "ram", "table6": "gpu"}[table]
    if kind == "gpu" and not torch.cuda.is_available():
        raise ValueError("table6 is about memory of a GPU, and PyTorch finds none here; table5 is about RAM")
    runs = {key: options for key, options in commands().items() if kind == "ram" or key[0] != PREPARATION}
    path, machine = out / f"{table}.json", torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    found = {(cell["model"], cell["data"]): cell for cell in read_json(path, list[dict[str, Any]]) or []}
    for model, data in select_runs(table, runs, only):
        if found.get((model, data), {}).get("machine") == machine:
            continue
        with console.status(f"{model} on {data}"):
            measured = _measured(model, data, runs[model, data])
        published, known = MODELS[model], load()[table]
        paper = known.get(published, known.get(published.partition(",")[0], {})).get(lookup(data)[0], {}).get("value")
        cell = {"model": model, "data": data, "mib": measured[kind], "paper": paper}
        found[model, data] = cell | {"batches": int(measured["batches"]), "machine": machine}
        said = "" if paper is None else f", the paper's {paper:,}"
        console.print(f"{model:>16}  {data:<9} {measured[kind]:8,.0f} MiB{said}", highlight=False)
        _write(table, path, [found[key] for key in runs if key in found])
    return [found[key] for key in runs if key in found]


def commands() -> dict[RunKey, Arguments]:
    """Config and options of each row and column."""
    read = {
        (model, data): (config, *table.rows[model].options)
        for model in MODELS
        if "CIN" not in model
        for table in (TABLES["table3"], TABLES["table4"])
        for data, config in table.columns.items()
    }
    cin, columns = TABLES["table3"].rows["CIN"], TABLES["table3"].columns
    lifted = {data: (columns[data], *cin.options) for data in cin.columns or ()} | {"ZINC": ("zinc", *CIN_ON_ZINC)}
    return read | {(model, data): options for model in (PREPARATION, "CIN") for data, options in lifted.items()}


def _write(table: str, path: Path, cells: list[dict[str, Any]]) -> None:
    rows = [
        (cell["model"], cell["data"], f"{cell['mib']:,.0f}", "" if cell["paper"] is None else f"{cell['paper']:,}",
         cell["batches"], cell["machine"])
        for cell in cells
    ]  # fmt: skip
    lines = markdown_table(("model", "data", "MiB", "paper", "batches", "machine"), rows, ("model", "data", "machine"))
    title = f"# Peak {'RAM' if table == 'table5' else 'GPU memory'} of training"
    lines = [title, "", *lines, "", f"- {NOTE}", f"- Made by `pggnn reproduce {table}`.", ""]
    write_text(path.with_suffix(".md"), "\n".join(lines))
    write_json(path, cells)


def _measured(model: str, data: str, options: Arguments) -> dict[str, float]:
    from pggnn.train.engine.models import lists_for
    from pggnn.train.options import parse
    from pggnn.train.runs.run import load_graphs

    config = parse(["--config", *options])[0]
    graphs = load_graphs(config)  # so that there is a cache, and reading the raw file does not count
    task = measure_preparation if model == PREPARATION else measure
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        try:
            if task is measure:
                lists_for(config, graphs)
            return pool.submit(task, *options).result()
        except (ValueError, OSError, RuntimeError) as error:
            raise ValueError(f"{model} on {data}: {error}") from None


class Clock(Callback):
    """Counts batches, and ends training when it has taken long enough."""

    def __init__(self) -> None:
        self.begin, self.batches = time.monotonic(), 0

    def step(self, step: int, *args: Any) -> None:
        """After each batch."""
        self.batches = step
        if time.monotonic() - self.begin > SECONDS:
            raise TimeoutError


def measure(config_name: str, *options: str) -> dict[str, float]:
    """Trains for a few batches; returns the peaks of this process, and the number of batches."""
    from pggnn.train.engine.memory import peak_memory
    from pggnn.train.options import parse
    from pggnn.train.runs.run import first_training, load_graphs

    steps = ["--optim.steps", str(STEPS), "--run.record", "false"]
    config = parse(["--config", config_name, *options, *steps])[0]
    with TemporaryDirectory() as folder:
        training = first_training(config, load_graphs(config), Path(folder))
        training.state["epoch"] = 1
        clock = Clock()
        with suppress(TimeoutError):
            training.train_epoch(clock)
    return {**peak_memory(), "batches": clock.batches}


def measure_preparation(config_name: str, *options: str) -> dict[str, float]:
    """Finds what a model reads beside the edges, with an empty cache; returns the peaks of this process."""
    from pggnn.train.engine.memory import peak_memory
    from pggnn.train.engine.models import lists_for
    from pggnn.train.options import parse
    from pggnn.train.runs.run import load_graphs

    config = parse(["--config", config_name, *options])[0]
    graphs = load_graphs(config)
    with TemporaryDirectory() as empty:
        os.environ["PGGNN_CACHE"] = empty
        lists_for(config, graphs)
    return {**peak_memory(), "batches": 0}
