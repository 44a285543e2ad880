"""Runs of a table, trained side by side, in one go or in slices of some minutes."""

import json
import math
import os
import statistics
from contextlib import ExitStack

from rich.console import Console

from pggnn.console import tell
from pggnn.data.graphs import Graphs
from pggnn.train import packed
from pggnn.train.config import FILE, Config, difference
from pggnn.train.engine import log
from pggnn.train.options import load
from pggnn.train.runs.folder import CIRCUMSTANCES, claimed, discard_unbegun, is_done, missing, prepare
from pggnn.train.runs.progress import Bars
from pggnn.train.runs.protocol import Member, members
from pggnn.train.runs.run import check, load_graphs, train_side_by_side
from pggnn.train.sweeps.keys import Key, Options

Training = tuple[Config, Member]


def share_cores(jobs: int) -> tuple[int, Options]:
    """How many trainings run at once, one per core where that is 0, and the options with which they share the cores."""
    cores = os.cpu_count() or 1
    jobs = jobs or cores
    return jobs, ("--run.jobs", str(jobs), "--run.threads", str(max(1, cores // jobs)))


def keep_published(configs: dict[Key, Config], given: Options) -> dict[Key, Config]:
    """The same runs, but packed ones as they are, however they were made. They cannot go on, so they must have ended,
    and must not be otherwise than the ``given`` options say."""
    keys = {word[2:].partition("=")[0] for word in given if word.startswith("--")}
    found = {}
    for key, config in configs.items():
        found[key] = config
        if packed.holds(config.folder):
            found[key] = load(config.folder)
            changed = [text for text in difference(config, found[key], CIRCUMSTANCES) if text.partition(":")[0] in keys]
            if changed:
                raise ValueError(f"{config.folder} holds a run with other options: {'; '.join(changed)}")
            if missing(found[key]):
                raise ValueError(f"{config.folder} was packed before it had ended: train it in another folder (--out)")
    return found


def train_missing(
    name: str, configs: dict[Key, Config], jobs: int, console: Console, until: float = math.inf, tested: bool = True
) -> list[Training]:
    """Trains what is not finished, and returns what is still not: where time ran out.

    Args:
        name: What the runs are called together.
        configs: The runs.
        jobs: Trainings at once.
        console: Where to show progress.
        until: When to stop, as ``time.time()`` counts, after whole epochs; the same call goes on.
        tested: Whether test figures are shown meanwhile.
    """
    known: dict[str, Graphs] = {}
    undone: list[tuple[Config, Graphs]] = []
    for (row, column), config in configs.items():  # all of them, before there is a folder of the first
        if is_done(config):
            continue
        data = json.dumps([config.data.name, config.data.options, config.data.walks])
        try:
            graphs = known[data] = known.get(data) or load_graphs(config)
            check(config, graphs)
        except ValueError as error:
            raise ValueError(f"{row} on {column}: {error}") from None
        undone.append((config, graphs))
    with ExitStack() as held:
        for config, graphs in undone:
            held.enter_context(claimed(config.folder))
            prepare(config, graphs, "last" if (config.folder / FILE).exists() else None)
            held.callback(discard_unbegun, config.folder)
        todo = _missing(configs)
        if todo:
            console.print(f"{name}: {_count(todo)} to do, {jobs} at once")
        with Bars(console, tested=tested) as bars:
            train_side_by_side(todo, jobs, "last", bars, until)
    left = _missing(configs)
    if left:
        tell(console, describe(name, configs, left, jobs))
    return left


def describe(name: str, configs: dict[Key, Config], left: list[Training], jobs: int) -> str:
    """What is still to do and how to go on, in lines."""
    every = sum(len(members(config)) for config in configs.values())
    lines = [f"{name}: the time is up. {every - len(left)} of {every} trainings have ended; still to do:"]
    seconds, unknown = 0.0, 0
    for (model, data), config in configs.items():
        logs = {member: log.read(config.folder / member.name) for member in members(config)}
        here = [logs[member] for one, member in left if one is config]
        if not here:
            continue
        took = [record["seconds"] for records in logs.values() for record in records]
        epochs = sum(config.optim.epochs - len(records) for records in here)
        seconds, unknown = seconds + epochs * statistics.median(took or [0.0]), unknown + (len(here) if not took else 0)
        begun = ", ".join(str(len(records)) for records in here if records)
        at = f" at epoch {begun} of {config.optim.epochs}" if begun else ""
        lines.append(f"  {model} on {data}: {len(here)} of {len(logs)}{at}")
    beyond = f", and {unknown} of unknown length" if unknown else ""
    lines.append(f"That is at most {seconds / 60 / jobs:.1f} minutes at this pace{beyond}. The same command goes on.")
    return "\n".join(lines)


def _missing(configs: dict[Key, Config]) -> list[Training]:
    return [(config, member) for config in configs.values() for member in missing(config)]


def _count(todo: list[Training]) -> str:
    return f"{len(todo)} training{'s' * (len(todo) > 1)}"
