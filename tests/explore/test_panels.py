"""The explorer as one uses it, in a real browser."""

import json
import re

import pytest
import torch

from pggnn.explore.answers import collect
from pggnn.explore.page import as_script, bundle, write
from pggnn.groups import coverage, group, path_pairs
from pggnn.search import find_rings

RACE = "The group needs {} arrangements until all {} pairs have met"


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    out = tmp_path_factory.mktemp("explore") / "explore.html"
    write(out)
    return out


@pytest.fixture(scope="module")
def with_run(run_folder, tmp_path_factory):
    out = tmp_path_factory.mktemp("explore") / "mine.html"
    write(out, collect(run_folder))
    return out


def test_the_file_loads_nothing_else(file, with_run):
    for path in (file, with_run):
        text = path.read_text()
        outside = re.sub(r'(?s)<script type="application/json".*?</script>', "", text)
        assert not re.search(r"https?:|url\(|@import|<img|<iframe|import\(|\bfetch\(|XMLHttp|WebSocket|\ssrc=", outside)
        assert re.findall(r"<link[^>]*>", outside) == ['<link rel="icon" href="data:,">']
        assert {*re.findall(r'href="([^"]*)"', outside)} == {
            "data:,", "#main", "#arrangements", "#linear", "#graphs", "#run",
        }  # fmt: skip
        assert text.count("<script") == 2 and "default-src 'none'" in text


def test_modules_are_joined_by_name_alone(wild):
    script = bundle()
    assert not re.search(r"^(import|export) ", script, re.MULTILINE)
    assert json.loads(as_script({"a": wild + "\u2028&"})) == {"a": wild + "\u2028&"}
    assert not {"<", ">", "&", "\u2028"} & {*as_script([wild, "\u2028&"])}


def test_arrangements_step_by_step(visit, file):
    page = visit(file)
    page.fill("#n", "8")
    page.keyboard.press("Tab")
    page.check("input[value=merged]")
    said = page.locator("#arrangement-said")
    assert said.text_content().startswith("Arrangement 1 of 8 reads v 1 2 3 4 5 6 7 8 v. 7 pairs meet for the first")
    for k in range(1, 8):
        page.get_by_role("button", name="Next").click()
        read = group(8).arrangements[: k + 1]
        shown = " ".join(str(i + 1) for i in read[-1])
        assert f"Arrangement {k + 1} of 8 reads v {shown} v." in said.text_content()
        assert page.locator("#matrix .once, #matrix .twice").count() == len(coverage(read, path_pairs))
    assert "28 of 28 pairs have met" in said.text_content()
    assert "each of the 56 ordered pairs exactly once" in page.locator("#remark").text_content()
    assert RACE.format(4, 28) in page.locator("#race-said").text_content()
    page.get_by_role("button", name="Back").click()
    page.locator("#k-slider").focus()
    page.keyboard.press("ArrowLeft")
    assert "Arrangement 6 of 8" in said.text_content()
    before = page.locator("#race-said").text_content()
    page.get_by_role("button", name="Draw others").click()
    assert page.locator("#race-said").text_content() != before
    for typed, kept in (("99", "40"), ("-3", "2"), ("", "2"), ("3", "3")):
        page.fill("#n", typed)
        page.locator("#n").blur()
        assert page.input_value("#n") == page.input_value("#n-slider") == kept
    assert "2 of the 6 ordered pairs are missing" in page.locator("#remark").text_content()


def test_play_and_pause(visit, file):
    page = visit(file)
    page.clock.install()
    page.get_by_role("button", name="Play").click()
    assert page.locator("#arrangement-said").get_attribute("aria-live") == "off"
    page.clock.run_for(2000)
    assert "Arrangement 3 of 6" in page.locator("#arrangement-said").text_content()
    page.get_by_role("button", name="Pause").click()
    page.clock.run_for(5000)
    assert "Arrangement 3 of 6" in page.locator("#arrangement-said").text_content()
    page.get_by_role("button", name="Play").click()
    page.clock.run_for(20_000)
    assert "Arrangement 6 of 6" in page.locator("#arrangement-said").text_content(), "it ends with the last"
    assert page.locator("#play").text_content() == "Play"
    assert page.locator("#arrangement-said").get_attribute("aria-live") == "polite"


def test_arcs_and_both_sums(visit, file):
    page = visit(file)
    for n in (2, 3, 7, 40):
        page.fill("#arc-n", str(n))
        page.locator("#arc-n").blur()
        cells = page.locator("#sums td").all_text_contents()
        length = n - n % 2
        assert [cells[0], cells[2]] == [str(length * (n + 2)), str(2 * length)] and cells[1] == cells[3]
        assert page.locator("#sums-said").text_content().startswith("Both sums agree")
        assert page.locator("#terms tr").count() == n + 1
        for t in (0, 1, n):
            page.fill("#arc-t", str(t))
            page.locator("#arc-t").blur()
            assert page.locator("#ring .arc.read").count() == max(0, t - n % 2)
            assert page.locator("#ring .arc").count() == length
    assert "Nothing is to come" in page.locator("#arc-said").text_content()
    before = page.locator("#sums td").nth(1).text_content()
    page.get_by_role("button", name="Other gates").click()
    assert page.locator("#sums td").nth(1).text_content() != before


def test_a_node_and_what_it_reads(visit, file):
    page = visit(file)
    page.select_option("#graph", "prism")
    page.locator("#picture [data-node='6']").click()
    assert "Chosen: node 7" in page.locator("#graph-said").text_content()
    assert page.locator("#star button").all_text_contents() == ["7 2 6 8 7", "7 2 8 6 7"]
    graph = page.evaluate("pggnn.bundled.graphs.prism")
    index, size = find_rings(torch.tensor(graph["edges"]).t(), 10, 8)
    through = [ring for ring in index.split(size.tolist()) if 6 in ring]
    assert page.locator("#rings button").count() == 2 * len(through)
    ring = page.locator("#rings button").first
    ring.click()
    assert page.locator("#picture .route").count() == len(ring.text_content().split()) - 1
    assert page.locator("#picture .route.apart").count() == 0, "a ring follows edges"
    assert ring.get_attribute("aria-pressed") == "true"
    page.locator("#star button").first.click()
    assert page.locator("#picture .route.apart").count() == 2, "2, 6 and 8 are not joined"
    page.select_option("#graph", "caffeine")
    assert page.locator("#rings-said").text_content().endswith("Node 1 lies on none.")
    page.select_option("#graph", "prism")
    page.locator("#picture [data-node='6']").focus()
    page.keyboard.press("ArrowRight")
    assert "Chosen: node 8" in page.locator("#graph-said").text_content()
    assert page.evaluate("document.activeElement.dataset.node") == "7"


def test_a_graph_of_ones_own(visit, file):
    page = visit(file, has_touch=True)
    page.get_by_role("button", name="Begin an empty graph").click()
    picture = page.locator("#picture")
    picture.scroll_into_view_if_needed()
    for x, y in ((60, 60), (200, 90), (100, 250)):
        picture.tap(position={"x": x, "y": y})
    for one, other in ((0, 1), (1, 2), (2, 0), (0, 3), (0, 3)):
        for node in (one, other):
            page.locator(f"#picture [data-node='{node}']").tap()
        page.keyboard.press("Escape")
    assert page.input_value("#edges") == "1-2 1-3 2-3"
    assert "4 nodes, 3 edges" in page.locator("#graph-said").text_content()
    page.fill("#edges", "1-2 2-3 3-4 4-1")
    page.locator("#edges").blur()
    assert page.locator("#rings button").all_text_contents() == ["4 1 2 3 4", "4 3 2 1 4"]
    page.fill("#edges", "1-1")
    page.locator("#edges").blur()
    assert "An edge joins two different nodes" in page.locator("#edit-said").text_content()
    assert page.locator("#verdicts").is_hidden()


def test_what_tells_two_graphs_apart(visit, file):
    page = visit(file)
    pairs = page.evaluate("pggnn.bundled.pairs")
    for names, found in pairs.items():
        one, other = names.split()
        page.select_option("#graph", one)
        page.select_option("#other", other)
        rows = page.locator("#verdicts tbody tr:has(td) td:nth-child(2)").all_text_contents()
        assert rows == ["no" if parted is None else "yes" for parted in found["parted"]]
    page.select_option("#graph", "petersen")
    assert page.input_value("#other") == "prism", "what most tests take for it is compared first"
    page.select_option("#other", "rook")
    assert "10 and 16 nodes: every test tells them apart" in page.locator("#verdict-said").text_content()


def test_answers_of_a_run(visit, with_run, wild):
    page = visit(with_run)
    rows = page.evaluate("pggnn.run.rows")
    errors = page.locator("#answer-rows td:nth-child(4)").all_text_contents()
    assert [float(error) for error in errors] == pytest.approx([row["error"] for row in rows], abs=1e-4)
    page.get_by_role("button", name=re.compile("^error")).click()
    assert page.locator("#answer-rows td:nth-child(4)").all_text_contents() == errors[::-1]
    assert page.locator("#answer-head th[aria-sort=ascending]").text_content() == "error ↑"
    page.get_by_role("button", name="graph", exact=True).click()
    names = page.locator("#answer-rows th button").all_text_contents()
    assert names == sorted(names, key=lambda name: int(name.split()[-1])) and names[0].startswith(wild)
    for name in names:
        page.get_by_role("button", name=name, exact=True).click()
        assert page.locator("#row-said").text_content().startswith(name)
        assert page.locator("#row-picture [data-node]").count() == 6
        assert page.locator("#strip .dot").count() == 9
    assert wild[:3] in page.locator("#row-picture text").all_text_contents()


def test_names_from_a_run_are_never_markup(visit, with_run, wild):
    """A dialog, or a request for the picture, would fail this test; so would a page that ended early."""
    page = visit(with_run)
    assert page.locator("img, b, footer + img").count() == 0
    assert page.locator("footer").is_visible() and page.locator("#run").is_visible()
    assert wild in page.locator("#answer-rows").text_content()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_and_can_be_read(visit, with_run, scheme):
    page = visit(with_run, scheme=scheme)
    for field in ("#n", "#arc-n"):
        page.fill(field, "40")
        page.locator(field).blur()
    page.check("input[value=merged]")
    for check in ("broken", "faint", "unnamed"):
        assert page.evaluate(f"checks.{check}()") == [], check
    for width in (1280, 390, 320):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        for check in ("outside", "cut"):
            assert page.evaluate(f"checks.{check}()") == [], (check, width)


def test_keyboard_and_motion(visit, with_run):
    page = visit(with_run, reduced_motion="reduce")
    reached = []
    while len(reached) < 300:
        page.keyboard.press("Tab")
        at = page.evaluate("checks.focused()")
        if at["tag"] == "BODY":
            break
        assert at["line"] >= 2, f"{at['name']} does not show that it has the focus"
        reached.append(at["name"])
    order = [
        "#n",
        "#k",
        "#play",
        "#redraw",
        "#arc-n",
        "#arc-k",
        "#arc-t",
        "#gates",
        "#graph",
        "#edit",
        "#edges",
        "#other",
    ]
    assert [name for name in reached if name in order] == order
    assert sum(name.startswith("Node ") for name in reached) == 2, "a graph is one stop: arrows go on from there"
    assert page.evaluate("getComputedStyle(document.querySelector('.cell')).transitionDuration") == "0s"
