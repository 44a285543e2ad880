"""The folder of a run: its files, its lock, and the trials that are missing."""

import json
import platform
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, TypedDict

import torch
import torch_geometric
from filelock import FileLock, Timeout

import pggnn
from pggnn.data.graphs import Graphs
from pggnn.data.schema import FOLDS
from pggnn.files import read_json, unfinished, write_text
from pggnn.train import packed
from pggnn.train.config import FILE, Config, difference, save
from pggnn.train.engine import log
from pggnn.train.options import load
from pggnn.train.runs import protocol
from pggnn.train.runs.pool import SITES
from pggnn.train.runs.protocol import Trial

SCHEMA, GRAPHS, ENVIRONMENT, SUMMARY = "schema.json", "graphs.json", "environment.json", "summary.json"
LOCK = "lock"
PLACES = ("run.out", "data.root")
"""Options that are paths on one machine; shared files leave them out."""
CIRCUMSTANCES = (
    *PLACES,
    *(f"run.{name}" for name in ("device", "on", "jobs", "threads", "timeout", "tensorboard", "logger")),
    "data.workers",
)
"""Options that do not change the figures of a run."""
MAY_CHANGE = (*CIRCUMSTANCES, "optim.epochs", "protocol.seeds", "protocol.only")
"""Options that may change when a run is resumed."""
PATIENCE = 20.0
"""Seconds to wait for the lock of a folder."""


@contextmanager
def claimed(folder: Path, wanted: bool = True) -> Iterator[None]:
    """Locks the folder of a run, and makes it if there is none; removes it at the end if it is still empty."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file: choose another folder by --run.out")
    if packed.holds(folder):
        raise ValueError(f"{folder} is a packed run, which has no weights to go on from: choose another by --run.out")
    made = [one for one in (folder, *folder.parents) if not one.exists()]
    with ExitStack() as held:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            held.enter_context(locked(folder, wanted))
        except OSError as error:
            raise ValueError(f"the run's folder {folder} cannot be written: {error.strerror}") from None
        try:
            yield
        finally:
            if wanted and not (folder / FILE).exists():
                (folder / LOCK).unlink(missing_ok=True)
                with suppress(OSError):  # it is not empty
                    for one in (folder, *made[1:]):
                        one.rmdir()


def prepare(config: Config, graphs: Graphs, resume: str | None) -> None:
    """Makes the files of a new run, or checks that the folder holds this run. It must be :func:`claimed`."""
    folder, keeps = config.folder, ("*.safetensors", protocol.RESULT)
    new = not ((folder / FILE).exists() and any(file for name in keeps for file in folder.glob(f"**/{name}")))
    if not new:
        if resume is None:
            raise ValueError(
                f"{folder} holds a run already: go on with --resume, or choose another folder by --run.out"
            )
        fixed = ("optim.epochs",) if config.optim.schedule == "cosine" else ()  # the cosine ends with the last epoch
        changed = difference(config, load(folder), tuple(key for key in MAY_CHANGE if key not in fixed))
        if changed:
            raise ValueError(f"{folder} holds a run with other options: {'; '.join(changed)}")
        reached = max(len(log.read(folder / trial.name)) for trial in protocol.trials(config))
        if config.optim.epochs < reached:
            raise ValueError(
                f"{folder} has been trained for {reached} epochs, which cannot be taken back: optim.epochs must be "
                f"{reached} or more, got {config.optim.epochs}"
            )
        check_same(config, graphs)
    elif not (folder / FILE).exists() and set(folder.iterdir()) - {*unfinished(folder), folder / LOCK}:
        raise ValueError(f"{folder} is not empty and holds no run: choose another folder by --run.out")
    try:
        clear(folder)
        save(config, folder)  # first: a folder with this file is a run, even if this is interrupted
        if new or not (folder / SCHEMA).exists():
            write_text(folder / SCHEMA, graphs.schema.to_json() + "\n")
        if new or not (folder / GRAPHS).exists():
            write_text(folder / GRAPHS, json.dumps(describe_graphs(config, graphs)) + "\n")
        if (
            missing(config) or not (folder / ENVIRONMENT).exists()
        ):  # figures of a run that has ended are of the machine before
            write_text(folder / ENVIRONMENT, json.dumps(describe_machine(config), indent=2) + "\n")
    except OSError as error:
        raise ValueError(f"the run's folder {folder} cannot be written: {error.strerror}") from None


def discard_unbegun(folder: Path) -> None:
    """Removes what :func:`prepare` wrote if no training has begun since."""
    if not any(one.is_dir() for one in folder.iterdir()):
        for name in (FILE, SCHEMA, GRAPHS, ENVIRONMENT):
            (folder / name).unlink(missing_ok=True)


class Digest(TypedDict):
    """Number and checksum of the graphs of a run."""

    graphs: int
    sha256: str


def describe_graphs(config: Config, graphs: Graphs) -> dict[str, Any]:
    """Their :class:`Digest`, without computed features, whose last bits differ between machines."""
    left_out = ["node.x"] if any(config.data.added.values()) else []
    left_out += ["edge.edge_attr"] if config.data.cliques or config.data.cycles else []
    left_out += [] if config.protocol.folds == "given" else [f"split.{fold}" for fold in FOLDS]
    return {"graphs": len(graphs), "sha256": graphs.fingerprint(*left_out)}


def check_same(config: Config, graphs: Graphs) -> None:
    """Refuses graphs that a run was not trained on: they would be split otherwise."""
    known = read_json(config.folder / GRAPHS, Digest)
    if known is not None and known != (now := describe_graphs(config, graphs)):
        raise ValueError(
            f"{config.data.name} has other graphs than those that {config.folder} was trained on, {known['graphs']} "
            f"then and {now['graphs']} now: bring the old ones back, or train in another folder (--run.out)"
        )


def clear(folder: Path) -> None:
    """Removes unfinished files of a process that was killed."""
    for file in unfinished(folder):
        file.unlink(missing_ok=True)


def describe_machine(config: Config) -> dict[str, Any]:
    """Versions and hardware of a run."""
    return {
        "pggnn": pggnn.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "torch_geometric": torch_geometric.__version__,
        **SITES[config.run.on].hardware(config),
    }


@contextmanager
def locked(folder: Path, wanted: bool, patience: float | None = None) -> Iterator[None]:
    """Keeps other processes from training in the same folder.

    It waits a while: when a run is killed, its trainings end with their next step, and their data loaders some seconds
    later.
    """
    if not wanted:
        yield
        return
    try:
        with FileLock(folder / LOCK, timeout=PATIENCE if patience is None else patience, poll_interval=0.3):
            yield
    except Timeout:
        raise ValueError(f"{folder} is in use: another process trains there") from None


def missing(config: Config) -> list[Trial]:
    """The trials of a run that have not ended."""
    results = {trial: protocol.load_result(config.folder / trial.name) for trial in protocol.trials(config)}
    return [
        trial
        for trial, result in results.items()
        if result is None or (result["ended"] == "epochs" and result["epoch"] < config.optim.epochs)
    ]


def is_done(config: Config) -> bool:
    """Whether the folder holds this run, and all its trials have ended."""
    there = (config.folder / FILE).exists() and (config.folder / ENVIRONMENT).exists()
    return (
        (there or packed.holds(config.folder))
        and not missing(config)
        and not difference(config, load(config.folder), CIRCUMSTANCES)
    )


def is_run(folder: Path) -> bool:
    """Whether a folder is that of a run, packed or not."""
    return (folder / FILE).is_file() or packed.holds(folder)
