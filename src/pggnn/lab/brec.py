"""``pggnn lab brec``: BREC's comparisons from the command line, in tables and pages by family."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pggnn import console
from pggnn.baselines.options import NETWORKS

if TYPE_CHECKING:
    from pggnn.lab.paired_comparison import PairResult

EXAMPLES = """  pggnn lab brec --quick --epochs 3                 # every tenth pair, on a CPU
  pggnn lab brec --numberings 1024 --device cuda --jobs 8
  pggnn lab brec --aggregation trios --device cuda --jobs 6
  pggnn lab brec --reads sum rings --cell gru --device cuda --jobs 6
  pggnn lab brec --structure 1 --family Basic Regular
  pggnn lab brec --model gin --family Basic
  pggnn lab brec --model ppgn --layers 3 --init glorot --precision float64
  pggnn lab brec --pairs 60 61 120-139
  pggnn lab brec --reads sum rings --layers 1 srg:25,12,5,6    # all 105 pairs
  pggnn lab brec --model gin --epochs 2 graphs.g6 cycle:6      # a file's too

A network of its own is trained on each pair, BREC's 400 or all pairs of the
graphs that are given, and Hotelling's T²
then says whether it tells the two graphs apart by more than relabelling their
nodes changes its outputs. Outcomes are kept in the folder --out as they come:
the same command again goes on with the pairs that are missing.
"""
STEP = 10
"""``--quick`` takes every tenth pair."""
SHOWN = 300
"""Most characters of what is not told apart."""


def add_command(commands: Any, graphs: str) -> None:
    """Adds ``brec`` to the subcommands of ``pggnn lab``; ``graphs`` says how graphs are named."""
    summary = "Train a network on each pair of the BREC benchmark, and count the pairs it tells apart."
    sub = console.add_command(commands, "brec", run, summary, EXAMPLES + graphs)
    sub.add_argument(
        "graphs", nargs="*", metavar="A", help="graphs, or files of them, of which all pairs are compared (default: "
        "the pairs of BREC)",
    )  # fmt: skip
    network = sub.add_argument_group("network")
    network.add_argument(
        "--model", choices=[*NETWORKS], default="pggnn", metavar="NAME",
        help=f"what is trained: {', '.join(NETWORKS)} (default: pggnn)",
    )  # fmt: skip
    network.add_argument(
        "--aggregation", choices=("arrangements", "pairs", "trios"), default="arrangements",
        help="what PG-GNN's RNN reads: arrangements of the neighbours, or ordered pairs or trios of them, whose sums "
        "do not depend on the numbering",
    )  # fmt: skip
    network.add_argument(
        "--reads", nargs="+", choices=("star", "sum", "rings"), default=["star"],
        help="what each layer of PG-GNN reads: neighbours by the RNN (star) or by a plain sum (sum), and rings, every "
        "simple cycle (default: star)",
    )  # fmt: skip
    network.add_argument("--ring-size", type=int, default=6, metavar="N", help="nodes of the largest ring")
    network.add_argument("--ring-structure", type=int, default=4, metavar="W", help="structural bits of rings: chords")
    network.add_argument("--structure", type=int, default=2, metavar="W", help="structural bits of PG-GNN at each step")
    network.add_argument("--hidden", type=int, default=32, help="hidden channels")
    network.add_argument("--layers", type=int, default=2, help="aggregations")
    network.add_argument("--rnn-layers", type=int, default=2, help="stacked layers of an RNN")
    network.add_argument("--cell", choices=("lstm", "gru", "srn"), default="lstm", help="of PG-GNN's RNN")
    network.add_argument(
        "--init", choices=("accumulate", "torch", "glorot"), default="accumulate",
        help="how the weights start: accumulate makes the RNN add up its inputs",
    )  # fmt: skip
    network.add_argument(
        "--numberings", type=int, default=32, metavar="M",
        help="layers that read arrangements take the mean over M random numberings of the neighbours: M times "
        "the work, 1/M of the variance",
    )  # fmt: skip
    network.add_argument(
        "--most-steps", type=int, default=2**25, metavar="S",
        help="fewer numberings, or smaller rings, where there are so many that a batch would have more steps; with one "
        "layer, where a graph has more rings to read",
    )  # fmt: skip
    training = sub.add_argument_group("training; the defaults are those of BREC's own program")
    training.add_argument("--epochs", type=int, default=20, help="most epochs")
    training.add_argument("--lr", type=float, default=1e-4, help="learning rate")
    training.add_argument("--margin", type=float, default=0.0, help="cosine of two outputs to be reached")
    training.add_argument(
        "--precision", choices=("float32", "float64"), default="float32",
        help="what the network computes in: float32 rounds small differences away",
    )  # fmt: skip
    training.add_argument("--seed", type=int, default=0, help="seed of labels and weights")
    work = sub.add_argument_group("work")
    work.add_argument(
        "--pairs", nargs="+", metavar="P", help="numbers of pairs, from 0, or ranges of them such as 60-79"
    )
    work.add_argument("--family", nargs="+", metavar="NAME", help="only pairs of these families, such as CFI")
    work.add_argument("--quick", action="store_true", help=f"only every tenth pair ({400 // STEP} of BREC's 400)")
    work.add_argument("--jobs", type=int, default=1, help="pairs trained side by side")
    work.add_argument("--device", default="cpu", help="cpu or cuda")
    work.add_argument("--out", type=Path, metavar="DIR", help="folder of the outcomes (default: brec/MODEL-…)")
    console.add_data_root(work)


def run(args: argparse.Namespace) -> None:
    """Compares the chosen pairs and prints what came out."""
    with console.loading():
        from pggnn.data.sets.brec import BREC
        from pggnn.lab.named_graphs import read_graphs
        from pggnn.lab.paired_comparison import Protocol, Results, all_pairs, brec_pairs
        from pggnn.train.config import ModelConfig

    if min(args.jobs, args.numberings, args.most_steps) < 1 or args.epochs < 0:
        raise ValueError("--jobs, --numberings and --most-steps must be at least 1, and --epochs at least 0")
    if args.ring_size < 3:
        raise ValueError(f"--ring-size must be at least 3, got {args.ring_size}")
    if args.graphs and args.family:
        raise ValueError("--family names families of BREC: leave it out, or the graphs")
    named = [one for text in args.graphs for one in read_graphs(text)]
    if args.graphs and len(named) < 2:
        raise ValueError(f"give two graphs or more, or none for the pairs of BREC; got {len(named)}")
    pairs = all_pairs(named) if named else brec_pairs(BREC(args.data_root))
    pairs = [pairs[number] for number in choose(args.pairs, args.family, args.quick, [pair.family for pair in pairs])]
    numbered = args.model == "pggnn" and args.aggregation == "arrangements" and "star" in args.reads
    numberings = args.numberings if numbered else 1
    names = ("aggregation", "structure", "rnn_layers", "cell", "reads") if args.model == "pggnn" else ()
    own = {name: getattr(args, name) for name in names}
    if "rings" in own.get("reads", ()):
        own["ring_structure"] = args.ring_structure
    model = ModelConfig(args.model, args.hidden, args.layers, init=args.init, **own)
    training = {name: getattr(args, name) for name in ("seed", "epochs", "lr", "margin", "most_steps", "precision")}
    graphs = tuple(name for name, _ in named)
    protocol = Protocol(model, numberings=numberings, rings=args.ring_size, graphs=graphs, **training)
    name = f"{args.model}-{args.aggregation}-s{args.structure}" if args.model == "pggnn" else args.model
    if "ring_structure" in own:
        name += f"-{'-'.join(args.reads)}{args.ring_size}-s{args.ring_structure}"
    if graphs:
        name = f"{len(graphs)}-graphs-{name}"
    folder = args.out or Path("brec") / f"{name}-h{args.hidden}-l{args.layers}-m{numberings}-seed{args.seed}"
    results = Results(folder, protocol)
    results.run(pairs, args.device, args.jobs)
    done = results.read()
    outcomes = [done[pair] for pair in sorted(done)]
    write_pages(outcomes, folder)
    console.say("")
    console.print_table(summarise(outcomes), right={1, 2, 3, 4})
    alike = "; ".join(one.names for one in outcomes if one.names and not one.apart)
    if alike:
        console.say(f"\nNot told apart: {alike if len(alike) <= SHOWN else alike[: SHOWN - 1] + '…'}")
    console.say(f"\nEach pair: {folder}/*.md")


def choose(pairs: Sequence[str] | None, names: Sequence[str] | None, quick: bool, families: Sequence[str]) -> list[int]:
    """The pairs that the options name; ``families`` has the family of each that there is."""
    from pggnn.data.sets.brec import FAMILIES

    chosen = set(range(len(families)))
    if pairs is not None:
        bounds = [text.partition("-")[::2] for text in pairs]
        if not all(first.isdigit() and (last or first).isdigit() for first, last in bounds):
            raise ValueError(f"--pairs takes numbers and ranges such as 60-79, got {' '.join(pairs)}")
        ranges = [range(int(first), int(last or first) + 1) for first, last in bounds]
        if not all(ranges):
            raise ValueError(f"ranges of --pairs go from the smaller number to the larger, got {' '.join(pairs)}")
        listed = {pair for one in ranges for pair in one}
        if listed - chosen:
            raise ValueError(f"pairs are numbered 0 to {len(families) - 1}, got {max(listed)}")
        chosen &= listed
    if names is not None:
        unknown = set(names) - set(FAMILIES)
        if unknown:
            raise ValueError(f"{', '.join(sorted(unknown))}: the families are {', '.join(FAMILIES)}")
        chosen &= {pair for pair, family in enumerate(families) if family in names}
    return sorted(pair for pair in chosen if not quick or pair % STEP == 0)


def summarise(outcomes: Sequence["PairResult"]) -> list[list[str]]:
    """A table row for each family: pairs told apart, all pairs, and failures of the reliability check."""
    from pggnn.data.sets.brec import FAMILIES

    rows = [["family", "apart", "of", "unreliable", "seconds"]]
    for name in dict.fromkeys((*FAMILIES, *(outcome.family for outcome in outcomes), "all")):
        here = [outcome for outcome in outcomes if name in (outcome.family, "all")]
        if here:
            apart, unreliable = (sum(flags) for flags in zip(*((o.apart, not o.reliable) for o in here), strict=True))
            seconds = sum(outcome.seconds for outcome in here)
            rows.append([name, str(apart), str(len(here)), str(unreliable), f"{seconds:.0f}"])
    return rows


def write_pages(outcomes: Sequence["PairResult"], folder: Path) -> None:
    """A page in Markdown for each family, with a line for each pair."""
    from pggnn.files import markdown_table, write_text
    from pggnn.lab.paired_comparison import THRESHOLD

    for family in sorted({outcome.family for outcome in outcomes}):
        here = [outcome for outcome in outcomes if outcome.family == family]
        rows = [
            (one.names or one.pair, ("yes" if one.apart else "no") + ", unreliable" * (not one.reliable),
             f"{one.distance:.4g}", f"{one.reliability:.4g}", f"{one.loss:.3f}", one.epochs, one.rings or "")
            for one in here
        ]  # fmt: skip
        headings = ("pair", "told apart", "T²/32", "of one graph", "last loss", "epochs", "largest rings")
        lines = [
            f"# {family}: {sum(one.apart for one in here)} of {len(here)} pairs told apart\n",
            f"A pair is told apart where its T²/32 exceeds {THRESHOLD}; relabellings of one graph must stay below.\n",
            *markdown_table(headings, rows, ("told apart",)),
        ]
        write_text(folder / f"{family}.md", "\n".join(lines) + "\n")
