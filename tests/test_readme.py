"""What the README shows must run."""

import csv
import json
import re
import shlex
import subprocess
import sys
from itertools import accumulate
from pathlib import Path

import pytest
import torch

from pggnn import PGGNN
from pggnn.cli import main, parser
from pggnn.testing import DEGREES, random_graph

ROOT = Path(__file__).parents[1]
SETUP = {"make demo": "demo", "make test": "test", ". .venv/bin/activate": ".venv/ready"}
"""Lines that make the environment in which this test runs, and their targets in the Makefile."""
README, LAYER = ((ROOT / page).read_text() for page in ("README.md", "docs/layer.md"))
SHOWN = "".join((ROOT / page).read_text() for page in ("README.md", "docs/layer.md", "docs/data.md", "docs/lab.md"))


def code(language, section, page=README):
    """The blocks of code in a section."""
    text = page.split(f"\n## {section}\n")[1].split("\n## ")[0]
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def test_on_pypi_nothing_is_relative(tmp_path):
    """Links and images of the README become addresses of files that are there."""
    page, url = tmp_path / "README.md", "https://host.example/me/pggnn"
    page.write_text(README)
    shown = ["make", "-n", "dist", f"URL={url}", f"PAGE={page}", f"VENV={tmp_path}"]
    lines = subprocess.run(shown, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    (command,) = [line for line in lines if line.startswith("sed ")]
    subprocess.run(command, shell=True, check=True)
    links = re.findall(r"\]\(([^)#]*)", page.read_text())
    assert len(links) == len(re.findall(r"\]\(", README)) > 10 and f"{url}/raw/main/docs/pairs.svg" in links
    for link in links:
        path = re.sub(f"^{url}/(raw|blob)/main/", "", link)
        assert path.startswith("https://arxiv.org/") or (path != link and (ROOT / path).exists()), link


def test_code_of_the_layers_page_runs():
    plan, recorded = code("python", "For speed", LAYER)
    x, edge_index, batch = torch.randn(len(DEGREES), 16), random_graph(), torch.zeros(len(DEGREES), dtype=torch.long)
    given = {"model": PGGNN(16, 8, 2), "x": x, "edge_index": edge_index, "batch": batch}
    names = {**given, "num_nodes": len(DEGREES), "num_graphs": 1}
    exec(plan, names)
    assert names["out"].shape == (1, 2)
    names |= {"criterion": torch.nn.functional.cross_entropy, "y": torch.tensor([1])}
    exec(recorded, names)
    assert all(weight.grad is not None for weight in names["model"].parameters())


COMMANDS = [
    *re.findall(r"^pggnn (?!train )(.+)$", "".join(re.findall(r"```sh\n(.*?)```", SHOWN, re.DOTALL)), re.MULTILINE),
    *re.findall(r"`pggnn (\w+ [^`]+)`", README),
]


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_it_shows_are_understood(command):
    args, options = parser().parse_known_args(shlex.split(command, comments=True))
    assert callable(args.function)
    assert not options or args.takes_options


def test_the_layer_alone_needs_no_extras():
    """What ``pip install .`` leaves out cannot be imported here."""
    extras = "jsonargparse lightning matplotlib yaml rich safetensors tensorboard torchmetrics igraph numba"
    script = f"""if True:
        import sys
        sys.modules |= dict.fromkeys({extras.split()})
        import torch
        from pggnn import PGGNN, PGConv
        edges = torch.tensor([[0, 1, 2], [1, 2, 1]])
        assert PGConv(4, 6)(torch.randn(3, 4), edges).shape == (3, 6)
        assert PGGNN(4, 6, 2)(torch.randn(3, 4), edges).shape == (1, 2)
    """
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


PAGES = sorted(
    page.relative_to(ROOT).as_posix()
    for pattern in ("*.md", "docs/*.md", "docs/tutorials/*.md", "docs/api/*.md", "results/*.md", "benchmarks/*.md")
    for page in ROOT.glob(pattern)
)


def test_the_first_page_is_one_that_people_finish():
    assert len(README.splitlines()) <= 150


@pytest.mark.parametrize("page", PAGES)
def test_files_and_headings_it_shows_exist(page):
    root = Path(__file__).parents[1]
    for link in re.findall(r"\]\((?!https?:)([^)\s]+)\)", (root / page).read_text()):
        path, _, heading = link.partition("#")
        target = (root / page).parent / path if path else root / page
        assert target.exists(), link
        titles = re.findall(r"^#+ (.+)$", target.read_text(), re.MULTILINE) if heading else []
        assert heading in ["", *(re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles)], link


def write_tu(graphs, folder):
    """Writes graphs with labelled nodes in TU's format, which counts from 1."""
    folder.mkdir()
    starts = [0, *accumulate(graph.num_nodes for graph in graphs)]
    lines = {
        "A": [f"{u + first + 1}, {v + first + 1}" for graph, first in zip(graphs, starts, strict=False)
              for u, v in graph.edge_index.t().tolist()],
        "graph_indicator": [i for i, graph in enumerate(graphs, start=1) for _ in range(graph.num_nodes)],
        "graph_labels": [int(graph.y) for graph in graphs],
        "node_labels": [label for graph in graphs for label in graph.x.tolist()],
    }  # fmt: skip
    for name, values in lines.items():
        (folder / f"{folder.name}_{name}.txt").write_text("".join(f"{value}\n" for value in values))


def shell(block):
    """Runs a block of shell commands: ``pggnn`` here, the lines that make the environment not at all."""
    for line in block.splitlines():
        words = shlex.split(line, comments=True)
        if shlex.join(words) in SETUP:
            make = ["make", "--dry-run", SETUP[shlex.join(words)]]
            assert subprocess.run(make, cwd=ROOT, capture_output=True).returncode == 0, line
        else:
            assert words[0] == "pggnn" and main(words[1:]) == 0, line


def check_output(out):
    """What the four commands about graphs of one's own print."""
    assert "task           graph classification, 2 classes" in out
    accuracy = float(re.search(r"accuracy ([\d.]+) %", out)[1])
    assert accuracy >= 90
    assert f"{accuracy / 100:.4f}" in out.split("macro F1")[1], "evaluate says the same"
    assert "500 predictions" in out


def test_all_code_runs_in_order_from_an_empty_folder(tmp_path, monkeypatch, capsys):
    """As written, but for two things: all in one process, which saves a minute of imports, and the lines of SETUP."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PGGNN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.delenv("PGGNN_DATA", raising=False)
    blocks, names = re.findall(r"```(\w*)\n(.*?)```", README, re.DOTALL), {}
    assert {language for language, _ in blocks} == {"sh", "python"}
    for language, block in blocks:
        if language == "sh":
            shell(block)
        else:
            names = {}  # each block imports what it needs
            exec(block, names)
        if "Net" in names:
            batch = torch.zeros(len(DEGREES), dtype=torch.long)
            assert names["Net"]()(torch.randn(len(DEGREES), 16), random_graph(), batch).shape == (1, 2)
    check_output(capsys.readouterr().out)
    truth = [int(graph.y) for graph in names["graphs"]]
    with open("predictions.csv") as file:
        answers = [int(row["prediction"]) for row in csv.DictReader(file)]
    assert sum(one == other for one, other in zip(answers, truth, strict=True)) > 450

    write_tu(names["graphs"], tmp_path / "rings")  # "can take the place of the file in all four"
    changes = {
        "mine.jsonl": "rings",
        "runs/mine": "runs/rings",
        "--model.hidden 32": "--model.name gin",
        ".csv": ".jsonl",
    }
    (commands,) = code("sh", "Your own graphs in four commands")
    for one, other in changes.items():
        assert one in commands
        commands = commands.replace(one, other)
    shell(commands)
    check_output(capsys.readouterr().out)
    others = [json.loads(line)["prediction"] for line in Path("predictions.jsonl").read_text().splitlines()]
    assert sum(one == other for one, other in zip(others, truth, strict=True)) > 450
