"""The config of a run, as frozen dataclasses: the keys of a YAML file and the options of ``pggnn train``."""

import re
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_type_hints

from pggnn.baselines.options import MODELS
from pggnn.data.schema import FOLDS
from pggnn.files import write_text
from pggnn.ranges import FACTOR, LIMIT, NOT_NEGATIVE, PART, POSITIVE, check_ranges, real, whole

if TYPE_CHECKING:
    from pggnn.baselines.options import (
        CLIPOptions,
        DeepLRPOptions,
        DenseOptions,
        DGCNNOptions,
        GCNOptions,
        PGGNNOptions,
        PNAOptions,
        RPOptions,
        SAGEOptions,
        WEGLOptions,
        WLOptions,
    )

    Name = str
else:
    Name = Literal[tuple(MODELS)]

Metric = Literal["MAE", "RMSE", "R2", "accuracy", "macro F1", "AUROC", "average precision"]


@dataclass(frozen=True)
class DataConfig:
    """The graphs."""

    name: str
    """Name of a data set (pggnn data list), or path of your own graphs: JSON lines, a zip or folder in TU's
    format, arrays of one large graph (.npz, .pt, .safetensors), or
    molecules as CSV."""
    root: str | None = None
    """Folder of the data sets; by default PGGNN_DATA, else data/."""
    target: tuple[str, ...] = ()
    """CSV: the columns to predict. A cell may be empty."""
    smiles: str | None = None
    """CSV: the column of SMILES; by default the one that is named so, or the only one that can be read as such."""
    skip_invalid: bool = False
    """CSV: leaves out rows that cannot be read; by default they are listed, and nothing is trained."""
    options: dict[str, Any] = field(default_factory=dict)
    """Further arguments of the data set's class, such as {task: cliques} or {task: cycles5} for counting."""
    walks: int = whole(0, 0, 1000)
    """Number of extra features of a node: how often random walks of 1, 2, … steps return to it, which reveals rings."""
    rings: int = whole(18, 3, 1000)
    """Nodes of the largest ring, where model.reads has rings."""
    chords: bool = False
    """Whether rings may have chords: every simple cycle, instead of chordless ones."""
    paths: int = whole(3, 2, 100)
    """Edges of the longest path, where model.reads has paths."""
    cliques: Literal[0, 3, 4, 5] = 0
    """Extra features of nodes and edges: log(1 + count) of the cliques of 3, 4, … up to so many nodes that they lie in.
    Networks read those of edges with model.edge_features."""
    cycles: Literal[0, 3, 4, 5, 6] = 0
    """The same for cycles, whether or not further edges join their nodes; triangles have one column, not two."""
    neighbours: tuple[int, ...] = ()
    """For targets of nodes: trains on neighbourhoods with this many sampled neighbours of each node, such as [10,5] at
    distance 1 and 2, or [10] at each. By default on the whole graph."""
    workers: int = whole(0, 0, 1000)
    """Processes that assemble batches ahead, on the CPU; 0 assembles them in place, on the GPU where there is one."""

    @property
    def added(self) -> dict[str, int]:
        """The features that are computed from the graphs, as :func:`pggnn.data.loading.load` takes them."""
        return {"walks": self.walks, "cliques": self.cliques, "cycles": self.cycles}


@dataclass(frozen=True)
class NetworkOptions:
    """What all networks have."""

    name: Name = "pggnn"
    """Which network: the paper's (pggnn), or one that it is compared with."""
    hidden: int = whole(64, 1)
    """Width of the hidden layers."""
    layers: int = whole(4, 1)
    """Aggregations. The paper counts the input too: its 5 layers are 4 here."""
    readout: Literal["sum", "mean", "both", "log"] = "sum"
    """How the nodes of a graph become one vector: their sum, their mean, both side by side, or both with the sum on a
    logarithmic scale."""
    dropout: float = real(0.0, PART)
    """Dropout on the scores of each layer; with residual blocks, on what is added to the state, and inside the networks
    of two layers."""
    norm: Literal["batch", "graph", "none"] = "batch"
    """Normalisation after each aggregation: over the nodes of a batch, over those of each graph (GraphNorm), or none,
    where numbers are to be counted exactly. Batch normalisation inside a layer, as in GIN's, stays."""
    block: Literal["plain", "residual"] = "plain"
    """What follows each aggregation. plain: normalisation and ReLU, as in the paper; residual: these, added to what was
    there, and a feed-forward network."""
    scores: Literal["all", "last"] = "all"
    """Which layers contribute to the answer: all, including the input, or only the last."""
    edge_features: bool = False
    """Whether the network reads the edges' features."""
    committee: int = whole(1, 1)
    """Number of networks, each trained by itself from its own start, whose answers are averaged."""
    numbering: Literal["given", "random", "labels", "both"] = "given"
    """What is renumbered at random in each training step. given: nothing; random: each node's neighbours, whose order
    matters to PG-GNN alone; labels: the nodes of each graph, for features that are rows of the adjacency matrix; both:
    both."""
    numberings: int = whole(1, 1, 1000)
    """Answers are the mean over this many random numberings, of the kind that model.numbering names; 1: answers are
    made with the numbering of the data."""
    init: Literal["guess", "glorot", "torch", "accumulate"] = "guess"
    """How weights start. glorot: as the paper's appendix says; guess: the same, but answers start at the frequencies of
    the classes or the mean of the targets; torch: uniform within ±1/√width, as in the code of the paper's authors;
    accumulate: the same, with LSTMs that add up their inputs (pggnn.nn.accumulate_init)."""


if TYPE_CHECKING:

    class _Options(
        DenseOptions, WEGLOptions, WLOptions, DeepLRPOptions, CLIPOptions, PNAOptions, DGCNNOptions,
        SAGEOptions, RPOptions, GCNOptions, PGGNNOptions, NetworkOptions,
    ): ...  # fmt: skip
else:
    _OWN = dict.fromkeys(model.options for model in MODELS.values())
    _Options = type("_Options", (*reversed(_OWN), NetworkOptions), {})


@dataclass(frozen=True)
class ModelConfig(_Options):
    """The network."""

    def __post_init__(self) -> None:
        if self.rnn_layers is None:
            object.__setattr__(self, "rnn_layers", 1 if self.cell == "linear" else 2)

    @property
    def orders_read(self) -> str:
        """What PG-GNN's RNN reads, in a word: its orderings, or the variant; nothing for baselines."""
        if self.name != "pggnn":
            return ""
        return str(self.orderings) if self.aggregation == "arrangements" else self.aggregation


@dataclass(frozen=True)
class OptimConfig:
    """How the weights are found: Adam, and when it slows down and stops."""

    batch_size: int = whole(32, 1)
    """Graphs in a batch; with data.neighbours, nodes."""
    sampling: Literal["shuffle", "draws"] = "shuffle"
    """Each graph once in an epoch; or each batch drawn from all graphs, as the paper's authors do."""
    steps: int | None = whole(None, 1, 10**6)
    """Batches in an epoch of draws; by default as many as a shuffled epoch has."""
    epochs: int = whole(100, 1)
    """Largest number of epochs."""
    lr: float = real(1e-3, POSITIVE)
    """Learning rate at the start."""
    schedule: Literal["plateau", "step", "cosine", "constant"] = "plateau"
    """How the learning rate falls: when validation stops improving; in steps; along a cosine; never."""
    warmup: int = whole(0, 0)
    """Epochs in which the learning rate first rises evenly to optim.lr."""
    factor: float = real(0.5, FACTOR)
    """What the learning rate is multiplied by, on a plateau or at a step."""
    patience: int = whole(20, 0)
    """Epochs without improvement that make a plateau."""
    every: int = whole(50, 1)
    """Epochs between steps."""
    min_lr: float = real(0.0, NOT_NEGATIVE)
    """Training stops when the learning rate falls below this; a cosine ends here."""
    weight_decay: float = real(0.0, NOT_NEGATIVE)
    """Weight decay of Adam (decoupled, as in AdamW)."""
    clip: float | None = real(None, POSITIVE)
    """Largest norm of the gradient; it is clipped above."""
    average: float = real(0.0, PART)
    """Validates, tests and predicts with a moving average of the weights. Each epoch keeps this part of it, such as
    0.9, and less in the first epochs; 0: no average."""
    standardize: bool = False
    """Whether targets of a regression are learned with mean 0 and deviation 1 over the training graphs. Answers and
    figures are in their own unit."""
    loss: Literal["auto", "mse", "mae", "cross_entropy", "bce"] = "auto"
    """By default mean squared error, cross entropy, or binary cross entropy with several labels."""


@dataclass(frozen=True)
class ProtocolConfig:
    """How graphs are split for training, validation and test."""

    kind: Literal["auto", "splits", "random", "scaffold", "folds", "nested"] = "auto"
    """The data set's own splits; a random one (80/10/10), of molecules also by scaffolds, each in one part; the paper's
    cross-validation, which tests in every epoch and reports the best; or nested cross-validation, where part of the
    training graphs chooses the epoch. By default the data set's own splits where it has them, else a random one."""
    folds: int | Literal["given"] = whole(10, 2, 10**4)
    """Folds of a cross-validation, stratified and shuffled with the seed; given: the ten that come with the data
    (10fold_idx)."""
    only: tuple[int, ...] = ()
    """Train only these folds, counted from 0, such as [0,1]; by default all."""
    seeds: tuple[int, ...] = (0,)
    """One training for each seed; figures are mean ± standard deviation over them."""
    metric: list[Metric] = field(default_factory=list)
    """The figure that chooses the epoch and is reported: the first of these that the task has. By default MAE, accuracy
    or average precision."""
    inductive: bool = False
    """Whether training sees the training nodes alone, and the edges between them, where the nodes of a graph are split.
    Validation and test see all."""
    report: Literal["best", "last"] = "best"
    """Test at the epoch with the best validation, or after the last."""

    @property
    def number_of_folds(self) -> int:
        """How many folds there are."""
        return len(FOLDS) if self.folds == "given" else self.folds


@dataclass(frozen=True)
class RunConfig:
    """Where and on what it runs."""

    out: str | None = None
    """Folder of the run; by default runs/DATA-MODEL."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device to train on."""
    precision: Literal["32", "tf32", "bf16", "16", "64"] = "32"
    """Float32; with TF32 or half-precision matrix products; or float64 throughout."""
    deterministic: bool = True
    """The same run twice gives the same numbers."""
    record: bool = True
    """On a GPU: replay training steps as a CUDA graph where batches can be padded to one shape."""
    on: Literal["local", "ray"] = "local"
    """Where folds and seeds are trained: on this machine, or on the nodes of the Ray cluster that RAY_ADDRESS names."""
    jobs: int = whole(0, 0)
    """Folds and seeds trained at once, each in a process; 0 for one per core, or 4 on each GPU. On a Ray cluster 0 is
    for as many as there is room for; more than it has GPUs share them."""
    threads: int = whole(0, 0, 1000)
    """Threads of each training on the CPU; 0 to share the cores between those that run at once, on a Ray cluster for
    1."""
    timeout: int = whole(300, 1, 10**6)
    """Under torchrun: seconds that a process waits for the others in a step, before it takes them for lost."""
    tensorboard: bool = True
    """Whether to write TensorBoard's files beside the log."""
    logger: Literal["none", "csv", "wandb", "mlflow"] = "none"
    """Where else to log epochs: metrics.csv beside the log, Weights & Biases, or MLflow. The last two must be
    installed, and are configured by their environment variables."""

    def __post_init__(self) -> None:
        if not self.here and not self.threads:  # nodes differ, and another number rounds otherwise
            object.__setattr__(self, "threads", 1)

    @property
    def here(self) -> bool:
        """Whether trainings run on this machine."""
        return self.on == "local"


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
            check_ranges(getattr(self, part.name), part.name)
        seeds = self.protocol.seeds
        if not seeds or len(set(seeds)) < len(seeds) or min(seeds) < 0 or max(seeds) >= 2 * LIMIT:
            raise ValueError(
                f"protocol.seeds must be different whole numbers from 0 to {2 * LIMIT - 1}, got {list(seeds)}"
            )
        if self.model.numbering == "given" and self.model.numberings > 1:
            raise ValueError(
                f"model.numberings must be 1 with model.numbering given, got {self.model.numberings}: "
                "choose random, labels or both"
            )
        if self.optim.warmup >= self.optim.epochs:
            raise ValueError(
                f"optim.warmup must be less than optim.epochs, {self.optim.epochs}, got {self.optim.warmup}: "
                "give it too, such as --optim.warmup 0"
            )
        only, folds = self.protocol.only, self.protocol.number_of_folds
        if len(set(only)) < len(only) or not set(only) <= set(range(folds)):
            raise ValueError(f"protocol.only must be different folds from 0 to {folds - 1}, got {list(only)}")

        if min(self.data.neighbours, default=1) < 1:
            raise ValueError(f"data.neighbours must be 1 or more, got {list(self.data.neighbours)}")
        if (given := len(self.data.neighbours)) not in (0, 1, layers := self.model.layers):
            raise ValueError(
                f"data.neighbours must be one number, or one for each of the {layers} aggregations of model.layers, "
                f"got {given}"
            )

    @property
    def fan(self) -> tuple[int, ...]:
        """How many neighbours are sampled at each distance; nothing where all are read."""
        given = self.data.neighbours
        return given * self.model.layers if len(given) == 1 else given

    @property
    def folder(self) -> Path:
        """Where the run is kept."""
        return Path(self.run.out or f"runs/{Path(self.data.name).stem.lower()}-{self.model.name}")

    @property
    def loading(self) -> dict[str, Any]:
        """What :func:`pggnn.data.loading.load` takes beside name and root of the data."""
        data = self.data
        columns = {"target": data.target, "smiles": data.smiles, "skip_invalid": data.skip_invalid}
        columns["scaffolds"] = self.protocol.kind == "scaffold"
        return data.added | {name: value for name, value in columns.items() if value} | data.options


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
