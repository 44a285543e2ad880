"""How much a network's answers change when neighbours are renumbered or nodes relabelled, and what averaging gains."""

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor
from torch_geometric.data import Batch

from pggnn.data.batching.collate import Collater
from pggnn.data.graphs import Graphs
from pggnn.data.sets.counting import TASKS, generate, with_target
from pggnn.lab.transfer import Budget, train
from pggnn.nn.labels import adjacency_rows
from pggnn.plan import Plan
from pggnn.train.config import ModelConfig
from pggnn.train.engine.loop import Callback, Split
from pggnn.train.engine.models import Scorer, build
from pggnn.train.engine.task import Task
from pggnn.train.runs import protocol
from pggnn.train.runs.predict import Trained, device

MODES: tuple[Literal["group", "single"], ...] = ("group", "single")
NUMBERINGS: tuple[Literal["given", "random"], ...] = ("given", "random")
FULL = Budget(graphs=5000, epochs=25, layers=2)
"""30 % of the graphs train, as in the paper."""
QUICK = Budget(graphs=1000, tests=100, epochs=8, hidden=16, layers=2)


@dataclass(frozen=True)
class Sensitivity:
    """What one kind of change does to the answers of one network."""

    network: str
    trained: str
    changed: str
    metric: str
    before: float
    """The metric with the graphs as they are."""
    after: float
    """Its mean over the changes."""
    mean: float
    """Mean absolute change of an answer."""
    largest: float
    spread: float
    """Standard deviation of the answers, to compare changes with."""
    averaged: float
    """The metric of the answers' mean over all changes."""


def renumbered(batch: Batch) -> tuple[Batch, Tensor]:
    """The batch with each node's neighbours in a random numbering; every node stays where it is."""
    changed = copy(batch)
    changed.plan = batch.plan.renumbered()
    return changed, torch.arange(batch.num_nodes, device=batch.ptr.device)


def relabelled(batch: Batch, flow: str = "source_to_target") -> tuple[Batch, Tensor]:
    """The batch with the nodes of each graph under random labels, and the new place of each node.

    Neighbours are numbered by their new labels. Where features are rows of the adjacency matrix, they are those of the
    relabelled graph; other features go with their nodes.
    """
    nodes, place = batch.num_nodes, batch.ptr.device
    shuffled = torch.rand(nodes, device=place).argsort()
    shuffled = shuffled[torch.argsort(batch.batch[shuffled], stable=True)]
    label = shuffled.argsort()
    edges = label[batch.edge_index]
    in_order = (edges[0] * nodes + edges[1]).argsort()
    changed = copy(batch)
    changed.edge_index = edges[:, in_order]
    if "edge_attr" in batch:
        changed.edge_attr = batch.edge_attr[in_order]
    if "x" in batch:
        rows = adjacency_rows(batch, batch.x.size(1))
        changed.x = adjacency_rows(changed, batch.x.size(1)) if batch.x.equal(rows) else batch.x[shuffled]
    changed.plan = Plan.build(changed.edge_index, nodes, flow)
    return changed, label


@torch.no_grad()
def measure(scorer: Scorer, batch: Batch, task: Task, numberings: int) -> Iterator[tuple[str, dict[str, float]]]:
    """Renumbers and relabels ``numberings`` times; yields the change and the figures of :class:`Sensitivity`."""
    torch.manual_seed(0)
    by_node, flow = task.schema.level == "node", task.schema.flow
    truth = task.targets(batch.y)

    def figure(answers: Tensor) -> float:
        return task.measure(answers, truth)[task.metric]

    answers = task.outputs(scorer(batch))
    for kind, change in (("neighbours", renumbered), ("nodes", lambda batch: relabelled(batch, flow))):
        total, changes, after = torch.zeros_like(answers), [], []
        for _ in range(numberings):
            changed, place = change(batch)
            found = task.outputs(scorer(changed))
            found = found[place] if by_node else found
            changes.append((found - answers).abs())
            after.append(figure(found))
            total += found
        each = torch.stack(changes)
        yield kind, {
            "before": figure(answers), "after": sum(after) / numberings, "mean": float(each.mean()),
            "largest": float(each.max()), "spread": float(answers.std(correction=0)),
            "averaged": figure(total / numberings),
        }  # fmt: skip


def run(
    budget: Budget, task: str, seed: int, numberings: int, out: Path, callback: Callable[[str], Callback]
) -> Iterator[Sensitivity]:
    """Measures networks before training, and after it with the given numbering and with fresh ones."""
    if task not in TASKS:
        raise ValueError(f"expected one of {', '.join(TASKS)} to count, got {task!r}")
    if seed < 0 or numberings < 1:
        raise ValueError(f"expected a seed of 0 or more and 1 numbering or more, got {seed} and {numberings}")
    graphs = with_target(generate("er", budget.graphs, seed), task)
    tests = graphs.splits["test"][: budget.tests]
    split = Split(graphs.splits["train"], graphs.splits["val"][: budget.tests], tests)
    for orderings in MODES:
        model = ModelConfig(hidden=budget.hidden, layers=budget.layers, orderings=orderings)
        torch.manual_seed(seed)
        untrained = Scorer(build(model, graphs.schema)).eval()
        yield from _rows(untrained, graphs, tests, numberings, orderings, "none")
        for numbering in NUMBERINGS:
            name = f"{orderings}-{numbering}"
            chosen = replace(model, numbering=numbering)
            training = train(graphs, split, chosen, budget.epochs, seed, out / name, callback(name))
            scorer = Scorer(training.network).eval()
            yield from _rows(scorer, graphs, tests, numberings, orderings, f"{numbering} numbering")


def run_folder(folder: Path, most: int, numberings: int) -> Iterator[Sensitivity]:
    """Measures the networks of a run on its test graphs, ``most`` of them at most; means over its seeds and folds."""
    trained = Trained.load(folder)
    collater = trained.collater(Graphs.of(trained.read(trained.config.data.name)))
    model, found = trained.config.model, []
    for trial, scorer in trained.scorers.items():
        index = protocol.split(trained.config, collater.graphs, trial).test[:most]
        found.append(dict(measure(scorer, collater.collate(index).to(device()), trained.task, numberings)))
    for kind in found[0]:
        figures = {name: [one[kind][name] for one in found] for name in found[0][kind]}
        means = {
            name: max(values) if name == "largest" else sum(values) / len(values) for name, values in figures.items()
        }
        numbering = "random" if model.orderings == "random" else model.numbering
        trained_with = f"{numbering} numbering" if model.name == "pggnn" else ""
        yield Sensitivity(str(folder), trained_with, kind, trained.task.metric, **means)


def _rows(
    scorer: Scorer, graphs: Graphs, index: Tensor, numberings: int, network: str, trained: str
) -> Iterator[Sensitivity]:
    task = Task(graphs.schema)
    for kind, figures in measure(scorer, Collater(graphs).collate(index), task, numberings):
        yield Sensitivity(network, trained, kind, task.metric, **figures)
