"""What the page computes, in a real browser, against what the library computes."""

import math
from collections import Counter
from itertools import pairwise

import pytest
import torch

from pggnn.explore.page import write
from pggnn.groups import coverage, cycle, group, order, path_pairs, ring_pairs
from pggnn.ops import group_recurrence
from pggnn.orderings import Reading
from pggnn.plan import Plan
from pggnn.search import find_rings

SIZES = range(41)
PAIRS = {"ring": ring_pairs, "merged": path_pairs}


@pytest.fixture(scope="module")
def page(browser, tmp_path_factory):
    out = tmp_path_factory.mktemp("explore") / "explore.html"
    write(out)
    opened = browser.new_page()
    opened.goto(out.as_uri())
    yield opened
    opened.close()


def test_every_arrangement(page):
    found = page.evaluate("[...Array(41).keys()].map(n => [pggnn.order(n), pggnn.cycle(n), pggnn.arrangements(n)])")
    assert len(found) == len(SIZES)
    for n, (number, ring, arrangements) in zip(SIZES, found, strict=True):
        assert number == order(n) and ring == [*cycle(n)]
        assert arrangements == [[*one] for one in group(n).arrangements], n


@pytest.mark.parametrize("form", PAIRS)
def test_coverage(page, form):
    found = page.evaluate(
        "form => [...Array(41).keys()].map(n => pggnn.coverage(pggnn.arrangements(n), n, form))", form
    )
    for n, counts in zip(SIZES, found, strict=True):
        expected = coverage(group(n).arrangements, PAIRS[form])
        assert {divmod(at, n): often for at, often in enumerate(counts) if often} == expected, n


@pytest.mark.parametrize("form", PAIRS)
def test_pairs_that_have_met(page, form):
    for n, race in enumerate(page.evaluate(f"[...Array(41).keys()].map(n => pggnn.groupRace(n, '{form}'))")):
        met, expected = set(), []
        for arrangement in group(n).arrangements:
            met |= {frozenset(pair) for pair in PAIRS[form](arrangement)}
            expected.append(len(met))
        assert race == expected, n


@pytest.mark.parametrize("form", PAIRS)
def test_random_orders(page, form):
    for n in (2, 3, 8, 21, 40):
        draw = f"pggnn.randomOrders({n}, '{form}', pggnn.generator(%d))"
        orders = page.evaluate(draw % 5)
        assert all(sorted(one) == [*range(n)] for one in orders)
        every = n * (n - 1) // 2
        met = [{frozenset(pair) for one in orders[:stop] for pair in PAIRS[form](one)} for stop in (-1, None)]
        assert len(met[0]) < every == len(met[1]), "the last of them was needed"
        assert page.evaluate(draw % 5) == orders
        assert n < 8 or page.evaluate(draw % 6) != orders
    races = page.evaluate(f"pggnn.randomRaces(6, '{form}', 0, 300)")
    firsts = [race[0] for race in races]
    assert set(firsts) == {6 if form == "ring" else 5}, "an order of six joins as many pairs"


def test_random_orders_are_all_as_likely(page):
    draw = "(random => Array.from({ length: 24000 }, () => pggnn.shuffled(4, random).join('')))(pggnn.generator(1))"
    orders = Counter(page.evaluate(draw))
    assert len(orders) == 24
    assert all(abs(often - 1000) < 5 * math.sqrt(1000) for often in orders.values()), "all are as likely"


def test_the_linear_sum(page):
    """Both ways of the page, against the library's linear cell and against a loop over the group's arrangements."""
    found = page.evaluate("""[...Array(41).keys()].flatMap(n => [0, 7].map(seed => {
        const gates = pggnn.drawGates(n, seed);
        return [n, gates, pggnn.sumByArrangements(gates, n), pggnn.sumByScans(gates, n)];
    }))""")
    assert len(found) == 2 * len(SIZES)
    for n, gates, all_arrangements, scans in found:
        a, b = gates["a"], gates["b"]
        defined = 0.0
        for arrangement in group(n).arrangements:
            h = 0.0
            for i in (n, *arrangement, n):
                h = a[i] * h + b[i]
            defined += h
        table = torch.tensor([a, b], dtype=torch.double).t()
        table[:, 0].logit_()  # the cell's gate is a sigmoid, its input a ReLU
        plan = Plan.build(torch.stack([torch.arange(n), torch.full((n,), n)]), n + 1)
        weights = [table.new_empty(0, 1), table.new_empty(0)]
        library = float(group_recurrence(table, weights, plan, reading=Reading(), cell="linear")[n])
        assert [all_arrangements, scans, library] == pytest.approx([defined] * 3, rel=1e-12), n


def test_terms_are_sums_over_arcs(page):
    for n in (2, 3, 4, 9, 16, 40):
        gates, found = page.evaluate(
            f"(() => {{ const g = pggnn.drawGates({n}, 3); return [g, pggnn.terms(g, {n})]; }})()"
        )
        ring, length = cycle(n), n - n % 2
        a = [gates["a"][i] for i in ring]
        for j in range(length):
            after = [[(j + s) % length for s in range(1, size + 1)] for size in range(1, length, 2)]
            before = [[(j - s) % length for s in range(1, size + 1)] for size in range(0, length, 2)]
            for name, arcs in (("after", after), ("before", before)):
                expected = sum(math.prod(a[place] for place in arc) for arc in arcs)
                assert found[name][j] == pytest.approx(expected, rel=1e-12), (n, j, name)


def test_what_is_read_is_an_arc_and_so_is_what_is_to_come(page):
    found = page.evaluate("""[2, 3, 6, 7, 12, 19].flatMap(n => [...Array(pggnn.order(n)).keys()].map(k =>
        [n, k, [...Array(n + 1 - n % 2).keys()].map(t => pggnn.arcs(k, t, n))]))""")
    for n, k, steps in found:
        ring, length = cycle(n), n - n % 2
        places = [ring.index(i) for i in group(n).arrangements[k][n % 2 :]]
        for t, arcs in enumerate(steps):
            assert arcs["read"] == places[:t] and sorted(arcs["come"]) == sorted(places[t:])
            come = arcs["come"]
            assert all((one + 1) % length == other for one, other in pairwise(come)), "an arc"
            if 0 < t < length:
                last = places[t - 1]
                assert (last + 1) % length == come[0] if len(come) % 2 else (last - 1) % length == come[-1]


def test_rings_of_all_graphs(page):
    found = page.evaluate("""Object.fromEntries(Object.entries(pggnn.bundled.graphs).map(([key, one]) =>
        [key, pggnn.findRings(pggnn.adjacency(one.n, one.edges), pggnn.MOST_RING)]))""")
    graphs = page.evaluate("pggnn.bundled.graphs")
    assert len(found) == len(graphs) >= 12
    for key, one in graphs.items():
        edges = torch.tensor(one["edges"]).t()
        index, size = find_rings(edges, one["n"], 8)
        assert found[key] == [ring.tolist() for ring in index.split(size.tolist())], key
    assert len(found["petersen"]) == 12 + 10, "pentagons and hexagons without chords"


def test_rings_of_random_graphs(page):
    torch.manual_seed(0)
    graphs = []
    for n, p in ((0, 0.5), (1, 0.5), (5, 1.0), (9, 0.5), (12, 0.3), (20, 0.15)):
        edges = (torch.rand(n, n).triu(1) > 1 - p).nonzero()
        graphs.append((n, edges.tolist()))
    for most in (3, 5, 8):
        found = page.evaluate(
            "([gs, most]) => gs.map(([n, e]) => pggnn.findRings(pggnn.adjacency(n, e), most))", [graphs, most]
        )
        for (n, edges), rings in zip(graphs, found, strict=True):
            index, size = find_rings(torch.tensor(edges, dtype=torch.long).view(-1, 2).t(), n, most)
            assert rings == [ring.tolist() for ring in index.split(size.tolist())], (n, most)


def test_a_node_reads_its_rings_in_both_directions(page):
    assert page.evaluate("pggnn.ringsOf([[0, 1, 4, 3], [1, 2, 4]], 4)") == [
        {"there": [4, 3, 0, 1, 4], "back": [4, 1, 0, 3, 4]}, {"there": [4, 1, 2, 4], "back": [4, 2, 1, 4]},
    ]  # fmt: skip


def test_a_dense_graph_does_not_hold_the_page_up(page):
    edges = [[i, j] for j in range(40) for i in range(j) if (i * j + j) % 3]
    dense = f"pggnn.adjacency(40, {edges})"
    found = page.evaluate(f"pggnn.findRings({dense}, 8)")
    assert found is None or len(found) > 0
    places = page.evaluate(f"pggnn.layOut(40, {dense})")
    assert all(math.isfinite(x) for place in places for x in place)


def test_edges_are_read_from_text(page):
    assert page.evaluate("pggnn.parseEdges('2-1, 1 - 2 3–1')") == [[0, 1], [0, 2]]
    for wrong in ("1-1", "0-1", "1-41"):
        with pytest.raises(Exception, match="An edge joins two different nodes from 1 to 40"):
            page.evaluate("text => pggnn.parseEdges(text)", wrong)
