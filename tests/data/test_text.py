"""Texts of numbers: what is read, and what reading takes."""

import re
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pggnn.data.formats import text
from pggnn.data.formats.archives import read_file
from pggnn.data.formats.text import parse_numbers

WORDS = st.sampled_from(["0", "-17", "123456789012", "2.5", "1e3", "nan", "99999999999999999999", "x", "-", "+", "1,2"])
BLANKS = st.sampled_from([" ", "\n", "\n\n", "\t", "\r\n", " \n ", ",", "\x0b"])


def parse_slowly(words, comma):
    """Values and counts of lines, word by word."""
    if comma:
        words = words.replace(",", " ")
    lines = [line.split() for line in words.encode().rstrip().split(b"\n")]
    values = []
    for number, line in enumerate(lines, 1):
        for word in line:
            try:
                values.append(float(word))
            except ValueError:
                raise ValueError(f"here, line {number}: {word[:40]!r} is not a number") from None
    return values, [len(line) for line in lines] if values else []


@given(st.lists(st.tuples(WORDS, BLANKS)), st.booleans(), st.integers(1, 40))
def test_any_text_in_pieces_of_any_size(pairs, comma, piece):
    words = "".join(word + blank for word, blank in pairs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text, "PIECE", piece)
        try:
            expected = parse_slowly(words, comma)
        except ValueError as error:
            with pytest.raises(ValueError, match=re.escape(str(error))):
                parse_numbers("here", words.encode(), comma)
            return
        values, counts = parse_numbers("here", bytearray(words.encode()), comma)
    assert counts.tolist() == expected[1]
    exact = np.array(expected[0])
    if values.dtype.kind == "i":
        exact = exact.clip(-(2.0**63), 2.0**63)
    np.testing.assert_array_equal(values.astype(float), exact)


@pytest.mark.parametrize("row", [b"10\n", b"10 ", b"10 10 10 10\n"], ids=["a number a line", "one line", "four a line"])
def test_memory_is_in_proportion_to_the_numbers(row):
    """An integer takes 8 bytes; words as Python objects would take 40 and more each."""
    content = row * (2**20 // len(row.split()))
    tracemalloc.start()
    try:
        values, _ = parse_numbers("here", content)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(values) == 2**20
    assert peak < 36 * len(values)


def test_what_is_too_large_is_refused_before_it_is_parsed(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_bytes(b"1 " * 200)
    assert len(parse_numbers("here", read_file(tmp_path / "a.txt"))[0]) == 200
    monkeypatch.setenv("PGGNN_MAX_BYTES", "400")
    with pytest.raises(ValueError, match=r"here: more than 25 numbers, the limit; PGGNN_MAX_BYTES raises it"):
        parse_numbers("here", read_file(tmp_path / "a.txt"))
    monkeypatch.setenv("PGGNN_MAX_BYTES", "399")
    with pytest.raises(ValueError, match=r"a.txt: 400 bytes to read, the limit is 399; PGGNN_MAX_BYTES sets another"):
        read_file(tmp_path / "a.txt")
    monkeypatch.setenv("PGGNN_MAX_BYTES", "4 GiB")
    with pytest.raises(ValueError, match="PGGNN_MAX_BYTES must be a whole number of bytes, got '4 GiB'"):
        read_file(tmp_path / "a.txt")
