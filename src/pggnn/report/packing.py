"""``pggnn pack``: runs in compact form, to be published: figures, logs and some answers, no weights."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

from pggnn.data.catalogue import CATALOGUE
from pggnn.files import write_text
from pggnn.report import predictions
from pggnn.report.runs import Run, find_runs
from pggnn.train import log
from pggnn.train.config import FILE, Config, save
from pggnn.train.folder import ENVIRONMENT, SCHEMA, SUMMARY
from pggnn.train.protocol import RESULT

COMPACT = {FILE, SCHEMA, ENVIRONMENT, SUMMARY, RESULT, log.COMPACT, predictions.FILE, "report.html"}
"""Files of a compact run, and the page about it."""


def pack(source: Path, out: Path, unfinished: bool = False, compute: bool = True) -> tuple[list[Path], list[str]]:
    """Writes all runs in and below ``source`` to the same places below ``out``; returns those, and what they lack.

    Each run is there whole or not at all, and the same to the byte each time.

    Args:
        source: The folder of a run, or one with runs below it.
        out: Where the compact ones go; those that are there already are replaced.
        unfinished: Whether to take runs whose trainings have not all ended.
        compute: Whether to have the networks answer for the test graphs where no file has their answers.
    """
    if out.resolve().is_relative_to(source.resolve()):
        raise ValueError(f"{out} lies in {source}, from which runs are packed: choose another place")
    runs = {out / folder.relative_to(source): Run.read(folder) for folder in find_runs(source)}
    for target in runs:
        _check_place(target)
    cut = [str(run.folder) for run in runs.values() if not run.complete]
    if cut and not unfinished:
        raise ValueError(
            f"{len(cut)} of {len(runs)} runs have not ended: {', '.join(cut[:5])}{', …' * (len(cut) > 5)}; "
            "go on with them, or take them as they are with --unfinished"
        )
    lacks = []
    for target, run in runs.items():
        reason = _pack_run(run, target, compute)
        lacks += [f"{run.folder}: {sentence}" for sentence in (*run.lacks, *([f"no answers: {reason}"] * bool(reason)))]
    return list(runs), lacks


def _check_place(target: Path) -> None:
    """Refuses to replace anything but a compact run."""
    if target.exists() and not target.is_dir():
        raise ValueError(f"{target} is a file: choose another place")
    files = [file for file in target.rglob("*") if not file.is_dir()]
    others = [file for file in files if file.name not in COMPACT or (file.name == FILE and file.parent != target)]
    if others:
        raise ValueError(f"{others[0]} is no part of a compact run and would be lost: choose another place")


def _pack_run(run: Run, target: Path, compute: bool) -> str:
    """Writes one run; returns why it has no answers where it has none."""
    answers, reason = predictions.find(run, compute)
    with _replacing_folder(target) as folder:
        save(_placeless(run), folder)
        for name in (SCHEMA, ENVIRONMENT):
            if (run.folder / name).exists():
                shutil.copyfile(run.folder / name, folder / name)
        if run.complete and run.figures:
            write_text(folder / SUMMARY, json.dumps(asdict(run.figures), indent=2) + "\n")
        for member, records in run.logs.items():
            (folder / member.name).mkdir(parents=True, exist_ok=True)
            if records:
                log.pack(records, folder / member.name)
            if member in run.results:
                shutil.copyfile(run.folder / member.name / RESULT, folder / member.name / RESULT)
        if answers is not None:
            answers.thinned().save(folder / predictions.FILE)
    return "" if answers is not None else reason


def _placeless(run: Run) -> Config:
    """The run's config without places on this machine."""
    config = run.config
    name = config.data.name if run.data in CATALOGUE else Path(config.data.name).name
    return replace(config, data=replace(config.data, name=name, root=None), run=replace(config.run, out=None))


@contextmanager
def _replacing_folder(path: Path) -> Iterator[Path]:
    """Gives a folder to fill beside ``path``, and moves it there once the block has ended well."""
    started = path.with_name(f".{path.name}.{os.getpid()}")
    started.mkdir(parents=True)
    try:
        yield started
        shutil.rmtree(path, ignore_errors=True)
        os.replace(started, path)
    finally:
        shutil.rmtree(started, ignore_errors=True)
