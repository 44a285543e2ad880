"""Kernels are compiled, not run, for GPUs that are not here: what they take of shared memory must be there."""

import os
import subprocess
import sys

import pytest

KIB = 2**10
GPUS = {"A100": (80, 163 * KIB), "RTX 4090": (89, 99 * KIB), "H200": (90, 227 * KIB)}
"""Compute capability, and the shared memory that a program may have."""


FAST = ("RTX 4090", 64, "float32", 100)


def compile_elsewhere(*tasks):
    """For each task the names of its kernels and what they take, compiled in one process without the interpreter."""
    surroundings = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    command = [sys.executable, __file__, *(" ".join(map(str, task)) for task in tasks)]
    done = subprocess.run(command, env=surroundings, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [[line.split() for line in part.splitlines()] for part in done.stdout.split("\n\n")[:-1]]


def task(gpu, *options):
    return *GPUS[gpu], *options


@pytest.fixture(scope="module")
def compiled():
    """Of the fast case, and of the linear cell."""
    return compile_elsewhere(task(*FAST), GPUS["H200"][:1])


@pytest.mark.parametrize(
    "case",
    [
        FAST,
        pytest.param(("A100", 128, "bfloat16", 3000), marks=pytest.mark.slow),
        pytest.param(("H200", 128, "bfloat16", 3000), marks=pytest.mark.slow),
        pytest.param(("RTX 4090", 128, "bfloat16", 3000), marks=pytest.mark.slow),
        pytest.param(("RTX 4090", 64, "bfloat16", 3000), marks=pytest.mark.slow),
        pytest.param(("H200", 128, "bfloat16", 100), marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_kernels_fit(case, compiled):
    found = compiled[0] if case == FAST else compile_elsewhere(task(*case))[0]
    taken = [int(size) for _, size in found]
    assert len(taken) >= 4 and 0 < max(taken) <= GPUS[case[0]][1], found


def test_the_linear_cell_compiles(compiled):
    """All four kernels, for both groups, with the tiles of hubs; their scans take little shared memory."""
    names, taken = zip(*compiled[1], strict=True)
    kernels = ["arcs_forward", "arcs_backward", "arcs_forward", "arcs_backward", "steps_forward", "steps_backward"]
    assert list(names) == kernels
    assert max(map(int, taken)) <= 16 * KIB


def record(module, name, launches):
    """Has the launches of a kernel written down instead."""
    kernel = getattr(module, name)
    kernel = getattr(kernel, "jitted", kernel)

    class Recorder:
        def __getitem__(self, _):
            return lambda *args, **options: launches.append((kernel, args, options))

    setattr(module, name, Recorder())


def compile_for(capability, kernel, args, options):
    """Bytes of shared memory that a launch would take."""
    import torch
    from triton import compile
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    kinds = {torch.float: "*fp32", torch.bfloat16: "*bf16", torch.int32: "*i32", torch.int64: "*i64"}
    settings = {name: options.pop(name) for name in ("num_warps", "num_stages") if name in options}
    given = dict(zip(kernel.arg_names, args, strict=False)) | options
    constants = {name: value for name, value in given.items() if name.isupper()}
    signature, aligned = {}, {}
    for place, name in enumerate(kernel.arg_names):
        value = given[name]
        signature[name] = "constexpr" if name in constants else kinds[value.dtype] if torch.is_tensor(value) else "i32"
        if torch.is_tensor(value):
            aligned[place,] = [["tt.divisibility", 16]]
    places = {(kernel.arg_names.index(name),): value for name, value in constants.items()}
    source = ASTSource(kernel, signature, places, aligned)
    return compile(source, target=GPUTarget("cuda", capability, 32), options=settings).metadata.shared


def main(capability, limit, hidden, dtype, nodes):
    import torch

    from pggnn.cells import Recurrence
    from pggnn.ops.fused import shape as fused_shape
    from pggnn.ops.graph import Graph
    from pggnn.orderings import Reading
    from pggnn.plan import Plan

    fused_shape.processors, fused_shape.shared_memory = (lambda _: 100), (lambda _: limit)
    fused_shape.fetches = lambda _: capability >= 90
    from pggnn.ops.fused import operation as fused
    from pggnn.ops.fused import weights as fused_weights

    launches = []
    read = ("forward_layer", "forward_fields", "forward_wide", "backward_layer", "backward_fields", "backward_wide")
    for name in (*read, "prepare_table", "prepare_weights", "sequence_sum", "gate_gradient"):
        record(fused, name, launches)
    for name in ("weight_gradient", "finish_weights"):
        record(fused_weights, name, launches)
    centers = torch.arange(nodes).repeat_interleave(3)
    plan = Plan.build(torch.stack([centers.roll(1), centers]), nodes)
    graph = Graph(plan.start, plan.degree, plan.order, plan.profile, plan.neighbor, 0, None)
    weights = [weight.detach() for weight in Recurrence(3, hidden, 2, "lstm").recurrent_weights]
    gates = torch.zeros(nodes, 4 * hidden, dtype=getattr(torch, dtype))
    operation = fused.Fused(gates, weights, graph, Reading(), "lstm", 2**28, plan)
    out, kept = operation.forward(keep=True)
    operation.backward(out, kept)
    for kernel, args, options in launches:
        if kernel.__name__ in (*read, "weight_gradient"):
            print(kernel.__name__, compile_for(capability, kernel, args, options))


def compile_linear(capability):
    import torch

    from pggnn.ops.fused import linear
    from pggnn.ops.fused import sum as sums
    from pggnn.ops.graph import Graph
    from pggnn.orderings import Reading
    from pggnn.plan import Plan

    centers = torch.zeros(300, dtype=torch.long)
    launches, plan = [], Plan.build(torch.stack([centers, centers]), 1)
    for name in ("forward", "backward"):
        record(linear.arcs_kernels, f"arcs_{name}", launches)
        record(linear.steps_kernels, f"steps_{name}", launches)
    sums.add_up = lambda *_: None
    graph = Graph(plan.start, plan.degree, plan.order, plan.profile, plan.neighbor, 0, None)
    gates = torch.zeros(1, 128)
    for reading in (Reading(), Reading("dihedral", "closed"), Reading(limit=3)):
        operation = linear.FusedLinear(gates, [gates[:0, :64], gates[:0, 0], gates], graph, reading, plan)
        out, kept = operation.forward(keep=True)
        operation.backward(out, kept)
    for kernel, args, options in launches:
        print(kernel.__name__, compile_for(capability, kernel, args, options))


if __name__ == "__main__":
    for given in sys.argv[1:]:
        capability, *rest = given.split()
        if rest:
            limit, hidden, dtype, nodes = rest
            main(int(capability), int(limit), int(hidden), dtype, int(nodes))
        else:
            compile_linear(int(capability))
        print()
