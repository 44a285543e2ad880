"""The trials of a run, one for each seed and fold, their splits, and the figures over all of them."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict

import torch
from torch import Tensor

from pggnn.data.graphs import Graphs
from pggnn.data.schema import FOLDS, SPLITS
from pggnn.data.splits import grouped_split, random_split, stratified_folds
from pggnn.files import write_json
from pggnn.seeds import derived_seed
from pggnn.train import packed
from pggnn.train.config import Config
from pggnn.train.engine import log
from pggnn.train.engine.loop import Split
from pggnn.train.engine.task import Task

RESULT = "result.json"
CROSS_VALIDATION = ("folds", "nested")


@dataclass(frozen=True)
class Trial:
    """One training of a run, by seed and fold."""

    seed: int
    fold: int | None = None

    @property
    def name(self) -> str:
        """Its folder in that of the run."""
        return f"seed{self.seed}" + (f"/fold{self.fold}" if self.fold is not None else "")


class Memory(TypedDict):
    """Peak memory of a training, in MiB."""

    ram: float
    gpu: float


class TrialResult(TypedDict):
    """The result of a training that has ended."""

    metric: str
    ended: Literal["epochs", "learning rate", "fit"]
    parameters: int
    memory: NotRequired[Memory]
    epoch: int
    best_epoch: int
    val: float | None
    test: float
    baseline: NotRequired[dict[str, float]]
    """The metric of the most frequent class, or of the mean, on ``"val"`` and ``"test"``."""
    seconds: float
    chosen: NotRequired[dict[str, float]]
    """What a fitted model chose by cross-validation inside its training graphs, and its accuracy there."""


@dataclass(frozen=True)
class RunSummary:
    """The figures of a run, over its folds and seeds."""

    metric: str
    mean: float
    std: float
    """Of the folds at the chosen epoch where there is one seed and several folds, else of the seeds."""
    each: list[float]
    """What :attr:`std` is taken over."""
    epochs: list[int]
    """The chosen epoch of each seed, or of each fold where they choose their own."""

    def __str__(self) -> str:
        scale, digits = (100, 1) if self.metric == "accuracy" else (1, 3)
        over = f" over {len(self.each)}" if len(self.each) > 1 else ""
        return f"{self.figure(scale, digits)}{' %' if scale == 100 else ''}{over}"

    def figure(self, scale: float, digits: int) -> str:
        """Mean and deviation, where there is one."""
        return figure(self.mean * scale, self.std * scale if len(self.each) > 1 else None, digits)


def figure(mean: float, std: float | None, digits: int) -> str:
    """A mean, with its deviation if that is known."""
    return f"{mean:.{digits}f}" + (f" ± {std:.{digits}f}" if std is not None else "")


def kind(config: Config, graphs: Graphs) -> str:
    """The protocol, with ``"auto"`` resolved."""
    if config.protocol.kind != "auto":
        return config.protocol.kind
    return "splits" if (graphs.splits and not graphs.has_folds) or graphs.node_splits else "random"


def trials(config: Config) -> list[Trial]:
    """All trainings of a run."""
    folds: Sequence[int | None] = config.protocol.only or range(config.protocol.number_of_folds)
    if config.protocol.kind not in CROSS_VALIDATION:
        folds = [None]
    return [Trial(seed, fold) for seed in config.protocol.seeds for fold in folds]


def split(config: Config, graphs: Graphs, trial: Trial) -> Split:
    """The graphs or nodes that a trial trains, validates and tests on: of each part those with a known target.

    Nodes are split where they have masks, or where there is one graph.
    """
    chosen, of_nodes = kind(config, graphs), graphs.schema.level == "node"
    by_node = of_nodes and (bool(graphs.node_splits) or len(graphs) == 1)
    if config.data.neighbours and not of_nodes:
        raise ValueError("data.neighbours is for targets of nodes, but these are targets of graphs: leave it out")
    if config.protocol.inductive and not by_node:
        raise ValueError(
            "protocol.inductive is for the nodes of one graph, or nodes with masks; here graphs are split: leave it out"
        )
    known = graphs.known_targets(by_node) > 0
    every = known.nonzero().view(-1)
    if chosen == "splits":
        given = graphs.node_splits if by_node else graphs.splits
        missing = [name for name in SPLITS if name not in given]
        if missing:
            one = f'"{missing[0]}_mask"' if by_node else '"split"'
            raise ValueError(
                f"these graphs have no split {' and '.join(missing)}: choose --protocol.kind random"
                f"{'' if by_node else ' or folds'}, or write {one} accordingly"
            )
        found = Split(*(given[name][known[given[name]]] for name in SPLITS), by_node=by_node)
    elif chosen == "random":
        parts = (every[part] for part in random_split(len(every), trial.seed))
        found = Split(*(part.sort()[0] if by_node else part for part in parts), by_node=by_node)
    elif chosen == "scaffold":
        groups = graphs.graph["scaffold"].cpu()[every]
        found = Split(*(every[part] for part in grouped_split(groups, trial.seed)))
    else:
        found = _fold(config, graphs, trial, every)
    if not len(found.train) or not len(found.test) or (found.val is not None and not len(found.val)):
        numbers = {"train": found.train, "validate": found.val, "test": found.test}
        sizes = ", ".join(f"{len(part)} to {verb}" for verb, part in numbers.items() if part is not None)
        what = "nodes" if by_node else "graphs"
        few = what if known.all() else f"of {len(known)} {what} have known targets: they"
        raise ValueError(f"{len(every)} {few} are too few to train, validate and test on: {sizes}")
    if config.data.neighbours and not by_node:  # neighbourhoods of the nodes of these graphs
        known = graphs.known_targets(by_node=True) > 0
        graph = torch.arange(len(graphs)).repeat_interleave(graphs.nodes.cpu())
        found = Split(
            *(
                (known & torch.isin(graph, part)).nonzero().view(-1)
                for part in (found.train, found.val, found.test)
                if part is not None
            ),
            by_node=True,
        )
    return found


def check_metric(config: Config, graphs: Graphs) -> None:
    """Refuses a metric that is not defined on what a trial validates or tests on, such as AUROC where there is one
    class."""
    task = Task(graphs.schema, config.optim.loss, tuple(config.protocol.metric))
    for trial in trials(config):
        parts = split(config, graphs, trial)
        for name, index in (("validation", parts.val), ("test", parts.test)):
            if index is None:
                continue
            targets = task.targets(graphs.targets(index, parts.by_node))
            defined = [key for key, value in task.baseline(task.guess(targets), targets).items() if value == value]
            if task.metric not in defined:
                metrics = f"--protocol.metric {' or '.join(defined)}, or " if defined else ""
                raise ValueError(
                    f"{task.metric} is not defined on the {name} targets of {trial.name}, which are all alike: choose "
                    f"{metrics}another seed by --protocol.seeds"
                )


def _fold(config: Config, graphs: Graphs, trial: Trial, every: Tensor) -> Split:
    """One fold of the given graphs."""
    if graphs.schema.level != "graph" or graphs.schema.task != "classification":
        raise ValueError("cross-validation is stratified by the classes of graphs, which these have not")
    y = graphs.graph["y"].view(-1).cpu()
    fold = trial.fold or 0
    if config.protocol.folds == "given":
        if not graphs.has_folds:
            raise ValueError(
                "protocol.folds is given, but no folds come with these graphs: a folder 10fold_idx with test_idx-1.txt "
                "to test_idx-10.txt, where no graph is in two of them; give a number of folds"
            )
        test = every[torch.isin(every, graphs.splits[FOLDS[fold]])]
        train = every[~torch.isin(every, test)]
    else:
        train, test = (every[part] for part in stratified_folds(y[every], trial.seed, config.protocol.folds)[fold])
    if config.protocol.kind == "folds":
        return Split(train, None, test)
    inner, val = _hold_out(train, y, derived_seed(trial.seed, fold))
    return Split(inner, val, test)


def _hold_out(index: Tensor, y: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """Holds out a tenth of each class, at least one graph if another is left to train on."""
    generator = torch.Generator().manual_seed(seed)
    shuffled = index[torch.randperm(len(index), generator=generator)]
    kept, held = [], []
    for label in y[index].unique():
        group = shuffled[y[shuffled] == label]
        size = min(max(1, round(len(group) / 10)), len(group) - 1)
        held.append(group[:size])
        kept.append(group[size:])
    return torch.cat(kept).sort()[0], torch.cat(held).sort()[0]


def save_result(folder: Path, result: dict[str, Any]) -> None:
    """Writes the result of a training, which marks it as ended."""
    write_json(folder / RESULT, result)


def load_result(folder: Path) -> dict[str, Any] | None:
    """The result of a training, or None while it has not ended."""
    result: dict[str, Any] | None = packed.read_json(folder / RESULT, TrialResult)
    return result


def deviation(values: Sequence[float]) -> float:
    """Standard deviation of the population; NaN where a value is not finite."""
    return statistics.pstdev(values) if all(map(math.isfinite, values)) else math.nan


def curve(records: list[log.Record], what: str) -> dict[int, float]:
    """A figure by epoch, for the epochs that have it."""
    return {record["epoch"]: record[what] for record in records if what in record}


def best_common_epoch(curves: list[dict[int, float]]) -> tuple[int, list[float]]:
    """The epoch with the best mean over the folds, of those that all folds have, and the folds' accuracies in it.

    This is the paper's way of reporting cross-validation. There is no separate test set: the choice of the epoch has
    seen the figures that are reported.
    """
    best = _best_epoch(curves, curves)
    return best, [one[best] for one in curves]


def choose_by_others(curves: list[dict[int, float]]) -> tuple[list[int], list[float]]:
    """Of each fold the epoch with the best mean over the *other* folds, and the fold's accuracy in it.

    A fold's own figures have no say in its epoch, and nothing is trained again.

    Args:
        curves: Accuracy by epoch, of each fold; two folds at least.
    """
    epochs = [_best_epoch(curves[:i] + curves[i + 1 :], curves) for i in range(len(curves))]
    return epochs, [one[epoch] for one, epoch in zip(curves, epochs, strict=True)]


def _best_epoch(voters: list[dict[int, float]], curves: list[dict[int, float]]) -> int:
    """The epoch with the best mean over ``voters``, of those that all curves have."""
    common = sorted(set.intersection(*map(set, curves)))
    if not common:
        raise ValueError("the logs of these trainings have no epoch in common: train them again")
    return max(common, key=lambda epoch: statistics.fmean(one[epoch] for one in voters))
