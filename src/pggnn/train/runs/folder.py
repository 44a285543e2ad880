"""The folder of a run: what is in it, whose it is, and what is missing."""

import json
import os
import platform
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypedDict

import torch
import torch_geometric

import pggnn
from pggnn.data.graphs import Graphs
from pggnn.files import read_json, to_json, unfinished, write_text
from pggnn.train import packed
from pggnn.train.config import FILE, Config, difference, save
from pggnn.train.engine import log
from pggnn.train.options import load
from pggnn.train.runs import protocol
from pggnn.train.runs.protocol import Member, Summary

SCHEMA, GRAPHS, ENVIRONMENT, SUMMARY = "schema.json", "graphs.json", "environment.json", "summary.json"
LOCK = "lock"
PLACES = ("run.out", "data.root")
"""Options that only say where things lie on one machine; what is passed on leaves them out."""
CIRCUMSTANCES = (*PLACES, "run.device", "run.jobs", "run.threads", "run.tensorboard", "data.workers")
"""Options that make no difference to what a run is."""
MAY_CHANGE = (*CIRCUMSTANCES, "optim.epochs", "protocol.seeds", "protocol.only")
"""Options in which a run that goes on may differ from how it began."""
PATIENCE = 20.0
"""Seconds until a process that should have ended is said to be in the way."""


@contextmanager
def claimed(folder: Path, wanted: bool = True) -> Iterator[None]:
    """Keeps other processes from beginning or changing the run in a folder, and leaves none that nothing came into."""
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
    """Makes the folder of a new run, or checks that the one there is this run. It must be :func:`claimed`."""
    folder, anew = config.folder, True
    keeps = ("*.safetensors", protocol.RESULT)
    if (folder / FILE).exists() and any(file for name in keeps for file in folder.glob(f"**/{name}")):
        anew = False  # else nothing is lost if it begins again
        if resume is None:
            raise ValueError(
                f"{folder} holds a run already: go on with --resume, or choose another folder by --run.out"
            )
        fixed = ("optim.epochs",) if config.optim.schedule == "cosine" else ()  # the cosine ends with the last epoch
        changed = difference(config, load(folder), tuple(key for key in MAY_CHANGE if key not in fixed))
        if changed:
            raise ValueError(f"{folder} holds a run with other options: {'; '.join(changed)}")
        reached = max(len(log.read(folder / member.name)) for member in protocol.members(config))
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
        save(config, folder)  # first: by this file a run that was cut off here is known
        if anew or not (folder / SCHEMA).exists():
            write_text(folder / SCHEMA, graphs.schema.to_json() + "\n")
        if anew or not (folder / GRAPHS).exists():
            write_text(folder / GRAPHS, json.dumps(describe_graphs(config, graphs)) + "\n")
        if missing(config) or not (folder / ENVIRONMENT).exists():  # or figures would be said to be of this machine
            write_text(folder / ENVIRONMENT, json.dumps(describe_machine(config), indent=2) + "\n")
    except OSError as error:
        raise ValueError(f"the run's folder {folder} cannot be written: {error.strerror}") from None


def discard_unbegun(folder: Path) -> None:
    """Takes back what :func:`prepare` wrote where no training has begun since; the folder goes with the claim on it."""
    if not any(one.is_dir() for one in folder.iterdir()):
        for name in (FILE, SCHEMA, GRAPHS, ENVIRONMENT):
            (folder / name).unlink(missing_ok=True)


class Digest(TypedDict):
    """By what the graphs of a run are known again."""

    graphs: int
    sha256: str


def describe_graphs(config: Config, graphs: Graphs) -> dict[str, Any]:
    """By what the graphs of a run are known again. Walks are computed, and not the same to the last bit everywhere."""
    return {"graphs": len(graphs), "sha256": graphs.fingerprint(*(["node.x"] if config.data.walks else []))}


def check_same(config: Config, graphs: Graphs) -> None:
    """Refuses other graphs than those that a run was trained on: which of them train and which test would change."""
    known = read_json(config.folder / GRAPHS, Digest)
    if known is not None and known != (now := describe_graphs(config, graphs)):
        raise ValueError(
            f"{config.data.name} has other graphs than those that {config.folder} was trained on, {known['graphs']} "
            f"then and {now['graphs']} now: bring the old ones back, or train in another folder (--run.out)"
        )


def clear(folder: Path) -> None:
    """Removes what a process that was killed while writing has left."""
    for file in unfinished(folder):
        file.unlink(missing_ok=True)


def describe_machine(config: Config) -> dict[str, Any]:
    """Versions and hardware, for the record; a GPU where the run has one."""
    return {
        "pggnn": pggnn.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "torch_geometric": torch_geometric.__version__,
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "gpu": torch.cuda.get_device_name() if uses_gpu(config) else None,
    }


def uses_gpu(config: Config) -> bool:
    """Whether a run is to be trained on a GPU: if there is one, unless the config says."""
    return config.run.device == "cuda" or (config.run.device == "auto" and torch.cuda.is_available())


@contextmanager
def locked(folder: Path, wanted: bool) -> Iterator[None]:
    """Keeps other processes from training in the same folder; waits for one that is about to end.

    When a run is killed, its trainings end with their next step, and processes that assemble batches in some seconds.
    """
    if not wanted or sys.platform == "win32":
        yield
        return
    import fcntl

    with open(folder / LOCK, "w") as file:
        begin = time.monotonic()
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() - begin > PATIENCE:
                    raise ValueError(f"{folder} is in use: another process trains there") from None
                time.sleep(0.3)
        yield


def missing(config: Config) -> list[Member]:
    """The trainings of a run that have not come to their end."""
    results = {member: protocol.load_result(config.folder / member.name) for member in protocol.members(config)}
    return [
        member
        for member, result in results.items()
        if result is None or (result["ended"] == "epochs" and result["epoch"] < config.optim.epochs)
    ]


def is_done(config: Config) -> bool:
    """Whether the folder holds this very run, and nothing of it is missing."""
    there = (config.folder / FILE).exists() and (config.folder / ENVIRONMENT).exists()
    return (
        (there or packed.holds(config.folder))
        and not missing(config)
        and not difference(config, load(config.folder), CIRCUMSTANCES)
    )


def is_run(folder: Path) -> bool:
    """Whether a folder is that of a run, packed or not."""
    return (folder / FILE).is_file() or packed.holds(folder)


def conclude(config: Config, write: bool = True) -> Summary:
    """The figures of a run whose trainings have all ended, also as a file in its folder where it has one."""
    summary = protocol.summarise(config, config.folder)
    if write and not packed.holds(config.folder):
        write_text(config.folder / SUMMARY, to_json(asdict(summary), indent=2) + "\n")
    return summary
