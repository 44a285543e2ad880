"""Trained networks: evaluation on graphs with targets, prediction for graphs without."""

import copy
import csv
import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, TextIO, cast

import torch
from rich.console import Console
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.data.collate import collate

from pggnn.baselines.options import MODELS
from pggnn.data import loading
from pggnn.data.batching.collate import Collater, fitting
from pggnn.data.dataset import GraphDataset
from pggnn.data.features.added import AddedFeatures
from pggnn.data.formats.export import save_jsonl
from pggnn.data.formats.tables import CsvTable
from pggnn.data.graphs import Graphs
from pggnn.data.schema import Name, Schema
from pggnn.files import csv_cell, read_json, to_json
from pggnn.nn.init import fold_scales, fold_unit
from pggnn.nn.model import PGGNN, Network
from pggnn.search import TooMany
from pggnn.train import packed
from pggnn.train.config import FILE, Config
from pggnn.train.engine.checkpoint import Checkpoint, load_weights, stored_unit
from pggnn.train.engine.evaluate import compute_outputs, ordered_batches
from pggnn.train.engine.loop import BEST, LAST
from pggnn.train.engine.models import Committee, Scorer, build, lists_for
from pggnn.train.engine.task import NONFINITE, Task, is_finite
from pggnn.train.options import load
from pggnn.train.runs import protocol
from pggnn.train.runs.card import describe_run
from pggnn.train.runs.fitted import is_fitted
from pggnn.train.runs.folder import SCHEMA, check_same
from pggnn.train.runs.protocol import Trial
from pggnn.train.runs.stored import Run

TABLE_OPTIONS = ("smiles", "skip_invalid", "scaffolds")
"""Options of a CSV file that later ones are read with, too."""
GraphSource = str | Path | Iterable[Data]
"""A file, a folder or the name of a data set; or the graphs themselves."""
NOTE = "not finite"
"""The note of a row whose answer is NaN or infinite."""


def device() -> str:
    """The device of trained networks."""
    return "cuda" if torch.cuda.is_available() else "cpu"


@dataclass(frozen=True)
class Trained:
    """The networks of a run: one for each seed and fold. Their outputs are averaged.

    Example:
        >>> from pathlib import Path
        >>> from tempfile import mkdtemp
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from pggnn import fit, load
        >>> edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> graphs = [Data(x=torch.tensor([i % 2, 1, 1]), edge_index=edges, y=torch.tensor([i % 2])) for i in range(20)]
        >>> out = Path(mkdtemp()) / "paths"
        >>> _ = fit(graphs, epochs=1, out=out, model={"hidden": 4, "layers": 1, "cell": "linear"}, run={"jobs": 1})
        >>> trained = load(out)
        >>> trained.predict(graphs[:1])[0]["prediction"] in trained.schema.classes
        True
    """

    config: Config
    schema: Schema
    """What the graphs are like: task, classes, labels, features."""
    scorers: dict[Trial, Scorer]

    @property
    def folder(self) -> Path:
        """That of the run."""
        return self.config.folder

    @property
    def model(self) -> torch.nn.Module:
        """A copy of the network, where there is one, with scores in the unit of the targets. Of several trainings,
        ``load("RUN/seed0/fold3").model`` is one."""
        if len(self.scorers) > 1:
            names = [trial.name for trial in self.scorers]
            raise ValueError(
                f"{self.folder} has {len(names)} networks: choose one, such as load({str(self.folder / names[0])!r})"
            )
        scorer = next(iter(self.scorers.values()))
        network = copy.deepcopy(scorer.network)
        for one in network.networks if isinstance(network, Committee) else [network]:
            fold_scales(cast(Network, one))
            if scorer.mean is not None:
                fold_unit(cast(Network, one), cast(Tensor, scorer.deviation), scorer.mean)
        if isinstance(network, PGGNN):
            network.card = describe_run(Run.read(self.folder))
        return network

    @property
    def metrics(self) -> dict[str, Any]:
        """The figures of the run on its test graphs. They are the metric's name, mean, deviation and each value;
        ``baseline`` is that of one answer for all graphs."""
        run = Run.read(self.folder)
        return asdict(run.figures) | {"baseline": run.baseline()} if run.figures else {}

    def predict(self, graphs: GraphSource, **options: Any) -> list[dict[str, Any]]:
        """A row for each graph, or node: ``prediction``, and the probability of each class.

        Args:
            graphs: A list of PyG's ``Data``, a data set, or a file as for ``pggnn predict``.
            options: Of a CSV file: ``smiles="column"``, ``skip_invalid=True``.
        """
        if options and not isinstance(graphs, (str, Path)):
            raise ValueError(f"{' and '.join(options)} is for a CSV file, got graphs in memory")
        return list(
            predict(self, self.read_new(graphs, **options) if isinstance(graphs, (str, Path)) else self.take(graphs))
        )

    def score(self, graphs: GraphSource) -> float:
        """The metric over graphs with targets: accuracy, mean absolute error, or average precision."""
        found = Graphs.of(self.take(graphs))
        if "y" not in found.node | found.graph:
            raise ValueError("the graphs have no targets y to score the answers by")
        return self.task.measure(*self.answers(self.collater(found)))[self.task.metric]

    def take(self, graphs: GraphSource) -> GraphDataset:
        """Graphs of any source, read as those that the networks were trained on."""
        if isinstance(graphs, (str, Path)):
            return self.read(graphs)
        added = AddedFeatures(**self.config.data.added)
        expected = added.remove_from(self.schema)
        listed = list(graphs)
        if not listed:
            raise ValueError("there are no graphs: expected a list of PyG's Data, a data set or a file")
        if any(isinstance(one.x, Tensor) != bool(expected.in_channels) for one in listed):
            raise ValueError(f"the networks read {expected.in_channels} features of each node in x, got {listed[0]}")
        if not all(
            one.x is None or (one.x.is_floating_point() and one.x.size(-1) == expected.in_channels) for one in listed
        ):
            with TemporaryDirectory() as folder:  # labels, which have to be looked up
                return self.read(save_jsonl(listed, Path(folder) / "graphs.jsonl"))
        data, slices, _ = collate(Data, listed, increment=False, add_batch=False)
        found = Graphs.of(SimpleNamespace(_data=data, slices=slices, schema=expected))
        return GraphDataset(found.checked("the graphs")).with_features(added)

    def collater(self, graphs: Graphs) -> Collater:
        """Graphs for evaluation, on the networks' device if they fit there."""
        place = "cpu" if self.config.data.neighbours else fitting(graphs, device())
        try:
            return Collater(graphs, place, lists_for(self.config, graphs, Console(stderr=True)))
        except TooMany as error:
            raise TooMany(error.found, f"leave that graph out, or train networks for it: {error.advice}") from None

    @property
    def task(self) -> Task:
        """What the outputs mean."""
        return Task(self.schema, self.config.optim.loss, tuple(self.config.protocol.metric))

    @classmethod
    def load(cls, folder: str | Path, which: str = "best") -> "Trained":
        """The networks of a run, or of one training in it (``RUN/seed0/fold3``).

        Args:
            folder: The folder of the run, or of a training in it.
            which: ``"best"`` or ``"last"`` checkpoint of each.
        """
        folder = Path(folder).resolve()
        run = next((one for one in (folder, *folder.parents) if (one / FILE).is_file()), None)
        if run is None:
            if packed.holds(folder):
                again = f"pggnn train --config {folder} --run.out NEW trains it again"
                raise ValueError(f"there is no trained network in {folder}: a packed run keeps none; {again}")
            below = ", ".join(sorted(one.parent.name for one in folder.glob(f"*/{FILE}"))[:5])
            others = f", but there are runs below it: {below}" if below else ""
            why = f"there is no {FILE} in it{others}" if folder.exists() else "it does not exist"
            raise ValueError(f"{folder} is not the folder of a run: {why}")
        config, schema = load(run), read_json(run / SCHEMA, Schema)
        if is_fitted(config):
            raise ValueError(f"{run} is a {MODELS[config.model.name].label} run, which keeps figures and no network")
        if schema is None:
            raise ValueError(f"{run} is not whole: there is no {SCHEMA} in it")
        scorers = {}
        for trial in protocol.trials(config):
            path = run / trial.name / {"best": BEST, "last": LAST}[which]
            if not path.is_relative_to(folder) or not path.exists():
                continue
            network = build(config.model, schema).to(torch.double if config.run.precision == "64" else torch.float)
            found = Checkpoint.load(path)
            load_weights(network, found.average or found.weights, path)
            unit = stored_unit(found.state, schema.out_channels, path)
            scorers[trial] = Scorer(network, config.model.edge_features, unit).to(device()).eval()
        if not scorers:
            raise ValueError(f"there is no trained network in {folder}: train it first, or go on with --resume")
        return cls(config, schema, scorers)

    def read(self, path: str | Path, **options: Any) -> GraphDataset:
        """Graphs of a file or data set, read as those that the networks were trained on. Further options are those of
        CSV files."""
        known = self.config.loading
        if loading.is_own(path):
            own = {"schema": self.schema} | options
            if loading.is_table(path):
                own = {name: value for name, value in known.items() if name in TABLE_OPTIONS} | own
            known = self.config.data.added | own
        elif options:
            raise ValueError(f"{path} has no option {' or '.join(options)}: it is no CSV file")
        dataset = loading.load(path, self.config.data.root, **known)
        for what in ("in_channels", "edge_dim", "level", "flow", "node_labels", "edge_labels"):
            ours, theirs = getattr(self.schema, what), getattr(dataset.schema, what)
            if ours != theirs and not (what == "level" and theirs is None):
                theirs, ours = (_some(value) if isinstance(value, tuple) else value for value in (theirs, ours))
                raise ValueError(f"{path}: {what} is {theirs}, but the networks were trained with {ours}")
        return dataset

    def read_new(self, path: str | Path, **options: Any) -> GraphDataset:
        """Graphs to answer for: targets that a CSV file may have are not looked at."""
        return self.read(path, **({"target": None} if loading.is_table(path) else {}), **options)

    def answers(
        self, collater: Collater, index: Tensor | None = None, trials: list[Trial] | None = None, targets: bool = True,
        by_node: bool = False,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """Mean outputs of the networks for the given graphs, probabilities of classes or values, and the targets; for
        the given nodes if ``by_node``."""
        outputs, expected = self.outputs(collater, index, trials, targets, by_node)
        return outputs.mean(0), expected

    def outputs(
        self, collater: Collater, index: Tensor | None = None, trials: list[Trial] | None = None, targets: bool = True,
        by_node: bool = False,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """The same of each network, ``[networks, N, C]``."""
        chosen = [self.scorers[trial] for trial in trials or self.scorers]
        batches = ordered_batches(
            collater, self.config.optim.batch_size, index, by_node=by_node, neighbours=self.config.fan
        )
        place = next(chosen[0].parameters()).device
        outputs, expected = compute_outputs(chosen, self.task, batches, place, targets)
        return outputs.cpu(), expected.cpu()


def evaluate(folder: str | Path, data: str | None = None, split: str | None = None, which: str = "best") -> Any:
    """The metrics of each trial of a run, on its own test graphs or on other graphs; yields trials and figures.

    An answer that is not finite counts as wrong; ``"nonfinite"`` then lists the names of such graphs.
    """
    trained = Trained.load(folder, which)
    task, name = trained.task, data or trained.config.data.name
    dataset = trained.read(name)
    if dataset.schema.classes != trained.schema.classes:
        raise ValueError(
            f"{name}: classes {_some(dataset.schema.classes)}, "
            f"but the networks were trained with {_some(trained.schema.classes)}"
        )
    theirs, ours = dataset.schema.out_channels, trained.schema.out_channels
    if dataset.schema.task is not None and theirs != ours:
        raise ValueError(f"{name}: {theirs} targets each, but the networks were trained with {ours}")
    graphs = Graphs.of(dataset)
    splits, sampled = graphs.splits or graphs.node_splits, bool(trained.config.data.neighbours)
    if data is not None and split is not None and split not in splits:
        raise ValueError(f"{data} has no split {split}; leave --split out to evaluate on all its graphs")
    if data is None:
        check_same(trained.config, graphs)
    if "y" not in graphs.node | graphs.graph:
        raise ValueError(f"{name}: the graphs have no targets to evaluate against; pggnn predict needs none")
    collater = trained.collater(graphs)
    for trial in trained.scorers:
        if data is None:
            found = protocol.split(trained.config, graphs, trial)
            index, by_node = getattr(found, split or "test"), found.by_node
            if index is None:
                raise ValueError(f"this run has no split {split}: cross-validation trains and tests only")
        else:
            by_node = sampled or bool(split and graphs.node_splits)
            known = graphs.known_targets(by_node) > 0
            index = splits[split] if split else torch.arange(len(known))
            index = index[known[index]]
            if not len(index):
                raise ValueError(f"{name}: no target is known, so there is nothing to evaluate against")
        outputs, targets = trained.answers(collater, index, [trial], by_node=by_node)
        measured: dict[str, Any] = task.measure(outputs, targets)
        figures = {task.metric: measured[task.metric]} | measured  # the run's own comes first
        if data is None:
            guess = task.guess(task.targets(graphs.targets(found.train, found.by_node)))
            figures["baseline"] = task.baseline(guess, targets)[task.metric]
        graph = collater.graph_of_node[index] if by_node else index
        if trained.schema.level == "node" and not by_node:
            graph = graph.repeat_interleave(collater.counts[0].cpu()[index])
        lost = graph[~is_finite(outputs)].unique().tolist()
        if lost:
            figures[NONFINITE] = [dataset.ids[i] if dataset.ids else i for i in lost]
        yield trial, figures


def predict(trained: Trained, dataset: GraphDataset) -> Iterator[dict[str, Any]]:
    """One row for each graph, or for each node where nodes have targets. Where an answer is not finite, it is None, and
    ``"note"`` says so. Of several networks the row has the deviation of their answers, too. Rows of a table have all
    its columns, also those that no graph could be made of."""
    collater = trained.collater(Graphs.of(dataset))
    outputs, _ = trained.outputs(collater, targets=False, by_node=bool(trained.config.data.neighbours))
    spread = outputs.std(0, unbiased=False) if len(outputs) > 1 else outputs[0, :, :0]
    answers = (_answer(trained, *rows) for rows in zip(outputs.mean(0).tolist(), spread.tolist(), strict=True))
    if dataset.table is not None:
        yield from _complete(dataset, dataset.table, answers)
        return
    names = dataset.ids or range(len(collater.graphs))
    places: list[dict[str, Any]] = [{"graph": name} for name in names]
    if trained.schema.level == "node":
        counts = collater.counts[0].tolist()
        places = [row | {"node": i} for row, nodes in zip(places, counts, strict=True) for i in range(nodes)]
    for place, answer in zip(places, answers, strict=True):
        yield place | answer


def _complete(dataset: GraphDataset, table: CsvTable, answers: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The rows of a table with their answers, and with the reason where there is none."""
    first = next(answers)
    if taken := [name for name in first if name in table.header]:
        raise ValueError(f"{table.path} has a column {taken[0]!r} already: rename it, since an answer goes there")
    every = chain([first], answers)
    for number, cells in enumerate(table.rows):
        why = dataset.left_out.get(number)
        answer = next(every) if why is None else dict.fromkeys(first) | {"note": why}
        yield dict(zip(table.header, cells, strict=True)) | answer


def write(rows: Iterator[dict[str, Any]], file: TextIO, form: str) -> tuple[int, list[Name]]:
    """Writes rows as ``"csv"`` or ``"jsonl"``; returns how many, and the graphs whose answers are not finite."""
    count = 0
    lost: dict[Name, None] = {}
    writer = csv.writer(file, lineterminator="\n")
    for count, row in enumerate(rows, start=1):
        if row["note"] == NOTE:
            lost[row.get("graph", f"row {count}")] = None
        if form == "jsonl":
            file.write(to_json(row) + "\n")
            continue
        if count == 1:
            writer.writerow(map(csv_cell, row))
        writer.writerow(map(csv_cell, row.values()))
    return count, [*lost]


def _answer(trained: Trained, row: list[float], spread: list[float]) -> dict[str, Any]:
    """An answer by the names of its columns; ``spread`` is empty of a single network."""
    if trained.task.kind == "classification":
        classes = trained.schema.classes
        best = max(range(len(row)), key=row.__getitem__)
        known = {"prediction": classes[best]} | {
            f"p({name})": round(p, 6) for name, p in zip(classes, row, strict=True)
        }
        known |= {"spread": _short(spread[best])} if spread else {}
    else:
        names = [f" {name}" for name in trained.schema.targets or range(len(row))] if len(row) > 1 else [""]
        known = {f"prediction{name}": _short(value) for name, value in zip(names, row, strict=True)}
        known |= {f"spread{name}": _short(value) for name, value in zip(names, spread, strict=False)}
    if all(map(math.isfinite, row)):
        return known | {"note": None}
    return dict.fromkeys(known) | {"note": NOTE}


def _short(value: float) -> float:
    """The digits that float32 has."""
    return float(f"{value:.7g}")


def _some(labels: tuple[Any, ...]) -> str:
    shown = ", ".join(map(str, labels[:8]))
    return f"{shown}, …" if len(labels) > 8 else shown or "none"
