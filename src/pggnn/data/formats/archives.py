"""Reading archives that may be damaged or hostile: sizes first, nothing unpickled, nothing unpacked to disk."""

import lzma
import os
import struct
import zipfile
import zlib
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple

import numpy as np

MOST_BYTES = 2**30
"""The largest file, or sum of an archive's members, that is read into memory, unless :data:`VARIABLE` says another."""
VARIABLE = "PGGNN_MAX_BYTES"
BYTES_PER_NUMBER = 16
"""A text may have one number for this many of the bytes that may be read."""


DAMAGE = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError, NotImplementedError, RuntimeError,
    IndexError, OverflowError, OSError, ValueError,
)  # fmt: skip
"""What ``zipfile`` raises on archives that are damaged, encrypted or of an unknown kind."""


def most_bytes() -> int:
    """How much is read at most: :data:`MOST_BYTES`, or what the environment says."""
    given = os.environ.get(VARIABLE, "")
    if given and not given.isdecimal():
        raise ValueError(f"{VARIABLE} must be a whole number of bytes, got {given!r}")
    return int(given or MOST_BYTES)


def read_file(path: Path) -> bytes:
    """The content of a file of at most :data:`MOST_BYTES`."""
    check_size(path, path.stat().st_size)
    return path.read_bytes()


def read_zip(path: Path, suffix: str) -> dict[str, bytearray]:
    """The members of a zip whose names end in ``suffix``, by path inside the archive; macOS's own are left out.

    Names are only keys: no member is ever written to a path.
    """
    with path.open("rb") as file:
        try:
            archive = zipfile.ZipFile(file)
            members = [
                info
                for info in archive.infolist()
                if info.filename.endswith(suffix) and PurePosixPath(info.filename).parts[0] != "__MACOSX"
            ]
            total = sum(info.file_size for info in members)
            if total <= most_bytes() and len({info.filename for info in members}) == len(members):
                return {info.filename: _read_member(archive, info) for info in members}
        except DAMAGE as error:
            raise ValueError(f"{path}: a damaged or unreadable zip archive ({error}); fetch it again") from None
    check_size(path, total)
    raise ValueError(f"{path}: two members of the archive have the same name")


def _read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytearray:
    content = bytearray()
    with archive.open(info) as member:
        while chunk := member.read(2**22):  # memory grows with what is really there; the checksum is tested at the end
            content += chunk
    if len(content) != info.file_size:
        raise zipfile.BadZipFile(f"{info.filename} ends after {len(content)} of {info.file_size} bytes")
    return content


class ArrayHeader(NamedTuple):
    """What is known of an array without its content."""

    shape: tuple[int, ...]
    dtype: np.dtype


def read_headers(path: Path) -> dict[str, ArrayHeader]:
    """The arrays of a numpy archive, without their content."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = [info for info in archive.infolist() if info.filename.endswith(".npy")]
            headers = {}
            for info in members:
                with archive.open(info) as member:
                    shape, _, dtype = _parse_header(member)
                headers[info.filename.removesuffix(".npy")] = ArrayHeader(shape, dtype)
    except (*DAMAGE, TypeError, SyntaxError, KeyError) as error:
        raise ValueError(f"{path}: a damaged or unreadable numpy archive ({error}); fetch it again") from None
    check_size(path, sum(info.file_size for info in members))
    return headers


def read_npz(path: Path, suffix: str = "") -> dict[str, np.ndarray]:
    """The arrays of a numpy archive of numbers and strings; anything pickled is refused. With a ``suffix``, those whose
    names end so."""
    arrays = {}
    for name, content in read_zip(path, f"{suffix}.npy").items():
        key = name.removesuffix(".npy")
        try:
            arrays[key] = _parse_npy(content)
        except (ValueError, TypeError, SyntaxError, KeyError, OverflowError, UnicodeError) as error:
            raise ValueError(f"{path}: array {key!r} cannot be read ({error})") from None
    return arrays


def _parse_npy(content: bytearray) -> np.ndarray:
    stream = BytesIO(content)
    shape, fortran, dtype = _parse_header(stream)
    count = int(np.prod(shape, dtype=object)) if shape else 1
    if any(size < 0 for size in shape) or count * dtype.itemsize != len(content) - stream.tell():
        raise ValueError(f"its header says {shape} of {dtype}, but {len(content) - stream.tell()} bytes follow")
    flat = np.frombuffer(content, dtype, count, stream.tell()) if count else np.empty(0, dtype)
    return flat.reshape(shape, order="F" if fortran else "C")


def _parse_header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Shape, order and type of an array."""
    version = np.lib.format.read_magic(stream)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in readers:
        raise ValueError(f"format version {version} is not known")
    shape, fortran, dtype = readers[version](stream)
    if dtype.kind not in "biufUS":
        raise ValueError(f"it holds {dtype}, expected numbers or strings")
    return shape, fortran, dtype


def need(arrays: dict[str, np.ndarray], path: Path, **kinds: str) -> None:
    """Checks that arrays are there; ``x="f2"`` asks for finite numbers in 2 dimensions, ``"i1"`` for integers in 1."""
    for name, code in kinds.items():
        kind, dimensions = code[0], int(code[1])
        if name not in arrays:
            raise ValueError(f"{path}: array {name!r} is missing; it has {', '.join(sorted(arrays)) or 'none'}")
        array, expected = arrays[name], "integers" if kind == "i" else "numbers"
        if array.dtype.kind not in ("iu" if kind == "i" else "iuf") or array.ndim != dimensions:
            raise ValueError(
                f"{path}: array {name!r} holds {array.dtype} of shape {list(array.shape)}, "
                f"expected {expected} in {dimensions} dimension{'s' * (dimensions > 1)}"
            )
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            bad = np.unravel_index(np.argmin(np.isfinite(array)), array.shape)
            raise ValueError(f"{path}: array {name!r} holds {array[bad]} at {[int(i) for i in bad]}")


def check_size(path: Path, size: int) -> None:
    """Refuses a file that is larger than what is read."""
    if size > (most := most_bytes()):
        raise ValueError(f"{path}: {size:,} bytes to read, the limit is {most:,}; {VARIABLE} sets another")


def check_count(place: str, numbers: int) -> None:
    """Refuses a text with more numbers than are read."""
    if numbers > (most := most_bytes() // BYTES_PER_NUMBER):
        raise ValueError(
            f"{place}: more than {most:,} numbers, the limit; {VARIABLE} raises it (one number for "
            f"{BYTES_PER_NUMBER} bytes)"
        )
