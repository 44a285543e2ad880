import gzip
import struct

import numpy as np
import pytest

from pggnn.data.sets.idx import load_idx

CODES = {"u1": 0x08, "i1": 0x09, "i2": 0x0B, "i4": 0x0C, "f4": 0x0D, "f8": 0x0E}


def idx(array):
    code = CODES[array.dtype.str[1:]]
    head = bytes([0, 0, code, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return head + array.astype(array.dtype.newbyteorder(">")).tobytes()


@pytest.mark.parametrize("dtype", CODES)
@pytest.mark.parametrize("shape", [(0,), (7,), (3, 4, 5), (2, 0, 3)])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_arrays_of_every_type_come_back(dtype, shape, pack, tmp_path):
    array = (np.random.default_rng(0).random(shape) * 100 - 50).astype(dtype)
    path = tmp_path / "array"
    path.write_bytes(pack(idx(array)))
    read = load_idx(path)
    assert read.dtype == array.dtype
    assert np.array_equal(read, array)


IMAGES = idx(np.arange(24, dtype=np.uint8).reshape(2, 3, 4))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is no idx file: it begins with nothing"),
        (b"PK\x03\x04abc", "is no idx file: it begins with 50 4b 03 04"),
        (b"\0\0\x07\x01" + IMAGES[4:], "is no idx file"),
        (b"\0\0\x08\x05" + IMAGES[4:], "is no idx file"),
        (IMAGES[:10], "ends within its header of 3 sizes"),
        (IMAGES[:-1], r"says it holds \(2, 3, 4\), 24 bytes, but there are 23 bytes"),
        (IMAGES + b"\0", "24 bytes, but there are more"),
        (b"\0\0\x08\x03" + b"\xff" * 12, "the most that is read is 2147483648"),
        (b"\0\0\x08\x01" + struct.pack(">I", 2**31), "2147483648 bytes, but there are 0 bytes"),
        (gzip.compress(IMAGES, mtime=0)[:-9], "is damaged"),
        (gzip.compress(IMAGES, mtime=0)[:10] + b"\xff" * 20, "is damaged"),
        (gzip.compress(IMAGES + bytes(50_000_000), mtime=0), "24 bytes, but there are more"),
    ],
)
def test_damaged_files_are_refused(content, message, tmp_path):
    path = tmp_path / "images"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        load_idx(path)


def test_files_spoilt_at_random(tmp_path):
    rng, path = np.random.default_rng(1), tmp_path / "images"
    for pack in (bytes, gzip.compress):
        for _ in range(250):
            content = bytearray(IMAGES if pack is bytes else pack(IMAGES, mtime=0))
            for at in rng.integers(len(content), size=rng.integers(1, 4)):
                content[at] = rng.integers(256)
            path.write_bytes(bytes(content[: rng.integers(len(content) + 1)] if rng.random() < 0.3 else content))
            try:
                array = load_idx(path)
            except ValueError as error:
                assert "images" in str(error)
            else:
                plain = path.read_bytes() if pack is bytes else gzip.decompress(path.read_bytes())
                assert idx(array) == plain
