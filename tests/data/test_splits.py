import hashlib

import pytest
import torch

from pggnn.data.splits import random_split, stratified_folds


def test_folds_are_the_same_on_every_machine():
    y = torch.arange(1500) % 3
    text = str([test.tolist() for _, test in stratified_folds(y, 7)])
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "b62818fa58f2d397"
    assert random_split(10, seed=3)[0].tolist() == [5, 4, 1, 2, 9, 6, 7, 0]


def test_small_sets_have_one_set_of_folds():
    y = torch.arange(1000) % 2
    assert all(torch.equal(a[1], b[1]) for a, b in zip(stratified_folds(y, 0), stratified_folds(y, 9), strict=True))
    y = torch.arange(1001) % 2
    assert not torch.equal(stratified_folds(y, 0)[0][1], stratified_folds(y, 9)[0][1])


@pytest.mark.filterwarnings("error")
def test_a_class_smaller_than_the_number_of_folds():
    y = torch.tensor([0, 0, 0, 0, 0, 1])
    folds = stratified_folds(y, folds=3)
    assert sorted(torch.cat([test for _, test in folds]).tolist()) == list(range(6))
    assert sum(int(y[test].sum()) for _, test in folds) == 1


def test_random_splits_are_disjoint_and_of_the_asked_sizes():
    parts = random_split(101, seed=1, fractions=(0.3, 0.2, 0.5))
    assert [len(part) for part in parts] == [30, 20, 51]
    assert sorted(torch.cat(parts).tolist()) == list(range(101))
    assert not torch.equal(parts[0], random_split(101, seed=2, fractions=(0.3, 0.2, 0.5))[0])


def test_what_cannot_be_split_is_refused():
    with pytest.raises(
        ValueError,
        match="7 folds cannot be made: n_splits=7 cannot be greater than the number of members in each class",
    ):
        stratified_folds(torch.arange(10) % 2, folds=7)
    with pytest.raises(ValueError, match=r"one integer class for each graph, got torch.float32 of shape \[3\]"):
        stratified_folds(torch.rand(3))
    with pytest.raises(ValueError, match="sum to 1 at most"):
        random_split(5, fractions=(0.9, 0.9))
