"""A run as its folder has it: finished or cut off, with weights or without."""

import json
import shlex
import statistics
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pggnn.data.catalogue import CATALOGUE, is_own, lookup
from pggnn.data.schema import Schema
from pggnn.train import log, protocol
from pggnn.train.config import FILE, KEYS, Config, DataConfig
from pggnn.train.log import Record
from pggnn.train.options import load
from pggnn.train.protocol import CROSS_VALIDATION, Member, Summary
from pggnn.train.run import ENVIRONMENT, SCHEMA, SUMMARY, missing
from pggnn.train.task import METRIC

PLACES = ("run.out", "data.root")
"""Options that only say where things lie on one machine; a page that is passed on leaves them out."""
MODELS = {"pggnn": "PG-GNN", "gin": "GIN", "gcn": "GCN"}


@dataclass(frozen=True)
class Run:
    """What a run's folder tells."""

    folder: Path
    config: Config
    schema: Schema | None
    machine: dict[str, Any]
    logs: dict[Member, list[Record]]
    results: dict[Member, dict[str, Any]]
    """Of the trainings that have ended."""

    @classmethod
    def read(cls, folder: str | Path) -> "Run":
        """Reads a run's folder; whatever of it is not there yet, or any more, stays empty."""
        folder = Path(folder)
        if not (folder / FILE).is_file():
            raise ValueError(f"{folder} is not the folder of a run: there is no {FILE} in it")
        config = load(folder)
        members, cut = protocol.members(config), missing(config)
        results = {member: _json(folder / member.name / protocol.RESULT) for member in members if member not in cut}
        schema = _json(folder / SCHEMA)
        return cls(
            folder, config, Schema.from_json(json.dumps(schema)) if schema else None, _json(folder / ENVIRONMENT) or {},
            {member: log.read(folder / member.name) for member in members}, results,
        )  # fmt: skip

    @property
    def name(self) -> str:
        """How the page calls it."""
        return self.folder.resolve().name

    @property
    def data(self) -> str:
        """The data set's name in the catalogue, or the path of one's own graphs."""
        own = is_own(self.config.data.name) or not _is_known(self.config.data.name)
        return self.config.data.name if own else lookup(self.config.data.name)[0]

    @property
    def model(self) -> str:
        """The network, as the paper writes it."""
        return MODELS[self.config.model.name]

    @property
    def orderings(self) -> str:
        """Which arrangements of neighbours PG-GNN reads."""
        return str(self.config.model.orderings) if self.config.model.name == "pggnn" else "—"

    @property
    def complete(self) -> bool:
        """Whether every training has ended."""
        return len(self.results) == len(self.logs)

    @cached_property
    def figures(self) -> Summary | None:
        """The run's figures; of what there is so far where it is not :attr:`complete`."""
        if self.complete:
            return protocol.summarise(self.config, self.folder)
        stored = _json(self.folder / SUMMARY)
        if stored and not any(self.logs.values()):
            return Summary(**stored)
        return self._figures_so_far()

    @property
    def metric(self) -> str:
        """Name of the figure that the run reports."""
        named = next((result["metric"] for result in self.results.values()), "")
        return named or (METRIC[str(self.schema.task)] if self.schema else "metric")

    @property
    def scale(self) -> float:
        """What figures are multiplied by to be shown: accuracies are in per cent."""
        return 100 if self.metric == "accuracy" else 1

    @property
    def seconds(self) -> float | None:
        """Median time of an epoch, evaluation included."""
        times = [record["seconds"] for records in self.logs.values() for record in records]
        return statistics.median(times) if times else None

    @property
    def parameters(self) -> int | None:
        """Number of weights."""
        return next((result["parameters"] for result in self.results.values()), None)

    @property
    def lacks(self) -> list[str]:
        """What the run lacks, in sentences."""
        found = []
        cut = [
            f"{member.name} (epoch {records[-1]['epoch'] if records else 0} of {self.config.optim.epochs})"
            for member, records in self.logs.items()
            if member not in self.results
        ]
        if cut:
            found.append(f"{len(cut)} of {len(self.logs)} trainings have not ended: {', '.join(cut)}.")
        unlogged = [member.name for member, records in self.logs.items() if not records and member in self.results]
        if unlogged:
            found.append(f"There is no log of {', '.join(unlogged)}.")
        lacking = [name for name, there in ((SCHEMA, self.schema), (ENVIRONMENT, self.machine)) if not there]
        return found + [f"There is no {name}." for name in lacking]

    @property
    def options(self) -> dict[str, tuple[Any, Any]]:
        """Value and default of every option but :data:`PLACES`."""
        default = Config(DataConfig(""))
        values = {key: tuple(_option(config, key) for config in (self.config, default)) for key in KEYS}
        return {key: (value, usual) for key, (value, usual) in values.items() if key not in PLACES}

    @property
    def command(self) -> str:
        """What trains this run again."""
        lines = ["pggnn train"]
        for key, (value, usual) in self.options.items():
            if value != usual:
                text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
                lines.append(shlex.join([f"--{key}", text]))
        return " \\\n  ".join(lines)

    def _figures_so_far(self) -> Summary | None:
        each, epochs = [], []
        for seed in self.config.protocol.seeds:
            known = {
                member: [record for record in records if "test" in record]
                for member, records in self.logs.items()
                if member.seed == seed
            }
            known = {member: records for member, records in known.items() if records or member in self.results}
            if not known:
                continue
            if self.config.protocol.kind == "folds":
                curves = [[record["test"] for record in records] for records in known.values()]
                epoch, values = protocol.best_common_epoch(curves)
                epochs.append(epoch)
            else:
                values = [self._test_so_far(member, records) for member, records in known.items()]
                epochs += [records[-1]["epoch"] for records in known.values() if records]
            each.append(statistics.fmean(values))
        return Summary(self.metric, statistics.fmean(each), statistics.pstdev(each), each, epochs) if each else None

    def _test_so_far(self, member: Member, records: list[Record]) -> float:
        return float(self.results[member]["test"] if member in self.results else records[-1]["test"])


def describe_protocol(config: Config, kind: str) -> str:
    """How the figure came about, in sentences.

    Args:
        config: The run's.
        kind: Its protocol, with ``"auto"`` resolved where that is known.
    """
    folds = config.protocol.folds
    if kind == "folds":
        return (
            f"{folds}-fold cross-validation as in the paper: the mean over the test folds at the epoch where that mean "
            "is best. The choice of the epoch has seen the test folds, so the figure flatters; nested cross-validation "
            "chooses without them."
        )
    last = config.protocol.report == "last"
    when = "after the last epoch" if last else "at the epoch with the best validation figure"
    if kind == "nested":
        return (
            f"Nested {folds}-fold cross-validation: in each fold a tenth of the training graphs validates, and the "
            f"test fold, which no choice has seen, is measured {when}."
        )
    parts = {
        "splits": "The data set's own splits",
        "random": "A random split for each seed: 80 % of the graphs train, 10 % validate, 10 % test",
    }
    return f"{parts.get(kind, 'The own splits of the graphs, or random ones if they have none')}. Test {when}."


def describe_spread(run: Run) -> str:
    """What the mean and the deviation are taken over."""
    seeds = [str(seed) for seed in run.config.protocol.seeds]
    named = f"seed{'s' * (len(seeds) > 1)} {', '.join(seeds)}"
    if run.config.protocol.kind not in CROSS_VALIDATION:
        return named
    return f"{run.config.protocol.folds} folds, {named}" + (", ± over the seeds" if len(seeds) > 1 else "")


def guess_kind(run: Run) -> str:
    """The protocol without a look at the graphs; ``"auto"`` where it depends on them."""
    if run.config.protocol.kind != "auto" or run.data not in CATALOGUE:
        return run.config.protocol.kind
    return "random" if CATALOGUE[run.data].archive else "splits"


def _option(config: Config, key: str) -> Any:
    part, name = key.split(".")
    value = getattr(getattr(config, part), name)
    return list(value) if isinstance(value, tuple) else value


def _is_known(name: str) -> bool:
    try:
        return bool(lookup(name))
    except ValueError:
        return False


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text()) if path.exists() else None
    except ValueError as error:
        raise ValueError(f"{path} is not valid JSON: {error}") from None
