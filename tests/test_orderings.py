import pytest
import torch

from pggnn.groups import order
from pggnn.ops.reference import sequences
from pggnn.orderings import FORMS, Reading, read


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("limit", [None, 1, 3, 7])
def test_closed_form_is_the_definition(form, limit):
    reading = Reading(form, limit)
    for n in range(14):
        expected = sequences(reading, n)
        assert reading.count(n) == len(expected)
        assert reading.work(n) == sum(map(len, expected))
        if not expected:
            continue
        assert reading.length(n) == len(expected[0])
        index, step = torch.arange(len(expected))[:, None], torch.arange(len(expected[0]))[None]
        assert reading.slot(index, step, torch.tensor(n)).tolist() == expected
        assert [[reading.slot(i, t, n) for t in range(len(s))] for i, s in enumerate(expected)] == expected


def test_lengths_fall_with_the_degree():
    for form in FORMS:
        lengths = [Reading(form).length(n) for n in range(50) if Reading(form).count(n) > 0]
        assert lengths == sorted(lengths)


def test_orderings():
    assert read("group") == Reading("merged")
    assert read("single", "ring") == read("random", "ring") == Reading("ring", limit=1)
    assert read(4) == Reading("merged", limit=4, rescale=True)
    n = torch.arange(20)
    assert read("single").scale(n).tolist() == [1] * 20
    assert read(4).count(n).tolist() == [min(order(int(i)), 4) for i in n]
    assert (read(4).scale(n) * read(4).count(n)).tolist() == order(n).tolist()
    for orderings in ("group", "single", 4):
        mean = read(orderings, reduce="mean")
        assert (mean.scale(n) * mean.count(n)).tolist() == pytest.approx([1] * 20)
    with pytest.raises(ValueError, match='reduce must be "sum" or "mean"'):
        read("group", reduce="max")


def test_limited_elements_are_spread_over_the_group():
    first_neighbors = [Reading("ring", 4).slot(i, 0, 16) for i in range(4)]
    whole = [Reading("ring").slot(i, 0, 16) for i in range(16)]
    assert first_neighbors == whole[::4]


@pytest.mark.parametrize("wrong", ["grup", 0, -1, True, 2.0, None, 2**31, 10**24])
def test_unknown_orderings_are_refused(wrong):
    with pytest.raises(ValueError, match="orderings must be"):
        read(wrong)
