"""Batch normalisation whose statistics are those of some of the rows: two kernels forward, two back.

Each program has a block of rows. The first kernel leaves what it finds in each block, the second adds that up.
"""

import triton
import triton.language as tl

from pggnn.ops.triton.launch import direct


@triton.jit
def block_of(rows, channels, ROWS: tl.constexpr, C: tl.constexpr):
    """A program's rows, its channels, where they lie, and which of them exist."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.program_id(1) * C + tl.arange(0, C)
    return row, c, row[:, None] * channels + c[None, :], (row < rows)[:, None] & (c < channels)[None, :]


@triton.jit
def parts_of(parts, number, c, channels, BLOCKS: tl.constexpr):
    """What was left of all blocks, for one quantity: ``[BLOCKS, C]``."""
    blocks = tl.num_programs(0)
    block = tl.arange(0, BLOCKS)
    at = (number * blocks + block[:, None]) * channels + c[None, :]
    return tl.load(parts + at, mask=(block < blocks)[:, None] & (c < channels)[None, :], other=0)


@direct
@triton.jit(do_not_specialize=["rows"])
def measure(x, real, parts, rows, channels, ROWS: tl.constexpr, C: tl.constexpr):
    """The number of real rows in a block, their mean and their squared deviations: ``[3, blocks, channels]``."""
    row, c, at, mask = block_of(rows, channels, ROWS, C)
    counts = tl.load(real + row, mask=row < rows, other=0).to(tl.float32)[:, None]
    values = tl.load(x + at, mask=mask, other=0).to(tl.float32)
    number = tl.sum(counts + tl.zeros([ROWS, C], tl.float32), 0)
    mean = tl.sum(values * counts, 0) / tl.maximum(number, 1)
    centred = (values - mean[None, :]) * counts
    out, size = parts + tl.program_id(0) * channels + c, tl.num_programs(0) * channels
    tl.store(out, number, mask=c < channels)
    tl.store(out + size, mean, mask=c < channels)
    tl.store(out + 2 * size, tl.sum(centred * centred, 0), mask=c < channels)


@direct
@triton.jit(do_not_specialize=["rows"])
def normalise(
    x, parts, weight, bias, out, statistics, running_mean, running_var, batches, rows, channels, eps, momentum,
    ROWS: tl.constexpr, C: tl.constexpr, BLOCKS: tl.constexpr,
):  # fmt: skip
    """Normalises a block; the first one's programs write mean, inverse deviation and number, ``[3, channels]``, and
    move the running statistics."""
    _, c, at, mask = block_of(rows, channels, ROWS, C)
    exists = c < channels
    numbers, means = parts_of(parts, 0, c, channels, BLOCKS), parts_of(parts, 1, c, channels, BLOCKS)
    number = tl.sum(numbers, 0)
    mean = tl.sum(numbers * means, 0) / number
    apart = means - mean[None, :]
    variance = tl.sum(parts_of(parts, 2, c, channels, BLOCKS) + numbers * apart * apart, 0) / number
    scale = 1 / tl.sqrt(variance + eps)
    if tl.program_id(0) == 0:
        if tl.program_id(1) == 0:
            tl.store(batches, tl.load(batches) + 1)
        tl.store(statistics + c, mean, mask=exists)
        tl.store(statistics + channels + c, scale, mask=exists)
        tl.store(statistics + 2 * channels + c, number, mask=exists)
        before = tl.load(running_mean + c, mask=exists)
        tl.store(running_mean + c, before + momentum * (mean - before), mask=exists)
        before = tl.load(running_var + c, mask=exists)
        unbiased = variance * number / tl.maximum(number - 1, 1)
        tl.store(running_var + c, before + momentum * (unbiased - before), mask=exists)
    factor = scale * tl.load(weight + c, mask=exists).to(tl.float32)
    shift = tl.load(bias + c, mask=exists).to(tl.float32)
    centred = tl.load(x + at, mask=mask, other=0).to(tl.float32) - mean[None, :]
    tl.store(out + at, (centred * factor[None, :] + shift[None, :]).to(out.dtype.element_ty), mask=mask)


@direct
@triton.jit(do_not_specialize=["rows"])
def measure_back(d_out, x, statistics, parts, rows, channels, ROWS: tl.constexpr, C: tl.constexpr):
    """A block's gradients, added up: as they are, and multiplied by the normalised rows: ``[2, blocks, channels]``."""
    _, c, at, mask = block_of(rows, channels, ROWS, C)
    mean = tl.load(statistics + c, mask=c < channels)
    scale = tl.load(statistics + channels + c, mask=c < channels)
    d = tl.load(d_out + at, mask=mask, other=0).to(tl.float32)
    normal = (tl.load(x + at, mask=mask, other=0).to(tl.float32) - mean[None, :]) * scale[None, :]
    out = parts + tl.program_id(0) * channels + c
    tl.store(out, tl.sum(d, 0), mask=c < channels)
    tl.store(out + tl.num_programs(0) * channels, tl.sum(d * normal, 0), mask=c < channels)


@direct
@triton.jit(do_not_specialize=["rows"])
def normalise_back(
    d_out, x, real, weight, statistics, parts, d_x, d_weight, d_bias, rows, channels,
    ROWS: tl.constexpr, C: tl.constexpr, BLOCKS: tl.constexpr,
):  # fmt: skip
    """Gradients of a block's input; the first one's programs write those of weight and bias."""
    row, c, at, mask = block_of(rows, channels, ROWS, C)
    exists = c < channels
    mean = tl.load(statistics + c, mask=exists)
    scale = tl.load(statistics + channels + c, mask=exists)
    number = tl.load(statistics + 2 * channels + c, mask=exists, other=1)
    along = tl.sum(parts_of(parts, 0, c, channels, BLOCKS), 0)
    across = tl.sum(parts_of(parts, 1, c, channels, BLOCKS), 0)
    if tl.program_id(0) == 0:
        tl.store(d_bias + c, along.to(d_bias.dtype.element_ty), mask=exists)
        tl.store(d_weight + c, across.to(d_weight.dtype.element_ty), mask=exists)
    factor = scale * tl.load(weight + c, mask=exists).to(tl.float32)
    counts = tl.load(real + row, mask=row < rows, other=0).to(tl.float32)[:, None]
    d = tl.load(d_out + at, mask=mask, other=0).to(tl.float32)
    normal = (tl.load(x + at, mask=mask, other=0).to(tl.float32) - mean[None, :]) * scale[None, :]
    d -= counts * (along[None, :] + normal * across[None, :]) / number[None, :]
    tl.store(d_x + at, (d * factor[None, :]).to(d_x.dtype.element_ty), mask=mask)
