"""Progress bars, one for each training: loss, metric, learning rate and time left; and the time a run will take."""

import math
import time
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from torch import Tensor

from pggnn.console import LINES, duration, is_live, tell, visible
from pggnn.train.engine.log import Record
from pggnn.train.engine.loop import Callback
from pggnn.train.engine.task import NONFINITE

REFRESH = 0.5
"""Seconds between updates within an epoch: reading the loss waits for the GPU."""
MEASURED = 3.0
"""Seconds of batches from which the time of an epoch is foretold."""


@dataclass(frozen=True)
class Forecast:
    """What the time of a run follows from, given that of an epoch."""

    epochs: int
    """The most that a training has."""
    trainings: int
    jobs: int
    """Trainings at once."""
    evaluation: float
    """Time of validation and test, as a part of that of an epoch's batches."""

    def text(self, seconds: float) -> str:
        """The time of an epoch, of a training and of all of them."""
        said, total = f"An epoch takes about {duration(seconds)}", self.epochs * seconds
        if self.epochs > 1:
            said += f", {self.epochs:,} epochs {duration(total)}"
        if self.trainings > 1:
            at_once = f", {self.jobs} at once," if self.jobs > 1 else ""
            said += f"; {self.trainings} trainings{at_once} {duration(math.ceil(self.trainings / self.jobs) * total)}"
        return said + "."


class Pace:
    """Foretells the time of an epoch's batches from the first ones, without the very first, which compiles and fills
    caches."""

    def __init__(self) -> None:
        self._begin, self._known = 0.0, False

    def measure(self, step: int, steps: int, summed: Tensor) -> float | None:
        """Seconds of an epoch's batches, once; None as long as too few are known."""
        if self._known or (step > 1 and time.monotonic() - self._begin < MEASURED):
            return None
        float(summed)  # waits for the GPU
        now = time.monotonic()
        if step == 1:
            self._begin = now
            return None
        self._known = True
        return (now - self._begin) / (step - 1) * steps


class Bars:
    """Bars on a terminal, and elsewhere a line for each tenth of the epochs.

    Args:
        console: Where to show them.
        metric: Name of the figures of an epoch; empty where trainings have different ones.
        tested: Whether test figures are shown.
    """

    def __init__(self, console: Console, metric: str = "", tested: bool = True) -> None:
        self.console, self.metric, self.parts = console, metric, ("val", "test") if tested else ("val",)
        self._said = time.monotonic()
        self.forecast: Forecast | None = None
        """What is said of the expected time, once it is known; None for nothing, or for nothing more."""
        self._progress = Progress(
            TextColumn("{task.description}", markup=False), BarColumn(20), MofNCompleteColumn(), TextColumn("epochs"),
            TextColumn("{task.fields[status]}"), TimeElapsedColumn(), TimeRemainingColumn(),
            console=console, disable=not is_live(console),
        )  # fmt: skip

    def __enter__(self) -> "Bars":
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.stop()

    def say(self, text: str) -> None:
        """A line."""
        self._said = time.monotonic()
        tell(self.console, text)

    def remind(self, text: str) -> None:
        """A line where there is no terminal and nothing was said for half a minute."""
        if not is_live(self.console) and time.monotonic() - self._said >= LINES:
            self.say(text)

    def add(self, name: str, epochs: int, done: int = 0) -> "Bar":
        """A bar for one training."""
        return Bar(self, name, epochs, done)

    def expect(self, seconds: float | None, evaluated: bool = False) -> None:
        """Says how long the run will take, given the time of an epoch's batches, or of a whole epoch."""
        if self.forecast is not None and seconds is not None:
            whole = seconds if evaluated else seconds * (1 + self.forecast.evaluation)
            self.say(self.forecast.text(whole))
            self.forecast = None


class Bar(Callback):
    """The progress of one training."""

    def __init__(self, bars: Bars, name: str, epochs: int, done: int) -> None:
        self._bars, self.name, self._epochs = bars, name, epochs
        self._task = bars._progress.add_task(visible(name), total=epochs, completed=done, status="")
        self._looked, self._tail, self.done, self._pace = 0.0, "", done, Pace()
        self._begin = self._before = time.monotonic()

    def step(self, step: int, steps: int, summed: Tensor, targets: float) -> None:
        """After each batch: reads the loss at most every :data:`REFRESH` seconds."""
        self._bars.expect(self._pace.measure(step, steps, summed))
        if step == 1:
            self._begin = self._before
        if (now := time.monotonic()) - self._looked < REFRESH:
            return
        self._looked = now
        status = f"loss {float(summed) / targets:.4g} {self._tail}".rstrip()
        left = duration((now - self._begin) / step * (steps - step))
        where = f"{self.name}: epoch {self.done + 1}/{self._epochs}, batch {step} of {steps}"
        self._bars.remind(f"{where}, {status}, about {left} to the end of the epoch")
        self._bars._progress.update(self._task, completed=self.done + step / steps, status=status)

    def epoch(self, record: Record) -> None:
        """After each epoch."""
        self._before = time.monotonic()
        if record["epoch"] > 1:  # the first one compiles and fills caches
            self._bars.expect(record["seconds"], evaluated=True)
        self.done = record["epoch"]
        figures = ", ".join(_figure(part, record) for part in self._bars.parts if part in record)
        self._tail = " ".join(filter(None, (self._bars.metric, figures, f"lr {record['lr']:.2g}")))
        status = f"loss {record['loss']:.4g} {self._tail}"
        self._bars._progress.update(self._task, completed=self.done, status=status)
        tenth = max(1, self._epochs // 10)
        if not is_live(self._bars.console) and (self.done % tenth == 0 or self.done == self._epochs):
            self._bars.say(f"{self.name}: epoch {self.done}/{self._epochs}, {status}")

    def finish(self) -> None:
        """After the training, which may have ended before its last epoch."""
        self._bars._progress.update(self._task, total=max(self.done, 1), completed=max(self.done, 1))


def _figure(part: str, record: Record) -> str:
    lost = record.get(f"{part} {NONFINITE}")
    return f"{part} {record[part]:.4f}" + (f" ({lost} answers not finite)" if lost else "")
