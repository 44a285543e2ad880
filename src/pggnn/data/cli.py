"""``pggnn data``: the data sets from the command line. What is heavy is imported when a command runs."""

import argparse
import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from pggnn.console import add_command, add_data_root, fill, loading, print_table, say, tracked
from pggnn.data.catalogue import CATALOGUE, DatasetEntry, lookup
from pggnn.data.loading import is_own

CHECK_EXAMPLES = """  pggnn data check graphs.jsonl
  pggnn data check molecules.csv --target solubility
  pggnn data check folder-or-zip-in-TU-format

A JSON-lines file has one graph per line, each a JSON object:
  {"node_labels": ["O", "H", "H"], "edges": [[0, 1], [0, 2]], "y": "wet"}
  {"node_labels": ["C", "O"], "edges": [[0, 1]], "y": "dry"}

  num_nodes               how many nodes, unless x or node_labels is given
  x, node_labels          features (a list of numbers) or a label for each node
  edges                   pairs of nodes, from 0, each once and read both ways;
                          with "directed": true the list is taken as it stands
  edge_attr, edge_labels  features or a label for each edge
  y, node_y               target of the graph, or of each node: 3.0 is a number
                          to predict, 3 and "text" are classes
  split, id               "train", "val" or "test"; a name
"""


def add_commands(data: argparse.ArgumentParser) -> None:
    """The subcommands of ``pggnn data``."""
    commands = data.add_subparsers(title="commands", required=True, metavar="COMMAND")
    rooted = argparse.ArgumentParser(add_help=False)
    add_data_root(rooted)

    command = partial(add_command, commands)
    command(
        "list", list_sets, "List the data sets, where their files belong and where they come from.",
        "  pggnn data list --data-root DIR", rooted,
    )  # fmt: skip
    sub = command(
        "stats", print_stats, "Print the statistics of Table 7 of the paper, with the paper's figures below.",
        "  pggnn data stats IMDB-B ZINC\n  pggnn data stats graphs.jsonl\n  pggnn data stats --all", rooted,
    )  # fmt: skip
    sub.add_argument(
        "names", nargs="*", metavar="NAME", help="data sets as pggnn data list names them, or files as for check"
    )
    sub.add_argument("--all", action="store_true", help="all data sets whose files are there")
    sub = command(
        "verify", verify, "Compare the SHA-256 of the data sets' files with the known ones.",
        "  pggnn data verify\n  pggnn data verify NCI1", rooted,
    )  # fmt: skip
    sub.add_argument("names", nargs="*", metavar="NAME", help="data sets (default: all whose files are there)")
    sub = command(
        "get", get, "Download a data set of TU's collection, where there is a network.",
        "  pggnn data get MUTAG --data-root DIR", rooted,
    )  # fmt: skip
    sub.add_argument("name", metavar="NAME", help="data set")
    sub = command(
        "check", print_check, "Check graphs of your own and say what the file holds.", CHECK_EXAMPLES
    )  # fmt: skip
    sub.usage = "%(prog)s [options] file"
    sub.add_argument("file", help="JSON lines, molecules as CSV, or TU's or GIN's format")
    sub.add_argument("--target", nargs="+", metavar="COLUMN", help="CSV: the columns to predict")
    sub.add_argument("--smiles", metavar="COLUMN", help="CSV: the column of SMILES (default: found)")
    sub.add_argument("--skip-invalid", action="store_true", help="CSV: leave out rows that cannot be read")


def list_sets(args: argparse.Namespace) -> None:
    """Prints the catalogue."""
    root = _root(args)
    say(f"data root: {root}")
    rows = [("name", "task", "features", "file", "")]
    for name, entry in CATALOGUE.items():
        task = entry.task if entry.classes is None else f"{entry.classes} classes"
        there = "there" if (root / entry.file).exists() else "missing"
        rows.append((name, f"{entry.level}, {task}", entry.features, entry.file, there))
    print_table(rows, right=set())
    origins: dict[tuple[str, str], list[str]] = {}
    for name, entry in CATALOGUE.items():
        origins.setdefault((entry.source, entry.cite), []).append(name)
    for (source, cite), names in origins.items():
        say(f"\n{', '.join(names)}\n  {source}\n  {fill('Cite ' + cite, 2)}")
    say(f"\n{fill('ER and REGULAR can also be generated from a seed, with no file: Counting(seed=0).')}")


def print_stats(args: argparse.Namespace) -> None:
    """Prints Table 7 for the chosen sets."""
    with loading():
        from pggnn.data.stats import NOTES, PAPER, differences, own_statistics, statistics

    if bool(args.names) == args.all:
        raise ValueError("name the data sets, or ask for --all of them")
    chosen = [name if is_own(name) else lookup(name)[0] for name in args.names] or [*_present(args)]
    rows: list[Sequence[str]] = [
        ("", "graphs", "classes", "nodes", "", "degree", "", "triangles", ""),
        ("", "", "", "avg", "max", "avg", "max", "avg", "max"),
    ]
    agree: list[str] = []
    notes: list[str] = []
    for name in tracked(chosen, "reading", len(chosen), after=2):
        if is_own(name):
            rows.append(_row(Path(name).name, own_statistics(name), {}))
            continue
        found = statistics(name, args.data_root)
        marks: dict[str, str] = {}
        for key in differences(name, found):
            note = f"{name}: {NOTES.get((name, key, f'{found[key]:.2f}'), 'Differs, and no reason is known.')}"
            notes += [] if note in notes else [note]
            marks[key] = f"*{notes.index(note) + 1}"
        rows.append(_row(name, found, marks))
        if name in PAPER:
            rows.append(_row("  paper", PAPER[name], {}))
            agree += [] if marks else [name]
    print_table(rows, right=set(range(1, 9)))
    if agree:
        say(f"\n{fill('As in the paper to two decimals, in all properties: ' + ', '.join(agree) + '.')}")
    say("\nDegrees are without self-loops; of directed graphs, in / out.")
    for number, note in enumerate(notes, 1):
        say(fill(f"*{number} {note}", 3))


def _row(name: str, values: dict[str, float], marks: dict[str, str]) -> tuple[str, ...]:
    def cell(key: str, form: str) -> str:
        text = f"{values[key]:{form}}"
        if f"out_{key}" in values:
            text += f"/{values[f'out_{key}']:{form}}"
        return text + marks.get(key, "")

    keys = [f"{name}_{kind}" for name in ("nodes", "degree", "triangles") for kind in ("avg", "max")]
    classes = f"{values['classes']:.0f}" if values["classes"] else "–"
    cells = [cell(key, ".2f" if key.endswith("avg") else ".0f") for key in keys]
    return name, cell("graphs", ".0f"), classes, *cells


def verify(args: argparse.Namespace) -> None:
    """Prints whether each file is the known one; fails if one is not."""
    from pggnn.data.cache import digest, find

    wrong = []
    chosen = dict(lookup(name) for name in args.names) or _present(args)
    for name, entry in chosen.items():
        right = digest(find(entry.file, args.data_root)) == entry.sha256
        say(f"{'ok' if right else 'DIFFERS':8}{name:12}{entry.file}")
        if not right:
            wrong.append(entry.file)
    if wrong:
        raise ValueError(
            f"not the known content: {', '.join(wrong)}; fetch again, unless it is what pggnn data get downloaded, "
            "which is the same set in TU's own format"
        )
    if not args.names and len(chosen) < len(CATALOGUE):
        say("missing " + ", ".join(name for name in CATALOGUE if name not in chosen))


def get(args: argparse.Namespace) -> None:
    """Downloads a data set in TU's own format."""
    from pggnn.data.sets.download import download

    name, entry = lookup(args.name)
    path = _root(args) / entry.file
    if path.exists():
        say(f"{path} is there already")
        return
    if entry.archive is None:
        raise ValueError(
            f"{name} cannot be downloaded: {entry.obstacle}; put its file at {path} (made from {entry.source})"
        )
    graphs = download(entry.archive, path)
    say(f"{path}: {graphs} graphs, in TU's own format. Cite: {entry.cite}")


def print_check(args: argparse.Namespace) -> None:
    """Says what a file of graphs holds, or all that is wrong with it."""
    with loading():
        from pggnn.data.check import check

    options = {"target": args.target, "smiles": args.smiles, "skip_invalid": args.skip_invalid}
    given = {name: value for name, value in options.items() if value}
    found = check(args.file, lambda numbers: tracked(numbers, "finding rings", len(numbers), after=1), **given)
    say(found.text(min(shutil.get_terminal_size().columns, 120)))


def _root(args: argparse.Namespace) -> Path:
    from pggnn.data.cache import data_root

    return data_root(args.data_root)


def _present(args: argparse.Namespace) -> dict[str, DatasetEntry]:
    root = _root(args)
    found = {name: entry for name, entry in CATALOGUE.items() if (root / entry.file).exists()}
    if not found:
        raise FileNotFoundError(
            f"no data set has its file under {root}; name its folder with --data-root or PGGNN_DATA"
        )
    return found
