"""Time against work, Σ |𝔊| (n + 2) over the nodes, for several mixes of degrees; and one hub."""

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from benchmarks.roofline import FLOP
from benchmarks.timing import DEVICE, Figures, Task, gpu_peak, milliseconds, passes
from pggnn.nn import PGConv
from pggnn.orderings import Reading
from pggnn.plan import Plan

HIDDEN = 64
SAMPLE = 2**14
"""Nodes from which the work of a node is estimated."""
FULL = 10**6
"""From this many steps on the GPU is busy for every mix of degrees, and time should be proportional to work."""
Draw = Callable[[int, int], Tensor]
"""Draws the degrees of some nodes, up to a largest one."""


def power_law(nodes: int, most: int) -> Tensor:
    """Degree n with a probability of about n^−2.5, hubs included up to ``most``."""
    return (1 - torch.rand(nodes, device=DEVICE, dtype=torch.double)).pow(-1 / 1.5).clamp(max=most).long()


MIXES: dict[str, tuple[Draw, int]] = {
    "degree 8": (lambda nodes, most: torch.full((nodes,), 8, device=DEVICE), 9),
    # graphs of 10 nodes with 0.3 of all edges, as in the paper's counting
    "Erdős–Rényi": (lambda nodes, most: (torch.rand(nodes, 9, device=DEVICE) < 0.3).sum(1), 8),
    "power law": (power_law, 8),
}
"""How degrees are drawn, and the largest power of ten of the work."""


def linear(smallest: int = 4, largest: int = 9, hub: int = 100_000) -> Figures:
    """Forward and training, hidden 64, bfloat16, from 10⁴ steps on; time as a power of work; a hub, whose
    long sequences are too few to fill the GPU."""
    conv = PGConv(HIDDEN, HIDDEN).to(DEVICE)
    for mix, (draw, last) in MIXES.items():
        points: dict[str, list[tuple[float, float]]] = {name: [] for name in FLOP}
        for power in range(smallest, min(largest, last) + 1):
            plan, work = graph(draw, 10**power)
            case = f"{mix}, 10^{power} steps"
            yield case, "steps", work
            yield case, "largest degree", int(plan.profile[0, 0])
            for name, task in tasks(conv, plan).items():
                time = milliseconds(task)
                points[name].append((work, time))
                yield case, f"{name}, ms", time
                yield case, f"{name}, TFLOP/s", FLOP[name] * HIDDEN**2 * work / time / 1e9
        for name, measured in points.items():
            if len(large := [point for point in measured if point[0] >= FULL / 2]) > 1:
                yield mix, f"exponent of {name} from 10^6 steps on", exponent(large)
    case, conv = f"hub of degree {hub:,}, 64 orderings", PGConv(HIDDEN, HIDDEN, orderings=64).to(DEVICE)
    edges = torch.stack([torch.arange(1, hub + 1), torch.zeros(hub, dtype=torch.long)])
    plan = Plan.build(edges.to(DEVICE), hub + 1)
    yield case, "steps", conv.reading.steps(plan.profile)
    yield case, "largest degree", hub
    for name, task in tasks(conv, plan).items():
        yield case, f"{name}, ms", milliseconds(task)
    yield case, "extra memory, MiB", gpu_peak(task)


def tasks(conv: PGConv, plan: Plan) -> dict[str, Task]:
    """The forward pass, and training."""
    x = torch.randn(plan.num_nodes, HIDDEN, device=DEVICE, requires_grad=True)
    return passes(lambda: conv(x, plan), [x, *conv.parameters()])


def graph(draw: Draw, work: int) -> tuple[Plan, int]:
    """A plan of about ``work`` steps: drawn degrees, no hub above a tenth of the work, neighbours drawn uniformly."""
    most, steps = max(2, math.isqrt(work // 10)), Reading().work
    nodes = max(2, int(1.2 * work / float(steps(draw(SAMPLE, most)).double().mean())))
    degree = draw(nodes, most)
    degree = degree[: max(2, int((steps(degree).cumsum(0) <= work).sum()))]
    centers = torch.arange(len(degree), device=DEVICE).repeat_interleave(degree)
    edges = torch.stack([torch.randint_like(centers, len(degree)), centers])
    return Plan.build(edges, len(degree)), int(steps(degree).sum())


def exponent(points: list[tuple[float, float]]) -> float:
    """The slope of a line through the points on logarithmic scales."""
    work, time = np.log(np.array(points)).T
    return float(np.polyfit(work, time, 1)[0])
