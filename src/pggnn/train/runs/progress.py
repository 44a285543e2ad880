"""Progress bars: one for each training that runs, with loss, metric, learning rate and time left."""

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from torch import Tensor

from pggnn.console import tell, visible
from pggnn.train.engine.log import Record
from pggnn.train.engine.loop import Callback
from pggnn.train.engine.task import NONFINITE

REFRESH = 0.5
"""Seconds between two looks at the loss, which on a GPU has to be waited for."""


class Bars:
    """Bars on a terminal; a line per tenth of the way where there is none.

    Args:
        console: Where they are.
        metric: What the figures of an epoch are; several where trainings differ, which then need no name.
        tested: Whether test figures are shown.
    """

    def __init__(self, console: Console, metric: str = "", tested: bool = True) -> None:
        self.console, self.metric, self.parts = console, metric, ("val", "test") if tested else ("val",)
        self._progress = Progress(
            TextColumn("{task.description}", markup=False), BarColumn(20), MofNCompleteColumn(), TextColumn("epochs"),
            TextColumn("{task.fields[said]}"), TimeElapsedColumn(), TimeRemainingColumn(),
            console=console, disable=not console.is_terminal,
        )  # fmt: skip

    def __enter__(self) -> "Bars":
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def add(self, name: str, epochs: int, done: int = 0) -> "Bar":
        """A bar for one training."""
        return Bar(self, name, epochs, done)


class Bar(Callback):
    """The progress of one training."""

    def __init__(self, bars: Bars, name: str, epochs: int, done: int) -> None:
        self._bars, self._name, self._epochs = bars, name, epochs
        self._task = bars._progress.add_task(visible(name), total=epochs, completed=done, said="")
        self._looked, self._tail, self.done = 0.0, "", done

    def step(self, step: int, steps: int, summed: Tensor, targets: int) -> None:
        """After each batch: looks at the loss now and then."""
        if (now := time.monotonic()) - self._looked < REFRESH:
            return
        self._looked = now
        loss = float(summed) / targets
        self._bars._progress.update(
            self._task, completed=self.done + step / steps, said=f"loss {loss:.4g} {self._tail}"
        )

    def epoch(self, record: Record) -> None:
        """After each epoch."""
        self.done = record["epoch"]
        figures = ", ".join(_figure(part, record) for part in self._bars.parts if part in record)
        self._tail = " ".join(filter(None, (self._bars.metric, figures, f"lr {record['lr']:.2g}")))
        said = f"loss {record['loss']:.4g} {self._tail}"
        self._bars._progress.update(self._task, completed=self.done, said=said)
        tenth = max(1, self._epochs // 10)
        if not self._bars.console.is_terminal and (self.done % tenth == 0 or self.done == self._epochs):
            tell(self._bars.console, f"{self._name}: epoch {self.done}/{self._epochs}, {said}")

    def finish(self) -> None:
        """The training has ended, perhaps before its last epoch."""
        self._bars._progress.update(self._task, total=max(self.done, 1), completed=max(self.done, 1))


def _figure(part: str, record: Record) -> str:
    lost = record.get(f"{part} {NONFINITE}")
    return f"{part} {record[part]:.4f}" + (f" ({lost} answers not finite)" if lost else "")
