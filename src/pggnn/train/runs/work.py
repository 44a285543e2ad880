"""What is said before the first epoch: the work of a batch of PG-GNN, and what would be less."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from pggnn.data.cost import Aggregation, Work, count_list_steps, measure_work
from pggnn.data.features.lists import GraphLists
from pggnn.data.graphs import Graphs
from pggnn.nn.blocks import Reads
from pggnn.nn.conv import SequenceConv
from pggnn.train.config import Config, ModelConfig
from pggnn.train.engine.loop import Split
from pggnn.train.engine.models import outline
from pggnn.train.runs.pairs import most_pairs
from pggnn.train.runs.progress import Forecast

COSTLY = 20
"""Times a single ordering above which cheaper options are named."""
ANSWER = 1 / 3
"""Time of an answer, as a part of that of a training step: a pass forward without the one back."""


def describe_work(
    config: Config, graphs: Graphs, split: Split, lists: Mapping[str, GraphLists] | None = None
) -> list[str]:
    """Lines on the steps of a batch, the mean over the training graphs; none for models that read no sequences."""
    if split.by_node and config.data.neighbours:
        most = " × ".join(map(str, config.fan))
        return [
            f"A batch has the neighbourhoods of {config.optim.batch_size:,} nodes: at most {most} neighbours of each."
        ]
    network = outline(replace(config.model, layers=1), graphs.schema)
    if network.reads_pairs:
        pairs, size = most_pairs(config, graphs), config.optim.batch_size
        return [f"A batch of {min(size, len(graphs))} graphs has at most about {pairs:,} pairs of nodes."]
    conv = network.convs[0]
    layers: dict[str, Any] = dict(conv.layers) if isinstance(conv, Reads) else {"star": conv}
    train = torch.arange(len(graphs)) if split.by_node else split.train
    size = len(graphs) if split.by_node else min(config.optim.batch_size, len(train))
    batch = f"A batch of {size} graphs" if size > 1 or not split.by_node else "The whole graph"
    beside = [
        f"{_of_batch(count_list_steps(kind, one, _aggregation(layers[kind]))[train], size)} RNN steps a layer ({kind})"
        for kind, one in (lists or {}).items()
        if kind in layers
    ]
    star = layers.get("star")
    if not isinstance(star, SequenceConv):
        return [f"{batch} takes {', '.join(beside)}."] if beside else []
    aggregation = _aggregation(star)
    work = measure_work(graphs, aggregation, train)
    lines = [f"{batch} takes {_compare(config.model, aggregation, work, size)}."]
    lines += [f"Beside the star it takes {', '.join(beside)}."] if beside else []
    if work.ratio > COSTLY and work.cheaper:
        ways = [f"{_of_batch(steps, size)} with --model.{name} {to}" for (name, to), steps in work.cheaper.items()]
        lines.append(f"Fewer steps: {', '.join(ways)}.")
    return lines


def forecast(config: Config, split: Split, trainings: int, jobs: int) -> Forecast:
    """What the time of a run follows from, given that of its first batches."""
    optim, evaluated = config.optim, sum(len(part) for part in (split.val, split.test) if part is not None)
    if split.by_node and not config.data.neighbours:  # each of the three is a pass over all
        return Forecast(optim.epochs, trainings, min(jobs, trainings), 2 * ANSWER)
    drawn = optim.sampling == "draws" and optim.steps is not None
    trained = optim.batch_size * (optim.steps or 0) if drawn else len(split.train)
    return Forecast(optim.epochs, trainings, min(jobs, trainings), ANSWER * evaluated / trained)


def _aggregation(conv: SequenceConv) -> Aggregation:
    return Aggregation(conv.reading, conv.cell, conv.structure, conv.max_degree)


def _compare(model: ModelConfig, aggregation: Aggregation, work: Work, size: int) -> str:
    """The steps of a batch beside those of the whole group and of a single ordering."""
    steps, group, single = (_of_batch(one, size) for one in (work.steps, work.group, work.single))
    known = {"group": "the whole group", "single": "a single ordering", "random": "a random ordering"}
    what = known.get(
        model.orders_read, f"{model.orders_read} orderings" if aggregation.takes_orderings else model.orders_read
    )
    if aggregation.is_linear:
        what += " by the linear cell"
    elif isinstance(model.orderings, int) and work.steps.equal(work.group):
        what += ", here the whole group"
    said, same = f"{steps} RNN steps a layer ({what})", work.steps.equal(work.group)
    if model.orders_read in ("single", "random"):
        more = "as many" if same else f"{group}, {_ratio(work.group, work.single)} times as many"
        return f"{said}; the whole group takes {more}"
    if work.steps.equal(work.single):
        return f"{said}, as many as a single ordering"
    said += f", {_ratio(work.steps, work.single)} × a single ordering ({single})"
    return said if same else f"{said}; the whole group takes {group}"


def _ratio(many: Tensor, few: Tensor) -> str:
    ratio = int(many.sum()) / max(1, int(few.sum()))
    return f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.1f}"


def _of_batch(steps: Tensor, size: int) -> str:
    """The mean over graphs, times those of a batch, in words that can be read."""
    number = float(steps.double().mean()) * size
    for least, word in ((1e9, " billion"), (1e6, " million")):
        if number >= least:
            return f"{number / least:,.3g}{word}"
    return f"{float(f'{number:.3g}'):,.0f}"
