"""What each protocol trains on, chooses by and tests on: apart from each other, and nothing forgotten."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pggnn.data.graphs import Graphs
from pggnn.data.schema import Schema
from pggnn.train.config import Config, DataConfig, ProtocolConfig
from pggnn.train.runs.protocol import split, trials

SEEDS = st.integers(0, 2**31 - 1)


def config_of(kind, **options):
    return Config(DataConfig("any"), protocol=ProtocolConfig(kind=kind, **options))


def graphs_of(classes):
    """A graph of one node for each class in the list."""
    none = torch.zeros(len(classes), dtype=torch.long)
    schema = Schema("graph", "classification", classes=tuple(range(max(classes) + 1)))
    empty = torch.empty(2, 0, dtype=torch.long)
    return Graphs(none + 1, none, empty, graph={"y": torch.tensor(classes)}, schema=schema)


@st.composite
def labelled(draw):
    """Classes of graphs in any order: some with many graphs, some with one or two."""
    sizes = [draw(st.integers(4, 120)), *draw(st.lists(st.integers(1, 60) | st.integers(1, 2), max_size=5))]
    labels = [label for label, size in enumerate(sizes) for _ in range(size)]
    return [labels[i] for i in np.random.RandomState(draw(SEEDS)).permutation(len(labels))]


def assert_whole(found, count):
    """Each graph in one part of the split, once."""
    assert torch.cat([part for part in found if part is not None]).sort()[0].tolist() == list(range(count))


def of_class(index, y, label):
    return int((y[index] == label).sum())


@settings(max_examples=150, deadline=None)
@given(labelled(), SEEDS, st.integers(2, 10), st.sampled_from(["folds", "nested"]))
def test_cross_validation(classes, seed, folds, kind):
    graphs, y = graphs_of(classes), torch.tensor(classes)
    folds = min(folds, int(y.bincount().max()))
    config = config_of(kind, folds=folds, seeds=[seed])
    tested = []
    for trial in trials(config):
        found = split(config, graphs, trial)
        tested.append(found.test)
        assert_whole((found.train, found.val, found.test), len(y))
        for label, size in enumerate(y.bincount().tolist()):
            assert size // folds <= of_class(found.test, y, label) <= -(-size // folds)
        if kind == "folds":
            assert found.val is None
            continue
        for label in y.unique().tolist():
            held, left = of_class(found.val, y, label), of_class(found.train, y, label)
            assert (held == 0) if held + left < 2 else (held == 1 or abs(held - (held + left) / 10) <= 0.5)
            assert left > 0 or held == 0, "what is not trained on cannot be validated"
        again = split(config, graphs, trial)
        assert torch.equal(again.val, found.val)
        assert torch.equal(again.train, found.train)
    assert len(tested) == folds
    assert_whole(tested, len(y))


def test_each_fold_and_seed_has_validation_graphs_of_its_own():
    """Also where two seeds have the same folds, as those of small sets do."""
    graphs = graphs_of([0, 1] * 300)
    config = config_of("nested", seeds=[0, 1])
    held = [tuple(split(config, graphs, trial).val.tolist()) for trial in trials(config)]
    assert len(set(held)) == 20


def test_too_few_graphs_to_validate_are_refused():
    config = config_of("nested", folds=2)
    with pytest.raises(ValueError, match=r"3 graphs are too few .* 1 to train, 0 to validate, 2 to test"):
        split(config, graphs_of([0] * 3), trials(config)[0])


@settings(max_examples=150, deadline=None)
@given(st.integers(10, 300), SEEDS)
def test_random_parts(count, seed):
    config = config_of("random", seeds=[seed])
    (trial,) = trials(config)
    found = split(config, graphs_of([0] * count), trial)
    assert_whole((found.train, found.val, found.test), count)
    for part, share in ((found.train, 0.8), (found.val, 0.1), (found.test, 0.1)):
        assert abs(len(part) - share * count) <= 1


@settings(max_examples=50, deadline=None)
@given(st.data(), st.integers(3, 30), st.sampled_from(["splits", "auto"]))
def test_a_data_sets_own_splits_are_taken_as_they_are(data, count, kind):
    """Graphs that it leaves out of all of them stay out."""
    order = data.draw(st.permutations(range(count)))
    a, b, c = sorted(data.draw(st.lists(st.integers(1, count), min_size=3, max_size=3, unique=True)))
    splits = {"train": order[:a], "val": order[a:b], "test": order[b:c]}
    graphs = replace(graphs_of([0] * count), splits={name: torch.tensor(index) for name, index in splits.items()})
    config = config_of(kind)
    found = split(config, graphs.checked("here"), trials(config)[0])
    assert {name: getattr(found, name).tolist() for name in splits} == splits


@pytest.mark.parametrize(
    ("splits", "message"),
    [
        ({"train": [0, 1, 2], "val": [3], "test": [2]}, "here: graph 2 is in the splits twice, 'train' and 'test'"),
        ({"train": [0, 1, 1], "val": [3], "test": [2]}, "here: graph 1 is in the splits twice, 'train' and 'train'"),
    ],
)
def test_splits_that_share_a_graph_are_refused(splits, message):
    graphs = replace(graphs_of([0] * 4), splits={name: torch.tensor(index) for name, index in splits.items()})
    with pytest.raises(ValueError, match=message):
        graphs.checked("here")
