import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pggnn.groups import Permutation, coverage, cycle, group, order, path_pairs, ring_pairs, sigma, slot

UP_TO_200 = range(201)


def test_sigma_is_the_papers():
    assert repr(sigma(5)) == "(2 4 5 3)"
    assert repr(sigma(7)) == "(2 4 6 7 5 3)"
    assert repr(sigma(8)) == "(1 3 5 7 8 6 4 2)"
    assert [repr(sigma(n)) for n in range(5)] == ["e", "e", "(1 2)", "(2 3)", "(1 3 4 2)"]
    # The two-line notation of Eq. 2: 1 4 2 6 3 … for odd n, 3 1 5 2 … for even n.
    assert [i + 1 for i in sigma(9).images] == [1, 4, 2, 6, 3, 8, 5, 9, 7]
    assert [i + 1 for i in sigma(8).images] == [3, 1, 5, 2, 7, 4, 8, 6]
    # The action on n = 5 that the paper's appendix spells out: σ² u₁ … σ² u₅ = u₁ u₅ u₄ u₃ u₂.
    assert group(5)[2].act("12345") == tuple("15432")


@pytest.mark.parametrize("n", UP_TO_200)
def test_group_has_the_order_and_cycle_of_the_paper(n):
    g = group(n)
    expected = 1 if n < 2 else n - n % 2
    assert g.order == len(list(g)) == order(n) == expected
    rising, falling = (2, 3) if n % 2 else (1, 2)
    written = [*range(rising, n + 1, 2), *reversed(range(falling, n + 1, 2))]
    assert [i + 1 for i in cycle(n)] == written
    assert g.generator**g.order == Permutation.identity(n)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 5, 8, 9, 16, 31, 32])
def test_group_axioms(n):
    elements = list(group(n))
    assert len(set(elements)) == len(elements)
    assert Permutation.identity(n) in elements
    for k, g in enumerate(elements):
        assert ~g in elements
        assert g * ~g == Permutation.identity(n)
        for j, h in enumerate(elements):
            assert g * h == group(n)[j + k]


@pytest.mark.parametrize("n", range(2, 201))
def test_coverage(n):
    arrangements = group(n).arrangements
    half = n // 2
    unordered = {frozenset(pair) for arrangement in arrangements[:half] for pair in ring_pairs(arrangement)}
    assert len(unordered) == n * (n - 1) // 2, "the first ⌊n/2⌋ arrangements miss a pair"
    assert (half - 1) * n < n * (n - 1) // 2, "fewer rings of n pairs each could cover all pairs"
    counts = coverage(arrangements)
    assert len(counts) == n * (n - 1), "the group misses an ordered pair"
    if n % 2:
        assert set(counts.values()) == {1}
    elif n > 2:
        assert sorted(counts.values()) == [1] * (n * (n - 2)) + [2] * n


@pytest.mark.parametrize("n", range(2, 40))
def test_coverage_of_the_merged_form(n):
    counts = coverage(group(n).arrangements, path_pairs)
    assert len({frozenset(pair) for pair in counts}) == n * (n - 1) // 2
    assert set(counts.values()) == {1}
    assert len(counts) == n * (n - 1) - (n - 1) * (n % 2)


def test_slot_equals_repeated_composition():
    for n in (*range(300), *range(300, 1000, 37), 1000):
        step = np.array(sigma(n).images, dtype=np.int32)
        powers = np.empty((order(n), n), dtype=np.int32)
        powers[0] = np.arange(n)
        for k in range(1, order(n)):
            powers[k] = step[powers[k - 1]]
        k, t = np.arange(order(n), dtype=np.int32)[:, None], np.arange(n, dtype=np.int32)[None]
        np.testing.assert_array_equal(slot(k, t, np.int32(n)), powers)


@pytest.mark.parametrize("n", [1, 2, 7, 8, 1000])
def test_slot_takes_integers_arrays_and_tensors(n):
    k, t = order(n) - 1, n - 1
    expected = group(n)[k](t) if n < 1000 else slot(k, t, n)
    assert slot(k, t, n) == expected
    assert slot(np.array([k]), np.array([t]), np.array([n])).tolist() == [expected]
    assert slot(torch.tensor([k]), torch.tensor([t]), torch.tensor([n])).tolist() == [expected]


@given(st.permutations(range(7)), st.permutations(range(7)), st.integers(-20, 20))
def test_permutations_compose(a, b, exponent):
    p, q = Permutation(tuple(a)), Permutation(tuple(b))
    letters = "abcdefg"
    assert (p * q)(3) == p(q(3))
    assert q.act(p.act(letters)) == (p * q).act(letters)
    assert p**exponent * p ** (-exponent) == Permutation.identity(7)
    assert ~(p * q) == ~q * ~p


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="n ≥ 0, got -1"):
        sigma(-1)
    with pytest.raises(ValueError, match="each of 0…2 once"):
        Permutation((0, 0, 1))
    with pytest.raises(ValueError, match="3 and 2 elements"):
        Permutation.identity(3) * Permutation.identity(2)
    with pytest.raises(ValueError, match="expected 3 items, got 2"):
        Permutation.identity(3).act("ab")


def test_a_group_prints_as_it_is_written():
    assert repr(group(6)) == "⟨(1 3 5 6 4 2)⟩ ≅ Z_6 on 6 elements"
    assert sigma(6) in group(6)
    assert Permutation((1, 0, 2, 3, 4, 5)) not in group(6)
