"""``pggnn reproduce search``: candidates for ``configs/best/``, ranked by validation alone.

On TU's sets they are trained by nested cross-validation, where a tenth of each fold's training graphs validates; ZINC
has a validation split. No test figure is read here. A graph of TU's sets may still validate in one fold and test in
another, as in every cross-validation with the same options in all folds; the paper chose its own in one fold.
"""

import json
import math
import os
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console

from pggnn.files import replacing
from pggnn.paper.sweep import train_missing
from pggnn.paper.tables import BONDS, GROUP, NESTED, SINGLE, Key, Options, choose, slug
from pggnn.train import log, protocol
from pggnn.train.config import Config, DataConfig, difference, plain
from pggnn.train.folder import CIRCUMSTANCES, missing
from pggnn.train.options import load, parse

RENUMBERED, MEAN = ("--model.numbering", "random"), ("--model.readout", "mean")
MEANS = ("--model.renumberings", "8")
"""Renumbered, and answers are means over eight numberings."""
K = ("--model.orderings", "16")
LATE = ("--optim.factor", "0.9")
DECAY, SLOWER = ("--optim.weight_decay", "0.1"), ("--optim.lr", "0.0005")
NARROW, DEEP = ("--model.hidden", "64", "--optim.lr", "0.002"), ("--model.layers", "8", "--optim.lr", "0.0005")
SMALL, WALKS = ("--model.hidden", "32", "--optim.lr", "0.002"), ("--data.walks", "16")
COSINE = ("--optim.schedule", "cosine", "--optim.warmup", "10")
ZINC = (
    *("--optim.loss", "mae", "--optim.sampling", "shuffle", *COSINE, "--optim.epochs", "300", "--optim.lr", "0.001"),
    *("--protocol.report", "best"),
)


@dataclass(frozen=True)
class Search:
    """What is tried on a data set."""

    config: str
    """The paper's config, from which candidates differ."""
    candidates: dict[str, Options]
    protocol: Options = NESTED
    """How validation figures come about."""
    best: str = ""
    """The config to be, if not of the same name."""


def _tu(width: int, dropout: float, more: Options = GROUP) -> dict[str, Options]:
    """Changes to the paper's options one at a time, in its own search space and beyond, in the cheapest mode; then the
    orderings."""
    return {
        "as published": SINGLE,
        "renumbered": (*SINGLE, *RENUMBERED),
        "renumbered, means": (*SINGLE, *MEANS),
        "mean": (*SINGLE, *MEAN),
        f"hidden {width}": (*SINGLE, "--model.hidden", str(width)),
        f"dropout {dropout:g}": (*SINGLE, "--model.dropout", str(dropout)),
        "cosine": (*SINGLE, *COSINE),
        "faster": (*SINGLE, "--optim.lr", "0.005"),
        "decay 0.9": (*SINGLE, *LATE),
        "mean, decay 0.9": (*SINGLE, *MEAN, *LATE),
        "GRU": (*SINGLE, "--model.cell", "gru"),
        "walks": (*SINGLE, *WALKS),
        "walks, mean": (*SINGLE, *WALKS, *MEAN),
        "structure": (*SINGLE, "--model.structure", "1"),
        "more orderings": more,
        "more orderings, renumbered": (*more, *RENUMBERED),
        "more orderings, mean over them": (*more, "--model.reduce", "mean"),
    }


SEARCHES = {
    "PROTEINS": Search("proteins", _tu(32, 0.0)),
    "NCI1": Search("nci1", _tu(64, 0.5)),
    "IMDB-B": Search("imdb_b", _tu(64, 0.5)),
    "IMDB-M": Search("imdb_m", _tu(64, 0.0)),
    "COLLAB": Search("collab", _tu(32, 0.0, K)),
    "ZINC": Search(
        "zinc",
        {
            "as published": SINGLE,
            "single": (*ZINC, *SINGLE),
            "single, renumbered": (*ZINC, *SINGLE, *RENUMBERED),
            "single, renumbered, slower": (*ZINC, *SINGLE, *RENUMBERED, *SLOWER),
            "single, renumbered, hidden 64": (*ZINC, *SINGLE, *RENUMBERED, *NARROW),
            "single, renumbered, means": (*ZINC, *SINGLE, *MEANS),
            "walks, single, renumbered": (*ZINC, *SINGLE, *RENUMBERED, *WALKS),
            "walks, single, hidden 64, means": (*ZINC, *SINGLE, *MEANS, *NARROW, *WALKS),
            "walks, single, hidden 32, means": (*ZINC, *SINGLE, *MEANS, *SMALL, *WALKS),
            "walks, group, hidden 64, means": (*ZINC, *GROUP, *MEANS, *NARROW, *WALKS),
            "group": (*ZINC, *GROUP),
            "group, renumbered": (*ZINC, *GROUP, *RENUMBERED),
            "group, renumbered, weight decay": (*ZINC, *GROUP, *RENUMBERED, *DECAY),
            "group, renumbered, 8 layers": (*ZINC, *GROUP, *RENUMBERED, *DEEP),
        },
        (),
    ),
    "ZINC with bonds": Search(
        "zinc",
        {
            "single, renumbered": (*ZINC, *BONDS, *SINGLE, *RENUMBERED),
            "single, renumbered, slower": (*ZINC, *BONDS, *SINGLE, *RENUMBERED, *SLOWER),
            "single, renumbered, hidden 64": (*ZINC, *BONDS, *SINGLE, *RENUMBERED, *NARROW),
            "single, renumbered, means": (*ZINC, *BONDS, *SINGLE, *MEANS),
            "walks, single, renumbered": (*ZINC, *BONDS, *SINGLE, *RENUMBERED, *WALKS),
            "walks, single, hidden 64, means": (*ZINC, *BONDS, *SINGLE, *MEANS, *NARROW, *WALKS),
            "walks, single, hidden 32, means": (*ZINC, *BONDS, *SINGLE, *MEANS, *SMALL, *WALKS),
            "walks, group, hidden 64, means": (*ZINC, *BONDS, *GROUP, *MEANS, *NARROW, *WALKS),
            "group": (*ZINC, *BONDS, *GROUP),
            "group, renumbered": (*ZINC, *BONDS, *GROUP, *RENUMBERED),
            "group, renumbered, weight decay": (*ZINC, *BONDS, *GROUP, *RENUMBERED, *DECAY),
            "group, renumbered, 8 layers": (*ZINC, *BONDS, *GROUP, *RENUMBERED, *DEEP),
        },
        (),
        "zinc_bonds",
    ),
}


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
    otherwise: tuple[str, ...] = ()
    """Where it was run with others than these."""


def search(
    out: Path,
    seeds: Sequence[int] = (0,),
    only: Sequence[str] = (),
    jobs: int = 0,
    more: Options = (),
    console: Console | None = None,
    until: float = math.inf,
) -> tuple[list[Candidate], Path]:
    """Trains what is missing and returns the candidates, the best of each data set first, and where they are shown.

    Beside that lies, for each data set, the config of the first, as ``configs/best/`` may have it.
    """
    console = console or Console(stderr=True)
    jobs = jobs or os.cpu_count() or 1
    given = ("--run.jobs", str(jobs), "--run.threads", str(max(1, (os.cpu_count() or 1) // jobs)))
    configs: dict[Key, Config] = {}
    every = [(name, data) for data, found in SEARCHES.items() for name in found.candidates]
    for name, data in choose("search", every, only):
        found = SEARCHES[data]
        options = ["--config", found.config, *found.candidates[name], *found.protocol]
        options += ["--protocol.seeds", json.dumps(list(seeds)), *given, *more]
        configs[name, data] = parse([*options, "--run.out", str(_folder(out, (name, data)))])[0]
    train_missing("search", configs, jobs, console, until)
    configs |= {key: load(_folder(out, key)) for key in every if key not in configs and _folder(out, key).exists()}
    done = {key: config for key, config in configs.items() if not missing(config)}
    ranked = sorted(
        (measure(key, config) for key, config in done.items()),
        key=lambda one: (list(SEARCHES).index(one.data), -one.mean if one.metric == "accuracy" else one.mean),
    )
    path = out / "search.md"
    with replacing(path) as file:
        file.write_text(markdown(ranked))
    with replacing(path.with_suffix(".json")) as file:
        file.write_text(json.dumps([asdict(one) for one in ranked], indent=2, ensure_ascii=False) + "\n")
    for first in {one.data: one for one in reversed(ranked)}.values():
        found = SEARCHES[first.data]
        with replacing(out / "search" / "best" / f"{found.best or found.config}.yaml") as file:
            file.write_text(as_yaml(first, sum(one.data == first.data for one in ranked)))
    return ranked, path


def measure(key: Key, config: Config) -> Candidate:
    """The validation figure of a run that has ended; under cross-validation at the best epoch for all folds."""
    folders = [config.folder / member.name for member in protocol.members(config)]
    results = [result for folder in folders if (result := protocol.load_result(folder)) is not None]
    values, epochs = [result["val"] for result in results], [result["best_epoch"] for result in results]
    if config.protocol.kind in protocol.CROSS_VALIDATION:
        epoch, values = protocol.best_common_epoch([protocol.curve(log.read(one), "val") for one in folders])
        epochs = [epoch]
    seconds = statistics.median(record["seconds"] for folder in folders for record in log.read(folder))
    found = SEARCHES[key[1]]
    options = found.candidates[key[0]]
    own = parse(["--config", found.config, *options, *found.protocol])[0]
    return Candidate(
        *key, results[0]["metric"], statistics.fmean(values), statistics.pstdev(values), statistics.fmean(epochs),
        len(folders), seconds, options, tuple(difference(config, own, (*CIRCUMSTANCES, "protocol.seeds"))),
    )  # fmt: skip


def markdown(ranked: list[Candidate]) -> str:
    """The candidates as a Markdown table."""
    lines = [
        "# Candidates by validation",
        "",
        "| data | candidate | validation | trainings | epoch | s/epoch | options |",
    ]
    lines.append("| --- | --- | --: | --: | --: | --: | --- |")
    for one in ranked:
        lines.append(
            f"| {one.data} | {one.name} | {_figure(one)} | {one.trainings} | {one.epoch:.0f} "
            f"| {one.seconds_per_epoch:.2f} | `{' '.join(one.options)}` |"
        )
    lines += ["", "- No test figure was read for this."]
    for otherwise in dict.fromkeys(one.otherwise for one in ranked if one.otherwise):
        of = dict.fromkeys(one.data for one in ranked if one.otherwise == otherwise)
        lines.append(f"- {', '.join(of)}: {'; '.join(otherwise)}.")
    return "\n".join([*lines, ""])


def as_yaml(one: Candidate, tried: int) -> str:
    """The config of the best of so many: what differs from the defaults, with the protocol that it is then run by."""
    import yaml

    found = SEARCHES[one.data]
    config = parse(["--config", found.config, *one.options])[0]
    ours, usual = plain(config), plain(Config(DataConfig("")))
    kept = {
        part: {key: value for key, value in ours[part].items() if value != usual[part][key]}
        for part in ("data", "model", "optim", "protocol")
    }
    said = f"# {one.data}, chosen by validation: {one.metric} {_figure(one)} over {one.trainings}, the best of "
    said += f"{tried} candidates.\n# pggnn reproduce search --only '{one.data}'\n"
    said += "".join(f"# In the search: {text}\n" for text in one.otherwise)
    return said + yaml.safe_dump(kept, sort_keys=False, allow_unicode=True, default_flow_style=None)


def _folder(out: Path, key: Key) -> Path:
    return out / "search" / (SEARCHES[key[1]].best or SEARCHES[key[1]].config) / slug(key[0])


def _figure(one: Candidate) -> str:
    scale, digits = (100, 1) if one.metric == "accuracy" else (1, 4)
    return protocol.figure(one.mean * scale, one.std * scale if one.trainings > 1 else None, digits)
