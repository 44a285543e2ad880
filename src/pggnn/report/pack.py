"""``pggnn pack``: many runs in three files, to be published: figures, logs and some answers, no weights."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from pggnn.data.catalogue import CATALOGUE
from pggnn.report import predictions
from pggnn.train import packed
from pggnn.train.config import FILE, plain
from pggnn.train.packed import PackedRun
from pggnn.train.runs.folder import ENVIRONMENT, SCHEMA
from pggnn.train.runs.stored import Run, find_runs


def pack(source: Path, out: Path, unfinished: bool = False, compute: bool = True) -> tuple[list[Path], list[str]]:
    """Packs all runs in and below ``source`` into the files in ``out``; returns the paths that they have there, and
    what they lack.

    The files are written whole or not at all, and are the same to the byte each time.

    Args:
        source: The folder of a run, or one with runs below it.
        out: Folder of the files; runs of the same names in them are replaced, all others stay.
        unfinished: Whether to take runs whose trainings have not all ended.
        compute: Whether to have the networks answer for the test graphs where no file has their answers.
    """
    if out.resolve().is_relative_to(source.resolve()):
        raise ValueError(f"{out} lies in {source}, from which runs are packed: choose another place")
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out} is a file: choose another place")
    runs = {folder.relative_to(source).as_posix(): Run.read(folder) for folder in find_runs(source)}
    for name in runs:
        if (out / name / FILE).exists():
            raise ValueError(
                f"{out / name} is the folder of a run, which the packed one would hide: choose another place"
            )
    cut = [str(run.folder) for run in runs.values() if not run.complete]
    if cut and not unfinished:
        raise ValueError(
            f"{len(cut)} of {len(runs)} runs have not ended: {', '.join(cut[:5])}{', …' * (len(cut) > 5)}; "
            "go on with them, or take them as they are with --unfinished"
        )
    lacks, entries = [], []
    for name, run in runs.items():
        answers, reason = predictions.find(run, compute)
        entries.append(_entry(name, run, answers.thinned() if answers else None))
        lacks += [f"{run.folder}: {text}" for text in (*run.lacks, *([f"no answers: {reason}"] * (answers is None)))]
    packed.write(out, entries)
    return [out / name for name in runs], lacks


def _entry(name: str, run: Run, answers: predictions.Predictions | None) -> PackedRun:
    line = {
        "config": _config(run),
        "schema": packed.read_json(run.folder / SCHEMA, dict),
        "environment": packed.read_json(run.folder / ENVIRONMENT, dict),
        "summary": asdict(run.figures) if run.complete and run.figures else None,
        "trainings": {trial.name: result for trial, result in run.results.items()},
    }
    logs = {trial.name: records for trial, records in run.logs.items()}
    return PackedRun(name, line, logs, answers.arrays if answers else None)


def _config(run: Run) -> dict[str, Any]:
    """The run's config without places on this machine."""
    config = run.config
    name = config.data.name if run.data in CATALOGUE else Path(config.data.name).name
    config = replace(config, data=replace(config.data, name=name, root=None), run=replace(config.run, out=None))
    found: dict[str, Any] = plain(config)
    return found
