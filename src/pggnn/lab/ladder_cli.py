"""``pggnn lab ladder``: what each rung tells apart, of BREC's pairs or of graphs of one's own."""

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Any, TypeVar

from pggnn.console import add_command as add
from pggnn.console import add_data_root, loading, print_table, say, tracked

if TYPE_CHECKING:
    from torch_geometric.data import Data

T = TypeVar("T")
Apart = Callable[["Data", "Data"], bool]
EXAMPLES = """  pggnn lab ladder                    # all 400 pairs of BREC, many minutes
  pggnn lab ladder --quick --rungs triples 'rings to 6' 'cycles to 5'
  pggnn lab ladder rook shrikhande
  pggnn lab ladder srg:28,12,6,4      # T(8) and the Chang graphs, all pairs
  pggnn lab ladder graphs.g6 cycle:6   # all pairs of a file's and one more
"""
STEP = 10
SHOWN = 100
"""Most characters of what is not told apart."""


def add_command(commands: Any, graphs: str) -> None:
    """Adds ``ladder`` to the subcommands of ``pggnn lab``; ``graphs`` says how they are named."""
    summary = "Bound what layers that see pairs, triples, whole neighbourhoods or rings can tell apart."
    sub = add(commands, "ladder", run, summary, EXAMPLES + graphs)
    sub.add_argument(
        "graphs", nargs="*", metavar="A", help="graphs, or files of them, of which all pairs are compared (default: "
        "the pairs of BREC)",
    )  # fmt: skip
    sub.add_argument("--rungs", nargs="+", metavar="RUNG", help="only these rungs (default: all)")
    sub.add_argument("--quick", action="store_true", help="every tenth pair of BREC only")
    add_data_root(sub)


def run(args: argparse.Namespace) -> None:
    """Prints what each rung tells apart: of two graphs, of all pairs of several, or of those of BREC by family."""
    with loading():
        from pggnn.lab.named_graphs import read_graphs
        from pggnn.lab.refinement.ladder import LADDER, check_rung, climb

    rungs = [check_rung(rung) for rung in args.rungs or LADDER]
    if not args.graphs:
        compare_brec(args, rungs)
        return
    named = [pair for text in args.graphs for pair in read_graphs(text)]
    if len(named) < 2:
        raise ValueError(f"give two graphs or more, or none for the pairs of BREC; got {len(named)}")
    if len(named) > 2:
        compare_all(named, rungs)
        return
    (_, a), (_, b) = named
    rows = [("a layer sees", "tells them apart", "colours")]
    for rung in tracked(rungs, "rungs", len(rungs), after=1):
        outcome = climb(a, b, rung)
        rows.append((rung, verdict(outcome.parted), str(outcome.colours)))
    print_table(rows, right={2})


def compare_brec(args: argparse.Namespace, rungs: Sequence[str]) -> None:
    """BREC's pairs by their family."""
    from pggnn.data.sets.brec import BREC, FAMILIES
    from pggnn.lab.refinement.ladder import climb
    from pggnn.lab.refinement.wl import k_fwl

    dataset = BREC(args.data_root)
    pairs = [(dataset[2 * p], dataset[2 * p + 1]) for p in range(0, len(dataset) // 2, STEP if args.quick else 1)]
    family = [int(a.family) for a, _ in pairs]
    sizes = [family.count(f) for f in range(len(FAMILIES))]
    rows: list[Sequence[str]] = [("a layer sees", *FAMILIES, "all"), ("(pairs)", *map(str, sizes), str(len(pairs)))]
    tests: dict[str, Any] = {rung: partial(climb, rung=rung) for rung in rungs}
    for name, test in (tests | {"2-FWL, to compare": partial(k_fwl, k=2)}).items():
        counts = [0] * len(FAMILIES)
        for (a, b), f in zip(tracked(pairs, name, len(pairs), after=1), family, strict=True):
            counts[f] += test(a, b).apart
        rows.append((name, *map(str, counts), str(sum(counts))))
    print_table(rows, right=set(range(1, len(FAMILIES) + 2)))


def compare_all(named: Sequence[tuple[str, "Data"]], rungs: Sequence[str]) -> None:
    """All pairs of several graphs: which of them a rung does not tell apart."""
    from pggnn.lab.named_graphs import isomorphic
    from pggnn.lab.refinement.ladder import climb

    tests: dict[str, Apart] = {rung: lambda a, b, rung=rung: climb(a, b, rung).apart for rung in rungs}  # type: ignore[misc]
    tests["isomorphism"] = lambda a, b: not isomorphic(a, b)
    rows = [("a layer sees", "pairs apart", "of", "not told apart")]
    for name, apart in tests.items():
        classes: list[list[tuple[str, Data]]] = []
        for one in tracked(named, name, len(named), after=1):
            same = next((others for others in classes if not apart(others[0][1], one[1])), None)
            if same is None:
                classes.append([one])
            else:
                same.append(one)
        alike = sum(len([*combinations(others, 2)]) for others in classes)
        pairs = len(named) * (len(named) - 1) // 2
        text = ", ".join(" = ".join(name for name, _ in others) for others in classes if len(others) > 1)
        rows.append((name, str(pairs - alike), str(pairs), text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"))
    print_table(rows, right={1, 2})
    say(f"\n{len(named)} graphs, each with every other.")


def verdict(parted: int | None) -> str:
    return "never" if parted is None else f"at iteration {parted}"
