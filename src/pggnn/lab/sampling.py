"""How many random orders it takes until every pair of n neighbours has stood side by side (Appendix, Figure 9).

π-SGD draws a random permutation at each step. The paper approximates its covering time with the k-coupon collector's
problem and gives its closed form. The permutation group needs ⌊n/2⌋ arrangements, or |𝔊| for ordered pairs.
"""

from dataclasses import dataclass
from decimal import Decimal, localcontext
from math import ceil, log

import numpy as np

from pggnn.groups import order

CERTAIN = 60
"""While at least 60 coupons are missing on average, the probability that none is missing is below e⁻⁶⁰."""


@dataclass(frozen=True)
class Covering:
    """Covering times for n neighbours, of unordered or of ordered pairs."""

    neighbours: int
    pairs: int
    closed_form: float
    simulated: float
    deviation: float
    """Standard error of the simulated mean."""
    ours: int


def coupon_collector(coupons: int, k: int) -> float:
    """The mean number of draws, of k different coupons each, until all coupons were drawn: exact to double precision.

    The paper's Σᵢ (−1)ⁱ⁺¹ C(m, i) / (1 − qᵢ) with qᵢ = C(m − i, k) / C(m, k) cannot be added up as it stands: its terms
    reach 2ᵐ. It is Σₛ Pr(X > s), where Pr(X > s) = 1 − ε for every s below some s₀ and the rest is a geometric series:

        E[X] = s₀ + Σᵢ (−1)ⁱ⁺¹ C(m, i) qᵢ^s₀ / (1 − qᵢ)

    s₀ is taken so that λ = m q₁^s₀ ≥ 60 coupons are missing on average, or that s₀ draws hold no more than m coupons.
    As whether coupons are missing is negatively associated, ε ≤ (1 − q₁^s)^m ≤ e^−λ. The terms are about λⁱ / i!, so
    some 300 of them, in decimals long enough for e^λ, leave an error below the first one left out.
    """
    if not 1 <= k <= coupons:
        if coupons == 0:
            return 0.0
        raise ValueError(f"expected 1 to {coupons} coupons to be drawn at a time, got {k}")
    start = ceil(coupons / k)
    if k < coupons and coupons > CERTAIN:
        start = max(start, int(log(coupons / CERTAIN) / -log(1 - k / coupons)))
    missing = coupons * (1 - k / coupons) ** start
    with localcontext() as context:
        context.prec = 60 + ceil(missing / log(10))
        total, choices, absent = Decimal(start), Decimal(1), Decimal(1)
        for i in range(1, coupons + 1):
            choices = choices * (coupons - i + 1) / i
            absent = absent * (coupons - k - i + 1) / (coupons - i + 1)
            if absent <= 0:
                break
            term = choices * absent**start / (1 - absent)
            total += term if i % 2 else -term
            if i > missing and term < Decimal(10) ** -30:
                break
        return float(total)


def covering_times(neighbours: int, runs: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Draws of a random permutation until each unordered and each ordered pair has stood side by side, run by run."""
    n = neighbours
    if n < 1 or runs < 1:
        raise ValueError(f"expected n ≥ 1 neighbours and at least 1 run, got {n} and {runs}")
    random = np.random.default_rng(seed)
    times = np.array([_cover(n, random) for _ in range(runs)])
    return times[:, 0], times[:, 1]


def compare(neighbours: int, runs: int = 100, seed: int = 0) -> tuple[Covering, Covering]:
    """Covering of unordered and of ordered pairs: simulated, in closed form, and by the group."""
    n = neighbours
    cases = zip((n * (n - 1) // 2, n * (n - 1)), covering_times(n, runs, seed), (n // 2, order(n)), strict=True)
    undirected, directed = (
        Covering(
            n, pairs, coupon_collector(pairs, n - 1), times.mean(), times.std(ddof=runs > 1) / runs**0.5, ours * (n > 1)
        )
        for pairs, times, ours in cases
    )
    return undirected, directed


def _cover(n: int, random: np.random.Generator) -> tuple[int, int]:
    """Draws until all unordered, and until all ordered pairs have met, from the first meeting of each ordered one."""
    first = np.zeros(n * n, np.int32)
    first[:: n + 1] = -1  # none meets itself
    block = np.tile(np.arange(n), (n // 2 + 8, 1))
    missing, drawn = n * (n - 1), 0
    while missing:
        orders = random.permuted(block, axis=1)
        pairs = orders[:, :-1] * n + orders[:, 1:]
        draw, place = (first[pairs] == 0).nonzero()
        met = pairs[draw, place]
        first[met[::-1]] = drawn + 1 + draw[::-1]  # of several meetings the earliest is written last
        missing -= len(np.unique(met))
        drawn += len(block)
    table = first.reshape(n, n)
    return max(int(np.minimum(table, table.T).max()), 0), max(int(table.max()), 0)
