from fractions import Fraction
from itertools import combinations, pairwise, permutations
from math import comb

import numpy as np
import pytest

from pggnn.cli import main
from pggnn.lab import sampling
from pggnn.lab.sampling import compare, coupon_collector, covering_times


def as_the_paper_writes_it(m, k):
    return sum((-1) ** (i + 1) * comb(m, i) / (1 - Fraction(comb(m - i, k), comb(m, k))) for i in range(1, m + 1))


def by_brute_force(draws, everything):
    """The mean time until equally likely sets have covered everything, from all the sets that may be covered."""
    waits = {everything: Fraction(0)}

    def wait(covered):
        if covered not in waits:
            further = [draw | covered for draw in draws]
            stay = sum(other == covered for other in further)
            waits[covered] = (len(draws) + sum(wait(o) for o in further if o != covered)) / Fraction(len(draws) - stay)
        return waits[covered]

    return wait(frozenset())


@pytest.mark.parametrize("m", range(1, 9))
def test_the_closed_form_against_brute_force(m):
    for k in range(1, m + 1):
        expected = by_brute_force([frozenset(c) for c in combinations(range(m), k)], frozenset(range(m)))
        assert as_the_paper_writes_it(m, k) == expected
        assert coupon_collector(m, k) == pytest.approx(float(expected), rel=1e-15)


@pytest.mark.parametrize("m", [60, 61, 100, 190, 400])
def test_larger_ones_against_exact_fractions(m):
    for k in (1, 2, 19, m // 2, m - 1, m):
        assert coupon_collector(m, k) == pytest.approx(float(as_the_paper_writes_it(m, k)), rel=1e-15)


@pytest.mark.parametrize(("m", "k"), [(4950, 99), (499_500, 999), (999_000, 999)])
def test_the_largest_do_not_depend_on_where_the_series_begins(m, k, monkeypatch):
    expected = coupon_collector(m, k)
    monkeypatch.setattr(sampling, "CERTAIN", 100)
    assert coupon_collector(m, k) == pytest.approx(expected, rel=1e-14)
    asymptotic = (np.log(m) + np.euler_gamma) / -np.log1p(-k / m)
    assert coupon_collector(m, k) == pytest.approx(asymptotic + 0.5, abs=0.1)


def test_one_coupon_at_a_time_is_the_harmonic_number():
    assert coupon_collector(1000, 1) == pytest.approx(1000 * sum(1 / i for i in range(1, 1001)), rel=1e-14)


def test_the_simulation_against_brute_force():
    for n in (2, 3, 4):
        orders = [*permutations(range(n))]
        directed = [frozenset(pairwise(o)) for o in orders]
        undirected = [frozenset(frozenset(pair) for pair in draw) for draw in directed]
        for times, draws in zip(covering_times(n, 4000), (undirected, directed), strict=True):
            expected = float(by_brute_force(draws, frozenset.union(*draws)))
            assert abs(times.mean() - expected) <= 4 * times.std() / 4000**0.5
    assert all(times.tolist() == [0, 0] for times in covering_times(1, 2))


def test_pi_sgd_takes_about_what_the_closed_form_says():
    for case in compare(30, runs=400):
        assert abs(case.simulated - case.closed_form) < 4 * case.deviation + 0.02 * case.closed_form
    undirected, directed = compare(9, runs=2)
    assert (undirected.pairs, undirected.ours, directed.pairs, directed.ours) == (36, 4, 72, 8)


def test_runs_are_repeatable_and_ordered_pairs_take_longer():
    undirected, directed = covering_times(10, 200, seed=1)
    assert (undirected <= directed).all() and (undirected >= 5).all()
    assert (covering_times(10, 200, seed=1)[0] == undirected).all()
    assert (covering_times(10, 200, seed=2)[0] != undirected).any()


def test_bad_input_and_the_command(capsys):
    with pytest.raises(ValueError, match="expected 1 to 5 coupons to be drawn at a time, got 6"):
        coupon_collector(5, 6)
    assert main(["lab", "sampling", "0"]) == 2
    assert "n ≥ 1" in capsys.readouterr().err
    assert main(["lab", "sampling", "100", "--runs", "2"]) == 0
    out = capsys.readouterr().out
    assert "450.21" in out and "9.0 ×" in out
