"""Candidates, ranked by validation alone: what ``pggnn tune`` and ``pggnn reproduce search`` have in common.

No test figure is read here. Where graphs are cross-validated, the figure is the mean over the folds at the epoch where
that is best; otherwise the mean of the best that each training reached.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console

from pggnn.console import tell
from pggnn.files import to_json, write_text
from pggnn.train.config import Config, DataConfig, as_yaml, difference, plain
from pggnn.train.engine import log
from pggnn.train.engine.task import METRIC
from pggnn.train.options import load, parse
from pggnn.train.runs import protocol
from pggnn.train.runs.folder import CIRCUMSTANCES, is_run, missing
from pggnn.train.runs.run import Failed
from pggnn.train.sweeps.keys import Key, Options, choose, slug
from pggnn.train.sweeps.sweep import keep_published, share_cores, train_missing


@dataclass(frozen=True)
class Search:
    """What is tried on a data set."""

    given: Options
    """Options of all candidates, for instance ``("--config", "zinc")``."""
    candidates: dict[str, Options]
    """What each has otherwise."""
    protocol: Options = ()
    """How validation figures come about, if not as the options say."""
    name: str = ""
    """Of the folder below which the runs are kept."""

    def config(self, candidate: str, *more: str) -> Config:
        """The config of a candidate."""
        return parse([*self.given, *self.candidates[candidate], *more])[0]

    def folder(self, out: Path, candidate: str) -> Path:
        """Where the run of a candidate is kept."""
        return out / self.name / slug(candidate)


@dataclass(frozen=True)
class Candidate:
    """A candidate and its validation figure, over folds and seeds."""

    name: str
    data: str
    metric: str
    mean: float
    std: float
    epoch: float
    """The epoch that validation chose; the mean where each training has its own."""
    trainings: int
    seconds_per_epoch: float
    options: Options
    late: float
    """The mean over the second half of the epochs: the luck of one epoch has no part in it."""
    otherwise: tuple[str, ...] = ()
    """Where it was run with others than these."""

    @property
    def loss(self) -> float:
        """The figure, turned so that less is better; NaN is worse than any."""
        if math.isnan(self.mean):
            return math.inf
        return self.mean if self.metric == METRIC["regression"] else -self.mean

    def __str__(self) -> str:
        return self._figure(self.mean, self.std if self.trainings > 1 else None)

    @property
    def late_figure(self) -> str:
        """:attr:`late`, to be shown."""
        return self._figure(self.late, None)

    def _figure(self, mean: float, std: float | None) -> str:
        scale, digits = (100, 1) if self.metric == "accuracy" else (1, 4)
        return protocol.figure(mean * scale, None if std is None else std * scale, digits)


def rank(
    title: str,
    searches: dict[str, Search],
    out: Path,
    only: Sequence[str] = (),
    jobs: int = 0,
    more: Options = (),
    console: Console | None = None,
    until: float = math.inf,
) -> list[Candidate]:
    """Trains what is missing of the candidates, and returns those that have ended, the best of each data set first.

    Args:
        title: What the search is called.
        searches: What is tried on each data set.
        out: Folder of the runs; what is there already is not run again, and is ranked too.
        only: Candidates and data sets to run, see :func:`pggnn.train.sweeps.keys.choose`.
        jobs: Trainings at once; 0 for one per core.
        more: Further options of ``pggnn train``, for all runs.
        console: Where to show progress.
        until: When to stop, as ``time.time()`` counts, after whole epochs; the same call goes on.
    """
    jobs, given = share_cores(jobs)
    configs: dict[Key, Config] = {}
    folders = {(name, data): one.folder(out, name) for data, one in searches.items() for name in one.candidates}
    for name, data in choose(title, folders, only):
        one, place = searches[data], ("--run.out", str(folders[name, data]))
        configs[name, data] = one.config(name, *one.protocol, *given, *more, *place)
    configs = keep_published(configs, more)
    console = console or Console(stderr=True)
    try:
        train_missing(title, configs, jobs, console, until, tested=False)
    except Failed as error:  # of some candidates; the others are ranked
        if all(missing(config) for config in configs.values()):
            raise
        tell(console, f"{title}: {error}; left out of the table")
    configs |= {key: load(folder) for key, folder in folders.items() if key not in configs and is_run(folder)}
    done = [measure(key, searches[key[1]], config) for key, config in configs.items() if not missing(config)]
    return sorted(done, key=lambda one: (list(searches).index(one.data), one.loss))


def measure(key: Key, search: Search, config: Config) -> Candidate:
    """The validation figure of a run that has ended; under cross-validation at the best epoch for all folds."""
    folders = [config.folder / member.name for member in protocol.members(config)]
    results = [result for folder in folders if (result := protocol.load_result(folder)) is not None]
    values = [math.nan if result["val"] is None else result["val"] for result in results]
    epochs = [result["best_epoch"] for result in results]
    logs = [log.read(folder) for folder in folders]
    if config.protocol.kind in protocol.CROSS_VALIDATION:
        epoch, values = protocol.best_common_epoch([protocol.curve(records, "val") for records in logs])
        epochs = [epoch]
    seconds = statistics.median(record["seconds"] for records in logs for record in records)
    late = statistics.fmean(record["val"] for records in logs for record in records[len(records) // 2 :])
    own = search.config(key[0], *search.protocol)
    return Candidate(
        *key, results[0]["metric"], statistics.fmean(values), protocol.deviation(values), statistics.fmean(epochs),
        len(folders), seconds, search.candidates[key[0]], late,
        tuple(difference(config, own, (*CIRCUMSTANCES, "protocol.seeds"))),
    )  # fmt: skip


def write(ranked: list[Candidate], path: Path) -> None:
    """The candidates as a Markdown table, and as JSON beside it."""
    lines = [
        "# Candidates by validation",
        "",
        "| data | candidate | validation | second half | trainings | epoch | s/epoch | options |",
        "| --- | --- | --: | --: | --: | --: | --: | --- |",
    ]
    for one in ranked:
        options = f"`{' '.join(one.options)}`" if one.options else ""
        lines.append(
            f"| {one.data} | {one.name} | {one} | {one.late_figure} | {one.trainings} | {one.epoch:.0f} "
            f"| {one.seconds_per_epoch:.2f} | {options} |"
        )
    lines += [
        "",
        "- Second half: the mean over the later half of the epochs, in which the luck of one epoch has no part.",
        "- No test figure was read for this.",
    ]
    for otherwise in dict.fromkeys(one.otherwise for one in ranked if one.otherwise):
        of = dict.fromkeys(one.data for one in ranked if one.otherwise == otherwise)
        lines.append(f"- {', '.join(of)}: {'; '.join(otherwise)}.")
    write_text(path, "\n".join([*lines, ""]))
    listed = to_json([asdict(one) for one in ranked], indent=2)
    write_text(path.with_suffix(".json"), listed + "\n")


def write_config(one: Candidate, search: Search, tried: int, command: str, path: Path) -> None:
    """The config of the best candidate: what differs from the defaults, and the protocol to run it by."""
    ours, usual = plain(search.config(one.name)), plain(Config(DataConfig("")))
    kept = {
        part: {key: value for key, value in ours[part].items() if value != usual[part][key]}
        for part in ("data", "model", "optim", "protocol")
    }
    said = f"# {one.data}, chosen by validation: {one.metric} {one} over {one.trainings}, the best of "
    said += f"{tried} candidates.\n# {command}\n"
    said += "".join(f"# In the search: {text}\n" for text in one.otherwise)
    write_text(path, said + as_yaml(kept, flow=None))
