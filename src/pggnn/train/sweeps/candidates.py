"""Candidates, ranked by validation: shared by ``pggnn tune`` and ``pggnn reproduce search``.

No test figure is read. Under cross-validation the figure is the mean over the folds at the best common epoch, otherwise
the mean of the best epoch of each training.
"""

import math
import statistics
from dataclasses import asdict, dataclass
from pathlib import Path

from pggnn.console import tell
from pggnn.files import markdown_table, write_json, write_text
from pggnn.train.config import Config, DataConfig, as_yaml, difference, plain
from pggnn.train.engine.task import LESS_IS_BETTER
from pggnn.train.options import parse
from pggnn.train.runs import protocol
from pggnn.train.runs.folder import CIRCUMSTANCES, missing
from pggnn.train.runs.run import Failed
from pggnn.train.runs.stored import Run
from pggnn.train.sweeps.keys import Arguments, RunKey, select_runs, slug
from pggnn.train.sweeps.sweep import Sweep, keep_published, read_ended, train_missing


@dataclass(frozen=True)
class Search:
    """The candidates for a data set."""

    given: Arguments
    """Options of all candidates, for instance ``("--config", "zinc")``."""
    candidates: dict[str, Arguments]
    """Further options of each."""
    protocol: Arguments = ()
    """Options of the protocol in the search, where it differs."""
    name: str = ""
    """Name of the folder for the runs."""

    def config(self, candidate: str, *more: str) -> Config:
        """The config of a candidate."""
        return parse([*self.given, *self.candidates[candidate], *more])[0]

    def folder(self, out: Path, candidate: str) -> Path:
        """The folder of a candidate's run."""
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
    options: Arguments
    late: float
    """The mean over the second half of the epochs, where no epoch is chosen."""
    beside: str = ""
    """The figure of an answer that is the same for all, in words."""
    otherwise: tuple[str, ...] = ()
    """Options of the run that differ from these."""

    @property
    def loss(self) -> float:
        """The figure, with the sign for which less is better; infinite for NaN."""
        if math.isnan(self.mean):
            return math.inf
        return self.mean if self.metric in LESS_IS_BETTER else -self.mean

    def __str__(self) -> str:
        return self._figure(self.mean, self.std if self.trainings > 1 else None)

    @property
    def late_figure(self) -> str:
        """:attr:`late`, to be shown."""
        return self._figure(self.late, None)

    def _figure(self, mean: float, std: float | None) -> str:
        scale, digits = (100, 1) if self.metric == "accuracy" else (1, 4)
        return protocol.figure(mean * scale, None if std is None else std * scale, digits)


def rank(title: str, searches: dict[str, Search], out: Path, sweep: Sweep) -> list[Candidate]:
    """Trains the candidates, and returns those that have ended, the best of each data set first.

    Args:
        title: Name of the search.
        searches: The candidates of each data set.
        out: Folder of the runs; those that are there already are ranked too.
        sweep: Which candidates and data sets to run, and how.
    """
    configs: dict[RunKey, Config] = {}
    folders = {(name, data): one.folder(out, name) for data, one in searches.items() for name in one.candidates}
    for name, data in select_runs(title, folders, sweep.only):
        one, place = searches[data], ("--run.out", str(folders[name, data]))
        configs[name, data] = sweep.share(one.config(name, *one.protocol, *sweep.more, *place))
    configs = keep_published(configs, sweep.more)
    try:
        train_missing(title, configs, sweep, tested=False)
    except Failed as error:  # of some candidates; the others are ranked
        if all(missing(config) for config in configs.values()):
            raise
        tell(sweep.console, f"{title}: {error}; left out of the table")
    done = [measure(key, searches[key[1]], run) for key, run in read_ended(folders).items()]
    return sorted(done, key=lambda one: (list(searches).index(one.data), one.loss))


def measure(key: RunKey, search: Search, run: Run) -> Candidate:
    """The validation figure of a run that has ended; under cross-validation at the best epoch for all folds."""
    results, logs = run.results.values(), run.logs.values()
    values = [math.nan if result["val"] is None else result["val"] for result in results]
    epochs = [result["best_epoch"] for result in results]
    if run.config.protocol.kind in protocol.CROSS_VALIDATION:
        epoch, values = protocol.best_common_epoch([protocol.curve(records, "val") for records in logs])
        epochs = [epoch]
    late = statistics.fmean(record["val"] for records in logs for record in records[len(records) // 2 :])
    own = search.config(key[0], *search.protocol)
    assert run.seconds is not None
    return Candidate(
        *key, run.metric, statistics.fmean(values), protocol.deviation(values), statistics.fmean(epochs),
        len(logs), run.seconds, search.candidates[key[0]], late, run.beside("val"),
        tuple(difference(run.config, own, (*CIRCUMSTANCES, "protocol.seeds"))),
    )  # fmt: skip


def write(ranked: list[Candidate], path: Path) -> None:
    """The candidates as a Markdown table, and as JSON beside it."""
    rows = [
        (one.data, one.name, one, one.late_figure, one.trainings, f"{one.epoch:.0f}", f"{one.seconds_per_epoch:.2f}",
         f"`{' '.join(one.options)}`" if one.options else "")
        for one in ranked
    ]  # fmt: skip
    headings = ("data", "candidate", "validation", "second half", "trainings", "epoch", "s/epoch", "options")
    notes = [
        "Second half: the mean over the second half of the epochs, where no epoch is chosen.",
        "No test figure was read for this.",
    ]
    notes += dict.fromkeys(f"{one.data}, {one.beside}." for one in ranked if one.beside)
    for otherwise in dict.fromkeys(one.otherwise for one in ranked if one.otherwise):
        of = dict.fromkeys(one.data for one in ranked if one.otherwise == otherwise)
        notes.append(f"{', '.join(of)}: {'; '.join(otherwise)}.")
    lines = markdown_table(headings, rows, ("data", "candidate", "options"))
    write_text(path, "\n".join(["# Candidates by validation", "", *lines, "", *(f"- {note}" for note in notes), ""]))
    write_json(path.with_suffix(".json"), [asdict(one) for one in ranked])


def write_config(one: Candidate, search: Search, tried: int, command: str, path: Path) -> None:
    """The config of the best of ``tried`` candidates: what differs from the defaults, with the protocol of the run."""
    ours, usual = plain(search.config(one.name)), plain(Config(DataConfig("")))
    kept = {
        part: {key: value for key, value in ours[part].items() if value != usual[part][key]}
        for part in ("data", "model", "optim", "protocol")
    }
    comment = f"# {one.data}, chosen by validation: {one.metric} {one} over {one.trainings}, the best of "
    comment += f"{tried} candidates.\n# {command}\n"
    comment += "".join(f"# In the search: {text}\n" for text in one.otherwise)
    write_text(path, comment + as_yaml(kept, flow=None))
