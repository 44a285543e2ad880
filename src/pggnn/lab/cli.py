"""``pggnn lab``: the expressivity lab from the command line. What is heavy is imported when a command runs."""

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from pggnn.console import add_command, print_table

GRAPHS = """
A graph is given as
  rook, shrikhande, cycle:6, complete:5, csl:41,3, triangular:8, paley:13,
  cfi:4, cfi-twisted:4   classic graphs; + puts two side by side: cycle:3+cycle:3
  squares, triangles     the coloured pair of the paper's Figure 3
  graphs.jsonl#4         a graph of a file, JSON lines or graph6 (.g6), from 0
  BREC#4                 a graph of a data set, from 0
  'EhEG'                 graph6
"""


def add_commands(lab: argparse.ArgumentParser) -> None:
    """The subcommands of ``pggnn lab``."""
    commands = lab.add_subparsers(title="commands", required=True, metavar="COMMAND")
    command = partial(add_command, commands)
    sub = command(
        "wl", compare, "Say at which k and iteration the k-WL and k-FWL tests tell two graphs apart.",
        "  pggnn lab wl rook shrikhande\n  pggnn lab wl cycle:3+cycle:3 cycle:6\n" + GRAPHS,
    )  # fmt: skip
    sub.add_argument("a", metavar="A", help="a graph")
    sub.add_argument("b", metavar="B", help="another graph")
    sub = command(
        "ladder", ladder, "Bound what a layer can tell apart that sees pairs, triples or all of the neighbourhood.",
        "  pggnn lab ladder                    # all 400 pairs of BREC, about a minute\n"
        "  pggnn lab ladder --quick\n  pggnn lab ladder rook shrikhande\n" + GRAPHS,
    )  # fmt: skip
    sub.add_argument("graphs", nargs="*", metavar="A B", help="two graphs (default: the pairs of BREC)")
    sub.add_argument("--quick", action="store_true", help="every tenth pair of BREC only")
    sub.add_argument(
        "--data-root", type=Path, metavar="DIR", help="folder of the data (default: $PGGNN_DATA, else data)"
    )


def compare(args: argparse.Namespace) -> None:
    """Prints the outcome of each test."""
    from pggnn.lab.graphs import isomorphic, read_graph
    from pggnn.lab.wl import TESTS

    a, b = read_graph(args.a), read_graph(args.b)
    for name, graph in ((args.a, a), (args.b, b)):
        print(f"{name}: {graph.num_nodes} nodes, {graph.num_edges // 2} edges")
    rows = [("test", "tells them apart", "colours")]
    for name, test in TESTS.items():
        try:
            outcome = test(a, b)
        except ValueError as error:
            rows.append((name, str(error), ""))
        else:
            rows.append((name, _verdict(outcome.parted), str(outcome.colours)))
    print()
    print_table(rows, right={2})
    print(f"\nThe graphs are {'' if isomorphic(a, b) else 'not '}isomorphic.")


def ladder(args: argparse.Namespace) -> None:
    """Prints what each rung tells apart: of two graphs, or of the pairs of BREC by their family."""
    from pggnn.lab.graphs import read_graph
    from pggnn.lab.ladder import LADDER, climb

    if args.graphs:
        if len(args.graphs) != 2:
            raise ValueError(f"give two graphs, or none for the pairs of BREC; got {len(args.graphs)}")
        a, b = map(read_graph, args.graphs)
        outcomes = {rung: climb(a, b, rung) for rung in LADDER}
        found = [(rung, _verdict(outcome.parted), str(outcome.colours)) for rung, outcome in outcomes.items()]
        print_table([("a layer sees", "tells them apart", "colours"), *found], right={2})
        return
    from pggnn.data.brec import BREC, FAMILIES
    from pggnn.lab.wl import k_fwl

    dataset = BREC(args.data_root)
    pairs = [(dataset[2 * p], dataset[2 * p + 1]) for p in range(0, len(dataset) // 2, 10 if args.quick else 1)]
    family = [int(a.family) for a, _ in pairs]
    sizes = [family.count(f) for f in range(len(FAMILIES))]
    rows: list[Sequence[str]] = [("a layer sees", *FAMILIES, "all"), ("(pairs)", *map(str, sizes), str(len(pairs)))]
    tests = {rung: partial(climb, rung=rung) for rung in LADDER} | {"2-FWL, to compare": partial(k_fwl, k=2)}
    for name, test in tests.items():
        apart = [test(a, b).apart for a, b in pairs]
        told = [sum(a for a, f in zip(apart, family, strict=True) if f == g) for g in range(len(FAMILIES))]
        rows.append((name, *map(str, told), str(sum(told))))
    print_table(rows, right=set(range(1, len(FAMILIES) + 2)))


def _verdict(parted: int | None) -> str:
    return "never" if parted is None else f"at iteration {parted}"
