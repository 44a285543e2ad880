"""The moving picture of the pairs."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from pggnn.cli import main
from pggnn.groups import group
from pggnn.report.animation import LEAST, MOST, draw_pairs

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("n", range(LEAST, MOST + 1))
def test_each_pair_appears_once_as_a_line_and_as_a_cell(n):
    drawn = ElementTree.fromstring(draw_pairs(n))
    name = "{http://www.w3.org/2000/svg}"
    cells = [cell.find(f"{name}title").text for cell in drawn.iter(f"{name}rect") if len(cell)]
    pairs = [tuple(int(number) for number in cell.split(" and ")) for cell in cells]
    assert sorted(pairs) == [(i, j) for i in range(1, n + 1) for j in range(i + 1, n + 1)]
    ends = [{(line.get("x1"), line.get("y1")), (line.get("x2"), line.get("y2"))} for line in drawn.iter(f"{name}line")]
    assert len({frozenset(end) for end in ends}) == len(pairs)
    read = [int(text.text) for text in drawn.iter(f"{name}text") if text.get("class", "").startswith("k")]
    length = n + n % 2
    expected = [[i + 1 for i in row] for row in group(n).arrangements[: n // 2]]
    assert [read[k * length : k * length + n] for k in range(n // 2)] == expected


def test_pairs_appear_in_turn_and_only_where_motion_is_wanted():
    still, moving = draw_pairs(7).split("@media (prefers-reduced-motion:no-preference)")
    assert "animation" not in still and "opacity:.08" not in still
    begins = [float(begin) for begin in re.findall(r"@keyframes k\d+\{0%,([\d.]+)%", moving)]
    assert len(begins) == 21 and begins == sorted(begins) and begins[-1] < 97


def test_the_command_draws_the_picture_of_the_first_page(tmp_path, capsys):
    assert main(["groups", "7", "--animation", str(tmp_path / "pairs.svg")]) == 0
    assert (tmp_path / "pairs.svg").read_text() == (DOCS / "pairs.svg").read_text()
    assert main(["groups", "13", "--animation", str(tmp_path / "more.svg")]) == 2
    assert main(["groups", "7", "--animation", str(tmp_path / "pairs.png")]) == 2
    assert "must end in .svg" in capsys.readouterr().err and len([*tmp_path.iterdir()]) == 1
