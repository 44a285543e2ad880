"""Report pages in a real browser: nothing is cut off, nothing is missing, and the console is silent."""

import pytest

from pggnn.report.page import write
from pggnn.report.table import write_table

WIDTHS = (1280, 390)


@pytest.fixture(scope="module")
def pages(trained, tmp_path_factory):
    """A page of two runs, and the same runs as one table."""
    folder = tmp_path_factory.mktemp("pages")
    for name, make in (("page", write), ("table", write_table)):
        make([trained["er"], trained["folds"]], folder / f"{name}.html")
    return folder


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["page", "table"])
def test_a_page(visit, pages, name, scheme):
    page = visit(pages / f"{name}.html", scheme=scheme)
    page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    assert page.locator("table").count() >= 1 and page.locator("svg").count() >= 1
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        for check in ("outside", "cut"):
            assert page.evaluate(f"checks.{check}()") == [], (check, width)
    for check in ("broken", "faint"):
        assert page.evaluate(f"checks.{check}()") == [], check


@pytest.mark.parametrize("width", WIDTHS)
def test_every_cell_of_a_wide_table_can_be_reached(visit, pages, width):
    """Wide tables scroll in themselves: the last cell of each row comes into view."""
    page = visit(pages / "page.html", width)
    wide = page.evaluate("""[...document.querySelectorAll('.wide')].filter((e) => e.checkVisibility()).map((e) => {
        e.scrollLeft = 1e6;
        const cells = [...e.querySelectorAll('tr')].map((row) => row.lastElementChild.getBoundingClientRect().right);
        return [e.scrollWidth > e.clientWidth, Math.max(...cells), innerWidth];
    })""")
    assert all(right <= window + 1 for _, right, window in wide)
    assert width > 390 or any(scrolls for scrolls, _, _ in wide)
