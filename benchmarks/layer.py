"""One aggregation over sequences of degree 8: ours, cuDNN on the gathered sequences, the definition, plain products."""

import torch
from torch import Tensor

from benchmarks.roofline import DEGREE, FLOP
from benchmarks.timing import DEVICE, Figures, Task, gpu_peak, milliseconds, passes, settings
from pggnn.nn import PGConv
from pggnn.plan import Plan

NODES = 32_768
CASES = ((64, "bf16"), (128, "bf16"), (256, "bf16"), (64, "float32"), (64, "tf32"))
COMPARED = CASES[:2]
"""Cases that are compared with others too."""
SIDE, COPIED = 8192, 2**30


def layer(nodes: int = NODES) -> Figures:
    """Forward and training in each case; some beside others."""
    centers = torch.arange(nodes, device=DEVICE).repeat_interleave(DEGREE)
    plan = Plan.build(torch.stack([torch.randint_like(centers, nodes), centers]), nodes)
    for hidden, precision in CASES:
        case, operations = f"hidden {hidden}, {precision}", hidden**2 * nodes * DEGREE * (DEGREE + 2)
        conv = PGConv(hidden, hidden).to(DEVICE)
        x = torch.randn(nodes, hidden, device=DEVICE, requires_grad=True)
        tasks = passes(lambda: conv(x, plan), [x, *conv.parameters()], precision)  # noqa: B023
        with settings(precision=precision):
            ours = {name: milliseconds(task) for name, task in tasks.items()}
            memory = gpu_peak(tasks["training"])
        for name, time in ours.items():
            yield case, f"{name}, ms", time
            yield case, f"{name}, TFLOP/s", FLOP[name] * operations / time / 1e9
        yield case, "extra memory, MiB", memory
        if (hidden, precision) in COMPARED:
            with settings(deterministic=True):
                yield case, "deterministic / default, training", milliseconds(tasks["training"]) / ours["training"]
            tasks = cudnn(hidden, nodes)
            for name, task in tasks.items():
                theirs = milliseconds(task)
                yield case, f"cuDNN {name}, ms", theirs
                yield case, f"cuDNN {name}, TFLOP/s", FLOP[name] * operations / theirs / 1e9
                yield case, f"cuDNN / ours, {name}", theirs / ours[name]
            yield case, "cuDNN extra memory, MiB", gpu_peak(tasks["training"])
            yield case, "reference loop / ours, forward", milliseconds(reference(hidden)) / (ours["forward"] / nodes)
            rate = product(32 * nodes, hidden, 4 * hidden)
            yield case, "matrix product of its shape, TFLOP/s", rate
            yield case, "forward rate / that product's", FLOP["forward"] * operations / ours["forward"] / 1e9 / rate
    yield "ceilings", "matrix product 8192³, TFLOP/s", product(SIDE, SIDE, SIDE)
    yield "ceilings", "copy, TB/s", copy_rate()


def cudnn(hidden: int, nodes: int) -> dict[str, Task]:
    """``torch.nn.LSTM`` on sequences that were gathered before, in the precision it computes in."""
    lstm = torch.nn.LSTM(hidden, hidden, 2).to(DEVICE)
    gathered = torch.randn(DEGREE + 2, nodes * DEGREE, hidden, device=DEVICE).bfloat16().requires_grad_()

    def run() -> Tensor:
        last: Tensor = lstm(gathered)[1][0][-1]
        return last

    return passes(run, [gathered, *lstm.parameters()])


def reference(hidden: int) -> Task:
    """The definition, a loop in Python, forward on the sequences of one node."""
    plan = Plan.build(torch.zeros(2, DEGREE, dtype=torch.long, device=DEVICE), 1)  # its own neighbour, eight times
    loop, x = PGConv(hidden, hidden, backend="reference").to(DEVICE), torch.randn(1, hidden, device=DEVICE)
    return passes(lambda: loop(x, plan), [])["forward"]


def product(rows: int, inner: int, columns: int) -> float:
    """TFLOP/s of a matrix product in bfloat16."""
    a, b = (torch.randn(shape, device=DEVICE).bfloat16() for shape in ((rows, inner), (inner, columns)))
    return 2 * rows * inner * columns / milliseconds(lambda: a @ b) / 1e9


def copy_rate() -> float:
    """TB/s, read and written, of a large copy inside the memory."""
    source = torch.randn(COPIED // 4, device=DEVICE)
    target = torch.empty_like(source)
    return 2 * source.nbytes / milliseconds(lambda: target.copy_(source)) / 1e9
