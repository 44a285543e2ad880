"""The runs of a table or search, trained side by side, at once or some minutes at a time."""

import json
import math
import os
import statistics
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from rich.console import Console

from pggnn.console import tell
from pggnn.data.graphs import Graphs
from pggnn.train import packed
from pggnn.train.config import FILE, Config, difference
from pggnn.train.engine import log
from pggnn.train.engine.models import lists_for
from pggnn.train.options import load
from pggnn.train.runs.folder import CIRCUMSTANCES, claimed, discard_unbegun, is_done, is_run, missing, prepare
from pggnn.train.runs.progress import Bars
from pggnn.train.runs.protocol import Trial, trials
from pggnn.train.runs.run import at_once, check, load_graphs, train_side_by_side
from pggnn.train.runs.stored import Run
from pggnn.train.sweeps.keys import Arguments, RunKey


@dataclass(frozen=True)
class Sweep:
    """Which runs of a table or search are trained, and how."""

    only: Sequence[str] = ()
    """Rows and columns, see :func:`~pggnn.train.sweeps.keys.select_runs`."""
    jobs: int = 0
    """Trainings at once; 0 for ``run.jobs``, by default one per core, or as many as a Ray cluster has room for."""
    more: Arguments = ()
    """Further options of ``pggnn train``, for all runs."""
    console: Console = field(default_factory=partial(Console, stderr=True))
    """Where to show progress."""
    until: float = math.inf
    """When to stop, as ``time.time()`` counts, after whole epochs; the same call continues."""

    def share(self, config: Config) -> Config:
        """A run with the number of trainings at once and, on this machine, their share of the cores."""
        cores = os.cpu_count() or 1
        jobs = self.jobs or config.run.jobs or (cores if config.run.here else 0)
        threads = config.run.threads or max(1, cores // jobs)
        return replace(config, run=replace(config.run, jobs=jobs, threads=threads))


def keep_published(configs: dict[RunKey, Config], given: Arguments) -> dict[RunKey, Config]:
    """The same runs; packed ones keep the config they were trained with.

    A packed run cannot be resumed, so all its trials must have ended, and its config must agree with the ``given``
    options.
    """
    keys = {word[2:].partition("=")[0] for word in given if word.startswith("--")}
    found = {key: load(config.folder) if packed.holds(config.folder) else config for key, config in configs.items()}
    for key, config in configs.items():
        if found[key] is config:
            continue
        changed = [text for text in difference(config, found[key], CIRCUMSTANCES) if text.partition(":")[0] in keys]
        if changed:
            raise ValueError(f"{config.folder} holds a run with other options: {'; '.join(changed)}")
        if missing(found[key]):
            raise ValueError(f"{config.folder} was packed before it had ended: train it in another folder (--out)")
    return found


def train_missing(name: str, configs: dict[RunKey, Config], sweep: Sweep, tested: bool = True) -> None:
    """Trains the trials that have not ended, and says which still have not when the time is up.

    Args:
        name: Title of the table or search.
        configs: The runs.
        sweep: How they are trained.
        tested: Whether test figures are shown.
    """
    console = sweep.console
    known: dict[str, Graphs] = {}
    undone: list[tuple[Config, Graphs]] = []
    for (row, column), config in configs.items():  # all are checked before the first folder is made
        if is_done(config):
            continue
        data = json.dumps([config.data.name, config.data.options, config.data.added])
        try:
            graphs = known[data] = known.get(data) or load_graphs(config)
            check(config, graphs)
            lists_for(config, graphs, console)  # its processes find them in the cache
        except ValueError as error:
            raise ValueError(f"{row} on {column}: {error}") from None
        undone.append((config, graphs))
    with ExitStack() as held:
        for config, graphs in undone:
            held.enter_context(claimed(config.folder))
            prepare(config, graphs, "last" if (config.folder / FILE).exists() else None)
            held.callback(discard_unbegun, config.folder)
        pending, jobs = _missing(configs), sweep.jobs
        if pending:
            jobs = jobs or at_once(pending[0][0])
            console.print(f"{name}: {len(pending)} training{'s' * (len(pending) > 1)} to do, {jobs} at once")
        with Bars(console, tested=tested) as bars:
            train_side_by_side(pending, jobs, "last", bars, sweep.until)
    if left := _missing(configs):
        tell(console, _describe(name, configs, left, jobs))


def read_ended(folders: dict[RunKey, Path]) -> dict[RunKey, Run]:
    """The runs in these folders whose trainings have all ended."""
    found = {key: Run.read(folder) for key, folder in folders.items() if is_run(folder)}
    return {key: run for key, run in found.items() if run.complete}


def _describe(name: str, configs: dict[RunKey, Config], left: list[tuple[Config, Trial]], jobs: int) -> str:
    """What is still to do, and for how long, in lines."""
    every = sum(len(trials(config)) for config in configs.values())
    lines = [f"{name}: the time is up. {every - len(left)} of {every} trainings have ended; still to do:"]
    seconds, unknown = 0.0, 0
    for (model, data), config in configs.items():
        logs = {trial: log.read(config.folder / trial.name) for trial in trials(config)}
        here = [logs[trial] for one, trial in left if one is config]
        if not here:
            continue
        took = [record["seconds"] for records in logs.values() for record in records]
        epochs = sum(config.optim.epochs - len(records) for records in here)
        seconds += epochs * statistics.median(took or [0.0])
        unknown += 0 if took else len(here)
        begun = ", ".join(str(len(records)) for records in here if records)
        at = f" at epoch {begun} of {config.optim.epochs}" if begun else ""
        lines.append(f"  {model} on {data}: {len(here)} of {len(logs)}{at}")
    length = [f"at most {seconds / 60 / jobs:.1f} minutes at this pace"] * (unknown < len(left))
    length += [f"{unknown} of unknown length"] * bool(unknown)
    lines.append(f"That is {', and '.join(length)}. The same command goes on.")
    return "\n".join(lines)


def _missing(configs: dict[RunKey, Config]) -> list[tuple[Config, Trial]]:
    return [(config, trial) for config in configs.values() for trial in missing(config)]
