"""Writing files whole or not at all, and reading them."""

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


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


def write_text(path: str | Path, text: str) -> None:
    """Writes a text whole or not at all, in UTF-8 whatever the locale."""
    with replacing(path) as file:
        file.write_text(text, encoding="utf-8")


def read_json(path: Path) -> Any:
    """What a JSON file holds, or None where there is none."""
    try:
        return json.loads(path.read_bytes()) if path.exists() else None
    except ValueError as error:
        raise ValueError(f"{path} is not valid JSON: {error}") from None


def unfinished(folder: Path) -> list[Path]:
    """What processes that were killed while they wrote have left in a folder."""
    return [file for file in folder.glob(".*") if re.fullmatch(r"\.\w+\.\d+\.\w+", file.name)]
