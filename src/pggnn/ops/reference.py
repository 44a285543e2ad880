"""The operation by definition: node after node, step after step, on any device and dtype, differentiated by autograd.
The judge of the others."""

from itertools import permutations

import torch
from torch import Tensor
from torch.nn.functional import linear

from pggnn.cells import CELLS, State, split_layers
from pggnn.groups import group
from pggnn.orderings import ROOT, Reading
from pggnn.plan import Plan


def arrangements(name: str, n: int) -> list[list[int]]:
    """The orders of a group on n members, built by composing permutations rather than in closed form."""
    if name == "pairs":
        return [[*g.images] for g in group(n)]
    if name == "dihedral":
        turned = [[(first + t) % n for t in range(n)] for first in range(n)]
        back = [[(first - t) % n for t in range(n)] for first in range(n)] if n > 2 else []
        return turned + back or [[]]
    if name == "trivial":
        return [[*range(n)]]
    size = {"twos": 2, "threes": 3, "all": 5}[name]
    return [] if name == "twos" and n == 1 else [[*one] for one in permutations(range(n), min(n, size))]


def sequences(reading: Reading, n: int) -> list[list[int]]:
    """What is read at a node with n neighbours."""
    orders = arrangements(reading.group, n)
    if reading.limit is not None and len(orders) > reading.limit:
        orders = [orders[i * len(orders) // reading.limit] for i in range(reading.limit)]
    if reading.frame == "merged":
        return [[ROOT, *members, ROOT] for members in orders]
    if n == 0:
        return []
    ends = {"closed": lambda members: members[:1], "open": lambda members: [], "after": lambda members: [ROOT]}
    if reading.frame == "chain":
        return [[slot for members in orders for slot in (*members, members[0])]]
    return [[*members, *ends[reading.frame](members)] for members in orders]


def structure_slots(reading: Reading, sequence: list[int]) -> list[int]:
    """The neighbour that the bits of each step are about, see :meth:`Reading.structure_pair`."""
    if reading.frame != "merged":
        return sequence
    closes = len(sequence) % 2 == 1 and reading.group == "pairs"
    return [*sequence[:-1], sequence[1] if closes else ROOT]


def structure_pairs(reading: Reading, sequence: list[int], width: int) -> list[list[tuple[int, int] | None]]:
    """At each step, the pairs of slots that its ``width`` bits are about: this neighbour and an earlier one."""
    slots = structure_slots(reading, sequence)
    pairs = [
        [(slots[t], slots[t - lag]) if lag <= t else None for lag in range(1, width + 1)] for t in range(len(slots))
    ]
    return [[None if pair is None or ROOT in pair or pair[0] == pair[1] else pair for pair in step] for step in pairs]


def group_recurrence(
    gates: Tensor, weights: list[Tensor], plan: Plan, rows: Tensor, root: int, reading: Reading, cell: str,
    structure: Tensor | None = None, adjacency: Plan | None = None, center: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """See :func:`pggnn.ops.group_recurrence`."""
    reading.check(plan.profile)
    known = plan if adjacency is None else adjacency
    edges = set(zip(known.center.tolist(), known.neighbor.tolist(), strict=True)) if structure is not None else set()
    out = []
    for v, (n, start) in enumerate(zip(plan.degree.tolist(), plan.start.tolist(), strict=True)):
        read = sequences(reading, n)
        if not read:
            out.append(gates.new_zeros(weights[0].size(1)))
            continue
        slots = torch.tensor(read, device=gates.device)
        at_root = slots == ROOT
        neighbors = rows[start : start + n].index_select(0, slots[~at_root])
        steps = gates[torch.full_like(slots, root + v).masked_scatter(~at_root, neighbors)]
        if center is not None:
            steps = torch.where(at_root.unsqueeze(-1), steps, steps + center[v])
        if structure is not None:
            around = plan.neighbor[start : start + n].tolist()
            bits = [
                [
                    [pair is not None and (around[pair[0]], around[pair[1]]) in edges for pair in pairs]
                    for pairs in structure_pairs(reading, sequence, structure.size(0))
                ]
                for sequence in read
            ]
            steps = steps + torch.tensor(bits, device=gates.device).to(gates) @ structure
        out.append(rnn(steps, weights, cell).sum(0))
    return torch.stack(out) if out else gates[:0, : weights[0].size(1)]


def rnn(steps: Tensor, weights: list[Tensor], cell: str) -> Tensor:
    """The top layer's last hidden states after reading sequences ``[K, T]`` of gate rows."""
    layers = split_layers(weights)
    start = steps.new_zeros(steps.size(0), weights[0].size(1))
    states: list[State] = [(start,) * CELLS[cell].states for _ in layers]
    for x in steps.unbind(1):
        for index, layer in enumerate(layers):
            if layer.weight_ih is not None:
                x = linear(states[index - 1][0], layer.weight_ih, layer.bias_ih)
            h = linear(states[index][0], layer.weight_hh, layer.bias_hh)
            states[index] = CELLS[cell].step(x, h, states[index])
    return states[-1][0]
