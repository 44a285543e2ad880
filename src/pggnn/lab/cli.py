"""``pggnn lab``: the expressivity lab from the command line. What is heavy is imported when a command runs."""

import argparse
from functools import partial

from pggnn.console import add_command, fill, loading, print_table, say
from pggnn.lab import brec, counting_cli, ladder_cli
from pggnn.lab.ladder_cli import verdict

GRAPHS = """
A graph is given as
  rook, shrikhande, cycle:6, complete:5, csl:41,3, triangular:8, chang:1,
  latin:5, paley:13, cfi:4, cfi-twisted:4   classic graphs; + puts two together:
  cycle:3+cycle:3
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
    ladder_cli.add_command(commands, GRAPHS)
    brec.add_command(commands, GRAPHS)
    command(
        "theorems", theorems, "Check the paper's theorems and formulas, one by one; fails if one does not hold.",
        "  pggnn lab theorems",
    )  # fmt: skip
    sub = command(
        "sampling", sampling, "Count the random orders it takes until every pair of n neighbours has met.",
        "  pggnn lab sampling 8 100\n  pggnn lab sampling 1000 --runs 20     # half a minute",
    )  # fmt: skip
    sub.add_argument("n", nargs="+", type=int, help="number of neighbours")
    sub.add_argument("--runs", type=int, default=100, help="simulations for each n")
    sub.add_argument("--seed", type=int, default=0, help="seed of the simulations")
    sub = command(
        "walks", walks, "Estimate the triangles at a node by random walks, as the proof of Theorem 4 does.",
        "  pggnn lab walks rook 0\n  pggnn lab walks complete:5 0 --samples 1000 100000\n" + GRAPHS,
    )  # fmt: skip
    sub.add_argument("graph", metavar="A", help="a graph")
    sub.add_argument("node", type=int, help="one of its nodes, from 0")
    sub.add_argument(
        "--samples", nargs="+", type=int, default=[10, 100, 1000, 10_000, 100_000], metavar="R",
        help="lengths of the walks (default: 10 to 100,000)",
    )  # fmt: skip
    sub.add_argument("--walks", type=int, default=100, help="number of walks")
    sub.add_argument("--seed", type=int, default=0, help="seed of the walks")
    counting_cli.add_commands(commands)


def compare(args: argparse.Namespace) -> None:
    """Prints the outcome of each test."""
    with loading():
        from pggnn.lab.named_graphs import isomorphic, read_graph
        from pggnn.lab.refinement.wl import TESTS

    a, b = read_graph(args.a), read_graph(args.b)
    for name, graph in ((args.a, a), (args.b, b)):
        say(f"{name}: {graph.num_nodes} nodes, {graph.num_edges // 2} edges")
    rows = [("test", "tells them apart", "colours")]
    for name, test in TESTS.items():
        try:
            outcome = test(a, b)
        except ValueError as error:
            rows.append((name, str(error), ""))
        else:
            rows.append((name, verdict(outcome.parted), str(outcome.colours)))
    say("")
    print_table(rows, right={2})
    say(f"\nThe graphs are {'' if isomorphic(a, b) else 'not '}isomorphic.")


def theorems(args: argparse.Namespace) -> None:
    """Prints each claim's check; fails if one does not hold."""
    with loading():
        from pggnn.lab.theorems import CLAIMS

    failed = []
    notes = []
    for claim, check in CLAIMS.items():
        result = check()
        failed += [] if result.holds else [claim]
        notes += [(claim, result.note)] if result.note else []
        mark = f"*{len(notes)}" if result.note else ""
        say(fill(f"{'pass' if result.holds else 'FAIL'}  {claim + mark:17}{result.what}", 23))
    for number, (claim, note) in enumerate(notes, 1):
        say("\n" + fill(f"*{number} {claim}: {note}", 3))
    if failed:
        raise ValueError(f"does not hold: {', '.join(failed)}")


def sampling(args: argparse.Namespace) -> None:
    """Prints covering times: simulated, in closed form, and the group's."""
    from math import log

    from pggnn.lab.sampling import compare

    rows = [("n", "pairs", "", "π-SGD, simulated", "k-coupon, closed form", "n ln n", "the group", "saves")]
    for n in args.n:
        for kind, case in zip(("unordered", "ordered"), compare(n, args.runs, args.seed), strict=True):
            rows.append((
                str(n), f"{case.pairs:,}", kind, f"{case.simulated:,.1f} ± {case.deviation:,.1f}",
                f"{case.closed_form:,.2f}", f"{n * log(n):,.1f}", f"{case.ours:,}",
                f"{case.closed_form / case.ours:.1f} ×" if case.ours else "",
            ))  # fmt: skip
    print_table(rows, right={0, 1, 3, 4, 5, 6, 7})
    say(f"\nMeans over {args.runs} simulations, ± their standard error; arrangements of the group are exact.")


def walks(args: argparse.Namespace) -> None:
    """Prints estimates of the triangles at a node against the number of samples, beside the exact count."""
    with loading():
        import numpy as np

        from pggnn.lab.named_graphs import read_graph
        from pggnn.lab.walks import ego_net, estimate

    net = ego_net(read_graph(args.graph), args.node)
    say(f"node {args.node} of {args.graph}: {net.degree} neighbours, {net.triangles} triangles, exactly")
    if net.degree:
        say(f"mixing time 𝔱(1/8) = {net.mixing_time()}, with the artificial node")
        say(f"samples by the proof for ε = 1/8, δ = 0.2 and c = 1: {net.samples_needed():,}")
    found = estimate(net, args.samples, args.walks, args.seed)
    letter = estimate(net, args.samples, args.walks, args.seed, rooted=False)
    rows = [("samples", "estimate", "error (RMS)", "within 1/8", "as in the proof")]
    for samples, row, written in zip(args.samples, found, letter, strict=True):
        error = row - net.triangles
        within = (np.abs(error) <= net.triangles / 8).mean()
        rows.append((f"{samples:,}", f"{row.mean():.3f}", f"{(error**2).mean() ** 0.5:.3f}", f"{within:.0%}",
                     f"{written.mean():.3f}"))  # fmt: skip
    say("")
    print_table(rows, right={0, 1, 2, 3, 4})
    say(
        f"\nMeans over {args.walks} walks. The last column counts all triangles of the ego net, as the proof does:\n"
        "it tends to 2τ + κ, where κ are the 4-cliques at the node. The others count those at the node."
    )
