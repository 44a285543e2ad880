"""Writing files whole or not at all."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Gives a file to write beside ``path``, with its suffix, and moves it there once the block has ended well."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    started = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        yield started
        os.replace(started, path)
    except OSError as error:
        if error.errno is None or error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from None  # a full disk does not say which file
    finally:
        started.unlink(missing_ok=True)


def unfinished(folder: Path) -> list[Path]:
    """What processes that were killed while they wrote have left in a folder."""
    return [file for file in folder.glob(".*") if re.fullmatch(r"\.\w+\.\d+\.\w+", file.name)]
