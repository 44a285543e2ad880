"""Index arithmetic and memory layout of the kernels against the definitions: on a GPU, else in the interpreter."""

import pytest
import torch

from pggnn.testing import READINGS

triton = pytest.importorskip("triton")
tl = triton.language

from pggnn.ops.triton import index as triton_index  # noqa: E402
from pggnn.ops.triton import layout as triton_layout  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@triton.jit
def _slot_kernel(i, t, n, out, GROUP: tl.constexpr, FRAME: tl.constexpr, LIMIT: tl.constexpr, SIZE: tl.constexpr):
    at = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    slot = triton_index.slot_read(tl.load(i + at), tl.load(t + at), tl.load(n + at), GROUP, FRAME, LIMIT)
    tl.store(out + at, slot)


@triton.jit
def _reading_kernel(
    q, j, n, i, t, reads, GROUP: tl.constexpr, FRAME: tl.constexpr, LIMIT: tl.constexpr, SIZE: tl.constexpr,
    SLAB: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    j_at, n_at, q_at = tl.load(j + at), tl.load(n + at), tl.load(q + at)
    if SLAB:
        begin = q_at * 0
        first, end = triton_index.readings_between(j_at, n_at, begin + SLAB - 1, begin + 2 * SLAB, GROUP, FRAME, LIMIT)
        sequence, step, does = triton_index.reading_between(q_at, j_at, n_at, GROUP, FRAME, LIMIT)
        does &= (q_at >= first) & (step >= SLAB - 1) & (step < 2 * SLAB)
    else:
        end = triton_index.readings(j_at, n_at, GROUP, FRAME, LIMIT)
        sequence, step, does = triton_index.reading(q_at, j_at, n_at, GROUP, FRAME, LIMIT)
    tl.store(i + at, sequence)
    tl.store(t + at, step)
    tl.store(reads + at, (does & (q_at < end)).to(tl.int32))


def padded(rows):
    columns = torch.tensor(rows, dtype=torch.int32).t().contiguous()
    return torch.nn.functional.pad(columns, (0, -columns.size(1) % 1024)).to(DEVICE)


@pytest.mark.parametrize("reading", READINGS, ids=str)
def test_slots_and_their_inverse(reading):
    constants = {
        "GROUP": reading.orders.choice or reading.group, "FRAME": reading.frame, "LIMIT": reading.limit or 0,
        "SIZE": 1024,
    }  # fmt: skip
    sizes = {"all": range(6), "threes": range(9)}.get(reading.group, (*range(8), 16, 17))
    steps = [
        (i, t, n)
        for n in sizes
        for i in range(reading.count(n))
        for t in range(reading.length(n))
    ]  # fmt: skip
    i, t, n = padded(steps)
    out = torch.empty_like(i)
    _slot_kernel[(i.numel() // 1024,)](i, t, n, out, **constants)
    assert out[: len(steps)].tolist() == [reading.slot(*step) for step in steps]

    asked = [(q, j, n) for n in sizes for j in range(n + 1) for q in range(max(2 * reading.count(n), 3 * n * n) + 2)]
    q, j, n = padded(asked)
    i, t, reads = (torch.empty_like(q) for _ in range(3))
    for slab in (0, 1, 3):  # all steps, or some
        _reading_kernel[(q.numel() // 1024,)](q, j, n, i, t, reads, **constants, SLAB=slab)
        found = [
            (n, slot if slot < n else -1, i, t)
            for (_, slot, n), i, t, does in zip(asked, i.tolist(), t.tolist(), reads.tolist(), strict=False)
            if does
        ]
        wanted = [(n, reading.slot(i, t, n), i, t) for i, t, n in steps if not slab or slab - 1 <= t < 2 * slab]
        assert sorted(found) == sorted(wanted)


def test_a_place_for_each_column():
    for width, warps, vector in ((16, 1, 4), (32, 1, 8), (256, 1, 8), (512, 2, 8), (256, 2, 4)):
        columns = torch.arange(width, device=DEVICE, dtype=torch.int32)
        there, back = torch.empty_like(columns), torch.empty_like(columns)
        _column_kernel[(1,)](there, back, W=width, WN=warps, E=vector)
        assert torch.equal(there.sort().values, columns)
        assert torch.equal(back, columns)


@triton.jit
def _column_kernel(there, back, W: tl.constexpr, WN: tl.constexpr, E: tl.constexpr):
    column = tl.arange(0, W)
    place = triton_layout.place_of(column, W, WN, E)
    tl.store(there + column, place)
    tl.store(back + column, triton_layout.column_at(place, W, WN, E))
