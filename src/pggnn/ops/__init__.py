"""``group_recurrence``: reads each node's sequences with an RNN and sums the last hidden states."""

from importlib.util import find_spec

from torch import Tensor
from torch.nn.functional import pad

from pggnn.cells import CELLS, is_integer
from pggnn.ops import reference
from pggnn.ops.linear import bits
from pggnn.ops.operator import differentiable
from pggnn.ops.structure import step_codes
from pggnn.ops.workspace import DEFAULT_WORKSPACE
from pggnn.orderings import Reading
from pggnn.plan import PaddedPlan, Plan

BACKENDS = ("auto", "triton", "packed", "reference")
HAS_TRITON = find_spec("triton") is not None


def check_backend(backend: str, workspace: int | None) -> None:
    """Refuses backends that do not exist and budgets that make no sense."""
    if backend not in BACKENDS:
        raise ValueError(f"backend must be one of {', '.join(map(repr, BACKENDS))}, got {backend!r}")
    if workspace is not None and not is_integer(workspace, 0):
        raise ValueError(f"workspace must be None or a whole number of bytes ≥ 0, got {workspace!r}")


def group_recurrence(
    gates: Tensor,
    weights: list[Tensor],
    plan: Plan,
    *,
    rows: Tensor | None = None,
    root: int = 0,
    reading: Reading,
    cell: str,
    workspace: int | None = None,
    backend: str = "auto",
    structure: Tensor | None = None,
    adjacency: Plan | None = None,
    center: Tensor | None = None,
) -> Tensor:
    r"""The sum over each node's sequences of the RNN's last hidden state.

    Args:
        gates: ``[R, gates · H]`` rows ``W_ih x + b_ih`` of the first layer.
        weights: :attr:`pggnn.cells.Recurrence.recurrent_weights`.
        plan: The graph.
        rows: ``[E]`` gate row that each slot of the plan reads; its neighbour's, ``plan.neighbor``, by default.
        root: Centre node ``v`` reads gate row ``root + v``.
        reading: Which sequences are read.
        cell: One of :data:`pggnn.cells.CELLS`.
        workspace: Bytes that a call may use for intermediate states, :data:`DEFAULT_WORKSPACE` by default. If those of
            all sequences fit, the forward pass keeps them for the backward pass; otherwise both passes go block by
            block, and the backward pass runs each block again (on a large GPU all but one, if that is a 16th of
            all). On the CPU some of this memory stays reserved for the next call
            (:data:`pggnn.ops.packed.memory.MOST_BYTES` at most).
        backend: ``"triton"`` (the fused kernels), ``"packed"``, ``"reference"``, or ``"auto"`` for the fastest on this
            device.
        structure: ``[w, gates · H]`` rows for w structural bits, see :mod:`pggnn.ops.structure`: row ``lag − 1`` is
            added to the gates of each step whose neighbour is adjacent to the one read ``lag`` steps earlier. Of cells
            h ← a ⊙ h + b ``[w, H]``, added to what b comes from.
        adjacency: The plan that says who is adjacent; by default ``plan``, whose readers must then be the nodes.
        center: ``[N, gates · H]`` what each node adds to the gates of its neighbours, but not to its own: for cells
            h ← a ⊙ h + b alone.

    Returns:
        ``[N, H]``, without :meth:`Reading.scale`, in the dtype of ``gates``.

    Example:
        >>> import torch
        >>> from pggnn import Plan
        >>> from pggnn.cells import Recurrence
        >>> from pggnn.ops import group_recurrence
        >>> from pggnn.orderings import Reading
        >>> rnn, plan = Recurrence(8, 16, cell="gru"), Plan.build(torch.tensor([[1, 2, 3], [0, 0, 0]]), 4)
        >>> gates = rnn(torch.randn(4, 8))
        >>> group_recurrence(gates, rnn.recurrent_weights, plan, reading=Reading(), cell="gru").shape
        torch.Size([4, 16])
    """
    check_backend(backend, workspace)
    if workspace is None:
        workspace = DEFAULT_WORKSPACE.get(gates.device.type, DEFAULT_WORKSPACE["cpu"])
    rows = plan.neighbor if rows is None else rows
    is_affine = CELLS[cell].affine is not None
    if is_affine and structure is not None:
        structure = pad(structure, (structure.size(1), 0))
    if backend == "reference":
        return reference.group_recurrence(gates, weights, plan, rows, root, reading, cell, structure, adjacency, center)
    if is_affine:
        weights = [*weights, gates.new_empty(0, gates.size(1)) if center is None else center]
    codes, correction = None, None
    if is_affine and structure is not None and structure.size(0) == 1 and bits.is_sparse(reading):
        correction = bits.correction(gates, weights, structure[0], plan, rows, root, reading, cell, adjacency)
        structure = None
    if structure is not None:
        weights, codes = [*weights, structure], step_codes(plan, reading, structure.size(0), adjacency)
    fused = False
    if backend == "triton" or (backend == "auto" and gates.is_cuda and HAS_TRITON):
        from pggnn.ops.fused.shape import refusal

        reason = refusal(gates, weights[0].size(1), cell)
        if reason is None and is_affine and (structure is not None or reading.frame == "chain"):
            reason = f"has no kernel for the cell {cell!r} with these structural bits, or in a chain"
        if reason is not None and backend == "triton":
            raise ValueError(f'backend="triton" {reason}; use backend="auto"')
        fused = reason is None
    if isinstance(plan, PaddedPlan) and (structure is not None or correction is not None or not fused):
        raise ValueError("a padded plan is for the fused kernels, without structural bits: use Plan.build")
    out = differentiable(gates, weights, plan, rows, root, reading, cell, workspace, fused, codes)
    return out if correction is None else out + correction.to(out.dtype)
