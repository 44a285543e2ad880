"""Molecules: ``pggnn train --config molecule`` beside Chemprop with its defaults, and a plain GINE, on the same rows.

    python -m venv chemprop && chemprop/bin/pip install chemprop
    python benchmarks/molecules.py DATA --chemprop chemprop/bin/chemprop --out DIR --sets esol freesolv

``DATA`` holds MoleculeNet's files (``esol.csv``, …). For each set and seed one file is written, with a random split
(80/10/10 %) in a column; all programs read it, and what they predict for its test rows is measured by the same code.
What is in ``DIR/figures.jsonl`` already is not trained again. Chemprop is needed by this script alone.
"""

import argparse
import csv
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from pggnn.data.formats.molecules import find_smiles, read_molecules
from pggnn.data.formats.tables import is_gap, read_table
from pggnn.data.splits import random_split
from pggnn.files import markdown_table

TOX21 = (
    "NR-AR", "NR-AR-LBD", "NR-AhR", "NR-Aromatase", "NR-ER", "NR-ER-LBD", "NR-PPAR-gamma", "SR-ARE", "SR-ATAD5",
    "SR-HSE", "SR-MMP", "SR-p53",
)  # fmt: skip
SETS: dict[str, tuple[str, tuple[str, ...]]] = {
    "esol": ("RMSE", ("measured log solubility in mols per litre",)),
    "freesolv": ("RMSE", ("expt",)),
    "lipophilicity": ("RMSE", ("exp",)),
    "bbbp": ("AUROC", ("p_np",)),
    "tox21": ("AUROC", TOX21),
}
"""Metric and columns to predict of each file."""
PROGRAMS = ("pggnn", "chemprop", "gine")
SMILES = "smiles"


def write_files(source: Path, targets: Sequence[str], seed: int, folder: Path) -> tuple[Path, Path]:
    """The rows that RDKit can read, with a random split in a column; and the test rows by themselves."""
    table, (_, _, left_out) = read_table(source), read_molecules(source, target=targets, skip_invalid=True)
    columns = [table.column(find_smiles(table)), *(table.column(name) for name in targets)]
    rows = [row for number, row in enumerate(zip(*columns, strict=True)) if number not in left_out]
    part = dict.fromkeys(range(len(rows)), "")
    for name, index in zip(("train", "val", "test"), random_split(len(rows), seed), strict=True):
        part |= dict.fromkeys(index.tolist(), name)
    folder.mkdir(parents=True, exist_ok=True)
    paths = folder / "all.csv", folder / "test.csv"
    for path, kept in zip(paths, (part, [i for i, name in part.items() if name == "test"]), strict=True):
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow([SMILES, *targets, "split"])
            writer.writerows([*rows[i], part[i]] for i in kept)
    return paths


def run(command: list[str], threads: int) -> tuple[float, float]:
    """Runs a command; returns seconds, and seconds of CPU time."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        command, env=os.environ | {"OMP_NUM_THREADS": str(threads)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stdout.decode()[-2000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - begin, cpu


def train_chemprop(
    program: str, metric: str, targets: Sequence[str], files: tuple[Path, Path], folder: Path, seed: int, threads: int
) -> tuple[dict[str, list[float]], tuple[float, float]]:
    """Chemprop's answers for the test rows, by column, and its time."""
    task = "regression" if metric == "RMSE" else "classification"
    took = run(
        [
            program, "train", "--data-path", str(files[0]), "--smiles-columns", SMILES, "--target-columns", *targets,
            "--splits-column", "split", "--task-type", task, "--pytorch-seed", str(seed), "--accelerator", "cpu",
            "--output-dir", str(folder / "chemprop"),
        ],
        threads,
    )  # fmt: skip
    (path,) = (folder / "chemprop").glob("**/test_predictions.csv")
    table = read_table(path)
    return {name: [*map(float, table.column(name))] for name in targets}, took


def train_pggnn(
    metric: str, targets: Sequence[str], files: tuple[Path, Path], folder: Path, seed: int, threads: int,
    options: Sequence[str],
) -> tuple[dict[str, list[float]], tuple[float, float]]:  # fmt: skip
    """Our answers for the test rows, by column, and the time of the training."""
    out = folder / "pggnn"
    took = run(
        [
            sys.executable, "-m", "pggnn", "train", "--config", "molecule", "--data.name", str(files[0]),
            "--data.target", *targets, "--protocol.seeds", str(seed), "--run.device", "cpu",
            "--run.threads", str(threads), "--run.out", str(out), *options,
        ],
        threads,
    )  # fmt: skip
    answers = folder / "answers.csv"
    run([sys.executable, "-m", "pggnn", "predict", str(out), str(files[1]), "--out", str(answers)], threads)
    table = read_table(answers)
    single = "p(1)" if metric == "AUROC" else "prediction"
    names = {name: single if len(targets) == 1 else f"prediction {name}" for name in targets}
    return {name: [*map(float, table.column(column))] for name, column in names.items()}, took


def train_gine(
    targets: Sequence[str], files: tuple[Path, Path], folder: Path, seed: int, threads: int
) -> tuple[dict[str, list[float]], tuple[float, float]]:
    """The control's answers for the test rows, by column, and its time."""
    answers = folder / "gine.csv"
    command = [sys.executable, str(Path(__file__).with_name("gine.py")), *map(str, (*files, answers))]
    took = run([*command, "--targets", *targets, "--seed", str(seed)], threads)
    table = read_table(answers)
    return {name: [*map(float, table.column(name))] for name in targets}, took


def measure(metric: str, answers: dict[str, list[float]], test: Path) -> float:
    """RMSE, or the mean AUROC of the columns that have both classes."""
    table, figures = read_table(test), []
    for name, found in answers.items():
        cells = table.column(name)
        assert len(cells) == len(found), f"{len(found)} answers for {len(cells)} rows"
        known = np.array([not is_gap(cell) for cell in cells])
        truth = np.array([0.0 if is_gap(cell) else float(cell) for cell in cells])[known]
        given = np.array(found)[known]
        if metric == "RMSE":
            figures.append(float(np.sqrt(np.mean((given - truth) ** 2))))
        elif 0 < truth.sum() < len(truth):
            figures.append(float(roc_auc_score(truth, given)))
    return statistics.fmean(figures)


def table(lines: list[dict[str, Any]]) -> str:
    """The figures as Markdown, a row for each set and program."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for line in sorted(lines, key=lambda one: (list(SETS).index(one["set"]), one["program"], one["seed"])):
        groups.setdefault((line["set"], line["program"]), []).append(line)
    seeds = sorted({line["seed"] for line in lines})
    rows = []
    for (name, program), found in groups.items():
        figures = {one["seed"]: one["figure"] for one in found}
        spread = f" ± {statistics.pstdev(figures.values()):.3f}" if len(figures) > 1 else ""
        each = [f"{figures[seed]:.3f}" if seed in figures else "" for seed in seeds]
        time = statistics.fmean(one["cpu"] for one in found)
        metric = f"{SETS[name][0]} {'↓' if SETS[name][0] == 'RMSE' else '↑'}"
        rows.append((name, metric, program, *each, f"{statistics.fmean(figures.values()):.3f}{spread}", f"{time:.0f}"))
    headings = ("set", "metric", "program", *(f"seed {seed}" for seed in seeds), "mean ± std", "CPU s")
    return "\n".join(markdown_table(headings, rows, ("set", "metric", "program")))


def main() -> None:
    """Trains what is missing, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder of MoleculeNet's CSV files")
    parser.add_argument("--chemprop", default="chemprop", metavar="PROGRAM", help="Chemprop's command")
    parser.add_argument("--programs", nargs="+", choices=PROGRAMS, default=PROGRAMS, help="(default: all)")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of files, runs and figures")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=[*SETS], help="data sets (default: all)")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2], help="(default: 0 1 2)")
    parser.add_argument("--threads", type=int, default=2, help="threads of each training (default: %(default)s)")
    args, options = parser.parse_known_args()
    record = args.out / "figures.jsonl"
    lines = [json.loads(line) for line in record.read_text().splitlines()] if record.exists() else []
    done = {(one["set"], one["seed"], one["program"]) for one in lines}
    for name in args.sets:
        metric, targets = SETS[name]
        for seed in args.seeds:
            folder = args.out / name / f"seed{seed}"
            for program in [one for one in args.programs if (name, seed, one) not in done]:
                files = write_files(args.data / f"{name}.csv", targets, seed, folder)
                if program == "chemprop":
                    found, took = train_chemprop(args.chemprop, metric, targets, files, folder, seed, args.threads)
                elif program == "gine":
                    found, took = train_gine(targets, files, folder, seed, args.threads)
                else:
                    found, took = train_pggnn(metric, targets, files, folder, seed, args.threads, options)
                line = {"set": name, "seed": seed, "program": program, "figure": measure(metric, found, files[1])}
                line |= {"seconds": round(took[0], 1), "cpu": round(took[1], 1), "threads": args.threads}
                lines.append(line)
                with open(record, "a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")
                print(json.dumps(line), flush=True)
    print(table(lines))


if __name__ == "__main__":
    main()
