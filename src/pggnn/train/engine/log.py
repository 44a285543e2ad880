"""The log of a training: one JSON object per epoch, and the same for TensorBoard."""

import json
from pathlib import Path
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


class Log:
    """Appends records to ``log.jsonl`` and TensorBoard's files in a folder.

    Args:
        folder: Where they are kept.
        epoch: Records of later epochs are dropped first: a run that is resumed writes them again.
        tensorboard: Whether to write for TensorBoard too.
    """

    def __init__(self, folder: Path, epoch: int = 0, tensorboard: bool = True) -> None:
        path = folder / FILE
        kept = [record for record in read(folder) if record["epoch"] <= epoch]
        write_text(path, "".join(_line(record) for record in kept))
        self._file = open(path, "a", encoding="utf-8")  # noqa: SIM115
        self._board: Any = None
        if tensorboard:
            from torch.utils.tensorboard import SummaryWriter

            self._board = SummaryWriter(str(folder / "tensorboard"), purge_step=epoch + 1)

    def write(self, record: Record) -> None:
        """Adds the record of an epoch."""
        try:
            self._file.write(_line(record))
            self._file.flush()
        except OSError as error:
            raise OSError(error.errno, error.strerror, self._file.name) from None
        if self._board is not None:
            for name, value in record.items():
                if isinstance(value, (int, float)) and name != "epoch":
                    self._board.add_scalar(name.replace(" ", "_"), value, record["epoch"])

    def close(self) -> None:
        """Ends the files."""
        self._file.close()
        if self._board is not None:
            self._board.close()


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
