"""A training of a model that is fitted at once: the same folds, and the same files, as those of networks."""

import time
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data

from pggnn.baselines.options import MODELS
from pggnn.data.graphs import Graphs, starts
from pggnn.train.config import Config
from pggnn.train.engine.log import Log, Record
from pggnn.train.engine.loop import Callback
from pggnn.train.engine.memory import peak_memory
from pggnn.train.engine.task import Task
from pggnn.train.runs import protocol
from pggnn.train.runs.protocol import Trial


def is_fitted(config: Config) -> bool:
    """Whether the model of a run is fitted, not trained by gradient."""
    return MODELS[config.model.name].fitted


def check_fitted(config: Config, graphs: Graphs) -> None:
    """Refuses targets that fitted models cannot have."""
    if graphs.schema.level != "graph" or graphs.schema.task != "classification":
        label, task, level = MODELS[config.model.name].label, graphs.schema.task, graphs.schema.level
        raise ValueError(f"{label} classifies graphs, and these have targets for {task} of {level}s: choose another")
    if config.model.committee > 1 or config.model.edge_features:
        raise ValueError(
            f"{MODELS[config.model.name].label} has no model.committee and no model.edge_features: leave them out"
        )


def fit_trial(config: Config, trial: Trial, graphs: Graphs, callback: Callback) -> dict[str, Any]:
    """Fits a model to the training graphs of a trial; logs it as one epoch, and returns what came out."""
    begin = time.perf_counter()
    split, task = protocol.split(config, graphs, trial), Task(graphs.schema, metric_names=tuple(config.protocol.metric))
    model = MODELS[config.model.name]
    classifier = model.load()(trial.seed, **model.own(config.model))
    classifier.read(end_to_end(graphs))
    y = graphs.graph["y"].view(-1).long()
    parts = {"train": split.train, "val": split.val, "test": split.test}
    parts = {name: part for name, part in parts.items() if part is not None}
    answers = classifier.classify(y.numpy(), split.train.numpy(), [np.asarray(part) for part in parts.values()])
    figures = {
        name: task.measure(one_hot(answer, graphs.schema.out_channels), y[part])[task.metric]
        for (name, part), answer in zip(parts.items(), answers, strict=True)
    }
    guess = task.guess(y[split.train])
    baseline = {name: task.baseline(guess, y[part])[task.metric] for name, part in parts.items() if name != "train"}
    seconds = round(time.perf_counter() - begin, 4)
    record: Record = {"epoch": 1, "lr": 0.0, "loss": 1 - figures.pop("train"), **figures, "seconds": seconds}
    log = Log(config.folder / trial.name, 0, config.run.tensorboard, config.run.logger)
    log.write(record)
    log.close()
    callback.epoch(record)
    return {
        "metric": task.metric, "ended": "fit", "parameters": 0, "baseline": baseline, "memory": peak_memory(),
        "epoch": 1, "best_epoch": 1, "val": None, **figures, "seconds": seconds, "chosen": classifier.chosen,
    }  # fmt: skip


def end_to_end(graphs: Graphs) -> Data:
    """All graphs as one, with labels as numbers where they stand alone."""
    shift = starts(graphs.nodes)[:-1].repeat_interleave(graphs.edges)
    batch = torch.arange(len(graphs)).repeat_interleave(graphs.nodes)
    one = Data(x=graphs.node.get("x"), edge_index=graphs.edge_index.long() + shift, batch=batch)
    one.num_nodes, one.num_graphs = len(batch), len(graphs)
    return one


def one_hot(answer: np.ndarray, classes: int) -> torch.Tensor:
    """A class as a probability of 1."""
    return torch.nn.functional.one_hot(torch.from_numpy(answer), classes).float()
