"""What a run consists of, as frozen dataclasses: the keys of a YAML file and the options of ``pggnn train``."""

import math
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal, get_type_hints

from pggnn.files import write_text

Choice = Literal["group", "single", "random"]


@dataclass(frozen=True)
class DataConfig:
    """The graphs."""

    name: str
    """Name of a data set (pggnn data list), or path of your own graphs: JSON lines, or a folder in TU's format."""
    root: str | None = None
    """Folder of the data sets; by default PGGNN_DATA, else data/."""
    options: dict[str, Any] = field(default_factory=dict)
    """Further arguments of the data set's class, such as {task: cliques} for counting."""
    walks: int = 0
    """Number of extra features of a node: how often random walks of 1, 2, … steps return to it, which reveals rings."""
    workers: int = 0
    """Processes that assemble batches ahead, on the CPU; 0 assembles them in place, on the GPU where there is one."""


@dataclass(frozen=True)
class ModelConfig:
    """The network."""

    name: Literal["pggnn", "gin", "gcn", "sage", "rgin", "rp", "lrp"] = "pggnn"
    """Which network: the paper's (pggnn), or one that it is compared with."""
    hidden: int = 64
    """Width of the hidden layers."""
    layers: int = 4
    """Aggregations. The paper counts the input too: its 5 layers are 4 here."""
    readout: Literal["sum", "mean", "both", "log"] = "sum"
    """How the nodes of a graph become one vector: their sum, their mean, both side by side, or both with the sum on a
    logarithmic scale."""
    dropout: float = 0.0
    """Dropout on the scores of each layer."""
    norm: Literal["batch", "graph"] = "batch"
    """Normalisation after each aggregation: over the nodes of a batch, or over those of each graph (GraphNorm)."""
    scores: Literal["all", "last"] = "all"
    """Which layers contribute to the answer: all, including the input, or only the last."""
    edge_features: bool = False
    """Whether the network reads the edges' features."""
    committee: int = 1
    """Number of networks, each trained by itself from its own start, whose answers are averaged."""
    init: Literal["glorot", "torch", "tally"] = "glorot"
    """How weights start. glorot: as the paper's appendix says; torch: uniform within ±1/√width, as in its authors'
    code; tally: the same, with LSTMs that add up their inputs (pggnn.nn.tally_init)."""
    aggregation: Literal["arrangements", "pairs", "triplets", "trios", "chain"] = "arrangements"
    """PG-GNN: what its RNN reads. arrangements: all neighbours, in the group's orders. The paper's variants: pairs:
    ordered pairs of neighbours; triplets: pairs followed by the centre; chain: the arrangements as one long sequence.
    trios: every ordered three of them."""
    orderings: Choice | int = "group"
    """PG-GNN: the orders in which neighbours are read: the whole group, a single one, K of the group (an integer), or a
    random one."""
    cell: Literal["lstm", "gru", "srn"] = "lstm"
    """PG-GNN: the recurrent cell."""
    rnn_layers: int = 2
    """PG-GNN: stacked layers of each RNN."""
    root: Literal["merged", "linear"] = "merged"
    """PG-GNN: the centre stands at both ends of each sequence, or is added by a linear map (Eq. 3)."""
    numbering: Literal["given", "random"] = "given"
    """PG-GNN: neighbours are numbered as in the data, or at random in each training step."""
    max_degree: int | None = None
    """PG-GNN: most neighbours to read of a node."""
    structure: int = 0
    """PG-GNN: number of bits that tell the RNN, at each neighbour, which of those read just before it are adjacent to
    it."""
    reduce: Literal["sum", "mean"] = "sum"
    """PG-GNN: the sum over the arrangements of a node's neighbours, or their mean."""
    numberings: int = 1
    """PG-GNN: number of fresh random numberings of the neighbours over which each layer takes the mean."""
    relabellings: int = 0
    """PG-GNN on rows of the adjacency matrix: relabels nodes in each training step, and answers with the mean over this
    many relabellings; 0: never."""
    renumberings: int = 0
    """PG-GNN: renumbers neighbours in each training step, and answers with the mean over this many renumberings; 0: as
    model.numbering says."""
    weighting: Literal["symmetric", "mean"] = "symmetric"
    """GCN: neighbours are weighted by the roots of degrees, as in its paper, or equally, as in Kipf's later code."""
    beside: Literal["features", "rows", "nothing"] = "features"
    """RP: what a node reads beside its number: its features; those as rows of the adjacency matrix, whose columns
    change places with the numbers; or nothing, as in its authors' code."""
    ids: int = 10
    """RP: how many numbers there are for nodes; in larger graphs several nodes share one."""
    replace: bool = False
    """GraphSAGE: draws neighbours with replacement, as its authors do; by default each at most once."""

    @property
    def reads(self) -> str:
        """What PG-GNN's RNN reads, in a word: its orderings, or the variant; nothing for rivals."""
        if self.name != "pggnn":
            return ""
        return str(self.orderings) if self.aggregation == "arrangements" else self.aggregation


@dataclass(frozen=True)
class OptimConfig:
    """How the weights are found: Adam, and when it slows down and stops."""

    batch_size: int = 32
    """Graphs in a batch."""
    sampling: Literal["shuffle", "draws"] = "shuffle"
    """Each graph once in an epoch; or each batch drawn from all graphs, as the paper's authors do."""
    steps: int | None = None
    """Batches in an epoch of draws; by default as many as a shuffled epoch has."""
    epochs: int = 100
    """Largest number of epochs."""
    lr: float = 1e-3
    """Learning rate at the start."""
    schedule: Literal["plateau", "step", "cosine", "constant"] = "plateau"
    """How the learning rate falls: when validation stops improving; in steps; along a cosine; never."""
    warmup: int = 0
    """Epochs in which the learning rate first rises evenly to optim.lr."""
    factor: float = 0.5
    """What the learning rate is multiplied by, on a plateau or at a step."""
    patience: int = 20
    """Epochs without improvement that make a plateau."""
    every: int = 50
    """Epochs between steps."""
    min_lr: float = 0.0
    """Training stops when the learning rate falls below this; a cosine ends here."""
    weight_decay: float = 0.0
    """Weight decay of Adam (decoupled, as in AdamW)."""
    clip: float | None = None
    """Largest norm of the gradient; it is clipped above."""
    average: float = 0.0
    """Validates, tests and answers with a moving average of the weights. Each epoch keeps this part of it, such as
    0.9, and less in the first epochs; 0: no average."""
    loss: Literal["auto", "mse", "mae", "cross_entropy", "bce"] = "auto"
    """By default mean squared error, cross entropy, or binary cross entropy with several labels."""


@dataclass(frozen=True)
class ProtocolConfig:
    """What is trained on, chosen by and tested on."""

    kind: Literal["auto", "splits", "random", "folds", "nested"] = "auto"
    """The data set's own splits; a random one (80/10/10); the paper's cross-validation, which tests in every epoch and
    reports the best; or nested cross-validation, where part of the training graphs chooses the epoch. By default the
    data set's own splits where it has them, else a random one."""
    folds: int = 10
    """Folds of a cross-validation."""
    only: tuple[int, ...] = ()
    """Train only these folds, counted from 0, such as [0,1]; by default all."""
    seeds: tuple[int, ...] = (0,)
    """One training for each seed; figures are mean ± standard deviation over them."""
    report: Literal["best", "last"] = "best"
    """Test at the epoch with the best validation, or after the last."""
    random: Literal["own", "authors"] = "own"
    """Random numbers for the first weights and the batches: our own, which depend on seed and epoch alone, or those
    that the paper's authors' scripts make of the seed."""


@dataclass(frozen=True)
class RunConfig:
    """Where and on what it runs."""

    out: str | None = None
    """Folder of the run; by default runs/DATA-MODEL."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """What to train on."""
    precision: Literal["32", "tf32", "bf16", "16", "64"] = "32"
    """Float32; with TF32 or half-precision matrix products; or float64 throughout."""
    deterministic: bool = True
    """The same run twice gives the same numbers."""
    record: bool = True
    """On a GPU: play training steps from a recording (a CUDA graph) where batches can be padded to one shape."""
    jobs: int = 0
    """Folds and seeds trained at once, each in a process; 0 for one per core, or 4 on each GPU."""
    threads: int = 0
    """Threads of each training on the CPU; 0 to share the cores between those that run at once."""
    tensorboard: bool = True
    """Whether to write TensorBoard's files beside the log."""


LEAST = {
    "data.walks": 0, "data.workers": 0, "model.hidden": 1, "model.layers": 1, "model.committee": 1,
    "model.orderings": 1, "model.rnn_layers": 1, "model.max_degree": 1, "model.structure": 0, "model.numberings": 1,
    "model.relabellings": 0, "model.renumberings": 0, "model.ids": 1, "optim.batch_size": 1, "optim.steps": 1,
    "optim.epochs": 1, "optim.patience": 0, "optim.every": 1, "optim.warmup": 0, "protocol.folds": 2, "run.jobs": 0,
    "run.threads": 0,
}  # fmt: skip
"""Smallest value of each whole number."""
LIMIT = 2**31
MOST = {
    "data.walks": 1000, "data.workers": 1000, "model.numberings": 1000, "model.relabellings": 1000,
    "model.renumberings": 1000, "optim.steps": 10**6, "protocol.folds": 10**4, "run.threads": 1000,
}  # fmt: skip
"""Largest value of those that memory or the system would not stand; of the others it is below :data:`LIMIT`."""
Range = tuple[str, Callable[[float], bool]]
POSITIVE: Range = "positive", lambda value: 0 < value < math.inf
NOT_NEGATIVE: Range = "0 or more", lambda value: 0 <= value < math.inf
PART: Range = "from 0 to below 1", lambda value: 0 <= value < 1
RANGES: dict[str, Range] = {
    "model.dropout": PART,
    "optim.lr": POSITIVE,
    "optim.factor": ("above 0 and at most 1", lambda value: 0 < value <= 1),
    "optim.min_lr": NOT_NEGATIVE,
    "optim.weight_decay": NOT_NEGATIVE,
    "optim.clip": POSITIVE,
    "optim.average": PART,
}
"""What other numbers must be, in words and as a check."""


@dataclass(frozen=True)
class Config:
    """A whole run."""

    data: DataConfig
    model: ModelConfig = field(default_factory=ModelConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    protocol: ProtocolConfig = field(default_factory=ProtocolConfig)
    run: RunConfig = field(default_factory=RunConfig)

    def __post_init__(self) -> None:
        for part in fields(self):
            for key in fields(getattr(self, part.name)):
                name, value = f"{part.name}.{key.name}", getattr(getattr(self, part.name), key.name)
                if value is None and key.default is not None:
                    raise ValueError(f"{name} must have a value, or be left out")
                least = LEAST.get(name)
                if least is not None and isinstance(value, int) and value < least:
                    raise ValueError(f"{name} must be {least} or more, got {value}")
                most = MOST.get(name, LIMIT - 1)
                if least is not None and isinstance(value, int) and value > most:
                    raise ValueError(f"{name} must be {most} or less, got {value}")
                expected, holds = RANGES.get(name, ("", None))
                if holds is not None and value is not None and not holds(value):
                    raise ValueError(f"{name} must be {expected}, got {value}")
        seeds = self.protocol.seeds
        if not seeds or len(set(seeds)) < len(seeds) or min(seeds) < 0 or max(seeds) >= 2 * LIMIT:
            raise ValueError(
                f"protocol.seeds must be different whole numbers from 0 to {2 * LIMIT - 1}, got {list(seeds)}"
            )
        if self.optim.warmup >= self.optim.epochs:
            raise ValueError(
                f"optim.warmup must be less than optim.epochs, {self.optim.epochs}, got {self.optim.warmup}"
            )
        only, folds = self.protocol.only, self.protocol.folds
        if len(set(only)) < len(only) or not set(only) <= set(range(folds)):
            raise ValueError(f"protocol.only must be different folds from 0 to {folds - 1}, got {list(only)}")

    @property
    def folder(self) -> Path:
        """Where the run is kept."""
        return Path(self.run.out or f"runs/{Path(self.data.name).stem.lower()}-{self.model.name}")


KEYS = [f"{part.name}.{key.name}" for part in fields(Config) for key in fields(get_type_hints(Config)[part.name])]
"""Every option, for instance ``model.hidden``."""
FILE = "config.yaml"


def as_yaml(values: dict[str, Any], flow: bool | None = False) -> str:
    """Options as YAML. Names such as 1e3 are quoted: some readers of YAML take them for numbers."""
    import yaml

    class Dumper(yaml.SafeDumper):
        pass

    number = re.compile(r"[-+]?[\d_.]+[eE][-+]?\d+")
    Dumper.add_representer(
        str,
        lambda to, text: to.represent_scalar("tag:yaml.org,2002:str", text, "'" if number.fullmatch(text) else None),
    )
    return str(yaml.dump(values, Dumper=Dumper, sort_keys=False, allow_unicode=True, default_flow_style=flow))


def save(config: Config, folder: Path) -> None:
    """Writes the resolved config to the run's folder."""
    write_text(folder / FILE, as_yaml(plain(config)))


SCHEDULES = {"optim.factor": ("plateau", "step"), "optim.patience": ("plateau",), "optim.every": ("step",)}
"""The schedules that an option has a meaning for, where that is not all."""


def difference(one: Config, other: Config, ignored: tuple[str, ...] = ()) -> list[str]:
    """The options in which two configs differ, as ``model.hidden: 64, not 32``, but for what neither of them uses."""
    found = []
    schedules = {one.optim.schedule, other.optim.schedule}
    for key in KEYS:
        mine, theirs = map(attrgetter(key), (one, other))
        if mine != theirs and key not in ignored and schedules & set(SCHEDULES.get(key, schedules)):
            found.append(f"{key}: {mine}, not {theirs}")
    return found


def plain(value: Any) -> Any:
    """A config, or a part of it, as YAML can hold it."""
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, (tuple, list)) else value
