"""The log of a training: one JSON object per epoch, and the same for TensorBoard and other loggers."""

import json
import os
import warnings
from collections.abc import Callable
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, NotRequired, TypedDict

from pggnn.files import parse_json, read_bytes, to_json, write_text
from pggnn.train import packed

FILE = "log.jsonl"
MOST_BYTES = 2**26
"""The longest log that is read: half a million epochs."""
Record = packed.Record


class Expected(TypedDict):
    """What each record has."""

    epoch: int
    lr: float
    loss: float
    seconds: float
    val: NotRequired[float]
    test: NotRequired[float]


LOGGERS: dict[str, tuple[str, Callable[[Path, str], dict[str, Any]]]] = {
    "csv": ("CSVLogger", lambda folder, name: {"save_dir": folder, "name": None, "version": ""}),
    "wandb": ("WandbLogger", lambda folder, name: {
        "save_dir": folder, "project": "pggnn", "name": name, "id": _identifier(folder), "resume": "allow"}),
    "mlflow": ("MLFlowLogger", lambda folder, name: {
        "tracking_uri": os.environ.get("MLFLOW_TRACKING_URI", f"sqlite:///{folder.resolve()}/mlflow.db"),
        "experiment_name": "pggnn", "run_name": name}),
}  # fmt: skip
"""Lightning's loggers by name, and their arguments, given the folder of a training and its name."""


def check_logger(name: str) -> None:
    """Refuses a logger whose package is not installed."""
    if name in ("wandb", "mlflow") and find_spec(name) is None:
        raise ValueError(f"run.logger {name} needs the package {name}: pip install {name}, or choose csv")


def make_logger(name: str, folder: Path) -> Any:
    """Lightning's logger of that name for the training in a folder; None for ``"none"``."""
    if name == "none":
        return None
    check_logger(name)
    kind, arguments = LOGGERS[name]
    made = resolve_name(f"lightning.pytorch.loggers:{kind}")
    logger = made(**arguments(folder, "/".join(folder.resolve().parts[-2:])))
    if name == "csv":
        with warnings.catch_warnings(action="ignore"):  # that the folder has files; only its own is written again
            _ = logger.experiment
    return logger


def _identifier(folder: Path) -> str:
    """A name that a training keeps when it is resumed."""
    return sha256(str(folder.resolve()).encode()).hexdigest()[:16]


class Log:
    """Appends records to ``log.jsonl``, TensorBoard's files and another logger in a folder.

    Args:
        folder: Where they are kept.
        epoch: Records of later epochs are dropped first: a run that is resumed writes them again.
        tensorboard: Whether to write for TensorBoard too.
        logger: Key of :data:`LOGGERS`, or ``"none"``.
    """

    def __init__(self, folder: Path, epoch: int = 0, tensorboard: bool = True, logger: str = "none") -> None:
        path = folder / FILE
        kept = [record for record in read(folder) if record["epoch"] <= epoch]
        write_text(path, "".join(_line(record) for record in kept))
        self._file = open(path, "a", encoding="utf-8")  # noqa: SIM115
        self._board: Any = None
        if tensorboard:
            from torch.utils.tensorboard import SummaryWriter

            self._board = SummaryWriter(str(folder / "tensorboard"), purge_step=epoch + 1)
        self._logger = make_logger(logger, folder)
        for record in kept if logger == "csv" else ():  # it begins the file again
            self._log(record)

    def _log(self, record: Record) -> None:
        if self._logger is not None:
            figures = {name: value for name, value in record.items() if isinstance(value, (int, float))}
            self._logger.log_metrics(figures, step=record["epoch"])
            self._logger.save()

    def write(self, record: Record) -> None:
        """Adds the record of an epoch."""
        try:
            self._file.write(_line(record))
            self._file.flush()
        except OSError as error:
            raise OSError(error.errno, error.strerror, self._file.name) from None
        self._log(record)
        if self._board is not None:
            for name, value in record.items():
                if isinstance(value, (int, float)) and name != "epoch":
                    self._board.add_scalar(name.replace(" ", "_"), value, record["epoch"])

    def close(self) -> None:
        """Ends the files."""
        self._file.close()
        if self._board is not None:
            self._board.close()
        if self._logger is not None:
            self._logger.finalize("success")


def read(folder: Path) -> list[Record]:
    """The records of a training so far, packed or not, without a last line that was cut off."""
    path = folder / FILE
    if not path.exists():
        return packed.read_log(folder)
    *lines, last = read_bytes(path, MOST_BYTES).rstrip(b"\0").split(b"\n")
    if not last.startswith(b"{") or last.endswith(b"}"):  # else it was cut off
        lines += [last] if last else []
    return [_parse(line, path, number) for number, line in enumerate(lines, start=1)]


def _parse(line: bytes, path: Path, number: int) -> Record:
    """The record of a line. There may be a million good ones, so these are recognised fast."""
    try:
        record: Record = json.loads(line)
        figures = record["lr"], record["loss"], record["seconds"], record.get("val", 0.0), record.get("test", 0.0)
        if type(record["epoch"]) is int and set(map(type, figures)) == {float}:
            return record
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        pass
    record = parse_json(line, Expected, f"{path}, line {number}")
    return record


def _line(record: Record) -> str:
    return to_json(record) + "\n"
