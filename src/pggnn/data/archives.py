"""Reading archives that may be damaged or hostile: sizes first, nothing unpickled, nothing unpacked to disk."""

import zipfile
import zlib
from io import BytesIO
from pathlib import Path, PurePosixPath

import numpy as np

MOST_BYTES = 2**30
"""The largest file, or sum of an archive's members, that is read into memory."""


def read_file(path: Path) -> bytes:
    """The content of a file of at most :data:`MOST_BYTES`."""
    _check_size(path, path.stat().st_size)
    return path.read_bytes()


def read_zip(path: Path, suffix: str) -> dict[str, bytearray]:
    """The members of a zip whose names end in ``suffix``, by path inside the archive; macOS's own are left out.

    Names are only keys: no member is ever written to a path.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = [
                info
                for info in archive.infolist()
                if info.filename.endswith(suffix) and PurePosixPath(info.filename).parts[0] != "__MACOSX"
            ]
            _check_size(path, sum(info.file_size for info in members))
            if len({info.filename for info in members}) < len(members):
                raise ValueError(f"{path}: two members of the archive have the same name")
            return {info.filename: _read_member(archive, info) for info in members}
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, UnicodeError) as error:
        raise ValueError(f"{path}: a damaged or unreadable zip archive ({error}); fetch it again") from None


def _read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytearray:
    content = bytearray()
    with archive.open(info) as member:
        while chunk := member.read(2**22):  # memory grows with what is really there; the checksum is tested at the end
            content += chunk
    if len(content) != info.file_size:
        raise zipfile.BadZipFile(f"{info.filename} ends after {len(content)} of {info.file_size} bytes")
    return content


def read_npz(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a numpy archive of numbers and strings; anything pickled is refused."""
    arrays = {}
    for name, content in read_zip(path, ".npy").items():
        key = name.removesuffix(".npy")
        try:
            arrays[key] = _parse_npy(content)
        except (ValueError, TypeError, SyntaxError, KeyError, OverflowError, UnicodeError) as error:
            raise ValueError(f"{path}: array {key!r} cannot be read ({error})") from None
    return arrays


def _parse_npy(content: bytearray) -> np.ndarray:
    stream = BytesIO(content)
    version = np.lib.format.read_magic(stream)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in readers:
        raise ValueError(f"format version {version} is not known")
    shape, fortran, dtype = readers[version](stream)
    if dtype.kind not in "biufU":
        raise ValueError(f"it holds {dtype}, expected numbers or strings")
    count = int(np.prod(shape, dtype=object)) if shape else 1
    if any(size < 0 for size in shape) or count * dtype.itemsize != len(content) - stream.tell():
        raise ValueError(f"its header says {shape} of {dtype}, but {len(content) - stream.tell()} bytes follow")
    flat = np.frombuffer(content, dtype, count, stream.tell()) if count else np.empty(0, dtype)
    return flat.reshape(shape, order="F" if fortran else "C")


def need(arrays: dict[str, np.ndarray], path: Path, **kinds: str) -> None:
    """Checks that the named arrays are there, of numpy kind ``i`` (integers) or ``f`` (finite numbers)."""
    for name, kind in kinds.items():
        if name not in arrays:
            raise ValueError(f"{path}: array {name!r} is missing; it has {', '.join(sorted(arrays)) or 'none'}")
        array = arrays[name]
        if array.dtype.kind not in {"i": "iu", "f": "iuf"}[kind]:
            raise ValueError(
                f"{path}: array {name!r} holds {array.dtype}, expected {'integers' if kind == 'i' else 'numbers'}"
            )
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ValueError(
                f"{path}: array {name!r} holds NaN or infinity at position {int(np.argmin(np.isfinite(array)))}"
            )


def _check_size(path: Path, size: int) -> None:
    if size > MOST_BYTES:
        raise ValueError(f"{path}: {size:,} bytes to read, the limit is {MOST_BYTES:,}; no data set here is that large")
