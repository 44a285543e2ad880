"""A run: its trainings, one after another or side by side."""

import logging
import math
import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from rich.console import Console

from pggnn.console import is_gpu_full, tell
from pggnn.data import loading
from pggnn.data.batching.storage import Storage, fitting
from pggnn.data.graphs import Graphs
from pggnn.nn.labels import adjacency_rows
from pggnn.train.config import Config
from pggnn.train.engine import authors, checkpoint, log
from pggnn.train.engine.distributed import is_main, processes
from pggnn.train.engine.models import COPIES, build
from pggnn.train.engine.task import Task
from pggnn.train.runs import protocol
from pggnn.train.runs.folder import claimed, clear, conclude, locked, missing, prepare, uses_gpu
from pggnn.train.runs.pool import Workers, last_error, visible_gpus
from pggnn.train.runs.progress import Bar, Bars
from pggnn.train.runs.protocol import Member, Summary

if TYPE_CHECKING:
    from lightning.fabric import Fabric

    from pggnn.train.engine.loop import Training, Watch

ERRORS = "errors.txt"
PRECISIONS = {"32": "32-true", "tf32": "32-true", "bf16": "bf16-mixed", "16": "16-mixed", "64": "64-true"}
STOPPED, ORPHANED = 75, 76
"""Exit codes of a training that ran out of time, and of one whose parent has ended."""
POLL = 0.3
"""Seconds between two looks at other processes."""


class Failed(ValueError):
    """Some of several trainings came to no end; the others did."""


def train(config: Config, resume: str | None = None, console: Console | None = None) -> Summary:
    """Trains all that a run consists of, or what is missing of it, and returns its figures.

    Args:
        config: The run.
        resume: ``"last"`` or ``"previous"``: goes on with the run in its folder, from that checkpoint of each training.
        console: Where to show progress.
    """
    console = console or Console(stderr=True)
    graphs = load_graphs(config)
    task = Task(graphs.schema, config.optim.loss)
    main = is_main()
    check(config, graphs)
    with claimed(config.folder, main):
        if main:
            prepare(config, graphs, resume)
        todo = [(config, member) for member in missing(config)]
        with Bars(console if main else Console(quiet=True), task.metric) as bars:
            if processes()[0] == 1 and side_by_side(config) > 1:
                train_side_by_side(todo, side_by_side(config), resume, bars)
            elif todo:
                fabric = make_fabric(config)
                storage = make_storage(config, graphs, fabric)
                for _, member in todo:
                    bar = bars.add(member.name, config.optim.epochs)
                    train_member(config, member, storage, fabric, resume, bar)
                    bar.finish()
        return conclude(config, main)


def check(config: Config, graphs: Graphs) -> None:
    """Finds what is wrong with a run before there is a folder for it."""
    if uses_gpu(config) and not torch.cuda.is_available():
        raise ValueError("run.device is cuda, but PyTorch finds no GPU here: choose cpu or auto")
    if uses_gpu(config) and (here := processes()[1]) > (gpus := torch.cuda.device_count()):
        raise ValueError(f"torchrun has started {here} processes here, but there are GPUs for {gpus} only")
    protocol.parts(config, graphs, protocol.members(config)[0])
    build(config.model, graphs.schema, 1 if uses_gpu(config) else COPIES)
    if config.protocol.random == "authors":
        authors.check(config)
    if config.model.relabellings > 0:
        some = Storage(graphs).take(torch.arange(min(len(graphs), 8)))
        if "x" not in some or not some.x.equal(adjacency_rows(some, some.x.size(1))):
            raise ValueError(
                f"model.relabellings is for features that are rows of the adjacency matrix, which those of "
                f"{config.data.name} are not: leave it out"
            )


def train_member(
    config: Config, member: Member, storage: Storage, fabric: "Fabric", resume: str | None, watch: "Watch"
) -> None:
    """One training, to its end."""
    from pggnn.train.engine.loop import LAST, PREVIOUS, Training

    folder = config.folder / member.name
    folder.mkdir(parents=True, exist_ok=True)
    cores = int(os.environ.get("OMP_NUM_THREADS", os.cpu_count() or 1))
    torch.set_num_threads(config.run.threads or max(1, cores // side_by_side(config)))
    if fabric.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()  # those of the training before this one
    with locked(folder, fabric.is_global_zero):
        if fabric.is_global_zero:
            clear(folder)
        parts = protocol.parts(config, storage.graphs, member)
        training = Training(config, storage, parts, member.seed, folder, fabric)
        if resume is not None and any((folder / name).exists() for name in (LAST, PREVIOUS)):
            path = folder / {"last": LAST, "previous": PREVIOUS}[resume]
            try:
                training.resume(path)
            except checkpoint.BadCheckpoint as error:
                other = "" if resume == "previous" else "; --resume previous goes on from the checkpoint before it"
                raise ValueError(f"{error}{other}") from None
            if resume == "previous" and fabric.is_global_zero:  # or the damaged one would take its place
                checkpoint.keep_as(path, folder / LAST)
        result = training.run(watch)
        if fabric.is_global_zero:
            protocol.save_result(folder, {"seed": member.seed, "fold": member.fold, **result})
    fabric.barrier()  # the others read the result too


def first_training(config: Config, graphs: Graphs, folder: Path) -> "Training":
    """The first training of a run, made but not begun, to be measured in a folder of its own."""
    from pggnn.train.engine.loop import Training

    fabric, member = make_fabric(config), protocol.members(config)[0]
    parts = protocol.parts(config, graphs, member)
    return Training(config, make_storage(config, graphs, fabric), parts, member.seed, folder, fabric)


def load_graphs(config: Config) -> Graphs:
    """The graphs of a run."""
    data = config.data
    try:
        dataset = loading.load(data.name, data.root, data.walks, **data.options)
    except TypeError as error:
        wrong = re.search(r"unexpected keyword argument '(\w+)'", str(error))
        if wrong is None:
            raise
        raise ValueError(f"data.options: {data.name} has no option {wrong[1]}") from None
    if len(dataset) < len(graphs := Graphs.of(dataset)):
        raise ValueError(
            f"data.options: split leaves out graphs of {data.name}; --protocol.kind says what trains and tests"
        )
    return graphs


def side_by_side(config: Config) -> int:
    """How many trainings run at once. It follows from the config and the machine alone: so do the threads of each."""
    jobs = config.run.jobs or (4 * len(visible_gpus()) if uses_gpu(config) else os.cpu_count()) or 1
    return min(jobs, len(protocol.members(config)))


def make_fabric(config: Config) -> "Fabric":
    """Device, precision and processes, as the config says and ``torchrun`` has set them up."""
    from lightning.fabric import Fabric

    for name in ("lightning.fabric", "lightning.pytorch"):  # Fabric writes to both
        logging.getLogger(name).setLevel(logging.WARNING)
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read once, before anything runs on a GPU
    torch.use_deterministic_algorithms(config.run.deterministic)
    if config.run.deterministic:
        torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    torch.set_float32_matmul_precision("high" if config.run.precision == "tf32" else "highest")
    every, here = processes()
    fabric = Fabric(
        accelerator="cuda" if uses_gpu(config) else "cpu",
        devices=here,
        num_nodes=every // here,
        strategy="ddp" if every > 1 else "auto",
        precision=PRECISIONS[config.run.precision],  # type: ignore[arg-type]
    )
    fabric.launch()
    return fabric


def make_storage(config: Config, graphs: Graphs, fabric: "Fabric") -> Storage:
    """The graphs on the device, if they fit there and no other processes assemble batches, else on the host."""
    return Storage(graphs, "cpu" if config.data.workers else fitting(graphs, fabric.device))


def train_side_by_side(
    todo: list[tuple[Config, Member]], jobs: int, resume: str | None, bars: Bars, until: float = math.inf
) -> None:
    """Trainings of one or several runs, several at once, each in a process of its own.

    One that fails does not stop the others; what it said is raised when they have ended. One that a GPU has no room for
    beside the others goes on when one of them has ended, and from then on fewer run at once.

    Args:
        todo: The trainings.
        jobs: How many at once.
        resume: As for :func:`train`.
        bars: Where to show progress.
        until: When to be done, as ``time.time()`` counts: those that run stop after the last epoch that they can
            finish by then, and none is started that has less time than the longest epoch took, which on a GPU is a
            first one.
    """
    waiting, failed = list(todo), []
    running: dict[Path, tuple[int, Bar, Config, Member]] = {}
    workers, longest = Workers(), 0.0
    several = len({config.folder for config, _ in todo}) > 1
    try:
        while waiting or running:
            while waiting and len(running) < jobs and time.time() + longest < until:
                config, member = waiting.pop(0)
                name = f"{config.folder.parent.name}/{config.folder.name}/{member.name}" if several else member.name
                bar = bars.add(name, config.optim.epochs)
                folder = config.folder / member.name
                folder.mkdir(parents=True, exist_ok=True)
                words = [str(config.folder), str(member.seed), str(member.fold), resume or "new", str(until)]
                running[folder] = workers.start(words, folder / ERRORS), bar, config, member
            if not running:
                break
            time.sleep(POLL)
            for folder, (number, bar, config, member) in list(running.items()):
                code = workers.code(number)
                fresh = log.read(folder)[bar.done :]
                longest = max([longest, *(record["seconds"] for record in fresh)])
                if fresh:
                    bar.epoch(fresh[-1])
                if code is not None:
                    del running[folder]
                    bar.finish()
                if code and code != STOPPED:
                    said = last_error((folder / ERRORS).read_text()) if code > 0 else ""
                    said = said or f"its process ended with code {code}"
                    if is_gpu_full(said) and running:
                        jobs, resume = len(running), "last"
                        waiting.append((config, member))
                        said = "no room on the GPU beside those that run; it goes on when one of them has ended"
                    else:
                        failed.append(f"{folder}: {said}")
                        said += "; the others go on"
                    if waiting or running:
                        tell(bars.console, f"{folder}: {said}")
    finally:
        workers.close()
    if failed:
        raise Failed(failed[0] + (f" (and {len(failed) - 1} more failed)" if len(failed) > 1 else ""))
