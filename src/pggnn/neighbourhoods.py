"""Who reads whom: a graph's edges as ragged lists of members, one list for each reader."""

from collections.abc import Sequence
from operator import index
from typing import NamedTuple

import torch
from torch import Tensor
from torch_geometric import EdgeIndex


class Lists(NamedTuple):
    """Ragged lists, one after the other, each in the order in which its members are numbered."""

    member: Tensor
    """``[E]`` node in each place."""
    reader: Tensor
    """``[E]`` whose list the place belongs to, rising."""
    edge: Tensor
    """``[E]`` row of the features that lead to the member."""
    size: Tensor
    """``[N]`` length of each reader's list."""


def star(edge_index: Tensor, num_nodes: int | tuple[int, int], flow: str = "source_to_target") -> tuple[Lists, int]:
    """Each node reads its neighbours, in the order of its edges. Checks the edges.

    Args:
        edge_index: ``[2, E]``, int64, any order.
        num_nodes: Number of nodes; on a bipartite graph those of ``edge_index[0]`` and of ``edge_index[1]``.
        flow: ``"source_to_target"`` makes the sources of a node's incoming edges its neighbours,
            ``"target_to_source"`` the targets of its outgoing ones.

    Returns:
        The lists, and how many nodes there are to be read.

    Example:
        >>> import torch
        >>> from pggnn.neighbourhoods import star
        >>> lists, nodes = star(torch.tensor([[2, 0, 1], [0, 1, 0]]), num_nodes=3)
        >>> lists.member.split(lists.size.tolist())
        (tensor([2, 1]), tensor([0]), tensor([], dtype=torch.int64))
    """
    check_flow(flow)
    edge_index, sizes = check_edges(edge_index, num_nodes)
    i, j = (1, 0) if flow == "source_to_target" else (0, 1)
    reader, edge = torch.sort(edge_index[i], stable=True)
    member = edge_index[j].index_select(0, edge)
    return Lists(member, reader, edge, torch.bincount(reader, minlength=sizes[i])), sizes[j]


def check_flow(flow: str) -> None:
    """Raises an error if there is no such flow."""
    if flow not in ("source_to_target", "target_to_source"):
        raise ValueError(f'flow must be "source_to_target" or "target_to_source", got {flow!r}')


def whole(name: str, value: int) -> int:
    """The value of an option, an error if it is no whole number."""
    try:
        return index(value)
    except TypeError:
        raise TypeError(f"{name} must be a whole number, got {value!r}") from None


def check_edges(edge_index: Tensor, num_nodes: int | tuple[int, int]) -> tuple[Tensor, Sequence[int]]:
    """The edges as a plain tensor, and the number of nodes of each of its rows; an error if they do not fit."""
    if not isinstance(edge_index, Tensor) or edge_index.layout != torch.strided:
        given = edge_index.layout if isinstance(edge_index, Tensor) else type(edge_index).__name__
        raise TypeError(
            f"edge_index must be a dense tensor of shape [2, E], got {given}; "
            "convert a sparse adjacency with torch_geometric.utils.to_edge_index"
        )
    if isinstance(edge_index, EdgeIndex):
        edge_index = edge_index.as_tensor()
    if torch._C._functorch.is_batchedtensor(edge_index):
        raise ValueError("edge_index varies under vmap; all calls must have the same edges: map over x alone")
    if edge_index.dim() != 2 or edge_index.size(0) != 2:
        raise ValueError(f"edge_index must have shape [2, E], got {list(edge_index.shape)}")
    if edge_index.dtype != torch.long:
        raise TypeError(f"edge_index must be int64, got {edge_index.dtype}; convert it with .long()")
    sizes = num_nodes if isinstance(num_nodes, (tuple, list)) else (whole("num_nodes", num_nodes),) * 2
    if min(sizes) < 0:
        raise ValueError(f"num_nodes must not be negative, got {num_nodes}")
    if edge_index.size(1) > 0:
        # aminmax(dim=1) starts all threads of a CPU, however few edges there are
        low, high = torch.stack([edge_index.amin(1), edge_index.amax(1)]).tolist()
        for row in (0, 1):
            if low[row] < 0 or high[row] >= sizes[row]:
                bad = low[row] if low[row] < 0 else high[row]
                raise IndexError(
                    f"edge_index[{row}] refers to node {bad}, but there are {sizes[row]} nodes "
                    f"(valid: 0 to {sizes[row] - 1}); check num_nodes, or the offsets of batched graphs"
                )
    return edge_index, sizes


def own_lists(member: Tensor, size: Tensor, num_nodes: int, what: str = "lists") -> tuple[Lists, int]:
    """Lists of one's own, such as the rings of a molecule, each read in its order. Checks them.

    Args:
        member: ``[E]`` nodes of all lists, one list after the other, int64.
        size: ``[R]`` length of each list, int64. Readers are the lists, not nodes.
        num_nodes: Number of nodes.
        what: What errors call the lists.

    Returns:
        The lists, and how many nodes there are to be read.
    """
    for name, tensor in (("index", member), ("size", size)):
        if not isinstance(tensor, Tensor) or tensor.dim() != 1 or tensor.dtype != torch.long:
            given = f"{tensor.dtype} of {list(tensor.shape)}" if isinstance(tensor, Tensor) else type(tensor).__name__
            raise TypeError(f"{what}: {name} must be a tensor of one dimension, int64, got {given}")
    total, least = (int(size.sum()), int(size.min())) if len(size) else (0, 0)
    if least < 0 or total != len(member):
        raise ValueError(
            f"{what}: sizes must be 0 or more and sum to the {len(member)} members, got a sum of {total}, least {least}"
        )
    low, high = (int(bound) for bound in member.aminmax()) if len(member) else (0, -1)
    if low < 0 or high >= num_nodes:
        raise IndexError(f"{what}: node {low if low < 0 else high}, but there are {num_nodes} nodes, counted from 0")
    member, size = member.contiguous(), size.contiguous()  # kernels read them as they lie in memory
    reader = torch.repeat_interleave(size, output_size=total)
    return Lists(member, reader, torch.arange(total, device=member.device), size), num_nodes
