"""Tables 5 and 6: the most memory that training takes, each data set and model in a process of its own."""

import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

from rich.console import Console

from pggnn.data.catalogue import lookup
from pggnn.files import replacing
from pggnn.paper.expected import load
from pggnn.paper.tables import TABLES

STEPS = 20
MODELS = {name: row for table in ("table3", "table4") for name, row in TABLES[table].rows.items()}
DATA = TABLES["table3"].columns | TABLES["table4"].columns
NOTE = (
    f"Peak of a process that loads the set and trains for {STEPS} batches: resident memory, libraries included, and "
    "what PyTorch has reserved on the GPU, without its context. The paper's figures are of the authors' own processes."
)


def reproduce_memory(
    table: str, out: Path, only: str | None = None, console: Console | None = None
) -> list[dict[str, Any]]:
    """Measures Table 5 (RAM) or Table 6 (GPU), writes it as Markdown and JSON, and returns its cells."""
    import torch

    console = console or Console(stderr=True)
    kind = {"table5": "ram", "table6": "gpu"}[table]
    if kind == "gpu" and not torch.cuda.is_available():
        raise ValueError("table6 is about memory of a GPU, and PyTorch finds none here; table5 is about RAM")
    wanted = [(m, d) for m in MODELS for d in DATA if only is None or only.lower() in f"{m} {d}".lower()]
    if not wanted:
        raise ValueError(f"{table} has no row or column {only!r}")
    cells = []
    for model, data in wanted:
        with console.status(f"{model} on {data}"):
            found = _measured(model, data)
        paper = load()[table].get(MODELS[model].published, {}).get(lookup(data)[0], {}).get("value")
        cells.append({"model": model, "data": data, "mib": found[kind], "paper": paper, "batches": found["batches"]})
        said = "" if paper is None else f", the paper's {paper}"
        console.print(f"{model:>16}  {data:<9} {found[kind]:8,.0f} MiB{said}", highlight=False)
    lines = ["| model | data | MiB | paper |", "| --- | --- | --: | --: |"]
    lines += [f"| {c['model']} | {c['data']} | {c['mib']:,.0f} | {c['paper'] or ''} |" for c in cells]
    title = f"# Peak {'RAM' if kind == 'ram' else 'GPU memory'} of training"
    with replacing(out / f"{table}.md") as file:
        file.write_text("\n".join([title, "", *lines, "", f"- {NOTE}", f"- Made by `pggnn reproduce {table}`."]) + "\n")
    with replacing(out / f"{table}.json") as file:
        file.write_text(json.dumps(cells, indent=2) + "\n")
    return cells


def _measured(model: str, data: str) -> dict[str, float]:
    command = [sys.executable, "-m", "pggnn.paper.memory", DATA[data], *MODELS[model].options]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        said = ended.stderr.strip().splitlines()
        raise ValueError(f"{model} on {data}: {said[-1] if said else f'ended with code {ended.returncode}'}")
    found: dict[str, float] = json.loads(ended.stdout)
    return found


def main(config_name: str, *options: str) -> None:
    """Trains for a few batches and prints the peaks as JSON."""
    import tempfile

    import torch

    from pggnn.train.loop import Training
    from pggnn.train.options import parse
    from pggnn.train.progress import Silence
    from pggnn.train.protocol import members, parts
    from pggnn.train.run import load_graphs, make_fabric, make_storage

    steps = ["--optim.steps", str(STEPS), "--run.record", "false"]
    config = parse(["--config", config_name, *options, *steps])[0]
    fabric = make_fabric(config)
    storage = make_storage(config, load_graphs(config), fabric)
    with tempfile.TemporaryDirectory() as folder:
        member = members(config)[0]
        split = parts(config, storage.graphs, member)
        training = Training(config, storage, split, member.seed, Path(folder), fabric)
        training.state["epoch"] = 1
        training.train_epoch(Silence())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    gpu = torch.cuda.max_memory_reserved() / 2**20 if torch.cuda.is_available() else 0.0
    print(json.dumps({"ram": peak, "gpu": gpu, "batches": STEPS}))


if __name__ == "__main__":
    main(*sys.argv[1:])
