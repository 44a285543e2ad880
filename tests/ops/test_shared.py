"""What layers on one graph share, in eager mode and compiled."""

import gc
from dataclasses import replace

import pytest
import torch

from pggnn import PGGNN, Plan
from pggnn.ops import graph as graphs
from pggnn.ops.linear import arcs, operation
from pggnn.ops.packed.schedule import BlockIndex
from pggnn.testing import random_graph

SHARED = {  # cell, dtype, what is made once
    "packed": ("gru", torch.float, BlockIndex),
    "kernel": ("linear", torch.float, operation.cycles),
    "plain": ("linear", torch.double, arcs._stretches),
}


def network(cell, dtype, **options):
    return PGGNN(3, 5, 1, num_layers=2, rnn_layers=1, cell=cell, level="node", **options).to(dtype)


def plan_of(degrees, seed=0):
    return Plan.build(random_graph(degrees, seed), len(degrees))


@pytest.mark.parametrize("name", SHARED)
def test_compiled_layers_share_what_depends_on_degrees(name):
    """…of the graph at hand: of a new one with the same tensors, changed in place, it is made anew."""
    cell, dtype, build = SHARED[name]
    torch._dynamo.reset()
    model = network(cell, dtype)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    x = torch.randn(5, 3, dtype=dtype)
    plans = [plan_of(degrees, seed) for seed, degrees in enumerate(((0, 1, 4, 2, 3), (4, 2, 0, 3, 1)))]
    for plan in plans:
        compiled(x, plan).sum().backward()
        found = graphs._KNOWN[plan.degree].found
        assert [made for made, _ in found] == [build], "all layers, and both passes, have one"
    fresh = [replace(plan) for plan in plans]
    for field in ("neighbor", "center", "edge", "start", "degree", "order", "profile"):
        getattr(plans[0], field).copy_(getattr(plans[1], field))
    torch.testing.assert_close(compiled(x, plans[0]), model(x, fresh[1]))


@pytest.mark.parametrize("name", SHARED)
def test_what_is_shared_ends_with_the_plan(name):
    cell, dtype, _ = SHARED[name]
    torch._dynamo.reset()
    compiled = torch.compile(network(cell, dtype), backend="aot_eager", fullgraph=True)
    gc.collect()
    before = len(graphs._KNOWN)
    plans = [plan_of((seed % 3, 1, 3, 2), seed) for seed in range(3)]
    for plan in plans:
        compiled(torch.randn(4, 3, dtype=dtype), plan).sum().backward()
    assert len(graphs._KNOWN) == before + 3
    del plans, plan
    gc.collect()
    assert len(graphs._KNOWN) <= before + 1, "a compiler may hold its last input"


@pytest.mark.parametrize("edges", [None, 2])
@pytest.mark.parametrize("name", SHARED)
def test_renumbered_neighbourhoods_share_it_and_are_read_as_they_are(name, edges):
    cell, dtype, build = SHARED[name]
    plan, x = plan_of((0, 1, 4, 2, 3)), torch.randn(5, 3, dtype=dtype)
    features = None if edges is None else torch.randn(plan.num_edges, edges, dtype=dtype)
    model = network(cell, dtype, edge_dim=edges)
    model(x, plan, edge_attr=features)
    again = plan.renumbered()
    assert not torch.equal(again.edge, plan.edge)
    out = model(x, again, edge_attr=features)
    assert sum(made is build for made, _ in plan.known) == 1
    torch.testing.assert_close(out, model(x, replace(again), edge_attr=features))


@pytest.mark.parametrize(
    ("name", "built", "compiled"),
    [
        *((name, not way, way) for name in SHARED for way in (False, True)),
        ("packed", False, False),
        ("plain", True, True),
    ],
)
def test_a_plan_can_be_trained_with_after_inference_mode(name, built, compiled):
    """Also what was made of it there, and what PyTorch keeps of it for the way back."""
    cell, dtype, _ = SHARED[name]
    torch._dynamo.reset()
    model, degrees = network(cell, dtype, edge_dim=2), (0, 1, 4, 2, 3)
    x, features = torch.randn(5, 3, dtype=dtype), torch.randn(10, 2, dtype=dtype)
    call = torch.compile(model, backend="aot_eager", fullgraph=True) if compiled else model
    plan = plan_of(degrees)
    with torch.inference_mode():
        plan = plan_of(degrees) if built else plan
        call(x, plan, edge_attr=features)
    found = []
    for run, edges in ((call, plan), (model, plan_of(degrees))):
        out = run(x, edges, edge_attr=features)
        found.append([out, *torch.autograd.grad(out.sin().sum(), [*model.convs.parameters()])])
    torch.testing.assert_close(*found)


def test_a_plain_compilation_of_the_linear_cell_has_no_graph_break():
    torch._dynamo.reset()
    found = torch._dynamo.explain(network("linear", torch.float))(torch.randn(4, 3), plan_of((0, 1, 3, 2)))
    assert (found.graph_count, found.graph_break_count) == (1, 0)
