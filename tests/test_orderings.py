import pytest
import torch

from pggnn.groups import GROUPS, order
from pggnn.ops.reference import sequences
from pggnn.orderings import Reading, read
from pggnn.testing import READINGS


@pytest.mark.parametrize("reading", READINGS, ids=str)
def test_closed_form_is_the_definition(reading):
    assert Reading.parse(reading.spec) == reading
    for n in {"all": range(6), "threes": range(9)}.get(reading.group, range(14)):
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
    for reading in READINGS:
        lengths = [reading.length(n) for n in range(50) if reading.count(n) > 0]
        assert lengths == sorted(lengths)


@pytest.mark.parametrize("name", [name for name, orders in GROUPS.items() if orders.place is not None])
def test_a_member_is_found_where_it_is_read(name):
    orders = GROUPS[name]
    for n in range(14):
        for k in range(orders.order(n)):
            read = [orders.slot(k, t, n) for t in range(n)]
            assert sorted(read) == list(range(n))
            assert [orders.place(k, member, n) for member in read] == list(range(n))


def test_unknown_groups_and_frames_are_refused():
    for arguments in (("rings",), ("pairs", "round"), ("all", "closed"), ("twos", "open", 3)):
        with pytest.raises(ValueError, match="group"):
            Reading(*arguments)


def test_orderings():
    assert read("group") == Reading()
    assert read("single", frame="closed") == read("random", frame="closed") == Reading(frame="closed", limit=1)
    assert read(4) == Reading(limit=4, rescale=True)
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
    first_neighbors = [Reading(frame="closed", limit=4).slot(i, 0, 16) for i in range(4)]
    whole = [Reading(frame="closed").slot(i, 0, 16) for i in range(16)]
    assert first_neighbors == whole[::4]


@pytest.mark.parametrize("wrong", ["grup", 0, -1, True, 2.0, None, 2**31, 10**24])
def test_unknown_orderings_are_refused(wrong):
    with pytest.raises(ValueError, match="orderings must be"):
        read(wrong)
