import hashlib

import pytest
import torch

from pggnn.data.sets.tu import TU
from pggnn.data.splits import gin_folds, random_split, stratified_folds


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


def test_published_folds(data_root):
    dataset = TU("MUTAG", data_root)
    folds = dataset.published_folds()
    assert len(folds) == 10
    tested = torch.cat([test for _, test in folds])
    assert len(tested) == len(tested.unique()) == 180, "eight graphs are in no test fold"
    for train, test in folds:
        assert sorted([*train.tolist(), *test.tolist()]) == list(range(188))


def test_damaged_fold_files_are_named(tmp_path):
    folder = tmp_path / "10fold_idx"
    folder.mkdir()
    with pytest.raises(ValueError, match=r"10fold_idx/train_idx-1.txt is missing"):
        gin_folds(tmp_path, 5)
    for k in range(1, 11):
        (folder / f"train_idx-{k}.txt").write_text("0\n1\n2\n")
        (folder / f"test_idx-{k}.txt").write_text("3\n4\n")
    assert gin_folds(tmp_path, 5)[9][1].tolist() == [3, 4]
    for text in ("3\n5\n", "3\n3\n", "-1\n"):
        (folder / "test_idx-4.txt").write_text(text)
        with pytest.raises(ValueError, match=r"test_idx-4.txt must name graphs of 0 to 4, each once"):
            gin_folds(tmp_path, 5)
    for text, wrong in (("three", "not a number"), ("3\n-\n", "not a number"), ("3\n4.5\n", "a whole number, got 4.5")):
        (folder / "test_idx-4.txt").write_text(text)
        with pytest.raises(ValueError, match=rf"test_idx-4.txt, line \d: .*{wrong}"):
            gin_folds(tmp_path, 5)
