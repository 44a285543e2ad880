"""Batch normalisation whose statistics are those of some of the rows: one kernel forward, one back."""

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["rows"])
def normalise(
    x, real, weight, bias, out, statistics, running_mean, running_var, batches, rows, channels, eps, momentum,
    ROWS: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """Normalises some channels, writes their mean and inverse deviation, and moves the running statistics."""
    if tl.program_id(0) == 0:
        tl.store(batches, tl.load(batches) + 1)
    c = tl.program_id(0) * C + tl.arange(0, C)
    exists = c < channels
    count = tl.zeros([ROWS, C], tl.float32)
    total = tl.zeros([ROWS, C], tl.float32)
    for first in range(0, rows, ROWS):
        row = first + tl.arange(0, ROWS)
        mask = (row < rows)[:, None] & exists[None, :]
        counts = tl.load(real + row, mask=row < rows, other=0).to(tl.float32)[:, None]
        count += tl.where(mask, counts, 0)
        total += tl.load(x + row[:, None] * channels + c[None, :], mask=mask, other=0).to(tl.float32) * counts
    number = tl.sum(count, 0)
    mean = tl.sum(total, 0) / number
    total = tl.zeros([ROWS, C], tl.float32)
    for first in range(0, rows, ROWS):
        row = first + tl.arange(0, ROWS)
        mask = (row < rows)[:, None] & exists[None, :]
        counts = tl.load(real + row, mask=row < rows, other=0).to(tl.float32)[:, None]
        centred = tl.load(x + row[:, None] * channels + c[None, :], mask=mask, other=0).to(tl.float32) - mean[None, :]
        total += centred * centred * tl.where(mask, counts, 0)
    variance = tl.sum(total, 0) / number
    scale = 1 / tl.sqrt(variance + eps)
    tl.store(statistics + c, mean, mask=exists)
    tl.store(statistics + channels + c, scale, mask=exists)
    before = tl.load(running_mean + c, mask=exists)
    tl.store(running_mean + c, before + momentum * (mean - before), mask=exists)
    before = tl.load(running_var + c, mask=exists)
    unbiased = variance * number / tl.maximum(number - 1, 1)
    tl.store(running_var + c, before + momentum * (unbiased - before), mask=exists)
    factor = scale * tl.load(weight + c, mask=exists).to(tl.float32)
    shift = tl.load(bias + c, mask=exists).to(tl.float32)
    for first in range(0, rows, ROWS):
        row = first + tl.arange(0, ROWS)
        mask = (row < rows)[:, None] & exists[None, :]
        at = row[:, None] * channels + c[None, :]
        centred = tl.load(x + at, mask=mask, other=0).to(tl.float32) - mean[None, :]
        tl.store(out + at, (centred * factor[None, :] + shift[None, :]).to(out.dtype.element_ty), mask=mask)


@triton.jit(do_not_specialize=["rows"])
def normalise_back(
    d_out, x, real, weight, statistics, d_x, d_weight, d_bias, rows, channels, ROWS: tl.constexpr, C: tl.constexpr
):
    """Gradients of some channels: of the input, and of weight and bias."""
    c = tl.program_id(0) * C + tl.arange(0, C)
    exists = c < channels
    mean = tl.load(statistics + c, mask=exists)
    scale = tl.load(statistics + channels + c, mask=exists)
    count = tl.zeros([ROWS, C], tl.float32)
    summed = tl.zeros([ROWS, C], tl.float32)
    turned = tl.zeros([ROWS, C], tl.float32)
    for first in range(0, rows, ROWS):
        row = first + tl.arange(0, ROWS)
        mask = (row < rows)[:, None] & exists[None, :]
        at = row[:, None] * channels + c[None, :]
        d = tl.load(d_out + at, mask=mask, other=0).to(tl.float32)
        count += tl.where(mask, tl.load(real + row, mask=row < rows, other=0).to(tl.float32)[:, None], 0)
        summed += d
        turned += d * (tl.load(x + at, mask=mask, other=0).to(tl.float32) - mean[None, :]) * scale[None, :]
    number, along, across = tl.sum(count, 0), tl.sum(summed, 0), tl.sum(turned, 0)
    tl.store(d_bias + c, along.to(d_bias.dtype.element_ty), mask=exists)
    tl.store(d_weight + c, across.to(d_weight.dtype.element_ty), mask=exists)
    factor = scale * tl.load(weight + c, mask=exists).to(tl.float32)
    for first in range(0, rows, ROWS):
        row = first + tl.arange(0, ROWS)
        mask = (row < rows)[:, None] & exists[None, :]
        at = row[:, None] * channels + c[None, :]
        d = tl.load(d_out + at, mask=mask, other=0).to(tl.float32)
        normal = (tl.load(x + at, mask=mask, other=0).to(tl.float32) - mean[None, :]) * scale[None, :]
        counts = tl.load(real + row, mask=row < rows, other=0).to(tl.float32)[:, None]
        d -= counts * (along[None, :] + normal * across[None, :]) / number[None, :]
        tl.store(d_x + at, (d * factor[None, :]).to(d_x.dtype.element_ty), mask=mask)
