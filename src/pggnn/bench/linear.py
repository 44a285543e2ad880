"""Time against work, Σ |𝔊| (n + 2) over the nodes, for several mixes of degrees; and one hub."""

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import Tensor

from pggnn.bench.timing import DEVICE, Figures, autocast, extra_mebibytes, milliseconds, train
from pggnn.nn import PGConv
from pggnn.orderings import Orderings, Reading
from pggnn.plan import Plan

HIDDEN = 64
SAMPLE = 2**14
"""Nodes from which the work of a node is guessed."""
FULL = 10**6
"""Steps from which on the GPU has enough to do at once, whatever the mix, and time should be proportional to work."""


def constant(nodes: int, most: int) -> Tensor:
    """Degree 8 everywhere."""
    return torch.full((nodes,), 8, device=DEVICE)


def erdos_renyi(nodes: int, most: int) -> Tensor:
    """Degrees of random graphs of 10 nodes with 0.3 of all edges, as in the paper's counting."""
    return (torch.rand(nodes, 9, device=DEVICE) < 0.3).sum(1)


def power_law(nodes: int, most: int) -> Tensor:
    """Degree n with a probability of about n^−2.5, hubs included up to ``most``."""
    return (1 - torch.rand(nodes, device=DEVICE, dtype=torch.double)).pow(-1 / 1.5).clamp(max=most).long()


MIXES: dict[str, tuple[Callable[[int, int], Tensor], int]] = {
    "degree 8": (constant, 9),
    "Erdős–Rényi": (erdos_renyi, 8),
    "power law": (power_law, 8),
}
"""How degrees are drawn, and the largest power of ten of the work."""


def linear(smallest: int = 4, largest: int = 9, hub: int = 100_000) -> Figures:
    """Forward and training, hidden 64, in bfloat16, from 10⁴ steps on; exponents of time as a power of work."""
    conv = PGConv(HIDDEN, HIDDEN).to(DEVICE)
    for mix, (draw, last) in MIXES.items():
        points: dict[str, list[tuple[float, float]]] = {"forward": [], "training": []}
        for power in range(smallest, min(largest, last) + 1):
            plan, work = graph(draw, 10**power)
            case = f"{mix}, 10^{power} steps"
            yield case, "steps", work
            yield case, "largest degree", int(plan.profile[0, 0])
            for name, value in times(conv, plan).items():
                points[name].append((work, value))
                yield case, f"{name}, ms", value
            yield case, "forward, TFLOP/s", 24 * HIDDEN**2 * work / points["forward"][-1][1] / 1e9
            yield case, "training, TFLOP/s", 72 * HIDDEN**2 * work / points["training"][-1][1] / 1e9
        for name, measured in points.items():
            if len(large := [point for point in measured if point[0] >= FULL / 2]) > 1:
                yield mix, f"exponent of {name} from 10^6 steps on", exponent(large)
    yield from star(hub, 64)


def graph(draw: Callable[[int, int], Tensor], work: int) -> tuple[Plan, int]:
    """About so many steps: nodes of drawn degrees, no hub above a tenth of the work, neighbours drawn uniformly."""
    most = max(2, math.isqrt(work // 10))
    nodes = max(2, int(1.2 * work / float(steps(draw(SAMPLE, most)).double().mean())))
    degree = draw(nodes, most)
    degree = degree[: max(2, int((steps(degree).cumsum(0) <= work).sum()))]
    centers = torch.arange(len(degree), device=DEVICE).repeat_interleave(degree)
    edges = torch.stack([torch.randint_like(centers, len(degree)), centers])
    return Plan.build(edges, len(degree)), int(steps(degree).sum())


def steps(degree: Tensor) -> Tensor:
    """|𝔊| (n + 2) of each node."""
    work: Tensor = Reading().work(degree)
    return work


def times(conv: PGConv, plan: Plan) -> dict[str, float]:
    """Milliseconds forward and in training."""
    run, step = tasks(conv, plan)
    with autocast(), torch.no_grad():
        forward = milliseconds(run)
    return {"forward": forward, "training": milliseconds(step)}


def tasks(conv: PGConv, plan: Plan) -> tuple[Callable[[], Tensor], Callable[[], None]]:
    """The forward pass, and training."""
    x = torch.randn(plan.num_nodes, HIDDEN, device=DEVICE, requires_grad=True)

    def run() -> Tensor:
        return conv(x, plan)

    return run, partial(train, run, [x, *conv.parameters()])


def exponent(points: list[tuple[float, float]]) -> float:
    """The slope of a line through the points on logarithmic scales."""
    work, time = np.log(np.array(points)).T
    return float(np.polyfit(work, time, 1)[0])


def star(neighbours: int, orderings: Orderings) -> Figures:
    """A hub whose neighbours are read in some orders only: long sequences, too few to fill the GPU."""
    case = f"hub of degree {neighbours:,}, {orderings} orderings"
    edges = torch.stack([torch.arange(1, neighbours + 1), torch.zeros(neighbours, dtype=torch.long)])
    plan = Plan.build(edges.to(DEVICE), neighbours + 1)
    conv = PGConv(HIDDEN, HIDDEN, orderings=orderings).to(DEVICE)
    yield case, "steps", conv.reading.steps(plan.profile)
    yield case, "largest degree", neighbours
    for name, value in times(conv, plan).items():
        yield case, f"{name}, ms", value
    yield case, "extra memory, MiB", extra_mebibytes(tasks(conv, plan)[1])
