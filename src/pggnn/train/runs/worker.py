"""A worker process: trains one trial after another.

``python -m pggnn.train.runs.worker`` reads one task from each line of its standard input, a JSON list: the file for
errors, folder, seed, fold, resume and until. It answers with an exit code, and before that with the seconds that an
epoch's batches will take, once it knows them, a number with a point. It ends when its input ends.
"""

import gc
import json
import os
import platform
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path

import torch
from torch import Tensor

from pggnn.train.engine.log import Record
from pggnn.train.engine.loop import Callback
from pggnn.train.options import load
from pggnn.train.runs.folder import locked
from pggnn.train.runs.progress import Pace
from pggnn.train.runs.protocol import Trial
from pggnn.train.runs.run import ORPHANED, STOPPED, load_graphs, make_collater, make_fabric, train_trial

ENDING = 180.0
"""Seconds that a process may live on whose node is lost to the cluster; it keeps its folder locked."""


class Ended(Exception):
    """A training that was stopped, with this exit code."""


class Limits(Callback):
    """Stops the training when its parent process has ended, or when there is no time for another epoch; tells how long
    an epoch's batches take."""

    def __init__(self, until: float, epochs: int, expect: Callable[[float], None]) -> None:
        self.parent, self.until, self.epochs = os.getppid(), until, epochs
        self._pace, self._expect = Pace(), expect

    def step(self, step: int, steps: int, summed: Tensor, targets: float) -> None:
        """After each batch."""
        if os.getppid() != self.parent:
            raise Ended(ORPHANED)
        if (seconds := self._pace.measure(step, steps, summed)) is not None:
            self._expect(seconds)

    def epoch(self, record: Record) -> None:
        """After each epoch."""
        if time.time() + record["seconds"] > self.until and record["epoch"] < self.epochs:
            raise Ended(STOPPED)


def train(folder: str, seed: str, fold: str, resume: str, until: str, *, expect: Callable[[float], None]) -> None:
    """Trains one trial of the run in ``folder``; ``expect`` is called with the seconds of an epoch's batches."""
    config = load(folder)
    limits, fabric = Limits(float(until), config.optim.epochs, expect), make_fabric(config)
    collater = make_collater(config, load_graphs(config), fabric)
    trial = Trial(int(seed), None if fold == "None" else int(fold))
    train_trial(config, trial, collater, fabric, None if resume == "new" else resume, limits)


def run(arguments: list[str], expect: Callable[[float], None] = lambda seconds: None) -> int:
    """:func:`train`, with an exit code; an expected error is one line on standard error."""
    try:
        train(*arguments, expect=expect)
    except (ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except Ended as end:
        return end.args[0]
    return 0


def serve() -> None:
    """Runs each line of standard input. An unexpected error ends the process: its GPU may be in a bad state."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    for line in sys.stdin:
        errors, *arguments = json.loads(line)
        with open(errors, "a") as file:
            for stream in (1, 2):
                os.dup2(file.fileno(), stream)
        print(run(arguments, lambda seconds: print(float(seconds), file=answers)), file=answers)
        gc.collect()
        torch.cuda.empty_cache()


def train_on_node(place: str, environment: dict[str, str], errors: str, token: str, arguments: list[str]) -> int | str:
    """:func:`run` in a process of a Ray cluster. A node that cannot train any of the run's trials says why.

    Args:
        place: Folder where the command was started.
        environment: Variables of that command.
        errors: File for errors, in the folder of the training.
        token: What it holds if this node sees the same file.
        arguments: Those of :func:`run`.
    """
    os.environ |= environment
    try:
        os.chdir(place)
        found = Path(errors).read_text()
    except OSError:
        found = ""
    if found != token:
        return (
            f"node {platform.node()} of the Ray cluster does not see {Path(place, errors)}: the folder where the "
            "command is started and that of the run must lie on a file system that all nodes share"
        )
    if time.time() > float(arguments[-1]):  # it has waited for room
        return STOPPED
    with open(errors, "w") as file, redirect_stdout(file), redirect_stderr(file):
        with suppress(ValueError), locked(Path(errors).parent, True, ENDING):
            pass  # once free, the training locks it itself, or says that it is in use
        try:
            return run(arguments)
        except Exception:
            traceback.print_exc()
            return 1
        finally:
            gc.collect()
            torch.cuda.empty_cache()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        serve()
