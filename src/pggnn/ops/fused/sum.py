"""Sums of rows by a number that each has, through a kernel: in a fixed order, so the same bit for bit each time."""

from collections.abc import Hashable
from typing import Any

import torch
import triton
from torch import Tensor

from pggnn.lists import ListPlan
from pggnn.ops.fused.tiles import Tiles
from pggnn.ops.graph import Graph
from pggnn.ops.triton.sums import sum_rows
from pggnn.orderings import Reading
from pggnn.plan import PaddedPlan, Plan, hosted, slot_numbers

COLUMNS = 256
"""Columns of a program at most."""
ELEMENTS = 4096
"""Numbers that a program reads at a time."""
LONG, MOST_PARTS = 64, 64
"""Rows from which on a sum is divided among programs, on average, and how many of them at most."""


class RowSum(torch.autograd.Function):
    """``out[i]`` is the sum of the ``values[k]`` for which ``number[k]`` is i, of ``count``. Numbers that are
    a field of ``plan`` are sorted once for all layers on it."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, number: Tensor, count: int, plan: Plan | ListPlan | None = None) -> Tensor:
        ctx.save_for_backward(number)
        out = values.new_empty(count, values.size(1))
        rows, begins = shared_readers(number, count, plan)
        if plan is None:
            torch._assert_async(begins[-1] - begins[0] == number.numel(), f"numbers must be from 0 to {count - 1}")
        with torch.cuda.device_of(values):
            add_up(values.contiguous(), out, rows, begins)
        return out

    @staticmethod
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:
        return d_out.index_select(0, *ctx.saved_tensors), None, None, None


class RowSpread(torch.autograd.Function):
    """``out[k]`` is ``values[number[k]]``: the other way round, with gradients that are the sums."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, number: Tensor, plan: Plan | ListPlan | None = None) -> Tensor:
        ctx.save_for_backward(number)
        ctx.count, ctx.plan = values.size(0), plan
        return values.index_select(0, number)

    @staticmethod
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:
        return RowSum.apply(d_out, *ctx.saved_tensors, ctx.count, ctx.plan), None, None


def readers(number: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The rows that have each number, number by number, and where those of each begin."""
    by_number, rows = torch.sort(number, stable=True)
    return rows, torch.searchsorted(by_number, torch.arange(count + 1, device=number.device, dtype=number.dtype))


def checked_readers(number: Tensor, count: int, padded: bool) -> tuple[Tensor, Tensor]:
    """The same of numbers that are known to be from 0 to ``count - 1``: what has fewer bits is sorted sooner. Where
    they are ``padded``, the last number has no rows: those are padding, which nobody reads, and they are many."""
    dtype = next(dtype for dtype in (torch.short, torch.int, torch.long) if count <= torch.iinfo(dtype).max)
    rows, begins = readers(number.to(dtype), count)
    return rows, torch.cat([begins[:-1], begins[-2:-1]]) if padded and count > 0 else begins


def shared_readers(number: Tensor, count: int, plan: Plan | ListPlan | None) -> tuple[Tensor, Tensor]:
    """:func:`readers`, which the layers on a plan share where the numbers are a field of it, or derived from it."""
    name = None if plan is None else name_of(number, plan)
    if plan is None or name is None:
        return readers(number, count)
    found: tuple[Tensor, Tensor] = plan.derived(named_readers, name, count)
    return found


def name_of(number: Tensor, plan: Plan | ListPlan) -> Hashable | None:
    """The field of a plan that a tensor is, or the function and arguments that it was derived by; None for others."""
    fields = ("owner", "head") if isinstance(plan, ListPlan) else ("neighbor", "center")
    field = next((name for name in fields if number is getattr(plan, name)), None)
    return field or next((name for name, value in plan.known.items() if number is value), None)


@hosted
def named_readers(plan: Plan | ListPlan, name: Any, count: int) -> tuple[Tensor, Tensor]:
    """:func:`readers` of the numbers that :func:`name_of` names. Those of padding are a padded plan's last reader's."""
    number = getattr(plan, name) if isinstance(name, str) else plan.derived(name[0], *name[1])
    read = plan.plan if isinstance(plan, ListPlan) else plan
    return checked_readers(number, count, name in ("owner", "center") and isinstance(read, PaddedPlan))


@hosted
def step_readers(plan: Plan, name: Hashable, count: int, reading: Reading, block: int) -> tuple[Tensor, Tensor]:
    """For lists that are read once, as they are: the rows of memory where the steps that read each gate row are, −1 for
    padding, and where those of each row begin. ``name``: of the row of each slot, see :func:`name_of`."""
    rows, begins = plan.derived(named_readers, name, count)
    tiles, slot = plan.shape.derived(Tiles.build, reading, block), plan.derived(slot_numbers)
    step, sequence = slot - plan.start[plan.center], tiles.first[plan.center]
    at = tiles.offset[sequence // block] + step * block + sequence % block
    return torch.where(step < plan.degree[plan.center], at, -1)[rows], begins


def sum_slots(d_slots: Tensor, gates: Tensor, graph: Graph, plan: Plan | None) -> Tensor:
    """Gradients of the gate rows from those of the slots that read them and, behind them, of the centres, in a fixed
    order."""
    if plan is not None and graph.rows is plan.known.get((slot_numbers, ())):
        return d_slots[: gates.size(0)]
    d_gates = torch.empty_like(gates)
    add_up(d_slots, d_gates, *shared_readers(graph.rows, gates.size(0), plan), graph.root, graph.degree.numel())
    return d_gates


def add_up(values: Tensor, out: Tensor, rows: Tensor, begins: Tensor, root: int | None = None, own: int = 0) -> None:
    """Writes the sums of :func:`readers`' rows to ``out``; to its ``own`` rows from ``root`` on as many of ``values``,
    those that come after all that are read, are added too."""
    if out.numel() == 0:
        return
    count, width = out.shape
    columns = min(COLUMNS, triton.next_power_of_2(width))
    parts = min(MOST_PARTS, triton.next_power_of_2(max(1, rows.numel() // count // LONG)))
    sums = out if parts == 1 else out.new_empty(parts, count, width, dtype=torch.float)
    most = min(32, ELEMENTS // columns)
    usual = min(most, triton.next_power_of_2(max(1, -(-rows.numel() // (count * parts)))))
    sum_rows[count, -(-width // columns), parts](
        values, sums, rows, begins, rows.numel(), count if root is None else root, own, width,
        COLUMNS=columns, USUAL=usual, READERS=most, PARTS=parts, num_warps=4 if columns > 64 else 2,
    )  # fmt: skip
    if parts > 1:
        out.copy_(sums.sum(0))
