"""The log of a training: one JSON object per epoch, and the same for TensorBoard."""

import json
import lzma
from pathlib import Path
from typing import Any

from pggnn.files import replacing, write_text

FILE, COMPACT = "log.jsonl", "log.jsonl.xz"
EXACT = ("epoch", "val", "test")
"""What figures are made from; of all else a compact log has :data:`DIGITS` digits."""
DIGITS = 5
Record = dict[str, Any]


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
    """The records of a training so far, from its log or its compact one, without a last line that was cut off."""
    path = folder / FILE
    records: list[Record] = []
    for line in (path.read_text(encoding="utf-8") if path.exists() else _unpack(folder / COMPACT)).splitlines():
        try:
            records.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return records


def pack(records: list[Record], folder: Path) -> None:
    """Writes a compact log: about a tenth of the size."""
    lines = [_line({key: value if key in EXACT else _rounded(value) for key, value in one.items()}) for one in records]
    with replacing(folder / COMPACT) as file:
        file.write_bytes(lzma.compress("".join(lines).encode(), preset=9 | lzma.PRESET_EXTREME))


def _unpack(path: Path) -> str:
    try:
        return lzma.decompress(path.read_bytes()).decode() if path.exists() else ""
    except (lzma.LZMAError, ValueError) as error:
        raise ValueError(f"{path} is damaged ({error}): fetch it again") from None


def _rounded(value: Any) -> Any:
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def _line(record: Record) -> str:
    return json.dumps(record, ensure_ascii=False) + "\n"
