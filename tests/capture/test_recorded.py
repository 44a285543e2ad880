import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy, mse_loss
from torch_geometric.data import Batch

from pggnn.capture import Recorded
from pggnn.capture.capacity import Capacity
from pggnn.capture.recorded import Inputs
from pggnn.data.sets.counting import erdos_renyi
from pggnn.nn import PGGNN
from pggnn.orderings import Reading
from pggnn.plan import Plan
from pggnn.testing import random_graph

on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU on this machine")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def plan_of(degrees):
    return Plan.build(random_graph(degrees), len(degrees))


def capacity_of(*degrees):
    return Capacity.of_profile(plan_of(degrees).profile)


def test_capacity_holds_what_is_nowhere_larger():
    needed = capacity_of(0, 1, 3, 3, 2)
    assert needed.degrees.tolist() == [0, 1, 2, 3]
    assert needed.counts.tolist() == [6, 4, 3, 2], "the batch's nodes, and one more"
    assert (needed.nodes, needed.edges) == (6, 9)
    assert needed.profile.tolist() == [[3, 2], [2, 1], [1, 1], [0, 2]]
    assert needed.steps(Reading()) == 2 * 2 * 5 + 2 * 4 + 3 + 2 * 2
    assert needed.holds(needed) and needed.holds(capacity_of(3, 3, 1))
    assert not needed.holds(capacity_of(3, 3, 3)), "too many of degree 3"
    assert not needed.holds(capacity_of(4)), "none has degree 4"
    assert not capacity_of(3, 0).holds(capacity_of(2, 1)), "one of degree 3, and two of 1 or more"
    grown = needed.grown(capacity_of(5))
    assert grown.degrees.tolist() == [0, 1, 2, 3, 5]
    assert grown.counts.tolist() == [6, 4, 3, 2, 2]
    assert grown.holds(needed) and grown.holds(capacity_of(5)) and (np.diff(grown.counts) <= 0).all()


def test_exact_capacity_has_each_degree():
    degrees = np.array([0, 1, 3])
    made = Capacity.of(degrees, np.array([[2, 0, 1], [0, 4, 0]]), exact=True)
    assert made.by_degree.tolist() == [2, 4, 1] and (made.nodes, made.edges) == (7, 7)
    assert made.holds(Capacity.of(degrees, np.array([[2, 4, 1]]), exact=True))
    assert not made.holds(Capacity.of(degrees, np.array([[0, 0, 2]]), exact=True))
    assert not made.holds(Capacity.of(np.array([0, 2]), np.array([[0, 1]]), exact=True)), "none has degree 2"
    assert made.grown(Capacity.of(degrees, np.array([[0, 0, 2]]), exact=True)).by_degree.tolist() == [2, 4, 2]


@pytest.mark.usefixtures("swift_interpreter")
@pytest.mark.parametrize(
    ("level", "degrees", "norm"),
    [
        ("node", (0, 1, 2, 4, 3), "batch"),
        ("graph", (0, 1, 2, 4, 3), "batch"),
        ("graph", (0, 0), "batch"),
        ("graph", (0, 1, 2, 4, 3), "graph"),
    ],
)
def test_filled_up_batches_are_the_batches(level, degrees, norm):
    """Answers, gradients and batch statistics, where the batch before has left what is not finite."""
    network = PGGNN(3, 5, 2, 2, level, edge_dim=2, norm=norm, backend="triton").to(DEVICE)
    plan, graphs = plan_of(degrees).to(DEVICE), 2
    nodes = len(degrees)
    batch = (torch.arange(nodes, device=DEVICE) * graphs).div(nodes, rounding_mode="floor")
    x = torch.randn(nodes, 3, device=DEVICE)
    edge_attr = torch.randn(plan.num_edges, 2, device=DEVICE)
    larger = plan_of((1, 3, 4, 0, 5)).to(DEVICE)
    capacity = Capacity.of_profile(larger.profile).grown(Capacity.of_profile(plan.profile))
    inputs = Inputs(capacity, graphs, x, edge_attr)
    before = torch.full((5, 3), torch.inf, device=DEVICE), torch.full((larger.num_edges, 2), 7.0, device=DEVICE)
    inputs.fill(before[0], larger, torch.ones(5, dtype=torch.long, device=DEVICE), before[1])
    inputs.fill(x, plan, batch, edge_attr)
    rows, outcomes = (nodes if level == "node" else graphs), []
    start = {name: value.clone() for name, value in network.state_dict().items()}
    for arguments in ((x, plan, batch, edge_attr, graphs), inputs.arguments(network.flow)):
        network.load_state_dict(start)
        out = network(*arguments)[:rows]
        gradients = torch.autograd.grad(out.sin().sum(), list(network.parameters()))
        outcomes.append([out, *gradients, *(buffer.clone() for buffer in network.buffers())])
    for exact, filled in zip(*outcomes, strict=True):
        torch.testing.assert_close(filled, exact, rtol=1e-4, atol=1e-5)


def test_elsewhere_the_network_itself_is_called():
    network = PGGNN(3, 5, 2, level="node")
    plan, x = plan_of((0, 1, 2, 5, 3, 4)), torch.randn(6, 3)
    recorded = Recorded(network)
    assert torch.equal(recorded(x, plan), network(x, plan))
    assert torch.equal(recorded(x, torch.stack([plan.neighbor, plan.center])), network(x, plan))
    with pytest.raises(TypeError, match=r"such as PGGNN.*got Linear"):
        Recorded(torch.nn.Linear(3, 2))


def batches(count, device="cuda"):
    sizes = [4, 4, 12, 4, 20, 4][:count]
    return [Batch.from_data_list(erdos_renyi(size, seed=size + k)).to(device) for k, size in enumerate(sizes)]


def train(call, network, accumulate=1, precision=None):
    """Losses of a plain loop over batches that change in size."""
    optimizer, losses = torch.optim.Adam(network.parameters(), 0.01), []
    for epoch in range(3):
        for step, batch in enumerate(batches(6)):
            if (epoch * 6 + step) % accumulate == 0:
                optimizer.zero_grad()
            with torch.autocast("cuda", precision or torch.bfloat16, enabled=precision is not None):
                out = call(batch.x, batch.edge_index)
            loss = mse_loss(out.float().flatten(), batch.y.flatten().float())
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses


def small_network(**options):
    torch.manual_seed(1)
    return PGGNN(10, 16, 1, 2, level="node", **options).cuda()


@on_gpu
@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.parametrize("precision", [None, torch.bfloat16])
def test_recorded_steps_are_steps(accumulate, precision):
    plain, other = small_network(), small_network()
    recorded = Recorded(other)
    expected = train(plain, plain, accumulate, precision)
    losses = train(recorded, other, accumulate, precision)
    assert recorded._recording is not None, "nothing was recorded"
    tolerance = 1e-3 if precision is None else 3e-2
    assert losses == pytest.approx(expected, rel=tolerance)
    for mine, theirs in zip(other.buffers(), plain.buffers(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=10 * tolerance, atol=10 * tolerance)


@on_gpu
def test_recorded_steps_of_whole_graphs_with_edge_features():
    torch.manual_seed(2)
    plain = PGGNN(10, 16, 3, 2, edge_dim=2).cuda()
    other = PGGNN(10, 16, 3, 2, edge_dim=2).cuda()
    other.load_state_dict(plain.state_dict())
    losses = []
    for network, call in ((plain, plain), (other, recorded := Recorded(other))):
        torch.manual_seed(3)
        optimizer = torch.optim.Adam(network.parameters(), 0.01)
        for batch in batches(6):
            edge_attr = torch.randn(batch.num_edges, 2, device="cuda", requires_grad=True)
            target = torch.randint(3, (batch.num_graphs,), device="cuda")
            out = call(batch.x, batch.edge_index, batch.batch, edge_attr, batch.num_graphs)
            loss = cross_entropy(out, target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append((out.detach(), edge_attr.grad))
    assert recorded._recording is not None, "nothing was recorded"
    for (out, gradient), (theirs, its_gradient) in zip(losses[:6], losses[6:], strict=True):
        torch.testing.assert_close(theirs, out, rtol=1e-2, atol=1e-2)
        torch.testing.assert_close(its_gradient, gradient, rtol=1e-2, atol=1e-3)


@on_gpu
def test_answers_stay_and_a_batch_that_fits_is_not_recorded_again():
    model, graphs = small_network(), erdos_renyi(4)
    one, other = (Batch.from_data_list(part).to("cuda") for part in (graphs, graphs[2:0:-1]))
    recorded = Recorded(model)
    first = recorded(one.x, one.edge_index)
    kept, recording = first.clone(), recorded._recording
    second = recorded(other.x, other.edge_index)
    assert recorded._recording is recording
    assert torch.equal(first, kept) and not torch.equal(first[: len(second)], second)
    with pytest.raises(RuntimeError, match="once, and before the next forward pass"):
        first.sum().backward()
    second.sum().backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="another recorded pass"):
        second.sum().backward()


@on_gpu
def test_gradients_reach_what_the_features_were_made_of():
    batch = batches(1)[0]
    embedding = torch.nn.Linear(10, 10).cuda()
    model = small_network()
    gradients = []
    for call in (model, Recorded(model)):
        out = call(embedding(batch.x), batch.edge_index)
        gradients.append(torch.autograd.grad(out.sin().sum(), [*embedding.parameters(), *model.parameters()]))
    for mine, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-4)


@on_gpu
def test_a_change_of_circumstances_is_seen():
    batch, model = batches(1)[0], small_network(dropout=0.5, numbering="random")
    recorded = Recorded(model)
    one, other = (recorded(batch.x, batch.edge_index).detach() for _ in range(2))
    assert not torch.equal(one, other), "random numbers are new each time"
    recording = recorded._recording
    model.eval()
    assert torch.equal(recorded(batch.x, batch.edge_index), model(batch.x, batch.edge_index))
    with torch.no_grad():
        assert recorded(batch.x, batch.edge_index).grad_fn is None
    model.train()
    model.convs[0].requires_grad_(False)
    recorded(batch.x, batch.edge_index).sum().backward()
    assert recorded._recording is not recording
    assert next(model.convs[0].parameters()).grad is None
    assert next(model.convs[1].parameters()).grad is not None
    with pytest.raises(ValueError, match="batch must have the shape"):
        recorded(batch.x, batch.edge_index, batch.batch[1:], batch_size=4)
    with pytest.raises(ValueError, match="features of the neighbours must have shape"):
        recorded(batch.x[:1], Plan.build(batch.edge_index, batch.num_nodes))


@on_gpu
def test_what_cannot_be_recorded_is_said():
    batch, model = batches(1)[0], small_network(structure=1)
    with pytest.warns(UserWarning, match="structural bits"):
        recorded = Recorded(model)(batch.x, batch.edge_index)
    torch.testing.assert_close(recorded, model(batch.x, batch.edge_index))
