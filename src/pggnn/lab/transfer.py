"""Counting learnt on graphs of 10 nodes, tested on larger ones: which features a network can take along."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import pad

from pggnn.data.batching.collate import Collater
from pggnn.data.graphs import Graphs
from pggnn.data.schema import Schema
from pggnn.data.sets.counting import draw_er, draw_regular, from_adjacency, with_target
from pggnn.lab.paired_comparison import set_numberings
from pggnn.seeds import derived_seed
from pggnn.train.config import Config, DataConfig, ModelConfig, OptimConfig, RunConfig
from pggnn.train.engine.checkpoint import Checkpoint, load_weights
from pggnn.train.engine.loop import BEST, Callback, Split, Training
from pggnn.train.runs.run import make_fabric

NODES, PROBABILITY = 10, 0.3
"""Of the graphs to train on, the paper's."""
LARGER = (20, 30)
DENSE = 0.5
"""Probability of an edge in graphs of 10 nodes that have many 4-cliques."""
CAVE = 6
"""Nodes of a cave."""
Case = tuple[str, str, int]
CASES: dict[str, tuple[Case, ...]] = {
    "sparse": (
        ("triangles", "constant", 1),
        ("triangles", "adjacency rows", 0),
        ("cliques", "constant", 2),
        ("cliques", "adjacency rows", 0),
    ),
    "clustered": (("cliques", "constant", 2),),
}
"""Task, features and ``structure`` of each network that is trained, for each experiment."""
STAGES = {0: (1,), 1: (1,), 2: (2, 8)}
"""For each ``structure``, the numberings of which a layer takes the mean in each stage of training, the latter stages
being as much shorter as they take more. One shows all pairs of neighbours, but with two bits only some triples."""
TESTED = {0: (1,), 1: (1,), 2: (1, 64)}
"""The same for the tests, each of which is made with all of them."""
LR = 1e-2
"""First learning rate, a quarter of that in the next stage."""
CELLS: dict[str, Literal["srn", "lstm"]] = {"constant": "srn", "adjacency rows": "lstm"}
"""With constant features an SRN did as well as an LSTM in validation, in less time; rows have the paper's LSTM."""


@dataclass(frozen=True)
class Budget:
    """Sizes of an experiment."""

    graphs: int = 12_000
    """Graphs to train on."""
    tests: int = 500
    """Graphs of each test set, and of the validation set."""
    epochs: int = 15
    """Epochs of the first stage."""
    hidden: int = 32
    layers: int = 1

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value < 1:
                raise ValueError(f"expected 1 or more {name}, got {value}")


BUDGETS = {"sparse": Budget(), "clustered": Budget(graphs=8000, epochs=28)}
"""Of each experiment: an RNN has many more steps to read in a dense graph."""
QUICK = Budget(graphs=1000, tests=100, epochs=10, hidden=16)


@dataclass(frozen=True)
class TransferResult:
    """What one network made of one kind of test graphs."""

    seed: int
    task: str
    features: str
    structure: int
    numberings: int
    """In the test: of how many the mean was taken."""
    tested_on: str
    error: float
    """Mean absolute error over all nodes."""
    error_where: float
    """The same over nodes with anything to count; NaN if there are none."""
    mean: float
    """Mean count: the error of answering 0 everywhere."""
    largest: int


Drawn = tuple[Tensor, Tensor]
Callbacks = Callable[[str, int], Callback]
"""Makes the callback of a training from its name and number of epochs."""


def draw_geometric(graphs: int, nodes: int, degree: float, seed: int) -> Drawn:
    """Random geometric graphs of a mean degree: points of a square without borders, joined where they are close."""
    generator = torch.Generator().manual_seed(seed)
    points = torch.rand(graphs, nodes, 2, generator=generator)
    apart = (points[:, :, None] - points[:, None]).abs()
    close = torch.minimum(apart, 1 - apart).square().sum(-1) < degree / ((nodes - 1) * torch.pi)
    return close & ~torch.eye(nodes, dtype=torch.bool), torch.full((graphs,), nodes)


def draw_caves(graphs: int, nodes: int, degree: float, seed: int) -> Drawn:
    """Graphs of a mean degree in which :data:`CAVE` nodes at a time know each other well, and others seldom."""
    generator = torch.Generator().manual_seed(seed)
    inside = torch.arange(nodes) // CAVE
    inner = min(1.0, 0.9 * degree / (CAVE - 1))
    outer = (degree - inner * (CAVE - 1)) / (nodes - CAVE)
    probability = torch.where(inside[:, None] == inside, inner, outer)
    upper = (torch.rand(graphs, nodes, nodes, generator=generator) < probability).triu(1)
    return upper | upper.transpose(1, 2), torch.full((graphs,), nodes)


def draw_sparse(budget: Budget, seed: int) -> dict[str, Drawn]:
    """The paper's graphs to train on; larger ones of the same degree, of the same p, and regular ones as tests."""
    drawn = {"train": (budget.graphs, NODES, PROBABILITY)}
    for name in ("val", f"{NODES} nodes"):
        drawn[name] = budget.tests, NODES, PROBABILITY
    for nodes in LARGER:
        drawn[f"{nodes} nodes, same degree"] = budget.tests, nodes, PROBABILITY * (NODES - 1) / (nodes - 1)
    for nodes in LARGER:
        drawn[f"{nodes} nodes, same p"] = budget.tests, nodes, PROBABILITY
    sets = {name: draw_er(*drawing, derived_seed(seed, i)) for i, (name, drawing) in enumerate(drawn.items())}
    width = LARGER[-1]
    adjacency, sizes = draw_regular(16 + 8 * budget.tests, derived_seed(seed, len(sets)))
    kept = (sizes == width).nonzero().squeeze(1)[: budget.tests]
    return sets | {f"{width} nodes, 5-regular": (adjacency[kept], sizes[kept])}


def draw_clustered(budget: Budget, seed: int) -> dict[str, Drawn]:
    """Dense graphs to train on; and as tests larger ones of the same mean degree, 4-cliques being common in most."""
    degree, nodes = DENSE * (NODES - 1), LARGER[-1]
    numbers = iter(range(6))
    sets = {
        name: draw_er(count, NODES, DENSE, derived_seed(seed, next(numbers)))
        for name, count in (("train", budget.graphs), ("val", budget.tests), (f"{NODES} nodes", budget.tests))
    }
    sets[f"{nodes} nodes, same degree"] = draw_er(
        budget.tests, nodes, degree / (nodes - 1), derived_seed(seed, next(numbers))
    )
    for name, draw in (("geometric", draw_geometric), ("caves", draw_caves)):
        sets[f"{nodes} nodes, {name}"] = draw(budget.tests, nodes, degree, derived_seed(seed, next(numbers)))
    return sets


DRAW: dict[str, Callable[[Budget, int], dict[str, Drawn]]] = {"sparse": draw_sparse, "clustered": draw_clustered}


def draw_sets(budget: Budget, seed: int, experiment: str = "sparse") -> tuple[Graphs, dict[str, Tensor]]:
    """All graphs, with rows of equal width, and the numbers of those to train, to validate and for each test."""
    sets = DRAW[experiment](budget, seed)
    width = LARGER[-1]
    rows = [pad(matrix, (0, width - matrix.size(1)) * 2) for matrix, _ in sets.values()]
    graphs = from_adjacency(torch.cat(rows), torch.cat([nodes for _, nodes in sets.values()]))
    numbers = torch.arange(len(graphs)).split([len(nodes) for _, nodes in sets.values()])
    return graphs, dict(zip(sets, numbers, strict=True))


def choose(graphs: Graphs, task: str, features: str) -> Graphs:
    """The graphs with one of the counts to learn; without features, which makes them the constant 1, or with rows."""
    chosen = with_target(graphs, task)
    if features == "constant":
        return replace(chosen, node={"y": chosen.node["y"]}, schema=Schema("node", "regression"))
    return chosen


def train(
    graphs: Graphs,
    split: Split,
    model: ModelConfig,
    epochs: int,
    seed: int,
    folder: Path,
    callback: Callback,
    lr: float = LR,
    start: Training | None = None,
    numberings: int = 1,
) -> Training:
    """A network with the weights of the epoch that was best in validation; it may start with those of another, and its
    layers take the mean over several numberings."""
    optim = OptimConfig(batch_size=64, epochs=epochs, lr=lr, schedule="cosine")
    config = Config(DataConfig("ER"), model, optim, run=RunConfig(device="cpu", tensorboard=False))
    folder.mkdir(parents=True, exist_ok=True)
    training = Training(config, Collater(graphs), split, seed, folder, make_fabric(config))
    set_numberings(training.network, numberings)
    if start is not None:
        training.network.load_state_dict(start.network.state_dict())
    training.run(callback)
    load_weights(training.network, Checkpoint.load(folder / BEST).weights, folder / BEST)
    return training


def train_stages(
    graphs: Graphs, split: Split, model: ModelConfig, epochs: int, seed: int, folder: Path, callbacks: Callbacks
) -> Training:
    """A network trained with more numberings in each stage: first cheaply, then with less noise."""
    training = None
    for stage, numberings in enumerate(STAGES[model.structure]):
        name, shorter = f"{folder.name}-{numberings}", max(1, epochs * STAGES[model.structure][0] // numberings)
        here, callback = folder.with_name(name), callbacks(name, shorter)
        training = train(graphs, split, model, shorter, seed, here, callback, LR / 4**stage, training, numberings)
    assert training is not None
    return training


def run(
    budget: Budget, seed: int, out: Path, callbacks: Callbacks, experiment: str = "sparse"
) -> Iterator[TransferResult]:
    """Trains the network of each case and tests it; log and weights go to a folder for each stage in ``out``."""
    if seed < 0:
        raise ValueError(f"expected a seed of 0 or more, got {seed}")
    graphs, numbers = draw_sets(budget, seed, experiment)
    split = Split(numbers.pop("train"), numbers.pop("val"), numbers[f"{NODES} nodes"])
    for task, features, structure in CASES[experiment]:
        folder = out / f"{experiment}-{seed}" / f"{task}-{features.split()[-1]}-{structure}"
        model = ModelConfig(
            hidden=budget.hidden, layers=budget.layers, cell=CELLS[features], structure=structure, init="torch"
        )
        training = train_stages(choose(graphs, task, features), split, model, budget.epochs, seed, folder, callbacks)
        for numberings in TESTED[structure]:
            set_numberings(training.network, numberings)
            for tested_on, index in numbers.items():
                answers, truth = training.answers(index)
                error = (answers - truth).abs()
                mean, where, zero = (float(values.mean()) for values in (error, error[truth > 0], truth))
                yield TransferResult(
                    seed, task, features, structure, numberings, tested_on, mean, where, zero, int(truth.max())
                )
