"""``pggnn reproduce search``: ranked by validation, whatever the test figures are."""

import json
from dataclasses import replace
from itertools import pairwise

import pytest
from rich.console import Console

from pggnn.paper.tables import BEST, BEST_BONDS, TABLES
from pggnn.reproduce import search as module
from pggnn.reproduce.search import SEARCHES, search
from pggnn.train.engine import log
from pggnn.train.options import CONFIGS, load, parse
from pggnn.train.sweeps.candidates import Candidate, Search, write_config
from pggnn.train.sweeps.sweep import Sweep

SMALL = (
    *("--data.options", "{task: triangles, seed: 0, graphs: 40}", "--model.layers", "1", "--optim.epochs", "2"),
    *("--run.device", "cpu", "--run.tensorboard", "false"),
)


MANY = [data for data, found in SEARCHES.items() if len(found.candidates) > 20]


def test_every_search_has_a_row_that_shows_it():
    tables = [TABLES[name] for name in ("table2", "table3", "table4")]
    names = [row.config.format(one) for t in tables for row in t.rows.values() for one in t.columns.values()]
    assert {f"best/{found.name}" for found in SEARCHES.values()} <= set(names)


@pytest.mark.parametrize(
    "data", [pytest.param(data, marks=pytest.mark.slow if data in MANY[1:] else ()) for data in SEARCHES]
)
def test_every_candidate_is_a_config_of_its_own(data, tmp_path):
    """Files are written of enough candidates to have each option with each value once."""
    found, kept, written = SEARCHES[data], set(), set()
    for name, options in found.candidates.items():
        wanted = parse([*found.given, *options])[0]
        kept.add(str(wanted))
        given = {(key, value) for key, value in pairwise(options) if key.startswith("--")}
        if written and given <= written:
            continue
        written |= given
        one = Candidate(name, data, "accuracy", 0.5, 0.0, 1, 1, 1.0, options, 0.5)
        write_config(one, found, 9, "pggnn reproduce search", tmp_path / "one.yaml")
        config = load(tmp_path / "one.yaml")
        assert replace(config, run=wanted.run) == wanted, "the file says something else"
    assert len(kept) == len(found.candidates), "two candidates are the same"


def test_best_configs_are_known_to_the_rows():
    places = {
        one.format(config) for one in (BEST, BEST_BONDS) for t in TABLES.values() for config in t.columns.values()
    }
    for path in (CONFIGS / "best").glob("*.yaml"):
        assert f"best/{path.stem}" in places
        load(path)


def test_validation_decides(tmp_path, monkeypatch, in_this_process):
    tried = {"narrow": ("--model.hidden", "2"), "wide": ("--model.hidden", "8")}
    monkeypatch.setattr(module, "SEARCHES", {"ER": Search(("--config", "er_triangles"), tried, name="er_triangles")})

    def searched(**more):
        return search(tmp_path, Sweep(jobs=2, more=SMALL, console=Console(quiet=True), **more))

    ranked, path = searched(only=["narrow"])
    assert [one.name for one in ranked] == ["narrow"]
    ranked, path = searched(only=["wide"])
    assert {one.name for one in ranked} == set(tried), "what was run before is ranked too"
    assert ranked[0].mean < ranked[1].mean
    for one in ranked:
        (folder,) = tmp_path.glob(f"search/er_triangles/{one.name}/seed0")
        records = log.read(folder)
        assert one.mean == min(record["val"] for record in records)
        assert one.late == records[1]["val"], "of two epochs the second"
    best = load(tmp_path / "search" / "best" / "er_triangles.yaml")
    assert best.model.hidden == {"narrow": 2, "wide": 8}[ranked[0].name]
    first, second = (tmp_path / "search" / "er_triangles" / one.name / "seed0" / "result.json" for one in ranked)
    for result, value in ((first, 99.0), (second, 0.0)):
        result.write_text(json.dumps(json.loads(result.read_text()) | {"test": value}))
    assert [one.name for one in searched()[0]] == [one.name for one in ranked], "it looked at the test figures"
    assert f"| ER | {ranked[0].name} | {ranked[0].mean:.4f} | {ranked[0].late:.4f} | 1 |" in path.read_text()
    assert "optim.epochs: 2, not 800" in path.read_text(), "it was run with other options than it shows"
    assert "# In the search: optim.epochs: 2, not 800" in (tmp_path / "search/best/er_triangles.yaml").read_text()
