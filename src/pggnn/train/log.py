"""The log of a training: one JSON object per epoch, and the same for TensorBoard."""

import json
from pathlib import Path
from typing import Any

from pggnn.files import write_text
from pggnn.train import packed

FILE = "log.jsonl"
Record = packed.Record


class Log:
    """Appends records to ``log.jsonl`` and TensorBoard's files in a folder.

    Args:
        folder: Where they are kept.
        epoch: Records of later epochs are dropped first: a run that goes on writes them anew.
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
    records: list[Record] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            records.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return records


def _line(record: Record) -> str:
    return json.dumps(record, ensure_ascii=False) + "\n"
