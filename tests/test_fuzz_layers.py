"""Random arguments of ``PGConv`` on random small graphs: every backend, batch and numbering of nodes gives one answer.

``pytest -m slow tests/test_fuzz_layers.py`` runs ``PGGNN_FUZZ_CASES`` cases, 10,000 by default. Each has its own seed.
``PGGNN_FUZZ_SEED`` is that of the first, random where it is not given. A failure names its own.
"""

import os
import random
import secrets
from dataclasses import dataclass

import pytest
import torch
from torch.nn import UninitializedParameter

from pggnn import PGConv, Plan
from pggnn.cells import CELLS

TOLERANCE = {torch.double: 1e-9, torch.float: 1e-3}
TRITON_EVERY = 100
WRONG = {
    "in_channels": [0, -2, 2.5, "4", None, (4,), (4, 4, 4), (4, 0)],
    "out_channels": [0, -1, 2.5, "6", None],
    "cell": ["lstn", None, 3, ["lstm"]],
    "num_layers": [0, -1, 1.5, "2"],
    "orderings": [0, -3, 2.0, True, "all", None, []],
    "root": ["both", None, 0, ["merged"]],
    "numbering": ["sorted", None, 0],
    "edge_dim": [0, -1, 1.5, "3"],
    "max_degree": [0, -1, 1.5, "3"],
    "backend": ["cuda", None, 0],
    "workspace": [-1, "much", 0.5],
    "flow": ["up", None, 1],
    "structure": [-1, 33, 1.5, "2", None],
    "numberings": [0, -1, 1.5, "2", None],
    "reduce": ["max", None, []],
}


@dataclass
class Graph:
    """Inputs of a layer, which may be a pair of node sets."""

    sizes: tuple[int, int]
    edge_index: torch.Tensor
    x: tuple[torch.Tensor | None, torch.Tensor | None]
    """Of neighbours and centres, one and the same tensor on a graph with one set of nodes."""
    edge_attr: torch.Tensor | None


@dataclass
class Case:
    arguments: dict
    dtype: torch.dtype
    training: bool
    bipartite: bool
    graphs: list[Graph]
    layer: PGConv

    def run(self, graph, **attributes):
        """The output and all first derivatives, of a layer with other attributes for this call."""
        before = {name: getattr(self.layer, name) for name in attributes}
        for name, value in attributes.items():
            setattr(self.layer, name, value)
        torch.manual_seed(1)
        inputs = [x.detach().requires_grad_() for x in (*graph.x, graph.edge_attr) if x is not None]
        given = iter(inputs)
        neighbors, centers, edge_attr = (None if x is None else next(given) for x in (*graph.x, graph.edge_attr))
        if self.bipartite:
            x = (neighbors, centers) if self.layer.flow == "source_to_target" else (centers, neighbors)
        else:
            x = neighbors
        out = self.layer(x, graph.edge_index, edge_attr, size=graph.sizes if self.bipartite else None)
        for name, value in before.items():
            setattr(self.layer, name, value)
        weight = torch.randn(out.shape, dtype=out.dtype, generator=torch.Generator().manual_seed(2))
        wanted = [*inputs, *(p for p in self.layer.parameters() if not isinstance(p, UninitializedParameter))]
        loss = (out * weight).sum()  # without nodes the reference gives an output that no gradient flows through
        found = torch.autograd.grad(loss, wanted, allow_unused=True) if out.requires_grad else [None] * len(wanted)
        gradients = [torch.zeros_like(w) if f is None else f for w, f in zip(wanted, found, strict=True)]
        return [out.detach(), *gradients]


def draw_graph(draw, arguments, widths, dtype, bipartite):
    generator = torch.Generator().manual_seed(draw.randrange(2**31))
    first = draw.choice([0, 1, 1, 2, 3, 4, 6])
    sizes = (first, draw.choice([0, 1, 2, 5])) if bipartite else (first, first)
    edges = draw.choice([0, 1, 3, 8, 14]) if min(sizes) > 0 else 0
    rows = [torch.randint(max(size, 1), (edges,), generator=generator) for size in sizes]
    centers = 1 if arguments["flow"] == "source_to_target" else 0
    if draw.random() < 0.3:
        rows[centers][: edges - edges // 3] = 0  # a hub
    neighbor_width, center_width = widths

    def features(rows, columns):
        return torch.randn(rows, columns, dtype=torch.double, generator=generator).to(dtype)

    x = features(sizes[1 - centers], neighbor_width)
    center_x = features(sizes[centers], center_width) if bipartite else None
    if bipartite and arguments["root"] == "linear" and draw.random() < 0.2:
        center_x = None
    elif not bipartite:
        center_x = None  # the same tensor
    edge_attr = None if arguments["edge_dim"] is None else features(edges, arguments["edge_dim"])
    return Graph(sizes, torch.stack(rows), (x, center_x), edge_attr)


def draw_case(seed, dtype=None):
    draw = random.Random(seed)
    bipartite = draw.random() < 0.25
    root = draw.choice(["merged", "linear"])
    arguments = {
        "cell": draw.choice([*CELLS]),
        "num_layers": draw.randint(1, 3),
        "orderings": draw.choice(["group", "group", "single", "random", 1, 2, 3, 7, 100]),
        "root": root,
        "numbering": draw.choice(["given", "random"]),
        "edge_dim": draw.choice([None, None, 1, 3]),
        "max_degree": draw.choice([None, None, 1, 2, 5, 100]),
        "flow": draw.choice(["source_to_target", "target_to_source"]),
        "structure": 0 if bipartite else draw.choice([0, 0, 1, 2, 3, 4]),
        "numberings": draw.choice([1, 1, 1, 2, 3]),
        "reduce": draw.choice(["sum", "mean"]),
        "group": draw.choice(["pairs", "pairs", "dihedral", "trivial"]),
    }
    if arguments["cell"] == "linear":
        arguments["num_layers"] = None
    if arguments["orderings"] == "group" and root == "merged" and arguments["max_degree"] in (1, 2, 5):
        arguments["group"] = draw.choice(["pairs", "all"])
    dtype = dtype or draw.choice([torch.double, torch.double, torch.float])
    width = draw.randint(1, 4)
    widths = (width, draw.randint(1, 4) if bipartite and root == "linear" else width)
    lazy = draw.random() < 0.2
    channels = (-1, -1) if lazy and bipartite else -1 if lazy else widths if bipartite else width
    torch.manual_seed(seed)
    layer = PGConv(channels, draw.randint(1, 6), **arguments, backend="packed").to(dtype)
    graphs = [draw_graph(draw, arguments, widths, dtype, bipartite) for _ in range(2)]
    training = draw.random() < 0.5
    case = Case(arguments, dtype, training, bipartite, graphs, layer.train(training))
    if lazy:  # the first input is what tells the widths
        case.run(graphs[0])
    for parameter in layer.parameters():  # biases are zero otherwise
        if not isinstance(parameter, UninitializedParameter):
            torch.nn.init.uniform_(parameter, -0.5, 0.5)
    return case


def together(one, two):
    """Both graphs as one."""
    offset = torch.tensor(one.sizes).unsqueeze(1)

    def joined(a, b):
        return None if a is None or b is None else torch.cat([a, b])

    return Graph(
        tuple(a + b for a, b in zip(one.sizes, two.sizes, strict=True)),
        torch.cat([one.edge_index, two.edge_index + offset], dim=1),
        tuple(joined(a, b) for a, b in zip(one.x, two.x, strict=True)),
        joined(one.edge_attr, two.edge_attr),
    )


def relabelled(graph, bipartite, flow):
    """The same graph with other labels of the nodes, edges in the same order; and the new label of each centre."""
    generator = torch.Generator().manual_seed(3)
    labels = [torch.randperm(size, generator=generator) for size in graph.sizes]
    labels = labels if bipartite else labels[:1] * 2
    neighbors, centers = labels if flow == "source_to_target" else reversed(labels)
    x = tuple(None if x is None else x[label.argsort()] for x, label in zip(graph.x, (neighbors, centers), strict=True))
    edge_index = torch.stack([label[row] for label, row in zip(labels, graph.edge_index, strict=True)])
    return Graph(graph.sizes, edge_index, x, graph.edge_attr), centers


def assert_close(actual, expected, what, tolerance):
    for index, (a, b) in enumerate(zip(actual, expected, strict=True)):
        assert a.shape == b.shape and a.dtype == b.dtype, f"{what}: shape or dtype of result {index}"
        assert a.isfinite().all() and b.isfinite().all(), f"{what}: result {index} is not finite"
        scale = max(1.0, float(b.abs().max())) if b.numel() else 1.0
        torch.testing.assert_close(
            a / scale, b / scale, rtol=0, atol=tolerance, msg=lambda text, i=index: f"{what}: result {i}\n{text}"
        )


def check_case(seed, fused=False):
    case = draw_case(seed, torch.float if fused else None)
    first, second = case.graphs
    tolerance = TOLERANCE[case.dtype]
    packed = case.run(first)
    assert_close(packed, case.run(first, backend="reference"), "packed against reference", tolerance)
    assert_close(case.run(first, workspace=seed % 7 * 600), packed, "in blocks against at once", tolerance)
    if fused:
        assert_close(case.run(first, backend="triton"), packed, "fused against packed", tolerance)
    with pytest.MonkeyPatch.context() as patch:  # numberings are drawn for all nodes at once
        patch.setattr(Plan, "renumbered", lambda plan: plan)
        (alone, *_), (other, *_) = (case.run(graph) for graph in case.graphs)
        if all((a is None) == (b is None) for a, b in zip(first.x, second.x, strict=True)):
            (both, *_) = case.run(together(first, second))
            assert_close([both], [torch.cat([alone, other])], "batch against alone", tolerance)
        moved, label = relabelled(first, case.bipartite, case.layer.flow)
        assert_close([case.run(moved)[0][label]], [alone], "relabelled", tolerance)


def check_refusal(seed):
    """One argument or input is spoilt: an error that says so."""
    case = draw_case(seed)
    draw, graph = random.Random(-seed - 1), case.graphs[0]
    name = draw.choice([*WRONG, "x", "rows", "edges", "range", "edge_attr"])
    if name in WRONG:
        value = draw.choice(WRONG[name])
        arguments = {"in_channels": graph.x[0].size(1), "out_channels": 3, **case.arguments, name: value}
        what = f"{name}={value!r}"
        if name == "edge_dim":
            graph.edge_attr = torch.randn(graph.edge_index.size(1), 1, dtype=case.dtype)

        def spoilt():
            layer = PGConv(**arguments).to(case.dtype)
            case.layer = layer
            case.run(graph)
    else:
        what, spoilt = name, lambda: case.run(graph)
        if name == "x":
            graph.x = (torch.randn(graph.x[0].size(0), 9, dtype=case.dtype), *graph.x[1:])
        elif name == "rows":
            graph.x = (torch.randn(graph.x[0].size(0) + 1, graph.x[0].size(1), dtype=case.dtype), *graph.x[1:])
            case.bipartite = True
        elif name == "edges":
            graph.edge_index = draw.choice([graph.edge_index.float(), graph.edge_index[0], graph.edge_index.int()])
        elif name == "range":
            wrong = torch.full((2, 1), draw.choice([-1, 99]))
            graph.edge_index = torch.cat([graph.edge_index, wrong], 1)
            if graph.edge_attr is not None:
                graph.edge_attr = torch.cat([graph.edge_attr, graph.edge_attr.new_zeros(1, graph.edge_attr.size(1))])
        else:
            shape = (graph.edge_index.size(1) + 1, case.arguments["edge_dim"] or 2)
            graph.edge_attr = torch.randn(shape, dtype=case.dtype)
    errors = (ValueError, TypeError, IndexError) if name == "range" else (ValueError, TypeError)
    with pytest.raises(errors) as refused:
        spoilt()
        pytest.fail(f"{what} was taken")
    if name in WRONG:
        assert name in str(refused.value), f"{what} is not named: {refused.value}"
    assert str(refused.value).strip(), what


def run_cases(check, first, number, **kwargs):
    print(f"PGGNN_FUZZ_SEED={first}, {number} cases")
    for seed in range(first, first + number):
        try:
            check(seed, **kwargs)
        except BaseException as error:
            error.add_note(f"{check.__name__}({seed}): {draw_case(seed).arguments}")
            raise


def test_some_layers():
    run_cases(check_case, 0, 60)


def test_some_refusals():
    run_cases(check_refusal, 0, 120)


@pytest.fixture
def seed():
    return int(os.environ.get("PGGNN_FUZZ_SEED") or secrets.randbelow(2**31))


@pytest.fixture
def cases():
    return int(os.environ.get("PGGNN_FUZZ_CASES") or 10_000)


@pytest.mark.slow
def test_many_layers(seed, cases):
    run_cases(check_case, seed, cases)


@pytest.mark.slow
def test_many_refusals(seed, cases):
    run_cases(check_refusal, seed, cases)


@pytest.mark.slow
def test_many_fused_layers(seed, cases):
    pytest.importorskip("triton")
    run_cases(check_case, seed, max(cases // TRITON_EVERY, 1), fused=True)
