"""What fits a GPU: how the fused kernels cut the operation up there, and what they cannot do."""

import os
from functools import cache
from typing import NamedTuple

import torch
import triton
from torch import Tensor

INTERPRETED = os.environ.get("TRITON_INTERPRET", "0").lower() in ("1", "y", "yes", "on", "true")
"""Whether kernels run on the CPU, in Triton's interpreter."""
KERNELS = ("lstm", "gru", "srn", "srn-relu", "srn-identity", "linear")
"""Cells that the kernels know, see :mod:`pggnn.ops.triton.cells` and :mod:`pggnn.ops.triton.linear`."""
WIDEST = 256
"""Channels that the kernels have room for."""
ROOM = 784
"""Bytes of shared memory that a program needs at most, for each byte of a hidden state, if the weights are to stay
there: those of an LSTM's four gates, and a tile of gradients; see ``tests/ops/test_room.py``."""
LEAST_STREAMED = 64
"""Channels from which on weights may be read at every step instead."""
WIDEST_ROW = 256
"""Bytes of a hidden state up to which a Hopper GPU has room for the weights."""


class Shape(NamedTuple):
    """How a layer is cut up: sequences in a tile, warps that read it, whether the input is projected in the kernel,
    and gates computed at a time where the weights have no room in shared memory, all of them otherwise."""

    block: int
    warps: int
    projects: bool
    gates: int = 0


def padded(hidden: int) -> int:
    """The width that the kernels compute with."""
    return max(16, 1 << (hidden - 1).bit_length())


def operand_dtype(gates: Tensor) -> torch.dtype:
    """What the matrix products read: 16-bit numbers if the gate rows are such, float32 otherwise."""
    return gates.dtype if gates.dtype in (torch.bfloat16, torch.float16) else torch.float32


def refusal(gates: Tensor, hidden: int, cell: str) -> str | None:
    """Why the kernels cannot do this, if they cannot."""
    if cell not in KERNELS:
        return f"has no kernel for the cell {cell!r}"
    if not (gates.is_cuda or INTERPRETED):
        return "needs a GPU, or Triton's interpreter (TRITON_INTERPRET=1)"
    if gates.dtype == torch.double:
        return "has no float64"
    if cell == "linear":  # no weights to keep
        return None
    if hidden > WIDEST:
        return f"has kernels for at most {WIDEST} channels, not for {hidden}"
    if padded(hidden) < LEAST_STREAMED and not has_room(gates.device, row_bytes(gates, hidden)):
        return "needs a GPU with more shared memory"
    return None


def row_bytes(gates: Tensor, hidden: int) -> int:
    """Bytes of a hidden state as the matrix products read it."""
    return padded(hidden) * operand_dtype(gates).itemsize


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def has_room(device: torch.device, row: int) -> bool:
    """Whether the weights may stay in shared memory where a hidden state takes ``row`` bytes; asks Triton's driver,
    which PyTorch's compilers cannot look into."""
    return shared_memory(device) >= ROOM * row


def is_exact(gates: Tensor) -> bool:
    """Whether matrix products must have the precision of float32: three products in TF32 then stand for each."""
    return operand_dtype(gates) == torch.float32 and torch.get_float32_matmul_precision() == "highest"


def takes_fields(cell: str, hidden: int) -> bool:
    """Whether the fields of a cell are taken one by one, where its weights have room in shared memory."""
    return cell == "lstm" and hidden > 64


def shape(gates: Tensor, hidden: int, sequences: int, cell: str) -> Shape:
    """A tile's states fill the registers of half a multiprocessor, or of a whole one where the weights do so too; half
    as many fit where every operand comes in two parts. Weights of more than 128 channels, 64 in float32, have no room
    in shared memory, and those of half as many on GPUs with less of it than Hopper. Few sequences are cut into the
    smallest tiles, whose steps take least long; each warp then has eight columns of a field where the fields are taken
    one by one."""
    row = row_bytes(gates, hidden)
    wide, exact = row > 128, is_exact(gates)
    streams = row > WIDEST_ROW or not has_room(gates.device, row)
    if INTERPRETED:
        return Shape(16, 1, not wide and not streams, padded(hidden) if streams else 0)
    block = 32 if wide and exact else 64
    if streams:
        return Shape(block, 4 if operand_dtype(gates).itemsize == 2 else 8, False, block)
    if sequences <= 2 * 16 * processors(gates.device):
        most = 16 if takes_fields(cell, hidden) else 8 if wide and (exact or hidden > 64) else 4
        return Shape(16, min(most, padded(hidden) // 8), not wide)
    return Shape(block, 8 if wide else 4, not wide)


def program_rows(rows: int) -> int:
    """Rows that a program prepares: many more where programs run one after the other, in the interpreter."""
    return 128 if INTERPRETED else rows


@cache
def processors(device: torch.device) -> int:
    """Multiprocessors of the GPU."""
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1


@cache
def shared_memory(device: torch.device) -> int:
    """Bytes of it that a program on the GPU may have; in the interpreter as many as it wants."""
    if device.type != "cuda":
        return 2**31
    return int(triton.runtime.driver.active.utils.get_device_properties(device.index)["max_shared_mem"])


@cache
def total_memory(device: torch.device) -> int:
    """Bytes of memory that the GPU has; in the interpreter as many as it wants."""
    return torch.cuda.get_device_properties(device).total_memory if device.type == "cuda" else 2**63


@cache
def fetches(device: torch.device) -> bool:
    """Whether the GPU has an instruction that brings a piece of memory into its cache."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= (9, 0)
