"""What the README shows must run."""

import re
from pathlib import Path

import torch

from pggnn import PGGNN
from pggnn.testing import DEGREES, random_graph

README = (Path(__file__).parent.parent / "README.md").read_text()


def test_code_runs():
    net, plan = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    x, edge_index, batch = torch.randn(len(DEGREES), 16), random_graph(), torch.zeros(len(DEGREES), dtype=torch.long)
    names: dict = {}
    exec(net, names)
    assert names["Net"]()(x, edge_index, batch).shape == (1, 2)
    given = {"model": PGGNN(16, 8, 2), "x": x, "edge_index": edge_index, "batch": batch}
    names = {**given, "num_nodes": len(DEGREES), "num_graphs": 1}
    exec(plan, names)
    assert names["out"].shape == (1, 2)


def test_files_it_shows_exist():
    for path in re.findall(r"\]\((?!https?:)([^)]+)\)", README):
        assert (Path(__file__).parent.parent / path).exists(), path
