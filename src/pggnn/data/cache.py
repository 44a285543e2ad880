"""Where data lies, and caches of what was made of it.

A data root is laid out as the table of data sets says (``tu/NCI1.zip``, ``zinc/zinc12k.npz``, …) and may be read-only.
Caches lie in ``processed/`` beside the raw file, or in a user's cache folder where that is not writable. Their names
hold a hash of the raw content and of the version of the code that read it, so none is ever out of date.
"""

import hashlib
import os
import stat
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

from pggnn.data.catalogue import CATALOGUE
from pggnn.data.formats.archives import read_npz
from pggnn.files import replacing

STALE_SECONDS = 24 * 3600
CONTENTS = "contents"
"""The array that names all others, so that none can get lost unnoticed."""


def data_root(root: str | Path | None = None) -> Path:
    """The folder of data: the argument, else ``PGGNN_DATA``, else ``data``."""
    return Path(root or os.environ.get("PGGNN_DATA") or "data").expanduser()


def cache_home() -> Path:
    """The user's cache folder: ``PGGNN_CACHE``, else ``pggnn`` in ``XDG_CACHE_HOME`` or ``~/.cache``."""
    if own := os.environ.get("PGGNN_CACHE"):
        return Path(own).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "pggnn"


def find(file: str, root: str | Path | None = None) -> Path:
    """The path of a raw file under the data root, or an error that says where to put it."""
    path = data_root(root) / file
    if not path.exists():
        known = next((name for name, entry in CATALOGUE.items() if entry.file == file and entry.archive), "")
        download = f"download it with pggnn data get {known}, " if known else ""
        raise FileNotFoundError(
            f"{path} is not there; {download}put the file there, or name the folder that has {file} with --data-root "
            "(of pggnn train: --data.root) or PGGNN_DATA (pggnn data list shows the files and where they come from)"
        )
    return path


def digest(path: Path) -> str:
    """SHA-256 of a file, or of the names and contents of a folder's files."""
    if path.is_dir():
        listed = "\n".join(f"{file.name} {digest(file)}" for file in sorted(path.iterdir()) if file.is_file())
        return hashlib.sha256(listed.encode()).hexdigest()
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def cached(raw: Path, version: str, build: Callable[[], dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """What ``build()`` makes of ``raw``, from the cache where it holds that, else built and kept there.

    Processes that ask at the same time may each build it; each moves a whole file into place. A cache that is damaged
    (its zip has a checksum for each array, and it lists them) is built again.

    Args:
        raw: The file or folder that ``build`` reads.
        version: Names the code and parameters; a change of either must change it.
        build: Makes the arrays.
    """
    key = hashlib.sha256(f"{digest(raw)} {version}".encode()).hexdigest()[:20]
    folders = (raw.parent / "processed", cache_home() / raw.parent.name)
    name = f"{raw.stem}-{key}.npz"
    for folder in folders:
        if (arrays := read(folder / name)) is not None:
            return arrays
    arrays = build()
    keep(arrays, (folders[0] if is_writable(raw.parent) else folders[1]) / name)
    return arrays


def read(path: Path) -> dict[str, np.ndarray] | None:
    """The arrays of a cache; None where there is none, or a damaged one."""
    if not path.is_file():
        return None
    try:
        arrays = read_npz(path)
    except (ValueError, OSError):
        return None  # damaged, or gone in the meantime
    return arrays if arrays.pop(CONTENTS, np.empty(0)).tolist() == sorted(arrays) else None


def keep(arrays: dict[str, np.ndarray], path: Path) -> None:
    """Writes a cache, or warns that it cannot."""
    try:
        with replacing(path) as unfinished:
            np.savez(unfinished, **arrays, **{CONTENTS: np.array(sorted(arrays))})  # type: ignore[arg-type]
        _sweep(path.parent)
    except OSError as error:
        warnings.warn(
            f"no cache is kept in {path.parent} ({error}); set PGGNN_CACHE to a writable folder", stacklevel=3
        )


def is_writable(folder: Path) -> bool:
    """Whether files may be made in a folder, asking its mode too: a superuser should leave a read-only root alone."""
    return os.access(folder, os.W_OK) and bool(folder.stat().st_mode & stat.S_IWUSR)


def _sweep(folder: Path) -> None:
    """Removes what killed processes left unfinished long ago."""
    for file in folder.glob(".*.npz"):
        if time.time() - file.stat().st_mtime > STALE_SECONDS:
            file.unlink(missing_ok=True)
