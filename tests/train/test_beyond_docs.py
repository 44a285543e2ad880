"""What docs/beyond.md shows must run, and be what is printed."""

import re
import shlex
from pathlib import Path

import pytest
import torch

from pggnn.cli import main
from pggnn.lists import LISTS, read_lists
from pggnn.train.engine.models import lists_for
from pggnn.train.options import parse
from pggnn.train.runs import protocol
from pggnn.train.runs.run import load_graphs
from pggnn.train.runs.work import describe_work
from pggnn.transforms import AddHops, AddPaths

DOCS = Path(__file__).parents[2] / "docs"
TEXT = (DOCS / "beyond.md").read_text()


def test_code_and_commands_run_in_order(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PGGNN_CACHE", str(tmp_path / "cache"))
    torch.manual_seed(0)
    names: dict = {}
    for language, block in re.findall(r"```(python|sh)\n(.*?)```", TEXT, re.DOTALL):
        if language == "python":
            exec(block, names)
        for line in block.splitlines() if language == "sh" else ():
            assert main(shlex.split(line)[1:]) == 0, line
    said = " ".join(capsys.readouterr().out.split())
    assert "55 % of the nodes lie on one" in said and "hint" in said and "120 predictions" in said
    assert float(re.search(r"accuracy ([\d.]+) %", said)[1]) > 90
    assert names["out"].shape == (10, 64) and names["scores"].shape == (4, 1)


def test_the_picture_shows_what_atom_5_reads():
    names: dict = {}
    exec(re.search(r"```python\n(.*?)```", TEXT, re.DOTALL)[1], names)
    molecule = AddHops()(AddPaths(2)(names["molecule"]))
    shown = [text.split(": ")[-1] for text in re.findall(r">([^<>]+)</text>", (DOCS / "beyond.svg").read_text())]
    shown = {text for text in shown if re.fullmatch(r"\d( \d)+", text)}
    read = {"5 0 4 6 5"}
    for kind in ("rings", "paths", "hops"):
        plan, owner, *_ = read_lists(kind, molecule)
        for sequence in (owner == 5).nonzero().view(-1).tolist():
            members = plan.neighbor[plan.center == sequence].tolist()
            read.add(" ".join(map(str, [5, *members, 5] if LISTS[kind].apart else members)))
    assert shown == read


@pytest.mark.slow
def test_the_steps_are_those_of_zinc(data_root):
    ((command, said),) = re.findall(r"```\n\$ pggnn train (.*?)\n(.*?)```", TEXT, re.DOTALL)
    config = parse([*shlex.split(command), "--data.root", str(data_root)])[0]
    graphs = load_graphs(config)
    split = protocol.split(config, graphs, protocol.trials(config)[0])
    assert describe_work(config, graphs, split, lists_for(config, graphs)) == said.splitlines()
