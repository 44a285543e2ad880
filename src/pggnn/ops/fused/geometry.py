"""How a call is laid out on the GPU: widths, tiles, precision, and the constants that kernels are compiled for."""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import torch
from torch import Tensor

from pggnn.cells import CELLS
from pggnn.ops.fused.shape import (
    INTERPRETED,
    Shape,
    is_exact,
    operand_dtype,
    padded,
    processors,
    shape,
    takes_fields,
)
from pggnn.orderings import Reading


@dataclass(frozen=True)
class Geometry:
    """What the kernels of one call have in common; the parts of the operation take it instead of the whole."""

    cell: str
    hidden: int
    reading: Reading
    shape: Shape
    dtype: torch.dtype
    """Of what the matrix products read."""
    exact: bool
    """Whether matrix products must have the precision of float32."""
    device: torch.device

    @classmethod
    def of(cls, gates: Tensor, hidden: int, reading: Reading, cell: str, profile: Tensor) -> "Geometry":
        """For these gate rows, and a graph of this :attr:`~pggnn.plan.Plan.profile`."""
        sequences = sum(nodes * reading.count(n) for n, nodes in profile.tolist())
        cut = shape(gates, hidden, sequences, cell)
        return _known(cell, hidden, reading, cut, operand_dtype(gates), is_exact(gates), gates.device)

    @cached_property
    def width(self) -> int:
        """Channels that the kernels compute with."""
        return padded(self.hidden)

    @property
    def states(self) -> int:
        """Vectors of a cell's state."""
        return CELLS[self.cell].states

    @cached_property
    def fields(self) -> int:
        """Gates of the cell, padded to a power of two."""
        return 1 if self.cell.startswith("srn") else 4

    @property
    def wide(self) -> int:
        """Columns of all gates."""
        return self.fields * self.width

    @property
    def streams(self) -> bool:
        """Whether weights are read at every step, because they have no room in shared memory."""
        return self.shape.gates > 0

    @cached_property
    def by_field(self) -> bool:
        """Whether the gates are computed one after the other."""
        return takes_fields(self.cell, self.hidden) and not self.streams

    @cached_property
    def back_by_field(self) -> bool:
        """Whether they are in the backward pass, where registers are short sooner."""
        short = self.cell == "lstm" and self.width == 64 and self.dtype.itemsize == 2
        return self.by_field or (short and not self.streams)

    @cached_property
    def processors(self) -> int:
        """Multiprocessors of the GPU."""
        return processors(self.device)

    @cached_property
    def wave(self) -> int:
        """Programs that run at the same time."""
        return self.processors * (1 if self.shape.warps > 4 else 2)

    @property
    def precision(self) -> str:
        """Of matrix products in float32."""
        return "tf32x3" if self.exact else "tf32"

    @cached_property
    def layout(self) -> dict[str, int]:
        """Where the columns of a row lie."""
        if self.streams:
            columns, vector = self.wide // self.shape.gates, 2
        else:
            columns = self.shape.warps // (self.shape.block // 16)
            vector = min(16 // self.dtype.itemsize, self.width // columns // 4)
        return {"HP": self.width, "WN": columns, "E": vector, "FIELDS": self.fields}

    @cached_property
    def gating(self) -> dict[str, int]:
        """How many there are of what is not padded."""
        return {"H": self.hidden, "GATES": CELLS[self.cell].gates}

    @cached_property
    def reads(self) -> dict[str, Any]:
        """Which sequences are read."""
        reading = self.reading
        return {
            "GROUP": reading.orders.choice or reading.group, "FRAME": reading.frame, "LIMIT": reading.limit or 0,
            "B": self.shape.block,
        }  # fmt: skip

    @cached_property
    def running(self) -> dict[str, Any]:
        """All that a kernel which runs a layer is compiled for."""
        return {
            **self.layout, **self.reads, "CELL": self.cell, "PRECISION": self.precision,
            "FAST": not self.exact and not INTERPRETED, "num_warps": self.shape.warps,
            "num_stages": 2 if self.streams else 1,
        }  # fmt: skip

    def empty(self, rows: int, width: int, dtype: torch.dtype | None = None) -> Tensor:
        """Memory for ``rows`` rows of ``width`` hidden vectors."""
        return torch.empty(rows, width * self.width, dtype=dtype or self.dtype, device=self.device)


_known = lru_cache(maxsize=256)(Geometry)  # with the constants that follow from it
