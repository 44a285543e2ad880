import copy
import json
import math
from types import SimpleNamespace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from pggnn.baselines import rgin, rp
from pggnn.baselines.options import NETWORKS
from pggnn.capture.replay import Replay, Rows
from pggnn.data.batching.collate import Collater
from pggnn.data.batching.padding import Padding
from pggnn.data.formats.jsonl import load_jsonl
from pggnn.data.graphs import Graphs
from pggnn.data.sets.counting import Counting
from pggnn.nn import readout
from pggnn.nn.norm import RowNorm, masked_rows
from pggnn.ops import HAS_TRITON, structure
from pggnn.ops.fused import sum as sums
from pggnn.ops.fused.tiles import Tiles
from pggnn.orderings import Reading
from pggnn.plan import Plan
from pggnn.train.config import Config, DataConfig, ModelConfig, OptimConfig, RunConfig
from pggnn.train.engine import loop
from pggnn.train.engine.loop import Callback, Split, Training
from pggnn.train.engine.models import lists_for
from pggnn.train.runs.run import make_fabric


@pytest.fixture
def collater():
    return Collater(Graphs.of(Counting("er", seed=0, graphs=30)))


def test_rows_side_by_side_are_those_of_the_tables():
    tables = {
        "flags": torch.rand(5, 7) < 0.5, "features": torch.randn(5, 3, 5), "numbers": torch.randint(99, (5, 11)),
        "total": torch.rand(5), "nothing": torch.empty(5, 0, 4), "wide": torch.randn(5, 3, dtype=torch.double),
    }  # fmt: skip
    rows = Rows(tables)
    rows.write(tables)
    assert rows.fits(tables)
    assert not rows.fits({**tables, "flags": tables["flags"][:, 1:]})
    for number in range(5):
        for name, value in rows.read(torch.tensor([number])).items():
            assert torch.equal(value, tables[name][number]), name


def test_norms_are_those_of_the_rows_that_count():
    x, real = torch.randn(50, 6) * 3 + 1, torch.rand(50) < 0.6
    ours, theirs = RowNorm(6), torch.nn.BatchNorm1d(6)
    for _ in range(3):
        with masked_rows(torch.nn.Sequential(ours), real):
            torch.testing.assert_close(ours(x)[real], theirs(x[real]))
    torch.testing.assert_close(ours(x), theirs(x), msg="all rows count again")
    for name, value in theirs.state_dict().items():
        torch.testing.assert_close(ours.state_dict()[name], value)


def begin(collater, folder, device="cpu", precision="64", record=True, batch_size=8, clip=1.0, **options):
    config = Config(
        DataConfig("x"), ModelConfig(**{"hidden": 8, "layers": 2, **options}),
        OptimConfig(batch_size=batch_size, clip=clip),
        run=RunConfig(device=device, tensorboard=False, precision=precision, record=record),
    )  # fmt: skip
    index = torch.arange(len(collater.graphs))
    return Training(config, collater, Split(index, index, index), 0, folder, make_fabric(config))


def fit(training, epochs=3):
    losses = []
    for _ in range(epochs):
        training.state["epoch"] += 1
        losses.append(training.train_epoch(Callback()))
    return losses


def padded_replay(training, batch_size=8, exact=True):
    padding = Padding(training.collater, training.split.train, batch_size, exact)
    return Replay(training.step, padding, training.adam, training.fabric.device)


def train(collater, folder, padded, **options):
    training = begin(collater, folder, **options)
    if padded:
        training._replay = replay = padded_replay(training)
        replay.step = replay.take_step  # without the recording, which needs a GPU
    return fit(training), training.network.state_dict()


def assert_same(one, other):
    assert one[0] == pytest.approx(other[0], rel=1e-5)
    for name, value in one[1].items():
        torch.testing.assert_close(other[1][name], value, rtol=1e-3, atol=1e-5, msg=name)


RECORDED = [name for name, model in NETWORKS.items() if model.load().recordable]
EVERY = [
    *({"name": name} for name in RECORDED),
    {"name": "gcn", "weighting": "mean", "scores": "last"},
    *({"name": "rp", "inputs": inputs} for inputs in ("rows", "nothing")),
    {"name": "sage", "replace": True},
    {"committee": 2},
    {"norm": "graph"},
]


@pytest.mark.parametrize("options", EVERY, ids=str)
def test_padded_training_is_training(options, collater, tmp_path, monkeypatch):
    """Random draws, of which padding takes its share, give way to constants."""
    monkeypatch.setattr(Plan, "renumbered", lambda plan: plan)
    monkeypatch.setattr(torch, "rand", torch.zeros)
    monkeypatch.setattr(rgin, "VALUES", 1)
    monkeypatch.setattr(rp, "permute", lambda batch: torch.arange(len(batch)) - torch.searchsorted(batch, batch))
    assert_same(*(train(collater, tmp_path, padded, **options) for padded in (False, True)))


@pytest.mark.parametrize("padded", [False, True])
def test_each_step_follows_the_gradient_of_the_mean_loss(padded, collater, tmp_path):
    """Of the targets of its batch, also of a smaller last one; Adam would hide a factor."""
    training = begin(collater, tmp_path, clip=None)
    if padded:
        training._replay = replay = padded_replay(training)
        replay.step = replay.take_step
    training.batches.epoch = 1
    batches, lost = iter(list(training.batches)), []

    def compare(*_):
        network, batch = copy.deepcopy(training.network), next(batches)
        network.zero_grad()
        scores = network(batch.x.double(), batch.plan, batch.batch, None, len(batch))
        loss = torch.nn.functional.mse_loss(scores.view(-1), batch.y.double().view(-1))
        loss.backward()
        for ours, theirs in zip(training.network.parameters(), network.parameters(), strict=True):
            torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-6)
        lost.append((float(loss.detach()), batch.y.numel()))

    training.adam.register_step_pre_hook(compare)
    (mean,) = fit(training, epochs=1)
    assert len({count for _, count in lost}) > 1
    assert mean == pytest.approx(sum(loss * count for loss, count in lost) / sum(count for _, count in lost))
    assert next(batches, None) is None


class OnOneDevice(TorchDispatchMode):
    """Lets no operation read from one device and write to another."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        devices = {value.device for value in tree_leaves((args, kwargs, out)) if isinstance(value, torch.Tensor)}
        assert len(devices) <= 1, f"{function} between {devices}"
        return out


NETWORKS = [*EVERY, {"structure": 2}, {"numbering": "random"}, {"root": "linear"}]


@pytest.mark.parametrize("options", NETWORKS, ids=str)
def test_a_step_asks_the_device_nothing(options, collater, tmp_path, monkeypatch):
    """It can be taken on the device "meta", where there are shapes but no values to ask for, without a copy from the
    host, where a recording would not find it again."""
    training = begin(collater, tmp_path, **options)
    replay = padded_replay(training)
    replay.begin(training.batches.chosen(), [1] * len(training.batches), 0.1)
    training.scorer.train()
    training.network.to("meta")
    replay._rows.memory = replay._rows.memory.to("meta")
    replay.row, replay.summed = replay.row.to("meta"), replay.summed.to("meta")
    monkeypatch.setattr(structure, "_step_codes", structure._step_codes._init_fn)  # looks into the operator
    monkeypatch.setattr(torch, "tensor", None)  # would copy from the host, unseen
    with OnOneDevice():
        replay.take_step()
    assert all(weight.grad is not None for weight in training.network.parameters())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU on this machine")
@pytest.mark.parametrize("name", [*RECORDED, "committee"])
def test_recorded_training_is_training(name, tmp_path):
    torch.use_deterministic_algorithms(False)
    collater = Collater(Graphs.of(Counting("er", seed=0, graphs=60)), "cuda")
    options = {"committee": 2} if name == "committee" else {"name": name}
    trainings = [begin(collater, tmp_path, "cuda", "32", record, **options) for record in (False, True)]
    assert trainings[0]._replay is None
    losses = [fit(training, 5) for training in trainings]
    replay = trainings[1]._replay
    assert replay._graph is not None, "nothing was recorded"
    draws = name in ("sage", "rgin", "rp")
    if draws:
        assert all(math.isfinite(loss) for loss in losses[1])
        assert losses[1][-1] < losses[1][0]
    else:
        assert losses[1] == pytest.approx(losses[0], rel=1e-3)

    def play(step):
        replay.row.zero_()
        replay.lr.zero_()
        replay.summed.zero_()
        step()
        return float(replay.summed)

    one, other = play(replay.step), play(replay.step)
    assert (one != pytest.approx(other, rel=1e-4)) == draws, "each replay draws anew, if it draws at all"
    play(replay.take_step)
    try:
        replay.row.zero_()
        torch.cuda.set_sync_debug_mode("error")
        replay.take_step()
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize(
    ("options", "recorded"),
    [({"cell": "linear"}, True), ({"cell": "linear", "root": "linear"}, False), ({"cell": "lstm"}, False)],
)
def test_recordings_are_judged_by_the_steps_that_are_taken(options, recorded, collater, tmp_path, monkeypatch):
    """The whole group in linear time is little work, even where the group has many steps."""
    training = begin(collater, tmp_path, precision="32", **options)
    gpu = SimpleNamespace(type="cuda")
    training.fabric = SimpleNamespace(device=gpu, world_size=1)
    training.collater = SimpleNamespace(**vars(collater) | {"device": gpu, "host_degree": collater.host_degree})
    capacity = Padding(collater, training.split.train, 8, exact=False).capacity
    monkeypatch.setattr(loop, "MOST_STEPS", 2 * capacity.steps(Reading(limit=1)))
    monkeypatch.setattr(loop, "MOST_PADDED", 0)
    monkeypatch.setattr(loop, "takes_padded_plans", lambda _: True)
    monkeypatch.setattr(loop, "Replay", lambda *_: "recorded")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(total_memory=2**40))
    assert (training._replay == "recorded") == recorded


GRAPH = {
    "x": [[0.3, -1.0], [1.5, 0.2], [-0.7, 0.9]],
    "edges": [[0, 1], [0, 2], [1, 2]],
    "edge_attr": [[0.5], [1.0], [-2.0]],
}
LARGE = {
    "x": [[i / 3 - 1, i % 2 - 0.4] for i in range(6)],
    "edges": [[0, i] for i in range(1, 6)],
    "edge_attr": [[i / 5] for i in range(5)],
}


@pytest.mark.parametrize("name", ["pggnn", "gin"])
@pytest.mark.parametrize(
    "targets",
    [
        ({"y": "a"}, {"y": "b"}),
        ({"y": 0.5}, {"y": -1.5}),
        ({"y": [1, 0, 1]}, {"y": [0, 1, 1]}),
        ({"y": [1, 0, None]}, {"y": [None, 1, 1]}),
        ({"y": "a"}, {"y": "b"}, {"y": None}),
    ],
)
def test_padded_training_of_graphs_with_edge_features(targets, name, tmp_path):
    graphs = [(GRAPH, LARGE)[i % 3 == 0] | targets[i % len(targets)] for i in range(20)]
    path = tmp_path / "graphs.jsonl"
    path.write_text("\n".join(map(json.dumps, graphs)))
    collater = Collater(Graphs.of(load_jsonl(path)))
    plain, padded = (train(collater, tmp_path, padded, name=name, edge_features=True) for padded in (False, True))
    assert_same(plain, padded)


@pytest.mark.skipif(not HAS_TRITON, reason="Triton is not installed")
@pytest.mark.parametrize("options", [{"orderings": "single"}, {"aggregation": "pairs", "cell": "gru"}], ids=str)
def test_what_layers_derive_is_made_ahead(options, tmp_path, monkeypatch):
    """In padded batches, as they are recorded on a GPU; here without the recording."""
    path = tmp_path / "graphs.jsonl"
    path.write_text("\n".join(json.dumps((GRAPH, LARGE)[i % 2] | {"y": float(i)}) for i in range(4)))
    device = "cuda" if torch.cuda.is_available() else "cpu"
    collater = Collater(Graphs.of(load_jsonl(path)), device)
    plain, training = (
        begin(collater, tmp_path, device, "32", False, batch_size=2, layers=1, rnn_layers=1, **options)
        for _ in range(2)
    )
    training.network.convs[0].backend = "triton"
    replay = training._replay = padded_replay(training, 2, exact=False)
    build, ahead = Tiles.build, []

    def watched(cls, plan, *args):
        ahead.append(torch._C._functorch.is_batchedtensor(plan.degree))
        return build(plan, *args)

    def step():
        plans = replay.take_step()
        if len(ahead) == 1:
            replay.derive_ahead(plans)

    expected = fit(plain, 2), plain.network.state_dict()
    monkeypatch.setattr(Tiles, "build", classmethod(watched))
    replay.step = step
    assert_same(expected, (fit(training, 2), training.network.state_dict()))
    assert ahead == [False, True, True], "made in the first step, then once for all in each epoch"


@pytest.mark.skipif(not HAS_TRITON, reason="Triton is not installed")
def test_what_layers_derive_from_rings_is_made_ahead(tmp_path, monkeypatch):
    """Who reads each row is sorted for a whole epoch at once. What is left in a step is the readout's."""
    path, rings = tmp_path / "graphs.jsonl", [[[i, (i + 1) % n] for i in range(n)] for n in (3, 4, 5)]
    graphs = [{"num_nodes": 6, "edges": ring, "edge_attr": [[0.3 * i] for i in range(len(ring))]} for ring in rings]
    labels = [{"x": [[float(i * j % 7), float(j % 3)] for j in range(6)], "y": float(i)} for i in range(1, 7)]
    path.write_text("\n".join(json.dumps(a | b) for a, b in zip(graphs * 2, labels, strict=True)))
    device = "cuda" if torch.cuda.is_available() else "cpu"
    graphs = Graphs.of(load_jsonl(path))
    options = {"reads": ["sum", "rings"], "cell": "gru", "rnn_layers": 1, "layers": 2, "edge_features": True}
    lists = lists_for(Config(DataConfig("x"), ModelConfig(**options)), graphs)
    collater = Collater(graphs, device, lists)
    plain, training = (
        begin(collater, tmp_path, device, "32", False, batch_size=2, block="residual", **options) for _ in range(2)
    )
    for conv in training.network.convs:
        conv.layers["rings"].backend = "triton"
    replay = training._replay = padded_replay(training, 2, exact=False)
    sort, ahead = sums.readers, []

    def watched(number, count):
        ahead.append(torch._C._functorch.is_batchedtensor(number))
        return sort(number, count)

    def step():
        plans = replay.take_step()
        if len(ahead) == 5:
            replay.derive_ahead(plans)

    expected = fit(plain, 2)
    monkeypatch.setattr(readout, "_has_kernel", lambda _: True)
    monkeypatch.setattr(sums, "readers", watched)
    replay.step = step
    assert fit(training, 2) == pytest.approx(expected, rel=1e-4)
    once, step = [True] * 4, [False]
    first = [False] * 5  # neighbours, owners, heads, rows of rings, and graphs
    assert ahead == [*first, *once, *step * 2, *once, *step * 3]


@pytest.mark.parametrize("capturable", [False, True])
def test_goes_on_on_another_device(capturable, collater, tmp_path):
    """What can be recorded and what cannot is a matter of the device here, not of the one that a run began on."""
    before, after = (begin(collater, tmp_path) for _ in range(2))
    before.adam.param_groups[0]["capturable"] = capturable
    after.adam.defaults["capturable"] = after.adam.param_groups[0]["capturable"] = not capturable
    fit(before, 1)
    before.save(improved=False)
    after.resume(tmp_path / "last.safetensors")
    assert [group["capturable"] for group in after.adam.param_groups] == [not capturable]
