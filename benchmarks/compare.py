"""Times two checkouts of the library in one run: ``python benchmarks/compare.py OLD_SRC NEW_SRC``.

Each checkout, given by its ``src`` folder, has a process of its own. The two take turns, and a ratio is taken within a
turn, so that other load on the machine slows both. Both must have ``PGConv``, ``PGGNN`` and ``Plan``.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any


def tasks(nodes: int = 32_768) -> dict[str, Any]:
    """What is timed, by name: on the CPU, and on a GPU if there is one."""
    import torch

    from benchmarks.timing import ON_GPU, Task, autocast, passes
    from pggnn import PGGNN, PGConv, Plan

    torch.manual_seed(0)
    adjacent = torch.block_diag(*(torch.rand(16, 10, 10) < 0.3).triu(1)).bool()
    edge_index, count = (adjacent | adjacent.t()).nonzero().t().contiguous(), len(adjacent)

    def layer(plan: Plan, hidden: int, device: str, precision: str) -> dict[str, Task]:
        conv = PGConv(hidden, hidden).to(device)
        x = torch.randn(plan.num_nodes, hidden, device=device, requires_grad=True)
        return passes(lambda: conv(x, plan), [x, *conv.parameters()], precision)

    def step(device: str, precision: str) -> Task:
        model = PGGNN(10, 64, 1, level="node").to(device)
        optimizer = torch.optim.Adam(model.parameters(), fused=True)
        x, plan = torch.randn(count, 10, device=device), Plan.build(edge_index.to(device), count)

        def run() -> None:
            optimizer.zero_grad()
            with autocast(precision):
                out = model(x, plan)
            out.float().square().mean().backward()
            optimizer.step()

        return run

    made: dict[str, Task] = {"CPU, 16 ER graphs: plan": lambda: Plan.build(edge_index, count)}
    for name, task in layer(Plan.build(edge_index, count), 64, "cpu", "float32").items():
        made[f"CPU, 16 ER graphs, hidden 64: PGConv, {name}"] = task
    made["CPU, 16 ER graphs, hidden 64: PGGNN, step"] = step("cpu", "float32")
    if ON_GPU:
        made["GPU, 16 ER graphs, hidden 64: PGGNN, eager step"] = step("cuda", "bf16")
        centers = torch.arange(nodes, device="cuda").repeat_interleave(8)
        plan = Plan.build(torch.stack([torch.randint_like(centers, nodes), centers]), nodes)
        for hidden in (64, 128):
            for name, task in layer(plan, hidden, "cuda", "bf16").items():
                made[f"GPU, {8 * nodes:,} sequences of degree 8, hidden {hidden}: PGConv, {name}"] = task
    return made


def measure() -> None:
    """The process of one checkout: reads the name of a task and answers with its milliseconds, line by line."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # anything else that is printed is not an answer
    from benchmarks.timing import milliseconds

    made = tasks()
    print(json.dumps([*made]), file=answers, flush=True)
    for line in sys.stdin:
        name = line.strip()
        print(milliseconds(made[name], on_gpu=name.startswith("GPU")), file=answers, flush=True)


def ask(process: subprocess.Popen[str], name: str | None = None) -> Any:
    """Milliseconds of a task; the first answer has the names of all tasks."""
    assert process.stdin is not None and process.stdout is not None
    if name is not None:
        print(name, file=process.stdin, flush=True)
    if not (line := process.stdout.readline()):
        raise ValueError("a checkout could not be measured: see the message above")
    return json.loads(line)


def compare(sources: list[Path], rounds: int) -> None:
    """Prints medians over the rounds, and the ratio new / old with its range over the rounds."""
    for source in sources:
        if not (source / "pggnn" / "__init__.py").exists():
            raise ValueError(f"expected the src folder of a checkout, which has pggnn/__init__.py, got {source}")
    command, root = [sys.executable, "-m", "benchmarks.compare", "--measure"], Path(__file__).resolve().parents[1]
    given: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": root}
    processes = [subprocess.Popen(command, env=os.environ | {"PYTHONPATH": str(s.resolve())}, **given) for s in sources]
    try:
        names, _ = (ask(process) for process in processes)
        print("| median, one run | old, ms | new, ms | new / old | smallest | largest |\n|" + " --- |" * 6, flush=True)
        for name in names:
            turns = [{i: ask(processes[i], name) for i in ((0, 1), (1, 0))[k % 2]} for k in range(rounds)]
            old, new = ([turn[i] for turn in turns] for i in (0, 1))
            ratios = [after / before for before, after in zip(old, new, strict=True)]
            figures = *map(statistics.median, (old, new, ratios)), min(ratios), max(ratios)
            print(f"| {name} |", *(f"{figure:.3f} |" for figure in figures), flush=True)
    finally:
        for process in processes:
            process.communicate()  # the end of its input ends it


if __name__ == "__main__":
    if sys.argv[1:] == ["--measure"]:
        measure()
        sys.exit()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", type=Path, nargs=2, metavar="SRC", help="src folders: before and after the change")
    parser.add_argument("--rounds", type=int, default=8, help="turns of each checkout (default: %(default)s)")
    args = parser.parse_args()
    try:
        compare(args.sources, args.rounds)
    except ValueError as error:
        print(f"compare: error: {error}", file=sys.stderr)
        sys.exit(2)
