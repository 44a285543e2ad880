"""Batches of one size: their tables, and the capacity that they are padded to."""

import numpy as np
import pytest
import torch

from pggnn.data.batching.batches import Batches
from pggnn.data.batching.collate import Collater
from pggnn.data.batching.padding import Padding
from pggnn.data.graphs import Graphs
from pggnn.data.sets.counting import Counting
from pggnn.orderings import Reading
from pggnn.plan import PaddedPlan, Plan


@pytest.fixture
def collater():
    return Collater(Graphs.of(Counting("er", seed=0, graphs=30)))


def test_padded_batches_hold_the_batches(collater):
    batches = Batches(collater, 8, "shuffle")
    padding = Padding(collater, torch.arange(30), 8)
    padding.extend(batches.chosen())
    epoch = padding.epoch(batches.chosen())
    for number, batch in enumerate(batches):
        row = {name: table[number] for name, table in epoch.items()}
        nodes, edges = batch.num_nodes, batch.num_edges
        plan = padding.plan(row)
        row = padding.batch(row, plan)
        assert torch.equal(row.real, torch.arange(len(row.real)) < nodes)
        assert torch.equal(row.x[:nodes], batch.x)
        assert torch.equal(row.y[row.counts], batch.y)
        assert torch.equal(row.batch[:nodes], batch.batch)
        assert (row.batch[nodes:] == 8).all()
        for field in ("neighbor", "center"):
            assert torch.equal(getattr(plan, field)[:edges], getattr(batch.plan, field))
        assert torch.equal(plan.neighbor[edges:], plan.center[edges:]), "a padding node is its own neighbour"
        assert torch.equal(plan.degree[:nodes], batch.plan.degree)
        built = Plan.build(torch.stack([plan.neighbor, plan.center]), len(row.real))
        for field in ("center", "start", "degree", "order", "profile"):
            assert torch.equal(getattr(plan, field), getattr(built, field)), field


@pytest.mark.parametrize("exact", [True, False])
def test_what_an_epoch_takes_is_known_before(exact, collater):
    batches = Batches(collater, 8, "shuffle")
    padding = Padding(collater, torch.arange(30), 8, exact)
    padding.extend(batches.chosen())
    tables = padding.epoch(batches.chosen())
    size = sum(table.nbytes for name, table in tables.items() if name not in ("y", "counts"))
    assert padding.nbytes * len(batches) == size


def test_batches_padded_to_a_bound_hold_the_batches(collater):
    batches = Batches(collater, 8, "shuffle")
    padding = Padding(collater, torch.arange(30), 8, exact=False)
    padding.extend(batches.chosen())
    epoch = padding.epoch(batches.chosen())
    exact = Padding(collater, torch.arange(30), 8)
    steps, at_most, mean = (one.steps(Reading()) for one in (exact.capacity, padding.capacity, padding.mean))
    assert exact.mean.steps(Reading()) == mean < at_most < steps
    bound = torch.repeat_interleave(*padding.capacity.profile.unbind(1))
    for number, batch in enumerate(batches):
        row = {name: table[number] for name, table in epoch.items()}
        nodes, edges = batch.num_nodes, batch.num_edges
        plan = padding.plan(row)
        row = padding.batch(row, plan)
        assert isinstance(plan, PaddedPlan)
        assert (plan.degree[plan.order] <= bound).all(), "the k-th largest degree fits"
        assert torch.equal(plan.neighbor[:edges], batch.plan.neighbor)
        assert torch.equal(plan.center[:edges], batch.plan.center)
        assert torch.equal(plan.degree[:nodes], batch.plan.degree)
        assert (plan.degree[nodes:] == 0).all()
        assert (plan.center[edges:] == len(row.real) - 1).all()
        readers = torch.bincount(plan.neighbor[edges:], minlength=len(row.real))
        assert len(readers) == len(row.real), "padding edges lead to nodes"
        assert readers.max() <= readers.min() + 1, "to none of them much more often than to others"
        assert not row.real[-1], "the last node is nobody's"


def test_capacity_grows_beyond_the_next_batch(collater):
    padding = Padding(collater, torch.arange(30), 4, exact=False)
    smaller = [torch.arange(2), torch.arange(2, 4)]
    assert not padding.extend(smaller)
    before = padding.capacity.counts
    assert padding.extend([torch.arange(8)])
    grown = padding.capacity.counts
    needed = (collater.collate(torch.arange(8)).plan.degree.numpy()[:, None] >= padding.nodes.values).sum(0)
    assert (grown >= np.maximum(before, 1.25 * needed)).all()
    assert (np.diff(grown) <= 0).all(), "no fewer nodes have a degree or more than have a larger one"
    assert not padding.extend([torch.arange(8)])
