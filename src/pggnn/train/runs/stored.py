"""A run as its folder has it: finished or cut off, with weights or without."""

import json
import shlex
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import Any

from pggnn.baselines.options import MODELS
from pggnn.data.catalogue import lookup
from pggnn.data.schema import Schema
from pggnn.files import write_json
from pggnn.train import packed
from pggnn.train.config import FILE, KEYS, Config
from pggnn.train.engine import log
from pggnn.train.engine.log import Record
from pggnn.train.engine.task import BASELINE, LESS_IS_BETTER, METRIC
from pggnn.train.options import WORDS, defaults, load
from pggnn.train.runs import protocol
from pggnn.train.runs.fitted import is_fitted
from pggnn.train.runs.folder import ENVIRONMENT, PLACES, SCHEMA, SUMMARY, is_run, missing
from pggnn.train.runs.protocol import RunSummary, Trial


@dataclass(frozen=True)
class Run:
    """The contents of a run's folder, or of a packed run.

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
        >>> from pggnn.train.runs.stored import Run
        >>> run = Run.read(out)
        >>> run.name, [len(records) for records in run.logs.values()]
        ('paths', [1])
    """

    folder: Path
    name: str
    """Its name on the page."""
    config: Config
    schema: Schema | None
    machine: dict[str, Any]
    logs: dict[Trial, list[Record]]
    results: dict[Trial, dict[str, Any]]
    """Of the trainings that have ended."""

    @classmethod
    def read(cls, folder: str | Path, config: Config | None = None) -> "Run":
        """Reads a run's folder, all but the config where that is given; what is missing there stays empty."""
        folder = Path(folder)
        if not is_run(folder):
            raise ValueError(f"{folder} is not the folder of a run: there is no {FILE} in it")
        config = config or load(folder)
        results = {one: protocol.load_result(folder / one.name) for one in protocol.trials(config)}
        logs = {one: log.read(folder / one.name) for one in results}
        cut = missing(config)
        return cls(
            folder, folder.resolve().name, config, packed.read_json(folder / SCHEMA, Schema),
            packed.read_json(folder / ENVIRONMENT, dict) or {}, logs,
            {one: result for one, result in results.items() if result is not None and one not in cut},
        )  # fmt: skip

    @property
    def data(self) -> str:
        """The data set's name in the catalogue, or the path of the user's graphs."""
        try:
            return lookup(self.config.data.name)[0]
        except ValueError:
            return self.config.data.name

    @property
    def counted(self) -> str:
        """What is counted in generated graphs."""
        return str(self.config.data.options.get("task", "triangles"))

    @property
    def model(self) -> str:
        """The network, as the paper writes it."""
        return MODELS[self.config.model.name].label

    @property
    def orderings(self) -> str:
        """Which arrangements of neighbours PG-GNN reads."""
        model = self.config.model
        return (model.orders_read if "star" in model.reads else "") or "—"

    @property
    def reads(self) -> str:
        """What PG-GNN reads, if that is more than its neighbours in some order, or less."""
        model = self.config.model
        return " ".join(model.reads) if model.name == "pggnn" and model.reads != ["star"] else ""

    @property
    def complete(self) -> bool:
        """Whether every training has ended."""
        return len(self.results) == len(self.logs)

    @property
    def which(self) -> str:
        """The checkpoint that the figures belong to; the paper's cross-validation comes nearest to its best ones."""
        return "best" if self.config.protocol.kind == "folds" else self.config.protocol.report

    @cached_property
    def figures(self) -> RunSummary | None:
        """The run's figures; of what there is so far where it is not :attr:`complete`."""
        folds = self.config.protocol.kind == "folds"
        if not self.complete or (folds and not all(self.logs.values())):
            stored: RunSummary | None = packed.read_json(self.folder / SUMMARY, RunSummary)
            if stored and (self.complete or not any(self.logs.values())):
                return stored
        per_seed, epochs = [], []
        for seed in self.config.protocol.seeds:
            if folds:
                curves = self._curves(seed)
                epoch, values = protocol.best_common_epoch(curves) if curves else (0, [])
                epochs += [epoch] * bool(curves)
            else:
                tested = [found for trial in self.logs if trial.seed == seed and (found := self.tested(trial))]
                values = [test for _, test in tested]
                epochs += [epoch for epoch, _ in tested]
            per_seed += [values] if values else []
        return self._summarise(per_seed, epochs) if per_seed else None

    @cached_property
    def by_others(self) -> RunSummary | None:
        """The figures of a cross-validation as in the paper, had the *other* folds chosen each fold's epoch.

        None under other protocols, and where fewer than two folds were trained.
        """
        curves = [self._curves(seed) for seed in self.config.protocol.seeds]
        whole = self.config.protocol.kind == "folds" and self.complete and not is_fitted(self.config)
        if not whole or min(map(len, curves)) < 2:
            return None
        chosen = [protocol.choose_by_others(of_seed) for of_seed in curves]
        return self._summarise([values for _, values in chosen], [epoch for epochs, _ in chosen for epoch in epochs])

    @property
    def had_others_chosen(self) -> str:
        """:attr:`by_others` as a sentence; empty where there is none."""
        return f"Had the other folds chosen each fold's epoch: {self.by_others}." if self.by_others else ""

    def _curves(self, seed: int) -> list[dict[int, float]]:
        """Test figures by epoch, of each training of the seed that has some."""
        of_seed = (records for trial, records in self.logs.items() if trial.seed == seed)
        return [curve for records in of_seed if (curve := protocol.curve(records, "test"))]

    def _summarise(self, per_seed: list[list[float]], epochs: list[int]) -> RunSummary:
        means = [statistics.fmean(values) for values in per_seed]
        each = per_seed[0] if len(means) == 1 and self.complete else means
        return RunSummary(self.metric, statistics.fmean(means), protocol.deviation(each), each, epochs)

    def conclude(self, write: bool = True) -> RunSummary:
        """The figures of a run whose trainings have all ended; also written to its folder, unless it is packed."""
        if not self.complete or self.figures is None:
            raise ValueError(f"{self.folder}: {' '.join(self.lacks)}")
        if write and not packed.holds(self.folder):
            write_json(self.folder / SUMMARY, asdict(self.figures))
        return self.figures

    def tested(self, trial: Trial) -> tuple[int, float] | None:
        """The epoch that a training was tested at, and its figure: the latest so far if it has not ended."""
        if trial in self.results:
            result = self.results[trial]
            return result[{"last": "epoch", "best": "best_epoch"}[self.which]], result["test"]
        return next(reversed(protocol.curve(self.logs[trial], "test").items()), None)

    @property
    def metric(self) -> str:
        """Name of the figure that the run reports."""
        named = next((result["metric"] for result in self.results.values()), "")
        return named or (METRIC[str(self.schema.task)] if self.schema else "metric")

    @property
    def lower_is_better(self) -> bool:
        """Whether less of the metric is better."""
        return self.metric in LESS_IS_BETTER

    @property
    def scale(self) -> float:
        """What figures are multiplied by to be shown: accuracies are in per cent."""
        return 100 if self.metric == "accuracy" else 1

    @property
    def unit(self) -> str:
        """The metric and its unit, as a heading."""
        return f"{self.metric}{', %' if self.scale == 100 else ''}"

    def baseline(self, part: str = "test") -> float | None:
        """The metric of an answer that is the same for all; None where it was not measured."""
        found = [result.get("baseline", {}).get(part) for result in self.results.values()]
        return statistics.fmean(found) if found and None not in found else None

    def beside(self, part: str = "test") -> str:
        """:meth:`baseline`, in words; nothing where it is not known."""
        value = self.baseline(part)
        if value is None or self.schema is None:
            return ""
        return f"{BASELINE[str(self.schema.task)]}: {RunSummary(self.metric, value, 0, [value], [])}"

    @property
    def warning(self) -> str:
        """Says so where the figure is not better than :meth:`baseline`."""
        guessed, found = self.baseline(), self.figures
        if guessed is None or found is None or (found.mean < guessed if self.lower_is_better else found.mean > guessed):
            return ""
        return "The network is no better than one answer for all."

    @property
    def seconds(self) -> float | None:
        """Median time of an epoch, evaluation included."""
        times = [record["seconds"] for records in self.logs.values() for record in records]
        return statistics.median(times) if times else None

    @property
    def hardware(self) -> str:
        """What times were measured on; trainings side by side slow each other down."""
        if not self.machine:
            return "—"
        name = str(self.machine.get("gpu") or f"{self.machine.get('cores')} CPU cores")
        return f"{name}, {self.config.run.jobs} trainings at once" if self.config.run.jobs > 1 else name

    @property
    def parameters(self) -> int | None:
        """Number of weights."""
        return next((result["parameters"] for result in self.results.values()), None)

    @property
    def memory(self) -> str:
        """The most memory that one of the trainings took, of the GPU where there was one."""
        found = [result["memory"] for result in self.results.values() if "memory" in result]
        for kind, what in (("gpu", "GPU"), ("ram", "RAM")):
            most = max((one[kind] for one in found), default=0)
            if most:
                return f"{most:,.0f} ({what})"
        return ""

    @property
    def lacks(self) -> list[str]:
        """What the run lacks, in sentences."""
        found = []
        cut = [
            f"{trial.name} (epoch {records[-1]['epoch'] if records else 0} of {self.config.optim.epochs})"
            for trial, records in self.logs.items()
            if trial not in self.results
        ]
        if cut:
            found.append(f"{len(cut)} of {len(self.logs)} trainings have not ended: {', '.join(cut)}.")
        unlogged = [trial.name for trial, records in self.logs.items() if not records and trial in self.results]
        if unlogged:
            found.append(f"There is no log of {', '.join(unlogged)}.")
        lacking = [name for name, there in ((SCHEMA, self.schema), (ENVIRONMENT, self.machine)) if not there]
        return found + [f"There is no {name}." for name in lacking]

    @property
    def options(self) -> dict[str, tuple[Any, Any]]:
        """Value and default of every option but :data:`PLACES`."""
        default = defaults(self.config.data.name)
        values = {key: tuple(_option(config, key) for config in (self.config, default)) for key in KEYS}
        return {key: (value, usual) for key, (value, usual) in values.items() if key not in PLACES}

    @property
    def command(self) -> str:
        """What trains this run again."""
        lines = ["pggnn train"]
        for key, (value, usual) in self.options.items():
            if value != usual:
                lines.append(shlex.join([f"--{key}", *(value if key in WORDS else [as_text(value)])]))
        return " \\\n  ".join(lines)


def find_runs(folder: str | Path) -> list[Path]:
    """The folder itself where it is that of a run, else the folders of all runs below it, packed or not."""
    folder = Path(folder)
    if is_run(folder):
        return [folder]
    found = sorted({*(path.parent for path in folder.rglob(FILE)), *packed.runs_below(folder)})
    if not found:
        why = f"no {FILE} is in it or below it" if folder.exists() else "it does not exist"
        raise ValueError(f"{folder} is not the folder of a run: {why}")
    return found


def read_runs(folders: Sequence[str | Path]) -> list[Run]:
    """The runs in these folders; those of one name are called by their parent folders too."""
    runs = [Run.read(folder) for folder in folders]
    often = Counter(run.name for run in runs)
    return [
        replace(run, name="/".join(run.folder.resolve().parts[-2:])) if often[run.name] > 1 else run for run in runs
    ]


def as_seconds(seconds: float | None) -> str:
    """A time with three digits."""
    if seconds is None:
        return "—"
    return f"{seconds:,.0f}" if seconds >= 1000 else f"{seconds:.3g}"


def as_text(value: Any) -> str:
    """An option's value as the command line takes it."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _option(config: Config, key: str) -> Any:
    value = attrgetter(key)(config)
    return list(value) if isinstance(value, tuple) else value
