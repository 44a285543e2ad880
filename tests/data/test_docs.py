"""What docs/data.md shows must run, and the messages it explains must be the real ones."""

import re
from pathlib import Path

import pytest

from pggnn.cli import main
from pggnn.data.formats.jsonl import InvalidFile, load_jsonl
from pggnn.data.loading import load

TEXT = (Path(__file__).parents[2] / "docs" / "data.md").read_text()
MOLECULES = re.findall(r"```json\n(.*?)```", TEXT, re.DOTALL)[0]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    Path("molecules.jsonl").write_text(MOLECULES)
    return tmp_path


def test_the_check_prints_what_is_shown(folder, capsys):
    assert main(["data", "check", "molecules.jsonl"]) == 0
    shown = re.findall(r"```\n\$ pggnn data check molecules.jsonl\n(.*?)```", TEXT, re.DOTALL)[0]
    assert capsys.readouterr().out == shown


def test_the_code_runs(folder, capsys):
    Path("later.jsonl").write_text('{"node_labels": ["H"], "edges": []}')
    names: dict = {}
    for code in re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL):
        if "superpixel" in code:
            pytest.importorskip("skimage", reason="superpixels need scikit-image")
        exec(code, names)
    assert re.fullmatch(r"water is (wet|gas)\n", capsys.readouterr().out)
    assert names["later"][0].x.tolist() == [[0, 1, 0]]
    assert len(load_jsonl("copy.jsonl")) == 4
    assert names["graph"].y.tolist() == [4]
    assert load("graph.npz")[0].train_mask.sum() > 150 and load("graph.pt").schema.level == "node"


def test_one_large_graph_by_the_commands_shown(folder, capsys):
    text = TEXT.split("## One large graph")[1].split("## Folds")[0]
    exec(re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0], {})
    for command in re.findall(r"^pggnn (.*)$", text, re.MULTILINE):
        few = ["--optim.epochs", "1"] if command.startswith("train") else []
        assert main([*command.split(), *few]) == 0
    assert len(Path("nodes.csv").read_text().splitlines()) == 301


TEN = '"num_nodes": 10, "edges": '
CAUSES = [
    (f'{{{TEN}[[0, 1], [1, 2], [2, 3], [3, 4], [4, 12]]}}',),
    (f'{{{TEN}[[0, 1], [1, 2], [2, 3], [3, 4], [4, 5], [5, 6], [6, 7], [1, 0]]}}',),
    (f'{{{TEN}[], "x": {[[1]] * 9}}}',),
    ('{"x": [[1, 2, 3]], "edges": []}', '{"x": [[1, 2, 3, 4]], "edges": []}'),
    ('{"x": [1, 2], "edges": []}',),
    (f'{{{TEN}[], "y": [1, 2, 3]}}', f'{{{TEN}[], "y": [1, 2, 3, 4, 5]}}'),
    (f'{{{TEN}[], "y": "a"}}', f'{{{TEN}[]}}'),
    (f'{{{TEN}[], "x": {[[1], [float("nan")]] + [[1]] * 8}}}'.replace("nan", "NaN"),),
    (f'{{{TEN}[], "edge_index": []}}',),
    ("[",),
    ('{"num_nodes": 1, "edges": [], "id": "\\ud83d"}',),
    ('{"num_nodes": 1, "edges": [], "id": "\udcff"}',),
]  # fmt: skip


def test_the_messages_are_the_real_ones(folder):
    explained = re.findall(r"^\| `(.*?)` \|", TEXT.split("## When something is wrong")[1], re.MULTILINE)
    assert len(explained) == len(CAUSES)
    for message, lines in zip(explained, CAUSES, strict=True):
        Path("bad.jsonl").write_text("\n".join(lines), encoding="utf-8", errors="surrogateescape")
        with pytest.raises(InvalidFile) as caught:
            load_jsonl("bad.jsonl")
        pattern = ".*".join(map(re.escape, message.split("…")))
        assert any(re.search(pattern, problem) for problem in caught.value.problems), message
