"""The graphs that come with the explorer are those that the code makes, and so is what tests tell of them."""

import json

import pytest

from pggnn.explore import bundled

KEPT = json.loads(bundled.FILE.read_text())


def test_the_file_is_what_the_code_makes():
    made = json.loads(json.dumps(bundled.describe()))
    assert made["pairs"] == KEPT["pairs"]
    assert (made["tests"], made["rungs"]) == (KEPT["tests"], KEPT["rungs"])
    assert made["graphs"].keys() == KEPT["graphs"].keys()
    for key, graph in KEPT["graphs"].items():
        assert {**made["graphs"][key], "places": None} == {**graph, "places": None}, key
        assert len(graph["places"]) == graph["n"], key


@pytest.mark.parametrize("key", KEPT["graphs"])
def test_no_two_nodes_lie_on_one_another(key):
    places = KEPT["graphs"][key]["places"]
    apart = [abs(a - c) + abs(b - d) for i, (a, b) in enumerate(places) for c, d in places[:i]]
    largest = max(abs(value) for place in places for value in place)
    assert min(apart) > 0.1 * largest


def test_what_is_known_of_them():
    names = [*KEPT["tests"], *KEPT["rungs"]]
    blind = {
        pair: {name for name, parted in zip(names, found["parted"], strict=True) if parted is None}
        for pair, found in KEPT["pairs"].items()
    }
    assert blind["triangles hexagon"] == {"1-WL", "2-WL", "neighbours"}
    assert {"3-WL", "2-FWL", "pairs"} <= blind["rook shrikhande"] and "3-FWL" not in blind["rook shrikhande"]
    assert {"1-WL", "rows", "rings to 4"} <= blind["decalin bicyclopentyl"]
    assert "rings to 5" not in blind["decalin bicyclopentyl"], "rings of five or of six"
    assert not any(found["isomorphic"] for found in KEPT["pairs"].values())
