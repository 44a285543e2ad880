"""Properties of aggregators, to be checked on any layer with PyTorch Geometric's ``layer(x, edge_index)``.

Each ``check_…`` draws its own graphs, raises ``AssertionError`` where the property does not hold, and takes::

    check_batch_independence(PGConv(8, 16), in_channels=8)

:func:`check_aggregator` runs those that every aggregator should pass.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from pggnn.groups import GROUPS
from pggnn.orderings import FRAMES, Reading

Layer = Callable[[Tensor, Tensor], Tensor]

DEGREES = (0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 17)
"""Degrees that a drawn graph has at least once: none, one, both parities, and a hub."""


READINGS = [
    Reading(group, frame, limit)
    for group, orders in GROUPS.items()
    for frame in FRAMES
    for limit in (None, 1, 3)
    if orders.choice is None or (limit is None and frame not in ("closed", "chain"))
]
"""Every group in every frame, with all of its orders or some."""


def random_graph(degrees: Sequence[int] = DEGREES, seed: int = 0) -> Tensor:
    """An ``edge_index`` in which node v has ``degrees[v]`` incoming edges from random nodes, in random order.

    Self-loops and duplicate edges occur.

    Example:
        >>> import torch
        >>> from pggnn.testing import random_graph
        >>> torch.bincount(random_graph((2, 0, 3))[1])  # incoming edges of each node
        tensor([2, 0, 3])
    """
    generator = torch.Generator().manual_seed(seed)
    target = torch.repeat_interleave(torch.arange(len(degrees)), torch.tensor(degrees, dtype=torch.long))
    source = torch.randint(max(len(degrees), 1), target.shape, generator=generator)
    return torch.stack([source, target])[:, torch.randperm(target.numel(), generator=generator)]


def interleaved(edge_index: Tensor, seed: int = 0) -> Tensor:
    """The columns of ``edge_index`` in another order that keeps each target's own edges in theirs.

    Example:
        >>> import torch
        >>> from pggnn.testing import interleaved
        >>> mixed = interleaved(torch.tensor([[0, 1, 2, 3], [4, 5, 4, 5]]))
        >>> mixed[0, mixed[1] == 4], mixed[0, mixed[1] == 5]
        (tensor([0, 2]), tensor([1, 3]))
    """
    generator = torch.Generator().manual_seed(seed)
    mixed = edge_index[:, torch.randperm(edge_index.size(1), generator=generator)]
    places, edges = (torch.sort(edges[1], stable=True).indices for edges in (mixed, edge_index))
    result = torch.empty_like(edge_index)
    result[:, places] = edge_index[:, edges]
    return result


def renumbered(edge_index: Tensor, seed: int = 0) -> Tensor:
    """The same edges with each target's own ones in a random order.

    Example:
        >>> import torch
        >>> from pggnn.testing import renumbered
        >>> sorted(renumbered(torch.tensor([[3, 1, 2], [0, 0, 0]]))[0].tolist())
        [1, 2, 3]
    """
    generator = torch.Generator().manual_seed(seed)
    return edge_index[:, torch.randperm(edge_index.size(1), generator=generator)]


def features(layer: Layer, nodes: int, in_channels: int, seed: int = 0) -> Tensor:
    """Normally distributed node features in the layer's own dtype."""
    dtype = next((parameter.dtype for parameter in _parameters(layer)), torch.float)
    return torch.randn(nodes, in_channels, dtype=torch.double, generator=torch.Generator().manual_seed(seed)).to(dtype)


def check_batch_independence(layer: Layer, in_channels: int) -> None:
    """A graph gives the same output alone and among others.

    Example:
        >>> from pggnn import PGConv
        >>> from pggnn.testing import check_batch_independence
        >>> check_batch_independence(PGConv(4, 8, cell="gru"), in_channels=4)
    """
    graphs = [random_graph(DEGREES[: 3 + 2 * index], seed=index) for index in range(4)]
    sizes = [3 + 2 * index for index in range(4)]
    xs = [features(layer, size, in_channels, seed) for seed, size in enumerate(sizes)]
    offsets = [sum(sizes[:index]) for index in range(4)]
    together = layer(torch.cat(xs), torch.cat([g + o for g, o in zip(graphs, offsets, strict=True)], dim=1))
    for index, (graph, x, part) in enumerate(zip(graphs, xs, together.split(sizes), strict=True)):
        _assert_close(part, layer(x, graph), f"graph {index} of the batch differs from itself alone")


def check_edge_order(layer: Layer, in_channels: int) -> None:
    """Only the order of a node's own edges may matter, not how those of different nodes are interleaved.

    Example:
        >>> from pggnn import PGConv
        >>> from pggnn.testing import check_edge_order
        >>> check_edge_order(PGConv(4, 8, cell="gru"), in_channels=4)
    """
    edge_index = random_graph()
    x = features(layer, len(DEGREES), in_channels)
    for seed in range(3):
        other = interleaved(edge_index, seed)
        _assert_close(layer(x, other), layer(x, edge_index), "the output depends on how edges are interleaved")


def check_relabelling(layer: Layer, in_channels: int) -> None:
    """Relabelling the nodes, with each node's numbering of its neighbours kept, permutes the output.

    Example:
        >>> from pggnn import PGConv
        >>> from pggnn.testing import check_relabelling
        >>> check_relabelling(PGConv(4, 8, cell="gru"), in_channels=4)
    """
    edge_index = random_graph()
    nodes = len(DEGREES)
    x = features(layer, nodes, in_channels)
    label = torch.randperm(nodes, generator=torch.Generator().manual_seed(1))
    moved = torch.empty_like(x)
    moved[label] = x
    _assert_close(
        layer(moved, label[edge_index])[label], layer(x, edge_index), "relabelling does not permute the output"
    )


def check_gradients(layer: Layer, in_channels: int) -> None:
    """Gradients of inputs and weights agree with finite differences. The layer must be in float64.

    Example:
        >>> from pggnn import PGConv
        >>> from pggnn.testing import check_gradients
        >>> check_gradients(PGConv(2, 2, cell="linear").double(), in_channels=2)
    """
    edge_index = random_graph(degrees=(0, 1, 2, 3, 4))
    x = features(layer, 5, in_channels).requires_grad_()
    if x.dtype != torch.double:
        raise ValueError(f"finite differences need float64, the layer is in {x.dtype}: call layer.double() first")
    parameters = tuple(parameter for parameter in _parameters(layer) if parameter.requires_grad)
    assert torch.autograd.gradcheck(lambda x, *_: layer(x, edge_index), (x, *parameters), atol=1e-6)


def check_repeatable(layer: Layer, in_channels: int) -> None:
    """Two runs give bitwise equal outputs and gradients.

    Example:
        >>> from pggnn import PGConv
        >>> from pggnn.testing import check_repeatable
        >>> check_repeatable(PGConv(4, 8, cell="gru"), in_channels=4)
    """
    runs = []
    for _ in range(2):
        x = features(layer, len(DEGREES), in_channels).requires_grad_()
        out = layer(x, random_graph())
        parameters = [parameter for parameter in _parameters(layer) if parameter.requires_grad]
        runs.append([out, *torch.autograd.grad(out.square().sum(), [x, *parameters], allow_unused=True)])
    for first, second in zip(*runs, strict=True):
        assert (first is None and second is None) or torch.equal(first, second), "two runs differ"


def check_empty(layer: Layer, in_channels: int) -> None:
    """A graph without edges, and one without nodes, give finite outputs of the right shape.

    Example:
        >>> from pggnn import PGConv
        >>> from pggnn.testing import check_empty
        >>> check_empty(PGConv(4, 8, cell="gru"), in_channels=4)
    """
    for nodes in (4, 0):
        out = layer(features(layer, nodes, in_channels), torch.empty(2, 0, dtype=torch.long))
        assert out.size(0) == nodes, f"{nodes} nodes without edges gave {out.size(0)} outputs"
        assert bool(out.isfinite().all()), "a graph without edges gave an output that is not finite"


def check_aggregator(layer: Layer, in_channels: int) -> None:
    """All properties that an aggregator should have in evaluation mode, whether it is sensitive or invariant.

    Example:
        >>> from pggnn import PGConv
        >>> from pggnn.testing import check_aggregator
        >>> check_aggregator(PGConv(4, 8, cell="gru"), in_channels=4)
    """
    for check in (check_batch_independence, check_edge_order, check_relabelling, check_repeatable, check_empty):
        check(layer, in_channels)


def sensitivity(layer: Layer, in_channels: int, numberings: int = 5) -> float:
    """The largest change of an output, relative to the outputs' size, when neighbours are renumbered.

    Example:
        >>> from pggnn import PGConv
        >>> from pggnn.nn import PairConv
        >>> from pggnn.testing import sensitivity
        >>> sensitivity(PGConv(4, 8), in_channels=4) > 1e-3, sensitivity(PairConv(4, 8).double(), in_channels=4) < 1e-12
        (True, True)
    """
    edge_index = random_graph()
    x = features(layer, len(DEGREES), in_channels)
    with torch.no_grad():
        out = layer(x, edge_index)
        changes = [(layer(x, renumbered(edge_index, seed)) - out).abs().max() for seed in range(numberings)]
        return float(torch.stack(changes).max() / out.abs().max())


def _parameters(layer: Layer) -> list[torch.nn.Parameter]:
    return list(layer.parameters()) if isinstance(layer, torch.nn.Module) else []


def _assert_close(actual: Tensor, expected: Tensor, message: str) -> None:
    tolerance = 1e-10 if actual.dtype == torch.double else 1e-5
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance, msg=lambda text: f"{message}\n{text}")
