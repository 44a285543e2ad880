"""``pggnn train``, ``tune``, ``evaluate`` and ``predict``."""

import argparse
import shlex
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from pggnn.console import Incomplete, add_sweep, goes_on, loading, print_table, say, until

FORMATS, MOST_NAMED = (".csv", ".jsonl"), 20
TRAIN = "Train a network on a data set of the paper or on your own graphs."


def train(arguments: Sequence[str]) -> None:
    """Trains a run and prints its figures."""
    from pggnn.train.options import default_config, parse, parser

    if "-h" in arguments or "--help" in arguments:
        parser().print_help()
        return
    config, resume = parse(arguments)
    if default := default_config(arguments):
        say(f"{config.data.name} holds molecules: its options are those of --config {default}.", file=sys.stderr)

    with loading():
        from pggnn.train.engine.distributed import is_main
        from pggnn.train.runs.fitted import is_fitted
        from pggnn.train.runs.run import train as run
        from pggnn.train.runs.stored import Run

    try:
        summary = run(config, resume)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(_how_to_resume(config.folder)) from None
    if not is_main():
        return
    say(f"{config.folder}: {summary.metric} {summary}")
    trained = Run.read(config.folder)
    say(f"To compare with: {trained.beside()}. {trained.warning}".rstrip(), filled=True)
    if config.protocol.kind == "folds" and not is_fitted(config):
        seen = (
            f"These are the test folds at epoch {', '.join(map(str, summary.epochs))}, where their mean is best, as in "
            "the paper: the choice has seen them."
        )
        without = "--protocol.kind nested chooses without."
        say(" ".join(filter(None, (seen, trained.had_others_chosen, without))), filled=True)
    say(f"A page about it: {shlex.join(['pggnn', 'report', str(config.folder)])}")


@goes_on()
def tune(args: argparse.Namespace) -> None:
    """Trains candidates on a data set, and prints them ranked."""
    end = until(args)
    with loading():
        from pggnn.train.sweeps.keys import slug
        from pggnn.train.sweeps.sweep import Sweep
        from pggnn.train.sweeps.tune import BEST
        from pggnn.train.sweeps.tune import tune as run

    ranked, out = run(tuple(args.options), args.out, Sweep(args.only, args.jobs, until=end))
    if not ranked:
        say("No candidate has ended yet, so there is nothing to rank.")
        return
    best = out / slug(ranked[0].name)
    say((out / "tune.md").read_text(encoding="utf-8"))
    say(f"Best: {ranked[0].name}, {ranked[0].metric} {ranked[0]} on validation graphs. It has been trained:")
    quoted = shlex.quote(str(best))
    say(f"  pggnn evaluate {quoted}\n  pggnn predict {quoted} GRAPHS --out predictions.csv")
    say(f"Its options: {out / BEST}\nA page about all of them: pggnn report {shlex.quote(str(out))}")
    if ranked[0].trainings == 1:
        say("To see which differences are chance, train more seeds: --protocol.seeds [0,1,2]")


def evaluate(args: argparse.Namespace) -> None:
    """Prints the metrics of each trial of a run."""
    from pggnn.files import write_json

    with loading():
        from pggnn.train.engine.task import NONFINITE
        from pggnn.train.runs.predict import evaluate as measure
        from pggnn.train.runs.protocol import deviation

    found = {trial.name: figures for trial, figures in measure(args.run, args.data, args.split, args.which)}
    names = [name for name in next(iter(found.values())) if name != NONFINITE]
    part = " of ".join(filter(None, (args.split, args.data))) or "test"
    rows = [["training", *names]]
    rows += [[trial, *(f"{figures[name]:.4f}" for name in names)] for trial, figures in found.items()]
    if len(found) > 1:
        columns = [[figures[name] for figures in found.values()] for name in names]
        rows.append(["mean ± std", *(f"{statistics.fmean(one):.4f} ± {deviation(one):.4f}" for one in columns)])
    say(f"{args.run}: {args.which} checkpoint on {part}\n")
    print_table(rows, right={*range(1, len(names) + 1)})
    if "baseline" in names:
        say(f"baseline: {names[0]} of one answer for all, the most frequent class or the mean in training")
    if args.json is not None:
        write_json(args.json, found)
        say(f"Figures: {args.json}")
    lost = dict.fromkeys(graph for figures in found.values() for graph in figures.get(NONFINITE, ()))
    _say_nonfinite([*lost], "they count as wrong", args.allow_nonfinite)


def predict(args: argparse.Namespace) -> None:
    """Writes predictions for graphs."""
    from pggnn.files import replacing

    if args.out is not None and args.out.suffix not in FORMATS:
        raise ValueError(f"--out must end in {' or '.join(FORMATS)}, got {args.out}")
    with loading():
        from pggnn.train.runs.predict import Trained, write
        from pggnn.train.runs.predict import predict as answer
    trained = Trained.load(args.run, args.which)
    options = {"smiles": args.smiles, "skip_invalid": args.skip_invalid}
    dataset = trained.read_new(args.graphs, **{name: value for name, value in options.items() if value})
    rows = answer(trained, dataset)
    if args.out is None:
        _, lost = write(rows, sys.stdout, "csv")
    else:
        with replacing(args.out) as unfinished, open(unfinished, "w", newline="", encoding="utf-8") as file:
            count, lost = write(rows, file, args.out.suffix[1:])
        networks = len(trained.scorers)
        mean = f", the mean of {networks} networks" if networks > 1 else ""
        say(f"{count} predictions{mean}: {args.out}")
    if dataset.left_out:
        say(dataset.describe_left_out(), file=sys.stderr)
    _say_nonfinite(lost, "their rows are empty", args.allow_nonfinite)


def add_commands(command: Callable[..., argparse.ArgumentParser]) -> None:
    """Adds the subcommands; ``train`` is only listed: its options are those of the config."""
    command("train", None, TRAIN, "  pggnn train --help")
    sub = command(
        "tune", tune, "Try what may help on your graphs, one option at a time, then together; validation decides.",
        "  pggnn tune --data.name mine.jsonl --minutes 60   # and again, until it is done\n"
        "  pggnn tune --data.name mine.jsonl --optim.epochs 50 --protocol.seeds [0,1,2]\n"
        "  pggnn tune --config zinc --only 'as given' walks GIN\n\n"
        "All options of pggnn train may be given: --data.name says what to train on, the\n"
        "others stay as given in every candidate. No test figure is looked at.",
    )  # fmt: skip
    add_sweep(sub, "only these candidates, by name; * stands for anything")
    sub.add_argument("--out", type=Path, metavar="DIR", help="folder (default: runs/DATA-tune)")
    sub = command(
        "evaluate", evaluate, "Measure the trained networks of a run, on its own test graphs or on others.",
        "  pggnn evaluate runs/mutag-pggnn\n  pggnn evaluate runs/mine --data new.jsonl --json figures.json",
    )  # fmt: skip
    _add_run(sub)
    sub.add_argument("--data", metavar="GRAPHS", help="other graphs with targets: a data set, file or folder")
    sub.add_argument(
        "--split", choices=("train", "val", "test"), help="part of the graphs (default: test, and with --data all)"
    )
    sub.add_argument("--json", type=Path, metavar="FILE", help="also write the figures as JSON")
    sub = command(
        "predict", predict, "Predict for your own graphs; several networks of a run answer with their mean.",
        "  pggnn predict runs/mine new.jsonl\n  pggnn predict runs/mine new.csv --out predictions.csv",
    )  # fmt: skip
    _add_run(sub)
    sub.add_argument("graphs", help="a file of graphs or molecules, a folder in TU's format, or a data set")
    sub.add_argument("--smiles", metavar="COLUMN", help="CSV: the column of SMILES (default: as in training, or found)")
    sub.add_argument(
        "--skip-invalid", action="store_true",
        help="CSV: answer for the other rows where some cannot be read (default: an error that lists them)",
    )  # fmt: skip
    sub.add_argument("--out", type=Path, metavar="FILE", help="a .csv or .jsonl file (default: CSV on the terminal)")


def _how_to_resume(folder: Path) -> str:
    kept = sorted(folder.glob("**/last.safetensors"), key=lambda path: path.stat().st_mtime)
    others = f" and {len(kept) - 1} other{'s' * (len(kept) > 2)}" if len(kept) > 1 else ""
    where = f"the checkpoint of the last whole epoch is {kept[-1]}{others}" if kept else "no epoch was completed"
    return f"{where}; to go on, give the same command with --resume"


def _say_nonfinite(graphs: Sequence[str | int], how: str, allowed: bool) -> None:
    """Names the graphs whose answers are not finite; an error unless that is allowed."""
    if not graphs:
        return
    named = ", ".join(map(str, graphs[:MOST_NAMED])) + ", …" * (len(graphs) > MOST_NAMED)
    message = f"the answers for {len(graphs)} graph{'s' * (len(graphs) > 1)} are not finite, {how}: {named}"
    if not allowed:
        raise Incomplete(f"{message}; are there huge features? --allow-nonfinite makes this no error")
    say(f"pggnn: {message}", file=sys.stderr)


def _add_run(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("run", type=Path, metavar="RUN", help="folder of a run, or of one training in it")
    sub.add_argument(
        "--which", choices=("best", "last"), default="best", help="checkpoint to use (default: %(default)s)"
    )
    sub.add_argument(
        "--allow-nonfinite", action="store_true",
        help="exit code 0 even if answers are NaN or infinite; they are named all the same (default: 1)",
    )  # fmt: skip
