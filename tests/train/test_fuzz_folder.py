"""Run folders damaged at random: every command answers, or refuses in one line."""

import json
import os
import random
import re
import shutil

import pytest

from pggnn.cli import main

WORDS = [b"null", b"[]", b"{}", b"-1", b"1e999", b"NaN", b'"x"', b"true", b"9" * 400, b"[" * 3000, b"\xff", b""]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run of a second, on 20 graphs."""
    folder = tmp_path_factory.mktemp("whole")
    lines = [{"num_nodes": 3, "edges": [[0, 1], [1, 2]] + [[2, 0]] * (i % 2), "y": i % 2} for i in range(20)]
    (folder / "graphs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    small = ["--model.hidden", "4", "--model.layers", "1", "--optim.epochs", "2", "--run.jobs", "1"]
    small += ["--run.tensorboard", "false", "--run.device", "cpu", "--run.out", str(folder / "run")]
    assert main(["train", "--data.name", str(folder / "graphs.jsonl"), *small]) == 0
    return folder


def damage(draw, folder):
    """Changes one file of a run; returns which."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    path = draw.choice(files)
    content = bytearray(path.read_bytes())
    at = draw.randrange(len(content) + 1)
    match draw.randrange(6):
        case 0:
            del content[at:]
        case 1:
            for _ in range(draw.choice([1, 1, 8, 64]) if content else 0):
                content[draw.randrange(len(content))] = draw.randrange(256)
        case 2:
            content[at:at] = content[: draw.randrange(200)]
        case 3:
            found = [*re.finditer(rb'-?\d[\d.e+-]*|"[^"]*"|true|false|null', bytes(content[:20_000]))]
            if found:
                token = draw.choice(found)
                content[token.start() : token.end()] = draw.choice(WORDS)
        case 4:
            content = bytearray(draw.choice(files).read_bytes())
        case 5:
            path.unlink()
            return path
    path.write_bytes(content)
    return path


def check(cases, seed, whole, tmp_path, capsys):
    for case in range(cases):
        draw = random.Random(f"{seed} {case}")
        run = shutil.copytree(whole / "run", tmp_path / str(case))
        path = damage(draw, run).relative_to(run)
        resume = ["--config", str(whole / "run" / "config.yaml"), "--run.out", str(run), "--resume"]
        for command in (
            ["evaluate", str(run)],
            ["predict", str(run), str(whole / "graphs.jsonl")],
            ["report", str(run), "--out", str(tmp_path / "page.html")],
            ["train", *resume, "--optim.epochs", "3"],
        ):
            capsys.readouterr()
            code, said = main(command), capsys.readouterr().err
            place = f"seed {seed}, case {case}, {path}: {command[0]} ended with {code}\n{said}"
            assert code in (0, 1, 2), place
            assert "Traceback" not in said, place
            assert code != 2 or said.splitlines()[-1].startswith("pggnn: error: "), place
        shutil.rmtree(run)


def test_some_damaged_folders(whole, tmp_path, capsys):
    check(8, 0, whole, tmp_path, capsys)


@pytest.mark.slow
def test_many_damaged_folders(whole, tmp_path, capsys):
    seed = os.environ.get("PGGNN_FUZZ_SEED") or str(random.randrange(10**6))
    print(f"PGGNN_FUZZ_SEED={seed}")
    check(int(os.environ.get("PGGNN_FUZZ_CASES", "500")), seed, whole, tmp_path, capsys)
