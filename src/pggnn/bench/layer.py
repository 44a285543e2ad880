"""One aggregation over sequences of degree 8: ours, cuDNN on the gathered sequences, the reference, plain products."""

import sys
from functools import partial

import torch
from torch import Tensor

from pggnn.bench.timing import DEVICE, Figures, autocast, extra_mebibytes, milliseconds, settings, train
from pggnn.nn import PGConv
from pggnn.plan import Plan

NODES, DEGREE = 32_768, 8
CASES = ((64, "bf16"), (128, "bf16"), (256, "bf16"), (64, "float32"), (64, "tf32"))
COMPARED = ((64, "bf16"), (128, "bf16"))
"""Cases that are compared with others too."""
SIDE, COPIED = 8192, 2**30


def layer(nodes: int = NODES) -> Figures:
    """All cases that the fused kernels take."""
    for hidden, precision in CASES:
        case, steps = f"hidden {hidden}, {precision}", nodes * DEGREE * (DEGREE + 2)
        reason = refused(hidden, precision)
        if reason is not None:
            print(f"{case} is left out: the fused kernel {reason}", file=sys.stderr)
            continue
        centers = torch.arange(nodes, device=DEVICE).repeat_interleave(DEGREE)
        plan = Plan.build(torch.stack([torch.randint_like(centers, nodes), centers]), nodes)
        conv = PGConv(hidden, hidden).to(DEVICE)
        x = torch.randn(nodes, hidden, device=DEVICE, requires_grad=True)
        leaves = [x, *conv.parameters()]
        compared = (hidden, precision) in COMPARED

        def ours(conv: PGConv = conv, x: Tensor = x, plan: Plan = plan) -> Tensor:
            return conv(x, plan)

        with settings(precision=precision):
            with autocast(precision), torch.no_grad():
                forward = milliseconds(ours)
            training = milliseconds(partial(train, ours, leaves, precision))
            memory = extra_mebibytes(partial(train, ours, leaves, precision))
        yield case, "forward, ms", forward
        yield case, "training, ms", training
        yield case, "forward, TFLOP/s", 24 * hidden**2 * steps / forward / 1e9
        yield case, "training, TFLOP/s", 72 * hidden**2 * steps / training / 1e9
        yield case, "extra memory, MiB", memory
        if compared:
            with settings(deterministic=True):
                repeatable = milliseconds(partial(train, ours, leaves))
            yield case, "deterministic / default, training", repeatable / training
            yield from cudnn(case, hidden, nodes, forward, training)
            yield from reference(case, hidden, forward / nodes)
            rate = product(32 * nodes, hidden, 4 * hidden)
            yield case, "matrix product of its shape, TFLOP/s", rate
            yield case, "forward rate / that product's", 24 * hidden**2 * steps / forward / 1e9 / rate
    yield "ceilings", "matrix product 8192³, TFLOP/s", product(SIDE, SIDE, SIDE)
    yield "ceilings", "copy, TB/s", copy_rate()


def refused(hidden: int, precision: str) -> str | None:
    """Why ``backend="auto"`` does not send such a layer to the fused kernels, if it does not."""
    from pggnn.ops.fused_shape import refusal

    return refusal(torch.empty(0, dtype=torch.bfloat16 if precision == "bf16" else torch.float, device=DEVICE), hidden)


def cudnn(case: str, hidden: int, nodes: int, forward: float, training: float) -> Figures:
    """``torch.nn.LSTM`` on sequences that were gathered before, in the precision it computes in."""
    lstm = torch.nn.LSTM(hidden, hidden, 2).to(DEVICE)
    gathered = torch.randn(DEGREE + 2, nodes * DEGREE, hidden, device=DEVICE).bfloat16().requires_grad_()
    leaves = [gathered, *lstm.parameters()]
    steps = nodes * DEGREE * (DEGREE + 2)

    def run() -> Tensor:
        last: Tensor = lstm(gathered)[1][0][-1]
        return last

    with autocast(), torch.no_grad():
        theirs = milliseconds(run)
    yield case, "cuDNN forward, ms", theirs
    yield case, "cuDNN forward, TFLOP/s", 24 * hidden**2 * steps / theirs / 1e9
    yield case, "cuDNN / ours, forward", theirs / forward
    theirs = milliseconds(partial(train, run, leaves))
    yield case, "cuDNN training, ms", theirs
    yield case, "cuDNN training, TFLOP/s", 72 * hidden**2 * steps / theirs / 1e9
    yield case, "cuDNN / ours, training", theirs / training
    yield case, "cuDNN extra memory, MiB", extra_mebibytes(partial(train, run, leaves))


def reference(case: str, hidden: int, ours: float) -> Figures:
    """The definition, a loop in Python, on the sequences of one node, for which the fused kernels take ``ours`` ms."""
    plan = Plan.build(torch.zeros(2, DEGREE, dtype=torch.long, device=DEVICE), 1)  # its own neighbour, eight times
    loop = PGConv(hidden, hidden, backend="reference").to(DEVICE)
    x = torch.randn(1, hidden, device=DEVICE)
    with autocast(), torch.no_grad():
        theirs = milliseconds(lambda: loop(x, plan))
    yield case, "reference loop on one node, forward, ms", theirs
    yield case, "reference loop / ours, forward", theirs / ours


def product(rows: int, inner: int, columns: int) -> float:
    """TFLOP/s of a matrix product in bfloat16."""
    a, b = (torch.randn(shape, device=DEVICE).bfloat16() for shape in ((rows, inner), (inner, columns)))
    return 2 * rows * inner * columns / milliseconds(lambda: a @ b) / 1e9


def copy_rate() -> float:
    """TB/s, read and written, of a large copy inside the memory."""
    source = torch.randn(COPIED // 4, device=DEVICE)
    target = torch.empty_like(source)
    return 2 * source.nbytes / milliseconds(lambda: target.copy_(source)) / 1e9
