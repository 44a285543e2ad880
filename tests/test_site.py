"""The check of the documentation's links, which ``make docs`` runs on the whole site, and its pictures."""

import re
import runpy
import sys
from pathlib import Path

import pytest

SITE = Path(__file__).parents[1] / "docs/site"


@pytest.fixture
def check(monkeypatch, capsys):
    def check(folder):
        monkeypatch.setattr(sys, "argv", ["check_links.py", str(folder)])
        code = runpy.run_path(str(SITE / "check_links.py"))["main"]()
        said = capsys.readouterr()
        return int(code), (said.out + said.err).splitlines()

    return check


def write(folder, body):
    (folder / "other.html").write_text('<h1 id="here">Other</h1>')
    (folder / "page.html").write_text(f"<h1>Page</h1>{body}")


def test_links_that_lead_somewhere(tmp_path, check):
    write(tmp_path, '<a href="other.html#here">1</a><a href="#top">2</a><a href="https://pytorch.org/x#y">3</a>')
    assert check(tmp_path) == (0, ["2 pages, 0 broken links"])


@pytest.mark.parametrize(
    ("link", "problem"),
    [
        ('<a href="none.html">', "leads to no file"),
        ('<a href="other.html#there">', "leads to no place on its page"),
        ('<a href="#there">', "leads to no place on its page"),
        ('<img src="none.png">', "leads to no file"),
        ('<link rel="stylesheet" href="none.css">', "leads to no file"),
        ('<script src="/root.js"></script>', "is not within the site"),
    ],
)
def test_links_that_do_not(tmp_path, check, link, problem):
    write(tmp_path, link)
    code, said = check(tmp_path)
    assert code == 1 and said[-1] == "2 pages, 1 broken links"
    assert said[0].startswith("page.html: ") and said[0].endswith(problem)


def test_a_folder_without_pages(tmp_path, check):
    assert check(tmp_path) == (2, [f"there are no pages in {tmp_path.resolve()}: run make docs"])


def test_lists_of_other_sites_have_a_page_for_each_name():
    for path in (SITE / "inventories").glob("*.txt"):
        lines = [line.split() for line in path.read_text().splitlines() if not line.startswith("#")]
        assert lines and all(len(line) == 3 and line[2].endswith(".html") for line in lines), path


@pytest.mark.parametrize(("name", "draw"), [("arcs", "draw_arcs"), ("beyond", "draw_lists")])
def test_pictures_are_what_the_code_draws(tmp_path, name, draw):
    runpy.run_path(str(SITE / "pictures.py"))[draw](tmp_path / f"{name}.svg")
    kept, drawn = (
        [text.strip() for text in re.findall(r">([^<>]+)</(?:text|tspan)>", (folder / f"{name}.svg").read_text())]
        for folder in (SITE.parent, tmp_path)
    )
    assert drawn == kept and len(kept) > 20
