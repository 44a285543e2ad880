"""A run: its trials, trained one after another or side by side."""

import logging
import math
import os
import re
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path
from signal import Signals

import torch
from lightning.fabric import Fabric
from lightning.fabric.strategies.ddp import DDPStrategy
from rich.console import Console

from pggnn.baselines.options import MODELS
from pggnn.console import is_gpu_full, tell
from pggnn.data import loading
from pggnn.data.batching.collate import Collater, fitting
from pggnn.data.features.lists import GraphLists
from pggnn.data.graphs import Graphs
from pggnn.nn.labels import adjacency_rows
from pggnn.train.config import Config, ModelConfig
from pggnn.train.engine import checkpoint, log
from pggnn.train.engine.distributed import is_main, processes
from pggnn.train.engine.loop import LAST, PREVIOUS, Callback, Training
from pggnn.train.engine.memory import keep_freed_memory
from pggnn.train.engine.models import COPIES, build, lists_for, lists_read
from pggnn.train.engine.task import Task
from pggnn.train.runs import protocol
from pggnn.train.runs.cluster import LOST
from pggnn.train.runs.fitted import check_fitted, fit_trial, is_fitted
from pggnn.train.runs.folder import claimed, clear, locked, missing, prepare
from pggnn.train.runs.pairs import check_pairs
from pggnn.train.runs.pool import SITES, Running, last_error, uses_gpu
from pggnn.train.runs.progress import Bar, Bars
from pggnn.train.runs.protocol import RunSummary, Trial
from pggnn.train.runs.stored import Run
from pggnn.train.runs.work import describe_work, forecast

ERRORS = "errors.txt"
PRECISIONS = {"32": "32-true", "tf32": "32-true", "bf16": "bf16-mixed", "16": "16-mixed", "64": "64-true"}
STOPPED, ORPHANED = 75, 76
"""Exit codes of a training that ran out of time, and of one whose parent process has ended."""
POLL = 0.3
"""Seconds between checks of worker processes."""
MOST_LOST = 3
"""How often a training is started again whose node was lost, or whose process was ended by a signal."""


class Failed(ValueError):
    """Some of several trainings failed."""


def train(config: Config, resume: str | None = None, console: Console | None = None) -> RunSummary:
    """Trains all trials of a run that have not ended, and returns its figures.

    Args:
        config: The run.
        resume: ``"last"`` or ``"previous"``: continues the run in its folder from that checkpoint of each trial.
        console: Where to show progress.
    """
    console = console or Console(stderr=True)
    graphs = load_graphs(config, console)
    task = Task(graphs.schema, config.optim.loss, tuple(config.protocol.metric))
    main = is_main()
    check(config, graphs)
    lists = lists_for(config, graphs, console) if main else None  # the other processes find them in the cache
    with claimed(config.folder, main):
        if main:
            prepare(config, graphs, resume)
        pending, jobs = missing(config), side_by_side(config) if processes()[0] == 1 else 1
        with Bars(console if main else Console(quiet=True), task.metric) as bars:
            if main and pending:
                announce(config, graphs, lists or {}, pending, jobs, bars)
            if jobs > 1 or not config.run.here:
                train_side_by_side([(config, trial) for trial in pending], jobs, resume, bars)
            elif pending:
                fabric = make_fabric(config)
                collater = make_collater(config, graphs, fabric, lists)
                for trial in pending:
                    bar = bars.add(trial.name, config.optim.epochs)
                    train_trial(config, trial, collater, fabric, resume, bar)
                    bar.finish()
        return Run.read(config.folder, config).conclude(main)


def announce(
    config: Config, graphs: Graphs, lists: dict[str, GraphLists], pending: list[Trial], jobs: int, bars: Bars
) -> None:
    """Says what a batch costs, where a model reads sequences, and has the bars say how long the trainings will take."""
    split, model = protocol.split(config, graphs, pending[0]), config.model
    if graphs.has_folds and config.protocol.kind in protocol.CROSS_VALIDATION:
        ours = f"{config.protocol.folds} stratified ones; --protocol.folds given takes those that come with the data"
        tell(bars.console, f"Folds: {'those that come with the data' if config.protocol.folds == 'given' else ours}.")
    if model.name != "pggnn" and model.reads != ModelConfig().reads:
        tell(bars.console, f"{MODELS[model.name].label} has no option model.reads, got {model.reads}: it is ignored.")
    if is_fitted(config):
        return
    if lines := describe_work(config, graphs, split, lists):
        tell(bars.console, "\n".join(lines))
    bars.forecast = forecast(config, split, len(pending), jobs)


def check(config: Config, graphs: Graphs) -> None:
    """Refuses a run that cannot be trained, before its folder is made."""
    if config.run.here and uses_gpu(config):
        if not torch.cuda.is_available():
            raise ValueError("run.device is cuda, but PyTorch finds no GPU here: choose cpu or auto")
        if (here := processes()[1]) > (gpus := torch.cuda.device_count()):
            raise ValueError(f"torchrun has started {here} processes here, but there are GPUs for {gpus} only")
    if not config.run.here and processes()[0] > 1:
        raise ValueError(f"run.on {config.run.on} starts processes by itself: leave torchrun out, or choose local")
    jobs = side_by_side(config)
    log.check_logger(config.run.logger)
    protocol.check_metric(config, graphs)
    if is_fitted(config):
        check_fitted(config, graphs)
        return
    reads = lists_read(config.model)
    if reads and config.data.neighbours:
        what = "model.reads" if config.model.name == "pggnn" else f"model.name {config.model.name}, which reads"
        raise ValueError(f"{what} {' '.join(reads)} needs the whole graph: leave data.neighbours out, or {reads[0]}")
    network = build(config.model, graphs.schema, 1 if uses_gpu(config) else COPIES)
    if config.run.here:
        check_pairs(config, graphs, network, jobs)
    if config.model.numbering in ("labels", "both"):
        some = Collater(graphs).collate(torch.arange(min(len(graphs), 8)))
        if "x" not in some or not some.x.equal(adjacency_rows(some, some.x.size(1))):
            raise ValueError(
                f"model.numbering {config.model.numbering} is for features that are rows of the adjacency matrix, "
                f"which those of {config.data.name} are not: choose given or random"
            )


def train_trial(
    config: Config, trial: Trial, collater: Collater, fabric: Fabric, resume: str | None, callback: Callback
) -> None:
    """Trains one trial to its end."""
    folder = config.folder / trial.name
    folder.mkdir(parents=True, exist_ok=True)
    cores = int(os.environ.get("OMP_NUM_THREADS", os.cpu_count() or 1))
    torch.set_num_threads(config.run.threads or max(1, cores // side_by_side(config)))
    if fabric.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()  # of the training before this one
    with locked(folder, fabric.is_global_zero):
        if fabric.is_global_zero:
            clear(folder)
        if is_fitted(config):
            if fabric.is_global_zero:
                found = fit_trial(config, trial, load_graphs(config), callback)
                protocol.save_result(folder, {"seed": trial.seed, "fold": trial.fold, **found})
            fabric.barrier()
            return
        training = make_training(config, trial, collater, folder, fabric)
        if resume is not None and any((folder / name).exists() for name in (LAST, PREVIOUS)):
            path = folder / {"last": LAST, "previous": PREVIOUS}[resume]
            try:
                training.resume(path)
            except checkpoint.BadCheckpoint as error:
                other = "" if resume == "previous" else "; --resume previous goes on from the checkpoint before it"
                raise ValueError(f"{error}{other}") from None
            if resume == "previous" and fabric.is_global_zero:  # or the damaged one would take its place
                checkpoint.keep_as(path, folder / LAST)
        result = training.run(callback)
        if fabric.is_global_zero:
            protocol.save_result(folder, {"seed": trial.seed, "fold": trial.fold, **result})
    fabric.barrier()  # the others read the result too


def first_training(config: Config, graphs: Graphs, folder: Path) -> Training:
    """The training of a run's first trial, in a folder of its own; it has not begun."""
    fabric = make_fabric(config)
    return make_training(config, protocol.trials(config)[0], make_collater(config, graphs, fabric), folder, fabric)


def make_training(config: Config, trial: Trial, collater: Collater, folder: Path, fabric: Fabric) -> Training:
    """The training of a trial, in a folder."""
    return Training(config, collater, protocol.split(config, collater.graphs, trial), trial.seed, folder, fabric)


def load_graphs(config: Config, console: Console | None = None) -> Graphs:
    """The graphs of a run; what is left out of them is said on the console."""
    data = config.data
    try:
        dataset = loading.load(data.name, data.root, **config.loading)
    except TypeError as error:
        wrong = re.search(r"unexpected keyword argument '(\w+)'", str(error))
        if wrong is None:
            raise
        if wrong[1] == "scaffolds":
            raise ValueError("protocol.kind scaffold is for molecules in a CSV file: choose another") from None
        raise ValueError(f"data: {data.name} has no option {wrong[1]}") from None
    if dataset.table is not None and dataset.schema.task is None:
        raise ValueError(
            f"{data.name}: which column is to be predicted? Name it by --data.target; "
            f"its columns are {dataset.table.columns}"
        )
    if dataset.left_out and console is not None:
        tell(console, dataset.describe_left_out())
    if len(dataset) < len(graphs := Graphs.of(dataset)):
        raise ValueError(
            f"data.options: split leaves out graphs of {data.name}; --protocol.kind says what trains and tests"
        )
    return graphs


def at_once(config: Config) -> int:
    """How many trainings there may be at once; refused where there is room for none."""
    room = SITES[config.run.on].room(config)
    return config.run.jobs or room


def side_by_side(config: Config) -> int:
    """How many trials are trained at once. It depends on config and machine alone, as must the threads of each."""
    return min(at_once(config), len(protocol.trials(config)))


def make_fabric(config: Config) -> Fabric:
    """Device and precision of the config, and the processes that ``torchrun`` has started."""
    keep_freed_memory()
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
        strategy=DDPStrategy(timeout=timedelta(seconds=config.run.timeout)) if every > 1 else "auto",
        precision=PRECISIONS[config.run.precision],  # type: ignore[arg-type]
    )
    fabric.launch()
    return fabric


def make_collater(
    config: Config, graphs: Graphs, fabric: Fabric, lists: dict[str, GraphLists] | None = None
) -> Collater:
    """The graphs on the device, if they fit there and batches are not assembled by other processes or sampled, else on
    the CPU; with their lists, which are found here unless they are given."""
    device = "cpu" if config.data.workers or config.data.neighbours else fitting(graphs, fabric.device)
    return Collater(graphs, device, lists_for(config, graphs) if lists is None else lists)


def train_side_by_side(
    pending: list[tuple[Config, Trial]], jobs: int, resume: str | None, bars: Bars, until: float = math.inf
) -> None:
    """Trains trials of one or several runs in other processes, all of them where the first one's ``run.on`` says.

    Where a trial fails, the others continue, and its error is raised at the end. Where a GPU has no memory left for one
    beside the others, it continues when another has ended, and fewer are trained at once from then on. One whose node
    was lost, or whose process was ended by a signal, is started again, from its last checkpoint.

    Args:
        pending: The trials.
        jobs: How many are trained at once.
        resume: As for :func:`train`.
        bars: Where to show progress.
        until: When to stop, as ``time.time()`` counts. A training stops after the last epoch that it can finish by
            then. None is started with less time left than the longest epoch took, which on a GPU is a first one.
    """
    if not pending:
        return
    waiting, failed, lost = list(pending), [], Counter[Path]()
    running: dict[Path, tuple[Running, Bar, Config, Trial]] = {}
    config = pending[0][0]
    pool, longest = SITES[config.run.on].pool(config), 0.0
    several = len({config.folder for config, _ in pending}) > 1
    try:
        while waiting or running:
            while waiting and len(running) < jobs and time.time() + longest < until:
                config, trial = waiting.pop(0)
                name = f"{config.folder.parent.name}/{config.folder.name}/{trial.name}" if several else trial.name
                bar = bars.add(name, config.optim.epochs)
                folder = config.folder / trial.name
                folder.mkdir(parents=True, exist_ok=True)
                begin = "last" if lost[folder] else resume or "new"
                arguments = [str(config.folder), str(trial.seed), str(trial.fold), begin, str(until)]
                running[folder] = pool.start(arguments, folder / ERRORS), bar, config, trial
            if not running:
                break
            time.sleep(POLL)
            at = ", ".join(f"{bar.name} in epoch {bar.done + 1}" for _, bar, *_ in running.values())
            bars.remind(f"{at}; {len(waiting)} more to train" if waiting else at)
            for folder, (worker, bar, config, trial) in list(running.items()):
                code = worker.poll()
                new = log.read(folder)[bar.done :]
                longest = max([longest, *(record["seconds"] for record in new)])
                bars.expect(worker.expected)
                if new:
                    bar.epoch(new[-1])
                if code is None:
                    continue
                del running[folder]
                bar.finish()
                gone = code == LOST or code < 0
                if code in (0, STOPPED) or (gone and trial not in missing(config)):
                    continue
                error = last_error((folder / ERRORS).read_text()) if code > 0 else ""
                ended = f"was ended by {Signals(-code).name}" if code < 0 else f"ended with code {code}"
                error = error or f"its process {ended}"
                if gone and lost[folder] < MOST_LOST:
                    lost[folder] += 1
                    waiting.insert(0, (config, trial))
                    error += "; it is started again, from its last checkpoint"
                elif is_gpu_full(error) and running:
                    jobs, resume = len(running), "last"
                    waiting.append((config, trial))
                    error = "the GPU has no memory left beside the others; it continues when one of them has ended"
                else:
                    failed.append(f"{folder}: {error}")
                    error += "; the others continue"
                if waiting or running:
                    tell(bars.console, f"{folder}: {error}")
    finally:
        pool.close()
    if failed:
        raise Failed(failed[0] + (f" (and {len(failed) - 1} more failed)" if len(failed) > 1 else ""))
